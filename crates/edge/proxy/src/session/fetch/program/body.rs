//! The body of a request on its way to a program, which knows no chunks.

use std::io;

use http::{BodyLength, ChunkedDecoder, Limits};

/// Bytes of a body whose length nobody has announced. They are kept until its end: programs are told how long a body is before it
/// comes, and take one without a length for none.
const UNANNOUNCED_BYTES_MAX: usize = 1 << 20;

/// The body of one request, as it is put here.
#[derive(Debug, Default)]
pub enum RequestBody {
    /// It has been put here whole.
    #[default]
    Whole,
    /// So many bytes more.
    Exact(u64),
    /// In chunks, and what these held so far.
    Chunks(Box<ChunkedDecoder>, Vec<u8>),
    /// It is longer than it may be without an announced length.
    TooLong,
}

/// What of a body may go on.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// So many bytes of those that were given, which may be the last ones.
    Bytes { count: usize, is_last: bool },
    /// Nothing as yet; all that was given is kept.
    Kept,
    /// All of a body whose length is known now.
    Whole(Vec<u8>),
    /// It is too long.
    TooLong,
}

impl RequestBody {
    /// One of this length.
    pub fn new(length: BodyLength) -> Self {
        match length {
            BodyLength::None | BodyLength::UntilClose | BodyLength::Exact(0) => Self::Whole,
            BodyLength::Exact(length) => Self::Exact(length),
            BodyLength::Chunked => Self::Chunks(Box::new(ChunkedDecoder::new(&Limits::default())), Vec::new()),
        }
    }

    /// Whether its length is known only at its end.
    pub fn is_unannounced(&self) -> bool {
        matches!(self, Self::Chunks(..) | Self::TooLong)
    }

    /// Takes bytes of it, `most` at most where they go on at once.
    ///
    /// # Errors
    /// When the chunks are none.
    pub fn take(&mut self, bytes: &[u8], most: usize) -> io::Result<Step> {
        match self {
            Self::Whole => Ok(Step::Bytes { count: 0, is_last: true }),
            Self::Exact(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len()).min(most);
                *left -= count as u64;
                let is_last = *left == 0;
                if is_last {
                    *self = Self::Whole;
                }
                Ok(Step::Bytes { count, is_last })
            }
            Self::Chunks(decoder, kept) => {
                decoder.decode_into(bytes, kept).map_err(|_| io::ErrorKind::InvalidData)?;
                if decoder.is_done() {
                    let kept = std::mem::take(kept);
                    *self = Self::Whole;
                    return Ok(Step::Whole(kept));
                }
                if kept.len() > UNANNOUNCED_BYTES_MAX {
                    *self = Self::TooLong;
                    return Ok(Step::TooLong);
                }
                Ok(Step::Kept)
            }
            Self::TooLong => Ok(Step::TooLong),
        }
    }

    /// Appends bytes of it to `out` as they come, for programs that need not know its length before: how many were taken, `most` at most.
    ///
    /// # Errors
    /// When the chunks are none.
    pub fn pass(&mut self, bytes: &[u8], most: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Chunks(decoder, _) => {
                let bytes = bytes.get(..bytes.len().min(most)).unwrap_or_default();
                decoder.decode_into(bytes, out).map_err(|_| io::ErrorKind::InvalidData)?;
                if decoder.is_done() {
                    *self = Self::Whole;
                }
                Ok(bytes.len())
            }
            Self::Exact(_) => match self.take(bytes, most)? {
                Step::Bytes { count, is_last } => {
                    out.extend_from_slice(bytes.get(..count).unwrap_or_default());
                    Ok(if is_last { bytes.len() } else { count })
                }
                _ => Ok(bytes.len()),
            },
            Self::Whole | Self::TooLong => Ok(bytes.len()),
        }
    }

    /// Whether all of it has come.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole)
    }
}
