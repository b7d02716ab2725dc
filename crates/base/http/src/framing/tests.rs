use super::{begins_tunnel, enforce_framing, enforce_response_framing, response_body_length};
use crate::body_length::{BodyLength, parse_content_length};
use crate::bytes::decimal;
use crate::error::ParseErrorKind;
use crate::headers::Headers;
use crate::limits::Limits;
use crate::method::Method;
use crate::parser::ResponseParser;
use crate::response::ResponseHead;

#[test]
fn reads_lengths() {
    use ParseErrorKind::{InvalidLength, LengthTooLarge};
    for (value, expected) in [
        ("0", Ok(0)),
        ("00012", Ok(12)),
        ("999999999999999999", Ok(999_999_999_999_999_999)),
        ("1000000000000000000", Err(LengthTooLarge)),
        ("18446744073709551616", Err(LengthTooLarge)),
        ("", Err(InvalidLength)),
        ("+5", Err(InvalidLength)),
        ("-5", Err(InvalidLength)),
        ("5 ", Err(InvalidLength)),
        ("5,5", Err(InvalidLength)),
        ("5, 5", Err(InvalidLength)),
        ("0x5", Err(InvalidLength)),
        ("5.0", Err(InvalidLength)),
        ("\u{665}", Err(InvalidLength)),
    ] {
        assert_eq!(parse_content_length(value.as_bytes()), expected, "{value}");
    }
}

fn response(status_and_fields: &str) -> ResponseHead {
    let input = format!("HTTP/1.1 {status_and_fields}\r\n\r\n").replace('|', "\r\n");
    let mut head = ResponseHead::new();
    ResponseParser::new().parse(input.as_bytes(), &Limits::default(), &mut head).unwrap();
    head
}

/// RFC 9112 section 6.3.
#[test]
fn response_lengths() {
    use BodyLength::{Chunked, Exact, None, UntilClose};
    use Method::{Connect, Get, Head};
    for (head, method, expected) in [
        ("200 OK", Get, UntilClose),
        ("200 OK|Content-Length: 0", Get, Exact(0)),
        ("200 OK|Content-Length: 5", Get, Exact(5)),
        ("200 OK|Transfer-Encoding: chunked", Get, Chunked),
        ("200 OK|Transfer-Encoding: Chunked", Get, Chunked),
        ("200 OK|Content-Length: 5", Head, None),
        ("200 OK|Transfer-Encoding: chunked", Head, None),
        ("100 Continue", Get, None),
        ("103 Early Hints|Content-Length: 5", Get, None),
        ("101 Switching|Content-Length: 5", Get, None),
        ("204 No Content|Content-Length: 5", Get, None),
        ("304 Not Modified|Content-Length: 5", Get, None),
        ("304 Not Modified|Transfer-Encoding: chunked", Get, None),
        ("205 Reset", Get, UntilClose),
        ("200 OK|Content-Length: 5", Connect, None),
        ("299 Odd|Transfer-Encoding: chunked", Connect, None),
        ("407 Who|Content-Length: 5", Connect, Exact(5)),
    ] {
        assert_eq!(response_body_length(&response(head), method), expected, "{method:?} {head}");
    }
}

#[test]
fn tunnels() {
    for (status, method, expected) in [
        (101, Method::Get, true),
        (100, Method::Get, false),
        (200, Method::Get, false),
        (200, Method::Connect, true),
        (299, Method::Connect, true),
        (300, Method::Connect, false),
    ] {
        assert_eq!(begins_tunnel(status, method), expected, "{status} {method:?}");
    }
}

#[test]
fn writes_decimals() {
    for number in [0, 1, 9, 10, 99, 100, 1_234_567_890, u64::MAX] {
        assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
    }
}

#[test]
fn enforces() {
    use BodyLength::{Chunked, Exact, None, UntilClose};
    for (fields, body, expected) in [
        ("A: b", None, "A: b"),
        ("Content-Length: 5|Transfer-Encoding: chunked|A: b", None, "A: b"),
        ("Content-Length: 5|A: b", Exact(5), "Content-Length: 5|A: b"),
        ("A: b", Exact(5), "A: b|content-length: 5"),
        ("Content-Length: 6|A: b", Exact(5), "A: b|content-length: 5"),
        ("Content-Length: 5|Content-Length: 5", Exact(5), "content-length: 5"),
        ("Transfer-Encoding: chunked", Exact(0), "content-length: 0"),
        ("Transfer-Encoding: CHUNKED", Chunked, "Transfer-Encoding: CHUNKED"),
        ("Content-Length: 5|Transfer-Encoding: chunked", Chunked, "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: gzip|A: b", Chunked, "A: b|transfer-encoding: chunked"),
        ("Transfer-Encoding: chunked|Transfer-Encoding: x", Chunked, "transfer-encoding: chunked"),
        ("Content-Length: 5|A: b", UntilClose, "A: b"),
    ] {
        let mut headers = Headers::new();
        for (name, value) in fields.split('|').filter_map(|line| line.split_once(": ")) {
            headers.add(name.as_bytes(), value.as_bytes());
        }
        enforce_framing(&mut headers, body);
        let mut out = Vec::new();
        headers.write_to(&mut out);
        assert_eq!(String::from_utf8_lossy(&out).trim_end().replace("\r\n", "|"), expected, "{fields} {body:?}");
    }
}

/// A body goes on where its sender said, not where a rule says.
#[test]
fn rules_do_not_move_the_end() {
    let mut head = response("200 OK|Content-Length: 5");
    head.headers.set(b"Content-Length", b"7");
    assert_eq!(response_body_length(&head, Method::Get), BodyLength::Exact(5));
    enforce_response_framing(&mut head, Method::Get);
    assert_eq!(head.headers.first(b"content-length"), Some(&b"5"[..]));

    let mut head = response("304 Not Modified|Content-Length: 5");
    enforce_response_framing(&mut head, Method::Get);
    assert_eq!(head.headers.first(b"content-length"), Some(&b"5"[..]));

    let mut head = response("204 No Content|Content-Length: 5");
    enforce_response_framing(&mut head, Method::Get);
    assert_eq!(head.headers.first(b"content-length"), None);
}

/// A head that was made here is as one that was received, once its fields are settled; until a rule changes one of them.
#[test]
fn what_is_made_here_is_settled() {
    let mut head = ResponseHead::new();
    head.set_status(200);
    head.headers.add(b"Content-Length", b"5");
    assert_eq!(response_body_length(&head, Method::Get), BodyLength::UntilClose);
    head.settle_framing();
    assert_eq!(response_body_length(&head, Method::Get), BodyLength::Exact(5));
    assert_eq!(response_body_length(&head, Method::Head), BodyLength::None);
    head.headers.set(b"Content-Length", b"7");
    enforce_response_framing(&mut head, Method::Get);
    assert_eq!(head.headers.first(b"content-length"), Some(&b"5"[..]));
    // What is not clear is not settled.
    for fields in [&[(b"Content-Length", b"a")][..], &[(b"Content-Length", b"5"); 2], &[]] {
        let mut head = ResponseHead::new();
        head.set_status(200);
        fields.iter().for_each(|(name, value)| head.headers.add(*name, *value));
        head.settle_framing();
        assert_eq!(response_body_length(&head, Method::Get), BodyLength::UntilClose, "{fields:?}");
    }
}
