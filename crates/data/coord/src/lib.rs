//! What all parts of a cluster must agree on, and the places where it may be kept.
//!
//! A coordinator keeps small values under names. Every value has a version, and a transaction says which versions it has seen: it
//! happens as a whole, or not at all because somebody was quicker. All transactions are in one order, the revisions.
//!
//! | home | what for |
//! |---|---|
//! | [`embedded`] | one machine: a file in a folder ([format](../../../../docs/formats/coordinator.md)) |
//! | [`etcd`] | many machines: etcd 3.4 or later |
//!
//! [`table`] is what a home does with transactions, without file and clock.

pub mod embedded;
pub mod etcd;
pub mod keys;
pub mod record;
pub mod table;
pub mod transaction;

use std::{io, path::PathBuf, time::Duration};

pub use embedded::Embedded;
pub use etcd::Etcd;
pub use table::Change;
pub use transaction::{Condition, LeaseId, Revision, Transaction, Write};

/// A value, and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The value.
    pub value: Vec<u8>,
    /// The revision that wrote it.
    pub version: Revision,
}

/// Why a coordinator did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CoordError {
    /// Somebody was quicker: the value is another one than the transaction has seen.
    #[error("{key} has changed meanwhile (version {found}, not {expected})")]
    Conflict {
        /// The name.
        key: String,
        /// The version that the transaction has seen; 0 for none.
        expected: Revision,
        /// The version that is there.
        found: Revision,
    },
    /// The lease has ended.
    #[error("lease {0} has ended")]
    NoLease(LeaseId),
    /// What changed since is not known any more: read everything again.
    #[error("changes since revision {0} are not kept any more")]
    Compacted(Revision),
    /// Another process has the folder.
    #[error("{} is used by another process (is an agent running on this folder?)", .0.display())]
    InUse(PathBuf),
    /// The file is damaged before its end.
    #[error("{}: damaged at byte {at}: {problem}; restore the folder from a backup, or move the file away to begin anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        at: u64,
        /// What is wrong.
        problem: String,
    },
    /// A value is larger than a coordinator takes.
    #[error("{key}: a value of {len} bytes; the most is {}", transaction::VALUE_MAX)]
    TooLarge {
        /// The name.
        key: String,
        /// Its length.
        len: usize,
    },
    /// The disk does not do its part.
    #[error("{}: {source}", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The coordinator cannot be asked now, or its answer makes no sense.
    #[error("the coordinator {place}: {problem}")]
    Unavailable {
        /// Where it is.
        place: String,
        /// Why.
        problem: String,
    },
}

/// A place where what must be agreed on is kept. Names are paths: `/tidegate/...`.
pub trait Coordinator: Send + Sync {
    /// Which coordinator has answered last, where there may be another one at the same place; 0: that is not known.
    fn identity(&self) -> u64 {
        0
    }

    /// A value, if there is one of the name.
    ///
    /// # Errors
    ///
    /// The coordinator cannot be asked.
    fn read(&self, key: &str) -> Result<Option<Versioned>, CoordError>;

    /// All values whose names begin so, by name, and the revision at which that is.
    ///
    /// # Errors
    ///
    /// The coordinator cannot be asked.
    fn list(&self, prefix: &str) -> Result<(Revision, Vec<(String, Versioned)>), CoordError>;

    /// Does all of a transaction or nothing; returns its revision when it is as safe as the coordinator keeps things.
    ///
    /// # Errors
    ///
    /// A condition does not hold, or the coordinator cannot be asked: then nobody knows whether it has happened.
    fn commit(&self, transaction: Transaction) -> Result<Revision, CoordError>;

    /// What has changed after a revision under names that begin so. Waits for a first change up to a time; none by then is no error.
    ///
    /// # Errors
    ///
    /// The revision is too long ago, or the coordinator cannot be asked.
    fn watch(&self, prefix: &str, after: Revision, patience: Duration) -> Result<Vec<Change>, CoordError>;

    /// A lease: what is written under it goes when nobody prolongs it for so long.
    ///
    /// # Errors
    ///
    /// The coordinator cannot be asked.
    fn grant(&self, ttl: Duration) -> Result<LeaseId, CoordError>;

    /// Lets a lease last for its time again.
    ///
    /// # Errors
    ///
    /// It has ended, or the coordinator cannot be asked.
    fn keep_alive(&self, lease: LeaseId) -> Result<(), CoordError>;

    /// Ends a lease, with what was written under it.
    ///
    /// # Errors
    ///
    /// The coordinator cannot be asked.
    fn revoke(&self, lease: LeaseId) -> Result<(), CoordError>;
}
