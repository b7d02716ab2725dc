//! What one worker thread has to itself: its copy of the running instance, pools, connections and random numbers.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use accelerator::log::LogSink;
use live::{Instance, Process, Shared, counters::ProcessTraffic, limits::IdleMarks, ring::Ring};
use logs::WorkerLog;
use net::{BufferPool, connect::Network};
use pin_project_lite::pin_project;
use tokio::sync::Notify;

use crate::{
    parking::Parking,
    pool::ServerPool,
    registry::{Handle, Order, Registry},
    session::{SpareHeads, Transaction, borrow::OtherWorkers, pages::Pages, record},
};

/// Unused receive blocks that a worker keeps.
const SPARE_BUFFERS_MAX: usize = 64;

/// Whom a worker turns to for what it does not do itself.
#[derive(Clone)]
pub struct Neighbours {
    /// The pages that this process answers itself.
    pub pages: Arc<dyn Pages + Send + Sync>,
    /// The other workers.
    pub others: Arc<dyn OtherWorkers + Send + Sync>,
    /// What connections to servers are opened through.
    pub network: Arc<dyn Network + Send + Sync>,
}

/// One worker's state. Everything in it belongs to its thread.
pub struct Worker {
    /// Which worker this is, from 0.
    pub index: usize,
    /// What all workers see.
    pub shared: Arc<Shared>,
    /// Whom it turns to.
    pub neighbours: Neighbours,
    /// Receive blocks.
    pub buffers: BufferPool,
    /// Idle server connections.
    pub servers: RefCell<ServerPool>,
    /// Message heads to be used again.
    pub heads: SpareHeads,
    /// Client connections.
    pub registry: Rc<Registry>,
    /// Whether the worker drains: no connection is kept alive any more.
    pub draining: Cell<bool>,
    /// Sends log lines.
    pub log: WorkerLog,
    /// Client connections and loops that accept them: a drain waits for the last of both.
    pub running: Cell<usize>,
    /// Woken when one of them has ended.
    pub ended: Notify,
    /// Idle client connections.
    pub parking: Parking,
    /// Connections that keep the memory of a request although none is in flight.
    pub warm: Cell<usize>,
    clock: Rc<Clock>,
    scratch: RefCell<Vec<u8>>,
    /// What compressed bodies of this worker share.
    pub compression: RefCell<Option<Box<compress::Workspace>>>,
    /// What is recorded.
    pub ring: Option<Rc<Ring>>,
    log_sink: RefCell<Option<Rc<LogSink>>>,
    instance: RefCell<Arc<Instance>>,
    random: Cell<u64>,
    /// The time as messages have it, and the second that it is of.
    date: Cell<(u64, [u8; http::HTTP_DATE_LEN])>,
}

impl Worker {
    /// The state of worker `index`, whose random numbers follow from `seed`.
    #[must_use]
    pub fn new(index: usize, shared: Arc<Shared>, log: WorkerLog, seed: u64, neighbours: Neighbours) -> Self {
        let instance = shared.instance();
        let ring = Ring::open(index, instance.config.global.tune.ring_size);
        Self {
            index,
            neighbours,
            buffers: BufferPool::new(instance.config.global.tune.bufsize, SPARE_BUFFERS_MAX),
            servers: RefCell::new(ServerPool::new(index, Arc::clone(&shared.process))),
            heads: SpareHeads::new(SPARE_BUFFERS_MAX),
            draining: Cell::new(false),
            log,
            running: Cell::new(0),
            ended: Notify::new(),
            parking: Parking::default(),
            warm: Cell::new(0),
            clock: Rc::new(Clock::new()),
            scratch: RefCell::default(),
            compression: RefCell::default(),
            registry: Rc::new(Registry::new(index, ring.clone())),
            ring,
            log_sink: RefCell::default(),
            instance: RefCell::new(instance),
            random: Cell::new(seed | 1),
            date: Cell::new((0, http::http_date(0))),
            shared,
        }
    }

    /// Where transactions of programs of VCL are logged, if that is published.
    #[must_use]
    pub fn log_sink(&self) -> Option<Rc<LogSink>> {
        let mut sink = self.log_sink.borrow_mut();
        if sink.is_none() {
            *sink = self.shared.process.published().map(|published| published.sink());
        }
        sink.clone()
    }

    /// When the task that runs now was woken.
    ///
    /// All that a task does in one go happens at the same time, as in HAProxy: nothing was waited for in between, and
    /// asking the system each time would cost more than parsing a header.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.now.get()
    }

    /// [`Worker::now`] in milliseconds since the start of the process.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.clock.milliseconds.get()
    }

    /// Tells the connections for which `whom` holds; their number.
    pub fn tell(&self, order: Order, whom: impl Fn(&Handle) -> bool) -> usize {
        let told = self.registry.tell(order, whom);
        self.parking.wake_told();
        told
    }

    /// Whether a connection should end as soon as nothing is in flight on it.
    #[must_use]
    pub fn lets_go_of(&self, connection: &Handle) -> bool {
        self.draining.get() || connection.order() != Order::Continue
    }

    /// The clock itself, for what lives longer than a task.
    #[must_use]
    pub fn clock(&self) -> Rc<Clock> {
        Rc::clone(&self.clock)
    }

    /// Runs a connection's task with a clock that stands still between two waits.
    pub fn clocked<F: Future>(self: &Rc<Self>, task: F) -> Clocked<F> {
        Clocked { worker: Rc::clone(self), task }
    }

    /// Moves [`Worker::now`] on.
    pub fn look_at_clock(&self) {
        // NOTE: the runtime's clock, which tests move on.
        self.clock.set(tokio::time::Instant::now().into_std(), &self.shared.process);
    }

    /// Whether this is the instance that new requests run under.
    #[must_use]
    pub fn runs(&self, instance: &Instance) -> bool {
        self.instance.borrow().generation == instance.generation
    }

    /// The instance that new requests run under.
    #[must_use]
    pub fn instance(&self) -> Arc<Instance> {
        Arc::clone(&self.instance.borrow())
    }

    /// How many descriptors may be in use before idle connections to servers are given up.
    #[must_use]
    #[inline]
    pub fn idle_marks(&self) -> IdleMarks {
        self.instance.borrow().idle_marks
    }

    /// Runs new requests under `instance` from now on.
    pub fn adopt(&self, instance: Arc<Instance>) {
        *self.instance.borrow_mut() = instance;
    }

    /// Writes a transaction that is over into the ring.
    pub fn record(&self, transaction: &Transaction) {
        if let Some(ring) = &self.ring {
            ring.with(|ring, records| record::record(ring, records, transaction));
        }
    }

    /// Lends an empty buffer for text that is needed for a moment.
    pub fn with_scratch(&self, work: impl FnOnce(&mut Vec<u8>)) {
        let mut scratch = self.scratch.take();
        scratch.clear();
        work(&mut scratch);
        self.scratch.replace(scratch);
    }

    /// Counts a connection, or a loop that accepts them, as long as the result lives.
    #[must_use]
    pub fn count_running(self: &Rc<Self>) -> Running {
        self.running.set(self.running.get() + 1);
        Running(Rc::clone(self))
    }

    /// This worker's part of the process' numbers.
    #[must_use]
    pub fn traffic(&self) -> &ProcessTraffic {
        self.shared.process.traffic.of(self.index)
    }

    /// The time as messages of HTTP have it (RFC 9110 section 5.6.7).
    #[must_use]
    pub fn http_date(&self) -> [u8; http::HTTP_DATE_LEN] {
        let now = basics::clock::since_1970().as_secs();
        let (second, text) = self.date.get();
        if second == now {
            return text;
        }
        let text = http::http_date(now);
        self.date.set((now, text));
        text
    }

    /// 64 random bits (xorshift64*): for balancing and sampling, not for secrets.
    #[must_use]
    pub fn random(&self) -> u64 {
        let mut state = self.random.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

pin_project! {
    /// A task that looks at the worker's clock whenever it is woken. It is a type of its own because an async block would
    /// hold the task twice, and there is one for each connection.
    pub struct Clocked<F> {
        worker: Rc<Worker>,
        #[pin]
        task: F,
    }
}

impl<F: Future> Future for Clocked<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.worker.look_at_clock();
        this.task.poll(context)
    }
}

/// When the running task was woken.
#[derive(Debug)]
pub struct Clock {
    now: Cell<Instant>,
    milliseconds: Cell<u64>,
    /// When [`Clock::milliseconds`] will be one more.
    next_millisecond: Cell<Instant>,
}

impl Clock {
    fn new() -> Self {
        let now = Instant::now();
        Self { now: Cell::new(now), milliseconds: Cell::new(0), next_millisecond: Cell::new(now) }
    }

    #[inline]
    fn set(&self, now: Instant, process: &Process) {
        self.now.set(now);
        // NOTE: mostly it is the same millisecond still, and that is cheaper to see than to reckon.
        if now >= self.next_millisecond.get() {
            let milliseconds = process.milliseconds(now);
            self.milliseconds.set(milliseconds);
            self.next_millisecond.set(process.started + Duration::from_millis(milliseconds + 1));
        }
    }

    /// Milliseconds since the start of the process.
    #[must_use]
    pub fn milliseconds(&self) -> u64 {
        self.milliseconds.get()
    }
}

/// One connection, or one loop that accepts them.
pub struct Running(Rc<Worker>);

impl Drop for Running {
    fn drop(&mut self) {
        let worker = &self.0;
        worker.running.set(worker.running.get().saturating_sub(1));
        if worker.draining.get() {
            worker.ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn milliseconds_follow_the_clock() {
        let clock = Clock::new();
        let process =
            Process::new(1, clock.now.get(), SystemTime::UNIX_EPOCH, Arc::new(logs::Outputs::new()), Arc::new(()));
        for microseconds in [0, 400, 999, 1_000, 1_001, 1_999, 2_000, 9_300, 9_999, 10_000] {
            let now = process.started + Duration::from_micros(microseconds);
            clock.set(now, &process);
            assert_eq!((clock.now.get(), clock.milliseconds()), (now, microseconds / 1_000));
        }
    }
}
