//! Requests that were answered before they had come.

use super::*;

/// Some clients take a reset for a failure though the answer was there before it (RFC 9113 section 8.1): curl of Debian 12.
#[test]
fn the_rest_of_a_request_that_was_answered_may_come() {
    let answered = |length: Option<&str>, protocol: bool| {
        let mut client = Client::with(Settings { knows_protocols: true, ..Settings::default() });
        let mut fields = POST.to_vec();
        fields.extend(length.map(|length| ("content-length", length)));
        if protocol {
            fields = [&[(":method", "CONNECT"), (":protocol", "websocket")], &GET[1..]].concat();
        }
        let events = client.request(1, &fields, false).unwrap();
        let [Event::Request(key)] = events[..] else { panic!("{events:?}") };
        client.machine.send_head(key, &answer(200, &[]), false);
        client.machine.end(key);
        client.machine.release(key, ErrorCode::CANCEL);
        let is_reset = client.frames().contains(&reset(1, ErrorCode::NO_ERROR));
        (client, is_reset)
    };
    for length in [Some("3"), None] {
        let (mut client, is_reset) = answered(length, false);
        assert!(!is_reset && client.machine.streams() == 1 && !client.machine.is_over());
        assert_eq!(client.send(kind::DATA, 0, 1, b"ab"), Ok(vec![]));
        assert_eq!(client.send(kind::DATA, flag::END_STREAM, 1, b"c"), Ok(vec![]));
        assert_eq!((client.frames(), client.machine.streams()), (vec![], 0));
    }
    // Trailers, a reset of the client's own, and a body of another length end it as well.
    let (mut client, _) = answered(None, false);
    let block = client.block(&[("x", "y")]);
    assert_eq!(client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block), Ok(vec![]));
    assert_eq!((client.frames(), client.machine.streams()), (vec![], 0));
    let (mut client, _) = answered(None, false);
    assert_eq!(client.send(kind::RST_STREAM, 0, 1, &8u32.to_be_bytes()), Ok(vec![]));
    assert_eq!((client.frames(), client.machine.streams()), (vec![], 0));
    let (mut client, _) = answered(Some("3"), false);
    assert_eq!(client.send(kind::DATA, 0, 1, b"abcd"), Ok(vec![]));
    assert_eq!((client.frames(), client.machine.streams()), (vec![reset(1, ErrorCode::PROTOCOL_ERROR)], 0));
    // No more than the client may send already: it is told of no more room.
    let (mut client, _) = answered(None, false);
    for _ in 0..6 {
        assert_eq!(client.send(kind::DATA, 0, 1, &[0; 10_000]), Ok(vec![]));
    }
    assert_eq!(client.frames(), []);
    assert_eq!(client.send(kind::DATA, 0, 1, &[0; 5_535]), Ok(vec![]));
    assert_eq!((client.frames(), client.machine.streams()), (vec![reset(1, ErrorCode::NO_ERROR)], 0));
    assert_eq!(client.send(kind::DATA, 0, 1, &[0; 10]), Ok(vec![]), "on its way");
    // What would not fit need not begin, and a tunnel is over on both sides.
    assert!(answered(Some("65536"), false).1 && answered(None, true).1);
    // A new request goes before it, and a connection that ends does not wait for it.
    let mut client = Client::with(Settings { streams_max: 1, ..Settings::default() });
    let key = client.begin(1, false);
    client.machine.send_head(key, &answer(200, &[]), true);
    client.machine.release(key, ErrorCode::CANCEL);
    client.frames();
    client.begin(3, true);
    assert_eq!(client.frames(), [reset(1, ErrorCode::NO_ERROR)]);
    let (mut client, _) = answered(None, false);
    client.machine.leave();
    assert!(client.machine.is_over());
}
