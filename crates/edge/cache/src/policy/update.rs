//! What a 304, or the answer to a HEAD, changes in a stored response (RFC 9111 sections 3.2, 4.3.4 and 4.3.5).

use http::{HeaderId, Headers, parse_http_date};

use super::conditional::{strongly_equal, weakly_equal};

/// Fields of a 304 that say nothing about the stored response: they are about the connection, or about a body that is not there.
fn stays(name: &[u8]) -> bool {
    const OWN: &[&[u8]] = &[
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"content-encoding",
        b"content-type",
        b"content-range",
        b"content-length",
    ];
    OWN.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Whether a 304 is about this stored response: its validator is the same, or it has none (RFC 9111 section 4.3.4).
#[must_use]
pub fn is_about(not_modified: &Headers, stored: &Headers, now: i64) -> bool {
    let stored_tag = stored.first(b"etag");
    match not_modified.first(b"etag") {
        Some(tag) if !tag.starts_with(b"W/") => stored_tag.is_some_and(|stored| strongly_equal(stored, tag)),
        Some(tag) => stored_tag.is_some_and(|stored| weakly_equal(stored, tag)),
        None => match not_modified.first_known(HeaderId::LastModified) {
            Some(modified) => {
                let stored = stored.first_known(HeaderId::LastModified);
                stored.is_some_and(|stored| parse_http_date(stored, now) == parse_http_date(modified, now))
            }
            None => true,
        },
    }
}

/// Gives a stored response the fields of a 304: each that it has is replaced, those that it has not stay.
pub fn update(stored: &mut Headers, not_modified: &Headers) {
    let changed: Vec<(Vec<u8>, Vec<u8>)> = not_modified
        .iter()
        .filter(|(name, _)| !stays(name))
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    for (name, _) in &changed {
        stored.remove(name);
    }
    // An Age of before says nothing any more.
    stored.remove_known(HeaderId::Age);
    for (name, value) in &changed {
        stored.add(name, value);
    }
}
/// What a response to HEAD says of a stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSays {
    /// It has not changed.
    Same,
    /// It has changed.
    Other,
    /// Nothing: neither response has a validator that the other one has.
    Nothing,
}

/// What a response to HEAD says of a stored one (RFC 9111 section 4.3.5).
///
/// NOTE: by the RFC a response without validators would do for a stored one without. But then whoever sends HEADs keeps a page from ever
/// being fetched again that has changed long ago.
#[must_use]
pub fn head_says(head: &Headers, stored: &Headers) -> HeadSays {
    let mut says = HeadSays::Nothing;
    for (name, is_validator) in [(&b"content-length"[..], false), (b"etag", true), (b"last-modified", true)] {
        match (head.first(name), stored.first(name)) {
            (Some(said), Some(kept)) if said != kept => return HeadSays::Other,
            (Some(_), Some(_)) if is_validator => says = HeadSays::Same,
            _ => {}
        }
    }
    says
}
