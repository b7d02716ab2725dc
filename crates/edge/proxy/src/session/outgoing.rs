//! A message's body on its way into frames: chunks of HTTP/1 are taken apart.

use std::io;

use h2::{ClientConnection, ServerConnection, StreamKey};
use http::{ChunkPart, ChunkedDecoder, Limits};

/// What puts bodies into frames.
pub trait Framer {
    /// Names a stream.
    type Key: Copy + std::fmt::Debug;

    /// Sends as much as may go; how much that was. `ends` says that no more follows.
    fn send_data(&mut self, key: Self::Key, bytes: &[u8], ends: bool) -> usize;

    /// Ends a message with trailers.
    fn send_trailers(&mut self, key: Self::Key, lines: &[u8]);

    /// Ends a message.
    fn end(&mut self, key: Self::Key);
}

macro_rules! framer {
    ($connection:ty) => {
        impl Framer for $connection {
            type Key = StreamKey;

            #[inline]
            fn send_data(&mut self, key: StreamKey, bytes: &[u8], ends: bool) -> usize {
                Self::send_data(self, key, bytes, ends)
            }

            fn send_trailers(&mut self, key: StreamKey, lines: &[u8]) {
                Self::send_trailers(self, key, lines);
            }

            fn end(&mut self, key: StreamKey) {
                Self::end(self, key);
            }
        }
    };
}

framer!(ServerConnection);
framer!(ClientConnection);

/// How a body comes here.
#[derive(Debug, Default)]
enum Coming {
    /// As it goes, until somebody says that it ends.
    #[default]
    Plain,
    /// So many bytes more, then it ends.
    Exact(u64),
    /// In chunks; its trailers so far.
    Chunked(Box<ChunkedDecoder>, Vec<u8>),
}

/// What is to be sent on a stream.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// What waits, from `sent` on.
    waiting: Vec<u8>,
    sent: usize,
    coming: Coming,
    /// The message has been put here whole.
    is_whole: bool,
    /// The last chunk ends it.
    ends_with_chunks: bool,
    /// Trailers may follow a body whose length is known.
    awaits_trailers: bool,
}

impl Outgoing {
    /// What waits, and perhaps what has been sent before it.
    pub fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    /// How much waits.
    #[must_use]
    pub fn unsent_len(&self) -> usize {
        self.waiting.len() - self.sent
    }

    /// The body comes in chunks; the last one ends the message, or somebody says that it ends.
    pub fn expect_chunks(&mut self, limits: &Limits, ends_with_chunks: bool) {
        self.coming = Coming::Chunked(Box::new(ChunkedDecoder::new(limits)), Vec::new());
        self.ends_with_chunks = ends_with_chunks;
    }

    /// So many bytes come.
    pub fn expect_bytes(&mut self, length: u64) {
        self.coming = Coming::Exact(length);
    }

    /// The last byte of a body whose length is known does not end the message: trailers may follow.
    pub fn await_trailers(&mut self) {
        self.awaits_trailers = true;
    }

    /// Those trailers, or none, where nothing waits.
    pub fn put_trailers<F: Framer>(&mut self, machine: &mut F, key: F::Key, lines: &[u8]) {
        if !lines.is_empty() {
            machine.send_trailers(key, lines);
        } else if matches!(self.coming, Coming::Exact(_)) {
            machine.end(key);
        }
    }

    /// Whether the message has been put here whole, or has not.
    pub fn set_whole(&mut self, is_whole: bool) {
        self.is_whole = is_whole;
    }

    /// Sends as much of `bytes` as may go, in front of which nothing waits; how much of it that was.
    ///
    /// # Errors
    /// When the chunks are none.
    pub fn push<F: Framer>(&mut self, machine: &mut F, key: F::Key, bytes: &[u8]) -> io::Result<usize> {
        let (decoder, trailers) = match &mut self.coming {
            Coming::Plain => return Ok(machine.send_data(key, bytes, false)),
            Coming::Exact(left) => {
                let ends = bytes.len() as u64 == *left && !self.awaits_trailers;
                let sent = machine.send_data(key, bytes, ends);
                *left = left.saturating_sub(sent as u64);
                return Ok(sent);
            }
            Coming::Chunked(decoder, trailers) => (decoder, trailers),
        };
        let mut pushed = 0;
        while let Some(rest) = bytes.get(pushed..).filter(|rest| !rest.is_empty()) {
            let data = usize::try_from(decoder.data_ahead()).unwrap_or(usize::MAX).min(rest.len());
            if data > 0 {
                let sent = machine.send_data(key, rest.get(..data).unwrap_or_default(), false);
                decoder.account(sent as u64);
                pushed += sent;
                if sent < data {
                    break;
                }
                continue;
            }
            let before = (decoder.trailer_len(), decoder.empty_line_len());
            let part = decoder.next_part(rest).map_err(|_| io::ErrorKind::InvalidData)?;
            let (ChunkPart::Framing(count) | ChunkPart::Data(count) | ChunkPart::End(count)) = part;
            let lines = decoder.trailer_len() - before.0;
            let end = count - (decoder.empty_line_len() - before.1).min(count);
            trailers.extend_from_slice(rest.get(end - lines.min(end)..end).unwrap_or_default());
            pushed += count;
            if matches!(part, ChunkPart::End(_)) {
                if !trailers.is_empty() {
                    machine.send_trailers(key, trailers);
                } else if self.ends_with_chunks {
                    machine.end(key);
                }
                break;
            }
        }
        Ok(pushed)
    }

    /// Sends what waits, as far as it may go; whether nothing waits any more.
    ///
    /// # Errors
    /// When the chunks are none.
    pub fn flush<F: Framer>(&mut self, machine: &mut F, key: F::Key) -> io::Result<bool> {
        if self.sent < self.waiting.len() {
            let waiting = std::mem::take(&mut self.waiting);
            let pushed = self.push(machine, key, waiting.get(self.sent..).unwrap_or_default());
            self.waiting = waiting;
            self.sent += pushed?;
            if self.sent < self.waiting.len() {
                return Ok(false);
            }
        }
        self.waiting.clear();
        self.sent = 0;
        if self.is_whole {
            machine.end(key);
        }
        Ok(true)
    }
}
