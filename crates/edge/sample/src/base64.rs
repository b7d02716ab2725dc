//! Base64 in the two alphabets of RFC 4648.
//!
//! Decoding takes what HAProxy takes: bits left over at the end need not be zero, and padded blocks may follow each other.

/// Which characters stand for 62 and 63, and whether blocks are padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// `+` and `/`, padded (section 4).
    Standard,
    /// `-` and `_`, not padded (section 5).
    Url,
}

impl Alphabet {
    fn value(self, byte: u8) -> Option<u32> {
        Some(u32::from(match (byte, self) {
            (b'A'..=b'Z', _) => byte - b'A',
            (b'a'..=b'z', _) => byte - b'a' + 26,
            (b'0'..=b'9', _) => byte - b'0' + 52,
            (b'+', Alphabet::Standard) | (b'-', Alphabet::Url) => 62,
            (b'/', Alphabet::Standard) | (b'_', Alphabet::Url) => 63,
            _ => return None,
        }))
    }

    fn digit(self, value: u32) -> u8 {
        match (value & 63, self) {
            (value @ 0..26, _) => b'A' + value.to_le_bytes()[0],
            (value @ 26..52, _) => b'a' + value.to_le_bytes()[0] - 26,
            (value @ 52..62, _) => b'0' + value.to_le_bytes()[0] - 52,
            (62, Alphabet::Standard) => b'+',
            (62, Alphabet::Url) => b'-',
            (_, Alphabet::Standard) => b'/',
            (_, Alphabet::Url) => b'_',
        }
    }
}

pub(crate) fn encode(bytes: &[u8], alphabet: Alphabet) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for block in bytes.chunks(3) {
        let byte = |position: usize| u32::from(block.get(position).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4u32 {
            if position as usize <= block.len() {
                text.push(alphabet.digit(bits >> (18 - 6 * position)));
            } else if alphabet == Alphabet::Standard {
                text.push(b'=');
            }
        }
    }
    text
}

pub(crate) fn decode(text: &[u8], alphabet: Alphabet) -> Option<Vec<u8>> {
    let text = match alphabet {
        Alphabet::Standard if !text.len().is_multiple_of(4) => return None,
        Alphabet::Standard => text,
        Alphabet::Url => text.get(..text.len() - text.iter().rev().take_while(|byte| **byte == b'=').count())?,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for block in text.chunks(4) {
        let digits = block.iter().take_while(|byte| **byte != b'=').count();
        if digits < 2 || block.iter().skip(digits).any(|byte| *byte != b'=') {
            return None;
        }
        let mut bits = 0;
        for byte in block.iter().take(digits) {
            bits = bits << 6 | alphabet.value(*byte)?;
        }
        bits <<= 6 * (4 - digits);
        bytes.extend(bits.to_be_bytes().iter().skip(1).take(digits - 1));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_rfc_4648() {
        for (plain, standard) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(plain.as_bytes(), Alphabet::Standard), standard.as_bytes());
            assert_eq!(decode(standard.as_bytes(), Alphabet::Standard).unwrap(), plain.as_bytes());
            let url = standard.trim_end_matches('=');
            assert_eq!(encode(plain.as_bytes(), Alphabet::Url), url.as_bytes());
            assert_eq!(decode(url.as_bytes(), Alphabet::Url).unwrap(), plain.as_bytes());
        }
        assert_eq!(encode(&[0xfb, 0xff, 0xfe], Alphabet::Standard), b"+//+");
        assert_eq!(encode(&[0xfb, 0xff, 0xfe], Alphabet::Url), b"-__-");
    }

    #[test]
    fn malformed_text() {
        for text in ["Z", "Zg", "Zg=", "Z===", "====", "Zg=a", "Zm 8", "Zm8=Zg=", "Zm9v-___"] {
            assert_eq!(decode(text.as_bytes(), Alphabet::Standard), None, "{text}");
        }
        assert_eq!(decode(b"Zm8=Zg==", Alphabet::Standard).unwrap(), b"fof");
    }
}
