//! What becomes of lines that are right.

use std::time::Duration;

use sample::SetCondition;

use super::{accept, alerts, proxy, warnings};
use crate::model::{
    AddressPart, BackendTarget, CheckAction, CheckExpectation, CheckPort, CheckProtocol, CheckSend, CheckStep,
    CookieMode, ErrorReply, HeaderMatch, HttpAction, LogDestination, LogLineFormat, NormalizeUri, Password, Proxy,
    RedirectKind, Reply, ReplyBody, ServerTarget, Service, StreamAction, StringMatch, TcpAction, TimeoutKind,
    TimeoutValue, VariableValue,
};

/// A frontend with these lines, and a backend `be`.
fn frontend(lines: &str) -> Proxy {
    let config = accept(&format!(
        "global\nexpose-experimental-directives\nfrontend fe\nmode http\nbind 127.0.0.1:1\ntimeout client 1s\n{lines}\n\
         backend be\nmode http\nbackend other\nmode http\n"
    ));
    proxy(&config, "fe")
}

/// A backend with these lines.
fn backend(lines: &str) -> Proxy {
    let config = accept(&format!(
        "backend be\nmode http\ntimeout connect 1s\ntimeout server 1s\nserver s1 127.0.0.1:1\nserver s2 127.0.0.1:2\n{lines}\n"
    ));
    proxy(&config, "be")
}

/// The action of the only `http-request` line.
fn request(line: &str) -> HttpAction {
    let proxy = frontend(&format!("http-request {line}"));
    assert_eq!(proxy.http_request.len(), 1);
    proxy.http_request[0].action.clone()
}

fn reply(line: &str) -> Reply {
    match request(line) {
        HttpAction::Deny(reply) | HttpAction::Return(reply) | HttpAction::Tarpit(reply) => reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn statuses_of_replies() {
    for (line, status) in [
        ("deny", 403),
        ("tarpit", 500),
        ("return", 200),
        ("deny deny_status 429", 429),
        ("deny status 404", 404),
        ("return status 503 default-errorfiles", 503),
    ] {
        assert_eq!(reply(line).status, Some(status), "{line}");
    }
    let proxy = frontend("http-response deny");
    let HttpAction::Deny(reply) = &proxy.http_response[0].action else { panic!() };
    assert_eq!(reply.status, Some(502));
}

#[test]
fn bodies_of_replies() {
    assert!(matches!(reply("deny").body, ReplyBody::ErrorPage));
    assert!(matches!(reply("deny deny_status 429").body, ReplyBody::ErrorPage));
    // With 'status' in its place there is no page, as in HAProxy.
    assert!(matches!(reply("deny status 429").body, ReplyBody::Empty));
    assert!(matches!(reply("return status 204").body, ReplyBody::Empty));
    let text = reply("return content-type text/plain string \"a b\" hdr X-A b hdr X-C %[src]");
    assert!(matches!(&text.body, ReplyBody::Fixed(body) if &**body == b"a b"));
    assert_eq!(text.content_type.as_deref(), Some(&b"text/plain"[..]));
    assert_eq!(text.headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["x-a", "x-c"]);
    assert!(matches!(reply("return content-type text/plain lf-string %[src]").body, ReplyBody::Format(_)));
    // What frames the response is not the rule's business.
    assert!(reply("return hdr Content-Length 5 hdr Transfer-Encoding chunked").headers.is_empty());
    // A page brings its own headers and type.
    let page = reply("return status 503 content-type text/plain default-errorfiles hdr X-A b");
    assert!(page.content_type.is_none() && page.headers.is_empty());
}

#[test]
fn pages_of_sections_reach_rules() {
    let directory = super::Directory::new("pages");
    let text = directory.fill(
        "frontend fe\nmode http\nbind 127.0.0.1:1\ntimeout client 1s\nhttp-request set-method GET\n\
         http-request return status 503 errorfiles late if { path /a }\n\
         http-request deny deny_status 404 errorfiles late\nerrorfiles late 503\nerrorloc303 404 /lost\n\
         http-error status 500 content-type text/plain string oops\nerrorfile 400 /dev/null\n\
         errorfile 408 DIR/good.http\nhttp-error status 408 default-errorfiles\nhttp-errors late\nerrorfile 503 DIR/good.http\n",
    );
    let config = accept(&text);
    let proxy = proxy(&config, "fe");
    let HttpAction::Return(reply) = &proxy.http_request[1].action else { panic!() };
    assert!(matches!(&reply.body, ReplyBody::Raw(page) if page.starts_with(b"HTTP/1.0 503")));
    let HttpAction::Deny(reply) = &proxy.http_request[2].action else { panic!() };
    assert!(matches!(reply.body, ReplyBody::Empty), "the section has no page for 404, and no other one is asked");
    let statuses: Vec<u16> = proxy.error_replies.keys().copied().collect();
    assert_eq!(statuses, [400, 404, 500, 503]);
    assert!(matches!(&proxy.error_replies[&400], ErrorReply::Raw(page) if page.is_empty()));
    assert!(
        matches!(&proxy.error_replies[&404], ErrorReply::Redirect { status: 303, location } if location == b"/lost")
    );
    assert!(matches!(&proxy.error_replies[&500], ErrorReply::Reply(reply) if reply.status == Some(500)));
    assert!(matches!(&proxy.error_replies[&503], ErrorReply::Raw(page) if page.starts_with(b"HTTP/1.0")));
    assert_eq!(warnings(&text).iter().filter(|warning| warning.contains("status '404'")).count(), 1);
}

#[test]
fn redirections() {
    let redirect = |line: &str| match request(&format!("redirect {line}")) {
        HttpAction::Redirect(redirect) => redirect,
        other => panic!("{other:?}"),
    };
    let plain = redirect("location /x");
    assert_eq!((plain.code, plain.drop_query, plain.append_slash, plain.ignore_empty), (302, false, false, false));
    assert!(matches!(plain.kind, RedirectKind::Location(_)));
    let full = redirect("prefix /x code 308 drop-query append-slash ignore-empty set-cookie A=1");
    assert_eq!((full.code, full.drop_query, full.append_slash, full.ignore_empty), (308, true, true, true));
    assert_eq!(full.set_cookie.as_deref(), Some(&b"A=1; path=/;"[..]));
    assert!(matches!(full.kind, RedirectKind::Prefix(_)));
    assert_eq!(redirect("scheme https clear-cookie A=").set_cookie.as_deref(), Some(&b"A=; path=/; Max-Age=0;"[..]));
    let lines = frontend("redirect location /%[path] if { path /a }\nredirect scheme https");
    assert_eq!(lines.redirects.len(), 2);
    assert!(lines.redirects[0].condition.is_some() && lines.redirects[1].condition.is_none());
}

#[test]
fn request_actions() {
    assert!(matches!(request("allow"), HttpAction::Allow));
    assert!(matches!(request("reject"), HttpAction::Reject));
    assert!(matches!(request("silent-drop"), HttpAction::SilentDrop));
    assert!(matches!(request("auth realm Staff"), HttpAction::Auth { realm: Some(realm) } if realm == b"Staff"));
    assert!(matches!(request("auth"), HttpAction::Auth { realm: None }));
    assert!(matches!(request("add-header A b"), HttpAction::AddHeader(name, _) if name == "a"));
    assert!(matches!(request("set-header A b"), HttpAction::SetHeader(name, _) if name == "a"));
    assert!(matches!(request("early-hint Link b"), HttpAction::EarlyHint(name, _) if name == "link"));
    assert!(matches!(request("del-header A"), HttpAction::DelHeader(HeaderMatch::Name(name)) if name == "A"));
    assert!(matches!(request("del-header A -m beg"), HttpAction::DelHeader(HeaderMatch::Prefix(name)) if name == "A"));
    assert!(matches!(request("del-header A -m end"), HttpAction::DelHeader(HeaderMatch::Suffix(name)) if name == "A"));
    assert!(
        matches!(request("del-header A -m sub"), HttpAction::DelHeader(HeaderMatch::Contains(name)) if name == "A")
    );
    assert!(matches!(request("del-header ^A -m reg"), HttpAction::DelHeader(HeaderMatch::Regex(_))));
    assert!(matches!(request("replace-header A b c"), HttpAction::ReplaceHeader { name, .. } if name == "A"));
    assert!(matches!(request("replace-value A b c"), HttpAction::ReplaceValue { name, .. } if name == "A"));
    assert!(matches!(request("replace-path a b"), HttpAction::ReplacePath(..)));
    assert!(matches!(request("replace-pathq a b"), HttpAction::ReplacePathq(..)));
    assert!(matches!(request("replace-uri a b"), HttpAction::ReplaceUri(..)));
    assert!(matches!(request("set-method GET"), HttpAction::SetMethod(_)));
    assert!(matches!(request("set-path /"), HttpAction::SetPath(_)));
    assert!(matches!(request("set-pathq /"), HttpAction::SetPathq(_)));
    assert!(matches!(request("set-query a"), HttpAction::SetQuery(_)));
    assert!(matches!(request("set-uri /"), HttpAction::SetUri(_)));
    assert!(matches!(request("set-log-level silent"), HttpAction::Stream(StreamAction::SetLogLevel(None))));
    assert!(matches!(request("set-log-level err"), HttpAction::Stream(StreamAction::SetLogLevel(Some(3)))));
    assert!(matches!(request("set-tos 0x2e"), HttpAction::Stream(StreamAction::SetTos(46))));
    assert!(matches!(request("set-tos 010"), HttpAction::Stream(StreamAction::SetTos(8))));
    assert!(matches!(request("set-mark 4294967295"), HttpAction::Stream(StreamAction::SetMark(u32::MAX))));
    assert!(matches!(request("set-src src"), HttpAction::Stream(StreamAction::SetAddress(AddressPart::Source, _))));
    assert!(matches!(
        request("set-src-port int(1)"),
        HttpAction::Stream(StreamAction::SetAddress(AddressPart::SourcePort, _))
    ));
    assert!(matches!(
        request("set-dst dst"),
        HttpAction::Stream(StreamAction::SetAddress(AddressPart::Destination, _))
    ));
    assert!(matches!(
        request("set-dst-port int(1)"),
        HttpAction::Stream(StreamAction::SetAddress(AddressPart::DestinationPort, _))
    ));
    assert!(matches!(request("strict-mode Off"), HttpAction::StrictMode(false)));
    assert!(matches!(request("disable-l7-retry"), HttpAction::DisableL7Retry));
    assert!(matches!(request("use-service prometheus-exporter"), HttpAction::UseService(Service::PrometheusExporter)));
    let HttpAction::WaitForBody { time, at_least } = request("wait-for-body time 2s at-least 10k") else { panic!() };
    assert_eq!((time, at_least), (Duration::from_secs(2), 10_240));
    for (line, normalizer) in [
        ("fragment-strip", NormalizeUri::FragmentStrip),
        ("path-strip-dotdot", NormalizeUri::PathStripDotdot { full: false }),
        ("path-strip-dotdot full", NormalizeUri::PathStripDotdot { full: true }),
        ("percent-to-uppercase strict", NormalizeUri::PercentToUppercase { strict: true }),
        // HAProxy 2.6 takes this one for path-merge-slashes.
        ("path-strip-dotdot if { path /a }", NormalizeUri::PathStripDotdot { full: false }),
    ] {
        let action = request(&format!("normalize-uri {line}"));
        assert!(matches!(&action, HttpAction::NormalizeUri(found) if *found == normalizer), "{line}: {action:?}");
    }
}

#[test]
fn variables() {
    let HttpAction::Stream(StreamAction::SetVar(variable)) = request("set-var(txn.a,ifnotset,ifgt) path,lower") else {
        panic!()
    };
    assert_eq!((variable.name.scope(), variable.name.name()), (sample::Scope::Transaction, "a"));
    assert_eq!(variable.conditions, [SetCondition::IfNotSet, SetCondition::IfGreater]);
    assert!(matches!(variable.value, VariableValue::Expr(_)));
    let HttpAction::Stream(StreamAction::SetVar(variable)) = request("set-var-fmt(txn.a) x%[path]") else { panic!() };
    assert!(matches!(variable.value, VariableValue::Format(_)));
    assert!(
        matches!(request("unset-var(txn.a)"), HttpAction::Stream(StreamAction::UnsetVar(name)) if name.name() == "a")
    );
    let config = accept("global\nset-var proc.a int(5)\nset-var-fmt proc.b x\nlisten l\nbind 127.0.0.1:1\n");
    assert_eq!(config.global.set_vars.len(), 2);
}

#[test]
fn timeouts_of_requests() {
    let proxy = backend("http-request set-timeout server 5s\nhttp-request set-timeout tunnel int(7)");
    let HttpAction::SetTimeout(TimeoutKind::Server, TimeoutValue::Fixed(time)) = &proxy.http_request[0].action else {
        panic!()
    };
    assert_eq!(*time, Duration::from_secs(5));
    assert!(matches!(proxy.http_request[1].action, HttpAction::SetTimeout(TimeoutKind::Tunnel, TimeoutValue::Expr(_))));
}

#[test]
fn capture_slots() {
    let proxy = frontend(
        "capture request header Host len 30\ndeclare capture request len 5\nhttp-request capture path len 9\n\
         http-request capture path id 1\ncapture response header Server len 7\nhttp-response capture status id 0\n\
         capture cookie SESSION= len 100\n",
    );
    let slots: Vec<_> = proxy.request_captures.iter().map(|capture| (capture.name.as_deref(), capture.len)).collect();
    assert_eq!(slots, [(Some("Host"), 30), (None, 5), (None, 9)]);
    assert!(matches!(proxy.http_request[0].action, HttpAction::Stream(StreamAction::Capture { slot: 2, len: 9, .. })));
    assert!(matches!(
        proxy.http_request[1].action,
        HttpAction::Stream(StreamAction::Capture { slot: 1, len: usize::MAX, .. })
    ));
    assert!(matches!(proxy.http_response[0].action, HttpAction::Stream(StreamAction::Capture { slot: 0, .. })));
    let cookie = proxy.capture_cookie.unwrap();
    assert_eq!((cookie.name.as_str(), cookie.len, cookie.prefix), ("SESSION", 63, false));
    assert!(frontend("capture cookie SESS len 5").capture_cookie.unwrap().prefix);
}

#[test]
fn tcp_rules() {
    let proxy = frontend(
        "tcp-request inspect-delay 5s\ntcp-request connection expect-proxy layer4\ntcp-request connection reject\n\
         tcp-request session silent-drop\ntcp-request content set-priority-class int(1)\n\
         tcp-request content set-priority-offset int(1)\ntcp-request content switch-mode http\n\
         tcp-request content capture path len 4\ntcp-request content set-log-level silent\n",
    );
    assert_eq!(proxy.tcp_request_inspect_delay, Some(Duration::from_secs(5)));
    assert!(matches!(proxy.tcp_request_connection[0].action, TcpAction::ExpectProxy));
    assert!(matches!(proxy.tcp_request_connection[1].action, TcpAction::Reject));
    assert!(matches!(proxy.tcp_request_session[0].action, TcpAction::SilentDrop));
    let content: Vec<_> = proxy.tcp_request_content.iter().map(|rule| &rule.action).collect();
    assert!(matches!(
        content.as_slice(),
        [
            TcpAction::Stream(StreamAction::SetPriority { class: true, .. }),
            TcpAction::Stream(StreamAction::SetPriority { class: false, .. }),
            TcpAction::SwitchModeHttp,
            TcpAction::Stream(StreamAction::Capture { slot: 0, len: 4, .. }),
            TcpAction::Stream(StreamAction::SetLogLevel(None))
        ]
    ));
    let proxy = backend("tcp-response inspect-delay 1s\ntcp-response content close\ntcp-response content accept");
    assert_eq!(proxy.tcp_response_inspect_delay, Some(Duration::from_secs(1)));
    assert!(matches!(proxy.tcp_response_content[0].action, TcpAction::Close));
    assert!(matches!(proxy.tcp_response_content[1].action, TcpAction::Accept));
}

#[test]
fn switching() {
    let proxy = frontend("use_backend other if { path /a }\nuse_backend %[path,word(1,/)]\nuse_backend be");
    assert!(matches!(proxy.use_backend[0].target, BackendTarget::Static(index) if index.0 == 2));
    assert!(proxy.use_backend[0].condition.is_some());
    assert!(matches!(proxy.use_backend[1].target, BackendTarget::Dynamic(_)));
    assert!(matches!(proxy.use_backend[2].target, BackendTarget::Static(index) if index.0 == 1));
    assert!(proxy.use_backend[2].condition.is_none());
    let proxy = backend(
        "use-server s2 if { path /a }\nuse-server %[path] unless { path /b }\nforce-persist if { src 1.2.3.4 }\n\
         ignore-persist if { path /c }",
    );
    assert!(matches!(proxy.use_server[0].target, ServerTarget::Static(index) if index.0 == 1));
    assert!(matches!(proxy.use_server[1].target, ServerTarget::Dynamic(_)));
    assert_eq!(proxy.persist_rules.iter().map(|rule| rule.force).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn cookies() {
    let cookie = backend(
        "cookie SRV insert indirect nocache postonly httponly secure domain .a.example domain .b.example \
         maxidle 10m maxlife 1h attr SameSite=Lax",
    )
    .cookie
    .unwrap();
    assert_eq!((cookie.name.as_slice(), cookie.mode), (&b"SRV"[..], CookieMode::Insert));
    assert!(cookie.indirect && cookie.nocache && cookie.postonly && cookie.httponly && cookie.secure);
    assert!(!cookie.preserve && cookie.dynamic_key.is_none());
    assert_eq!(cookie.domains, [".a.example", ".b.example"]);
    assert_eq!((cookie.maxidle, cookie.maxlife), (Some(Duration::from_secs(600)), Some(Duration::from_secs(3600))));
    assert_eq!(cookie.attributes, [b"SameSite=Lax"]);
    assert_eq!(backend("cookie A").cookie.unwrap().mode, CookieMode::Passive);
    assert_eq!(backend("cookie A prefix").cookie.unwrap().mode, CookieMode::Prefix);
    assert_eq!(backend("cookie A rewrite").cookie.unwrap().mode, CookieMode::Rewrite);
    let dynamic = backend("dynamic-cookie-key secret\ncookie A insert dynamic").cookie.unwrap();
    assert_eq!(dynamic.dynamic_key.as_deref(), Some("secret"));
    assert!(backend("cookie A insert dynamic").cookie.unwrap().dynamic_key.is_none());
}

#[test]
fn statistics() {
    let stats = frontend(
        "stats auth ann:s:e\nstats auth bob\nstats realm Staff\nstats refresh 5s\nstats hide-version\nstats show-node\n\
         stats show-desc Main site\nstats show-legends\nstats show-modules\nstats scope .\nstats scope be\nstats scope .\nstats admin if TRUE",
    )
    .stats
    .unwrap();
    assert_eq!(stats.uri, "/haproxy?stats");
    let accounts: Vec<_> = stats.auth.iter().map(|(user, _)| user.as_str()).collect();
    assert_eq!(accounts, ["ann", "bob"]);
    assert!(matches!(&stats.auth[0].1, Password::Clear(password) if password == "s:e"));
    assert_eq!(stats.realm.as_deref(), Some(&b"Staff"[..]));
    assert_eq!(stats.refresh, Some(Duration::from_secs(5)));
    assert!(stats.hide_version && stats.show_legends && stats.show_modules);
    assert_eq!((stats.show_node.as_deref(), stats.show_desc.as_deref()), (Some(""), Some("Main site")));
    assert_eq!(stats.scope, [".", "be"]);
    assert_eq!(stats.admin.len(), 1);
    let rules =
        frontend("stats http-request auth realm X unless { src 1.2.3.4 }\nstats http-request deny").stats.unwrap();
    assert!(matches!(rules.rules[0].action, HttpAction::Auth { .. }));
    assert!(matches!(rules.rules[1].action, HttpAction::Deny(_)));
}

#[test]
fn a_section_with_its_own_page_forgets_the_inherited_one() {
    let config = accept(
        "defaults\nmode http\nstats enable\nstats uri /a\nstats hide-version\ntimeout client 1s\n\
         frontend f\nbind 127.0.0.1:1\nfrontend g\nbind 127.0.0.1:2\nstats refresh 5s\n",
    );
    let inherited = proxy(&config, "f").stats.unwrap();
    assert!(inherited.hide_version && inherited.uri == "/a");
    let own = proxy(&config, "g").stats.unwrap();
    assert!(!own.hide_version && own.uri == "/haproxy?stats" && own.refresh.is_some());
}

#[test]
fn log_targets() {
    let config = accept(
        "global\nlog /dev/log local0\nlog 10.0.0.1 local1 notice err\n\
         frontend f\nbind 127.0.0.1:1\ntimeout client 1s\nlog global\nlog global\n\
         log [::1]:1514 len 200 format rfc5424 sample 8,1-3:10 daemon info\nlog stdout format raw user\n\
         log logs.example.com:99 mail\nlog abns@x mail\nfrontend g\nbind 127.0.0.1:2\ntimeout client 1s\nlog global\nno log\n",
    );
    let logs = proxy(&config, "f").logs;
    assert_eq!(logs.len(), 6, "those of global once");
    assert_eq!(logs[0].destination, LogDestination::Unix("/dev/log".to_owned()));
    assert_eq!((logs[0].facility, logs[0].level, logs[0].minlevel, logs[0].len), (16, 7, 0, 1024));
    assert_eq!(logs[0].format, LogLineFormat::default());
    assert_eq!(logs[1].destination, LogDestination::Udp("10.0.0.1:514".parse().unwrap()));
    assert_eq!((logs[1].facility, logs[1].level, logs[1].minlevel), (17, 5, 3));
    assert_eq!(logs[2].destination, LogDestination::Udp("[::1]:1514".parse().unwrap()));
    assert_eq!((logs[2].len, logs[2].format, logs[2].facility), (200, LogLineFormat::Rfc5424, 3));
    assert_eq!(logs[2].sample, Some((vec![(1, 3), (8, 8)], 10)));
    assert_eq!(logs[3].destination, LogDestination::Descriptor(1));
    assert_eq!(logs[4].destination, LogDestination::UdpHost { host: "logs.example.com".to_owned(), port: 99 });
    assert_eq!(logs[5].destination, LogDestination::Abstract("x".to_owned()));
    assert!(proxy(&config, "g").logs.is_empty());
}

#[test]
fn formats_of_logs() {
    let config = accept(
        "defaults\nmode http\nlog stdout local0\noption httplog\ntimeout client 1s\nunique-id-format %ci\n\
         unique-id-header X-Id\nfrontend f\nbind 127.0.0.1:1\nfrontend g\nbind 127.0.0.1:2\nlog-format %ci\n\
         error-log-format %cp\nlog-format-sd [a@1]\nbackend b\n",
    );
    let inherited = proxy(&config, "f");
    assert!(inherited.log_format.is_some() && inherited.error_log_format.is_none());
    assert!(inherited.unique_id_format.is_some());
    assert_eq!(inherited.unique_id_header.as_deref(), Some("x-id"));
    let own = proxy(&config, "g");
    assert!(own.log_format.is_some() && own.error_log_format.is_some() && own.log_format_sd.is_some());
    assert!(proxy(&config, "b").log_format.is_none());
}

#[test]
fn accounts() {
    let config = accept(
        "userlist l\nuser ann insecure-password a groups g1,g2\nuser bob password $5$abc$def\ngroup g1\ngroup g2 users bob\n\
         listen x\nbind 127.0.0.1:1\n",
    );
    let list = &config.userlists["l"];
    assert!(matches!(&list.users["ann"].password, Password::Clear(password) if password == "a"));
    assert!(matches!(&list.users["bob"].password, Password::Crypt(password) if password == "$5$abc$def"));
    assert_eq!(list.users["ann"].groups, ["g1", "g2"]);
    assert_eq!(list.users["bob"].groups, ["g2"]);
    assert_eq!(list.groups["g1"], ["ann"]);
    assert_eq!(list.groups["g2"], ["ann", "bob"]);
}

#[test]
fn passwords_that_nobody_verifies() {
    let list = |password: &str| format!("userlist l\nuser bob password {password}\nlisten x\nbind 127.0.0.1:1\n");
    for locked in ["*", "!", "$9$x"] {
        assert!(warnings(&list(locked))[0].contains("no password is that of user 'bob'"), "{locked}");
    }
    for known in ["$5$abc$def", "$1$abc$def", "$2b$05$abcdefghijklmnopqrstuu", "_J9..rasm", "saHW9GdxihkGQ"] {
        assert!(!warnings(&list(known)).iter().any(|warning| warning.contains("no password")), "{known}");
    }
    for (foreign, name) in
        [("$y$j9T$abc$def", "yescrypt"), ("$7$abc$def", "scrypt"), ("$md5,rounds=5$abc$def", "SunMD5")]
    {
        assert!(alerts(&list(foreign))[0].contains(&format!("not supported: {name}")), "{foreign}");
    }
}

/// The steps of a check in short, without the connection that no line asks for.
fn steps(proxy: &Proxy) -> Vec<String> {
    let short = |step: &CheckStep| {
        let text = match &step.action {
            CheckAction::Connect(connect) if connect.implicit => return None,
            CheckAction::Connect(connect) => match &connect.port {
                Some(CheckPort::Fixed(port)) => format!("connect {port}"),
                Some(CheckPort::Expression(_)) => "connect expression".to_owned(),
                None => "connect".to_owned(),
            },
            CheckAction::SendHttp { method, version, headers, body, .. } => {
                let names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
                format!("{method} {version} {names:?} {}", body.is_some())
            }
            CheckAction::Send(CheckSend::Bytes(bytes)) => format!("send {}", bytes.escape_ascii()),
            CheckAction::Send(CheckSend::Format(format)) => format!("send-lf {}", format.text()),
            CheckAction::Send(CheckSend::HexFormat(format)) => format!("send-binary-lf {}", format.text()),
            CheckAction::Expect(expect) => match &expect.what {
                CheckExpectation::Status(ranges) => {
                    format!("{}status {ranges:?}", if expect.negate { "!" } else { "" })
                }
                CheckExpectation::Body(body) => format!("body {}", body.escape_ascii()),
                CheckExpectation::Text(text) => format!("text {}", text.escape_ascii()),
                CheckExpectation::Binary(bytes) => format!("binary {}", bytes.escape_ascii()),
                other => format!("{other:?}").split(['(', ' ']).next().unwrap().to_owned(),
            },
            CheckAction::SetVar(variable) => format!("set {}", variable.name.name()),
            CheckAction::UnsetVar(name) => format!("unset {}", name.name()),
        };
        let comment = step.comment.as_ref().map(|comment| format!(" # {comment}")).unwrap_or_default();
        Some(format!("{text}{comment}"))
    };
    proxy.check.steps.iter().filter_map(short).collect()
}

/// Compared with what HAProxy 2.6.12 sends for the same lines.
#[test]
fn requests_of_checks() {
    for (lines, expected) in [
        ("option httpchk", vec!["OPTIONS HTTP/1.0 [] false", "status [(200, 399)]"]),
        ("option httpchk /h", vec!["OPTIONS HTTP/1.0 [] false", "status [(200, 399)]"]),
        (
            "option httpchk GET /h HTTP/1.1\nhttp-check send hdr Host x body foo",
            vec!["GET HTTP/1.1 [\"host\"] true", "status [(200, 399)]"],
        ),
        (
            "http-check send uri /a hdr Host x ver HTTP/1.1\noption httpchk GET /h",
            vec!["GET HTTP/1.1 [\"host\"] false", "status [(200, 399)]"],
        ),
        (
            "http-check send uri /a hdr Host x ver HTTP/1.1 body q\noption httpchk GET /h HTTP/1.0\\r\\nX-B:\\ c",
            vec!["GET HTTP/1.0 [\"X-B\"] true", "status [(200, 399)]"],
        ),
        ("option httpchk GET /a\noption httpchk HEAD /b", vec!["HEAD HTTP/1.0 [] false", "status [(200, 399)]"]),
        (
            "option httpchk GET /a\nhttp-check connect port 8\nhttp-check send meth PUT uri /b\nhttp-check expect ! status 500-599,404",
            vec!["connect 8", "PUT HTTP/1.0 [] false", "!status [(500, 599), (404, 404)]"],
        ),
        (
            "option httpchk\nhttp-check comment one\nhttp-check connect\nhttp-check set-var(check.a) int(1)\n\
             http-check send uri /a comment two\nhttp-check comment three\nhttp-check expect string OK\nhttp-check unset-var(check.a)",
            vec!["connect # one", "set a", "OPTIONS HTTP/1.0 [] false # two", "body OK # three", "unset a"],
        ),
        ("option tcp-check", vec![]),
        ("http-check send uri /ignored", vec![]),
    ] {
        let proxy = backend(lines);
        assert_eq!(steps(&proxy), expected, "{lines}");
        let is_http = proxy.check.protocol == CheckProtocol::Http;
        assert_eq!(is_http, lines.contains("httpchk"), "{lines}");
    }
}

#[test]
fn sequences_over_tcp() {
    for (lines, protocol, expected) in [
        ("tcp-check send PING", CheckProtocol::Connection, vec![]),
        ("tcp-check send PING\noption tcp-check", CheckProtocol::Tcp, vec!["send PING"]),
        (
            "option tcp-check\ntcp-check comment a\ntcp-check connect port 1 comment b\ntcp-check send \"P\\r\\n\"\n\
             tcp-check comment c\ntcp-check expect string x\ntcp-check expect ! binary 0a0B comment d\n\
             tcp-check connect port str(2)\ntcp-check send-binary 0001\ntcp-check send-lf %[int(1)]\n\
             tcp-check set-var(check.a) int(1)\ntcp-check send-binary-lf 0%[int(1)]\ntcp-check expect rbinary ^1",
            CheckProtocol::Tcp,
            vec![
                "connect 1 # b",
                "send P\\r\\n",
                "text x # c",
                "binary \\n\\x0b # d",
                "connect expression",
                "send \\x00\\x01",
                "send-lf %[int(1)]",
                "set a",
                "send-binary-lf 0%[int(1)]",
                "BinaryRegex",
            ],
        ),
        ("option redis-check", CheckProtocol::Redis, vec!["send *1\\r\\n$4\\r\\nPING\\r\\n", "text +PONG\\r\\n"]),
        ("tcp-check send x\noption tcp-check\noption mysql-check", CheckProtocol::Mysql, vec!["connect", "Message"]),
        (
            "option smtpchk EHLO a.org",
            CheckProtocol::Smtp,
            vec![
                "connect",
                "TextRegex",
                "TextRegex",
                "send EHLO a.org\\r\\n",
                "TextRegex",
                "send QUIT\\r\\n",
                "TextRegex",
            ],
        ),
        (
            "option redis-check\noption httpchk",
            CheckProtocol::Http,
            vec!["OPTIONS HTTP/1.0 [] false", "status [(200, 399)]"],
        ),
    ] {
        let proxy = backend(lines);
        assert_eq!(
            (proxy.check.protocol, steps(&proxy)),
            (protocol, expected.into_iter().map(String::from).collect()),
            "{lines}"
        );
    }
    let head = "defaults\nmode tcp\noption tcp-check\ntcp-check send A\ntimeout connect 1s\ntimeout server 1s\nbackend b\n\
                server s 127.0.0.1:1\n";
    for (lines, expected) in [
        ("", vec!["send A"]),
        ("option tcp-check\n", vec!["send A"]),
        ("tcp-check send B\n", vec!["send B"]),
        ("option tcp-check\ntcp-check send B\n", vec!["send B"]),
        ("option httpchk\noption tcp-check\n", vec![]),
        ("option httpchk\n", vec!["OPTIONS HTTP/1.0 [] false", "status [(200, 399)]"]),
    ] {
        assert_eq!(steps(&proxy(&accept(&format!("{head}{lines}")), "b")), expected, "{lines}");
    }
}

#[test]
fn inherited_checks_are_never_mixed() {
    let head = "defaults\nmode http\noption httpchk GET /h\nhttp-check expect status 204\nhttp-check disable-on-404\n\
                timeout connect 1s\ntimeout server 1s\nlisten l\nbind 127.0.0.1:1\ntimeout client 1s\nbackend b\n\
                server s 127.0.0.1:1\n";
    let all = proxy(&accept(head), "b");
    assert_eq!(steps(&all), ["GET HTTP/1.0 [] false", "status [(204, 204)]"]);
    assert!(all.check.disable_on_404);
    let text = format!("{head}http-check expect status 200\n");
    assert_eq!(steps(&proxy(&accept(&text), "b")), ["status [(200, 200)]"]);
    assert!(warnings(&text).iter().any(|warning| warning.contains("sends no request")), "{:?}", warnings(&text));
    let own = proxy(&accept(&format!("{head}option httpchk HEAD /x\n")), "b");
    assert_eq!(steps(&own), ["HEAD HTTP/1.0 [] false", "status [(200, 399)]"]);
}

#[test]
fn expectations() {
    let expect = |arguments: &str| {
        let proxy = backend(&format!("option httpchk\nhttp-check expect {arguments}"));
        let mut actions = proxy.check.steps.into_iter().map(|step| step.action);
        match actions.find(|action| matches!(action, CheckAction::Expect(_))) {
            Some(CheckAction::Expect(expect)) => *expect,
            other => panic!("{other:?}"),
        }
    };
    let all = expect(
        "min-recv 5 ok-status l7okc error-status L7RSP tout-status L6TOUT on-success a on-error b status-code int(1) rstring x",
    );
    assert_eq!(all.min_recv, Some(5));
    assert_eq!(all.ok_status.as_deref(), Some("L7OKC"));
    assert_eq!(all.error_status.as_deref(), Some("L7RSP"));
    assert_eq!(all.timeout_status.as_deref(), Some("L6TOUT"));
    assert!(all.on_success.is_some() && all.on_error.is_some() && all.status_code.is_some());
    assert!(matches!(all.what, CheckExpectation::BodyRegex(_)));
    assert!(matches!(expect("rstatus ^2").what, CheckExpectation::StatusRegex(_)));
    assert!(matches!(expect("string-lf x").what, CheckExpectation::BodyFormat(_)));
    assert!(expect("!status 1").negate && expect("! status 1").negate && !expect("!!status 1").negate);
    let header = expect("fhdr name -m beg x value -m reg y").what;
    assert!(matches!(
        header,
        CheckExpectation::Header { full: true, name: StringMatch::Prefix(_), value: Some(StringMatch::Regex(_)) }
    ));
    assert!(matches!(
        expect("hdr name x").what,
        CheckExpectation::Header { full: false, name: StringMatch::Exact(_), value: None }
    ));
}

#[test]
fn rules_of_defaults_come_first() {
    let config = accept(
        "defaults d\nmode http\ntimeout client 1s\nhttp-request set-path /one\nfrontend f from d\nbind 127.0.0.1:1\n\
         http-request set-method GET\n",
    );
    let rules = proxy(&config, "f").http_request;
    assert!(matches!(rules[0].action, HttpAction::SetPath(_)));
    assert_eq!(rules[0].location.line, 4);
    assert!(matches!(rules[1].action, HttpAction::SetMethod(_)));
    assert_eq!((&*rules[1].location.file, rules[1].location.line), ("test.cfg", 7));
}
