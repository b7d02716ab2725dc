//! Whether a member in sync still has what it had. A new process of it may have less: the machine was set back to a snapshot, or its disk to a
//! copy of before. It says where its log ends, and that it follows its master, as if nothing had happened.
//!
//! Such a member *has fallen*: it is not in sync, and is not elected by what it has, until it has as much again as it had.

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
        self.heights.of.get(member).is_some_and(|height| height.has_fallen)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
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

    #[test]
    fn a_member_that_has_less_than_it_had_is_not_in_sync_until_it_has_it_again() {
        let servers = vec![server(1), server(2)];
        let mut cluster = Cluster::default().with_group(1, servers, 1).unwrap();
        cluster.groups.get_mut(&1).unwrap().ack = 1;
        let in_sync =
            InSync { config_epoch: cluster.groups[&1].config_epoch, members: vec![address(2)], ack: None, serial: 1 };
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        let written = |keeper: &mut Keeper, now: u64| {
            let incarnations = BTreeMap::new();
            let (cluster, in_sync) = (&cluster, &in_sync);
            let situation =
                Situation { cluster, in_sync, incarnations: &incarnations, term: 1, believed_since: Some(0) };
            let steps = keeper.poll_steps(now, situation);
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
