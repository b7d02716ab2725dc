//! Names of things inside a farm.

/// A server of a farm: its position in the order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub(crate) u32);

impl ServerId {
    /// The server at this position of the list given to `Farm::new`.
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The position in the order of declaration.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A place in a queue. Valid until `Farm::claim` has given its outcome or `Farm::cancel` has given it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}
