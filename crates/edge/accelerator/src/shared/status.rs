//! What a response says of the caches that it came through: `Via` (RFC 9110 section 7.6.3), `Cache-Status` (RFC 9211), `Age`.

use http::{HeaderId, Headers, Version};

/// Why a request was sent on (RFC 9211 section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forward {
    /// The method is not one that is answered from what is stored.
    Method,
    /// What was asked for is none of a cache's business.
    Bypass,
    /// There is nothing.
    Miss,
    /// The client wanted it fresher.
    Request,
    /// What there is is stale.
    Stale,
    /// A part was asked for, and there is nothing.
    Partial,
}

impl Forward {
    const fn word(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Bypass => "bypass",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// What a cache did for one request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handled {
    /// It answered.
    Hit {
        /// Seconds that the answer is still fresh; negative for a stale one.
        ttl: i64,
        /// What is worth telling.
        detail: Option<&'static str>,
        /// Whether the answer came while this request waited.
        collapsed: bool,
    },
    /// It asked the origin.
    Forwarded {
        /// Why.
        why: Forward,
        /// The origin's status, where it is not the client's.
        status: Option<u16>,
        /// Whether the answer was stored.
        stored: bool,
        /// Why not, if it was not.
        detail: Option<&'static str>,
    },
}

/// Adds what a cache of this name did.
pub(super) fn tell(headers: &mut Headers, name: &str, handled: Handled) {
    let mut line = match name.bytes().all(is_token) {
        true => name.to_owned(),
        false => format!("\"{name}\""),
    };
    match handled {
        Handled::Hit { ttl, detail, collapsed } => {
            line.push_str(&format!("; hit; ttl={ttl}"));
            if collapsed {
                line.push_str("; collapsed");
            }
            line.push_str(&words(detail));
        }
        Handled::Forwarded { why, status, stored, detail } => {
            line.push_str("; fwd=");
            line.push_str(why.word());
            if let Some(status) = status {
                line.push_str(&format!("; fwd-status={status}"));
            }
            if stored {
                line.push_str("; stored");
            }
            line.push_str(&words(detail));
        }
    }
    append(headers, b"Cache-Status", line.as_bytes());
}

fn words(detail: Option<&str>) -> String {
    detail.map(|detail| format!("; detail=\"{detail}\"")).unwrap_or_default()
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

/// Adds this cache to those that a message has come through.
pub(super) fn via(headers: &mut Headers, version: Version, name: &str) {
    let number = if version == Version::Http10 { "1.0" } else { "1.1" };
    append(headers, b"Via", format!("{number} {name}").as_bytes());
}

/// How old a response is (RFC 9111 section 5.1).
pub(super) fn age(headers: &mut Headers, seconds: u64) {
    headers.remove_known(HeaderId::Age);
    headers.add_number(HeaderId::Age, seconds);
}

/// Puts an element behind the list that there is.
fn append(headers: &mut Headers, name: &[u8], element: &[u8]) {
    let before = headers.all(name).collect::<Vec<_>>().join(&b", "[..]);
    if before.is_empty() {
        headers.set(name, element);
    } else {
        headers.set(name, &[&before, &b", "[..], element].concat());
    }
}
