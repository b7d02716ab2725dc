//! What a node waits for, as text that it sends along when it asks again: the agent keeps nothing of it, so it may be started again
//! meanwhile.

use std::time::{SystemTime, UNIX_EPOCH};

use cluster::{Address, Epoch, GroupId, slots::SlotState};
use serde_json::json;

use super::{Problem, refused};
use crate::{conductor::Conductor, conductor::status, http::Response};

/// How soon the node asks again, in milliseconds.
const AGAIN_MS: u64 = 50;
/// How long it is waited for that all servers know of a change, in milliseconds: one that is down learns of it later.
const TOLD_MS: u64 = 5_000;
/// How long a promotion may take, in milliseconds.
const PROMOTION_MS: u64 = 15_000;
/// A move that has failed so often is given up.
const ATTEMPTS_MAX: u32 = 10;

/// What is waited for.
pub(super) enum Wait {
    /// All servers know an epoch, or it is too late.
    Told { epoch: Epoch, until: u64 },
    /// A server is its group's master, before it is too late.
    Master { group: GroupId, server: Address, until: u64 },
    /// A slot has moved to a group.
    Moved { slot: u16, to: GroupId },
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Wait {
    pub(super) fn master(group: GroupId, server: Address) -> Self {
        Self::Master { group, server, until: unix_ms() + PROMOTION_MS }
    }

    fn text(&self) -> String {
        match self {
            Self::Told { epoch, until } => format!("told {epoch} {until}"),
            Self::Master { group, server, until } => format!("master {group} {server} {until}"),
            Self::Moved { slot, to } => format!("moved {slot} {to}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text.split(' ').collect::<Vec<_>>().as_slice() {
            ["told", epoch, until] => Self::Told { epoch: epoch.parse().ok()?, until: until.parse().ok()? },
            ["master", group, server, until] => {
                Self::Master { group: group.parse().ok()?, server: server.parse().ok()?, until: until.parse().ok()? }
            }
            ["moved", slot, to] => Self::Moved { slot: slot.parse().ok()?, to: to.parse().ok()? },
            _ => return None,
        })
    }

    pub(super) fn answer(&self) -> Response {
        Response::good(json!({ "wait": self.text(), "ms": AGAIN_MS }))
    }
}

/// Done as soon as all servers know the cluster as it is now.
pub(super) fn told(conductor: &Conductor) -> Response {
    let epoch = conductor.records.cluster.epoch;
    if all_know(conductor, epoch) { ok() } else { Wait::Told { epoch, until: unix_ms() + TOLD_MS }.answer() }
}

fn ok() -> Response {
    Response::good(json!({ "reply": "OK" }))
}

/// Whether what a node waits for has come.
pub(super) fn look(conductor: &Conductor, text: &str) -> Result<Response, Problem> {
    let wait = Wait::parse(text).ok_or_else(|| Problem::Wrong(format!("'wait' is not as it was told: {text}")))?;
    match &wait {
        Wait::Told { epoch, until } => {
            Ok(if unix_ms() >= *until || all_know(conductor, *epoch) { ok() } else { wait.answer() })
        }
        Wait::Master { group, server, until } => {
            let is_master = conductor.records.cluster.groups.get(group).is_some_and(|group| group.master == *server);
            if is_master && status::group_serves(conductor, *group) {
                return Ok(told(conductor));
            }
            if unix_ms() >= *until {
                return refused(format!("{server} has not become the master in time: see `tidegate cluster check`"));
            }
            Ok(wait.answer())
        }
        Wait::Moved { slot, to } => moved(conductor, *slot, *to, &wait),
    }
}

fn moved(conductor: &Conductor, slot: u16, to: GroupId, wait: &Wait) -> Result<Response, Problem> {
    match conductor.records.cluster.slots.state(slot) {
        SlotState::Online { group } if group == to => Ok(told(conductor)),
        SlotState::Migrating { to: known, .. } if known == to => {
            let shown = conductor.shown_moves();
            let mine = shown.iter().find(|one| (one.what.slots.first..=one.what.slots.last).contains(&slot));
            match mine {
                Some(one) if one.seen.attempts >= ATTEMPTS_MAX => refused(format!(
                    "slot {slot} does not move: {} (it is still tried; `CLUSTER SETSLOT {slot} STABLE` ends that)",
                    one.seen.problem.as_deref().unwrap_or("see the agent's log")
                )),
                _ => Ok(wait.answer()),
            }
        }
        _ => refused(format!(
            "slot {slot} does not move any more: that was cancelled (see `tidegate cluster action history`)"
        )),
    }
}

/// Whether all servers that answer know an epoch.
fn all_know(conductor: &Conductor, epoch: Epoch) -> bool {
    let now = conductor.now();
    conductor.records.cluster.servers().all(|(group, server)| {
        let seen = conductor.controller.keepers().get(&group).and_then(|keeper| keeper.fresh(&server.address, now));
        seen.map_or_else(|| conductor.silent.contains_key(&server.address), |seen| seen.epoch >= epoch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_goes_to_the_node_and_back() {
        for text in ["told 7 123", "master 2 127.0.0.1:6381 99", "moved 16383 4"] {
            assert_eq!(Wait::parse(text).unwrap().text(), text);
        }
        for text in ["", "told 7", "moved 5", "master 2 nowhere 9", "moved 70000 1"] {
            assert!(Wait::parse(text).is_none(), "{text}");
        }
    }
}
