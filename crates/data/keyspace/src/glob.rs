//! Patterns as `KEYS`, `PSUBSCRIBE` and `CONFIG GET` have them: `*`, `?`, `[a-c]`, `[^a]`, `\x`.

/// Whether a text matches a pattern. Time is at most the product of their lengths: of several `*` only the last is tried
/// again, as what an earlier one could take is no use to a later part.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    walk(pattern, text, false)
}

/// The same without regard to the case of ASCII letters.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    walk(pattern, text, true)
}

fn walk(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut pattern_at, mut text_at) = (0, 0);
    // Where to go on when what follows the last star did not match: the pattern after the star, the text a byte later.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pattern.get(pattern_at) {
            Some(b'*') => {
                pattern_at += 1;
                retry = Some((pattern_at, text_at));
                continue;
            }
            Some(_) => {
                if let Some(byte) = text.get(text_at)
                    && let Some(next) = one(pattern, pattern_at, *byte, ignore_case)
                {
                    pattern_at = next;
                    text_at += 1;
                    continue;
                }
            }
            None if text_at == text.len() => return true,
            None => {}
        }
        match retry {
            Some((star, from)) if from < text.len() => {
                pattern_at = star;
                text_at = from + 1;
                retry = Some((star, text_at));
            }
            _ => return false,
        }
    }
}

/// Matches one byte against the element of the pattern that begins at `at`; gives where the next one begins.
fn one(pattern: &[u8], at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
    let same = |other: u8| fold(other) == fold(byte);
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'\\' => match pattern.get(at + 1) {
            Some(escaped) => same(*escaped).then_some(at + 2),
            None => same(b'\\').then_some(at + 1),
        },
        b'[' => class(pattern, at + 1, fold(byte), fold),
        literal => same(literal).then_some(at + 1),
    }
}

fn class(pattern: &[u8], mut at: usize, byte: u8, fold: impl Fn(u8) -> u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    if negated {
        at += 1;
    }
    let mut found = false;
    loop {
        match pattern.get(at) {
            Some(b'\\') if pattern.get(at + 1).is_some() => {
                found |= pattern.get(at + 1).is_some_and(|escaped| fold(*escaped) == byte);
                at += 2;
            }
            Some(b']') => {
                at += 1;
                break;
            }
            // A class that is not closed ends with the pattern.
            None => break,
            Some(first) => {
                if pattern.get(at + 1) == Some(&b'-')
                    && let Some(last) = pattern.get(at + 2)
                {
                    let (first, last) = (fold(*first), fold(*last));
                    found |= (first.min(last)..=first.max(last)).contains(&byte);
                    at += 3;
                } else {
                    found |= fold(*first) == byte;
                    at += 1;
                }
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hbllo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            // An input of the fuzzer: a range upside down, and a class that is not closed.
            ("*[\u{d2}oh-$a", "h[~-c]*S", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("a[\\]]b", "a]b", true),
            ("a[b", "ab", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("key:*:x", "key:1:2:x", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        assert!(matches_ignoring_case(b"MAX*", b"maxmemory"));
        assert!(!matches(b"MAX*", b"maxmemory"));
    }

    #[test]
    fn many_stars_do_not_explode() {
        assert!(!matches(format!("{}b", "a*".repeat(40)).as_bytes(), "a".repeat(3000).as_bytes()));
    }
}
