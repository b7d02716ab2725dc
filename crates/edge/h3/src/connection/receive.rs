//! What the client sends on the streams of requests, frame by frame.

use http::RequestHead;

use super::{Event, Leaving, Order, ServerConnection};
use crate::{
    calm::Cost,
    error::{ConnectionError, ErrorCode},
    frame::{FrameHeader, Input, kind},
    streams::{Reading, Receiving, Sending, Stream, StreamId, StreamKey},
};

/// What came of a step.
pub(super) enum Step {
    /// Something happened.
    Event(Event),
    /// There may be more in the input.
    Again,
    /// More must come.
    Starved,
}

pub(super) fn found(event: Option<Event>) -> Step {
    event.map_or(Step::Again, Step::Event)
}

const fn unexpected(why: &'static str) -> ConnectionError {
    ConnectionError::new(ErrorCode::FRAME_UNEXPECTED, why)
}

impl ServerConnection {
    /// Goes on with `input`, which has come on a stream behind what was given before, and of which `used` bytes have been used; puts a
    /// head into `head` where [`Event::Request`] says that there is one. `fin`: nothing comes behind `input`. It is to be said as soon as it
    /// is known, and with the last bytes if it can be: a request with neither `content-length` nor a known end gets a body in chunks.
    ///
    /// To be called again, with the same `input` and `fin`, until there is no event: then all of `input` is used.
    ///
    /// # Errors
    /// When the connection is over.
    pub fn next(
        &mut self,
        stream: StreamId,
        input: &[u8],
        fin: bool,
        used: &mut usize,
        head: &mut RequestHead,
    ) -> Result<Option<Event>, ConnectionError> {
        let mut input = Input { bytes: input, used };
        if !stream.is_client_initiated() {
            input.take_all();
            return Ok(None);
        }
        if !stream.is_bidirectional() {
            return self.unidirectional(stream, &mut input, fin);
        }
        let Some(key) = self.streams.find(stream) else {
            if !self.requests.begin(stream) {
                // It is over: what comes still is nobody's fault.
                input.take_all();
                return Ok(None);
            }
            if let Some(event) = self.begin_stream(stream)? {
                input.take_all();
                return Ok(Some(event));
            }
            return self.next(stream, input.bytes, fin, input.used, head);
        };
        loop {
            let Some(stream) = self.streams.get(key).filter(|stream| stream.receiving != Receiving::Ended) else {
                input.take_all();
                return Ok(None);
            };
            let step = match stream.reading {
                Reading::Header => self.frame(key, &mut input, fin, head)?,
                Reading::Data { left } => self.data(key, left, &mut input, fin)?,
                Reading::Section { left } => self.section(key, left, &mut input, fin, head)?,
                Reading::Skip { left } => {
                    let left = left - input.take(left).len() as u64;
                    self.read(key, if left > 0 { Reading::Skip { left } } else { Reading::Header });
                    if left > 0 { Step::Starved } else { Step::Again }
                }
            };
            match step {
                Step::Event(event) => return Ok(Some(event)),
                Step::Again => {}
                Step::Starved => break,
            }
        }
        if fin { self.stream_ends(key, &input) } else { Ok(None) }
    }

    /// A stream's first bytes have come.
    fn begin_stream(&mut self, id: StreamId) -> Result<Option<Event>, ConnectionError> {
        if matches!(self.leaving, Leaving::Done { end } if id >= end) {
            let code = ErrorCode::REQUEST_REJECTED;
            self.orders.extend([Order::Reset { stream: id, code }, Order::Stop { stream: id, code }]);
            self.calm.spend(Cost::Refused)?;
            return Ok(Some(Event::Refused));
        }
        let mut stream = Stream::new(self.now_ms);
        if let Some(at) = self.early_priorities.iter().position(|(of, _)| *of == id)
            && let Some((_, priority)) = self.early_priorities.remove(at)
        {
            (stream.priority, stream.is_priority_updated) = (priority, true);
        }
        self.streams.insert(id, stream);
        self.awaited += 1;
        Ok(None)
    }

    fn read(&mut self, key: StreamKey, reading: Reading) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.reading = reading;
        }
    }

    /// The header of a frame: RFC 9114 sections 4.1 and 7.
    fn frame(
        &mut self,
        key: StreamKey,
        input: &mut Input<'_, '_>,
        fin: bool,
        head: &mut RequestHead,
    ) -> Result<Step, ConnectionError> {
        let section_bytes_max = self.section_bytes_max(key);
        let Some(stream) = self.streams.get_mut(key) else { return Ok(Step::Starved) };
        let Some(FrameHeader { kind, length }) = stream.partial.frame_header(input) else { return Ok(Step::Starved) };
        match kind {
            kind::DATA => self.begin_data(key, length),
            kind::HEADERS => {
                if !matches!(stream.receiving, Receiving::Awaited | Receiving::Body) {
                    return Err(unexpected("HEADERS behind the end of a message"));
                }
                if length > section_bytes_max {
                    return Ok(found(self.section_too_large(key)?));
                }
                if let Ok(length) = usize::try_from(length)
                    && let Some(section) = input.rest().get(..length)
                {
                    *input.used += length;
                    let ends = fin && input.rest().is_empty();
                    return Ok(found(self.take_section(key, section, ends, head)?));
                }
                stream.reading = Reading::Section { left: length };
                Ok(Step::Again)
            }
            kind::CANCEL_PUSH
            | kind::SETTINGS
            | kind::PUSH_PROMISE
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE_REQUEST
            | kind::PRIORITY_UPDATE_PUSH => Err(unexpected("frame of the control stream on another one")),
            kind if kind::is_of_http2(kind) => Err(unexpected("frame of HTTP/2")),
            _ => {
                self.unknown_frame(length)?;
                self.read(key, Reading::Skip { left: length });
                Ok(Step::Again)
            }
        }
    }

    /// What nobody knows is skipped (RFC 9114 section 9), within bounds.
    pub(super) fn unknown_frame(&mut self, length: u64) -> Result<(), ConnectionError> {
        if length > self.settings.unknown_bytes_max {
            return Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, "frame of an unknown type that is too large"));
        }
        self.calm.spend(Cost::Ignored)
    }

    fn begin_data(&mut self, key: StreamKey, length: u64) -> Result<Step, ConnectionError> {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(Step::Starved) };
        match stream.receiving {
            Receiving::Body | Receiving::Tunnel => {}
            Receiving::Awaited => return Err(unexpected("DATA before HEADERS")),
            Receiving::Trailed | Receiving::Ended => return Err(unexpected("DATA behind trailers")),
        }
        // RFC 9114 section 4.1.2: no more and no less than was announced.
        if let Some(expected) = &mut stream.expected {
            match expected.checked_sub(length) {
                Some(left) => *expected = left,
                None => return Ok(found(self.stream_error(key, ErrorCode::MESSAGE_ERROR)?)),
            }
        }
        if length == 0 {
            self.calm.spend(Cost::EmptyData)?;
            return Ok(Step::Again);
        }
        stream.reading = Reading::Data { left: length };
        self.calm.earn(1);
        Ok(Step::Again)
    }

    fn data(
        &mut self,
        key: StreamKey,
        left: u64,
        input: &mut Input<'_, '_>,
        fin: bool,
    ) -> Result<Step, ConnectionError> {
        let from = *input.used;
        let count = input.take(left).len();
        let left = left - count as u64;
        self.read(key, if left > 0 { Reading::Data { left } } else { Reading::Header });
        if count == 0 {
            return Ok(Step::Starved);
        }
        self.calm.earn_by(count);
        let ends = fin && left == 0 && input.rest().is_empty();
        if ends && let Some(event) = self.body_ends(key)? {
            return Ok(Step::Event(event));
        }
        Ok(Step::Event(Event::Data { stream: key, from, to: *input.used, ends }))
    }

    /// A body ends; what is wrong with that.
    fn body_ends(&mut self, key: StreamKey) -> Result<Option<Event>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        if stream.expected.is_some_and(|left| left > 0) {
            return self.stream_error(key, ErrorCode::MESSAGE_ERROR);
        }
        stream.receiving = Receiving::Ended;
        Ok(None)
    }

    fn section(
        &mut self,
        key: StreamKey,
        left: u64,
        input: &mut Input<'_, '_>,
        fin: bool,
        head: &mut RequestHead,
    ) -> Result<Step, ConnectionError> {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(Step::Starved) };
        let bytes = input.take(left);
        stream.section.extend_from_slice(bytes);
        let left = left - bytes.len() as u64;
        if left > 0 {
            stream.reading = Reading::Section { left };
            return Ok(Step::Starved);
        }
        stream.reading = Reading::Header;
        let section = std::mem::take(&mut stream.section);
        let ends = fin && input.rest().is_empty();
        Ok(found(self.take_section(key, &section, ends, head)?))
    }

    /// The end of a stream has come, and all before it has been used.
    fn stream_ends(&mut self, key: StreamKey, input: &Input<'_, '_>) -> Result<Option<Event>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        if stream.reading != Reading::Header || !stream.partial.is_empty() {
            // RFC 9114 section 7.1.
            return Err(ConnectionError::new(ErrorCode::FRAME_ERROR, "stream that ends within a frame"));
        }
        match stream.receiving {
            Receiving::Awaited => {
                // RFC 9114 section 4.1.
                self.stream_error(key, ErrorCode::REQUEST_INCOMPLETE)?;
                Ok(Some(Event::Malformed))
            }
            Receiving::Body | Receiving::Tunnel => {
                let wrong = self.body_ends(key)?;
                Ok(wrong.or(Some(Event::Data { stream: key, from: *input.used, to: *input.used, ends: true })))
            }
            Receiving::Trailed => {
                stream.receiving = Receiving::Ended;
                Ok(None)
            }
            Receiving::Ended => Ok(None),
        }
    }

    /// The client has reset its half of a stream (RESET_STREAM), of either kind. What came before is given up.
    ///
    /// # Errors
    /// When the connection is over: without that stream, or because there were too many resets.
    pub fn reset_by_peer(&mut self, stream: StreamId, code: ErrorCode) -> Result<Option<Event>, ConnectionError> {
        if !stream.is_bidirectional() {
            return self.unidirectional_reset(stream).map(|()| None);
        }
        let Some(key) = self.streams.find(stream) else {
            // It may have crossed the end of the stream, or be all that comes of it.
            let cost = if self.requests.begin(stream) { Cost::Reset } else { Cost::Ignored };
            if cost == Cost::Reset {
                self.orders.push_back(Order::Reset { stream, code: ErrorCode::REQUEST_CANCELLED });
            }
            self.calm.spend(cost)?;
            return Ok(None);
        };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        if stream.receiving == Receiving::Ended {
            self.calm.spend(Cost::Ignored)?;
            return Ok(None);
        }
        let is_answered = matches!(stream.sending, Sending::Ended | Sending::Over);
        if stream.receiving == Receiving::Awaited {
            self.awaited -= 1;
        }
        if !stream.section.is_empty() {
            self.decoder.cancel(key.id().0);
        }
        // Nothing is left to be stopped.
        stream.receiving = Receiving::Ended;
        stream.section = Vec::new();
        let is_held = stream.is_held;
        if is_answered {
            // The client may still want the answer (RFC 9114 section 4.1.1).
            stream.reset = Some(code);
        } else {
            self.cut(key, ErrorCode::REQUEST_CANCELLED, code);
        }
        self.calm.spend(if is_answered { Cost::Ignored } else { Cost::Reset })?;
        Ok(is_held.then_some(Event::Reset { stream: key, code, by_peer: true }))
    }

    /// The client does not want what this side sends on a stream (STOP_SENDING): an answer, or one of this side's own streams.
    ///
    /// # Errors
    /// When the connection is over.
    pub fn stopped_by_peer(&mut self, stream: StreamId, code: ErrorCode) -> Result<Option<Event>, ConnectionError> {
        if !stream.is_bidirectional() {
            // RFC 9114 section 6.2.1, RFC 9204 section 4.2.
            let why = "STOP_SENDING for a stream that the connection needs";
            return Err(ConnectionError::new(ErrorCode::CLOSED_CRITICAL_STREAM, why));
        }
        let Some(key) = self.streams.find(stream) else {
            // It may have crossed the end of the stream, or come before anything else does: then what comes is not answered.
            let cost = if self.requests.begin(stream) { Cost::Reset } else { Cost::Ignored };
            if cost == Cost::Reset {
                self.orders.extend([
                    Order::Reset { stream, code },
                    Order::Stop { stream, code: ErrorCode::REQUEST_CANCELLED },
                ]);
            }
            self.calm.spend(cost)?;
            return Ok(None);
        };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        let was_reset = stream.reset.is_some();
        let cost = if stream.sending == Sending::Over { Cost::Ignored } else { Cost::Reset };
        let is_held = self.cut(key, code, ErrorCode::REQUEST_CANCELLED);
        if let Some(stream) = self.streams.get_mut(key)
            && !was_reset
        {
            stream.reset = Some(code);
        }
        self.calm.spend(cost)?;
        Ok((is_held && !was_reset).then_some(Event::Reset { stream: key, code, by_peer: true }))
    }
}
