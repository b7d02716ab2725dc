//! What replication has a server do: pings to replicas, those who wait for them, commands that are refused without them.

use keyspace::{Failure, Millis};

use crate::{
    Session, SessionId,
    replication::Role,
    session::{AwaitedReplicas, Close},
    table::Flags,
};

use super::{Server, Shared};

/// What a replica without its master answers if it is not to give old data.
pub(super) const MASTER_DOWN: Failure =
    Failure::text("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");

impl Shared {
    /// Why replication does not let a client's command run.
    #[inline]
    pub(super) fn refused_by_replication(&self, flags: Flags) -> Option<Failure> {
        if flags.contains(Flags::WRITE)
            && let Some(failure) = self.lacks_replicas()
        {
            return Some(failure);
        }
        (!flags.contains(Flags::STALE) && self.is_stale_replica()).then_some(MASTER_DOWN)
    }

    /// Whether this is a replica whose master is not there, and which is not to answer then.
    #[inline]
    pub(super) fn is_stale_replica(&self) -> bool {
        match &self.replication.role {
            Role::Master => false,
            Role::Replica(link) => !link.is_up() && !self.settings.replica_serve_stale_data.0,
        }
    }

    /// The error of a command that writes while there are fewer replicas than there are to be.
    #[inline]
    pub(super) fn lacks_replicas(&self) -> Option<Failure> {
        let wanted = self.settings.min_replicas_to_write.0.max(self.promised_replicas());
        if wanted == 0 || self.replication.role != Role::Master { None } else { self.count_replicas() }
    }

    /// How many replicas are to have what the client is told of whose command runs.
    #[inline]
    fn promised_replicas(&self) -> i64 {
        self.settings.replica_ack.0.max(self.sessions.current.replicas as i64)
    }

    #[cold]
    fn count_replicas(&self) -> Option<Failure> {
        let (wanted, lag_max) = (self.settings.min_replicas_to_write.0, self.settings.min_replicas_max_lag.0);
        let now = self.clock.now;
        let good = self.replication.good_replicas(lag_max, now) as i64;
        let connected = self.replication.good_replicas(i64::MAX, now) as i64;
        let is_short = lag_max > 0 && good < wanted || connected < self.promised_replicas();
        is_short.then_some(Failure::text("NOREPLICAS Not enough good replicas to write."))
    }
}

impl Server {
    /// Puts into the log what replicas are to be told beside writes: that the master is there, each now and then, and that somebody
    /// wants to know how far they are. `end` is where the log ends without what has taken effect in this turn.
    pub fn tell_replicas(&mut self, end: u64, now: Millis) {
        if !self.effects.is_empty() {
            self.shared.replication.news_end = end + self.effects.len() as u64;
        }
        let offset = self.shared.replication.news_end;
        for id in std::mem::take(&mut self.shared.replication.waiting) {
            let Some(awaited) = self.awaited_mut(id) else { continue };
            awaited.offset.get_or_insert(offset);
            self.shared.replication.waiting.push(id);
        }
        let asks = std::mem::take(&mut self.shared.replication.asks_for_acks);
        self.shared.replication.has_news = !self.effects.is_empty();
        if !self.shared.replication.has_replicas() {
            return;
        }
        let period = self.shared.settings.repl_ping_replica_period.0.saturating_mul(1000);
        let since = now.saturating_sub(self.shared.replication.pinged);
        // While the master hands over, its log stays as it is: a replica is to have all of it.
        if self.shared.replication.failover.is_some() {
            return;
        }
        if since >= period || since < 0 {
            self.shared.replication.pinged = now;
            self.effects.push(0, [&b"PING"[..]].into_iter());
        }
        if asks {
            self.effects.push(0, [&b"REPLCONF"[..], b"GETACK", b"*"].into_iter());
        }
    }

    /// Answers those who have waited for replicas for long enough, where the log is durable up to an offset here.
    pub fn serve_those_who_wait_for_replicas(&mut self, durable: u64) {
        for id in std::mem::take(&mut self.shared.replication.waiting) {
            let Some(awaited) = self.awaited_mut(id).copied() else { continue };
            let Some(offset) = awaited.offset else {
                self.shared.replication.waiting.push(id);
                continue;
            };
            let count = self.shared.replication.count_at(offset, awaited.local.is_some());
            let here = u64::from(durable >= offset);
            let answer = match awaited.local {
                None => format!(":{count}\r\n"),
                Some(_) => format!("*2\r\n:{here}\r\n:{count}\r\n"),
            };
            if let Some(session) = self.shared.sessions.get_mut(id)
                && let Some(blocked) = &mut session.blocked
            {
                blocked.on_timeout = answer.into_bytes();
            }
            if count >= awaited.replicas && (awaited.local != Some(true) || here > 0) {
                self.shared.end_blocking(id, None);
            } else {
                self.shared.replication.waiting.push(id);
            }
        }
        self.run_runnable();
    }

    /// Where a client comes from.
    pub fn session_address(&self, id: SessionId) -> Option<String> {
        Some(self.shared.sessions.by_id.get(&id)?.as_deref()?.connection.address.clone())
    }

    fn awaited_mut(&mut self, id: SessionId) -> Option<&mut AwaitedReplicas> {
        self.shared.sessions.get_mut(id)?.blocked.as_mut()?.replicas.as_mut()
    }

    /// Clients that wait for keys, or for replicas, wait in vain: the server is no master any more.
    pub fn unblock_all(&mut self) {
        // Who has made it a replica by the cluster's agent still hears what came of that, and what other nodes were asked is answered by these.
        let is_blocked = |session: &Session| {
            session.blocked.is_some()
                && session.close == Close::No
                && !self.shared.sessions.agent.is_awaited_by(session.id)
                && !self.shared.sessions.forwards.is_passed_on_for(session)
        };
        let sessions = self.shared.sessions.by_id.iter();
        let ids: Vec<SessionId> =
            sessions.filter(|(_, session)| session.as_deref().is_some_and(is_blocked)).map(|(id, _)| *id).collect();
        for id in ids {
            self.shared.end_blocking(
                id,
                Some("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"),
            );
        }
    }

    /// Runs a command of the master's log. What it changed is seen by those who watch, wait and listen here.
    ///
    /// # Errors
    ///
    /// It has failed, for this reason.
    pub fn follow(&mut self, session: &mut Session, words: &[&[u8]]) -> Result<(), String> {
        let now = self.now;
        // What expired stands in the log.
        self.now = Millis::MIN;
        let mut output = Vec::new();
        self.call(session, &mut output, words);
        self.effects.clear();
        self.now = now;
        self.after_command();
        if output.first() == Some(&b'-') {
            return Err(String::from_utf8_lossy(&output).trim_end().to_owned());
        }
        Ok(())
    }
}
