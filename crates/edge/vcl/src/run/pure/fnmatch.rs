//! Patterns of file names, as fnmatch(3) of the C library matches them.

/// How a pattern is meant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    /// A slash is matched by a slash alone.
    pub pathname: bool,
    /// A backslash is a character like any other.
    pub no_escape: bool,
    /// A period at the start is matched by a period alone.
    pub period: bool,
}

/// Whether all of `subject` matches. What is behind a star is tried at most once for each place in the subject: a later star, or a slash,
/// makes earlier ones final.
pub(super) fn matches(pattern: &[u8], subject: &[u8], flags: Flags) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let is_leading = flags.period
            && subject.get(place) == Some(&b'.')
            && (place == 0 || flags.pathname && subject.get(place - 1) == Some(&b'/'));
        if pattern.get(at) == Some(&b'*') && !is_leading {
            at += 1;
            star = Some((at, place));
            continue;
        }
        match subject.get(place) {
            None if at == pattern.len() => return true,
            None if pattern.get(at..).is_some_and(|rest| rest.iter().all(|sign| *sign == b'*')) => return true,
            Some(byte) => {
                if let Some(next) = one(pattern, at, *byte, is_leading, flags) {
                    at = next;
                    place += 1;
                    if flags.pathname && *byte == b'/' {
                        star = None;
                    }
                    continue;
                }
            }
            None => {}
        }
        // The last star takes one more.
        match star {
            Some((behind, from)) if subject.get(from).is_some_and(|byte| !(flags.pathname && *byte == b'/')) => {
                at = behind;
                place = from + 1;
                star = Some((behind, from + 1));
            }
            _ => return false,
        }
    }
}

/// Where the pattern goes on, if what stands at `at` matches one byte.
fn one(pattern: &[u8], at: usize, byte: u8, is_leading: bool, flags: Flags) -> Option<usize> {
    let sign = *pattern.get(at)?;
    let is_slash = flags.pathname && byte == b'/';
    match sign {
        b'?' => (!is_slash && !is_leading).then_some(at + 1),
        b'[' => match bracket(pattern, at + 1, byte, flags) {
            Some((found, next)) => (found && !is_slash && !is_leading).then_some(next),
            None => (byte == b'[').then_some(at + 1),
        },
        b'\\' if !flags.no_escape => {
            let escaped = *pattern.get(at + 1)?;
            (escaped == byte).then_some(at + 2)
        }
        sign => (sign == byte).then_some(at + 1),
    }
}

/// Whether a bracket expression has a byte, and where it ends; `None` for one that does not end.
fn bracket(pattern: &[u8], start: usize, byte: u8, flags: Flags) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(start), Some(b'!' | b'^'));
    let first = start + usize::from(negated);
    let mut at = first;
    let mut found = false;
    loop {
        let sign = *pattern.get(at)?;
        if sign == b']' && at > first {
            return Some((found != negated, at + 1));
        }
        if sign == b'['
            && pattern.get(at + 1) == Some(&b':')
            && let Some((is_member, next)) = class(pattern, at + 2, byte)
        {
            found |= is_member;
            at = next;
            continue;
        }
        let (low, next) = literal(pattern, at, flags)?;
        at = next;
        if pattern.get(at) == Some(&b'-') && pattern.get(at + 1).is_some_and(|sign| *sign != b']') {
            let (high, next) = literal(pattern, at + 1, flags)?;
            found |= (low..=high).contains(&byte);
            at = next;
        } else {
            found |= low == byte;
        }
    }
}

fn literal(pattern: &[u8], at: usize, flags: Flags) -> Option<(u8, usize)> {
    match *pattern.get(at)? {
        b'\\' if !flags.no_escape => Some((*pattern.get(at + 1)?, at + 2)),
        sign => Some((sign, at + 1)),
    }
}

/// `alpha:]`: whether the class has a byte, and where it ends.
fn class(pattern: &[u8], start: usize, byte: u8) -> Option<(bool, usize)> {
    let rest = pattern.get(start..)?;
    let length = rest.windows(2).position(|two| two == b":]")?;
    let is_member = match rest.get(..length)? {
        b"alpha" => byte.is_ascii_alphabetic(),
        b"digit" => byte.is_ascii_digit(),
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"upper" => byte.is_ascii_uppercase(),
        b"lower" => byte.is_ascii_lowercase(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"punct" => byte.is_ascii_punctuation(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"graph" => byte.is_ascii_graphic(),
        b"cntrl" => byte.is_ascii_control(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    };
    Some((is_member, start + length + 2))
}
