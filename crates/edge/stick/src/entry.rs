//! An entry while its shard is locked.

use std::sync::Arc;

use crate::{
    data::{DataType, Field, Kind},
    definition::Definition,
    dictionary::{Dictionary, NO_WORD},
    frequency::{Frequency, tick},
};

/// A value of an entry, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A number; a rate is the events of the last period.
    Number(i64),
    /// An unsigned number of 64 bits.
    Long(u64),
    /// A word, if there is one.
    Word(Option<Arc<str>>),
}

/// An entry of a table, held for a moment.
#[derive(Debug)]
pub struct Entry<'a> {
    pub(crate) definition: &'a Definition,
    pub(crate) dictionary: &'a Dictionary,
    pub(crate) data: &'a mut [u32],
    pub(crate) expire: &'a mut u64,
    pub(crate) references: u32,
    pub(crate) now: u64,
    /// Whether peers are to be told.
    pub(crate) changed: bool,
}

impl Entry<'_> {
    /// How many track it.
    #[must_use]
    pub fn references(&self) -> u32 {
        self.references
    }

    /// Milliseconds until it expires; 0 if it has, or if entries of its table do not.
    #[must_use]
    pub fn remaining_ms(&self) -> u64 {
        self.expire.saturating_sub(self.now)
    }

    /// Milliseconds since it was last used, as far as the time to its expiry tells.
    #[must_use]
    pub fn idle_ms(&self) -> u64 {
        u64::from(self.definition.expire_ms).saturating_sub(self.remaining_ms())
    }

    /// Begins its life anew, and tells peers that something changed.
    pub fn touch(&mut self) {
        *self.expire = self.now + u64::from(self.definition.expire_ms);
        self.changed = true;
    }

    /// Counts that someone begins to track it.
    pub fn start(&mut self) {
        if let Some(field) = self.field(DataType::ConnCur) {
            self.increment(field);
        }
        self.count(DataType::ConnCnt, DataType::ConnRate, 1);
        self.touch();
    }

    /// Counts that someone no longer tracks it.
    pub fn stop(&mut self) {
        if let Some(field) = self.field(DataType::ConnCur) {
            if let Some(word) = self.data.get_mut(field.word) {
                *word = word.saturating_sub(1);
            }
            self.touch();
        }
    }

    /// Adds to a counter and to its rate, as far as they are stored.
    pub fn count(&mut self, counter: DataType, rate: DataType, amount: u64) {
        if self.add(counter, rate, amount) {
            self.touch();
        }
    }

    /// The same without beginning its life anew; whether anything is stored.
    pub fn add(&mut self, counter: DataType, rate: DataType, amount: u64) -> bool {
        let mut stored = false;
        if let Some(field) = self.field(counter) {
            stored = true;
            match field.kind {
                Kind::Long => self.set_long(field, self.long(field).wrapping_add(amount)),
                _ => {
                    if let Some(word) = self.data.get_mut(field.word) {
                        *word = word.wrapping_add(amount as u32);
                    }
                }
            }
        }
        if let Some(field) = self.field(rate) {
            stored = true;
            let now = tick(self.now);
            // As in HAProxy, 32 bits of it.
            if let Some(mut frequency) = self.frequency(field) {
                frequency.add(now, amount as u32);
            }
        }
        stored
    }

    /// The value of an element, if it is stored.
    #[must_use]
    pub fn read(&mut self, data: DataType, index: u32) -> Option<Reading> {
        let field = self.definition.layout.field(data, index)?;
        Some(match field.kind {
            Kind::Long => Reading::Long(self.long(field)),
            Kind::Word => Reading::Word(self.dictionary.word(self.word(field))),
            _ => Reading::Number(self.number(field)),
        })
    }

    /// Sets an element; false when it is not stored. Words cannot be set so.
    pub fn set(&mut self, data: DataType, index: u32, value: i64) -> bool {
        let Some(field) = self.definition.layout.field(data, index) else { return false };
        let now = tick(self.now);
        match field.kind {
            Kind::Long => self.set_long(field, value.cast_unsigned()),
            Kind::Word => {}
            Kind::Rate => {
                if let Some(mut frequency) = self.frequency(field) {
                    frequency.set(now, value as u32);
                }
            }
            Kind::Signed | Kind::Unsigned => self.set_word(field, value as u32),
        }
        true
    }

    /// Sets a tag, or the element of an array that stands for it; whether it is stored.
    pub fn set_tag(&mut self, data: DataType, index: u32, value: u32) -> bool {
        let Some(field) = self.definition.layout.field_or_array(data, index) else { return false };
        self.set_word(field, value);
        true
    }

    /// The server that it belongs to: its number and its name or address.
    #[must_use]
    pub fn server(&self) -> (i32, Option<Arc<str>>) {
        let layout = &self.definition.layout;
        let id = layout.field(DataType::ServerId, 0).map_or(0, |field| self.word(field).cast_signed());
        let key = layout.field(DataType::ServerKey, 0).and_then(|field| self.dictionary.word(self.word(field)));
        (id, key)
    }

    /// Gives it to a server.
    pub fn set_server(&mut self, id: i32, key: Option<&str>) {
        if let Some(field) = self.field(DataType::ServerId) {
            self.set_word(field, id.cast_unsigned());
        }
        if let Some(key) = key {
            self.set_server_key(key);
        }
    }

    /// Sets the name or address of its server.
    pub(crate) fn set_server_key(&mut self, key: &str) {
        let Some(field) = self.field(DataType::ServerKey) else { return };
        let before = self.word(field);
        let number = self.dictionary.acquire(key).unwrap_or(NO_WORD);
        self.set_word(field, number);
        self.dictionary.release(before);
    }

    pub(crate) fn field(&self, data: DataType) -> Option<Field> {
        self.definition.layout.field(data, 0)
    }

    pub(crate) fn frequency(&mut self, field: Field) -> Option<Frequency<'_>> {
        let words = self.data.get_mut(field.word..)?.first_chunk_mut::<3>()?;
        Some(Frequency::new(words, field.period))
    }

    /// The number of anything but words.
    pub(crate) fn number(&mut self, field: Field) -> i64 {
        let now = tick(self.now);
        match field.kind {
            Kind::Signed => i64::from(self.word(field).cast_signed()),
            Kind::Unsigned => i64::from(self.word(field)),
            Kind::Long => self.long(field).cast_signed(),
            Kind::Rate => self.frequency(field).map_or(0, |frequency| i64::from(frequency.read(now))),
            Kind::Word => 0,
        }
    }

    pub(crate) fn word(&self, field: Field) -> u32 {
        self.data.get(field.word).copied().unwrap_or(0)
    }

    pub(crate) fn set_word(&mut self, field: Field, value: u32) {
        if let Some(word) = self.data.get_mut(field.word) {
            *word = value;
        }
    }

    pub(crate) fn increment(&mut self, field: Field) -> u32 {
        let value = self.word(field).wrapping_add(1);
        self.set_word(field, value);
        value
    }

    pub(crate) fn long(&self, field: Field) -> u64 {
        let high = self.data.get(field.word + 1).copied().unwrap_or(0);
        u64::from(self.word(field)) | u64::from(high) << 32
    }

    pub(crate) fn set_long(&mut self, field: Field, value: u64) {
        self.set_word(field, value as u32);
        if let Some(high) = self.data.get_mut(field.word + 1) {
            *high = (value >> 32) as u32;
        }
    }
}
