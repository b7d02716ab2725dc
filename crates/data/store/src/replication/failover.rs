//! A master hands over to a replica, and a replica takes over from its master (`FAILOVER`), when the conductor says so.

use commands::config::LogLevel;
use keyspace::Millis;

use crate::{StoreError, folder::StoreFolder, messages, opening::Shard, sockets::Sockets};

use super::Replicator;

/// What the log says when this server hands over.
pub(super) fn handing_over((host, port): &(String, u16), has_all: bool) -> String {
    match has_all {
        true => format!("Failover target {host}:{port} is synced, failing over."),
        false => format!("FAILOVER to {host}:{port} time out exceeded, failing over."),
    }
}

impl Replicator {
    /// A replica is the master from now on, and this server follows it.
    pub(super) fn hand_over(
        &mut self,
        shard: &mut Shard,
        folder: &StoreFolder,
        (host, port): (String, u16),
        now: Millis,
    ) -> Result<(), StoreError> {
        shard.server.hand_over_to(host, port);
        self.follow(shard, folder, now)
    }

    /// The failover is given up: this server is the master, as it was.
    pub(super) fn abort_failover(
        &mut self,
        shard: &mut Shard,
        folder: &StoreFolder,
        reason: &str,
        now: Millis,
    ) -> Result<(), StoreError> {
        let Some(failover) = shard.server.replication().failover.clone() else { return Ok(()) };
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
        if shard.server.replication().failover.as_ref().is_some_and(|failover| failover.is_asked) {
            messages::notice("the failover is done");
            shard.server.end_failover();
        }
    }

    /// Takes over from the master that has asked for it: all is applied that it has sent.
    pub(super) fn take_over(
        &mut self,
        shard: &mut Shard,
        sockets: &mut Sockets,
        folder: &StoreFolder,
        now: Millis,
    ) -> Result<(), StoreError> {
        let Some(attach) = self.taking_over.take() else { return Ok(()) };
        messages::notice("the master hands over to this replica");
        self.become_master(shard, folder, now)?;
        self.replicas.attach(shard, sockets, folder, attach, now);
        Ok(())
    }

    fn become_master(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) -> Result<(), StoreError> {
        shard.server.set_no_master();
        self.promote(shard, folder, now)
    }
}
