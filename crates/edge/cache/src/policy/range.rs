//! Parts of a stored response (RFC 9110 section 14).

use http::{HeaderId, Headers};

use super::{conditional::strongly_equal, date};

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
    if !if_range_holds(request, response, now) {
        return Wanted::Whole;
    }
    let Some((unit, ranges)) =
        range.iter().position(|byte| *byte == b'=').and_then(|at| Some((range.get(..at)?, range.get(at + 1..)?)))
    else {
        return Wanted::Whole;
    };
    if !unit.trim_ascii().eq_ignore_ascii_case(b"bytes") || ranges.contains(&b',') {
        return Wanted::Whole;
    }
    let Some(dash) = ranges.iter().position(|byte| *byte == b'-') else { return Wanted::Whole };
    let (first, last) = (ranges.get(..dash).unwrap_or_default(), ranges.get(dash + 1..).unwrap_or_default());
    match (first.trim_ascii(), last.trim_ascii()) {
        (b"", b"") => Wanted::Whole,
        (b"", suffix) => match number(suffix) {
            Some(0) => Wanted::Unsatisfiable,
            Some(_) if length == 0 => Wanted::Unsatisfiable,
            Some(count) => Wanted::Part { start: length.saturating_sub(count), end: length },
            None => Wanted::Whole,
        },
        (first, last) => {
            let Some(start) = number(first) else { return Wanted::Whole };
            let end = match last {
                b"" => length,
                last => match number(last) {
                    Some(last) if last < start => return Wanted::Whole,
                    Some(last) => last.saturating_add(1).min(length),
                    None => return Wanted::Whole,
                },
            };
            if start >= length { Wanted::Unsatisfiable } else { Wanted::Part { start, end } }
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

/// Whether the range may be looked at: there is no `If-Range`, or it names this very response (RFC 9110 section 13.1.5).
fn if_range_holds(request: &Headers, response: &Headers, now: i64) -> bool {
    let Some(condition) = request.first_known(HeaderId::IfRange) else { return true };
    if condition.starts_with(b"\"") || condition.starts_with(b"W/") {
        return response.first(b"etag").is_some_and(|etag| strongly_equal(condition, etag));
    }
    let said = date::parse(condition, now);
    let kept = response.first_known(HeaderId::LastModified).and_then(|line| date::parse(line, now));
    // RFC 9110 section 8.8.2.2: what was made in the second in which it had changed may have changed again in it.
    let made = response.first_known(HeaderId::Date).and_then(|line| date::parse(line, now));
    let is_strong = made.is_none_or(|made| kept.is_some_and(|kept| kept < made));
    said.is_some() && said == kept && is_strong
}
