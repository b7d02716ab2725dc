//! Request targets: the four forms of RFC 9112 section 3.2, taken apart without copying.

use memchr::memchr;

use crate::method::Method;

/// The form of a request target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    Origin,
    /// `scheme://authority/path?query`
    Absolute,
    /// `host:port`, of CONNECT
    Authority,
    /// `*`, of OPTIONS
    Asterisk,
    /// None of these; passes only where invalid requests are accepted.
    Unknown,
}

/// A request target taken apart. Parts that it does not have are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Which form it has.
    pub form: TargetForm,
    /// `http` of `http://host/path`.
    pub scheme: &'a [u8],
    /// `host:port`, with user information if that was given.
    pub authority: &'a [u8],
    /// Path without query; empty when an absolute target has none.
    pub path: &'a [u8],
    /// What follows the question mark; None without one.
    pub query: Option<&'a [u8]>,
}

impl<'a> Target<'a> {
    /// Takes `target` apart as the target of a request with this method.
    #[must_use]
    pub fn split(method: Method, target: &'a [u8]) -> Target<'a> {
        let empty: &[u8] = &[];
        let with_form = |form| Target { form, scheme: empty, authority: empty, path: empty, query: None };
        // The last two forms have no query but where a rule has given them one.
        if method == Method::Connect {
            let (authority, query) = split_query(target);
            return Target { authority, query, ..with_form(TargetForm::Authority) };
        }
        if target.first() == Some(&b'/') {
            let (path, query) = split_query(target);
            return Target { path, query, ..with_form(TargetForm::Origin) };
        }
        if target == b"*" || target.starts_with(b"*?") {
            return Target { query: split_query(target).1, ..with_form(TargetForm::Asterisk) };
        }
        if let Some((scheme, rest)) = split_scheme(target) {
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
            let (authority, rest) = rest.split_at(end);
            let (path, query) = split_query(rest);
            return Target { form: TargetForm::Absolute, scheme, authority, path, query };
        }
        let (path, query) = split_query(target);
        Target { path, query, ..with_form(TargetForm::Unknown) }
    }

    /// The authority without user information.
    #[must_use]
    pub fn host_and_port(&self) -> &'a [u8] {
        let start = memchr::memrchr(b'@', self.authority).map_or(0, |at| at + 1);
        self.authority.get(start..).unwrap_or_default()
    }
}

fn split_query(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr(b'?', bytes).and_then(|at| bytes.split_at_checked(at)) {
        Some((path, query)) => (path, query.get(1..)),
        None => (bytes, None),
    }
}

/// Scheme and what follows `://` (RFC 3986 section 3.1).
fn split_scheme(target: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr(b':', target)?;
    let (scheme, rest) = target.split_at_checked(colon)?;
    let rest = rest.strip_prefix(b"://")?;
    let valid = scheme.first()?.is_ascii_alphabetic()
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    valid.then_some((scheme, rest))
}

/// Whether the Host value names the authority of a target, a default port counting as none.
///
/// RFC 9112 section 3.2.2 has a proxy replace a Host that differs; a proxy that refuses instead cannot disagree with
/// whoever reads the other one.
#[must_use]
pub fn host_matches(form: TargetForm, scheme: &[u8], authority: &[u8], host: &[u8]) -> bool {
    if host.eq_ignore_ascii_case(authority) {
        return true;
    }
    let default_ports: &[&[u8]] = match form {
        TargetForm::Authority => &[b":80", b":443"],
        _ if scheme.eq_ignore_ascii_case(b"http") => &[b":80"],
        _ if scheme.eq_ignore_ascii_case(b"https") => &[b":443"],
        _ => &[],
    };
    default_ports.iter().any(|port| without_suffix(authority, port).eq_ignore_ascii_case(without_suffix(host, port)))
}

fn without_suffix<'a>(bytes: &'a [u8], suffix: &[u8]) -> &'a [u8] {
    bytes.strip_suffix(suffix).unwrap_or(bytes)
}

#[cfg(test)]
mod tests;
