//! The web server's end of a connection.
//!
//! ```text
//!  begin ─▶ stdin.. ─▶ end_stdin        what is written
//!    │
//!    └─▶ Stdout, Stderr.. ─▶ StdoutEnd ─▶ End        what comes
//! ```
//!
//! A request has the lowest place that is free, and an id that no other request of the connection has had: there are applications that
//! say more of a request behind its end (Go's `net/http/fcgi`, when it was aborted), and that would reach another client. When there are
//! no more ids, the connection takes no more requests. A request that nobody wants any more is aborted; its place is free when the
//! application has ended it, and until then nothing is told of it.

use crate::{
    pairs::{Pairs, write_pair},
    record::{Kind, Piece, Reader, RecordError, write_header, write_stream},
};

/// A role that answers requests of HTTP.
const RESPONDER: u8 = 1;
/// The application is to leave the connection open.
const KEEP_CONNECTION: u8 = 1;
/// Bytes of END_REQUEST's content.
const END_BYTES: usize = 8;
/// Requests at a time that a client takes, whatever the application says.
pub const REQUESTS_MAX: usize = 1024;

/// How an application is spoken with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether the application is asked to leave the connection open (HAProxy's `option keep-conn`).
    pub keeps_connection: bool,
    /// How many requests a connection carries at a time; more than one only where the application multiplexes.
    pub requests_max: usize,
}

/// What an application says of itself (its specification, section 4.1). Nothing of it if it knows no such question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// FCGI_MPXS_CONNS: whether a connection may carry several requests at a time.
    pub multiplexes: Option<bool>,
    /// FCGI_MAX_REQS: requests at a time.
    pub requests_max: Option<usize>,
}

impl Values {
    fn read(content: &[u8]) -> Result<Self, RecordError> {
        let mut found = Self::default();
        for pair in Pairs::new(content) {
            let (name, value) = pair.map_err(|()| RecordError::Values)?;
            if name.eq_ignore_ascii_case(b"FCGI_MPXS_CONNS") {
                found.multiplexes = Some(value == b"1");
            } else if name.eq_ignore_ascii_case(b"FCGI_MAX_REQS") {
                found.requests_max = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            }
        }
        Ok(found)
    }

    /// How many requests a connection carries at a time; of what the application has not said the configuration is right:
    /// whether it multiplexes, and how many requests it takes.
    #[must_use]
    pub fn requests_at_a_time(self, (multiplexes, requests_max): (bool, usize)) -> usize {
        match self.multiplexes.unwrap_or(multiplexes) {
            true => self.requests_max.unwrap_or(requests_max).clamp(1, REQUESTS_MAX),
            false => 1,
        }
    }
}

/// Names a request of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    slot: u16,
    serial: u32,
}

impl RequestKey {
    /// Its place: the lowest that was free.
    #[must_use]
    pub fn slot(self) -> usize {
        usize::from(self.slot)
    }
}

/// How the application has ended a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndStatus {
    /// It is done.
    Complete,
    /// It has not begun with it: one at a time is all that it does.
    CannotMultiplex,
    /// It has not begun with it: it has too much to do.
    Overloaded,
    /// It does not answer requests.
    UnknownRole,
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes of the answer, from one place of the input to another.
    Stdout {
        /// The request.
        key: RequestKey,
        /// The first byte.
        from: usize,
        /// Behind the last byte.
        to: usize,
    },
    /// Bytes for the log.
    Stderr {
        /// The request.
        key: RequestKey,
        /// The first byte.
        from: usize,
        /// Behind the last byte.
        to: usize,
    },
    /// No more of the answer comes.
    StdoutEnd(RequestKey),
    /// The request is over.
    End {
        /// Which.
        key: RequestKey,
        /// How.
        status: EndStatus,
    },
    /// The application has said what it is.
    Values(Values),
}

/// A request.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Tells it from others that had its place; 0 for none.
    serial: u32,
    id: u16,
    /// Nobody wants it any more.
    is_aborted: bool,
    has_answered: bool,
    has_ended_stdin: bool,
}

/// The web server's end of a connection. What it writes it appends to what the caller gives it.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    reader: Reader,
    slots: Vec<Slot>,
    serial: u32,
    /// The id that was given last; 0 for none.
    last_id: u16,
    active: usize,
    /// Requests whose body the application is still told to be over, though it has ended them: some count them as its own until then.
    unfinished: Vec<u16>,
    /// What the application is has been asked, and it has not said so.
    awaits_values: bool,
}

impl Client {
    /// One on a connection on which nothing is being asked.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let (reader, slots) = (Reader::default(), Vec::new());
        let unfinished = Vec::new();
        Self { settings, reader, slots, serial: 0, last_id: 0, active: 0, unfinished, awaits_values: false }
    }

    /// Asks the application what it is.
    pub fn ask_values(&mut self, out: &mut Vec<u8>) {
        let mut names = Vec::new();
        write_pair(b"FCGI_MAX_REQS", b"", &mut names);
        write_pair(b"FCGI_MPXS_CONNS", b"", &mut names);
        write_header(Kind::GetValues, 0, names.len(), out);
        out.extend_from_slice(&names);
        self.awaits_values = true;
    }

    /// Whether the application leaves the connection open behind a request, as far as it was asked to.
    #[must_use]
    pub fn keeps_connection(&self) -> bool {
        self.settings.keeps_connection
    }

    /// How many requests a connection carries at a time.
    #[must_use]
    pub fn requests_max(&self) -> usize {
        self.settings.requests_max.clamp(1, REQUESTS_MAX)
    }

    /// How many requests the application has not ended, those among them that nobody wants any more.
    #[must_use]
    pub fn active(&self) -> usize {
        self.active
    }

    /// Whether nothing is on the connection, and no record has come in part.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.active == 0 && self.reader.is_between_records()
    }

    /// Whether there are ids for more requests.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.last_id < u16::MAX
    }

    /// Whether the application has been told of the end of each body whose request it has ended.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Ends the bodies of requests that the application has ended before.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        for id in self.unfinished.drain(..) {
            write_header(Kind::Stdin, id, 0, out);
        }
    }

    /// Begins a request, of which these are the variables, encoded; none if there is no room for one.
    pub fn begin(&mut self, params: &[u8], out: &mut Vec<u8>) -> Option<RequestKey> {
        if self.active >= self.requests_max() {
            return None;
        }
        let id = self.last_id.checked_add(1)?;
        let place = match self.slots.iter().position(|slot| slot.serial == 0) {
            Some(place) => place,
            None => {
                self.slots.push(Slot::default());
                self.slots.len() - 1
            }
        };
        self.serial = self.serial.checked_add(1).unwrap_or(1);
        self.active += 1;
        self.last_id = id;
        let slot = self.slots.get_mut(place)?;
        *slot = Slot { serial: self.serial, id, ..Slot::default() };
        let key = RequestKey { slot: u16::try_from(place).ok()?, serial: self.serial };
        write_header(Kind::BeginRequest, id, END_BYTES, out);
        let flags = if self.settings.keeps_connection { KEEP_CONNECTION } else { 0 };
        out.extend_from_slice(&[0, RESPONDER, flags, 0, 0, 0, 0, 0]);
        write_stream(Kind::Params, id, params, out);
        write_header(Kind::Params, id, 0, out);
        Some(key)
    }

    /// Writes bytes of a request's body.
    pub fn write_stdin(&self, key: RequestKey, bytes: &[u8], out: &mut Vec<u8>) {
        if let Some(slot) = self.slot(key)
            && !slot.has_ended_stdin
        {
            write_stream(Kind::Stdin, slot.id, bytes, out);
        }
    }

    /// Writes the end of a request's body.
    pub fn end_stdin(&mut self, key: RequestKey, out: &mut Vec<u8>) {
        if let Some(slot) = self.slot_mut(key)
            && !std::mem::replace(&mut slot.has_ended_stdin, true)
        {
            write_header(Kind::Stdin, slot.id, 0, out);
        }
    }

    /// Whether the end of a request's body has been written, or the request is over.
    #[must_use]
    pub fn has_ended_stdin(&self, key: RequestKey) -> bool {
        self.slot(key).is_none_or(|slot| slot.has_ended_stdin)
    }

    /// Nobody wants a request any more: the application is told so, unless it has ended it.
    pub fn abort(&mut self, key: RequestKey, out: &mut Vec<u8>) {
        if let Some(slot) = self.slot_mut(key)
            && !std::mem::replace(&mut slot.is_aborted, true)
        {
            write_header(Kind::AbortRequest, slot.id, 0, out);
            self.end_stdin(key, out);
        }
    }

    /// Whether a request is not over.
    #[must_use]
    pub fn is_open(&self, key: RequestKey) -> bool {
        self.slot(key).is_some()
    }

    /// What `input` means, of which `used` bytes were read before; none if more has to come.
    ///
    /// # Errors
    /// When nothing more can be read on this connection.
    pub fn next(&mut self, input: &[u8], used: &mut usize) -> Result<Option<Event>, RecordError> {
        while let Some(piece) = self.reader.next(input, used)? {
            let event = match piece {
                Piece::Bytes { kind, id, from, to, is_empty_record } => {
                    self.bytes(kind, id, (from, to), is_empty_record)
                }
                Piece::Whole { kind: Kind::GetValuesResult, id: 0 } => Some(self.values()?),
                Piece::Whole { kind: Kind::EndRequest, id } => self.end(id)?,
                Piece::Whole { .. } => None,
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    fn bytes(&mut self, kind: Kind, id: u16, (from, to): (usize, usize), ends: bool) -> Option<Event> {
        if kind == Kind::UnknownType {
            // The application knows no questions.
            return std::mem::take(&mut self.awaits_values).then(|| Event::Values(Values::default()));
        }
        // What is of no request, or of one that is over, is left out, as is whatever a web server writes.
        let key = self.key(id)?;
        let slot = self.slot_mut(key).filter(|slot| !slot.is_aborted)?;
        match kind {
            Kind::Stdout if slot.has_answered => None,
            Kind::Stdout if ends => {
                slot.has_answered = true;
                Some(Event::StdoutEnd(key))
            }
            Kind::Stdout => Some(Event::Stdout { key, from, to }),
            Kind::Stderr if !ends => Some(Event::Stderr { key, from, to }),
            _ => None,
        }
    }

    fn end(&mut self, id: u16) -> Result<Option<Event>, RecordError> {
        let content = self.reader.whole();
        let Some([_, _, _, _, status, ..]) = content.first_chunk::<END_BYTES>() else {
            return Err(RecordError::TooShort(content.len()));
        };
        let status = match status {
            0 => EndStatus::Complete,
            1 => EndStatus::CannotMultiplex,
            2 => EndStatus::Overloaded,
            _ => EndStatus::UnknownRole,
        };
        let Some(key) = self.key(id) else { return Ok(None) };
        let slot = self.slot_mut(key).map(std::mem::take);
        self.active -= 1;
        if slot.is_some_and(|slot| !slot.has_ended_stdin) {
            self.unfinished.push(id);
        }
        let is_wanted = slot.is_some_and(|slot| !slot.is_aborted);
        Ok(is_wanted.then_some(Event::End { key, status }))
    }

    fn values(&mut self) -> Result<Event, RecordError> {
        self.awaits_values = false;
        Values::read(self.reader.whole()).map(Event::Values)
    }

    fn key(&self, id: u16) -> Option<RequestKey> {
        let (place, slot) = self.slots.iter().enumerate().find(|(_, slot)| slot.serial != 0 && slot.id == id)?;
        Some(RequestKey { slot: u16::try_from(place).ok()?, serial: slot.serial })
    }

    fn slot(&self, key: RequestKey) -> Option<&Slot> {
        self.slots.get(key.slot()).filter(|slot| slot.serial == key.serial)
    }

    fn slot_mut(&mut self, key: RequestKey) -> Option<&mut Slot> {
        self.slots.get_mut(key.slot()).filter(|slot| slot.serial == key.serial)
    }
}
