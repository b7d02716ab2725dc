//! Which slots move so that groups have the same share, with the fewest moves.

use std::collections::BTreeMap;

use crate::{
    change::Refusal,
    model::{Cluster, GroupId},
    slots::{SLOTS, SlotRange, SlotState},
};

pub use crate::slots::Move;

/// The most slots that move at once: a move that fails late has less to do again.
const MOVE_MAX: u16 = 1_024;

/// The moves that bring some slots to a group. Those that it has already stay.
///
/// # Errors
///
/// Some are served by nobody, or on their way.
pub fn to_group(cluster: &Cluster, slots: SlotRange, to: GroupId) -> Result<Vec<Move>, Refusal> {
    let slots = SlotRange::new(slots.first, slots.last)?;
    if !cluster.groups.contains_key(&to) {
        return Err(Refusal::NoGroup(to));
    }
    let mut moving = Vec::new();
    for slot in slots.iter() {
        match cluster.slots.state(slot) {
            SlotState::Online { group } if group == to => {}
            SlotState::Online { group } => moving.push((slot, group, to)),
            other => {
                let problem = other.after(crate::slots::SlotEvent::Begin(to)).err();
                return Err(problem.map_or(Refusal::MovesUnderWay(slots), |problem| Refusal::Slot { slot, problem }));
            }
        }
    }
    Ok(joined(moving))
}

/// The moves after which a group has no slots: they are spread over the others, so that those have the same share, or nearly.
///
/// # Errors
///
/// Slots are on their way, or there is no such group, or no other one.
pub fn drain(cluster: &Cluster, group: GroupId) -> Result<Vec<Move>, Refusal> {
    if !cluster.groups.contains_key(&group) {
        return Err(Refusal::NoGroup(group));
    }
    if let Some((one, _)) = cluster.moving().first() {
        return Err(Refusal::MovesUnderWay(one.slots));
    }
    let others = cluster.groups.keys().filter(|id| **id != group);
    let counts: BTreeMap<GroupId, u16> = others.map(|id| (*id, cluster.slots.count_of(*id))).collect();
    let owned: Vec<u16> = (0..SLOTS).filter(|slot| cluster.slots.owner(*slot) == Some(group)).collect();
    let mut moving = Vec::new();
    let mut rest = owned.as_slice();
    // Each gets one run of them, so that there are few moves.
    for (id, count) in shares(&counts, owned.len()) {
        let (run, left) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        moving.extend(run.iter().map(|slot| (*slot, group, id)));
        rest = left;
    }
    if rest.is_empty() { Ok(joined(moving)) } else { Err(Refusal::OnlyGroup(group)) }
}

/// How many of some slots each group gets, by what it has.
fn shares(counts: &BTreeMap<GroupId, u16>, slots: usize) -> BTreeMap<GroupId, usize> {
    let mut counts = counts.clone();
    let mut shares = BTreeMap::new();
    for _ in 0..slots {
        let Some((id, count)) = counts.iter_mut().min_by_key(|(id, count)| (**count, **id)) else { break };
        *count += 1;
        *shares.entry(*id).or_insert(0) += 1;
    }
    shares
}

/// What groups are to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// How much of the whole a group is to have beside the others, where that is not [`Goal::ONE`]; 0: nothing.
    pub shares: BTreeMap<GroupId, u64>,
    /// By how many thousandths a group may miss its share. The closer, the more moves.
    pub tolerance: u64,
}

impl Goal {
    /// The share of a group of which nothing was said.
    pub const ONE: u64 = 1_000;

    fn share(&self, group: GroupId) -> u64 {
        self.shares.get(&group).copied().unwrap_or(Self::ONE)
    }
}

/// The moves after which groups have their shares of the weight of all slots, or nearly. A group gives or gets, never both, and gives
/// its heaviest slots that fit: so few slots move. With weights that are all the same shares are exact, and no plan moves fewer.
///
/// # Errors
///
/// Slots are on their way, or there is no group that is to have any.
pub fn rebalance(cluster: &Cluster, weight: impl Fn(u16) -> u64, goal: &Goal) -> Result<Vec<Move>, Refusal> {
    if let Some((one, _)) = cluster.moving().first() {
        return Err(Refusal::MovesUnderWay(one.slots));
    }
    if let Some(group) = goal.shares.keys().find(|group| !cluster.groups.contains_key(group)) {
        return Err(Refusal::NoGroup(*group));
    }
    if cluster.groups.keys().all(|group| goal.share(*group) == 0) {
        return Err(Refusal::NoGroups);
    }
    let mut slots: BTreeMap<GroupId, Vec<u16>> = cluster.groups.keys().map(|id| (*id, Vec::new())).collect();
    for slot in 0..SLOTS {
        if let Some(owned) = cluster.slots.owner(slot).and_then(|owner| slots.get_mut(&owner)) {
            owned.push(slot);
        }
    }
    let loads: BTreeMap<GroupId, u64> =
        slots.iter().map(|(id, slots)| (*id, slots.iter().map(|slot| weight(*slot)).sum())).collect();
    let goals = goals(&loads, goal);
    let wanted = |id: GroupId| goals.get(&id).copied().unwrap_or(0);
    let slack = |id: GroupId| (u128::from(wanted(id)) * u128::from(goal.tolerance) / 1_000) as u64;
    let is_to_be_empty = |id: GroupId| goal.share(id) == 0 && cluster.slots.count_of(id) > 0;
    let mut givers: Vec<(GroupId, u64)> = Vec::new();
    let mut takers: Vec<(GroupId, u64)> = Vec::new();
    for (id, load) in &loads {
        let wanted = wanted(*id);
        if *load > wanted + slack(*id) || is_to_be_empty(*id) {
            givers.push((*id, load - wanted));
        } else if goal.share(*id) > 0 && *load <= wanted {
            takers.push((*id, wanted - load));
        }
    }
    // Nobody has too much, but somebody too little: the others give.
    if givers.is_empty() && takers.iter().any(|(id, missing)| *missing > slack(*id)) {
        givers = loads
            .iter()
            .filter(|(id, load)| **load > wanted(**id))
            .map(|(id, load)| (*id, load - wanted(*id)))
            .collect();
    }
    let mut moving = Vec::new();
    for (from, mut excess) in givers {
        let mut owned = slots.remove(&from).unwrap_or_default();
        // The heaviest first; of those that weigh the same the last, so that runs stay together.
        owned.sort_by_key(|slot| (std::cmp::Reverse(weight(*slot)), std::cmp::Reverse(*slot)));
        for (to, missing) in &mut takers {
            owned.retain(|slot| {
                let own = weight(*slot);
                let fits = own > 0 && own <= excess && own <= *missing;
                if fits {
                    moving.push((*slot, from, *to));
                    (excess, *missing) = (excess - own, *missing - own);
                }
                !fits
            });
        }
        if goal.share(from) == 0 {
            // What is left goes to those who miss most, whatever it weighs; if nobody misses anything, to those with the fewest slots.
            let mut counts: BTreeMap<GroupId, u16> =
                takers.iter().map(|(id, _)| (*id, cluster.slots.count_of(*id))).collect();
            for slot in owned.into_iter().rev() {
                let count = |id: &GroupId| counts.get(id).copied().unwrap_or(0);
                let most = takers.iter_mut().max_by_key(|(id, missing)| (*missing, std::cmp::Reverse(count(id))));
                let Some((to, missing)) = most else { break };
                counts.entry(*to).and_modify(|count| *count += 1);
                moving.push((slot, from, *to));
                *missing = missing.saturating_sub(weight(slot));
            }
        }
    }
    moving.sort_unstable();
    Ok(joined(moving))
}

/// What each group is to have, in whole numbers: what is left over goes to those who have most already.
fn goals(loads: &BTreeMap<GroupId, u64>, goal: &Goal) -> BTreeMap<GroupId, u64> {
    let total: u64 = loads.values().sum();
    let shares: u64 = loads.keys().map(|id| goal.share(*id)).sum();
    let part = |id: &GroupId| (u128::from(total) * u128::from(goal.share(*id)) / u128::from(shares.max(1))) as u64;
    let mut goals: BTreeMap<GroupId, u64> = loads.keys().map(|id| (*id, part(id))).collect();
    let mut left = total - goals.values().sum::<u64>();
    let mut by_load: Vec<(u64, GroupId)> = loads.iter().map(|(id, load)| (*load, *id)).collect();
    by_load.sort_unstable();
    for (_, id) in by_load.into_iter().rev().filter(|(_, id)| goal.share(*id) > 0) {
        if let Some(goal) = goals.get_mut(&id).filter(|_| left > 0) {
            *goal += 1;
            left -= 1;
        }
    }
    goals
}

/// Slots behind each other with the same way become one move, up to a size.
pub(crate) fn joined(moving: Vec<(u16, GroupId, GroupId)>) -> Vec<Move> {
    let mut moves: Vec<Move> = Vec::new();
    for (slot, from, to) in moving {
        match moves.last_mut() {
            Some(last)
                if last.slots.last + 1 == slot
                    && (last.from, last.to) == (from, to)
                    && last.slots.count() < MOVE_MAX =>
            {
                last.slots.last = slot;
            }
            _ => moves.push(Move { slots: SlotRange { first: slot, last: slot }, from, to }),
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        change::tests::{server, two_groups},
        slots::SlotEvent,
    };

    fn done(mut cluster: Cluster, moves: &[Move]) -> Cluster {
        cluster = cluster.with_moves(moves).unwrap();
        for event in [SlotEvent::Start, SlotEvent::Switch, SlotEvent::Cleared] {
            for one in moves {
                cluster = cluster.with_slots(one.slots, event).unwrap();
            }
        }
        cluster
    }

    #[test]
    fn a_new_group_gets_its_share_and_no_slot_more_moves() {
        let cluster = two_groups().with_group(3, vec![server(5)], 0).unwrap();
        let moves = rebalance(&cluster, |_| 1, &Goal::default()).unwrap();
        let moved: u16 = moves.iter().map(|one| one.slots.count()).sum();
        assert!(moves.iter().all(|one| one.to == 3));
        assert_eq!(moved, 5_461);
        let after = done(cluster, &moves);
        let counts: Vec<u16> = [1, 2, 3].iter().map(|id| after.slots.count_of(*id)).collect();
        assert_eq!(counts, [5_461, 5_462, 5_461]);
        assert!(rebalance(&after, |_| 1, &Goal::default()).unwrap().is_empty());
        assert!(moves.len() < 16, "{}", moves.len());
    }

    #[test]
    fn weights_count_not_numbers() {
        let cluster = two_groups();
        // All that is heavy is in group 1.
        let weight = |slot: u16| if slot < 4 { 1_000 } else { 1 };
        let after = done(cluster.clone(), &rebalance(&cluster, weight, &Goal::default()).unwrap());
        let load = |id| (0..SLOTS).filter(|slot| after.slots.owner(*slot) == Some(id)).map(weight).sum::<u64>();
        assert!(load(1).abs_diff(load(2)) <= 1, "{} {}", load(1), load(2));
    }

    #[test]
    fn shares_tolerance_and_few_moves() {
        let cluster = two_groups().with_group(3, vec![server(5)], 0).unwrap();
        let by =
            |shares: &[(GroupId, u64)], tolerance: u64| Goal { shares: shares.iter().copied().collect(), tolerance };
        let heavy = |slot: u16| u64::from(slot < 100) * 50;
        for (goal, weight, loads, slots_max) in [
            (by(&[], 0), &(|_| 1_u64) as &dyn Fn(u16) -> u64, [5_461, 5_462, 5_461], 5_461),
            (by(&[(3, 2_000)], 0), &|_| 1_u64, [4_096, 4_096, 8_192], 8_192),
            (by(&[(1, 0)], 0), &|_| 1_u64, [0, 8_192, 8_192], 8_192),
            // All that weighs something is in slots 0 to 99 of group 1: of them alone some move.
            (by(&[], 0), &heavy, [1_700, 1_650, 1_650], 66),
            // As few as bring everybody near enough.
            (
                by(&[], 50),
                &|slot: u16| if slot == 0 { 1_000 } else { u64::from(slot < 11) * 100 },
                [1_000, 600, 400],
                10,
            ),
            (by(&[(3, 0)], 300), &|_| 1_u64, [8_192, 8_192, 0], 0),
        ] {
            let moves = rebalance(&cluster, weight, &goal).unwrap();
            let moved: u16 = moves.iter().map(|one| one.slots.count()).sum();
            let after = done(cluster.clone(), &moves);
            let found =
                [1, 2, 3].map(|id| (0..SLOTS).filter(|slot| after.slots.owner(*slot) == Some(id)).map(weight).sum());
            let is_near = |(found, wanted): (u64, u64)| found.abs_diff(wanted) <= 50 + wanted * goal.tolerance / 1_000;
            assert!(found.into_iter().zip(loads).all(is_near), "{goal:?}: {found:?}, not {loads:?}");
            assert!(moved <= slots_max, "{goal:?}: {moved} slots move");
            assert!(rebalance(&after, weight, &goal).unwrap().is_empty(), "{goal:?}: it comes to rest");
        }
        assert!(matches!(rebalance(&cluster, |_| 1, &by(&[(9, 1)], 0)), Err(Refusal::NoGroup(9))));
        assert!(rebalance(&cluster, |_| 1, &by(&[(1, 0), (2, 0), (3, 0)], 0)).is_err());
        // A group with share 0 gives its empty slots too.
        let drained = done(cluster.clone(), &rebalance(&cluster, |_| 0, &by(&[(1, 0)], 0)).unwrap());
        assert_eq!([1, 2, 3].map(|id| drained.slots.count_of(id)), [0, 8_192, 8_192]);
    }

    #[test]
    fn two_rebalances_at_once_are_refused() {
        let cluster = two_groups().with_group(3, vec![server(5)], 0).unwrap();
        let moves = rebalance(&cluster, |_| 1, &Goal::default()).unwrap();
        let under_way = cluster.with_moves(&moves).unwrap();
        assert!(matches!(rebalance(&under_way, |_| 1, &Goal::default()), Err(Refusal::MovesUnderWay(_))));
        assert!(matches!(to_group(&under_way, moves[0].slots, 2), Err(Refusal::Slot { .. })));
    }

    #[test]
    fn a_group_is_drained_into_the_others() {
        let cluster = two_groups().with_group(3, vec![server(5)], 0).unwrap();
        let spread = done(cluster.clone(), &rebalance(&cluster, |_| 1, &Goal::default()).unwrap());
        let moves = drain(&spread, 3).unwrap();
        assert!(moves.iter().all(|one| one.from == 3) && moves.len() < 16, "{moves:?}");
        let after = done(spread, &moves);
        assert_eq!([1, 2, 3].map(|id| after.slots.count_of(id)), [8_192, 8_192, 0]);
        assert!(after.without_group(3).is_ok());
        assert!(drain(&after, 3).unwrap().is_empty());
        assert!(matches!(drain(&cluster, 9), Err(Refusal::NoGroup(9))));
        let alone = after.without_group(3).unwrap();
        let alone = done(alone.clone(), &drain(&alone, 1).unwrap()).without_group(1).unwrap();
        assert!(matches!(drain(&alone, 2), Err(Refusal::OnlyGroup(2))));
        let moving = cluster.with_moves(&[Move { slots: SlotRange::new(1, 1).unwrap(), from: 1, to: 2 }]).unwrap();
        assert!(matches!(drain(&moving, 1), Err(Refusal::MovesUnderWay(_))));
    }

    #[test]
    fn what_is_there_stays() {
        let range = |first, last| SlotRange::new(first, last).unwrap();
        let moves = to_group(&two_groups(), range(8_190, 8_193), 2).unwrap();
        assert_eq!(moves, [Move { slots: range(8_190, 8_191), from: 1, to: 2 }]);
        assert!(matches!(to_group(&two_groups(), range(5, 5), 3), Err(Refusal::NoGroup(3))));
    }
}
