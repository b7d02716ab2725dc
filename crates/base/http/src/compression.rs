//! Which responses are compressed and how: content codings chosen from requests, and what forbids them in responses.
//!
//! The decisions are HAProxy's. Nothing is compressed here: this only looks at heads and changes them.

use crate::body_length::BodyLength;
use crate::bytes::TOKEN;
use crate::header_id::HeaderId;
use crate::method::Method;
use crate::request::RequestHead;
use crate::response::ResponseHead;
use crate::values::elements;
use crate::version::Version;

/// A way of writing a body, by the words of `compression algo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `identity`: as it is.
    Identity,
    /// `gzip`: RFC 1952.
    Gzip,
    /// `deflate`: RFC 1951 in the wrapping of RFC 1950, as the registry of codings wants it.
    Deflate,
    /// `raw-deflate`: RFC 1951 without any wrapping, under the same name as `deflate`.
    RawDeflate,
    /// `br`: RFC 7932.
    Brotli,
    /// `zstd`: RFC 8878.
    Zstd,
}

impl Coding {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Identity, Self::Gzip, Self::Deflate, Self::RawDeflate, Self::Brotli, Self::Zstd];

    /// What the configuration calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::RawDeflate => "raw-deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// What `Accept-Encoding` and `Content-Encoding` call it.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::RawDeflate => "deflate",
            other => other.name(),
        }
    }

    /// The one that the configuration calls so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|coding| coding.name() == name)
    }

    /// Whether HAProxy 2.6 has it too.
    #[must_use]
    pub fn is_classic(self) -> bool {
        !matches!(self, Self::Brotli | Self::Zstd)
    }
}

/// Why a response is passed on as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncompressed {
    /// Client and configuration have no coding in common.
    NotAccepted,
    /// One of the two speaks HTTP/1.0, which has no chunks.
    Version,
    /// There is no body, or its end is the connection's.
    Body,
    /// Only 200 to 203 are compressed.
    Status,
    /// It has a coding already.
    Encoded,
    /// `Cache-Control: no-transform`.
    NoTransform,
    /// `ETag` is malformed, or there are several.
    Etag,
    /// The configuration does not list its type, or it is multipart.
    Type,
}

/// The best of `codings`, which stand in the order of the configuration, that the request accepts.
///
/// As in HAProxy the greatest `q` wins, then what the client named first, and `*` stands for the last word of the
/// configuration. Where the configuration has codings that HAProxy does not have, its order decides among equals: browsers
/// name gzip first, whatever else they understand.
#[must_use]
pub fn accepted_coding(request: &RequestHead, codings: &[Coding]) -> Option<Coding> {
    if is_bad_agent(request) {
        return None;
    }
    let rank = |coding: Coding| codings.iter().position(|known| *known == coding);
    let by_configuration = codings.iter().any(|coding| !coding.is_classic());
    let mut best: Option<(Coding, u32)> = None;
    for element in request.headers.all_known(HeaderId::AcceptEncoding).flat_map(elements) {
        let end = TOKEN.first_outside(element).unwrap_or(element.len());
        let (token, parameters) = element.split_at_checked(end).unwrap_or_default();
        let quality = quality(parameters);
        let is_any = element.first() == Some(&b'*');
        let found = if is_any && by_configuration {
            codings.first()
        } else {
            codings.iter().rev().find(|coding| is_any || token.eq_ignore_ascii_case(coding.token().as_bytes()))
        };
        let Some(found) = found.copied().filter(|_| quality > 0) else { continue };
        let is_better = best.is_none_or(|(coding, known)| {
            quality > known || by_configuration && quality == known && rank(found) < rank(coding)
        });
        if is_better {
            best = Some((found, quality));
        }
    }
    // Without any it may still be passed through the machinery as it is.
    let identity = || codings.contains(&Coding::Identity).then_some(Coding::Identity);
    best.map(|(coding, _)| coding).or_else(identity)
}

/// Browsers of the days of Mozilla/4 say that they understand gzip and do not, except Internet Explorer 6 from Windows XP's
/// second service pack on and those after it. HAProxy knows them by these places in the name.
fn is_bad_agent(request: &RequestHead) -> bool {
    let Some(agent) = request.headers.first_known(HeaderId::UserAgent) else { return false };
    if !agent.starts_with(b"Mozilla/4") {
        return false;
    }
    let version = match agent.get(25..).and_then(|rest| rest.strip_prefix(b"MSIE ")).and_then(<[u8]>::first) {
        Some(version) => *version,
        None => return true,
    };
    version < b'6' || version == b'6' && !agent.get(51..).is_some_and(|rest| rest.starts_with(b"SV1"))
}

/// The first `q` of the parameters of a list's element in thousandths: of `;q=0.5`, or of what stands behind the word in `gzip;q=0.5`. 1000
/// without any.
#[must_use]
pub fn quality(parameters: &[u8]) -> u32 {
    let value = parameters.split(|byte| *byte == b';').skip(1).find_map(|parameter| {
        let start = parameter.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
        parameter.get(start..)?.strip_prefix(b"q=")
    });
    let Some(value) = value else { return 1_000 };
    let digit = |at: usize| value.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| u32::from(byte - b'0'));
    let Some(whole) = digit(0) else { return 1_000 };
    let mut sum = whole * 1_000;
    if value.get(1) == Some(&b'.') {
        for (at, weight) in [(2, 100), (3, 10), (4, 1)] {
            match digit(at) {
                Some(digit) => sum += digit * weight,
                None => break,
            }
        }
    }
    sum.min(1_000)
}

/// Whether a response may be compressed, `types` being prefixes of the content types that are to be; none are all.
///
/// # Errors
/// The reason why not.
pub fn may_compress(
    request: &RequestHead,
    request_version: Version,
    response: &ResponseHead,
    body: BodyLength,
    types: &[Box<[u8]>],
) -> Result<(), Uncompressed> {
    let headers = &response.headers;
    if request_version != Version::Http11 || response.version() != Version::Http11 {
        return Err(Uncompressed::Version);
    }
    if !matches!(response.status(), 200..=203) {
        return Err(Uncompressed::Status);
    }
    if request.method_kind() == Method::Head || body.is_empty() || body == BodyLength::UntilClose {
        return Err(Uncompressed::Body);
    }
    if headers.contains_known(HeaderId::ContentEncoding) {
        return Err(Uncompressed::Encoded);
    }
    let mut directives = headers.all_known(HeaderId::CacheControl).flat_map(elements);
    if directives.any(|directive| directive.eq_ignore_ascii_case(b"no-transform")) {
        return Err(Uncompressed::NoTransform);
    }
    let mut tags = headers.all_known(HeaderId::ETag);
    if tags.next().is_some_and(|tag| !is_etag(tag)) || tags.next().is_some() {
        return Err(Uncompressed::Etag);
    }
    match headers.first_known(HeaderId::ContentType) {
        Some(content_type) => {
            let begins_with = |prefix: &[u8]| {
                content_type.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
            };
            let is_listed = types.is_empty() || types.iter().any(|prefix| begins_with(prefix));
            if !is_listed || begins_with(b"multipart") {
                return Err(Uncompressed::Type);
            }
        }
        None if !types.is_empty() => return Err(Uncompressed::Type),
        None => {}
    }
    Ok(())
}

/// As strict as HAProxy: what is within the quotes does not matter.
fn is_etag(tag: &[u8]) -> bool {
    let opaque = tag.strip_prefix(b"W/").unwrap_or(tag);
    tag.len() >= 2 && opaque.starts_with(b"\"") && tag.ends_with(b"\"")
}

/// Makes the head of a response that of its compressed form, whose length is not known: chunks, a weak tag, `Vary`.
pub fn mark_compressed(response: &mut ResponseHead, coding: Coding) {
    let headers = &mut response.headers;
    headers.remove_known(HeaderId::ContentLength);
    if !headers.contains_known(HeaderId::TransferEncoding) {
        headers.add(b"transfer-encoding", b"chunked");
    }
    // The bytes differ from those of the server, so the tag says no more than that the meaning is the same.
    let strong = headers.iter_known().position(|(id, _, value)| id == HeaderId::ETag && value.starts_with(b"\""));
    if let Some(index) = strong {
        let weak = [&b"W/"[..], headers.at(index).map_or(&b""[..], |(_, tag)| tag)].concat();
        headers.set_value_at(index, &weak);
    }
    headers.add(b"vary", b"Accept-Encoding");
    if coding != Coding::Identity {
        headers.add(b"content-encoding", coding.token().as_bytes());
    }
}

#[cfg(test)]
mod tests;
