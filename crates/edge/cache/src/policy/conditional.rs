//! Conditions of requests (RFC 9110 section 13), answered from what is stored, and made for asking the origin.

use http::{HeaderId, Headers, Validators, evaluate_conditions, parse_http_date};

pub use http::{Outcome, tags_match_strongly as strongly_equal, tags_match_weakly as weakly_equal};

/// What the conditions of a GET or HEAD come to, for a stored response (RFC 9110 section 13.2.2).
#[must_use]
pub fn evaluate(request: &Headers, response: &Headers, now: i64) -> Outcome {
    let time = |id| response.first_known(id).and_then(|line| parse_http_date(line, now));
    let modified = time(HeaderId::LastModified);
    let made = if response.contains_known(HeaderId::LastModified) { None } else { time(HeaderId::Date) };
    evaluate_conditions(request, &Validators { tag: response.first_known(HeaderId::ETag), modified, made }, now)
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
