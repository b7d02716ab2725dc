//! Reloads and upgrades, from being asked for to their end.

use super::{
    Action, Generation, Job, LOAD_MAX, Machine, Notice, Phase, PlannedProgram, SIGTERM, STILL_LOADING, Timer,
    WAITING_MAX, Waiting,
};
use crate::log::Level;
use crate::process::role::WorkerState;

impl Machine {
    pub(super) fn prepared(&mut self, generation: Generation, replace: bool, programs: Vec<PlannedProgram>) {
        if self.job != Job::Preparing {
            return self.act(Action::Discard { generation });
        }
        self.planned_programs = programs;
        if self.phase == Phase::First {
            // As HAProxy does: what the workers need of them is there, or soon will be.
            self.change_programs(generation);
        }
        let swappable = !replace && !self.upgrading && self.current_state() == Some(WorkerState::Serving);
        self.job = match self.memory.current {
            Some(worker) if swappable => {
                self.act(Action::Load { worker, generation });
                self.act(Action::SetTimer { timer: Timer::Loaded(worker), after: LOAD_MAX });
                self.overdue = false;
                Job::Loading { worker, generation }
            }
            _ => Job::Starting { worker: self.spawn(generation), generation },
        };
    }

    pub(super) fn prepare_failed(&mut self, text: String) {
        if self.job == Job::Preparing {
            self.job_failed(text);
        }
    }

    pub(super) fn asked(&mut self, waiting: Waiting) {
        let refusal = match self.phase {
            Phase::Draining | Phase::Stopping { .. } => "the service is ending",
            Phase::First | Phase::Serving if self.overdue => STILL_LOADING,
            Phase::First | Phase::Serving if self.waiting.len() >= WAITING_MAX => "too many requests are waiting",
            Phase::First | Phase::Serving => return self.waiting.push(waiting),
        };
        let requests = waiting.request.into_iter().collect();
        self.act(Action::Answer { requests, result: Err(refusal.to_owned()) });
    }

    /// Begins what waits, if nothing is under way. All that wait are served by one reload or upgrade.
    pub(super) fn next_job(&mut self) {
        let starting = self.current_state() == Some(WorkerState::Starting);
        if self.job != Job::Idle || self.phase != Phase::Serving || starting || self.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.upgrading = waiting.iter().any(|waiting| waiting.upgrade);
        self.requests = waiting.into_iter().filter_map(|waiting| waiting.request).collect();
        self.act(Action::Notify(Notice::Reloading));
        if self.upgrading {
            self.job = Job::Probing;
            self.act(Action::Probe);
        } else {
            self.job = Job::Preparing;
            self.act(Action::Prepare);
        }
    }

    pub(super) fn probe_passed(&mut self) {
        if self.job == Job::Probing {
            self.job = Job::Executing;
            // The successor reads the configuration anew, so it answers those who wait for that as well.
            self.requests.extend(self.waiting.drain(..).filter_map(|waiting| waiting.request));
            let requests = self.requests.clone();
            self.act(Action::Exec { requests });
        }
    }

    pub(super) fn upgrade_failed(&mut self, text: String) {
        if matches!(self.job, Job::Probing | Job::Executing) {
            self.job_failed(text);
        }
    }

    fn what(&self) -> &'static str {
        if self.upgrading { "Upgrade" } else { "Reload" }
    }

    pub(super) fn job_done(&mut self, text: String) {
        self.job = Job::Idle;
        self.memory.reloads += 1;
        self.memory.last_reload_failed = false;
        self.log(Level::Notice, format!("{} succeeded: {text}", self.what()));
        self.end_job(Ok(text));
    }

    pub(super) fn job_failed(&mut self, text: String) {
        self.job = Job::Idle;
        match self.phase {
            Phase::First => {
                self.log(Level::Alert, text);
                self.act(Action::CloseSockets);
                self.signal_programs(SIGTERM);
                // A worker that refused ends by itself.
                return self.act(Action::Exit { code: 1 });
            }
            Phase::Serving => {
                self.memory.failed_reloads += 1;
                self.memory.last_reload_failed = true;
                self.log(Level::Alert, format!("{} failed, nothing has changed: {text}", self.what()));
            }
            Phase::Draining | Phase::Stopping { .. } => {}
        }
        self.end_job(Err(text));
        // The job may have been in the way of this.
        if self.phase == Phase::Serving && self.memory.current.is_none() && !self.restarting {
            self.restart_later();
        }
    }

    fn end_job(&mut self, result: Result<String, String>) {
        let requests = std::mem::take(&mut self.requests);
        self.upgrading = false;
        self.overdue = false;
        self.act(Action::Answer { requests, result });
        if self.phase == Phase::Serving {
            self.act(Action::Notify(Notice::Ready));
        }
    }
}
