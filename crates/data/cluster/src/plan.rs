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

/// The moves after which groups have the same weight of slots, or nearly. With weights that are all the same, no group has more than
/// one slot more than another, and no plan moves fewer slots.
///
/// # Errors
///
/// Slots are on their way, or there is no group.
pub fn rebalance(cluster: &Cluster, weight: impl Fn(u16) -> u64) -> Result<Vec<Move>, Refusal> {
    if let Some((one, _)) = cluster.moving().first() {
        return Err(Refusal::MovesUnderWay(one.slots));
    }
    let count = cluster.groups.len() as u64;
    if count == 0 {
        return Err(Refusal::NoGroups);
    }
    let mut slots: BTreeMap<GroupId, Vec<u16>> = cluster.groups.keys().map(|id| (*id, Vec::new())).collect();
    for slot in 0..SLOTS {
        if let Some(owned) = cluster.slots.owner(slot).and_then(|owner| slots.get_mut(&owner)) {
            owned.push(slot);
        }
    }
    let mut loads: BTreeMap<GroupId, u64> =
        slots.iter().map(|(id, slots)| (*id, slots.iter().map(|slot| weight(*slot)).sum())).collect();
    let mut moving = Vec::new();
    // Each step takes the last slot of the group with the most and gives it to the one with the least, while that helps. A group that
    // has given never gets, and the other way round, so no slot moves twice.
    loop {
        let most =
            loads.iter().max_by_key(|(id, load)| (**load, std::cmp::Reverse(**id))).map(|(id, load)| (*id, *load));
        let least = loads.iter().min_by_key(|(id, load)| (**load, **id)).map(|(id, load)| (*id, *load));
        let (Some((from, most)), Some((to, least))) = (most, least) else { break };
        let candidate =
            slots.get(&from).and_then(|owned| owned.iter().rposition(|slot| fits(weight(*slot), most - least)));
        let Some(place) = candidate else { break };
        let Some(slot) = slots.get_mut(&from).map(|owned| owned.remove(place)) else { break };
        let moved = weight(slot);
        moving.push((slot, from, to));
        loads.entry(from).and_modify(|load| *load -= moved);
        loads.entry(to).and_modify(|load| *load += moved);
    }
    moving.sort_unstable();
    Ok(joined(moving))
}

/// Whether moving a weight makes a difference smaller.
fn fits(weight: u64, difference: u64) -> bool {
    weight > 0 && weight < difference
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
        let moves = rebalance(&cluster, |_| 1).unwrap();
        let moved: u16 = moves.iter().map(|one| one.slots.count()).sum();
        assert!(moves.iter().all(|one| one.to == 3));
        assert_eq!(moved, 5_461);
        let after = done(cluster, &moves);
        let counts: Vec<u16> = [1, 2, 3].iter().map(|id| after.slots.count_of(*id)).collect();
        assert_eq!(counts, [5_461, 5_462, 5_461]);
        assert!(rebalance(&after, |_| 1).unwrap().is_empty());
        assert!(moves.len() < 16, "{}", moves.len());
    }

    #[test]
    fn weights_count_not_numbers() {
        let cluster = two_groups();
        // All that is heavy is in group 1.
        let weight = |slot: u16| if slot < 4 { 1_000 } else { 1 };
        let after = done(cluster.clone(), &rebalance(&cluster, weight).unwrap());
        let load = |id| (0..SLOTS).filter(|slot| after.slots.owner(*slot) == Some(id)).map(weight).sum::<u64>();
        assert!(load(1).abs_diff(load(2)) <= 1, "{} {}", load(1), load(2));
    }

    #[test]
    fn two_rebalances_at_once_are_refused() {
        let cluster = two_groups().with_group(3, vec![server(5)], 0).unwrap();
        let moves = rebalance(&cluster, |_| 1).unwrap();
        let under_way = cluster.with_moves(&moves).unwrap();
        assert!(matches!(rebalance(&under_way, |_| 1), Err(Refusal::MovesUnderWay(_))));
        assert!(matches!(to_group(&under_way, moves[0].slots, 2), Err(Refusal::Slot { .. })));
    }

    #[test]
    fn a_group_is_drained_into_the_others() {
        let cluster = two_groups().with_group(3, vec![server(5)], 0).unwrap();
        let spread = done(cluster.clone(), &rebalance(&cluster, |_| 1).unwrap());
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
