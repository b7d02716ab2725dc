//! One request of a connection: from its bytes to the plugin, and the answer's bytes back.

use std::{
    any::Any,
    io::{self, Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
};

use http::{BodyLength, ChunkProgress, ChunkedDecoder, Limits, Parsed, RequestHead, RequestParser, Version};

use crate::{Answer, Answerer, Body, Request, answer::Writer};

/// Bytes that are received or sent at a time.
const PIECE_BYTES: usize = 16 << 10;
/// Fields that say how the message is framed, which is none of the plugin's business.
const OF_FRAMING: [&str; 7] =
    ["connection", "content-length", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered whole.
    Answered,
    /// Whoever asked has left, or the body of the answer failed.
    CutOff,
    /// The plugin panicked: the client has got 500, or an answer that was cut off.
    Panicked(String),
    /// The answer is none that can be sent, for this reason: the client has got 500.
    Unusable(String),
}

/// Has a plugin answer the one request that comes on a stream.
pub fn serve(
    stream: &mut (impl Read + Write),
    answerer: &dyn Answerer,
    arguments: &[String],
    limits: &Limits,
) -> Outcome {
    let mut head = RequestHead::default();
    let Some(received) = receive(stream, limits, &mut head) else { return Outcome::CutOff };
    let length = http::request_body_length(&head);
    let awaits_word = head.headers.first(b"expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
    let mut body = RequestBody { stream, received, consumed: 0, coming: Coming::new(length, limits), awaits_word };
    let answered = catch_unwind(AssertUnwindSafe(|| answerer.answer(&mut Request::new(&head, arguments, &mut body))));
    let answer = match answered {
        Ok(answer) => answer,
        Err(panic) => {
            let _ = send(&mut body, &head, Answer::new(500).text("the plugin has failed\n"));
            return Outcome::Panicked(words_of(&*panic));
        }
    };
    if let Some(problem) = problem(&answer) {
        let _ = send(&mut body, &head, Answer::new(500).text("the plugin has failed\n"));
        return Outcome::Unusable(problem);
    }
    match catch_unwind(AssertUnwindSafe(|| send(&mut body, &head, answer))) {
        Ok(Ok(())) => Outcome::Answered,
        Ok(Err(_)) => Outcome::CutOff,
        Err(panic) => Outcome::Panicked(words_of(&*panic)),
    }
}

/// Receives a head; what came behind it is given. Nothing if whoever asks leaves before.
fn receive(stream: &mut impl Read, limits: &Limits, head: &mut RequestHead) -> Option<Vec<u8>> {
    let (mut parser, mut received) = (RequestParser::new(), Vec::new());
    loop {
        let before = received.len();
        received.resize(before + PIECE_BYTES, 0);
        let count = read(stream, received.get_mut(before..)?).ok()?;
        received.truncate(before + count);
        if count == 0 {
            return None;
        }
        match parser.parse(&received, limits, head).ok()? {
            Parsed::Complete { consumed } => return Some(received.split_off(consumed)),
            Parsed::Incomplete => {}
        }
    }
}

fn read(stream: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// What a panic said.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it says nothing".to_owned())
}

/// Why an answer cannot be sent.
fn problem(answer: &Answer) -> Option<String> {
    if !(200..=599).contains(&answer.status) {
        return Some(format!("its status is {}, not one from 200 to 599", answer.status));
    }
    for (name, value) in &answer.headers {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Some(format!("{name:?} is no name of a field"));
        }
        if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Some(format!("the value of the field {name} has a line break or a NUL"));
        }
        if OF_FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
            return Some(format!("it sets the field {name}, which follows from the body"));
        }
    }
    None
}

/// How the body of an answer is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// It has this many bytes.
    Length(usize),
    /// In chunks.
    Chunks,
    /// Until the connection ends, for HTTP/1.0.
    UntilEnd,
    /// None, whatever the head says of it.
    None,
}

/// Sends an answer.
fn send<S: Read + Write>(body: &mut RequestBody<'_, S>, request: &RequestHead, answer: Answer) -> io::Result<()> {
    let has_none = matches!(answer.status, 204 | 304);
    let framing = match &answer.body {
        _ if has_none => Framing::None,
        Body::Empty => Framing::Length(0),
        Body::Bytes(bytes) => Framing::Length(bytes.len()),
        Body::Written(_) if request.version() == Version::Http11 => Framing::Chunks,
        Body::Written(_) => Framing::UntilEnd,
    };
    let mut out = format!("HTTP/1.1 {} {}\r\n", answer.status, http::reason_phrase(answer.status)).into_bytes();
    for (name, value) in &answer.headers {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    match framing {
        Framing::Length(length) => out.extend_from_slice(format!("content-length: {length}\r\n").as_bytes()),
        Framing::Chunks => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Framing::UntilEnd | Framing::None => {}
    }
    out.extend_from_slice(b"connection: close\r\n\r\n");
    let is_head = request.method() == b"HEAD";
    // What is written may be what is read: whoever sends it is told to before the answer begins.
    if matches!(answer.body, Body::Written(_)) && std::mem::take(&mut body.awaits_word) && body.received.is_empty() {
        body.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    match answer.body {
        Body::Bytes(bytes) if !is_head && !has_none => out.extend_from_slice(&bytes),
        Body::Written(write) if !is_head && !has_none => {
            body.stream.write_all(&out)?;
            return send_written(body, framing, write);
        }
        _ => {}
    }
    body.stream.write_all(&out)?;
    body.stream.flush()
}

/// Sends what a function writes. It reads the request from the same stream, so both halves are used in turn.
fn send_written<S: Read + Write>(body: &mut RequestBody<'_, S>, framing: Framing, write: Writer) -> io::Result<()> {
    // Both halves of one stream are lent to the function at the same time.
    let shared = std::cell::RefCell::new(body);
    let mut reader = Reading(&shared);
    let mut writer = Writing { body: &shared, framing, waiting: Vec::new() };
    write(&mut reader, &mut writer)?;
    writer.finish()
}

struct Reading<'s, 'b, 'a, S>(&'s std::cell::RefCell<&'b mut RequestBody<'a, S>>);

impl<S: Read + Write> Read for Reading<'_, '_, '_, S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(room)
    }
}

struct Writing<'s, 'b, 'a, S> {
    body: &'s std::cell::RefCell<&'b mut RequestBody<'a, S>>,
    framing: Framing,
    waiting: Vec<u8>,
}

impl<S: Read + Write> Writing<'_, '_, '_, S> {
    fn send(&mut self, is_last: bool) -> io::Result<()> {
        let mut out = Vec::with_capacity(self.waiting.len() + 24);
        match self.framing {
            Framing::Chunks => {
                http::write_chunk(&self.waiting, &mut out);
                if is_last {
                    http::write_last_chunk(&mut out);
                }
            }
            _ => out.append(&mut self.waiting),
        }
        self.waiting.clear();
        let mut body = self.body.borrow_mut();
        body.stream.write_all(&out)?;
        body.stream.flush()
    }

    fn finish(mut self) -> io::Result<()> {
        self.send(true)
    }
}

impl<S: Read + Write> Write for Writing<'_, '_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE_BYTES {
            self.send(false)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() { Ok(()) } else { self.send(false) }
    }
}

/// The body of a request, taken apart as it is read.
struct RequestBody<'a, S> {
    stream: &'a mut S,
    received: Vec<u8>,
    consumed: usize,
    coming: Coming,
    /// The client sends its body when it is told to.
    awaits_word: bool,
}

/// What is still to come of it.
enum Coming {
    Bytes(u64),
    Chunks { decoder: Box<ChunkedDecoder>, decoded: Vec<u8>, taken: usize },
}

impl Coming {
    fn new(length: BodyLength, limits: &Limits) -> Self {
        match length {
            BodyLength::Exact(length) => Self::Bytes(length),
            BodyLength::Chunked => {
                Self::Chunks { decoder: Box::new(ChunkedDecoder::new(limits)), decoded: Vec::new(), taken: 0 }
            }
            // A request without a length has no body.
            _ => Self::Bytes(0),
        }
    }
}

impl<S: Read + Write> RequestBody<'_, S> {
    /// Receives more; an end here is one before the body's.
    fn receive(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.awaits_word) {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        self.received.resize(PIECE_BYTES, 0);
        self.consumed = 0;
        let count = read(self.stream, &mut self.received);
        self.received.truncate(*count.as_ref().unwrap_or(&0));
        if count? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl<S: Read + Write> Read for RequestBody<'_, S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        loop {
            let here = self.received.get(self.consumed..).unwrap_or_default();
            match &mut self.coming {
                Coming::Bytes(0) => return Ok(0),
                Coming::Bytes(left) if !here.is_empty() => {
                    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(here.len()).min(room.len());
                    let (Some(to), Some(from)) = (room.get_mut(..most), here.get(..most)) else { return Ok(0) };
                    to.copy_from_slice(from);
                    self.consumed += most;
                    *left -= most as u64;
                    return Ok(most);
                }
                Coming::Bytes(_) => {}
                Coming::Chunks { decoder, decoded, taken } => {
                    let ready = decoded.get(*taken..).unwrap_or_default();
                    if !ready.is_empty() {
                        let most = ready.len().min(room.len());
                        let (Some(to), Some(from)) = (room.get_mut(..most), ready.get(..most)) else { return Ok(0) };
                        to.copy_from_slice(from);
                        *taken += most;
                        return Ok(most);
                    }
                    if decoder.is_done() {
                        return Ok(0);
                    }
                    if !here.is_empty() {
                        decoded.clear();
                        *taken = 0;
                        let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                        let ChunkProgress { consumed, .. } = decoder.decode_into(here, decoded).map_err(wrong)?;
                        self.consumed += consumed;
                        continue;
                    }
                }
            }
            self.receive()?;
        }
    }
}
