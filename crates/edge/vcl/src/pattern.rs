//! Regular expressions with the meaning of PCRE2, in bounded time.

use std::fmt;

use pcre2::bytes::{Regex, RegexBuilder};

/// How many steps one match may take (Varnish's `pcre2_match_limit`).
pub const MATCH_STEPS_MAX: u32 = 10_000;

/// Patterns of more bytes are refused.
pub const PATTERN_BYTES_MAX: usize = 16_384;

/// Groups that a substitution can name: `\0` to `\9`.
const GROUPS_MAX: usize = 10;

/// A compiled regular expression.
#[derive(Clone)]
pub struct Pattern {
    regex: Regex,
    text: Box<str>,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pattern({:?})", self.text)
    }
}

/// A match took too long, or more memory than it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooHard;

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What PCRE2 says, and the byte at which it says so.
    pub fn new(text: &str) -> Result<Self, (String, usize)> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err((format!("regular expression is longer than {PATTERN_BYTES_MAX} bytes"), 0));
        }
        let bound = format!("(*LIMIT_MATCH={MATCH_STEPS_MAX})");
        let compiled = RegexBuilder::new().jit_if_available(true).build(&format!("{bound}{text}"));
        compiled.map(|regex| Self { regex, text: text.into() }).map_err(|error| {
            let offset = error.offset().unwrap_or(bound.len()).saturating_sub(bound.len());
            let message = error.to_string();
            // The crate's message begins with where the error is, which is told apart from it.
            let words = message.rsplit_once(&format!("at offset {}: ", error.offset().unwrap_or(0)));
            let words = words.map_or(message.as_str(), |(_, words)| words).to_owned();
            (words, offset)
        })
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
        self.regex.is_match(subject).map_err(|_| TooHard)
    }

    /// Writes `subject` with the first place that matches, or all of them, as `replacement` says: `\0` and `\&` stand for what
    /// matched, `\1` to `\9` for its groups. `None` when nothing matches.
    ///
    /// # Errors
    /// The search was given up.
    pub fn substitute(&self, subject: &[u8], replacement: &[u8], all: bool) -> Result<Option<Vec<u8>>, TooHard> {
        let mut locations = self.regex.capture_locations();
        let mut out = Vec::new();
        let (mut copied, mut at, mut found) = (0, 0, false);
        while at <= subject.len() {
            let matched = self.regex.captures_read_at(&mut locations, subject, at).map_err(|_| TooHard)?;
            let Some((start, end)) = matched.map(|matched| (matched.start(), matched.end())) else { break };
            found = true;
            out.extend_from_slice(subject.get(copied..start).unwrap_or_default());
            expand(&mut out, replacement, |group| {
                locations.get(group).and_then(|(start, end)| subject.get(start..end)).unwrap_or_default()
            });
            copied = end;
            if !all {
                break;
            }
            at = end;
            if start == end {
                // An empty match moves on by a byte, which stays.
                out.extend_from_slice(subject.get(end..=end).unwrap_or_default());
                at += 1;
                copied = at.min(subject.len());
            }
        }
        if !found {
            return Ok(None);
        }
        out.extend_from_slice(subject.get(copied..).unwrap_or_default());
        Ok(Some(out))
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
                debug_assert!(index < GROUPS_MAX);
                out.extend_from_slice(group(index));
                rest = rest.get(at + 2..).unwrap_or_default();
            }
            Some(b'&') => {
                out.extend_from_slice(group(0));
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
