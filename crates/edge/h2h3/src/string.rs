//! Strings in blocks (RFC 7541 section 5.2, RFC 9204 section 4.1.2).

use crate::{CompressionError, huffman, integer};

/// Takes a string off the front of `rest`, whose length begins in the lowest `prefix` bits of the first byte, behind the bit that tells a
/// Huffman code: it is where it stands, or decoded into `scratch`.
///
/// # Errors
/// When it is not whole, or no code.
#[inline]
pub fn read_string<'b: 's, 's>(
    rest: &mut &'b [u8],
    prefix: u32,
    scratch: &'s mut Vec<u8>,
) -> Result<&'s [u8], CompressionError> {
    let is_code = rest.first().is_some_and(|first| first & 1 << prefix != 0);
    let length = integer::decode(rest, prefix)?;
    let (text, left) = rest.split_at_checked(length).ok_or(CompressionError::Truncated)?;
    *rest = left;
    if !is_code {
        return Ok(text);
    }
    scratch.clear();
    huffman::decode(scratch, text)?;
    Ok(scratch)
}

/// Writes a string whose length begins in the lowest `prefix` bits of a byte, of which `flags` has the others: as a Huffman code if
/// that is wanted, and shorter.
#[inline]
pub fn write_string(out: &mut Vec<u8>, flags: u8, prefix: u32, text: &[u8], by_code: bool) {
    let encoded = if by_code { huffman::encoded_len(text) } else { usize::MAX };
    if encoded < text.len() {
        integer::encode(out, flags | 1 << prefix, prefix, encoded);
        huffman::encode(out, text);
    } else {
        integer::encode(out, flags, prefix, text.len());
        out.extend_from_slice(text);
    }
}
