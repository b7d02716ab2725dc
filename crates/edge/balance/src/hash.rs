//! The hash functions of `hash-type`, and the hashing of each kind of key.
//!
//! Everything here is pure and independent of the farm's state, so the edge hashes before it takes the farm's lock.

use std::net::IpAddr;

use crate::config::{HashConfig, HashFunction, UriOptions};

/// Hashes keys as one backend's `hash-type` line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hasher {
    function: HashFunction,
    avalanche: bool,
}

impl Hasher {
    /// The hasher of a `hash-type` line.
    pub fn new(config: HashConfig) -> Self {
        Self { function: config.function, avalanche: config.avalanche }
    }

    /// Hash of plain bytes: `balance rdp-cookie` and `balance hash`.
    pub fn bytes(&self, key: &[u8]) -> u32 {
        self.finish(hash_bytes(self.function, key))
    }

    /// Key of `balance source`. The hash function plays no part in it, the avalanche does.
    pub fn source(&self, address: IpAddr) -> u32 {
        let folded = match address {
            IpAddr::V4(address) => u32::from(address),
            IpAddr::V6(address) => {
                let bits = u128::from(address);
                (bits ^ (bits >> 32) ^ (bits >> 64) ^ (bits >> 96)) as u32
            }
        };
        self.finish(folded)
    }

    /// Key of `balance uri`, from the URI of the request line as the client sent it.
    pub fn uri(&self, uri: &[u8], options: &UriOptions) -> u32 {
        self.bytes(uri_part(uri, options))
    }

    /// Key of `balance url_param`, from the URI of the request line; `None` when the parameter is not there.
    pub fn url_param(&self, uri: &[u8], name: &[u8]) -> Option<u32> {
        url_param(uri, name).map(|value| self.bytes(value))
    }

    /// Key of `balance url_param` from the body of a POST, of which `body` is the contiguous start that was received.
    pub fn body_param(&self, body: &[u8], name: &[u8]) -> Option<u32> {
        body_param(body, name).map(|value| self.bytes(value))
    }

    /// Key of `balance hdr`, from the first value of the header; `None` when it is empty.
    pub fn header(&self, value: &[u8], use_domain_only: bool) -> Option<u32> {
        if value.is_empty() {
            None
        } else if use_domain_only {
            Some(self.bytes(domain_part(value)))
        } else {
            Some(self.bytes(value))
        }
    }

    fn finish(&self, hash: u32) -> u32 {
        if self.avalanche { full_hash(hash) } else { hash }
    }
}

/// The bytes of a URI that `balance uri` hashes.
pub fn uri_part<'a>(uri: &'a [u8], options: &UriOptions) -> &'a [u8] {
    let mut part = if options.path_only { path_of(uri) } else { uri };
    if let Some(len) = options.len {
        part = part.get(..len as usize).unwrap_or(part);
    }
    let mut slashes = 0;
    let end = part.iter().position(|&byte| match byte {
        b'/' => {
            slashes += 1;
            options.depth.is_some_and(|depth| slashes == depth.saturating_add(1))
        }
        b'?' => !options.whole,
        _ => false,
    });
    end.and_then(|end| part.get(..end)).unwrap_or(part)
}

/// The path and query of a URI in absolute or origin form; empty when it has neither (`*`, or an authority).
fn path_of(uri: &[u8]) -> &[u8] {
    if uri.first() == Some(&b'/') {
        return uri;
    }
    let Some(colon) = uri.iter().position(|&byte| byte == b':') else { return b"" };
    let is_scheme = uri.first().is_some_and(u8::is_ascii_alphabetic)
        && uri.get(..colon).is_some_and(|scheme| {
            scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        });
    let after = uri.get(colon..).and_then(|rest| rest.strip_prefix(b"://"));
    let Some(rest) = after.filter(|_| is_scheme) else { return b"" };
    rest.iter().position(|&byte| byte == b'/').and_then(|slash| rest.get(slash..)).unwrap_or(b"")
}

/// The value of a parameter in the query string of a URI.
pub fn url_param<'a>(uri: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mark = uri.iter().position(|&byte| byte == b'?')?;
    let query = uri.get(mark + 1..)?;
    param(query, name).map(|value| match value.iter().position(|&byte| byte == b'&') {
        Some(end) => value.get(..end).unwrap_or(value),
        None => value,
    })
}

/// The value of a parameter in a form body; `None` as well when the value starts with a byte that no encoded form has.
pub fn body_param<'a>(body: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = param(body, name)?;
    match value.first() {
        None | Some(b'&') => return Some(b""),
        // NOTE: like HAProxy, only the first byte of the value is looked at.
        Some(b' ' | b'\t' | b'\r' | b'\n') => return Some(b""),
        Some(&byte) if !is_token(byte) => return None,
        Some(_) => {}
    }
    match value.iter().position(|&byte| byte == b'&') {
        Some(end) => value.get(..end),
        None => Some(value),
    }
}

/// What follows `name=` where a parameter of that name starts.
fn param<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = query;
    loop {
        if let Some(value) = rest.strip_prefix(name).and_then(|after| after.strip_prefix(b"=")) {
            return Some(value);
        }
        let next = rest.iter().position(|&byte| byte == b'&')?;
        rest = rest.get(next + 1..)?;
    }
}

/// The part of a host name that `use_domain_only` keeps: the label before the last dot, or all of it without a dot.
///
/// NOTE: like HAProxy, a dot at the very start does not count as the last one, nor one right before the last one.
pub fn domain_part(host: &[u8]) -> &[u8] {
    let Some(end) = host.iter().rposition(|&byte| byte == b'.').filter(|&end| end > 0) else { return host };
    let before = host.get(..end).unwrap_or(host);
    let start = host.get(..end - 1).and_then(|label| label.iter().rposition(|&byte| byte == b'.'));
    start.and_then(|dot| before.get(dot + 1..)).unwrap_or(before)
}

/// Whether the byte is one of HTTP's token characters (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The plain hash of some bytes, without avalanche.
pub fn hash_bytes(function: HashFunction, key: &[u8]) -> u32 {
    match function {
        HashFunction::Sdbm => sdbm(key),
        HashFunction::Djb2 => djb2(key),
        HashFunction::Wt6 => wt6(key),
        HashFunction::Crc32 => crc32(key),
        HashFunction::None => number(key),
    }
}

fn sdbm(key: &[u8]) -> u32 {
    key.iter()
        .fold(0u32, |hash, &byte| u32::from(byte).wrapping_add(hash << 6).wrapping_add(hash << 16).wrapping_sub(hash))
}

fn djb2(key: &[u8]) -> u32 {
    key.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
}

fn wt6(key: &[u8]) -> u32 {
    let mut low = 0xa53c_965a_u32;
    let mut high = 0x5ca6_953a_u32;
    let mut step_low = 6;
    let mut step_high = 18;
    for &byte in key {
        let byte = u32::from(byte);
        low = !(low ^ byte);
        high = !high.wrapping_add(byte);
        let turned = high.rotate_left(step_low);
        high = low.rotate_left(step_high);
        low = turned;
        let steps = ((low >> 16) ^ high) & 0xffff;
        step_low = steps & 0x1f;
        step_high = steps >> 11;
    }
    low ^ high
}

fn crc32(key: &[u8]) -> u32 {
    !key.iter().fold(u32::MAX, |hash, &byte| {
        (0..8).fold(hash ^ u32::from(byte), |hash, _| (hash >> 1) ^ (0xedb8_8320 & (hash & 1).wrapping_neg()))
    })
}

/// The decimal number at the start of the key, modulo 2^32.
fn number(key: &[u8]) -> u32 {
    let (negative, digits) = match key.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, key),
    };
    let value = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0u32, |value, &byte| value.wrapping_mul(10).wrapping_add(u32::from(byte - b'0')));
    if negative { value.wrapping_neg() } else { value }
}

/// Mixes a hash so that each of its bits depends on all others (Bob Jenkins' integer hash).
pub fn full_hash(hash: u32) -> u32 {
    let mut mixed = hash.wrapping_add(0x7ed5_5d16).wrapping_add(hash << 12);
    mixed = (mixed ^ 0xc761_c23c) ^ (mixed >> 19);
    mixed = mixed.wrapping_add(0x1656_67b1).wrapping_add(mixed << 5);
    mixed = mixed.wrapping_add(0xd3a2_646c) ^ (mixed << 9);
    mixed = mixed.wrapping_add(0xfd70_46c5).wrapping_add(mixed << 3);
    mixed = (mixed ^ 0xb55a_4f09) ^ (mixed >> 16);
    // A large number near 3/4 of the range spreads neighbouring values over a ring.
    mixed.wrapping_mul(3_221_225_473)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_give_known_values() {
        let data: &[(HashFunction, &[u8], u32)] = &[
            (HashFunction::Crc32, b"", 0),
            (HashFunction::Crc32, b"123456789", 0xcbf4_3926),
            (HashFunction::Djb2, b"", 5381),
            (HashFunction::Djb2, b"a", 177_670),
            (HashFunction::Sdbm, b"", 0),
            (HashFunction::Sdbm, b"a", 97),
            (HashFunction::Sdbm, b"ab", 97 * 65_599 + 98),
            (HashFunction::Wt6, b"", 0xa53c_965a ^ 0x5ca6_953a),
            (HashFunction::None, b"1234x", 1234),
            (HashFunction::None, b"-1", u32::MAX),
            (HashFunction::None, b"x", 0),
        ];
        for (function, key, expected) in data {
            assert_eq!(hash_bytes(*function, key), *expected, "{function:?} {key:?}");
        }
    }

    #[test]
    fn addresses_fold_into_words() {
        let hasher = Hasher::default();
        assert_eq!(hasher.source("1.2.3.4".parse().unwrap()), 0x0102_0304);
        assert_eq!(
            hasher.source("1:2:3:4:5:6:7:8".parse().unwrap()),
            0x0001_0002 ^ 0x0003_0004 ^ 0x0005_0006 ^ 0x0007_0008
        );
        let avalanche = Hasher::new(HashConfig { avalanche: true, ..HashConfig::default() });
        assert_eq!(avalanche.source("1.2.3.4".parse().unwrap()), full_hash(0x0102_0304));
    }

    #[test]
    fn uris_are_cut_as_told() {
        let none = UriOptions::default();
        let whole = UriOptions { whole: true, ..none };
        let path_only = UriOptions { path_only: true, ..none };
        let depth = |depth| UriOptions { depth: Some(depth), ..none };
        let len = |len| UriOptions { len: Some(len), ..none };
        let data: &[(&str, UriOptions, &str)] = &[
            ("/a/b?c", none, "/a/b"),
            ("/a/b?c", whole, "/a/b?c"),
            ("/a/b/c/d", depth(1), "/a"),
            ("/a/b/c/d", depth(2), "/a/b"),
            ("/a", depth(2), "/a"),
            ("/a/b", depth(u32::MAX), "/a/b"),
            ("/abcdef", len(3), "/ab"),
            ("/a", len(3), "/a"),
            ("http://h/a?b", none, "http://h/a"),
            ("http://h/a?b", path_only, "/a"),
            ("http://h", path_only, ""),
            ("h:80", path_only, ""),
            ("*", path_only, ""),
            ("1http://h/a", path_only, ""),
            ("", none, ""),
        ];
        for (uri, options, expected) in data {
            assert_eq!(uri_part(uri.as_bytes(), options), expected.as_bytes(), "{uri} {options:?}");
        }
    }

    #[test]
    fn parameters_are_found() {
        let data: &[(&str, Option<&str>)] = &[
            ("/?id=7", Some("7")),
            ("/?a=1&id=7&b=2", Some("7")),
            ("/?id=&b", Some("")),
            ("/?xid=1", None),
            ("/?id", None),
            ("/id=1", None),
            ("/?a?id=1", None),
            ("/?a=b&&id=3", Some("3")),
        ];
        for (uri, expected) in data {
            assert_eq!(url_param(uri.as_bytes(), b"id"), expected.map(str::as_bytes), "{uri}");
        }
        let data: &[(&str, Option<&str>)] = &[
            ("id=7", Some("7")),
            ("a=1&id=7&b=2", Some("7")),
            ("id=", Some("")),
            ("id= x", Some("")),
            ("id=(x", None),
            ("a=b", None),
        ];
        for (body, expected) in data {
            assert_eq!(body_param(body.as_bytes(), b"id"), expected.map(str::as_bytes), "{body}");
        }
    }

    #[test]
    fn domains_lose_host_and_top() {
        let data = [
            ("www.example.com", "example"),
            ("example.com", "example"),
            ("example", "example"),
            ("a.b.c.d:80", "c"),
            (".a", ".a"),
            ("a.", "a"),
            ("a..b", "a."),
            ("", ""),
        ];
        for (host, expected) in data {
            assert_eq!(domain_part(host.as_bytes()), expected.as_bytes(), "{host}");
        }
    }
}
