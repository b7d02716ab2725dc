//! Threads that wait for disks, so that no worker does.
//!
//! Jobs of one device take at most three quarters of the threads, and devices take turns: a disk that answers slowly, or not at all,
//! leaves threads to the others.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

/// Jobs for disks that wait at most.
const WAITING_MAX: usize = 16_384;
/// How long a thread without a job stays.
const IDLE: Duration = Duration::from_secs(30);

type Job = Box<dyn FnOnce() + Send>;

/// The threads, of which there are as many as jobs wait, up to a limit.
pub struct DiskThreads {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    threads_max: usize,
    waiting_max: usize,
    name: &'static str,
    started: AtomicU64,
}

#[derive(Default)]
struct State {
    devices: Vec<Device>,
    waiting: usize,
    threads: usize,
    idle: usize,
    /// Which device has the next turn.
    turn: usize,
}

struct Device {
    number: u64,
    jobs: VecDeque<Job>,
    running: usize,
}

/// Too many jobs wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests wait for the disk")]
pub struct Busy;

impl std::fmt::Debug for DiskThreads {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DiskThreads").field("most", &self.shared.threads_max).finish_non_exhaustive()
    }
}

impl DiskThreads {
    /// At most so many threads. None is started before there is a job.
    #[must_use]
    pub fn new(threads_max: usize) -> Self {
        Self::named("disk", threads_max, WAITING_MAX)
    }

    /// Threads that wait for something else, which `device` stands for then: plugins.
    #[must_use]
    pub fn named(name: &'static str, threads_max: usize, waiting_max: usize) -> Self {
        let state = Mutex::default();
        Self {
            shared: Arc::new(Shared {
                state,
                wake: Condvar::new(),
                threads_max: threads_max.max(1),
                waiting_max,
                name,
                started: AtomicU64::new(0),
            }),
        }
    }

    /// Has a thread do something with a device; what comes of it is received there. Nothing comes if the threads end before.
    ///
    /// # Errors
    /// When too many jobs wait, or no thread can be started.
    pub fn run<R: Send + 'static>(
        &self,
        device: u64,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<oneshot::Receiver<R>, Busy> {
        let (sender, receiver) = oneshot::channel();
        self.spawn(device, move || {
            // NOTE: who has left does not want it any more.
            if !sender.is_closed() {
                let _ = sender.send(job());
            }
        })?;
        Ok(receiver)
    }

    /// Has a thread do something with a device, and hears nothing of it.
    ///
    /// # Errors
    /// As [`DiskThreads::run`].
    pub fn spawn(&self, device: u64, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        let mut state = self.shared.lock();
        if state.waiting >= self.shared.waiting_max {
            return Err(Busy);
        }
        if state.idle <= state.waiting && state.threads < self.shared.threads_max {
            if self.shared.start() {
                state.threads += 1;
            } else if state.threads == 0 {
                return Err(Busy);
            }
        }
        state.push(device, Box::new(job));
        drop(state);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Jobs that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting
    }
}

impl Drop for DiskThreads {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.devices.clear();
        state.waiting = 0;
    }
}

impl State {
    fn push(&mut self, number: u64, job: Job) {
        self.waiting += 1;
        match self.devices.iter_mut().find(|device| device.number == number) {
            Some(device) => device.jobs.push_back(job),
            None => self.devices.push(Device { number, jobs: [job].into(), running: 0 }),
        }
    }

    /// The next job that may run, and its device.
    fn take(&mut self, running_max: usize) -> Option<(u64, Job)> {
        let count = self.devices.len();
        let first = self.turn;
        let places = (0..count).map(|step| (first + step) % count.max(1));
        for place in places {
            let Some(device) = self.devices.get_mut(place) else { continue };
            if device.running < running_max
                && let Some(job) = device.jobs.pop_front()
            {
                device.running += 1;
                self.waiting -= 1;
                self.turn = place + 1;
                return Some((device.number, job));
            }
        }
        None
    }

    fn ended(&mut self, number: u64) {
        if let Some(place) = self.devices.iter().position(|device| device.number == number) {
            if let Some(device) = self.devices.get_mut(place) {
                device.running = device.running.saturating_sub(1);
            }
            if self.devices.get(place).is_some_and(|device| device.running == 0 && device.jobs.is_empty()) {
                self.devices.swap_remove(place);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Jobs of one device that run at a time.
    fn running_max(&self) -> usize {
        (self.threads_max * 3).div_ceil(4).min(self.threads_max.saturating_sub(1)).max(1)
    }

    fn start(self: &Arc<Self>) -> bool {
        let number = self.started.fetch_add(1, Relaxed) + 1;
        let shared = Arc::clone(self);
        thread::Builder::new().name(format!("{}-{number}", self.name)).spawn(move || shared.work()).is_ok()
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some((device, job)) = state.take(self.running_max()) {
                drop(state);
                job();
                state = self.lock();
                state.ended(device);
                continue;
            }
            state.idle += 1;
            let (woken, timeout) = self.wake.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.waiting == 0 {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_run_and_are_answered() {
        let threads = DiskThreads::new(2);
        let answers: Vec<_> = (0..100).map(|number| threads.run(number % 3, move || number * 2).unwrap()).collect();
        for (number, answer) in (0..).zip(answers) {
            assert_eq!(answer.blocking_recv(), Ok(number * 2));
        }
    }

    #[test]
    fn a_device_that_hangs_leaves_threads_to_others() {
        let threads = DiskThreads::new(4);
        let (release, hangs) = mpsc::channel::<()>();
        let hangs = Arc::new(Mutex::new(hangs));
        let hung: Vec<_> = (0..20)
            .map(|_| {
                let hangs = Arc::clone(&hangs);
                threads.run(1, move || hangs.lock().unwrap().recv().is_err()).unwrap()
            })
            .collect();
        for number in 0..20 {
            assert_eq!(threads.run(2, move || number).unwrap().blocking_recv(), Ok(number));
        }
        drop(release);
        for hung in hung {
            hung.blocking_recv().unwrap();
        }
    }

    #[test]
    fn there_are_only_so_many_that_wait() {
        let threads = DiskThreads::new(1);
        let (release, hangs) = mpsc::channel::<()>();
        let first = threads.run(1, move || hangs.recv().is_err()).unwrap();
        let mut kept = Vec::new();
        let refused = loop {
            match threads.run(1, || ()) {
                Ok(answer) => kept.push(answer),
                Err(busy) => break busy,
            }
        };
        assert_eq!(refused, Busy);
        assert!(kept.len() >= WAITING_MAX);
        drop(release);
        first.blocking_recv().unwrap();
    }
}
