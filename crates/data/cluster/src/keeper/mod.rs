//! Who of a group serves. One keeper looks after one group.
//!
//! A master serves only while a majority of the cluster's voters lets it: each gives its vote again and again, for a time that is
//! counted from a moment that the *master's* clock has told. So a vote that waits in the socket of a stopped process is over when the
//! process goes on. Voters are the hosts ([`crate::voter`]); the keeper gives no votes, it asks for promises ([`crate::ballot`]) and says
//! which process of a master is fit. What it promises:
//!
//! 1. A server is made the master only when the former one cannot serve any more: a majority of voters has promised to give it no
//!    more votes, and their last ones are over, or were for a process that is known to have ended, or its commands wait for longer.
//!    The promises hold until the change is known to who gave them, and the change is written only if none of them was started anew.
//! 2. With acknowledgements (`ack`), only a replica that has all that was acknowledged is made the master. Who that may be is kept
//!    by the coordinator (`in sync`), and the master is told whose acknowledgements it counts: see `in_sync` and `counting`.
//!
//! Contract: `handle_*` takes what was seen, then [`Keeper::poll_steps`] says what is to be done now, [`Keeper::ask`] and
//! [`Keeper::verdict`] what voters are to be told. A step that fails need not be reported: what is still to be done is said again. `now`
//! is milliseconds of a clock that never goes back, and goes on while the host sleeps.

mod backoff;
mod counting;
mod election;
mod fallen;
mod giving_up;
mod hand_over;
mod in_sync;
mod logs;
mod proof;
mod redis;
mod votes;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ballot::Incarnation,
    heights::Heights,
    model::{Address, Cluster, Epoch, Group, GroupId, InSync},
};

pub use counting::{Count, Counting};
pub use giving_up::{Awaited, GivingUpError};
pub use hand_over::HandOverError;
pub use logs::LogHistory;
pub use redis::{HoldReason, RedisOrder};

/// How patient a keeper is, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patience {
    /// For how long a vote counts.
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

/// How long, in milliseconds, a master whose process has ended is not waited for while another one can take its place.
const SUCCESSION_MS: u64 = 1_500;

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
    /// Up to where it has that durably; 0: it does not say.
    pub durable: u64,
    /// The epoch that it knows.
    pub epoch: Epoch,
    /// Whose acknowledgements it counts, as a leader has told it; nothing if none has.
    pub counting: Option<Counting>,
    /// Who follows it, as it sees them.
    pub followers: Vec<Address>,
    /// The run of its process, as the server itself calls it.
    pub run: String,
    /// Whether it serves the slots that are its own.
    pub serves: bool,
    /// Pauses that are on, by their numbers, and before which nothing took effect that is not in its log.
    pub pauses: Vec<u64>,
    /// What a replica knows of what it must keep; nothing: it is none, or its server knows nothing of that.
    pub bond: Option<Bond>,
    /// The histories that its log tells, the oldest first; none: it does not say.
    pub histories: Vec<LogHistory>,
}

/// What a replica has been told of its master, and what follows from it. A replica that is bound to a master keeps what it has: it takes no
/// copy of that master which lacks some of it. It is bound by [`Step::Follow`], or once it has all that the master has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bond {
    /// Since which epoch its master is the master, as it was told; 0: nobody has said so.
    pub since: Epoch,
    /// It refuses to copy the master.
    pub refusal: Option<Refusal>,
}

/// A replica refuses to copy a master that has lost what the replica has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The master has it up to there.
    pub until: u64,
    /// The replica up to there.
    pub end: u64,
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
        /// Since which epoch that is the master.
        since: Epoch,
        /// All that it has was the master's: it keeps it, whatever the master has.
        keeps: bool,
    },
    /// Have a server follow nobody.
    Promote {
        /// Which.
        server: Address,
    },
    /// Have a master acknowledge what so many of these replicas have. It refuses what is older than what it was told last.
    Count {
        /// Which.
        server: Address,
        /// Later ones of a leader have higher numbers.
        serial: u64,
        /// How it counts.
        count: Count,
    },
    /// Write down who is in sync.
    WriteInSync(InSync),
    /// Write down another master. Nobody is in sync with it yet.
    Elect {
        /// Who.
        master: Address,
        /// Why, for people.
        reason: String,
        /// What was acknowledged may be lost by that, as the reason says.
        may_lose: bool,
    },
    /// Write down the same cluster under the next epoch: what was promised for that is not needed any more.
    Renew {
        /// Why, for people.
        reason: String,
    },
    /// Have all commands of a master wait, so that another one can take its place.
    Pause {
        /// Which.
        server: Address,
        /// For how long.
        ms: u64,
        /// What tells the pause from others of this group.
        number: u64,
    },
    /// End that.
    EndPause {
        /// Which.
        server: Address,
        /// Which pause.
        number: u64,
    },
}

impl Step {
    /// The server that it is for, if it is for one.
    #[must_use]
    pub fn server(&self) -> Option<&Address> {
        match self {
            Self::Tell { server }
            | Self::Follow { server, .. }
            | Self::Promote { server }
            | Self::Count { server, .. }
            | Self::Pause { server, .. }
            | Self::EndPause { server, .. } => Some(server),
            Self::WriteInSync(_) | Self::Elect { .. } | Self::Renew { .. } => None,
        }
    }
}

/// What is known of a server.
#[derive(Clone, Debug, Default)]
struct Member {
    last: Option<Observation>,
    /// Its process has ended since it was last heard of.
    exited_at: Option<u64>,
    /// Its process has ended: until then others are preferred, even if it is there again.
    succession_until: u64,
    /// Until when its commands wait, by what it has confirmed.
    paused_until: u64,
    /// Since when it has said, again and again, that it has lost its master.
    unlinked_since: Option<u64>,
}

/// Looks after one group.
#[derive(Clone, Debug)]
pub struct Keeper {
    group: GroupId,
    patience: Patience,
    members: BTreeMap<Address, Member>,
    began_at: u64,
    polled_at: u64,
    config_epoch: Epoch,
    /// The leader's term, as it was polled last.
    term: u64,
    /// The cluster's epoch: a server that learns of a new one lets the commands go on that waited.
    epoch: Epoch,
    /// Pauses that were asked for before do not count.
    pauses_from: u64,
    joining: in_sync::Joining,
    hand_over: Option<hand_over::HandOver>,
    last_resort: Option<giving_up::LastResort>,
    promises: votes::Promises,
    /// Voters are to promise something now.
    is_asking: bool,
    /// The master gets no votes: slots are on their way.
    is_held: bool,
    redis: redis::RedisState,
    backoff: backoff::Backoff,
    proof: proof::Proof,
    heights: fallen::SeenHeights,
    /// The master of a group of Redis servers.
    redis_master: Option<Address>,
}

/// What the coordinator says, as far as a keeper has to know it.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Who of the group is in sync.
    pub in_sync: &'a InSync,
    /// The voters' present runs.
    pub incarnations: &'a BTreeMap<String, Incarnation>,
    /// The leader's term.
    pub term: u64,
    /// Since when most voters listen to this leader ([`crate::ballot::Belief`]).
    pub believed_since: Option<u64>,
    /// How far the group's servers were, as voters remember it.
    pub heights: Option<&'a Heights>,
}

impl Keeper {
    /// A keeper that knows nothing of what was before.
    #[must_use]
    pub fn new(group: GroupId, patience: Patience, now: u64) -> Self {
        Self {
            group,
            patience,
            members: BTreeMap::new(),
            began_at: now,
            polled_at: now,
            config_epoch: 0,
            term: 0,
            epoch: 0,
            pauses_from: now,
            joining: in_sync::Joining::default(),
            hand_over: None,
            last_resort: None,
            promises: votes::Promises::default(),
            is_asking: false,
            is_held: false,
            redis: redis::RedisState::default(),
            backoff: backoff::Backoff::default(),
            proof: proof::Proof::default(),
            heights: fallen::SeenHeights::default(),
            redis_master: None,
        }
    }

    /// The epoch in which the master became the master that was looked at last.
    #[must_use]
    pub fn config_epoch(&self) -> Epoch {
        self.config_epoch
    }

    fn member(&mut self, server: &Address) -> &mut Member {
        self.members.entry(server.clone()).or_default()
    }

    /// Another server is at an address now, or nobody: what was heard there is not about it.
    pub(crate) fn forget_server(&mut self, server: &Address) {
        self.members.remove(server);
        self.heights.forget(server);
    }

    /// A server has answered.
    pub fn handle_observed(&mut self, server: &Address, observation: Observation) {
        let is_other = |last: &Observation| !last.run.is_empty() && last.run != observation.run;
        let began_anew = self.members.get(server).and_then(|member| member.last.as_ref()).is_some_and(is_other);
        let member = self.member(server);
        // Answers come in the order of questions, but for those that a connection of before has left.
        if member.last.as_ref().is_some_and(|last| last.asked_at > observation.asked_at) {
            return;
        }
        member.exited_at = member.exited_at.filter(|exited| *exited > observation.asked_at);
        // Its host may have been switched off and on: what it has on its disk may be less than it had.
        if member.last.as_ref().is_some_and(|last| last.run != observation.run) {
            member.succession_until = member.succession_until.max(observation.answered_at + SUCCESSION_MS);
            // A pause goes with its process.
            member.paused_until = 0;
        }
        let is_unlinked = matches!(observation.role, Role::Replica { is_linked: false, .. });
        member.unlinked_since = is_unlinked.then(|| member.unlinked_since.unwrap_or(observation.answered_at));
        let answered_at = observation.answered_at;
        member.last = Some(observation);
        if began_anew {
            self.note_redis_began_anew(server, answered_at);
        }
    }

    /// The process of a server has ended, as its host says. Votes for this run of it count no more.
    pub fn handle_exited(&mut self, server: &Address, run: Option<&str>, now: u64) {
        if let Some(run) = run {
            self.note_ended(run, now);
        }
        let member = self.member(server);
        *member = Member { exited_at: Some(now), succession_until: now + SUCCESSION_MS, ..Member::default() };
        self.note_redis_began_anew(server, now);
    }

    /// A run of a process has ended, some time ago: votes for it count no more.
    pub fn note_ended(&mut self, run: &str, now: u64) {
        self.promises.note_ended(run, now);
    }

    /// A server has confirmed that its commands wait until then.
    pub fn handle_paused(&mut self, server: &Address, number: u64, now: u64, until: u64) {
        if !self.hand_over.as_ref().is_some_and(|hand_over| hand_over.has_pause(self.term, number)) {
            return;
        }
        if until.saturating_sub(self.pause_ms()) < self.pauses_from {
            // Asked for in another epoch, or for another switch: that pause may be over by now.
            return;
        }
        self.member(server).paused_until = until;
        if let Some(hand_over) = &mut self.hand_over {
            hand_over.paused(server, now, until);
        }
    }

    /// Pauses that were asked for up to now are over, or may be.
    fn forget_pauses(&mut self, now: u64) {
        self.pauses_from = now + 1;
        self.members.values_mut().for_each(|member| member.paused_until = 0);
    }

    /// How long commands of a master wait that gives its place to another one.
    fn pause_ms(&self) -> u64 {
        self.patience.lease_ms + self.patience.margin_ms + self.patience.hand_over_ms
    }

    /// The group's master gets no votes while slots are handed to another group: its commands wait meanwhile.
    pub fn hold_leases(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// The last answer of a server, if it is not too long ago.
    #[must_use]
    pub fn fresh(&self, server: &Address, now: u64) -> Option<&Observation> {
        self.heard_within(server, now, self.patience.master_ms)
    }

    /// Whether the master has been silent for longer than it is waited for now.
    fn is_too_silent(&self, master: &Address, now: u64) -> bool {
        self.heard_within(master, now, self.backoff.patience_ms(self.patience.master_ms)).is_none()
    }

    fn heard_within(&self, server: &Address, now: u64, patience: u64) -> Option<&Observation> {
        let member = self.members.get(server)?;
        let last = member.last.as_ref().filter(|_| member.exited_at.is_none())?;
        (last.answered_at + patience >= now).then_some(last)
    }

    /// What is to be done now.
    pub fn poll_steps(&mut self, now: u64, situation: Situation<'_>) -> Vec<Step> {
        let cluster = situation.cluster;
        let Some(group) = cluster.groups.get(&self.group) else { return Vec::new() };
        (self.polled_at, self.term) = (now, situation.term);
        self.members.retain(|address, _| group.server(address).is_some());
        if self.config_epoch != group.config_epoch {
            self.config_epoch = group.config_epoch;
            self.backoff.note_changed(now);
            self.joining = in_sync::Joining::default();
            (self.hand_over, self.last_resort) = (None, None);
            self.promises.verdict = None;
            self.proof = proof::Proof::default();
            if !self.members.contains_key(&group.master) {
                // It is looked for at another address: it has time to answer there.
                self.began_at = now;
            }
            // The one that has taken the place is no successor of itself.
            self.member(&group.master).succession_until = 0;
        }
        if self.epoch != cluster.epoch {
            self.epoch = cluster.epoch;
            self.forget_pauses(now);
            if let Some(hand_over) = &mut self.hand_over {
                hand_over.paused_no_more();
            }
        }
        let in_sync = situation.in_sync.of(group);
        self.backoff.look(self.fresh(&group.master, now).is_none(), now, self.patience.master_ms);
        self.look_at_promises(cluster, situation.incarnations);
        self.look_at_heights(group, &in_sync, situation.heights);
        self.look_at_proof(now, group, &in_sync, situation.believed_since.is_some());
        let mut steps = Vec::new();
        self.steer_master(now, cluster, group, &in_sync, &mut steps);
        self.steer_replicas(now, (cluster, group, &in_sync), &mut steps);
        self.keep_in_sync(in_sync::Standing { now, situation: &situation, group, in_sync: &in_sync }, &mut steps);
        let is_handing_over = self.go_on_handing_over(now, group, &in_sync, &mut steps);
        let is_electing = !is_handing_over && self.elect_if_needed(now, group, &in_sync, &mut steps);
        self.set_ask(is_handing_over || is_electing || self.is_held, cluster, group);
        if !self.is_asking && self.promises.is_open(cluster.epoch) {
            let reason = format!("{} stays the master: it answers, or nobody can take its place", group.master);
            steps.push(Step::Renew { reason });
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
    }

    fn steer_replicas(&self, now: u64, (cluster, group, in_sync): (&Cluster, &Group, &InSync), steps: &mut Vec<Step>) {
        let follow = |server: &Address| Step::Follow {
            server: server.clone(),
            master: group.master.clone(),
            since: group.config_epoch,
            keeps: in_sync.members.contains(server) && !self.has_fallen(server),
        };
        let is_master_there = self.fresh(&group.master, now).is_some_and(|seen| seen.role == Role::Master);
        for server in group.replicas() {
            let Some(seen) = self.fresh(&server.address, now) else {
                // A master of the past may be unable to answer: it waits for acknowledgements that nobody will give. Told whom to follow,
                // it gives that up.
                if self.members.get(&server.address).is_some_and(|member| member.exited_at.is_none()) && is_master_there
                {
                    steps.push(Step::Tell { server: server.address.clone() });
                    steps.push(follow(&server.address));
                }
                continue;
            };
            if seen.epoch != cluster.epoch {
                steps.push(Step::Tell { server: server.address.clone() });
            }
            let follows = matches!(&seen.role, Role::Replica { master, .. } if *master == group.master);
            // What it keeps is of a master's time.
            let is_bound_to_another = seen.bond.is_some_and(|bond| bond.since != group.config_epoch);
            if (!follows || is_bound_to_another) && is_master_there {
                steps.push(follow(&server.address));
            }
        }
    }
}

impl InSync {
    /// What of it is about the group's present master.
    #[must_use]
    pub fn of(&self, group: &Group) -> Self {
        let is_present = self.config_epoch == group.config_epoch;
        // NOTE: one that is in the group no more counts until it is written down that it does not: it may be the only one that has a write.
        let (members, ack) = if is_present { (self.members.clone(), self.ack) } else { (Vec::new(), None) };
        Self { config_epoch: group.config_epoch, members, ack, serial: self.serial }
    }
}
