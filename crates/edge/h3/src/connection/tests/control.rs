//! Streams beside the requests, and frames where they may not be: RFC 9114 sections 6.2 and 7, RFC 9204 section 4.2.

use super::*;
use crate::settings::name;

#[test]
fn the_machine_says_its_settings() {
    let mut client = Client::silent(Settings { table_bytes_max: 100, knows_protocols: true, ..Settings::default() });
    assert_eq!(client.orders(), [Order::Open(OwnStream::Control), Order::Open(OwnStream::Decoder)]);
    client.machine.opened(OwnStream::Control, StreamId(3));
    client.machine.opened(OwnStream::Decoder, StreamId(7));
    assert_eq!(client.orders(), [Order::Flush(StreamId(3)), Order::Flush(StreamId(7))]);
    let (mut control, mut decoder) = (Half::default(), Half::default());
    assert!(client.machine.flush(StreamId(3), &mut control) && client.machine.flush(StreamId(7), &mut decoder));
    assert_eq!((decoder.bytes, control.bytes[0]), (vec![3], 0));
    let frames = frames(&control.bytes[1..]);
    let [(kind::SETTINGS, payload)] = &frames[..] else { panic!("{frames:?}") };
    let head_bytes = Limits::default().head_bytes_max as u64;
    let expected = [
        (name::MAX_FIELD_SECTION_SIZE, head_bytes),
        (name::QPACK_MAX_TABLE_CAPACITY, 100),
        (name::ENABLE_CONNECT_PROTOCOL, 1),
        (name::RESERVED, 0),
    ];
    assert_eq!(*payload, numbers(&expected.map(|(name, value)| [name, value]).concat()));
    // By default there is neither a table nor a stream for it.
    let mut client = Client::silent(Settings::default());
    assert_eq!(client.orders(), [Order::Open(OwnStream::Control)]);
}

#[test]
fn settings_come_first_and_once() {
    let settings = |pairs: &[u64]| frame(kind::SETTINGS, &numbers(pairs));
    let with_type = |frames: &[u8]| [&[0], frames].concat();
    let fails = |frames: &[u8]| Client::silent(Settings::default()).fails(2, &with_type(frames), false);
    let mut client = Client::silent(Settings::default());
    // What is unknown, reserved or about tables is taken.
    let all = settings(&[1, 4_096, 7, 100, 6, 1_000, 8, 1, 0x33, 1, 0x1f * 3 + 0x21, 5, 0x1f * 3 + 0x21, 5]);
    for (at, byte) in with_type(&all).iter().enumerate() {
        assert_eq!(client.send(2, &[*byte], false), Ok(vec![]), "{at}");
    }
    assert_eq!(client.fails(2, &settings(&[]), false), ErrorCode::FRAME_UNEXPECTED);
    // Section 7.2.4.1.
    for reserved in [2, 3, 4, 5] {
        assert_eq!(fails(&settings(&[reserved, 0])), ErrorCode::SETTINGS_ERROR);
    }
    assert_eq!(fails(&settings(&[6, 1, 6, 1])), ErrorCode::SETTINGS_ERROR);
    assert_eq!(fails(&settings(&[8, 2])), ErrorCode::SETTINGS_ERROR);
    assert_eq!(fails(&settings(&[6])), ErrorCode::FRAME_ERROR);
    assert_eq!(fails(&frame(kind::SETTINGS, &[6, 0x40])), ErrorCode::FRAME_ERROR);
    assert_eq!(fails(&frame(kind::SETTINGS, &[0; 5_000])), ErrorCode::EXCESSIVE_LOAD);
    // Section 6.2.1.
    assert_eq!(fails(&frame(kind::GOAWAY, &[0])), ErrorCode::MISSING_SETTINGS);
    assert_eq!(fails(&frame(0x21, &[0])), ErrorCode::MISSING_SETTINGS);
    assert_eq!(fails(&frame(kind::DATA, &[0])), ErrorCode::MISSING_SETTINGS);
}

/// Sections 7.2.1 to 7.2.8.
#[test]
fn frames_are_where_they_belong() {
    for kind in [kind::DATA, kind::HEADERS, kind::PUSH_PROMISE, 0x2, 0x6, 0x8, 0x9] {
        assert_eq!(Client::new().fails(2, &frame(kind, b"x"), false), ErrorCode::FRAME_UNEXPECTED, "{kind}");
    }
    for kind in [
        kind::CANCEL_PUSH,
        kind::SETTINGS,
        kind::PUSH_PROMISE,
        kind::GOAWAY,
        kind::MAX_PUSH_ID,
        kind::PRIORITY_UPDATE_REQUEST,
        kind::PRIORITY_UPDATE_PUSH,
        0x2,
        0x6,
        0x8,
        0x9,
    ] {
        assert_eq!(Client::new().fails(0, &frame(kind, &[0]), false), ErrorCode::FRAME_UNEXPECTED, "{kind}");
        let mut client = Client::new();
        client.begin(0, false);
        assert_eq!(client.fails(0, &frame(kind, &[0]), false), ErrorCode::FRAME_UNEXPECTED, "{kind}");
    }
    assert_eq!(Client::new().fails(0, &frame(kind::DATA, b"x"), false), ErrorCode::FRAME_UNEXPECTED);
}

#[test]
fn frames_of_the_control_stream_mean_what_they_may() {
    let send = |frames: &[&[u8]]| Client::new().send(2, &frames.concat(), false).map_err(|error| error.code);
    let frame = |kind: u64, pairs: &[u64]| frame(kind, &numbers(pairs));
    assert_eq!(send(&[&frame(kind::MAX_PUSH_ID, &[5]), &frame(kind::MAX_PUSH_ID, &[5])]), Ok(vec![]));
    assert_eq!(send(&[&frame(kind::MAX_PUSH_ID, &[5]), &frame(kind::MAX_PUSH_ID, &[4])]), Err(ErrorCode::ID_ERROR));
    assert_eq!(send(&[&frame(kind::GOAWAY, &[5]), &frame(kind::GOAWAY, &[4])]), Ok(vec![]));
    assert_eq!(send(&[&frame(kind::GOAWAY, &[4]), &frame(kind::GOAWAY, &[5])]), Err(ErrorCode::ID_ERROR));
    assert_eq!(send(&[&frame(kind::CANCEL_PUSH, &[0])]), Err(ErrorCode::ID_ERROR));
    assert_eq!(send(&[&frame(kind::PRIORITY_UPDATE_PUSH, &[0])]), Err(ErrorCode::ID_ERROR));
    assert_eq!(send(&[&frame(kind::GOAWAY, &[4, 4])]), Err(ErrorCode::FRAME_ERROR));
    assert_eq!(send(&[&frame(kind::MAX_PUSH_ID, &[])]), Err(ErrorCode::FRAME_ERROR));
    assert_eq!(send(&[&super::frame(kind::MAX_PUSH_ID, &[0x40])]), Err(ErrorCode::FRAME_ERROR));
    assert_eq!(send(&[&numbers(&[kind::GOAWAY, 5_000])]), Err(ErrorCode::EXCESSIVE_LOAD));
}

/// Section 9.
#[test]
fn what_nobody_knows_is_skipped_within_bounds() {
    let unknown = frame(0x1f * 5 + 0x21, &[7; 10_000]);
    let mut client = Client::new();
    assert_eq!(client.send(2, &unknown, false), Ok(vec![]));
    let bytes = [&unknown[..], &headers(POST), &unknown, &frame(kind::DATA, b"abc"), &unknown].concat();
    let events = client.send(0, &bytes, true).unwrap();
    assert!(matches!(events[..], [Event::Request(_), Event::Data { ends: false, .. }, Event::Data { ends: true, .. }]));
    for stream in [2, 0] {
        assert_eq!(Client::new().fails(stream, &numbers(&[0x21, 100_000]), false), ErrorCode::EXCESSIVE_LOAD);
        let mut client = Client::new();
        let floods = (0..3_000).map(|_| client.send(stream, &numbers(&[0x21, 0]), false));
        let failed = floods.filter_map(Result::err).next().unwrap();
        assert_eq!(failed.code, ErrorCode::EXCESSIVE_LOAD);
    }
}

/// Sections 6.2.1 to 6.2.3.
#[test]
fn unidirectional_streams_are_of_known_kinds_or_stopped() {
    let mut client = Client::new();
    // One that says nothing, one that ends before its type is whole, one that nobody knows.
    assert_eq!(client.send(6, &[], true), Ok(vec![]));
    assert_eq!(client.send(10, &[0x40], true), Ok(vec![]));
    assert_eq!(client.send(14, &[0x40], false), Ok(vec![]));
    assert_eq!(client.send(14, &[0x54, 1, 2, 3], false), Ok(vec![]));
    assert_eq!(client.orders(), [stop(14, ErrorCode::STREAM_CREATION_ERROR)]);
    assert_eq!(client.send(14, &[0, 1, 2], false), Ok(vec![]), "it is not begun anew");
    assert_eq!(client.machine.reset_by_peer(StreamId(14), ErrorCode::NO_ERROR), Ok(None));
    assert_eq!(client.machine.reset_by_peer(StreamId(18), ErrorCode::NO_ERROR), Ok(None));
    for kind in [2, 3] {
        assert_eq!(client.send(22 + 4 * kind, &[kind as u8], false), Ok(vec![]));
    }
    for kind in [0, 2, 3] {
        let mut client = Client::new();
        client.send(6, &[2], false).unwrap();
        client.send(10, &[3], false).unwrap();
        assert_eq!(client.fails(26, &[kind], false), ErrorCode::STREAM_CREATION_ERROR);
    }
    assert_eq!(Client::new().fails(6, &[1], false), ErrorCode::STREAM_CREATION_ERROR);
    let mut client = Client::new();
    let many = (1..20).map(|stream| client.send(2 + 4 * stream, &[0x40], false));
    let (taken, failed): (Vec<_>, Vec<_>) = many.partition(Result::is_ok);
    assert_eq!((taken.len(), failed[0].clone().unwrap_err().code), (7, ErrorCode::EXCESSIVE_LOAD));
    // This side's own streams bring nothing.
    assert_eq!(client.send(3, b"x", true), Ok(vec![]));
    assert_eq!(client.send(1, b"x", true), Ok(vec![]));
}

#[test]
fn streams_that_are_needed_stay() {
    for kind in [0, 2, 3] {
        let mut client = Client::silent(Settings::default());
        client.send(6, &[kind], false).unwrap();
        let error = client.machine.reset_by_peer(StreamId(6), ErrorCode::NO_ERROR).unwrap_err();
        assert_eq!(error.code, ErrorCode::CLOSED_CRITICAL_STREAM);
        let mut client = Client::silent(Settings::default());
        client.send(6, &[kind], false).unwrap();
        assert_eq!(client.fails(6, &[], true), ErrorCode::CLOSED_CRITICAL_STREAM);
        assert_eq!(Client::silent(Settings::default()).fails(6, &[kind], true), ErrorCode::CLOSED_CRITICAL_STREAM);
    }
    let mut client = Client::new();
    let error = client.machine.stopped_by_peer(StreamId(3), ErrorCode::NO_ERROR).unwrap_err();
    assert_eq!(error.code, ErrorCode::CLOSED_CRITICAL_STREAM);
}

/// RFC 9204 sections 2.2 and 4.3.
#[test]
fn fields_go_by_a_table_where_settings_allow_one() {
    let settings = Settings { table_bytes_max: 200, ..Settings::default() };
    let mut client = Client::with(settings);
    client.machine.opened(OwnStream::Decoder, StreamId(7));
    let mut decoder = Half::default();
    client.machine.flush(StreamId(7), &mut decoder);
    client.orders();
    // A table of 200 bytes, and `x: yz` in it.
    assert_eq!(client.send(6, b"\x02\x3f\xa9\x01\x41x\x02yz", false), Ok(vec![]));
    assert_eq!(client.orders(), [Order::Flush(StreamId(7))]);
    let request = |required: &[u8]| {
        let mut section = [required, &section(GET)[2..]].concat();
        section.push(0x80);
        frame(kind::HEADERS, &section)
    };
    assert_eq!(client.send(0, &request(&[2, 0]), true).unwrap().len(), 1);
    assert_eq!(client.head.headers.first(b"x"), Some(&b"yz"[..]));
    // A head that is given up in the middle of it is said to be.
    client.send(4, &headers(GET)[..9], false).unwrap();
    client.machine.reset_by_peer(StreamId(4), ErrorCode::NO_ERROR).unwrap();
    client.machine.flush(StreamId(7), &mut decoder);
    assert_eq!(decoder.bytes, b"\x03\x01\x80\x44");
    // No stream waits for an entry.
    assert_eq!(client.fails(8, &request(&[3, 0]), true), ErrorCode::QPACK_DECOMPRESSION_FAILED);
    assert_eq!(Client::new().fails(0, &request(&[2, 0]), true), ErrorCode::QPACK_DECOMPRESSION_FAILED);
    assert_eq!(Client::new().fails(6, b"\x02\x3f\xa9\x01", false), ErrorCode::QPACK_ENCODER_STREAM_ERROR);
    assert_eq!(Client::new().fails(6, b"\x03\x80", false), ErrorCode::QPACK_DECODER_STREAM_ERROR);
    let mut client = Client::with(settings);
    client.send(6, b"\x02\x3f\xa9\x01\x41x\x02yz", false).unwrap();
    let failed = (0..10_000).find_map(|_| client.send(6, &[0], false).err()).unwrap();
    assert_eq!(failed.code, ErrorCode::EXCESSIVE_LOAD, "entries that only push out each other");
}
