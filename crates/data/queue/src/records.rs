//! Where the records of a queue are.

use std::ops::{Bound, Deref};

use crate::codec::Malformed;

/// Records in the order of their names.
pub trait Records {
    /// What a record has.
    type Bytes: Deref<Target = [u8]>;

    /// A record. What cannot be read is noted, and reads as if it were not there.
    fn get(&self, name: &[u8]) -> Option<Self::Bytes>;

    /// Puts a record.
    fn put(&mut self, name: &[u8], value: &[u8]);

    /// Removes a record, if it is there.
    fn delete(&mut self, name: &[u8]);

    /// Calls with records of an interval in order until that says no.
    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, each: &mut dyn FnMut(&[u8], &[u8]) -> bool);

    /// Notes that a record cannot be understood. Nothing more is changed then.
    fn fail(&self, reason: Malformed);

    /// Whether something could not be read or understood.
    fn has_failed(&self) -> bool;
}
