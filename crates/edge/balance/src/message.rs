//! Answers of MySQL, LDAP and SPOP servers to the packets that health checks send: as much of these protocols as tells
//! whether a server works. What they say about a server is worded as HAProxy words it.

use crate::health::CheckStatus;

/// What a message comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageVerdict {
    /// It is not there as a whole.
    Wait,
    /// As it should be: there may be words for it.
    Good(Vec<u8>),
    /// It says, or shows, that the server does not work.
    Bad {
        /// How.
        status: CheckStatus,
        /// The server's code for it, or 0.
        code: u16,
        /// The words for it; may be empty.
        info: Vec<u8>,
    },
}

impl MessageVerdict {
    /// What cannot be right.
    fn invalid(info: &[u8]) -> Self {
        Self::Bad { status: CheckStatus::Layer7Response, code: 0, info: info.to_vec() }
    }

    /// What is incomplete: `ended` says that it stays so.
    fn short(ended: bool) -> Self {
        if ended { Self::invalid(b"") } else { Self::Wait }
    }
}

/// Reads bytes in order.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    /// A number of that many bytes, the most significant first.
    fn big_endian(&mut self, count: usize) -> Option<usize> {
        let bytes = self.bytes(count)?;
        Some(bytes.iter().fold(0, |number: usize, byte| number << 8 | usize::from(*byte)))
    }

    /// Goes on behind `expected`, if that comes next.
    fn expect(&mut self, expected: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }
}

/// Bytes before a packet's contents: three of its length, the lowest first, and its number.
const MYSQL_HEADER: usize = 4;
/// The first byte of an error.
const MYSQL_ERROR: u8 = 0xff;

/// The packet of MySQL at an offset: its contents, and where the next one begins.
fn mysql_packet(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let header = bytes.get(at..)?.get(..MYSQL_HEADER)?;
    let length = header.iter().take(3).rev().fold(0, |length: usize, byte| length << 8 | usize::from(*byte));
    let start = at + MYSQL_HEADER;
    Some((bytes.get(start..start + length)?, start + length))
}

/// What MySQL has sent so far: its greeting, and with `login` its answer to a login. `ended` says that no more will come.
pub fn mysql(bytes: &[u8], login: bool, ended: bool) -> MessageVerdict {
    let mut packet = mysql_packet(bytes, 0);
    if let (true, Some((_, next))) = (login, packet) {
        packet = mysql_packet(bytes, next);
    }
    let Some((contents, end)) = packet else { return MessageVerdict::short(ended) };
    if let Some((&MYSQL_ERROR, rest)) = contents.split_first() {
        let code = match rest {
            [low, high, ..] => u16::from_le_bytes([*low, *high]),
            _ => 0,
        };
        // HAProxy takes whatever has come behind the code for the text.
        let start = end - contents.len() + 3;
        let info = bytes.get(start..).unwrap_or_default().to_vec();
        return MessageVerdict::Bad { status: CheckStatus::Layer7Status, code, info };
    }
    // The greeting names the server's version.
    let version = bytes.get(MYSQL_HEADER + 1..).unwrap_or_default();
    MessageVerdict::Good(version.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
}

const NOT_LDAP: &[u8] = b"Not LDAPv3 protocol";
const LDAP_RFC: &[u8] = b"See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9";

/// LDAP's answer to a bind with the number 1 (RFC 4511, 4.2.2), in BER.
pub fn ldap(bytes: &[u8], ended: bool) -> MessageVerdict {
    let mut reader = Reader { rest: bytes };
    reader.byte();
    let length = match reader.byte() {
        None => return MessageVerdict::short(ended),
        Some(length @ 0..=0x7f) => Some(usize::from(length)),
        // Lengths of one byte more are short enough for the first, and Active Directory writes four.
        Some(0x82) => reader.big_endian(2),
        Some(0x84) => reader.big_endian(4),
        Some(_) => return MessageVerdict::invalid(NOT_LDAP),
    };
    let Some(message) = length.and_then(|length| reader.bytes(length)) else { return MessageVerdict::short(ended) };
    match ldap_bind_result(message) {
        None => MessageVerdict::invalid(NOT_LDAP),
        Some(0) => MessageVerdict::Good(b"Success".to_vec()),
        Some(code) => {
            MessageVerdict::Bad { status: CheckStatus::Layer7Status, code: code.into(), info: LDAP_RFC.to_vec() }
        }
    }
}

/// The result code in a bind response.
fn ldap_bind_result(message: &[u8]) -> Option<u8> {
    let mut reader = Reader { rest: message };
    // messageID 1, then bindResponse.
    reader.expect(&[0x02, 0x01, 0x01, 0x61])?;
    let length = reader.byte()?;
    if length & 0x80 != 0 {
        reader.bytes(usize::from(length & 0x7f))?;
    }
    // resultCode is an enumeration of one byte.
    reader.expect(&[0x0a, 0x01])?;
    reader.byte()
}

/// Bytes of a SPOP frame before its items: type, flags, stream and frame.
const SPOP_HEADER: usize = 7;
const SPOP_AGENT_HELLO: u8 = 101;
const SPOP_AGENT_DISCONNECT: u8 = 102;
const SPOP_FINAL: usize = 1;
const SPOP_FRAME_BYTES_MIN: u64 = 256;
const SPOP_INVALID: &str = "invalid frame received";

/// The frame of a SPOP agent in `bytes`, which begin with its length; it may have `frame_bytes_max`.
pub fn spop(bytes: &[u8], frame_bytes_max: usize, ended: bool) -> MessageVerdict {
    let mut reader = Reader { rest: bytes };
    let Some(length) = reader.big_endian(4) else { return MessageVerdict::short(ended) };
    let frame = match reader.bytes(length) {
        Some(frame) => frame,
        None if ended => return MessageVerdict::invalid(SPOP_INVALID.as_bytes()),
        None => return MessageVerdict::Wait,
    };
    match spop_hello(frame, frame_bytes_max) {
        Ok(()) => MessageVerdict::Good(b"SPOA server is ok".to_vec()),
        Err(words) => MessageVerdict::invalid(words.as_bytes()),
    }
}

/// Whether a frame is a hello that names version, size and capabilities.
fn spop_hello(frame: &[u8], frame_bytes_max: usize) -> Result<(), &'static str> {
    let mut reader = Reader { rest: frame };
    match reader.byte() {
        Some(SPOP_AGENT_HELLO) if frame.len() >= SPOP_HEADER => {}
        Some(SPOP_AGENT_DISCONNECT) => return Err(spop_disconnect(frame)),
        _ => return Err(SPOP_INVALID),
    }
    let flags = reader.big_endian(4).ok_or(SPOP_INVALID)?;
    if flags & SPOP_FINAL == 0 {
        return Err("fragmentation not supported");
    }
    reader.expect(&[0, 0]).ok_or(SPOP_INVALID)?;
    let (mut has_version, mut has_size) = (false, false);
    // NOTE: as in HAProxy, capabilities may be missing.
    while !reader.rest.is_empty() {
        let key = spop_text(&mut reader).filter(|key| !key.is_empty()).ok_or(SPOP_INVALID)?;
        let kind = reader.byte().ok_or(SPOP_INVALID)?;
        match key {
            key if key.starts_with(b"version") => {
                let version = spop_text_of_kind(&mut reader, kind).ok_or(SPOP_INVALID)?;
                if version.trim_ascii() != b"2.0" {
                    return Err("unsupported version");
                }
                has_version = true;
            }
            key if key.starts_with(b"max-frame-size") => {
                let size = match kind & 0x0f {
                    2..=5 => spop_number(&mut reader).ok_or(SPOP_INVALID)?,
                    _ => return Err(SPOP_INVALID),
                };
                if !(SPOP_FRAME_BYTES_MIN..=frame_bytes_max as u64).contains(&size) {
                    return Err("max-frame-size too big or too small");
                }
                has_size = true;
            }
            key if key.starts_with(b"capabilities") => {
                spop_text_of_kind(&mut reader, kind).ok_or(SPOP_INVALID)?;
            }
            _ => spop_skip(&mut reader, kind).ok_or(SPOP_INVALID)?,
        }
    }
    match (has_version, has_size) {
        (false, _) => Err("version value not found"),
        (true, false) => Err("max-frame-size value not found"),
        (true, true) => Ok(()),
    }
}

/// A text: its length and its bytes.
fn spop_text<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = spop_number(reader)?;
    reader.bytes(usize::try_from(length).ok()?)
}

fn spop_text_of_kind<'a>(reader: &mut Reader<'a>, kind: u8) -> Option<&'a [u8]> {
    if kind & 0x0f == 8 { spop_text(reader) } else { None }
}

/// A number: four bits in the first byte, then seven in each.
fn spop_number(reader: &mut Reader<'_>) -> Option<u64> {
    let mut number = u64::from(reader.byte()?);
    if number < 240 {
        return Some(number);
    }
    for shift in (4_u32..).step_by(7).take(9) {
        let byte = reader.byte()?;
        number = number.checked_add(u64::from(byte).checked_shl(shift)?)?;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}

/// Passes over a value of this kind.
fn spop_skip(reader: &mut Reader<'_>, kind: u8) -> Option<()> {
    match kind & 0x0f {
        0 | 1 => {}
        2..=5 => drop(spop_number(reader)?),
        6 => drop(reader.bytes(4)?),
        7 => drop(reader.bytes(16)?),
        8 | 9 => drop(spop_text(reader)?),
        _ => return None,
    }
    Some(())
}

/// Why an agent goes: the words of HAProxy for its status code.
fn spop_disconnect(frame: &[u8]) -> &'static str {
    const REASONS: [&str; 15] = [
        "normal",
        "I/O error",
        "a timeout occurred",
        "frame is too big",
        SPOP_INVALID,
        "version value not found",
        "max-frame-size value not found",
        "capabilities value not found",
        "unsupported version",
        "max-frame-size too big or too small",
        "fragmentation not supported",
        "invalid interlaced frames",
        "frame-id not found",
        "resource allocation error",
        "an unknown error occurred",
    ];
    let code = || {
        let mut reader = Reader { rest: frame.get(SPOP_HEADER..)? };
        while !reader.rest.is_empty() {
            let key = spop_text(&mut reader)?;
            let kind = reader.byte()?;
            if key.starts_with(b"status-code") {
                return usize::try_from(spop_number(&mut reader)?).ok();
            }
            spop_skip(&mut reader, kind)?;
        }
        None
    };
    code().and_then(|code| REASONS.get(code).copied()).unwrap_or("an unknown error occurred")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap();
        digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }

    /// All of the message comes to `expected`; less of it waits for more, and ends badly when nothing more comes.
    fn check(decode: impl Fn(&[u8], bool) -> MessageVerdict, message: &[u8], expected: &MessageVerdict) {
        assert_eq!(&decode(message, false), expected);
        assert_eq!(&decode(message, true), expected);
        for length in 0..message.len() {
            let part = &message[..length];
            match decode(part, false) {
                MessageVerdict::Wait => assert!(matches!(decode(part, true), MessageVerdict::Bad { .. }), "{length}"),
                other => assert!(matches!(other, MessageVerdict::Bad { .. }), "{length}: {other:?}"),
            }
        }
    }

    fn bad(status: CheckStatus, code: u16, info: &str) -> MessageVerdict {
        MessageVerdict::Bad { status, code, info: info.as_bytes().to_vec() }
    }

    #[test]
    fn answers_of_mysql() {
        let greeting = bytes("0a000000 0a382e302e31390001 02");
        check(|bytes, ended| mysql(bytes, false, ended), &greeting, &MessageVerdict::Good(b"8.0.19".to_vec()));
        let accepted = [greeting.clone(), bytes("03000002 000000")].concat();
        check(|bytes, ended| mysql(bytes, true, ended), &accepted, &MessageVerdict::Good(b"8.0.19".to_vec()));
        let refused = [greeting.clone(), bytes("09000002 ff1504 233238303030")].concat();
        let verdict = bad(CheckStatus::Layer7Status, 1_045, "#28000");
        assert_eq!(mysql(&refused, true, false), verdict);
        let blocked = bytes("05000000 ff6904 4e6f");
        assert_eq!(mysql(&blocked, false, false), bad(CheckStatus::Layer7Status, 1_129, "No"));
        assert_eq!(mysql(&blocked, true, false), MessageVerdict::Wait, "a greeting comes first");
        assert_eq!(mysql(&bytes("01000000 ff"), false, true), bad(CheckStatus::Layer7Status, 0, ""));
    }

    #[test]
    fn answers_of_ldap() {
        for message in ["300c020101 6107 0a0100 0400 0400", "3084 00000010 020101 6184 00000007 0a0100 0400 0400"] {
            check(ldap, &bytes(message), &MessageVerdict::Good(b"Success".to_vec()));
        }
        let refused = bad(CheckStatus::Layer7Status, 1, std::str::from_utf8(LDAP_RFC).unwrap());
        check(ldap, &bytes("300c020101 6107 0a0101 0400 0400"), &refused);
        let other = bad(CheckStatus::Layer7Response, 0, "Not LDAPv3 protocol");
        for message in
            ["300c020101 6007 0a0100 0400 0400", "3003020101", "3085 0000000001 00", "300c020101 6107 020100 0400 0400"]
        {
            assert_eq!(ldap(&bytes(message), false), other, "{message}");
        }
    }

    #[test]
    fn answers_of_spop_agents() {
        let hello = |items: &str| {
            let frame = bytes(&format!("65 00000001 0000 {items}"));
            [u32::try_from(frame.len()).unwrap().to_be_bytes().to_vec(), frame].concat()
        };
        let (version, size) = ("07 76657273696f6e 08 03 322e30", "0e 6d61782d6672616d652d73697a65 03 fcf006");
        let capabilities = "0c 6361706162696c6974696573 08 00";
        let whole = hello(&format!("{version}{size}{capabilities}"));
        check(|bytes, ended| spop(bytes, 16_380, ended), &whole, &MessageVerdict::Good(b"SPOA server is ok".to_vec()));
        for (items, words) in [
            (size.to_owned(), "version value not found"),
            (version.to_owned(), "max-frame-size value not found"),
            (version.replace("322e30", "392e30"), "unsupported version"),
            (format!("{version}{}", size.replace("fcf006", "05")), "max-frame-size too big or too small"),
            ("00".to_owned(), SPOP_INVALID),
            ("07 76657273696f6e 03 00".to_owned(), SPOP_INVALID),
        ] {
            assert_eq!(spop(&hello(&items), 16_380, false), bad(CheckStatus::Layer7Response, 0, words), "{items}");
        }
        let disconnect = bytes("00000015 66 00000001 0000 0b 7374617475732d636f6465 03 02");
        assert_eq!(spop(&disconnect, 16_380, false), bad(CheckStatus::Layer7Response, 0, "a timeout occurred"));
        assert_eq!(spop(b"HTTP/1.1 400", 16_380, true), bad(CheckStatus::Layer7Response, 0, SPOP_INVALID));
    }
}
