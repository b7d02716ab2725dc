//! A store that is a node of a cluster: which slots are its own, whether it may serve them now, and where others are to be asked.
//!
//! Somebody who looks after the cluster gives a node its topology and, again and again, the time for which it may serve. The node
//! serves what both allow, and sends clients elsewhere as Redis Cluster does (manual: reference/cluster-spec, redirections).

mod counting;
mod lease;
mod mover;
mod pauses;
mod redirect;
mod topology;

pub use counting::Counted;
pub use lease::{Vote, Votes};
pub use mover::MoverPass;
pub use pauses::{SlotPause, TooManyPauses};
pub use redirect::Redirect;
pub use topology::{Node, SLOTS, SlotRange, Topology, TopologyError};

/// What a connection is to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Peer {
    /// A client.
    #[default]
    Client,
    /// A proxy: its commands may have keys of several slots, as long as all are this node's.
    Proxy,
    /// What fills slots that are not this node's yet.
    Mover {
        /// The number by which it may ([`Membership::admit_mover`]).
        pass: u64,
    },
}

/// What a session has said of itself to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Standing {
    /// What it is.
    pub peer: Peer,
    /// `READONLY`: it reads from a replica.
    pub reads_replica: bool,
    /// It has asked for what only clients of Redis Cluster ask for.
    pub knows_clusters: bool,
    /// Commands of it were passed on to other nodes (`cluster-proxy`).
    pub has_passed_on: bool,
    /// It is in the middle of something at another node: what it says goes there.
    pub is_bound: bool,
    /// It is an agent that leads the others since then: one that a later one has followed steers nothing any more.
    pub term: Option<u64>,
}

/// A node's part in a cluster. Times are microseconds of the stopwatch, which never goes back.
#[derive(Debug, Default)]
pub struct Membership {
    /// Of which change of the cluster it knows; 0 before it knows any.
    pub epoch: u64,
    /// The cluster, once it knows it.
    pub topology: Option<Topology>,
    /// Until when it may serve; nothing if nobody bounds that.
    pub lease: Option<u64>,
    /// Slots whose commands wait, and for whom.
    pub pauses: Vec<SlotPause>,
    /// Who lets it serve until when.
    pub votes: Votes,
    /// Whose acknowledgements count; nothing if nobody has said so: those of all replicas.
    pub counted: Option<Counted>,
    /// The term of the agent that was heard last. It is kept over restarts: a process that has just started would otherwise follow the
    /// orders of an agent that leads no more.
    pub term: u64,
    /// Who fills which slots.
    pub movers: Vec<MoverPass>,
    /// What commands on each slot took; empty before the first.
    pub load: Vec<u64>,
    /// The slot of the command that is being run.
    pub routed: std::cell::Cell<Option<u16>>,
    /// Connections that have ever been let fill slots.
    pub mover_count: u64,
    /// The socket of the agent that looks after it, if it was not started with one.
    pub agent: Option<String>,
    /// It has just become a master: until then commands wait for its first lease, which is on its way.
    pub awaits_lease_until: Option<u64>,
}

/// How long commands wait at a new master for its first lease, in microseconds.
const FIRST_LEASE_US: u64 = 1_000_000;

/// Why a node does not take what it is told of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// It knows of something newer.
    #[error("STALEEPOCH this node knows epoch {known}, and was told of epoch {told}")]
    Stale {
        /// The epoch that it knows.
        known: u64,
        /// The one that it was told of.
        told: u64,
    },
    /// The same epoch, and something else.
    #[error("STALEEPOCH epoch {0} is known, with another topology: a change has an epoch of its own")]
    Other(u64),
    /// A vote is for another run of the process.
    #[error("STALERUN this process is run {run}")]
    OtherRun {
        /// The one that runs.
        run: String,
    },
    /// A vote of somebody whose votes do not count.
    #[error("ERR '{0}' is no voter of the cluster that this node knows")]
    NoVoter(String),
    /// Another agent leads.
    #[error("STALETERM an agent leads since {known}, this one since {told}")]
    StaleTerm {
        /// Since when one leads.
        known: u64,
        /// Since when this one did.
        told: u64,
    },
    /// Slots are to be filled that are served.
    #[error("STALEMOVER slot {0} is this node's own: nobody fills it any more")]
    OwnSlot(u16),
    /// A later order is known.
    #[error("STALEORDER order {known} is known, and this one is number {told}")]
    StaleOrder {
        /// The number of the one that it obeys.
        known: u64,
        /// That of the one that came late.
        told: u64,
    },
    /// The lines are not right.
    #[error("ERR the topology is refused: {0}")]
    Unreadable(#[from] TopologyError),
    /// No line is about this node.
    #[error("ERR the topology is refused: no line has the flag 'myself'")]
    NotAmongThem,
}

impl Membership {
    /// Takes over how the cluster is from an epoch on; with `lease_until` it may serve until then and no longer.
    ///
    /// # Errors
    ///
    /// Something newer is known, or the text is not right.
    pub fn learn(&mut self, epoch: u64, text: &str, lease_until: Option<u64>) -> Result<(), MembershipError> {
        if epoch < self.epoch {
            return Err(MembershipError::Stale { known: self.epoch, told: epoch });
        }
        let topology = Topology::parse(text)?;
        if topology.myself.is_none() {
            return Err(MembershipError::NotAmongThem);
        }
        if epoch == self.epoch && self.topology.as_ref().is_some_and(|known| *known != topology) {
            return Err(MembershipError::Other(epoch));
        }
        let before = self.master_since();
        self.epoch = epoch;
        self.topology = Some(topology);
        self.end_pauses_of_others();
        if self.master_since() != before {
            self.forget_votes();
        }
        self.end_movers_of_own();
        self.lease = lease_until.map(|until| until.max(self.lease.unwrap_or(0))).or(self.lease);
        Ok(())
    }

    /// Notes that it has become a master at a time, if it has: `before` is since when it was one before.
    pub(crate) fn note_new_master(&mut self, before: u64, now: u64) {
        let since = self.master_since();
        if since != before && since != u64::MAX && !self.may_serve(now) {
            self.awaits_lease_until = Some(now + FIRST_LEASE_US);
        }
    }

    /// Whether commands wait for its first lease at a time.
    #[inline]
    #[must_use]
    pub fn awaits_lease(&self, now: u64) -> bool {
        self.awaits_lease_until.is_some_and(|until| now < until) && !self.may_serve(now)
    }

    /// Whether nobody has to wait for its first lease any more, though somebody has.
    pub(crate) fn end_await(&mut self, now: u64) -> bool {
        self.awaits_lease_until.is_some() && !self.awaits_lease(now) && self.awaits_lease_until.take().is_some()
    }

    /// May serve until then, in the epoch that it knows.
    ///
    /// # Errors
    ///
    /// It is another one.
    pub fn prolong(&mut self, epoch: u64, until: u64) -> Result<(), MembershipError> {
        if epoch != self.epoch {
            return Err(MembershipError::Stale { known: self.epoch, told: epoch });
        }
        self.lease = Some(until.max(self.lease.unwrap_or(0)));
        Ok(())
    }

    /// Whether it may serve at a time.
    #[inline]
    #[must_use]
    pub fn may_serve(&self, now: u64) -> bool {
        self.lease.is_none_or(|until| now < until)
    }

    /// Whether this node does what it is there for: a master serves, a replica has a master that has not failed.
    #[must_use]
    pub fn is_in_order(&self, now: u64) -> bool {
        let Some(topology) = &self.topology else { return false };
        let Some(place) = topology.myself else { return false };
        let master = topology.master_of(place);
        if master == place {
            self.may_serve(now)
        } else {
            topology.nodes.get(master).is_some_and(|node| !node.has_failed)
        }
    }

    /// Counts what the command took that was routed last.
    #[inline]
    pub fn count_load(&mut self, took_us: u64) {
        let Some(slot) = self.routed.take() else { return };
        if self.load.is_empty() {
            self.load = vec![0; SLOTS];
        }
        if let Some(load) = self.load.get_mut(usize::from(slot)) {
            // What takes less than a microsecond takes something.
            *load += took_us.max(1);
        }
    }

    /// Whether a slot is this node's own, as a master.
    #[must_use]
    pub fn owns(&self, slot: u16) -> bool {
        self.topology
            .as_ref()
            .is_some_and(|topology| topology.myself.is_some() && topology.owner(slot) == topology.myself)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "a 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-99\nb 127.0.0.1:3@4 master - 0 0 1 connected 100-16383\n";

    #[test]
    fn an_older_epoch_is_refused_and_a_lease_only_grows() {
        let mut membership = Membership::default();
        membership.learn(5, TEXT, None).unwrap();
        assert!(membership.may_serve(u64::MAX));
        assert!(matches!(membership.learn(4, TEXT, None), Err(MembershipError::Stale { known: 5, told: 4 })));
        membership.learn(5, TEXT, Some(100)).unwrap();
        assert!(membership.may_serve(99) && !membership.may_serve(100));
        membership.prolong(5, 50).unwrap();
        assert!(membership.may_serve(99));
        assert!(membership.prolong(4, 500).is_err() && !membership.may_serve(100));
        let other = TEXT.replace("0-99", "0-98");
        assert_eq!(membership.learn(5, &other, None), Err(MembershipError::Other(5)));
        assert_eq!(membership.learn(6, "", None), Err(MembershipError::NotAmongThem));
    }
}
