//! The end of the service: at leisure or at once.

use super::event::SIGUSR1;
use super::{Action, Job, KILL_AFTER, Machine, Notice, Phase, SIGTERM, Timer, WorkerId};
use crate::log::Level;
use crate::process::role::{DrainReason, WorkerState};

impl Machine {
    pub(super) fn tell_drain(&mut self, id: WorkerId, reason: DrainReason) {
        if let Some(worker) = self.worker(id) {
            worker.expected_to_end = true;
            worker.state = WorkerState::Draining;
            self.act(Action::TellDrain { worker: id, reason });
        }
    }

    pub(super) fn drain(&mut self) {
        if !matches!(self.phase, Phase::First | Phase::Serving) {
            return;
        }
        self.begin_end(Phase::Draining);
        self.log(Level::Warning, "Ending when all connections have".to_owned());
        let ids: Vec<(WorkerId, WorkerState)> =
            self.memory.workers.iter().map(|worker| (worker.id, worker.state)).collect();
        for (id, state) in ids {
            // One that drains already has been told.
            if state != WorkerState::Draining {
                self.tell_drain(id, DrainReason::Stop);
            }
        }
        self.signal_programs(SIGUSR1);
        self.act(Action::CloseSockets);
        if let Some(limit) = self.hard_stop_after {
            self.act(Action::SetTimer { timer: Timer::Kill, after: limit + KILL_AFTER });
        }
        self.exit_if_alone();
    }

    pub(super) fn stop(&mut self, signal: i32) {
        if matches!(self.phase, Phase::Stopping { .. }) {
            return;
        }
        // SIGTERM is the ordinary way to end, SIGINT an interruption that is reported: as HAProxy's master does.
        let code = if signal == SIGTERM { 0 } else { 128 + signal };
        self.log(Level::Warning, "Ending now".to_owned());
        self.stop_all(signal, code);
    }

    /// Ends all processes by a signal, then the master with a code.
    pub(super) fn stop_all(&mut self, signal: i32, code: i32) {
        self.begin_end(Phase::Stopping { code });
        self.kill_all(signal);
        self.signal_programs(signal);
        self.act(Action::CloseSockets);
        self.act(Action::SetTimer { timer: Timer::Kill, after: KILL_AFTER });
        self.exit_if_alone();
    }

    fn begin_end(&mut self, phase: Phase) {
        self.phase = phase;
        self.act(Action::Notify(Notice::Stopping));
        self.job = Job::Idle;
        let mut requests = std::mem::take(&mut self.requests);
        requests.extend(self.waiting.drain(..).filter_map(|waiting| waiting.request));
        if !requests.is_empty() {
            self.act(Action::Answer { requests, result: Err("the service is ending".to_owned()) });
        }
    }

    pub(super) fn kill_all(&mut self, signal: i32) {
        for worker in &mut self.memory.workers {
            worker.expected_to_end = true;
            if let Some(pid) = worker.pid {
                self.actions.push(Action::Kill { pid, signal });
            }
        }
    }

    pub(super) fn exit_if_alone(&mut self) {
        let code = match self.phase {
            Phase::Stopping { code } if code != 0 => code,
            _ => self.exit_code,
        };
        // Programs take their time, as they do with HAProxy.
        if self.memory.workers.is_empty() && self.memory.programs.is_empty() {
            self.log(Level::Warning, format!("All workers exited. Exiting... ({code})"));
            self.act(Action::Exit { code });
        }
    }
}
