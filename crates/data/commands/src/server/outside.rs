//! What whoever runs the server reads of it and tells it: nobody else looks inside.

use crate::{
    SessionId,
    cluster::Counted,
    config::{Master, Settings},
    host::{Host, PersistenceFigures},
    replication::{Bond, Failover, MasterLink, Replication, Role},
    scripting::{Functions, LogLine},
    secrets::Secrets,
};

use super::{Condition, Scripting, Server, Shutdown, Statistics, StepLimits, Table, scripts::WhileBusy};

impl Server {
    /// The settings.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The commands.
    pub fn table(&self) -> &Table {
        &self.shared.table
    }

    /// What is counted.
    pub fn statistics(&self) -> &Statistics {
        &self.shared.statistics
    }

    /// What is counted, for what happens outside.
    #[inline]
    pub fn statistics_mut(&mut self) -> &mut Statistics {
        &mut self.shared.statistics
    }

    /// How many sessions there are.
    pub fn sessions_len(&self) -> usize {
        self.shared.sessions.by_id.len()
    }

    /// Takes the process around.
    pub fn set_host(&mut self, host: Box<dyn Host>) {
        self.shared.set_host(host);
    }

    /// Takes a secret, which the random bytes of passwords begin with.
    pub fn set_secret(&mut self, secret: [u8; 32]) {
        self.shared.sessions.secrets = Secrets::new(secret);
    }

    /// Whether whoever comes is the default user without a password.
    pub fn lets_anybody_in(&self) -> bool {
        self.shared.sessions.acl.default_user().nopass
    }

    /// When commands go on over several turns, and how.
    pub fn step_limits_mut(&mut self) -> &mut StepLimits {
        &mut self.shared.step_limits
    }

    /// Whether a reply is being given to a session in portions.
    pub fn gives_portions(&self, id: SessionId) -> bool {
        self.shared.sessions.by_id.get(&id).and_then(Option::as_deref).is_some_and(|session| session.portions.is_some())
    }

    /// Lines for the log, since they were taken last.
    pub fn take_log_lines(&mut self) -> impl Iterator<Item = LogLine> {
        self.shared.log.lines.drain(..)
    }

    /// Whether the server is to stop.
    #[inline]
    pub fn shutdown(&self) -> Shutdown {
        self.shared.shutdown
    }

    /// Whether the server is to stop, to be changed.
    pub fn shutdown_mut(&mut self) -> &mut Shutdown {
        &mut self.shared.shutdown
    }

    /// Whether what is done each now and then is put off (`DEBUG PAUSE-CRON`).
    pub fn is_periodic_paused(&self) -> bool {
        self.shared.debug.periodic_paused
    }

    /// For how many microseconds nothing is to be done (`DEBUG SLEEP`), since this was asked last.
    #[inline]
    pub fn take_sleep_us(&mut self) -> u64 {
        std::mem::take(&mut self.shared.debug.sleep_us)
    }

    /// How disk and memory are, as it was told.
    pub fn condition(&self) -> &Condition {
        &self.shared.condition
    }

    /// Says how disk and memory are.
    #[inline]
    pub fn condition_mut(&mut self) -> &mut Condition {
        &mut self.shared.condition
    }

    /// How log and tables are, as it was told.
    pub fn persistence_figures(&self) -> &PersistenceFigures {
        &self.shared.persistence
    }

    /// How log and tables are, to be changed.
    #[inline]
    pub fn persistence_figures_mut(&mut self) -> &mut PersistenceFigures {
        &mut self.shared.persistence
    }

    /// Says how log and tables are. After a checkpoint there are no changes that it does not have.
    pub fn set_persistence_figures(&mut self, figures: PersistenceFigures) {
        if figures.checkpoints != self.shared.persistence.checkpoints {
            self.shared.changes_at_checkpoint = self.changes();
        }
        self.shared.persistence = figures;
    }

    /// The name of the log's history.
    pub fn history(&self) -> &str {
        &self.shared.replication_id
    }

    /// Says which history the log tells.
    pub fn set_history(&mut self, name: String) {
        self.shared.replication_id = name;
    }

    /// What is known of replicas, or of the master.
    #[inline]
    pub fn replication(&self) -> &Replication {
        &self.shared.replication
    }

    /// The same, for whoever has the sockets.
    #[inline]
    pub fn replication_mut(&mut self) -> &mut Replication {
        &mut self.shared.replication
    }

    /// Makes this server a replica, as `REPLICAOF` does: who asks is told so from now on.
    pub fn set_master(&mut self, host: String, port: u16, bond: Option<Bond>) {
        self.shared.settings.replicaof = Master(Some((host.clone(), port)));
        self.shared.replication.role = Role::Replica(Box::new(MasterLink { bond, ..MasterLink::new(host, port) }));
    }

    /// Whether this node has been told of its cluster.
    #[must_use]
    pub fn knows_cluster(&self) -> bool {
        self.shared.cluster.as_ref().is_some_and(|membership| membership.topology.is_some())
    }

    /// Whether this node is a master of its cluster, as it was told.
    #[must_use]
    pub fn is_master_of_slots(&self) -> bool {
        self.shared.cluster.as_ref().is_some_and(|membership| membership.master_since() != u64::MAX)
    }

    /// Makes it a master.
    pub fn set_no_master(&mut self) {
        self.shared.settings.replicaof = Master(None);
        self.shared.replication.role = Role::Master;
    }

    /// A replica is asked to be the master instead of this server (`FAILOVER`), which follows it.
    pub fn hand_over_to(&mut self, host: String, port: u16) {
        if let Some(failover) = &mut self.shared.replication.failover {
            *failover = Failover { target: Some((host.clone(), port)), is_asked: true, ..failover.clone() };
        }
        self.set_master(host, port, None);
    }

    /// Which replicas count for acknowledgements, in a cluster.
    pub fn counted_replicas(&self) -> Option<&Counted> {
        self.shared.counted()
    }

    /// How many connections to other servers wait to be used again for `MIGRATE`.
    pub fn set_migration_sockets(&mut self, count: u64) {
        self.shared.migrations.sockets = count;
    }

    /// Functions, for whoever puts them into the tables.
    pub fn functions_mut(&mut self) -> &mut Functions {
        &mut self.shared.scripting.functions
    }

    /// Scripts and functions, and the one that runs.
    pub fn scripting(&self) -> &Scripting {
        &self.shared.scripting
    }

    /// Ends the script or function that runs, whatever it has written. Only who does not keep what it wrote may do so.
    pub fn kill_script(&mut self) {
        if let Some(running) = &mut self.shared.scripting.running {
            running.killed = true;
        }
    }

    /// Says what has other clients be served while a script runs for long.
    pub fn set_while_busy(&mut self, while_busy: WhileBusy) {
        self.shared.scripting.while_busy = Some(while_busy);
    }

    /// Has the keys' memory be taken back: a key that is in the tables too leaves memory, by chance out of some that are drawn.
    pub fn evict_clean(&mut self, samples: usize) -> bool {
        self.keyspace.evict_clean(&mut self.shared.random, samples)
    }

    /// What is left in memory of a key that is in the tables alone, out of some that are drawn, goes.
    pub fn evict_absent(&mut self, samples: usize) -> bool {
        self.keyspace.evict_absent(&mut self.shared.random, samples)
    }
}
