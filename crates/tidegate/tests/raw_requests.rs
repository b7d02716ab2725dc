//! Requests as an attacker writes them, through this program and through Debian's HAProxy: which are answered with what, and what
//! the server gets. Where we part from HAProxy we are stricter, or send less; the table says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::{Edge, Origin, Wire, free_address};

/// How the program does beside HAProxy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    /// The same answer, and the same request at the server.
    Same,
    /// Refused here with 400, whatever HAProxy does; the server sees nothing.
    Refused,
    /// The server sees these lines, without Host.
    Sent(&'static str),
}
use Is::{Refused, Same, Sent};

const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";

/// The first line and the other fields than Host, parted by `|`.
fn cases() -> Vec<(String, Is)> {
    let mut cases = Vec::new();
    let mut add = |text: &str, is: Is| cases.push((text.to_owned(), is));
    // Upgrades.
    add("GET / HTTP/1.1|Connection: upgrade|Upgrade: foo", Same);
    add("GET / HTTP/1.1|Connection: upgrade|Upgrade: foo|Upgrade: bar", Same);
    add("GET / HTTP/1.1|Connection: upgrade|Upgrade: h2c", Sent("GET / HTTP/1.1"));
    add("GET / HTTP/1.1|Connection: Upgrade, HTTP2-Settings|Upgrade: h2c|HTTP2-Settings: AAMA", Sent("GET / HTTP/1.1"));
    add("GET / HTTP/1.1|Upgrade: h2c|HTTP2-Settings: AAMA", Sent("GET / HTTP/1.1"));
    add("GET / HTTP/1.1|HTTP2-Settings: AAMA", Sent("GET / HTTP/1.1"));
    for upgrade in ["Upgrade: foo, h2c", "Upgrade: H2C,foo", "Upgrade: foo|Upgrade: h2c", "Upgrade: h2c|Upgrade: foo"] {
        add(
            &format!("GET / HTTP/1.1|Connection: upgrade|{upgrade}|HTTP2-Settings: AAMA"),
            Sent("GET / HTTP/1.1|connection: upgrade|upgrade: foo"),
        );
    }
    for upgrade in ["Upgrade: websocket", "Upgrade: foo, WebSocket", "Upgrade: foo|Upgrade: websocket"] {
        add(&format!("GET / HTTP/1.1|Connection: Upgrade|{upgrade}"), Same);
        add(&format!("POST / HTTP/1.0|Connection: Upgrade|{upgrade}"), Same);
        add(&format!("GET / HTTP/1.1|Connection: Upgrade|{upgrade}|Sec-WebSocket-Key: x"), Same);
        add(&format!("GET / HTTP/1.1|Connection: Upgrade|{upgrade}|{KEY}"), Same);
    }
    add("GET / HTTP/1.1|Connection: Upgrade|Upgrade: websocket/13", Same);
    // Targets.
    add("GET http://h/ HTTP/1.1", Same);
    add("GET HTTP://H:80/a?b HTTP/1.1", Same);
    add("GET http://h HTTP/1.1", Sent("GET http://h/ HTTP/1.1"));
    add("GET http://h?x=1 HTTP/1.1", Sent("GET http://h/?x=1 HTTP/1.1"));
    add("GET http://other/ HTTP/1.1", Same);
    add("OPTIONS * HTTP/1.1", Same);
    add("OPTIONS http://h HTTP/1.1", Same);
    for target in [
        "/a#b",
        "#",
        "/\x01",
        "/\x7f",
        "/a b",
        "http:/h",
        "h:80",
        "a/b",
        "?x",
        "://h/",
        "http://h:99999/",
        "http://[::1/",
    ] {
        add(&format!("GET {target} HTTP/1.1"), Same);
    }
    for target in ["*", "http:///a", "http://", "http://u@h/"] {
        add(&format!("GET {target} HTTP/1.1"), Refused);
    }
    for target in ["/../a", "//h/a", "/a%00", "/a%zz", "/a\\b", "/<a>", "/{a}", "/a|b", "/a\"b"] {
        // A bar parts lines here.
        add(&format!("GET {} HTTP/1.1", target.replace('|', "^")), Same);
    }
    // First lines.
    for line in [
        "get / HTTP/1.1",
        "G(T / HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1.2",
        "GET / HTTP/1.01",
        "GET /",
        "GET / HTTP/1.1 x",
    ] {
        add(line, Same);
    }
    for line in ["GET  / HTTP/1.1", "GET\t/ HTTP/1.1", "GET /  HTTP/1.1"] {
        add(line, Refused);
    }
    // Fields.
    for field in [
        "X : a",
        " X: a",
        ": a",
        "X",
        "X(: a",
        "X/y: a",
        "Content-Length : 3",
        "Content-Length: +3",
        "Content-Length: 0x3",
        "Content-Length: -1",
        "Content-Length: 3;",
        "Content-Length:",
        "Content-Length: 3|Content-Length: 4",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked;x=1",
        "Transfer-Encoding: xchunked",
        "Host: other",
    ] {
        let is = if field.starts_with(' ') { Refused } else { Same };
        add(&format!("POST / HTTP/1.1|{field}"), is);
    }
    for field in [
        "X: a\x01b",
        "X: a\0b",
        "Content-Length: 3|Content-Length: 3",
        "Content-Length: 3, 3",
        "Host: h",
        "Transfer-Encoding: chunked|Content-Length: 3",
        "Content-Length: 3|Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked,",
    ] {
        add(&format!("POST / HTTP/1.1|{field}"), Refused);
    }
    // Fields that others are made to take away.
    for named in ["X-Forwarded-For", "Host", "Content-Length", "Cookie"] {
        add(
            &format!("GET / HTTP/1.1|Connection: {named}|X-Forwarded-For: 1|Cookie: a"),
            Sent("GET / HTTP/1.1|x-forwarded-for: 1|cookie: a"),
        );
    }
    cases
}

const HOSTS: &[(&str, Is)] = &[
    ("h", Same),
    ("h:80", Same),
    ("h:", Same),
    ("[::1]", Same),
    ("[::1]:80", Same),
    ("[::1", Refused),
    ("[]", Refused),
    ("::1", Refused),
    ("h:99999", Refused),
    ("h:65536", Refused),
    ("h:b", Refused),
    ("h:80:80", Refused),
    ("h,h", Refused),
    ("h h", Refused),
    ("h/a", Refused),
    ("u@h", Refused),
];

/// Status, and the head at the server without Host.
type Outcome = (Option<u16>, Vec<String>);

fn outcomes(start: fn(&str) -> Option<Edge>, requests: &[String]) -> Option<Vec<Outcome>> {
    let (origin, front) = (Origin::named("hello"), free_address());
    let _edge = start(&format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout client 2s\n timeout server 2s\n timeout connect 1s\nlisten web\n bind {front}\n http-reuse never\n server s {}\n",
        origin.address
    ))?;
    let outcome = |request: &String| {
        let before = origin.heads().len();
        let mut client = Wire::connect(front);
        client.send(request);
        let status = client.head().map(|head| head.split(' ').nth(1).unwrap().parse().unwrap());
        let heads = origin.heads().split_off(before);
        let plain = |head: String| {
            let lines = head.lines().filter(|line| !line.is_empty() && !line.starts_with("host: "));
            lines.collect::<Vec<_>>().join("|")
        };
        (status, heads.into_iter().map(plain).collect())
    };
    Some(requests.iter().map(outcome).collect())
}

#[test]
fn what_haproxy_does_with_raw_requests_or_less() {
    let mut table: Vec<(String, Is)> = cases()
        .into_iter()
        .map(|(text, is)| {
            let (line, fields) = text.split_once('|').unwrap_or((&text, ""));
            let fields: String =
                fields.split('|').filter(|field| !field.is_empty()).map(|field| format!("{field}\r\n")).collect();
            (format!("{line}\r\nHost: h\r\n{fields}\r\n"), is)
        })
        .collect();
    table.extend(HOSTS.iter().map(|(host, is)| (format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), *is)));
    let requests: Vec<String> = table.iter().map(|(request, _)| request.clone()).collect();
    let ours = outcomes(|config| Some(Edge::start_single(config)), &requests).unwrap();
    let theirs = outcomes(Edge::start_haproxy, &requests);
    let mut wrong = Vec::new();
    for (at, (request, is)) in table.iter().enumerate() {
        let found = &ours[at];
        let theirs = theirs.as_ref().map(|theirs| &theirs[at]);
        let is_right = match is {
            Same => theirs.is_none_or(|theirs| theirs == found),
            Refused => *found == (Some(400), Vec::new()) && theirs.is_none_or(|theirs| theirs != found),
            Sent(head) => *found == (Some(200), vec![(*head).to_owned()]),
        };
        if !is_right {
            wrong.push(format!("{request:?} is to be {is:?}:\n ours    {found:?}\n HAProxy {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), table.len(), wrong.join("\n"));
}
