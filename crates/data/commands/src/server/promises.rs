//! What clients may rely on once they have a reply: how many replicas have what it tells of, and that this node still had its lease.

use std::time::Duration;

use keyspace::Failure;

use crate::{Session, SessionId, cluster::Counted};

use super::{Server, Shared};

impl Session {
    /// There is nothing to be sent: what is known of it is forgotten, unless more of what has run is to come.
    #[inline]
    pub(super) fn forget_promise(&mut self) {
        if self.blocked.is_none() && self.portions.is_none() && self.loading == 0 {
            self.output.promise.forget();
        }
    }
}

impl Shared {
    /// How many replicas are to have what a session is told of.
    pub(crate) fn replicas_of(&self, session: &Session) -> usize {
        let setting = usize::try_from(self.settings.replica_ack.0).unwrap_or(0);
        session.output.promise.replicas().max(setting)
    }

    /// Whose acknowledgements count in a cluster; nothing: those of all replicas.
    #[must_use]
    pub fn counted(&self) -> Option<&Counted> {
        self.cluster.as_ref()?.counted.as_ref()
    }

    /// At least so many replicas are to have what the session whose command runs is told of, from now on. Returns why the command is
    /// refused, if there are fewer.
    pub(crate) fn promise_at_least(&mut self, session: &mut Session, replicas: usize) -> Option<Failure> {
        if session.output.promise.replicas() < replicas {
            self.promise_replicas(session, replicas);
        }
        self.lacks_replicas()
    }

    /// So many replicas are to have what the session whose command runs is told of from now on.
    pub(crate) fn promise_replicas(&mut self, session: &mut Session, replicas: usize) {
        self.replication.note_promise(session.output.promise.replicas(), replicas);
        session.output.promise.set_replicas(replicas);
        self.sessions.current.replicas = replicas;
    }
}

impl Server {
    /// Whether the output of a session, as it was when sessions with output were listed, tells of no key: it needs not wait until
    /// something is safe.
    #[inline]
    pub fn is_output_plain(&self, id: SessionId) -> bool {
        let session = self.shared.sessions.by_id.get(&id).and_then(Option::as_deref);
        session.is_some_and(|session| session.output.promise.is_plain)
    }

    /// How many replicas are to have what the output of a session tells of, as its client has asked for (`CLIENT REPLICA-ACK`).
    #[inline]
    pub fn take_promised_replicas(&mut self, id: SessionId) -> usize {
        self.shared.sessions.get_mut(id).map_or(0, |session| session.output.promise.take_replicas())
    }

    /// For how long the output of a session may still be sent: a node of a cluster must not acknowledge anything, nor tell of a key,
    /// when its lease is over, as another node may serve by then. Nothing if that is not bounded.
    #[inline]
    pub fn lease_left(&self, id: SessionId) -> Option<Duration> {
        let until = self.shared.cluster.as_ref()?.lease?;
        let session = self.shared.sessions.by_id.get(&id)?.as_deref()?;
        let left = || Duration::from_micros(until.saturating_sub(self.shared.stopwatch()));
        session.output.promise.is_under_lease.then(left)
    }
}
