//! `log-forward` sections, and the thread of logs.
//!
//! Lines of others come in as fast as others send them, so they are nobody's business but that of a thread of their own:
//! `logs` reads the sockets of all sections, writes the lines anew and sends them, and carries rings to their servers. The
//! control thread only tells it what is configured; workers accept connections and hand them over.
//!
//! Sockets belong to the master as all listening sockets do. So a datagram that waits in a socket's queue waits for whichever
//! process reads next, and no connection is refused over a reload. Connections outlive a reload too: those of a section that
//! is still there take its new targets, others keep theirs. A process that ends waits for them, as HAProxy does.

mod serve;

use std::{
    collections::HashMap,
    io,
    net::UdpSocket,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use haproxycfg::model::{Bind, Config, Ring};
use net::Socket;
use tokio::sync::{
    Notify,
    mpsc::{UnboundedSender, unbounded_channel},
    oneshot,
};

use super::{
    log_ring::LogRing,
    output::Outputs,
    targets::{Identity, LogTargets},
};

/// What the thread is told.
#[derive(Debug)]
enum Order {
    /// These are the sections from now on, and these the rings with what is configured of them.
    Follow(Vec<Section>, Vec<(Arc<LogRing>, Ring)>),
    /// A connection has come.
    Arrive(Arrival),
    /// Read no more datagrams: another process does, or nobody.
    Retire,
    /// Answer when all connections have ended and what they said is on its way.
    Finish(oneshot::Sender<()>),
}

/// A section as the thread gets it.
#[derive(Debug)]
struct Section {
    door: Arc<Door>,
    forward: Forward,
    datagrams: Vec<UdpSocket>,
}

/// Where the lines of a section go, and what is asked of those that send them.
#[derive(Debug)]
struct Forward {
    targets: LogTargets,
    silence_max: Option<Duration>,
    line_bytes_max: usize,
}

#[derive(Debug)]
struct Arrival {
    socket: Socket,
    header: Header,
    place: ConnectionSlot,
}

/// What a connection begins with, before its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    None,
    Proxy,
    Netscaler(u32),
}

/// The entrance of a section, kept over reloads.
#[derive(Debug, Default)]
struct Door {
    connections: AtomicU32,
    connections_max: AtomicU32,
    /// The last load.
    load: AtomicU64,
    /// Told when either has changed.
    changed: Notify,
}

/// One connection of those that a section may have.
#[derive(Debug)]
struct ConnectionSlot(Arc<Door>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
        self.0.changed.notify_waiters();
    }
}

/// The way into a section for a worker that accepts its connections.
#[derive(Debug)]
pub struct Inlet {
    door: Arc<Door>,
    load: u64,
    header: Header,
    orders: UnboundedSender<Order>,
}

impl Inlet {
    /// Waits until the section may have one more connection. Those that come meanwhile wait in the kernel's queue. There is
    /// room for all once another load has come: whoever accepts for the old one has to take what was accepted already.
    pub async fn wait_for_room(&self) {
        loop {
            let changed = self.door.changed.notified();
            let is_outdated = self.door.load.load(Relaxed) != self.load;
            if is_outdated || self.door.connections.load(Relaxed) < self.door.connections_max.load(Relaxed) {
                return;
            }
            changed.await;
        }
    }

    /// Gives a connection to the thread.
    pub fn hand_over(&self, socket: Socket) {
        self.door.connections.fetch_add(1, Relaxed);
        let place = ConnectionSlot(Arc::clone(&self.door));
        // Without the thread the process is ending, and the connection with it.
        let _ = self.orders.send(Order::Arrive(Arrival { socket, header: self.header, place }));
    }
}

/// The `log-forward` sections of a process, and the thread that serves them and the servers of rings.
#[derive(Debug, Default)]
pub struct Receivers {
    doors: Mutex<HashMap<Arc<str>, Arc<Door>>>,
    orders: Mutex<Option<UnboundedSender<Order>>>,
    load: AtomicU64,
    received: Arc<AtomicU64>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receivers {
    /// Serves what a configuration says from now on, with the sockets of each section's `dgram-bind` lines; the thread is
    /// started when there is something for it. Rings have been set in `outputs`.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn load(
        &self,
        config: &Config,
        datagrams: Vec<Vec<UdpSocket>>,
        identity: &Identity,
        outputs: &Arc<Outputs>,
    ) -> Result<(), String> {
        let load = self.load.fetch_add(1, Relaxed) + 1;
        let mut doors = lock(&self.doors);
        let mut kept = HashMap::new();
        let mut sections = Vec::new();
        let datagrams = datagrams.into_iter().chain(std::iter::repeat_with(Vec::new));
        for (section, datagrams) in config.log_forwards.iter().zip(datagrams) {
            let door = doors.remove(&section.name).unwrap_or_default();
            door.connections_max.store(section.maxconn.max(1), Relaxed);
            kept.insert(Arc::clone(&section.name), Arc::clone(&door));
            sections.push(Section {
                door,
                forward: Forward {
                    targets: LogTargets::new(&section.logs, None, identity, outputs),
                    silence_max: section.timeout_client,
                    line_bytes_max: config.global.tune.bufsize,
                },
                datagrams,
            });
        }
        for door in doors.values().chain(kept.values()) {
            door.load.store(load, Relaxed);
            door.changed.notify_waiters();
        }
        *doors = kept;
        drop(doors);
        let rings: Vec<_> = outputs.rings().into_iter().zip(config.rings.iter().cloned()).collect();
        let has_work = !sections.is_empty() || rings.iter().any(|(_, ring)| !ring.servers.is_empty());
        let mut orders = lock(&self.orders);
        if orders.is_none() && has_work {
            *orders = Some(self.start(outputs).map_err(|error| format!("cannot start the thread of logs: {error}"))?);
        }
        if let Some(orders) = &*orders {
            // It only ends with the process.
            let _ = orders.send(Order::Follow(sections, rings));
        }
        Ok(())
    }

    fn start(&self, outputs: &Arc<Outputs>) -> io::Result<UnboundedSender<Order>> {
        let (sender, orders) = unbounded_channel();
        let (outputs, received) = (Arc::clone(outputs), Arc::clone(&self.received));
        let runtime_of_thread =
            || tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        thread::Builder::new().name("logs".into()).spawn(move || match runtime_of_thread() {
            Ok(runtime) => runtime.block_on(serve::run(orders, outputs, received)),
            Err(error) => runtime::log::write(
                runtime::log::Level::Alert,
                format_args!("the thread of logs cannot run ({error}): log-forward and rings do not work"),
            ),
        })?;
        Ok(sender)
    }

    /// The way into a section for whoever accepts from one of its `bind` lines.
    pub fn inlet(&self, section: &str, bind: &Bind) -> Option<Inlet> {
        let header = match bind {
            Bind { accept_proxy: true, .. } => Header::Proxy,
            Bind { netscaler_magic: Some(magic), .. } => Header::Netscaler(*magic),
            _ => Header::None,
        };
        let door = Arc::clone(lock(&self.doors).get(section)?);
        Some(Inlet { load: door.load.load(Relaxed), door, header, orders: lock(&self.orders).clone()? })
    }

    /// Lines that have come in.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// The process takes nothing new: another one reads datagrams, or nobody.
    pub fn retire(&self) {
        let load = self.load.fetch_add(1, Relaxed) + 1;
        for door in lock(&self.doors).values() {
            door.load.store(load, Relaxed);
            door.changed.notify_waiters();
        }
        if let Some(orders) = &*lock(&self.orders) {
            let _ = orders.send(Order::Retire);
        }
    }

    /// Waits until the connections that there are have ended, and for a moment until servers of rings have what is left.
    pub async fn finish(&self) {
        let (done, finished) = oneshot::channel();
        let asked = lock(&self.orders).as_ref().is_some_and(|orders| orders.send(Order::Finish(done)).is_ok());
        if asked {
            // A thread that has ended has finished as well.
            let _ = finished.await;
        }
    }
}
