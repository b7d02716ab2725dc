//! A message's body as far as it has come in frames and nobody has asked for it, framed as in HTTP/1.

use std::{io::Write as _, num::NonZeroUsize};

/// What has come of a body.
#[derive(Debug, Default)]
pub struct Incoming {
    /// Framed as in HTTP/1.
    bytes: Vec<u8>,
    /// How many of these are data.
    data: usize,
    is_chunked: bool,
    has_ended: bool,
    /// Trailers behind a body whose length was announced.
    trailers: Vec<u8>,
}

impl Incoming {
    /// A body begins, which comes in chunks if its length is not known.
    pub fn begin(&mut self, is_chunked: bool) {
        self.is_chunked = is_chunked;
    }

    /// A piece has come; it may be the last one, behind which trailers may stand.
    pub fn receive(&mut self, data: &[u8], end: Option<&[u8]>) {
        self.data += data.len();
        self.has_ended |= end.is_some();
        if !self.is_chunked {
            self.bytes.extend_from_slice(data);
            return self.trailers.extend_from_slice(end.unwrap_or_default());
        }
        if let Some(length) = NonZeroUsize::new(data.len()) {
            self.bytes.reserve(data.len() + 16);
            http::write_chunk_start(length, &mut self.bytes);
            self.bytes.extend_from_slice(data);
            http::write_chunk_end(&mut self.bytes);
        }
        if let Some(trailers) = end {
            // Writing to memory does not fail.
            let _ = self.bytes.write_all(b"0\r\n");
            self.bytes.extend_from_slice(trailers);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// Whether the last byte has come.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// How many bytes wait to be asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether trailers may stand behind a body whose length was announced: they do, or its end has not come.
    #[must_use]
    pub fn may_trail(&self) -> bool {
        !self.has_ended || !self.trailers.is_empty()
    }

    /// Those trailers, once the end has come.
    pub fn take_trailers(&mut self) -> Option<Vec<u8>> {
        self.has_ended.then(|| std::mem::take(&mut self.trailers))
    }

    /// Whether nothing waits to be asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Moves what has come behind `into`; how many bytes these were, and how many of them data.
    pub fn take(&mut self, into: &mut Vec<u8>) -> (usize, usize) {
        let taken = (self.bytes.len(), std::mem::take(&mut self.data));
        if into.is_empty() {
            std::mem::swap(into, &mut self.bytes);
        } else {
            into.append(&mut self.bytes);
        }
        taken
    }
}

/// What was taken of it, and has not been consumed.
#[derive(Debug, Default)]
pub struct Taken {
    /// From `start` on.
    bytes: Vec<u8>,
    start: usize,
    /// Bytes of data that the other end has not been told to be consumed.
    owed: usize,
}

impl Taken {
    /// The bytes, framed as in HTTP/1.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Adds what `take` moves behind its argument; how many bytes that was. `take` says also how many of them are data.
    pub fn add(&mut self, take: impl FnOnce(&mut Vec<u8>) -> (usize, usize)) -> usize {
        // NOTE: what moves to the front is less than a buffer, and at most once for each time that something comes.
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let (count, data) = take(&mut self.bytes);
        self.owed += data;
        count
    }

    /// So many bytes are done with; of how many bytes of data the other end is to be told so.
    #[must_use]
    pub fn consume(&mut self, count: usize) -> usize {
        self.start = (self.start + count).min(self.bytes.len());
        let is_empty = self.start == self.bytes.len();
        if is_empty {
            self.bytes.clear();
            self.start = 0;
        }
        let told = if is_empty { self.owed } else { self.owed.min(count) };
        self.owed -= told;
        told
    }

    /// Gives memory back that holds nothing.
    pub fn rest(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }
}
