//! What an operator decides about a pool beyond its servers: where reads go, and what a server that fails may cost.

use std::{fmt, str::FromStr, time::Duration};

/// Which servers reads go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The master: a client reads what it has written.
    #[default]
    Master,
    /// A replica that follows its master; the master if there is none.
    PreferReplica,
    /// Whoever answers soonest, master or replica.
    Nearest,
}

/// The word is none of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is 'master', 'prefer-replica' or 'nearest'")]
pub struct UnknownPolicy;

impl FromStr for ReadFrom {
    type Err = UnknownPolicy;

    fn from_str(word: &str) -> Result<Self, UnknownPolicy> {
        match word {
            "master" => Ok(Self::Master),
            "prefer-replica" => Ok(Self::PreferReplica),
            "nearest" => Ok(Self::Nearest),
            _ => Err(UnknownPolicy),
        }
    }
}

impl fmt::Display for ReadFrom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Master => "master",
            Self::PreferReplica => "prefer-replica",
            Self::Nearest => "nearest",
        })
    }
}

/// What a server that is slow or dead may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// After so many failures in a row requests for the server fail at once; 0 for never.
    pub breaker_failures: u32,
    /// How often such a server is tried.
    pub breaker_probe: Duration,
    /// Requests that may wait for a server, in one thread.
    pub waiting_max: usize,
    /// Bytes of requests that are kept so that they can be tried again, of each connection to a server.
    pub kept_bytes_max: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            breaker_failures: 5,
            breaker_probe: Duration::from_millis(500),
            waiting_max: 65_536,
            kept_bytes_max: 64 * 1024 * 1024,
        }
    }
}
