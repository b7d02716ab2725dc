//! What is said about lines that are wrong or doubtful, and the keyword tables themselves.

use super::{Directory, alerts, read, warnings};
use crate::{
    diagnostics::Severity,
    table::{Group, Sections, Support},
};

/// A frontend whose line 5 is the first of these.
fn frontend(lines: &str) -> String {
    format!("frontend fe\nmode http\nbind 127.0.0.1:1\ntimeout client 1s\n{lines}\nbackend be\nmode http\n")
}

/// The first alert about `lines` in a frontend has all of these texts.
fn says(lines: &str, texts: &[&str]) {
    let alerts = alerts(&frontend(lines));
    let first = alerts.first().unwrap_or_else(|| panic!("accepted: {lines}"));
    for text in texts {
        assert!(first.contains(text), "{lines}\nlacks: {text}\n{first}");
    }
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let place = "parsing [test.cfg:5] : ";
    for (line, texts) in [
        (
            "http-request set-header X-A",
            [
                "'http-request set-header' rule : expects exactly 2 arguments.",
                "error detected in frontend 'fe'",
                "<name> <fmt>",
            ],
        ),
        (
            "http-request set-headr A b",
            ["'http-request' expects 'add-header'", "but got 'set-headr'", "did you mean 'set-header'"],
        ),
        (
            "http-request deny status 99",
            ["Unexpected status code '99'", "'http-request deny' rule", "a status from 200 to 599"],
        ),
        (
            "http-request deny now",
            ["expects either 'if' or 'unless'", "found 'now'", "'if' or 'unless' followed by a condition"],
        ),
        ("http-request deny if nope", ["parsing an 'http-request deny' condition", "nope", "^"]),
        (
            "http-request redirect location / code 300",
            ["unsupported HTTP code '300'", "(must be one of 301, 302, 303, 307 or 308)", "expected 301"],
        ),
        (
            "http-request track-sc5 src",
            ["'http-request track-sc5' rule : 5 track-sc number exceeding 2", "track-sc0 to track-sc2", "^^^^^^^^^"],
        ),
        ("http-request set-var(a) src", ["invalid variable name 'a'", "must be start by its scope", "^"]),
        (
            "http-request set-var src",
            ["invalid or incomplete action 'set-var'", "Expects 'set-var(<var-name>)'", "set-var(txn.user)"],
        ),
        ("http-request capture path len 0", ["length must be > 0", "'http-request capture'", "1 to "]),
        (
            "http-request set-header A %[res.hdr(a)]",
            ["res.hdr(a)", "HTTP response headers", "which is not available here"],
        ),
        (
            "http-request set-var(txn.a) res.hdr(a)",
            [
                "fetch method 'res.hdr(a)' extracts information from 'HTTP response headers'",
                "none of which is available here",
                "^",
            ],
        ),
        (
            "tcp-request content nosuch",
            ["'tcp-request content' expects 'accept'", "in frontend 'fe'", "(got 'nosuch')"],
        ),
        ("tcp-request inspect-delay 5x", ["expects a positive delay in milliseconds", "unexpected character 'x'", "^"]),
        (
            "block if TRUE",
            ["The 'block' directive is not supported anymore since HAProxy 2.1.", "Use 'http-request deny'", "^^^^^"],
        ),
        (
            "reqadd X:\\ y",
            ["'reqadd' directive is not supported anymore", "Use 'http-request add-header' instead.", "^"],
        ),
        ("monitor-net 1.2.3.4", ["'monitor-net' doesn't exist anymore.", "http-request return status 200", "^"]),
        ("log 1.2.3.4 locl0", ["log : unknown log facility 'locl0'", "did you mean 'local0'", "a facility"]),
        ("log-format %ci %cp", ["expects only one argument", "don't forget to escape spaces!", "in quotes"]),
        ("errorfile 418 /x", ["errorfile : status code '418' not handled", "one of 200, 400", "^^^"]),
        ("errorloc 503", ["errorloc : expects <status_code> and <url> as arguments", "errorloc <code> <url>", "^"]),
        ("stats nosuch", ["unknown stats parameter 'nosuch'", "expects 'admin', 'uri'", "^^^^^^"]),
        (
            "capture nosuch",
            ["'capture' expects 'cookie' or 'request header' or 'response header'.", "cookie", "^^^^^^"],
        ),
        ("acl a/b src 1.2.3.4", ["character '/' is not permitted in acl name 'a/b'.", "letters, digits", "^^^"]),
        (
            "use_backend bee",
            ["unable to find required use_backend: 'bee'", "did you mean 'be'", "expected the name of a backend"],
        ),
    ] {
        says(line, &[place]);
        says(line, &texts);
    }
}

#[test]
fn every_error_is_found() {
    let text = frontend("http-request deny now\nhttp-response nosuch\nlog 1.2.3.4\nuse_backend nosuch\nredirect");
    let lines: Vec<u32> = read(&text)
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Alert)
        .filter_map(|diagnostic| diagnostic.location.as_ref().map(|location| location.line))
        .collect();
    assert_eq!(lines, [5, 6, 7, 9, 8], "the backend's name is looked up at the end");
}

#[test]
fn warnings_about_order() {
    for (first, second, expected) in [
        (
            "use_backend be",
            "http-request deny",
            "a 'http-request' rule placed after a 'use_backend' rule will still be processed before.",
        ),
        ("redirect location /", "http-request deny", "a 'http-request' rule placed after a 'redirect' rule"),
        ("use_backend be", "redirect location /", "a 'redirect' rule placed after a 'use_backend' rule"),
        ("http-request deny", "monitor fail if TRUE", "a 'monitor fail' rule placed after an 'http-request' rule"),
        ("http-request deny", "tcp-request content accept", "a 'tcp-request' rule placed after an 'http-request' rule"),
        (
            "monitor fail if TRUE",
            "tcp-request content accept",
            "a 'tcp-request' rule placed after a 'monitor fail' rule",
        ),
        (
            "tcp-request content accept",
            "tcp-request session accept",
            "a 'tcp-request' rule placed after a 'tcp-request content' rule",
        ),
        (
            "tcp-request session accept",
            "tcp-request connection accept",
            "a 'tcp-request' rule placed after a 'tcp-request session' rule",
        ),
        (
            "http-request deny",
            "http-request allow",
            "previous 'http-request' action is final and has no condition attached, further entries are NOOP.",
        ),
        ("http-response deny", "http-response allow", "previous 'http-response' action is final"),
    ] {
        let text = frontend(&format!("{first}\n{second}"));
        let warnings = warnings(&text);
        let place = "parsing [test.cfg:6] : ";
        assert!(
            warnings.iter().any(|warning| warning.contains(expected) && warning.contains(place)),
            "{first} / {second}: {warnings:?}"
        );
        let right_way = warnings_about(&frontend(&format!("{second}\n{first}")), "placed after");
        assert!(expected.contains("NOOP") || right_way.is_empty(), "{right_way:?}");
    }
    let conditional =
        frontend("http-request deny if TRUE\nhttp-request allow\nhttp-request redirect location / ignore-empty");
    assert_eq!(warnings_about(&conditional, "NOOP").len(), 1);
}

fn warnings_about(text: &str, what: &str) -> Vec<String> {
    warnings(text).into_iter().filter(|warning| warning.contains(what)).collect()
}

#[test]
fn warnings_about_what_has_no_effect() {
    let backend = |lines: &str| {
        format!("backend b\nmode http\n{lines}\nlisten l\nbind 127.0.0.1:1\nmode http\ntimeout client 1s\n")
    };
    for (text, expected) in [
        (backend("option httplog"), "backend 'b' : 'option httplog' directive is ignored in backends."),
        (backend("log-format %ci"), "backend 'b' : 'log-format' directive is ignored in backends."),
        (backend("use_backend l"), "'use_backend' ignored because backend 'b' has no frontend capability."),
        (backend("monitor-uri /"), "'monitor-uri' ignored because backend 'b' has no frontend capability."),
        (backend("http-check send uri /"), "uses http-check rules without 'option httpchk', so the rules are ignored."),
        (
            backend("option tcp-check\nhttp-check disable-on-404"),
            "'disable-on-404' will be ignored for backend 'b' (requires 'option httpchk').",
        ),
        (backend("cookie A insert domain local"), "domain 'local' contains no embedded dot"),
        (backend("cookie A insert dynamic"), "needs a secret"),
        (frontend("cookie A insert"), "'cookie' ignored because frontend 'fe' has no backend capability."),
        (frontend("option httplog"), "log format ignored for frontend 'fe' since it has no log address."),
        (frontend("http-request set-nice 5"), "'set-nice' has no effect"),
        (
            frontend("http-request return content-type a/b"),
            "content-type 'a/b' ignored by the http reply because neither errorfile nor payload defined.",
        ),
        (frontend("http-request return hdr content-type a"), "header 'content-type' always ignored by the http reply."),
        (frontend("http-request redirect location / code 301x"), "'301x' is read as 301."),
        (frontend("capture cookie A len 200"), "truncating capture length to 63 bytes for frontend 'fe'."),
        (frontend("errorloc 503 http://example.com/ if TRUE"), "'errorloc' : 'if' and what follows is ignored."),
        (frontend("stats auth a:b more"), "'stats auth' : 'more' and what follows is ignored."),
        (frontend("stats auth a:b\nstats auth a:c"), "ignoring duplicated user 'a'"),
        (
            frontend("tcp-request inspect-delay 1s\ntcp-request inspect-delay 2s"),
            "ignoring tcp-request inspect-delay (was already defined)",
        ),
        (
            frontend("mode tcp\nhttp-request deny"),
            "'http-request' rules ignored for frontend 'fe' as they require HTTP mode.",
        ),
        (frontend("mode tcp\nstats enable"), "'stats' statement ignored for frontend 'fe' as it requires HTTP mode."),
        (
            "defaults\noption tcplog\noption httplog\n".to_owned() + &frontend(""),
            "'option httplog' overrides previous 'option tcplog' in 'defaults' section.",
        ),
    ] {
        let found = warnings(&text);
        assert!(found.iter().any(|warning| warning.contains(expected)), "{expected}\n{text}\n{found:?}");
    }
}

#[test]
fn hostile_lines_end_in_errors() {
    let long = "a".repeat(60_000);
    let many = "x ".repeat(5_000);
    for line in [
        format!("http-request set-header {long} b"),
        format!("http-request return content-type a/b string {long}"),
        format!("http-request redirect {many}"),
        format!("http-request set-var({long}) src"),
        format!("http-request set-var(txn.a{}) src", ",ifset".repeat(5_000)),
        format!("log 127.0.0.1 sample {}:5 local0", "1,".repeat(20_000)),
        format!(
            "log 127.0.0.1 sample {}:99999999 local0",
            (1..9_999).map(|n| n.to_string()).collect::<Vec<_>>().join(",")
        ),
        format!("errorfiles site {many}"),
        format!("capture request header A len {}", i64::MAX),
        format!("http-request capture src len {}", i64::MAX),
        format!("http-request capture src id {}", i64::MAX),
        format!("http-request deny if {}", "! ".repeat(5_000)),
        format!("http-request set-mark {}", "9".repeat(500)),
        format!("http-request set-header A {}", "%[".repeat(5_000)),
        format!("use_backend {}", "%[src]".repeat(2_000)),
        format!("unique-id-format {}", "%{".repeat(5_000)),
        "log \u{ff}\u{fe} local0".to_owned(),
        "http-request set-header \u{0} b".to_owned(),
        "http-request redirect location \"\"".to_owned(),
    ] {
        // What matters is that it comes back.
        let _ = read(&frontend(&line)).config.is_some();
    }
}

/// Words of right and wrong lines in any order: reading comes back, and says why it refuses.
#[test]
fn shuffled_words_come_back() {
    let cases = super::cases();
    let words: Vec<&str> = cases.iter().flat_map(|case| case.text.split(' ')).filter(|word| *word != "##").collect();
    let firsts: Vec<&str> = cases.iter().filter_map(|case| case.text.split(' ').next()).collect();
    let seed = 0x9e37_79b9_7f4a_7c15_u64;
    println!("seed {seed:#x}");
    let mut state = seed;
    let mut draw = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % most as u64).unwrap()
    };
    let mut accepted = 0;
    for _ in 0..4_000 {
        let mut line = firsts[draw(firsts.len())].to_owned();
        for _ in 0..draw(7) {
            line.push(' ');
            line.push_str(words[draw(words.len())]);
        }
        let parsed = read(&frontend(&line));
        let refused = parsed.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Alert);
        assert_eq!(parsed.config.is_none(), refused, "{line}");
        accepted += usize::from(!refused);
    }
    assert!(accepted > 10, "{accepted}");
}

/// Every keyword says what it does, and the example of a supported one is right.
#[test]
fn examples_are_right() {
    let directory = Directory::new("examples");
    let prelude = directory.fill(
        "global\nexpose-experimental-directives\nuserlist staff\nuser ann insecure-password x\nhttp-errors site\n\
         errorfile 503 DIR/good.http\nresolvers dns\ncache small\ntotal-max-size 4\nfcgi-app php-fpm\ndocroot /srv\nbackend static\nmode http\nbackend app\nmode http\n\
         backend limits\nmode http\nstick-table type ip size 1k\n",
    );
    let mut wrong = Vec::new();
    for keyword in super::super::TABLES.iter().flat_map(|table| table.iter()) {
        assert!(keyword.doc.ends_with('.'), "{:?} {}: {}", keyword.group, keyword.name, keyword.doc);
        assert!(!keyword.example.is_empty(), "{:?} {}", keyword.group, keyword.name);
        if !matches!(keyword.support, Support::Supported | Support::Harmless(_) | Support::Deprecated(_)) {
            continue;
        }
        let line = keyword.example.replace("/etc/haproxy/errors/site1/404.http", "/etc/haproxy/errors/503.http");
        let line = line.replace("/etc/haproxy/errors/503.http", &directory.fill("DIR/good.http"));
        let line = line.replace("/etc/tidegate/users", &directory.fill("DIR/users"));
        let line = line.replace("/etc/mime.types", &directory.fill("DIR/types"));
        let needs_frontend = keyword.sections.contains(Sections::FRONTEND)
            || matches!(
                keyword.group,
                Group::HttpRequest | Group::TcpRequestConnection | Group::TcpRequestSession | Group::TcpRequestContent
            );
        let line = match keyword.group {
            Group::Proxy if keyword.name == "use-fcgi-app" => format!("server green 127.0.0.1:1 proto fcgi\n{line}"),
            Group::HttpCheck => format!("option httpchk\n{line}"),
            Group::Option if line == "option external-check" => format!("external-check command /bin/true\n{line}"),
            _ => line,
        };
        let line = if line.contains("set-bandwidth-limit") {
            format!(
                "filter bwlim-out downloads default-limit 1m default-period 1s\nfilter bwlim-in uploads default-limit 1m \
                 default-period 1s\n{line}"
            )
        } else {
            line
        };
        let text = match keyword.group {
            Group::Global => format!("global\n{line}\n"),
            Group::Userlist => {
                format!(
                    "userlist people\n{line}\nuser bob\n{}",
                    if line.starts_with("group") { "user ann\n" } else { "" }
                )
            }
            Group::HttpErrors => format!("http-errors other\n{line}\n"),
            Group::Ring => format!("ring other\n{line}\n"),
            Group::LogForward => format!("ring lines\nlog-forward other\n{line}\n"),
            Group::Section => format!("{line}\n"),
            Group::Mailers => format!("mailers m\n{line}\n"),
            Group::Cache => format!("cache c\ntotal-max-size 4\n{line}\n"),
            _ if needs_frontend => format!(
                "listen edge\nmode http\nbind 127.0.0.1:1\ntimeout client 1s\ntimeout connect 1s\ntimeout server 1s\n\
                 server blue 127.0.0.1:1\nlog stdout local0\ndeclare capture response len 5\n{line}\n"
            ),
            _ => format!(
                "listen edge\nmode http\nbind 127.0.0.1:1\ntimeout client 1s\ntimeout connect 1s\ntimeout server 1s\n\
                 server blue 127.0.0.1:1\ndeclare capture response len 5\n{line}\n"
            ),
        };
        let alerts = alerts(&format!("global\nexternal-check\n{prelude}{text}"));
        if !alerts.is_empty() {
            wrong.push(format!("{:?} {}: {}\n{}", keyword.group, keyword.name, keyword.example, alerts.join("")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `alpn` without TLS is of no use, which HAProxy does not say.
#[test]
fn protocols_of_servers_need_tls() {
    let text = |words: &str, default: &str| {
        format!("backend b\nmode http\ndefault-server {default} inter 2s\nserver s 192.0.2.1:80 {words}\n")
    };
    let said = warnings(&text("alpn h2,http/1.1", "")).concat();
    for part in ["[test.cfg:4]", "'alpn' has no effect", "'ssl alpn h2,http/1.1', or 'proto h2'"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for (words, default) in [
        ("ssl verify none alpn h2", ""),
        ("alpn h2", "ssl verify none"),
        ("", "alpn h2"),
        ("check check-ssl verify none alpn h2", ""),
        ("proto h2", ""),
    ] {
        let said = warnings(&text(words, default)).concat();
        assert!(!said.contains("no effect"), "{words}: {said}");
    }
}

/// HAProxy refuses wrong arguments also of what has no effect here.
#[test]
fn arguments_of_what_has_no_effect() {
    for (line, expected) in [
        ("nopoll x", "'nopoll' cannot handle unexpected argument 'x'."),
        ("busy-polling on", "'busy-polling' cannot handle unexpected argument 'on'."),
        ("no busy-polling", ""),
        ("maxpipes 10 20", "'maxpipes' cannot handle unexpected argument '20'."),
        ("maxpipes", "'maxpipes' expects an integer argument."),
        ("maxpipes 10", ""),
        ("profiling.tasks x", "'profiling.tasks' expects either 'auto', 'on', or 'off' but got 'x'."),
        ("profiling.tasks auto", ""),
        ("tune.sched.low-latency", "'tune.sched.low-latency' expects either 'on' or 'off' but got ''."),
        ("close-spread-time x", "unexpected character 'x' in argument to <close-spread-time>."),
        ("ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets", ""),
        ("ssl-default-bind-options", "'ssl-default-bind-options' expects an argument."),
        ("ssl-server-verify never", "'ssl-server-verify' expects either 'none' or 'required' but got 'never'."),
    ] {
        let alerts = alerts(&format!("global\n{line}\nlisten l\nbind 127.0.0.1:1\ntimeout client 1s\n"));
        let first = alerts.first().map_or("", |alert| alert.rsplit(" : ").next().unwrap_or_default());
        assert!(first.contains(expected) && first.is_empty() == expected.is_empty(), "{line}: {alerts:?}");
    }
}

/// HAProxy sends such names as they stand. What would make two messages of one is refused all the same.
#[test]
fn names_that_are_no_header_names() {
    for line in [
        "http-request set-header X-Forwarded-Proto: https",
        "http-request add-header X-Forwarded-Proto: https",
        "http-request return status 200 hdr X-Forwarded-Proto: https",
        "unique-id-header X-Forwarded-Proto:",
    ] {
        let said = warnings(&frontend(line)).concat();
        assert!(said.contains("'X-Forwarded-Proto:' is not a header name, and is sent as it stands"), "{line}: {said}");
        assert!(said.contains("did you mean 'X-Forwarded-Proto'"), "{line}: {said}");
        assert_eq!(alerts(&frontend(line)), [""; 0], "{line}");
    }
    let check =
        "backend b\noption httpchk\nhttp-check send meth GET uri / ver HTTP/1.0 hdr Authorization\\ Basic xyz\n";
    assert_eq!(alerts(check), [""; 0]);
    assert!(warnings(check).concat().contains("'Authorization Basic' is not a header name"));
    for name in ["Content-Length:", "Transfer-Encoding\\ ", "\\ X", "X\\nY"] {
        says(&format!("http-request set-header {name} 1"), &["is not a header name"]);
    }
}

/// Nothing is logged of peers, so nothing has to be there.
#[test]
fn logs_of_peers_have_no_effect() {
    for line in
        ["log global", "log ring@missing local0", "log 192.0.2.1:514 local0", "no log", "log tcp@192.0.2.1:514 local0"]
    {
        let text = format!("peers p\n{line}\npeer a 192.0.2.1:1024\n");
        assert_eq!(alerts(&text), [""; 0], "{line}");
        assert!(warnings(&text).concat().contains("'log' has no effect"), "{line}");
        assert!(read(&text).config.is_some_and(|config| config.rings.is_empty()), "{line}");
    }
    let wrong = alerts("peers p\nlog global local0\npeer a 192.0.2.1:1024\n");
    assert!(!wrong.is_empty());
}
