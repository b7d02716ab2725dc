use super::{
    ConnectionOptions, expect_continue, keep_alive, lacks_websocket_key, remove_connection_options, remove_hop_by_hop,
    remove_persistence, switches_protocols, upgrade_protocols, wants_upgrade,
};
use crate::headers::Headers;
use crate::limits::Limits;
use crate::parser::{Parsed, RequestParser};
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
        (Http11, "Connection: upgrade|Upgrade: h2c", false),
        (Http11, "Connection: upgrade|Upgrade: H2C|Upgrade: , h2c ,", false),
        (Http11, "Connection: upgrade|Upgrade: h2c|Upgrade: foo", true),
    ] {
        assert_eq!(wants_upgrade(&request(version, fields)), expected, "{version:?} {fields}");
    }
    let headers = headers("Upgrade: h2c, foo/2|Upgrade: websocket");
    assert_eq!(upgrade_protocols(&headers).collect::<Vec<_>>(), [&b"h2c"[..], b"foo/2", b"websocket"]);
}

#[test]
fn upgrades_nothing_with_a_body() {
    for (field, expected) in [
        ("A: b", true),
        ("Content-Length: 0", true),
        ("Content-Length: 1", false),
        ("Transfer-Encoding: chunked", false),
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: a\r\n{field}\r\n\r\n");
        let mut head = RequestHead::new();
        let parsed = RequestParser::new().parse(text.as_bytes(), &Limits::default(), &mut head);
        assert_eq!(parsed, Ok(Parsed::Complete { consumed: text.len() }), "{field}");
        assert_eq!(wants_upgrade(&head), expected, "{field}");
    }
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
fn removes_what_is_said_of_the_connections_life() {
    for (fields, expected) in [
        ("A: b", "A: b"),
        ("Connection: close|A: b", "A: b"),
        ("Connection: Keep-Alive|A: b", "A: b"),
        ("Connection: keep-alive, Upgrade|Upgrade: x", "Connection: Upgrade|Upgrade: x"),
        ("Connection: a ,close,b", "Connection: a ,b"),
        ("Connection: a,  b , c", "Connection: a,  b , c"),
        ("Connection: close, keep-alive", ""),
        ("Connection: |A: b", "A: b"),
        ("Connection: close|Connection: x", "Connection: x"),
    ] {
        let mut headers = headers(fields);
        remove_persistence(&mut headers);
        assert_eq!(lines(&headers), expected, "{fields}");
        assert!(!ConnectionOptions::of(&headers).close, "{fields}");
    }
}

#[test]
fn removes_hop_by_hop_fields() {
    for (fields, keep_upgrade, expected) in [
        ("Host: h|A: b", false, "Host: h|A: b"),
        ("Connection: close|Keep-Alive: 5|Proxy-Connection: x|TE: gzip|A: b", false, "A: b"),
        ("Connection: x-hop, A|X-Hop: 1|a: 2|B: 3", false, "X-Hop: 1|a: 2|B: 3"),
        ("Connection: TE|TE: gzip;q=0.5, Trailers|A: b", false, "TE: trailers|A: b"),
        (
            "Connection: Upgrade, HTTP2-Settings|Upgrade: foo, h2c|HTTP2-Settings: AAA",
            true,
            "Connection: Upgrade|Upgrade: foo",
        ),
        ("Connection: Upgrade|Upgrade: h2c|Upgrade: a,H2C ,b", true, "Connection: Upgrade|Upgrade: a, b"),
        ("Connection: Upgrade|Upgrade: a|Upgrade: h2c", true, "Connection: Upgrade|Upgrade: a"),
        ("Connection: Upgrade|Upgrade: \"h2c\", h2c/1.0, a, xh2c", true, "Connection: Upgrade|Upgrade: a"),
        ("Connection: Upgrade|Upgrade: a , b", true, "Connection: Upgrade|Upgrade: a , b"),
        ("HTTP2-Settings: AAA|A: b", false, "A: b"),
        ("Upgrade: h2c|http2-settings: AAA", false, ""),
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

#[test]
fn tells_handshakes_of_websockets_without_a_key() {
    const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    for (fields, expected) in [
        ("Connection: upgrade|Upgrade: websocket".to_owned(), true),
        ("Connection: a, Upgrade|Upgrade: foo, WebSocket".to_owned(), true),
        ("Connection: upgrade|Upgrade: foo|Upgrade: websocket".to_owned(), true),
        ("Connection: upgrade|Upgrade: websocket|Sec-WebSocket-Key: short".to_owned(), true),
        (format!("Connection: upgrade|Upgrade: websocket|{KEY}="), true),
        (format!("Connection: upgrade|Upgrade: websocket|{KEY}"), false),
        (format!("Connection: upgrade|Upgrade: websocket|Sec-WebSocket-Key: x|{KEY}"), false),
        ("Upgrade: websocket".to_owned(), false),
        ("Connection: upgrade|Upgrade: websocket/13".to_owned(), false),
        ("Connection: upgrade|Upgrade: foo".to_owned(), false),
    ] {
        assert_eq!(lacks_websocket_key(&request(Version::Http11, &fields)), expected, "{fields}");
    }
}

#[test]
fn tells_answers_that_switch_protocols() {
    for (fields, expected) in [
        ("Connection: upgrade|Upgrade: foo", true),
        ("Connection: upgrade", true),
        ("Upgrade: foo", false),
        ("", false),
        ("Connection: upgrade|Upgrade: h2c", false),
        ("Connection: upgrade|Upgrade: foo, H2C", false),
        ("Connection: upgrade|Upgrade: websocket", false),
        ("Connection: upgrade|Upgrade: WebSocket|Sec-WebSocket-Accept: x", true),
    ] {
        assert_eq!(switches_protocols(&headers(fields)), expected, "{fields}");
    }
}
