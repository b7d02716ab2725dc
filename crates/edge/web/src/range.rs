//! Parts of a file (RFC 9110 section 14): which bytes a request gets, and the pieces of an answer that has several parts.
//!
//! What is no use to anybody is answered with the whole file, as RFC 9110 section 14.2 allows: a malformed range, more ranges than
//! `ranges_max`, ranges that together are longer than the file (as in nginx), or that go back and forth in it (as in Apache). So a short
//! request cannot ask for a long answer.

use std::ops::Range;

use http::byte_ranges;

/// Bytes of a file from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

impl Span {
    /// How many bytes it has.
    #[must_use]
    pub fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }
}

impl From<Span> for Range<u64> {
    fn from(span: Span) -> Self {
        span.start..span.end
    }
}

/// How many ranges a request may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLimits {
    /// Most ranges; none at all with 0, as nginx' `max_ranges` says it. The whole file answers a request with more.
    pub ranges_max: usize,
    /// Most ranges that begin before the end of the one before them. The whole file answers a request with more.
    pub backward_max: usize,
}

impl Default for RangeLimits {
    fn default() -> Self {
        Self { ranges_max: 100, backward_max: 20 }
    }
}

/// What a request gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it.
    Whole,
    /// One part.
    Part(Span),
    /// Several parts, in the order in which they were asked for; at least two.
    Parts(Vec<Span>),
    /// What there is not: 416.
    Unsatisfiable,
}

/// What a `Range` value asks for of so many bytes.
#[must_use]
pub fn wanted(value: &[u8], length: u64, limits: RangeLimits) -> Wanted {
    let Some(ranges) = byte_ranges(value) else { return Wanted::Whole };
    let mut spans: Vec<Span> = Vec::new();
    let (mut count, mut backward, mut total, mut last_end) = (0, 0, 0_u64, 0);
    for range in ranges {
        let Some(range) = range else { return Wanted::Whole };
        count += 1;
        if count > limits.ranges_max {
            return Wanted::Whole;
        }
        let Some((start, end)) = range.within(length) else { continue };
        backward += usize::from(start < last_end);
        last_end = end;
        total = total.saturating_add(end - start);
        if backward > limits.backward_max || total > length {
            return Wanted::Whole;
        }
        spans.push(Span { start, end });
    }
    match (spans.as_slice(), count) {
        (_, 0) => Wanted::Whole,
        ([], _) => Wanted::Unsatisfiable,
        ([one], _) => Wanted::Part(*one),
        _ => Wanted::Parts(spans),
    }
}

/// A piece of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Text(Vec<u8>),
    /// These bytes of the file.
    File(Span),
}

/// A body of several parts (RFC 9110 section 14.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipart {
    /// In order.
    pub pieces: Vec<Piece>,
    /// How many bytes all pieces have.
    pub length: u64,
    /// The `Content-Type` of the whole.
    pub content_type: Vec<u8>,
}

/// Makes the body for spans of a file of `length` bytes. `seed` makes the line that parts them: it is one that nobody can foresee, as
/// the file must not have it.
#[must_use]
pub fn multipart(spans: &[Span], length: u64, content_type: &[&[u8]], seed: u64) -> Multipart {
    let boundary = format!("{seed:020}");
    let mut pieces = Vec::with_capacity(spans.len() * 2 + 1);
    let mut total = 0_u64;
    let mut add = |piece: Piece| {
        total = total.saturating_add(match &piece {
            Piece::Text(text) => u64::try_from(text.len()).unwrap_or(u64::MAX),
            Piece::File(span) => span.len(),
        });
        pieces.push(piece);
    };
    for span in spans {
        let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
        if !content_type.is_empty() {
            head.extend_from_slice(b"Content-Type: ");
            head.extend_from_slice(&content_type.concat());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"Content-Range: ");
        head.extend_from_slice(&content_range(*span, length));
        head.extend_from_slice(b"\r\n\r\n");
        add(Piece::Text(head));
        add(Piece::File(*span));
    }
    add(Piece::Text(format!("\r\n--{boundary}--\r\n").into_bytes()));
    Multipart { pieces, length: total, content_type: format!("multipart/byteranges; boundary={boundary}").into_bytes() }
}

/// The `Content-Range` of a part.
#[must_use]
pub fn content_range(span: Span, length: u64) -> Vec<u8> {
    format!("bytes {}-{}/{length}", span.start, span.end.saturating_sub(1)).into_bytes()
}

/// The `Content-Range` that goes with 416.
#[must_use]
pub fn content_range_unsatisfied(length: u64) -> Vec<u8> {
    format!("bytes */{length}").into_bytes()
}

#[cfg(test)]
mod tests;
