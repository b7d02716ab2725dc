//! Who of a group of Redis servers is the master. They know no lease and no epoch, so the promise is weaker than a store's:
//!
//! - proxies are told to send nothing to a master that is given up, and are waited for (see [`crate::fence`]), before another one is made
//!   the master. Whoever speaks to it without a proxy is not held up;
//! - a write that a replica has not got is lost with its master. `ack` sets `min-replicas-to-write`, so a master that is cut off from its
//!   replicas refuses writes after a while, and no more than that.
//!
//! - requests wait on until the new master knows that it is one: before, it refuses writes.
//!
//! Only a replica that followed the master while that was there last (`in sync`) takes its place: the one with the highest offset.

use super::{Count, Keeper, Role, Step};
use crate::model::{Address, Cluster, Group, InSync};

/// How long, in milliseconds, the best of all replicas is waited for when a master is gone.
const BEST_MS: u64 = 300;
/// How long a replica is looked for before a master that was started again, perhaps with less than it had, is taken back.
const GIVE_UP_MS: u64 = 5_000;

/// How long requests wait, in milliseconds, for a master that still follows somebody: one that does not obey can be read from at least.
const PROMOTION_MS: u64 = 5_000;

/// How many seconds a replica may be silent and count among those that a master needs.
const LAG_MAX_S: u32 = 5;

/// What a Redis is told, in words that it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisOrder {
    /// To refuse writes without so many replicas that were heard within so many seconds.
    NeedReplicas {
        /// How many.
        count: u32,
        /// Within how many seconds.
        lag_s: u32,
    },
    /// To follow a master, by what that lets it in by.
    Follow(Address),
    /// To follow nobody.
    FollowNobody,
    /// To have writes wait for so many milliseconds: by its number it is called here alone.
    Pause {
        /// For how long.
        ms: u64,
        /// Which.
        number: u64,
    },
    /// To have writes wait no longer. This is said once.
    EndPause,
}

impl RedisOrder {
    /// A step as a Redis is told of it: whom, and what, in this order; nothing if it is not for a server.
    #[must_use]
    pub fn of(step: &Step) -> Option<(&Address, Vec<Self>)> {
        let need = |count| Self::NeedReplicas { count, lag_s: LAG_MAX_S };
        Some(match step {
            // What waited there is refused now, and goes to the new master.
            Step::Follow { server, master, .. } => {
                (server, vec![Self::Follow(master.clone()), Self::EndPause, need(0)])
            }
            // Nobody follows it yet.
            Step::Promote { server } => (server, vec![need(0), Self::FollowNobody]),
            Step::Count { server, count, .. } => (server, vec![need(count.ack)]),
            Step::Pause { server, ms, number } => (server, vec![Self::Pause { ms: *ms, number: *number }]),
            Step::EndPause { server, .. } => (server, vec![Self::EndPause]),
            Step::Tell { .. } | Step::Renew { .. } | Step::WriteInSync(_) | Step::Elect { .. } => return None,
        })
    }
}

/// What a keeper knows of a group of Redis servers besides.
#[derive(Clone, Debug, Default)]
pub(super) struct RedisState {
    /// The master's process has ended, or is another one than before: its replicas may have more than it has.
    began_anew_at: Option<u64>,
    /// Requests to the group are to wait.
    wanted: Option<HoldReason>,
    /// Since when its master is known to follow somebody still.
    follows_since: Option<u64>,
    /// Until when the master may have writes wait that it was told to: the end of that may not have come to it.
    paused_until: u64,
}

/// Why requests to a group are to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// Its master is given up.
    GivenUp,
    /// Its master gives its place to a replica.
    HandOver,
    /// Its master does not know yet that it is one.
    Promotion,
}

impl Keeper {
    /// The process of a Redis has ended, or is another one than before, with what it had on its disk.
    pub(super) fn note_redis_began_anew(&mut self, server: &Address, now: u64) {
        if self.redis_master.as_ref() == Some(server) {
            self.redis.began_anew_at.get_or_insert(now);
        }
    }

    /// Whether a master of Redis servers may have writes wait that it has got: what proxies have sent is not done then.
    #[must_use]
    pub fn may_be_paused(&self, now: u64) -> bool {
        now < self.redis.paused_until
    }

    /// Whether requests to the group are to wait, and why.
    #[must_use]
    pub fn wants_hold(&self) -> Option<HoldReason> {
        self.redis.wanted
    }

    /// What is to be done now in a group of Redis servers. `held_since`: since when no proxy sends anything to it.
    pub fn poll_redis_steps(
        &mut self,
        now: u64,
        cluster: &Cluster,
        in_sync: &InSync,
        held_since: Option<u64>,
    ) -> Vec<Step> {
        let Some(group) = cluster.groups.get(&self.group) else { return Vec::new() };
        self.members.retain(|address, _| group.server(address).is_some());
        self.polled_at = now;
        self.redis_master = Some(group.master.clone());
        if self.config_epoch != group.config_epoch {
            self.config_epoch = group.config_epoch;
            self.backoff.note_changed(now);
            self.hand_over = None;
            self.redis = RedisState::default();
        }
        if let Some(exited) = self.members.get(&group.master).and_then(|member| member.exited_at) {
            self.redis.began_anew_at.get_or_insert(exited);
        }
        let in_sync = in_sync.of(group);
        self.backoff.look(self.fresh(&group.master, now).is_none(), now, self.patience.master_ms);
        let (mut steps, is_lost) = (Vec::new(), self.is_redis_lost(now, group, &in_sync));
        self.redis.wanted = None;
        if !is_lost {
            self.steer_redis(now, group, &in_sync, &mut steps);
            self.keep_redis_in_sync(now, group, &in_sync, &mut steps);
        }
        if is_lost {
            self.hand_over = None;
            self.redis.wanted = Some(HoldReason::GivenUp);
            self.elect_redis(now, group, &in_sync, held_since, &mut steps);
        } else if self.hand_over.is_some() {
            self.hand_redis_over(now, group, &in_sync, held_since, &mut steps);
        }
        if self.is_redis_promoted(now, group) {
            self.redis.follows_since = None;
        } else if self.redis.wanted.is_none() {
            self.redis.wanted = Some(HoldReason::Promotion);
        }
        steps
    }

    /// Whether nothing waits for the master to become one, as far as that is known.
    fn is_redis_promoted(&mut self, now: u64, group: &Group) -> bool {
        let follows = self.fresh(&group.master, now).map(|seen| seen.role != Role::Master);
        if follows == Some(true) {
            self.redis.follows_since.get_or_insert(now);
        }
        // One that says nothing for a moment has not become one.
        follows == Some(false) || self.redis.follows_since.is_none_or(|since| now >= since + PROMOTION_MS)
    }

    /// Whether the master is given up, and somebody may take its place.
    fn is_redis_lost(&mut self, now: u64, group: &Group, in_sync: &InSync) -> bool {
        if in_sync.members.is_empty() {
            self.redis.began_anew_at = None;
            return false;
        }
        if let Some(at) = self.redis.began_anew_at {
            if now < at + GIVE_UP_MS {
                return true;
            }
            self.redis.began_anew_at = None;
        }
        self.is_too_silent(&group.master, now) && now >= self.began_at + self.patience.master_ms
    }

    fn steer_redis(&mut self, now: u64, group: &Group, in_sync: &InSync, steps: &mut Vec<Step>) {
        let Some(master) = self.fresh(&group.master, now).cloned() else { return };
        let wanted = group.ack.min(u32::try_from(in_sync.members.len()).unwrap_or(u32::MAX));
        if master.counting.as_ref().map(|counting| counting.count.ack) != Some(wanted) {
            // Which replicas those are it cannot be told.
            let count = Count { ack: wanted, members: Vec::new() };
            steps.push(Step::Count { server: group.master.clone(), serial: 0, count });
        }
        if master.role != Role::Master {
            steps.push(Step::Promote { server: group.master.clone() });
            return;
        }
        for server in group.replicas() {
            let Some(seen) = self.fresh(&server.address, now) else { continue };
            if !matches!(&seen.role, Role::Replica { master, .. } if *master == group.master) {
                let (server, master) = (server.address.clone(), group.master.clone());
                steps.push(Step::Follow { server, master, since: group.config_epoch, keeps: false });
            }
        }
    }

    fn keep_redis_in_sync(&mut self, now: u64, group: &Group, in_sync: &InSync, steps: &mut Vec<Step>) {
        // While the master is silent those in sync may be needed to take its place.
        if self.fresh(&group.master, now).is_none_or(|seen| seen.role != Role::Master) {
            return;
        }
        let is_linked = |server: &Address| {
            let seen = self.heard_within(server, now, self.patience.replica_ms);
            seen.is_some_and(
                |seen| matches!(&seen.role, Role::Replica { master, is_linked: true } if *master == group.master),
            )
        };
        let members: Vec<Address> = group.replicas().map(|server| server.address.clone()).filter(is_linked).collect();
        let is_same = members.len() == in_sync.members.len() && members.iter().all(|one| in_sync.members.contains(one));
        if !is_same {
            let serial = in_sync.serial + 1;
            steps.push(Step::WriteInSync(InSync { config_epoch: group.config_epoch, members, ack: None, serial }));
        }
    }

    fn elect_redis(
        &mut self,
        now: u64,
        group: &Group,
        in_sync: &InSync,
        held_since: Option<u64>,
        steps: &mut Vec<Step>,
    ) {
        let Some(held_since) = held_since else { return };
        // What they said before may not be all that they have got of it.
        let heard: Vec<(&Address, u64)> = in_sync
            .members
            .iter()
            .filter_map(|member| self.fresh(member, now).map(|seen| (member, seen)))
            .filter(|(_, seen)| seen.asked_at >= held_since && seen.role != Role::Master)
            .map(|(member, seen)| (member, seen.offset))
            .collect();
        if heard.len() < in_sync.members.len() && now < held_since + BEST_MS {
            return;
        }
        if let Some((best, offset)) = heard.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0))) {
            let best = best.clone();
            let has_ended = self.redis.began_anew_at.is_some();
            self.backoff.note_chosen(!has_ended);
            let what = if has_ended { "has ended" } else { "does not answer" };
            let reason = format!("{} {what}; {best} has most of what it had (offset {offset})", group.master);
            steps.push(Step::Elect { master: best, reason, may_lose: false });
        }
    }

    /// A master gives its place to a replica while both are well: proxies hold requests, others' writes wait by `CLIENT PAUSE`, the
    /// replica gets what is left.
    fn hand_redis_over(
        &mut self,
        now: u64,
        group: &Group,
        in_sync: &InSync,
        held_since: Option<u64>,
        steps: &mut Vec<Step>,
    ) {
        let Some((to, began_at, paused_at)) = self.hand_over.as_ref().map(super::hand_over::HandOver::parts) else {
            return;
        };
        let is_too_late = now >= began_at + self.patience.hand_over_ms;
        if is_too_late || self.fresh(&group.master, now).is_none() || !in_sync.members.contains(&to) {
            self.hand_over = None;
            steps.push(Step::EndPause { server: group.master.clone(), number: 0 });
            return;
        }
        self.redis.wanted = Some(HoldReason::HandOver);
        let Some(held_since) = held_since else { return };
        let Some(paused_at) = paused_at else {
            // Orders may be on their way for as long as an answer is waited for.
            self.redis.paused_until = now + self.pause_ms() + self.patience.master_ms;
            // NOTE: as long as a store's: when it was asked for is told by its end.
            steps.push(Step::Pause { server: group.master.clone(), ms: self.pause_ms(), number: 0 });
            return;
        };
        let since = held_since.max(paused_at);
        let goal = self.fresh(&group.master, now).filter(|seen| seen.asked_at >= since && seen.role == Role::Master);
        // One that was started again since, perhaps with less, says so.
        let follows = |seen: &&super::Observation| {
            let is_linked = matches!(&seen.role, Role::Replica { master, is_linked: true } if *master == group.master);
            is_linked && seen.asked_at >= since
        };
        if let (Some(goal), Some(seen)) = (goal, self.fresh(&to, now).filter(follows))
            && seen.offset >= goal.offset
        {
            self.backoff.note_chosen(false);
            let reason = format!("{to} was asked for as the master");
            steps.push(Step::Elect { master: to, reason, may_lose: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        change::tests::redis,
        keeper::{Counting, Observation, Patience},
        model::ServerKind,
    };

    fn address(port: u16) -> Address {
        Address::new("127.0.0.1", port)
    }

    fn cluster() -> Cluster {
        let servers = vec![redis(1), redis(2), redis(3)];
        let cluster = Cluster::default().with_group(1, servers, 1).unwrap();
        assert_eq!(cluster.groups[&1].kind(), ServerKind::Redis);
        cluster
    }

    fn says(keeper: &mut Keeper, port: u16, at: u64, role: Role, offset: u64) {
        says_as(keeper, (port, "r"), at, role, offset);
    }

    fn says_as(keeper: &mut Keeper, (port, run): (u16, &str), at: u64, role: Role, offset: u64) {
        let seen = Observation {
            asked_at: at,
            answered_at: at,
            role,
            offset,
            durable: 0,
            epoch: 1,
            counting: Some(Counting {
                count: Count { ack: u32::from(port == 1), ..Count::default() },
                ..Counting::default()
            }),
            followers: Vec::new(),
            run: run.into(),
            serves: true,
            pauses: Vec::new(),
            bond: None,
            histories: Vec::new(),
        };
        keeper.handle_observed(&address(port), seen);
    }

    fn follows(port: u16) -> Role {
        Role::Replica { master: address(port), is_linked: true }
    }

    fn in_sync(members: &[u16]) -> InSync {
        let members = members.iter().map(|port| address(*port)).collect();
        InSync { config_epoch: 1, members, ack: None, serial: 1 }
    }

    fn all_well(keeper: &mut Keeper, at: u64) {
        says(keeper, 1, at, Role::Master, 100);
        says(keeper, 2, at, follows(1), 90);
        says(keeper, 3, at, follows(1), 95);
    }

    fn elected(steps: &[Step]) -> Option<Address> {
        steps.iter().find_map(|step| match step {
            Step::Elect { master, .. } => Some(master.clone()),
            _ => None,
        })
    }

    #[test]
    fn a_silent_master_is_replaced_by_the_replica_with_most_once_no_proxy_sends_to_it() {
        let (cluster, mut keeper) = (cluster(), Keeper::new(1, Patience::default(), 0));
        all_well(&mut keeper, 10);
        let steps = keeper.poll_redis_steps(10, &cluster, &InSync::default(), None);
        assert!(steps.contains(&Step::WriteInSync(in_sync(&[2, 3]))), "{steps:?}");
        all_well(&mut keeper, 2_000);
        assert_eq!(keeper.poll_redis_steps(2_000, &cluster, &in_sync(&[2, 3]), None), []);
        assert_eq!(keeper.wants_hold(), None);
        // It says nothing any more.
        says(&mut keeper, 2, 3_100, follows(1), 101);
        says(&mut keeper, 3, 3_100, follows(1), 99);
        assert_eq!(keeper.poll_redis_steps(3_101, &cluster, &in_sync(&[2, 3]), None), []);
        assert_eq!(keeper.wants_hold(), Some(HoldReason::GivenUp));
        // What the replicas said before the proxies had stopped does not count: they may have got more.
        assert_eq!(keeper.poll_redis_steps(3_150, &cluster, &in_sync(&[2, 3]), Some(3_140)), []);
        says(&mut keeper, 2, 3_160, follows(1), 101);
        says(&mut keeper, 3, 3_160, follows(1), 103);
        let steps = keeper.poll_redis_steps(3_161, &cluster, &in_sync(&[2, 3]), Some(3_140));
        assert_eq!(elected(&steps), Some(address(3)));
        // The new one is promoted, and the others follow it once it is the master.
        let next = cluster.with_master(1, &address(3)).unwrap();
        let steps = keeper.poll_redis_steps(3_170, &next, &in_sync(&[2, 3]), None);
        assert_eq!(steps, [Step::Promote { server: address(3) }]);
        assert_eq!(keeper.wants_hold(), Some(HoldReason::Promotion));
        says(&mut keeper, 3, 3_200, Role::Master, 103);
        says(&mut keeper, 1, 3_200, Role::Master, 120);
        let steps = keeper.poll_redis_steps(3_201, &next, &in_sync(&[]), None);
        for server in [1, 2] {
            let follow = Step::Follow { server: address(server), master: address(3), since: 2, keeps: false };
            assert!(steps.contains(&follow), "{steps:?}");
        }
        assert_eq!(keeper.wants_hold(), None);
    }

    #[test]
    fn requests_wait_until_the_new_master_is_one_and_not_for_ever() {
        let (cluster, mut keeper) = (cluster(), Keeper::new(1, Patience::default(), 0));
        let mut wanted = |at: u64, role: Role| {
            says(&mut keeper, 1, at, role, 100);
            keeper.poll_redis_steps(at, &cluster, &in_sync(&[2, 3]), None);
            keeper.wants_hold()
        };
        assert_eq!(wanted(10, follows(2)), Some(HoldReason::Promotion));
        assert_eq!(wanted(4_900, follows(2)), Some(HoldReason::Promotion));
        assert_eq!(wanted(5_010, follows(2)), None, "it does not obey, and has what can be read");
        assert_eq!(wanted(5_020, Role::Master), None);
        assert_eq!(wanted(5_030, follows(2)), Some(HoldReason::Promotion));
    }

    #[test]
    fn a_master_that_was_started_again_does_not_empty_its_replicas() {
        let (cluster, mut keeper) = (cluster(), Keeper::new(1, Patience::default(), 0));
        all_well(&mut keeper, 2_000);
        keeper.poll_redis_steps(2_000, &cluster, &in_sync(&[2, 3]), None);
        says_as(&mut keeper, (1, "another"), 2_010, Role::Master, 0);
        keeper.poll_redis_steps(2_010, &cluster, &in_sync(&[2, 3]), None);
        assert_eq!(keeper.wants_hold(), Some(HoldReason::GivenUp));
        says(&mut keeper, 2, 2_030, Role::Replica { master: address(1), is_linked: false }, 90);
        says(&mut keeper, 3, 2_030, Role::Replica { master: address(1), is_linked: false }, 95);
        let steps = keeper.poll_redis_steps(2_031, &cluster, &in_sync(&[2, 3]), Some(2_025));
        assert_eq!(elected(&steps), Some(address(3)));
        // A group without a replica waits for its master.
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        keeper.poll_redis_steps(2_000, &cluster, &in_sync(&[]), None);
        says(&mut keeper, 1, 2_005, Role::Master, 0);
        says_as(&mut keeper, (1, "another"), 2_010, Role::Master, 0);
        keeper.poll_redis_steps(9_000, &cluster, &in_sync(&[]), None);
        assert_eq!(keeper.wants_hold(), None);
    }

    #[test]
    fn a_master_gives_its_place_when_the_replica_has_everything() {
        let (cluster, mut keeper) = (cluster(), Keeper::new(1, Patience::default(), 0));
        let group = cluster.groups[&1].clone();
        all_well(&mut keeper, 2_000);
        keeper.poll_redis_steps(2_000, &cluster, &in_sync(&[2, 3]), None);
        keeper.hand_over(&address(2), &group, &in_sync(&[2, 3]), 2_000).unwrap();
        assert_eq!(keeper.poll_redis_steps(2_001, &cluster, &in_sync(&[2, 3]), None), []);
        assert_eq!(keeper.wants_hold(), Some(HoldReason::HandOver));
        let steps = keeper.poll_redis_steps(2_010, &cluster, &in_sync(&[2, 3]), Some(2_009));
        assert!(matches!(steps.as_slice(), [Step::Pause { .. }]), "{steps:?}");
        keeper.handle_paused(&address(1), 0, 2_020, 5_000);
        assert_eq!(keeper.poll_redis_steps(2_021, &cluster, &in_sync(&[2, 3]), Some(2_009)), []);
        says(&mut keeper, 1, 2_030, Role::Master, 120);
        says(&mut keeper, 2, 2_030, follows(1), 119);
        assert_eq!(keeper.poll_redis_steps(2_031, &cluster, &in_sync(&[2, 3]), Some(2_009)), []);
        says(&mut keeper, 2, 2_040, follows(1), 120);
        let steps = keeper.poll_redis_steps(2_041, &cluster, &in_sync(&[2, 3]), Some(2_009));
        assert_eq!(elected(&steps), Some(address(2)));
        // One that takes too long is given up, and the master goes on.
        let mut late = keeper.clone();
        let steps = late.poll_redis_steps(2_900, &cluster, &in_sync(&[3]), Some(2_009));
        assert!(steps.contains(&Step::EndPause { server: address(1), number: 0 }), "{steps:?}");
        assert_eq!(late.wants_hold(), None);
    }
}
