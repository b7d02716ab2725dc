//! Who of a group serves. One keeper looks after one group.
//!
//! A master serves only while it has a lease, and the keeper gives it one again and again. What the keeper promises:
//!
//! 1. A server is made the master only when the former one cannot serve any more: its process is known to have ended, its last
//!    lease is over, or it has taken notice of its successor. A lease is counted from a moment that the *server's* clock has told, so
//!    one that waits in the socket of a stopped process is over when the process goes on.
//! 2. With acknowledgements (`ack`), only a replica that has all that was acknowledged is made the master. Who that may be is kept
//!    by the coordinator (`in sync`), and is written there *before* an acknowledgement is waited for from fewer.
//!
//! How a replica gets in sync: it follows closely; the master is told to wait for one more; what the master had *then* must be at the
//! replica. How it gets out: it is taken out in the coordinator, and only then the master waits for fewer.
//!
//! Contract: `handle_*` takes what was seen, then [`Keeper::poll_steps`] says what is to be done now. A step that fails need not be
//! reported: what is still to be done is said again. `now` is milliseconds of a clock that never goes back; it may stand still.

mod election;
mod hand_over;
mod in_sync;
mod redis;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Address, Cluster, Epoch, Group, GroupId, InSync};

pub use hand_over::HandOverError;
pub use redis::Wanted;

/// How patient a keeper is, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patience {
    /// How long a lease lasts.
    pub lease_ms: u64,
    /// A master that has been silent for so long is given up.
    pub master_ms: u64,
    /// A replica that has been silent for so long is waited for no longer.
    pub replica_ms: u64,
    /// What clocks of different machines may differ by within a lease.
    pub margin_ms: u64,
    /// How long a switch to another master may take before it is given up.
    pub hand_over_ms: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { lease_ms: 1_500, master_ms: 1_000, replica_ms: 1_000, margin_ms: 100, hand_over_ms: 3_000 }
    }
}

/// How often a lease is given again while it lasts.
const LEASES_AT_ONCE: u64 = 8;

/// What a server is in its own eyes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It takes writes.
    Master,
    /// It follows.
    Replica {
        /// Whom.
        master: Address,
        /// Whether it has what the master has, and gets what comes.
        is_linked: bool,
    },
}

/// What a server has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// When it was asked: all it says is of that moment or later.
    pub asked_at: u64,
    /// When its answer came: all it says is of that moment or earlier.
    pub answered_at: u64,
    /// What it is.
    pub role: Role,
    /// Up to where it has its log.
    pub offset: u64,
    /// The epoch that it knows.
    pub epoch: Epoch,
    /// How many replicas it waits for.
    pub ack: u32,
    /// Its own clock, in microseconds.
    pub clock_us: u64,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Tell a server how the cluster is. It serves nothing by that alone.
    Tell {
        /// Which.
        server: Address,
    },
    /// Have a server follow the master.
    Follow {
        /// Which.
        server: Address,
        /// Whom.
        master: Address,
    },
    /// Have a server follow nobody.
    Promote {
        /// Which.
        server: Address,
    },
    /// Have a master wait for so many replicas.
    SetAck {
        /// Which.
        server: Address,
        /// How many.
        ack: u32,
    },
    /// Let a server serve until a moment of its own clock.
    Grant {
        /// Which.
        server: Address,
        /// In which epoch.
        epoch: Epoch,
        /// That clock, in microseconds, when it was asked.
        since_us: u64,
        /// For how long after that.
        ms: u64,
    },
    /// Write down who is in sync.
    WriteInSync(InSync),
    /// Write down another master. Nobody is in sync with it yet.
    Elect {
        /// Who.
        master: Address,
        /// Why, for people.
        reason: String,
    },
    /// Have all commands of a master wait, so that another one can take its place.
    Pause {
        /// Which.
        server: Address,
        /// For how long.
        ms: u64,
    },
    /// End that.
    EndPause {
        /// Which.
        server: Address,
    },
}

/// What is known of a server.
#[derive(Clone, Debug, Default)]
struct Member {
    last: Option<Observation>,
    /// Its process has ended since it was last heard of.
    exited_at: Option<u64>,
    /// Until when it may think that it may serve.
    lease_until: u64,
    /// The last lease: in which epoch, and when it had been asked.
    granted: Option<(Epoch, u64)>,
    /// Until when its commands wait, by what it has confirmed.
    paused_until: u64,
}

/// Looks after one group.
#[derive(Clone, Debug)]
pub struct Keeper {
    group: GroupId,
    patience: Patience,
    members: BTreeMap<Address, Member>,
    /// Until when a server nobody has heard of yet may have a lease of a keeper before this one.
    unknown_lease_until: u64,
    began_at: u64,
    config_epoch: Epoch,
    joining: in_sync::Joining,
    hand_over: Option<hand_over::HandOver>,
    /// Nobody gets a lease before then: slots are on their way.
    is_held: bool,
    redis: redis::RedisState,
    /// The master of a group of Redis servers.
    redis_master: Option<Address>,
}

impl Keeper {
    /// A keeper that knows nothing of what was before: somebody may still have a lease.
    #[must_use]
    pub fn new(group: GroupId, patience: Patience, now: u64) -> Self {
        Self {
            group,
            patience,
            members: BTreeMap::new(),
            unknown_lease_until: now + patience.lease_ms + patience.margin_ms,
            began_at: now,
            config_epoch: 0,
            joining: in_sync::Joining::default(),
            hand_over: None,
            is_held: false,
            redis: redis::RedisState::default(),
            redis_master: None,
        }
    }

    fn member(&mut self, server: &Address) -> &mut Member {
        let unknown = Member { lease_until: self.unknown_lease_until, ..Member::default() };
        self.members.entry(server.clone()).or_insert(unknown)
    }

    /// A server has answered.
    pub fn handle_observed(&mut self, server: &Address, observation: Observation) {
        let member = self.member(server);
        member.exited_at = member.exited_at.filter(|exited| *exited > observation.asked_at);
        member.last = Some(observation);
    }

    /// The process of a server has ended: it serves nothing, whatever lease it had.
    pub fn handle_exited(&mut self, server: &Address, now: u64) {
        let member = self.member(server);
        *member = Member { exited_at: Some(now), ..Member::default() };
    }

    /// A server has confirmed that its commands wait until then.
    pub fn handle_paused(&mut self, server: &Address, now: u64, until: u64) {
        self.member(server).paused_until = until;
        if let Some(hand_over) = &mut self.hand_over {
            hand_over.paused(server, now, until);
        }
    }

    /// Nobody of the group gets a lease while slots are handed to another group: its commands wait meanwhile.
    pub fn hold_leases(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Until when a server may think that it may serve.
    #[must_use]
    pub fn lease_until(&self, server: &Address) -> u64 {
        self.members.get(server).map_or(self.unknown_lease_until, |member| member.lease_until)
    }

    /// The last answer of a server, if it is not too long ago.
    #[must_use]
    pub fn fresh(&self, server: &Address, now: u64) -> Option<&Observation> {
        self.heard_within(server, now, self.patience.master_ms)
    }

    fn heard_within(&self, server: &Address, now: u64, patience: u64) -> Option<&Observation> {
        let member = self.members.get(server)?;
        let last = member.last.as_ref().filter(|_| member.exited_at.is_none())?;
        (last.answered_at + patience >= now).then_some(last)
    }

    /// What is to be done now. A lease that is asked for here counts as given.
    pub fn poll_steps(&mut self, now: u64, cluster: &Cluster, in_sync: &InSync) -> Vec<Step> {
        let Some(group) = cluster.groups.get(&self.group) else { return Vec::new() };
        self.members.retain(|address, _| group.server(address).is_some());
        if self.config_epoch != group.config_epoch {
            self.config_epoch = group.config_epoch;
            self.joining = in_sync::Joining::default();
            self.hand_over = None;
        }
        let in_sync = in_sync.of(group);
        let mut steps = Vec::new();
        self.steer_master(now, cluster, group, &in_sync, &mut steps);
        self.steer_replicas(now, cluster, group, &mut steps);
        self.keep_in_sync(now, group, &in_sync, &mut steps);
        if !self.go_on_handing_over(now, group, &in_sync, &mut steps) {
            self.elect_if_needed(now, group, &in_sync, &mut steps);
        }
        steps
    }

    fn steer_master(&mut self, now: u64, cluster: &Cluster, group: &Group, in_sync: &InSync, steps: &mut Vec<Step>) {
        let master = &group.master;
        if self.prefers_others(now, group, in_sync) {
            return;
        }
        let Some(seen) = self.fresh(master, now).cloned() else { return };
        if seen.role != Role::Master {
            // It is told only then: a replica that thinks itself the owner of slots would refuse writes for good.
            steps.push(Step::Promote { server: master.clone() });
            return;
        }
        if seen.epoch != cluster.epoch {
            steps.push(Step::Tell { server: master.clone() });
        }
        let wanted = self.wanted_ack(group, in_sync);
        if seen.ack != wanted {
            steps.push(Step::SetAck { server: master.clone(), ack: wanted });
        }
        // A master that waits for too few would acknowledge what a replica in sync has not.
        let waits_enough = seen.ack >= wanted;
        let may = seen.epoch == cluster.epoch && waits_enough && !self.is_held && self.hand_over.is_none();
        if may && self.is_lease_due(master, &seen, cluster.epoch) && !self.another_may_serve(now, cluster, group) {
            let step = self.grant(master, &seen, cluster.epoch);
            steps.push(step);
        }
    }

    /// Whether a lease is to be given again: not for each answer, or a master would be asked without a pause.
    fn is_lease_due(&self, server: &Address, seen: &Observation, epoch: Epoch) -> bool {
        let granted = self.members.get(server).and_then(|member| member.granted);
        let each = self.patience.lease_ms / LEASES_AT_ONCE;
        granted.is_none_or(|(of, asked_at)| of != epoch || seen.asked_at >= asked_at + each)
    }

    fn grant(&mut self, server: &Address, seen: &Observation, epoch: Epoch) -> Step {
        let (ms, margin) = (self.patience.lease_ms, self.patience.margin_ms);
        let member = self.member(server);
        // The moment that its clock tells was before its answer came.
        member.lease_until = member.lease_until.max(seen.answered_at + ms + margin);
        member.granted = Some((epoch, seen.asked_at));
        Step::Grant { server: server.clone(), epoch, since_us: seen.clock_us, ms }
    }

    /// Whether somebody besides the master may think that he is it.
    fn another_may_serve(&self, now: u64, cluster: &Cluster, group: &Group) -> bool {
        group.replicas().any(|server| {
            let Some(member) = self.members.get(&server.address) else { return now < self.unknown_lease_until };
            let knows = member
                .last
                .as_ref()
                .is_some_and(|seen| seen.epoch >= group.config_epoch && seen.epoch <= cluster.epoch);
            !knows && !member.is_fenced(now)
        })
    }

    fn steer_replicas(&self, now: u64, cluster: &Cluster, group: &Group, steps: &mut Vec<Step>) {
        let is_master_there = self.fresh(&group.master, now).is_some_and(|seen| seen.role == Role::Master);
        for server in group.replicas() {
            let Some(seen) = self.fresh(&server.address, now) else {
                // A master of the past may be unable to answer: it waits for acknowledgements that nobody will give. Told whom to follow,
                // it gives that up.
                if self.members.get(&server.address).is_some_and(|member| member.exited_at.is_none()) && is_master_there
                {
                    steps.push(Step::Tell { server: server.address.clone() });
                    steps.push(Step::Follow { server: server.address.clone(), master: group.master.clone() });
                }
                continue;
            };
            if seen.epoch != cluster.epoch {
                steps.push(Step::Tell { server: server.address.clone() });
            }
            let follows = matches!(&seen.role, Role::Replica { master, .. } if *master == group.master);
            if !follows && is_master_there {
                steps.push(Step::Follow { server: server.address.clone(), master: group.master.clone() });
            }
        }
    }
}

impl Member {
    /// Whether it cannot serve, whatever it thinks.
    fn is_fenced(&self, now: u64) -> bool {
        self.exited_at.is_some()
            || now >= self.lease_until
            || (self.paused_until >= self.lease_until && now < self.paused_until)
    }
}

impl InSync {
    /// What of it is about the group's present master.
    #[must_use]
    pub fn of(&self, group: &Group) -> Self {
        let is_present = self.config_epoch == group.config_epoch;
        let members = self.members.iter().filter(|member| is_present && group.server(member).is_some());
        Self { config_epoch: group.config_epoch, members: members.cloned().collect() }
    }
}

#[cfg(test)]
mod tests;
