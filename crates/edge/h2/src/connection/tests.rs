//! Frames by hand, and what the machine makes of them.

mod late_ends;

use http::{Limits, RequestHead, ResponseHead, Version};

use super::*;
use crate::{
    frame::{FrameHeader, flag, kind},
    hpack::{Decoder, Encoder, HeaderLimits, Indexing},
    settings::name,
};

/// A client that writes frames, and the machine.
pub(super) struct Client {
    pub(super) machine: ServerConnection,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
    input: Vec<u8>,
    pub(super) head: RequestHead,
}

/// A frame that the machine has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

const GET: &[(&str, &str)] = &[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
const POST: &[(&str, &str)] = &[(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")];

impl Client {
    /// One whose preface and settings have been taken.
    fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(super) fn with(settings: Settings) -> Self {
        let mut client = Self {
            machine: ServerConnection::new(settings, Limits::default()),
            encoder: Encoder::new(),
            decoder: Decoder::new(4_096),
            input: Vec::new(),
            head: RequestHead::new(),
        };
        client.input.extend_from_slice(frame::PREFACE);
        assert_eq!(client.send(kind::SETTINGS, 0, 0, &[]), Ok(vec![]));
        assert_eq!(client.send(kind::SETTINGS, flag::ACK, 0, &[]), Ok(vec![]));
        client.frames();
        client
    }

    /// Sends a frame; what comes of it.
    pub(super) fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> Result<Vec<Event>, ConnectionError> {
        let length = u32::try_from(payload.len()).unwrap();
        FrameHeader { length, kind, flags, stream }.write(&mut self.input);
        self.input.extend_from_slice(payload);
        let input = std::mem::take(&mut self.input);
        let (events, used) = self.give(&input);
        self.input = input[used..].to_vec();
        events
    }

    /// Gives bytes to the machine; the events, and how many bytes were used.
    pub(super) fn give(&mut self, input: &[u8]) -> (Result<Vec<Event>, ConnectionError>, usize) {
        let (mut events, mut used) = (Vec::new(), 0);
        loop {
            match self.machine.next(input, &mut used, &mut self.head) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return (Ok(events), used),
                Err(error) => return (Err(error), used),
            }
        }
    }

    pub(super) fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        for (name, value) in fields {
            self.encoder.field(&mut block, name.as_bytes(), value.as_bytes(), Indexing::Index);
        }
        block
    }

    fn request(&mut self, stream: u32, fields: &[(&str, &str)], ends: bool) -> Result<Vec<Event>, ConnectionError> {
        let block = self.block(fields);
        let flags = flag::END_HEADERS | if ends { flag::END_STREAM } else { 0 };
        self.send(kind::HEADERS, flags, stream, &block)
    }

    /// Begins a stream that is to be one.
    #[track_caller]
    fn begin(&mut self, stream: u32, ends: bool) -> StreamKey {
        let fields = if ends { GET } else { POST };
        match self.request(stream, fields, ends).as_deref() {
            Ok([Event::Request(key)]) => *key,
            other => panic!("{other:?}"),
        }
    }

    /// What the machine has sent since the last time.
    pub(super) fn frames(&mut self) -> Vec<Frame> {
        let mut out = Vec::new();
        self.machine.take_output(&mut out);
        self.machine.note_unsent(0);
        let (mut frames, mut rest) = (Vec::new(), &out[..]);
        while let Some((header, after)) = rest.split_first_chunk::<{ frame::HEADER_LEN }>() {
            let FrameHeader { length, kind, flags, stream } = FrameHeader::read(*header);
            let (payload, after) = after.split_at(length as usize);
            // What opens the connection's window is not what these tests are about.
            if (kind, stream) != (kind::WINDOW_UPDATE, 0) {
                frames.push(Frame { kind, flags, stream, payload: payload.to_vec() });
            }
            rest = after;
        }
        assert!(rest.is_empty());
        frames
    }

    fn fields(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let limits = HeaderLimits { fields: 1_000, bytes: 100_000 };
        let decoded = self.decoder.decode(block, &limits, |field| {
            fields.push((text(field.name), text(field.value)));
            Ok::<(), ()>(())
        });
        decoded.unwrap();
        fields
    }
}

fn reset(stream: u32, code: ErrorCode) -> Frame {
    Frame { kind: kind::RST_STREAM, flags: 0, stream, payload: code.0.to_be_bytes().to_vec() }
}

fn answer(status: u16, fields: &[(&str, &str)]) -> ResponseHead {
    let mut head = ResponseHead::new();
    head.start(Version::Http11, status);
    for (name, value) in fields {
        head.headers.add(name.as_bytes(), value.as_bytes());
    }
    head
}

fn code_of(result: Result<Vec<Event>, ConnectionError>) -> ErrorCode {
    result.unwrap_err().code
}

#[test]
fn a_request_is_answered_in_as_few_frames_as_can_be() {
    let mut client = Client::new();
    let key = client.begin(1, true);
    assert_eq!(client.head.method(), b"GET");
    let head =
        answer(200, &[("Content-Type", "text/plain"), ("connection", "close"), ("transfer-encoding", "chunked")]);
    client.machine.send_head(key, &head, false);
    assert_eq!(client.machine.send_data(key, b"hello", false), 5);
    client.machine.end(key);
    client.machine.release(key, ErrorCode::CANCEL);
    let frames = client.frames();
    assert_eq!(frames.len(), 2, "{frames:?}");
    let fields = client.fields(&frames[0].payload);
    let expected = [(":status", "200"), ("content-type", "text/plain")];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!((frames[0].kind, frames[0].flags), (kind::HEADERS, flag::END_HEADERS));
    assert_eq!(frames[1], Frame { kind: kind::DATA, flags: flag::END_STREAM, stream: 1, payload: b"hello".to_vec() });
    assert_eq!(client.machine.streams(), 0);
    // What has no body ends with its head, and interim heads end nothing.
    let key = client.begin(3, true);
    client.machine.send_head(key, &answer(103, &[("link", "x")]), false);
    client.machine.send_head(key, &answer(304, &[]), false);
    client.machine.end(key);
    let flags: Vec<_> = client.frames().iter().map(|frame| (frame.kind, frame.flags)).collect();
    let (head, end) = (flag::END_HEADERS, flag::END_HEADERS | flag::END_STREAM);
    assert_eq!(flags, [(kind::HEADERS, head), (kind::HEADERS, end)]);
}

#[test]
fn bodies_and_trailers_come_and_go() {
    let mut client = Client::new();
    let key = client.begin(1, false);
    let events = client.send(kind::DATA, flag::PADDED, 1, b"\x02abcPP").unwrap();
    // The frame's header, the length of the padding, then the data.
    assert_eq!(events, [Event::Data { stream: key, from: 10, to: 13, ends: false }]);
    let block = client.block(&[("grpc-status", "0")]);
    let events = client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block).unwrap();
    assert_eq!(
        (events.as_slice(), client.machine.trailers()),
        (&[Event::Trailers(key)][..], &b"grpc-status: 0\r\n"[..])
    );
    client.machine.send_head(key, &answer(200, &[]), false);
    client.machine.send_data(key, b"x", false);
    client.machine.send_trailers(key, b"X-Check: 1\r\nconnection: close\r\n");
    client.machine.end(key);
    client.machine.release(key, ErrorCode::CANCEL);
    let frames = client.frames();
    let kinds: Vec<_> = frames.iter().map(|frame| (frame.kind, frame.flags & flag::END_STREAM)).collect();
    assert_eq!(kinds, [(kind::HEADERS, 0), (kind::DATA, 0), (kind::HEADERS, flag::END_STREAM)]);
    client.fields(&frames[0].payload);
    assert_eq!(client.fields(&frames[2].payload), [("x-check".to_owned(), "1".to_owned())]);
    assert_eq!(client.machine.streams(), 0);
}

#[test]
fn what_was_announced_has_to_come() {
    for (length, pieces, is_right) in [
        ("3", &[("abc", true)][..], true),
        ("3", &[("ab", false), ("c", true)], true),
        ("3", &[("ab", true)], false),
        ("3", &[("abcd", false)], false),
        ("3", &[("abc", false), ("", true)], true),
        ("0", &[("a", false)], false),
    ] {
        let mut client = Client::new();
        let events = client.request(1, &[POST, &[("content-length", length)]].concat(), false).unwrap();
        assert!(matches!(events[..], [Event::Request(_)]));
        let mut all = Vec::new();
        for (piece, ends) in pieces {
            let flags = if *ends { flag::END_STREAM } else { 0 };
            all.extend(client.send(kind::DATA, flags, 1, piece.as_bytes()).unwrap());
        }
        let is_reset = matches!(all.last(), Some(Event::Reset { code: ErrorCode::PROTOCOL_ERROR, by_peer: false, .. }));
        assert_eq!(is_reset, !is_right, "{length} {pieces:?}: {all:?}");
        assert_eq!(client.frames().contains(&reset(1, ErrorCode::PROTOCOL_ERROR)), !is_right);
    }
}

#[test]
fn malformed_requests_never_get_out() {
    for fields in [
        &[(":method", "GET"), (":path", "/")][..],
        &[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/ HTTP/1.1\r\nx: y")],
        &[GET[0], GET[1], GET[2], GET[3], ("transfer-encoding", "chunked")],
        &[GET[0], GET[1], GET[2], GET[3], ("x", "a\r\nb: c")],
        &[GET[0], GET[1], GET[2], GET[3], ("host", "b")],
        &[GET[0], GET[1], GET[2], GET[3], ("Upper", "b")],
    ] {
        let mut client = Client::new();
        assert_eq!(client.request(1, fields, true), Ok(vec![Event::Malformed]));
        assert_eq!(client.frames(), [reset(1, ErrorCode::PROTOCOL_ERROR)]);
        // The next one is served, by tables that agree.
        client.begin(3, true);
    }
    let mut client = Client::new();
    let many: Vec<_> = GET.iter().copied().chain((0..300).map(|_| ("x", "y"))).collect();
    assert_eq!(client.request(1, &many, true), Ok(vec![Event::HeadTooLarge]));
    let frames = client.frames();
    assert_eq!(client.fields(&frames[0].payload)[0].1, "431");
    assert_eq!(frames[1], reset(1, ErrorCode::NO_ERROR));
    client.begin(3, true);
}

#[test]
fn windows_hold_in_both_directions() {
    let mut client = Client::with(Settings { stream_window: 1_000, ..Settings::default() });
    let key = client.begin(1, false);
    assert_eq!(client.send(kind::DATA, 0, 1, &[b'a'; 1_000]).unwrap().len(), 1);
    assert!(client.frames().is_empty());
    client.machine.consumed(key, 499);
    assert!(client.frames().is_empty(), "less than half");
    client.machine.consumed(key, 1);
    let update = Frame { kind: kind::WINDOW_UPDATE, flags: 0, stream: 1, payload: 500u32.to_be_bytes().to_vec() };
    assert_eq!(client.frames(), [update]);
    let events = client.send(kind::DATA, 0, 1, &[b'a'; 501]).unwrap();
    assert!(matches!(events[..], [Event::Reset { code: ErrorCode::FLOW_CONTROL_ERROR, .. }]), "{events:?}");
    client.machine.release(key, ErrorCode::CANCEL);

    let mut client = Client::new();
    let keys = [client.begin(1, true), client.begin(3, true)];
    for key in keys {
        client.machine.send_head(key, &answer(200, &[]), false);
    }
    assert_eq!(client.machine.send_data(keys[0], &[b'x'; 50_000], false), 50_000);
    let sent = client.machine.send_data(keys[1], &[b'x'; 50_000], false);
    assert!((15_000..15_535).contains(&sent), "room in the output: {sent}");
    assert_eq!(
        client.frames().iter().map(|frame| frame.payload.len()).filter(|length| *length > 100).max(),
        Some(16_384)
    );
    assert_eq!(client.machine.next_sendable(), Some(keys[1]));
    let sent = sent + client.machine.send_data(keys[1], &[b'x'; 1_000], false);
    assert_eq!((sent, client.machine.next_sendable()), (15_535, None), "the connection's window");
    client.frames();
    client.send(kind::WINDOW_UPDATE, 0, 0, &100_000u32.to_be_bytes()).unwrap();
    assert_eq!(client.machine.next_sendable(), Some(keys[1]));
    assert_eq!(client.machine.send_data(keys[1], &[b'x'; 30_000], false), 30_000);
    assert_eq!(client.machine.send_data(keys[0], &[b'x'; 50_000], false), 15_535, "its own window");
    assert_eq!(client.machine.next_sendable(), None);
    client.send(kind::WINDOW_UPDATE, 0, 1, &10u32.to_be_bytes()).unwrap();
    client.frames();
    assert_eq!(client.machine.next_sendable(), Some(keys[0]));
    assert_eq!(client.machine.send_data(keys[0], &[b'x'; 50], false), 10);
    // A smaller window at the beginning of streams makes those that are there negative.
    let smaller = [&name::INITIAL_WINDOW_SIZE.to_be_bytes()[..], &100u32.to_be_bytes()].concat();
    client.send(kind::SETTINGS, 0, 0, &smaller).unwrap();
    client.send(kind::WINDOW_UPDATE, 0, 1, &65_435u32.to_be_bytes()).unwrap();
    client.frames();
    assert_eq!((client.machine.next_sendable(), client.machine.send_data(keys[0], b"x", false)), (None, 0));
    client.send(kind::WINDOW_UPDATE, 0, 1, &1u32.to_be_bytes()).unwrap();
    assert_eq!(client.machine.next_sendable(), Some(keys[0]));
    assert_eq!(client.machine.send_data(keys[0], b"xy", false), 1);
}

/// What a client sends before it has heard of smaller windows and tables is no error.
#[test]
fn settings_hold_from_when_they_are_acknowledged() {
    let settings = Settings { stream_window: 100, header_table_size: 0, ..Settings::default() };
    let mut client = Client {
        machine: ServerConnection::new(settings, Limits::default()),
        encoder: Encoder::new(),
        decoder: Decoder::new(4_096),
        input: frame::PREFACE.to_vec(),
        head: RequestHead::new(),
    };
    client.send(kind::SETTINGS, 0, 0, &[]).unwrap();
    for stream in [1, 3, 5] {
        client.begin(stream, false);
    }
    assert_eq!(client.send(kind::DATA, 0, 1, &[0; 10_000]).unwrap().len(), 1);
    client.send(kind::SETTINGS, flag::ACK, 0, &[]).unwrap();
    for (stream, count) in [(3, 101), (1, 1)] {
        let events = client.send(kind::DATA, 0, stream, &vec![0; count]).unwrap();
        assert!(matches!(events[..], [Event::Reset { code: ErrorCode::FLOW_CONTROL_ERROR, .. }]), "{events:?}");
    }
    client.encoder.set_table_size_max(0);
    client.begin(7, true);
    client.encoder.set_table_size_max(4_096);
    assert_eq!(code_of(client.request(9, GET, true)), ErrorCode::COMPRESSION_ERROR);
}

#[test]
fn streams_take_turns() {
    let mut client = Client::with(Settings { output_bytes_max: 40_000, ..Settings::default() });
    client.send(kind::WINDOW_UPDATE, 0, 0, &10_000_000u32.to_be_bytes()).unwrap();
    let larger = [&name::INITIAL_WINDOW_SIZE.to_be_bytes()[..], &1_000_000u32.to_be_bytes()].concat();
    client.send(kind::SETTINGS, 0, 0, &larger).unwrap();
    let keys = [1, 3, 5].map(|stream| client.begin(stream, true));
    let mut sent = [0; 3];
    for (key, sent) in keys.iter().zip(&mut sent) {
        client.machine.send_head(*key, &answer(200, &[]), false);
        *sent += client.machine.send_data(*key, &[b'x'; 200_000], false);
    }
    for _ in 0..30 {
        client.frames();
        while let Some(key) = client.machine.next_sendable() {
            let place = keys.iter().position(|known| *known == key).unwrap();
            sent[place] += client.machine.send_data(key, &vec![b'x'; 200_000 - sent[place]], false);
        }
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(most - least <= 60_000, "{sent:?}");
    }
    assert_eq!(sent, [200_000; 3]);
}

#[test]
fn streams_that_are_reset_count_as_long_as_somebody_works_for_them() {
    let mut client = Client::with(Settings { streams_max: 2, ..Settings::default() });
    let keys = [client.begin(1, true), client.begin(3, true)];
    for stream in [1, 3] {
        let events = client.send(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes()).unwrap();
        assert!(matches!(events[..], [Event::Reset { by_peer: true, code: ErrorCode::CANCEL, .. }]));
    }
    assert_eq!(client.request(5, GET, true), Ok(vec![Event::Refused]));
    assert_eq!(client.frames(), [reset(5, ErrorCode::REFUSED_STREAM)]);
    client.machine.release(keys[0], ErrorCode::CANCEL);
    assert!(client.frames().is_empty(), "it is over already");
    client.begin(7, true);
}

#[test]
fn unread_bodies_do_not_close_the_window_for_ever() {
    let mut client = Client::with(Settings { connection_window: 65_535, ..Settings::default() });
    for stream in (1..40).step_by(2) {
        let key = client.begin(stream, false);
        client.send(kind::DATA, 0, stream, &[0; 10_000]).unwrap();
        client.machine.send_head(key, &answer(413, &[]), false);
        client.machine.end(key);
        client.machine.look_at_clock(u64::from(stream) * 2_000);
        client.machine.release(key, ErrorCode::CANCEL);
        client.send(kind::DATA, 0, stream, &[0; 10_000]).unwrap();
        client.machine.look_at_clock(u64::from(stream) * 2_000 + 999);
        assert!(!client.frames().contains(&reset(stream, ErrorCode::NO_ERROR)));
        client.machine.look_at_clock(u64::from(stream) * 2_000 + 1_000);
        assert!(client.frames().contains(&reset(stream, ErrorCode::NO_ERROR)));
        // What was on its way is not held against anybody.
        assert_eq!(client.send(kind::DATA, 0, stream, &[0; 100]), Ok(vec![]));
    }
    assert_eq!(client.machine.streams(), 0);
}

#[test]
fn a_connection_that_ends_serves_what_was_on_its_way() {
    let mut client = Client::new();
    let first = client.begin(1, true);
    client.machine.begin_leaving();
    let frames = client.frames();
    assert_eq!((frames[0].kind, &frames[0].payload[..4]), (kind::GOAWAY, &[0x7f, 0xff, 0xff, 0xff][..]));
    assert_eq!(frames[1].kind, kind::PING);
    let second = client.begin(3, true);
    client.send(kind::PING, flag::ACK, 0, &frames[1].payload).unwrap();
    assert_eq!(client.frames()[0].payload[..4], [0, 0, 0, 3]);
    assert_eq!(client.request(5, GET, true), Ok(vec![]), "it is the client's to try again");
    for key in [first, second] {
        assert!(!client.machine.is_over());
        client.machine.send_head(key, &answer(200, &[]), true);
        client.machine.release(key, ErrorCode::CANCEL);
    }
    assert!(client.machine.is_over());
}

/// What a client must never do, and what it is told.
#[test]
fn errors_of_the_connection_have_their_codes() {
    const WINDOW: [u8; 4] = [0x7f, 0xff, 0xff, 0xff];
    type Sent = (u8, u8, u32, Vec<u8>);
    let cases: Vec<(&str, Vec<Sent>, ErrorCode)> = vec![
        ("DATA on an idle stream", vec![(kind::DATA, 0, 5, vec![])], ErrorCode::PROTOCOL_ERROR),
        ("DATA on no stream", vec![(kind::DATA, 0, 0, vec![])], ErrorCode::PROTOCOL_ERROR),
        ("RST_STREAM on an idle stream", vec![(kind::RST_STREAM, 0, 5, vec![0; 4])], ErrorCode::PROTOCOL_ERROR),
        ("RST_STREAM of 3 bytes", vec![(kind::RST_STREAM, 0, 1, vec![0; 3])], ErrorCode::FRAME_SIZE_ERROR),
        (
            "WINDOW_UPDATE on an idle stream",
            vec![(kind::WINDOW_UPDATE, 0, 5, vec![0, 0, 0, 1])],
            ErrorCode::PROTOCOL_ERROR,
        ),
        ("WINDOW_UPDATE by nothing", vec![(kind::WINDOW_UPDATE, 0, 0, vec![0; 4])], ErrorCode::PROTOCOL_ERROR),
        (
            "WINDOW_UPDATE by too much",
            vec![(kind::WINDOW_UPDATE, 0, 0, WINDOW.to_vec())],
            ErrorCode::FLOW_CONTROL_ERROR,
        ),
        ("WINDOW_UPDATE of 5 bytes", vec![(kind::WINDOW_UPDATE, 0, 0, vec![0; 5])], ErrorCode::FRAME_SIZE_ERROR),
        ("PING of 7 bytes", vec![(kind::PING, 0, 0, vec![0; 7])], ErrorCode::FRAME_SIZE_ERROR),
        ("PING on a stream", vec![(kind::PING, 0, 1, vec![0; 8])], ErrorCode::PROTOCOL_ERROR),
        ("SETTINGS on a stream", vec![(kind::SETTINGS, 0, 1, vec![])], ErrorCode::PROTOCOL_ERROR),
        ("SETTINGS of 5 bytes", vec![(kind::SETTINGS, 0, 0, vec![0; 5])], ErrorCode::FRAME_SIZE_ERROR),
        ("acknowledgement with settings", vec![(kind::SETTINGS, 1, 0, vec![0; 6])], ErrorCode::FRAME_SIZE_ERROR),
        ("window too large", vec![(kind::SETTINGS, 0, 0, vec![0, 4, 0x80, 0, 0, 0])], ErrorCode::FLOW_CONTROL_ERROR),
        ("push neither on nor off", vec![(kind::SETTINGS, 0, 0, vec![0, 2, 0, 0, 0, 2])], ErrorCode::PROTOCOL_ERROR),
        ("frames too small", vec![(kind::SETTINGS, 0, 0, vec![0, 5, 0, 0, 0, 1])], ErrorCode::PROTOCOL_ERROR),
        ("GOAWAY of 7 bytes", vec![(kind::GOAWAY, 0, 0, vec![0; 7])], ErrorCode::FRAME_SIZE_ERROR),
        ("PUSH_PROMISE", vec![(kind::PUSH_PROMISE, 4, 1, vec![0; 4])], ErrorCode::PROTOCOL_ERROR),
        ("CONTINUATION of nothing", vec![(kind::CONTINUATION, 4, 1, vec![])], ErrorCode::PROTOCOL_ERROR),
        ("frame too large", vec![(kind::DATA, 0, 1, vec![0; 16_385])], ErrorCode::FRAME_SIZE_ERROR),
        ("even stream", vec![(kind::HEADERS, 5, 2, vec![0x82])], ErrorCode::PROTOCOL_ERROR),
        (
            "stream that depends on itself",
            vec![(kind::HEADERS, 0x25, 3, vec![0, 0, 0, 3, 1])],
            ErrorCode::PROTOCOL_ERROR,
        ),
        ("padding only", vec![(kind::HEADERS, 0xd, 3, vec![9])], ErrorCode::PROTOCOL_ERROR),
        (
            "header block that is none",
            vec![(kind::HEADERS, 5, 3, vec![0xff, 0xff, 0xff, 0xff])],
            ErrorCode::COMPRESSION_ERROR,
        ),
        (
            "PING within a header block",
            vec![(kind::HEADERS, 1, 3, vec![0x82]), (kind::PING, 0, 0, vec![0; 8])],
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            "CONTINUATION of another stream",
            vec![(kind::HEADERS, 1, 3, vec![0x82]), (kind::CONTINUATION, 4, 5, vec![0x82])],
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            "header block without an end",
            vec![(kind::HEADERS, 1, 3, vec![0; 16_000]), (kind::CONTINUATION, 0, 3, vec![0; 16_000])],
            ErrorCode::ENHANCE_YOUR_CALM,
        ),
    ];
    for (what, frames, code) in cases {
        let mut client = Client::new();
        client.begin(1, false);
        let (last, before) = frames.split_last().unwrap();
        for (kind, flags, stream, payload) in before {
            assert_eq!(client.send(*kind, *flags, *stream, payload), Ok(vec![]), "{what}");
        }
        let (kind, flags, stream, payload) = last;
        assert_eq!(code_of(client.send(*kind, *flags, *stream, payload)), code, "{what}");
    }
    let mut client = Client::new();
    let key = client.begin(3, true);
    assert_eq!(code_of(client.request(1, GET, true)), ErrorCode::PROTOCOL_ERROR, "a lower number");
    let mut client = Client { machine: client.machine, ..Client::new() };
    client.machine.send_head(key, &answer(200, &[]), true);
    client.machine.release(key, ErrorCode::CANCEL);
    assert_eq!(code_of(client.send(kind::DATA, 0, 3, b"x")), ErrorCode::STREAM_CLOSED, "a stream that is over");
}

#[test]
fn no_preface_no_http2() {
    for wrong in ["GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSN", "\0\0\0"] {
        let mut machine = ServerConnection::new(Settings::default(), Limits::default());
        let (mut used, mut head) = (0, RequestHead::new());
        let error = machine.next(wrong.as_bytes(), &mut used, &mut head).unwrap_err();
        assert_eq!(error.code, ErrorCode::PROTOCOL_ERROR);
    }
    let mut machine = ServerConnection::new(Settings::default(), Limits::default());
    let mut input = frame::PREFACE.to_vec();
    frame::write_ping(&mut input, 0, [0; 8]);
    let (mut used, mut head) = (0, RequestHead::new());
    assert_eq!(machine.next(&input, &mut used, &mut head).unwrap_err().code, ErrorCode::PROTOCOL_ERROR);
}

/// Floods: what is sent over and over, and how much of it is borne at most.
#[test]
fn whoever_floods_is_cut_off() {
    type Flood = fn(&mut Client, u32) -> Result<Vec<Event>, ConnectionError>;
    let floods: [(&str, Flood, u32); 12] = [
        (
            "rapid reset",
            |client, n| {
                let key = client.begin(2 * n + 3, true);
                let reset = client.send(kind::RST_STREAM, 0, 2 * n + 3, &[0, 0, 0, 8]);
                client.machine.release(key, ErrorCode::CANCEL);
                reset
            },
            400,
        ),
        (
            "made resets: windows by nothing",
            |client, n| {
                let key = client.begin(2 * n + 3, true);
                let reset = client.send(kind::WINDOW_UPDATE, 0, 2 * n + 3, &[0; 4]);
                client.machine.release(key, ErrorCode::CANCEL);
                reset
            },
            200,
        ),
        (
            "made resets: data after the end",
            |client, n| {
                let key = client.begin(2 * n + 3, true);
                let reset = client.send(kind::DATA, 0, 2 * n + 3, b"x");
                client.machine.release(key, ErrorCode::CANCEL);
                reset
            },
            250,
        ),
        ("made resets: malformed heads", |client, n| client.request(2 * n + 3, &[(":method", "GET")], true), 200),
        ("streams beyond the limit", |client, n| client.request(2 * n + 3, GET, true), 2_100),
        ("PING", |client, _| client.send(kind::PING, 0, 0, &[0; 8]), 1_000),
        ("SETTINGS", |client, _| client.send(kind::SETTINGS, 0, 0, &[]), 200),
        ("empty DATA", |client, _| client.send(kind::DATA, 0, 1, b""), 1_000),
        ("padding alone", |client, _| client.send(kind::DATA, flag::PADDED, 1, &[0]), 1_000),
        ("WINDOW_UPDATE", |client, _| client.send(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), 2_000),
        ("PRIORITY", |client, _| client.send(kind::PRIORITY, 0, 1, &[0; 5]), 2_000),
        ("unknown frames", |client, _| client.send(0xbe, 0, 1, &[0; 5]), 2_000),
    ];
    for (what, flood, most) in floods {
        let mut client = Client::new();
        client.begin(1, false);
        let mut answered = 0;
        let (times, error) = (0..)
            .find_map(|n| {
                let result = flood(&mut client, n).err().map(|error| (n, error));
                answered += client.frames().len();
                result
            })
            .unwrap();
        assert_eq!(error.code, ErrorCode::ENHANCE_YOUR_CALM, "{what}");
        assert!(times <= most + 1 && times >= most / 2, "{what}: {times}");
        assert!(answered <= 2 * times as usize + 2, "{what}: {answered} frames");
    }
    let mut client = Client::new();
    assert_eq!(client.send(kind::HEADERS, flag::END_STREAM, 1, &[]), Ok(vec![]));
    let (times, error) =
        (0..).find_map(|n| client.send(kind::CONTINUATION, 0, 1, &[]).err().map(|error| (n, error))).unwrap();
    assert_eq!((times, error.code), (32, ErrorCode::ENHANCE_YOUR_CALM));
}

/// Each of its SETTINGS has all streams send a byte (CVE-2019-9511).
#[test]
fn whoever_has_all_streams_dribble_is_cut_off() {
    let mut client = Client::new();
    let window = |size: u32| [&name::INITIAL_WINDOW_SIZE.to_be_bytes()[..], &size.to_be_bytes()].concat();
    client.send(kind::SETTINGS, 0, 0, &window(0)).unwrap();
    let mut head = ResponseHead::new();
    head.start(Version::Http11, 200);
    for stream in 0..50 {
        let key = client.begin(2 * stream + 1, true);
        client.machine.send_head(key, &head, false);
        assert_eq!(client.machine.send_data(key, &[b'x'; 5_000], false), 0);
    }
    client.frames();
    let (mut times, mut bytes) = (0, 0);
    let error = loop {
        times += 1;
        if let Err(error) = client.send(kind::SETTINGS, 0, 0, &window(times)) {
            break error;
        }
        while let Some(key) = client.machine.next_sendable() {
            client.machine.send_data(key, &[b'x'; 5_000], false);
        }
        bytes += client.frames().iter().filter(|frame| frame.kind == kind::DATA).count();
    };
    assert_eq!(error.code, ErrorCode::ENHANCE_YOUR_CALM);
    assert!((100..=200).contains(&times) && bytes == 50 * (times as usize - 1), "{times} times, {bytes} bytes");
}

/// One field in the table, and thousands of references to it of one byte each; crumbs of cookies likewise.
#[test]
fn heads_do_not_grow_in_the_decoder() {
    for name in ["x", "cookie"] {
        let mut client = Client::new();
        let large = "v".repeat(3_000);
        let first = client.block(&[GET, &[(name, &large), (name, &large)]].concat());
        let events = client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &first).unwrap();
        assert!(matches!(events[..], [Event::Request(_)]));
        // It stands in the table behind what repeats in this one.
        let mut bomb = client.block(GET);
        bomb.extend([0xbf; 16_000]);
        let events = client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 3, &bomb);
        assert!(matches!(events.as_deref(), Ok([Event::HeadTooLarge]) | Err(_)), "{name}: {events:?}");
        assert!(client.head.headers.memory_bytes() < 64 << 10, "{}", client.head.headers.memory_bytes());
    }
}

/// Bytes one by one are the same as all at once.
#[test]
fn cuts_do_not_matter() {
    let mut client = Client::new();
    let mut input = Vec::new();
    let block = client.block(POST);
    let (start, end) = block.split_at(3);
    for (kind, flags, stream, payload) in [
        (kind::HEADERS, flag::PADDED | flag::PRIORITY, 1, [b"\x02\0\0\0\0\x09", start, b"PP"].concat()),
        (kind::CONTINUATION, flag::END_HEADERS, 1, end.to_vec()),
        (kind::SETTINGS, 0, 0, vec![0, 4, 0, 0, 0x80, 0, 0, 3, 0, 0, 0, 1]),
        (kind::DATA, flag::PADDED, 1, b"\x01abcP".to_vec()),
        (kind::PING, 0, 0, vec![7; 8]),
        (0xfe, 0, 0, vec![1; 20]),
        (kind::DATA, flag::END_STREAM, 1, b"de".to_vec()),
    ] {
        let length = u32::try_from(payload.len()).unwrap();
        FrameHeader { length, kind, flags, stream }.write(&mut input);
        input.extend_from_slice(&payload);
    }
    for step in [1, 2, 3, 7, 1_000] {
        let mut client = Client::new();
        let (mut body, mut events, mut rest) = (Vec::new(), 0, Vec::new());
        let mut has_ended = false;
        for piece in input.chunks(step) {
            rest.extend_from_slice(piece);
            let (given, used) = client.give(&rest);
            for event in given.unwrap() {
                match event {
                    Event::Request(_) => events += 1,
                    Event::Data { from, to, ends, .. } => {
                        body.extend_from_slice(&rest[from..to]);
                        has_ended |= ends;
                    }
                    other => panic!("{other:?}"),
                }
            }
            rest.drain(..used);
            assert!(rest.len() < 32);
        }
        assert_eq!((events, body.as_slice(), has_ended), (1, &b"abcde"[..], true), "{step}");
    }
}
