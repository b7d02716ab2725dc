//! What the agents of a cluster do by themselves, and what waits for a person. Automation assists; it does not control.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Something that an agent does without having been asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// A replica takes the place of a master that is dead.
    Failover,
    /// A program that has ended by itself is started again.
    Restart,
    /// A master that was replaced comes back as a replica: what it has alone is set aside.
    Rejoin,
    /// Slots move to a group that was added.
    Rebalance,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Failover, Self::Restart, Self::Rejoin, Self::Rebalance];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Failover => "failover",
            Self::Restart => "restart",
            Self::Rejoin => "rejoin",
            Self::Rebalance => "rebalance",
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Failover => "a replica takes the place of a master that is dead",
            Self::Restart => "a program that has ended by itself is started again",
            Self::Rejoin => "a master that was replaced comes back as a replica, and what it has alone is set aside",
            Self::Rebalance => "slots move to a group that was added, until all have the same share",
        }
    }
}

/// How an action comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By itself.
    Auto,
    /// When a person has confirmed it.
    Ask,
    /// Not at all: a person does it.
    Off,
}

impl Mode {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ask => "ask",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Not a name of an action, or of a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPolicy {
    /// No action.
    #[error("'{0}' is no action of the policy: there are failover, restart, rejoin and rebalance")]
    Action(String),
    /// No mode.
    #[error("'{0}' is none of auto (by itself), ask (when a person has confirmed it) and off (a person does it)")]
    Mode(String),
}

impl FromStr for Action {
    type Err = NoPolicy;

    fn from_str(text: &str) -> Result<Self, NoPolicy> {
        Self::ALL.into_iter().find(|action| action.name() == text).ok_or_else(|| NoPolicy::Action(text.to_owned()))
    }
}

impl FromStr for Mode {
    type Err = NoPolicy;

    fn from_str(text: &str) -> Result<Self, NoPolicy> {
        let all = [Self::Auto, Self::Ask, Self::Off];
        all.into_iter().find(|mode| mode.name() == text).ok_or_else(|| NoPolicy::Mode(text.to_owned()))
    }
}

/// How each action comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    failover: Mode,
    restart: Mode,
    rejoin: Mode,
    rebalance: Mode,
}

impl Default for Policy {
    fn default() -> Self {
        Self { failover: Mode::Auto, restart: Mode::Auto, rejoin: Mode::Auto, rebalance: Mode::Off }
    }
}

impl Policy {
    /// How an action comes about.
    #[must_use]
    pub fn mode(&self, action: Action) -> Mode {
        match action {
            Action::Failover => self.failover,
            Action::Restart => self.restart,
            Action::Rejoin => self.rejoin,
            Action::Rebalance => self.rebalance,
        }
    }

    /// With another mode of an action.
    #[must_use]
    pub fn with(mut self, action: Action, mode: Mode) -> Self {
        *match action {
            Action::Failover => &mut self.failover,
            Action::Restart => &mut self.restart,
            Action::Rejoin => &mut self.rejoin,
            Action::Rebalance => &mut self.rebalance,
        } = mode;
        self
    }

    /// Whether it is as it is in a new cluster.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_kept_and_read_again() {
        let policy = Policy::default().with(Action::Failover, Mode::Ask).with(Action::Rebalance, Mode::Auto);
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(text, r#"{"failover":"ask","restart":"auto","rejoin":"auto","rebalance":"auto"}"#);
        assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
        // One of an older version lacks what it did not know.
        assert_eq!(
            serde_json::from_str::<Policy>(r#"{"restart":"off"}"#).unwrap(),
            Policy::default().with(Action::Restart, Mode::Off)
        );
        for action in Action::ALL {
            assert_eq!(action.name().parse::<Action>().unwrap(), action);
        }
        assert!("fail-over".parse::<Action>().is_err() && "yes".parse::<Mode>().is_err());
    }
}
