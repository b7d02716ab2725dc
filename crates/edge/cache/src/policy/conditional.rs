//! Conditions of requests (RFC 9110 section 13), answered from what is stored, and made for asking the origin.

use http::{HeaderId, Headers, elements};

use super::date;

/// What a condition comes to.
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
pub fn weakly_equal(left: &[u8], right: &[u8]) -> bool {
    let strong = |tag: &[u8]| tag.strip_prefix(b"W/").map_or_else(|| tag.to_vec(), <[u8]>::to_vec);
    strong(left) == strong(right)
}

/// Whether they are the same in the strong sense.
#[must_use]
pub fn strongly_equal(left: &[u8], right: &[u8]) -> bool {
    !left.starts_with(b"W/") && left == right
}

/// What the conditions of a GET or HEAD come to, for a stored response (RFC 9110 section 13.2.2).
#[must_use]
pub fn evaluate(request: &Headers, response: &Headers, now: i64) -> Outcome {
    let etag = response.first(b"etag");
    let modified = response.first_known(HeaderId::LastModified).and_then(|line| date::parse(line, now));
    if request.contains(b"if-match") {
        let holds = request
            .all(b"if-match")
            .flat_map(elements)
            .any(|tag| tag == b"*" || etag.is_some_and(|etag| strongly_equal(tag, etag)));
        if !holds {
            return Outcome::Failed;
        }
    } else if let Some(since) = request.first(b"if-unmodified-since").and_then(|line| date::parse(line, now))
        && modified.is_none_or(|modified| modified > since)
    {
        return Outcome::Failed;
    }
    if request.contains(b"if-none-match") {
        let matches = request
            .all(b"if-none-match")
            .flat_map(elements)
            .any(|tag| tag == b"*" || etag.is_some_and(|etag| weakly_equal(tag, etag)));
        return if matches { Outcome::NotModified } else { Outcome::Send };
    }
    let since = request.first_known(HeaderId::IfModifiedSince).and_then(|line| date::parse(line, now));
    // RFC 9111 section 4.3.2: where nothing is said of a modification, it is no later than the response.
    let is_said = response.contains_known(HeaderId::LastModified);
    let made = || response.first(b"date").and_then(|line| date::parse(line, now));
    match (since, if is_said { modified } else { made() }) {
        (Some(since), Some(modified)) if modified <= since => Outcome::NotModified,
        _ => Outcome::Send,
    }
}

/// Puts into a request what asks about a stored response (RFC 9111 section 4.3.1), in place of the client's own conditions. Tells
/// whether there was anything to ask about.
pub fn ask_about(request: &mut Headers, response: &Headers) -> bool {
    for name in [&b"if-match"[..], b"if-none-match", b"if-unmodified-since", b"if-modified-since", b"if-range"] {
        request.remove(name);
    }
    let mut asks = false;
    if let Some(etag) = response.first(b"etag") {
        request.add(b"If-None-Match", etag);
        asks = true;
    }
    if let Some(modified) = response.first_known(HeaderId::LastModified) {
        request.add_known(HeaderId::IfModifiedSince, modified);
        asks = true;
    }
    asks
}
