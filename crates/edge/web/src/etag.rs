//! Entity tags of files (RFC 9110 section 8.8.3), as nginx writes them: `"mtime-size"` in hexadecimal digits, so that caches keep what
//! they have when a site moves from nginx to here.
//!
//! A tag of seconds cannot tell two versions of one second and one length apart. While a file is so new that it may change again in the
//! second of its modification, the tag is a weak one (RFC 9110 section 8.8.1): no range is put together with it.

use http::Coding;

use crate::respond::FileFacts;

/// What a tag is made of besides the time of modification and the length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagRule {
    /// The inode, which tells files that were put in place by renaming apart. It differs from machine to machine.
    pub inode: bool,
    /// The nanoseconds of the modification. They differ after copies that keep seconds alone (`rsync` without `-t`, archives).
    pub nanoseconds: bool,
}

/// Bytes of the longest tag.
pub const TAG_BYTES_MAX: usize = 96;

/// Seconds after which a file is taken for one that does not change again in the second of its modification.
const SETTLED_SECONDS: i64 = 2;

/// Appends the tag of a file. `coding` is that of the precompressed file, or of the compression on the fly.
pub fn push_tag(rule: TagRule, file: &FileFacts, coding: Option<Coding>, now: i64, out: &mut Vec<u8>) {
    if is_unsettled(rule, file, now) {
        out.extend_from_slice(b"W/");
    }
    out.push(b'"');
    push_hex(file.modified.cast_unsigned(), out);
    if rule.nanoseconds {
        out.push(b'.');
        push_hex(file.nanoseconds.into(), out);
    }
    out.push(b'-');
    push_hex(file.length, out);
    if rule.inode {
        out.push(b'-');
        push_hex(file.inode, out);
    }
    if let Some(coding) = coding.filter(|coding| *coding != Coding::Identity) {
        out.push(b'-');
        out.extend_from_slice(coding.token().as_bytes());
    }
    out.push(b'"');
}

/// Whether another version may come to be that has the same tag.
fn is_unsettled(rule: TagRule, file: &FileFacts, now: i64) -> bool {
    !rule.nanoseconds && now.saturating_sub(file.modified) < SETTLED_SECONDS && now >= file.modified
}

fn push_hex(number: u64, out: &mut Vec<u8>) {
    let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        let nibble = u8::try_from(number >> (place * 4) & 15).unwrap_or(0);
        out.push(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: TagRule, coding: Option<Coding>, now: i64, expected: &str) {
        let file = FileFacts { length: 612, modified: 0x637f_3a5d, nanoseconds: 0xabc, inode: 0x1234 };
        let mut tag = Vec::new();
        push_tag(rule, &file, coding, now, &mut tag);
        assert_eq!(String::from_utf8_lossy(&tag), expected);
    }

    #[test]
    fn tags() {
        let (plain, later) = (TagRule::default(), 2_000_000_000);
        check(plain, None, later, "\"637f3a5d-264\"");
        check(plain, Some(Coding::Identity), later, "\"637f3a5d-264\"");
        check(plain, Some(Coding::Gzip), later, "\"637f3a5d-264-gzip\"");
        check(plain, Some(Coding::Brotli), later, "\"637f3a5d-264-br\"");
        check(TagRule { inode: true, ..plain }, None, later, "\"637f3a5d-264-1234\"");
        check(TagRule { nanoseconds: true, ..plain }, None, later, "\"637f3a5d.abc-264\"");
    }

    #[test]
    fn a_file_that_has_just_changed_has_a_weak_tag() {
        let plain = TagRule::default();
        check(plain, None, 0x637f_3a5d, "W/\"637f3a5d-264\"");
        check(plain, None, 0x637f_3a5e, "W/\"637f3a5d-264\"");
        check(plain, None, 0x637f_3a5f, "\"637f3a5d-264\"");
        // One of the future keeps its tag: it is no time at which this could be told.
        check(plain, None, 0x637f_3a5c, "\"637f3a5d-264\"");
        check(TagRule { nanoseconds: true, ..plain }, None, 0x637f_3a5d, "\"637f3a5d.abc-264\"");
    }

    #[test]
    fn odd_numbers() {
        let mut out = Vec::new();
        for number in [0, 1, 15, 16, u64::MAX] {
            push_hex(number, &mut out);
            out.push(b' ');
        }
        assert_eq!(out, b"0 1 f 10 ffffffffffffffff ");
    }
}
