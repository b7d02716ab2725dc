//! How streams and connections end: RFC 9114 sections 4.1.1, 5.2, 7.1 and 10.5.

use super::*;

/// Section 7.1.
#[test]
fn a_stream_does_not_end_within_a_frame() {
    let head = headers(GET);
    for cut in 1..head.len() {
        assert_eq!(Client::new().fails(0, &head[..cut], true), ErrorCode::FRAME_ERROR, "{cut}");
    }
    for bytes in [&frame(kind::DATA, b"abc")[..4], &frame(0x21, b"abc")[..4], &[0x40]] {
        let mut client = Client::new();
        client.begin(0, false);
        assert_eq!(client.fails(0, bytes, true), ErrorCode::FRAME_ERROR);
    }
}

/// Section 4.1.
#[test]
fn a_stream_without_a_request_is_incomplete() {
    for bytes in [&b""[..], &frame(0x21, b"abc")] {
        let mut client = Client::new();
        assert_eq!(client.send(0, bytes, true), Ok(vec![Event::Malformed]));
        let code = ErrorCode::REQUEST_INCOMPLETE;
        assert_eq!(client.orders(), [reset(0, code), stop(0, code)]);
        assert_eq!((client.send(0, &[], true), client.machine.streams()), (Ok(vec![]), 0));
    }
}

#[test]
fn a_client_leaves_a_request() {
    let code = ErrorCode::REQUEST_CANCELLED;
    // It resets its half.
    let mut client = Client::new();
    let key = client.begin(0, false);
    let event = Event::Reset { stream: key, code, by_peer: true };
    assert_eq!(client.machine.reset_by_peer(StreamId(0), code), Ok(Some(event)));
    assert_eq!(client.orders(), [reset(0, ErrorCode::REQUEST_CANCELLED)]);
    assert!(client.machine.is_reset(key));
    let mut half = Half::default();
    assert_eq!(client.machine.send_head(key, &answer(200, &[]), false), 0);
    assert_eq!(client.machine.send_data(key, b"x", false, &mut half), 0);
    // It stops this side's half as well.
    assert_eq!(client.machine.stopped_by_peer(StreamId(0), code), Ok(None));
    client.machine.release(key, ErrorCode::INTERNAL_ERROR);
    assert_eq!((client.orders(), client.machine.streams()), (vec![], 0));
    assert_eq!(client.machine.reset_by_peer(StreamId(0), code), Ok(None));
    // It stops the answer, and sends its request still.
    let key = client.begin(4, false);
    let event = Event::Reset { stream: key, code: ErrorCode(7), by_peer: true };
    assert_eq!(client.machine.stopped_by_peer(StreamId(4), ErrorCode(7)), Ok(Some(event)));
    assert_eq!(client.orders(), [reset(4, ErrorCode(7)), stop(4, ErrorCode::REQUEST_CANCELLED)]);
    assert_eq!(client.send(4, &frame(kind::DATA, b"abc"), true), Ok(vec![]));
    client.machine.release(key, ErrorCode::INTERNAL_ERROR);
    // It never said what it wanted.
    client.send(8, &headers(GET)[..5], false).unwrap();
    assert_eq!(client.machine.reset_by_peer(StreamId(8), code), Ok(None));
    assert_eq!(client.machine.reset_by_peer(StreamId(12), code), Ok(None));
    assert_eq!(client.orders(), [8, 12].map(|stream| reset(stream, ErrorCode::REQUEST_CANCELLED)));
    assert_eq!((client.machine.streams(), client.machine.awaited()), (0, 0));
    assert_eq!(client.send(12, &headers(GET), true), Ok(vec![]));
}

/// RFC 9000 section 3.1: STOP_SENDING opens a stream, and those before it.
#[test]
fn a_stream_that_is_stopped_before_it_begins_is_over() {
    let mut client = Client::new();
    let code = ErrorCode(7);
    assert_eq!(client.machine.stopped_by_peer(StreamId(4), code), Ok(None));
    assert_eq!(client.orders(), [reset(4, code), stop(4, ErrorCode::REQUEST_CANCELLED)]);
    assert_eq!(client.send(4, &headers(GET), true), Ok(vec![]));
    assert_eq!((client.machine.streams(), client.machine.begun()), (0, 1));
    client.begin(0, true);
    assert_eq!(client.machine.begun(), 2);
}

#[test]
fn each_head_has_its_own_time() {
    let mut client = Client::new();
    client.machine.look_at_clock(1_000);
    assert_eq!(client.machine.awaited_since_ms(), None);
    assert_eq!(client.send(0, &headers(GET)[..3], false), Ok(vec![]));
    client.machine.look_at_clock(4_000);
    assert_eq!(client.send(4, &headers(GET)[..1], false), Ok(vec![]));
    let asked = client.begin(8, false);
    client.machine.look_at_clock(5_000);
    assert_eq!(client.send(0, &headers(GET)[3..4], false), Ok(vec![]), "more of it gives it no more time");
    assert_eq!((client.machine.awaited(), client.machine.awaited_since_ms()), (2, Some(1_000)));
    assert_eq!(client.machine.refuse_late_head(999), Ok(None));
    assert_eq!(client.machine.refuse_late_head(1_000), Ok(Some(Event::HeadTooLate)));
    assert_eq!(client.machine.refuse_late_head(1_000), Ok(None));
    assert_eq!(client.orders(), [stop(0, ErrorCode::NO_ERROR), Order::Flush(StreamId(0))]);
    let mut half = Half::default();
    assert!(client.machine.flush(StreamId(0), &mut half) && half.is_finished);
    let [(kind::HEADERS, section)] = &frames(&half.bytes)[..] else { panic!("{half:?}") };
    assert_eq!(
        fields(section),
        [(":status", "408"), ("content-length", "0")].map(|(n, v)| (n.to_owned(), v.to_owned()))
    );
    // The rest of it is nobody's fault, and the others go on.
    assert_eq!(client.send(0, &headers(GET)[4..], true), Ok(vec![]));
    assert_eq!((client.machine.awaited(), client.machine.awaited_since_ms()), (1, Some(4_000)));
    assert!(matches!(client.send(4, &headers(GET)[1..], true).as_deref(), Ok([Event::Request(_)])));
    assert_eq!((client.machine.awaited(), client.machine.is_reset(asked)), (0, false));
}

/// Section 4.1.1: a client that resets what it sends may still want the answer, if that is whole.
#[test]
fn an_answer_that_is_whole_goes_still() {
    let mut client = Client::new();
    let key = client.begin(0, false);
    let mut half = Half { room: Some(3), ..Half::default() };
    client.machine.send_head(key, &answer(200, &[]), false);
    assert_eq!(client.machine.send_data(key, &[b'x'; 500], true, &mut half), 500);
    client.orders();
    let event = Event::Reset { stream: key, code: ErrorCode(7), by_peer: true };
    assert_eq!(client.machine.reset_by_peer(StreamId(0), ErrorCode(7)), Ok(Some(event)));
    client.machine.release(key, ErrorCode::INTERNAL_ERROR);
    assert_eq!(client.orders(), [Order::Flush(StreamId(0))]);
    half.room = None;
    assert!(client.machine.flush(StreamId(0), &mut half) && half.is_finished);
    assert_eq!(client.machine.streams(), 0);
    // And one that waits when the client stops it does not.
    let key = client.begin(4, true);
    let mut half = Half { room: Some(3), ..Half::default() };
    client.machine.send_head(key, &answer(200, &[]), true);
    client.machine.release(key, ErrorCode::INTERNAL_ERROR);
    assert!(!client.machine.flush(StreamId(4), &mut half));
    client.orders();
    assert_eq!(client.machine.stopped_by_peer(StreamId(4), ErrorCode(7)), Ok(None));
    assert_eq!((client.orders(), client.machine.streams()), (vec![reset(4, ErrorCode(7))], 0));
}

/// Section 4.1: an answer may be whole before its request is.
#[test]
fn a_request_that_is_answered_need_not_come() {
    let mut client = Client::new();
    let key = client.begin(0, false);
    let mut half = Half::default();
    client.machine.send_head(key, &answer(413, &[]), true);
    client.machine.end(key, &mut half);
    client.machine.release(key, ErrorCode::INTERNAL_ERROR);
    let orders = client.orders();
    assert_eq!(orders, [Order::Flush(StreamId(0)), stop(0, ErrorCode::NO_ERROR)]);
    assert_eq!(client.send(0, &frame(kind::DATA, b"abc"), true), Ok(vec![]));
    assert!(client.machine.flush(StreamId(0), &mut half) && half.is_finished);
    assert_eq!(client.machine.streams(), 0);
    // One without an answer is told why.
    let key = client.begin(4, false);
    client.machine.release(key, ErrorCode::REQUEST_REJECTED);
    let code = ErrorCode::REQUEST_REJECTED;
    assert_eq!(client.orders(), [reset(4, code), stop(4, code)]);
}

/// Section 5.2.
#[test]
fn a_connection_ends_when_its_last_request_has() {
    let mut client = Client::new();
    client.machine.opened(OwnStream::Control, StreamId(3));
    let mut control = Half::default();
    client.machine.flush(StreamId(3), &mut control);
    client.orders();
    control.bytes.clear();
    let first = client.begin(0, true);
    client.begin(8, true);
    client.machine.begin_leaving();
    client.machine.begin_leaving();
    assert_eq!(client.orders(), [Order::Flush(StreamId(3))]);
    assert!(client.machine.is_leaving() && !client.machine.is_over());
    // Those on their way are served.
    let third = client.begin(12, true);
    client.machine.leave();
    client.machine.leave();
    client.machine.flush(StreamId(3), &mut control);
    client.orders();
    let goaway = |end: u64| (kind::GOAWAY, numbers(&[end]));
    assert_eq!(frames(&control.bytes), [goaway((1 << 62) - 4), goaway(16)]);
    // One that was opened before the last one is among them, too.
    let late = client.begin(4, true);
    assert_eq!(client.send(16, &headers(GET), true), Ok(vec![Event::Refused]));
    let code = ErrorCode::REQUEST_REJECTED;
    assert_eq!(client.orders(), [reset(16, code), stop(16, code)]);
    for key in [first, client.machine.streams.find(StreamId(8)).unwrap(), third, late] {
        assert!(!client.machine.is_over());
        client.machine.release(key, ErrorCode::INTERNAL_ERROR);
    }
    assert!(client.machine.is_over());
}

/// Section 10.5: what is no use is counted, whatever its kind.
#[test]
fn floods_are_cut_off() {
    type Flood = fn(&mut Client, u64) -> Result<(), ConnectionError>;
    let floods: [(&str, Flood); 9] = [
        ("reset before a head", |client, nth| {
            client.machine.reset_by_peer(StreamId(nth * 4), ErrorCode::REQUEST_CANCELLED).map(drop)
        }),
        ("reset", |client, nth| {
            client.send(nth * 4, &headers(POST), false)?;
            client.machine.reset_by_peer(StreamId(nth * 4), ErrorCode::REQUEST_CANCELLED).map(drop)
        }),
        ("stopped", |client, nth| {
            client.send(nth * 4, &headers(GET), true)?;
            client.machine.stopped_by_peer(StreamId(nth * 4), ErrorCode::REQUEST_CANCELLED).map(drop)
        }),
        ("stopped before a head", |client, nth| {
            client.machine.stopped_by_peer(StreamId(nth * 4), ErrorCode::REQUEST_CANCELLED).map(drop)
        }),
        ("heads that never come", |client, nth| {
            client.send(nth * 4, &headers(GET)[..3], false)?;
            client.machine.refuse_late_head(u64::MAX).map(drop)
        }),
        ("malformed", |client, nth| client.send(nth * 4, &headers(&[("x", "y")]), true).map(drop)),
        ("too large", |client, nth| client.send(nth * 4, &numbers(&[kind::HEADERS, 1_000_000]), false).map(drop)),
        ("streams without a meaning", |client, nth| client.send(6 + nth * 4, &[0x21], false).map(drop)),
        ("empty DATA", |client, nth| {
            let bytes = if nth == 0 { headers(POST) } else { frame(kind::DATA, b"") };
            client.send(0, &bytes, false).map(drop)
        }),
    ];
    for (name, flood) in floods {
        let mut client = Client::new();
        client.machine.look_at_clock(1_000);
        let failed = (0..5_000).find_map(|nth| flood(&mut client, nth).err().map(|error| (nth, error)));
        let Some((count, error)) = failed else { panic!("{name}") };
        assert_eq!(error.code, ErrorCode::EXCESSIVE_LOAD, "{name}");
        assert!((100..2_100).contains(&count), "{name}: {count}");
        // Orders are as many as what made them.
        assert!(client.orders().len() <= 2 * count as usize + 4);
    }
}
