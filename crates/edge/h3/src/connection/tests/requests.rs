//! Heads: RFC 9114 sections 4.1 to 4.4, RFC 9220.

use super::*;

#[test]
fn a_request_is_that_of_the_other_protocols() {
    let mut client = Client::new();
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "www.example.com:443"),
        (":path", "/a?b=c"),
        ("cookie", "a=1"),
        ("x-one", "1"),
        ("cookie", "b=2"),
    ];
    let events = client.send(0, &headers(&fields), true).unwrap();
    assert!(matches!(events[..], [Event::Request(key)] if key.id() == StreamId(0)), "{events:?}");
    let mut text = Vec::new();
    client.head.write_to(&mut text);
    let expected = "GET /a?b=c HTTP/1.1\r\nhost: www.example.com\r\nx-one: 1\r\ncookie: a=1; b=2\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&text), expected);
    assert_eq!(client.machine.pseudo_fields().scheme(), b"https");
    assert_eq!((client.machine.begun(), client.machine.awaited(), client.machine.streams()), (1, 0, 1));
    assert_eq!(client.orders(), []);
}

#[test]
fn heads_come_in_pieces() {
    let mut client = Client::new();
    let bytes = headers(GET);
    for (at, byte) in bytes.iter().enumerate() {
        let is_last = at + 1 == bytes.len();
        let events = client.send(0, &[*byte], is_last).unwrap();
        assert_eq!((events.len(), client.machine.awaited()), (usize::from(is_last), usize::from(!is_last)));
    }
    assert_eq!(http::request_body_length(&client.head), http::BodyLength::None);
}

#[test]
fn the_end_of_a_request_is_known_with_its_head_or_later() {
    let mut client = Client::new();
    let events = client.send(0, &headers(GET), false).unwrap();
    let [Event::Request(key)] = events[..] else { panic!("{events:?}") };
    assert_eq!(http::request_body_length(&client.head), http::BodyLength::Chunked);
    assert_eq!(client.send(0, &[], true), Ok(vec![Event::Data { stream: key, from: 0, to: 0, ends: true }]));
    assert_eq!(client.send(0, &[], true), Ok(vec![]), "once");
}

/// Section 4.2, 4.3, 4.1.2, and what the parser of HTTP/1 refuses.
#[test]
fn malformed_requests_never_get_out() {
    for fields in [
        &[(":method", "GET"), (":path", "/")][..],
        &[(":method", "GET"), (":scheme", "https"), (":path", "/")],
        &[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "")],
        &[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/ HTTP/1.1\r\nx: y")],
        &[GET[0], GET[1], ("x", "y"), GET[2], GET[3]],
        &[GET[0], GET[1], GET[2], GET[3], GET[0]],
        &[GET[0], GET[1], GET[2], GET[3], (":status", "200")],
        &[GET[0], GET[1], GET[2], GET[3], (":protocol", "websocket")],
        &[GET[0], GET[1], GET[2], GET[3], ("transfer-encoding", "chunked")],
        &[GET[0], GET[1], GET[2], GET[3], ("connection", "x")],
        &[GET[0], GET[1], GET[2], GET[3], ("keep-alive", "1")],
        &[GET[0], GET[1], GET[2], GET[3], ("proxy-connection", "1")],
        &[GET[0], GET[1], GET[2], GET[3], ("upgrade", "h2c")],
        &[GET[0], GET[1], GET[2], GET[3], ("te", "gzip")],
        &[GET[0], GET[1], GET[2], GET[3], ("x", "a\r\nb: c")],
        &[GET[0], GET[1], GET[2], GET[3], ("x", "a\0")],
        &[GET[0], GET[1], GET[2], GET[3], ("x", " a")],
        &[GET[0], GET[1], GET[2], GET[3], ("x y", "a")],
        &[GET[0], GET[1], GET[2], GET[3], ("", "a")],
        &[GET[0], GET[1], GET[2], GET[3], ("x:", "a")],
        &[GET[0], GET[1], GET[2], GET[3], ("host", "b")],
        &[GET[0], GET[1], GET[2], GET[3], ("Upper", "b")],
        &[GET[0], GET[1], GET[2], GET[3], ("content-length", "1")],
        &[GET[0], GET[1], GET[2], GET[3], ("content-length", "0"), ("content-length", "0")],
        &[GET[0], GET[1], GET[2], GET[3], ("content-length", "+0")],
        &[(":method", "CONNECT"), (":scheme", "https"), (":authority", "a:1"), (":path", "/")],
    ] {
        let mut client = Client::new();
        assert_eq!(client.send(0, &headers(fields), true), Ok(vec![Event::Malformed]), "{fields:?}");
        let code = ErrorCode::MESSAGE_ERROR;
        assert_eq!(client.orders(), [reset(0, code), stop(0, code)]);
        assert_eq!((client.machine.streams(), client.machine.awaited()), (0, 0));
        assert_eq!(client.send(0, b"what comes late", true), Ok(vec![]));
        // The next one is served.
        client.begin(4, true);
    }
}

#[test]
fn heads_that_are_too_large_are_answered() {
    let many: Vec<_> = GET.iter().copied().chain((0..300).map(|_| ("x", "y"))).collect();
    let long = "y".repeat(10_000);
    let two = [GET, &[("x", &long), ("y", &long)]].concat();
    // A long name is one byte where it is written as a code that is in the table: what counts is what it stands for.
    let bomb = [&section(GET)[..], &[0xc0 | 58; 400]].concat();
    let announced = numbers(&[kind::HEADERS, 100_000_000]);
    for bytes in [headers(&many), headers(&two), frame(kind::HEADERS, &bomb), announced] {
        let mut client = Client::new();
        assert_eq!(client.send(0, &bytes, false), Ok(vec![Event::HeadTooLarge]));
        assert_eq!(client.orders(), [stop(0, ErrorCode::NO_ERROR), Order::Flush(StreamId(0))]);
        assert_eq!(client.send(0, &[b'x'; 1_000], false), Ok(vec![]), "the rest is on its way");
        let mut half = Half { room: Some(3), ..Half::default() };
        assert!(!client.machine.flush(StreamId(0), &mut half));
        half.room = None;
        assert!(client.machine.flush(StreamId(0), &mut half) && half.is_finished);
        let frames = frames(&half.bytes);
        assert_eq!(fields(&frames[0].1)[0].1, "431");
        assert_eq!((frames.len(), client.machine.streams()), (1, 0));
        client.begin(4, true);
    }
}

/// Section 4.4.
#[test]
fn connect_begins_a_tunnel() {
    let mut client = Client::new();
    let connect = [(":method", "CONNECT"), (":authority", "a:80")];
    let events = client.send(0, &headers(&connect), false).unwrap();
    let [Event::Request(key)] = events[..] else { panic!("{events:?}") };
    assert_eq!((client.head.method(), client.head.target()), (&b"CONNECT"[..], &b"a:80"[..]));
    let events = client.send(0, &frame(kind::DATA, b"abc"), false).unwrap();
    assert_eq!(events, [Event::Data { stream: key, from: 2, to: 5, ends: false }]);
    // Frames that nobody knows may come; those that are known may not.
    assert_eq!(client.send(0, &frame(0x21, b"abc"), false), Ok(vec![]));
    assert_eq!(client.fails(0, &headers(&[("a", "b")]), true), ErrorCode::FRAME_UNEXPECTED);
}

/// RFC 9220.
#[test]
fn connect_names_a_protocol_where_that_is_known() {
    let websocket = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/chat"),
        ("sec-websocket-version", "13"),
    ];
    let mut client = Client::new();
    assert_eq!(client.send(0, &headers(&websocket), false), Ok(vec![Event::Malformed]));
    let mut client = Client::with(Settings { knows_protocols: true, ..Settings::default() });
    let events = client.send(0, &headers(&websocket), false).unwrap();
    let [Event::Request(key)] = events[..] else { panic!("{events:?}") };
    assert_eq!(client.machine.pseudo_fields().protocol(), b"websocket");
    assert_eq!(client.head.headers.first(b"upgrade"), Some(&b"websocket"[..]));
    let events = client.send(0, &frame(kind::DATA, b"abc"), true).unwrap();
    assert_eq!(events, [Event::Data { stream: key, from: 2, to: 5, ends: true }]);
}

/// RFC 9218 sections 5 and 7.
#[test]
fn priorities_are_kept() {
    let mut client = Client::new();
    let key = client.begin(0, true);
    assert_eq!(client.machine.priority(key), Priority::default());
    let urgent = [GET, &[("priority", "u=1, i")]].concat();
    let update = |stream: u64, value: &str| {
        frame(kind::PRIORITY_UPDATE_REQUEST, &[&numbers(&[stream])[..], value.as_bytes()].concat())
    };
    let events = client.send(4, &headers(&urgent), true).unwrap();
    let [Event::Request(second)] = events[..] else { panic!("{events:?}") };
    assert_eq!(client.machine.priority(second), Priority { urgency: 1, is_incremental: true });
    assert_eq!(client.send(2, &update(4, "u=7"), false), Ok(vec![Event::Priority(second)]));
    assert_eq!(client.machine.priority(second), Priority { urgency: 7, is_incremental: false });
    assert_eq!(client.send(2, &update(4, "u=7"), false), Ok(vec![]), "nothing has changed");
    assert_eq!(client.send(2, &update(4, "u="), false), Ok(vec![]), "nothing that can be read");
    // One that comes before its request counts more than the request's field.
    assert_eq!(client.send(2, &update(8, "u=5"), false), Ok(vec![]));
    let events = client.send(8, &headers(&urgent), true).unwrap();
    let [Event::Request(third)] = events[..] else { panic!("{events:?}") };
    assert_eq!(client.machine.priority(third).urgency, 5);
    // As many as the settings allow are kept, the last ones.
    for stream in 3..43 {
        assert_eq!(client.send(2, &update(stream * 4, "u=6"), false), Ok(vec![]));
    }
    let urgencies = [12, 4 * 10, 4 * 11, 4 * 42].map(|stream| {
        let key = client.begin(stream, true);
        client.machine.priority(key).urgency
    });
    assert_eq!(urgencies, [3, 3, 6, 6]);
    for wrong in [3, 1] {
        let mut client = Client::new();
        assert_eq!(client.send(2, &update(wrong, "u=1"), false).unwrap_err().code, ErrorCode::ID_ERROR);
    }
}
