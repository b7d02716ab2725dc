//! The seam to what copies slots from one store to another while they serve.

use std::fmt;

use cluster::{Address, Epoch, ServerKind, SlotRange, migration::CopyProgress};

use crate::credentials::Credentials;

/// What is to be copied.
#[derive(Clone, Debug)]
pub struct CopyTask {
    /// The master of the group that has the slots.
    pub source: End,
    /// The master of the group that gets them.
    pub target: End,
    /// The slots.
    pub slots: SlotRange,
    /// The cluster that the agent knows: a target that knows more refuses the copy.
    pub epoch: Epoch,
}

/// Why a copy does not go on. It is begun again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// The target knows a later cluster than the one that the copy was begun in.
    #[error("{0}")]
    Outdated(String),
    /// A server has no address that can be reached.
    #[error("{0}")]
    Address(String),
    /// A server, or the connection to it.
    #[error("{0}")]
    Server(String),
    /// This machine has no thread left.
    #[error("{0}")]
    System(String),
}

/// A copy that runs; it ends when this goes.
pub trait Copying: Send {
    /// How far it is.
    ///
    /// # Errors
    ///
    /// It has failed, and why.
    fn progress(&mut self) -> Result<CopyProgress, CopyError>;

    /// How many bytes a second it may copy from now on; nothing: as many as it can. Changes that follow the copy are not bound.
    fn set_rate(&mut self, bytes_per_second: Option<u64>);

    /// Says whether commands on the slots wait at the source: then the target gets what it must have before it serves them
    /// ([`CopyProgress::lacks_times`]).
    fn set_paused(&mut self, is_paused: bool);

    /// Asks it to end.
    fn ask_to_end(&mut self);

    /// Whether it has ended, so that the target gets nothing more from it. Before that nothing of the slots may be removed at the source:
    /// it would be removed at the target too.
    fn has_ended(&self) -> bool;
}

/// A server that slots are copied from, or to.
#[derive(Clone, Debug)]
pub struct End {
    /// Where it is.
    pub address: Address,
    /// What it is.
    pub kind: ServerKind,
    /// Which node of the cluster it is, if it is a store: another one that answers there is not meant.
    pub node: Option<String>,
    /// What it lets the mover in by.
    pub credentials: Option<Credentials>,
}

/// What can copy slots.
pub trait Mover: Send {
    /// The agent leads since this term: copies that begin from now on go on only while no later one is known.
    fn lead(&self, term: u64);

    /// Begins to copy slots from a master to another one. A copy of the same slots that somebody began before must not reach the target
    /// any more once this one has.
    ///
    /// # Errors
    ///
    /// It cannot begin, and why.
    fn start(&self, task: &CopyTask) -> Result<Box<dyn Copying>, CopyError>;
}

impl fmt::Debug for dyn Mover {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Mover")
    }
}
