//! What the peer sends, frame by frame.

use super::{Connection, Event, Gathered, Reading, role::Role};
use crate::{
    calm::Cost,
    error::{ConnectionError, ErrorCode},
    frame::{self, FrameHeader, HEADER_LEN, PREFACE, flag, kind},
    settings::{self, WINDOW_DEFAULT, WINDOW_MAX},
    streams::{Closed, Receiving, StreamKey},
};

/// What there is of the input.
struct Input<'i, 'u> {
    bytes: &'i [u8],
    used: &'u mut usize,
}

impl<'i> Input<'i, '_> {
    fn rest(&self) -> &'i [u8] {
        self.bytes.get(*self.used..).unwrap_or_default()
    }

    /// Up to so many bytes.
    fn take(&mut self, most: u32) -> &'i [u8] {
        let rest = self.rest();
        let count = rest.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        *self.used += count;
        rest.get(..count).unwrap_or_default()
    }

    fn take_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = self.rest().first_chunk::<N>()?;
        *self.used += N;
        Some(*array)
    }
}

/// What came of a step.
enum Step {
    /// Something happened.
    Event(Event),
    /// There may be more in the input.
    Again,
    /// More must come.
    Starved,
}

fn found(event: Option<Event>) -> Step {
    event.map_or(Step::Again, Step::Event)
}

fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// A window that is opened by less lets only pieces go that are not worth their frames.
const SMALL_INCREMENT: i64 = 1_024;

impl<R: Role> Connection<R> {
    /// Goes on in `input`, of which `used` bytes have been used, and puts a head into `head` where [`Event::Request`] or
    /// [`Event::Response`] says that there is one. `None`: more must come. What is not used is to be there again then, in front of what comes; that is less
    /// than 32 bytes.
    ///
    /// # Errors
    /// When the connection is over: see [`Connection::fail`].
    pub fn next(
        &mut self,
        input: &[u8],
        used: &mut usize,
        head: &mut R::Head,
    ) -> Result<Option<Event>, ConnectionError> {
        if let Some(event) = self.role.poll_event() {
            return Ok(Some(event));
        }
        let mut input = Input { bytes: input, used };
        loop {
            match self.step(&mut input, head)? {
                Step::Event(event) => return Ok(Some(event)),
                Step::Again => {}
                Step::Starved => return Ok(None),
            }
        }
    }

    fn step(&mut self, input: &mut Input<'_, '_>, head: &mut R::Head) -> Result<Step, ConnectionError> {
        match self.reading {
            Reading::Header => self.frame(input, head),
            Reading::Data { stream, left, padding, ends } => self.data(input, stream, (left, padding), ends),
            Reading::Block { left, padding, ends_block } => {
                let bytes = input.take(left);
                self.gather(bytes)?;
                let left = left - length_of(bytes);
                if left > 0 {
                    self.reading = Reading::Block { left, padding, ends_block };
                    return Ok(Step::Starved);
                }
                self.skip(padding);
                if ends_block { Ok(found(self.block_is_whole(head)?)) } else { Ok(Step::Again) }
            }
            Reading::Settings { left } => self.settings_entry(input, left),
            Reading::Skip { left } => {
                let left = left - length_of(input.take(left));
                self.skip(left);
                Ok(if left > 0 { Step::Starved } else { Step::Again })
            }
            Reading::Preface(matched) => {
                let expected = PREFACE.get(matched..).unwrap_or_default();
                let bytes = input.take(length_of(expected));
                if !expected.starts_with(bytes) {
                    return Err(ConnectionError::protocol("no preface of HTTP/2"));
                }
                let is_whole = bytes.len() == expected.len();
                self.reading = if is_whole { Reading::Header } else { Reading::Preface(matched + bytes.len()) };
                Ok(if is_whole { Step::Again } else { Step::Starved })
            }
        }
    }

    /// What follows so many bytes that nobody wants.
    fn skip(&mut self, left: u32) {
        self.reading = if left > 0 { Reading::Skip { left } } else { Reading::Header };
    }

    /// Reads a frame's header, and small frames whole.
    fn frame(&mut self, input: &mut Input<'_, '_>, head: &mut R::Head) -> Result<Step, ConnectionError> {
        let before = *input.used;
        let Some(bytes) = input.take_array::<HEADER_LEN>() else { return Ok(Step::Starved) };
        let header = FrameHeader::read(bytes);
        self.judge(header)?;
        let step = match header.kind {
            kind::DATA => self.begin_data(input, header)?,
            kind::HEADERS => self.begin_headers(input, header, head)?,
            kind::CONTINUATION => {
                self.continues()?;
                self.reading =
                    Reading::Block { left: header.length, padding: 0, ends_block: header.has(flag::END_HEADERS) };
                Some(Step::Again)
            }
            kind::SETTINGS => self.begin_settings(header).map(Some)?,
            kind::PING => input.take_array().map(|data| self.ping(header, data)).transpose()?,
            kind::WINDOW_UPDATE => input.take_array().map(|by| self.window_update(header.stream, by)).transpose()?,
            kind::RST_STREAM => input.take_array().map(|code| self.reset_by_peer(header.stream, code)).transpose()?,
            kind::PRIORITY => self.priority(input, header)?,
            kind::GOAWAY => input.take_array().map(|said| self.goaway(header, said)).transpose()?,
            _ => {
                self.calm.spend(Cost::Ignored)?;
                self.skip(header.length);
                Some(Step::Again)
            }
        };
        Ok(step.unwrap_or_else(|| {
            // The frame is read when it is whole.
            *input.used = before;
            Step::Starved
        }))
    }

    /// What is wrong with a frame by its header alone: RFC 9113 sections 4.2, 5.1 and 6.
    fn judge(&self, header: FrameHeader) -> Result<(), ConnectionError> {
        if header.length > self.settings.frame_bytes_max {
            return Err(ConnectionError::size("frame larger than the settings allow"));
        }
        match &self.block {
            Some(block) if header.kind != kind::CONTINUATION || header.stream != block.stream => {
                return Err(ConnectionError::protocol("frame within a header block"));
            }
            None if header.kind == kind::CONTINUATION => {
                return Err(ConnectionError::protocol("CONTINUATION outside of a header block"));
            }
            _ => {}
        }
        if !self.has_settings && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return Err(ConnectionError::protocol("no SETTINGS at the beginning"));
        }
        let (length, needs_stream) = match header.kind {
            kind::DATA | kind::HEADERS | kind::CONTINUATION => (None, Some(true)),
            kind::PRIORITY => (None, Some(true)),
            kind::RST_STREAM => (Some(4), Some(true)),
            kind::SETTINGS => (None, Some(false)),
            kind::PING => (Some(8), Some(false)),
            kind::GOAWAY => (None, Some(false)),
            kind::WINDOW_UPDATE => (Some(4), None),
            // RFC 9113 section 8.4: a client cannot push, and servers are told not to.
            kind::PUSH_PROMISE => return Err(ConnectionError::protocol("PUSH_PROMISE")),
            // RFC 9218 section 7.1: only clients send it.
            kind::PRIORITY_UPDATE if !R::GETS_PRIORITIES => {
                return Err(ConnectionError::protocol("PRIORITY_UPDATE of a server"));
            }
            kind::PRIORITY_UPDATE => (None, Some(false)),
            _ => (None, None),
        };
        if needs_stream.is_some_and(|needs| needs == (header.stream == 0)) {
            return Err(ConnectionError::protocol("frame of a connection on a stream, or the other way round"));
        }
        let is_short = matches!(header.kind, kind::GOAWAY) && header.length < 8
            || header.kind == kind::PRIORITY_UPDATE && header.length < 4;
        if length.is_some_and(|length| length != header.length) || is_short {
            return Err(ConnectionError::size("frame of a length that it cannot have"));
        }
        if header.stream != 0
            && self.role.is_idle(header.stream)
            && matches!(header.kind, kind::DATA | kind::RST_STREAM | kind::WINDOW_UPDATE)
        {
            return Err(ConnectionError::protocol("frame on a stream that has not begun"));
        }
        Ok(())
    }

    /// The beginning of DATA, whose padding counts in the windows as if it had been consumed.
    fn begin_data(&mut self, input: &mut Input<'_, '_>, header: FrameHeader) -> Result<Option<Step>, ConnectionError> {
        let (left, padding) = match self.padding(input, header)? {
            Some(parts) => parts,
            None => return Ok(None),
        };
        if header.length > self.receive_window {
            return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "more data than the window allows"));
        }
        self.receive_window -= header.length;
        self.credit(0);
        let ends = header.has(flag::END_STREAM);
        if left == 0 && !ends {
            self.calm.spend(Cost::EmptyData)?;
        } else {
            self.calm.earn(1);
            self.calm.earn_by(left as usize);
        }
        let (stream, event) = self.data_begins(header, left, ends)?;
        let read = stream.and_then(|key| self.streams.get_mut(key)).map_or(0, |stream| {
            stream.receive_window -= i64::from(header.length);
            if !stream.is_held {
                return 0;
            }
            stream.unread += left;
            stream.untold += header.length - left;
            left
        });
        // What nobody reads.
        self.credit(header.length - read);
        if let Some(key) = stream
            && !ends
            && self.streams.get(key).is_some_and(|stream| !stream.is_held && stream.receive_window <= 0)
        {
            self.end_late_stream(key);
        }
        self.reading = Reading::Data { stream, left, padding, ends };
        Ok(Some(found(event)))
    }

    /// Whose data a frame brings; `None` if nobody's. What is wrong with it may end its stream.
    fn data_begins(
        &mut self,
        header: FrameHeader,
        left: u32,
        ends: bool,
    ) -> Result<(Option<StreamKey>, Option<Event>), ConnectionError> {
        let id = header.stream;
        let Some(key) = self.streams.find(id) else {
            return match self.streams.ending(id) {
                Some(Closed::ResetHere) => Ok((None, None)),
                None if R::FORGIVES_LATE_FRAMES => self.calm.spend(Cost::Ignored).map(|()| (None, None)),
                _ => Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "DATA on a stream that is over")),
            };
        };
        let Some(stream) = self.streams.get_mut(key) else { return Ok((None, None)) };
        if stream.reset.is_some() {
            return match self.streams.ending(id) {
                Some(Closed::ResetHere) => Ok((None, None)),
                // NOTE: what the server has left behind may still have been on its way.
                None if R::FORGIVES_LATE_FRAMES => self.calm.spend(Cost::Ignored).map(|()| (None, None)),
                _ => Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "DATA on a stream that is over")),
            };
        }
        let wrong = if stream.receiving == Receiving::Ended {
            Some(ErrorCode::STREAM_CLOSED)
        } else if stream.receiving == Receiving::Awaited {
            // RFC 9113 section 8.1: a response begins with its head.
            Some(ErrorCode::PROTOCOL_ERROR)
        } else if i64::from(header.length) > stream.receive_window {
            Some(ErrorCode::FLOW_CONTROL_ERROR)
        } else if let Some(expected) = &mut stream.expected {
            // RFC 9113 section 8.1.1: no more and no less than was announced.
            let rest = expected.checked_sub(u64::from(left));
            *expected = rest.unwrap_or(0);
            (rest.is_none() || ends && rest != Some(0)).then_some(ErrorCode::PROTOCOL_ERROR)
        } else {
            None
        };
        match wrong {
            Some(code) => Ok((None, self.stream_error(id, code)?)),
            None => Ok((Some(key), None)),
        }
    }

    fn data(
        &mut self,
        input: &mut Input<'_, '_>,
        stream: Option<StreamKey>,
        (left, padding): (u32, u32),
        ends: bool,
    ) -> Result<Step, ConnectionError> {
        let from = *input.used;
        let count = length_of(input.take(left));
        let rest = left - count;
        if rest == 0 {
            self.skip(padding);
        } else {
            self.reading = Reading::Data { stream, left: rest, padding, ends };
        }
        let starved = if rest == 0 { Step::Again } else { Step::Starved };
        let Some(key) = stream else { return Ok(starved) };
        let ends = ends && rest == 0;
        let is_held = self.streams.get(key).is_some_and(|stream| stream.is_held && stream.reset.is_none());
        if ends {
            self.receiving_ends(key);
        }
        if !is_held || count == 0 && !ends {
            return Ok(starved);
        }
        Ok(Step::Event(Event::Data { stream: key, from, to: *input.used, ends }))
    }

    /// How much of a frame is not padding, and how much is, once its first byte is there.
    fn padding(
        &mut self,
        input: &mut Input<'_, '_>,
        header: FrameHeader,
    ) -> Result<Option<(u32, u32)>, ConnectionError> {
        if !header.has(flag::PADDED) {
            return Ok(Some((header.length, 0)));
        }
        if header.length == 0 {
            return Err(ConnectionError::size("padded frame without a byte"));
        }
        let Some([padding]) = input.take_array::<1>() else { return Ok(None) };
        let padding = u32::from(padding);
        match (header.length - 1).checked_sub(padding) {
            Some(left) => Ok(Some((left, padding))),
            None => Err(ConnectionError::protocol("more padding than frame")),
        }
    }

    fn begin_headers(
        &mut self,
        input: &mut Input<'_, '_>,
        header: FrameHeader,
        head: &mut R::Head,
    ) -> Result<Option<Step>, ConnectionError> {
        let Some((mut left, padding)) = self.padding(input, header)? else { return Ok(None) };
        if header.has(flag::PRIORITY) {
            if left < 5 {
                return Err(ConnectionError::size("HEADERS without room for its priority"));
            }
            let Some([a, b, c, d, _]) = input.take_array::<5>() else { return Ok(None) };
            left -= 5;
            if u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff == header.stream {
                return Err(ConnectionError::protocol("stream that depends on itself"));
            }
        }
        let (ends_stream, ends_block) = (header.has(flag::END_STREAM), header.has(flag::END_HEADERS));
        let is_here = u32::try_from(input.rest().len()).is_ok_and(|here| here >= left);
        if ends_block && is_here {
            let block = input.take(left);
            self.skip(padding);
            return Ok(Some(found(R::take_block(self, header.stream, ends_stream, block, head)?)));
        }
        self.block = Some(Gathered { stream: header.stream, ends_stream, bytes: Vec::new(), frames: 0 });
        self.reading = Reading::Block { left, padding, ends_block };
        Ok(Some(Step::Again))
    }

    fn begin_settings(&mut self, header: FrameHeader) -> Result<Step, ConnectionError> {
        if header.has(flag::ACK) {
            return if header.length == 0 {
                self.acknowledged();
                Ok(Step::Again)
            } else {
                Err(ConnectionError::size("acknowledgement of settings with some"))
            };
        }
        if !header.length.is_multiple_of(6) {
            return Err(ConnectionError::size("settings that are not whole"));
        }
        if self.has_settings {
            self.calm.spend(Cost::Settings)?;
        }
        self.has_settings = true;
        self.reading = Reading::Settings { left: header.length };
        Ok(Step::Again)
    }

    /// The peer goes by this side's settings from here on.
    fn acknowledged(&mut self) {
        if std::mem::replace(&mut self.is_acknowledged, true) {
            return;
        }
        self.decoder.set_table_size_max(usize::try_from(self.settings.header_table_size).unwrap_or(usize::MAX));
        let change = i64::from(self.settings.stream_window) - i64::from(WINDOW_DEFAULT);
        self.streams.iter_mut().for_each(|(_, stream)| stream.receive_window += change);
    }

    fn settings_entry(&mut self, input: &mut Input<'_, '_>, left: u32) -> Result<Step, ConnectionError> {
        if left == 0 {
            frame::write_settings_ack(&mut self.out);
            self.reading = Reading::Header;
            return Ok(Step::Again);
        }
        let Some([n0, n1, a, b, c, d]) = input.take_array::<6>() else { return Ok(Step::Starved) };
        self.reading = Reading::Settings { left: left - 6 };
        let (name, value) = (u16::from_be_bytes([n0, n1]), u32::from_be_bytes([a, b, c, d]));
        let before = self.peer;
        self.peer.apply(name, value)?;
        self.role.note_setting(name, value)?;
        match name {
            settings::name::HEADER_TABLE_SIZE => {
                self.encoder.set_table_size_max(usize::try_from(value).unwrap_or(usize::MAX));
            }
            settings::name::INITIAL_WINDOW_SIZE => {
                self.windows_change(i64::from(value) - i64::from(before.stream_window))?
            }
            _ => {}
        }
        Ok(Step::Again)
    }

    /// RFC 9113 section 6.9.2: a new initial window changes those of all streams.
    fn windows_change(&mut self, by: i64) -> Result<(), ConnectionError> {
        if by == 0 {
            return Ok(());
        }
        let keys: Vec<StreamKey> = self.streams.iter_mut().map(|(key, _)| key).collect();
        for key in keys {
            if !self.open_window(key, by) {
                return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "window larger than 2^31-1"));
            }
        }
        Ok(())
    }

    fn ping(&mut self, header: FrameHeader, data: [u8; 8]) -> Result<Step, ConnectionError> {
        if !header.has(flag::ACK) {
            self.calm.spend(Cost::Ping)?;
            frame::write_ping(&mut self.out, flag::ACK, data);
        } else {
            R::is_acknowledged(self, data);
        }
        Ok(Step::Again)
    }

    fn window_update(&mut self, id: u32, increment: [u8; 4]) -> Result<Step, ConnectionError> {
        let increment = i64::from(u32::from_be_bytes(increment) & WINDOW_MAX);
        // NOTE: a peer that reads by 4 KiB opens two windows for each, and perhaps a thousand times at once; what bounds those is how
        // large a window may be.
        if increment < SMALL_INCREMENT {
            self.calm.spend(Cost::WindowUpdate)?;
        }
        if id == 0 {
            if increment == 0 {
                return Err(ConnectionError::protocol("window that is opened by nothing"));
            }
            self.send_window += increment;
            if self.send_window > i64::from(WINDOW_MAX) {
                return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "window larger than 2^31-1"));
            }
            return Ok(Step::Again);
        }
        let Some(key) = self.streams.find(id).filter(|key| !self.is_reset(*key)) else { return Ok(Step::Again) };
        if increment == 0 {
            return Ok(found(self.stream_error(id, ErrorCode::PROTOCOL_ERROR)?));
        }
        if !self.open_window(key, increment) {
            return Ok(found(self.stream_error(id, ErrorCode::FLOW_CONTROL_ERROR)?));
        }
        Ok(Step::Again)
    }

    fn reset_by_peer(&mut self, id: u32, code: [u8; 4]) -> Result<Step, ConnectionError> {
        let code = ErrorCode(u32::from_be_bytes(code));
        let Some(key) = self.streams.find(id) else {
            // It may have crossed the end of the stream.
            self.calm.spend(Cost::Ignored)?;
            return Ok(Step::Again);
        };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(Step::Again) };
        let was_over = stream.reset.is_some();
        let cost = R::cost_of_reset(stream);
        stream.reset = Some(code);
        let is_held = stream.is_held;
        self.forget_if_over(key);
        if let Some(cost) = cost {
            self.calm.spend(cost)?;
        }
        Ok(found((is_held && !was_over).then_some(Event::Reset { stream: key, code, by_peer: true })))
    }

    fn goaway(&mut self, header: FrameHeader, said: [u8; 8]) -> Result<Step, ConnectionError> {
        let [l0, l1, l2, l3, ..] = said;
        self.has_peer_left = true;
        self.skip(header.length - 8);
        R::peer_leaves(self, u32::from_be_bytes([l0, l1, l2, l3]) & 0x7fff_ffff);
        Ok(found(self.role.poll_event()))
    }

    /// Priorities of RFC 7540, which RFC 9113 section 5.3.2 has ignored.
    fn priority(&mut self, input: &mut Input<'_, '_>, header: FrameHeader) -> Result<Option<Step>, ConnectionError> {
        if header.length != 5 {
            self.skip(header.length);
            return Ok(Some(found(self.stream_error(header.stream, ErrorCode::FRAME_SIZE_ERROR)?)));
        }
        let Some([a, b, c, d, _]) = input.take_array::<5>() else { return Ok(None) };
        self.calm.spend(Cost::Ignored)?;
        if u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff == header.stream {
            return Ok(Some(found(self.stream_error(header.stream, ErrorCode::PROTOCOL_ERROR)?)));
        }
        Ok(Some(Step::Again))
    }
}
