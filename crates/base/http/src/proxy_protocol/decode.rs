//! Reading headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Decoded, Proxied, ProxyError, V1_BYTES_MAX, V2_PAYLOAD_BYTES_MAX, V2_SIGNATURE, tlv_type};

const V1_START: &[u8] = b"PROXY ";

/// Bytes of a version 2 header before its addresses.
const V2_FIXED_LEN: usize = 16;

/// Bytes of a unix socket path in version 2.
const UNIX_PATH_LEN: usize = 108;

/// Reads the header, of either version, at the start of all bytes received so far.
///
/// # Errors
/// When the bytes are not, and cannot become, a header.
pub fn decode(input: &[u8]) -> Result<Decoded, ProxyError> {
    if begins(input, V1_START) {
        decode_v1(input)
    } else if begins(input, V2_SIGNATURE) {
        decode_v2(input)
    } else {
        Err(ProxyError::NoHeader)
    }
}

/// Whether `input` begins with `start`, as far as it goes.
fn begins(input: &[u8], start: &[u8]) -> bool {
    input.iter().zip(start).all(|(byte, expected)| byte == expected)
}

fn decode_v1(input: &[u8]) -> Result<Decoded, ProxyError> {
    let window = input.get(..V1_BYTES_MAX).unwrap_or(input);
    let Some(end) = window.iter().position(|byte| !matches!(byte, b' '..=b'~')) else {
        return if window.len() == V1_BYTES_MAX { Err(ProxyError::LineTooLong) } else { Ok(Decoded::Incomplete) };
    };
    match (window.get(end), window.get(end + 1)) {
        (Some(b'\r'), Some(b'\n')) => {}
        (Some(b'\r'), None) if window.len() < V1_BYTES_MAX => return Ok(Decoded::Incomplete),
        (Some(b'\r'), None) => return Err(ProxyError::LineTooLong),
        _ => return Err(ProxyError::InvalidByte),
    }
    let line = window.get(V1_START.len()..end).unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let is_v4 = match words.next() {
        // Whatever follows it is to be ignored.
        Some(b"UNKNOWN") => {
            return Ok(Decoded::Complete { consumed: end + 2, proxied: Proxied::Unknown, tlvs: 0..0 });
        }
        Some(b"TCP4") => true,
        Some(b"TCP6") => false,
        _ => return Err(ProxyError::UnknownProtocol),
    };
    let (Some(source), Some(destination), Some(source_port), Some(destination_port), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(ProxyError::LineShape);
    };
    let proxied = Proxied::Inet {
        source: SocketAddr::new(address(source, is_v4)?, port(source_port)?),
        destination: SocketAddr::new(address(destination, is_v4)?, port(destination_port)?),
    };
    Ok(Decoded::Complete { consumed: end + 2, proxied, tlvs: 0..0 })
}

/// The standard library reads exactly the canonical texts: four decimal numbers without leading zeros, and groups of
/// hexadecimal digits without a zone.
fn address(text: &[u8], is_v4: bool) -> Result<IpAddr, ProxyError> {
    let text = std::str::from_utf8(text).map_err(|_| ProxyError::InvalidAddress)?;
    let address = if is_v4 { text.parse().map(IpAddr::V4) } else { text.parse().map(IpAddr::V6) };
    address.map_err(|_| ProxyError::InvalidAddress)
}

fn port(text: &[u8]) -> Result<u16, ProxyError> {
    let plain = text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || !text.starts_with(b"0"));
    let text = std::str::from_utf8(text).map_err(|_| ProxyError::InvalidPort)?;
    text.parse().ok().filter(|_| plain).ok_or(ProxyError::InvalidPort)
}

fn decode_v2(input: &[u8]) -> Result<Decoded, ProxyError> {
    let Some((fixed, rest)) = input.split_first_chunk::<V2_FIXED_LEN>() else {
        // What is wrong already does not get better.
        return match input.get(V2_SIGNATURE.len()) {
            Some(version) if version >> 4 != 2 => Err(ProxyError::UnsupportedVersion),
            _ => Ok(Decoded::Incomplete),
        };
    };
    let [.., version_and_command, family_and_protocol, len_high, len_low] = *fixed;
    if version_and_command >> 4 != 2 {
        return Err(ProxyError::UnsupportedVersion);
    }
    let is_local = match version_and_command & 15 {
        0 => true,
        1 => false,
        _ => return Err(ProxyError::UnknownCommand),
    };
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    if len > V2_PAYLOAD_BYTES_MAX {
        return Err(ProxyError::TooLong);
    }
    let Some(payload) = rest.get(..len) else { return Ok(Decoded::Incomplete) };
    let consumed = V2_FIXED_LEN + len;
    if is_local {
        // The receiver has to discard the whole block, so its TLVs are not looked at either.
        return Ok(Decoded::Complete { consumed, proxied: Proxied::Local, tlvs: 0..0 });
    }
    let (proxied, address_len) = addresses(family_and_protocol, payload)?;
    let tlv_start = V2_FIXED_LEN + address_len;
    if proxied != Proxied::Unknown {
        check_tlvs(input.get(..consumed).unwrap_or_default(), tlv_start)?;
    }
    Ok(Decoded::Complete { consumed, proxied, tlvs: tlv_start..consumed })
}

/// The addresses, and how many bytes they take.
fn addresses(family_and_protocol: u8, payload: &[u8]) -> Result<(Proxied, usize), ProxyError> {
    match (family_and_protocol >> 4, family_and_protocol & 15) {
        // With no family there is no telling addresses from TLVs.
        (0..=3, 0) | (0, 1..=2) => Ok((Proxied::Unknown, payload.len())),
        (1, 1..=2) => {
            let (addresses, _) = payload.split_first_chunk::<12>().ok_or(ProxyError::TooShort)?;
            let [a, b, c, d, e, f, g, h, ports @ ..] = *addresses;
            let source = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
            let destination = IpAddr::V4(Ipv4Addr::new(e, f, g, h));
            Ok((inet(source, destination, ports), 12))
        }
        (2, 1..=2) => {
            let (source, rest) = payload.split_first_chunk::<16>().ok_or(ProxyError::TooShort)?;
            let (destination, rest) = rest.split_first_chunk::<16>().ok_or(ProxyError::TooShort)?;
            let (ports, _) = rest.split_first_chunk::<4>().ok_or(ProxyError::TooShort)?;
            let source = IpAddr::V6(Ipv6Addr::from(*source));
            let destination = IpAddr::V6(Ipv6Addr::from(*destination));
            Ok((inet(source, destination, *ports), 36))
        }
        (3, 1..=2) => {
            let (source, rest) = payload.split_first_chunk::<UNIX_PATH_LEN>().ok_or(ProxyError::TooShort)?;
            let (destination, _) = rest.split_first_chunk::<UNIX_PATH_LEN>().ok_or(ProxyError::TooShort)?;
            let proxied = Proxied::Unix { source: unpadded(source), destination: unpadded(destination) };
            Ok((proxied, 2 * UNIX_PATH_LEN))
        }
        _ => Err(ProxyError::UnknownProtocol),
    }
}

fn inet(source: IpAddr, destination: IpAddr, [a, b, c, d]: [u8; 4]) -> Proxied {
    Proxied::Inet {
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
    }
}

/// The path without the NULs that fill its place. An abstract one begins with a NUL of its own.
fn unpadded(path: &[u8]) -> Vec<u8> {
    let len = path.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    path.get(..len).unwrap_or_default().to_vec()
}

fn check_tlvs(header: &[u8], start: usize) -> Result<(), ProxyError> {
    let mut at = start;
    while let Some((kind, value, next)) = tlv_at(header, at)? {
        match kind {
            tlv_type::CRC32C => {
                let value: [u8; 4] = value.try_into().map_err(|_| ProxyError::InvalidTlv)?;
                if checksum(header, next - 4) != u32::from_be_bytes(value) {
                    return Err(ProxyError::WrongChecksum);
                }
            }
            tlv_type::UNIQUE_ID if value.len() > 128 => return Err(ProxyError::InvalidTlv),
            _ => {}
        }
        at = next;
    }
    Ok(())
}

/// Type and value of the TLV at `at`, and where the next one is. None at the end.
#[expect(clippy::type_complexity, reason = "three plain parts, used twice below")]
fn tlv_at(header: &[u8], at: usize) -> Result<Option<(u8, &[u8], usize)>, ProxyError> {
    match header.get(at..).unwrap_or_default() {
        [] => Ok(None),
        [kind, high, low, rest @ ..] => {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            let value = rest.get(..len).ok_or(ProxyError::InvalidTlv)?;
            Ok(Some((*kind, value, at + 3 + len)))
        }
        _ => Err(ProxyError::InvalidTlv),
    }
}

/// The CRC32c of the header with zeros in the place of the checksum itself.
pub(super) fn checksum(header: &[u8], checksum_at: usize) -> u32 {
    let place = checksum_at..checksum_at + 4;
    let bytes = header.iter().enumerate().map(|(at, byte)| if place.contains(&at) { 0 } else { *byte });
    !bytes.fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 })
    })
}

/// Type and value of each TLV in the part of a decoded header that [`Decoded::Complete`] gives.
pub fn tlvs(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (kind, value, next) = tlv_at(bytes, at).ok().flatten()?;
        at = next;
        Some((kind, value))
    })
}
