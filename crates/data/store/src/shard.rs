//! The loop of a shard.
//!
//! ```text
//! wait for events -> read and run every ready client -> what is due -> log -> send replies
//! ```
//!
//! All clients that are ready share one turn, and with it one write to the log and one fsync: group commit. With `appendfsync always`
//! several turns do.

mod clients;
mod requests;
mod room;

use std::{cell::RefCell, collections::VecDeque, io, rc::Rc, sync::Arc, time::Duration};

use commands::{Millis, Server, SessionId, secrets::Secrets};
use mio::{Events, Interest, Poll, Waker};
use oplog::Offset;

use crate::{
    Start, StoreError, clock,
    disk_bound::DiskBound,
    host::{Listening, OomScore, Process},
    lanes::Lanes,
    life::Life,
    listener::{self, Listener},
    long_queries::LongQueries,
    messages,
    migrate::Migrations,
    overhead::Overhead,
    pace::Pace,
    page::Page,
    persistence::Persistence,
    running::Running,
    signals::{Signals, Watch},
    sockets::{SIGNALS, Sockets, WAKER},
    users::Users,
};

/// Events of one turn.
const EVENTS_MAX: usize = 1024;
/// How often what is due is looked for at least.
const TICK_MS: Millis = 100;
/// From how much on the calendar's clock was set, and has not just been corrected a little. More than a tick: so it is noticed before
/// a command sees it.
const CLOCK_SET_MS: Millis = 1_000;
const _: () = assert!(CLOCK_SET_MS > TICK_MS);

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
    /// Clients whose long queries are read while memory is short.
    long_queries: LongQueries,
    /// Sessions that sent something that is to be read in the next millisecond.
    deferred: Vec<SessionId>,
    /// Those of them that are to be read now.
    resume: Vec<SessionId>,
    /// Sessions whose replies wait until the log is safe up to an offset, in order.
    held: VecDeque<(Offset, Vec<SessionId>)>,
    next_tick: Millis,
    /// What the calendar's clock said when it was last compared with one that nobody sets, and what that one said.
    compared: (Millis, Millis),
    uptime: Box<dyn Fn() -> u64>,
    /// Other threads read and write the sockets of clients.
    has_lanes: bool,
    oom_score: OomScore,
    /// Sends keys to other servers; nothing until there are some.
    migrations: Option<Migrations>,
    waker: Arc<Waker>,
    watch: Watch,
    life: Life,
    /// What is shown of the store by HTTP, if anything is.
    page: Option<Page>,
}

impl Shard {
    /// Opens everything, and reads what there is.
    pub fn new(start: Start, memory_used: fn() -> usize, mut life: Life) -> Result<Self, StoreError> {
        let Start { settings, config_file, until, .. } = start;
        let _patience = life.starting();
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let mut signals = Signals::new(life.supervisor().clone())?;
        let watch = signals.watch.clone();
        poll.registry().register(signals.source(), SIGNALS, Interest::READABLE)?;
        let listeners = listener::open(&settings)?;
        let page = Page::start(&settings, &waker)?;
        let threads = usize::try_from(settings.io_threads.0).unwrap_or(1);
        let lanes = if threads > 1 { Some(Box::new(Lanes::start(threads - 1, &waker)?)) } else { None };
        let has_lanes = lanes.is_some();
        let listening: Rc<RefCell<Listening>> = Rc::default();
        listening.borrow_mut().open = listeners.iter().filter_map(Listener::address).collect();
        let mut oom_score = OomScore::new();
        oom_score.apply(&settings);
        let process = Process::new(config_file, memory_used, Rc::clone(&listening), life.supervisor().name())?;
        let now = clock::now();
        let stopwatch = Rc::new(clock::stopwatch());
        let uptime = clock::stopwatch();
        let users = Users::of(&settings);
        let (mut server, persistence) = if settings.dir.0.is_empty() {
            messages::notice("all data is in memory alone, without a folder, and gone when the store ends");
            life.write_process_file(&settings, &watch);
            (Server::new(settings, random_seed()?, random_seed()?, now, None, stopwatch), None)
        } else {
            let mut persistence = Persistence::open(&settings, until, Arc::clone(&waker))?;
            life.write_process_file(&settings, &watch);
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
        let shard = Self {
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
            long_queries: LongQueries::default(),
            deferred: Vec::new(),
            resume: Vec::new(),
            held: VecDeque::new(),
            next_tick: now,
            compared: (now, 0),
            uptime: Box::new(uptime),
            has_lanes,
            oom_score,
            migrations: None,
            waker,
            watch,
            life,
            page,
        };
        shard.tell_place();
        Ok(shard)
    }

    /// Says in the folder where the store can be reached.
    fn tell_place(&self) {
        if let Some(persistence) = &self.persistence {
            let socket = &self.server.shared.settings.unixsocket.0;
            let page = self.page.as_ref().map(Page::address);
            persistence.tell_place(&Running::here(&self.listening.borrow().open, socket, page));
        }
    }

    /// Serves until it is told to stop.
    pub fn run(mut self) -> Result<(), StoreError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut busy = false;
        self.watch.serving();
        messages::notice("Ready to accept connections");
        self.life.serving();
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
            if now >= self.next_tick || self.next_tick > now + TICK_MS {
                self.compare_clocks(now);
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
            if let Some(page) = &mut self.page
                && (is_tick || page.is_asked())
            {
                page.turn(&mut self.server, now, (self.memory_used)() as u64);
            }
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
            // Before anything is written that it is a part of.
            self.stop_if_broken()?;
            self.fulfil_requests(now)?;
            self.migrate(now)?;
            self.load(now);
            self.server.go_on(now);
            self.make_room(now, true);
            if is_tick || self.is_moving {
                self.move_keys(now);
            }
            self.stop_if_broken()?;
            self.server.sessions_with_output(&mut self.ready);
            match &mut self.persistence {
                Some(persistence) => {
                    self.pace.spend(self.server.effects().len() as u64);
                    let wait_for = persistence.commit(&mut self.server, now, self.ready.len())?;
                    busy = persistence.advance(&mut self.server, now)? || persistence.waits_for_more();
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
        let _patience = self.life.ending();
        messages::notice(match self.persistence {
            Some(_) => "User requested shutdown... What is not on the disk yet is brought there",
            None => "User requested shutdown...",
        });
        let now = clock::now();
        match self.persistence {
            Some(persistence) if self.server.shared.requests.shutdown_without_checkpoint => {
                persistence.close_without_checkpoint(&mut self.server, now)
            }
            Some(persistence) => persistence.close(&mut self.server, now),
            None => Ok(()),
        }
    }

    /// Ends at once if a command has changed half of what it is about.
    fn stop_if_broken(&mut self) -> Result<(), StoreError> {
        self.server.shared.broken.take().map_or(Ok(()), |reason| Err(StoreError::Halved(reason)))
    }

    /// What is done each now and then is not put off until a clock that was set back is again where it was, and nobody waits longer
    /// or shorter because it was set.
    fn compare_clocks(&mut self, now: Millis) {
        let uptime = ((self.uptime)() / 1000).cast_signed();
        let by = (now - self.compared.0) - (uptime - self.compared.1);
        self.compared = (now, uptime);
        if self.next_tick > now + TICK_MS {
            self.next_tick = now;
            self.over_since = None;
            if let Some(persistence) = &mut self.persistence {
                persistence.clock_was_set_back(now);
            }
        }
        if by.abs() >= CLOCK_SET_MS {
            messages::notice(&format!("the clock was set by {}.{:03} s", by / 1000, by.abs() % 1000));
            self.over_since = None;
            self.pace.clock_was_set(now);
            self.server.clock_was_set(by);
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
}

fn random_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
