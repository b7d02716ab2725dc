//! What Redis had before listpacks: ziplists, zipmaps, and integer sets, which it still has. They are only read, but for
//! the last.

use super::listpack::{Element, signed};
use crate::encoding::RdbError;

const BROKEN_LIST: RdbError = RdbError::Format("ziplist");
const BROKEN_MAP: RdbError = RdbError::Format("zipmap");
const BROKEN_SET: RdbError = RdbError::Format("integer set");

/// A length that does not fit into one byte follows this one.
const LONG: u8 = 254;
const END: u8 = 255;

/// The elements of a ziplist: size, place of the last element and number of elements in ten bytes, then elements (the
/// length of the one before, the encoding, the bytes), then `0xff`.
pub fn ziplist(bytes: &[u8]) -> Result<Vec<Element<'_>>, RdbError> {
    const HEADER_LEN: usize = 10;
    const COUNT_UNKNOWN: u16 = u16::MAX;
    let (header, mut rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(BROKEN_LIST)?;
    let [a, b, c, d, e, f, g, h, low, high] = *header;
    let (size, tail) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    let count = u16::from_le_bytes([low, high]);
    if size as usize != bytes.len() {
        return Err(BROKEN_LIST);
    }
    let mut elements = Vec::new();
    let mut before = 0;
    let mut last = HEADER_LEN;
    loop {
        let start = rest.len();
        let (&first, after) = rest.split_first().ok_or(BROKEN_LIST)?;
        if first == END {
            let counted = count == COUNT_UNKNOWN || usize::from(count) == elements.len();
            return if after.is_empty() && counted && tail as usize == last { Ok(elements) } else { Err(BROKEN_LIST) };
        }
        let (former, after) = match first {
            LONG => {
                let (long, after) = after.split_first_chunk::<4>().ok_or(BROKEN_LIST)?;
                (u32::from_le_bytes(*long) as usize, after)
            }
            short => (usize::from(short), after),
        };
        if former != before {
            return Err(BROKEN_LIST);
        }
        let (element, after) = ziplist_element(after)?;
        elements.push(element);
        last = bytes.len() - start;
        before = start - after.len();
        rest = after;
    }
}

fn ziplist_element(bytes: &[u8]) -> Result<(Element<'_>, &[u8]), RdbError> {
    let (&first, after) = bytes.split_first().ok_or(BROKEN_LIST)?;
    let (len, after) = match first {
        0x00..=0x3f => (usize::from(first), after),
        0x40..=0x7f => {
            let (&low, after) = after.split_first().ok_or(BROKEN_LIST)?;
            (usize::from(first & 0x3f) << 8 | usize::from(low), after)
        }
        0x80 => {
            let (len, after) = after.split_first_chunk::<4>().ok_or(BROKEN_LIST)?;
            (u32::from_be_bytes(*len) as usize, after)
        }
        0xf1..=0xfd => return Ok((Element::Integer(i64::from(first & 0x0f) - 1), after)),
        _ => {
            let len = match first {
                0xc0 => 2,
                0xd0 => 4,
                0xe0 => 8,
                0xf0 => 3,
                0xfe => 1,
                _ => return Err(BROKEN_LIST),
            };
            let (number, after) = after.split_at_checked(len).ok_or(BROKEN_LIST)?;
            return Ok((Element::Integer(signed(number)), after));
        }
    };
    let (text, after) = after.split_at_checked(len).ok_or(BROKEN_LIST)?;
    Ok((Element::Text(text), after))
}

/// A field and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// The fields and values of a zipmap: the number of fields in a byte, then of each field its length and bytes, of each value
/// its length, how many bytes behind it are not used, and its bytes; then `0xff`.
pub fn zipmap(bytes: &[u8]) -> Result<Vec<Pair<'_>>, RdbError> {
    let (&count, mut rest) = bytes.split_first().ok_or(BROKEN_MAP)?;
    let mut fields = Vec::new();
    loop {
        if rest == [END] {
            let counted = count >= LONG || usize::from(count) == fields.len();
            return if counted { Ok(fields) } else { Err(BROKEN_MAP) };
        }
        let (len, after) = zipmap_length(rest)?;
        let (name, after) = after.split_at_checked(len).ok_or(BROKEN_MAP)?;
        let (len, after) = zipmap_length(after)?;
        let (&unused, after) = after.split_first().ok_or(BROKEN_MAP)?;
        let (value, after) = after.split_at_checked(len).ok_or(BROKEN_MAP)?;
        rest = after.get(usize::from(unused)..).ok_or(BROKEN_MAP)?;
        fields.push((name, value));
    }
}

fn zipmap_length(bytes: &[u8]) -> Result<(usize, &[u8]), RdbError> {
    let (&first, after) = bytes.split_first().ok_or(BROKEN_MAP)?;
    match first {
        END => Err(BROKEN_MAP),
        LONG => {
            let (long, after) = after.split_first_chunk::<4>().ok_or(BROKEN_MAP)?;
            Ok((u32::from_le_bytes(*long) as usize, after))
        }
        short => Ok((usize::from(short), after)),
    }
}

/// The members of an integer set: the width and the number of members in eight bytes, then the members in order.
pub fn integers(bytes: &[u8]) -> Result<Vec<i64>, RdbError> {
    let (width, rest) = bytes.split_first_chunk::<4>().ok_or(BROKEN_SET)?;
    let (count, rest) = rest.split_first_chunk::<4>().ok_or(BROKEN_SET)?;
    let width = u32::from_le_bytes(*width) as usize;
    let count = u32::from_le_bytes(*count) as usize;
    if !matches!(width, 2 | 4 | 8) || count.checked_mul(width) != Some(rest.len()) {
        return Err(BROKEN_SET);
    }
    let members: Vec<i64> = rest.chunks_exact(width).map(signed).collect();
    if members.is_sorted_by(|one, other| one < other) { Ok(members) } else { Err(BROKEN_SET) }
}

/// An integer set of members in order.
pub fn integers_bytes(members: &[i64]) -> Vec<u8> {
    let fits = |least: i64, most: i64| members.iter().all(|member| (least..=most).contains(member));
    let width = if fits(i16::MIN.into(), i16::MAX.into()) {
        2
    } else if fits(i32::MIN.into(), i32::MAX.into()) {
        4
    } else {
        8
    };
    let mut bytes = Vec::with_capacity(8 + members.len() * width);
    bytes.extend((width as u32).to_le_bytes());
    bytes.extend((members.len() as u32).to_le_bytes());
    members.iter().for_each(|member| bytes.extend(member.to_le_bytes().iter().take(width)));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_sets_come_back() {
        for members in [&[][..], &[1, 2, 300], &[-70_000, 5], &[i64::MIN, 0, i64::MAX]] {
            assert_eq!(integers(&integers_bytes(members)).unwrap(), members);
        }
        for broken in [
            &b"\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00"[..],
            b"\x02\x00\x00\x00\x02\x00\x00\x00\x02\x00\x01\x00",
            b"\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x01\x00",
            b"\x03\x00\x00\x00\x00\x00\x00\x00",
            b"\x08\x00\x00\x00\xff\xff\xff\xff",
        ] {
            assert!(integers(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn zipmaps_are_read() {
        let map = b"\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xff";
        let expected: Vec<Pair<'_>> = vec![(b"foo", b"bar"), (b"hello", b"world")];
        assert_eq!(zipmap(map).unwrap(), expected);
        for end in 0..map.len() {
            assert!(zipmap(&map[..end]).is_err(), "{end}");
        }
        assert!(zipmap(b"\x01\xff").is_err());
    }

    #[test]
    fn ziplists_are_read() {
        let list = b"\x1b\x00\x00\x00\x17\x00\x00\x00\x04\x00\x00\x01a\x03\xf2\x02\xfe\xfe\x03\xc0\x00\x01\xff";
        let mut list = list.to_vec();
        list[0] = list.len() as u8;
        list[4] = list.len() as u8 - 5;
        let expected = [Element::Text(b"a"), Element::Integer(1), Element::Integer(-2), Element::Integer(256)];
        assert_eq!(ziplist(&list).unwrap(), expected);
        for end in 0..list.len() {
            assert!(ziplist(&list[..end]).is_err(), "{end}");
        }
        for at in 0..11 {
            let mut broken = list.clone();
            broken[at] ^= 4;
            assert!(ziplist(&broken).is_err(), "{at}");
        }
    }
}
