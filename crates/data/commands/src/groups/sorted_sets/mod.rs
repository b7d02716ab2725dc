//! Sorted sets.

pub mod change;
pub mod combine;
pub mod pop;
pub mod random;
pub mod range;
pub mod read;
mod steps;

#[cfg(test)]
mod tests;

use keyspace::{
    Bytes, Expiry, Failure, Value,
    changes::EventClass,
    value::{
        SortedSet,
        sorted_set::{Member, OrderBound, Ranks, SmallLimits},
    },
};

use crate::Context;

const GROUP: &str = "sorted-set";

/// The limits of small sets.
pub(super) fn limits(context: &Context<'_>) -> SmallLimits {
    context.shared.settings.sorted_set_limits()
}

/// Puts a result of distinct members into a key, or removes that if there are none. Returns how many there are.
pub(super) fn store(
    context: &mut Context<'_>,
    key: &[u8],
    members: Vec<Member>,
    event: &'static str,
) -> Result<usize, Failure> {
    let count = members.len();
    if count == 0 {
        if context.keys.remove(key)? {
            context.keys.modified(key);
            context.keys.notify(EventClass::GENERIC, "del", key);
        }
        return Ok(0);
    }
    let limits = limits(context);
    let set = SortedSet::from_members(context.keys.space().seed, limits, members);
    store_set(context, key, set, event)
}

/// The same with members that are a set already.
pub(super) fn store_set(
    context: &mut Context<'_>,
    key: &[u8],
    set: SortedSet,
    event: &'static str,
) -> Result<usize, Failure> {
    let count = set.len();
    if count == 0 {
        return store(context, key, Vec::new(), event);
    }
    context.keys.set(key, Value::SortedSet(Box::new(set)), Expiry::Clear)?;
    context.keys.modified(key);
    context.keys.notify(EventClass::SORTED_SET, event, key);
    Ok(count)
}

/// An end of a range.
#[derive(Debug, Clone, Copy)]
pub(super) enum End<'a> {
    /// In front of all members.
    First,
    /// Behind all of them.
    Last,
    /// Between members.
    At(OrderBound<'a>),
}

impl End<'_> {
    fn rank(&self, set: &SortedSet) -> usize {
        match self {
            Self::First => 0,
            Self::Last => set.len(),
            Self::At(place) => set.rank_of(place),
        }
    }
}

/// A range by score or by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Between<'a> {
    from: End<'a>,
    to: End<'a>,
}

impl<'a> Between<'a> {
    /// A range of scores; `(` excludes the bound.
    pub(super) fn scores(min: &[u8], max: &[u8]) -> Result<Self, Failure> {
        let (min, min_excluded) = score_bound(min)?;
        let (max, max_excluded) = score_bound(max)?;
        let from = if min_excluded { OrderBound::AfterScore(min) } else { OrderBound::BeforeScore(min) };
        let to = if max_excluded { OrderBound::BeforeScore(max) } else { OrderBound::AfterScore(max) };
        Ok(Self { from: End::At(from), to: End::At(to) })
    }

    /// A range of names: `[` or `(` in front of them, `-` and `+` for the first and the last.
    pub(super) fn names(min: &'a [u8], max: &'a [u8]) -> Result<Self, Failure> {
        const INVALID: Failure = Failure::text("ERR min or max not valid string range item");
        let end = |text: &'a [u8], is_min: bool| match text {
            b"-" => Ok(End::First),
            b"+" => Ok(End::Last),
            [b'[', name @ ..] if is_min => Ok(End::At(OrderBound::BeforeName(name))),
            [b'[', name @ ..] => Ok(End::At(OrderBound::AfterName(name))),
            [b'(', name @ ..] if is_min => Ok(End::At(OrderBound::AfterName(name))),
            [b'(', name @ ..] => Ok(End::At(OrderBound::BeforeName(name))),
            _ => Err(INVALID),
        };
        Ok(Self { from: end(min, true)?, to: end(max, false)? })
    }

    /// The ranks of its members in a set.
    pub(super) fn ranks(&self, set: &SortedSet) -> Ranks {
        let from = self.from.rank(set);
        from..self.to.rank(set).max(from)
    }
}

/// A bound as C's `strtod` reads it: with blanks in front, and nothing is 0.
fn score_bound(text: &[u8]) -> Result<(f64, bool), Failure> {
    let (text, excluded) = match text {
        [b'(', rest @ ..] => (rest, true),
        all => (all, false),
    };
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Ok((0.0, excluded));
    }
    let value = keyspace::number::parse_float_bound(text).ok_or(Failure::NotScoreRange)?;
    Ok((value, excluded))
}

/// The ranks between two indices, of which negative ones count from the end.
pub(super) fn between_indices(first: i64, last: i64, len: usize) -> Ranks {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_start = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let first = from_start(first).max(0);
    let last = from_start(last).min(len - 1);
    if first > last {
        return 0..0;
    }
    usize::try_from(first).unwrap_or(0)..usize::try_from(last + 1).unwrap_or(0)
}

/// The words of a command, to be propagated.
pub(super) fn words(words: &[&[u8]]) -> Vec<Bytes> {
    words.iter().map(|word| Bytes::from_slice(word)).collect()
}
