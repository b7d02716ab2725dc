//! What a request that changes something makes invalid (RFC 9111 section 4.4).

use http::{Headers, Method};

/// Whether a method changes nothing (RFC 9110 section 9.2.1). What is not known may change anything.
#[must_use]
pub const fn is_safe(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head | Method::Options | Method::Trace)
}

/// Whether an answer of this status makes stored responses invalid.
#[must_use]
pub const fn is_success(status: u16) -> bool {
    matches!(status, 200..=399)
}

/// The paths besides its own that a successful request with an unsafe method makes invalid: those that `Location` and
/// `Content-Location` name on the same host.
#[must_use]
pub fn also_invalid(response: &Headers, host: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    let named = [&b"location"[..], b"content-location"].into_iter().filter_map(|name| response.first(name));
    named.filter_map(|reference| on_same_host(reference, host, path)).collect()
}

/// The path and query of a reference, if it is of the same host (RFC 3986 section 5.2, as far as it matters to a cache).
fn on_same_host(reference: &[u8], host: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let reference = reference.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
    let rest = [&b"http://"[..], b"https://"]
        .into_iter()
        .find_map(|scheme| {
            let front = reference.get(..scheme.len())?;
            front.eq_ignore_ascii_case(scheme).then(|| reference.get(scheme.len()..)).flatten()
        })
        .or_else(|| reference.strip_prefix(b"//"));
    if let Some(rest) = rest {
        let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
        let (authority, path) = (rest.get(..end)?, rest.get(end..)?);
        if !authority.eq_ignore_ascii_case(host) {
            return None;
        }
        return Some(if path.starts_with(b"/") { path.to_vec() } else { [b"/", path].concat() });
    }
    if reference.is_empty() {
        return None;
    }
    if reference.starts_with(b"/") {
        return Some(without_dots(reference));
    }
    let path = base.split(|byte| *byte == b'?').next().unwrap_or_default();
    if reference.starts_with(b"?") {
        return Some([path, reference].concat());
    }
    let folder = path.iter().rposition(|byte| *byte == b'/').map_or(&b"/"[..], |at| path.get(..=at).unwrap_or(b"/"));
    Some(without_dots(&[folder, reference].concat()))
}

/// A path without `.` and `..` (RFC 3986 section 5.2.4).
fn without_dots(path: &[u8]) -> Vec<u8> {
    let end = path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
    let (path, query) = path.split_at_checked(end).unwrap_or((path, &[]));
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut parts = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(part) = parts.next() {
        match part {
            b"." | b".." => {
                if part == b".." {
                    kept.pop();
                }
                if parts.peek().is_none() {
                    kept.push(b"");
                }
            }
            part => kept.push(part),
        }
    }
    let mut out = Vec::with_capacity(path.len());
    for part in kept {
        out.push(b'/');
        out.extend_from_slice(part);
    }
    out.extend_from_slice(query);
    out
}
