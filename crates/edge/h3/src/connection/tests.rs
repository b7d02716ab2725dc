//! Bytes of streams by hand, and what the machine makes of them.

mod bodies;
mod control;
mod ends;
mod requests;

use http::{Limits, RequestHead, ResponseHead, Version};

use super::*;
use crate::{
    qpack::{self, HeaderLimits, Indexing},
    streams::StreamId,
};

type Events = Result<Vec<Event>, ConnectionError>;

/// A client that writes bytes, and the machine.
struct Client {
    machine: ServerConnection,
    head: RequestHead,
}

/// What the machine has sent on a stream.
#[derive(Debug, Default)]
struct Half {
    bytes: Vec<u8>,
    is_finished: bool,
    /// How many bytes more it takes.
    room: Option<usize>,
}

impl SendHalf for Half {
    fn write(&mut self, bytes: &[u8]) -> usize {
        assert!(!bytes.is_empty() && !self.is_finished);
        let count = bytes.len().min(self.room.unwrap_or(usize::MAX));
        self.room = self.room.map(|room| room - count);
        self.bytes.extend_from_slice(&bytes[..count]);
        count
    }

    fn finish(&mut self) {
        assert!(!std::mem::replace(&mut self.is_finished, true));
    }
}

const GET: &[(&str, &str)] = &[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
const POST: &[(&str, &str)] = &[(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/")];

fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    qpack::begin(&mut section);
    for (name, value) in fields {
        qpack::field(&mut section, name.as_bytes(), value.as_bytes(), Indexing::Plain);
    }
    section
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    FrameHeader { kind, length: payload.len() as u64 }.write(&mut frame);
    frame.extend_from_slice(payload);
    frame
}

fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, &section(fields))
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.iter().for_each(|number| frame::write_number(&mut bytes, *number));
    bytes
}

fn fields(section: &[u8]) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let limits = HeaderLimits { fields: 1_000, bytes: 200_000 };
    let decoded = Decoder::new(0).decode(0, section, &limits, |field| {
        fields.push((text(field.name), text(field.value)));
        Ok::<(), ()>(())
    });
    decoded.unwrap();
    fields
}

/// Frames of a stream, which are whole.
fn frames(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (kind, rest) = frame::read_number(bytes).unwrap();
        let (length, rest) = frame::read_number(rest).unwrap();
        let (payload, rest) = rest.split_at(length as usize);
        frames.push((kind, payload.to_vec()));
        bytes = rest;
    }
    frames
}

impl Client {
    /// One whose settings have been taken.
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        let mut client = Self::silent(settings);
        assert_eq!(client.control(&frame(kind::SETTINGS, &[])), Ok(vec![]));
        client.orders();
        client
    }

    /// One that has said nothing.
    fn silent(settings: Settings) -> Self {
        Self { machine: ServerConnection::new(settings, Limits::default()), head: RequestHead::new() }
    }

    /// Sends bytes on a stream; what comes of it.
    fn send(&mut self, stream: u64, input: &[u8], fin: bool) -> Events {
        let (mut events, mut used) = (Vec::new(), 0);
        while let Some(event) = self.machine.next(StreamId(stream), input, fin, &mut used, &mut self.head)? {
            events.push(event);
        }
        assert_eq!(used, input.len());
        Ok(events)
    }

    /// Begins the control stream, which is number 2.
    fn control(&mut self, frames: &[u8]) -> Events {
        self.send(2, &[&[0], frames].concat(), false)
    }

    fn orders(&mut self) -> Vec<Order> {
        std::iter::from_fn(|| self.machine.poll_order()).collect()
    }

    /// Begins a stream that is to be one.
    #[track_caller]
    fn begin(&mut self, stream: u64, ends: bool) -> StreamKey {
        let fields = if ends { GET } else { POST };
        match self.send(stream, &headers(fields), ends).as_deref() {
            Ok([Event::Request(key)]) => *key,
            other => panic!("{other:?}"),
        }
    }

    /// The error that bytes on a stream are.
    #[track_caller]
    fn fails(mut self, stream: u64, input: &[u8], fin: bool) -> ErrorCode {
        match self.send(stream, input, fin) {
            Err(error) => error.code,
            other => panic!("{other:?}"),
        }
    }
}

fn answer(status: u16, fields: &[(&str, &str)]) -> ResponseHead {
    let mut head = ResponseHead::new();
    head.start(Version::Http11, status);
    for (name, value) in fields {
        head.headers.add(name.as_bytes(), value.as_bytes());
    }
    head
}

fn reset(stream: u64, code: ErrorCode) -> Order {
    Order::Reset { stream: StreamId(stream), code }
}

fn stop(stream: u64, code: ErrorCode) -> Order {
    Order::Stop { stream: StreamId(stream), code }
}
