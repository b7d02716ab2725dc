//! Bodies and trailers, both ways: RFC 9114 sections 4.1, 4.2 and 7.2.

use super::*;

#[test]
fn bodies_and_trailers_come() {
    let mut client = Client::new();
    let key = client.begin(0, false);
    let bytes = [&frame(kind::DATA, b"abc")[..], &frame(kind::DATA, b"de"), &headers(&[("grpc-status", "0")])].concat();
    let events = client.send(0, &bytes, true).unwrap();
    let expected = [
        Event::Data { stream: key, from: 2, to: 5, ends: false },
        Event::Data { stream: key, from: 7, to: 9, ends: false },
        Event::Trailers(key),
    ];
    assert_eq!((&events[..], client.machine.trailers()), (&expected[..], &b"grpc-status: 0\r\n"[..]));
    assert_eq!(client.orders(), []);
    // The end is known with the last bytes, if they are there together.
    let key = client.begin(4, false);
    let events = client.send(4, &frame(kind::DATA, b"abc"), true).unwrap();
    assert_eq!(events, [Event::Data { stream: key, from: 2, to: 5, ends: true }]);
    // Pieces of a frame are pieces of the body.
    let key = client.begin(8, false);
    let bytes = frame(kind::DATA, &[b'x'; 1_000]);
    assert_eq!(client.send(8, &bytes[..2], false), Ok(vec![]));
    let events = client.send(8, &bytes[2..500], false).unwrap();
    assert_eq!(events, [Event::Data { stream: key, from: 1, to: 498, ends: false }]);
    let events = client.send(8, &bytes[500..], true).unwrap();
    assert_eq!(events, [Event::Data { stream: key, from: 0, to: bytes.len() - 500, ends: true }]);
}

#[test]
fn nothing_comes_behind_trailers() {
    let trailers = headers(&[("x", "y")]);
    for more in [&trailers, &frame(kind::DATA, b"x")] {
        let mut client = Client::new();
        client.begin(0, false);
        let key = client.machine.streams.find(StreamId(0)).unwrap();
        assert_eq!(client.send(0, &trailers, false), Ok(vec![Event::Trailers(key)]));
        assert_eq!(client.send(0, &frame(0x21, b"x"), false), Ok(vec![]));
        assert_eq!(client.fails(0, more, false), ErrorCode::FRAME_UNEXPECTED);
    }
    let mut client = Client::new();
    client.begin(0, false);
    client.send(0, &trailers, false).unwrap();
    assert_eq!(client.send(0, &[], true), Ok(vec![]));
}

#[test]
fn malformed_trailers_end_their_stream() {
    let long = "y".repeat(16_000);
    for fields in [
        &[(":path", "/")][..],
        &[("content-length", "1")],
        &[("transfer-encoding", "x")],
        &[("Upper", "x")],
        &[("x", &long)],
    ] {
        let mut client = Client::new();
        let key = client.begin(0, false);
        let code = ErrorCode::MESSAGE_ERROR;
        let events = client.send(0, &headers(fields), true).unwrap();
        assert_eq!(events, [Event::Reset { stream: key, code, by_peer: false }], "{fields:?}");
        assert_eq!(client.orders(), [reset(0, code), stop(0, code)]);
        assert!(client.machine.is_reset(key));
        client.machine.release(key, ErrorCode::INTERNAL_ERROR);
        assert_eq!((client.orders(), client.machine.streams()), (vec![], 0));
    }
}

/// Section 4.1.2.
#[test]
fn what_was_announced_has_to_come() {
    for (length, pieces, trailers, is_right) in [
        ("3", &["abc"][..], false, true),
        ("3", &["ab", "c"], false, true),
        ("3", &["ab"], false, false),
        ("3", &["abcd"], false, false),
        ("3", &["abc"], true, true),
        ("3", &["ab"], true, false),
        ("0", &["a"], false, false),
        ("0", &[], true, true),
    ] {
        let mut client = Client::new();
        let mut bytes = headers(&[POST, &[("content-length", length)]].concat());
        bytes.extend(pieces.iter().flat_map(|piece| frame(kind::DATA, piece.as_bytes())));
        bytes.extend_from_slice(if trailers { b"\x01\x05\x00\x00\x21x\x00" } else { b"" });
        let events = client.send(0, &bytes, true).unwrap();
        assert!(matches!(events[0], Event::Request(_)), "{length} {pieces:?}: {events:?}");
        let is_reset =
            matches!(events.last(), Some(Event::Reset { code: ErrorCode::MESSAGE_ERROR, by_peer: false, .. }));
        assert_eq!(is_reset, !is_right, "{length} {pieces:?}: {events:?}");
        assert_eq!(client.orders().contains(&reset(0, ErrorCode::MESSAGE_ERROR)), !is_right);
    }
    // The end that comes alone is judged too.
    let mut client = Client::new();
    client.send(0, &headers(&[POST, &[("content-length", "3")]].concat()), false).unwrap();
    client.send(0, &frame(kind::DATA, b"ab"), false).unwrap();
    let events = client.send(0, &[], true).unwrap();
    assert!(matches!(events[..], [Event::Reset { code: ErrorCode::MESSAGE_ERROR, .. }]), "{events:?}");
}

#[test]
fn an_answer_goes_in_one_piece_where_it_is_small() {
    let mut client = Client::new();
    let key = client.begin(0, true);
    let fields =
        [("Content-Type", "text/plain"), ("connection", "close"), ("transfer-encoding", "chunked"), ("te", "x")];
    let mut half = Half::default();
    client.machine.send_head(key, &answer(103, &[("link", "x")]), false);
    client.machine.send_head(key, &answer(101, &[]), false);
    client.machine.send_head(key, &answer(200, &fields), false);
    assert_eq!(client.machine.send_head(key, &answer(200, &[]), false), 0, "there is one final head");
    assert_eq!(client.orders(), [Order::Flush(StreamId(0))], "once");
    assert_eq!(client.machine.send_data(key, b"hello", true, &mut half), 5);
    assert!(half.is_finished && client.machine.has_sent_all(key));
    client.machine.end(key, &mut half);
    client.machine.release(key, ErrorCode::INTERNAL_ERROR);
    assert_eq!((client.orders(), client.machine.streams()), (vec![], 0));
    let frames = frames(&half.bytes);
    let kinds: Vec<_> = frames.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [kind::HEADERS, kind::HEADERS, kind::DATA]);
    assert_eq!(super::fields(&frames[0].1)[0].1, "103");
    let expected = [(":status", "200"), ("content-type", "text/plain")];
    assert_eq!(super::fields(&frames[1].1), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(frames[2].1, b"hello");
    // What has no body ends with its head, or by `end`.
    for ends in [true, false] {
        let key = client.begin(if ends { 4 } else { 8 }, true);
        let mut half = Half::default();
        client.machine.send_head(key, &answer(304, &[]), ends);
        if !ends {
            client.machine.end(key, &mut half);
        }
        client.machine.release(key, ErrorCode::INTERNAL_ERROR);
        assert!(client.machine.flush(key.id(), &mut half) && half.is_finished);
        assert_eq!((super::frames(&half.bytes).len(), client.machine.streams()), (1, 0));
    }
}

#[test]
fn large_bodies_go_as_there_is_room() {
    let body: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
    for step in [1, 7, 1_000, 40_000] {
        let mut client = Client::new();
        let key = client.begin(0, true);
        client.machine.send_head(key, &answer(200, &[]), false);
        let mut half = Half::default();
        let mut sent = 0;
        let most = if step == 1 { 3_000 } else { body.len() };
        while sent < most {
            half.room = Some(step);
            let count = client.machine.send_data(key, &body[sent..most], false, &mut half);
            assert!(count <= step || count <= 1_024, "{count} of {step}");
            sent += count;
        }
        half.room = None;
        client.machine.send_trailers(key, b"X-Check: 1\r\nconnection: close\r\n", &mut half);
        assert!(half.is_finished);
        let mut frames = frames(&half.bytes);
        let (kind, trailers) = frames.pop().unwrap();
        assert_eq!((kind, fields(&trailers)), (kind::HEADERS, vec![("x-check".to_owned(), "1".to_owned())]));
        assert!(frames.len() <= 4, "one frame for what was given at a time: {}", frames.len());
        let data: Vec<u8> = frames.into_iter().skip(1).flat_map(|(_, data)| data).collect();
        assert!(data == body[..most]);
    }
}

#[test]
fn small_pieces_wait_within_bounds() {
    let mut client = Client::with(Settings { output_bytes_max: 5_000, ..Settings::default() });
    let key = client.begin(0, true);
    client.machine.send_head(key, &answer(200, &[]), false);
    let mut half = Half { room: Some(0), ..Half::default() };
    let taken: usize = (0..100).map(|_| client.machine.send_data(key, &[b'x'; 100], false, &mut half)).sum();
    assert!((4_500..5_000).contains(&taken), "{taken}");
    assert_eq!(client.machine.send_data(key, &[b'x'; 10_000], false, &mut half), 0, "no frame is begun");
    half.room = None;
    assert!(client.machine.flush(StreamId(0), &mut half));
    assert_eq!(client.machine.send_data(key, &[b'x'; 10_000], true, &mut half), 10_000);
    let data: usize = frames(&half.bytes).iter().skip(1).map(|(_, data)| data.len()).sum();
    assert_eq!((data, half.is_finished), (taken + 10_000, true));
    // Interim heads wait within bounds too.
    let key = client.begin(4, true);
    let head = answer(103, &[("link", &"x".repeat(400))]);
    let heads = (0..100).filter(|_| client.machine.send_head(key, &head, false) > 0).count();
    assert!((8..30).contains(&heads), "{heads}");
}

#[test]
fn what_breaks_off_does_not_look_whole() {
    // Between pieces, and within one.
    for room in [100_000, 3_000] {
        let mut client = Client::new();
        let key = client.begin(0, true);
        client.machine.send_head(key, &answer(200, &[]), false);
        let mut half = Half { room: Some(room), ..Half::default() };
        client.machine.send_data(key, &[b'x'; 10_000], false, &mut half);
        client.orders();
        if room < 10_000 {
            client.machine.end(key, &mut half);
            assert_eq!(client.orders(), [reset(0, ErrorCode::INTERNAL_ERROR)]);
            client.machine.release(key, ErrorCode::INTERNAL_ERROR);
            assert_eq!(client.orders(), []);
        } else {
            client.machine.release(key, ErrorCode::INTERNAL_ERROR);
            assert_eq!(client.orders(), [reset(0, ErrorCode::INTERNAL_ERROR)]);
        }
        assert!(!half.is_finished);
        assert_eq!(client.machine.streams(), 0);
    }
}

#[test]
fn heads_may_be_long() {
    for length in [50, 16_000, 17_000, 100_000] {
        let mut client = Client::new();
        let key = client.begin(0, true);
        let value = "{".repeat(length);
        let mut half = Half::default();
        client.machine.send_head(key, &answer(200, &[("x", &value)]), true);
        client.machine.flush(StreamId(0), &mut half);
        let frames = frames(&half.bytes);
        assert_eq!((frames.len(), &fields(&frames[0].1)[1]), (1, &("x".to_owned(), value)));
    }
}
