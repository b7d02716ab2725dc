//! Elements that come into memory while operations go on by element.

use std::{any::Any, fmt};

use super::Elements;
use crate::Bytes;

/// What elements become in memory. Only values know what that is: whoever began it gets it back by its own type, as [`Any`] has it.
pub(crate) trait Gathers: Any + fmt::Debug {
    /// The number of the attempt.
    fn number(&self) -> u64;

    /// A piece was read.
    fn add(&mut self, records: &[(Bytes, Bytes)]);

    /// An operation gives a record a value, or deletes it.
    fn change(&mut self, record: &[u8], value: Option<&[u8]>);

    /// About how much memory it takes so far.
    fn bytes(&self) -> usize;
}

impl Elements {
    pub(crate) fn count_asked(&self) {
        self.asked.set(self.asked.get().saturating_add(1));
        self.source.count_access();
    }

    /// An operation changes a record.
    pub(crate) fn change_gathered(&self, record: &[u8], value: Option<&[u8]>) {
        if let Some(gathering) = &mut *self.gathering.borrow_mut() {
            gathering.change(record, value);
        }
    }

    /// Whether they may come into memory, having been asked for so often at least.
    pub(crate) fn may_be_gathered(&self, asked_min: usize) -> bool {
        !self.is_refused.get() && self.gathering.borrow().is_none() && self.asked.get() as usize >= asked_min
    }

    pub(crate) fn begin_gathering(&self, gathering: Box<dyn Gathers>) {
        *self.gathering.borrow_mut() = Some(gathering);
    }

    /// Whether they come into memory by that attempt.
    pub(crate) fn gathers(&self, number: u64) -> bool {
        self.gathering.borrow().as_ref().is_some_and(|gathering| gathering.number() == number)
    }

    /// Hands a piece in. Returns how much memory all take so far.
    pub(crate) fn add_gathered(&self, piece: &[(Bytes, Bytes)]) -> usize {
        self.gathering.borrow_mut().as_mut().map_or(0, |gathering| {
            gathering.add(piece);
            gathering.bytes()
        })
    }

    /// They do not come into memory any more, or are there.
    pub(crate) fn end_gathering(&self) -> Option<Box<dyn Gathers>> {
        self.gathering.take()
    }

    /// They are too large for memory.
    pub(crate) fn refuse_gathering(&self) {
        self.is_refused.set(true);
    }
}
