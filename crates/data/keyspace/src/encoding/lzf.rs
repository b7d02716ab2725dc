//! LZF, the compression of long strings in RDB.
//!
//! A block is a row of pieces. A control byte below 32 says that as many bytes and one more follow as they are. Any other
//! copies from what was written already: its upper three bits are the length less two (seven: the next byte is added), its
//! lower five bits with one more byte the distance less one.

use super::RdbError;

/// The longest literal piece.
const LITERAL_LEN_MAX: usize = 32;
/// The longest copy: 7 + 255 + 2.
const COPY_LEN_MAX: usize = 264;
const COPY_LEN_MIN: usize = 3;
/// How far back a copy may reach.
const DISTANCE_MAX: usize = 1 << 13;
/// Bytes that the longest copy takes in a block.
const COPY_BYTES: usize = 3;
const HASH_BITS: u32 = 13;

/// The most that a block of some length can hold.
pub const fn expanded_len_max(len: usize) -> usize {
    (len / COPY_BYTES + 1).saturating_mul(COPY_LEN_MAX)
}

/// Expands a block that holds exactly `len` bytes.
pub fn decompress(block: &[u8], len: usize) -> Result<Vec<u8>, RdbError> {
    const BROKEN: RdbError = RdbError::Format("compressed string");
    if len > expanded_len_max(block.len()) {
        return Err(BROKEN);
    }
    let mut out = Vec::with_capacity(len);
    let mut rest = block;
    while let Some((&control, after)) = rest.split_first() {
        rest = after;
        if usize::from(control) < LITERAL_LEN_MAX {
            let (literal, after) = rest.split_at_checked(usize::from(control) + 1).ok_or(BROKEN)?;
            out.extend_from_slice(literal);
            rest = after;
        } else {
            let mut copy = usize::from(control >> 5);
            if copy == 7 {
                let (&more, after) = rest.split_first().ok_or(BROKEN)?;
                copy += usize::from(more);
                rest = after;
            }
            copy += 2;
            let (&low, after) = rest.split_first().ok_or(BROKEN)?;
            rest = after;
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
            let start = out.len().checked_sub(distance).ok_or(BROKEN)?;
            if out.len() + copy > len {
                return Err(BROKEN);
            }
            if distance >= copy {
                out.extend_from_within(start..start + copy);
            } else {
                // What is copied is written by the copy itself: a pattern that repeats.
                for at in start..start + copy {
                    let byte = out.get(at).copied().ok_or(BROKEN)?;
                    out.push(byte);
                }
            }
        }
        if out.len() > len {
            return Err(BROKEN);
        }
    }
    if out.len() == len { Ok(out) } else { Err(BROKEN) }
}

/// Compresses; nothing if that would not save at least four bytes.
pub fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let out_len_max = bytes.len().checked_sub(4)?;
    let mut out = Vec::with_capacity(bytes.len() / 2);
    // The places where three bytes of a hash were met last, plus one.
    let mut places = vec![0u32; 1 << HASH_BITS];
    let mut literal_from = 0;
    let mut at = 0;
    while let Some([first, second, third]) = bytes.get(at..at + COPY_LEN_MIN) {
        let word = u32::from_le_bytes([*first, *second, *third, 0]);
        let slot = (word.wrapping_mul(2_654_435_761) >> (32 - HASH_BITS)) as usize;
        let place = places.get_mut(slot)?;
        let candidate = std::mem::replace(place, u32::try_from(at + 1).ok()?) as usize;
        let copy = match candidate.checked_sub(1) {
            Some(from) if at - from <= DISTANCE_MAX => matching(bytes, from, at),
            _ => 0,
        };
        if copy < COPY_LEN_MIN {
            at += 1;
            continue;
        }
        push_literals(&mut out, bytes.get(literal_from..at)?);
        let distance = at - candidate;
        let len = copy - 2;
        let high = (distance >> 8) as u8;
        if len < 7 {
            out.push((len as u8) << 5 | high);
        } else {
            out.push(7 << 5 | high);
            out.push((len - 7) as u8);
        }
        out.push(distance as u8);
        at += copy;
        literal_from = at;
        if out.len() > out_len_max {
            return None;
        }
    }
    push_literals(&mut out, bytes.get(literal_from..)?);
    (out.len() <= out_len_max).then_some(out)
}

/// How many bytes from `at` on are those from `from` on.
fn matching(bytes: &[u8], from: usize, at: usize) -> usize {
    let former = bytes.get(from..).unwrap_or_default();
    let now = bytes.get(at..).unwrap_or_default();
    former.iter().zip(now).take(COPY_LEN_MAX).take_while(|(one, other)| one == other).count()
}

fn push_literals(out: &mut Vec<u8>, literals: &[u8]) {
    for piece in literals.chunks(LITERAL_LEN_MAX) {
        out.push((piece.len() - 1) as u8);
        out.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_comes_back() {
        let mut random = crate::random::Random::new(1);
        for len in [0, 3, 20, 21, 100, 1000, 9000, 70_000] {
            for letters in [1, 2, 4, 20, 256] {
                let bytes: Vec<u8> = (0..len).map(|_| random.below(letters) as u8).collect();
                if let Some(block) = compress(&bytes) {
                    assert!(block.len() + 4 <= bytes.len());
                    assert_eq!(decompress(&block, bytes.len()).unwrap(), bytes);
                } else {
                    assert!(letters > 2 || len < 100, "{len} of {letters} compresses");
                }
            }
        }
    }

    #[test]
    fn broken_blocks_are_refused() {
        for (block, len) in [
            (&b"\x05abc"[..], 6),
            (b"\x02abc", 4),
            (b"\x02abc", 2),
            (b"\x02abc\x20", 6),
            (b"\x02abc\xe0", 6),
            (b"\x02abc\x20\x03", 6),
            (b"\x02abc\x20\x02", 5),
            (b"\x02abc", usize::MAX),
        ] {
            assert!(decompress(block, len).is_err(), "{block:?}");
        }
        assert_eq!(decompress(b"\x02abc\x20\x02", 6).unwrap(), b"abcabc");
        assert_eq!(decompress(b"\x00a\xe0\xff\x00", 265).unwrap(), [b'a'; 265]);
    }
}
