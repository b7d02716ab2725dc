//! The proxy with its sockets: threads that each have all pools, statistics, and the end.

mod embedded;
mod orders;
mod resolve;
mod sockets;
mod statistics_port;
mod topology;
mod worker;

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mio::Waker;

use crate::{
    nutcracker::{Address, PoolConfig},
    statistics::Snapshot,
};
use resolve::{ServerAddresses, target};
use sockets::{Listener, Target, listen_tcp, listen_unix, plain};
use worker::{Shared, Worker};

pub use embedded::{Answer, Embedded, Question};
pub use topology::{Source, Teacher, TopologyUnknown};

/// How often messages are written.
const STEP: Duration = Duration::from_millis(100);

/// What a proxy is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The pools.
    pub pools: Vec<PoolConfig>,
    /// How many threads serve.
    pub workers: usize,
    /// Bytes that a client may leave unread before it is closed.
    pub client_output_max: usize,
    /// Where statistics can be had.
    pub statistics: Option<SocketAddr>,
    /// Where messages go; stderr if nowhere else.
    pub log: Option<PathBuf>,
    /// Where the first pool learns which server has which slots, if its servers are spread so.
    pub topology: Option<Source>,
}

/// Why a proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It cannot listen.
    #[error("pool '{pool}' cannot listen on {address}: {reason}")]
    Listen {
        /// The pool.
        pool: String,
        /// The address.
        address: Address,
        /// The system's reason.
        reason: String,
    },
    /// It cannot show statistics.
    #[error("statistics cannot be served on {address}: {reason} (-s sets another port, -s 0 none)")]
    Statistics {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        reason: String,
    },
    /// The log cannot be written.
    #[error("the log {} cannot be opened: {reason}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// Which server has which slots is not known.
    #[error(transparent)]
    Topology(#[from] TopologyUnknown),
    /// Something of the system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A proxy that serves.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    wakers: Vec<Arc<Waker>>,
    log: Mutex<Log>,
    paths: Vec<PathBuf>,
}

#[derive(Debug)]
struct Log {
    path: Option<PathBuf>,
    file: Option<std::fs::File>,
}

impl Log {
    fn open(path: Option<PathBuf>) -> Result<Self, ServeError> {
        let mut log = Self { path, file: None };
        log.reopen()?;
        Ok(log)
    }

    fn reopen(&mut self) -> Result<(), ServeError> {
        let Some(path) = &self.path else { return Ok(()) };
        let opened = OpenOptions::new().create(true).append(true).open(path);
        self.file = Some(opened.map_err(|error| ServeError::Log { path: path.clone(), reason: plain(&error) })?);
        Ok(())
    }

    fn write(&mut self, messages: &[String]) {
        let text: String = messages.iter().map(|message| format!("{}\n", message.replace(['\r', '\n'], " "))).collect();
        // A log that cannot be written stops nobody.
        let _ = match &mut self.file {
            Some(file) => file.write_all(text.as_bytes()),
            None => io::stderr().write_all(text.as_bytes()),
        };
    }
}

/// Listens and starts to serve.
///
/// # Errors
/// An address that cannot be had.
pub fn start(options: Options) -> Result<Running, ServeError> {
    let Options { pools, workers, client_output_max, statistics, log, topology } = options;
    let log = Log::open(log)?;
    let workers = workers.max(1);
    let shared = Arc::new(Shared::default());
    shared.snapshots.lock().unwrap_or_else(PoisonError::into_inner).resize_with(workers, Snapshot::default);
    shared.healths.lock().unwrap_or_else(PoisonError::into_inner).resize_with(workers, || None);
    let mut teacher = topology.map(Teacher::new);
    shared.done_orders.lock().unwrap_or_else(PoisonError::into_inner).resize(workers, 0);
    if let Some(view) = teacher.as_mut().map(Teacher::learn).transpose()?.flatten() {
        shared.set_view(view);
    }
    if let Some(teacher) = &teacher {
        teacher.look_at_lease(&shared);
    }
    let listeners = listeners(&pools, workers)?;
    let statistics = statistics.map(|address| {
        TcpListener::bind(address).map_err(|error| ServeError::Statistics { address, reason: plain(&error) })
    });
    let statistics = statistics.transpose()?;
    let places = Arc::new(ServerAddresses::of_pools(&pools));
    let mut running = Running {
        shared: Arc::clone(&shared),
        threads: Vec::new(),
        wakers: Vec::new(),
        log: Mutex::new(log),
        paths: pools.iter().filter_map(|pool| unix_path(&pool.listen)).collect(),
    };
    for (number, listeners) in listeners.into_iter().enumerate() {
        let (worker, waker) =
            Worker::new((&pools, client_output_max), listeners, Arc::clone(&places), Arc::clone(&shared), number)?;
        let shared = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(format!("proxy-{number}")).spawn(move || {
            if let Err(error) = worker.run() {
                let mut messages = shared.messages.lock().unwrap_or_else(PoisonError::into_inner);
                messages.push(format!("a thread has ended: {error}"));
                shared.stops.store(true, Ordering::Relaxed);
            }
        })?;
        running.threads.push(thread);
        running.wakers.push(Arc::new(waker));
    }
    if let Some(teacher) = teacher {
        let (shared, wakers) = (Arc::clone(&shared), running.wakers.clone());
        std::thread::Builder::new().name("topology".into()).spawn(move || teacher.teach(&shared, &wakers))?;
    }
    places.keep(pools, Arc::clone(&shared))?;
    if let Some(listener) = statistics {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("statistics".into())
            .spawn(move || statistics_port::serve(&listener, shared))?;
    }
    Ok(running)
}

/// The listeners of each thread, with the pool of each.
fn listeners(pools: &[PoolConfig], workers: usize) -> Result<Vec<Vec<(Listener, usize)>>, ServeError> {
    let mut all: Vec<Vec<(Listener, usize)>> = (0..workers).map(|_| Vec::new()).collect();
    for (number, pool) in pools.iter().enumerate() {
        let wrong =
            |reason: String| ServeError::Listen { pool: pool.name.clone(), address: pool.listen.clone(), reason };
        match target(&pool.listen).map_err(&wrong)? {
            Target::Tcp(address) => {
                for mine in &mut all {
                    let listener = listen_tcp(address, pool.backlog, workers > 1 || pool.reuseport);
                    let listener = listener.map_err(|error| wrong(plain(&error)))?;
                    mine.push((Listener::Tcp(mio::net::TcpListener::from_std(listener)), number));
                }
            }
            Target::Unix(path) => {
                let Address::Unix { mode, .. } = pool.listen else { continue };
                let listener = listen_unix(&path, mode).map_err(|error| wrong(plain(&error)))?;
                for mine in &mut all {
                    let listener = listener.try_clone().map_err(|error| wrong(plain(&error)))?;
                    mine.push((Listener::Unix(mio::net::UnixListener::from_std(listener)), number));
                }
            }
        }
    }
    Ok(all)
}

fn unix_path(address: &Address) -> Option<PathBuf> {
    match address {
        Address::Unix { path, .. } => Some(path.clone()),
        Address::Tcp { .. } => None,
    }
}

impl Running {
    /// Writes messages until `should_end` says so, or a thread fails.
    pub fn wait(&self, mut should_end: impl FnMut() -> bool) {
        while !self.shared.stops.load(Ordering::Relaxed) && !should_end() {
            self.write_messages();
            std::thread::sleep(STEP);
        }
        self.write_messages();
    }

    /// Serves no new clients, and lets those go that are here once they are answered: for at most `patience`, or until `should_end`.
    /// For `notice` before that the health check says already that clients should go elsewhere, while they still may come.
    pub fn drain(&self, notice: Duration, patience: Duration, mut should_end: impl FnMut() -> bool) {
        let wait = |until: Instant, should_end: &mut dyn FnMut() -> bool| {
            while Instant::now() < until && !should_end() && !self.shared.stops.load(Ordering::Relaxed) {
                self.write_messages();
                std::thread::sleep(STEP.min(until.saturating_duration_since(Instant::now())));
                if self.threads.iter().all(JoinHandle::is_finished) {
                    break;
                }
            }
        };
        self.shared.leaves.store(true, Ordering::Relaxed);
        wait(Instant::now() + notice, &mut should_end);
        self.shared.drains.store(true, Ordering::Relaxed);
        for waker in &self.wakers {
            let _ = waker.wake();
        }
        wait(Instant::now() + patience, &mut should_end);
        self.write_messages();
    }

    fn write_messages(&self) {
        let messages = std::mem::take(&mut *self.shared.messages.lock().unwrap_or_else(PoisonError::into_inner));
        if !messages.is_empty() {
            self.log.lock().unwrap_or_else(PoisonError::into_inner).write(&messages);
        }
    }

    /// Opens the log anew: somebody has moved it away.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn reopen_log(&self) -> Result<(), ServeError> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).reopen()
    }

    /// Ends all threads, and takes the files of sockets away.
    pub fn stop(self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        for waker in &self.wakers {
            let _ = waker.wake();
        }
        for thread in self.threads {
            let _ = thread.join();
        }
        for path in self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}
