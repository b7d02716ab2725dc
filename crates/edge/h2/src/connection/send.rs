//! What this side sends.

use h2h3::{is_about_connection, lowered, trailer_fields};
use http::HeaderId;

use super::{Connection, LastFrame, role::Role};
use crate::{
    frame::{self, FrameHeader, HEADER_LEN, flag, kind},
    settings::WINDOW_MAX,
    streams::{Receiving, Sending, StreamKey},
};

/// Where a frame's flags stand in it.
const FLAGS_AT: usize = 4;

/// Points that data give back which a peer takes as they come: a piece that ends because there is no more.
const EARNED_BY_LAST_PIECE: u32 = 2;
/// Bytes of a large piece, which gives points by its length: a peer that reads by 4 KiB opens two windows for each. Pieces that are
/// small because a window was opened by little give none: a client could have all its streams send some bytes at each of its SETTINGS
/// (CVE-2019-9511, "Data Dribble").
const PIECE: usize = 1_024;
/// The same for a whole message.
const EARNED_BY_MESSAGE: u32 = 5;

impl<R: Role> Connection<R> {
    /// Moves what waits to be sent to `into`, which is empty, and leaves its memory here.
    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        std::mem::swap(&mut self.out, into);
        self.last_frame = None;
    }

    /// Bytes that wait here to be taken.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.out.len()
    }

    /// Says how much of what was taken has not been sent.
    pub fn note_unsent(&mut self, unsent: usize) {
        self.unsent = unsent;
    }

    pub(super) fn begin_block(&mut self) -> usize {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_LEN]);
        self.encoder.begin(&mut self.out);
        start
    }

    pub(super) fn finish_block(&mut self, start: usize, stream: u32, flags: u8) {
        frame::finish_header_block(&mut self.out, start, stream, flags, self.peer.frame_bytes_max as usize);
        self.last_frame = Some(LastFrame { stream, start, end: self.out.len() });
    }

    pub(super) fn encode_field(&mut self, id: HeaderId, name: &[u8], value: &[u8]) {
        if is_about_connection(id) {
            return;
        }
        let Some(how) = R::indexing(id, value) else { return };
        let mut memory = Vec::new();
        self.encoder.field(&mut self.out, lowered(name, &mut memory), value, how);
    }

    /// How many bytes of data could go now.
    fn room(&self, key: StreamKey) -> usize {
        let Some(stream) = self.streams.get(key) else { return 0 };
        let window = stream.send_window.min(self.send_window).max(0);
        let output = self.settings.output_bytes_max.saturating_sub(self.out.len() + self.unsent);
        usize::try_from(window).unwrap_or(usize::MAX).min(output)
    }

    /// Sends as much of a body as may go; how much that was. `ends` says that no more follows, which is sent with the last of
    /// it. Whoever could not send all is named by [`Connection::next_sendable`] later on.
    pub fn send_data(&mut self, key: StreamKey, bytes: &[u8], ends: bool) -> usize {
        let (mut sent, mut may_end) = (0, false);
        if bytes.is_empty() {
            may_end = true;
        }
        while sent < bytes.len() {
            let left = bytes.get(sent..).unwrap_or_default();
            let most = self.room(key).min(self.turn_left(key)).min(self.peer.frame_bytes_max as usize).min(left.len());
            if most == 0 {
                self.wait_for_room(key);
                break;
            }
            may_end = most == left.len();
            self.write_data(key, left.get(..most).unwrap_or_default(), ends && may_end);
            if may_end {
                self.calm.earn(EARNED_BY_LAST_PIECE);
            }
            if most >= PIECE {
                self.calm.earn_by(most);
            }
            sent += most;
        }
        if ends && may_end && bytes.is_empty() {
            self.write_data(key, &[], true);
        }
        sent
    }

    /// How much a stream may send before it is another one's turn.
    fn turn_left(&self, key: StreamKey) -> usize {
        match self.turn {
            Some((turn, left)) if turn == key => {
                if self.waiting.is_empty() {
                    usize::MAX
                } else {
                    left
                }
            }
            _ if self.waiting.is_empty() => usize::MAX,
            _ => 0,
        }
    }

    fn wait_for_room(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.wants_room = true;
        // What waits for its own window is told when that opens.
        if stream.send_window > 0 && !stream.is_queued {
            stream.is_queued = true;
            self.waiting.push_back(key);
        }
    }

    fn write_data(&mut self, key: StreamKey, bytes: &[u8], ends: bool) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.reset.is_some() || stream.sending != Sending::Body {
            return;
        }
        let count = bytes.len();
        stream.send_window -= i64::try_from(count).unwrap_or(i64::MAX);
        self.send_window -= i64::try_from(count).unwrap_or(i64::MAX);
        if let Some((turn, left)) = &mut self.turn
            && *turn == key
        {
            *left = left.saturating_sub(count);
        }
        let flags = if ends { flag::END_STREAM } else { 0 };
        let length = u32::try_from(count).unwrap_or(0);
        let start = self.out.len();
        FrameHeader { length, kind: kind::DATA, flags, stream: key.id() }.write(&mut self.out);
        self.out.extend_from_slice(bytes);
        self.last_frame = Some(LastFrame { stream: key.id(), start, end: self.out.len() });
        if ends {
            stream.sending = Sending::Ended;
            self.sending_ends(key);
        }
    }

    /// Ends a message with trailers: lines of HTTP/1 without the empty one. Those that may not be there are left out.
    pub fn send_trailers(&mut self, key: StreamKey, lines: &[u8]) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.reset.is_some() || stream.sending != Sending::Body {
            return;
        }
        if trailer_fields(lines).next().is_none() {
            self.write_data(key, &[], true);
            return;
        }
        stream.sending = Sending::Ended;
        let start = self.begin_block();
        for (name, value) in trailer_fields(lines) {
            self.encode_field(HeaderId::of(name), name, value);
        }
        self.finish_block(start, key.id(), flag::END_STREAM);
        self.sending_ends(key);
    }

    /// Ends a message, unless it has ended. Its last frame says so if it was the last one of all, and waits still.
    pub fn end(&mut self, key: StreamKey) {
        let last = self.last_frame.take().filter(|last| last.stream == key.id() && last.end == self.out.len());
        let flags = last.and_then(|last| self.out.get_mut(last.start + FLAGS_AT));
        let stream = self.streams.get_mut(key).filter(|stream| stream.reset.is_none());
        match (flags, stream) {
            (Some(flags), Some(stream)) if stream.sending == Sending::Body => {
                *flags |= flag::END_STREAM;
                stream.sending = Sending::Ended;
                self.sending_ends(key);
            }
            _ => self.write_data(key, &[], true),
        }
    }

    /// Whether nothing more is to be sent on a stream.
    #[must_use]
    pub fn has_sent_all(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_none_or(|stream| stream.sending == Sending::Ended)
    }

    pub(super) fn sending_ends(&mut self, key: StreamKey) {
        self.calm.earn(EARNED_BY_MESSAGE);
        if self.streams.get(key).is_some_and(|stream| stream.receiving == Receiving::Ended) {
            self.forget_if_over(key);
        }
    }

    /// Whose turn it is to send, of those that could not send all: whoever it names is to try again, and then this is to be
    /// asked again.
    pub fn next_sendable(&mut self) -> Option<StreamKey> {
        self.turn = None;
        let output = self.settings.output_bytes_max.saturating_sub(self.out.len() + self.unsent);
        // NOTE: half of it, or frames would get small where a client reads slowly.
        if self.send_window <= 0 || output < self.settings.output_bytes_max / 2 {
            return None;
        }
        while let Some(key) = self.waiting.pop_front() {
            let Some(stream) = self.streams.get_mut(key) else { continue };
            stream.is_queued = false;
            if stream.reset.is_some() || !stream.wants_room || stream.send_window <= 0 {
                continue;
            }
            stream.wants_room = false;
            self.turn = Some((key, self.peer.frame_bytes_max as usize));
            return Some(key);
        }
        None
    }

    /// Opens a stream's window; whether that is possible.
    pub(super) fn open_window(&mut self, key: StreamKey, by: i64) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return true };
        stream.send_window += by;
        if stream.send_window > i64::from(WINDOW_MAX) {
            return false;
        }
        if stream.wants_room && stream.send_window > 0 && !stream.is_queued {
            stream.is_queued = true;
            self.waiting.push_back(key);
        }
        true
    }
}
