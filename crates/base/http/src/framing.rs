//! How long the body of a message is: RFC 9112 section 6.3, without its lenient branches.

use crate::body_length::{BodyLength, Framing, parse_content_length};
use crate::bytes::decimal;
use crate::header_id::HeaderId;
use crate::headers::{Headers, bit};
use crate::method::Method;
use crate::request::RequestHead;
use crate::response::ResponseHead;
use crate::version::Version;

/// How the body of a parsed request ends. Never until close.
#[must_use]
pub fn request_body_length(head: &RequestHead) -> BodyLength {
    match head.framing {
        Framing { chunked: true, .. } => BodyLength::Chunked,
        Framing { length: Some(length), .. } => BodyLength::Exact(length),
        Framing { length: None, .. } => BodyLength::None,
    }
}

/// Whether a request of HTTP/1.0 has a body although its method gives it no meaning. HAProxy refuses these: servers of that time
/// do not expect a body there, and would take it for the next request.
#[must_use]
pub fn has_unexpected_body(head: &RequestHead) -> bool {
    head.version() == Version::Http10
        && matches!(head.method_kind(), Method::Get | Method::Head | Method::Delete)
        && !request_body_length(head).is_empty()
}

/// How the body of a parsed response to a request with this method ends.
///
/// After 101, and after 2xx to CONNECT, the message has no body and the connection is a tunnel: see
/// [`begins_tunnel`].
#[must_use]
pub fn response_body_length(head: &ResponseHead, request_method: Method) -> BodyLength {
    let status = head.status();
    let bodyless = request_method == Method::Head || matches!(status, 100..=199 | 204 | 304);
    if bodyless || begins_tunnel(status, request_method) {
        return BodyLength::None;
    }
    match head.framing {
        Framing { chunked: true, .. } => BodyLength::Chunked,
        Framing { length: Some(length), .. } => BodyLength::Exact(length),
        Framing { length: None, .. } => BodyLength::UntilClose,
    }
}

/// Whether the connection carries opaque bytes after a response with this status: 101, and 2xx to CONNECT.
#[must_use]
pub fn begins_tunnel(status: u16, request_method: Method) -> bool {
    status == 101 || (request_method == Method::Connect && (200..300).contains(&status))
}

/// The fields that say how a body ends.
const FRAMING_FIELDS: u64 = bit(HeaderId::ContentLength) | bit(HeaderId::TransferEncoding);

/// Makes the fields of a request say how its body ends, whatever rules did to them. Call it before writing the head.
pub fn enforce_request_framing(head: &mut RequestHead) {
    if head.headers.may_be_edited(FRAMING_FIELDS) {
        let body = request_body_length(head);
        enforce_framing(&mut head.headers, body);
    }
}

/// Makes the fields of a response say how its body ends, whatever rules did to them. Call it before writing the head.
///
/// A response to HEAD and a 304 are left as they are: their fields are those of the body that they leave out. From 1xx,
/// 204 and a 2xx to CONNECT the fields go (RFC 9112 section 6.2, RFC 9110 section 8.6).
pub fn enforce_response_framing(head: &mut ResponseHead, request_method: Method) {
    if request_method != Method::Head && head.status() != 304 {
        let body = response_body_length(head, request_method);
        // What the parser let through says how the body ends, unless the status or the method means that there is none.
        if body == BodyLength::None || head.headers.may_be_edited(FRAMING_FIELDS) {
            enforce_framing(&mut head.headers, body);
        }
    }
}

impl ResponseHead {
    /// Takes what the fields of a head that was made here say of the length of the body for what a sender has said: until one of them
    /// changes, nobody need look at them again.
    pub fn settle_framing(&mut self) {
        if let FieldCount::One(value) = only(&self.headers, HeaderId::ContentLength)
            && let Ok(length) = parse_content_length(value)
            && only(&self.headers, HeaderId::TransferEncoding) == FieldCount::None
        {
            self.framing = Framing { length: Some(length), chunked: false };
            self.headers.forget_edits();
        }
    }
}

/// Makes the fields say that the body ends as `body` does. Nothing is written when they do, which is nearly always.
pub fn enforce_framing(headers: &mut Headers, body: BodyLength) {
    let length = only(headers, HeaderId::ContentLength);
    let encoding = only(headers, HeaderId::TransferEncoding);
    match body {
        BodyLength::None | BodyLength::UntilClose => {
            if (length, encoding) != (FieldCount::None, FieldCount::None) {
                headers.retain_known(|id, _, _| !matches!(id, HeaderId::ContentLength | HeaderId::TransferEncoding));
            }
        }
        BodyLength::Exact(wanted) => {
            let right = matches!(length, FieldCount::One(value) if parse_content_length(value) == Ok(wanted));
            if encoding != FieldCount::None {
                headers.remove_known(HeaderId::TransferEncoding);
            }
            if !right {
                let mut digits = [0; 20];
                headers.set_known(HeaderId::ContentLength, decimal(wanted, &mut digits));
            }
        }
        BodyLength::Chunked => {
            let right = matches!(encoding, FieldCount::One(value) if value.eq_ignore_ascii_case(b"chunked"));
            if length != FieldCount::None {
                headers.remove_known(HeaderId::ContentLength);
            }
            if !right {
                headers.set_known(HeaderId::TransferEncoding, b"chunked");
            }
        }
    }
}

/// How many fields there are with an id.
#[derive(PartialEq)]
enum FieldCount<'a> {
    None,
    One(&'a [u8]),
    Several,
}

fn only(headers: &Headers, id: HeaderId) -> FieldCount<'_> {
    let mut values = headers.all_known(id);
    match (values.next(), values.next()) {
        (None, _) => FieldCount::None,
        (Some(value), None) => FieldCount::One(value),
        (Some(_), Some(_)) => FieldCount::Several,
    }
}

#[cfg(test)]
mod tests;
