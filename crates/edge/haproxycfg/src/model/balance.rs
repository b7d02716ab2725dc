//! `balance` and `hash-type`.

use std::sync::Arc;

use balance::HashFunction;

use sample::Expression;

/// `balance` and `hash-type`.
#[derive(Clone, Debug, Default)]
pub struct Balance {
    /// Which server is chosen.
    pub algorithm: Algorithm,
    /// `hash-type` method: consistent, or map-based.
    pub consistent: bool,
    /// `hash-type` function.
    pub function: HashFunction,
    /// `hash-type ... avalanche`.
    pub avalanche: bool,
    /// `hash-balance-factor`: percent; 0 is off.
    pub hash_balance_factor: u32,
    /// What is hashed, if an expression says so: of `hash` and `rdp-cookie`.
    pub key: Option<Arc<Expression>>,
}

/// `balance`'s algorithms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// `roundrobin`.
    #[default]
    RoundRobin,
    /// `static-rr`.
    StaticRoundRobin,
    /// `leastconn`.
    LeastConnections,
    /// `first`.
    First,
    /// `source`.
    Source,
    /// `uri`.
    Uri {
        /// `whole`.
        whole: bool,
        /// `len`: bytes; 0 is all.
        len: usize,
        /// `depth`: slashes; 0 is all.
        depth: usize,
        /// `path-only`.
        path_only: bool,
    },
    /// `url_param`.
    UrlParam {
        /// The parameter.
        name: String,
        /// `check_post`.
        check_post: bool,
    },
    /// `hdr()`.
    Header {
        /// The field.
        name: String,
        /// `use_domain_only`.
        use_domain_only: bool,
    },
    /// `rdp-cookie()`.
    RdpCookie {
        /// The cookie.
        name: String,
    },
    /// `hash`.
    Hash,
    /// `random()`.
    Random {
        /// Draws.
        draws: u32,
    },
}
