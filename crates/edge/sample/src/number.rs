//! Numbers and addresses in text, read the way HAProxy reads them.

use basics::hex;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads an optional sign and as many digits as there are; the value (cut to what 64 bits hold) and the bytes used.
///
/// Text without digits is zero: a header that should hold a number and does not compares as zero.
pub(crate) fn read_int64(text: &[u8]) -> (i64, usize) {
    let (negative, mut used) = match text.first() {
        Some(b'-') => (true, 1),
        Some(b'+') => (false, 1),
        _ => (false, 0),
    };
    let mut value: u64 = 0;
    for byte in text.iter().skip(used) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.saturating_mul(10).saturating_add(u64::from(digit));
        used += 1;
    }
    let value = if negative {
        i64::try_from(-i128::from(value)).unwrap_or(i64::MIN)
    } else {
        i64::try_from(value).unwrap_or(i64::MAX)
    };
    (value, used)
}

/// Reads a whole text as an integer: an optional minus and digits only, without overflow.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some(_) => (false, text),
        None => return None,
    };
    let mut value: i64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        let digit = i64::from(digit);
        value = value.checked_mul(10)?;
        value = if negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(value)
}

/// Reads numbers with dots between them; between two dots is zero.
pub(crate) fn parse_dotted_list(text: &[u8]) -> Option<Box<[u32]>> {
    if text.last() == Some(&b'.') {
        return None;
    }
    text.split(|byte| *byte == b'.')
        .map(|part| {
            part.iter().try_fold(0u32, |value, byte| {
                let digit = byte.wrapping_sub(b'0');
                (digit <= 9).then(|| value.wrapping_mul(10).wrapping_add(u32::from(digit)))
            })
        })
        .collect()
}

/// Reads a number of two 16-bit parts (`1.1`, or `1` for `1.0`) as one 32-bit quantity, major part high.
pub(crate) fn parse_dotted(text: &[u8]) -> Option<i64> {
    let (major, minor) = match text.iter().position(|byte| *byte == b'.') {
        Some(dot) => (text.get(..dot)?, parse_integer(text.get(dot + 1..)?)?),
        None => (text, 0),
    };
    let major = parse_integer(major)?;
    if !(0..65536).contains(&major) || !(0..65536).contains(&minor) {
        return None;
    }
    Some(major << 16 | minor)
}

/// Reads an IPv4 address at the start of `text`; what follows it is not looked at (`10.0.0.1:80`).
pub(crate) fn leading_ipv4(text: &[u8]) -> Option<(Ipv4Addr, usize)> {
    let mut octets = [0u8; 4];
    let mut count = 0usize;
    let mut in_octet = false;
    let mut used = text.len();
    for (position, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if !in_octet {
                    count += 1;
                    in_octet = true;
                }
                let octet = octets.get_mut(count.checked_sub(1)?)?;
                *octet = octet.checked_mul(10)?.checked_add(byte - b'0')?;
            }
            b'.' if in_octet && count < 4 => in_octet = false,
            b'.' => return None,
            _ => {
                used = position;
                break;
            }
        }
    }
    (count == 4).then(|| (Ipv4Addr::from(octets), used))
}

/// Reads an IPv6 address that is the whole text.
pub(crate) fn parse_ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads an address of either family.
pub(crate) fn parse_address(text: &[u8]) -> Option<IpAddr> {
    match leading_ipv4(text) {
        Some((address, _)) => Some(IpAddr::V4(address)),
        None => parse_ipv6(text).map(IpAddr::V6),
    }
}

/// The IPv4 address that the low 32 bits of an integer are.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low 32 bits are what is wanted")]
pub(crate) fn low_address(value: i64) -> Ipv4Addr {
    Ipv4Addr::from(value as u32)
}

/// The IPv4 address inside an IPv4-mapped IPv6 address.
pub(crate) fn mapped_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    address.to_ipv4_mapped()
}

/// An IPv6 address as `inet_ntop` writes it: unlike the standard library, it also dots IPv4-compatible addresses.
pub(crate) fn ipv6_text(address: Ipv6Addr) -> String {
    let segments = address.segments();
    if segments.iter().take(6).all(|segment| *segment == 0) && segments.get(6).is_some_and(|segment| *segment != 0) {
        let [.., a, b, c, d] = address.octets();
        return format!("::{}", Ipv4Addr::new(a, b, c, d));
    }
    address.to_string()
}

/// Reads an IPv4 mask: dotted, or a number of bits.
pub(crate) fn parse_mask4(text: &[u8]) -> Option<u32> {
    if text.contains(&b'.') {
        let address: Ipv4Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
        return Some(u32::from(address));
    }
    let bits = parse_bits(text, 32)?;
    Some(u32::MAX.checked_shl(32 - bits).unwrap_or(0))
}

/// Reads an IPv6 mask: in colon form, or a number of bits.
pub(crate) fn parse_mask6(text: &[u8]) -> Option<u128> {
    if text.contains(&b':') {
        return parse_ipv6(text).map(u128::from);
    }
    let bits = parse_bits(text, 128)?;
    Some(u128::MAX.checked_shl(128 - bits).unwrap_or(0))
}

/// Reads a number of bits of at most `most`.
pub(crate) fn parse_bits(text: &[u8], most: u32) -> Option<u32> {
    let value = u32::try_from(parse_integer(text)?).ok()?;
    (value <= most).then_some(value)
}

/// Reads pairs of hexadecimal digits, or says which message HAProxy has for what is wrong.
///
/// # Errors
///
/// A digit is missing, or is none: a message as HAProxy has it.
pub fn parse_hexadecimal(text: &[u8]) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err("an even number of hex digit is expected".to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for byte in text {
        let Some(digit) = hex::value(*byte) else {
            return Err(format!("an hex digit is expected (found '{}')", char::from(*byte)));
        };
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    Ok(bytes)
}

/// Appends an integer in decimal, with zeros before it up to `width` digits.
pub(crate) fn push_decimal(value: i64, width: usize, output: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    while rest > 0 || digits.len() - start < width.max(1) {
        let Some(digit) = start.checked_sub(1).and_then(|at| digits.get_mut(at)) else { break };
        let [last, ..] = (rest % 10).to_le_bytes();
        *digit = b'0' + last;
        rest /= 10;
        start -= 1;
    }
    if value < 0 {
        output.push(b'-');
    }
    output.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// Appends an IPv4 address.
pub(crate) fn push_ipv4(address: Ipv4Addr, output: &mut Vec<u8>) {
    for (position, octet) in address.octets().into_iter().enumerate() {
        if position > 0 {
            output.push(b'.');
        }
        push_decimal(i64::from(octet), 1, output);
    }
}
