//! What sessions share but the keys, by what changes together.

use std::collections::{BTreeSet, HashMap, VecDeque};

use keyspace::{Bytes, Millis, random::Random};
use resp::Protocol;
use rustc_hash::FxHashMap;

use crate::{
    Session, SessionId,
    acl::Acl,
    cluster::Membership,
    config::{LogLevel, Settings},
    host::{Host, NoHost, PersistenceFigures, Stopwatch},
    pubsub::Registry,
    replication::Replication,
    scripting::{Functions, LogLine, Scripts},
    secrets::Secrets,
};

use super::{
    LatencyMonitor, Outbox, SlowLog, Statistics, StepLimits, Table,
    agent::AwaitedAgent,
    blocking,
    limits::Limits,
    migration, pause,
    scripts::{Running, WhileBusy},
    tasks::Tasks,
    tracking::Tracking,
    unread::Unread,
};

/// Scripts and functions, and the one that runs.
#[derive(Default)]
pub struct Scripting {
    /// Scripts; nothing until the first one.
    pub scripts: Option<Box<Scripts>>,
    /// Libraries of functions.
    pub functions: Functions,
    /// The script or function that runs.
    pub running: Option<Box<Running>>,
    /// It runs for so long that other clients are answered meanwhile, with an error mostly.
    pub is_busy: bool,
    /// Has other clients send and be answered meanwhile.
    pub while_busy: Option<WhileBusy>,
    /// What its client was told while it ran; it goes ahead of the reply.
    pub(crate) pushed: Vec<u8>,
    /// The error that a script ended with is the one of a command, which was counted.
    pub(crate) error_is_counted: bool,
    /// A script came to its end and answered with an error.
    pub(crate) has_failed: bool,
}

/// What is to be said in the log.
#[derive(Debug, Default)]
pub struct ServerLog {
    /// The lines, mostly what scripts have written with `redis.log`, until somebody takes them.
    pub lines: Vec<LogLine>,
    /// When it was last told of a request of HTTP.
    pub(crate) http_told_at: Option<Millis>,
}

/// What took long.
#[derive(Debug, Default)]
pub struct SlowEvents {
    /// Commands (`SLOWLOG`).
    pub log: SlowLog,
    /// Events (`LATENCY`).
    pub latency: LatencyMonitor,
    /// From how many microseconds on a command is looked at by one of these two.
    pub(crate) from_us: u64,
}

/// Keys on their way to other servers.
#[derive(Debug, Default)]
pub struct Migrations {
    /// How many connections to other servers wait to be used again.
    pub sockets: u64,
    pub(super) pending: Vec<migration::Pending>,
    pub(super) number: u64,
}

/// Commands of clients that go to the master (`replica-forward`), or to other nodes (`cluster-proxy`).
#[derive(Debug, Default)]
pub(crate) struct Forwards {
    /// Whose they are that have no answer yet.
    pub(super) waiting: Vec<(u64, SessionId)>,
    /// Others wait until the link to the master is there.
    pub(super) is_awaited: bool,
}

/// Whether the server is to stop.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shutdown {
    /// It is.
    pub is_asked: bool,
    /// A signal has asked for it, and it waits for what is done each now and then.
    pub waits: bool,
    /// It ends without a checkpoint: the next start has more of the log to run again.
    pub without_checkpoint: bool,
}

/// Keys that transactions depend on (`WATCH`).
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// Who watches a key.
    pub(crate) by_key: HashMap<(usize, Bytes), Vec<SessionId>>,
    /// The session whose command runs watches a key that the command changed.
    pub(crate) own_failed: Option<SessionId>,
}

/// Sessions that wait for keys.
#[derive(Debug, Default)]
pub(crate) struct BlockedSessions {
    /// Who waits for a key, the first one first.
    pub(crate) queues: HashMap<(usize, Bytes), blocking::Queue>,
    /// When those who wait give up, the next one first.
    pub(crate) deadlines: BTreeSet<(Millis, SessionId)>,
    /// How many have waited so far: each one's number says in which order they came.
    pub(crate) order: u64,
}

/// Sessions that something is to be done for.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Those with output, or that are to be closed.
    pub(crate) with_output: Vec<SessionId>,
    /// Those that may go on with what they had sent before they were blocked.
    pub(crate) runnable: VecDeque<SessionId>,
    /// Those with replies that are given in portions.
    pub(crate) portioned: VecDeque<SessionId>,
    /// Those that have done much in this turn, and go on in the next one.
    pub(crate) to_go_on: Vec<SessionId>,
}

/// Sessions that are told of what others do.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    /// Those that are shown all commands (`MONITOR`).
    pub(super) monitors: Vec<SessionId>,
    /// Who has to be told of stale keys; nothing while nobody has.
    pub(super) tracking: Option<Box<Tracking>>,
    /// There is more to be done around a command than to run it, for these or for another reason.
    pub(super) any: bool,
}

/// Commands that wait until the server takes them again.
#[derive(Debug, Default)]
pub(crate) struct Postponing {
    /// `CLIENT PAUSE`.
    pub(super) pause: Option<pause::Pause>,
    /// Commands that write wait until there is room for more.
    pub(super) has_no_room: bool,
    /// Commands that write wait until the master has handed over, or has not.
    pub(super) is_handing_over: bool,
    /// Sessions whose commands wait.
    pub(super) sessions: Vec<SessionId>,
}

impl Postponing {
    /// Whether some commands wait.
    pub(super) fn is_on(&self) -> bool {
        self.pause.is_some() || self.has_no_room || self.is_handing_over
    }
}

/// The command that runs.
#[derive(Debug, Default)]
pub(crate) struct CurrentCommand {
    /// Whose it is.
    pub(crate) session: SessionId,
    /// The protocol of that session.
    pub(crate) protocol: Protocol,
    /// What that session was sent while it was not in its place; it follows the reply.
    pub(crate) aside: Vec<u8>,
    /// It has a name that no command has any more.
    pub(crate) is_unknown: bool,
    /// So many replicas are to have what that session is told of (`CLIENT REPLICA-ACK`).
    pub(crate) replicas: usize,
}

/// How disk and memory are, as whoever runs the shard says.
#[derive(Debug, Default)]
pub struct Condition {
    /// Writes are refused with this error: the log cannot be written.
    pub refuse_writes: Option<String>,
    /// Memory is full: commands that need more are refused.
    pub memory_full: bool,
    /// Memory is short: clients may leave less unread.
    pub memory_short: bool,
    /// A command changed something and then could not read what it needed: nothing of it may become durable, so whoever runs
    /// this shard has to stop at once, for this reason.
    pub broken: Option<String>,
}

/// What tests change by `DEBUG`.
#[derive(Debug)]
pub struct DebugSwitches {
    /// What is done each now and then is put off (`DEBUG PAUSE-CRON`).
    pub periodic_paused: bool,
    /// For how long whoever runs this shard is to do nothing (`DEBUG SLEEP`).
    pub sleep_us: u64,
    /// Whether keys are removed when their time comes, and not only when somebody asks for them (`DEBUG SET-ACTIVE-EXPIRE`).
    pub active_expiry: bool,
    /// Scripts may run commands that are not for scripts (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    pub(crate) scripts_may_all: bool,
}

impl Default for DebugSwitches {
    fn default() -> Self {
        Self { periodic_paused: false, sleep_us: 0, active_expiry: true, scripts_may_all: false }
    }
}

/// Time, as whoever runs the shard says it.
pub struct Clock {
    /// The time of what runs now.
    pub(super) now: Millis,
    /// What durations are measured with.
    pub(crate) stopwatch: Stopwatch,
    /// When this shard started.
    pub started: Millis,
    /// By how much the clock has been set since.
    pub(super) set_by: Millis,
}

/// What sessions share, but the keys.
pub struct Shared {
    /// The commands.
    pub table: Table,
    /// The settings.
    pub settings: Settings,
    /// All sessions; the one whose command runs is not in its place.
    pub sessions: FxHashMap<SessionId, Option<Box<Session>>>,
    pub(super) next_session: u64,
    /// Users.
    pub acl: Acl,
    /// Random numbers.
    pub random: Random,
    /// Random bytes for passwords: whoever runs the server gives a seed that is a secret.
    pub secrets: Secrets,
    /// Who listens to what.
    pub pubsub: Registry,
    /// Scripts and functions.
    pub scripting: Scripting,
    /// What is to be said in the log.
    pub log: ServerLog,
    /// What is counted.
    pub statistics: Statistics,
    /// What took long.
    pub slow: SlowEvents,
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
    /// Keys on their way to other servers.
    pub migrations: Migrations,
    /// What whoever runs this server is asked to do.
    pub outbox: Outbox,
    /// Commands that the master or other nodes run.
    pub(crate) forwards: Forwards,
    /// Commands that wait for the cluster's agent.
    pub(super) agent: AwaitedAgent,
    /// Whether the server is to stop.
    pub shutdown: Shutdown,
    pub(crate) watches: Watches,
    pub(crate) blocked: BlockedSessions,
    pub(crate) schedule: Schedule,
    /// When commands go on over several turns, and how.
    pub step_limits: StepLimits,
    /// The commands that do.
    pub(crate) tasks: Tasks,
    pub(crate) observers: Observers,
    pub(crate) postponing: Postponing,
    /// Its part in a cluster, if it is a node of one.
    pub(crate) cluster: Option<Box<Membership>>,
    /// Connections that import: keys do not go by themselves meanwhile.
    pub(crate) importing: usize,
    /// Sessions with much to read.
    pub(crate) unread: Unread,
    pub(super) limits: Limits,
    pub(crate) current: CurrentCommand,
    /// How disk and memory are.
    pub condition: Condition,
    /// What tests change.
    pub debug: DebugSwitches,
    /// Time.
    pub clock: Clock,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Of a shard with the commands of a table.
    pub(super) fn new(table: Table, settings: Settings, seed: u64, now: Millis, stopwatch: Stopwatch) -> Self {
        Self {
            statistics: Statistics::new(table.len()),
            acl: Acl::new(&settings, &table),
            cluster: settings.cluster_enabled.0.then(Box::default),
            importing: 0,
            table,
            settings,
            sessions: FxHashMap::default(),
            next_session: 1,
            random: Random::new(seed),
            secrets: Secrets::new([0; 32]),
            pubsub: Registry::default(),
            scripting: Scripting::default(),
            log: ServerLog::default(),
            slow: SlowEvents::default(),
            host: Box::new(NoHost),
            persistence: PersistenceFigures::default(),
            changes_at_checkpoint: 0,
            replication_id: String::new(),
            replication: Replication::default(),
            migrations: Migrations::default(),
            forwards: Forwards::default(),
            outbox: Outbox::default(),
            agent: AwaitedAgent::default(),
            shutdown: Shutdown::default(),
            watches: Watches::default(),
            blocked: BlockedSessions::default(),
            schedule: Schedule::default(),
            step_limits: StepLimits::default(),
            tasks: Tasks::default(),
            observers: Observers::default(),
            postponing: Postponing::default(),
            unread: Unread::default(),
            limits: Limits::default(),
            current: CurrentCommand::default(),
            condition: Condition::default(),
            debug: DebugSwitches::default(),
            clock: Clock { now, stopwatch, started: now, set_by: 0 },
        }
    }

    /// Takes over what is kept apart from the settings, for speed.
    pub fn settings_changed(&mut self) {
        let slow = u64::try_from(self.settings.slowlog_log_slower_than.0).unwrap_or(u64::MAX);
        let late = match self.settings.latency_monitor_threshold.0 {
            0 => u64::MAX,
            ms => ms.unsigned_abs().saturating_mul(1000),
        };
        self.slow.from_us = slow.min(late);
    }

    /// Keeps an event that took long, if it did.
    pub fn took(&mut self, event: &'static str, now: Millis, ms: u64) {
        let threshold = self.settings.latency_monitor_threshold.0.unsigned_abs();
        if threshold > 0 && ms >= threshold {
            self.slow.latency.add(event, now, ms);
        }
    }

    /// A session that is not the one whose command runs.
    pub fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&id)?.as_deref_mut()
    }

    /// Takes over lines for the log: mostly what scripts of a machine have written with `redis.log`.
    pub(crate) fn take_script_log(&mut self, lines: Vec<LogLine>) {
        const LINES_MAX: usize = 10_000;
        let room = LINES_MAX.saturating_sub(self.log.lines.len());
        self.log.lines.extend(lines.into_iter().take(room));
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
            self.schedule.with_output.push(id);
        }
        if len > self.limits.output_watched || self.limits.clients_bound > 0 {
            self.check_output(id);
        }
    }
}
