//! What peers need of a table: which entries changed in which order, what they hold, and entries learned from others.
//!
//! A table counts its changes once it is told to ([`crate::Table::follow`]): every entry that is touched gets the next
//! update id, unless it has one that nobody has asked for yet. Whoever sends asks for the updates after the last one that
//! was sent ([`crate::Table::updates_after`]); values are those of the moment of asking, so an entry that changes a
//! thousand times meanwhile is sent once. What was learned from a peer ([`crate::Table::learn`]) does not come back as an
//! update, but is among what [`crate::Table::updates_after`] gives for a full lesson (`learned` set).

use std::sync::Arc;

use crate::{
    data::{DataType, Kind},
    entry::Entry,
    frequency::{Frequency, tick},
};

/// What an entry holds.
pub type Values = Vec<(DataType, u32, StoredValue)>;

/// A value, in the form in which peers exchange it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// A signed integer.
    Signed(i32),
    /// An unsigned integer.
    Unsigned(u32),
    /// An unsigned integer of 64 bits.
    Long(u64),
    /// A frequency counter.
    Rate {
        /// Milliseconds since its period began.
        elapsed_ms: u32,
        /// Events of the current period.
        current: u32,
        /// Events of the period before.
        previous: u32,
    },
    /// A word.
    Word(Option<Arc<str>>),
}

/// A change of an entry that peers are to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Its number: later changes have greater ones.
    pub id: u64,
    /// Whether it was learned from a peer.
    pub learned: bool,
    /// The key.
    pub key: Box<[u8]>,
    /// Milliseconds until the entry expires.
    pub remaining_ms: u64,
    /// Values in the order of [`DataType`], elements of an array in theirs.
    pub values: Vec<(DataType, u32, StoredValue)>,
}

/// Changes of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updates {
    /// They, in order.
    pub changes: Vec<Update>,
    /// All changes up to this one are among them, or have been overtaken by later ones: ask for those after it next.
    pub upto: u64,
}

/// An entry that a peer tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned<'a> {
    /// The key, as long as the table's keys are.
    pub key: &'a [u8],
    /// Milliseconds until it expires; none when the peer did not say.
    pub remaining_ms: Option<u64>,
    /// Values; what the table does not store is left out.
    pub values: &'a [(DataType, u32, StoredValue)],
}

impl Entry<'_> {
    /// What it holds, as peers exchange it.
    pub(crate) fn stored(&mut self) -> Vec<(DataType, u32, StoredValue)> {
        let layout = &self.definition.layout;
        let mut values = Vec::new();
        for data in layout.types() {
            for index in 0..layout.len(data) {
                let Some(field) = layout.field(data, index) else { continue };
                let words = self.data.get(field.word..).unwrap_or_default();
                let value = match (field.kind, words) {
                    (Kind::Signed, [word, ..]) => StoredValue::Signed(word.cast_signed()),
                    (Kind::Unsigned, [word, ..]) => StoredValue::Unsigned(*word),
                    (Kind::Long, [low, high, ..]) => StoredValue::Long(u64::from(*low) | u64::from(*high) << 32),
                    (Kind::Rate, [begun, current, previous, ..]) => StoredValue::Rate {
                        elapsed_ms: tick(self.now).wrapping_sub(*begun),
                        current: *current,
                        previous: *previous,
                    },
                    (Kind::Word, [number, ..]) => StoredValue::Word(self.dictionary.word(*number)),
                    _ => continue,
                };
                values.push((data, index, value));
            }
        }
        values
    }

    /// Adds what an earlier process counted to what was counted here since; what is no count stays, unless it was not set.
    pub(crate) fn merge(&mut self, values: &[(DataType, u32, StoredValue)]) {
        for (data, index, value) in values {
            let Some(field) = self.definition.layout.field(*data, *index) else { continue };
            let is_tag = matches!(data, DataType::Gpt0 | DataType::Gpt);
            match (field.kind, value) {
                (Kind::Signed, StoredValue::Signed(value)) if self.word(field) == 0 => {
                    self.set_word(field, value.cast_unsigned());
                }
                (Kind::Unsigned, StoredValue::Unsigned(value)) => {
                    let here = self.word(field);
                    let both = if is_tag && here != 0 { here } else { here.wrapping_add(*value) };
                    self.set_word(field, both);
                }
                (Kind::Long, StoredValue::Long(value)) => self.set_long(field, self.long(field).wrapping_add(*value)),
                (Kind::Rate, StoredValue::Rate { elapsed_ms, current, previous }) => {
                    let now = tick(self.now);
                    // Its events, as far as they are of the last period, count as of now.
                    let mut words = [now.wrapping_sub(*elapsed_ms) & !1, *current, *previous];
                    let earlier = Frequency::new(&mut words, field.period).read(now);
                    if let Some(mut frequency) = self.frequency(field) {
                        frequency.add(now, earlier);
                    }
                }
                (Kind::Word, StoredValue::Word(Some(word))) if self.server().1.is_none() => self.set_server_key(word),
                _ => {}
            }
        }
    }

    /// Takes over what a peer or an earlier process says of it.
    pub(crate) fn take(&mut self, values: &[(DataType, u32, StoredValue)]) {
        for (data, index, value) in values {
            let Some(field) = self.definition.layout.field(*data, *index) else { continue };
            match (field.kind, value) {
                (Kind::Signed, StoredValue::Signed(value)) => self.set_word(field, value.cast_unsigned()),
                (Kind::Unsigned, StoredValue::Unsigned(value)) => self.set_word(field, *value),
                (Kind::Long, StoredValue::Long(value)) => self.set_long(field, *value),
                (Kind::Rate, StoredValue::Rate { elapsed_ms, current, previous }) => {
                    let begun = tick(self.now).wrapping_sub(*elapsed_ms) & !1;
                    if let Some(words) = self.data.get_mut(field.word..).and_then(<[u32]>::first_chunk_mut::<3>) {
                        *words = [begun, *current, *previous];
                    }
                }
                (Kind::Word, StoredValue::Word(Some(word))) => self.set_server_key(word),
                _ => {}
            }
        }
    }
}
