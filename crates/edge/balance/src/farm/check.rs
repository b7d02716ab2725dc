//! Health checks of a farm's servers, what agents say, and what traffic tells about them.

use crate::agent::{AgentAdmin, AgentReply};
use crate::config::{Observe, OnError};
use crate::event::{Event, LogLevel};
use crate::health::{self, AgentReport, Check, CheckKind, CheckReport, CheckResult, CheckStatus, Observation};
use crate::probe::ProbeHistory;
use crate::server::OperationalState;
use crate::{AdminFlagError, ServerId, WeightChange};

use super::Farm;
use super::admin::MaxConnError;
use super::state::Cause;
use super::words::append_check;

impl<W> Farm<W> {
    /// When the next check of a server is due; `None` if it has none of that kind or one is running.
    ///
    /// The outside runs one loop a server and kind: wait until then, `check_begin`, check, `check_end` or `agent_end`. An
    /// [`Event::CheckRescheduled`] means that the time has come forward.
    pub fn check_due_ms(&self, server: ServerId, kind: CheckKind) -> Option<u64> {
        let check = self.pool.servers.find(server)?.check_of(kind)?;
        if check.in_progress { None } else { check.due_ms }
    }

    /// The delay between checks in the server's present state, before it is spread.
    pub fn check_interval_ms(&self, server: ServerId, kind: CheckKind) -> Option<u32> {
        let server = self.pool.servers.find(server)?;
        let check = server.check_of(kind)?;
        Some(check.interval_ms(server.next.state == OperationalState::Stopped))
    }

    /// The last results of a server's checks, if they are counted in a window.
    pub fn probes(&self, server: ServerId) -> Option<ProbeHistory> {
        self.pool.servers.find(server)?.check.probes.as_deref().copied()
    }

    /// Sets when the first check of a server is due; see [`health::first_check_delays_ms`].
    pub fn schedule_check(&mut self, server: ServerId, kind: CheckKind, due_ms: u64) {
        if let Some(check) = self.check_of_mut(server, kind) {
            check.due_ms = Some(due_ms);
        }
    }

    fn check_of_mut(&mut self, server: ServerId, kind: CheckKind) -> Option<&mut Check> {
        self.pool.servers.find(server)?;
        self.pool.servers[server].check_of_mut(kind)
    }

    /// A check is due. Returns whether to run it; it is skipped, and comes up again later, while checks are switched
    /// off or the server is in maintenance. An agent is asked in maintenance too.
    pub fn check_begin(&mut self, server: ServerId, kind: CheckKind, now_ms: u64) -> bool {
        let Some(check) = self.check_of_mut(server, kind) else { return false };
        if check.in_progress {
            return false;
        }
        if !check.enabled || check.paused {
            let inter_ms = u64::from(check.config.unwrap_or_default().inter_ms.max(1));
            let due_ms = check.due_ms.unwrap_or(now_ms);
            let missed = now_ms.saturating_sub(due_ms) / inter_ms + 1;
            check.due_ms = Some(due_ms.max(now_ms.saturating_sub(inter_ms * missed)) + inter_ms * missed);
            return false;
        }
        check.in_progress = true;
        check.result = CheckResult::Unknown;
        check.info.clear();
        check.started_ms = Some(now_ms);
        check.late_ms = check.due_ms.map_or(0, |due_ms| now_ms.saturating_sub(due_ms));
        true
    }

    /// A result of a check that goes on: it counts, and says more in the log than the one that the check ends with.
    pub fn check_progress(&mut self, server: ServerId, report: CheckReport, now_ms: u64) {
        if self.check_of_mut(server, CheckKind::Health).is_some() {
            self.set_check_status(server, CheckKind::Health, report, now_ms);
        }
    }

    /// Whether a 404 with `http-check disable-on-404` passes conditionally. For a server that is down it is a failure
    /// like any other wrong status, so nobody comes up just to take no visitors.
    pub fn may_pass_conditionally(&self, server: ServerId) -> bool {
        self.pool.servers.find(server).is_some_and(|server| server.next.state != OperationalState::Stopped)
    }

    /// A check that `check_begin` allowed has ended.
    pub fn check_end(&mut self, server: ServerId, report: CheckReport, now_ms: u64) {
        if self.check_of_mut(server, CheckKind::Health).is_none() {
            return;
        }
        let before = (self.pool.servers[server].check.health, self.pool.servers[server].current.state);
        self.set_check_status(server, CheckKind::Health, report, now_ms);
        self.conclude(server, CheckKind::Health, now_ms);
        // A change of state has an event of its own.
        let now = (self.pool.servers[server].check.health, self.pool.servers[server].current.state);
        if now.0 != before.0 && now.1 == before.1 {
            self.events.push_back(Event::HealthChanged { server });
        }
    }

    /// A question to an agent that `check_begin` allowed has ended: what it says is done, in HAProxy's order.
    pub fn agent_end(&mut self, server: ServerId, report: AgentReport, now_ms: u64) {
        let Some(agent) = self.check_of_mut(server, CheckKind::Agent) else { return };
        let before = agent.health;
        let report = match report {
            AgentReport::Failed(report) => report,
            AgentReport::Incomplete => {
                CheckReport { status: agent.status, code: 0, info: "Ignoring incomplete line from agent".to_owned() }
            }
            // It was switched off while the answer was on its way.
            AgentReport::Reply(_) if !agent.enabled => {
                agent.in_progress = false;
                return self.plan_next(server, CheckKind::Agent, now_ms);
            }
            AgentReport::Reply(reply) => self.obey(server, &reply, now_ms),
        };
        self.set_check_status(server, CheckKind::Agent, report, now_ms);
        self.conclude(server, CheckKind::Agent, now_ms);
        let now = self.check_of_mut(server, CheckKind::Agent).map_or(before, |agent| agent.health);
        if now != before {
            self.events.push_back(Event::HealthChanged { server });
        }
    }

    /// Does what an agent asks for; what is left is how it sees the server's health, and what was odd.
    fn obey(&mut self, server: ServerId, reply: &AgentReply, now_ms: u64) -> CheckReport {
        if let (Some((works, _)), Some(agent)) = (&reply.health, self.check_of_mut(server, CheckKind::Agent)) {
            agent.health = if *works { agent.top() } else { 0 };
        }
        match reply.admin {
            Some(AgentAdmin::Ready) => self.set_ready(server, now_ms),
            Some(AgentAdmin::Drain) => self.set_drain(server, now_ms),
            Some(AgentAdmin::Maint) => self.set_maint(server, now_ms),
            None => {}
        }
        let mut warning = None;
        if let Some(weight) = &reply.weight {
            let changed = WeightChange::parse(weight).and_then(|change| self.set_weight(server, change, now_ms));
            warning = changed.err().map(|error| error.as_of_agent());
        }
        if let Some(text) = &reply.maxconn {
            match MaxConnError::parse(text) {
                Ok(limit) => self.set_maxconn(server, limit, now_ms),
                Err(error) => warning = warning.or(Some(error.to_string())),
            }
        }
        let report = |status, info| CheckReport { status, code: 0, info };
        let odd = reply.unknown.clone();
        match (&reply.health, odd, warning) {
            (Some((works, word)), odd, warning) => {
                let status = if *works { CheckStatus::Layer7Ok } else { CheckStatus::Layer7Status };
                let mut words = reply.description.clone();
                // Bad news is passed on as it is.
                if words.is_empty() || *works {
                    words = odd.or(warning).unwrap_or(words);
                }
                let behind = if words.is_empty() { String::new() } else { format!(" ({words})") };
                report(status, format!("via agent : {word}{behind}"))
            }
            (None, Some(odd), _) => report(CheckStatus::Checked, format!("agent reports an error : {odd}")),
            (None, None, Some(warning)) => report(CheckStatus::Checked, format!("agent warns : {warning}")),
            (None, None, None) => report(CheckStatus::Checked, String::new()),
        }
    }

    /// Draws the consequences of a check's last result, and plans the next one.
    fn conclude(&mut self, server: ServerId, kind: CheckKind, now_ms: u64) {
        let Some(check) = self.check_of_mut(server, kind) else { return };
        check.in_progress = false;
        match check.result {
            CheckResult::Failed => self.notify_failure(server, kind, now_ms),
            CheckResult::ConditionallyPassed => self.notify_stopping(server, kind, now_ms),
            CheckResult::Passed => self.notify_success(server, kind, now_ms),
            CheckResult::Unknown | CheckResult::Neutral => {}
        }
        self.plan_next(server, kind, now_ms);
    }

    fn plan_next(&mut self, server: ServerId, kind: CheckKind, now_ms: u64) {
        let interval_ms = self.check_interval_ms(server, kind).unwrap_or_default();
        let delay_ms = if self.config.spread_checks > 0 {
            health::spread_ms(interval_ms, self.config.spread_checks, &mut self.rng)
        } else {
            u64::from(interval_ms)
        };
        if let Some(check) = self.check_of_mut(server, kind) {
            // Checks that were late together, because the process was held up, go back to their own places: otherwise all
            // would fall due together for ever.
            let delay_ms = delay_ms.max(1);
            check.due_ms = Some(now_ms + delay_ms - std::mem::take(&mut check.late_ms) % delay_ms);
        }
    }

    /// Switches checks of a server on or off (`enable health`, `disable health`, `enable agent`, `disable agent`).
    pub fn set_check_enabled(
        &mut self,
        server: ServerId,
        kind: CheckKind,
        enabled: bool,
    ) -> Result<(), AdminFlagError> {
        if self.pool.servers.find(server).is_none() {
            return Err(AdminFlagError::UnknownServer);
        }
        match (self.check_of_mut(server, kind), enabled, kind) {
            (Some(check), ..) => check.enabled = enabled,
            (None, true, CheckKind::Health) => return Err(AdminFlagError::NoCheck),
            (None, true, CheckKind::Agent) => return Err(AdminFlagError::NoAgent),
            (None, false, _) => {}
        }
        // Those who follow it show whether it is checked.
        self.events.push_back(Event::HealthChanged { server });
        Ok(())
    }

    /// Whether an agent is asked about a server.
    pub fn is_agent_enabled(&self, server: ServerId) -> bool {
        let agent = self.pool.servers.find(server).and_then(|server| server.check_of(CheckKind::Agent));
        agent.is_some_and(|agent| agent.enabled)
    }

    /// Makes it so as if an agent had said that a server works, or not (`set server agent up|down`); `cause` says who.
    /// Returns false if no agent is asked about it.
    pub fn force_agent(&mut self, server: ServerId, works: bool, cause: &str, now_ms: u64) -> bool {
        let Some(agent) = self.check_of_mut(server, CheckKind::Agent).filter(|agent| agent.enabled) else {
            return false;
        };
        agent.health = if works { agent.top() } else { 0 };
        let cause = Cause::Text(cause.to_owned());
        if works {
            self.mark_running(server, cause, now_ms);
        } else {
            self.mark_stopped(server, cause, now_ms);
        }
        true
    }

    /// Forces the health of a server (`set server health up|stopping|down`), checked or not. Returns false if there is no
    /// such server, or it follows another.
    pub fn force_health(&mut self, server: ServerId, state: OperationalState, now_ms: u64) -> bool {
        if self.pool.servers.find(server).is_none_or(|server| server.config.track.is_some()) {
            return false;
        }
        let check = &mut self.pool.servers[server].check;
        let cause = Cause::Text("changed from CLI".to_owned());
        match state {
            OperationalState::Running | OperationalState::Starting => {
                check.health = check.top();
                self.mark_running(server, cause, now_ms);
            }
            OperationalState::Stopping => {
                check.health = check.top();
                self.mark_stopping(server, cause, now_ms);
            }
            OperationalState::Stopped => {
                check.health = 0;
                self.mark_stopped(server, cause, now_ms);
            }
        }
        true
    }

    /// Counts what was seen in a server's traffic (`observe`). A run of errors of `error-limit` does what `on-error`
    /// says, and brings the next check forward to `fastinter`.
    pub fn observe(&mut self, server: ServerId, observation: Observation, now_ms: u64) {
        let Some(target) = self.pool.servers.find(server) else { return };
        let (observe, on_error, limit) = (target.config.observe, target.config.on_error, target.config.error_limit);
        let Some(config) = target.check.config.filter(|_| observe != Observe::None) else { return };
        let target = &mut self.pool.servers[server];
        match observation.is_error(observe == Observe::Layer7) {
            None => return,
            Some(false) => {
                target.consecutive_errors = 0;
                return;
            }
            Some(true) => target.consecutive_errors += 1,
        }
        if target.consecutive_errors < limit {
            return;
        }
        let info = format!(
            "Detected {} consecutive errors, last one was: {}",
            target.consecutive_errors,
            observation.description()
        );
        let check = &mut target.check;
        match on_error {
            OnError::Fastinter => {}
            OnError::FailCheck => {}
            OnError::SuddenDeath => {
                if check.health > check.rise() {
                    check.health = check.rise() + 1;
                }
            }
            OnError::MarkDown => check.health = check.rise(),
        }
        if on_error != OnError::Fastinter {
            let report = CheckReport { status: CheckStatus::Analyze, code: 0, info };
            self.set_check_status(server, CheckKind::Health, report, now_ms);
            self.notify_failure(server, CheckKind::Health, now_ms);
        }
        let target = &mut self.pool.servers[server];
        target.consecutive_errors = 0;
        target.counters.failed_observations += 1;
        if let Some(fastinter_ms) = config.fastinter_ms
            && !target.check.in_progress
        {
            let soon = now_ms + u64::from(fastinter_ms);
            if target.check.due_ms.is_none_or(|due| soon < due) {
                target.check.due_ms = Some(soon);
                self.events.push_back(Event::CheckRescheduled { server });
            }
        }
    }

    /// Takes in a result and counts it.
    fn set_check_status(&mut self, id: ServerId, kind: CheckKind, report: CheckReport, now_ms: u64) {
        let server = &mut self.pool.servers[id];
        let check = match kind {
            CheckKind::Health => Some(&mut server.check),
            CheckKind::Agent => server.agent.as_deref_mut(),
        };
        let Some(check) = check else { return };
        let previous = check.status;
        check.status = report.status;
        check.code = report.code;
        check.info = report.info;
        if check.info.len() > health::CHECK_INFO_LEN_MAX {
            let end = (0..=health::CHECK_INFO_LEN_MAX).rev().find(|&end| check.info.is_char_boundary(end));
            check.info.truncate(end.unwrap_or(0));
        }
        if report.status.result() != CheckResult::Unknown {
            check.result = report.status.result();
        }
        if report.status == CheckStatus::Analyze {
            check.duration_ms = None;
        } else if let Some(started_ms) = check.started_ms.take() {
            check.duration_ms = Some(now_ms.saturating_sub(started_ms));
        }
        let counted = match check.result {
            CheckResult::Neutral => return,
            CheckResult::Unknown => false,
            // An agent that cannot be reached says nothing about the server.
            CheckResult::Failed if kind == CheckKind::Agent && !report.status.has_code() => false,
            CheckResult::Failed => check.count_bad(),
            CheckResult::Passed | CheckResult::ConditionallyPassed => {
                server.consecutive_errors = 0;
                check.count_good()
            }
        };
        if counted && check.result == CheckResult::Failed {
            server.counters.failed_checks += 1;
        }
        if self.config.log_health_checks && (counted || previous != report.status) {
            self.log_check(id, kind);
        }
    }

    fn log_check(&mut self, id: ServerId, kind: CheckKind) {
        let server = &self.pool.servers[id];
        let Some(check) = server.check_of(kind) else { return };
        let backup = if server.config.backup { "backup " } else { "" };
        let (conditionally, outcome) = match check.result {
            CheckResult::ConditionallyPassed => ("conditionally ", "succeeded"),
            CheckResult::Passed => ("", "succeeded"),
            _ => ("", "failed"),
        };
        let what = match kind {
            CheckKind::Health => "Health",
            CheckKind::Agent => "Agent",
        };
        let mut text = format!(
            "{what} check for {backup}server {}/{} {conditionally}{outcome}",
            self.config.name, server.config.name
        );
        append_check(&mut text, check);
        let (done, wanted) = check.progress();
        let state = match (check.is_up(), server.user_weight) {
            (true, 0) => "DRAIN",
            (true, _) => "UP",
            (false, _) => "DOWN",
        };
        text += &format!(", status: {done}/{wanted} {state}");
        self.say_and_mail(LogLevel::Notice, LogLevel::Information, text);
    }

    /// The cause to give for a change: the check, unless it has been logged on its own already.
    fn check_cause(&self, id: ServerId, kind: CheckKind) -> Cause {
        let is_told = self.pool.servers[id].config.track.is_some() || self.config.log_health_checks;
        if is_told { Cause::None } else { Cause::Check(kind) }
    }

    fn notify_failure(&mut self, id: ServerId, kind: CheckKind, now_ms: u64) {
        let server = &self.pool.servers[id];
        let Some(check) = server.check_of(kind) else { return };
        // Only an agent's word takes a server down, not its silence.
        let counts = kind == CheckKind::Health || check.status == CheckStatus::Layer7Status;
        if counts && !check.is_up() {
            self.mark_stopped(id, self.check_cause(id, kind), now_ms);
        }
    }

    fn notify_success(&mut self, id: ServerId, kind: CheckKind, now_ms: u64) {
        let server = &self.pool.servers[id];
        // An agent's word does not end what a check asked for.
        let is_asked_to_stop = kind == CheckKind::Agent && server.next.state == OperationalState::Stopping;
        if !server.next.admin.is_maint() && server.checks_agree() && !is_asked_to_stop {
            self.mark_running(id, self.check_cause(id, kind), now_ms);
        }
    }

    fn notify_stopping(&mut self, id: ServerId, kind: CheckKind, now_ms: u64) {
        let server = &self.pool.servers[id];
        if kind == CheckKind::Health && !server.next.admin.is_maint() && server.checks_agree() {
            self.mark_stopping(id, self.check_cause(id, kind), now_ms);
        }
    }
}
