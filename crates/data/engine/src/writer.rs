//! The thread that writes, so that a shard's loop never waits for a disk.
//!
//! Jobs are done one after another, in order. A write that fails is tried again, after a delay that doubles up to a bound,
//! until it succeeds or the writer is stopped: what was handed in is never given up. Every end and every failure is reported.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::{Batch, Bounds, Engine, Error, Key, LogOffset, Removed, Result, remove_range};

/// How often a writer looks whether the loop has let go of a batch.
const LET_GO_TRIES: u32 = 100;
/// How long it waits in between.
const LET_GO_PAUSE: Duration = Duration::from_millis(1);

/// How a [`Writer`] behaves.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Name of its thread.
    pub name: String,
    /// First delay before a failed write is tried again.
    pub retry_delay: Duration,
    /// Longest delay.
    pub retry_delay_max: Duration,
    /// How many jobs may wait.
    pub jobs_max: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            name: "tables".to_owned(),
            retry_delay: Duration::from_millis(50),
            retry_delay_max: Duration::from_secs(2),
            jobs_max: 64,
        }
    }
}

/// What a [`Writer`] is asked for.
pub enum Job {
    /// Write a batch, as often as it takes.
    Write(Arc<Batch>),
    /// Bring all that was written to the disk.
    Sync,
    /// Merge everything, so that what was deleted takes no place.
    Compact,
    /// One step of a removal, see [`remove_range`].
    Remove {
        /// Which records.
        bounds: Bounds,
        /// Whether it is the first step.
        is_first: bool,
        /// At most how many.
        records_max: usize,
        /// What goes with the last ones.
        with_last: Vec<Key>,
    },
}

/// What became of a job.
#[derive(Debug)]
pub enum Report {
    /// The engine has the batch.
    Written {
        /// The batch's offset.
        applied: Option<LogOffset>,
        /// How many records it changed.
        records: usize,
    },
    /// The engine does not have the batch. It is tried again after the delay; nothing has to be done about it.
    WriteFailed {
        /// Why.
        error: Error,
        /// How often it has failed now.
        failures: u32,
        /// When it is tried again; `None` if not: the engine broke down, or the writer was told to stop.
        again: Option<Duration>,
    },
    /// All that was written before is on the disk, or why not (which is not tried again).
    Synced(Result<()>),
    /// All was merged, or why not (which is not tried again).
    Compacted(Result<()>),
    /// A step of a removal was made, or failed (which is not tried again).
    Removed(Result<Removed>),
}

/// A thread that writes to an engine. Dropping it finishes the jobs that wait, each with a single try.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    jobs_max: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_stopping: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` when it is time to end.
    fn take(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_stopping {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits; false if it is time to end.
    fn pause(&self, delay: Duration) -> bool {
        let queue = self.queue();
        let waited = self.changed.wait_timeout_while(queue, delay, |queue| !queue.is_stopping);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_stopping
    }
}

impl Writer {
    /// Starts the thread. `report` is called on it, for every job in order; it should hand over and wake, nothing more.
    pub fn start(
        engine: Arc<dyn Engine>,
        options: &WriterOptions,
        report: impl FnMut(Report) + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared =
            Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new(), jobs_max: options.jobs_max.max(1) });
        let worker = Worker {
            engine,
            shared: Arc::clone(&shared),
            retry_delay: options.retry_delay,
            retry_delay_max: options.retry_delay_max,
            report,
        };
        let thread = std::thread::Builder::new().name(options.name.clone()).spawn(move || worker.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Queues a job; gives it back if too many wait.
    pub fn submit(&self, job: Job) -> std::result::Result<(), Job> {
        let mut queue = self.shared.queue();
        if queue.jobs.len() >= self.shared.jobs_max {
            return Err(job);
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.changed.notify_one();
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue().is_stopping = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread catches panics of the engine; one of a report has been printed.
            let _ = thread.join();
        }
    }
}

struct Worker<R> {
    engine: Arc<dyn Engine>,
    shared: Arc<Shared>,
    retry_delay: Duration,
    retry_delay_max: Duration,
    report: R,
}

impl<R: FnMut(Report)> Worker<R> {
    fn run(mut self) {
        while let Some(job) = self.shared.take() {
            match job {
                Job::Write(batch) => {
                    self.write(&batch);
                    self.let_go(batch);
                }
                Job::Sync => {
                    let result = guarded(|| self.engine.sync());
                    (self.report)(Report::Synced(result));
                }
                Job::Compact => {
                    let result = guarded(|| self.engine.compact());
                    (self.report)(Report::Compacted(result));
                }
                Job::Remove { bounds, is_first, records_max, with_last } => {
                    let remove = || remove_range(&*self.engine, &bounds, is_first, records_max, &with_last);
                    let result = guarded(remove);
                    (self.report)(Report::Removed(result));
                }
            }
        }
    }

    /// Waits a little until nobody else has the batch: to free the memory of some hundred thousand records takes long, and
    /// the loop that has just been told should not have to.
    fn let_go(&self, batch: Arc<Batch>) {
        for _ in 0..LET_GO_TRIES {
            if Arc::strong_count(&batch) == 1 || !self.shared.pause(LET_GO_PAUSE) {
                break;
            }
        }
    }

    fn write(&mut self, batch: &Batch) {
        let mut failures = 0;
        let mut delay = self.retry_delay;
        loop {
            let error = match guarded(|| self.engine.write(batch)) {
                Ok(()) => {
                    return (self.report)(Report::Written { applied: batch.applied(), records: batch.len() });
                }
                Err(error) => error,
            };
            failures += 1;
            let goes_on = error.is_transient() && !self.shared.queue().is_stopping;
            (self.report)(Report::WriteFailed { error, failures, again: goes_on.then_some(delay) });
            if !goes_on || !self.shared.pause(delay) {
                return;
            }
            delay = (delay * 2).min(self.retry_delay_max);
        }
    }
}

/// An engine's panic as an error: what broke down is the engine, not the process that has to be told.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::Broken(text.unwrap_or_else(|| "it panicked".to_owned())))
    })
}

#[cfg(test)]
mod tests;
