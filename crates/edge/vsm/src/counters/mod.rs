//! Counters (VSC): numbers in shared memory, with a description in JSON that tells readers their names and meanings.
//!
//! ```text
//! segment: ready (i32: 1 shown, 2 hidden), padding, offset of the body (u64: 24), id of the description (u64)
//! body:    a number of 8 bytes for each counter; of a description: JSON with a zero byte
//! ```

pub(crate) mod document;
mod tables;

use std::{
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::memory::Memory;

pub use tables::{Lck, Main, Mgt, Sma, Smf, Vbe};

/// Words of 8 bytes before the numbers.
pub(crate) const HEADER_WORDS: usize = 3;
pub(crate) const SHOWN: u64 = 1;
pub(crate) const HIDDEN: u64 = 2;

/// How a number moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Each of its bits says something.
    Bitmap,
}

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As it is.
    Integer,
    /// As an amount of data.
    Bytes,
    /// As bits.
    Bitmap,
    /// As seconds.
    Duration,
}

/// Who wants to know a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everybody.
    Info,
    /// Who looks for a fault.
    Diag,
    /// Who develops the program.
    Debug,
}

/// What a number means.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// The name.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// How it is shown.
    pub format: Format,
    /// Who wants to know it.
    pub level: Level,
    /// What it counts.
    pub doc: &'static str,
}

/// A kind of thing that is counted, with all its counters.
#[derive(Debug)]
pub struct Table {
    /// The name of the description.
    pub name: &'static str,
    /// What it is about.
    pub doc: &'static str,
    /// Its place among others.
    pub order: u32,
    /// What counters name it by.
    pub id: u64,
    /// Its counters, in the order of their places.
    pub counters: &'static [Counter],
}

/// An enumeration of the counters of a [`Table`].
pub trait CounterTable: Copy + 'static {
    /// The table.
    const TABLE: &'static Table;

    /// The place of this counter in it.
    fn index(self) -> usize;
}

/// Counters of one thread, which no other one writes: adding to them is a load and a store. Whoever publishes adds several up.
#[derive(Debug)]
pub struct Tally<T> {
    numbers: Box<[AtomicU64]>,
    of: PhantomData<fn(T)>,
}

impl<T: CounterTable> Default for Tally<T> {
    fn default() -> Self {
        Self { numbers: T::TABLE.counters.iter().map(|_| AtomicU64::new(0)).collect(), of: PhantomData }
    }
}

impl<T: CounterTable> Tally<T> {
    /// Adds to a counter. Only one thread may do so.
    #[inline]
    pub fn add(&self, counter: T, amount: u64) {
        if let Some(number) = self.numbers.get(counter.index()) {
            number.store(number.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }

    /// Takes from a gauge. A thread may take what another one has added: the sum is right.
    #[inline]
    pub fn subtract(&self, counter: T, amount: u64) {
        self.add(counter, amount.wrapping_neg());
    }

    /// The value of a counter, as of this thread.
    #[must_use]
    pub fn value(&self, counter: T) -> u64 {
        self.numbers.get(counter.index()).map_or(0, |number| number.load(Ordering::Relaxed))
    }
}

/// Published counters of one thing. Any number of threads may write them.
#[derive(Debug)]
pub struct Counters<T> {
    memory: Memory,
    file: String,
    of: PhantomData<fn(T)>,
}

impl<T: CounterTable> Counters<T> {
    pub(crate) const BYTES: usize = (HEADER_WORDS + T::TABLE.counters.len()) * size_of::<u64>();

    pub(crate) fn new(memory: Memory, file: String) -> Self {
        Self { memory, file, of: PhantomData }
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    fn number(&self, counter: T) -> Option<&AtomicU64> {
        self.memory.doubles().get(HEADER_WORDS + counter.index())
    }

    /// Adds to a counter.
    pub fn add(&self, counter: T, amount: u64) {
        if let Some(number) = self.number(counter) {
            number.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Takes from a gauge.
    pub fn subtract(&self, counter: T, amount: u64) {
        if let Some(number) = self.number(counter) {
            number.fetch_sub(amount, Ordering::Relaxed);
        }
    }

    /// Gives a counter its value.
    pub fn set(&self, counter: T, value: u64) {
        if let Some(number) = self.number(counter) {
            number.store(value, Ordering::Relaxed);
        }
    }

    /// The value of a counter.
    #[must_use]
    pub fn value(&self, counter: T) -> u64 {
        self.number(counter).map_or(0, |number| number.load(Ordering::Relaxed))
    }

    /// Shows them to readers, or hides them, as those of a backend whose VCL is cold.
    pub fn show(&self, is_shown: bool) {
        if let Some(ready) = self.memory.doubles().first() {
            // The number has 4 bytes, and 4 of padding follow; on a machine with the high byte first it stands in the upper half.
            let ready_value = if is_shown { SHOWN } else { HIDDEN };
            ready.store(document::ready_word(ready_value), Ordering::Release);
        }
    }
}
