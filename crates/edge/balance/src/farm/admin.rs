//! What people, name resolution and followed servers say about a server.

use thiserror::Error;

use crate::ServerId;
use crate::server::{AdminState, OperationalState};

use super::Farm;
use super::state::Cause;

/// Relative weights above this many percent all count as this many.
const RELATIVE_WEIGHT_MAX: i64 = 25_600;

/// A wanted weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightChange {
    /// This weight, 0 to 256. 0 drains.
    Absolute(i64),
    /// This many percent of the weight in the configuration.
    Percent(i64),
}

impl WeightChange {
    /// Reads `50` or `50%`, as `set weight` and agents write it.
    pub fn parse(text: &str) -> Result<Self, WeightError> {
        if text.is_empty() {
            return Err(WeightError::Missing);
        }
        let number = text.strip_suffix('%').unwrap_or(text);
        let digits = number.bytes().skip(usize::from(number.starts_with(['-', '+']))).take_while(u8::is_ascii_digit);
        let len = digits.count();
        if len == 0 {
            return Err(WeightError::NotANumber);
        }
        let Ok(value) = number.parse::<i64>() else {
            let all_digits = len == number.len() - usize::from(number.starts_with(['-', '+']));
            return Err(if all_digits { WeightError::OutOfRange } else { WeightError::TrailingGarbage });
        };
        Ok(if number.len() == text.len() { Self::Absolute(value) } else { Self::Percent(value) })
    }
}

/// Why a weight was refused; worded as HAProxy's answers on its socket.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WeightError {
    /// Nothing was given.
    #[error("Require <weight> or <weight%>.")]
    Missing,
    /// It does not start with a number.
    #[error("Empty weight string empty or preceded by garbage")]
    NotANumber,
    /// Something follows the number.
    #[error("Trailing garbage in weight string")]
    TrailingGarbage,
    /// A negative percentage.
    #[error("Relative weight must be positive.")]
    NegativePercent,
    /// An absolute weight above 256 or below 0.
    #[error("Absolute weight can only be between 0 and 256 inclusive.")]
    OutOfRange,
    /// The algorithm cannot follow changes of weight.
    #[error("Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.")]
    StaticAlgorithm,
    /// There is no such server.
    #[error("No such server.")]
    UnknownServer,
}

impl WeightError {
    /// The words as they stand in the report of an agent: HAProxy ends some of them with a line end.
    pub(super) fn as_of_agent(self) -> String {
        let end = if matches!(self, Self::NotANumber | Self::TrailingGarbage) { "" } else { "\n" };
        format!("{self}{end}")
    }
}

/// Why a limit of connections was refused; worded as HAProxy's answers on its socket.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MaxConnError {
    /// Nothing was given.
    #[error("Require <maxconn>.\n")]
    Missing,
    /// It does not start with a number.
    #[error("maxconn string empty or preceded by garbage")]
    NotANumber,
    /// Something follows the number.
    #[error("Trailing garbage in maxconn string")]
    TrailingGarbage,
}

impl MaxConnError {
    /// Reads the limit that an agent wants.
    pub(super) fn parse(text: &str) -> Result<u32, Self> {
        let digits = text.bytes().skip(usize::from(text.starts_with(['-', '+']))).take_while(u8::is_ascii_digit);
        match digits.count() {
            _ if text.is_empty() => Err(Self::Missing),
            0 => Err(Self::NotANumber),
            // A negative number is no limit, as 0 is.
            _ => text.parse::<i64>().map(|limit| u32::try_from(limit.max(0)).unwrap_or(u32::MAX)).or({
                let is_number = text.trim_start_matches(['-', '+']).bytes().all(|byte| byte.is_ascii_digit());
                if is_number { Ok(u32::MAX) } else { Err(Self::TrailingGarbage) }
            }),
        }
    }
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum AdminFlagError {
    /// There is no such server.
    #[error("No such server.")]
    UnknownServer,
    /// Checks cannot be switched on for a server that has none.
    #[error("Health check was not configured on this server, cannot enable.")]
    NoCheck,
    /// Nor can questions to an agent.
    #[error("Agent was not configured on this server, cannot enable.")]
    NoAgent,
}

/// What a server that others `track` passes on to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub(super) state: OperationalState,
    pub(super) maint: bool,
    pub(super) drain: bool,
    pub(super) enabled: bool,
    pub(super) agent_health: Option<u32>,
    pub(super) health: u32,
    pub(super) rise: u32,
    pub(super) fall: u32,
}

/// An administrative flag, and why.
#[derive(Clone, Copy, Debug)]
struct Flag<'a> {
    flag: AdminState,
    cause: &'a str,
}

impl<W> Farm<W> {
    /// Puts a server into maintenance (`set server state maint`, `disable server`): no traffic, no checks.
    pub fn set_maint(&mut self, server: ServerId, now_ms: u64) {
        self.set_flag(server, Flag { flag: AdminState::FORCED_MAINT, cause: "" }, now_ms);
        self.clear_flag(server, AdminState::FORCED_DRAIN, now_ms);
    }

    /// Puts a server into drain (`set server state drain`): no new visitors, those who are bound to it may stay.
    pub fn set_drain(&mut self, server: ServerId, now_ms: u64) {
        self.set_flag(server, Flag { flag: AdminState::FORCED_DRAIN, cause: "" }, now_ms);
        self.clear_flag(server, AdminState::FORCED_MAINT, now_ms);
    }

    /// Ends maintenance and drain (`set server state ready`, `enable server`).
    pub fn set_ready(&mut self, server: ServerId, now_ms: u64) {
        self.clear_flag(server, AdminState::FORCED_DRAIN, now_ms);
        self.clear_flag(server, AdminState::FORCED_MAINT, now_ms);
    }

    /// Puts a server into maintenance because its name no longer resolves; `cause` goes into the message.
    pub fn set_unresolved(&mut self, server: ServerId, cause: &str, now_ms: u64) {
        self.set_flag(server, Flag { flag: AdminState::RESOLUTION_MAINT, cause }, now_ms);
    }

    /// Ends maintenance for lack of an address.
    pub fn set_resolved(&mut self, server: ServerId, now_ms: u64) {
        self.clear_flag(server, AdminState::RESOLUTION_MAINT, now_ms);
    }

    /// Gives a server another host name, which was set at run time, or takes it away.
    pub fn set_hostname(&mut self, server: ServerId, hostname: Option<&str>) {
        if self.pool.servers.find(server).is_none() {
            return;
        }
        let server = &mut self.pool.servers[server];
        server.config.hostname = hostname.map(str::to_owned);
        if hostname.is_some() {
            // NOTE: it shows with the next change of state, as in HAProxy.
            server.next.admin = server.next.admin.with(AdminState::NAME_SET);
        }
    }

    /// The administrative state of a server.
    pub fn admin_state(&self, server: ServerId) -> Option<AdminState> {
        self.pool.servers.find(server).map(|server| server.next.admin)
    }

    /// What those who `track` this server are to be told.
    pub fn followed(&self, server: ServerId) -> Option<Followed> {
        let server = self.pool.servers.find(server)?;
        Some(Followed {
            state: server.next.state,
            maint: server.next.admin.is_maint(),
            drain: server.next.admin.is_drain(),
            enabled: server.check.enabled || server.followed_check,
            agent_health: server.agent_health(),
            health: server.check.health,
            rise: server.check.rise(),
            fall: server.check.fall(),
        })
    }

    /// Brings a server with `track` in line with the one it follows.
    pub fn follow(&mut self, server: ServerId, followed: &Followed, now_ms: u64) {
        if self.pool.servers.find(server).is_none() {
            return;
        }
        let check = &mut self.pool.servers[server].check;
        check.config =
            Some(crate::CheckConfig { rise: followed.rise, fall: followed.fall, ..check.config.unwrap_or_default() });
        check.health = followed.health;
        self.pool.servers[server].followed_check = followed.enabled;
        self.pool.servers[server].followed_stopped = followed.state == OperationalState::Stopped;
        self.pool.servers[server].followed_agent = followed.agent_health;
        // What is new comes before what ends, or the server would be ready for a moment in between.
        if followed.maint {
            self.set_flag(server, Flag { flag: AdminState::INHERITED_MAINT, cause: "" }, now_ms);
        }
        if followed.drain {
            self.set_flag(server, Flag { flag: AdminState::INHERITED_DRAIN, cause: "" }, now_ms);
        } else {
            self.clear_flag(server, AdminState::INHERITED_DRAIN, now_ms);
        }
        if !followed.maint {
            self.clear_flag(server, AdminState::INHERITED_MAINT, now_ms);
        }
        match followed.state {
            OperationalState::Stopped => self.mark_stopped(server, Cause::None, now_ms),
            OperationalState::Stopping => self.mark_stopping(server, Cause::None, now_ms),
            OperationalState::Starting | OperationalState::Running => self.mark_running(server, Cause::None, now_ms),
        }
    }

    /// Changes a server's weight (`set weight`).
    pub fn set_weight(&mut self, server: ServerId, change: WeightChange, now_ms: u64) -> Result<(), WeightError> {
        let Some(target) = self.pool.servers.find(server) else { return Err(WeightError::UnknownServer) };
        let weight = match change {
            WeightChange::Percent(percent) if percent < 0 => return Err(WeightError::NegativePercent),
            WeightChange::Percent(percent) => (i64::from(target.initial_weight) * percent.min(RELATIVE_WEIGHT_MAX)
                / 100)
                .min(i64::from(crate::config::WEIGHT_MAX)),
            WeightChange::Absolute(weight) => weight,
        };
        let Ok(weight) = u32::try_from(weight) else { return Err(WeightError::OutOfRange) };
        if weight > crate::config::WEIGHT_MAX {
            return Err(WeightError::OutOfRange);
        }
        if weight != 0 && weight != target.initial_weight && !self.engine.is_dynamic() {
            return Err(WeightError::StaticAlgorithm);
        }
        self.pool.servers[server].user_weight = weight;
        self.recalculate_weight(server, now_ms);
        self.apply(server, Cause::None, "", now_ms);
        Ok(())
    }

    /// Changes a server's `maxconn` (`set maxconn server`). `minconn` follows it when the limit is a fixed one.
    pub fn set_maxconn(&mut self, server: ServerId, maxconn: u32, now_ms: u64) {
        if self.pool.servers.find(server).is_none() {
            return;
        }
        let target = &mut self.pool.servers[server];
        if target.maxconn == target.minconn {
            target.minconn = maxconn;
        }
        target.maxconn = maxconn;
        self.serve_queues(server, now_ms);
    }

    fn set_flag(&mut self, id: ServerId, flag: Flag<'_>, now_ms: u64) {
        if self.pool.servers.find(id).is_none_or(|server| server.next.admin.contains(flag.flag)) {
            return;
        }
        let server = &mut self.pool.servers[id];
        server.next.admin = server.next.admin.with(flag.flag);
        self.apply(id, Cause::None, flag.cause, now_ms);
    }

    fn clear_flag(&mut self, id: ServerId, flag: AdminState, now_ms: u64) {
        if self.pool.servers.find(id).is_none_or(|server| !server.next.admin.contains(flag)) {
            return;
        }
        let server = &mut self.pool.servers[id];
        server.next.admin = server.next.admin.without(flag);
        self.apply(id, Cause::None, "", now_ms);
    }
}
