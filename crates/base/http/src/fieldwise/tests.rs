use super::*;
use crate::{BodyLength, request_body_length};

const GET: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "http"), (":authority", "example.com"), (":path", "/a?b=c")];

/// What comes of these fields: the head as lines, and how its body ends.
fn build(fields: &[(&str, &str)], has_body: bool) -> Result<(String, BodyLength), FieldError> {
    let (mut head, mut pseudo) = (RequestHead::new(), PseudoFields::default());
    let mut request = FieldwiseRequest::new(&mut head, &mut pseudo, &Limits::default());
    for (name, value) in fields {
        request.field(name.as_bytes(), value.as_bytes())?;
    }
    request.finish(has_body)?;
    let mut text = Vec::new();
    head.write_to(&mut text);
    Ok((String::from_utf8(text).unwrap(), request_body_length(&head)))
}

fn with(more: &[(&str, &str)], has_body: bool) -> Result<(String, BodyLength), FieldError> {
    build(&[GET, more].concat(), has_body)
}

#[test]
fn fields_become_lines() {
    let (text, length) = with(&[("accept", "*/*"), ("cookie", "a=1"), ("x", ""), ("cookie", "b=2")], false).unwrap();
    let expected = "GET /a?b=c HTTP/1.1\r\nhost: example.com\r\naccept: */*\r\nx: \r\ncookie: a=1; b=2\r\n\r\n";
    assert_eq!((text.as_str(), length), (expected, BodyLength::None));
    let (text, length) = with(&[("host", "EXAMPLE.com"), ("te", "trailers")], true).unwrap();
    let expected = "GET /a?b=c HTTP/1.1\r\nhost: example.com\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!((text.as_str(), length), (expected, BodyLength::Chunked));
    let (text, length) = with(&[("content-length", "3")], true).unwrap();
    assert_eq!(
        (text.as_str(), length),
        ("GET /a?b=c HTTP/1.1\r\nhost: example.com\r\ncontent-length: 3\r\n\r\n", BodyLength::Exact(3))
    );
    let options = [(":method", "OPTIONS"), (":scheme", "https"), (":path", "*"), ("host", "a:443")];
    assert_eq!(build(&options, false).unwrap().0, "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n");
    for (scheme, authority, host) in [
        ("http", "a:80", "a"),
        ("http", "a:443", "a:443"),
        ("https", "[::1]:443", "[::1]"),
        ("http", "[::80]", "[::80]"),
    ] {
        let fields = [(":method", "GET"), (":scheme", scheme), (":authority", authority), (":path", "/")];
        assert_eq!(build(&fields, false).unwrap().0, format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"));
    }
    let connect = [(":method", "CONNECT"), (":authority", "a:443")];
    assert!(build(&connect, false).unwrap().0.starts_with("CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n"));
}

#[test]
fn connect_may_name_a_protocol_where_that_was_offered() {
    let build = |fields: &[(&str, &str)], knows: bool| {
        let (mut head, mut pseudo) = (RequestHead::new(), PseudoFields::default());
        let mut request = FieldwiseRequest::new(&mut head, &mut pseudo, &Limits::default()).knowing_protocols(knows);
        for (name, value) in fields {
            request.field(name.as_bytes(), value.as_bytes())?;
        }
        request.finish(true)?;
        let mut text = Vec::new();
        head.write_to(&mut text);
        Ok::<_, FieldError>((String::from_utf8(text).unwrap(), request_body_length(&head)))
    };
    let all = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "example.com"),
        (":path", "/chat"),
        ("sec-websocket-version", "13"),
    ];
    let text = "GET /chat HTTP/1.1\r\nhost: example.com\r\nsec-websocket-version: 13\r\nconnection: upgrade\r\n\
                upgrade: websocket\r\n\r\n";
    assert_eq!(build(&all, true), Ok((text.to_owned(), BodyLength::None)));
    assert_eq!(build(&all, false), Err(FieldError::PseudoField));
    for missing in 2..5 {
        let fields: Vec<_> = all.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, field)| *field).collect();
        assert_eq!(build(&fields, true), Err(FieldError::PseudoField), "{missing}");
    }
    let mut get = all;
    get[0].1 = "GET";
    assert_eq!(build(&get, true), Err(FieldError::PseudoField));
    let mut odd = all;
    odd[1].1 = "a b";
    assert!(build(&odd, true).is_err());
}

#[test]
fn what_would_be_read_in_two_ways_is_refused() {
    use FieldError::{Blank, ConnectionField, Malformed, PseudoField, Te, UpperCase};
    for (field, error) in [
        (("X-A", "b"), UpperCase),
        (("x a", "b"), Malformed(Kind::InvalidNameByte)),
        (("x:", "b"), Malformed(Kind::InvalidNameByte)),
        (("x\r\ny", "b"), Malformed(Kind::InvalidNameByte)),
        (("", "b"), Malformed(Kind::EmptyName)),
        (("x\u{e4}", "b"), Malformed(Kind::InvalidNameByte)),
        (("x", "a\r\nb: c"), Malformed(Kind::BareCr)),
        (("x", "a\nb: c"), Malformed(Kind::BareLf)),
        (("x", "a\0"), Malformed(Kind::Nul)),
        (("x", "a\u{1}"), Malformed(Kind::ControlByte)),
        (("x", " a"), Blank),
        (("x", "a\t"), Blank),
        (("connection", "close"), ConnectionField),
        (("keep-alive", "timeout=5"), ConnectionField),
        (("proxy-connection", "keep-alive"), ConnectionField),
        (("transfer-encoding", "chunked"), ConnectionField),
        (("upgrade", "h2c"), ConnectionField),
        (("te", "gzip"), Te),
        (("te", "trailers, gzip"), Te),
        (("host", "other.com"), Malformed(Kind::HostMismatch)),
        (("host", "example.com:443"), Malformed(Kind::HostMismatch)),
        (("host", "u@example.com"), Malformed(Kind::InvalidHost)),
        (("content-length", "+3"), Malformed(Kind::InvalidLength)),
        (("content-length", "3, 3"), Malformed(Kind::InvalidLength)),
        (("content-length", "3"), Malformed(Kind::InvalidLength)),
        ((":path", "/b"), PseudoField),
        ((":status", "200"), PseudoField),
        ((":protocol", "websocket"), PseudoField),
        ((":", "b"), PseudoField),
        ((":Path", "/b"), PseudoField),
    ] {
        assert_eq!(with(&[field], false), Err(error), "{field:?}");
    }
    for repeated in ["content-length", "host"] {
        let value = if repeated == "host" { "example.com" } else { "3" };
        assert!(with(&[(repeated, value), (repeated, value)], true).is_err(), "{repeated}");
    }
    assert_eq!(with(&[("x", "y"), (":path", "/")], false), Err(PseudoField));
}

#[test]
fn pseudo_fields_are_what_a_request_line_may_be() {
    let one = |name: &str, value: &str| {
        let changed: Vec<_> = GET.iter().map(|field| if field.0 == name { (name, value) } else { *field }).collect();
        build(&changed, false)
    };
    for (name, value) in [
        (":method", ""),
        (":method", "G T"),
        (":method", "GET\r\n"),
        (":path", ""),
        (":path", "a"),
        (":path", "*"),
        (":path", "http://a/"),
        (":path", "/a b"),
        (":path", "/a HTTP/1.1\r\nx: y"),
        (":path", "/a#b"),
        (":path", "/\u{e4}"),
        (":scheme", ""),
        (":scheme", "http://a/?"),
        (":authority", ""),
        (":authority", "a/b"),
        (":authority", "u@a"),
        (":authority", "a:99999"),
        (":authority", "a b"),
    ] {
        assert!(one(name, value).is_err(), "{name} {value:?}");
    }
    for missing in [":method", ":scheme", ":authority", ":path"] {
        let left: Vec<_> = GET.iter().copied().filter(|field| field.0 != missing).collect();
        assert!(build(&left, false).is_err(), "{missing}");
    }
    assert!(build(&[&[(":method", "CONNECT")], &GET[1..]].concat(), false).is_err());
}

#[test]
fn trailers_are_no_head() {
    let judge = |name: &str, value: &str| judge_trailer(name.as_bytes(), value.as_bytes(), &Limits::default());
    assert_eq!(judge("grpc-status", "0"), Ok(()));
    for (name, value) in [(":path", "/"), ("connection", "close"), ("X", "y"), ("x", "a\r\nb"), ("", ""), ("host", "a")]
    {
        assert!(judge(name, value).is_err(), "{name}");
    }
}

#[test]
fn fields_of_responses_become_lines() {
    use crate::{ResponseHead, response_body_length};
    let build = |fields: &[(&str, &str)], method, ends| {
        let mut head = ResponseHead::new();
        let mut response = FieldwiseResponse::new(&mut head, &Limits::default());
        for (name, value) in fields {
            response.field(name.as_bytes(), value.as_bytes())?;
        }
        response.finish(method, ends)?;
        let mut text = Vec::new();
        head.write_to(&mut text);
        Ok::<_, FieldError>((String::from_utf8(text).unwrap(), response_body_length(&head, method)))
    };
    let ok = (":status", "200");
    let chunked = "HTTP/1.1 200 OK\r\nx: \r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(build(&[ok, ("x", "")], Method::Get, false), Ok((chunked.to_owned(), BodyLength::Chunked)));
    let known = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n".to_owned();
    assert_eq!(build(&[ok, ("content-length", "3")], Method::Get, false), Ok((known, BodyLength::Exact(3))));
    // A client of HTTP/1 would wait for the body of one that says nothing, and take the next answer for it.
    let empty = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned();
    assert_eq!(build(&[ok], Method::Get, true), Ok((empty, BodyLength::Exact(0))));
    let bare = "HTTP/1.1 200 OK\r\n\r\n".to_owned();
    assert_eq!(build(&[ok], Method::Head, true), Ok((bare, BodyLength::None)));
    let none = "HTTP/1.1 204 No Content\r\n\r\n".to_owned();
    assert_eq!(build(&[(":status", "204")], Method::Get, true), Ok((none, BodyLength::None)));
    for (fields, ends, error) in [
        (&[][..], true, FieldError::PseudoField),
        (&[ok, ok], true, FieldError::PseudoField),
        (&[("a", "b"), ok], true, FieldError::PseudoField),
        (&[(":method", "GET")], true, FieldError::PseudoField),
        (&[(":status", "2000")], true, Kind::InvalidStatus.into()),
        (&[(":status", "101")], false, Kind::InvalidStatus.into()),
        (&[(":status", "100")], true, Kind::InvalidStatus.into()),
        (&[ok, ("upgrade", "x")], true, FieldError::ConnectionField),
        (&[ok, ("content-length", "3")], true, Kind::InvalidLength.into()),
        (&[ok, ("content-length", "3"), ("content-length", "3")], false, Kind::RepeatedLength.into()),
    ] {
        assert_eq!(build(fields, Method::Get, ends), Err(error), "{fields:?}");
    }
}
