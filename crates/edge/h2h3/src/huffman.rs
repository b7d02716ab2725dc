//! The Huffman code of strings (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: among codes of one length those of smaller symbols are smaller, and a shorter code is smaller than the
//! start of a longer one. So the lengths say all of it, and every table here is made of them when the program is compiled.

use crate::CompressionError;

/// Bits of each symbol's code. That of the end (30 bits, all ones) is the one that is left.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28,
    28, //
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6,
    12, //
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5,
    6, //
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22,
    22, //
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21,
    20, //
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22,
    23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26,
    28, //
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27,
    28, //
    27, 27, 27, 27, 27, 26,
];

/// The longest code of a symbol.
const LENGTH_MAX: usize = 30;

/// Bits by which most symbols are found in one step.
const SHORT: u32 = 9;

/// All codes: symbols in their order, and by length the first code and where its symbol stands in that order.
struct Canonical {
    symbols: [u8; 256],
    first_codes: [u32; LENGTH_MAX + 1],
    counts: [u32; LENGTH_MAX + 1],
    offsets: [u32; LENGTH_MAX + 1],
}

const CANONICAL: Canonical = canonical();
const CODES: [(u32, u8); 256] = codes();
const BY_START: [(u8, u8); 1 << SHORT] = by_start();

#[expect(clippy::indexing_slicing, reason = "runs while the program is compiled")]
const fn canonical() -> Canonical {
    let mut made = Canonical {
        symbols: [0; 256],
        first_codes: [0; LENGTH_MAX + 1],
        counts: [0; LENGTH_MAX + 1],
        offsets: [0; LENGTH_MAX + 1],
    };
    let (mut code, mut placed, mut length) = (0, 0, 1);
    while length <= LENGTH_MAX {
        code <<= 1;
        made.first_codes[length] = code;
        made.offsets[length] = placed as u32;
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == length {
                made.symbols[placed] = symbol as u8;
                placed += 1;
                code += 1;
            }
            symbol += 1;
        }
        made.counts[length] = placed as u32 - made.offsets[length];
        length += 1;
    }
    // What is left is the code of the end.
    assert!(placed == 256 && code == (1 << LENGTH_MAX) - 1);
    made
}

#[expect(clippy::indexing_slicing, reason = "runs while the program is compiled")]
const fn codes() -> [(u32, u8); 256] {
    let mut codes = [(0, 0); 256];
    let mut length = 1;
    while length <= LENGTH_MAX {
        let mut nth = 0;
        while nth < CANONICAL.counts[length] {
            let symbol = CANONICAL.symbols[(CANONICAL.offsets[length] + nth) as usize];
            codes[symbol as usize] = (CANONICAL.first_codes[length] + nth, length as u8);
            nth += 1;
        }
        length += 1;
    }
    codes
}

/// By the first [`SHORT`] bits: the symbol and the length of its code, 0 where that is longer.
#[expect(clippy::indexing_slicing, reason = "runs while the program is compiled")]
const fn by_start() -> [(u8, u8); 1 << SHORT] {
    let mut table = [(0, 0); 1 << SHORT];
    let mut symbol = 0;
    while symbol < 256 {
        let (code, length) = CODES[symbol];
        if length as u32 <= SHORT {
            let free = SHORT - length as u32;
            let first = (code as usize) << free;
            let mut at = first;
            while at < first + (1 << free) {
                table[at] = (symbol as u8, length);
                at += 1;
            }
        }
        symbol += 1;
    }
    table
}

fn code_of(byte: u8) -> (u32, u8) {
    CODES.get(usize::from(byte)).copied().unwrap_or_default()
}

/// How many bytes `text` takes as a code.
#[must_use]
pub fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(code_of(*byte).1)).sum();
    bits.div_ceil(8)
}

/// Writes `text` as a code.
pub fn encode(out: &mut Vec<u8>, text: &[u8]) {
    // The bits that were not written yet: the lowest `count` of `bits`.
    let (mut bits, mut count) = (0_u64, 0_u32);
    for byte in text {
        let (code, length) = code_of(*byte);
        bits = bits << length | u64::from(code);
        count += u32::from(length);
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    if count > 0 {
        // The rest of the last byte is the start of the end's code.
        let padded = bits << (64 - count) | (u64::MAX >> count);
        let bytes = padded.to_be_bytes();
        out.extend(bytes.iter().take(count.div_ceil(8) as usize));
    }
}

/// Appends what `code` stands for to `out`.
///
/// # Errors
/// When it is no code.
pub fn decode(out: &mut Vec<u8>, code: &[u8]) -> Result<(), CompressionError> {
    out.reserve(code.len() * 8 / 5 + 1);
    // The bits that were not decoded yet: the highest `count` of `bits`, zeros below.
    let (mut bits, mut count, mut rest) = (0_u64, 0_u32, code);
    loop {
        if count <= 32
            && let Some((chunk, left)) = rest.split_first_chunk::<4>()
        {
            bits |= u64::from(u32::from_be_bytes(*chunk)) << (32 - count);
            count += 32;
            rest = left;
        }
        while count <= 56
            && let Some((byte, left)) = rest.split_first()
        {
            bits |= u64::from(*byte) << (56 - count);
            count += 8;
            rest = left;
        }
        // Behind the last bit there are ones, as if the padding went on.
        let padded = bits | u64::MAX.checked_shr(count).unwrap_or(0);
        let (symbol, length) = match BY_START.get((padded >> (64 - SHORT)) as usize) {
            Some((symbol, length)) if *length > 0 => (*symbol, u32::from(*length)),
            // Only ones: the padding, or the end's code, which must not be in a string.
            _ => long_code(padded).unwrap_or((0, u32::MAX)),
        };
        if length > count {
            return if count < 8 && padded == u64::MAX { Ok(()) } else { Err(CompressionError::Huffman) };
        }
        out.push(symbol);
        bits <<= length;
        count -= length;
    }
}

/// The symbol whose code is at the start of `bits`, and the length of that; `None` for the end's code.
#[cold]
fn long_code(bits: u64) -> Option<(u8, u32)> {
    ((SHORT + 1)..=LENGTH_MAX as u32).find_map(|length| {
        let at = length as usize;
        let nth = ((bits >> (64 - length)) as u32).wrapping_sub(*CANONICAL.first_codes.get(at)?);
        let offset =
            *CANONICAL.offsets.get(at).filter(|_| CANONICAL.counts.get(at).is_some_and(|count| nth < *count))?;
        let symbol = CANONICAL.symbols.get((offset + nth) as usize)?;
        Some((*symbol, length))
    })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::any, proptest};

    use super::*;

    #[test]
    fn codes_are_those_of_the_standard() {
        // RFC 7541 appendix B, some lines of it.
        let check = |symbol: u8, code: u32, length: u8| assert_eq!(code_of(symbol), (code, length), "{symbol}");
        check(b'0', 0x0, 5);
        check(b't', 0x9, 5);
        check(b' ', 0x14, 6);
        check(b':', 0x5C, 7);
        check(b'X', 0xFC, 8);
        check(b'!', 0x3F8, 10);
        check(0, 0x1FF8, 13);
        check(b'\\', 0x7FFF0, 19);
        check(255, 0x3FF_FFEE, 26);
        check(b'\n', 0x3FFF_FFFC, 30);
        check(22, 0x3FFF_FFFE, 30);
    }

    fn decoded(code: &[u8]) -> Result<Vec<u8>, CompressionError> {
        let mut text = Vec::new();
        decode(&mut text, code).map(|()| text)
    }

    #[test]
    fn padding_is_less_than_a_byte_of_ones() {
        assert_eq!(decoded(b""), Ok(vec![]));
        assert_eq!(decoded(&[0b0000_0111]), Ok(b"0".to_vec()));
        assert_eq!(decoded(&[0b0000_0000, 0b0011_1111]), Ok(b"00".to_vec()));
        for wrong in [&[0b0000_0110][..], &[0b0000_0111, 0xFF], &[0xFF], &[0xFF, 0xFF, 0xFF, 0xFF], &[0xFF; 12]] {
            assert_eq!(decoded(wrong), Err(CompressionError::Huffman), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in vec(any::<u8>(), 0..200)) {
            let mut code = Vec::new();
            encode(&mut code, &text);
            assert_eq!(code.len(), encoded_len(&text));
            assert_eq!(decoded(&code), Ok(text));
        }

        #[test]
        fn what_is_decoded_is_encoded_so(code in vec(any::<u8>(), 0..60)) {
            if let Ok(text) = decoded(&code) {
                let mut again = Vec::new();
                encode(&mut again, &text);
                assert_eq!(again, code);
            }
        }
    }
}
