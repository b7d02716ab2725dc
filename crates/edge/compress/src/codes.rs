//! The fixed code of DEFLATE (RFC 1951 section 3.2.6), each entry ready to be written: the bits, and below them how many.

/// Ends a block: the bits and how many.
pub(crate) const END_OF_BLOCK: (u32, u32) = (0, 7);

/// By byte: bits above the lowest four, which are their number.
pub(crate) static LITERALS: [u32; 256] = literals();

/// By length, 3 to 258: code and extra bits above the lowest five, which are their number.
pub(crate) static LENGTHS: [u32; 259] = lengths();

/// By distance, 1 to 32,768: code and extra bits above the lowest five, which are their number.
pub(crate) static DISTANCES: [u32; 32_769] = distances();

/// Codes are written from their highest bit on, everything else from the lowest.
const fn reversed(code: u32, count: u32) -> u32 {
    code.reverse_bits() >> (32 - count)
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time: a mistake does not build")]
const fn literals() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (code, count) = if byte < 144 { (0x30 + byte as u32, 8) } else { (0x190 + byte as u32 - 144, 9) };
        table[byte] = reversed(code, count) << 4 | count;
        byte += 1;
    }
    table
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time: a mistake does not build")]
const fn lengths() -> [u32; 259] {
    let mut table = [0; 259];
    let mut length = 3;
    while length <= 258 {
        // 257 to 264 are lengths of their own; then each four symbols share a number of extra bits.
        let (symbol, extra, rest) = if length == 258 {
            (285, 0, 0)
        } else if length < 11 {
            (254 + length as u32, 0, 0)
        } else {
            let above = length as u32 - 3;
            let extra = 31 - above.leading_zeros() - 2;
            (257 + extra * 4 + (above >> extra), extra, above & ((1 << extra) - 1))
        };
        let (code, count) = if symbol < 280 { (symbol - 256, 7) } else { (0xC0 + symbol - 280, 8) };
        table[length] = (rest << count | reversed(code, count)) << 5 | (count + extra);
        length += 1;
    }
    table
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time: a mistake does not build")]
const fn distances() -> [u32; 32_769] {
    let mut table = [0; 32_769];
    let mut distance = 1;
    while distance <= 32_768 {
        let above = distance as u32 - 1;
        let (symbol, extra, rest) = if above < 4 {
            (above, 0, 0)
        } else {
            let extra = 31 - above.leading_zeros() - 1;
            (extra * 2 + (above >> extra), extra, above & ((1 << extra) - 1))
        };
        table[distance] = (rest << 5 | reversed(symbol, 5)) << 5 | (5 + extra);
        distance += 1;
    }
    table
}
