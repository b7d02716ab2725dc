//! The seam to what copies slots from one store to another while they serve.

use std::fmt;

use cluster::{Address, ServerKind, SlotRange, migration::CopyProgress};

use crate::credentials::Credentials;

/// A copy that runs; it ends when this goes.
pub trait Copying: Send {
    /// How far it is.
    ///
    /// # Errors
    ///
    /// It has failed, and why.
    fn progress(&mut self) -> Result<CopyProgress, String>;

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
    /// What it lets the mover in by.
    pub credentials: Option<Credentials>,
}

/// What can copy slots.
pub trait Mover: Send {
    /// The agent leads since this term: copies that begin from now on go on only while no later one is known.
    fn lead(&self, term: u64);

    /// Begins to copy slots from a master to another one.
    ///
    /// # Errors
    ///
    /// It cannot begin, and why.
    fn start(&self, source: &End, target: &End, slots: SlotRange) -> Result<Box<dyn Copying>, String>;
}

impl fmt::Debug for dyn Mover {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Mover")
    }
}
