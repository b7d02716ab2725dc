//! Carrying the state of servers over to another farm: at a reload, or through a state file.

use crate::ServerId;
use crate::health::{CheckReport, CheckResult, CheckStatus};
use crate::server::{AdminState, OperationalState};

use super::state::Cause;
use super::{Farm, WeightChange};

/// What is worth keeping about a server: the fields of HAProxy's state file that a farm knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSnapshot {
    /// The server's name.
    pub name: String,
    /// The server's number (`id`).
    pub number: u32,
    /// `srv_op_state`.
    pub state: OperationalState,
    /// `srv_admin_state`.
    pub admin: AdminState,
    /// `srv_uweight`: the weight in force.
    pub user_weight: u32,
    /// `srv_iweight`: the weight in the configuration.
    pub initial_weight: u32,
    /// `srv_time_since_last_change`, in seconds.
    pub last_change_s: u64,
    /// Seconds it was down so far.
    pub down_time_s: u64,
    /// `srv_check_status`.
    pub check_status: CheckStatus,
    /// `srv_check_result`.
    pub check_result: CheckResult,
    /// `srv_check_health`.
    pub check_health: u32,
    /// Whether checks are switched on; `None` if the server has none.
    pub check_enabled: Option<bool>,
    /// Whether checks pause, as in maintenance.
    pub check_paused: bool,
    /// More about the last check.
    pub check_info: String,
    /// The last check's code.
    pub check_code: u16,
    /// The last check's duration.
    pub check_duration_ms: Option<u64>,
    /// What is known from its agent; `None` if it has none.
    pub agent: Option<AgentSnapshot>,
    /// The limit in force, if it was changed at run time.
    pub maxconn: Option<u32>,
}

/// What is worth keeping about the questions to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSnapshot {
    /// Whether it is asked.
    pub enabled: bool,
    /// What came of it last, if that is known.
    pub last: Option<(CheckReport, CheckResult, Option<u64>)>,
    /// Health by its words.
    pub health: u32,
}

impl<W> Farm<W> {
    /// The state of a server, to be kept.
    pub fn snapshot(&self, id: ServerId, now_ms: u64) -> Option<ServerSnapshot> {
        let server = self.pool.servers.find(id)?;
        let check = &server.check;
        let configured = server.config.maxconn.max(server.config.minconn);
        Some(ServerSnapshot {
            name: server.config.name.clone(),
            number: server.number,
            state: server.current.state,
            admin: server.current.admin,
            user_weight: server.user_weight,
            initial_weight: server.initial_weight,
            last_change_s: (now_ms / 1_000).saturating_sub(server.last_change_ms / 1_000),
            down_time_s: server.down_time_s,
            check_status: check.status,
            check_result: check.result,
            check_health: check.health,
            check_enabled: check.config.map(|_| check.enabled),
            check_paused: check.paused,
            check_info: check.info.clone(),
            check_code: check.code,
            check_duration_ms: check.duration_ms,
            agent: server.agent.as_ref().map(|agent| AgentSnapshot {
                enabled: agent.enabled,
                last: Some((
                    CheckReport { status: agent.status, code: agent.code, info: agent.info.clone() },
                    agent.result,
                    agent.duration_ms,
                )),
                health: agent.health,
            }),
            maxconn: (server.maxconn != configured).then_some(server.maxconn),
        })
    }

    /// Brings a server of a new farm into the state another one was in, by HAProxy's rules: what the configuration
    /// changed wins over what was set at run time; everything else is kept. Says nothing in the log.
    pub fn restore(&mut self, id: ServerId, snapshot: &ServerSnapshot, now_ms: u64) {
        if self.pool.servers.find(id).is_none() {
            return;
        }
        let events = self.events.len();
        let went_down = (self.counters.went_down, self.pool.servers[id].counters.went_down);
        let last_change_ms = now_ms.saturating_sub(snapshot.last_change_s.saturating_mul(1_000));
        // A server that was taken out of its configured maintenance leaves it before anything else can be said about it.
        let server = &self.pool.servers[id];
        if server.config.disabled
            && snapshot.admin.contains(AdminState::CONFIG_MAINT)
            && !snapshot.admin.contains(AdminState::FORCED_MAINT)
        {
            self.set_ready(id, now_ms);
        }
        self.restore_health(id, snapshot, now_ms);
        if snapshot.initial_weight == self.pool.servers[id].initial_weight {
            // A weight that the new algorithm cannot follow is left as configured.
            let _ = self.set_weight(id, WeightChange::Absolute(i64::from(snapshot.user_weight)), now_ms);
        }
        self.restore_admin(id, snapshot, now_ms);
        let server = &mut self.pool.servers[id];
        server.last_change_ms = last_change_ms;
        if snapshot.state == OperationalState::Running && server.next.state == OperationalState::Starting {
            // It came up long ago, and only left the maintenance of its configuration just now.
            server.next.state = OperationalState::Running;
        }
        let check = &mut server.check;
        check.status = snapshot.check_status;
        check.result = snapshot.check_result;
        check.info.clone_from(&snapshot.check_info);
        check.code = snapshot.check_code;
        check.duration_ms = snapshot.check_duration_ms;
        if check.config.is_some() && snapshot.check_enabled == Some(false) {
            check.enabled = false;
        }
        if let (Some(agent), Some(known)) = (server.agent.as_deref_mut(), &snapshot.agent) {
            agent.enabled = known.enabled;
            agent.health = known.health.min(agent.top());
            if let Some((last, result, duration_ms)) = &known.last {
                (agent.status, agent.result, agent.duration_ms) = (last.status, *result, *duration_ms);
                (agent.code, agent.info) = (last.code, last.info.clone());
            }
        }
        self.recalculate_weight(id, now_ms);
        self.apply(id, Cause::None, "", now_ms);
        // None of this was news.
        let server = &mut self.pool.servers[id];
        server.last_change_ms = last_change_ms;
        server.down_time_s = snapshot.down_time_s;
        self.events.truncate(events);
        self.counters.went_down = went_down.0;
        self.pool.servers[id].counters.went_down = went_down.1;
    }

    fn restore_health(&mut self, id: ServerId, snapshot: &ServerSnapshot, now_ms: u64) {
        let check = &mut self.pool.servers[id].check;
        let (rise, top) = (check.rise(), check.top());
        match snapshot.state {
            OperationalState::Stopped => {
                // NOTE: how far a server had come on its way up is lost, as in HAProxy.
                let is_down_by_agent = snapshot.agent.as_ref().is_some_and(|agent| agent.enabled && agent.health == 0);
                check.health = if is_down_by_agent { snapshot.check_health.min(top) } else { 0 };
                // A server in maintenance is down for that reason alone and comes up when it ends.
                let is_checked = check.config.is_some() || self.pool.servers[id].agent.is_some();
                if !snapshot.admin.is_maint() && is_checked {
                    self.mark_stopped(id, Cause::None, now_ms);
                }
            }
            OperationalState::Starting => {
                check.health = top;
                let server = &mut self.pool.servers[id];
                if server.slowstart_s > 0 && !server.current.admin.is_maint() {
                    server.next.state = OperationalState::Starting;
                    server.last_change_ms = now_ms.saturating_sub(snapshot.last_change_s.saturating_mul(1_000));
                    server.warmup_due_ms = Some(now_ms);
                } else {
                    self.mark_running(id, Cause::None, now_ms);
                }
            }
            OperationalState::Stopping => {
                check.health = snapshot.check_health.clamp(rise, top);
                self.mark_stopping(id, Cause::None, now_ms);
            }
            OperationalState::Running => {
                check.health = snapshot.check_health.clamp(rise, top);
                self.mark_running(id, Cause::None, now_ms);
            }
        }
    }

    fn restore_admin(&mut self, id: ServerId, snapshot: &ServerSnapshot, now_ms: u64) {
        let is_disabled = self.pool.servers[id].config.disabled;
        let was_disabled = snapshot.admin.contains(AdminState::CONFIG_MAINT);
        let was_forced = snapshot.admin.contains(AdminState::FORCED_MAINT);
        // What was done at run time holds unless the configuration changed.
        if was_forced && !is_disabled && !was_disabled {
            self.set_maint(id, now_ms);
        }
        let server = &self.pool.servers[id];
        let was_drained = snapshot.admin.contains(AdminState::FORCED_DRAIN);
        // A drain that came from a configured weight of 0 ends when the configuration gives a weight again.
        if !server.next.admin.contains(AdminState::FORCED_MAINT)
            && was_drained
            && (snapshot.initial_weight > 0 || server.initial_weight == 0)
        {
            self.set_drain(id, now_ms);
        }
        if let Some(maxconn) = snapshot.maxconn {
            self.set_maxconn(id, maxconn, now_ms);
        }
    }
}
