//! Health checks of a farm's servers, and what traffic tells about them.

use crate::config::{Observe, OnError};
use crate::event::{Event, LogLevel};
use crate::health::{self, CheckReport, CheckResult, CheckStatus, Observation};
use crate::server::OperationalState;
use crate::{AdminFlagError, ServerId};

use super::Farm;
use super::state::Cause;
use super::words::append_check;

impl<W> Farm<W> {
    /// When the next check of a server is due; `None` if it is not checked or a check is running.
    ///
    /// The outside runs one loop a server: wait until then, `check_begin`, check, `check_end`. An
    /// [`Event::CheckRescheduled`] means that the time has come forward.
    pub fn check_due_ms(&self, server: ServerId) -> Option<u64> {
        let check = &self.pool.servers.find(server)?.check;
        if check.in_progress { None } else { check.due_ms }
    }

    /// The delay between checks in the server's present state, before it is spread.
    pub fn check_interval_ms(&self, server: ServerId) -> Option<u32> {
        let server = self.pool.servers.find(server)?;
        server.check.config?;
        Some(server.check.interval_ms(server.next.state == OperationalState::Stopped))
    }

    /// Sets when the first check of a server is due; see [`health::first_check_delays_ms`].
    pub fn schedule_check(&mut self, server: ServerId, due_ms: u64) {
        if self.pool.servers.find(server).is_some_and(|server| server.check.config.is_some()) {
            self.pool.servers[server].check.due_ms = Some(due_ms);
        }
    }

    /// A check is due. Returns whether to run it; it is skipped, and comes up again later, while checks are switched
    /// off or the server is in maintenance.
    pub fn check_begin(&mut self, server: ServerId, now_ms: u64) -> bool {
        let Some(config) = self.pool.servers.find(server).and_then(|server| server.check.config) else { return false };
        let check = &mut self.pool.servers[server].check;
        if check.in_progress {
            return false;
        }
        if !check.enabled || check.paused {
            let inter_ms = u64::from(config.inter_ms.max(1));
            let due_ms = check.due_ms.unwrap_or(now_ms);
            let missed = now_ms.saturating_sub(due_ms) / inter_ms + 1;
            check.due_ms = Some(due_ms.max(now_ms.saturating_sub(inter_ms * missed)) + inter_ms * missed);
            return false;
        }
        check.in_progress = true;
        check.result = CheckResult::Unknown;
        check.info.clear();
        check.started_ms = Some(now_ms);
        true
    }

    /// Whether a 404 with `http-check disable-on-404` passes conditionally. For a server that is down it is a failure
    /// like any other wrong status, so nobody comes up just to take no visitors.
    pub fn may_pass_conditionally(&self, server: ServerId) -> bool {
        self.pool.servers.find(server).is_some_and(|server| server.next.state != OperationalState::Stopped)
    }

    /// A check that `check_begin` allowed has ended.
    pub fn check_end(&mut self, server: ServerId, report: CheckReport, now_ms: u64) {
        if self.pool.servers.find(server).is_none_or(|server| server.check.config.is_none()) {
            return;
        }
        let before = (self.pool.servers[server].check.health, self.pool.servers[server].current.state);
        self.pool.servers[server].check.in_progress = false;
        self.set_check_status(server, report, now_ms);
        match self.pool.servers[server].check.result {
            CheckResult::Failed => self.notify_failure(server, now_ms),
            CheckResult::ConditionallyPassed => self.notify_stopping(server, now_ms),
            CheckResult::Passed => self.notify_success(server, now_ms),
            CheckResult::Unknown | CheckResult::Neutral => {}
        }
        // A change of state has an event of its own.
        let now = (self.pool.servers[server].check.health, self.pool.servers[server].current.state);
        if now.0 != before.0 && now.1 == before.1 {
            self.events.push_back(Event::HealthChanged { server });
        }
        let interval_ms = self.check_interval_ms(server).unwrap_or_default();
        let delay_ms = if self.config.spread_checks > 0 {
            health::spread_ms(interval_ms, self.config.spread_checks, &mut self.rng)
        } else {
            u64::from(interval_ms)
        };
        self.pool.servers[server].check.due_ms = Some(now_ms + delay_ms.max(1));
    }

    /// Switches checks of a server on or off (`enable health`, `disable health`).
    pub fn set_check_enabled(&mut self, server: ServerId, enabled: bool) -> Result<(), AdminFlagError> {
        let Some(target) = self.pool.servers.find(server) else { return Err(AdminFlagError::UnknownServer) };
        if enabled && target.check.config.is_none() {
            return Err(AdminFlagError::NoCheck);
        }
        self.pool.servers[server].check.enabled = enabled;
        Ok(())
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
            self.set_check_status(server, CheckReport { status: CheckStatus::Analyze, code: 0, info }, now_ms);
            self.notify_failure(server, now_ms);
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
    fn set_check_status(&mut self, id: ServerId, report: CheckReport, now_ms: u64) {
        let server = &mut self.pool.servers[id];
        let check = &mut server.check;
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
            self.log_check(id);
        }
    }

    fn log_check(&mut self, id: ServerId) {
        let server = &self.pool.servers[id];
        let check = &server.check;
        let backup = if server.config.backup { "backup " } else { "" };
        let (conditionally, outcome) = match check.result {
            CheckResult::ConditionallyPassed => ("conditionally ", "succeeded"),
            CheckResult::Passed => ("", "succeeded"),
            _ => ("", "failed"),
        };
        let mut text = format!(
            "Health check for {backup}server {}/{} {conditionally}{outcome}",
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
        self.say(LogLevel::Notice, text);
    }

    /// The cause to give for a change: the check, unless it has been logged on its own already.
    fn check_cause(&self, id: ServerId) -> Cause {
        let is_told = self.pool.servers[id].config.track.is_some() || self.config.log_health_checks;
        if is_told { Cause::None } else { Cause::Check }
    }

    fn notify_failure(&mut self, id: ServerId, now_ms: u64) {
        if self.pool.servers[id].check.health == 0 {
            self.mark_stopped(id, self.check_cause(id), now_ms);
        }
    }

    fn notify_success(&mut self, id: ServerId, now_ms: u64) {
        let server = &self.pool.servers[id];
        if !server.next.admin.is_maint() && (!server.check.enabled || server.check.is_up()) {
            self.mark_running(id, self.check_cause(id), now_ms);
        }
    }

    fn notify_stopping(&mut self, id: ServerId, now_ms: u64) {
        let server = &self.pool.servers[id];
        if !server.next.admin.is_maint() && (!server.check.enabled || server.check.is_up()) {
            self.mark_stopping(id, self.check_cause(id), now_ms);
        }
    }
}
