//! How certificates are doing, for commands, the page and metrics.

use std::sync::Arc;

/// Seconds since 1970, now.
#[must_use]
pub fn now() -> i64 {
    i64::try_from(basics::clock::since_1970().as_secs()).unwrap_or(i64::MAX)
}

/// What is being done about a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing, by itself.
    #[default]
    Stopped,
    /// It waits for its time.
    Scheduled,
    /// It is asked for.
    Running,
}

impl State {
    /// HAProxy's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::Scheduled => "Scheduled",
            Self::Running => "Running",
        }
    }
}

/// How a certificate is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it is called.
    pub name: Arc<str>,
    /// Who sees to it.
    pub section: Arc<str>,
    /// What it is for.
    pub names: Vec<String>,
    /// What is being done.
    pub state: State,
    /// When it ends, in seconds since 1970; nothing for a temporary one.
    pub ends: Option<i64>,
    /// When it is asked for next.
    pub scheduled: Option<i64>,
    /// How long it lasts as a whole, in seconds.
    pub lifetime: Option<i64>,
    /// Attempts that failed in a row.
    pub failures: u32,
    /// Attempts that failed, and that did not, since the process started.
    pub failed: u64,
    /// See there.
    pub renewed: u64,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

impl Status {
    /// Whether somebody has to look at it: it is temporary and could not be had, or less than a sixth of its life is left.
    #[must_use]
    pub fn is_worrying(&self, now: i64) -> bool {
        match (self.ends, self.lifetime) {
            (Some(ends), Some(lifetime)) => ends - now < lifetime / 6,
            _ => self.failures > 0,
        }
    }
}
