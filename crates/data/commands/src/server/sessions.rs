//! Sessions: who has one, what each may do, whom it waits for or listens to, and what all of them may hold.
//!
//! Nothing here knows keys: what a command changed is told by [`Server`](super::Server), with the keys' names.

use std::collections::{BTreeSet, HashMap, VecDeque};

use keyspace::{Bytes, Millis};
use resp::Protocol;
use rustc_hash::FxHashMap;

use crate::{Session, SessionId, acl::Acl, pubsub::Registry, secrets::Secrets};

use super::{agent::AwaitedAgent, alarms::Alarms, blocking, limits::Limits, pause, tracking::Tracking, unread::Unread};

/// Commands of clients that go to the master (`replica-forward`), or to other nodes (`cluster-proxy`).
#[derive(Debug, Default)]
pub(crate) struct Forwards {
    /// Whose they are that have no answer yet.
    pub(super) waiting: Vec<(u64, SessionId)>,
    /// Others wait until the link to the master is there.
    pub(super) is_awaited: bool,
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
    /// When those who wait for a key are asked again, whatever becomes of it.
    pub(crate) alarms: Alarms,
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

/// All sessions, and what is about them.
pub(crate) struct Sessions {
    /// All sessions; the one whose command runs is not in its place.
    pub(crate) by_id: FxHashMap<SessionId, Option<Box<Session>>>,
    pub(super) next_id: u64,
    /// Users.
    pub(crate) acl: Acl,
    /// Random bytes for passwords: whoever runs the server gives a seed that is a secret.
    pub(crate) secrets: Secrets,
    /// Who listens to what.
    pub(crate) pubsub: Registry,
    /// Commands that the master or other nodes run.
    pub(crate) forwards: Forwards,
    /// Commands that wait for the cluster's agent.
    pub(super) agent: AwaitedAgent,
    pub(crate) watches: Watches,
    pub(crate) blocked: BlockedSessions,
    pub(crate) schedule: Schedule,
    pub(crate) observers: Observers,
    pub(crate) postponing: Postponing,
    /// Connections that import: keys do not go by themselves meanwhile.
    pub(crate) importing: usize,
    /// Sessions with much to read.
    pub(crate) unread: Unread,
    pub(super) limits: Limits,
    pub(crate) current: CurrentCommand,
}

impl Sessions {
    /// None yet.
    pub(super) fn new(acl: Acl) -> Self {
        Self {
            by_id: FxHashMap::default(),
            next_id: 1,
            acl,
            secrets: Secrets::new([0; 32]),
            pubsub: Registry::default(),
            forwards: Forwards::default(),
            agent: AwaitedAgent::default(),
            watches: Watches::default(),
            blocked: BlockedSessions::default(),
            schedule: Schedule::default(),
            observers: Observers::default(),
            postponing: Postponing::default(),
            importing: 0,
            unread: Unread::default(),
            limits: Limits::default(),
            current: CurrentCommand::default(),
        }
    }

    /// A session that is not the one whose command runs.
    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id)?.as_deref_mut()
    }
}
