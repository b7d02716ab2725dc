//! The sections that run, and the ways to whoever runs them.

use std::{
    collections::HashMap,
    net::SocketAddr,
    os::fd::AsFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use haproxycfg::model::{self, BindAddress, Config, ServerAddress, ServerPort, SourceAddress, StickTable};
use net::{Socket, Target};
use peers::{ConnectionId, Section, SectionConfig, SharedTable};
use runtime::Listener;
use socket2::SockRef;
use tokio::sync::{Notify, mpsc};

use crate::tables::Tables;

/// Connections that wait to be looked at, at most; more are closed.
const ARRIVALS_MAX: usize = 64;

/// A connection of a peer that came in.
#[derive(Debug)]
pub struct Arrival {
    /// The section that it came to.
    pub section: Arc<str>,
    /// The socket, which does not block.
    pub socket: Socket,
}

/// Where a peer is and how it is connected to.
#[derive(Clone, Debug)]
pub struct LivePeer {
    /// Where it is.
    pub target: Target,
    /// `source`.
    pub source: Option<SourceAddress>,
    /// `tcp-ut`.
    pub user_timeout: Option<Duration>,
}

/// A section that runs.
#[derive(Debug)]
pub struct LiveSection {
    /// Its name.
    pub name: Arc<str>,
    /// Since when it runs.
    pub since: SystemTime,
    /// The peers, in the order of the configuration.
    pub peers: Vec<LivePeer>,
    /// The names of its tables.
    pub tables: Vec<Arc<str>>,
    /// Ends of the connections that came in.
    pub ends: Mutex<HashMap<ConnectionId, (SocketAddr, SocketAddr)>>,
    /// It runs no more.
    pub(super) is_retired: AtomicBool,
    state: Mutex<Section>,
}

impl LiveSection {
    /// Its state. Held for a moment.
    pub fn state(&self) -> MutexGuard<'_, Section> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another one is the same, so that its connections may stay.
    fn is_like(&self, other: &Self) -> bool {
        let (own, others) = (self.state(), other.state());
        let (own, others) = (own.config(), others.config());
        let same_tables = own.tables.len() == others.tables.len()
            && own
                .tables
                .iter()
                .zip(&others.tables)
                .all(|(one, another)| one.name == another.name && Arc::ptr_eq(&one.table, &another.table));
        let key = |peer: &LivePeer| (peer.target.clone(), format!("{:?} {:?}", peer.source, peer.user_timeout));
        self.name == other.name
            && own.local == others.local
            && own.peers == others.peers
            && own.message_len_max == others.message_len_max
            && own.updates_max == others.updates_max
            && same_tables
            && self.peers.iter().map(key).eq(other.peers.iter().map(key))
    }
}

/// Everything about peers that a process has.
#[derive(Debug)]
pub struct Hub {
    sections: Mutex<Vec<Arc<LiveSection>>>,
    arrivals: mpsc::Sender<Arrival>,
    pub(super) arrived: Mutex<Option<mpsc::Receiver<Arrival>>>,
    /// Something is to be looked at.
    pub(super) wake: Notify,
    /// A table has changed, and `wake` was told.
    pub(super) has_changes: AtomicBool,
    /// Told when a section has nothing more to say to a successor.
    pub(super) ended: Notify,
    is_stopping: AtomicBool,
}

impl Default for Hub {
    fn default() -> Self {
        let (arrivals, arrived) = mpsc::channel(ARRIVALS_MAX);
        Self {
            sections: Mutex::default(),
            arrivals,
            arrived: Mutex::new(Some(arrived)),
            wake: Notify::new(),
            has_changes: AtomicBool::new(false),
            ended: Notify::new(),
            is_stopping: AtomicBool::new(false),
        }
    }
}

impl Hub {
    /// The sections that run.
    #[must_use]
    pub fn sections(&self) -> Vec<Arc<LiveSection>> {
        self.sections.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Peers that there are connections with, opened or being opened, and those of them that have greeted each other.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let counts = self.sections().into_iter().map(|section| section.state().counts());
        counts.fold((0, 0), |(active, connected), (more, of_them)| (active + more, connected + of_them))
    }

    /// Hands a connection over that came in. Closes it if there are too many.
    pub fn hand_over(&self, arrival: Arrival) {
        // What does not fit is dropped, and closed by that: the peer comes again.
        let _ = self.arrivals.try_send(arrival);
    }

    /// Runs the sections of this configuration from now on, with the listener of each. Those that are the same as before keep their connections.
    pub fn load(self: &Arc<Self>, config: &Config, tables: &Tables, listeners: &[Option<&Listener>], start: &Start) {
        let mut sections = self.sections.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *sections);
        for (section, listener) in config.peers.iter().zip(listeners) {
            if section.disabled {
                continue;
            }
            let new = live_section(config, section, tables, *listener, start);
            match before.iter().find(|old| old.is_like(&new)) {
                Some(old) => sections.push(Arc::clone(old)),
                None => {
                    self.follow(&new);
                    sections.push(Arc::new(new));
                }
            }
        }
        for old in &before {
            if !sections.iter().any(|kept| Arc::ptr_eq(kept, old)) {
                old.is_retired.store(true, Relaxed);
            }
        }
        drop(sections);
        self.wake.notify_one();
    }

    fn follow(self: &Arc<Self>, section: &LiveSection) {
        for shared in &section.state().config().tables {
            let hub = Arc::clone(self);
            shared.table.follow(move || hub.note_change());
        }
    }

    /// Called by workers, for each change of a table.
    fn note_change(&self) {
        // Most often someone has said so already; then the line of the cache is only read.
        if !self.has_changes.load(Relaxed) && !self.has_changes.swap(true, Relaxed) {
            self.wake.notify_one();
        }
    }

    /// The process ends: what it knows goes to the one that serves in its place, if there is one.
    pub async fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        self.wake.notify_one();
        while !self.sections().iter().all(|section| section.state().is_over()) {
            self.ended.notified().await;
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }
}

/// What is known only when a process starts or loads.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Whether another process of the same name ends for the sake of this one.
    pub has_predecessor: bool,
    /// Seed of random numbers.
    pub seed: u64,
}

fn live_section(
    config: &Config,
    section: &model::Peers,
    tables: &Tables,
    listener: Option<&Listener>,
    start: &Start,
) -> LiveSection {
    let is_shared = |table: &&StickTable| table.peers.as_ref() == Some(&section.name);
    // As HAProxy numbers them: those of the section itself first, the last one before the others.
    let declared = config.stick_tables.iter().zip(0..).filter(|(table, _)| is_shared(table));
    let (own, others): (Vec<_>, Vec<_>) = declared.partition(|(table, _)| table.proxy.is_none());
    let mut names = Vec::new();
    let mut shared = Vec::new();
    for (table, index) in own.into_iter().rev().chain(others) {
        let is_disabled =
            table.proxy.and_then(|proxy| config.proxies.get(proxy.0 as usize)).is_some_and(|p| p.disabled);
        if let Some(live) = tables.get(model::TableIndex(index)).filter(|_| !is_disabled) {
            names.push(Arc::clone(&table.definition.name));
            shared.push(SharedTable { name: table.shared_name().into(), table: Arc::clone(live) });
        }
    }
    let state = Section::new(SectionConfig {
        local: config.global.localpeer.as_deref().unwrap_or_default().into(),
        peers: section.peers.iter().map(|peer| Arc::clone(&peer.name)).collect(),
        tables: shared,
        message_len_max: config.global.tune.bufsize,
        updates_max: config.global.tune.peers_updates_max,
        process: runtime::log::process_number(),
        has_predecessor: start.has_predecessor,
        seed: start.seed,
    });
    let live_peer = |peer: &model::Peer| LivePeer {
        target: target(section, peer, listener),
        source: peer.server.source.clone(),
        user_timeout: peer.server.tcp_user_timeout,
    };
    LiveSection {
        name: Arc::clone(&section.name),
        since: SystemTime::now(),
        peers: section.peers.iter().map(live_peer).collect(),
        tables: names,
        ends: Mutex::default(),
        is_retired: AtomicBool::new(false),
        state: Mutex::new(state),
    }
}

/// Where to connect to. The local peer is where it listens: another process will.
fn target(section: &model::Peers, peer: &model::Peer, listener: Option<&Listener>) -> Target {
    if peer.is_local {
        return match section.bind.as_ref().map(|bind| &bind.address) {
            Some(BindAddress::Inet(address)) => Target::Inet(*address),
            Some(BindAddress::Unix(path)) => Target::Unix(path.into()),
            Some(BindAddress::Abstract(name)) => Target::Abstract(name.clone()),
            Some(BindAddress::Descriptor(_) | BindAddress::Quic(_)) => {
                let socket = listener.and_then(|listener| listener.descriptors().next());
                let address = socket.and_then(|socket| SockRef::from(&socket.as_fd()).local_addr().ok());
                address.and_then(|address| address.as_socket()).map_or(Target::Unresolved, Target::Inet)
            }
            None => Target::Unresolved,
        };
    }
    let port = match peer.server.port {
        ServerPort::Fixed(port) => port,
        ServerPort::Same | ServerPort::Offset(_) => 0,
    };
    match &peer.server.address {
        ServerAddress::Unresolved => Target::Unresolved,
        ServerAddress::Ip(address) => Target::Inet(SocketAddr::new(*address, port)),
        ServerAddress::Unix(path) => Target::Unix(path.into()),
        ServerAddress::Abstract(name) => Target::Abstract(name.clone()),
    }
}
