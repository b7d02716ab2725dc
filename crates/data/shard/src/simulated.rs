//! A world and workers for simulations and tests: time goes on when it is told to, and jobs are done when they are asked to be. Nothing
//! depends on anything but what is called.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use commands::config::LogLevel;
use engine::{Answer, Engine, Job, Report, Request};
use keyspace::Millis;
use oplog::{Log, Maintainer, Syncer, disk::Disk};

use crate::{MemoryGauge, ReadPurpose, SyncRequest, Workers, World, error::chain};

/// How many jobs may wait for each worker.
const WAITING_MAX: usize = 64;

/// A world whose clock goes on when it is told to. The one that nobody sets goes on a little with each look at it, as work takes time.
#[derive(Debug, Default)]
pub struct SimulatedWorld {
    now: Cell<Millis>,
    elapsed: Cell<Duration>,
    /// How much a look takes.
    step: Cell<Duration>,
    messages: RefCell<Vec<(LogLevel, String)>>,
}

impl SimulatedWorld {
    /// One that begins at a time.
    #[must_use]
    pub fn new(now: Millis) -> Rc<Self> {
        Rc::new(Self { now: Cell::new(now), ..Self::default() })
    }

    /// So much later.
    pub fn advance(&self, by: Duration) {
        self.now.set(self.now.get() + Millis::try_from(by.as_millis()).unwrap_or(0));
        self.elapsed.set(self.elapsed.get() + by);
    }

    /// How much time goes by from one look at the clock to the next one, if nobody says so: none at first.
    pub fn set_step(&self, step: Duration) {
        self.step.set(step);
    }

    /// What was said since this was asked last.
    pub fn take_messages(&self) -> Vec<(LogLevel, String)> {
        self.messages.take()
    }
}

impl World for SimulatedWorld {
    fn now(&self) -> Millis {
        self.now.get()
    }

    fn elapsed(&self) -> Duration {
        self.elapsed.set(self.elapsed.get() + self.step.get());
        self.elapsed.get()
    }

    fn say(&self, level: LogLevel, text: &str) {
        self.messages.borrow_mut().push((level, text.to_owned()));
    }
}

/// Workers that do a job when they are told to.
pub struct SimulatedWorkers<D: Disk> {
    engine: Arc<dyn Engine>,
    syncer: Syncer<D>,
    maintainer: Maintainer<D>,
    jobs: VecDeque<Job>,
    /// How often the first of them has failed.
    failures: u32,
    reports: VecDeque<Report>,
    reads: VecDeque<(Request, ReadPurpose)>,
    answers: VecDeque<(ReadPurpose, Answer)>,
    is_sync_wanted: bool,
    is_maintenance_wanted: bool,
    sync_failure: Option<String>,
}

impl<D: Disk> SimulatedWorkers<D> {
    /// Those of a log and of tables.
    pub fn new(log: &Log<D>, engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            syncer: log.syncer(),
            maintainer: log.maintainer(),
            jobs: VecDeque::new(),
            failures: 0,
            reports: VecDeque::new(),
            reads: VecDeque::new(),
            answers: VecDeque::new(),
            is_sync_wanted: false,
            is_maintenance_wanted: false,
            sync_failure: None,
        }
    }

    /// Syncs the log, as the thread does each second, whether somebody has asked for it or not.
    pub fn sync_now(&mut self) {
        self.is_sync_wanted = false;
        if let Err(error) = self.syncer.sync() {
            self.sync_failure = Some(chain(&error));
        }
    }

    /// Syncs the log if that was asked for.
    pub fn do_sync(&mut self) {
        if self.is_sync_wanted {
            self.sync_now();
        }
    }

    /// Prepares and removes segments of the log if that was asked for.
    pub fn do_maintenance(&mut self) {
        if std::mem::take(&mut self.is_maintenance_wanted) {
            // Without prepared segments the log makes its own.
            let _ = self.maintainer.run();
        }
    }

    /// Does the next job of the tables' writer. False if there is none.
    pub fn do_job(&mut self) -> bool {
        let Some(job) = self.jobs.pop_front() else { return false };
        let report = match &job {
            Job::Write(batch) => match self.engine.write(batch) {
                Ok(()) => Report::Written { applied: batch.applied(), records: batch.len() },
                Err(error) => {
                    self.failures += 1;
                    let again = error.is_transient().then_some(Duration::ZERO);
                    Report::WriteFailed { error, failures: self.failures, again }
                }
            },
            Job::Sync => Report::Synced(self.engine.sync()),
            Job::Compact => Report::Compacted(self.engine.compact()),
            Job::Remove { bounds, is_first, records_max, with_last } => {
                Report::Removed(engine::remove_range(&*self.engine, bounds, *is_first, *records_max, with_last))
            }
        };
        match &report {
            Report::WriteFailed { again: Some(_), .. } => self.jobs.push_front(job),
            _ => self.failures = 0,
        }
        self.reports.push_back(report);
        true
    }

    /// Answers all reads that commands wait for, and leaves others.
    pub fn do_reads_of_commands(&mut self) {
        let is_of_command = |purpose: &ReadPurpose| matches!(purpose, ReadPurpose::Key(_) | ReadPurpose::Elements(..));
        let (now, later) = self.reads.drain(..).partition(|(_, purpose)| is_of_command(purpose));
        self.reads = now;
        while self.do_read() {}
        self.reads = later;
    }

    /// Answers the next read. False if nobody has asked.
    pub fn do_read(&mut self) -> bool {
        let Some((request, purpose)) = self.reads.pop_front() else { return false };
        self.answers.push_back((purpose, engine::answer(&*self.engine, request)));
        true
    }
}

/// As much memory as is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct AmpleMemory;

impl MemoryGauge for AmpleMemory {
    fn used(&self) -> u64 {
        0
    }

    fn of_bound(&self, bound: u64) -> u64 {
        bound
    }

    fn note(&mut self, _: u64, _: u64) {}

    fn tick(&mut self, _: Millis, _: u64, _: u64) {}
}

impl<D: Disk> Workers for SimulatedWorkers<D> {
    fn write_tables(&mut self, job: Job) -> Result<(), Job> {
        if self.jobs.len() >= WAITING_MAX {
            return Err(job);
        }
        self.jobs.push_back(job);
        Ok(())
    }

    fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    fn wait_for_report(&mut self) -> Option<Report> {
        if self.reports.is_empty() {
            self.do_job();
        }
        self.reports.pop_front()
    }

    fn read(&mut self, request: Request, purpose: ReadPurpose) -> bool {
        let has_room = self.reads.len() < WAITING_MAX;
        if has_room {
            self.reads.push_back((request, purpose));
        }
        has_room
    }

    fn begin_reads(&mut self) {}

    fn begin_answers(&mut self) {}

    fn poll_answer(&mut self) -> Option<(ReadPurpose, Answer)> {
        self.answers.pop_front()
    }

    fn wait_for_answers(&mut self) {
        self.do_read();
    }

    fn reads_by_ring(&self) -> bool {
        false
    }

    fn sync_log(&mut self, _: SyncRequest) {
        self.is_sync_wanted = true;
    }

    fn poll_sync_failure(&mut self) -> Option<String> {
        self.sync_failure.take()
    }

    fn maintain_log(&mut self) {
        self.is_maintenance_wanted = true;
    }

    fn end(mut self) {
        while self.do_job() && self.failures == 0 {}
    }
}
