//! Which fields go, and how.

use http::HeaderId;

/// What may become of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// It may go into the table, which it does if it repeats.
    Index,
    /// It is sent as it is.
    Plain,
    /// It is sent as it is, and must not go into a table further on either: passwords, short cookies (RFC 7541 section 7.1.3).
    Never,
}

/// Whether a field is about an HTTP/1 connection: framed messages have none of these (RFC 9113 section 8.2.2, RFC 9114 section 4.2).
#[must_use]
#[inline]
pub fn is_about_connection(id: HeaderId) -> bool {
    matches!(
        id,
        HeaderId::Connection
            | HeaderId::KeepAlive
            | HeaderId::ProxyConnection
            | HeaderId::TransferEncoding
            | HeaderId::Upgrade
            | HeaderId::Http2Settings
    )
}

/// A name in lower case, in `memory` if it was not.
#[must_use]
#[inline]
pub fn lowered<'n>(name: &'n [u8], memory: &'n mut Vec<u8>) -> &'n [u8] {
    if !name.iter().any(u8::is_ascii_uppercase) {
        return name;
    }
    memory.clear();
    memory.extend(name.iter().map(u8::to_ascii_lowercase));
    memory
}

/// The fields of trailers that stand as lines of HTTP/1, without the empty one.
pub fn trailer_fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        Some((name, value.get(1..).unwrap_or_default().trim_ascii()))
    })
}
