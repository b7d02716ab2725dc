//! Regular expressions over bytes.
//!
//! HAProxy and Varnish use PCRE. Patterns that the linear-time engine of the `regex` crate takes go there: they cannot be made to
//! backtrack by what a client sends. The others (look-around, back-references, possessive groups) go to `fancy-regex`,
//! whose backtracking is bounded; a match that passes the bound is no match.

mod dialect;
mod literal;
mod simple;

use basics::hex;
use std::fmt;
use std::ops::Range;

pub use literal::Outline;

/// Steps of backtracking after which a match is given up.
const BACKTRACK_LIMIT: usize = 100_000;
/// Most bytes of memory that one compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 4 << 20;
/// Most groups of a match that a replacement can refer to.
const GROUPS_MAX: usize = 10;

/// A compiled regular expression.
#[derive(Clone)]
pub struct Regex {
    pattern: Box<[u8]>,
    engine: Engine,
    /// What says whether there is a match without the engine.
    simple: Option<simple::Simple>,
}

#[derive(Clone)]
enum Engine {
    Linear(regex::bytes::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// A search took more steps than it may, and was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooHard;

/// Where a match and its groups are; group 0 is the whole match.
pub type Groups = Vec<Option<Range<usize>>>;

impl Regex {
    /// Compiles `pattern`.
    ///
    /// # Errors
    /// What is wrong with the pattern, in words.
    pub fn new(pattern: &[u8], ignore_case: bool) -> Result<Self, String> {
        let translated = dialect::translate(pattern);
        let linear = regex::bytes::RegexBuilder::new(&translated)
            .case_insensitive(ignore_case)
            .unicode(false)
            .size_limit(COMPILED_BYTES_MAX)
            .build();
        let engine = match linear {
            Ok(regex) => Engine::Linear(regex),
            Err(first) => {
                let backtracking = fancy_regex::RegexBuilder::new(&translated)
                    .bytes_mode(fancy_regex::BytesMode::Ascii)
                    .case_insensitive(ignore_case)
                    .backtrack_limit(BACKTRACK_LIMIT)
                    .delegate_size_limit(COMPILED_BYTES_MAX)
                    .build();
                match backtracking {
                    Ok(regex) => Engine::Backtracking(Box::new(regex)),
                    Err(_) => return Err(reason(&first)),
                }
            }
        };
        let simple = simple::Simple::of(&translated, ignore_case).filter(|_| matches!(engine, Engine::Linear(_)));
        Ok(Regex { pattern: pattern.into(), engine, simple })
    }

    /// What is known of a pattern without compiling it: it is valid, and small. None when that can only be known by
    /// compiling it.
    #[must_use]
    pub fn outline(pattern: &[u8], ignore_case: bool) -> Option<Outline> {
        literal::outline(&dialect::translate(pattern), ignore_case)
    }

    /// The pattern as written.
    #[must_use]
    pub fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// Whether some part of `subject` matches.
    #[must_use]
    pub fn is_match(&self, subject: &[u8]) -> bool {
        self.try_match(subject).unwrap_or(false)
    }

    /// The same, told apart from a search that was given up.
    ///
    /// # Errors
    /// The search was given up.
    pub fn try_match(&self, subject: &[u8]) -> Result<bool, TooHard> {
        if let Some(simple) = &self.simple {
            return Ok(simple.is_match(subject));
        }
        match &self.engine {
            Engine::Linear(regex) => Ok(regex.is_match(subject)),
            Engine::Backtracking(regex) => regex.is_match(subject).map_err(|_| TooHard),
        }
    }

    /// The groups of the first match at or after `start`.
    #[must_use]
    pub fn groups_at(&self, subject: &[u8], start: usize) -> Option<Groups> {
        if start > subject.len() {
            return None;
        }
        match &self.engine {
            Engine::Linear(regex) => {
                let captures = regex.captures_at(subject, start)?;
                Some(captures.iter().take(GROUPS_MAX).map(|group| group.map(|group| group.range())).collect())
            }
            Engine::Backtracking(regex) => {
                let captures = regex.captures_from_pos(subject, start).ok()??;
                Some(captures.iter().take(GROUPS_MAX).map(|group| group.map(|group| group.range())).collect())
            }
        }
    }

    /// The groups of the first match.
    #[must_use]
    pub fn groups(&self, subject: &[u8]) -> Option<Groups> {
        self.groups_at(subject, 0)
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Regex({:?})", String::from_utf8_lossy(&self.pattern))
    }
}

/// Writes `template` with `\0` to `\9` replaced by the groups of a match and `\xNN` by a byte; any other escaped character
/// stands for itself.
pub fn expand(template: &[u8], subject: &[u8], groups: &[Option<Range<usize>>], output: &mut Vec<u8>) {
    let mut rest = template;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'\\' {
            output.push(*first);
            continue;
        }
        match rest {
            [digit @ b'0'..=b'9', tail @ ..] => {
                rest = tail;
                if let Some(Some(range)) = groups.get(usize::from(digit - b'0')) {
                    output.extend_from_slice(subject.get(range.clone()).unwrap_or_default());
                }
            }
            [b'x', high, low, tail @ ..] => match (hex::value(*high), hex::value(*low)) {
                (Some(high), Some(low)) => {
                    rest = tail;
                    output.push(high << 4 | low);
                }
                _ => output.push(b'\\'),
            },
            [other, tail @ ..] => {
                rest = tail;
                output.push(*other);
            }
            [] => {}
        }
    }
}

fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once("error: ") {
        Some((_, reason)) => reason.to_owned(),
        None => text,
    }
}
