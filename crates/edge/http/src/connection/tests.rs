use super::{
    ConnectionOptions, expect_continue, keep_alive, remove_connection_options, remove_hop_by_hop, upgrade_protocols,
    wants_upgrade,
};
use crate::headers::Headers;
use crate::request::RequestHead;
use crate::version::Version;

/// A block written as lines parted by `|`.
fn headers(lines: &str) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in lines.split('|').filter_map(|line| line.split_once(": ")) {
        headers.add(name.as_bytes(), value.as_bytes());
    }
    headers
}

fn lines(headers: &Headers) -> String {
    let mut out = Vec::new();
    headers.write_to(&mut out);
    String::from_utf8_lossy(&out).trim_end().replace("\r\n", "|")
}

fn request(version: Version, lines: &str) -> RequestHead {
    let mut head = RequestHead::new();
    head.start(b"GET", b"/", version);
    for (name, value) in headers(lines).iter() {
        head.headers.add(name, value);
    }
    head
}

#[test]
fn keeps_alive() {
    use Version::{Http10, Http11};
    for (version, fields, expected) in [
        (Http11, "", true),
        (Http10, "", false),
        (Http11, "Connection: close", false),
        (Http11, "Connection: Upgrade, CLOSE", false),
        (Http11, "Connection: keep-alive, close", false),
        (Http11, "Connection: foo|connection: close", false),
        (Http11, "Connection: closed", true),
        (Http11, "Connection: \"close\"", true),
        (Http10, "Connection: Keep-Alive", true),
        (Http10, "Connection: keep-alive|Connection: close", false),
        (Http10, "Proxy-Connection: keep-alive", false),
    ] {
        assert_eq!(keep_alive(version, &headers(fields)), expected, "{version:?} {fields}");
    }
}

#[test]
fn reads_options() {
    let options = ConnectionOptions::of(&headers("Connection: close, Upgrade|Connection: keep-alive, x"));
    assert_eq!(options, ConnectionOptions { close: true, keep_alive: true, upgrade: true, other: true });
    assert_eq!(ConnectionOptions::of(&headers("Connection: ,")), ConnectionOptions::default());
}

#[test]
fn tells_upgrades() {
    use Version::{Http10, Http11};
    for (version, fields, expected) in [
        (Http11, "Connection: upgrade|Upgrade: websocket", true),
        (Http11, "Connection: keep-alive, Upgrade|Upgrade: h2c, websocket", true),
        (Http10, "Connection: upgrade|Upgrade: websocket", false),
        (Http11, "Upgrade: websocket", false),
        (Http11, "Connection: upgrade", false),
        (Http11, "Connection: upgrade|Upgrade: ", false),
    ] {
        assert_eq!(wants_upgrade(&request(version, fields)), expected, "{version:?} {fields}");
    }
    let headers = headers("Upgrade: h2c, foo/2|Upgrade: websocket");
    assert_eq!(upgrade_protocols(&headers).collect::<Vec<_>>(), [&b"h2c"[..], b"foo/2", b"websocket"]);
}

#[test]
fn tells_expectations() {
    use Version::{Http10, Http11};
    for (version, fields, expected) in [
        (Http11, "Expect: 100-continue", true),
        (Http11, "Expect: 100-Continue", true),
        (Http11, "Expect: other, 100-continue", true),
        (Http11, "Expect: 100", false),
        (Http11, "", false),
        (Http10, "Expect: 100-continue", false),
    ] {
        assert_eq!(expect_continue(&request(version, fields)), expected, "{version:?} {fields}");
    }
}

#[test]
fn removes_options() {
    for (fields, expected) in [
        ("A: b", "A: b"),
        ("Connection: close", ""),
        ("Connection: close, upgrade|A: b", "Connection: upgrade|A: b"),
        ("Connection: Close , x,Keep-Alive,y", "Connection: x, y"),
        ("Connection: upgrade", "Connection: upgrade"),
        ("Connection: a ,b", "Connection: a ,b"),
        ("Connection: close|Connection: keep-alive|Connection: x", "Connection: x"),
    ] {
        let mut headers = headers(fields);
        remove_connection_options(&mut headers, &[b"close", b"keep-alive"]);
        assert_eq!(lines(&headers), expected, "{fields}");
    }
}

#[test]
fn removes_hop_by_hop_fields() {
    for (fields, keep_upgrade, expected) in [
        ("Host: h|A: b", false, "Host: h|A: b"),
        ("Connection: close|Keep-Alive: 5|Proxy-Connection: x|TE: gzip|A: b", false, "A: b"),
        ("Connection: x-hop, A|X-Hop: 1|a: 2|B: 3", false, "B: 3"),
        ("Connection: Upgrade|Upgrade: websocket", true, "Connection: Upgrade|Upgrade: websocket"),
        ("Connection: Upgrade|Upgrade: websocket", false, ""),
        (
            "Connection: host, content-length, cookie, x-forwarded-for|Host: h|Content-Length: 1|Cookie: c|X-Forwarded-For: f",
            false,
            "Host: h|Content-Length: 1|Cookie: c|X-Forwarded-For: f",
        ),
    ] {
        let mut headers = headers(fields);
        remove_hop_by_hop(&mut headers, keep_upgrade);
        assert_eq!(lines(&headers), expected, "{fields}");
    }
}
