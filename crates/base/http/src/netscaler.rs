//! The header in which a NetScaler gives the client's addresses: the client's own IP and TCP headers behind a number that
//! both ends have agreed on, in an older and a newer form.
//!
//! ```text
//! older:  magic (4)  length of the headers (4)                                    IP header  TCP header
//! newer:  magic (4)  length of what follows (4)  type 0 (2)  length of headers (2)  IP header  TCP header
//! ```
//!
//! As in the PROXY protocol nothing is used before all of it has arrived, and nobody guesses whether it is there.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

/// Bytes of the IP and TCP headers that are accepted: both with all the options that they can have.
pub const HEADERS_BYTES_MAX: usize = 120;

const MAGIC_BYTES: usize = 4;
const OLDER_BYTES: usize = 8;
const NEWER_BYTES: usize = 12;
const PROTOCOL_TCP: u8 = 6;
const IPV6_BYTES: usize = 40;
const TCP_BYTES_LEAST: usize = 20;

/// What the bytes so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The beginning of a header. More bytes are needed.
    Incomplete,
    /// A whole header.
    Complete {
        /// Its length, and where the client's bytes begin.
        consumed: usize,
        /// The client.
        source: SocketAddr,
        /// What the client connected to.
        destination: SocketAddr,
    },
}

/// Why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NetscalerError {
    /// It does not begin with the number.
    #[error("no NetScaler header")]
    Magic,
    /// It is of a form that nobody knows.
    #[error("unknown form of NetScaler header")]
    Form,
    /// It holds no TCP over IP.
    #[error("NetScaler header without TCP")]
    Protocol,
    /// Its lengths do not agree.
    #[error("NetScaler header of a wrong length")]
    Length,
}

/// Reads a header that begins with `magic`.
///
/// # Errors
/// Why it is none; the connection cannot go on.
pub fn decode(bytes: &[u8], magic: u32) -> Result<Decoded, NetscalerError> {
    let known = bytes.len().min(MAGIC_BYTES);
    if bytes.get(..known) != magic.to_be_bytes().get(..known) {
        return Err(NetscalerError::Magic);
    }
    let Some(first) = bytes.first_chunk::<NEWER_BYTES>() else { return Ok(Decoded::Incomplete) };
    let [_, _, _, _, length @ .., form, _, high, low] = first;
    let (start, length) = match *form {
        // The first byte of an IP header: version 4 or 6.
        0x40..=0x4F | 0x60..=0x6F => (OLDER_BYTES, u32::from_be_bytes(*length) as usize),
        0 => (NEWER_BYTES, usize::from(u16::from_be_bytes([*high, *low]))),
        _ => return Err(NetscalerError::Form),
    };
    if length > HEADERS_BYTES_MAX {
        return Err(NetscalerError::Length);
    }
    let Some(headers) = bytes.get(start..start + length) else { return Ok(Decoded::Incomplete) };
    let (source, destination) = addresses(headers)?;
    Ok(Decoded::Complete { consumed: start + length, source, destination })
}

fn addresses(headers: &[u8]) -> Result<(SocketAddr, SocketAddr), NetscalerError> {
    let version = headers.first().ok_or(NetscalerError::Length)? >> 4;
    let at = |index: usize| headers.get(index).copied().ok_or(NetscalerError::Length);
    let (protocol, source, destination, tcp): (u8, IpAddr, IpAddr, usize) = match version {
        4 => {
            let address = |start| four(headers, start).ok_or(NetscalerError::Length);
            let length = usize::from(at(0)? & 0x0F) * 4;
            (at(9)?, address(12)?.into(), address(16)?.into(), length)
        }
        6 => {
            let address = |start| sixteen(headers, start).ok_or(NetscalerError::Length);
            (at(6)?, address(8)?.into(), address(24)?.into(), IPV6_BYTES)
        }
        _ => return Err(NetscalerError::Protocol),
    };
    if protocol != PROTOCOL_TCP {
        return Err(NetscalerError::Protocol);
    }
    if headers.len() < tcp + TCP_BYTES_LEAST {
        return Err(NetscalerError::Length);
    }
    let port = |start: usize| Ok(u16::from_be_bytes([at(start)?, at(start + 1)?]));
    Ok((SocketAddr::new(source, port(tcp)?), SocketAddr::new(destination, port(tcp + 2)?)))
}

fn four(bytes: &[u8], start: usize) -> Option<[u8; 4]> {
    bytes.get(start..start + 4)?.try_into().ok()
}

fn sixteen(bytes: &[u8], start: usize) -> Option<[u8; 16]> {
    bytes.get(start..start + 16)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: u32 = 0x0102_0304;

    fn v4(protocol: u8) -> Vec<u8> {
        let mut headers = vec![0; 40];
        headers[0] = 0x45;
        headers[9] = protocol;
        headers[12..16].copy_from_slice(&[192, 0, 2, 1]);
        headers[16..20].copy_from_slice(&[192, 0, 2, 2]);
        headers[20..24].copy_from_slice(&[0x30, 0x39, 0x00, 0x50]);
        headers
    }

    fn v6() -> Vec<u8> {
        let mut headers = vec![0; 60];
        headers[0] = 0x60;
        headers[6] = PROTOCOL_TCP;
        headers[23] = 1;
        headers[39] = 2;
        headers[40..44].copy_from_slice(&[0x30, 0x39, 0x00, 0x50]);
        headers
    }

    fn older(headers: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_be_bytes().to_vec();
        bytes.extend(u32::try_from(headers.len()).unwrap().to_be_bytes());
        bytes.extend(headers);
        bytes
    }

    fn newer(headers: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_be_bytes().to_vec();
        bytes.extend(u32::try_from(headers.len() + 4).unwrap().to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(u16::try_from(headers.len()).unwrap().to_be_bytes());
        bytes.extend(headers);
        bytes
    }

    #[test]
    fn headers() {
        for (bytes, source, destination) in [
            (older(&v4(PROTOCOL_TCP)), "192.0.2.1:12345", "192.0.2.2:80"),
            (newer(&v4(PROTOCOL_TCP)), "192.0.2.1:12345", "192.0.2.2:80"),
            (older(&v6()), "[::1]:12345", "[::2]:80"),
            (newer(&v6()), "[::1]:12345", "[::2]:80"),
        ] {
            let consumed = bytes.len();
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            let whole = Decoded::Complete { consumed, source, destination };
            assert_eq!(decode(&[&bytes[..], b"GET /"].concat(), MAGIC), Ok(whole));
            for length in 0..consumed {
                assert_eq!(decode(&bytes[..length], MAGIC), Ok(Decoded::Incomplete), "{length}");
            }
            assert_eq!(decode(&bytes, MAGIC + 1), Err(NetscalerError::Magic));
        }
    }

    #[test]
    fn refused() {
        assert_eq!(decode(b"GE", MAGIC), Err(NetscalerError::Magic));
        assert_eq!(decode(&older(&v4(17)), MAGIC), Err(NetscalerError::Protocol));
        assert_eq!(decode(&newer(&[&[0x10], &v4(PROTOCOL_TCP)[1..]].concat()), MAGIC), Err(NetscalerError::Protocol));
        let mut form = newer(&v4(PROTOCOL_TCP));
        form[8] = 9;
        assert_eq!(decode(&form, MAGIC), Err(NetscalerError::Form));
        for headers in [&v4(PROTOCOL_TCP)[..39], &v6()[..59], &[0x45], &[]] {
            assert!(decode(&newer(headers), MAGIC).is_err(), "{}", headers.len());
        }
        assert_eq!(decode(&newer(&[0x45; HEADERS_BYTES_MAX + 1]), MAGIC), Err(NetscalerError::Length));
    }
}
