//! Stick tables, what is tracked in them, and stickiness.

use std::sync::Arc;

use sample::{Condition, Expression as Expr};
use stick::{DataType, Definition, Gpc};

use super::{Location, ProxyIndex};

/// How many entries a connection or a request can track at a time (`sc0` to `sc2`).
pub const STICK_COUNTERS: usize = 3;

/// Index of a table in [`super::Config::stick_tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableIndex(pub u32);

impl TableIndex {
    /// Not known before all sections have been read.
    pub const UNKNOWN: Self = Self(u32::MAX);
}

/// `stick-table`.
#[derive(Clone, Debug)]
pub struct StickTable {
    /// What it is.
    pub definition: Definition,
    /// Where it stands.
    pub location: Location,
    /// The section that it stands in, unless that is one of peers.
    pub proxy: Option<ProxyIndex>,
    /// `peers`: the section of those that share it.
    pub peers: Option<Arc<str>>,
}

impl StickTable {
    /// The name that peers know it by: in a `peers` section without the name of the section, but with the slash.
    #[must_use]
    pub fn shared_name(&self) -> &str {
        let name = &*self.definition.name;
        match (&self.peers, self.proxy) {
            (Some(peers), None) => name.strip_prefix(&**peers).unwrap_or(name),
            _ => name,
        }
    }
}

/// What rules of all sets do with stick tables.
#[derive(Clone, Debug)]
pub enum StickAction {
    /// `track-sc0` to `track-sc2`.
    Track(Track),
    /// `sc-inc-gpc`, `sc-inc-gpc0`, `sc-inc-gpc1`: the counter that is tracked, and what is incremented.
    Increment(usize, Gpc),
    /// `sc-set-gpt`, `sc-set-gpt0`.
    SetTag {
        /// The counter that is tracked.
        counter: usize,
        /// The type, and which of an array.
        tag: (DataType, u32),
        /// To what.
        value: TagValue,
    },
}

/// To what a tag is set.
#[derive(Clone, Debug)]
pub enum TagValue {
    /// A number.
    Fixed(u32),
    /// What an expression gives.
    Expr(Expr),
}

/// `track-sc*`.
#[derive(Clone, Debug)]
pub struct Track {
    /// Which counter.
    pub counter: usize,
    /// The key.
    pub expr: Expr,
    /// The table.
    pub table: TableIndex,
    /// The name of the table, if it is not the section's own.
    pub table_name: Option<Arc<str>>,
}

/// `stick`.
#[derive(Clone, Debug)]
pub struct StickRule {
    /// Whether what it finds chooses the server.
    pub matches: bool,
    /// Whether the server is remembered.
    pub stores: bool,
    /// The key.
    pub expr: Expr,
    /// The table.
    pub table: TableIndex,
    /// When; `None` is always.
    pub condition: Option<Condition>,
}
