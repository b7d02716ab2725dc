//! The table itself: complete, without contradictions, and its examples work.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::table::{self, Group, Keyword, Parse, Sections, Support};

#[test]
fn every_keyword_is_declared_once() {
    let mut seen = BTreeSet::new();
    let repeated: Vec<String> =
        table::all().filter(|keyword| !seen.insert((keyword.group, keyword.name))).map(Keyword::path).collect();
    assert_eq!(repeated, Vec::<String>::new());
}

#[test]
fn every_keyword_is_documented() {
    for keyword in table::all() {
        let path = keyword.path();
        assert!(keyword.doc.ends_with(['.', '`', ')']), "{path}: {:?}", keyword.doc);
        let is_removed = matches!(keyword.support, Support::Removed(_));
        assert!(is_removed || !keyword.example.is_empty(), "{path} has no example");
        let needs_sections = matches!(keyword.group, Group::Proxy | Group::Option | Group::Timeout);
        assert!(!needs_sections || keyword.sections != Sections::NONE, "{path}");
    }
}

#[test]
fn a_keyword_without_parser_is_not_supported() {
    for keyword in table::all() {
        let is_refused = matches!(keyword.support, Support::NotYet(_) | Support::Removed(_));
        let may_be_parsed = matches!(keyword.support, Support::Harmless(_));
        assert!(may_be_parsed || is_refused == matches!(keyword.parse, Parse::Nothing), "{}", keyword.path());
    }
}

/// A configuration around the example of a keyword.
fn around(keyword: &Keyword) -> Option<String> {
    let example = keyword.example;
    let backend = "global\n  ssl-server-verify none\nbackend b\n  timeout connect 1s\n  timeout server 1s\n";
    let text = match keyword.group {
        Group::Section if example.starts_with("global") => "global\n".to_owned(),
        Group::Section if example.starts_with("program") => format!("{example}\n  command /bin/true\n"),
        Group::Section if example.starts_with("cache ") => format!("{example}\n  total-max-size 4\n"),
        Group::Section if example.starts_with("fcgi-app ") => format!("{example}\n  docroot /srv\n"),
        Group::Section if example.starts_with("acme ") => format!("{example}\n  directory http://ca.example/dir\n"),
        Group::Section => format!("{example}\n"),
        Group::Directive => match keyword.name {
            ".if" => format!("{example}\n.endif\n"),
            ".elif" | ".else" => format!(".if 0\n{example}\n.endif\n"),
            ".endif" => format!(".if 0\n{example}\n"),
            _ => format!("{example}\n"),
        },
        Group::Global | Group::GlobalStats => format!("global\n  {example}\n"),
        Group::Bind if example.starts_with("stats socket") => format!("global\n  {example}\n"),
        Group::Bind if example.contains("quic4@") => {
            format!("listen l\n  mode http\n  timeout client 1s\n  {example}\n")
        }
        Group::Bind => format!("listen l\n  timeout client 1s\n  {example}\n"),
        Group::Server => format!("{backend}  mode http\n  {example}\nbackend web\n  server web1 192.0.2.1:80 check\n"),
        Group::Userlist => format!("userlist u\n  {example}\n"),
        Group::HttpErrors => format!("http-errors e\n  {example}\n"),
        Group::Ring => format!("ring r\n  {example}\n"),
        Group::LogForward => format!("ring lines\nlog-forward f\n  {example}\n"),
        Group::Acme => {
            let other = match keyword.name {
                "eab-key-id" => "  eab-mac-key /etc/haproxy/eab.key\n",
                "eab-mac-key" => "  eab-key-id /etc/haproxy/eab.id\n",
                _ => "",
            };
            format!("acme a\n  directory http://ca.example/dir\n{other}  {example}\n")
        }
        Group::CrtStore => format!("acme LE\n  directory http://ca.example/dir\ncrt-store s\n  {example}\n"),
        Group::Resolvers => format!("resolvers r\n  {example}\n"),
        Group::Program => format!("program p\n  command /bin/true\n  {example}\n"),
        Group::Proxy
        | Group::Option
        | Group::Timeout
        | Group::Stats
        | Group::HttpCheck
        | Group::TcpCheck
        | Group::HttpRequest
        | Group::HttpResponse
        | Group::HttpAfterResponse
        | Group::TcpRequestConnection
        | Group::TcpRequestSession
        | Group::TcpRequestContent
        | Group::TcpResponseContent => {
            let (kind, server) = if keyword.sections == Sections::BACKEND {
                ("backend", "  server blue 192.0.2.1:80\n")
            } else {
                ("listen", "  declare capture request len 8\n  declare capture response len 8\n")
            };
            // What rules turn on must be there.
            let filters = if example.contains("set-bandwidth-limit") {
                "  filter bwlim-out downloads default-limit 1m default-period 1s\n  filter bwlim-in uploads default-limit \
                 1m default-period 1s\n"
            } else {
                ""
            };
            // A program that checks must be allowed and named.
            let (global, program) = if example == "option external-check" {
                ("global\n  external-check\n  insecure-fork-wanted\n", "  external-check command /bin/true\n")
            } else {
                ("", "")
            };
            let server = match keyword.name {
                "use-fcgi-app" => "  server blue 192.0.2.1:80 proto fcgi\n",
                _ => server,
            };
            format!("{global}{kind} l\n  mode http\n{server}{filters}{program}  {example}\n")
        }
        Group::Mailers => format!("mailers m\n  {example}\n"),
        Group::Cache => format!("cache c\n  total-max-size 4\n  {example}\n"),
        Group::FcgiApp => format!("fcgi-app f\n  docroot /srv\n  {example}\n"),
        // Lines of sections that are not supported.
        _ => return None,
    };
    Some(text)
}

/// Files and names that examples mention.
fn surroundings(text: &str) -> (String, Bundle) {
    let mut files = Bundle::default();
    for path in text.split_ascii_whitespace().filter(|word| word.contains('/')) {
        let path = path.trim_matches(['\'', '"', '}', '{']);
        let contents: &[u8] = match path {
            "/etc/tidegate/users" => b"ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n",
            "/etc/mime.types" => b"text/html html\n",
            path if path.ends_with(".http") => b"HTTP/1.0 503 x\r\n\r\nx",
            _ => b"content-type Content-Type\n",
        };
        files = files.with(path, contents);
    }
    files = super::tls::with_examples(files);
    if text.starts_with("backend app") || text.starts_with("http-errors") {
        return (text.to_owned(), files);
    }
    let named = "userlist staff\n  user ann insecure-password x\n  user bob insecure-password x\nhttp-errors site\n  \
                 errorfile 503 /etc/503.http\nresolvers dns\nbackend app\n  mode http\nbackend static\n  mode http\n\
                 backend limits\n  stick-table type ip size 1k\ncache small\n  total-max-size 4\nfcgi-app php-fpm\n  docroot /srv\n";
    let text = text.replace(
        "userlist u\n  group",
        "userlist u\n  user ann insecure-password x\n  user bob insecure-password x\n  group",
    );
    let files = files.with("/etc/503.http", b"HTTP/1.0 503 x\r\n\r\nx");
    (format!("{text}{named}"), files.with("/etc/resolv.conf", b"nameserver 192.0.2.53\n"))
}

#[test]
fn examples_are_accepted_as_their_state_says() {
    let mut wrong = BTreeMap::new();
    for keyword in table::all() {
        let Some(text) = around(keyword) else { continue };
        let (mut text, files) = surroundings(&text);
        if keyword.experimental {
            let alerts = messages(&read_with(&text, files.clone(), &[]), Severity::Alert);
            assert!(alerts.iter().any(|alert| alert.contains("is experimental")), "{text}\n{alerts:#?}");
            text.insert_str(0, "global\n  expose-experimental-directives\n");
        }
        let parsed = read_with(&text, files, &[]);
        let alerts = messages(&parsed, Severity::Alert);
        let name = keyword.name.trim_end_matches(['*', '(']);
        let is_as_said = match keyword.support {
            _ if keyword.name == ".alert" => alerts.len() == 1,
            Support::Supported | Support::Deprecated(_) | Support::Harmless(_) => alerts.is_empty(),
            Support::NotYet(_) => {
                alerts.iter().any(|alert| alert.contains("not supported") || alert.contains("is not there"))
            }
            Support::Removed(_) => true,
        };
        let warns = match keyword.support {
            Support::Harmless(_) | Support::Deprecated(_) => {
                messages(&parsed, Severity::Warning).iter().any(|warning| warning.contains(name))
            }
            _ => true,
        };
        if !is_as_said || !warns {
            wrong.insert(keyword.path(), (text, alerts, messages(&parsed, Severity::Warning)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn explanations() {
    let text = crate::explain("maxconn");
    for expected in
        ["maxconn <number>", "bind ... maxconn", "server ... maxconn", "in: the global section", "example: "]
    {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    let text = crate::explain("option forwardfor");
    assert!(text.starts_with("option forwardfor "), "{text}");
    assert!(crate::explain("spoe-agent").contains("not supported yet"));
    assert!(crate::explain("reqadd").contains("http-request add-header"));
    // What is meant most comes first.
    for (word, first) in [
        ("http-request", "http-request <action>"),
        ("server", "server <name> <address>"),
        ("cookie", "cookie <name>"),
        ("bind", "bind [<address>]"),
        ("timeout", "timeout <event>"),
        ("check", "server ... check"),
        ("leastconn", "balance leastconn"),
        ("balance leastconn", "balance leastconn"),
        ("hdr(Host)", "hdr("),
    ] {
        let text = crate::explain(word);
        assert!(text.starts_with(first), "{word}: {text}");
    }
    assert!(crate::explain("http-request").contains("    with: add-acl, "));
    assert!(crate::explain("hdr(Host)").contains("\nbalance hdr(name)"));
    assert!(crate::explain("leastconn").contains("a value of 'balance': The server with the fewest"));
    assert!(!crate::is_explained(&crate::explain("server leastconn")), "it is no value of that");
    assert!(crate::explain("rounrobin").contains("Nearest: roundrobin"));
    assert!(crate::explain("maxcnon").contains("Nearest: maxconn"));
    assert!(crate::explain("").contains("what"));
    // A prefix of keywords that take a name in parentheses.
    assert!(crate::explain("set-var").contains("http-request set-var"));
    assert!(crate::explain("path_beg").contains("the sample fetch 'path' matched by '-m beg'"));
    assert!(crate::explain("%ci").contains("log variable"));
    assert!(crate::explain("src").contains("sample fetch"));
    assert!(crate::explain("METH_GET").contains("predefined ACL"));
    assert!(crate::explain("tune.ring.size").contains("an addition of Tidegate"));
}

#[test]
fn every_value_is_one_that_the_parser_takes() {
    for value in table::VALUES {
        let text = format!("backend b\n  mode http\n  timeout connect 1s\n  timeout server 1s\n  {}\n", value.example);
        let parsed = read(&text);
        assert!(parsed.config.is_some(), "{text}{:?}", parsed.diagnostics);
        let bare = value.name.split('(').next().unwrap_or_default();
        assert!(
            value.example.starts_with(&format!("{} {bare}", value.of)) && value.doc.ends_with('.'),
            "{}",
            value.name
        );
        assert!(table::all().any(|keyword| keyword.path() == value.of), "{}", value.of);
    }
}
