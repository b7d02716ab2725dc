//! The loop of a shard.
//!
//! ```text
//! wait for events -> read and run every ready client -> what is due -> log -> send replies
//! ```
//!
//! All clients that are ready share one turn, and with it one write to the log and one fsync: group commit.

use std::{io, time::Duration};

use commands::{Millis, Server, SessionId, config::Settings, session::Close};
use mio::{Events, Interest, Poll, Token, net::TcpListener};
use slab::Slab;

use crate::{
    StoreError, clock,
    connection::{Connection, ReadOutcome},
    listener,
};

/// Tokens from here on are listeners.
const FIRST_LISTENER: usize = usize::MAX / 2;
/// Events of one turn.
const EVENTS_MAX: usize = 1024;
/// Bytes of one read.
const READ_LEN: usize = 64 * 1024;
/// How often what is due is looked for at least.
const TICK_MS: Millis = 100;

/// A shard with its sockets.
pub struct Shard {
    poll: Poll,
    listeners: Vec<TcpListener>,
    connections: Slab<Connection>,
    /// The connections of sessions.
    tokens: rustc_hash::FxHashMap<SessionId, usize>,
    server: Server,
    scratch: Vec<u8>,
    ready: Vec<SessionId>,
    next_tick: Millis,
}

impl Shard {
    /// Opens everything.
    pub fn new(settings: Settings) -> Result<Self, StoreError> {
        let poll = Poll::new()?;
        let mut listeners = listener::open(&settings)?;
        for (index, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener, Token(FIRST_LISTENER + index), Interest::READABLE)?;
        }
        let now = clock::now();
        let seed = random_seed()?;
        let server = Server::new(settings, seed, seed, now, None, Box::new(clock::stopwatch()));
        Ok(Self {
            poll,
            listeners,
            connections: Slab::new(),
            tokens: Default::default(),
            server,
            scratch: vec![0; READ_LEN],
            ready: Vec::new(),
            next_tick: now,
        })
    }

    /// Serves until it is told to stop.
    pub fn run(mut self) -> Result<(), StoreError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            let wait = (self.next_tick - clock::now()).clamp(0, TICK_MS);
            match self.poll.poll(&mut events, Some(Duration::from_millis(wait.unsigned_abs()))) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let now = clock::now();
            for event in &events {
                match event.token() {
                    Token(token) if token >= FIRST_LISTENER => self.accept(token - FIRST_LISTENER, now),
                    Token(token) => {
                        if event.is_writable()
                            && let Some(connection) = self.connections.get_mut(token)
                            && std::mem::take(&mut connection.write_blocked)
                        {
                            self.ready.push(connection.session);
                        }
                        if event.is_readable() || event.is_read_closed() {
                            self.read(token, now);
                        }
                    }
                }
            }
            if now >= self.next_tick {
                self.server.tick(now);
                self.next_tick = now + TICK_MS;
            }
            if let Some(deadline) = self.server.next_deadline() {
                self.next_tick = self.next_tick.min(deadline.max(now + 1));
            }
            self.server.effects().clear();
            let sleep_us = std::mem::take(&mut self.server.shared.sleep_us);
            if sleep_us > 0 {
                std::thread::sleep(Duration::from_micros(sleep_us));
            }
            self.send();
        }
    }

    fn accept(&mut self, index: usize, now: Millis) {
        while let Some(listener) = self.listeners.get(index) {
            match listener.accept() {
                Ok((mut stream, address)) => {
                    let _ = stream.set_nodelay(true);
                    let local = stream.local_addr().map(|local| local.to_string()).unwrap_or_default();
                    let entry = self.connections.vacant_entry();
                    let token = Token(entry.key());
                    let both = Interest::READABLE | Interest::WRITABLE;
                    if self.poll.registry().register(&mut stream, token, both).is_err() {
                        continue;
                    }
                    let session = self.server.connect(address.to_string(), local, now);
                    self.tokens.insert(session, token.0);
                    entry.insert(Connection::new(stream, session));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn read(&mut self, token: usize, now: Millis) {
        loop {
            let Some(connection) = self.connections.get_mut(token) else { return };
            let session = connection.session;
            let Some(input) = self.server.input(session) else { return };
            let outcome = connection.read(&mut self.scratch, input);
            if outcome == ReadOutcome::Closed {
                self.close(token);
                return;
            }
            self.server.run(session, now);
            if outcome == ReadOutcome::Drained {
                return;
            }
        }
    }

    /// Sends what there is to send.
    fn send(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        self.server.sessions_with_output(&mut ready);
        for session in ready.drain(..) {
            let Some(token) = self.tokens.get(&session).copied() else { continue };
            let Some(connection) = self.connections.get_mut(token) else { continue };
            let Some((output, close)) = self.server.output(session) else { continue };
            let alive = connection.write_blocked || connection.write(output);
            if !alive || close == Close::Now || close == Close::AfterOutput && output.is_empty() {
                self.close(token);
            }
        }
        self.ready = ready;
    }

    fn close(&mut self, token: usize) {
        let Some(mut connection) = self.connections.try_remove(token) else { return };
        let _ = self.poll.registry().deregister(connection.stream());
        self.tokens.remove(&connection.session);
        self.server.disconnect(connection.session);
    }
}

fn random_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
