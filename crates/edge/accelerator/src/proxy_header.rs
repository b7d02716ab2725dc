//! PROXY headers as Varnish takes them: what the standard lets a receiver ignore is ignored, and the log says why a header is refused.

use std::{net::SocketAddr, ops::Range};

use http::proxy_protocol::{Decoded, Proxied, ProxyError, V1_BYTES_MAX, decode, tlv_type};

use crate::log::CloseReason;

/// Bytes behind the fixed part of a binary header at most.
const PAYLOAD_BYTES_MAX: usize = 1024;

const SIGNATURE_1: &[u8] = b"PROXY";
const SIGNATURE_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of a binary header before its addresses.
const FIXED_LEN: usize = 16;

/// A header that has come whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its length.
    pub consumed: usize,
    /// Client and server; `None` for those of the connection itself.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// Where its fields are, in what was received.
    pub fields: Range<usize>,
    /// What the log says of it (`Proxy`).
    pub record: Option<String>,
    /// What the log says was ignored (`ProxyGarbage`).
    pub ignored: Option<String>,
}

/// Why a connection ends for what came instead of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Garbage {
    /// What the log says (`ProxyGarbage`).
    pub words: Option<String>,
    /// How the connection ends.
    pub reason: CloseReason,
}

impl Garbage {
    fn silent(reason: CloseReason) -> Self {
        Self { words: None, reason }
    }

    fn junk(words: impl Into<String>) -> Self {
        Self { words: Some(words.into()), reason: CloseReason::RxJunk }
    }
}

/// Reads the header at the start of all that was received; `None` while it is not whole.
///
/// # Errors
/// It is none.
pub fn read(input: &[u8]) -> Result<Option<Header>, Garbage> {
    let begins = |start: &[u8]| input.iter().zip(start).all(|(byte, expected)| byte == expected);
    if begins(SIGNATURE_2) {
        read_binary(input)
    } else if begins(SIGNATURE_1) {
        read_line(input)
    } else {
        Err(Garbage::silent(CloseReason::RxJunk))
    }
}

fn read_line(input: &[u8]) -> Result<Option<Header>, Garbage> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        return if input.len() > V1_BYTES_MAX { Err(Garbage::silent(CloseReason::RxOverflow)) } else { Ok(None) };
    };
    if end > V1_BYTES_MAX {
        return Err(Garbage::silent(CloseReason::RxOverflow));
    }
    let line = input.get(..end).and_then(|line| line.strip_suffix(b"\r"));
    let line = line.ok_or(Garbage::silent(CloseReason::RxJunk))?;
    let words: Vec<&str> =
        line.split(|byte| *byte == b' ').skip(1).map(|word| std::str::from_utf8(word).unwrap_or_default()).collect();
    if words.first() == Some(&"UNKNOWN") {
        // NOTE: Varnish refuses this, but the standard demands that it is taken; it is what checks are sent with.
        return Ok(Some(Header { consumed: end + 1, ends: None, fields: 0..0, record: None, ignored: None }));
    }
    let [family, client, server, client_port, server_port] = words[..] else {
        return Err(Garbage::junk(if words.len() < 5 { "PROXY1: Too few fields" } else { "PROXY1: Too many fields" }));
    };
    let is_v6 = match family {
        "TCP4" => false,
        "TCP6" => true,
        _ => return Err(Garbage::junk("PROXY1: Wrong TCP[46] field")),
    };
    let address = |ip: &str, port: &str| {
        let ip: std::net::IpAddr = ip.parse().ok()?;
        (ip.is_ipv6() == is_v6).then_some(SocketAddr::new(ip, port.parse().ok()?))
    };
    let source = address(client, client_port).ok_or_else(|| Garbage::junk("PROXY1: Cannot resolve source address"))?;
    let destination =
        address(server, server_port).ok_or_else(|| Garbage::junk("PROXY1: Cannot resolve destination address"))?;
    let record = Some(format!("1 {client} {client_port} {server} {server_port}"));
    Ok(Some(Header { consumed: end + 1, ends: Some((source, destination)), fields: 0..0, record, ignored: None }))
}

fn read_binary(input: &[u8]) -> Result<Option<Header>, Garbage> {
    let Some((fixed, rest)) = input.split_first_chunk::<FIXED_LEN>() else { return Ok(None) };
    let [.., command, family, high, low] = *fixed;
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len > PAYLOAD_BYTES_MAX {
        return Err(Garbage::silent(CloseReason::RxOverflow));
    }
    if rest.len() < len {
        return Ok(None);
    }
    let consumed = FIXED_LEN + len;
    let plain = Header { consumed, ends: None, fields: 0..0, record: None, ignored: None };
    let ignoring = |words: String| Ok(Some(Header { ignored: Some(words), ..plain.clone() }));
    match command {
        0x20 => return Ok(Some(Header { record: Some("2 local local local local".to_owned()), ..plain })),
        0x21 => {}
        0x22..=0x2f => return Err(Garbage::junk(format!("PROXY2: bad command ({})", command & 15))),
        _ => return Err(Garbage::junk(format!("PROXY2: bad version ({})", command >> 4))),
    }
    let (least, name) = match family {
        0x00 => return ignoring("PROXY2: Ignoring UNSPEC|UNSPEC addresses".to_owned()),
        0x11 => (12, "IPv4"),
        0x21 => (36, "IPv6"),
        _ => return ignoring(format!("PROXY2: Ignoring unsupported protocol (0x{family:02x})")),
    };
    if len < least {
        return ignoring(format!("PROXY2: Ignoring short {name} addresses ({len})"));
    }
    let whole = input.get(..consumed).unwrap_or_default();
    let fields = FIXED_LEN + least..consumed;
    match decode(whole) {
        Ok(Decoded::Complete { proxied: Proxied::Inet { source, destination }, .. }) => {
            let (client, server) = (source.ip(), destination.ip());
            let record = format!("2 {client} {} {server} {}", source.port(), destination.port());
            Ok(Some(Header { ends: Some((source, destination)), fields, record: Some(record), ..plain }))
        }
        Err(ProxyError::WrongChecksum) => Err(Garbage::junk("PROXY2: CRC error")),
        Err(_) => {
            let what = wrong_field(whole.get(fields).unwrap_or_default()).unwrap_or("Length Error");
            Err(Garbage::junk(format!("PROXY2: TLV {what}")))
        }
        Ok(_) => ignoring(format!("PROXY2: Ignoring unsupported protocol (0x{family:02x})")),
    }
}

/// What is wrong with the lengths of fields.
fn wrong_field(mut bytes: &[u8]) -> Option<&'static str> {
    while !bytes.is_empty() {
        let Some(([kind, high, low], rest)) = bytes.split_first_chunk::<3>() else { return Some("Dribble bytes") };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let Some((value, behind)) = rest.split_at_checked(len) else { return Some("Length Error") };
        if *kind == tlv_type::SSL {
            let Some(inner) = value.get(5..) else { return Some("Length Error") };
            if let Some(wrong) = wrong_field(inner) {
                return Some(wrong);
            }
        }
        bytes = behind;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(input: &[u8]) -> String {
        match read(input) {
            Ok(None) => "incomplete".to_owned(),
            Ok(Some(header)) => header.record.or(header.ignored).unwrap_or_default(),
            Err(garbage) => garbage.words.unwrap_or_else(|| format!("{:?}", garbage.reason)),
        }
    }

    #[test]
    fn lines() {
        for (line, expected) in [
            ("XYZ\r\n", "RxJunk"),
            ("PROXY ", "incomplete"),
            ("PROXY A B C D\r\n", "PROXY1: Too few fields"),
            ("PROXY A B C D E F\r\n", "PROXY1: Too many fields"),
            ("PROXY A B C D E\r\n", "PROXY1: Wrong TCP[46] field"),
            ("PROXY TCP4 1.2.3.4 D 1234 E\r\n", "PROXY1: Cannot resolve destination address"),
            ("PROXY TCP4 1:f::2 5:a::8 1234 5678\r\n", "PROXY1: Cannot resolve source address"),
            ("PROXY TCP4 1.2.3.4 5.6.7.8 1234 5678\n", "RxJunk"),
            ("PROXY TCP4 1.2.3.4 5.6.7.8 1234 5678\r\n", "1 1.2.3.4 1234 5.6.7.8 5678"),
            ("PROXY UNKNOWN\r\n", ""),
        ] {
            assert_eq!(words(line.as_bytes()), expected, "{line:?}");
        }
        let long = format!("PROXY TCP4 1.2.3.4 5.6.7.8 1234 5678 {}\r\n", " ".repeat(70));
        assert_eq!(words(long.as_bytes()), "RxOverflow");
    }

    #[test]
    fn binary() {
        let header = |command: u8, family: u8, payload: &[u8]| {
            let mut bytes = SIGNATURE_2.to_vec();
            bytes.extend([command, family]);
            bytes.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
            bytes.extend(payload);
            bytes
        };
        let ends = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let with = |fields: &[u8]| [&ends[..], fields].concat();
        for (bytes, expected) in [
            (header(0x20, 0, &[]), "2 local local local local"),
            (header(0x22, 0, &[]), "PROXY2: bad command (2)"),
            (header(0x31, 0, &[]), "PROXY2: bad version (3)"),
            (header(0x21, 0, &[]), "PROXY2: Ignoring UNSPEC|UNSPEC addresses"),
            (header(0x21, 0x99, &[]), "PROXY2: Ignoring unsupported protocol (0x99)"),
            (header(0x21, 0x11, &[0; 11]), "PROXY2: Ignoring short IPv4 addresses (11)"),
            (header(0x21, 0x11, &ends), "2 1.2.3.4 2314 5.6.7.8 2828"),
            (header(0x21, 0x11, &with(&[3, 0, 4, 1, 2, 3, 4])), "PROXY2: CRC error"),
            (header(0x21, 0x11, &with(&[0xff, 0xff])), "PROXY2: TLV Dribble bytes"),
            (header(0x21, 0x11, &with(&[0xff, 0, 9, 1])), "PROXY2: TLV Length Error"),
            (header(0x21, 0x11, &[0; 1025]), "RxOverflow"),
        ] {
            assert_eq!(words(&bytes), expected);
        }
    }
}
