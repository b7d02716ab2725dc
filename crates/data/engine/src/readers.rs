//! Threads that read what is not in memory, so that a shard's loop never waits for a disk.
//!
//! The engine is read without the overlay of [`Tables`](crate::Tables): who asks has looked there
//! ([`Tables::get_in_memory`](crate::Tables::get_in_memory)) or sends what is there along
//! ([`Tables::capture`](crate::Tables::capture)). A value may have been changed before its answer is handled; whoever asks
//! keeps clients from the key meanwhile, or drops the answer.

mod ring;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use self::ring::Ring;
use crate::writer::guarded;
use crate::{Capture, Engine, Error, Key, Page, Result, Value};

/// How many records of one request are looked up at once: each takes a place in the queue.
const TOGETHER_MAX: usize = 256;

/// How many threads read, and how much may wait for them.
#[derive(Debug, Clone)]
pub struct ReadersOptions {
    /// How many threads: as many reads as a disk does well at once.
    pub threads: usize,
    /// How many requests may wait.
    pub requests_max: usize,
    /// Whether single records are read by io_uring, if the kernel has it and the engine shows its files.
    pub is_ring_wanted: bool,
}

impl Default for ReadersOptions {
    fn default() -> Self {
        Self { threads: 4, requests_max: 4_096, is_ring_wanted: true }
    }
}

/// What a reader is asked for.
pub enum Request {
    /// The value of one record of the engine, whose neighbours nobody wants.
    Get(Key),
    /// The values of several, in their order; their neighbours are likely to be wanted too.
    GetAll(Vec<Key>),
    /// A scan, until it has that much.
    Scan {
        /// What to scan.
        capture: Box<Capture>,
        /// At most so many records.
        records_max: usize,
        /// At most so many bytes of keys and values, and one record more.
        bytes_max: usize,
    },
}

/// The answer to a [`Request`] of the same name.
#[derive(Debug)]
pub enum Answer {
    /// To [`Request::Get`].
    Get(Result<Option<Value>>),
    /// To [`Request::GetAll`].
    GetAll(Result<Vec<Option<Value>>>),
    /// To [`Request::Scan`].
    Scan(Result<Page>),
}

/// Too many requests wait already; the request is given back.
pub struct QueueFull(pub Request);

type Done = Box<dyn FnOnce(Answer) + Send>;

/// Threads that read from an engine. Dropping it answers what still waits, then ends them.
pub struct Readers {
    ring: Option<Ring>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    requests_max: usize,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<(Request, Done)>,
    /// Threads that sleep: others take the next request by themselves.
    idle: usize,
    is_stopping: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request, however many wait.
    fn push(&self, request: Request, done: Done) {
        let mut queue = self.queue();
        queue.requests.push_back((request, done));
        let is_any_idle = queue.idle > 0;
        drop(queue);
        if is_any_idle {
            self.changed.notify_one();
        }
    }

    fn take(&self) -> Option<(Request, Done)> {
        let mut queue = self.queue();
        loop {
            if let Some(request) = queue.requests.pop_front() {
                return Some(request);
            }
            if queue.is_stopping {
                return None;
            }
            queue.idle += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

impl Readers {
    /// Starts the threads, named `read-0` and so on.
    pub fn start(engine: &Arc<dyn Engine>, options: &ReadersOptions) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            requests_max: options.requests_max.max(1),
        });
        let is_ring_wanted = options.is_ring_wanted && engine.lookup(&Key::from(b"\0"), false).is_some();
        let ring = is_ring_wanted.then(|| Ring::start(engine, &shared)).and_then(std::io::Result::ok);
        let mut readers = Self { ring, shared, threads: Vec::new() };
        for number in 0..options.threads.max(1) {
            let shared = Arc::clone(&readers.shared);
            let engine = Arc::clone(engine);
            let run = move || {
                while let Some((request, done)) = shared.take() {
                    done(answer(&*engine, request));
                }
            };
            readers.threads.push(std::thread::Builder::new().name(format!("read-{number}")).spawn(run)?);
        }
        Ok(readers)
    }

    /// Queues a request. `done` is called on a reader's thread; it should hand over and wake, nothing more. Some begin only when
    /// [`flush`](Self::flush) is called: whoever has many wakes their thread once.
    pub fn submit(
        &self,
        request: Request,
        done: impl FnOnce(Answer) + Send + 'static,
    ) -> std::result::Result<(), QueueFull> {
        let requests_max = self.shared.requests_max;
        match (&self.ring, request) {
            (Some(ring), Request::Get(key)) => {
                ring.submit(key, Box::new(done), requests_max).map_err(|(key, _)| QueueFull(Request::Get(key)))
            }
            (Some(ring), Request::GetAll(keys)) if keys.len() <= TOGETHER_MAX && ring.waiting() < requests_max => {
                let each = gather(keys.len(), Box::new(done));
                for (at, key) in keys.into_iter().enumerate() {
                    ring.push(key, each(at));
                }
                Ok(())
            }
            (_, request) if self.shared.queue().requests.len() >= requests_max => Err(QueueFull(request)),
            (_, request) => {
                self.shared.push(request, Box::new(done));
                Ok(())
            }
        }
    }

    /// Has everything begun that was submitted.
    pub fn flush(&self) {
        if let Some(ring) = &self.ring {
            ring.flush();
        }
    }

    /// Whether single records are read by io_uring.
    pub fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// How many requests wait to begin.
    pub fn waiting(&self) -> usize {
        self.shared.queue().requests.len() + self.ring.as_ref().map_or(0, Ring::waiting)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // First: it hands over to the others what it cannot do.
        self.ring = None;
        self.shared.queue().is_stopping = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // Panics of the engine are caught; one of a callback has been printed.
            let _ = thread.join();
        }
    }
}

/// Has several answers become one, in the order of their numbers, when the last of them has come.
fn gather(count: usize, done: Done) -> impl Fn(usize) -> Done {
    struct Gathered {
        values: Vec<Option<Value>>,
        failure: Option<Error>,
        left: usize,
        done: Option<Done>,
    }
    impl Gathered {
        fn finish(&mut self) -> Option<(Done, Answer)> {
            let values = std::mem::take(&mut self.values);
            let all = self.failure.take().map_or(Ok(values), Err);
            Some((self.done.take()?, Answer::GetAll(all)))
        }
    }
    let mut gathered = Gathered { values: vec![None; count], failure: None, left: count, done: Some(done) };
    if count == 0
        && let Some((done, answer)) = gathered.finish()
    {
        done(answer);
    }
    let gathered = Arc::new(Mutex::new(gathered));
    move |at| {
        let gathered = Arc::clone(&gathered);
        Box::new(move |answer| {
            let mut all = gathered.lock().unwrap_or_else(PoisonError::into_inner);
            match (answer, all.values.get_mut(at)) {
                (Answer::Get(Ok(value)), Some(place)) => *place = value,
                (Answer::Get(Err(error)), _) => all.failure = Some(error),
                _ => {}
            }
            all.left -= 1;
            let finished = if all.left == 0 { all.finish() } else { None };
            drop(all);
            if let Some((done, answer)) = finished {
                done(answer);
            }
        })
    }
}

/// Answers a request on this thread: what a reader does.
pub fn answer(engine: &dyn Engine, request: Request) -> Answer {
    match request {
        Request::Get(key) => Answer::Get(guarded(|| engine.get(&key))),
        Request::GetAll(keys) => Answer::GetAll(guarded(|| keys.iter().map(|key| engine.get(key)).collect())),
        Request::Scan { capture, records_max, bytes_max } => {
            Answer::Scan(guarded(|| capture.run(records_max, bytes_max)))
        }
    }
}

#[cfg(test)]
mod tests;
