//! Classes of bytes, and the searches that every byte of a head goes through.

use block::Hits;
pub(crate) use block::{BLOCK, Block};

mod block;

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
    const fn visible_and_beyond_ascii() -> Self {
        let mut table = [true; 256];
        let mut byte = 0;
        while byte <= b' ' {
            table[byte as usize] = false;
            byte += 1;
        }
        table[0x7f] = false;
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

/// What may stand in a host name: RFC 3986 section 3.2.2, `reg-name`.
///
/// The comma is left out although the grammar has it: no host name contains one, and `Host: a,b` is how two Host fields
/// look after somebody merged them.
pub(crate) static HOST: Class = Class::alphanumeric_and(b"-._~%!$&'()*+;=");

/// What may stand in a request target under `option accept-invalid-http-request`.
pub(crate) static TARGET_RELAXED: Class = Class::visible_and_beyond_ascii();

/// What may stand in a protocol name and version under the same option.
pub(crate) static VERSION: Class = Class::alphanumeric_and(b"./");

/// Where the first control byte (see [`is_control`]) is, looking from `from` on.
#[inline(always)]
pub(crate) fn find_control(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let at = find(bytes, from, Block::controls, |byte| byte < 0x20 || byte == 0x7f)?;
        // Tabs are so rare that they are not worth an instruction in each block.
        if bytes.get(at) != Some(&b'\t') {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Where the first byte is that may not stand in a request target, looking from `from` on.
///
/// What may is what HAProxy lets through, all visible ASCII but the number sign. RFC 3986 allows less, but browsers send
/// the rest unencoded in queries. A fragment never reaches a server, and those that see one disagree about where the path
/// ends.
#[inline(always)]
pub(crate) fn find_target_end(bytes: &[u8], from: usize) -> Option<usize> {
    find(bytes, from, Block::outside_target, |byte| !matches!(byte, b'!'..=b'~') || byte == b'#')
}

/// Where the first colon is, looking from `from` on.
#[inline(always)]
pub(crate) fn find_colon(bytes: &[u8], from: usize) -> Option<usize> {
    find(bytes, from, Block::colons, |byte| byte == b':')
}

/// Where the first byte of a kind is, looking from `from` on, a block at a time. The bytes that do not fill a block are
/// looked at as the end of one that begins before them.
#[inline(always)]
fn find(bytes: &[u8], from: usize, hits: impl Fn(Block) -> Hits, is_hit: impl Fn(u8) -> bool) -> Option<usize> {
    let mut at = from;
    let mut rest = bytes.get(from..)?;
    while let Some((block, after)) = rest.split_first_chunk::<BLOCK>() {
        if let Some(found) = hits(Block::new(block)).first() {
            return Some(at + found);
        }
        at += BLOCK;
        rest = after;
    }
    match bytes.last_chunk::<BLOCK>() {
        Some(block) => hits(Block::new(block)).after(BLOCK - rest.len()).first().map(|found| at + found),
        None => rest.iter().position(|byte| is_hit(*byte)).map(|found| at + found),
    }
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

/// `number` in decimal, written into the end of `digits`.
pub(crate) fn decimal(number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut rest = number;
    let mut start = digits.len();
    for (index, place) in digits.iter_mut().enumerate().rev() {
        *place = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        start = index;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests;
