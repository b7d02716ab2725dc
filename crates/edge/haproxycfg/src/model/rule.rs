//! What the rules of all rule sets have in common.

use sample::Condition;

use super::Location;

/// A rule: what, when and where it stands.
#[derive(Clone, Debug)]
pub struct Rule<A> {
    /// What.
    pub action: A,
    /// When; `None` is always.
    pub condition: Option<Condition>,
    /// Where.
    pub location: Location,
}

/// What `set-src` and its siblings change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressPart {
    /// `set-src`.
    Source,
    /// `set-src-port`.
    SourcePort,
    /// `set-dst`.
    Destination,
    /// `set-dst-port`.
    DestinationPort,
}
