//! The command engine of a shard: sessions, keys, and what runs commands.
//!
//! Whoever owns it ([the contract]):
//! 1. [`connect`](Server::connect)s sessions and puts what they send into [`input`](Server::input),
//! 2. calls [`run`](Server::run) for those that sent something and, each now and then, [`tick`](Server::tick),
//! 3. does what [`poll_request`](Server::poll_request) says,
//! 4. takes [`effects`](Server::effects) and writes them to the log,
//! 5. sends what [`sessions_with_output`](Server::sessions_with_output) have in `output`: not before 4.
//!
//! [the contract]: Server

mod access;
mod agent;
mod alarms;
mod blocking;
#[cfg(test)]
mod blocking_tests;
mod caller;
#[cfg(test)]
mod client_tests;
mod clock;
mod cluster;
#[cfg(test)]
mod cluster_tests;
mod context;
mod cross_protocol;
mod dispatch;
mod eviction;
mod execution;
mod following;
mod forwarding;
mod handler;
mod histogram;
mod latency;
#[cfg(test)]
mod limit_tests;
mod limits;
mod loading;
mod migration;
pub(crate) mod monitor;
mod outbox;
mod outside;
mod passing_on;
mod pause;
#[cfg(test)]
mod pause_tests;
mod portions;
mod promises;
mod publish;
mod query_run;
#[cfg(test)]
mod rename_tests;
mod replication;
pub mod scripts;
mod sent;
mod sessions;
mod shared;
mod slowlog;
mod statistics;
mod steps;
mod tasks;
mod tracking;
mod transaction;
mod unread;
mod visit;
mod warming;
mod watch;
mod wide;

pub use agent::{AgentAnswer, AgentRequest};
pub use caller::{Answer, Caller, NotAdmitted};
pub use context::Context;
pub(crate) use execution::OUT_OF_MEMORY;
pub use forwarding::Forward;
pub use handler::{Command, FoundCommand, Handler, Table, Wide};
pub use histogram::Histogram;
pub use latency::{Event as LatencyEvent, LatencyMonitor};
pub use loading::Load;
pub use migration::{Credentials, Migrated, Migration, Parcel};
pub use outbox::{Outbox, Request};
pub use portions::PORTION_MIN;
pub use publish::Own;
pub use query_run::{LONG_QUERY, QueryLens};
pub use shared::{Clock, Condition, DebugSwitches, Migrations, Scripting, ServerLog, Shared, Shutdown, SlowEvents};
pub use slowlog::{SlowCommand, SlowLog};
pub use statistics::{CommandStatistics, Rates, Statistics};
pub use steps::{ScanSome, Scanning, Steps, changing_steps, giving_steps, reading_steps};
pub use tasks::{Progress, StepLimits, Window, Work};
pub use tracking::TrackingCounts;
pub use visit::{Refusal, Visitor};
pub use warming::{WantedElements, Warmup};

use keyspace::{
    Failure, Keys, Keyspace, Millis, Records,
    changes::{Changes, Effects, Group},
};

use crate::{Session, SessionId, config::Settings, host::Stopwatch, session::Close};

/// What a shard begins with.
pub struct Setup {
    /// The settings.
    pub settings: Settings,
    /// The seed of the tables that `records` reads.
    pub key_seed: u64,
    /// Any number: random numbers begin with it.
    pub seed: u64,
    /// The time.
    pub now: Millis,
    /// What is not in memory.
    pub records: Option<Box<dyn Records>>,
    /// What durations are measured with.
    pub stopwatch: Stopwatch,
}

/// Sessions and keys of one shard, and what runs commands on them.
#[derive(Debug)]
pub struct Server {
    /// The keys.
    pub keyspace: Keyspace,
    pub(crate) changes: Changes,
    effects: Effects,
    /// Sessions, and what running a command needs besides.
    pub(crate) shared: Shared,
    /// The time of what runs now.
    now: Millis,
}

impl Server {
    /// One with the commands of a table.
    pub fn with_table(table: Table, setup: Setup) -> Self {
        let Setup { settings, key_seed, seed, now, records, stopwatch } = setup;
        let mut keyspace = Keyspace::new(settings.databases.0 as usize, key_seed, records);
        keyspace.set_limits(settings.space_limits());
        let mut server = Self {
            keyspace,
            changes: Changes::default(),
            effects: Effects::default(),
            shared: Shared::new(table, settings, seed, now, stopwatch),
            now,
        };
        server.shared.refresh_limits();
        server.shared.settings_changed();
        server
    }

    /// A client has come.
    pub fn connect(&mut self, address: String, local_address: String, now: Millis) -> SessionId {
        let id = SessionId(self.shared.sessions.next_id);
        self.shared.sessions.next_id += 1;
        self.shared.statistics.connections += 1;
        let mut session = Session::new(id, now);
        session.connection.address = address;
        session.connection.local_address = local_address;
        self.shared.sessions.become_default(&mut session);
        self.shared.sessions.by_id.insert(id, Some(Box::new(session)));
        id
    }

    /// The link to the master is there, from one address to another and by this socket; or it is there no more.
    pub fn set_master_client(&mut self, link: Option<(String, String, i32)>, now: Millis) {
        self.shared.replication.master_client = link.map(|(address, local_address, descriptor)| {
            let mut session = Session::new(SessionId(self.shared.sessions.next_id), now);
            self.shared.sessions.next_id += 1;
            session.is_master = true;
            session.connection.address = address;
            session.connection.local_address = local_address;
            session.connection.descriptor = descriptor;
            Box::new(session)
        });
    }

    /// The number of a client's socket, as `CLIENT LIST` shows it.
    pub fn set_descriptor(&mut self, id: SessionId, descriptor: i32) {
        if let Some(session) = self.shared.sessions.get_mut(id) {
            session.connection.descriptor = descriptor;
        }
    }

    /// A client has gone.
    pub fn disconnect(&mut self, id: SessionId) {
        let Some(Some(mut session)) = self.shared.sessions.by_id.remove(&id) else { return };
        self.shared.forget_passed_on(&mut session);
        self.shared.set_imports(&mut session, false);
        self.shared.release(&mut session);
    }

    /// Where to put what a client sent.
    pub fn input(&mut self, id: SessionId) -> Option<&mut Vec<u8>> {
        self.shared.sessions.get_mut(id).map(|session| &mut session.query.bytes)
    }

    /// How much of a client's query has come, how much is known to be missing, and how much of that has its room already.
    pub fn query_lens(&mut self, id: SessionId) -> Option<QueryLens> {
        self.shared.sessions.get_mut(id).map(|session| {
            let room = session.query.bytes.capacity() - session.query.bytes.len();
            let missing = session.query.missing;
            QueryLens { came: session.query_len(), missing, has_room: missing.min(room) }
        })
    }

    /// What is to be sent to a client, and whether its connection is to be closed then.
    pub fn output(&mut self, id: SessionId) -> Option<(&mut Vec<u8>, Close)> {
        self.shared.sessions.get_mut(id).map(|session| (&mut session.output.bytes, session.close))
    }

    /// Whether a client has sent more than was run in this turn.
    pub fn has_more_to_run(&self, id: SessionId) -> bool {
        self.shared.sessions.schedule.to_go_on.contains(&id)
    }

    /// Whether a client has replies to come for what it has sent, without anybody else doing something.
    pub fn owes_replies(&self, id: SessionId) -> bool {
        let session = self.shared.sessions.by_id.get(&id).and_then(Option::as_deref);
        let has_some = |session: &Session| {
            !session.output.bytes.is_empty() || session.loading > 0 || session.output.awaits_reading
        };
        session.is_some_and(has_some) || self.has_more_to_run(id)
    }

    /// The sessions that have output, or are to be closed, since this was asked last.
    pub fn sessions_with_output(&mut self, ids: &mut Vec<SessionId>) {
        if self.shared.sessions.observers.any {
            self.shared.broadcast_invalidations();
        }
        self.shared.evict_clients();
        ids.append(&mut self.shared.sessions.schedule.with_output);
        for id in ids {
            if let Some(session) = self.shared.sessions.get_mut(*id) {
                session.output.is_listed = false;
                let len = session.unsent();
                session.output.promise.look(len);
            }
        }
    }

    /// The commands that took effect since this was cleared, as the log has them.
    pub fn effects(&mut self) -> &mut Effects {
        &mut self.effects
    }

    /// Whether no command took effect since the effects were cleared.
    pub fn has_no_effects(&self) -> bool {
        self.effects.is_empty()
    }

    pub(crate) fn end_effects(&mut self, group: Group) {
        self.effects.end(group);
    }

    /// How many changes there were, ever.
    pub fn changes(&self) -> u64 {
        self.changes.dirty
    }

    /// Forgets all keys, and how to read those that are not in memory; nothing is logged.
    pub fn forget_data(&mut self) {
        self.replace_keyspace(self.keyspace.seed, None);
    }

    /// Takes over tables, with nothing in memory yet.
    pub fn take_records(&mut self, key_seed: u64, records: Box<dyn Records>) {
        self.replace_keyspace(key_seed, Some(records));
    }

    fn replace_keyspace(&mut self, key_seed: u64, records: Option<Box<dyn Records>>) {
        let mut keyspace = Keyspace::new(self.shared.settings.databases.0 as usize, key_seed, records);
        keyspace.set_limits(self.shared.settings.space_limits());
        std::mem::swap(&mut self.keyspace, &mut keyspace);
        self.keyspace.take_statistics(&mut keyspace);
    }

    /// Says what time it is, after the log was run again.
    pub fn set_now(&mut self, now: Millis) {
        self.now = now;
    }

    /// The keys of a database at a time, for whoever loads or replays.
    pub fn keys(&mut self, db: usize, now: Millis) -> Keys<'_> {
        Keys::new(&mut self.keyspace, db, now, &mut self.changes)
    }

    /// What is due: keys that expire, clients that waited long enough.
    pub fn tick(&mut self, now: Millis) {
        const EXPIRE_AT_MOST: usize = 1000;
        /// Some hundred elements each, so all of them take a millisecond or two.
        const FREE_AT_MOST: usize = 64;
        self.now = now;
        self.keyspace.usage.set_time(now.saturating_sub(self.shared.clock.set_by));
        self.shared.clock.now = now;
        let paused = self.is_paused();
        self.watch_changes();
        self.sweep_clients(now);
        self.shared.limit_tracking();
        self.keyspace.set_limits(self.shared.settings.space_limits());
        self.keyspace.usage.by_frequency = self.shared.settings.maxmemory_policy.is_by_frequency();
        self.keyspace.usage.is_cache = self.shared.settings.maxmemory.0 > 0 && self.keyspace.has_tables();
        self.shared.statistics.sample(now);
        if self.shared.debug.active_expiry && !paused && self.expires_by_itself() {
            let begin = (self.shared.clock.stopwatch)();
            for db in 0..self.keyspace.len() {
                self.keys(db, now).expire_due(EXPIRE_AT_MOST);
            }
            let ms = (self.shared.clock.stopwatch)().saturating_sub(begin) / 1000;
            self.shared.took("expire-cycle", now, ms);
        }
        self.keyspace.graveyard.free(FREE_AT_MOST);
        self.flush_expired();
        self.ring_alarms(now);
        self.time_out_blocked(now);
        self.close_idle(now);
        self.after_command();
        self.run_runnable();
    }

    /// Has clients closed that have been silent for longer than `timeout`: not those that wait or listen, as in Redis.
    fn close_idle(&mut self, now: Millis) {
        let limit_ms = self.shared.settings.timeout.0.saturating_mul(1000);
        if limit_ms == 0 {
            return;
        }
        let listed = &mut self.shared.sessions.schedule.with_output;
        for session in self.shared.sessions.by_id.values_mut().filter_map(Option::as_deref_mut) {
            let is_replica = session.replica.as_ref().is_some_and(|replica| replica.is_attached);
            let is_waiting = session.blocked.is_some() || session.postponed || session.is_subscriber() || is_replica;
            if !is_waiting && !session.listening.monitors && now - session.last_interaction > limit_ms {
                session.close = Close::Now;
                if !std::mem::replace(&mut session.output.is_listed, true) {
                    listed.push(session.id);
                }
            }
        }
    }

    /// Looks at a key that the tables say is due: if it has expired, it is removed.
    ///
    /// # Errors
    ///
    /// It could not be read.
    pub fn expire_if_due(&mut self, db: usize, key: &[u8], now: Millis) -> Result<(), Failure> {
        if !self.expires_by_itself() {
            return Ok(());
        }
        self.now = now;
        self.watch_changes();
        let is_read = self.keys(db, now).contains(key).map(drop);
        self.keyspace.forgive();
        self.flush_expired();
        self.after_command();
        is_read
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn next_deadline(&self) -> Option<Millis> {
        let is_paused = self.shared.sessions.postponing.is_on() || !self.expires_by_itself();
        let mut expiring = None;
        for db in 0..if is_paused { 0 } else { self.keyspace.len() } {
            let first = self.keyspace.database(db).and_then(|database| database.expiring.first());
            if let Some((at, _)) = first {
                expiring = Some(expiring.map_or(*at, |earliest: Millis| earliest.min(*at)));
            }
        }
        let freeing = (!self.keyspace.graveyard.is_empty()).then_some(self.now);
        let pause = self.shared.sessions.postponing.pause.map(pause::Pause::over_at);
        [expiring, pause, self.blocked_deadline(), freeing].into_iter().flatten().min()
    }
}
