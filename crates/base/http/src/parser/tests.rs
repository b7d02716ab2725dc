use super::{Parsed, RequestParser, ResponseParser};
use crate::error::{ParseError, ParseErrorKind as Kind};
use crate::limits::Limits;
use crate::request::RequestHead;
use crate::response::ResponseHead;
use crate::version::Version;

/// Small limits, so that the table below can reach them.
fn limits() -> Limits {
    Limits { head_bytes_max: 200, headers_max: 6, target_bytes_max: 20, name_bytes_max: 16, ..Limits::default() }
}

fn relaxed() -> Limits {
    Limits { accept_invalid: true, ..limits() }
}

/// What is checked of a request: method, target, version as written, fields, and the length of the head.
type Request = (String, String, String, Vec<(String, String)>, usize);

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Parses the input in pieces: each call sees all bytes up to the next of `ends`.
fn request(input: &[u8], ends: impl Iterator<Item = usize>, limits: &Limits) -> Result<Option<Request>, ParseError> {
    let mut parser = RequestParser::new();
    let mut head = RequestHead::new();
    for end in ends {
        if let Parsed::Complete { consumed } = parser.parse(&input[..end], limits, &mut head)? {
            let fields = head.headers.iter().map(|(name, value)| (text(name), text(value))).collect();
            let version = text(head.version_bytes());
            return Ok(Some((text(head.method()), text(head.target()), version, fields, consumed)));
        }
    }
    Ok(None)
}

/// Parses the input at once, byte by byte and in every two pieces, and expects the same of all.
#[track_caller]
fn request_any_way(input: &str, limits: &Limits) -> Result<Option<Request>, ParseError> {
    let input: Vec<u8> = input.chars().map(|byte| u8::try_from(u32::from(byte)).unwrap()).collect();
    let whole = request(&input, std::iter::once(input.len()), limits);
    assert_eq!(request(&input, 0..=input.len(), limits), whole, "byte by byte");
    for cut in 0..input.len() {
        assert_eq!(request(&input, [cut, input.len()].into_iter(), limits), whole, "cut at {cut}");
    }
    whole
}

#[track_caller]
fn accepts(input: &str, limits: &Limits, expected: (&str, &str, &str, &[(&str, &str)])) {
    let (method, target, version, fields) = expected;
    let fields = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_string())).collect();
    let expected = (method.to_string(), target.to_string(), version.to_string(), fields, input.chars().count());
    assert_eq!(request_any_way(input, limits), Ok(Some(expected)), "{input:?}");
}

#[track_caller]
fn refuses(input: &str, limits: &Limits, kind: Kind, offset: u64) {
    assert_eq!(request_any_way(input, limits), Err(ParseError { kind, offset }), "{input:?}");
}

#[test]
fn requests() {
    accepts("GET / HTTP/1.1\r\nHost: h\r\n\r\n", &limits(), ("GET", "/", "HTTP/1.1", &[("Host", "h")]));
    accepts("G / HTTP/1.0\r\n\r\n", &limits(), ("G", "/", "HTTP/1.0", &[]));
    accepts("\r\n\r\nGET / HTTP/1.0\r\n\r\n", &limits(), ("GET", "/", "HTTP/1.0", &[]));
    accepts("M-S_x!~ /a|b\"{} HTTP/1.0\r\n\r\n", &limits(), ("M-S_x!~", "/a|b\"{}", "HTTP/1.0", &[]));
    // A later minor version is answered, and forwarded, as 1.1.
    accepts("GET / HTTP/1.9\r\nHost: h\r\n\r\n", &limits(), ("GET", "/", "HTTP/1.1", &[("Host", "h")]));
    accepts("GET / HTTP/1.1\r\nHost:\r\n\r\n", &limits(), ("GET", "/", "HTTP/1.1", &[("Host", "")]));
    accepts(
        "GET / HTTP/1.1\r\nhOST:h\r\nA: \r\nB: \t b\t c \t\r\nC: \u{e9}\r\n\r\n",
        &limits(),
        ("GET", "/", "HTTP/1.1", &[("hOST", "h"), ("A", ""), ("B", "b\t c"), ("C", "\u{e9}")]),
    );
    accepts("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", &limits(), ("OPTIONS", "*", "HTTP/1.1", &[("Host", "h")]));
    let connect = "CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n";
    let fields = &[("Host", "h:1"), ("Content-Length", "0")];
    accepts(connect, &limits(), ("CONNECT", "h:1", "HTTP/1.1", fields));
    let absolute = "GET http://H:80/a HTTP/1.1\r\nHost: h\r\n\r\n";
    accepts(absolute, &limits(), ("GET", "http://H:80/a", "HTTP/1.1", &[("Host", "h")]));
}

#[test]
fn request_lines() {
    let limits = &limits();
    refuses(" GET / HTTP/1.1\r\n", limits, Kind::InvalidMethod, 0);
    refuses("G(T / HTTP/1.1\r\n", limits, Kind::InvalidMethod, 1);
    refuses("GET\t/ HTTP/1.1\r\n", limits, Kind::InvalidMethod, 3);
    refuses("GETGETGETGETGETGET / HTTP/1.1\r\n", limits, Kind::MethodTooLong, 16);
    refuses("GET\r\n", limits, Kind::RequestLine, 3);
    refuses("GET /\r\n", limits, Kind::RequestLine, 5);
    refuses("GET  / HTTP/1.1\r\n", limits, Kind::RequestLine, 4);
    refuses("GET /  HTTP/1.1\r\n", limits, Kind::RequestLine, 6);
    refuses("GET / a HTTP/1.1\r\n", limits, Kind::RequestLine, 6);
    refuses("GET / HTTP/1.1 \r\n", limits, Kind::RequestLine, 6);
    refuses("GET /\u{e9} HTTP/1.1\r\n", limits, Kind::InvalidTargetByte, 5);
    refuses("GET /a#b HTTP/1.1\r\n", limits, Kind::InvalidTargetByte, 6);
    refuses("GET /a\tb HTTP/1.1\r\n", limits, Kind::InvalidTargetByte, 6);
    refuses("GET /aaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n", limits, Kind::TargetTooLong, 24);
    refuses("GET a HTTP/1.1\r\n", limits, Kind::InvalidTarget, 4);
    refuses("GET * HTTP/1.1\r\n", limits, Kind::InvalidTarget, 4);
    refuses("GET http:///a HTTP/1.1\r\n", limits, Kind::InvalidTarget, 4);
    refuses("GET http://u@h/a HTTP/1.1\r\n", limits, Kind::InvalidTarget, 4);
    refuses("GET http://:1/a HTTP/1.1\r\n", limits, Kind::InvalidTarget, 4);
    refuses("GET http://a,b/ HTTP/1.1\r\n", limits, Kind::InvalidTarget, 4);
    refuses("CONNECT / HTTP/1.1\r\n", limits, Kind::InvalidTarget, 8);
    refuses("CONNECT h HTTP/1.1\r\n", limits, Kind::InvalidTarget, 8);
    refuses("CONNECT h: HTTP/1.1\r\n", limits, Kind::InvalidTarget, 8);
    refuses("CONNECT h:1a HTTP/1.1\r\n", limits, Kind::InvalidTarget, 8);
    refuses("CONNECT :1 HTTP/1.1\r\n", limits, Kind::InvalidTarget, 8);
    refuses("GET / http/1.1\r\n", limits, Kind::InvalidVersion, 6);
    refuses("GET / HTTP/1.10\r\n", limits, Kind::InvalidVersion, 6);
    refuses("GET / HTTP/11\r\n", limits, Kind::InvalidVersion, 6);
    refuses("GET / HTTP/1,1\r\n", limits, Kind::InvalidVersion, 6);
    refuses("GET / HTTP/1.\r\n", limits, Kind::InvalidVersion, 6);
    refuses("GET / \r\n", limits, Kind::InvalidVersion, 6);
    refuses("GET / RTSP/1.1\r\n", limits, Kind::InvalidVersion, 6);
    refuses("GET / HTTP/2.0\r\n", limits, Kind::UnsupportedVersion, 6);
    refuses("GET / HTTP/0.9\r\n", limits, Kind::UnsupportedVersion, 6);
    refuses("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", limits, Kind::Http2Preface, 0);
    refuses("\r\n\r\n\r\n\r\n\r\n", limits, Kind::TooManyEmptyLines, 8);
    // A TLS ClientHello is refused at its first byte.
    refuses("\x16\x03\x01", limits, Kind::ControlByte, 0);
}

#[test]
fn limits_hold() {
    let limits = &limits();
    let fields = |count: usize| format!("GET / HTTP/1.0\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert!(request_any_way(&fields(5), limits).is_ok());
    refuses(&fields(6), limits, Kind::TooManyFields, 16 + 5 * 6);
    refuses("GET / HTTP/1.0\r\naaaaaaaaaaaaaaaaa: b\r\n\r\n", limits, Kind::NameTooLong, 32);

    let head = |len: usize| format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "b".repeat(len - 23));
    assert!(matches!(request_any_way(&head(200), limits), Ok(Some((.., 200)))));
    refuses(&head(201), limits, Kind::HeadTooLarge, 200);
    refuses(&head(201)[..200], limits, Kind::HeadTooLarge, 200);
    assert_eq!(request_any_way(&head(201)[..199], limits), Ok(None));
    refuses(&"a".repeat(200), limits, Kind::TargetTooLong, 200);
    // Within the limit everything is looked at before the limit is.
    refuses(&format!("GET / HTTP/1.0\r\nA b\r\n{}", "c".repeat(300)), limits, Kind::MissingColon, 19);
}

#[test]
fn field_lines() {
    for (lines, kind, offset) in [
        ("A\r\n", Kind::MissingColon, 1),
        ("a b\r\n", Kind::MissingColon, 3),
        (": b\r\n", Kind::EmptyName, 0),
        (" A: b\r\n", Kind::ObsoleteFold, 0),
        ("\tA: b\r\n", Kind::ObsoleteFold, 0),
        (" \r\n", Kind::ObsoleteFold, 0),
        (" : b\r\n", Kind::ObsoleteFold, 0),
        ("A: b\r\n c\r\n", Kind::ObsoleteFold, 6),
        ("A : b\r\n", Kind::SpaceBeforeColon, 1),
        ("A\t: b\r\n", Kind::SpaceBeforeColon, 1),
        ("Content-Length : 5\r\n", Kind::SpaceBeforeColon, 14),
        ("A B: c\r\n", Kind::InvalidNameByte, 1),
        ("A(: b\r\n", Kind::InvalidNameByte, 1),
        ("\u{e9}: b\r\n", Kind::InvalidNameByte, 0),
        ("A\0: b\r\n", Kind::Nul, 1),
        ("A: \0\r\n", Kind::Nul, 3),
        ("A: b\rc\r\n", Kind::BareCr, 4),
        ("A: b\r\r\n", Kind::BareCr, 4),
        ("A: b\nB: c\r\n", Kind::BareLf, 4),
        ("\n", Kind::BareLf, 0),
        ("\r\r\n", Kind::BareCr, 0),
        ("A: \x01\r\n", Kind::ControlByte, 3),
        ("A: \x7f\r\n", Kind::ControlByte, 3),
        ("A\x1b: b\r\n", Kind::ControlByte, 1),
    ] {
        refuses(&format!("GET / HTTP/1.0\r\n{lines}\r\n"), &limits(), kind, 16 + offset);
    }
}

#[test]
fn relaxed_requests() {
    let relaxed = &relaxed();
    let fields = &[("A B", "c"), ("D(", "e\x01\x7f"), ("\u{e9}", "")];
    accepts("GET / HTTP/1.0\r\nA B: c\r\nD(: e\x01\x7f\r\n\u{e9}:\r\n\r\n", relaxed, ("GET", "/", "HTTP/1.0", fields));
    accepts("GET /\u{e9}#f HTTP/1.0\r\n\r\n", relaxed, ("GET", "/\u{e9}#f", "HTTP/1.0", &[]));
    accepts("GET rel/path HTTP/1.0\r\n\r\n", relaxed, ("GET", "rel/path", "HTTP/1.0", &[]));
    accepts("GET / RTSP/1.0\r\n\r\n", relaxed, ("GET", "/", "RTSP/1.0", &[]));
    accepts("GET / HTTP/01.10\r\n\r\n", relaxed, ("GET", "/", "HTTP/01.10", &[]));
    accepts("GET / HTTP/3.0\r\nHost: h/\r\n\r\n", relaxed, ("GET", "/", "HTTP/3.0", &[("Host", "h/")]));
    accepts("GET /old\r\n", relaxed, ("GET", "/old", "HTTP/1.0", &[]));

    refuses("POST /old\r\n", relaxed, Kind::RequestLine, 9);
    refuses("GET  /\r\n", relaxed, Kind::RequestLine, 4);
    refuses("GET / HT(P\r\n", relaxed, Kind::InvalidVersion, 6);
    refuses("GET / \r\n", relaxed, Kind::InvalidVersion, 6);
    refuses("GET /\x01 HTTP/1.0\r\n", relaxed, Kind::InvalidTargetByte, 5);
    refuses("GET /\x7f HTTP/1.0\r\n", relaxed, Kind::InvalidTargetByte, 5);
    refuses("GET / HTTP/3.0\r\n\r\n", relaxed, Kind::MissingHost, 16);
    refuses("PRI * HTTP/2.0\r\n", relaxed, Kind::Http2Preface, 0);
}

/// What decides where a message ends is never relaxed.
#[test]
fn framing_is_never_relaxed() {
    for (lines, kind, offset) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Kind::LengthAndEncoding, 38),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Kind::LengthAndEncoding, 44),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", Kind::RepeatedLength, 35),
        ("Content-Length: 5, 5\r\n", Kind::InvalidLength, 16),
        ("Content-Length:\r\n", Kind::InvalidLength, 15),
        ("Content-Length: 9999999999999999999\r\n", Kind::LengthTooLarge, 16),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Kind::RepeatedEncoding, 47),
        ("Transfer-Encoding: gzip, chunked\r\n", Kind::UnknownCoding, 19),
        ("Transfer-Encoding: gzip\t,deflate,Chunked\r\n", Kind::UnknownCoding, 19),
        ("Transfer-Encoding: chunked, chunked\r\n", Kind::UnsupportedEncoding, 19),
        ("Transfer-Encoding: gzip,, chunked\r\n", Kind::UnsupportedEncoding, 19),
        ("Transfer-Encoding: chunked, gzip\r\n", Kind::UnsupportedEncoding, 19),
        ("Transfer-Encoding: \x0bchunked\r\n", Kind::UnsupportedEncoding, 19),
        ("Transfer-Encoding:\r\n", Kind::UnsupportedEncoding, 18),
        ("Transfer-Encoding : chunked\r\n", Kind::SpaceBeforeColon, 17),
        ("A: b\r\n Transfer-Encoding: chunked\r\n", Kind::ObsoleteFold, 6),
        ("A: b\nB: c\r\n", Kind::BareLf, 4),
        ("A: b\rB: c\r\n", Kind::BareCr, 4),
        ("A: b\0\r\n", Kind::Nul, 4),
        ("Host: h\r\nHost: h\r\n", Kind::RepeatedHost, 15),
    ] {
        let limits = Limits { name_bytes_max: 30, ..relaxed() };
        refuses(&format!("GET / HTTP/1.1\r\n{lines}\r\n"), &limits, kind, 16 + offset);
    }
    refuses(
        "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        &Limits { name_bytes_max: 30, ..relaxed() },
        Kind::EncodingOnHttp10,
        35,
    );
}

#[test]
fn hosts() {
    for (target_and_fields, kind, offset) in [
        ("/ HTTP/1.1\r\n", Kind::MissingHost, 16),
        ("/ HTTP/1.1\r\nHost: a\r\nhost: a\r\n", Kind::RepeatedHost, 31),
        ("/ HTTP/1.0\r\nHost: a\r\nHost: b\r\n", Kind::RepeatedHost, 31),
        ("/ HTTP/1.1\r\nHost: a, b\r\n", Kind::InvalidHost, 23),
        ("/ HTTP/1.1\r\nHost: a b\r\n", Kind::InvalidHost, 23),
        ("/ HTTP/1.1\r\nHost: a/\r\n", Kind::InvalidHost, 23),
        ("/ HTTP/1.1\r\nHost: u@a\r\n", Kind::InvalidHost, 23),
        ("http://a/ HTTP/1.1\r\nHost: b\r\n", Kind::HostMismatch, 30),
        ("http://a/ HTTP/1.0\r\nHost: b\r\n", Kind::HostMismatch, 30),
        ("http://a:1/ HTTP/1.1\r\nHost: a\r\n", Kind::HostMismatch, 32),
        ("http://a/ HTTP/1.1\r\nHost:\r\n", Kind::HostMismatch, 29),
    ] {
        refuses(&format!("GET {target_and_fields}\r\n"), &limits(), kind, offset);
    }
    refuses("CONNECT a:1 HTTP/1.1\r\nHost: b:1\r\n\r\n", &limits(), Kind::HostMismatch, 28);
    refuses("CONNECT a:1 HTTP/1.0\r\nContent-Length: 1\r\n\r\n", &limits(), Kind::BodyOnConnect, 41);
    refuses("\r\nGET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", &limits(), Kind::HostMismatch, 32);
}

/// What is checked of a response: status, reason, version as written, and the length of the head.
type Response = (u16, String, String, usize);

fn response(input: &[u8], ends: impl Iterator<Item = usize>, limits: &Limits) -> Result<Option<Response>, ParseError> {
    let mut parser = ResponseParser::new();
    let mut head = ResponseHead::new();
    for end in ends {
        if let Parsed::Complete { consumed } = parser.parse(&input[..end], limits, &mut head)? {
            return Ok(Some((head.status(), text(head.reason()), text(head.version_bytes()), consumed)));
        }
    }
    Ok(None)
}

#[track_caller]
fn check_response(line: &str, limits: &Limits, expected: Result<(u16, &str, &str), (Kind, u64)>) {
    let input = format!("{line}\r\nA: b\r\n\r\n");
    let input: Vec<u8> = input.chars().map(|byte| u8::try_from(u32::from(byte)).unwrap()).collect();
    let expected = expected
        .map(|(status, reason, version)| Some((status, reason.to_string(), version.to_string(), input.len())))
        .map_err(|(kind, offset)| ParseError { kind, offset });
    assert_eq!(response(&input, std::iter::once(input.len()), limits), expected, "{line}");
    assert_eq!(response(&input, 0..=input.len(), limits), expected, "{line} byte by byte");
}

#[test]
fn status_lines() {
    let limits = &limits();
    check_response("HTTP/1.1 200 OK", limits, Ok((200, "OK", "HTTP/1.1")));
    check_response("HTTP/1.0 404 Not  Found ", limits, Ok((404, "Not  Found ", "HTTP/1.0")));
    check_response("HTTP/1.1 200 ", limits, Ok((200, "", "HTTP/1.1")));
    check_response("HTTP/1.1 200", limits, Ok((200, "", "HTTP/1.1")));
    check_response("HTTP/1.1 999 \u{e9}\t", limits, Ok((999, "\u{e9}\t", "HTTP/1.1")));

    check_response("HTTP/1.1", limits, Err((Kind::StatusLine, 8)));
    check_response("HTTP/1.1 ", limits, Err((Kind::StatusLine, 8)));
    check_response("HTTP/1.1  200 OK", limits, Err((Kind::StatusLine, 8)));
    check_response("HTTP/1.1 099 OK", limits, Err((Kind::InvalidStatus, 9)));
    check_response("HTTP/1.1 20 OK", limits, Err((Kind::InvalidStatus, 9)));
    check_response("HTTP/1.1 2000 OK", limits, Err((Kind::InvalidStatus, 9)));
    check_response("HTTP/1.1 200OK", limits, Err((Kind::InvalidStatus, 9)));
    check_response("HTTP/1.1 +20 OK", limits, Err((Kind::InvalidStatus, 9)));
    check_response("HTTP/1.1 200\tOK", limits, Err((Kind::InvalidStatus, 9)));
    check_response("HTTP/1.1\t200 OK", limits, Err((Kind::InvalidVersion, 0)));
    check_response("http/1.1 200 OK", limits, Err((Kind::InvalidVersion, 0)));
    check_response("HTTP/2.0 200 OK", limits, Err((Kind::UnsupportedVersion, 0)));
    check_response("ICY 200 OK", limits, Err((Kind::InvalidVersion, 0)));
    check_response("HTTP/1.1 200 O\0K", limits, Err((Kind::Nul, 14)));
    check_response("HTTP/1.1 200 O\x01K", limits, Err((Kind::ControlByte, 14)));
    check_response("HTTP/1.1 200 OK\n", limits, Err((Kind::BareLf, 15)));
    check_response("\r\nHTTP/1.1 200 OK", limits, Err((Kind::InvalidVersion, 0)));
    check_response(" HTTP/1.1 200 OK", limits, Err((Kind::InvalidVersion, 0)));

    check_response("HTTP/1.10 200 OK", &relaxed(), Ok((200, "OK", "HTTP/1.10")));
    check_response("ICY 200 O\x01K", &relaxed(), Ok((200, "O\x01K", "ICY")));
    check_response("HTTP/1.1 20 OK", &relaxed(), Err((Kind::InvalidStatus, 9)));
}

/// Who speaks another protocol may wait for an answer and never end the line.
#[test]
fn tells_what_cannot_become_a_start_line() {
    let incomplete = Ok(Parsed::Incomplete);
    let bad = |kind, offset| Err(ParseError { kind, offset });
    for (input, expected) in [
        ("", incomplete),
        ("G", incomplete),
        ("GET ", incomplete),
        ("\r", incomplete),
        ("\r\n\r\nGET", incomplete),
        ("{\"a\"", bad(Kind::InvalidMethod, 0)),
        ("GET/x", bad(Kind::InvalidMethod, 3)),
        ("\r\nG@", bad(Kind::InvalidMethod, 3)),
        (" GET", bad(Kind::InvalidMethod, 0)),
    ] {
        let parsed = RequestParser::new().parse(input.as_bytes(), &limits(), &mut RequestHead::new());
        assert_eq!(parsed, expected, "{input}");
    }
    for (input, expected) in [
        ("", incomplete),
        ("HTTP/1.1", incomplete),
        ("HTTP/1.1 200", incomplete),
        ("<html>", bad(Kind::InvalidVersion, 0)),
        ("220-mail", bad(Kind::InvalidVersion, 0)),
    ] {
        let parsed = ResponseParser::new().parse(input.as_bytes(), &limits(), &mut ResponseHead::new());
        assert_eq!(parsed, expected, "{input}");
    }
}

#[test]
fn response_head_limit() {
    let input = format!("HTTP/1.1 200 {}\r\n\r\n", "a".repeat(300));
    let expected = Err(ParseError { kind: Kind::HeadTooLarge, offset: 200 });
    assert_eq!(response(input.as_bytes(), std::iter::once(input.len()), &limits()), expected);
    assert_eq!(response(input.as_bytes(), 0..=input.len(), &limits()), expected);
}

/// One parser and one head serve a connection: nothing of a message stays in the next.
#[test]
fn parses_pipelined_requests() {
    let input: &[u8] =
        b"POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n\r\nGET /2 HTTP/1.0\r\nA: b\r\n\r\nGET";
    let (mut parser, mut head) = (RequestParser::new(), RequestHead::new());
    let Ok(Parsed::Complete { consumed: first }) = parser.parse(input, &limits(), &mut head) else { panic!() };
    assert_eq!((head.target(), head.headers.len(), head.version()), (&b"/1"[..], 2, Version::Http11));
    let Ok(Parsed::Complete { consumed: second }) = parser.parse(&input[first..], &limits(), &mut head) else {
        panic!()
    };
    assert_eq!((head.target(), head.headers.len(), head.version()), (&b"/2"[..], 1, Version::Http10));
    assert_eq!(crate::request_body_length(&head), crate::BodyLength::None);
    assert_eq!(parser.parse(&input[first + second..], &limits(), &mut head), Ok(Parsed::Incomplete));
    parser.reset();
    assert!(matches!(parser.parse(b"GET /3 HTTP/1.0\r\n\r\n", &limits(), &mut head), Ok(Parsed::Complete { .. })));
    assert_eq!(head.target(), b"/3");
}

/// Parsing into a head again takes no more memory than the first time.
#[test]
fn recycles_memory() {
    let input = b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n";
    let (mut parser, mut head) = (RequestParser::new(), RequestHead::new());
    parser.parse(input, &limits(), &mut head).unwrap();
    let bytes = head.headers.memory_bytes();
    for _ in 0..100 {
        parser.parse(input, &limits(), &mut head).unwrap();
    }
    assert_eq!(head.headers.memory_bytes(), bytes);
}

#[test]
fn errors_say_what_and_where() {
    let error = request(b"GET / HTTP/1.1\r\nA : b\r\n", std::iter::once(23), &limits()).unwrap_err();
    assert_eq!(error.to_string(), "white space between header name and colon at byte 17");
    assert_eq!(error.status(crate::Sender::Client), 400);
    assert_eq!(error.status(crate::Sender::Server), 502);
    let statuses: Vec<u16> = Kind::ALL.iter().map(|kind| kind.client_status()).collect();
    assert!(statuses.iter().all(|status| [400, 414, 422, 431, 505].contains(status)));
    let mut names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Kind::ALL.len());
}

/// What Varnish takes.
fn varnish() -> Limits {
    Limits { as_varnish: true, name_bytes_max: 30, line_bytes_max: 40, ..limits() }
}

#[test]
fn a_lone_lf_ends_a_line_where_that_is_allowed() {
    accepts(
        "GET / HTTP/1.1\nHost: a\nB:  c \r\n\n",
        &varnish(),
        ("GET", "/", "HTTP/1.1", &[("Host", "a"), ("B", "c")]),
    );
    refuses("GET / HTTP/1.1\nHost: a\rB: c\n\n", &varnish(), Kind::BareCr, 22);
    let both = "GET / HTTP/1.1\nContent-Length: 1\nTransfer-Encoding: chunked\n\n";
    refuses(both, &varnish(), Kind::LengthAndEncoding, 52);
    let mut head = RequestHead::new();
    let parsed = RequestParser::new().parse(b"GET / HTTP/1.1\nHost: a\n\n", &varnish(), &mut head);
    assert!(matches!(parsed, Ok(Parsed::Complete { .. })));
    let mut sent = Vec::new();
    head.write_to(&mut sent);
    assert_eq!(sent, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
}

#[test]
fn a_field_goes_on_in_the_next_line_where_that_is_allowed() {
    accepts("GET / HTTP/1.1\r\nA: b\r\n \tc\r\n\r\n", &varnish(), ("GET", "/", "HTTP/1.1", &[("A", "b    c")]));
    refuses("GET / HTTP/1.1\r\n A: b\r\n\r\n", &varnish(), Kind::ObsoleteFold, 16);
    refuses("GET / HTTP/1.1\r\nContent-Length: 1\r\n 2\r\n\r\n", &varnish(), Kind::ObsoleteFold, 35);
    refuses(
        "GET / HTTP/1.1\r\nA: 345678901234567890\r\n 3456789012345678901\r\n\r\n",
        &varnish(),
        Kind::LineTooLong,
        39,
    );
}

#[test]
fn the_first_line_is_looser_as_varnish_reads_it() {
    accepts("GET   from_vcl  HTTP/1.0 \r\n\r\n", &varnish(), ("GET", "from_vcl", "HTTP/1.0", &[]));
    accepts(
        "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
        &varnish(),
        ("GET", "http://a/", "HTTP/1.1", &[("Host", "b")]),
    );
    for (line, at) in [("GET / HTTP/1.2", 6), ("GET / http/1.1", 6), ("GET /", 5)] {
        refuses(&format!("{line}\r\n\r\n"), &varnish(), Kind::InvalidVersion, at);
    }
    refuses("GET    \nHost: a\n\n", &varnish(), Kind::RequestLine, 7);
    refuses("HEAD / HTTP/1.1\r\nContent-Length: 1\r\n\r\n", &varnish(), Kind::InvalidLength, 37);
    refuses("POST / HTTP/1.0\r\n\r\n", &varnish(), Kind::InvalidLength, 18);
}
