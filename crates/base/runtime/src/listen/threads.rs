//! Acceptor threads, for sockets that several workers share.
//!
//! `shared` has one socket for all workers and wants one of them woken for each connection. tokio does not show its
//! epoll descriptor, so a worker cannot add a socket to it with `EPOLLEXCLUSIVE`; and an epoll of our own inside
//! tokio's does not stay exclusive, as the kernel passes a wake-up of a nested epoll on to every outer one. So each
//! worker has a small thread that does nothing but wait in an epoll of its own, accept, and pass the connection on.
//! A thread that blocks in `accept` itself would be woken exclusively too, but could be neither paused nor stopped.
//! Measured on two cores with two clients, context switches a connection: 2.1 with two workers, 2.2 with 16 and 2.4
//! with 48; with the socket in every worker's own epoll 1.1, 16.6 and 43.5.
//!
//! `dispatch` is the same thread, once for the process, with all workers as its sinks: each connection goes to the
//! one that holds the fewest.

use super::accept::{Accepted, EXHAUSTED_PAUSE, LAST_ACCEPTS_MAX, NoConnection, accept_one, after, log_exhausted};
use super::bind::begin;
use super::guard::{ConnectionGuard, Count, InUse};
use super::spec::ListenSpec;
use super::table::Socket;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Connections that may be on their way from an acceptor thread to one worker.
pub(crate) const HANDED_MAX: usize = 256;
/// How long an acceptor thread rests when every worker has that many waiting.
const FULL_PAUSE: Duration = Duration::from_millis(2);
/// An acceptor thread calls nothing deep.
const STACK_SIZE: usize = 128 * 1024;
const EVENTS: usize = 64;
const WAKE: u64 = u64::MAX;

/// The acceptor threads of a process, started when first needed.
#[derive(Debug, Default)]
pub(crate) struct AcceptorThreads {
    shared: Vec<Option<Arc<Thread>>>,
    dispatch: Option<Arc<Thread>>,
}

impl AcceptorThreads {
    /// The thread that accepts for worker `index` in `shared` mode.
    pub(crate) fn shared(&mut self, index: usize) -> io::Result<&Arc<Thread>> {
        if self.shared.len() <= index {
            self.shared.resize_with(index + 1, || None);
        }
        match self.shared.get_mut(index) {
            Some(slot) => start_once(slot, || format!("acceptor-{}", index + 1)),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    /// The thread that accepts for all workers in `dispatch` mode.
    pub(crate) fn dispatch(&mut self) -> io::Result<&Arc<Thread>> {
        start_once(&mut self.dispatch, || "dispatcher".to_owned())
    }
}

fn start_once(slot: &mut Option<Arc<Thread>>, name: impl FnOnce() -> String) -> io::Result<&Arc<Thread>> {
    let thread = match slot.take() {
        Some(thread) => thread,
        None => Thread::start(name())?,
    };
    Ok(slot.insert(thread))
}

/// What other threads hold of an acceptor thread. It ends when the last of them is dropped.
#[derive(Debug)]
pub(crate) struct Thread {
    orders: Arc<Orders>,
    next_id: AtomicU32,
}

#[derive(Debug)]
struct Orders {
    queue: Mutex<Vec<Order>>,
    wake: OwnedFd,
}

#[derive(Debug)]
enum Order {
    Add { id: u32, job: Job },
    Pause { id: u32, sink: usize, paused: bool },
    Remove { id: u32, sink: usize },
    Quit,
}

impl Orders {
    fn give(&self, order: Order) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        // An eventfd that is full is readable, which is all that is wanted.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<Order> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        std::mem::take(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.orders.give(Order::Quit);
    }
}

impl Thread {
    fn start(name: String) -> io::Result<Arc<Self>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let orders = Arc::new(Orders { queue: Mutex::new(Vec::new()), wake });
        let waiter = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&waiter, &orders.wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let inside = Arc::clone(&orders);
        std::thread::Builder::new()
            .name(name)
            .stack_size(STACK_SIZE)
            .spawn(move || AcceptorLoop { waiter, orders: inside, jobs: HashMap::new() }.run())?;
        Ok(Arc::new(Self { orders, next_id: AtomicU32::new(0) }))
    }

    /// Accepts from `sockets` for the workers whose counters are given. Returns each worker's end.
    pub(crate) fn register(
        self: &Arc<Self>,
        spec: &Arc<ListenSpec>,
        sockets: &[Arc<Socket>],
        counts: &[Arc<Count>],
        max_accept: usize,
        in_use: &InUse,
    ) -> io::Result<Vec<(mpsc::Receiver<Accepted>, Registration)>> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut sinks = Vec::new();
        let mut ends = Vec::new();
        for (index, count) in counts.iter().enumerate() {
            let (sender, receiver) = mpsc::channel(HANDED_MAX);
            sinks.push(Sink { sender: Some(sender), count: Arc::clone(count), paused: false });
            let registration = Registration { thread: Arc::clone(self), id, sink: index, told: Told::Running };
            ends.push((receiver, registration));
        }
        let sockets = sockets
            .iter()
            .map(|socket| {
                begin(spec, socket)?;
                Ok(JobSocket { own: socket.try_clone()?, socket: Arc::clone(socket), waiting: false })
            })
            .collect::<io::Result<Vec<_>>>()?;
        let job = Job { spec: Arc::clone(spec), sockets, sinks, max_accept, rest_until: None, _in_use: in_use.clone() };
        self.orders.give(Order::Add { id, job });
        Ok(ends)
    }
}

/// A worker's hold on what an acceptor thread does for it. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Registration {
    thread: Arc<Thread>,
    id: u32,
    sink: usize,
    told: Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Running,
    Paused,
    Stopped,
}

impl Registration {
    pub(crate) fn set_paused(&mut self, paused: bool) {
        let told = if paused { Told::Paused } else { Told::Running };
        if self.told != told && self.told != Told::Stopped {
            self.told = told;
            self.thread.orders.give(Order::Pause { id: self.id, sink: self.sink, paused });
        }
    }

    /// No connection more for this worker; its channel ends after those that are in it.
    pub(crate) fn stop(&mut self) {
        if self.told != Told::Stopped {
            self.told = Told::Stopped;
            self.thread.orders.give(Order::Remove { id: self.id, sink: self.sink });
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A listener that the thread accepts from.
#[derive(Debug)]
struct Job {
    spec: Arc<ListenSpec>,
    sockets: Vec<JobSocket>,
    sinks: Vec<Sink>,
    max_accept: usize,
    /// Waiting for nothing until then.
    rest_until: Option<Instant>,
    _in_use: InUse,
}

#[derive(Debug)]
struct JobSocket {
    /// A descriptor of its own, as epoll knows sockets by descriptor.
    own: OwnedFd,
    socket: Arc<Socket>,
    /// Whether it is in the epoll.
    waiting: bool,
}

/// One worker's end. `None` once it has stopped.
#[derive(Debug)]
struct Sink {
    sender: Option<mpsc::Sender<Accepted>>,
    count: Arc<Count>,
    paused: bool,
}

/// Whether a connection could be passed on.
enum Turn {
    Passed,
    Nothing,
    /// Every worker has as many waiting as may.
    Full,
    /// Every worker has paused or stopped.
    NoOne,
    Exhausted,
}

impl Job {
    /// Accepts one connection for the worker that holds the fewest.
    fn accept(&self, socket: &JobSocket) -> Turn {
        let mut full = false;
        let mut chosen: Option<(usize, mpsc::Permit<'_, Accepted>, &Sink)> = None;
        for sink in &self.sinks {
            let Some(sender) = sink.sender.as_ref().filter(|_| !sink.paused) else { continue };
            let load = sink.count.value();
            if chosen.as_ref().is_some_and(|(least, ..)| *least <= load) {
                continue;
            }
            // The place is reserved before the connection is accepted: one that is accepted is never dropped.
            match sender.try_reserve() {
                Ok(permit) => chosen = Some((load, permit, sink)),
                Err(TrySendError::Full(())) => full = true,
                Err(TrySendError::Closed(())) => {}
            }
        }
        let Some((_, permit, sink)) = chosen else {
            return if full { Turn::Full } else { Turn::NoOne };
        };
        match accept_one(&socket.own) {
            Ok((stream, peer)) => {
                permit.send(Accepted { stream, peer, guard: ConnectionGuard::new(&sink.count) });
                Turn::Passed
            }
            Err(NoConnection::Again) => Turn::Passed,
            Err(NoConnection::Empty) => Turn::Nothing,
            Err(NoConnection::Exhausted(error) | NoConnection::Broken(error)) => {
                log_exhausted(&self.spec, error);
                Turn::Exhausted
            }
        }
    }

    /// Accepts all that waits in sockets which nobody will serve any more.
    fn accept_last(&self) {
        for socket in self.sockets.iter().filter(|socket| socket.socket.is_retired()) {
            let mut tries_when_full = 500;
            for _ in 0..LAST_ACCEPTS_MAX {
                match self.accept(socket) {
                    Turn::Passed => {}
                    Turn::Full if tries_when_full > 0 => {
                        tries_when_full -= 1;
                        std::thread::sleep(FULL_PAUSE);
                    }
                    Turn::Full | Turn::Nothing | Turn::NoOne | Turn::Exhausted => break,
                }
            }
        }
    }

    fn has_taker(&self) -> bool {
        self.sinks.iter().any(|sink| sink.sender.is_some() && !sink.paused)
    }

    fn is_over(&self) -> bool {
        self.sinks.iter().all(|sink| sink.sender.is_none())
    }

    /// Puts the sockets into the epoll or takes them out.
    fn wait(&mut self, waiter: &OwnedFd, id: u32, waiting: bool) {
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            if socket.waiting == waiting {
                continue;
            }
            let result = if waiting {
                // With one waiter in this process EXCLUSIVE does no harm, and old processes wait for it as well.
                let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
                epoll::add(waiter, &socket.own, epoll::EventData::new_u64(token(id, index)), flags)
            } else {
                epoll::delete(waiter, &socket.own)
            };
            match result {
                Ok(()) => socket.waiting = waiting,
                Err(error) => log_exhausted(&self.spec, error),
            }
        }
    }
}

fn token(id: u32, socket: usize) -> u64 {
    (u64::from(id) << 32) | (socket as u64 & 0xffff_ffff)
}

struct AcceptorLoop {
    waiter: OwnedFd,
    orders: Arc<Orders>,
    jobs: HashMap<u32, Job>,
}

impl AcceptorLoop {
    fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        loop {
            let timeout = self.next_rest_end().map(|end| {
                let left = end.saturating_duration_since(Instant::now());
                Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) }
            });
            events.clear();
            match epoll::wait(&self.waiter, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    crate::log::alert!("an acceptor thread cannot wait: {}", io::Error::from(error));
                    return;
                }
            }
            for event in &events {
                let token = event.data.u64();
                if token == WAKE {
                    if !self.obey() {
                        return;
                    }
                } else {
                    self.accept((token >> 32) as u32, (token & 0xffff_ffff) as usize);
                }
            }
            self.end_rests();
        }
    }

    /// Carries orders out. Returns whether to go on.
    fn obey(&mut self) -> bool {
        for order in self.orders.take() {
            match order {
                Order::Quit => return false,
                Order::Add { id, mut job } => {
                    job.wait(&self.waiter, id, true);
                    self.jobs.insert(id, job);
                }
                Order::Pause { id, sink, paused } => {
                    let Some(job) = self.jobs.get_mut(&id) else { continue };
                    if let Some(sink) = job.sinks.get_mut(sink) {
                        sink.paused = paused;
                    }
                    let waiting = job.has_taker() && job.rest_until.is_none();
                    job.wait(&self.waiter, id, waiting);
                }
                Order::Remove { id, sink } => {
                    let Some(job) = self.jobs.get_mut(&id) else { continue };
                    if let Some(sink) = job.sinks.get_mut(sink) {
                        // Whoever stops takes what is left, paused or not.
                        sink.paused = false;
                    }
                    job.accept_last();
                    if let Some(sink) = job.sinks.get_mut(sink) {
                        sink.sender = None;
                    }
                    if job.is_over() {
                        job.wait(&self.waiter, id, false);
                        self.jobs.remove(&id);
                    } else {
                        let waiting = job.has_taker() && job.rest_until.is_none();
                        job.wait(&self.waiter, id, waiting);
                    }
                }
            }
        }
        true
    }

    fn accept(&mut self, id: u32, socket: usize) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        for _ in 0..job.max_accept.max(1) {
            let Some(socket) = job.sockets.get(socket) else { return };
            let rest = match job.accept(socket) {
                Turn::Passed => continue,
                Turn::Nothing => return,
                Turn::Full => Some(FULL_PAUSE),
                Turn::Exhausted => Some(EXHAUSTED_PAUSE),
                Turn::NoOne => None,
            };
            job.rest_until = rest.map(after);
            job.wait(&self.waiter, id, false);
            return;
        }
    }

    fn next_rest_end(&self) -> Option<Instant> {
        self.jobs.values().filter_map(|job| job.rest_until).min()
    }

    fn end_rests(&mut self) {
        if self.next_rest_end().is_none() {
            return;
        }
        let now = Instant::now();
        for (id, job) in &mut self.jobs {
            if job.rest_until.is_some_and(|end| end <= now) {
                job.rest_until = None;
                let waiting = job.has_taker();
                job.wait(&self.waiter, *id, waiting);
            }
        }
    }
}
