//! Conditions of requests (RFC 9110 section 13): what they come to for a representation that is there.

use crate::date::parse_http_date;
use crate::header_id::HeaderId;
use crate::headers::Headers;
use crate::values::elements;

/// What is known of the representation that a request would get.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validators<'a> {
    /// Its entity tag, as the field has it.
    pub tag: Option<&'a [u8]>,
    /// When it was changed last, in seconds since 1970.
    pub modified: Option<i64>,
    /// When the response was made; stands for the modification in `If-Modified-Since`, where nothing is said of one (RFC 9111 section
    /// 4.3.2).
    pub made: Option<i64>,
}

/// What conditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is none, or it holds: the response goes out as it is.
    Send,
    /// The client has it: 304.
    NotModified,
    /// It does not hold: 412.
    Failed,
}

/// Whether two entity tags are the same in the weak sense (RFC 9110 section 8.8.3.2).
#[must_use]
pub fn tags_match_weakly(left: &[u8], right: &[u8]) -> bool {
    left.strip_prefix(b"W/").unwrap_or(left) == right.strip_prefix(b"W/").unwrap_or(right)
}

/// Whether they are the same in the strong sense.
#[must_use]
pub fn tags_match_strongly(left: &[u8], right: &[u8]) -> bool {
    !left.starts_with(b"W/") && left == right
}

/// What the conditions of a GET or HEAD come to, in the order of RFC 9110 section 13.2.2. `now` decides about years of two digits.
#[must_use]
pub fn evaluate_conditions(request: &Headers, current: &Validators<'_>, now: i64) -> Outcome {
    let is_current = |tag: &[u8], same: fn(&[u8], &[u8]) -> bool| {
        tag == b"*" || current.tag.is_some_and(|current| same(tag, current))
    };
    if request.contains_known(HeaderId::IfMatch) {
        let mut tags = request.all_known(HeaderId::IfMatch).flat_map(elements);
        if !tags.any(|tag| is_current(tag, tags_match_strongly)) {
            return Outcome::Failed;
        }
    } else if let Some(since) = time(request, HeaderId::IfUnmodifiedSince, now)
        && current.modified.is_none_or(|modified| modified > since)
    {
        return Outcome::Failed;
    }
    if request.contains_known(HeaderId::IfNoneMatch) {
        let mut tags = request.all_known(HeaderId::IfNoneMatch).flat_map(elements);
        let matches = tags.any(|tag| is_current(tag, tags_match_weakly));
        return if matches { Outcome::NotModified } else { Outcome::Send };
    }
    match (time(request, HeaderId::IfModifiedSince, now), current.modified.or(current.made)) {
        (Some(since), Some(modified)) if modified <= since => Outcome::NotModified,
        _ => Outcome::Send,
    }
}

/// Whether `Range` may be looked at: there is no `If-Range`, or it names this very representation (RFC 9110 section 13.1.5).
#[must_use]
pub fn if_range_holds(request: &Headers, current: &Validators<'_>, now: i64) -> bool {
    let Some(condition) = request.first_known(HeaderId::IfRange) else { return true };
    if condition.starts_with(b"\"") || condition.starts_with(b"W/") {
        return current.tag.is_some_and(|tag| tags_match_strongly(condition, tag));
    }
    let said = parse_http_date(condition, now);
    // RFC 9110 section 8.8.2.2: what was made in the second in which it had changed may have changed again in it.
    let is_strong = current.made.is_none_or(|made| current.modified.is_some_and(|modified| modified < made));
    said.is_some() && said == current.modified && is_strong
}

/// A time that a request says; several lines or what is no time say nothing.
fn time(request: &Headers, id: HeaderId, now: i64) -> Option<i64> {
    request.first_known(id).and_then(|line| parse_http_date(line, now))
}
