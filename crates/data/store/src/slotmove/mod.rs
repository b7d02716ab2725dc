//! Moves the keys of slots from a server to another one while both serve.
//!
//! ```text
//! source --PSYNC: all keys, then its log--> mover --RESTORE, then commands, of the slots alone--> target
//! ```
//!
//! The mover is a replica to the source and a client to the target, so either may be a store or Redis. It never says that it has more
//! than the copy: no acknowledgement of the source counts it. When what it has applied is near the source's end, whoever looks after
//! the cluster has the slots' commands wait at the source, waits until the mover has all of it, and gives the slots to the target.
//!
//! A move that fails is begun anew: what the target has of the slots is removed first. The target takes slots from the last mover that
//! has come for them: one that somebody else had begun before does no harm any more. A Redis takes them from anybody, so a mover ends the
//! connections of others for the same slots there first, by their names.

mod copy;
mod filter;
mod lifetimes;
mod pace;
mod stream;
mod value;

use std::{
    io,
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use commands::cluster::SlotRange;

pub use filter::{Filter, FilterError};

/// How often is looked whether a move has ended.
const STEP: Duration = Duration::from_millis(2);

/// What is to be moved.
#[derive(Clone, Debug)]
pub struct Move {
    /// Who has the slots.
    pub source: SocketAddr,
    /// Who is to have them.
    pub target: SocketAddr,
    /// The slots.
    pub slots: SlotRange,
    /// The change of the cluster that whoever begins the move knows of: a target that knows more refuses.
    pub epoch: u64,
    /// What the source lets the mover in by.
    pub source_login: Option<Login>,
    /// What the target lets it in by.
    pub target_login: Option<Login>,
    /// The target is a Redis without a cluster of its own: it takes keys of any slot, and its keys are looked for one by one.
    pub target_is_plain: bool,
    /// Since when the agent leads that has it done: the target takes nothing more from it when another one does. A Redis knows no terms.
    pub term: Option<u64>,
    /// Which nodes of the cluster the source and the target are. Whoever answers at an address must be that one.
    pub nodes: (Option<String>, Option<String>),
}

impl Move {
    /// A move between two stores that let everybody in and know no more than the first change.
    #[must_use]
    pub fn between(source: SocketAddr, target: SocketAddr, slots: SlotRange) -> Self {
        let (source_login, target_login) = (None, None);
        let nodes = (None, None);
        Self { source, target, slots, epoch: 1, source_login, target_login, target_is_plain: false, term: None, nodes }
    }
}

/// A user, if it is not the default one, and a password.
#[derive(Clone)]
pub struct Login {
    /// The user.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// How far a move is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// All keys are copied.
    #[default]
    Copying,
    /// What changes at the source is done at the target too.
    Following,
    /// It has come to its end, for this reason.
    Failed(String),
}

/// How far a move is, in figures.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Progress {
    /// What it does.
    pub phase: Phase,
    /// Keys that were copied.
    pub keys: u64,
    /// Bytes that came from the source.
    pub bytes: u64,
    /// How much of the source's log the target has, as `master_repl_offset` counts it.
    pub applied: u64,
    /// Keys there have other times to live than they are to be served with, until [`Mover::set_paused`] has had its effect.
    pub lacks_times: bool,
}

#[derive(Debug, Default)]
struct Shared {
    stops: AtomicBool,
    phase: Mutex<Phase>,
    keys: AtomicU64,
    bytes: AtomicU64,
    applied: AtomicU64,
    /// Set before `applied` is where this is so; see [`Progress::lacks_times`].
    lacks_times: AtomicBool,
    /// Whether commands on the slots wait at the source.
    is_paused: AtomicBool,
    /// Bytes a second of the copy; 0: no bound.
    rate: AtomicU64,
    /// The connection to the target, by which the thread is woken that waits for it.
    target: Mutex<Option<TcpStream>>,
}

/// A move under way, on a thread of its own. It ends when this goes; keys stay where they are.
#[derive(Debug)]
pub struct Mover {
    shared: Arc<Shared>,
    thread: thread::JoinHandle<()>,
}

/// Begins a move.
///
/// # Errors
///
/// The system has no thread.
pub fn start(task: Move) -> io::Result<Mover> {
    let shared = Arc::new(Shared::default());
    let own = Arc::clone(&shared);
    let thread = thread::Builder::new().name("slots".into()).spawn(move || {
        if let Err(reason) = stream::run(&task, &own) {
            *own.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Failed(reason.to_string());
        }
    })?;
    Ok(Mover { shared, thread })
}

impl Mover {
    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let shared = &self.shared;
        // NOTE: in this order, or the times could be those of before.
        let applied = shared.applied.load(Ordering::Acquire);
        let lacks_times = shared.lacks_times.load(Ordering::Acquire);
        Progress {
            phase: shared.phase.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            keys: shared.keys.load(Ordering::Relaxed),
            bytes: shared.bytes.load(Ordering::Relaxed),
            applied,
            lacks_times,
        }
    }

    /// Says whether all commands on the slots wait at the source, or no longer do. Meanwhile the keys at a Redis get the times that they
    /// are to be served with.
    pub fn set_paused(&self, is_paused: bool) {
        self.shared.is_paused.store(is_paused, Ordering::Release);
    }

    /// How many bytes a second it copies at most; nothing: no bound. What changes meanwhile is done at the target without one.
    pub fn set_rate(&self, bytes_per_second: Option<u64>) {
        self.shared.rate.store(bytes_per_second.unwrap_or(0), Ordering::Relaxed);
    }

    /// Ends it, and waits until the target gets nothing more from it.
    pub fn stop(self) {
        self.ask_to_end();
        while !self.has_ended() {
            thread::sleep(STEP);
        }
    }

    /// Asks it to end. It may still hand on what comes until [`Mover::has_ended`]: before that, nothing of the slots may be removed at
    /// the source, as the target would remove it too.
    pub fn ask_to_end(&self) {
        self.shared.end();
    }

    /// Whether it has ended: the target gets nothing more from it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

impl Shared {
    /// Has the thread end, even where it waits for a target that hangs.
    fn end(&self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(target) = &*self.target.lock().unwrap_or_else(PoisonError::into_inner) {
            // It may be closed already.
            let _ = target.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.shared.end();
    }
}
