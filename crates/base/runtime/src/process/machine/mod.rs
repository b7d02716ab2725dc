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

mod event;
#[cfg(test)]
mod tests;

pub(crate) use event::{Action, Event, Generation, Notice, RequestId, SIGTERM, Status, Timer, WorkerId};

use super::role::{DrainReason, MasterStatus, WorkerState, WorkerStatus};
use crate::log::Level;
use event::SIGKILL;
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
    pub(crate) worker_deaths: u64,
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
            Event::Prepared { generation, replace } => self.prepared(generation, replace),
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

    // Preparing

    fn prepared(&mut self, generation: Generation, replace: bool) {
        if self.job != Job::Preparing {
            return self.act(Action::Discard { generation });
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

    fn prepare_failed(&mut self, text: String) {
        if self.job == Job::Preparing {
            self.job_failed(text);
        }
    }

    // Workers

    fn spawned(&mut self, id: WorkerId, pid: u32) {
        if let Some(worker) = self.worker(id) {
            worker.pid = Some(pid);
        }
        self.log(Level::Notice, format!("New worker ({pid}) started"));
    }

    fn ready(&mut self, id: WorkerId, generation: Generation) {
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
    fn switched(&mut self, id: WorkerId) {
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
    }

    fn refused(&mut self, id: WorkerId, generation: Generation, text: String) {
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

    fn drains_already(&mut self, id: WorkerId) {
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
    fn gone(&mut self, id: WorkerId, end: Result<Status, String>) {
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

    // Starting a worker again

    fn restart_later(&mut self) {
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

    fn restart_now(&mut self) {
        if self.phase == Phase::Serving && self.memory.current.is_none() && !matches!(self.job, Job::Starting { .. }) {
            let id = self.spawn(self.memory.generation);
            self.memory.current = Some(id);
        }
    }

    // Reload and upgrade

    fn asked(&mut self, waiting: Waiting) {
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
    fn next_job(&mut self) {
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

    fn probe_passed(&mut self) {
        if self.job == Job::Probing {
            self.job = Job::Executing;
            // The successor reads the configuration anew, so it answers those who wait for that as well.
            self.requests.extend(self.waiting.drain(..).filter_map(|waiting| waiting.request));
            let requests = self.requests.clone();
            self.act(Action::Exec { requests });
        }
    }

    fn upgrade_failed(&mut self, text: String) {
        if matches!(self.job, Job::Probing | Job::Executing) {
            self.job_failed(text);
        }
    }

    fn what(&self) -> &'static str {
        if self.upgrading { "Upgrade" } else { "Reload" }
    }

    fn job_done(&mut self, text: String) {
        self.job = Job::Idle;
        self.memory.reloads += 1;
        self.log(Level::Notice, format!("{} succeeded: {text}", self.what()));
        self.end_job(Ok(text));
    }

    fn job_failed(&mut self, text: String) {
        self.job = Job::Idle;
        match self.phase {
            Phase::First => {
                self.log(Level::Alert, text);
                self.act(Action::CloseSockets);
                // A worker that refused ends by itself.
                return self.act(Action::Exit { code: 1 });
            }
            Phase::Serving => {
                self.memory.failed_reloads += 1;
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

    // Ending

    fn tell_drain(&mut self, id: WorkerId, reason: DrainReason) {
        if let Some(worker) = self.worker(id) {
            worker.expected_to_end = true;
            worker.state = WorkerState::Draining;
            self.act(Action::TellDrain { worker: id, reason });
        }
    }

    fn drain(&mut self) {
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
        self.act(Action::CloseSockets);
        if let Some(limit) = self.hard_stop_after {
            self.act(Action::SetTimer { timer: Timer::Kill, after: limit + KILL_AFTER });
        }
        self.exit_if_alone();
    }

    fn stop(&mut self, signal: i32) {
        if matches!(self.phase, Phase::Stopping { .. }) {
            return;
        }
        // SIGTERM is the ordinary way to end, SIGINT an interruption that is reported: as HAProxy's master does.
        let code = if signal == SIGTERM { 0 } else { 128 + signal };
        self.begin_end(Phase::Stopping { code });
        self.log(Level::Warning, "Ending now".to_owned());
        self.kill_all(signal);
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

    fn kill_all(&mut self, signal: i32) {
        for worker in &mut self.memory.workers {
            worker.expected_to_end = true;
            if let Some(pid) = worker.pid {
                self.actions.push(Action::Kill { pid, signal });
            }
        }
    }

    fn exit_if_alone(&mut self) {
        let code = match self.phase {
            Phase::Stopping { code } => code,
            _ => 0,
        };
        if self.memory.workers.is_empty() {
            self.log(Level::Warning, format!("All workers exited. Exiting... ({code})"));
            self.act(Action::Exit { code });
        }
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
