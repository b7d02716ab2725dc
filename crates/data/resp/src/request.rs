//! Requests out of a query buffer, without a copy.
//!
//! ```text
//!            '*'                 count > 0                 last argument
//! Between ---------> Count line -----------> Length line ----------------> Complete
//!    |                   |                    ^       |
//!    |                   | count <= 0         +-------+ argument
//!    |                   +----------> Empty
//!    | else
//!    +---------> Inline line ----------> Empty or Complete
//! ```
//!
//! # What Redis lets pass, and so does this
//!
//! - Of the two bytes behind a line or an argument the first has to be a carriage return (behind arguments not even that),
//!   the second may be anything.
//! - A NUL within a line hides its end: nothing comes out until the line is too long, which is the error that clients out of
//!   step get to see.

use std::ops::Range;

use crate::{
    arguments::Arguments,
    error::{Limits, ProtocolError},
    inline,
    number::parse_integer,
};

/// For how many arguments there is room at once, whatever the count says, and how much room is kept between commands.
const ARGUMENTS_KEPT: usize = 1_024;
/// How many bytes of inline commands are kept between them.
const SCRATCH_KEPT: usize = 1_024;

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request goes on behind the buffer.
    Incomplete {
        /// At least how many bytes are missing: more than 1 within an argument. Whoever reads may make room for them.
        needed: usize,
    },
    /// An empty line, or a command of no words: nothing to be done, nothing to be answered.
    Empty {
        /// How many bytes of the buffer it was.
        consumed: usize,
    },
    /// A command; [`RequestParser::arguments`] has its words.
    Complete {
        /// How many bytes of the buffer it was.
        consumed: usize,
    },
}

/// Reads requests, one after the other.
///
/// The buffer given to [`parse`](Self::parse) begins where the request begins. After [`Progress::Incomplete`] the same
/// bytes are given again with more behind them; they may have moved. After the other two, those `consumed` are left out. An
/// error is final.
#[derive(Debug, Default)]
pub struct RequestParser {
    ranges: Vec<Range<usize>>,
    /// The words of an inline command with quotes.
    scratch: Vec<u8>,
    /// Where the line or the argument begins that is being read.
    position: usize,
    /// How much of that line has been searched for its end.
    searched: usize,
    /// How many arguments are still to come; 0 between requests.
    missing: u32,
    /// The length of the argument at `position`, once its line has been read.
    bulk_len: Option<usize>,
    /// The words are in `scratch`.
    unquoted: bool,
}

impl RequestParser {
    /// One at the beginning of a request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on with the request that `buffer` begins with.
    ///
    /// # Errors
    ///
    /// The bytes are no request, or one beyond the limits.
    #[inline]
    pub fn parse(&mut self, buffer: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        if self.missing == 0 {
            if self.searched == 0 {
                self.begin();
            }
            match buffer.first() {
                None => return Ok(Progress::Incomplete { needed: 1 }),
                Some(b'*') => {
                    let count = match short_line(b'*', buffer) {
                        Some((count, len)) => {
                            self.position = len;
                            self.searched = 0;
                            i64::try_from(count).ok()
                        }
                        None => match self.length_line(buffer, limits, ProtocolError::CountLineTooLong)? {
                            Some(count) => count,
                            None => return Ok(Progress::Incomplete { needed: 1 }),
                        },
                    };
                    let Some(count) = check_count(count, limits)? else {
                        return Ok(Progress::Empty { consumed: std::mem::take(&mut self.position) });
                    };
                    self.missing = count;
                    self.ranges.reserve(ARGUMENTS_KEPT.min(usize::try_from(count).unwrap_or(ARGUMENTS_KEPT)));
                }
                Some(_) => return self.inline(buffer, limits),
            }
        }
        // Nearly all arguments are whole and short.
        let mut position = self.position;
        while self.missing > 0 {
            if self.bulk_len.is_none()
                && let Some((len, line_len)) = buffer.get(position..).and_then(|rest| short_line(b'$', rest))
                && len as u64 <= limits.bulk_len_max
                && position + line_len + len + 2 <= buffer.len()
            {
                let start = position + line_len;
                self.ranges.push(start..start + len);
                position = start + len + 2;
                self.searched = 0;
                self.missing -= 1;
                continue;
            }
            self.position = position;
            let needed = self.argument(buffer, limits)?;
            if needed > 0 {
                return Ok(Progress::Incomplete { needed });
            }
            position = self.position;
        }
        self.position = 0;
        Ok(Progress::Complete { consumed: position })
    }

    /// Takes an argument of any length, or as much of it as there is. How many bytes are missing at least.
    #[inline(never)]
    fn argument(&mut self, buffer: &[u8], limits: &Limits) -> Result<usize, ProtocolError> {
        let len = match self.bulk_len {
            Some(len) => len,
            None => {
                let Some(len) = self.bulk_line(buffer, limits)? else { return Ok(1) };
                self.bulk_len = Some(len);
                len
            }
        };
        let end = self.position.saturating_add(len);
        let next = end.saturating_add(2);
        if next > buffer.len() {
            return Ok(next - buffer.len());
        }
        self.ranges.push(self.position..end);
        self.position = next;
        self.bulk_len = None;
        self.missing -= 1;
        Ok(0)
    }

    /// The words of the command that was complete last; `buffer` is what [`parse`](Self::parse) was given then.
    #[inline]
    #[must_use]
    pub fn arguments<'a>(&'a self, buffer: &'a [u8]) -> Arguments<'a> {
        Arguments::new(if self.unquoted { &self.scratch } else { buffer }, &self.ranges)
    }

    /// Where the words of the complete command lie in the buffer; `None` if they had to be freed of quotes, and lie
    /// elsewhere.
    #[must_use]
    pub fn ranges(&self) -> Option<&[Range<usize>]> {
        (!self.unquoted).then_some(&self.ranges)
    }

    /// Takes what [`ranges`](Self::ranges) gives, for whoever keeps the buffer too: nothing if the words lie elsewhere. The parser has
    /// the words no longer.
    #[must_use]
    pub fn take_ranges(&mut self) -> Option<Vec<Range<usize>>> {
        (!self.unquoted).then(|| std::mem::take(&mut self.ranges))
    }

    /// Whether a request has begun: some of it has been seen, and more is to come.
    #[must_use]
    pub fn is_within_request(&self) -> bool {
        self.missing > 0 || self.searched > 0
    }

    /// Where in the buffer the argument begins that has not come whole yet; nothing between arguments.
    #[must_use]
    pub fn argument_at(&self) -> Option<usize> {
        self.bulk_len.map(|_| self.position)
    }

    /// How many bytes of memory it has besides itself.
    #[must_use]
    pub fn memory_len(&self) -> usize {
        self.ranges.capacity() * size_of::<Range<usize>>() + self.scratch.capacity()
    }

    #[inline]
    fn begin(&mut self) {
        self.position = 0;
        self.ranges.clear();
        if self.ranges.capacity() > ARGUMENTS_KEPT {
            self.ranges.shrink_to(ARGUMENTS_KEPT);
        }
        if self.unquoted {
            self.unquoted = false;
            self.scratch.clear();
            self.scratch.shrink_to(SCRATCH_KEPT);
        }
    }

    /// The length of the next argument; `None` while its line has no end.
    fn bulk_line(&mut self, buffer: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let first = buffer.get(self.position).copied();
        let Some(len) = self.length_line(buffer, limits, ProtocolError::LengthLineTooLong)? else {
            return Ok(None);
        };
        match first {
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::ExpectedBulk(other)),
            None => return Ok(None),
        }
        let len = len.and_then(|len| u64::try_from(len).ok()).ok_or(ProtocolError::InvalidLength)?;
        if len > limits.bulk_len_max {
            return Err(ProtocolError::InvalidLength);
        }
        if limits.unauthenticated && len > Limits::UNAUTHENTICATED_BULK_LEN_MAX {
            return Err(ProtocolError::UnauthenticatedLength);
        }
        usize::try_from(len).map(Some).map_err(|_| ProtocolError::InvalidLength)
    }

    /// Takes the line at `position`. The outer `None` means that it has no end yet; the inner one that behind its first byte
    /// there is no number.
    fn length_line(
        &mut self,
        buffer: &[u8],
        limits: &Limits,
        too_long: ProtocolError,
    ) -> Result<Option<Option<i64>>, ProtocolError> {
        let line = buffer.get(self.position..).unwrap_or_default();
        let Some(end) = self.line_end(line, b'\r', limits).map_err(|LineTooLong| too_long)? else {
            return Ok(None);
        };
        if line.len() <= end + 1 {
            return Ok(None);
        }
        let number = line.get(1..end).and_then(parse_integer);
        self.position += end + 2;
        self.searched = 0;
        Ok(Some(number))
    }

    /// Where in `line` the first `terminator` is, if no NUL comes before it. Goes on searching where it stopped last time.
    fn line_end(&mut self, line: &[u8], terminator: u8, limits: &Limits) -> Result<Option<usize>, LineTooLong> {
        let found = memchr::memchr2(terminator, 0, line.get(self.searched..).unwrap_or_default());
        let end = found.map_or(line.len(), |found| self.searched + found);
        self.searched = end;
        if line.get(end) == Some(&terminator) {
            return if end > limits.line_len_max { Err(LineTooLong) } else { Ok(Some(end)) };
        }
        if line.len() > limits.line_len_max { Err(LineTooLong) } else { Ok(None) }
    }

    fn inline(&mut self, buffer: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        let Some(end) = self.line_end(buffer, b'\n', limits).map_err(|LineTooLong| ProtocolError::InlineTooLong)?
        else {
            return Ok(Progress::Incomplete { needed: 1 });
        };
        self.searched = 0;
        let line = buffer.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.ranges.clear();
        if !inline::split_plain(line, 0, &mut self.ranges) {
            self.unquoted = true;
            self.scratch.clear();
            inline::split_arguments(line, &mut self.scratch, &mut self.ranges)
                .map_err(|inline::UnbalancedQuotes| ProtocolError::UnbalancedQuotes)?;
        }
        let consumed = end + 1;
        Ok(if self.ranges.is_empty() { Progress::Empty { consumed } } else { Progress::Complete { consumed } })
    }
}

/// The number of a whole line that begins with `first` and has up to three digits, and the line's length.
#[inline]
fn short_line(first: u8, line: &[u8]) -> Option<(usize, usize)> {
    let digit = |byte: u8| usize::from(byte - b'0');
    let (number, len) = match *line {
        [_, a @ b'0'..=b'9', b'\r', _, ..] => (digit(a), 4),
        [_, a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', _, ..] => (digit(a) * 10 + digit(b), 5),
        [_, a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b'\r', _, ..] => {
            (digit(a) * 100 + digit(b) * 10 + digit(c), 6)
        }
        _ => return None,
    };
    (line.first() == Some(&first)).then_some((number, len))
}

/// The number of arguments; `None` if there are none.
#[inline]
fn check_count(count: Option<i64>, limits: &Limits) -> Result<Option<u32>, ProtocolError> {
    let count = count.ok_or(ProtocolError::InvalidCount)?;
    if count <= 0 {
        return Ok(None);
    }
    let count = u32::try_from(count).ok().filter(|&count| count <= limits.arguments_max);
    let count = count.ok_or(ProtocolError::InvalidCount)?;
    if limits.unauthenticated && count > Limits::UNAUTHENTICATED_ARGUMENTS_MAX {
        return Err(ProtocolError::UnauthenticatedCount);
    }
    Ok(Some(count))
}

/// A line that does not end where it must.
struct LineTooLong;
