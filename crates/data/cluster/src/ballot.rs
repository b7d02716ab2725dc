//! What agents say to each other about who may serve: the leader asks and allows, voters promise.
//!
//! A voter gives its vote again and again to the masters of the record that it has read last. Before the leader writes a change after
//! which a master may serve less than before (another master, slots that another group has), it asks the voters for a *promise*: not
//! to vote for that master before they have read a record of the epoch `floor` or a later one, the one that the change will make.
//! A promise cannot be taken back. If nothing comes of the change, the leader writes a record that changes nothing but the epoch.
//!
//! A voter that is started anew has forgotten its promises. So each start has a number of its own in the coordinator (the version of
//! `voters/HOST`), and the change is written only if those numbers are still what they were when the promises were given.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Address, Epoch, GroupId};

/// What tells one run of a voter from the next: the version of its record in the coordinator.
pub type Incarnation = u64;

/// A promise that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The epoch that made the group's master the master.
    pub config_epoch: Epoch,
    /// Not to vote before a record of this epoch is known.
    pub floor: Epoch,
}

/// Which process of a group's master is to be voted for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The epoch that made it the master.
    pub config_epoch: Epoch,
    /// The run of its process; nothing: none is fit.
    pub run: Option<String>,
}

/// What the leader wants of voters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Will {
    /// Since when it leads.
    pub term: u64,
    /// Promises that it asks for.
    pub asks: BTreeMap<GroupId, Ask>,
    /// Whom it allows. Of a group that is not there it knows nothing yet: what was before goes on.
    pub verdicts: BTreeMap<GroupId, Verdict>,
}

/// Votes that may still count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outstanding {
    /// For whom; nobody knows, if the voter was started anew meanwhile.
    pub server: Option<Address>,
    /// For which run of its process.
    pub run: Option<String>,
    /// In how many milliseconds they are over.
    pub over_in_ms: u64,
}

/// A promise, and what was voted before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// No vote before a record of this epoch is known.
    pub floor: Epoch,
    /// What was given before.
    pub votes: Vec<Outstanding>,
}

/// The promises of a voter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterReport {
    /// Which run of it.
    pub incarnation: Incarnation,
    /// By group.
    pub promises: BTreeMap<GroupId, Promise>,
}
