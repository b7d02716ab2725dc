//! The loop of a shard: its sockets, and when what is done.
//!
//! ```text
//! wait for events -> read and run every ready client -> what is due -> log -> send replies
//! ```
//!
//! What a turn is, what goes to the log and when replies may go out, the shard says ([`shard::Shard`]).

mod clients;
mod requests;

use std::{cell::RefCell, io, net::SocketAddr, path::Path, rc::Rc, sync::Arc, time::Duration};

use commands::{Server, SessionId};
use mio::{Events, Interest, Poll, Waker};
use shard::{ShardOptions, TICK_MS};

use crate::{
    Start, StoreError,
    agent_link::AgentLink,
    clock,
    folder::{ShardNumber, StoreFolder},
    forward::Forwarder,
    host::{Listening, OomScore, Process},
    lanes::Lanes,
    life::Life,
    listener::{self, Listener, Place, Transport},
    messages,
    migrate::Migrations,
    opening::{self, Shard},
    other_nodes::OtherNodes,
    overhead::Overhead,
    page::Page,
    replication::{self, Replicator},
    running::Running,
    secure::CurrentSecurity,
    signals::{Signals, Watch},
    sockets::{SIGNALS, Sockets, WAKER},
    users::Users,
    world::ProcessWorld,
};

/// Events of one turn.
const EVENTS_MAX: usize = 1024;
/// A shard with its sockets.
pub struct EventLoop {
    listening: Rc<RefCell<Listening>>,
    security: CurrentSecurity,
    /// Shared with what serves clients while a script is busy. Nobody borrows them while a command runs.
    sockets: Rc<RefCell<Sockets>>,
    shard: Shard,
    /// The folder of the data, if there is one.
    store_folder: Option<StoreFolder>,
    /// How much memory the process has allocated.
    memory_used: fn() -> usize,
    /// Sessions that sent something that is to be read in the next millisecond.
    deferred: Vec<SessionId>,
    /// Those of them that are to be read now.
    resume: Vec<SessionId>,
    /// Other threads read and write the sockets of clients.
    has_lanes: bool,
    oom_score: OomScore,
    replicator: Replicator,
    /// Sends commands of clients to the master; nothing until there are some.
    forwarder: Option<Forwarder>,
    /// Commands that other nodes of the cluster run for clients of this one.
    nodes: Option<OtherNodes>,
    /// Sends keys to other servers; nothing until there are some.
    migrations: Option<Migrations>,
    /// Passes commands on to the cluster's agent; nothing until there are some.
    agent_link: Option<AgentLink>,
    waker: Arc<Waker>,
    watch: Watch,
    life: Life,
    /// What is shown of the store by HTTP, if anything is.
    page: Option<Page>,
}

impl EventLoop {
    /// Opens everything, and reads what there is.
    pub fn new(start: Start, memory_used: fn() -> usize, mut life: Life) -> Result<Self, StoreError> {
        let Start { settings, config_file, until, .. } = start;
        let _patience = life.starting();
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let mut signals = Signals::new(life.supervisor().clone())?;
        let watch = signals.watch.clone();
        poll.registry().register(signals.source(), SIGNALS, Interest::READABLE)?;
        let security = CurrentSecurity::of(&settings)?;
        let listeners = listener::open(&settings)?;
        let page = Page::start(&settings, &waker)?;
        let threads = usize::try_from(settings.io_threads.0).unwrap_or(1);
        let lanes = if threads > 1 { Some(Box::new(Lanes::start(threads - 1, &waker)?)) } else { None };
        let has_lanes = lanes.is_some();
        let listening: Rc<RefCell<Listening>> = Rc::default();
        listening.borrow_mut().open = listeners.iter().filter_map(Listener::place).collect();
        let mut oom_score = OomScore::new();
        oom_score.apply(&settings);
        let listening_too = (Rc::clone(&listening), security.clone());
        let mut process = Process::new(config_file, memory_used, listening_too, life.supervisor().name())?;
        let users = Users::of(&settings);
        let has_folder = !settings.dir.0.is_empty();
        let store_folder = has_folder.then(|| StoreFolder::take(Path::new(&settings.dir.0))).transpose()?;
        if let Some(folder) = &store_folder {
            replication::finish_copy(folder.root())?;
            process.keep_terms_in(folder.root(), &settings)?;
        }
        let open = |folder| opening::open(folder, ShardNumber::FIRST, &settings, until, Arc::clone(&waker));
        let opened = store_folder.as_ref().map(open).transpose()?;
        life.write_process_file(&settings, &watch);
        let options = ShardOptions {
            settings,
            key_seed: u64::from_ne_bytes(random()?),
            seed: u64::from_ne_bytes(random()?),
            stopwatch: Rc::new(clock::stopwatch()),
            memory: Box::new(Overhead::start(memory_used)?),
            world: ProcessWorld::new(),
        };
        let mut shard = recovered(opened, options)?;
        let mut replicator = Replicator::new(Arc::clone(&waker), security.clone());
        if let Some(folder) = &store_folder {
            replicator.begin(&mut shard, folder)?;
        }
        let settled = shard.settled();
        let server = &mut shard.server;
        server.load_users(users).map_err(|reason| StoreError::Settings(vec![reason]))?;
        server.set_secret(random()?);
        server.set_host(Box::new(process));
        let sockets = Sockets::new(poll, (listeners, security.clone()), signals, lanes, settled)?;
        let sockets = Rc::new(RefCell::new(sockets));
        let others = Rc::clone(&sockets);
        server.set_while_busy(Rc::new(move |server: &mut Server| {
            if let Ok(mut sockets) = others.try_borrow_mut() {
                sockets.serve_while_busy(server);
            }
        }));
        let event_loop = Self {
            sockets,
            listening,
            security,
            shard,
            store_folder,
            memory_used,
            deferred: Vec::new(),
            resume: Vec::new(),
            has_lanes,
            oom_score,
            replicator,
            forwarder: None,
            nodes: None,
            migrations: None,
            agent_link: None,
            waker,
            watch,
            life,
            page,
        };
        event_loop.tell_place();
        Ok(event_loop)
    }

    /// Says in the folder where the store can be reached.
    fn tell_place(&self) {
        if let Some(folder) = &self.store_folder {
            let socket = &self.shard.server.settings().unixsocket.0;
            let page = self.page.as_ref().map(Page::address);
            folder.tell_place(&Running::here(&addresses(&self.listening.borrow().open), socket, page));
        }
    }

    /// How long events are waited for at most.
    fn patience(&self, is_busy: bool) -> Duration {
        let is_more = is_busy || !self.resume.is_empty() || self.shard.server.can_go_on();
        let mut wait = match (is_more, self.deferred.is_empty() && !self.shard.is_moving()) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => (self.shard.next_tick() - clock::now()).clamp(0, TICK_MS),
        };
        if self.has_lanes && wait > 0 && !self.may_sleep() {
            wait = 0;
        }
        Duration::from_millis(wait.unsigned_abs())
    }

    /// Serves until it is told to stop.
    pub fn run(mut self) -> Result<(), StoreError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        // Before any client writes: a replica takes nothing of them.
        let mut busy = self.replicate(clock::now())?;
        self.watch.serving();
        messages::notice("Ready to accept connections");
        self.life.serving();
        while !self.shard.server.shutdown().is_asked {
            let patience = self.patience(busy);
            match self.sockets.borrow_mut().poll.poll(&mut events, Some(patience)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let now = clock::now();
            self.shard.begin_turn(now);
            self.replicator.begin_turn(&mut self.shard, now);
            self.release(now);
            if !self.deferred.is_empty() {
                self.shard.refresh_pace(now);
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
            self.sockets.borrow_mut().take_later(&mut self.shard.server, &mut self.resume, &mut self.shard.ready);
            let is_tick = self.shard.is_tick(now);
            if let Some(page) = &mut self.page
                && (is_tick || page.is_asked())
            {
                page.turn(&mut self.shard.server, now, (self.memory_used)() as u64);
            }
            if is_tick {
                self.shard.tick(now);
                self.look_around(now);
            }
            self.shard.plan_tick(now);
            let sleep_us = self.shard.server.take_sleep_us();
            if sleep_us > 0 {
                std::thread::sleep(Duration::from_micros(sleep_us));
            }
            // Before anything is written that it is a part of.
            self.shard.check_broken()?;
            self.hear_answers(now);
            self.fulfil_requests(now)?;
            let has_more = self.replicate(now)?;
            let end = self.shard.end_turn(now, is_tick)?;
            busy = self.replicator.end_turn(&mut self.shard) || end.is_busy || has_more;
            if let Some(offset) = end.wait_for {
                self.hold(offset);
            }
            self.send();
            if self.has_lanes {
                self.hand_over()?;
            }
        }
        let _patience = self.life.ending();
        messages::notice(match self.shard.persistence() {
            Some(_) => "User requested shutdown... What is not on the disk yet is brought there",
            None => "User requested shutdown...",
        });
        Ok(self.shard.close()?)
    }
}

/// Addresses without TLS and with it.
fn addresses(places: &[Place]) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
    let of = |transport| places.iter().filter(move |place| place.transport == transport).map(|place| place.address);
    (of(Transport::Plain).collect(), of(Transport::Secure).collect())
}

/// A shard that goes on where its log ends, or has everything in memory alone.
fn recovered(opened: Option<opening::Persistence>, options: ShardOptions) -> Result<Shard, StoreError> {
    let Some(persistence) = opened else {
        messages::notice("all data is in memory alone, without a folder, and gone when the store ends");
        return Ok(Shard::in_memory(options));
    };
    let (shard, count) = Shard::recovered(persistence, options)?;
    if count > 0 {
        messages::notice(&format!("{count} commands of the log ran again"));
    }
    Ok(shard)
}

fn random<const LEN: usize>() -> io::Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}
