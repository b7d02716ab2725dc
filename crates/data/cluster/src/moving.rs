//! What there is to be seen of a range of slots on its way: out of what keepers know of the two groups, who promised what, and what is held
//! at proxies. So whoever moves slots, the agent or the simulation, sees the same and does the same.

use std::collections::BTreeMap;

use crate::{
    fence::{Cause, Fence},
    keeper::{Keeper, Observation, Patience, Role},
    migration::{CopyProgress, Migration, MoveStep, MoveView, SourceSeen, TargetCopies, TargetSeen},
    model::{Address, Cluster, GroupId, ServerKind},
    slots::Phase,
};

/// How long requests to a Redis wait at the proxies at most, once these have been heard, in milliseconds.
const HELD_MAX_MS: u64 = 10_000;

/// All that a move is decided by.
#[derive(Clone, Copy, Debug)]
pub struct Landscape<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Who looks after its groups.
    pub keepers: &'a BTreeMap<GroupId, Keeper>,
    /// What proxies hold.
    pub fence: &'a Fence,
    /// How patient keepers are.
    pub patience: Patience,
    /// Whether slots can be copied.
    pub can_copy: bool,
    /// The number that a pause would have: it tells it from all others, of other leaders too.
    pub pause_number: u64,
}

impl<'a> Landscape<'a> {
    /// The master of a group, and what it has said lately.
    fn seen(&self, group: GroupId, now: u64) -> Option<(&'a Address, Option<&'a Observation>)> {
        let master = &self.cluster.groups.get(&group)?.master;
        Some((master, self.keepers.get(&group).and_then(|keeper| keeper.fresh(master, now))))
    }

    /// What is to be done about a range now.
    pub fn poll(&self, machine: &mut Migration, now: u64, phase: Phase, copy: Option<&CopyProgress>) -> Vec<MoveStep> {
        let what = machine.what();
        let (Some((source, from)), Some((target, to))) = (self.seen(what.from, now), self.seen(what.to, now)) else {
            return Vec::new();
        };
        let Self { cluster, keepers, fence, .. } = *self;
        let keeper = keepers.get(&what.from);
        let kind = cluster.groups.get(&what.from).map_or(ServerKind::Store, crate::Group::kind);
        let is_store = kind.is_store();
        if let Some(held_at) = fence.done_at(Cause::Move(what.slots.first)) {
            machine.handle_held(held_at, held_at + HELD_MAX_MS);
        }
        let lease_until = match is_store {
            true => keeper.map_or(u64::MAX, |keeper| keeper.lease_until(cluster.epoch)),
            // It has none: proxies are waited for instead.
            false => now,
        };
        let others_until = match (is_store, keeper, from) {
            (true, Some(keeper), Some(seen)) => keeper.other_leases_until(cluster.epoch, &seen.run),
            (true, _, _) => u64::MAX,
            (false, _, _) => now,
        };
        let is_changing = [what.from, what.to].iter().any(|group| fence.holds(Cause::Master(*group)));
        let view = MoveView {
            source,
            target,
            both_serve: from.is_some() && to.is_some() && self.can_copy && !is_changing,
            copy,
            seen: from.map(|seen| SourceSeen {
                asked_at: seen.asked_at,
                offset: seen.offset,
                pauses: is_store.then_some(&seen.pauses),
            }),
            lease_left_ms: (lease_until != u64::MAX).then(|| lease_until.saturating_sub(now)),
            other_leases_ms: (others_until != u64::MAX).then(|| others_until.saturating_sub(now)),
            may_pause: keeper.is_none_or(|keeper| keeper.handing_over_to().is_none() && !keeper.may_be_paused(now)),
            pause_number: self.pause_number,
            target_seen: to.map(|seen| TargetSeen {
                run: &seen.run,
                serves: seen.serves,
                is_told: seen.epoch >= cluster.epoch,
            }),
            fence_ms: if is_store { 0 } else { self.patience.lease_ms + self.patience.margin_ms },
            target_copies: self.target_copies(what.to, to, now),
        };
        machine.poll_steps(now, phase, &view)
    }

    /// What the replicas of a Redis have that is to get slots, if some must have all.
    fn target_copies(&self, id: GroupId, master: Option<&Observation>, now: u64) -> Option<TargetCopies> {
        let group = self.cluster.groups.get(&id).filter(|group| !group.kind().is_store() && group.ack > 0)?;
        let keeper = self.keepers.get(&id);
        let seen = group.replicas().filter_map(|server| keeper?.fresh(&server.address, now));
        let following = seen
            .filter(|seen| matches!(&seen.role, Role::Replica { master, is_linked: true } if *master == group.master));
        Some(TargetCopies {
            needed: usize::try_from(group.ack).unwrap_or(usize::MAX),
            master: master.map(|seen| (seen.asked_at, seen.offset)),
            replicas: following.map(|seen| seen.offset).collect(),
        })
    }
}
