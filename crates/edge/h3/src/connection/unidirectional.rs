//! Unidirectional streams of the client's: RFC 9114 section 6.2, RFC 9204 section 4.2.

use h2h3::Priority;
use rustc_hash::FxHashMap;

use super::{Event, Order, ServerConnection};
use crate::{
    calm::Cost,
    error::{ConnectionError, ErrorCode},
    frame::{FrameHeader, Input, Partial, kind, read_number, stream_kind},
    qpack::DecoderStream,
    settings,
    streams::{Begun, StreamId},
};

/// What has come of a stream.
#[derive(Debug)]
enum Kind {
    /// A part of its type.
    Unknown(Partial),
    /// The control stream.
    Control(Control),
    /// What the client's encoder does to its table.
    Encoder,
    /// What the client's decoder acknowledges.
    Decoder(DecoderStream),
}

/// What the next bytes of the control stream are.
#[derive(Debug, Default)]
struct Control {
    has_settings: bool,
    partial: Partial,
    /// The frame that comes, its bytes so far, and how many are still to come.
    frame: Option<(u64, Vec<u8>, u64)>,
    /// Bytes of a frame that nobody knows.
    skip: u64,
}

/// The streams that the client has.
#[derive(Debug, Default)]
pub(super) struct Unidirectional {
    begun: Begun,
    streams: FxHashMap<StreamId, Kind>,
    /// Which of the three kinds that may be there once have been there.
    seen: [bool; 3],
}

/// What the client has said of pushes, of which there are none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PushIds {
    /// MAX_PUSH_ID.
    max: Option<u64>,
    /// GOAWAY.
    end: Option<u64>,
}

const fn closed() -> ConnectionError {
    ConnectionError::new(ErrorCode::CLOSED_CRITICAL_STREAM, "end of a stream that the connection needs")
}

const fn id_error(why: &'static str) -> ConnectionError {
    ConnectionError::new(ErrorCode::ID_ERROR, why)
}

impl ServerConnection {
    /// Takes what came on a unidirectional stream.
    pub(super) fn unidirectional(
        &mut self,
        id: StreamId,
        input: &mut Input<'_, '_>,
        fin: bool,
    ) -> Result<Option<Event>, ConnectionError> {
        if self.unidirectional.begun.begin(id) {
            if self.unidirectional.streams.len() >= self.settings.unidirectional_streams_max as usize {
                return Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, "too many unidirectional streams"));
            }
            self.unidirectional.streams.insert(id, Kind::Unknown(Partial::default()));
        }
        loop {
            // NOTE: what has ended, or what nobody knows, is forgotten.
            let Some(kind) = self.unidirectional.streams.remove(&id) else {
                input.take_all();
                return Ok(None);
            };
            let (kind, event) = match kind {
                Kind::Unknown(mut partial) => match partial.number(input) {
                    Some(number) => (self.stream_kind(id, number)?, None),
                    // RFC 9114 section 6.2: it may end before that.
                    None if fin => return Ok(None),
                    None => (Some(Kind::Unknown(partial)), None),
                },
                Kind::Control(mut control) => {
                    let event = self.control_frames(&mut control, input)?;
                    (Some(Kind::Control(control)), event)
                }
                Kind::Encoder => {
                    let made = self.decoder.read_encoder_stream(input.take_all()).map_err(|_| {
                        let why = "instruction for a table that it cannot follow";
                        ConnectionError::new(ErrorCode::QPACK_ENCODER_STREAM_ERROR, why)
                    })?;
                    for _ in 0..made {
                        self.calm.spend(Cost::TableEntry)?;
                    }
                    self.acknowledge_table()?;
                    (Some(Kind::Encoder), None)
                }
                Kind::Decoder(mut decoder) => {
                    let given_up = decoder.read(input.take_all()).map_err(|_| {
                        let why = "acknowledgement of what was not sent";
                        ConnectionError::new(ErrorCode::QPACK_DECODER_STREAM_ERROR, why)
                    })?;
                    for _ in 0..given_up {
                        self.calm.spend(Cost::Ignored)?;
                    }
                    (Some(Kind::Decoder(decoder)), None)
                }
            };
            let is_critical = kind.as_ref().is_some_and(|kind| !matches!(kind, Kind::Unknown(_)));
            let Some(kind) = kind else { continue };
            self.unidirectional.streams.insert(id, kind);
            if event.is_some() {
                return Ok(event);
            }
            if input.rest().is_empty() {
                return if fin && is_critical { Err(closed()) } else { Ok(None) };
            }
        }
    }

    /// What a stream with this type is; `None` if it is nothing.
    fn stream_kind(&mut self, id: StreamId, number: u64) -> Result<Option<Kind>, ConnectionError> {
        let creation = |why| Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, why));
        let (nth, kind) = match number {
            stream_kind::CONTROL => (0, Kind::Control(Control::default())),
            stream_kind::ENCODER => (1, Kind::Encoder),
            stream_kind::DECODER => (2, Kind::Decoder(DecoderStream::default())),
            // RFC 9114 section 6.2.2.
            stream_kind::PUSH => return creation("push of a client"),
            _ => {
                // RFC 9114 section 6.2.3.
                self.orders.push_back(Order::Stop { stream: id, code: ErrorCode::STREAM_CREATION_ERROR });
                self.calm.spend(Cost::Ignored)?;
                return Ok(None);
            }
        };
        let was_seen = self.unidirectional.seen.get_mut(nth).is_none_or(|seen| std::mem::replace(seen, true));
        if was_seen { creation("second stream of a kind of which there is one") } else { Ok(Some(kind)) }
    }

    /// The client has reset a unidirectional stream.
    pub(super) fn unidirectional_reset(&mut self, id: StreamId) -> Result<(), ConnectionError> {
        if self.unidirectional.begun.begin(id) {
            return self.calm.spend(Cost::Ignored);
        }
        match self.unidirectional.streams.remove(&id) {
            None | Some(Kind::Unknown(_)) => self.calm.spend(Cost::Ignored),
            Some(_) => Err(closed()),
        }
    }

    /// Sends what the decoder has to say, if there is anything.
    pub(super) fn acknowledge_table(&mut self) -> Result<(), ConnectionError> {
        let said = self.decoder.said().len();
        if said > self.settings.output_bytes_max {
            return Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, "acknowledgements that are not read"));
        }
        if said > 0 && self.settings.table_bytes_max > 0 {
            self.orders.extend(self.decoder_stream.map(Order::Flush));
        }
        Ok(())
    }

    /// Reads frames of the control stream, up to one that is an event.
    fn control_frames(
        &mut self,
        control: &mut Control,
        input: &mut Input<'_, '_>,
    ) -> Result<Option<Event>, ConnectionError> {
        loop {
            control.skip -= input.take(control.skip).len() as u64;
            if control.skip > 0 {
                return Ok(None);
            }
            let (kind, mut payload, left) = match control.frame.take() {
                Some(frame) => frame,
                None => {
                    let Some(header) = control.partial.frame_header(input) else { return Ok(None) };
                    if !self.is_taken(control, header)? {
                        self.unknown_frame(header.length)?;
                        control.skip = header.length;
                        continue;
                    }
                    (header.kind, Vec::new(), header.length)
                }
            };
            let bytes = input.take(left);
            payload.extend_from_slice(bytes);
            let left = left - bytes.len() as u64;
            if left > 0 {
                control.frame = Some((kind, payload, left));
                return Ok(None);
            }
            if let Some(event) = self.control_frame(control, kind, &payload)? {
                return Ok(Some(event));
            }
        }
    }

    /// Whether a frame of the control stream means anything: RFC 9114 section 7.2.
    fn is_taken(&self, control: &Control, header: FrameHeader) -> Result<bool, ConnectionError> {
        let FrameHeader { kind, length } = header;
        if !control.has_settings && kind != kind::SETTINGS {
            let why = "control stream that does not begin with SETTINGS";
            return Err(ConnectionError::new(ErrorCode::MISSING_SETTINGS, why));
        }
        match kind {
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => {
                let why = "frame of a request on the control stream";
                Err(ConnectionError::new(ErrorCode::FRAME_UNEXPECTED, why))
            }
            kind::SETTINGS if control.has_settings => {
                Err(ConnectionError::new(ErrorCode::FRAME_UNEXPECTED, "SETTINGS for the second time"))
            }
            kind if kind::is_of_http2(kind) => {
                Err(ConnectionError::new(ErrorCode::FRAME_UNEXPECTED, "frame of HTTP/2"))
            }
            kind::SETTINGS
            | kind::CANCEL_PUSH
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE_REQUEST
            | kind::PRIORITY_UPDATE_PUSH => {
                if length > u64::from(self.settings.control_bytes_max) {
                    let why = "frame of the control stream that is too large";
                    return Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, why));
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn control_frame(
        &mut self,
        control: &mut Control,
        kind: u64,
        payload: &[u8],
    ) -> Result<Option<Event>, ConnectionError> {
        if kind == kind::SETTINGS {
            settings::judge(payload)?;
            control.has_settings = true;
            return Ok(None);
        }
        self.calm.spend(Cost::Ignored)?;
        let (number, rest) = read_number(payload)
            .ok_or(ConnectionError::new(ErrorCode::FRAME_ERROR, "frame without the number that it has to have"))?;
        if kind == kind::PRIORITY_UPDATE_REQUEST {
            return self.priority_update(StreamId(number), rest);
        }
        if kind == kind::PRIORITY_UPDATE_PUSH {
            // RFC 9218 section 7.2: there was none.
            return Err(id_error("priority of a push that was not promised"));
        }
        if !rest.is_empty() {
            return Err(ConnectionError::new(ErrorCode::FRAME_ERROR, "frame with more than it has to have"));
        }
        match kind {
            // RFC 9114 section 7.2.3.
            kind::CANCEL_PUSH => return Err(id_error("CANCEL_PUSH of a push that was not promised")),
            // RFC 9114 section 5.2.
            kind::GOAWAY => {
                if self.pushes.end.is_some_and(|before| number > before) {
                    return Err(id_error("GOAWAY with more than the one before it"));
                }
                self.pushes.end = Some(number);
            }
            // RFC 9114 section 7.2.7.
            _ => {
                if self.pushes.max.is_some_and(|before| number < before) {
                    return Err(id_error("MAX_PUSH_ID with less than the one before it"));
                }
                self.pushes.max = Some(number);
            }
        }
        Ok(None)
    }

    /// RFC 9218 section 7.2.
    fn priority_update(&mut self, id: StreamId, value: &[u8]) -> Result<Option<Event>, ConnectionError> {
        if !(id.is_bidirectional() && id.is_client_initiated()) {
            return Err(id_error("priority of a stream that is no request"));
        }
        // What cannot be read is as if it had not come.
        let Some(priority) = Priority::parse(value) else { return Ok(None) };
        if let Some(key) = self.streams.find(id)
            && let Some(stream) = self.streams.get_mut(key)
        {
            let has_changed = std::mem::replace(&mut stream.priority, priority) != priority;
            stream.is_priority_updated = true;
            return Ok((has_changed && stream.is_held).then_some(Event::Priority(key)));
        }
        if !self.requests.has_begun(id) {
            match self.early_priorities.iter_mut().find(|(of, _)| *of == id) {
                Some((_, before)) => *before = priority,
                None => {
                    self.early_priorities.push_back((id, priority));
                    if self.early_priorities.len() > self.settings.early_priorities_max as usize {
                        self.early_priorities.pop_front();
                    }
                }
            }
        }
        Ok(None)
    }
}
