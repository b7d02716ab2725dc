//! A shard: sessions, keys, and what runs commands.
//!
//! Whoever owns it ([the contract]):
//! 1. [`connect`](Server::connect)s sessions and puts what they send into [`input`](Server::input),
//! 2. calls [`run`](Server::run) for those that sent something and, each now and then, [`tick`](Server::tick),
//! 3. takes [`effects`](Server::effects) and writes them to the log,
//! 4. sends what [`sessions_with_output`](Server::sessions_with_output) have in `output`: not before 3.
//!
//! [the contract]: Server

mod access;
mod blocking;
#[cfg(test)]
mod blocking_tests;
#[cfg(test)]
mod client_tests;
mod clock;
mod context;
mod cross_protocol;
mod dispatch;
mod eviction;
mod execution;
mod following;
mod handler;
mod histogram;
mod latency;
mod limits;
mod loading;
mod migration;
pub(crate) mod monitor;
mod pause;
#[cfg(test)]
mod pause_tests;
mod portions;
mod publish;
#[cfg(test)]
mod rename_tests;
mod replication;
pub(crate) mod scripts;
mod sent;
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

pub use context::Context;
pub(crate) use execution::OUT_OF_MEMORY;
pub use handler::{Command, Found, Handler, Table, Wide};
pub use histogram::Histogram;
pub use latency::{Event as LatencyEvent, LatencyMonitor};
pub use loading::Load;
pub use migration::{Credentials, Migrated, Migration, Parcel};
pub use portions::PORTION_MIN;
pub use publish::Own;
pub use slowlog::{SlowCommand, SlowLog};
pub use statistics::{CommandStatistics, Rates, Statistics};
pub use steps::{ScanSome, Scanning, Steps, changing_steps, giving_steps, reading_steps};
pub use tasks::{Pace, Progress, Window, Work};
pub use tracking::TrackingCounts;
pub use visit::{Refusal, Visitor};
pub use warming::{Wanted, Warmup};

use std::collections::{BTreeSet, HashMap, VecDeque};

use keyspace::{
    Bytes, Failure, Keys, Keyspace, Millis, Records,
    changes::{Changes, Effects, Group},
    random::Random,
};
use rustc_hash::FxHashMap;

use crate::{
    Session, SessionId,
    acl::Acl,
    config::{LogLevel, Settings},
    host::{Host, NoHost, PersistenceFigures, Stopwatch},
    pubsub::Registry,
    replication::Replication,
    scripting::{Functions, LogLine, Scripts},
    secrets::Secrets,
    session::Close,
};
use resp::Protocol;

use scripts::{Running, WhileBusy};

/// What a command asks of whoever runs the shard, to be done at the end of the turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct Requests {
    /// A checkpoint, done before anybody is answered.
    pub save: bool,
    /// A checkpoint, when there is time.
    pub checkpoint: bool,
    /// Everything is to be closed and opened again from the disk, before anybody is answered (`DEBUG RELOAD`).
    pub reload: bool,
    /// The process has opened other addresses to listen on.
    pub listen: bool,
    /// Settings have changed that the process may follow.
    pub settings: bool,
    /// A shutdown that waits is not to be.
    pub shutdown_aborted: bool,
    /// The server ends without a checkpoint: the next start has more of the log to run again.
    pub shutdown_without_checkpoint: bool,
}

/// What sessions share, but the keys.
pub struct Shared {
    /// The commands.
    pub table: Table,
    /// The settings.
    pub settings: Settings,
    /// All sessions; the one whose command runs is not in its place.
    pub sessions: FxHashMap<SessionId, Option<Box<Session>>>,
    /// Users.
    pub acl: Acl,
    /// Random numbers.
    pub random: Random,
    /// Random bytes for passwords: whoever runs the server gives a seed that is a secret.
    pub secrets: Secrets,
    /// Who listens to what.
    pub pubsub: Registry,
    /// Scripts; nothing until the first one.
    pub scripts: Option<Box<Scripts>>,
    /// Libraries of functions.
    pub functions: Functions,
    /// The script or function that runs.
    pub running: Option<Box<Running>>,
    /// It runs for so long that other clients are answered meanwhile, with an error mostly.
    pub is_busy: bool,
    /// How they come to be.
    pub while_busy: Option<WhileBusy>,
    /// What scripts have written with `redis.log`, until somebody takes it.
    pub script_log: Vec<LogLine>,
    /// When the log was last told of a request of HTTP.
    pub(crate) http_told_at: Option<Millis>,
    /// What is counted.
    pub statistics: Statistics,
    /// Commands that took long.
    pub slowlog: SlowLog,
    /// Events that took long.
    pub latency: LatencyMonitor,
    /// From how many microseconds on a command is looked at by one of these two.
    pub(crate) slow_us: u64,
    /// The process around.
    pub host: Box<dyn Host>,
    /// How log and tables are, as whoever runs this shard says.
    pub persistence: PersistenceFigures,
    /// How many changes there had been at the last checkpoint.
    pub changes_at_checkpoint: u64,
    /// The name of the log's history; empty if there is none.
    pub replication_id: String,
    /// What is known of replicas, or of the master.
    pub replication: Replication,
    /// The error that a script ended with is the one of a command, which was counted.
    pub(crate) error_is_counted: bool,
    /// A script came to its end and answered with an error.
    pub(crate) script_failed: bool,
    /// Scripts may run commands that are not for scripts: tests ask for it (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    pub(crate) scripts_may_all: bool,
    /// Keys that are to be sent to other servers.
    pub migrations: Vec<Migration>,
    /// How many connections to other servers wait to be used again.
    pub migration_sockets: u64,
    migrating: Vec<migration::Pending>,
    migration_number: u64,
    /// What is done each now and then is put off: tests ask for it (`DEBUG PAUSE-CRON`).
    pub periodic_paused: bool,
    /// A signal has asked for the end, which waits for what is done each now and then.
    pub shutdown_waits: bool,
    /// What whoever runs this shard is asked to do.
    pub requests: Requests,
    /// Who watches a key.
    pub(crate) watched: HashMap<(usize, Bytes), Vec<SessionId>>,
    /// Who waits for a key, the first one first.
    pub(crate) waiting: HashMap<(usize, Bytes), blocking::Queue>,
    /// When those who wait give up, the next one first.
    pub(crate) deadlines: BTreeSet<(Millis, SessionId)>,
    pub(crate) blocked_order: u64,
    /// The session whose command runs watches a key that the command changed.
    pub(crate) watch_failed_self: Option<SessionId>,
    pub(crate) with_output: Vec<SessionId>,
    /// Sessions that may go on with what they had sent before they were blocked.
    pub(crate) runnable: VecDeque<SessionId>,
    /// Sessions with replies that are given in portions.
    pub(crate) portioned: VecDeque<SessionId>,
    /// A command that gives more elements gives them in portions: [`PORTION_MIN`], and less in tests.
    pub portion_min: usize,
    /// How commands that are about more elements go on in steps.
    pub pace: Pace,
    /// Those that are under way.
    pub(crate) tasks: tasks::Tasks,
    /// Sessions that are shown all commands.
    monitors: Vec<SessionId>,
    /// Who has to be told of stale keys; nothing while nobody has.
    tracking: Option<Box<tracking::Tracking>>,
    /// There is more to be done around a command than to run it.
    onlookers: bool,
    pause: Option<pause::Pause>,
    /// Sessions that have done much in this turn, and go on in the next one.
    to_go_on: Vec<SessionId>,
    /// Sessions with much to read.
    pub(crate) unread: unread::Unread,
    /// Memory is short: clients may leave less unread.
    pub memory_short: bool,
    /// Commands that write wait until there is room for more.
    has_no_room: bool,
    /// Sessions whose commands wait until the pause is over.
    postponed: Vec<SessionId>,
    limits: limits::Limits,
    /// The session whose commands run.
    pub(crate) current: SessionId,
    pub(crate) current_protocol: Protocol,
    /// What that session was sent while it was not in its place; it follows the reply.
    pub(crate) aside: Vec<u8>,
    /// What the client of a script was told while that ran; it goes ahead of the reply.
    pub(crate) pushed: Vec<u8>,
    /// The time of what runs now.
    now: Millis,
    pub(crate) stopwatch: Stopwatch,
    /// Writes are refused with this error: the log cannot be written.
    pub refuse_writes: Option<String>,
    /// The server is to stop: whether with a last checkpoint.
    pub shutdown: bool,
    /// The client's command has a name that no command has any more.
    pub(crate) is_unknown: bool,
    /// A command changed something and then could not read what it needed: nothing of it may become durable, so whoever runs
    /// this shard has to stop at once, for this reason.
    pub broken: Option<String>,
    /// Memory is full: commands that need more are refused.
    pub memory_full: bool,
    /// For how long whoever runs this shard is to do nothing (`DEBUG SLEEP`).
    pub sleep_us: u64,
    /// Whether keys are removed when their time comes, and not only when somebody asks for them.
    pub active_expiry: bool,
    /// When this shard started.
    pub started: Millis,
    /// By how much the clock has been set since.
    clock_set_by: Millis,
    next_session: u64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Takes over what is kept apart from the settings, for speed.
    pub fn settings_changed(&mut self) {
        let slow = u64::try_from(self.settings.slowlog_log_slower_than.0).unwrap_or(u64::MAX);
        let late = match self.settings.latency_monitor_threshold.0 {
            0 => u64::MAX,
            ms => ms.unsigned_abs().saturating_mul(1000),
        };
        self.slow_us = slow.min(late);
    }

    /// Keeps an event that took long, if it did.
    pub fn took(&mut self, event: &'static str, now: Millis, ms: u64) {
        let threshold = self.settings.latency_monitor_threshold.0.unsigned_abs();
        if threshold > 0 && ms >= threshold {
            self.latency.add(event, now, ms);
        }
    }

    /// A session that is not the one whose command runs.
    pub fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&id)?.as_deref_mut()
    }

    /// Takes over lines for the log: mostly what scripts of a machine have written with `redis.log`.
    pub(crate) fn take_script_log(&mut self, lines: Vec<LogLine>) {
        const LINES_MAX: usize = 10_000;
        let room = LINES_MAX.saturating_sub(self.script_log.len());
        self.script_log.extend(lines.into_iter().take(room));
    }

    /// Says something in the log.
    pub(crate) fn say(&mut self, level: LogLevel, text: String) {
        self.take_script_log(vec![LogLine { level, text }]);
    }

    /// Puts bytes into the output of a session that is not the one whose command runs.
    pub fn send(&mut self, id: SessionId, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(&id).and_then(Option::as_deref_mut) else { return };
        session.output_for_others().extend_from_slice(bytes);
        let len = session.output.bytes.len();
        if !std::mem::replace(&mut session.output.is_listed, true) {
            self.with_output.push(id);
        }
        if len > self.limits.output_watched || self.limits.clients_bound > 0 {
            self.check_output(id);
        }
    }
}

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

/// A shard.
#[derive(Debug)]
pub struct Server {
    /// The keys.
    pub keyspace: Keyspace,
    pub(crate) changes: Changes,
    effects: Effects,
    /// All else.
    pub shared: Shared,
    /// Keys to be read from the tables.
    loads: Vec<Load>,
    /// Elements to be read from them.
    warmups: Vec<Warmup>,
    /// The time of what runs now.
    now: Millis,
}

impl Server {
    /// A shard that has the commands of a table.
    pub fn with_table(table: Table, setup: Setup) -> Self {
        let Setup { settings, key_seed, seed, now, records, stopwatch } = setup;
        let mut keyspace = Keyspace::new(settings.databases.0 as usize, key_seed, records);
        keyspace.set_limits(settings.space_limits());
        let mut server = Self {
            keyspace,
            changes: Changes::default(),
            effects: Effects::default(),
            shared: Shared {
                statistics: Statistics::new(table.len()),
                acl: Acl::new(&settings, &table),
                table,
                pubsub: Registry::default(),
                scripts: None,
                slowlog: SlowLog::default(),
                latency: LatencyMonitor::default(),
                slow_us: 0,
                host: Box::new(NoHost),
                persistence: PersistenceFigures::default(),
                changes_at_checkpoint: 0,
                replication_id: String::new(),
                replication: Replication::default(),
                error_is_counted: false,
                script_failed: false,
                scripts_may_all: false,
                migrations: Vec::new(),
                migration_sockets: 0,
                migrating: Vec::new(),
                migration_number: 0,
                periodic_paused: false,
                shutdown_waits: false,
                requests: Requests::default(),
                functions: Functions::default(),
                running: None,
                is_busy: false,
                while_busy: None,
                script_log: Vec::new(),
                http_told_at: None,
                settings,
                sessions: FxHashMap::default(),
                random: Random::new(seed),
                secrets: Secrets::new([0; 32]),
                watched: HashMap::new(),
                waiting: HashMap::new(),
                deadlines: BTreeSet::new(),
                blocked_order: 0,
                watch_failed_self: None,
                with_output: Vec::new(),
                runnable: VecDeque::new(),
                portioned: VecDeque::new(),
                portion_min: PORTION_MIN,
                pace: Pace::default(),
                tasks: tasks::Tasks::default(),
                monitors: Vec::new(),
                tracking: None,
                onlookers: false,
                pause: None,
                to_go_on: Vec::new(),
                unread: unread::Unread::default(),
                memory_short: false,
                has_no_room: false,
                postponed: Vec::new(),
                limits: limits::Limits::default(),
                current: SessionId(0),
                current_protocol: Protocol::default(),
                aside: Vec::new(),
                pushed: Vec::new(),
                now,
                stopwatch,
                refuse_writes: None,
                shutdown: false,
                is_unknown: false,
                broken: None,
                memory_full: false,
                sleep_us: 0,
                active_expiry: true,
                started: now,
                clock_set_by: 0,
                next_session: 1,
            },
            loads: Vec::new(),
            warmups: Vec::new(),
            now,
        };
        server.shared.refresh_limits();
        server.shared.settings_changed();
        server
    }

    /// A client has come.
    pub fn connect(&mut self, address: String, local_address: String, now: Millis) -> SessionId {
        let id = SessionId(self.shared.next_session);
        self.shared.next_session += 1;
        self.shared.statistics.connections += 1;
        let mut session = Session::new(id, now);
        session.connection.address = address;
        session.connection.local_address = local_address;
        self.shared.become_default(&mut session);
        self.shared.sessions.insert(id, Some(Box::new(session)));
        id
    }

    /// The number of a client's socket, as `CLIENT LIST` shows it.
    pub fn set_descriptor(&mut self, id: SessionId, descriptor: i32) {
        if let Some(session) = self.shared.session_mut(id) {
            session.connection.descriptor = descriptor;
        }
    }

    /// A client has gone.
    pub fn disconnect(&mut self, id: SessionId) {
        let Some(Some(mut session)) = self.shared.sessions.remove(&id) else { return };
        self.shared.release(&mut session);
    }

    /// Where to put what a client sent.
    pub fn input(&mut self, id: SessionId) -> Option<&mut Vec<u8>> {
        self.shared.session_mut(id).map(|session| &mut session.query.bytes)
    }

    /// How much of a client's query has come, and how much is known to be missing.
    pub fn query_lens(&mut self, id: SessionId) -> Option<(usize, usize)> {
        self.shared.session_mut(id).map(|session| (session.query_len(), session.query.missing))
    }

    /// What is to be sent to a client, and whether its connection is to be closed then.
    pub fn output(&mut self, id: SessionId) -> Option<(&mut Vec<u8>, Close)> {
        self.shared.session_mut(id).map(|session| (&mut session.output.bytes, session.close))
    }

    /// Whether a client has sent more than was run in this turn.
    pub fn has_more_to_run(&self, id: SessionId) -> bool {
        self.shared.to_go_on.contains(&id)
    }

    /// Whether a client has replies to come for what it has sent, without anybody else doing something.
    pub fn owes_replies(&self, id: SessionId) -> bool {
        let session = self.shared.sessions.get(&id).and_then(Option::as_deref);
        let has_some = |session: &Session| {
            !session.output.bytes.is_empty() || session.loading > 0 || session.output.awaits_reading
        };
        session.is_some_and(has_some) || self.has_more_to_run(id)
    }

    /// The sessions that have output, or are to be closed, since this was asked last.
    pub fn sessions_with_output(&mut self, ids: &mut Vec<SessionId>) {
        if self.shared.onlookers {
            self.shared.broadcast_invalidations();
        }
        self.shared.evict_clients();
        ids.append(&mut self.shared.with_output);
        for id in ids {
            if let Some(session) = self.shared.session_mut(*id) {
                session.output.is_listed = false;
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
        self.keyspace.usage.set_time(now.saturating_sub(self.shared.clock_set_by));
        self.shared.now = now;
        let paused = self.is_paused();
        self.watch_changes();
        self.sweep_clients(now);
        self.shared.limit_tracking();
        self.keyspace.set_limits(self.shared.settings.space_limits());
        self.keyspace.usage.by_frequency = self.shared.settings.maxmemory_policy.is_by_frequency();
        self.keyspace.usage.is_cache = self.shared.settings.maxmemory.0 > 0 && self.keyspace.has_tables();
        self.shared.statistics.sample(now);
        if self.shared.active_expiry && !paused && !self.keyspace.is_following {
            let begin = (self.shared.stopwatch)();
            for db in 0..self.keyspace.len() {
                self.keys(db, now).expire_due(EXPIRE_AT_MOST);
            }
            let ms = (self.shared.stopwatch)().saturating_sub(begin) / 1000;
            self.shared.took("expire-cycle", now, ms);
        }
        self.keyspace.graveyard.free(FREE_AT_MOST);
        self.flush_expired();
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
        let listed = &mut self.shared.with_output;
        for session in self.shared.sessions.values_mut().filter_map(Option::as_deref_mut) {
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
        let is_paused = self.shared.pause.is_some() || self.shared.has_no_room || self.keyspace.is_following;
        let mut expiring = None;
        for db in 0..if is_paused { 0 } else { self.keyspace.len() } {
            let first = self.keyspace.database(db).and_then(|database| database.expiring.first());
            if let Some((at, _)) = first {
                expiring = Some(expiring.map_or(*at, |earliest: Millis| earliest.min(*at)));
            }
        }
        let freeing = (!self.keyspace.graveyard.is_empty()).then_some(self.now);
        let pause = self.shared.pause.map(pause::Pause::over_at);
        [expiring, pause, self.blocked_deadline(), freeing].into_iter().flatten().min()
    }
}
