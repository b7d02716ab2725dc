//! Regular expressions and what is put in place of what they find.

use pcre::Regex;
pub use pcre::TooHard;

/// Patterns of more bytes are refused.
pub const PATTERN_BYTES_MAX: usize = 16_384;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    text: Box<str>,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("regular expression is longer than {PATTERN_BYTES_MAX} bytes"));
        }
        Regex::new(text.as_bytes(), false).map(|regex| Self { regex, text: text.into() })
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is found in `subject`.
    ///
    /// # Errors
    /// The search was given up.
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, TooHard> {
        self.regex.try_match(subject)
    }

    /// Writes `subject` with the first place that matches, or all of them, as `replacement` says: `\0` and `\&` stand for what
    /// matched, `\1` to `\9` for its groups. `None` when nothing matches.
    #[must_use]
    pub fn substitute(&self, subject: &[u8], replacement: &[u8], all: bool) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let (mut copied, mut at, mut found) = (0, 0, false);
        while let Some(groups) = self.regex.groups_at(subject, at) {
            let Some(whole) = groups.first().cloned().flatten() else { break };
            if found && whole.is_empty() {
                // NOTE: as in Varnish only the first match may be empty.
                at = whole.end + 1;
                continue;
            }
            found = true;
            out.extend_from_slice(subject.get(copied..whole.start).unwrap_or_default());
            expand(&mut out, replacement, |group| {
                groups.get(group).cloned().flatten().and_then(|range| subject.get(range)).unwrap_or_default()
            });
            copied = whole.end;
            if !all {
                break;
            }
            at = whole.end;
        }
        out.extend_from_slice(subject.get(copied..).unwrap_or_default());
        found.then_some(out)
    }
}

/// Writes a replacement with its groups.
fn expand<'s>(out: &mut Vec<u8>, replacement: &[u8], group: impl Fn(usize) -> &'s [u8]) {
    let mut rest = replacement;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        match rest.get(at + 1) {
            Some(digit) if digit.is_ascii_digit() => {
                let index = usize::from(digit - b'0');
                out.extend_from_slice(group(index));
                rest = rest.get(at + 2..).unwrap_or_default();
            }
            Some(other) => {
                out.push(*other);
                rest = rest.get(at + 2..).unwrap_or_default();
            }
            None => {
                out.push(b'\\');
                rest = &[];
            }
        }
    }
    out.extend_from_slice(rest);
}
