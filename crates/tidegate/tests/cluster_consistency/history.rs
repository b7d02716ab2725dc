//! What clients did and what came of it, in the order of one clock.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Something that a client did with a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It appended a value; the list had so many elements then.
    Appended { value: u64, length: usize },
    /// It tried to, and does not know whether it did.
    Unknown { value: u64 },
    /// It was told that it did not.
    Refused { value: u64, error: String },
    /// It read all of the list.
    Read(Vec<u64>),
}

/// One operation, from before it was sent to after its answer was read, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub key: String,
    pub invoked: u64,
    /// The end of time for one whose answer never came.
    pub completed: u64,
    pub outcome: Outcome,
}

/// Operations of all clients.
#[derive(Debug)]
pub struct History {
    clock: Instant,
    operations: Mutex<Vec<Operation>>,
}

impl History {
    pub fn new() -> Self {
        Self { clock: Instant::now(), operations: Mutex::new(Vec::new()) }
    }

    pub fn now(&self) -> u64 {
        self.clock.elapsed().as_micros() as u64
    }

    pub fn note(&self, operation: Operation) {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
    }

    pub fn take(&self) -> Vec<Operation> {
        std::mem::take(&mut *self.operations.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
