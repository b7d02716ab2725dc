//! What is asked of a coordinator: conditions, and writes that happen if all of them hold.

use serde::{Deserialize, Serialize};

/// A place in the order of all transactions; 0 is before the first.
pub type Revision = u64;
/// A lease by number.
pub type LeaseId = u64;

/// Bytes of the largest value; etcd takes requests of 1.5 MB.
pub const VALUE_MAX: usize = 1 << 20;

/// A version that a transaction has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The name.
    pub key: String,
    /// The version of its value; 0 if there must be none.
    pub version: Revision,
}

/// What a transaction does to a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// It has a value.
    Put {
        /// The name.
        key: String,
        /// The value.
        value: Vec<u8>,
        /// It goes with this lease.
        lease: Option<LeaseId>,
    },
    /// It has none any more.
    Delete {
        /// The name.
        key: String,
    },
}

/// Conditions, and what happens if all of them hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// What must hold.
    pub conditions: Vec<Condition>,
    /// What then happens.
    pub writes: Vec<Write>,
}

impl Transaction {
    /// One without conditions and writes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only if a name has the value of this version; 0: if it has none.
    #[must_use]
    pub fn if_version(mut self, key: impl Into<String>, version: Revision) -> Self {
        self.conditions.push(Condition { key: key.into(), version });
        self
    }

    /// Writes a value.
    #[must_use]
    pub fn put(mut self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.writes.push(Write::Put { key: key.into(), value: value.into(), lease: None });
        self
    }

    /// Writes a value that goes with a lease.
    #[must_use]
    pub fn put_under(mut self, key: impl Into<String>, value: impl Into<Vec<u8>>, lease: LeaseId) -> Self {
        self.writes.push(Write::Put { key: key.into(), value: value.into(), lease: Some(lease) });
        self
    }

    /// Removes a value.
    #[must_use]
    pub fn delete(mut self, key: impl Into<String>) -> Self {
        self.writes.push(Write::Delete { key: key.into() });
        self
    }
}
