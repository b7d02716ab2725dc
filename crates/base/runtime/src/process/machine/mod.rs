//! What a master process decides: a machine without any input or output of its own.
//!
//! The shell ([`super::master`]) tells it what happened ([`Machine::handle`]) and carries out what it says, in order.
//! Time is an argument.
//!
//! ```text
//!                       ┌──────────────── worker answers, or fails ───────────────┐
//!                       v                                                         │
//!   start ──> Preparing ──> Starting ──> Idle ──> reload ──> Preparing ──> Loading ┤  (swap inside the worker)
//!                │              ^         │                     └──> Starting ─────┤  (a worker beside the old one)
//!                │              │         └──> upgrade ──> Probing ──> exec: a new machine, which is Preparing
//!                └── refused ───┴──> Idle, as before; at the first start: exit
//! ```
//!
//! Besides the job there is the *current* worker, which may die at any time and is then started again, and there are
//! former ones that drain. Whatever fails, the current worker and its generation stay as they were.

mod ending;
mod event;
mod jobs;
mod programs;
#[cfg(test)]
mod tests;
mod workers;

pub(crate) use event::{Action, Event, Generation, Notice, RequestId, SIGTERM, Status, Timer, WorkerId};
pub(crate) use programs::{PlannedProgram, Program};

use super::role::{MasterStatus, WorkerState, WorkerStatus};
use crate::log::Level;
use event::SIGKILL;
use programs::ProgramId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A worker that lived this long did not die in a loop.
const STABLE: Duration = Duration::from_secs(10);
/// The wait before the second start of a worker that dies in a loop; doubles each time.
const BACK_OFF_LEAST: Duration = Duration::from_millis(100);
/// The longest such wait.
const BACK_OFF_MOST: Duration = Duration::from_secs(10);
/// How long a new worker may take until it serves.
const START_MAX: Duration = Duration::from_secs(120);
/// How long a worker may take to swap its configuration before those who asked are told that it has not.
const LOAD_MAX: Duration = Duration::from_secs(60);
/// How long a former worker may take to stop accepting before the reload is called done without that.
const SWITCH_MAX: Duration = Duration::from_secs(2);
/// How long workers get after `hard-stop-after`, or after the signal to stop, before they are killed.
const KILL_AFTER: Duration = Duration::from_secs(5);
const STILL_LOADING: &str = "the worker has not taken the new configuration yet: it may still do so";
/// Reloads and upgrades that may wait for the one that is on.
const WAITING_MAX: usize = 64;

/// A worker process, as the machine knows it. Handed on at an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) pid: Option<u32>,
    pub(crate) generation: Generation,
    pub(crate) state: WorkerState,
    pub(crate) started: Duration,
    pub(crate) reloads: u64,
    /// Its end is no surprise.
    pub(crate) expected_to_end: bool,
}

/// What is under way besides serving.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Job {
    Idle,
    /// The configuration is being checked.
    Preparing,
    /// A running worker swaps its configuration.
    Loading {
        worker: WorkerId,
        generation: Generation,
    },
    /// A worker starts that will be the current one.
    Starting {
        worker: WorkerId,
        generation: Generation,
    },
    /// The new worker serves; the former one has yet to stop accepting. Only then does every new connection see the
    /// new configuration, which is what those who asked are told.
    Switching {
        former: WorkerId,
        text: String,
    },
    /// The new program is being tried.
    Probing,
    /// This program is about to be replaced.
    Executing,
}

/// Whether the service goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No worker has served yet.
    First,
    Serving,
    Draining,
    Stopping {
        code: i32,
    },
}

/// What outlives an upgrade.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) started: Duration,
    pub(crate) workers: Vec<Worker>,
    pub(crate) current: Option<WorkerId>,
    pub(crate) next_worker: WorkerId,
    pub(crate) generation: Generation,
    pub(crate) reloads: u64,
    pub(crate) failed_reloads: u64,
    #[serde(default)]
    pub(crate) last_reload_failed: bool,
    pub(crate) worker_deaths: u64,
    /// Those of the configuration that is served first.
    #[serde(default)]
    pub(crate) programs: Vec<Program>,
    #[serde(default)]
    pub(crate) next_program: ProgramId,
}

/// The decisions of a master. See the module.
#[derive(Debug)]
pub(crate) struct Machine {
    memory: Memory,
    phase: Phase,
    job: Job,
    /// Whether the job is an upgrade.
    upgrading: bool,
    /// Those waiting for the job's end.
    requests: Vec<RequestId>,
    waiting: Vec<Waiting>,
    /// The worker that swaps its configuration takes too long: nobody is made to wait for it any more.
    overdue: bool,
    /// Deaths in a row, each soon after the start.
    deaths_in_a_row: u32,
    /// The timer for the next start is running.
    restarting: bool,
    hard_stop_after: Option<Duration>,
    /// Programs of the configuration that is prepared.
    planned_programs: Vec<PlannedProgram>,
    exit_on_failure: bool,
    /// What the master ends with because of a program that failed.
    exit_code: i32,
    now: Duration,
    actions: Vec<Action>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Waiting {
    request: Option<RequestId>,
    upgrade: bool,
}

impl Machine {
    /// The machine of a master that starts from nothing.
    pub(crate) fn new() -> Self {
        Self::with(Memory::default(), Phase::First, Vec::new())
    }

    /// The machine of a program that has taken a running master's place, which `requests` asked for.
    pub(crate) fn resume(memory: Memory, requests: Vec<RequestId>) -> Self {
        let mut machine = Self::with(memory, Phase::Serving, requests);
        machine.upgrading = true;
        machine
    }

    fn with(memory: Memory, phase: Phase, requests: Vec<RequestId>) -> Self {
        Self {
            memory,
            phase,
            job: Job::Idle,
            upgrading: false,
            requests,
            waiting: Vec::new(),
            overdue: false,
            deaths_in_a_row: 0,
            restarting: false,
            hard_stop_after: None,
            planned_programs: Vec::new(),
            exit_on_failure: true,
            exit_code: 0,
            now: Duration::ZERO,
            actions: Vec::new(),
        }
    }

    /// What a successor needs.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// `hard-stop-after` of the configuration that is served.
    pub(crate) fn set_hard_stop_after(&mut self, limit: Option<Duration>) {
        self.hard_stop_after = limit;
    }

    /// Whether the outcome of [`Action::Prepare`] is awaited.
    pub(crate) fn is_preparing(&self) -> bool {
        self.job == Job::Preparing
    }

    /// What the master knows, for those who ask.
    pub(crate) fn status(&self, pid: u32, now: Duration) -> MasterStatus {
        let memory = &self.memory;
        let mut workers: Vec<&Worker> = memory.workers.iter().collect();
        workers.sort_by_key(|worker| (Some(worker.id) != memory.current, std::cmp::Reverse(worker.id)));
        MasterStatus {
            pid,
            uptime_s: now.saturating_sub(memory.started).as_secs(),
            generation: memory.generation,
            reloads: memory.reloads,
            failed_reloads: memory.failed_reloads,
            last_reload_failed: memory.last_reload_failed,
            programs: self.program_statuses(now),
            worker_deaths: memory.worker_deaths,
            workers: workers
                .into_iter()
                .map(|worker| WorkerStatus {
                    pid: worker.pid.unwrap_or(0),
                    generation: worker.generation,
                    state: worker.state,
                    uptime_s: now.saturating_sub(worker.started).as_secs(),
                    reloads: worker.reloads,
                })
                .collect(),
        }
    }

    /// Takes what happened at `now` and returns what to do, in order.
    pub(crate) fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        self.now = now;
        match event {
            Event::Start => {
                if self.memory.started.is_zero() {
                    self.memory.started = now;
                }
                self.job = Job::Preparing;
                self.act(Action::Prepare);
            }
            Event::Prepared { generation, replace, programs } => self.prepared(generation, replace, programs),
            Event::PrepareFailed { text } => self.prepare_failed(text),
            Event::Spawned { worker, pid } => self.spawned(worker, pid),
            Event::SpawnFailed { worker, text } => {
                self.log(Level::Alert, format!("cannot start a worker: {text}"));
                self.gone(worker, Err(text));
            }
            Event::Ready { worker, generation } => self.ready(worker, generation),
            Event::Refused { worker, generation, text } => self.refused(worker, generation, text),
            Event::DrainsAlready { worker } => self.drains_already(worker),
            Event::Closed { worker } => self.switched(worker),
            Event::Exited { worker, status } => self.gone(worker, Ok(status)),
            Event::ProgramSpawned { program, pid } => self.program_spawned(program, pid),
            Event::ProgramNotSpawned { program, text } => self.program_not_spawned(program, &text),
            Event::ProgramExited { pid, status } => self.program_exited(pid, status),
            Event::Reload { request } => self.asked(Waiting { request, upgrade: false }),
            Event::Upgrade { request } => self.asked(Waiting { request, upgrade: true }),
            Event::ProbePassed => self.probe_passed(),
            Event::ProbeFailed { text } | Event::ExecFailed { text } => self.upgrade_failed(text),
            Event::Drain => self.drain(),
            Event::Stop { signal } => self.stop(signal),
            Event::Timer(timer) => self.timer(timer),
        }
        self.next_job();
        std::mem::take(&mut self.actions)
    }

    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn log(&mut self, level: Level, text: String) {
        self.act(Action::Log(level, text));
    }

    fn worker(&mut self, id: WorkerId) -> Option<&mut Worker> {
        self.memory.workers.iter_mut().find(|worker| worker.id == id)
    }

    fn current_state(&mut self) -> Option<WorkerState> {
        let current = self.memory.current?;
        self.worker(current).map(|worker| worker.state)
    }

    fn spawn(&mut self, generation: Generation) -> WorkerId {
        self.memory.next_worker += 1;
        let id = self.memory.next_worker;
        self.memory.workers.push(Worker {
            id,
            pid: None,
            generation,
            state: WorkerState::Starting,
            started: self.now,
            reloads: 0,
            expected_to_end: false,
        });
        self.act(Action::Spawn { worker: id, generation });
        self.act(Action::SetTimer { timer: Timer::Started(id), after: START_MAX });
        id
    }

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Restart => {
                self.restarting = false;
                self.restart_now();
            }
            Timer::Started(id) => {
                let Some(worker) = self.worker(id).filter(|worker| worker.state == WorkerState::Starting) else {
                    return;
                };
                if let Some(pid) = worker.pid {
                    self.log(Level::Alert, format!("Worker ({pid}) does not get ready: killed"));
                    self.act(Action::Kill { pid, signal: SIGKILL });
                }
            }
            Timer::Loaded(id) => {
                if matches!(self.job, Job::Loading { worker, .. } if worker == id) {
                    self.overdue = true;
                    self.log(Level::Alert, STILL_LOADING.to_owned());
                    let mut requests = std::mem::take(&mut self.requests);
                    requests.extend(self.waiting.drain(..).filter_map(|waiting| waiting.request));
                    self.act(Action::Answer { requests, result: Err(STILL_LOADING.to_owned()) });
                }
            }
            Timer::Switched(id) => self.switched(id),
            Timer::Kill => self.kill_all(SIGKILL),
        }
    }
}
