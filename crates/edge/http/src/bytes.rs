//! Classes of bytes, and the search for the first control byte that every line goes through.

/// Which bytes belong to a class.
pub(crate) struct Class([bool; 256]);

impl Class {
    #[expect(clippy::indexing_slicing, reason = "a u8 indexes a table of 256")]
    const fn alphanumeric_and(others: &[u8]) -> Self {
        let mut table = [false; 256];
        let mut index = 0;
        while index < others.len() {
            table[others[index] as usize] = true;
            index += 1;
        }
        let mut byte = 0u8;
        while byte < 128 {
            table[byte as usize] |= byte.is_ascii_alphanumeric();
            byte += 1;
        }
        Class(table)
    }

    #[expect(clippy::indexing_slicing, reason = "a u8 indexes a table of 256")]
    const fn visible(beyond_ascii: bool, number_sign: bool) -> Self {
        let mut table = [false; 256];
        let mut byte = 0u8;
        loop {
            table[byte as usize] = byte > b' ' && byte != 0x7f && (byte < 0x80 || beyond_ascii);
            if byte == u8::MAX {
                break;
            }
            byte += 1;
        }
        table[b'#' as usize] = number_sign;
        Class(table)
    }

    /// Whether `byte` is in the class.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "a u8 indexes a table of 256")]
    pub(crate) fn has(&self, byte: u8) -> bool {
        self.0[byte as usize]
    }

    /// Where the first byte outside the class is.
    #[inline(always)]
    pub(crate) fn first_outside(&self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| !self.has(*byte))
    }
}

/// `tchar` of RFC 9110 section 5.6.2: methods, header names, chunk extension names.
pub(crate) static TOKEN: Class = Class::alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// What may stand in Host and in the authority of a target: RFC 3986 section 3.2.2 and a port.
///
/// The comma is left out although the grammar has it: no host name contains one, and `Host: a,b` is how two Host fields
/// look after somebody merged them.
pub(crate) static AUTHORITY: Class = Class::alphanumeric_and(b"-._~%!$&'()*+;=:[]");

/// What may stand in a request target: what HAProxy lets through, all visible ASCII but the number sign.
///
/// RFC 3986 allows less, but browsers send the rest unencoded in queries. A fragment never reaches a server, and those
/// that see one disagree about where the path ends.
pub(crate) static TARGET: Class = Class::visible(false, false);

/// What may stand in a request target under `option accept-invalid-http-request`.
pub(crate) static TARGET_RELAXED: Class = Class::visible(true, true);

/// What may stand in a protocol name and version under the same option.
pub(crate) static VERSION: Class = Class::alphanumeric_and(b"./");

/// Where the first control byte is: below 0x20 other than HTAB, or DEL.
///
/// Eight bytes at a time. Subtracting from each byte sets its top bit when it was smaller; a borrow can reach only bytes
/// above the first hit, and the first hit is what is asked for.
#[inline(always)]
pub(crate) fn find_control(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let mut from = 0;
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let low = word.wrapping_sub(ONES * 0x20) & !word;
        let deleted = word ^ (ONES * 0x7f);
        let delete = deleted.wrapping_sub(ONES) & !deleted;
        let mut hits = (low | delete) & TOPS;
        if hits != 0 {
            // A tab may hide behind its own bit, and a borrow behind the tab: look at the bytes one by one.
            if chunk.get(hits.trailing_zeros() as usize / 8) != Some(&b'\t') {
                return Some(from + hits.trailing_zeros() as usize / 8);
            }
            hits = 0;
            if let Some(at) = chunk.iter().position(|byte| is_control(*byte)) {
                return Some(from + at);
            }
        }
        debug_assert_eq!(hits, 0);
        from += 8;
        rest = after;
    }
    rest.iter().position(|byte| is_control(*byte)).map(|at| from + at)
}

/// Whether `byte` may not stand in a field value: a control byte other than HTAB.
#[inline(always)]
pub(crate) fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// Optional white space of RFC 9110 section 5.6.3.
#[inline(always)]
pub(crate) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// `bytes` without blanks around it.
#[inline(always)]
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}
