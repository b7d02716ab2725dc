//! The answer to a request for a file that is there: conditions, then ranges, then the head, in the order of RFC 9110 section 13.2.

mod prepared;

use http::{
    Coding, HeaderId, Method, Outcome, RequestHead, ResponseHead, Validators, Version, evaluate_conditions, http_date,
    if_range_holds,
};

use crate::{
    expires::Expiry,
    mime::ContentType,
    range::{self, Multipart, RangeLimits, Span, Wanted},
};

pub use self::prepared::PreparedHeads;

/// What an open file says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Bytes.
    pub length: u64,
    /// Seconds since 1970 of the last modification.
    pub modified: i64,
    /// Nanoseconds of the last modification.
    pub nanoseconds: u32,
    /// The inode.
    pub inode: u64,
}

/// What a file is to its clients.
#[derive(Clone, Copy, Debug)]
pub struct Representation<'a> {
    /// Bytes of the file that is sent, a precompressed one if `coding` says so.
    pub length: u64,
    /// `Last-Modified`.
    pub modified: i64,
    /// `ETag`, as the field has it; none is sent if it is empty.
    pub tag: &'a [u8],
    /// `Content-Type`, of the file itself.
    pub content_type: ContentType<'a>,
    /// `Content-Encoding`, of a precompressed file.
    pub coding: Option<Coding>,
    /// Other clients may get another coding: `Vary: Accept-Encoding`.
    pub varies: bool,
    /// What `expires` says.
    pub expiry: Option<Expiry>,
    /// How many ranges there may be.
    pub ranges: RangeLimits,
    /// The same as heads, if somebody has made them before.
    pub prepared: Option<&'a PreparedHeads>,
}

impl<'a> Representation<'a> {
    /// Its heads, unless they say something else by now: no time of modification is in the future (RFC 9110 section 8.8.2.1).
    #[inline]
    fn heads(&self, now: i64) -> Option<&'a PreparedHeads> {
        self.prepared.filter(|_| (0..=now).contains(&self.modified))
    }
}

/// Which bytes follow the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPlan {
    /// None: 304, 405, 412, 416 and answers to OPTIONS and HEAD. For HEAD, `Content-Length` says how many a GET would get.
    Nothing,
    /// The whole file.
    Whole,
    /// A part of it.
    Part(Span),
    /// Several parts, and text between them.
    Parts(Multipart),
}

/// What a method asks of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// GET or HEAD: the file.
    File,
    /// OPTIONS: what there is to ask, which [`respond_options`] says.
    Options,
    /// Something that files do not do: [`refuse_method`].
    Nothing,
}

/// What a method asks of files.
#[must_use]
pub fn asked(method: Method) -> Asked {
    match method {
        Method::Get | Method::Head => Asked::File,
        Method::Options => Asked::Options,
        _ => Asked::Nothing,
    }
}

const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// Says what may be asked.
pub fn respond_options(response: &mut ResponseHead) {
    response.start(Version::Http11, 204);
    response.headers.add_known(HeaderId::Allow, ALLOW);
}

/// Says that a method does nothing with files. What tells so to people is the caller's.
pub fn refuse_method(response: &mut ResponseHead) {
    response.start(Version::Http11, 405);
    response.headers.add_known(HeaderId::Allow, ALLOW);
}

/// Makes the head that answers a GET or HEAD for a file, and says which bytes follow. `seed` parts several ranges from each other; nobody
/// may foresee it. `Date`, `Server` and what goes with the connection are the caller's.
pub fn respond(
    request: &RequestHead,
    file: &Representation<'_>,
    now: i64,
    seed: impl FnOnce() -> u64,
    response: &mut ResponseHead,
) -> BodyPlan {
    let headers = &request.headers;
    let modified = file.modified.clamp(0, now.max(0));
    let validators =
        Validators { tag: Some(file.tag).filter(|tag| !tag.is_empty()), modified: Some(modified), made: Some(now) };
    match evaluate_conditions(headers, &validators, now) {
        Outcome::Send => {}
        Outcome::NotModified => {
            match file.heads(now) {
                Some(heads) => heads.put_not_modified(response),
                None => put_not_modified(file, modified, response),
            }
            put_expiry(file, response);
            return BodyPlan::Nothing;
        }
        Outcome::Failed => {
            response.start(Version::Http11, 412);
            response.headers.add_number(HeaderId::ContentLength, 0);
            return BodyPlan::Nothing;
        }
    }
    // RFC 9110 section 14.2: a range is one of GET alone.
    let range = headers.first_known(HeaderId::Range).filter(|_| request.method_kind() == Method::Get);
    let wanted = match range {
        Some(range) if file.ranges.ranges_max > 0 && if_range_holds(headers, &validators, now) => {
            range::wanted(range, file.length, file.ranges)
        }
        _ => Wanted::Whole,
    };
    let parts = match &wanted {
        Wanted::Parts(spans) => Some(range::multipart(spans, file.length, &file.content_type.parts(), seed())),
        _ => None,
    };
    match (&wanted, file.heads(now)) {
        (Wanted::Whole, Some(heads)) => heads.put_whole(response),
        _ => put_head(file, modified, &wanted, parts.as_ref(), response),
    }
    if wanted != Wanted::Unsatisfiable {
        put_expiry(file, response);
    }
    match (wanted, parts) {
        (Wanted::Unsatisfiable, _) => BodyPlan::Nothing,
        _ if request.method_kind() == Method::Head => BodyPlan::Nothing,
        (_, Some(parts)) => BodyPlan::Parts(parts),
        (Wanted::Part(span), _) => BodyPlan::Part(span),
        _ => BodyPlan::Whole,
    }
}

/// The head of an answer with the whole file, but for what `expires` says.
fn put_whole(file: &Representation<'_>, modified: i64, response: &mut ResponseHead) {
    put_head(file, modified, &Wanted::Whole, None, response);
}

/// The head of an answer to a client that has the file already, but for what `expires` says.
fn put_not_modified(file: &Representation<'_>, modified: i64, response: &mut ResponseHead) {
    response.start(Version::Http11, 304);
    put_validators(file, modified, response);
    put_vary(file, response);
}

/// The head of an answer with the file, with parts of it, or without any that was asked for.
fn put_head(
    file: &Representation<'_>,
    modified: i64,
    wanted: &Wanted,
    parts: Option<&Multipart>,
    response: &mut ResponseHead,
) {
    let (status, length) = match wanted {
        Wanted::Whole => (200, file.length),
        Wanted::Part(span) => (206, span.len()),
        Wanted::Parts(_) => (206, parts.map_or(0, |parts| parts.length)),
        Wanted::Unsatisfiable => (416, 0),
    };
    response.start(Version::Http11, status);
    match (wanted, parts) {
        (Wanted::Unsatisfiable, _) => {}
        (_, Some(parts)) => response.headers.add_known(HeaderId::ContentType, &parts.content_type),
        _ => {
            if !file.content_type.essence.is_empty() {
                let content_type = file.content_type.parts();
                response.headers.add_named(HeaderId::ContentType, b"content-type", &content_type);
            }
        }
    }
    response.headers.add_number(HeaderId::ContentLength, length);
    if status != 416 {
        put_validators(file, modified, response);
    }
    match wanted {
        Wanted::Part(span) => {
            response.headers.add_known(HeaderId::ContentRange, &range::content_range(*span, file.length));
        }
        Wanted::Unsatisfiable => {
            response.headers.add_known(HeaderId::ContentRange, &range::content_range_unsatisfied(file.length));
        }
        Wanted::Whole | Wanted::Parts(_) => {}
    }
    if let Some(coding) = file.coding.filter(|_| status != 416) {
        response.headers.add_known(HeaderId::ContentEncoding, coding.token().as_bytes());
    }
    if file.ranges.ranges_max > 0 && status == 200 {
        response.headers.add_known(HeaderId::AcceptRanges, b"bytes");
    }
    put_vary(file, response);
}

fn put_validators(file: &Representation<'_>, modified: i64, response: &mut ResponseHead) {
    response.headers.add_known(HeaderId::LastModified, &http_date(u64::try_from(modified).unwrap_or(0)));
    if !file.tag.is_empty() {
        response.headers.add_known(HeaderId::ETag, file.tag);
    }
}

fn put_expiry(file: &Representation<'_>, response: &mut ResponseHead) {
    if let Some(expiry) = &file.expiry {
        response.headers.add_known(HeaderId::Expires, &http_date(u64::try_from(expiry.at).unwrap_or(0)));
        response.headers.add_known(HeaderId::CacheControl, &expiry.control.value());
    }
}

fn put_vary(file: &Representation<'_>, response: &mut ResponseHead) {
    if file.varies {
        response.headers.add_known(HeaderId::Vary, b"Accept-Encoding");
    }
}

#[cfg(test)]
mod tests;
