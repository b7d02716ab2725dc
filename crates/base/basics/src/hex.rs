//! Bytes as hexadecimal digits, two for each.

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// The value of a digit in small or large letters.
#[inline]
#[must_use]
pub fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// The two digits of a byte, in small letters.
#[inline]
#[must_use]
pub fn lower_digits(byte: u8) -> [u8; 2] {
    digits(LOWER, byte)
}

/// The two digits of a byte, in large letters.
#[inline]
#[must_use]
pub fn upper_digits(byte: u8) -> [u8; 2] {
    digits(UPPER, byte)
}

#[expect(clippy::indexing_slicing, reason = "half a byte is below 16")]
fn digits(letters: &[u8; 16], byte: u8) -> [u8; 2] {
    [letters[usize::from(byte >> 4)], letters[usize::from(byte & 15)]]
}

/// Bytes in small letters.
#[must_use]
pub fn lower(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| lower_digits(*byte)).map(char::from).collect()
}

/// Bytes in large letters.
#[must_use]
pub fn upper(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| upper_digits(*byte)).map(char::from).collect()
}

/// The bytes of pairs of digits; `None` where a digit is missing or is none.
#[must_use]
pub fn bytes(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_digits_and_digits_bytes() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(lower(&[0, 0x1f, 0xa0, 255]), "001fa0ff");
        assert_eq!(upper(&[0, 0x1f, 0xa0, 255]), "001FA0FF");
        assert_eq!(bytes(lower(&all).as_bytes()), Some(all.clone()));
        assert_eq!(bytes(upper(&all).as_bytes()), Some(all));
        for text in ["0", "001", "0g", "+1", " 1", "é"] {
            assert_eq!(bytes(text.as_bytes()), None, "{text}");
        }
        assert_eq!(bytes(b""), Some(Vec::new()));
    }
}
