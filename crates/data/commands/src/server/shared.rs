//! What running a command needs besides its keys, by what changes together; and the sessions.

use keyspace::{Millis, random::Random};

use crate::{
    SessionId,
    acl::Acl,
    cluster::Membership,
    config::{LogLevel, Settings},
    host::{Host, NoHost, PersistenceFigures, Stopwatch},
    replication::Replication,
    scripting::{Functions, LogLine, Scripts},
};

use super::{
    LatencyMonitor, Outbox, SlowLog, Statistics, StepLimits, Table, migration,
    scripts::{Running, WhileBusy},
    sessions::Sessions,
    tasks::Tasks,
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

/// What running a command needs besides its keys.
pub struct Shared {
    /// All sessions, and what is about them.
    pub(crate) sessions: Sessions,
    /// The commands.
    pub table: Table,
    /// The settings.
    pub settings: Settings,
    /// Random numbers.
    pub random: Random,
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
    /// Whether the server is to stop.
    pub shutdown: Shutdown,
    /// When commands go on over several turns, and how.
    pub step_limits: StepLimits,
    /// The commands that do.
    pub(crate) tasks: Tasks,
    /// Its part in a cluster, if it is a node of one.
    pub(crate) cluster: Option<Box<Membership>>,
    /// How disk and memory are.
    pub condition: Condition,
    /// What tests change.
    pub debug: DebugSwitches,
    /// Time.
    pub clock: Clock,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("sessions", &self.sessions.by_id.len()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Of a shard with the commands of a table.
    pub(super) fn new(table: Table, settings: Settings, seed: u64, now: Millis, stopwatch: Stopwatch) -> Self {
        Self {
            sessions: Sessions::new(Acl::new(&settings, &table)),
            statistics: Statistics::new(table.len()),
            cluster: settings.cluster_enabled.0.then(Box::default),
            table,
            settings,
            random: Random::new(seed),
            scripting: Scripting::default(),
            log: ServerLog::default(),
            slow: SlowEvents::default(),
            host: Box::new(NoHost),
            persistence: PersistenceFigures::default(),
            changes_at_checkpoint: 0,
            replication_id: String::new(),
            replication: Replication::default(),
            migrations: Migrations::default(),
            outbox: Outbox::default(),
            shutdown: Shutdown::default(),
            step_limits: StepLimits::default(),
            tasks: Tasks::default(),
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
        let Some(session) = self.sessions.by_id.get_mut(&id).and_then(Option::as_deref_mut) else { return };
        session.output_for_others().extend_from_slice(bytes);
        let len = session.output.bytes.len();
        if !std::mem::replace(&mut session.output.is_listed, true) {
            self.sessions.schedule.with_output.push(id);
        }
        if len > self.sessions.limits.output_watched || self.sessions.limits.clients_bound > 0 {
            self.check_output(id);
        }
    }
}
