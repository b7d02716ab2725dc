//! Workers: started, serving, former, gone, and started again.

use super::{
    Action, BACK_OFF_LEAST, BACK_OFF_MOST, Generation, Job, Machine, Notice, Phase, STABLE, SWITCH_MAX, Status, Timer,
    WorkerId,
};
use crate::log::Level;
use crate::process::role::{DrainReason, WorkerState};

impl Machine {
    pub(super) fn spawned(&mut self, id: WorkerId, pid: u32) {
        if let Some(worker) = self.worker(id) {
            worker.pid = Some(pid);
        }
        self.log(Level::Notice, format!("New worker ({pid}) started"));
    }

    pub(super) fn ready(&mut self, id: WorkerId, generation: Generation) {
        let Some(worker) = self.worker(id) else { return };
        if worker.expected_to_end {
            return;
        }
        worker.generation = generation;
        let was_starting = worker.state == WorkerState::Starting;
        worker.state = WorkerState::Serving;
        if !was_starting {
            worker.reloads += 1;
        }
        let pid = worker.pid.unwrap_or(0);
        match self.job {
            Job::Loading { worker, generation: loading } if worker == id && loading == generation => {
                self.adopt(generation);
                self.job_done(format!("Worker ({pid}) serves the new configuration"));
            }
            Job::Starting { worker, .. } if worker == id => {
                self.adopt(generation);
                let former = self.memory.current.replace(id).filter(|former| *former != id);
                if self.phase == Phase::First {
                    self.phase = Phase::Serving;
                    self.job = Job::Idle;
                    self.log(Level::Notice, format!("Worker ({pid}) serves"));
                    return self.act(Action::Notify(Notice::Ready));
                }
                let text = format!("Worker ({pid}) serves in the place of the former one");
                match former {
                    Some(former) => {
                        self.job = Job::Switching { former, text };
                        self.tell_drain(former, DrainReason::Replaced);
                        self.act(Action::SetTimer { timer: Timer::Switched(former), after: SWITCH_MAX });
                    }
                    None => self.job_done(text),
                }
            }
            _ => self.log(Level::Notice, format!("Worker ({pid}) serves again")),
        }
    }

    /// A former worker accepts nothing any more.
    pub(super) fn switched(&mut self, id: WorkerId) {
        if let Job::Switching { former, text } = &self.job
            && *former == id
        {
            let text = text.clone();
            self.job_done(text);
        }
    }

    fn adopt(&mut self, generation: Generation) {
        self.memory.generation = generation;
        self.act(Action::Adopt { generation });
        if self.phase != Phase::First {
            self.change_programs(generation);
        }
    }

    pub(super) fn refused(&mut self, id: WorkerId, generation: Generation, text: String) {
        match self.job {
            Job::Loading { worker, .. } if worker == id => {
                self.act(Action::Discard { generation });
                self.job_failed(text);
            }
            Job::Starting { worker, .. } if worker == id => {
                // It ends by itself; its end is no news any more.
                if let Some(worker) = self.worker(id) {
                    worker.expected_to_end = true;
                }
                self.act(Action::Discard { generation });
                self.job_failed(text);
            }
            _ => self.log(Level::Alert, format!("the worker cannot serve: {text}")),
        }
    }

    pub(super) fn drains_already(&mut self, id: WorkerId) {
        let Some(worker) = self.worker(id) else { return };
        worker.expected_to_end = true;
        worker.state = WorkerState::Draining;
        let pid = worker.pid.unwrap_or(0);
        self.abandon_job_of(id, "the worker was told to end");
        if self.memory.current == Some(id) && self.phase == Phase::Serving {
            self.log(Level::Warning, format!("Current worker ({pid}) was told to end: starting another"));
            self.memory.current = None;
            self.restart_now();
        }
    }

    /// A worker is no more: it ended, or never began.
    pub(super) fn gone(&mut self, id: WorkerId, end: Result<Status, String>) {
        let Some(index) = self.memory.workers.iter().position(|worker| worker.id == id) else { return };
        let worker = self.memory.workers.remove(index);
        let was_current = self.memory.current == Some(id);
        if was_current {
            self.memory.current = None;
        }
        let text = match &end {
            Ok(status) => {
                let what = match status {
                    Status::Code(code) => format!("exited with code {code}"),
                    Status::Signal(signal) => format!("was ended by signal {signal}"),
                };
                let pid = worker.pid.unwrap_or(0);
                if worker.expected_to_end {
                    self.log(Level::Notice, format!("Former worker ({pid}) {what}"));
                } else {
                    self.log(Level::Alert, format!("Current worker ({pid}) {what}"));
                }
                format!("the worker {what} while it took the configuration")
            }
            Err(text) => format!("cannot start a worker: {text}"),
        };
        match self.phase {
            Phase::Draining | Phase::Stopping { .. } => return self.exit_if_alone(),
            Phase::First | Phase::Serving => {}
        }
        if !worker.expected_to_end {
            self.memory.worker_deaths += 1;
        }
        if self.now.saturating_sub(worker.started) >= STABLE {
            self.deaths_in_a_row = 0;
        }
        self.switched(id);
        self.abandon_job_of(id, &text);
        // One may be about to start anyway, or begun to when its job failed.
        let starting = matches!(self.job, Job::Starting { .. });
        if was_current && self.memory.current.is_none() && !starting && !self.restarting {
            self.restart_later();
        }
    }

    /// Ends a job that needed this worker.
    fn abandon_job_of(&mut self, id: WorkerId, text: &str) {
        let generation = match self.job {
            Job::Loading { worker, generation } | Job::Starting { worker, generation } if worker == id => generation,
            _ => return,
        };
        self.act(Action::Discard { generation });
        self.job_failed(text.to_owned());
    }

    pub(super) fn restart_later(&mut self) {
        let deaths = self.deaths_in_a_row;
        self.deaths_in_a_row = deaths.saturating_add(1);
        if deaths == 0 {
            return self.restart_now();
        }
        self.restarting = true;
        let wait = BACK_OFF_LEAST.saturating_mul(1 << (deaths - 1).min(16)).min(BACK_OFF_MOST);
        let ms = wait.as_millis();
        self.log(Level::Warning, format!("Workers die in a row ({}): the next start is in {ms} ms", deaths + 1));
        self.act(Action::SetTimer { timer: Timer::Restart, after: wait });
    }

    pub(super) fn restart_now(&mut self) {
        if self.phase == Phase::Serving && self.memory.current.is_none() && !matches!(self.job, Job::Starting { .. }) {
            let id = self.spawn(self.memory.generation);
            self.memory.current = Some(id);
        }
    }
}
