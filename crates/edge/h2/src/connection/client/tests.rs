//! A server that writes frames by hand, and what the machine of a client makes of them.

use http::{BodyLength, Version};

use super::*;
use crate::{
    frame::{FrameHeader, HEADER_LEN, kind},
    hpack::{Decoder, Encoder, HeaderLimits},
    settings::name,
};

/// A server that writes frames, and the machine.
struct Server {
    machine: ClientConnection,
    encoder: Encoder,
    decoder: Decoder,
    head: ResponseHead,
}

/// A frame that the machine has sent: type, flags, stream, payload.
type Frame = (u8, u8, u32, Vec<u8>);

const END: u8 = flag::END_STREAM;

impl Server {
    /// One whose settings have been taken.
    fn new() -> Self {
        Self::with(Settings::default(), &[])
    }

    fn with(settings: Settings, said: &[(u16, u32)]) -> Self {
        let mut server = Self {
            machine: ClientConnection::new(settings, Limits::default()),
            encoder: Encoder::new(),
            decoder: Decoder::new(4_096),
            head: ResponseHead::new(),
        };
        let mut out = Vec::new();
        frame::write_settings(&mut out, said);
        frame::write_settings_ack(&mut out);
        assert_eq!(server.give(&out), Ok(vec![]));
        server.output();
        server
    }

    fn output(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.machine.take_output(&mut out);
        self.machine.note_unsent(0);
        out
    }

    fn give(&mut self, input: &[u8]) -> Result<Vec<Event>, ConnectionError> {
        let (mut events, mut used) = (Vec::new(), 0);
        while let Some(event) = self.machine.next(input, &mut used, &mut self.head)? {
            events.push(event);
        }
        assert_eq!(used, input.len());
        Ok(events)
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<Vec<Event>, ConnectionError> {
        let mut out = Vec::new();
        FrameHeader { length: u32::try_from(payload.len()).unwrap(), kind, flags, stream }.write(&mut out);
        out.extend_from_slice(payload);
        self.give(&out)
    }

    fn answer(&mut self, stream: u32, fields: &[(&str, &str)], flags: u8) -> Result<Vec<Event>, ConnectionError> {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        for (name, value) in fields {
            self.encoder.field(&mut block, name.as_bytes(), value.as_bytes(), Indexing::Index);
        }
        self.send(kind::HEADERS, flag::END_HEADERS | flags, stream, &block)
    }

    fn ask(&mut self, method: &str, ends: bool) -> StreamKey {
        let key =
            self.machine.send_request(&request(method, "/"), &RequestOptions { ends, ..RequestOptions::default() });
        self.output();
        key.unwrap()
    }

    fn frames(&mut self) -> Vec<Frame> {
        let (out, mut frames) = (self.output(), Vec::new());
        let mut rest = &out[..];
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
            let header = FrameHeader::read(*header);
            let (payload, after) = after.split_at(header.length as usize);
            frames.push((header.kind, header.flags, header.stream, payload.to_vec()));
            rest = after;
        }
        frames
    }

    fn fields(&mut self, block: &[u8]) -> Vec<String> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let limits = HeaderLimits { fields: 100, bytes: 10_000 };
        let decoded = self.decoder.decode(block, &limits, |field| {
            fields.push(format!("{}: {}", text(field.name), text(field.value)));
            Ok::<(), ()>(())
        });
        decoded.unwrap();
        fields
    }

    fn lines(&self) -> String {
        let mut text = Vec::new();
        self.head.write_to(&mut text);
        String::from_utf8(text).unwrap()
    }
}

fn request(method: &str, target: &str) -> RequestHead {
    let mut head = RequestHead::new();
    head.start(method.as_bytes(), target.as_bytes(), Version::Http11);
    head.headers.add(b"Host", b"example.com");
    head
}

fn reset(code: ErrorCode) -> Vec<u8> {
    code.0.to_be_bytes().to_vec()
}

#[test]
fn it_begins_with_preface_and_settings() {
    let mut machine = ClientConnection::new(Settings::default(), Limits::default());
    let mut out = Vec::new();
    machine.take_output(&mut out);
    let rest = out.strip_prefix(PREFACE).unwrap();
    let header = FrameHeader::read(*rest.first_chunk().unwrap());
    assert_eq!((header.kind, header.length as usize), (kind::SETTINGS, rest.len() - HEADER_LEN));
    assert_eq!(rest[HEADER_LEN..HEADER_LEN + 6], [0, 2, 0, 0, 0, 0], "nothing is to be pushed");
    let mut head = ResponseHead::new();
    let ping = [0, 0, 8, kind::PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(machine.next(&ping, &mut 0, &mut head).unwrap_err().code, ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn requests_are_fields() {
    let mut server = Server::new();
    let mut head = request("POST", "http://example.com/a?b");
    for (name, value) in [
        ("Connection", "close"),
        ("transfer-encoding", "chunked"),
        ("TE", "trailers"),
        ("Cookie", "secret=1"),
        ("X-One", "1"),
    ] {
        head.headers.add(name.as_bytes(), value.as_bytes());
    }
    let more: &[(&[u8], &[u8])] = &[(b"connection", b"keep-alive"), (b"x-two", b"2")];
    let options = RequestOptions { fields: more, is_secure: true, ..RequestOptions::default() };
    let key = server.machine.send_request(&head, &options).unwrap();
    assert_eq!(server.machine.send_data(key, b"hello", false), 5);
    server.machine.send_trailers(key, b"x-sum: 1\r\n");
    let frames = server.frames();
    let kinds: Vec<_> = frames.iter().map(|(kind, flags, stream, _)| (*kind, *flags, *stream)).collect();
    let ends = flag::END_HEADERS | END;
    assert_eq!(kinds, [(kind::HEADERS, flag::END_HEADERS, 1), (kind::DATA, 0, 1), (kind::HEADERS, ends, 1)]);
    assert_eq!(
        server.fields(&frames[0].3),
        [
            ":method: POST",
            ":scheme: https",
            ":authority: example.com",
            ":path: /a?b",
            "te: trailers",
            "cookie: secret=1",
            "x-one: 1",
            "x-two: 2"
        ]
    );
    assert_eq!(server.fields(&frames[2].3), ["x-sum: 1"]);
    let connect = request("CONNECT", "example.com:443");
    server.machine.send_request(&connect, &RequestOptions::default()).unwrap();
    let frames = server.frames();
    assert_eq!(server.fields(&frames[0].3), [":method: CONNECT", ":authority: example.com:443"]);
    for (method, target, path) in
        [("OPTIONS", "*", "*"), ("OPTIONS", "http://a.example", "*"), ("GET", "http://a.example", "/")]
    {
        server.machine.send_request(&request(method, target), &RequestOptions::default()).unwrap();
        let frames = server.frames();
        assert_eq!(server.fields(&frames[0].3).last().unwrap(), &format!(":path: {path}"));
    }
    let websocket = RequestOptions { protocol: Some(b"websocket"), ..RequestOptions::default() };
    server.machine.send_request(&request("GET", "/chat"), &websocket).unwrap();
    let frames = server.frames();
    assert_eq!(
        server.fields(&frames[0].3),
        [":method: CONNECT", ":protocol: websocket", ":scheme: http", ":authority: example.com", ":path: /chat"]
    );
}

#[test]
fn answers_are_heads_bodies_and_trailers() {
    let mut server = Server::new();
    let key = server.ask("GET", true);
    let early = [(":status", "103"), ("link", "</a>")];
    assert_eq!(server.answer(1, &early, 0), Ok(vec![Event::Response { stream: key, ends: false }]));
    assert_eq!(server.lines(), "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
    let head = [(":status", "200"), ("content-type", "application/grpc")];
    assert_eq!(server.answer(1, &head, 0), Ok(vec![Event::Response { stream: key, ends: false }]));
    let text = "HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(server.lines(), text);
    assert_eq!(response_body_length(&server.head, Method::Get), BodyLength::Chunked);
    let data = server.send(kind::DATA, 0, 1, b"abc");
    assert_eq!(data, Ok(vec![Event::Data { stream: key, from: 9, to: 12, ends: false }]));
    assert_eq!(server.answer(1, &[("grpc-status", "0")], END), Ok(vec![Event::Trailers(key)]));
    assert_eq!(server.machine.trailers(), b"grpc-status: 0\r\n");
    server.machine.consumed(key, 3);
    server.machine.release(key, ErrorCode::CANCEL);
    let opened = server.frames();
    assert!(opened.iter().all(|(kind, _, stream, _)| (*kind, *stream) == (kind::WINDOW_UPDATE, 0)), "{opened:?}");
    assert_eq!(server.machine.streams(), 0);
    // No body, by END_STREAM, by the method, by the status.
    for (method, fields, ends, expected) in [
        ("GET", &[(":status", "200")][..], END, BodyLength::Exact(0)),
        ("GET", &[(":status", "200"), ("content-length", "0")], END, BodyLength::Exact(0)),
        ("HEAD", &[(":status", "200"), ("content-length", "5")], END, BodyLength::None),
        ("GET", &[(":status", "304"), ("content-length", "5")], END, BodyLength::None),
        ("GET", &[(":status", "204")], 0, BodyLength::None),
        ("GET", &[(":status", "200"), ("content-length", "5")], 0, BodyLength::Exact(5)),
        ("CONNECT", &[(":status", "200")], 0, BodyLength::None),
    ] {
        let key = server.ask(method, true);
        let ended = ends == END;
        assert_eq!(server.answer(key.id(), fields, ends), Ok(vec![Event::Response { stream: key, ends: ended }]));
        assert_eq!(response_body_length(&server.head, Method::of(method.as_bytes())), expected, "{fields:?}");
        server.machine.release(key, ErrorCode::CANCEL);
        server.output();
    }
}

#[test]
fn malformed_answers_never_get_out() {
    let ok = (":status", "200");
    // What is wrong, fields, flags, and data.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u8, &'a [u8]);
    let data: &[Case<'_>] = &[
        ("no status", &[("a", "b")], 0, b""),
        ("two", &[ok, ok], 0, b""),
        ("behind fields", &[("a", "b"), ok], 0, b""),
        ("another pseudo-field", &[ok, (":path", "/")], 0, b""),
        ("two digits", &[(":status", "20")], 0, b""),
        ("a sign", &[(":status", "+20")], 0, b""),
        ("below 100", &[(":status", "099")], 0, b""),
        ("101", &[(":status", "101")], 0, b""),
        ("interim and the end", &[(":status", "103")], END, b""),
        ("connection", &[ok, ("connection", "close")], 0, b""),
        ("transfer-encoding", &[ok, ("transfer-encoding", "chunked")], 0, b""),
        ("upper case", &[ok, ("Content-Type", "a")], 0, b""),
        ("line feed", &[ok, ("a", "b\nc: d")], 0, b""),
        ("lengths", &[ok, ("content-length", "1"), ("content-length", "1")], 0, b""),
        ("no number", &[ok, ("content-length", "+1")], 0, b""),
        ("announced, but ended", &[ok, ("content-length", "1")], END, b""),
        ("more than announced", &[ok, ("content-length", "1")], 0, b"ab"),
        ("less than announced", &[ok, ("content-length", "3")], 0, b"ab"),
        ("a body of 204", &[(":status", "204")], 0, b"a"),
    ];
    for (name, fields, flags, body) in data {
        let mut server = Server::new();
        let key = server.ask("GET", true);
        let mut events = server.answer(1, fields, *flags).unwrap();
        if !body.is_empty() {
            assert_eq!(events, [Event::Response { stream: key, ends: false }], "{name}");
            events = server.send(kind::DATA, END, 1, body).unwrap();
        }
        let code = ErrorCode::PROTOCOL_ERROR;
        assert_eq!(events, [Event::Reset { stream: key, code, by_peer: false }], "{name}");
        assert!(server.frames().contains(&(kind::RST_STREAM, 0, 1, reset(code))), "{name}");
        // The connection goes on, and what comes of it is nobody's.
        assert_eq!(server.send(kind::DATA, 0, 1, b"x"), Ok(vec![]), "{name}");
        server.machine.release(key, ErrorCode::CANCEL);
        let key = server.ask("GET", true);
        assert_eq!(server.answer(3, &[ok], END), Ok(vec![Event::Response { stream: key, ends: true }]), "{name}");
    }
    let mut server = Server::new();
    let key = server.ask("HEAD", true);
    server.answer(1, &[ok, ("content-length", "1")], 0).unwrap();
    let code = ErrorCode::PROTOCOL_ERROR;
    assert_eq!(
        server.send(kind::DATA, END, 1, b"a"),
        Ok(vec![Event::Reset { stream: key, code, by_peer: false }]),
        "HEAD"
    );
    let key = server.ask("GET", true);
    assert_eq!(
        server.send(kind::DATA, 0, 3, b"a"),
        Ok(vec![Event::Reset { stream: key, code, by_peer: false }]),
        "data before a head"
    );
}

#[test]
fn errors_of_the_connection_have_their_codes() {
    type Case<'a> = (&'a str, u8, u8, u32, &'a [u8], ErrorCode);
    let data: &[Case<'_>] = &[
        ("a push", kind::PUSH_PROMISE, flag::END_HEADERS, 1, b"\0\0\0\x02\x82", ErrorCode::PROTOCOL_ERROR),
        ("a stream of the server's", kind::HEADERS, flag::END_HEADERS, 2, b"\x88", ErrorCode::PROTOCOL_ERROR),
        ("an idle stream", kind::HEADERS, flag::END_HEADERS, 9, b"\x88", ErrorCode::PROTOCOL_ERROR),
        ("data of an idle stream", kind::DATA, 0, 9, b"x", ErrorCode::PROTOCOL_ERROR),
        ("urgency", kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1", ErrorCode::PROTOCOL_ERROR),
        ("wants to be pushed to", kind::SETTINGS, 0, 0, b"\0\x02\0\0\0\x01", ErrorCode::PROTOCOL_ERROR),
        ("a block of nothing", kind::HEADERS, flag::END_HEADERS, 1, b"\x80", ErrorCode::COMPRESSION_ERROR),
        ("GOAWAY too short", kind::GOAWAY, 0, 0, b"\0\0\0\0", ErrorCode::FRAME_SIZE_ERROR),
        ("GOAWAY of a stream", kind::GOAWAY, 0, 1, b"\0\0\0\0\0\0\0\0", ErrorCode::PROTOCOL_ERROR),
    ];
    for (name, kind, flags, stream, payload, code) in data {
        let mut server = Server::new();
        server.ask("GET", true);
        assert_eq!(server.send(*kind, *flags, *stream, payload).unwrap_err().code, *code, "{name}");
    }
    let mut server = Server::new();
    let key = server.ask("GET", true);
    server.answer(1, &[(":status", "200")], END).unwrap();
    server.machine.release(key, ErrorCode::CANCEL);
    assert_eq!(server.send(kind::DATA, 0, 1, b"x").unwrap_err().code, ErrorCode::STREAM_CLOSED);
}

#[test]
fn what_is_left_behind_was_not_begun() {
    let mut server = Server::new();
    let keys: Vec<StreamKey> = (0..3).map(|_| server.ask("POST", true)).collect();
    // First that it will leave, then what the last one is.
    let all = [&WINDOW_MAX.to_be_bytes()[..], &[0; 4]].concat();
    assert_eq!(server.send(kind::GOAWAY, 0, 0, &all), Ok(vec![]));
    assert!(server.machine.has_server_left());
    assert_eq!(server.machine.send_request(&request("GET", "/"), &RequestOptions::default()), None);
    let refused = |stream| Event::Reset { stream, code: ErrorCode::REFUSED_STREAM, by_peer: true };
    assert_eq!(
        server.send(kind::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0, b'b', b'y', b'e']),
        Ok(vec![refused(keys[1]), refused(keys[2])])
    );
    assert_eq!(server.machine.requests_served(), Some(1));
    assert!(server.machine.is_reset(keys[1]));
    server.machine.send_data(keys[1], b"into the void", false);
    // What the server has of them is nobody's; the first one is answered.
    assert_eq!(server.send(kind::DATA, 0, 3, b"x"), Ok(vec![]));
    let answered = server.answer(1, &[(":status", "200")], END);
    assert_eq!(answered, Ok(vec![Event::Response { stream: keys[0], ends: true }]));
    keys.iter().for_each(|key| server.machine.release(*key, ErrorCode::CANCEL));
    assert_eq!(server.machine.streams(), 0);
    assert!(!server.frames().iter().any(|(kind, ..)| matches!(*kind, kind::RST_STREAM | kind::DATA)));
    let mut server = Server::new();
    let key = server.ask("POST", true);
    assert_eq!(server.send(kind::RST_STREAM, 0, 1, &reset(ErrorCode::REFUSED_STREAM)), Ok(vec![refused(key)]));
}

#[test]
fn the_server_says_how_many_streams_it_takes() {
    let mut server = Server::with(Settings::default(), &[(name::MAX_CONCURRENT_STREAMS, 2)]);
    let first = server.ask("GET", true);
    server.ask("GET", true);
    assert_eq!(server.machine.streams_max(), 2);
    assert_eq!(server.machine.send_request(&request("GET", "/"), &RequestOptions::default()), None);
    server.answer(1, &[(":status", "200")], END).unwrap();
    server.machine.release(first, ErrorCode::CANCEL);
    server.ask("GET", true);
    let mut server = Server::with(Settings { streams_max: 1, ..Settings::default() }, &[]);
    server.ask("GET", true);
    assert_eq!(server.machine.send_request(&request("GET", "/"), &RequestOptions::default()), None);
    assert!(!server.machine.understands_protocols());
    assert_eq!(server.send(kind::SETTINGS, 0, 0, &[0, 8, 0, 0, 0, 1]), Ok(vec![]));
    assert!(server.machine.understands_protocols());
}

#[test]
fn what_is_cancelled_is_no_error_when_it_comes_late() {
    let mut server = Server::new();
    for _ in 0..200 {
        let key = server.ask("GET", true);
        server.machine.release(key, ErrorCode::CANCEL);
        let frames = server.frames();
        assert!(frames.contains(&(kind::RST_STREAM, 0, key.id(), reset(ErrorCode::CANCEL))), "{frames:?}");
    }
    // The first one has been forgotten since.
    for stream in [1, 399] {
        assert_eq!(server.answer(stream, &[(":status", "200")], 0), Ok(vec![]));
        assert_eq!(server.send(kind::DATA, END, stream, b"late"), Ok(vec![]));
        assert_eq!(server.send(kind::RST_STREAM, 0, stream, &[0; 4]), Ok(vec![]));
    }
}

#[test]
fn an_answer_may_end_before_its_request() {
    let mut server = Server::new();
    let key = server.ask("POST", false);
    server.answer(1, &[(":status", "413")], END).unwrap();
    // RFC 9113 section 8.1: the rest of the body is not wanted.
    let events = server.send(kind::RST_STREAM, 0, 1, &[0; 4]);
    assert_eq!(events, Ok(vec![Event::Reset { stream: key, code: ErrorCode::NO_ERROR, by_peer: true }]));
    server.machine.send_data(key, b"into the void", true);
    server.machine.release(key, ErrorCode::CANCEL);
    let opens_window = |frame: &Frame| (frame.0, frame.2) == (kind::WINDOW_UPDATE, 0);
    assert!(server.frames().iter().all(opens_window) && server.machine.streams() == 0);
}

#[test]
fn a_server_that_floods_is_cut_off() {
    let ping: &[u8] = &[0, 0, 8, kind::PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let settings: &[u8] = &[0, 0, 0, kind::SETTINGS, 0, 0, 0, 0, 0];
    let unknown: &[u8] = &[0, 0, 0, 200, 0, 0, 0, 0, 0];
    let empty: &[u8] = &[0, 0, 0, kind::DATA, 0, 0, 0, 0, 1];
    let window: &[u8] = &[0, 0, 4, kind::WINDOW_UPDATE, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    // `:status: 103`, as a literal that no table gets.
    let interim: &[u8] = &[0, 0, 5, kind::HEADERS, 4, 0, 0, 0, 1, 0x08, 3, b'1', b'0', b'3'];
    for (name, flood, is_answered) in [
        ("ping", ping, true),
        ("settings", settings, true),
        ("unknown", unknown, true),
        ("empty", empty, true),
        ("window", window, true),
        ("interim", interim, false),
    ] {
        let mut server = Server::new();
        server.ask("GET", true);
        if is_answered {
            server.answer(1, &[(":status", "200")], 0).unwrap();
        }
        let mut sent = 0usize;
        let error = loop {
            sent += 1;
            assert!(sent < 3_000, "{name}");
            if let Err(error) = server.give(flood) {
                break error;
            }
            assert!(server.output().len() < 1_000);
        };
        assert_eq!(error.code, ErrorCode::ENHANCE_YOUR_CALM, "{name}");
    }
}

#[test]
fn what_is_not_read_bounds_what_comes() {
    let settings = Settings { stream_window: 1_000, ..Settings::default() };
    let mut server = Server::with(settings, &[]);
    let (slow, quick) = (server.ask("GET", true), server.ask("GET", true));
    for stream in [1, 3] {
        server.answer(stream, &[(":status", "200")], 0).unwrap();
    }
    server.send(kind::DATA, 0, 1, &[0; 1_000]).unwrap();
    for _ in 0..100 {
        server.send(kind::DATA, 0, 3, &[0; 1_000]).unwrap();
        server.machine.consumed(quick, 1_000);
        let frames = server.frames();
        assert!(frames.iter().any(|(kind, _, stream, _)| (*kind, *stream) == (kind::WINDOW_UPDATE, 3)), "{frames:?}");
        assert!(!frames.iter().any(|(kind, _, stream, _)| (*kind, *stream) == (kind::WINDOW_UPDATE, 1)));
    }
    let code = ErrorCode::FLOW_CONTROL_ERROR;
    assert_eq!(server.send(kind::DATA, 0, 1, b"x"), Ok(vec![Event::Reset { stream: slow, code, by_peer: false }]));
}
