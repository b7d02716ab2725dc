//! Hosts and ports, as they stand in Host and in request targets (RFC 3986 section 3.2, without user information).

use crate::bytes::HOST;

/// Checks an authority whose first byte that may not stand in a host name is at `odd`. Err: where the byte is that is wrong.
///
/// HAProxy looks at the bytes alone. Those who read `[::1`, `a:b` or `a:99999` make different hosts and ports of them, so a
/// rule here and a server behind might not see the same one.
#[cold]
pub(crate) fn check(authority: &[u8], odd: usize) -> Result<(), usize> {
    let port_at = match authority.split_first() {
        Some((b'[', rest)) => 1 + address_end(rest).map_err(|at| at + 1)?,
        _ => odd,
    };
    match authority.get(port_at..) {
        None | Some([]) => Ok(()),
        Some([b':', port @ ..]) => check_port(port).map_err(|at| port_at + 1 + at),
        Some(_) => Err(port_at),
    }
}

/// Whether an authority names a host, with a port or without.
pub(crate) fn names_host(authority: &[u8]) -> bool {
    !authority.is_empty()
        && !authority.starts_with(b":")
        && HOST.first_outside(authority).is_none_or(|odd| check(authority, odd).is_ok())
}

/// Where the address in brackets ends, behind the second bracket: that of IPv6, with or without a zone, or a later one.
fn address_end(bytes: &[u8]) -> Result<usize, usize> {
    match bytes.iter().position(|byte| !HOST.has(*byte) && *byte != b':') {
        Some(at) if at > 0 && bytes.get(at) == Some(&b']') => Ok(at + 1),
        Some(at) => Err(at),
        None => Err(bytes.len()),
    }
}

/// Whether the digits are a port (RFC 3986 section 3.2.3 allows none at all).
fn check_port(digits: &[u8]) -> Result<(), usize> {
    let mut port = 0u32;
    for (at, digit) in digits.iter().enumerate() {
        port = if digit.is_ascii_digit() { port * 10 + u32::from(digit - b'0') } else { return Err(at) };
        if port > u32::from(u16::MAX) {
            return Err(at);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::names_host;

    #[test]
    fn tells_hosts_with_and_without_ports() {
        for right in [
            "a",
            "a.b",
            "A-1_x.",
            "127.0.0.1",
            "256.1.1.1",
            "a:80",
            "a:",
            "a:0",
            "a:00080",
            "a:65535",
            "[::1]",
            "[::1]:80",
            "[::1]:",
            "[fe80::1%25eth0]",
            "[v1.a]",
            "a%20",
            "..",
            "!$&'()*+;=",
        ] {
            assert!(names_host(right.as_bytes()), "{right}");
        }
        for wrong in [
            "",
            ":",
            ":80",
            "[",
            "]",
            "[]",
            "[::1",
            "::1",
            "a]",
            "a[",
            "[a",
            "[[::1]]",
            "[::1]x",
            "[::1]]",
            "x[::1]",
            "[::1]:x",
            "[::1]:65536",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:99999",
            "a:8080808080808080808080",
            "a:+80",
            "a:-1",
            "a:0x50",
            "a:8 0",
            "a b",
            "a,b",
            "a/b",
            "a?b",
            "a#b",
            "a@b",
            "u:p@a:80",
            "a\\b",
            "a\"",
            "<a>",
            "{a}",
            "\u{e4}",
        ] {
            assert!(!names_host(wrong.as_bytes()), "{wrong}");
        }
    }
}
