//! What the machine of an HTTP/3 connection promises whatever a client sends.

use h3::{
    CalmLimits, ErrorCode, Event, Order, OwnStream, SendHalf, ServerConnection, Settings, StreamId, StreamKey, frame,
};
use http::{Limits, RequestHead, ResponseHead, Version};

/// Streams of a client, of either kind, and of this side.
const STREAMS: [u64; 12] = [0, 4, 8, 12, 400, 2, 6, 10, 14, 18, 1, 3];

/// Something that comes on a stream.
struct Arrival<'d> {
    stream: StreamId,
    bytes: &'d [u8],
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    No,
    Fin,
    Reset,
    Stop,
}

/// Arrivals, each behind two bytes: one that says on which stream, and how it ends, and one that says how long it is.
fn arrivals(mut data: &[u8]) -> Vec<Arrival<'_>> {
    let mut all = Vec::new();
    while let [how, length, rest @ ..] = data {
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        let stream = StreamId(STREAMS[usize::from(*how) % STREAMS.len()]);
        let end = match usize::from(*how) / STREAMS.len() {
            0..=9 => End::No,
            10..=17 => End::Fin,
            18 | 19 => End::Reset,
            _ => End::Stop,
        };
        all.push(Arrival { stream, bytes, end });
        data = rest;
    }
    all
}

/// The sending half of a stream, which takes so much at a time.
struct Half {
    bytes: Vec<u8>,
    room: usize,
    is_finished: bool,
}

impl SendHalf for Half {
    fn write(&mut self, bytes: &[u8]) -> usize {
        assert!(!self.is_finished);
        let count = bytes.len().min(self.room);
        self.bytes.extend_from_slice(&bytes[..count]);
        count
    }

    fn finish(&mut self) {
        assert!(!self.is_finished);
        self.is_finished = true;
    }
}

/// What has become of a connection, in words.
#[derive(Debug, Default, PartialEq, Eq)]
struct Story(Vec<String>);

impl Story {
    /// Pieces of a body that follow each other are one.
    fn tell(&mut self, what: String, of: &str) {
        match self.0.last_mut().filter(|last| !of.is_empty() && last.starts_with(of) && !last.ends_with("end")) {
            Some(last) => last.push_str(&what[of.len()..]),
            None => self.0.push(what),
        }
    }
}

/// The bytes are what comes, in pieces of which the first byte says how long they are. Heads are what a server may be sent, answers are whole
/// frames, the machine knows no stream that is over, and what it tells does not depend on how the bytes were cut.
pub fn server(data: &[u8]) {
    let Some((settings, data)) = data.split_first() else { return };
    let settings = Settings {
        table_bytes_max: if settings & 1 == 0 { 0 } else { 200 },
        knows_protocols: settings & 2 == 0,
        output_bytes_max: 2_000,
        unknown_bytes_max: 500,
        // What pieces earn depends on how large they are.
        calm: CalmLimits { points_max: 1_000_000, points_each_second: 0 },
        ..Settings::default()
    };
    let whole = run(settings, data, usize::MAX);
    assert_eq!(whole, run(settings, data, 1));
    assert_eq!(whole, run(settings, data, 7));
}

fn run(settings: Settings, data: &[u8], cut: usize) -> Story {
    let mut machine = ServerConnection::new(settings, Limits::default());
    let (mut head, mut story, mut held) = (RequestHead::new(), Story::default(), Vec::<StreamKey>::new());
    machine.opened(OwnStream::Control, StreamId(3));
    machine.opened(OwnStream::Decoder, StreamId(7));
    for (number, Arrival { stream, bytes, end }) in arrivals(data).into_iter().enumerate() {
        let pieces = if bytes.is_empty() { vec![bytes] } else { bytes.chunks(cut).collect() };
        let last = pieces.len() - 1;
        for (nth, piece) in pieces.into_iter().enumerate() {
            let fin = nth == last && end == End::Fin;
            if let Err(error) = give(&mut machine, (stream, piece, fin), &mut head, &mut held, &mut story) {
                assert_ne!(error.code, ErrorCode::NO_ERROR);
                story.tell(format!("error {}", error.code.name()), "");
                return story;
            }
        }
        let event = match end {
            End::Reset => machine.reset_by_peer(stream, ErrorCode(7)),
            End::Stop => machine.stopped_by_peer(stream, ErrorCode(8)),
            _ => Ok(None),
        };
        match event {
            Ok(Some(event)) => story.tell(format!("{event:?}"), ""),
            Ok(None) => {}
            Err(error) => {
                story.tell(format!("error {}", error.code.name()), "");
                return story;
            }
        }
        if number.is_multiple_of(3) && !held.is_empty() {
            answer(&mut machine, held.remove(0), number);
        }
        if number == 40 {
            machine.begin_leaving();
            machine.leave();
        }
        carry_out(&mut machine, &held);
    }
    for key in held {
        machine.release(key, ErrorCode::INTERNAL_ERROR);
    }
    // What is left are heads that are not whole, each of which has its time.
    let since = machine.awaited_since_ms();
    assert_eq!(since, (machine.awaited() > 0).then_some(0));
    while let Ok(Some(event)) = machine.refuse_late_head(0) {
        story.tell(format!("{event:?}"), "");
    }
    carry_out(&mut machine, &[]);
    assert_eq!((machine.awaited(), machine.streams()), (0, 0));
    machine.rest();
    story
}

/// Gives bytes to the machine, and takes what it tells.
fn give(
    machine: &mut ServerConnection,
    (stream, input, fin): (StreamId, &[u8], bool),
    head: &mut RequestHead,
    held: &mut Vec<StreamKey>,
    story: &mut Story,
) -> Result<(), h3::ConnectionError> {
    let mut used = 0;
    while let Some(event) = machine.next(stream, input, fin, &mut used, head)? {
        match event {
            Event::Request(key) => {
                let text = check_head(head);
                assert!(!held.contains(&key));
                held.push(key);
                story.tell(format!("{key:?} {text} {:?}", machine.priority(key)), "");
            }
            Event::Data { stream, from, to, ends } => {
                assert!(from <= to && to <= used && held.contains(&stream));
                let of = format!("data of {} ", stream.id().0);
                let data = &input[from..to];
                let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
                story.tell(format!("{of}{hex}{}", if ends { " end" } else { "" }), &of);
            }
            Event::Trailers(key) => {
                assert!(held.contains(&key));
                story.tell(format!("{key:?} {}", String::from_utf8_lossy(machine.trailers())), "");
            }
            other => story.tell(format!("{other:?}"), ""),
        }
    }
    assert_eq!(used, input.len());
    Ok(())
}

/// A head is a request of HTTP/1 that says the same.
fn check_head(head: &RequestHead) -> String {
    let mut text = Vec::new();
    head.write_to(&mut text);
    let mut again = RequestHead::new();
    let parsed = http::RequestParser::new().parse(&text, &Limits::default(), &mut again);
    let shown = String::from_utf8_lossy(&text);
    assert!(matches!(parsed, Ok(http::Parsed::Complete { consumed }) if consumed == text.len()), "{parsed:?} {shown}");
    assert_eq!(http::request_body_length(head), http::request_body_length(&again));
    shown.into_owned()
}

/// Answers a request, by halves that take more and less, and lets go of it.
fn answer(machine: &mut ServerConnection, key: StreamKey, number: usize) {
    let mut half = Half { bytes: Vec::new(), room: 1 + number * 37 % 3_000, is_finished: false };
    let mut head = ResponseHead::new();
    head.start(Version::Http11, 200);
    let was_reset = machine.is_reset(key);
    machine.send_head(key, &head, false);
    let body = vec![b'x'; number * 131 % 6_000];
    let mut sent = 0;
    for _ in 0..10_000 {
        if sent == body.len() {
            break;
        }
        sent += machine.send_data(key, &body[sent..], false, &mut half);
        assert!(!was_reset || sent == 0);
        if was_reset {
            break;
        }
    }
    machine.send_trailers(key, if number.is_multiple_of(2) { b"x-check: 1\r\n" } else { b"" }, &mut half);
    while !machine.flush(key.id(), &mut half) {}
    machine.release(key, ErrorCode::REQUEST_CANCELLED);
    assert!(machine.is_reset(key), "it is forgotten");
    if !was_reset {
        assert!(half.is_finished);
        let mut rest = &half.bytes[..];
        let mut data = 0;
        while !rest.is_empty() {
            let (kind, after) = frame::read_number(rest).unwrap();
            let (length, after) = frame::read_number(after).unwrap();
            data += if kind == frame::kind::DATA { length as usize } else { 0 };
            rest = &after[length as usize..];
        }
        assert_eq!(data, body.len());
    }
}

/// Does what the machine wants of a transport.
fn carry_out(machine: &mut ServerConnection, held: &[StreamKey]) {
    while let Some(order) = machine.poll_order() {
        if let Order::Flush(stream) = order {
            let mut half = Half { bytes: Vec::new(), room: usize::MAX, is_finished: false };
            assert!(machine.flush(stream, &mut half));
        }
    }
    // Nothing is left but what is held, and what has no head.
    assert!(machine.streams() <= held.len() + 5);
}
