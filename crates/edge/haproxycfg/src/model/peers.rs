//! `peers` sections.

use std::sync::Arc;

use super::{Bind, Location, LogTarget, Server};

/// A `peers` section: who shares stick tables.
#[derive(Clone, Debug)]
pub struct Peers {
    /// Its name.
    pub name: Arc<str>,
    /// Where it stands.
    pub location: Location,
    /// `disabled`.
    pub disabled: bool,
    /// Where the local peer listens.
    pub bind: Option<Bind>,
    /// The peers in order, the local one among them.
    pub peers: Vec<Peer>,
    /// `log`.
    pub logs: Vec<LogTarget>,
    /// Whether it says more than its name.
    pub is_complete: bool,
}

/// `peer`, or `server` of a `peers` section.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name, by which peers know each other.
    pub name: Arc<str>,
    /// Whether it is this one (`localpeer`).
    pub is_local: bool,
    /// Where it is and how to connect to it. The local peer has no address there if it has a `bind` line.
    pub server: Server,
}
