//! What an expression asks of a record.

use pcre::Regex;

use crate::ring::Tag;

use super::{Entry, lexer::Comparison, selection::Selection};

#[derive(Clone, Debug)]
pub(super) enum Test {
    /// `vxid`: the number of the transaction.
    Transaction(Comparison, u64),
    /// A record, and what is asked of it.
    Record(Selection, Condition),
}

#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// That it is there.
    Exists,
    /// That it begins with such a number; of one with a fraction its whole part counts.
    Integer(Comparison, i64),
    /// That it begins with such a number.
    Float(Comparison, f64),
    /// That it is this text, or (`ne`) another one.
    Text {
        equal: bool,
        text: String,
    },
    Pattern {
        negated: bool,
        pattern: Regex,
    },
}

impl Test {
    /// Whether records of this tag may pass; the number of a transaction is a matter of none.
    pub(super) fn asks_about(&self, tag: Tag) -> bool {
        matches!(self, Self::Record(selection, _) if selection.tags.contains(tag.number()))
    }

    pub(super) fn passes(&self, entry: &Entry<'_>) -> bool {
        match self {
            Self::Transaction(comparison, number) => comparison.holds(&entry.transaction, number),
            Self::Record(selection, condition) => selection.part(entry).is_some_and(|part| condition.holds(part)),
        }
    }
}

impl Condition {
    fn holds(&self, part: &[u8]) -> bool {
        match self {
            Self::Exists => true,
            Self::Integer(comparison, number) => {
                leading_integer(part).is_some_and(|value| comparison.holds(&value, number))
            }
            Self::Float(comparison, number) => {
                leading_float(part).is_some_and(|value| comparison.holds(&value, number))
            }
            Self::Text { equal, text } => (part == text.as_bytes()) == *equal,
            Self::Pattern { negated, pattern } => pattern.is_match(part) != *negated,
        }
    }
}

impl Comparison {
    fn holds<T: PartialOrd>(self, value: &T, than: &T) -> bool {
        match self {
            Self::Equal => value == than,
            Self::NotEqual => value != than,
            Self::Less => value < than,
            Self::LessOrEqual => value <= than,
            Self::Greater => value > than,
            Self::GreaterOrEqual => value >= than,
        }
    }
}

/// A sign and digits at the beginning of a text, and how many bytes they are.
fn leading_digits(text: &[u8]) -> Option<(&str, usize)> {
    let sign = usize::from(text.first().is_some_and(|byte| matches!(byte, b'+' | b'-')));
    let digits = text.iter().skip(sign).take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(text.get(..sign + digits)?).ok()?;
    Some((number, digits))
}

/// The number that a text begins with; one that is too large is the largest there is.
fn leading_integer(text: &[u8]) -> Option<i64> {
    let (number, digits) = leading_digits(text.trim_ascii_start())?;
    if digits == 0 {
        return None;
    }
    let bound = if number.starts_with('-') { i64::MIN } else { i64::MAX };
    Some(number.parse().unwrap_or(bound))
}

fn leading_float(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii_start();
    let (whole, digits) = leading_digits(text)?;
    let behind = text.get(whole.len()..).unwrap_or_default();
    let fraction = match behind.split_first() {
        Some((b'.', rest)) => 1 + rest.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 0,
    };
    if digits + fraction.saturating_sub(1) == 0 {
        return None;
    }
    std::str::from_utf8(text.get(..whole.len() + fraction)?).ok()?.parse().ok()
}
