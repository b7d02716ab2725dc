//! The loop of a shard.
//!
//! ```text
//! wait for events -> read and run every ready client -> what is due -> log -> send replies
//! ```
//!
//! All clients that are ready share one turn, and with it one write to the log and one fsync: group commit.

mod room;

use std::{cell::RefCell, collections::VecDeque, io, rc::Rc, sync::Arc, time::Duration};

use commands::{Millis, Server, SessionId, random::Secrets};
use mio::{Events, Interest, Poll, Token, Waker, event::Event};
use oplog::Offset;

use crate::{
    Start, StoreError, clock,
    connection::ReadOutcome,
    disk_bound::DiskBound,
    host::{Listening, OomScore, Process},
    lanes::{Event as LaneEvent, Lanes},
    listener::{self, Listener},
    messages,
    migrate::Migrations,
    overhead::Overhead,
    pace::Pace,
    persistence::Persistence,
    signals::Signals,
    sockets::{FIRST_LISTENER, SIGNALS, Sockets, WAKER},
    users::Users,
};

/// Events of one turn.
const EVENTS_MAX: usize = 1024;
/// While memory is short, one client at a time sends a query that is longer than this.
const LONG_QUERY: usize = 256 << 10;
/// How often its bytes are in memory besides when it runs: as a value, as an effect, in the log, in a record.
const LONG_QUERY_COPIES: u64 = 4;
/// And for as long without sending anything, before it is another one's turn.
const FAVOURED_MS: Millis = 100;
/// How often what is due is looked for at least.
const TICK_MS: Millis = 100;

/// A shard with its sockets.
pub struct Shard {
    listening: Rc<RefCell<Listening>>,
    /// Shared with what serves clients while a script is busy. Nobody borrows them while a command runs.
    sockets: Rc<RefCell<Sockets>>,
    server: Server,
    /// Log and tables; without them everything is in memory.
    persistence: Option<Persistence>,
    /// How much memory the process has allocated.
    memory_used: fn() -> usize,
    overhead: Overhead,
    disk_bound: DiskBound,
    /// There is more to be done in a millisecond: keys to be removed from the disk, or to be brought into memory.
    is_moving: bool,
    /// Sessions with something to be sent.
    ready: Vec<SessionId>,
    /// How fast clients may go on when memory is over its bound.
    pace: Pace,
    /// Whether the tables are so far behind that commands that write wait.
    has_no_room: bool,
    /// From how much allocated memory on it is short, as far as is known in this turn.
    short_from: u64,
    /// From how much on room is made before the turn ends; nothing if there is no bound.
    make_room_from: Option<u64>,
    /// Since when memory is over its bound.
    over_since: Option<Millis>,
    /// The client whose long query is read on while memory is short, and when it was read last.
    favoured: Option<(SessionId, Millis)>,
    /// Sessions that sent something that is to be read in the next millisecond.
    deferred: Vec<SessionId>,
    /// Those of them that are to be read now.
    resume: Vec<SessionId>,
    /// Sessions whose replies wait until the log is safe up to an offset, in order.
    held: VecDeque<(Offset, Vec<SessionId>)>,
    next_tick: Millis,
    /// Threads read and write the sockets of clients.
    has_lanes: bool,
    oom_score: OomScore,
    /// Sends keys to other servers; nothing until there are some.
    migrations: Option<Migrations>,
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
        let listeners = listener::open(&settings)?;
        let threads = usize::try_from(settings.io_threads.0).unwrap_or(1);
        let lanes = if threads > 1 { Some(Box::new(Lanes::start(threads, &waker)?)) } else { None };
        let has_lanes = lanes.is_some();
        let listening: Rc<RefCell<Listening>> = Rc::default();
        listening.borrow_mut().open = listeners.iter().filter_map(Listener::address).collect();
        let mut oom_score = OomScore::new();
        oom_score.apply(&settings);
        let process = Process::new(config_file, memory_used, Rc::clone(&listening))?;
        let now = clock::now();
        let stopwatch = std::rc::Rc::new(clock::stopwatch());
        let users = Users::of(&settings);
        let (mut server, persistence) = if settings.dir.0.is_empty() {
            messages::notice("without a folder (--dir) all data is in memory alone, and gone when the store ends");
            (Server::new(settings, random_seed()?, random_seed()?, now, None, stopwatch), None)
        } else {
            let mut persistence = Persistence::open(&settings, until, Arc::clone(&waker))?;
            let tables = persistence.tables();
            let seed = tables.key_seed();
            let tables = Box::new(tables);
            let mut server = Server::new(settings, seed, random_seed()?, now, Some(tables), stopwatch);
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
        let sockets = Rc::new(RefCell::new(Sockets::new(poll, listeners, signals, lanes)?));
        let others = Rc::clone(&sockets);
        server.shared.while_busy = Some(Rc::new(move |server: &mut Server| {
            if let Ok(mut sockets) = others.try_borrow_mut() {
                sockets.serve_while_busy(server);
            }
        }));
        Ok(Self {
            sockets,
            listening,
            server,
            persistence,
            memory_used,
            overhead: Overhead::start(memory_used)?,
            disk_bound: DiskBound::default(),
            is_moving: false,
            ready: Vec::new(),
            pace: Pace::new(now),
            has_no_room: false,
            short_from: u64::MAX,
            make_room_from: None,
            over_since: None,
            favoured: None,
            deferred: Vec::new(),
            resume: Vec::new(),
            held: VecDeque::new(),
            next_tick: now,
            has_lanes,
            oom_score,
            migrations: None,
            waker,
        })
    }

    /// Serves until it is told to stop.
    pub fn run(mut self) -> Result<(), StoreError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut busy = false;
        messages::notice("Ready to accept connections");
        while !self.server.shared.shutdown {
            let is_more = busy || !self.resume.is_empty() || self.server.can_go_on();
            let mut wait = match (is_more, self.deferred.is_empty() && !self.is_moving) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => (self.next_tick - clock::now()).clamp(0, TICK_MS),
            };
            if self.has_lanes && wait > 0 && !self.may_sleep() {
                wait = 0;
            }
            match self.sockets.borrow_mut().poll.poll(&mut events, Some(Duration::from_millis(wait.unsigned_abs()))) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let now = clock::now();
            if self.next_tick > now + TICK_MS {
                self.clock_was_set_back(now);
            }
            self.release(now);
            if !self.deferred.is_empty() {
                self.set_pace(now, (self.memory_used)() as u64, self.owed());
                self.resume.append(&mut self.deferred);
            }
            for session in std::mem::take(&mut self.resume) {
                let token = self.sockets.borrow().tokens.get(&session).copied();
                match token {
                    Some(token) => self.read(token, now),
                    None => self.run_remote(session, now),
                }
            }
            for event in &events {
                self.handle(event, now);
            }
            if self.has_lanes {
                self.serve_lanes(now)?;
            }
            self.sockets.borrow_mut().take_later(&mut self.server, &mut self.resume, &mut self.ready);
            let is_tick = now >= self.next_tick;
            if is_tick {
                self.next_tick = now + TICK_MS;
                if !self.server.shared.periodic_paused {
                    self.server.tick(now);
                    self.server.shared.shutdown |= self.server.shared.shutdown_waits;
                }
                self.look_around(now);
            }
            if let Some(deadline) = self.server.next_deadline() {
                self.next_tick = self.next_tick.min(deadline.max(now + 1));
            }
            let sleep_us = std::mem::take(&mut self.server.shared.sleep_us);
            if sleep_us > 0 {
                std::thread::sleep(Duration::from_micros(sleep_us));
            }
            self.fulfil_requests(now)?;
            self.migrate(now)?;
            self.load(now);
            self.server.go_on(now);
            self.make_room(now, true);
            if is_tick || self.is_moving {
                self.move_keys(now);
            }
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
            if self.has_lanes {
                self.hand_over()?;
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
    fn look_around(&mut self, now: Millis) {
        let shared = &mut self.server.shared;
        let used = (self.memory_used)() as u64;
        shared.statistics.peak_memory = shared.statistics.peak_memory.max(used);
        self.overhead.tick(now, used, shared.settings.maxmemory.0);
        messages::set_level(shared.settings.loglevel);
        for line in shared.script_log.drain(..) {
            messages::say(line.level, &line.text);
        }
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
        if requests.listen {
            self.server.shared.requests.listen = false;
            let mut listening = self.listening.borrow_mut();
            if let Some((opened, wanted)) = listening.next.take() {
                self.sockets.borrow_mut().listen_elsewhere(opened, &wanted)?;
                listening.open = wanted;
            }
        }
        if std::mem::take(&mut self.server.shared.requests.settings) {
            self.oom_score.apply(&self.server.shared.settings);
            if let Some(persistence) = &self.persistence {
                persistence.follow(&self.server.shared.settings);
            }
        }
        if std::mem::take(&mut self.server.shared.requests.shutdown_aborted) {
            messages::notice("Shutdown manually aborted");
        }
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

    /// Has keys sent to other servers, and removes those that arrived.
    fn migrate(&mut self, now: Millis) -> Result<(), StoreError> {
        if !self.server.shared.migrations.is_empty() && self.migrations.is_none() {
            self.migrations = Some(Migrations::start(Arc::clone(&self.waker))?);
        }
        let Some(migrations) = &self.migrations else { return Ok(()) };
        for migration in self.server.shared.migrations.drain(..) {
            migrations.send(migration);
        }
        while let Some(migrated) = migrations.outcome() {
            self.server.finish_migration(&migrated, now);
        }
        self.server.shared.migration_sockets = migrations.sockets();
        Ok(())
    }

    /// Closes log and tables and opens them again, while clients wait.
    fn reload(&mut self, now: Millis) -> Result<(), StoreError> {
        let Some(mut persistence) = self.persistence.take() else { return Ok(()) };
        self.server.finish_replies();
        persistence.drain(&mut self.server, now);
        persistence.close(&mut self.server, now)?;
        self.server.forget_data();
        let mut persistence = Persistence::open(&self.server.shared.settings, None, Arc::clone(&self.waker))?;
        let tables = persistence.tables();
        self.server.take_records(tables.key_seed(), Box::new(tables));
        persistence.recover(&mut self.server)?;
        self.server.set_now(now);
        self.persistence = Some(persistence);
        Ok(())
    }

    /// What is done each now and then is not put off until the clock is again where it was.
    fn clock_was_set_back(&mut self, now: Millis) {
        self.next_tick = now;
        self.over_since = None;
        if let Some(persistence) = &mut self.persistence {
            persistence.clock_was_set_back(now);
        }
    }

    /// Has keys read that commands wait for, and runs those that have them.
    fn load(&mut self, now: Millis) {
        if let Some(persistence) = &mut self.persistence {
            while persistence.load(&mut self.server, now) {
                self.sockets.borrow_mut().is_settled = false;
                self.server.run_loaded();
            }
        }
    }

    fn handle(&mut self, event: &Event, now: Millis) {
        match event.token() {
            WAKER => {}
            SIGNALS => {
                if self.sockets.borrow_mut().signals.received() {
                    let shared = &mut self.server.shared;
                    let waits = if shared.periodic_paused { &mut shared.shutdown_waits } else { &mut shared.shutdown };
                    *waits = true;
                }
            }
            Token(token) if token >= FIRST_LISTENER => {
                self.sockets.borrow_mut().accept(token - FIRST_LISTENER, &mut self.server, now);
            }
            Token(token) => {
                let mut sockets = self.sockets.borrow_mut();
                let Some(connection) = sockets.connections.get_mut(token) else { return };
                if event.is_writable() && std::mem::take(&mut connection.write_blocked) && !connection.held {
                    self.ready.push(connection.session);
                }
                if event.is_readable() || event.is_read_closed() {
                    connection.sends_no_more |= event.is_read_closed();
                    if connection.held {
                        connection.read_pending = true;
                    } else {
                        drop(sockets);
                        self.read(token, now);
                    }
                }
            }
        }
    }

    /// Whether lanes have left nothing, and will wake the loop if they do.
    fn may_sleep(&self) -> bool {
        self.sockets.borrow().lanes.as_ref().is_none_or(|lanes| lanes.may_sleep())
    }

    /// Runs what clients of lanes have sent.
    fn serve_lanes(&mut self, now: Millis) -> Result<(), StoreError> {
        if let Some(lanes) = &mut self.sockets.borrow_mut().lanes {
            lanes.collect()?;
        }
        loop {
            let mut sockets = self.sockets.borrow_mut();
            let next = sockets.lanes.as_mut().and_then(|lanes| lanes.next(&mut self.server));
            drop(sockets);
            match next {
                Some((session, LaneEvent::Input)) => self.run_remote(session, now),
                // One that is held is sent what it gets when the log is safe.
                Some((session, LaneEvent::Writable)) => {
                    if !self.is_held(session) {
                        self.ready.push(session);
                    }
                }
                None => return Ok(()),
            }
        }
    }

    fn is_held(&self, session: SessionId) -> bool {
        let mut sockets = self.sockets.borrow_mut();
        sockets.lanes.as_mut().and_then(|lanes| lanes.remote(session)).is_some_and(|remote| remote.held)
    }

    /// Runs what a client of a lane has sent, or has its lane wait if that cannot be now.
    fn run_remote(&mut self, session: SessionId, now: Millis) {
        let mut guard = self.sockets.borrow_mut();
        let sockets = &mut *guard;
        let Some(lanes) = &mut sockets.lanes else { return };
        let Some(remote) = lanes.remote(session) else { return };
        if remote.held {
            remote.pending = true;
            return lanes.stop(session);
        }
        if is_to_wait(&self.pace, self.has_no_room, &mut self.server, session) {
            self.deferred.push(session);
            return lanes.stop(session);
        }
        lanes.go(session);
        sockets.is_settled = is_settled(&self.server, &self.persistence, &self.held);
        drop(guard);
        self.server.run(session, now);
        self.make_room_early(now);
    }

    /// Gives lanes what they have to send.
    fn hand_over(&mut self) -> Result<(), StoreError> {
        if let Some(lanes) = &mut self.sockets.borrow_mut().lanes {
            lanes.hand_over(&mut self.server)?;
        }
        Ok(())
    }

    /// Has what is ready wait until the log is safe up to an offset.
    fn hold(&mut self, offset: Offset) {
        if self.ready.is_empty() {
            return;
        }
        let mut sockets = self.sockets.borrow_mut();
        for session in &self.ready {
            sockets.set_held(*session, true);
        }
        drop(sockets);
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
        let mut sockets = self.sockets.borrow_mut();
        for session in &sessions {
            sockets.set_held(*session, false);
        }
        drop(sockets);
        self.send();
        for session in sessions {
            let mut sockets = self.sockets.borrow_mut();
            let Some(token) = sockets.tokens.get(&session).copied() else {
                drop(sockets);
                self.release_remote(session, now);
                continue;
            };
            let connection = sockets.connections.get_mut(token);
            let is_pending = connection.is_some_and(|connection| std::mem::take(&mut connection.read_pending));
            drop(sockets);
            if is_pending {
                self.read(token, now);
            }
        }
    }

    /// The same for a client of a lane.
    fn release_remote(&mut self, session: SessionId, now: Millis) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(lanes) = &mut sockets.lanes else { return };
        let is_pending = lanes.remote(session).is_some_and(|remote| std::mem::take(&mut remote.pending));
        drop(sockets);
        if is_pending {
            self.run_remote(session, now);
        }
    }

    fn read(&mut self, token: usize, now: Millis) {
        loop {
            let mut guard = self.sockets.borrow_mut();
            let sockets = &mut *guard;
            let Some(connection) = sockets.connections.get_mut(token) else { return };
            let session = connection.session;
            if is_to_wait(&self.pace, self.has_no_room, &mut self.server, session) {
                self.deferred.push(session);
                return;
            }
            let Some(mut input) = self.server.input(session) else { return };
            if input.len() > LONG_QUERY {
                // What it has sent is there once more as a value, and on its way to the log, when it runs.
                let to_come = input.len() as u64 * LONG_QUERY_COPIES;
                let is_short = (self.memory_used)() as u64 + to_come > self.short_from;
                if is_short && has_to_wait_for_another(&mut self.server, &mut self.favoured, session, now) {
                    self.deferred.push(session);
                    return;
                }
                let Some(again) = self.server.input(session) else { return };
                input = again;
            }
            let before = input.len();
            let outcome = connection.read(&mut sockets.scratch, input);
            let came = input.len() - before;
            let statistics = &mut self.server.shared.statistics;
            statistics.reads += 1;
            statistics.input_bytes += came as u64;
            let has_ended = connection.sends_no_more;
            if outcome == ReadOutcome::Closed {
                sockets.end(token, &mut self.server);
                return;
            }
            sockets.is_settled = is_settled(&self.server, &self.persistence, &self.held);
            drop(guard);
            self.server.run(session, now);
            self.make_room_early(now);
            if outcome == ReadOutcome::Drained && !has_ended {
                return;
            }
        }
    }

    /// Sends what there is to send.
    fn send(&mut self) {
        let mut sockets = self.sockets.borrow_mut();
        for session in self.ready.drain(..) {
            sockets.send(session, &mut self.server);
        }
    }
}

/// Whether nothing is read from a client for now.
fn is_to_wait(pace: &Pace, has_no_room: bool, server: &mut Server, session: SessionId) -> bool {
    pace.is_spent(server.effects().bytes().len() as u64) || has_no_room && server.is_postponed(session)
}

/// Whether a client's long query is not to be read on while memory is short: because it could not run, or because somebody else's
/// is read. Parts of many could fill memory, and none of them would ever come to run.
#[cold]
fn has_to_wait_for_another(
    server: &mut Server,
    favoured: &mut Option<(SessionId, Millis)>,
    session: SessionId,
    now: Millis,
) -> bool {
    if server.is_waiting(session) {
        return true;
    }
    let sends = |(id, at): &(SessionId, Millis)| {
        let is_long = server.input(*id).is_some_and(|query| query.len() > LONG_QUERY);
        is_long && (now - at < FAVOURED_MS || server.is_waiting(*id))
    };
    match favoured.filter(sends) {
        Some((other, _)) if other != session => true,
        _ => {
            *favoured = Some((session, now));
            false
        }
    }
}

/// Whether all that commands have done so far is in the log, as safe as it has to be.
fn is_settled(server: &Server, persistence: &Option<Persistence>, held: &VecDeque<(Offset, Vec<SessionId>)>) -> bool {
    persistence.is_none() || held.is_empty() && server.has_no_effects()
}

fn random_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
