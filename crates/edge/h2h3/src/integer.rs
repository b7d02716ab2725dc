//! Numbers that begin within a byte (RFC 7541 section 5.1, RFC 9204 section 4.1.1).

use crate::CompressionError;

/// The largest number that is read. Nothing in a block that somebody would accept comes near it.
const NUMBER_MAX: usize = (1 << 28) - 1;

/// Writes `number` so that its start takes the lowest `prefix` bits of a byte whose others are those of `flags`.
#[inline]
pub fn encode(out: &mut Vec<u8>, flags: u8, prefix: u32, number: usize) {
    let most = u8::MAX >> (8 - prefix);
    match u8::try_from(number) {
        Ok(number) if number < most => out.push(flags | number),
        _ => {
            out.push(flags | most);
            let mut rest = number - usize::from(most);
            while rest >= 0x80 {
                out.push((rest & 0x7F) as u8 | 0x80);
                rest >>= 7;
            }
            out.push((rest & 0x7F) as u8);
        }
    }
}

/// Takes a number off the front of `bytes`, whose start is in the lowest `prefix` bits of the first byte.
///
/// # Errors
/// When it is not whole, or larger than anything in a block can be.
#[inline]
pub fn decode(bytes: &mut &[u8], prefix: u32) -> Result<usize, CompressionError> {
    let most = u8::MAX >> (8 - prefix);
    let start = take(bytes)? & most;
    let mut number = usize::from(start);
    if start < most {
        return Ok(number);
    }
    let mut shift = 0;
    loop {
        let byte = take(bytes)?;
        number += usize::from(byte & 0x7F) << shift;
        if number > NUMBER_MAX {
            return Err(CompressionError::NumberTooLarge);
        }
        if byte & 0x80 == 0 {
            return Ok(number);
        }
        shift += 7;
        // A number with zeros in front of it would be read for ever.
        if shift > 28 {
            return Err(CompressionError::NumberTooLarge);
        }
    }
}

fn take(bytes: &mut &[u8]) -> Result<u8, CompressionError> {
    let (first, rest) = bytes.split_first().ok_or(CompressionError::Truncated)?;
    *bytes = rest;
    Ok(*first)
}
