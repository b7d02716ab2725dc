//! Parts of a stored response (RFC 9110 section 14).

use http::{HeaderId, Headers, Validators, byte_ranges, if_range_holds, parse_http_date};

/// What is asked for of a body of known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it.
    Whole,
    /// The bytes from `start` up to, not including, `end`.
    Part {
        /// The first byte.
        start: u64,
        /// Behind the last byte.
        end: u64,
    },
    /// What it has not: 416.
    Unsatisfiable,
}

/// What a request wants of a stored response whose body has `length` bytes. Several ranges are answered with the whole, as is
/// whatever is no range of bytes (RFC 9110 section 14.2).
#[must_use]
pub fn wanted(request: &Headers, response: &Headers, length: u64, now: i64) -> Wanted {
    let Some(range) = request.first_known(HeaderId::Range) else { return Wanted::Whole };
    let time = |id| response.first_known(id).and_then(|line| parse_http_date(line, now));
    let validators = || Validators {
        tag: response.first_known(HeaderId::ETag),
        modified: time(HeaderId::LastModified),
        made: time(HeaderId::Date),
    };
    if request.contains_known(HeaderId::IfRange) && !if_range_holds(request, &validators(), now) {
        return Wanted::Whole;
    }
    let mut ranges = byte_ranges(range).into_iter().flatten();
    let (Some(Some(asked)), None) = (ranges.next(), ranges.next()) else { return Wanted::Whole };
    match asked.within(length) {
        Some((start, end)) => Wanted::Part { start, end },
        None => Wanted::Unsatisfiable,
    }
}
