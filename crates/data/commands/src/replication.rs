//! What commands know of replication: the role, the master and the replicas, as whoever has the sockets tells it, and what they ask of
//! it. Nothing here speaks to another server.

use std::collections::BTreeMap;

use keyspace::Millis;

pub use crate::session::Bond;
use crate::session::{ReplicaTraits, Session, SessionId};

/// Where a server's writes come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Role {
    /// From clients.
    #[default]
    Master,
    /// From a master.
    Replica(Box<MasterLink>),
}

/// The link to a master.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MasterLink {
    /// The master's host, as it was named.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Where the link is, in Redis' word: `connect`, `connecting`, `handshake`, `sync`, `connected`.
    pub state: &'static str,
    /// When the master was heard of last; nothing if it never was.
    pub heard: Option<Millis>,
    /// The snapshot that is on its way.
    pub copy: Option<CopyProgress>,
    /// Since when the link is down; nothing while it is up, or if it never was up.
    pub down_since: Option<Millis>,
    /// What an agent has said of the master, in a cluster.
    pub bond: Option<Bond>,
}

impl MasterLink {
    /// One to be connected.
    #[must_use]
    pub fn new(host: String, port: u16) -> Self {
        Self { host, port, state: "connect", ..Self::default() }
    }

    /// Whether the log comes.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.state == "connected"
    }
}

/// How much of a snapshot has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyProgress {
    /// All bytes; nothing if nobody has said so.
    pub total: Option<u64>,
    /// Those that have come.
    pub read: u64,
}

/// How far a replica of this server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplicaState {
    /// Its snapshot is being begun.
    #[default]
    WaitForCopy,
    /// It is being sent all keys.
    Copying,
    /// It is being sent the log.
    Online,
}

impl ReplicaState {
    /// Redis' word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::WaitForCopy => "wait_bgsave",
            Self::Copying => "send_bulk",
            Self::Online => "online",
        }
    }
}

/// A replica of this server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replica {
    /// Its address.
    pub address: String,
    /// The port that it serves at; 0 if it has not said so.
    pub port: u16,
    /// How far it is.
    pub state: ReplicaState,
    /// What it has applied of the log.
    pub applied: u64,
    /// What of that a crash could not take from it. Of one that does not say so it is what it has applied.
    pub durable: u64,
    /// It says so whenever it has more, without being asked.
    pub is_eager: bool,
    /// When it said that last.
    pub heard: Millis,
}

impl Replica {
    /// Seconds since it was heard of.
    #[must_use]
    pub fn lag(&self, now: Millis) -> i64 {
        now.saturating_sub(self.heard).max(0) / 1000
    }
}

/// What commands ask of whoever has the sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The server is to follow the master that the role names.
    Follow,
    /// It is to be a master.
    Promote,
    /// The connection of this session is to be given the log.
    Attach(Attach),
    /// The master hands over: this server is to be one, and to give its former master the log.
    TakeOver(Attach),
    /// `FAILOVER ABORT`.
    AbortFailover,
    /// The link to the master is to be cut, and begun anew.
    Reconnect,
}

/// `FAILOVER`: this master is handing over to one of its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failover {
    /// Who is to be the master; nothing as long as any replica may.
    pub target: Option<(String, u16)>,
    /// Until when a replica is waited for that has all of the log.
    pub deadline: Option<Millis>,
    /// The target is asked then all the same.
    pub is_forced: bool,
    /// The target has been asked: this server follows it if it agrees.
    pub is_asked: bool,
}

/// A replica that asks for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// Its session.
    pub session: SessionId,
    /// The words of `PSYNC`: the history that it has and the next byte that it wants. Nothing for `SYNC`.
    pub from: Option<(Vec<u8>, Vec<u8>)>,
    /// What it has said of itself.
    pub traits: ReplicaTraits,
}

/// All that commands know of replication.
#[derive(Debug, Default)]
pub struct Replication {
    /// Where writes come from.
    pub role: Role,
    /// The master among the clients, while the link is there.
    pub master_client: Option<Box<Session>>,
    /// All histories that the log tells, as `INFO` has them.
    pub histories: String,
    /// Those for whom the log is kept by a name, and up to where they have had it.
    pub log_followers: Vec<(String, u64)>,
    /// Files of what this store had and its new master has not.
    pub set_aside: Vec<String>,
    /// Those that are given the log.
    pub replicas: Vec<(SessionId, Replica)>,
    /// The name of the history before the one that the log tells, and up to which offset it is the same, as Redis counts: one more than
    /// the bytes.
    pub former: Option<(String, u64)>,
    /// The master is handing over. Commands that write wait meanwhile.
    pub failover: Option<Failover>,
    /// Sessions that wait for replicas.
    pub waiting: Vec<SessionId>,
    /// Snapshots that replicas were given; how often one could go on, and how often it could not.
    pub syncs: (u64, u64, u64),
    /// Replicas are to say how far they are.
    pub asks_for_acks: bool,
    /// Something took effect in this turn. A question behind it in the log is answered with an offset that has it.
    pub has_news: bool,
    /// Where the log ended behind what took effect last: pings and questions that follow are of no interest to those who wait.
    pub news_end: u64,
    /// When replicas were pinged last.
    pub pinged: Millis,
    /// How many clients want so many replicas to have what they are told of, beside what the setting says.
    promises: BTreeMap<usize, usize>,
}

impl Replication {
    /// The link to the master of a replica.
    #[must_use]
    pub fn master(&self) -> Option<&MasterLink> {
        match &self.role {
            Role::Master => None,
            Role::Replica(link) => Some(link),
        }
    }

    /// The same, to be changed.
    pub fn master_mut(&mut self) -> Option<&mut MasterLink> {
        match &mut self.role {
            Role::Master => None,
            Role::Replica(link) => Some(link),
        }
    }

    /// How far a failover is, in Redis' words.
    #[must_use]
    pub fn failover_word(&self) -> &'static str {
        match &self.failover {
            None => "no-failover",
            Some(failover) if failover.is_asked => "failover-in-progress",
            Some(_) => "waiting-for-sync",
        }
    }

    /// A client that wanted so many replicas to have what it is told of wants another number of them.
    pub(crate) fn note_promise(&mut self, before: usize, after: usize) {
        if before == after {
            return;
        }
        if let Some(count) = self.promises.get_mut(&before) {
            *count -= 1;
            self.promises.retain(|_, count| *count > 0);
        }
        if after > 0 {
            *self.promises.entry(after).or_default() += 1;
        }
    }

    /// The numbers of replicas that clients want to have what they are told of, each once, the least first.
    pub fn promised(&self) -> impl Iterator<Item = usize> {
        self.promises.keys().copied()
    }

    /// Whether what happens is to be told to replicas: their master is this server.
    #[must_use]
    pub fn has_replicas(&self) -> bool {
        !self.replicas.is_empty() && self.role == Role::Master
    }

    /// Whether there is a replica that says how far it is when it is asked, and each second.
    #[must_use]
    pub fn waits_to_be_asked(&self) -> bool {
        self.replicas.iter().any(|(_, replica)| !replica.is_eager)
    }

    /// How many replicas have been heard of lately.
    #[must_use]
    pub fn good_replicas(&self, lag_max: i64, now: Millis) -> usize {
        let is_good = |replica: &Replica| replica.state == ReplicaState::Online && replica.lag(now) <= lag_max;
        self.replicas.iter().filter(|(_, replica)| is_good(replica)).count()
    }

    /// How many replicas have the log up to an offset, durably if that is asked for.
    #[must_use]
    pub fn count_at(&self, offset: u64, durably: bool) -> u64 {
        let has = |replica: &Replica| {
            replica.state == ReplicaState::Online && offset <= if durably { replica.durable } else { replica.applied }
        };
        self.replicas.iter().filter(|(_, replica)| has(replica)).count() as u64
    }
}
