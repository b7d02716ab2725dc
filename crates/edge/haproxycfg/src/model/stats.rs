//! The statistics page and the stats socket.

use std::time::Duration;

use sample::Condition;

use super::{Bind, HttpAction, Password, Rule};

/// `stats` lines of a proxy.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// `stats uri`; `/haproxy?stats` by default.
    pub uri: String,
    /// `stats auth`: user and password.
    pub auth: Vec<(String, Password)>,
    /// `stats realm`.
    pub realm: Option<Vec<u8>>,
    /// `stats refresh`.
    pub refresh: Option<Duration>,
    /// `stats hide-version`.
    pub hide_version: bool,
    /// `stats show-node`.
    pub show_node: Option<String>,
    /// `stats show-desc`.
    pub show_desc: Option<String>,
    /// `stats show-legends`.
    pub show_legends: bool,
    /// `stats show-modules`.
    pub show_modules: bool,
    /// `stats scope`: names; empty is all. `.` is the proxy itself.
    pub scope: Vec<String>,
    /// `stats admin` conditions: whoever meets one may act. `Some(None)` is always.
    pub admin: Vec<Option<Condition>>,
    /// `stats http-request` rules.
    pub rules: Vec<Rule<HttpAction>>,
}

/// A `stats socket` line.
#[derive(Clone, Debug)]
pub struct StatsSocket {
    /// Where to listen.
    pub bind: Bind,
    /// `level`.
    pub level: CliLevel,
    /// `expose-fd listeners`.
    pub expose_fd_listeners: bool,
    /// `severity-output`.
    pub severity: SeverityOutput,
}

/// How the importance of an answer is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeverityOutput {
    /// Not at all.
    #[default]
    None,
    /// `[3]: `
    Number,
    /// `[err]: `
    Name,
}

impl SeverityOutput {
    /// By HAProxy's word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Some(match word {
            "none" => Self::None,
            "number" => Self::Number,
            "string" => Self::Name,
            _ => return None,
        })
    }
}

/// What a user of the stats socket may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CliLevel {
    /// Only non-sensitive counters.
    User,
    /// Everything that changes nothing.
    #[default]
    Operator,
    /// Everything.
    Admin,
}
