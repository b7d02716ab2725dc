//! The loop of a shard.
//!
//! ```text
//! wait for events -> read and run every ready client -> what is due -> log -> send replies
//! ```
//!
//! All clients that are ready share one turn, and with it one write to the log and one fsync: group commit.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use commands::{Millis, Server, SessionId, random::Secrets, session::Close};
use mio::{Events, Interest, Poll, Token, Waker, event::Event, net::TcpStream};
use oplog::Offset;
use slab::Slab;

use crate::{
    Start, StoreError, clock,
    connection::{Connection, ReadOutcome},
    host::{OomScore, Process},
    listener::{self, Listener, Stream},
    messages,
    pace::Pace,
    persistence::{KEY_SEED, Persistence},
    signals::Signals,
    users::Users,
};

/// Tokens from here on are listeners.
const FIRST_LISTENER: usize = usize::MAX / 2;
const WAKER: Token = Token(usize::MAX - 1);
const SIGNALS: Token = Token(usize::MAX - 2);
/// Events of one turn.
const EVENTS_MAX: usize = 1024;
/// Bytes of one read.
const READ_LEN: usize = 64 * 1024;
/// Memory is short when less than this part of `maxmemory` is left.
const SHORT_SHARE: u64 = 8;
/// Keys that leave memory in one turn at most.
const EVICT_MAX: usize = 10_000;
/// How often what is due is looked for at least.
const TICK_MS: Millis = 100;

/// A shard with its sockets.
pub struct Shard {
    poll: Poll,
    listeners: Vec<Listener>,
    signals: Signals,
    connections: Slab<Connection>,
    /// The connections of sessions.
    tokens: rustc_hash::FxHashMap<SessionId, usize>,
    server: Server,
    /// Log and tables; without them everything is in memory.
    persistence: Option<Persistence>,
    /// How much memory the process has allocated.
    memory_used: fn() -> usize,
    scratch: Vec<u8>,
    /// Sessions with something to be sent.
    ready: Vec<SessionId>,
    /// How fast clients may go on when memory is over its bound.
    pace: Pace,
    /// Sessions that sent something that is to be read in the next millisecond.
    deferred: Vec<SessionId>,
    /// Those of them that are to be read now.
    resume: Vec<SessionId>,
    /// Sessions whose replies wait until the log is safe up to an offset, in order.
    held: VecDeque<(Offset, Vec<SessionId>)>,
    next_tick: Millis,
    oom_score: OomScore,
    waker: Arc<Waker>,
}

impl Shard {
    /// Opens everything, and reads what there is.
    pub fn new(start: Start, memory_used: fn() -> usize) -> Result<Self, StoreError> {
        let Start { settings, config_file, until, .. } = start;
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let mut signals = Signals::new()?;
        poll.registry().register(signals.source(), SIGNALS, Interest::READABLE)?;
        let mut listeners = listener::open(&settings)?;
        let mut oom_score = OomScore::new();
        oom_score.apply(&settings);
        let process = Process::new(config_file, memory_used)?;
        let now = clock::now();
        let stopwatch = std::rc::Rc::new(clock::stopwatch());
        let users = Users::of(&settings);
        let (mut server, persistence) = if settings.dir.0.is_empty() {
            messages::notice("without a folder (--dir) all data is in memory alone, and gone when the store ends");
            (Server::new(settings, random_seed()?, random_seed()?, now, None, stopwatch), None)
        } else {
            let mut persistence = Persistence::open(&settings, until, Arc::clone(&waker))?;
            let tables = Box::new(persistence.tables());
            let mut server = Server::new(settings, KEY_SEED, random_seed()?, now, Some(tables), stopwatch);
            let count = persistence.recover(&mut server)?;
            if count > 0 {
                messages::notice(&format!("{count} commands of the log ran again"));
            }
            server.shared.replication_id = persistence.replication_id();
            server.shared.persistence = persistence.figures();
            (server, Some(persistence))
        };
        server.load_users(users).map_err(|reason| StoreError::Settings(vec![reason]))?;
        let mut secret = [0; 32];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty()).map_err(io::Error::from)?;
        server.shared.secrets = Secrets::new(secret);
        server.shared.host = Box::new(process);
        for (index, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener, Token(FIRST_LISTENER + index), Interest::READABLE)?;
        }
        Ok(Self {
            poll,
            listeners,
            signals,
            connections: Slab::new(),
            tokens: Default::default(),
            server,
            persistence,
            memory_used,
            scratch: vec![0; READ_LEN],
            ready: Vec::new(),
            pace: Pace::new(now),
            deferred: Vec::new(),
            resume: Vec::new(),
            held: VecDeque::new(),
            next_tick: now,
            oom_score,
            waker,
        })
    }

    /// Serves until it is told to stop.
    pub fn run(mut self) -> Result<(), StoreError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut busy = false;
        messages::notice("Ready to accept connections");
        while !self.server.shared.shutdown {
            let wait = match (busy || !self.resume.is_empty(), self.deferred.is_empty()) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => (self.next_tick - clock::now()).clamp(0, TICK_MS),
            };
            match self.poll.poll(&mut events, Some(Duration::from_millis(wait.unsigned_abs()))) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let now = clock::now();
            self.release(now);
            if !self.deferred.is_empty() {
                self.set_pace(now, (self.memory_used)() as u64);
                self.resume.append(&mut self.deferred);
            }
            for session in std::mem::take(&mut self.resume) {
                if let Some(token) = self.tokens.get(&session).copied() {
                    self.read(token, now);
                }
            }
            for event in &events {
                self.handle(event, now);
            }
            if now >= self.next_tick {
                self.server.tick(now);
                self.next_tick = now + TICK_MS;
                self.look_around();
            }
            if let Some(deadline) = self.server.next_deadline() {
                self.next_tick = self.next_tick.min(deadline.max(now + 1));
            }
            let sleep_us = std::mem::take(&mut self.server.shared.sleep_us);
            if sleep_us > 0 {
                std::thread::sleep(Duration::from_micros(sleep_us));
            }
            self.fulfil_requests(now)?;
            self.load(now);
            self.make_room(now);
            if let Some(reason) = self.server.shared.broken.take() {
                return Err(StoreError::Halved(reason));
            }
            self.server.sessions_with_output(&mut self.ready);
            match &mut self.persistence {
                Some(persistence) => {
                    self.pace.spend(self.server.effects().bytes().len() as u64);
                    let wait_for = persistence.commit(&mut self.server, now)?;
                    busy = persistence.advance(&mut self.server, now)?;
                    if let Some((bytes, elapsed)) = persistence.take_drained() {
                        self.pace.drained(bytes, elapsed);
                    }
                    match wait_for {
                        Some(offset) => self.hold(offset),
                        None => self.send(),
                    }
                }
                None => {
                    self.server.effects().clear();
                    self.send();
                }
            }
        }
        messages::notice("The store ends: what is not on the disk yet is brought there");
        let now = clock::now();
        match self.persistence {
            Some(persistence) if self.server.shared.requests.shutdown_without_checkpoint => {
                persistence.close_without_checkpoint(&mut self.server, now)
            }
            Some(persistence) => persistence.close(&mut self.server, now),
            None => Ok(()),
        }
    }

    /// What is looked at now and then: figures for those who ask, and settings that the process follows.
    fn look_around(&mut self) {
        let shared = &mut self.server.shared;
        let used = (self.memory_used)() as u64;
        shared.statistics.peak_memory = shared.statistics.peak_memory.max(used);
        messages::set_level(shared.settings.loglevel);
        self.oom_score.apply(&shared.settings);
        self.tell_figures();
    }

    fn tell_figures(&mut self) {
        let Some(persistence) = &self.persistence else { return };
        let figures = persistence.figures();
        let changes = self.server.changes();
        let shared = &mut self.server.shared;
        if figures.checkpoints != shared.persistence.checkpoints {
            shared.changes_at_checkpoint = changes;
        }
        shared.persistence = figures;
    }

    /// Does what commands asked for.
    fn fulfil_requests(&mut self, now: Millis) -> Result<(), StoreError> {
        let requests = self.server.shared.requests;
        if !requests.save && !requests.checkpoint && !requests.reload {
            return Ok(());
        }
        let requests = &mut self.server.shared.requests;
        let (save, reload) = (std::mem::take(&mut requests.save), std::mem::take(&mut requests.reload));
        requests.checkpoint = false;
        if let Some(persistence) = &mut self.persistence {
            if save {
                persistence.checkpoint_now(&mut self.server, now)?;
            } else if !reload {
                persistence.press();
            }
        }
        if reload {
            self.reload(now)?;
        }
        self.tell_figures();
        Ok(())
    }

    /// Closes log and tables and opens them again, while clients wait.
    fn reload(&mut self, now: Millis) -> Result<(), StoreError> {
        let Some(mut persistence) = self.persistence.take() else { return Ok(()) };
        persistence.drain(&mut self.server, now);
        persistence.close(&mut self.server, now)?;
        self.server.forget_data();
        let mut persistence = Persistence::open(&self.server.shared.settings, None, Arc::clone(&self.waker))?;
        self.server.take_records(KEY_SEED, Box::new(persistence.tables()));
        persistence.recover(&mut self.server)?;
        self.server.set_now(now);
        self.persistence = Some(persistence);
        Ok(())
    }

    /// Has keys read that commands wait for, and runs those that have them.
    fn load(&mut self, now: Millis) {
        if let Some(persistence) = &mut self.persistence {
            while persistence.load(&mut self.server, now) {
                self.server.run_loaded();
            }
        }
    }

    /// Makes room while memory is short: removes keys as the policy says; without a policy they leave memory and stay in the
    /// tables. If that is not enough, because too much is not in the tables yet, clients go at their pace.
    fn make_room(&mut self, now: Millis) {
        let (short, bound) = self.memory_bounds();
        let mut used = (self.memory_used)() as u64;
        if bound > 0 && used > short {
            let samples = self.server.shared.settings.maxmemory_samples.0.unsigned_abs() as usize;
            for _ in 0..EVICT_MAX {
                let server = &mut self.server;
                if !server.evict() && !server.keyspace.evict_clean(&mut server.shared.random, samples) {
                    if let Some(persistence) = &mut self.persistence {
                        persistence.press();
                    }
                    // What neither leaves nor will be written is what clients have not read.
                    if used <= bound || server.keyspace.dirty_len() > 0 || !server.relieve() {
                        break;
                    }
                }
                used = (self.memory_used)() as u64;
                if used <= short {
                    break;
                }
            }
        }
        self.set_pace(now, used);
    }

    /// From where on memory is short, and its bound. With tables the room between them is for what they do not have yet.
    fn memory_bounds(&self) -> (u64, u64) {
        let bound = self.server.shared.settings.maxmemory.0;
        (if self.persistence.is_some() { bound - bound / SHORT_SHARE } else { bound }, bound)
    }

    /// Slows clients down while the tables are behind. What else may fill memory, time does not mend: then commands that need
    /// more are refused.
    fn set_pace(&mut self, now: Millis, used: u64) {
        let (short, bound) = self.memory_bounds();
        let is_short = bound > 0 && used > short;
        let is_behind =
            is_short && self.persistence.as_ref().is_some_and(|persistence| persistence.is_behind(&self.server));
        self.pace.refill(now, used, short, if is_behind { bound } else { 0 });
        self.server.shared.memory_full = bound > 0 && used > bound && !is_behind;
    }

    fn handle(&mut self, event: &Event, now: Millis) {
        match event.token() {
            WAKER => {}
            SIGNALS => {
                if self.signals.received() {
                    self.server.shared.shutdown = true;
                }
            }
            Token(token) if token >= FIRST_LISTENER => self.accept(token - FIRST_LISTENER, now),
            Token(token) => {
                let Some(connection) = self.connections.get_mut(token) else { return };
                if event.is_writable() && std::mem::take(&mut connection.write_blocked) && !connection.held {
                    self.ready.push(connection.session);
                }
                if event.is_readable() || event.is_read_closed() {
                    if connection.held {
                        connection.read_pending = true;
                    } else {
                        self.read(token, now);
                    }
                }
            }
        }
    }

    /// Has what is ready wait until the log is safe up to an offset.
    fn hold(&mut self, offset: Offset) {
        if self.ready.is_empty() {
            return;
        }
        for session in &self.ready {
            if let Some(connection) = self.tokens.get(session).and_then(|token| self.connections.get_mut(*token)) {
                connection.held = true;
            }
        }
        self.held.push_back((offset, std::mem::take(&mut self.ready)));
    }

    /// Sends what the log is safe for by now, and goes on with what these clients sent meanwhile.
    fn release(&mut self, now: Millis) {
        let Some(safe) = self.persistence.as_ref().map(Persistence::safe) else { return };
        while self.held.front().is_some_and(|(offset, _)| *offset <= safe) {
            let Some((_, mut sessions)) = self.held.pop_front() else { return };
            self.ready.append(&mut sessions);
        }
        if self.ready.is_empty() {
            return;
        }
        let sessions = self.ready.clone();
        for session in &sessions {
            if let Some(connection) = self.tokens.get(session).and_then(|token| self.connections.get_mut(*token)) {
                connection.held = false;
            }
        }
        self.send();
        for session in sessions {
            let Some(token) = self.tokens.get(&session).copied() else { continue };
            if self.connections.get_mut(token).is_some_and(|connection| std::mem::take(&mut connection.read_pending)) {
                self.read(token, now);
            }
        }
    }

    fn accept(&mut self, index: usize, now: Millis) {
        while let Some(listener) = self.listeners.get(index) {
            match listener.accept() {
                Ok(accepted) => {
                    let mut stream = accepted.stream;
                    if let Some(refusal) = self.refusal(accepted.is_local) {
                        self.server.shared.statistics.refused_connections += 1;
                        // What does not fit into the socket's buffer is of no use to anybody.
                        let _ = match &mut stream {
                            Stream::Tcp(stream) => io::Write::write(stream, refusal.as_bytes()),
                            Stream::Unix(stream) => io::Write::write(stream, refusal.as_bytes()),
                        };
                        continue;
                    }
                    if let Stream::Tcp(stream) = &stream {
                        self.keep_alive(stream);
                    }
                    let entry = self.connections.vacant_entry();
                    let token = Token(entry.key());
                    let both = Interest::READABLE | Interest::WRITABLE;
                    if self.poll.registry().register(&mut stream, token, both).is_err() {
                        continue;
                    }
                    let session = self.server.connect(accepted.address, accepted.local_address, now);
                    self.server.set_descriptor(session, stream.descriptor());
                    self.tokens.insert(session, token.0);
                    entry.insert(Connection::new(stream, session));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Why a client is not let in.
    fn refusal(&self, is_local: bool) -> Option<&'static str> {
        let settings = &self.server.shared.settings;
        if self.connections.len() as i64 >= settings.maxclients.0 {
            return Some("-ERR max number of clients reached\r\n");
        }
        let is_open = self.server.shared.acl.default_user().nopass && settings.protected_mode.0;
        (is_open && !is_local).then_some(
            "-DENIED Tidegate is running in protected mode because protected mode is enabled and no password is set for the \
             default user. In this mode connections are only accepted from the loopback interface. Set a password \
             (requirepass), or send CONFIG SET protected-mode no from the loopback interface.\r\n",
        )
    }

    /// Has the kernel probe a connection that is silent (`tcp-keepalive`).
    fn keep_alive(&self, stream: &TcpStream) {
        let seconds = self.server.shared.settings.tcp_keepalive.0.unsigned_abs();
        if seconds == 0 {
            return;
        }
        use rustix::net::sockopt;
        // The kernel may know no such option: then nothing is probed, and nothing else is lost.
        let _ = sockopt::set_socket_keepalive(stream, true);
        let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(seconds));
        let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs((seconds / 3).max(1)));
        let _ = sockopt::set_tcp_keepcnt(stream, 3);
    }

    fn read(&mut self, token: usize, now: Millis) {
        loop {
            let Some(connection) = self.connections.get_mut(token) else { return };
            let session = connection.session;
            if self.pace.is_spent(self.server.effects().bytes().len() as u64) {
                self.deferred.push(session);
                return;
            }
            let Some(input) = self.server.input(session) else { return };
            let before = input.len();
            let outcome = connection.read(&mut self.scratch, input);
            let came = input.len() - before;
            let statistics = &mut self.server.shared.statistics;
            statistics.reads += 1;
            statistics.input_bytes += came as u64;
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
        for session in ready.drain(..) {
            let Some(token) = self.tokens.get(&session).copied() else { continue };
            let Some(connection) = self.connections.get_mut(token) else { continue };
            let Some((output, close)) = self.server.output(session) else { continue };
            let before = output.len();
            let alive = close != Close::Now && (connection.write_blocked || connection.write(output));
            let (sent, is_empty) = (before - output.len(), output.is_empty());
            if sent > 0 {
                let statistics = &mut self.server.shared.statistics;
                statistics.writes += 1;
                statistics.output_bytes += sent as u64;
            }
            if !alive || close == Close::AfterOutput && is_empty {
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
