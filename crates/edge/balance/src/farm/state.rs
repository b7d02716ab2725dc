//! Changes of state: what checks, people, name resolution and followed servers say, and what follows from it.
//!
//! Each change is written into a server's next standing; `Farm::apply` then compares it with the current one, tells
//! the algorithm, moves queued requests, words the messages and raises the events, in HAProxy's order:
//!
//! ```text
//!            check failed, marked down                  maint
//!   UP ------------------------------------> DOWN    any ------> MAINT
//!   ^  <------------------------------------  |       ^            |
//!   |        check passed (slow start first)  |       +---ready----+
//!   +--> NOLB (404) ----check failed----------+      UP <-- drain, ready --> DRAIN
//! ```

use crate::ServerId;
use crate::event::{Event, LogLevel, ShutdownReason};
use crate::health::CheckKind;
use crate::server::{AdminState, OperationalState};

use super::Farm;
use super::words::append_flag_cause;

/// Delay between two steps of a slow start, in milliseconds.
const WARMUP_STEP_MS: u64 = 1_000;

/// Why an operational state changes, for the message.
#[derive(Clone, Debug, Default)]
pub(super) enum Cause {
    /// Nothing more to say, or it comes from the followed server.
    #[default]
    None,
    /// The last check of that kind.
    Check(CheckKind),
    /// Plain words.
    Text(String),
}

impl<W> Farm<W> {
    /// When `handle_timeout` is to be called next: a step of someone's slow start.
    pub fn poll_timeout_ms(&self) -> Option<u64> {
        self.pool.servers.iter().filter_map(|server| server.warmup_due_ms).min()
    }

    /// Takes the steps of slow starts that are due.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        for id in self.pool.servers.ids() {
            let server = &mut self.pool.servers[id];
            if server.warmup_due_ms.is_none_or(|due| due > now_ms) {
                continue;
            }
            server.warmup_due_ms = None;
            if server.next.admin.is_maint() || server.next.state != OperationalState::Starting {
                continue;
            }
            self.recalculate_weight(id, now_ms);
            self.apply(id, Cause::None, "", now_ms);
            self.grab_from_backend(id, now_ms);
            if self.pool.servers[id].next.state == OperationalState::Starting {
                self.pool.servers[id].warmup_due_ms = Some(now_ms + WARMUP_STEP_MS);
            }
        }
    }

    pub(super) fn mark_stopped(&mut self, id: ServerId, cause: Cause, now_ms: u64) {
        let server = &mut self.pool.servers[id];
        if server.current.admin.is_maint() || server.next.state == OperationalState::Stopped {
            return;
        }
        server.next.state = OperationalState::Stopped;
        self.apply(id, cause, "", now_ms);
    }

    pub(super) fn mark_running(&mut self, id: ServerId, cause: Cause, now_ms: u64) {
        let server = &mut self.pool.servers[id];
        if server.current.admin.is_maint()
            || matches!(server.next.state, OperationalState::Starting | OperationalState::Running)
        {
            return;
        }
        server.next.state = server.first_up_state();
        self.apply(id, cause, "", now_ms);
    }

    pub(super) fn mark_stopping(&mut self, id: ServerId, cause: Cause, now_ms: u64) {
        let server = &mut self.pool.servers[id];
        if server.current.admin.is_maint() || server.next.state == OperationalState::Stopping {
            return;
        }
        server.next.state = OperationalState::Stopping;
        self.apply(id, cause, "", now_ms);
    }

    /// Computes the next weight from the user's weight and the progress of a slow start, which ends here in time.
    pub(super) fn recalculate_weight(&mut self, id: ServerId, now_ms: u64) {
        let divider = self.pool.weight_divider;
        let server = &mut self.pool.servers[id];
        let warmup = server.warmup_s(now_ms);
        if warmup.is_none() && server.next.state == OperationalState::Starting {
            server.next.state = OperationalState::Running;
        }
        let mut share = divider;
        if let Some(elapsed) = warmup
            && server.next.state == OperationalState::Starting
            && self.engine.is_dynamic()
        {
            let steps = (u64::from(divider) * elapsed + server.slowstart_s) / server.slowstart_s;
            share = u32::try_from(steps).unwrap_or(divider);
        }
        let user_weight = server.user_weight;
        self.pool.servers[id].next.weight = self.pool.effective_weight(user_weight, share);
    }

    /// Carries out the difference between a server's next and current standing.
    pub(super) fn apply(&mut self, id: ServerId, cause: Cause, flag_cause: &str, now_ms: u64) {
        let before = self.pool.servers[id].current;
        let usable_before = self.pool.active + self.pool.backup;
        let was_stopping = before.state == OperationalState::Stopping || before.admin.is_drain();
        // Operational changes come first, under the administrative state that was.
        let wanted_admin = self.pool.servers[id].next.admin;
        if !before.admin.is_maint() {
            self.pool.servers[id].next.admin = before.admin;
            self.apply_operational(id, &cause, was_stopping, now_ms);
            if usable_before > 0 && self.pool.active + self.pool.backup == 0 {
                self.backend_went_down(now_ms);
            }
            self.pool.servers[id].next.admin = wanted_admin;
        }
        let usable_between = self.pool.active + self.pool.backup;
        self.apply_maint(id, was_stopping, flag_cause, now_ms);
        if !wanted_admin.is_maint() {
            self.apply_drain(id, flag_cause, now_ms);
        }
        let usable = self.pool.active + self.pool.backup;
        if usable_between > 0 && usable == 0 {
            self.backend_went_down(now_ms);
        }
        // Whoever can now serve the backend's queue may be another server than this one, such as a backup.
        if self.queues.backend_len() > 0 {
            for id in self.pool.servers.ids() {
                self.grab_from_backend(id, now_ms);
            }
        }
        let server = &self.pool.servers[id];
        if server.current != before {
            self.events.push_back(Event::StateChanged { server: id, state: server.current.state });
        }
    }

    fn apply_operational(&mut self, id: ServerId, cause: &Cause, was_stopping: bool, now_ms: u64) {
        use OperationalState::{Running, Starting, Stopped, Stopping};
        let server = &self.pool.servers[id];
        let (current, next) = (server.current.state, server.next.state);
        match next {
            Stopped if current != Stopped => {
                self.pool.servers[id].last_change_ms = now_ms;
                self.engine.changed(&mut self.pool, id);
                self.shut_down_sessions(id);
                let moved = self.redistribute(id);
                let mut text = self.subject(id, " is DOWN");
                self.append_status(&mut text, id, cause, Some(moved), false);
                let level = if was_stopping { LogLevel::Notice } else { LogLevel::Alert };
                self.say_and_mail(level, level, text);
                self.pool.servers[id].counters.went_down += 1;
            }
            Stopping if current != Stopping => {
                self.pool.servers[id].last_change_ms = now_ms;
                self.engine.changed(&mut self.pool, id);
                let moved = self.redistribute(id);
                let mut text = self.subject(id, " is stopping");
                self.append_status(&mut text, id, cause, Some(moved), false);
                self.say(LogLevel::Notice, text);
            }
            Running | Starting if current != next => {
                self.backend_comes_up(now_ms);
                let server = &mut self.pool.servers[id];
                if current == Stopped {
                    server.count_down_time(now_ms);
                }
                server.last_change_ms = now_ms;
                self.start_warmup(id, now_ms);
                self.recalculate_weight(id, now_ms);
                self.engine.changed(&mut self.pool, id);
                self.shut_down_backup_sessions(id);
                let moved = self.grab_from_backend(id, now_ms);
                let mut text = self.subject(id, " is UP");
                self.append_status(&mut text, id, cause, Some(moved), false);
                self.say_and_mail(LogLevel::Notice, LogLevel::Notice, text);
            }
            _ => self.engine.changed(&mut self.pool, id),
        }
    }

    fn apply_maint(&mut self, id: ServerId, was_stopping: bool, flag_cause: &str, now_ms: u64) {
        let server = &self.pool.servers[id];
        match (server.current.admin.is_maint(), server.next.admin.is_maint()) {
            (false, true) => self.enter_maint(id, was_stopping, flag_cause, now_ms),
            (true, false) => self.leave_maint(id, now_ms),
            (true, true) => self.remain_in_maint(id),
            (false, false) => {}
        }
    }

    fn enter_maint(&mut self, id: ServerId, was_stopping: bool, flag_cause: &str, now_ms: u64) {
        let forced = self.pool.servers[id].next.admin.contains(AdminState::FORCED_MAINT);
        let server = &mut self.pool.servers[id];
        if server.check.enabled {
            server.check.paused = true;
            server.check.health = 0;
        }
        if server.current.state == OperationalState::Stopped {
            let mut text = self.subject(id, " was DOWN and now enters maintenance");
            append_flag_cause(&mut text, flag_cause);
            self.append_status(&mut text, id, &Cause::None, None, forced);
            self.say(LogLevel::Notice, text);
            let server = &mut self.pool.servers[id];
            server.current.admin = server.next.admin;
            return;
        }
        // The health of one that follows is that of the one it follows.
        if server.config.track.is_none() {
            server.check.health = 0;
        }
        server.last_change_ms = now_ms;
        server.next.state = OperationalState::Stopped;
        self.engine.changed(&mut self.pool, id);
        self.shut_down_sessions(id);
        self.events.push_back(Event::CloseIdle { server: id });
        let moved = self.redistribute(id);
        let mut text = self.subject(id, " is going DOWN for maintenance");
        append_flag_cause(&mut text, flag_cause);
        self.append_status(&mut text, id, &Cause::None, Some(moved), forced);
        self.say(if was_stopping { LogLevel::Notice } else { LogLevel::Alert }, text);
        self.pool.servers[id].counters.went_down += 1;
    }

    fn leave_maint(&mut self, id: ServerId, now_ms: u64) {
        let usable_before = self.pool.active + self.pool.backup;
        let server = &mut self.pool.servers[id];
        let left = server.current.admin;
        if server.check.enabled {
            server.check.paused = false;
            // It starts up, but the next check decides.
            server.check.health = server.check.rise();
        }
        if server.checks_agree() && !server.followed_stopped {
            server.last_change_ms = now_ms;
            server.next.state = server.first_up_state();
            if server.next.state == OperationalState::Starting {
                server.warmup_due_ms = Some(now_ms + WARMUP_STEP_MS);
            }
        }
        let up = if server.next.state == OperationalState::Stopped { "DOWN" } else { "UP" };
        let ready = if server.next.admin.is_drain() { "DRAIN" } else { "READY" };
        let hostname = server.config.hostname.clone().unwrap_or_default();
        let text = if left.contains(AdminState::INHERITED_MAINT) {
            self.subject(id, &format!(" is {up}/{ready} (leaving maintenance)"))
        } else if left.contains(AdminState::RESOLUTION_MAINT) {
            self.subject(id, &format!(" ('{hostname}') is {up}/{ready} (resolves again)"))
        } else {
            self.subject(id, &format!(" is {up}/{ready} (leaving forced maintenance)"))
        };
        self.say(LogLevel::Notice, text);
        self.recalculate_weight(id, now_ms);
        self.engine.changed(&mut self.pool, id);
        if usable_before == 0 && self.pool.active + self.pool.backup > 0 {
            self.last_change_ms = now_ms;
        }
        self.shut_down_backup_sessions(id);
        self.grab_from_backend(id, now_ms);
    }

    fn remain_in_maint(&mut self, id: ServerId) {
        let server = &self.pool.servers[id];
        let (current, next) = (server.current.admin, server.next.admin);
        let left = |flag: AdminState| current.contains(flag) && !next.contains(flag);
        let via = server.config.track.as_ref().map(|track| format!(" via {track}")).unwrap_or_default();
        let hostname = server.config.hostname.clone().unwrap_or_default();
        if left(AdminState::FORCED_MAINT) {
            let what = format!(" is leaving forced maintenance but remains in maintenance{via}");
            self.say(LogLevel::Notice, self.subject(id, &what));
        }
        if left(AdminState::RESOLUTION_MAINT) {
            let what = format!(" ('{hostname}') resolves again but remains in maintenance{via}");
            self.say(LogLevel::Notice, self.subject(id, &what));
        } else if left(AdminState::INHERITED_MAINT) {
            self.say(LogLevel::Notice, self.subject(id, " remains in forced maintenance"));
        }
        let server = &mut self.pool.servers[id];
        server.current.admin = server.next.admin;
    }

    fn apply_drain(&mut self, id: ServerId, flag_cause: &str, now_ms: u64) {
        let server = &self.pool.servers[id];
        let (current, next) = (server.current.admin, server.next.admin);
        let forced = next.contains(AdminState::FORCED_DRAIN);
        let via = server.config.track.as_ref().map(|track| format!(" via {track}")).unwrap_or_default();
        match (current.is_drain(), next.is_drain()) {
            (false, true) => {
                self.pool.servers[id].last_change_ms = now_ms;
                self.engine.changed(&mut self.pool, id);
                let moved = self.redistribute(id);
                let mut text = self.subject(id, " enters drain state");
                append_flag_cause(&mut text, flag_cause);
                self.append_status(&mut text, id, &Cause::None, Some(moved), forced);
                self.say_and_mail(LogLevel::Notice, LogLevel::Notice, text);
            }
            (true, false) => {
                self.backend_comes_up(now_ms);
                let server = &mut self.pool.servers[id];
                server.count_down_time(now_ms);
                server.last_change_ms = now_ms;
                let up = if server.next.state == OperationalState::Stopped { "DOWN" } else { "UP" };
                self.recalculate_weight(id, now_ms);
                self.say(LogLevel::Notice, self.subject(id, &format!(" is {up} (leaving forced drain)")));
                self.engine.changed(&mut self.pool, id);
            }
            // NOTE: HAProxy repeats this at every change of such a server.
            (true, true) => {
                let what = if forced {
                    " remains in forced drain mode".to_owned()
                } else {
                    format!(" is leaving forced drain but remains in drain mode{via}")
                };
                self.say(LogLevel::Notice, self.subject(id, &what));
                let server = &mut self.pool.servers[id];
                server.current.admin = server.next.admin;
            }
            (false, false) => {}
        }
    }

    fn start_warmup(&mut self, id: ServerId, now_ms: u64) {
        let server = &mut self.pool.servers[id];
        if server.next.state == OperationalState::Starting {
            server.warmup_due_ms = Some(now_ms + WARMUP_STEP_MS);
        }
    }

    fn shut_down_sessions(&mut self, id: ServerId) {
        if self.pool.servers[id].config.shutdown_sessions_on_marked_down {
            self.events.push_back(Event::ShutdownSessions { server: id, reason: ShutdownReason::Down });
        }
    }

    fn shut_down_backup_sessions(&mut self, id: ServerId) {
        let server = &self.pool.servers[id];
        if !server.config.shutdown_backup_sessions_on_marked_up || server.config.backup || server.next.weight == 0 {
            return;
        }
        for other in self.pool.servers.ids() {
            if self.pool.servers[other].config.backup {
                self.events.push_back(Event::ShutdownSessions { server: other, reason: ShutdownReason::Up });
            }
        }
    }

    /// Accounts for the time without servers, if there is none now.
    fn backend_comes_up(&mut self, now_ms: u64) {
        if self.pool.active + self.pool.backup == 0 {
            self.down_time_s += (now_ms / 1_000).saturating_sub(self.last_change_ms / 1_000);
            self.last_change_ms = now_ms;
        }
    }
}
