//! What sample fetches and converters ask of an entry, and what some of them change in it.

use crate::{data::DataType, entry::Entry, frequency::tick};

/// A general counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpc {
    /// `gpc0`, or the first of the array.
    First,
    /// `gpc1`, or the second of the array.
    Second,
    /// One of the array.
    Element(u32),
}

impl Gpc {
    const fn counter(self) -> (DataType, u32) {
        match self {
            Self::First => (DataType::Gpc0, 0),
            Self::Second => (DataType::Gpc1, 0),
            Self::Element(index) => (DataType::Gpc, index),
        }
    }

    const fn rate(self) -> (DataType, u32) {
        match self {
            Self::First => (DataType::Gpc0Rate, 0),
            Self::Second => (DataType::Gpc1Rate, 0),
            Self::Element(index) => (DataType::GpcRate, index),
        }
    }
}

/// A question about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// Whether there is one.
    Exists,
    /// How many track it.
    Trackers,
    /// A value: of a rate, the events of the last period.
    Value(DataType, u32),
    /// A number of bytes in units of 1024.
    Kilobytes(DataType),
    /// Adds one to a general counter and its rate; the counter, or what the rate has counted in its period.
    Increment(Gpc),
    /// Sets a general counter to zero; what it was.
    Clear(Gpc),
    /// Adds one to the connections; how many they are now.
    CountConnection,
    /// Milliseconds until it expires.
    Expire,
    /// Milliseconds since it was used.
    Idle,
}

impl Query {
    /// Whether it changes the entry, so that one is made where there is none.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(self, Self::Increment(_) | Self::Clear(_) | Self::CountConnection)
    }

    /// The answer of an entry; none when what is asked for is not stored.
    #[must_use]
    pub fn answer(self, entry: &mut Entry<'_>) -> Option<i64> {
        match self {
            Self::Exists => Some(1),
            Self::Trackers => Some(i64::from(entry.references())),
            Self::Value(data, index) => {
                let field = entry.definition.layout.field_or_array(data, index)?;
                Some(entry.number(field))
            }
            Self::Kilobytes(data) => {
                let field = entry.field(data)?;
                Some((entry.long(field) >> 10).cast_signed())
            }
            Self::Increment(counter) => Some(increment(entry, counter).unwrap_or(0)),
            Self::Clear(counter) => {
                let (data, index) = counter.counter();
                let field = entry.definition.layout.field_or_array(data, index)?;
                let before = entry.word(field);
                entry.set_word(field, 0);
                entry.touch();
                Some(i64::from(before))
            }
            Self::CountConnection => {
                let field = entry.field(DataType::ConnCnt)?;
                let count = entry.increment(field);
                entry.touch();
                Some(i64::from(count))
            }
            Self::Expire => Some(entry.remaining_ms().cast_signed()),
            Self::Idle => Some(entry.idle_ms().cast_signed()),
        }
    }

    /// The answer where there is no entry.
    #[must_use]
    pub const fn of_nothing(self) -> i64 {
        0
    }
}

fn increment(entry: &mut Entry<'_>, counter: Gpc) -> Option<i64> {
    let ((rate, rate_index), (count, count_index)) = (counter.rate(), counter.counter());
    let layout = &entry.definition.layout;
    let (rate, count) = (layout.field_or_array(rate, rate_index), layout.field_or_array(count, count_index));
    let now = tick(entry.now);
    let rated = rate.and_then(|field| Some(entry.frequency(field)?.add(now, 1)));
    let counted = count.map(|field| entry.increment(field));
    let result = counted.or(rated)?;
    entry.touch();
    Some(i64::from(result))
}
