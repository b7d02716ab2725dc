//! What the page shows of servers.

use serde::Serialize;

use super::points::Points;
use crate::stats::view::{Condition, ServerView};

/// How a server is, in a word of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// Serves.
    Up,
    /// Serves; nobody checks.
    Unchecked,
    /// On its way down, or it wants no new visitors itself.
    Unsteady,
    /// Serves nothing.
    Down,
    /// An administrator lets it run empty.
    Drain,
    /// An administrator took it out.
    Maint,
}

impl Kind {
    pub(super) fn of(farm: &balance::ServerStats) -> Self {
        use balance::ServerStatus::{
            Down, DownAgent, Drain, DrainAgent, DrainGoingDown, GoingDown, GoingUp, Maint, MaintResolution, MaintVia,
            NoCheck, NoLb, NoLbGoingDown, Up,
        };
        match &farm.status {
            Up => Self::Up,
            NoCheck => Self::Unchecked,
            GoingDown(..) | NoLb | NoLbGoingDown(..) => Self::Unsteady,
            // Nobody wants a server whose name does not resolve.
            Down | DownAgent | GoingUp(..) | MaintResolution => Self::Down,
            Drain | DrainAgent | DrainGoingDown(..) => Self::Drain,
            Maint | MaintVia(_) => Self::Maint,
        }
    }

    /// Whether there is nothing to say of it.
    pub(super) fn is_well(self) -> bool {
        matches!(self, Self::Up | Self::Unchecked)
    }

    /// The lower, the sooner somebody should look.
    pub(super) fn urgency(self) -> u8 {
        match self {
            Self::Down => 0,
            Self::Unsteady => 1,
            Self::Drain => 2,
            Self::Maint => 3,
            Self::Up | Self::Unchecked => 4,
        }
    }
}

/// How many servers of a backend are of each kind; those of no kind here are up.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Kinds {
    #[serde(skip_serializing_if = "super::is_zero")]
    down: u32,
    #[serde(skip_serializing_if = "super::is_zero")]
    unsteady: u32,
    #[serde(skip_serializing_if = "super::is_zero")]
    drain: u32,
    #[serde(skip_serializing_if = "super::is_zero")]
    maint: u32,
    #[serde(skip_serializing_if = "super::is_zero")]
    unchecked: u32,
}

impl Kinds {
    pub(super) fn count(servers: &[&ServerView]) -> Self {
        let mut kinds = Self::default();
        for server in servers {
            match Kind::of(&server.farm) {
                Kind::Up => {}
                Kind::Unchecked => kinds.unchecked += 1,
                Kind::Unsteady => kinds.unsteady += 1,
                Kind::Down => kinds.down += 1,
                Kind::Drain => kinds.drain += 1,
                Kind::Maint => kinds.maint += 1,
            }
        }
        kinds
    }

    pub(super) fn all_well(&self) -> bool {
        self.down + self.unsteady + self.drain + self.maint + self.unchecked == 0
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Server {
    id: u32,
    kind: Kind,
    status: String,
    condition: &'static str,
    weight: u32,
    /// Requests, or sessions in TCP mode, of the last second.
    #[serde(skip_serializing_if = "super::is_zero")]
    rate: u32,
    #[serde(skip_serializing_if = "super::is_nothing")]
    sessions: u64,
    #[serde(skip_serializing_if = "super::is_zero")]
    limit: u32,
    #[serde(skip_serializing_if = "super::is_zero")]
    queue: u32,
    #[serde(skip_serializing_if = "super::is_nothing")]
    total: u64,
    #[serde(skip_serializing_if = "super::is_nothing")]
    errors: u64,
    /// Mean milliseconds until the response began.
    #[serde(skip_serializing_if = "super::is_nothing")]
    time: u64,
    /// Seconds since the last change of state.
    change: u64,
    /// Whether checks of it run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    checked: bool,
    /// Whether an agent is asked about it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    agent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttle: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<Check>,
    points: Points,
}

#[derive(Debug, Serialize)]
struct Check {
    code: String,
    text: String,
}

pub(super) fn server_of(server: &ServerView, http: bool, rate: u32, points: Points) -> Server {
    let farm = &server.farm;
    let totals = &server.totals;
    Server {
        id: farm.number,
        kind: Kind::of(farm),
        status: farm.status.to_string(),
        condition: Condition::of(farm).name(),
        weight: farm.weight,
        rate,
        sessions: server.sessions.now,
        limit: farm.maxconn,
        queue: farm.queued,
        total: if http { totals.requests } else { totals.sessions },
        errors: totals.connection_errors + if http { totals.server_errors() } else { totals.response_errors },
        time: server.times.response.mean,
        change: farm.last_change_s,
        checked: farm.check_enabled,
        agent: farm.agent.is_some(),
        throttle: farm.throttle,
        check: farm.check.as_ref().map(check_of),
        points,
    }
}

fn check_of(check: &balance::CheckView) -> Check {
    let mut code = check.status.info().to_owned();
    if let Some(number) = check.code.filter(|number| *number > 0) {
        code.push_str(&format!(" {number}"));
    }
    if let Some(duration) = check.duration_ms {
        code.push_str(&format!(" in {duration} ms"));
    }
    let text = match check.info.as_str() {
        "" => check.status.description().to_owned(),
        info => format!("{}: {info}", check.status.description()),
    };
    Check { code, text }
}
