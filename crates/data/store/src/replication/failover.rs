//! A master hands over to a replica, and a replica takes over from its master (`FAILOVER`).

use commands::{
    config::{LogLevel, Master},
    replication::{Attach, MasterLink, ReplicaState, Role},
};
use keyspace::Millis;
use oplog::Offset;
use replication::failover::{Candidate, Plan, Step, step};

use crate::{StoreError, folder::StoreFolder, messages, opening::Shard, sockets::Sockets};

use super::Replicator;

/// How long a replica that takes over waits for what its master has sent and it has not applied, in milliseconds.
const REST_MS: Millis = 2000;

/// A replica that takes over as soon as it has applied what its master has sent.
pub struct TakeOver {
    attach: Attach,
    /// What the master has.
    offset: Option<Offset>,
    deadline: Millis,
}

impl TakeOver {
    /// As a master has asked for.
    pub fn new(attach: Attach, now: Millis) -> Self {
        let next = attach.from.as_ref().and_then(|(_, next)| resp::parse_integer(next));
        let offset = next.and_then(|next| u64::try_from(next.checked_sub(1)?).ok()).map(Offset);
        Self { attach, offset, deadline: now.saturating_add(REST_MS) }
    }
}

impl Replicator {
    /// Goes on with a failover, if there is one.
    pub(super) fn fail_over(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) -> Result<(), StoreError> {
        let Some(failover) = shard.server.shared.replication.failover.as_ref().filter(|failover| !failover.is_asked)
        else {
            return Ok(());
        };
        let plan = Plan { target: failover.target.clone(), deadline: failover.deadline, is_forced: failover.is_forced };
        let replicas = shard.server.shared.replication.replicas.iter().map(|(_, replica)| replica);
        let online = replicas.filter(|replica| replica.state == ReplicaState::Online);
        let candidates: Vec<Candidate> = online
            .map(|replica| Candidate {
                address: (replica.address.clone(), replica.port),
                acknowledged: Offset(replica.applied),
            })
            .collect();
        let end = shard.persistence().map(|persistence| persistence.log().end());
        match step(&plan, &candidates, end.filter(|_| shard.server.is_quiet()), now) {
            Step::Wait => Ok(()),
            Step::GiveUp => self.abort_failover(shard, folder, "Replica never caught up before timeout", now),
            Step::HandOver { target: (host, port), has_all } => {
                messages::notice(&match has_all {
                    true => format!("Failover target {host}:{port} is synced, failing over."),
                    false => format!("FAILOVER to {host}:{port} time out exceeded, failing over."),
                });
                let shared = &mut shard.server.shared;
                if let Some(failover) = &mut shared.replication.failover {
                    (failover.target, failover.is_asked) = (Some((host.clone(), port)), true);
                }
                shared.replication.role = Role::Replica(Box::new(MasterLink::new(host.clone(), port)));
                shared.settings.replicaof = Master(Some((host, port)));
                self.follow(shard, folder, now)
            }
        }
    }

    /// The failover is given up: this server is the master, as it was.
    pub(super) fn abort_failover(
        &mut self,
        shard: &mut Shard,
        folder: &StoreFolder,
        reason: &str,
        now: Millis,
    ) -> Result<(), StoreError> {
        let Some(failover) = shard.server.shared.replication.failover.clone() else { return Ok(()) };
        let target = failover.target.map_or("any replica".to_owned(), |(host, port)| format!("{host}:{port}"));
        messages::say(LogLevel::Warning, &format!("FAILOVER to {target} aborted: {reason}"));
        if failover.is_asked {
            self.become_master(shard, folder, now)?;
        }
        shard.server.end_failover();
        Ok(())
    }

    /// The target is the master: writes are refused from now on, as on any replica.
    pub(super) fn end_failover(shard: &mut Shard) {
        if shard.server.shared.replication.failover.as_ref().is_some_and(|failover| failover.is_asked) {
            messages::notice("the failover is done");
            shard.server.end_failover();
        }
    }

    /// Takes over from the master that has asked for it, once all is applied that it has sent.
    pub(super) fn take_over(
        &mut self,
        shard: &mut Shard,
        sockets: &mut Sockets,
        folder: &StoreFolder,
        now: Millis,
    ) -> Result<(), StoreError> {
        let Some(TakeOver { attach, offset, deadline }) = self.taking_over.take() else { return Ok(()) };
        if shard.server.session_address(attach.session).is_none() || !shard.role().is_follower() {
            // Whoever asked has gone, or has been told before. Who has gone asks again.
            return Ok(());
        }
        let end = shard.persistence().map(|persistence| persistence.log().end());
        let has_all = offset.zip(end).is_none_or(|(offset, end)| end >= offset);
        if !has_all && self.link.is_some() && now < deadline {
            self.taking_over = Some(TakeOver { attach, offset, deadline });
            return Ok(());
        }
        messages::notice("the master hands over to this replica");
        self.become_master(shard, folder, now)?;
        self.replicas.attach(shard, sockets, folder, attach, now);
        Ok(())
    }

    fn become_master(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) -> Result<(), StoreError> {
        let shared = &mut shard.server.shared;
        shared.replication.role = Role::Master;
        shared.settings.replicaof = Master(None);
        self.promote(shard, folder, now)
    }
}
