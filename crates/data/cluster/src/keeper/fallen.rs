//! Whether a member in sync still has what it had. A new process of it may have less: the machine was set back to a snapshot, or its disk to a
//! copy of before. It says where its log ends, and that it follows its master, as if nothing had happened.
//!
//! Such a member *has fallen*: it is not in sync, and is not elected by what it has, until it has as much again as it had. Where the master has
//! lost a part of its log as well ([`super::proof`]), and all in sync have been heard, the one that has most of what is left is elected all the
//! same: nobody else is there to be waited for, and the reason says what may be lost.

use std::collections::BTreeMap;

use super::Keeper;
use crate::model::{Address, Epoch, Group, InSync};

/// How far a member was at most.
#[derive(Clone, Copy, Debug, Default)]
struct Height {
    offset: u64,
    has_fallen: bool,
}

/// How far members in sync were under one master.
#[derive(Clone, Debug, Default)]
pub(super) struct Heights {
    config_epoch: Epoch,
    of: BTreeMap<Address, Height>,
}

impl Keeper {
    /// Notes how far members in sync are.
    pub(super) fn look_at_heights(&mut self, group: &Group, in_sync: &InSync) {
        if self.heights.config_epoch != group.config_epoch {
            // Another master's log may end earlier: what it lacks was not acknowledged.
            self.heights = Heights { config_epoch: group.config_epoch, of: BTreeMap::new() };
        }
        self.heights.of.retain(|address, _| in_sync.members.contains(address));
        for address in &in_sync.members {
            let Some(seen) = self.members.get(address).and_then(|member| member.last.as_ref()) else { continue };
            let height = self.heights.of.entry(address.clone()).or_default();
            height.has_fallen = seen.offset < height.offset;
            height.offset = height.offset.max(seen.offset);
        }
    }

    /// Whether a member has less than it had.
    pub(super) fn has_fallen(&self, member: &Address) -> bool {
        self.fallen_from(member).is_some()
    }

    /// Up to where a member had it, if it has less now.
    pub(super) fn fallen_from(&self, member: &Address) -> Option<u64> {
        self.heights.of.get(member).filter(|height| height.has_fallen).map(|height| height.offset)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        ballot::Promise,
        change::tests::server,
        keeper::{Count, Counting, Observation, Patience, Role, Situation, Step},
        model::Cluster,
    };

    fn address(port: u16) -> Address {
        Address::new("127.0.0.1", port)
    }

    fn says(keeper: &mut Keeper, port: u16, at: u64, run: &str, offset: u64) {
        let role = match port {
            1 => Role::Master,
            _ => Role::Replica { master: address(1), is_linked: true },
        };
        let counting = Counting { term: 1, serial: 1, count: Count { ack: 1, members: vec![address(2)] } };
        let seen = Observation {
            asked_at: at,
            answered_at: at,
            role,
            offset,
            epoch: 1,
            counting: (port == 1).then_some(counting),
            followers: vec![address(2)],
            run: run.into(),
            serves: true,
            pauses: Vec::new(),
            bond: None,
        };
        keeper.handle_observed(&address(port), seen);
    }

    /// A group of a master and one replica, both of which are acknowledged to.
    fn group_of_two() -> (Cluster, InSync) {
        let mut cluster = Cluster::default().with_group(1, vec![server(1), server(2)], 1).unwrap();
        cluster.hosts = vec!["h".into()];
        let config_epoch = cluster.groups[&1].config_epoch;
        (cluster, InSync { config_epoch, members: vec![address(2)], ack: None, serial: 1 })
    }

    fn steps(keeper: &mut Keeper, now: u64, (cluster, in_sync): (&Cluster, &InSync)) -> Vec<Step> {
        let incarnations = BTreeMap::from([("h".to_owned(), 7)]);
        let situation = Situation { cluster, in_sync, incarnations: &incarnations, term: 1, believed_since: Some(0) };
        keeper.poll_steps(now, situation)
    }

    fn elected(steps: Vec<Step>) -> Option<(Address, String)> {
        steps.into_iter().find_map(|step| match step {
            Step::Elect { master, reason } => Some((master, reason)),
            _ => None,
        })
    }

    /// Both folders were set back, one after the other: nobody is left who could have more.
    #[test]
    fn of_a_master_and_a_member_that_have_both_lost_something_the_one_with_most_serves() {
        let (cluster, in_sync) = group_of_two();
        for (member_at, master_at, expected) in [(500, 400, Some(address(2))), (400, 500, None)] {
            let mut keeper = Keeper::new(1, Patience::default(), 0);
            says(&mut keeper, 1, 10_000, "m", 600);
            says(&mut keeper, 2, 10_000, "a", 600);
            assert_eq!(elected(steps(&mut keeper, 10_000, (&cluster, &in_sync))), None);
            // The master is another process, and lacks something; before another one is elected, the member lacks something, too.
            says(&mut keeper, 1, 10_100, "n", master_at);
            steps(&mut keeper, 10_100, (&cluster, &in_sync));
            keeper.handle_promise("h", 7, &Promise { floor: cluster.epoch + 1, votes: Vec::new() }, 10_110);
            says(&mut keeper, 2, 10_120, "b", member_at);
            says(&mut keeper, 1, 10_120, "n", master_at);
            let chosen = elected(steps(&mut keeper, 10_130, (&cluster, &in_sync)));
            assert_eq!(chosen.as_ref().map(|(master, _)| master.clone()), expected, "{member_at} {master_at}");
            if let Some((_, reason)) = chosen {
                assert!(reason.contains("127.0.0.1:2 has less than it had, too (up to 600)"), "{reason}");
                assert!(reason.contains("may be lost") && !reason.contains("has all"), "{reason}");
            }
        }
    }

    /// As long as the master's log may have what a member has lost, it is waited for.
    #[test]
    fn a_member_that_has_fallen_does_not_take_the_place_of_a_master_that_is_away() {
        let (cluster, in_sync) = group_of_two();
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        says(&mut keeper, 1, 10_000, "m", 600);
        says(&mut keeper, 2, 10_000, "a", 600);
        steps(&mut keeper, 10_000, (&cluster, &in_sync));
        says(&mut keeper, 2, 12_000, "b", 500);
        steps(&mut keeper, 12_000, (&cluster, &in_sync));
        keeper.handle_promise("h", 7, &Promise { floor: cluster.epoch + 1, votes: Vec::new() }, 12_010);
        says(&mut keeper, 2, 12_020, "b", 500);
        assert_eq!(elected(steps(&mut keeper, 12_030, (&cluster, &in_sync))), None);
    }

    #[test]
    fn a_member_that_has_less_than_it_had_is_not_in_sync_until_it_has_it_again() {
        let (cluster, in_sync) = group_of_two();
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        let written = |keeper: &mut Keeper, now: u64| {
            let steps = steps(keeper, now, (&cluster, &in_sync));
            steps.into_iter().find_map(|step| match step {
                Step::WriteInSync(next) => Some(next.members),
                _ => None,
            })
        };
        for (at, run, offset) in [(10_000, "a", 500), (10_100, "a", 600)] {
            says(&mut keeper, 1, at, "m", 600);
            says(&mut keeper, 2, at, run, offset);
            assert_eq!(written(&mut keeper, at), None);
        }
        // Its machine is back as of a moment ago.
        says(&mut keeper, 1, 10_200, "m", 700);
        says(&mut keeper, 2, 10_200, "b", 550);
        assert_eq!(written(&mut keeper, 10_200), Some(Vec::new()));
        assert!(
            keeper.has_fallen(&address(2)),
            "if the master goes before that is written, it is not elected by what it has"
        );
        says(&mut keeper, 1, 10_300, "m", 700);
        says(&mut keeper, 2, 10_300, "b", 700);
        // What was asked for may still come to be written, so that it is written again.
        assert_eq!(written(&mut keeper, 10_300), Some(vec![address(2)]));
        assert!(!keeper.has_fallen(&address(2)));
    }
}
