//! `filter` and `compression` lines.

use std::{sync::Arc, time::Duration};

use http::Coding;
use sample::Expression as Expr;
use stick::DataType;

use super::TableIndex;

/// What `compression` lines say.
#[derive(Clone, Debug, Default)]
pub struct Compression {
    /// `algo`, in the order of the configuration.
    pub codings: Vec<Coding>,
    /// `type`: beginnings of content types; none are all.
    pub types: Vec<Box<[u8]>>,
    /// `offload`: servers are not told what clients accept.
    pub offload: bool,
}

/// A `filter` line, or the one that `compression` implies. They work in the order of the configuration.
#[derive(Clone, Debug)]
pub enum Filter {
    /// `compression`.
    Compression,
    /// `bwlim-in`, `bwlim-out`.
    Bandwidth(Arc<Bandwidth>),
    /// `trace`.
    Trace(Arc<Trace>),
    /// `cache`.
    Cache {
        /// The section.
        name: Arc<str>,
        /// Whether a rule implies it.
        is_implied: bool,
    },
    /// `fcgi-app`: where in the order of filters it stands; it works on no bytes.
    FcgiApp {
        /// The section.
        name: Arc<str>,
        /// Whether `use-fcgi-app` implies it.
        is_implied: bool,
    },
}

/// `filter bwlim-in` and `filter bwlim-out`.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    /// What `set-bandwidth-limit` calls it.
    pub name: String,
    /// Whether it limits what clients send; otherwise what they receive.
    pub inbound: bool,
    /// `default-limit` or `limit`: bytes a period.
    pub limit: u64,
    /// Whose bytes are counted together.
    pub sharing: Sharing,
    /// `min-size`: bytes that are forwarded at a time, at least; 0 is any number.
    pub min_size: u64,
}

/// Whose bytes a limit of bandwidth counts together.
#[derive(Clone, Debug)]
pub enum Sharing {
    /// Those of one stream, over the `default-period`.
    Stream(Duration),
    /// Those of all streams with the same key, over the period of the table's rate.
    Key {
        /// `key`.
        expr: Expr,
        /// The table.
        table: TableIndex,
        /// `table`; the section's own otherwise.
        table_name: Option<Arc<str>>,
    },
}

impl Bandwidth {
    /// The rate of its table that counts.
    #[must_use]
    pub fn rate(&self) -> DataType {
        if self.inbound { DataType::BytesInRate } else { DataType::BytesOutRate }
    }
}

/// `set-bandwidth-limit`: turns a filter on.
#[derive(Clone, Debug)]
pub struct BandwidthLimit {
    /// Which.
    pub name: String,
    /// `limit`: bytes, in place of the filter's.
    pub limit: Option<Amount>,
    /// `period`: milliseconds, in place of the filter's.
    pub period: Option<Amount>,
}

/// A number that a rule gives.
#[derive(Clone, Debug)]
pub enum Amount {
    /// As it stands there.
    Fixed(u64),
    /// What the expression gives.
    Expr(Expr),
}

/// `filter trace`.
#[derive(Clone, Debug)]
pub struct Trace {
    /// `name`.
    pub name: String,
    /// `random-forwarding`: payload is passed on in parts of random sizes.
    pub random_forwarding: bool,
    /// `hexdump`: payload is shown.
    pub hexdump: bool,
    /// Not `quiet`: calls are shown.
    pub verbose: bool,
}
