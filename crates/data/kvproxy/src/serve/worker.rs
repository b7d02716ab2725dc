//! A thread of the proxy: its sockets, and what is done with them.
//!
//! ```text
//! wait for events -> read every ready client and server -> send what there is: to each server once, to each client once
//! ```

use std::{
    io::{self, Read as _, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use basics::clock::microseconds;
use commands::cluster::SLOTS;
use mio::{Events, Interest, Poll, Token, Waker, event::Event};

use super::{
    embedded::Callers,
    orders::machine_ms,
    resolve::{self, ServerAddresses},
    sockets::{Listener, Stream, plain},
    topology::View,
};
use crate::{
    nutcracker::PoolConfig,
    proxy::{Lease, LinkFailure, LinkState, PoolHealth, Proxy},
    statistics::Snapshot,
};

/// Events of one turn.
const EVENTS_MAX: usize = 1024;
/// Bytes of one read.
const READ_LEN: usize = 64 * 1024;
/// Reads of one connection in a turn, before others are read.
const READS_MAX: usize = 4;
/// Tokens from here on are listeners.
const FIRST_LISTENER: usize = usize::MAX / 2;
const WAKER: Token = Token(usize::MAX - 1);
/// Buffers that have grown beyond this are given back once they are empty.
const BUFFER_KEPT: usize = 64 * 1024;
/// How often is looked what takes too long, at most and at least, in milliseconds.
const TICK_MS: (u64, u64) = (1, 100);
/// The same while requests wait to be tried again.
const PARKED_TICK: Duration = Duration::from_millis(5);

/// What threads know of one another.
#[derive(Debug, Default)]
pub struct Shared {
    /// The process ends.
    pub stops: AtomicBool,
    /// Clients should go elsewhere.
    pub leaves: AtomicBool,
    /// No new clients are taken, and those that are here go once they are answered.
    pub drains: AtomicBool,
    /// How each thread is, and since when that is known.
    pub healths: Mutex<Vec<Option<(PoolHealth, Instant)>>>,
    /// What each thread has counted.
    pub snapshots: Mutex<Vec<Snapshot>>,
    /// What the log is to say.
    pub messages: Mutex<Vec<String>>,
    /// Which server has which slots is to be asked.
    pub refresh: AtomicBool,
    /// That, as it is known.
    view: Mutex<Option<Arc<View>>>,
    /// How often it has changed.
    topologies: AtomicU64,
    /// There are servers that know no slots.
    pub has_plain: AtomicBool,
    /// Until when they may be used.
    pub lease: Mutex<Lease>,
    /// Which of the orders about them each thread has done.
    pub done_orders: Mutex<Vec<u64>>,
}

impl Shared {
    /// Takes over which server has which slots. Returns whether that is anything new.
    pub fn set_view(&self, view: View) -> bool {
        let topology = &view.topology;
        let mut known = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |known: &Arc<View>| known.topology.nodes == topology.nodes;
        if known.as_ref().is_some_and(|known| is_same(known) && known.orders == view.orders) {
            return false;
        }
        self.has_plain.store(view.orders.as_ref().is_some_and(|orders| !orders.servers.is_empty()), Ordering::Relaxed);
        if known.as_ref().is_some_and(is_same) {
            *known = Some(Arc::new(view));
            self.topologies.fetch_add(1, Ordering::Release);
            return true;
        }
        let (servers, served) = (topology.nodes.len(), topology.assigned());
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let have = if servers == 1 { "server has" } else { "servers have" };
        messages.push(format!("the cluster has changed: {servers} {have} {served} of {SLOTS} slots"));
        drop(messages);
        *known = Some(Arc::new(view));
        self.topologies.fetch_add(1, Ordering::Release);
        true
    }
}

struct Connection {
    stream: Stream,
    /// A read may get somewhere.
    is_readable: bool,
    /// A write may get somewhere.
    is_writable: bool,
}

/// A thread of the proxy.
pub struct Worker {
    poll: Poll,
    listeners: Vec<(Listener, usize)>,
    pub(super) proxy: Proxy,
    /// By the clients' places.
    clients: Vec<Option<Connection>>,
    /// By the places of connections to servers.
    links: Vec<Option<Connection>>,
    /// Clients to be read again although no event says so.
    again: Vec<usize>,
    /// Connections to servers to be read again.
    links_again: Vec<usize>,
    /// Room for the lists of what is to be sent.
    links_flushed: Vec<usize>,
    clients_flushed: Vec<usize>,
    scratch: Vec<u8>,
    places: Arc<ServerAddresses>,
    shared: Arc<Shared>,
    number: usize,
    tick: Duration,
    /// How often the topology had changed when it was last looked at.
    topologies: u64,
    /// The last orders about servers that know no slots are not done yet.
    must_tell_orders: bool,
    /// Until when those may be used.
    lease: Lease,
    /// Clients without sockets, if the proxy is within another program.
    pub(super) callers: Option<Callers>,
}

fn client_token(index: usize) -> Token {
    Token(index << 1)
}

fn link_token(index: usize) -> Token {
    Token((index << 1) | 1)
}

impl Worker {
    /// A thread's, with its listeners and the pool of each.
    pub fn new(
        (pools, client_output_max): (&[PoolConfig], usize),
        listeners: Vec<(Listener, usize)>,
        places: Arc<ServerAddresses>,
        shared: Arc<Shared>,
        number: usize,
    ) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let mut listeners = listeners;
        for (index, (listener, _)) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener, Token(FIRST_LISTENER + index), Interest::READABLE)?;
        }
        let shortest = pools.iter().filter_map(|pool| pool.timeout).min();
        let tick = shortest.map_or(TICK_MS.1, |time| {
            u64::try_from(time.as_millis() / 10).unwrap_or(TICK_MS.1).clamp(TICK_MS.0, TICK_MS.1)
        });
        let worker = Self {
            poll,
            listeners,
            proxy: Proxy::new(pools.to_vec(), client_output_max, 0, microseconds()),
            clients: Vec::new(),
            links: Vec::new(),
            again: Vec::new(),
            links_again: Vec::new(),
            links_flushed: Vec::new(),
            clients_flushed: Vec::new(),
            scratch: vec![0; READ_LEN],
            places,
            shared,
            number,
            tick: Duration::from_millis(tick),
            topologies: 0,
            must_tell_orders: false,
            lease: Lease::default(),
            callers: None,
        };
        Ok((worker, waker))
    }

    /// Has it serve clients without sockets, and all nodes by what is published.
    pub(super) fn set_callers(&mut self, callers: Callers) {
        self.proxy.publish_everywhere();
        self.callers = Some(callers);
    }

    /// Serves until the process ends.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let began = Instant::now();
        let mut last_tick = 0;
        self.look_at_topology();
        self.proxy.preconnect();
        self.work();
        while !self.shared.stops.load(Ordering::Relaxed) {
            let is_urgent = self.must_tell_orders || self.proxy.has_parked();
            let tick = if is_urgent { PARKED_TICK } else { self.tick };
            let wait = if self.again.is_empty() && self.links_again.is_empty() { tick } else { Duration::ZERO };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            let now = micros / 1000;
            self.proxy.set_time(micros, microseconds());
            self.look_at_topology();
            self.take_orders();
            for event in &events {
                self.handle(event);
            }
            for index in std::mem::take(&mut self.links_again) {
                self.read_link(index);
            }
            for index in std::mem::take(&mut self.again) {
                self.read_client(index);
            }
            if u128::from(now - last_tick) >= tick.as_millis() {
                last_tick = now;
                self.proxy.tick();
                self.publish();
            }
            self.work();
            if self.shared.drains.load(Ordering::Relaxed) && self.drain() {
                self.publish();
                break;
            }
        }
        Ok(())
    }

    /// Takes no more clients, and lets those go that wait for nothing. `true` once none is left.
    fn drain(&mut self) -> bool {
        for index in 0..self.listeners.len() {
            // What the kernel has taken is served.
            self.accept(index);
        }
        self.listeners.clear();
        let idle = self.proxy.idle_clients();
        for index in &idle {
            // A request that is in the socket already is answered.
            if let Some(connection) = self.clients.get_mut(*index).and_then(Option::as_mut) {
                connection.is_readable = true;
            }
            self.read_client(*index);
        }
        for index in self.proxy.idle_clients().into_iter().filter(|index| idle.contains(index)) {
            self.drop_client(index, false);
        }
        self.work();
        self.proxy.clients.is_empty()
    }

    /// Takes over which server has which slots, if that has changed, and asks for it if somebody was sent elsewhere.
    fn look_at_topology(&mut self) {
        if std::mem::take(&mut self.proxy.work.refresh) {
            self.shared.refresh.store(true, Ordering::Relaxed);
        }
        let count = self.shared.topologies.load(Ordering::Acquire);
        if count != self.topologies {
            self.topologies = count;
            self.look_at_clock();
            let view = self.shared.view.lock().unwrap_or_else(PoisonError::into_inner).clone();
            match view.as_deref() {
                Some(View { topology, orders: Some(orders) }) => self.proxy.set_view(topology, orders),
                Some(View { topology, orders: None }) => self.proxy.set_topology(0, topology),
                None => {}
            }
            self.must_tell_orders = true;
        }
        if self.proxy.plain.is_there || self.must_tell_orders {
            self.look_at_orders();
        }
    }

    /// Whether the lease is over that was known until now: the process may have been stopped since.
    fn look_at_clock(&mut self) {
        self.proxy.set_lease(self.lease, machine_ms());
    }

    /// Looks until when servers that know no slots may be used, and says which orders about them are done.
    fn look_at_orders(&mut self) {
        let lease = *self.shared.lease.lock().unwrap_or_else(PoisonError::into_inner);
        self.proxy.set_lease(lease, machine_ms());
        self.lease = lease;
        let done = self.proxy.done_orders();
        let mut all = self.shared.done_orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(done), Some(place)) = (done, all.get_mut(self.number)) {
            *place = done;
            self.must_tell_orders = false;
        }
        self.proxy.plain.acknowledged = all.iter().copied().min().unwrap_or(0);
    }

    /// Lets others see what has been counted, and what is to be said.
    fn publish(&mut self) {
        let mut snapshots = self.shared.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = snapshots.get_mut(self.number) {
            *place = Snapshot::of(&self.proxy);
        }
        drop(snapshots);
        let mut healths = self.shared.healths.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = healths.get_mut(self.number) {
            *place = Some((self.proxy.health(), Instant::now()));
        }
        drop(healths);
        if !self.proxy.work.messages.is_empty() {
            let mut messages = self.shared.messages.lock().unwrap_or_else(PoisonError::into_inner);
            messages.append(&mut self.proxy.work.messages);
        }
    }

    fn handle(&mut self, event: &Event) {
        let Token(number) = event.token();
        if event.token() == WAKER {
            return;
        }
        if number >= FIRST_LISTENER {
            return self.accept(number - FIRST_LISTENER);
        }
        let index = number >> 1;
        let is_link = number & 1 == 1;
        let connection = if is_link { &mut self.links } else { &mut self.clients };
        let Some(connection) = connection.get_mut(index).and_then(Option::as_mut) else { return };
        connection.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        connection.is_writable |= event.is_writable() || event.is_error();
        let can_be_read = event.is_readable() || event.is_read_closed() || event.is_error();
        if is_link {
            self.handle_link(index, can_be_read, event.is_read_closed());
        } else {
            if can_be_read {
                self.read_client(index);
            }
            // One that waits is not read; it may leave all the same.
            if event.is_read_closed() && self.proxy.clients.get(index).is_some_and(|client| client.may_wait()) {
                return self.drop_client(index, false);
            }
            if event.is_writable() && self.proxy.clients.get(index).is_some_and(|client| !client.output.is_empty()) {
                self.flush_client(index);
            }
        }
    }

    fn accept(&mut self, listener: usize) {
        loop {
            let Some((socket, pool)) = self.listeners.get(listener) else { return };
            let mut stream = match socket.accept() {
                Ok(stream) => stream,
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                    continue;
                }
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.proxy.work.messages.push(format!("no client can be taken: {}", plain(&error)));
                    }
                    return;
                }
            };
            // One that is too many goes at once, as twemproxy has it.
            let Some(index) = self.proxy.add_client(*pool) else { continue };
            let interests = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, client_token(index), interests).is_err() {
                self.proxy.remove_client(index, true);
                continue;
            }
            let connection = Connection { stream, is_readable: false, is_writable: true };
            place(&mut self.clients, index, connection);
        }
    }

    /// Reads a client while it may be read.
    fn read_client(&mut self, index: usize) {
        for _ in 0..READS_MAX {
            let Some(connection) = self.clients.get_mut(index).and_then(Option::as_mut) else { return };
            if !connection.is_readable || self.proxy.clients.get(index).is_none_or(|client| client.is_paused()) {
                return;
            }
            match connection.stream.read(&mut self.scratch) {
                Ok(0) => return self.client_left(index),
                Ok(count) => {
                    // NOTE: a read that leaves room has emptied the socket; what comes from now on is another event, and so is the
                    // end. One that has been announced is met by reading on.
                    connection.is_readable = count == self.scratch.len();
                    self.proxy.received(index, self.scratch.get(..count).unwrap_or_default());
                    if !connection_is_readable(&self.clients, index) {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.is_readable = false;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.drop_client(index, true),
            }
        }
        self.again.push(index);
    }

    /// A client sends no more. What it has asked is answered.
    fn client_left(&mut self, index: usize) {
        let is_owed = self.proxy.clients.get_mut(index).is_some_and(|client| {
            client.is_closing = true;
            !client.pending.is_empty() || client.sent < client.output.len()
        });
        if let Some(connection) = self.clients.get_mut(index).and_then(Option::as_mut) {
            connection.is_readable = false;
        }
        let may_wait = self.proxy.clients.get(index).is_some_and(|client| client.may_wait());
        if !is_owed || may_wait {
            self.drop_client(index, false);
        }
    }

    fn drop_client(&mut self, index: usize, has_failed: bool) {
        if let Some(place) = self.clients.get_mut(index) {
            *place = None;
        }
        self.proxy.remove_client(index, has_failed);
    }

    fn handle_link(&mut self, index: usize, can_be_read: bool, is_closed: bool) {
        let Some(state) = self.proxy.links.get(index).map(|link| link.state) else { return };
        let Some(connection) = self.links.get_mut(index).and_then(Option::as_mut) else { return };
        if state == LinkState::Opening {
            match connection.stream.is_connected() {
                Ok(true) => self.proxy.link_opened(index),
                Ok(false) => return,
                Err(error) => return self.proxy.link_failed(index, &LinkFailure::Other(plain(&error))),
            }
        }
        if can_be_read {
            self.read_link(index);
        }
        let _ = is_closed;
        if self.proxy.links.get(index).is_some_and(|link| link.state == LinkState::Open && !link.output.is_empty()) {
            self.flush_link(index);
        }
    }

    fn read_link(&mut self, index: usize) {
        for _ in 0..READS_MAX {
            let Some(connection) = self.links.get_mut(index).and_then(Option::as_mut) else { return };
            if !connection.is_readable {
                return;
            }
            match connection.stream.read(&mut self.scratch) {
                Ok(0) => return self.proxy.link_failed(index, &LinkFailure::Eof),
                Ok(count) => {
                    connection.is_readable = count == self.scratch.len();
                    if self.proxy.plain.is_there && self.proxy.is_plain_link(index) {
                        // NOTE: behind the read. What was there while the lease was not over was said while it was not.
                        self.look_at_clock();
                    }
                    self.proxy.link_received(index, self.scratch.get(..count).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.is_readable = false;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.proxy.link_failed(index, &LinkFailure::Other(plain(&error))),
            }
        }
        self.links_again.push(index);
    }

    /// Does with sockets what there is to be done.
    fn work(&mut self) {
        loop {
            for index in std::mem::take(&mut self.proxy.work.resume) {
                self.proxy.received(index, &[]);
                if connection_is_readable(&self.clients, index) {
                    self.again.push(index);
                }
            }
            for index in std::mem::take(&mut self.proxy.work.close) {
                if let Some(place) = self.links.get_mut(index) {
                    *place = None;
                }
                self.proxy.forget(index);
            }
            for index in std::mem::take(&mut self.proxy.work.open) {
                self.open(index);
            }
            self.flush_all();
            let work = &self.proxy.work;
            if work.resume.is_empty() && work.close.is_empty() && work.open.is_empty() && work.links.is_empty() {
                return;
            }
        }
    }

    /// Sends what there is to be sent. Lists of what is done often keep their room.
    fn flush_all(&mut self) {
        let mut list = std::mem::replace(&mut self.proxy.work.links, std::mem::take(&mut self.links_flushed));
        for index in list.drain(..) {
            if let Some(link) = self.proxy.links.get_mut(index) {
                link.is_dirty = false;
            }
            self.flush_link(index);
        }
        self.links_flushed = list;
        let mut list = std::mem::replace(&mut self.proxy.work.clients, std::mem::take(&mut self.clients_flushed));
        for index in list.drain(..) {
            if let Some(client) = self.proxy.clients.get_mut(index) {
                client.is_dirty = false;
            }
            self.flush_client(index);
        }
        self.clients_flushed = list;
    }

    fn open(&mut self, index: usize) {
        let Some(link) = self.proxy.links.get(index).filter(|link| link.state == LinkState::Opening) else { return };
        let keep_alive = self.proxy.pools.get(link.pool).is_some_and(|pool| pool.config.tcpkeepalive);
        let pool = self.proxy.pools.get(link.pool);
        let target =
            match pool.filter(|pool| pool.slots.is_some()).and_then(|pool| pool.config.servers.get(link.server)) {
                Some(server) => resolve::target(&server.address).map_err(io::Error::other),
                None => self.places.of(link.pool, link.server),
            };
        let connected = target.and_then(|target| Stream::connect(&target, keep_alive));
        let registered = connected.and_then(|mut stream| {
            let interests = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, link_token(index), interests)?;
            Ok(stream)
        });
        match registered {
            Ok(stream) => place(&mut self.links, index, Connection { stream, is_readable: false, is_writable: false }),
            Err(error) => self.proxy.link_failed(index, &LinkFailure::Other(plain(&error))),
        }
    }

    fn flush_link(&mut self, index: usize) {
        if self.proxy.plain.is_there && self.proxy.is_plain_link(index) && machine_ms() >= self.lease.until {
            // The process may have been stopped since it looked.
            let why = LinkFailure::Other("the proxy has no lease for it".into());
            if self.proxy.links.get(index).is_some_and(|link| link.unsent() > 0) {
                return self.proxy.link_failed(index, &why);
            }
        }
        let Some(connection) = self.links.get_mut(index).and_then(Option::as_mut) else { return };
        let Some(link) = self.proxy.links.get_mut(index).filter(|link| link.state == LinkState::Open) else { return };
        let before = link.unsent();
        let outcome = send(connection, &mut link.output, &mut link.sent);
        link.has_sent(before);
        match outcome {
            Ok(()) => self.proxy.link_sent(index),
            Err(error) => self.proxy.link_failed(index, &LinkFailure::Other(plain(&error))),
        }
    }

    fn flush_client(&mut self, index: usize) {
        let Some(connection) = self.clients.get_mut(index).and_then(Option::as_mut) else {
            self.deliver(index);
            return;
        };
        let Some(client) = self.proxy.clients.get_mut(index) else { return };
        if send(connection, &mut client.output, &mut client.sent).is_err() {
            return self.drop_client(index, true);
        }
        if client.is_closing && client.output.is_empty() && client.pending.is_empty() {
            return self.drop_client(index, false);
        }
        // What was not read while it had too much to be sent is read now.
        if connection.is_readable && !client.is_paused() {
            self.again.push(index);
        }
    }
}

fn connection_is_readable(connections: &[Option<Connection>], index: usize) -> bool {
    connections.get(index).and_then(Option::as_ref).is_some_and(|connection| connection.is_readable)
}

/// Sends what the socket takes. The buffer is empty once all of it has been sent.
#[inline]
fn send(connection: &mut Connection, output: &mut Vec<u8>, sent: &mut usize) -> io::Result<()> {
    while connection.is_writable && *sent < output.len() {
        match connection.stream.write(output.get(*sent..).unwrap_or_default()) {
            Ok(count) => *sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => connection.is_writable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if *sent >= output.len() {
        *sent = 0;
        if output.capacity() > BUFFER_KEPT {
            *output = Vec::new();
        } else {
            output.clear();
        }
    }
    Ok(())
}

/// Puts a connection at its place.
fn place(connections: &mut Vec<Option<Connection>>, index: usize, connection: Connection) {
    if connections.len() <= index {
        connections.resize_with(index + 1, || None);
    }
    if let Some(place) = connections.get_mut(index) {
        *place = Some(connection);
    }
}
