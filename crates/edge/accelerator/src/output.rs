//! What goes to the client of a response: all of it, a part, or the news that it has it already.

use cache::policy::{
    conditional::{self, Outcome},
    range::{self, Wanted},
};
use http::{HeaderId, Headers, RequestHead, ResponseHead};

/// Which bytes of a body the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All.
    Whole,
    /// None.
    Nothing,
    /// From `start` up to, not including, `end`.
    Bytes {
        /// The first one.
        start: u64,
        /// Behind the last one.
        end: u64,
    },
}

/// Applies the request's conditions and ranges to a response that is about to go out. `length` is that of the body, where it is known.
pub fn finish(request: &RequestHead, response: &mut ResponseHead, length: Option<u64>, ranges: bool, now: f64) -> Part {
    #[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
    let now = now as i64;
    let is_read = matches!(request.method(), b"GET" | b"HEAD");
    if response.status() == 200 && is_read && asks(&request.headers) {
        match conditional::evaluate(&request.headers, &response.headers, now) {
            Outcome::NotModified => {
                set_status(response, 304, b"Not Modified");
                response.headers.remove_known(HeaderId::ContentLength);
                return Part::Nothing;
            }
            Outcome::Failed | Outcome::Send => {}
        }
    }
    // These have no length (RFC 9110 section 8.6).
    let Some(length) = length.filter(|_| !matches!(response.status(), 204 | 304)) else { return Part::Whole };
    if ranges && response.status() == 200 && request.method() == b"GET" {
        match range::wanted(&request.headers, &response.headers, length, now) {
            Wanted::Whole => {}
            Wanted::Part { start, end } => {
                set_status(response, 206, b"Partial Content");
                let shown = format!("bytes {start}-{}/{length}", end.saturating_sub(1));
                response.headers.set(b"Content-Range", shown.as_bytes());
                set_length(&mut response.headers, end - start);
                return Part::Bytes { start, end };
            }
            Wanted::Unsatisfiable => {
                set_status(response, 416, b"Requested Range Not Satisfiable");
                response.headers.set(b"Content-Range", format!("bytes */{length}").as_bytes());
                set_length(&mut response.headers, 0);
                return Part::Nothing;
            }
        }
    }
    set_length(&mut response.headers, length);
    Part::Whole
}

/// Whether the request has conditions that a cache answers by 304.
fn asks(headers: &Headers) -> bool {
    headers.contains_known(HeaderId::IfNoneMatch) || headers.contains_known(HeaderId::IfModifiedSince)
}

fn set_status(response: &mut ResponseHead, status: u16, reason: &[u8]) {
    response.set_status(status);
    response.set_reason(reason);
}

fn set_length(headers: &mut Headers, length: u64) {
    let mut said = headers.all_known(HeaderId::ContentLength);
    if said.next().is_some_and(|said| is_decimal(said, length)) && said.next().is_none() {
        return;
    }
    drop(said);
    headers.remove_known(HeaderId::ContentLength);
    headers.add_number(HeaderId::ContentLength, length);
}

/// Whether these digits are the number.
fn is_decimal(digits: &[u8], number: u64) -> bool {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()) == Some(number)
}

/// The reason phrase of a status, as Varnish has it where a program gives none.
#[must_use]
pub fn reason(status: u16) -> &'static [u8] {
    match status {
        204 => b"No Content",
        302 => b"Found",
        304 => b"Not Modified",
        306 => b"(Unused)",
        408 => b"Request Timeout",
        416 => b"Requested Range Not Satisfiable",
        417 => b"Expectation Failed",
        422 => b"Unprocessable Entity",
        424 => b"Failed Dependency",
        502 => b"Bad Gateway",
        504 => b"Gateway Timeout",
        505 => b"HTTP Version Not Supported",
        200..=206 | 300..=307 | 400..=417 | 421 | 423 | 425 | 426 | 428 | 429 | 500 | 501 | 503 => {
            http::reason_phrase(status).as_bytes()
        }
        _ => b"Unknown HTTP Status",
    }
}
