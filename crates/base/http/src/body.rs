//! Where a body ends in the bytes that pass.

use crate::body_length::BodyLength;
use crate::chunked::ChunkedDecoder;
use crate::error::ParseError;
use crate::limits::Limits;

/// Follows one body of whatever framing.
///
/// Bytes are shown with [`BodyTracker::track`], or only counted with [`BodyTracker::account`] when they pass unseen, as
/// with splice. After the end no more bytes belong.
#[derive(Clone, Debug)]
pub enum BodyTracker {
    /// The body has ended, or there was none.
    Ended,
    /// A body of known length.
    Exact {
        /// Bytes still to come; never zero.
        remaining: u64,
    },
    /// A chunked body.
    Chunked(ChunkedDecoder),
    /// A body that ends with the connection.
    UntilClose,
}

/// What a slice holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// How many of its bytes belong to the message; the rest begin the next one.
    pub belonging: usize,
    /// How many of those are data; the others frame chunks.
    pub data: usize,
    /// Whether the message has ended.
    pub ended: bool,
}

impl BodyTracker {
    /// A tracker at the start of a body.
    #[must_use]
    pub fn new(length: BodyLength, limits: &Limits) -> Self {
        match length {
            BodyLength::None | BodyLength::Exact(0) => BodyTracker::Ended,
            BodyLength::Exact(remaining) => BodyTracker::Exact { remaining },
            BodyLength::Chunked => BodyTracker::Chunked(ChunkedDecoder::new(limits)),
            BodyLength::UntilClose => BodyTracker::UntilClose,
        }
    }

    /// Whether the message has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self, BodyTracker::Ended)
    }

    /// Goes over the bytes that follow those seen so far.
    ///
    /// # Errors
    /// When a chunked body is malformed. None of the bytes may be forwarded then: which of them belong is unknown.
    #[inline]
    pub fn track(&mut self, bytes: &[u8]) -> Result<Tracked, ParseError> {
        let (belonging, data) = match self {
            BodyTracker::Ended => (0, 0),
            BodyTracker::UntilClose => (bytes.len(), bytes.len()),
            BodyTracker::Exact { .. } => {
                let taken = self.account(bytes.len() as u64);
                // Not more than the length of the slice, so it fits.
                let taken = usize::try_from(taken).unwrap_or(bytes.len());
                (taken, taken)
            }
            BodyTracker::Chunked(decoder) => {
                let progress = decoder.advance(bytes)?;
                if progress.done {
                    *self = BodyTracker::Ended;
                }
                (progress.consumed, progress.data_len)
            }
        };
        Ok(Tracked { belonging, data, ended: self.has_ended() })
    }

    /// How many of the next bytes surely belong to the message, so that they may pass unseen. No more than these, or the
    /// end of the message goes by unnoticed.
    #[must_use]
    pub fn unseen_max(&self) -> u64 {
        match self {
            BodyTracker::Ended => 0,
            BodyTracker::Exact { remaining } => *remaining,
            BodyTracker::Chunked(decoder) => decoder.data_ahead(),
            BodyTracker::UntilClose => u64::MAX,
        }
    }

    /// Counts up to `len` bytes that passed unseen; how many of them belong, at most [`BodyTracker::unseen_max`].
    pub fn account(&mut self, len: u64) -> u64 {
        match self {
            BodyTracker::Ended => 0,
            BodyTracker::UntilClose => len,
            BodyTracker::Chunked(decoder) => decoder.account(len),
            BodyTracker::Exact { remaining } => {
                let taken = len.min(*remaining);
                *remaining -= taken;
                if *remaining == 0 {
                    *self = BodyTracker::Ended;
                }
                taken
            }
        }
    }

    /// Takes the end of the connection; whether the message is whole. Only a body that ends with the connection may end
    /// there, any other was cut off.
    pub fn close(&mut self) -> bool {
        if matches!(self, BodyTracker::UntilClose) {
            *self = BodyTracker::Ended;
        }
        self.has_ended()
    }
}

#[cfg(test)]
mod tests;
