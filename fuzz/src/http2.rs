//! What the machine of an HTTP/2 connection promises whatever a client sends.

use h2::{
    ClientConnection, ErrorCode, Event, RequestOptions, ServerConnection, Settings,
    frame::{FrameHeader, HEADER_LEN, PREFACE},
};
use http::{Limits, RequestHead, ResponseHead, Version};

/// The bytes come behind a preface, in pieces of which the first byte says how long they are. What has come and is not consumed, the
/// streams that are held and what waits to be sent stay within the settings; heads are what a server may be sent; and what goes out
/// are whole frames.
pub fn server(data: &[u8]) {
    let (piece, data) = data.split_first().map_or((1, data), |(first, rest)| (usize::from(*first) + 1, rest));
    let settings = Settings { streams_max: 3, output_bytes_max: 2_000, ..Settings::default() };
    let mut machine = ServerConnection::new(settings, Limits::default());
    let mut head = RequestHead::new();
    let mut held = Vec::new();
    let (mut unread, mut out) = (0usize, Vec::new());
    let mut rest = Vec::new();
    let input = [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0], data].concat();
    for (number, piece) in input.chunks(piece).enumerate() {
        rest.extend_from_slice(piece);
        let mut used = 0;
        loop {
            match machine.next(&rest, &mut used, &mut head) {
                Ok(None) => break,
                Err(error) => {
                    assert_ne!(error.code, ErrorCode::NO_ERROR);
                    machine.fail(error);
                    drain(|into| machine.take_output(into), &mut out);
                    return;
                }
                Ok(Some(Event::Request(key))) => {
                    let mut text = Vec::new();
                    head.write_to(&mut text);
                    let mut again = RequestHead::new();
                    let parsed = http::RequestParser::new().parse(&text, &Limits::default(), &mut again);
                    assert!(
                        matches!(parsed, Ok(http::Parsed::Complete { consumed }) if consumed == text.len()),
                        "{parsed:?} {}",
                        String::from_utf8_lossy(&text)
                    );
                    assert_eq!(http::request_body_length(&head), http::request_body_length(&again));
                    held.push((key, 0usize));
                }
                Ok(Some(Event::Data { stream, from, to, .. })) => {
                    assert!(from <= to && to <= used);
                    unread += to - from;
                    if let Some((_, count)) = held.iter_mut().find(|(key, _)| *key == stream) {
                        *count += to - from;
                    }
                }
                Ok(Some(_)) => {}
            }
        }
        assert!(rest.len() - used < 32 && used <= rest.len());
        rest.drain(..used);
        assert!(held.len() <= 3 && machine.streams() <= 3);
        assert!(unread <= machine.settings().connection_window as usize);
        if number % 3 == 0 && !held.is_empty() {
            let (key, count) = held.remove(0);
            let mut answer = ResponseHead::new();
            answer.start(Version::Http11, 200);
            machine.consumed(key, count);
            unread -= count;
            machine.send_head(key, &answer, false);
            machine.send_data(key, &[b'x'; 5_000], true);
            machine.release(key, ErrorCode::CANCEL);
        }
        if !machine.may_receive() {
            assert!(machine.output_len() < 2_000 * 2 + 40_000);
            drain(|into| machine.take_output(into), &mut out);
        }
    }
    drain(|into| machine.take_output(into), &mut out);
}

/// The bytes come behind a server's settings, in pieces, as an answer to requests of which there are always some. What holds of requests
/// holds of answers: heads are what a client may be sent.
pub fn client(data: &[u8]) {
    let (piece, data) = data.split_first().map_or((1, data), |(first, rest)| (usize::from(*first) + 1, rest));
    let settings = Settings { streams_max: 3, output_bytes_max: 2_000, ..Settings::default() };
    let mut machine = ClientConnection::new(settings, Limits::default());
    let (mut request, mut head) = (RequestHead::new(), ResponseHead::new());
    request.start(b"GET", b"/", Version::Http11);
    let mut held = Vec::new();
    let (mut unread, mut out) = (0usize, Vec::new());
    machine.take_output(&mut out);
    let mut rest = Vec::new();
    let input = [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], data].concat();
    for (number, piece) in input.chunks(piece).enumerate() {
        while let Some(key) =
            machine.send_request(&request, &RequestOptions { ends: number % 2 == 0, ..RequestOptions::default() })
        {
            held.push((key, 0usize));
            machine.send_data(key, &[b'x'; 3_000], false);
        }
        rest.extend_from_slice(piece);
        let mut used = 0;
        loop {
            match machine.next(&rest, &mut used, &mut head) {
                Ok(None) => break,
                Err(error) => {
                    assert_ne!(error.code, ErrorCode::NO_ERROR);
                    machine.fail(error);
                    return;
                }
                Ok(Some(Event::Response { stream, .. })) => {
                    assert!(held.iter().any(|(key, _)| *key == stream));
                    let mut text = Vec::new();
                    head.write_to(&mut text);
                    let mut again = ResponseHead::new();
                    let parsed = http::ResponseParser::new().parse(&text, &Limits::default(), &mut again);
                    assert!(
                        matches!(parsed, Ok(http::Parsed::Complete { consumed }) if consumed == text.len()),
                        "{parsed:?} {}",
                        String::from_utf8_lossy(&text)
                    );
                }
                Ok(Some(Event::Data { stream, from, to, .. })) => {
                    assert!(from <= to && to <= used);
                    unread += to - from;
                    if let Some((_, count)) = held.iter_mut().find(|(key, _)| *key == stream) {
                        *count += to - from;
                    }
                }
                Ok(Some(_)) => {}
            }
        }
        assert!(rest.len() - used < 32 && used <= rest.len());
        rest.drain(..used);
        assert!(held.len() <= 3 && machine.streams() <= 3);
        assert!(unread <= machine.settings().connection_window as usize);
        if number % 3 == 0 && !held.is_empty() {
            let (key, count) = held.remove(0);
            machine.consumed(key, count);
            unread -= count;
            machine.release(key, ErrorCode::CANCEL);
        }
        if !machine.may_receive() {
            assert!(machine.output_len() < 2_000 * 2 + 40_000);
            out.clear();
            machine.take_output(&mut out);
        }
    }
}

/// Takes what is to be sent, which is whole frames.
fn drain(mut take: impl FnMut(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.clear();
    take(out);
    let mut rest = &out[..];
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
        let length = FrameHeader::read(*header).length as usize;
        assert!(length <= after.len());
        rest = &after[length..];
    }
    assert!(rest.is_empty());
}
