//! Whether a member in sync still has what it had. A new process of it may have less: the machine was set back to a snapshot, or its disk to a
//! copy of before. It says where its log ends, and that it follows its master, as if nothing had happened.
//!
//! The leader remembers how far each was, and voters do so for the next one ([`crate::heights`]).
//!
//! A member that has less than it had *has fallen*: it is not elected by what it has, and is in sync no more. It joins again as any other does
//! that has all that the master has, and keeps nothing against it until then. Where the master has lost a part of its log as well ([`super::proof`]), and all in sync have been heard,
//! the one that has most of what is left is elected all the same, unless enough of them have all that they had: nobody else is there to be
//! waited for, and the reason says what may be lost. A member whose log is another one is never elected by its length.

use std::collections::BTreeMap;

use super::{Keeper, Observation};
use crate::{
    heights::Heights,
    model::{Address, Epoch, Group, InSync},
};

/// How far a server was at most.
#[derive(Clone, Debug, Default)]
struct Height {
    offset: u64,
    /// The same of what it had durably: a server that ends as a process or with its machine loses no more than what is behind that.
    durable: u64,
    /// The history that its log told there.
    history: Option<String>,
    has_fallen: bool,
    /// Its log is another one: how long it is says nothing.
    is_of_another_log: bool,
}

/// How far the master and members in sync were under one master.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenHeights {
    reign: Epoch,
    of: BTreeMap<Address, Height>,
}

impl Height {
    /// Whether a log does not tell what it has told at this height.
    fn is_of_another_log(&self, seen: &Observation) -> bool {
        self.history.as_ref().is_some_and(|history| seen.lacks(history))
    }
}

impl SeenHeights {
    /// What is known by an address is about another server.
    pub(super) fn forget(&mut self, server: &Address) {
        self.of.remove(server);
    }
}

impl Keeper {
    /// Notes how far the master and members in sync are; `known`: what hosts remember of leaders before this one.
    pub(super) fn look_at_heights(&mut self, group: &Group, in_sync: &InSync, known: Option<&Heights>) {
        if self.heights.reign != group.reign() {
            // Another master's log may end earlier: what it lacks was not acknowledged.
            self.heights = SeenHeights { reign: group.reign(), of: BTreeMap::new() };
        }
        let known = known.filter(|known| known.reign == group.reign());
        self.heights.of.retain(|address, _| in_sync.members.contains(address) || *address == group.master);
        for address in in_sync.members.iter().chain([&group.master]) {
            let id = group.server(address).map(|server| &server.id);
            let least = known.zip(id).and_then(|(known, id)| known.of.get(id)).copied().unwrap_or(0);
            let height = self.heights.of.entry(address.clone()).or_default();
            if least > height.durable {
                height.durable = least;
                height.history = known.zip(id).and_then(|(known, id)| known.histories.get(id)).cloned();
            }
            height.offset = height.offset.max(least);
            let Some(seen) = self.members.get(address).and_then(|member| member.last.as_ref()) else { continue };
            // NOTE: not only until it has as much again: it may have had more than was seen.
            height.has_fallen |= seen.offset < height.offset;
            if height.is_of_another_log(seen) {
                (height.has_fallen, height.is_of_another_log) = (true, true);
                continue;
            }
            height.offset = height.offset.max(seen.offset);
            if seen.durable > height.durable {
                height.durable = seen.durable;
                height.history = seen.history_before(seen.durable).map(str::to_owned);
            }
        }
    }

    /// What hosts are to remember of that.
    #[must_use]
    pub fn heights(&self, group: &Group) -> Option<Heights> {
        let mut heights = Heights { reign: self.heights.reign, ..Heights::default() };
        for (address, height) in self.heights.of.iter().filter(|(_, height)| height.durable > 0) {
            let Some(server) = group.server(address) else { continue };
            heights.of.insert(server.id.clone(), height.durable);
            heights.histories.extend(height.history.clone().map(|history| (server.id.clone(), history)));
        }
        (heights.reign == group.reign() && !heights.of.is_empty()).then_some(heights)
    }

    /// Up to where the master had its log durably, if the log is another one now, or ends before that.
    pub(super) fn master_had(&self, group: &Group, master: &Observation) -> Option<u64> {
        let height = self.heights.of.get(&group.master)?;
        (master.offset < height.durable || height.is_of_another_log(master)).then_some(height.durable)
    }

    /// Whether a member has less than it had.
    pub(crate) fn has_fallen(&self, member: &Address) -> bool {
        self.fallen_from(member).is_some()
    }

    /// Whether a member's log is another one than it was.
    pub(super) fn has_another_log(&self, member: &Address) -> bool {
        self.heights.of.get(member).is_some_and(|height| height.is_of_another_log)
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
        keeper::{Count, Counting, Patience, Role, Situation, Step},
        model::Cluster,
    };

    fn address(port: u16) -> Address {
        Address::new("127.0.0.1", port)
    }

    fn says(keeper: &mut Keeper, port: u16, at: u64, run: &str, offset: u64) {
        keeper.handle_observed(&address(port), observation(port, at, run, offset));
    }

    fn observation(port: u16, at: u64, run: &str, offset: u64) -> Observation {
        let role = match port {
            1 => Role::Master,
            _ => Role::Replica { master: address(1), is_linked: true },
        };
        let counting = Counting { term: 1, serial: 1, count: Count { ack: 1, members: vec![address(2)] } };
        Observation {
            asked_at: at,
            answered_at: at,
            role,
            offset,
            durable: offset - 5,
            epoch: 1,
            counting: (port == 1).then_some(counting),
            followers: vec![address(2)],
            run: run.into(),
            serves: true,
            pauses: Vec::new(),
            bond: None,
            histories: Vec::new(),
        }
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
        let situation = Situation {
            cluster,
            in_sync,
            incarnations: &incarnations,
            term: 1,
            believed_since: Some(0),
            heights: None,
        };
        keeper.poll_steps(now, situation)
    }

    fn elected(steps: Vec<Step>) -> Option<(Address, String)> {
        steps.into_iter().find_map(|step| match step {
            Step::Elect { master, reason, .. } => Some((master, reason)),
            _ => None,
        })
    }

    /// Both folders were set back, one after the other: nobody is left who could have more.
    #[test]
    fn of_a_master_and_a_member_that_have_both_lost_something_the_one_with_most_serves() {
        let (cluster, in_sync) = group_of_two();
        for (member_at, master_at, expected) in [(500, 400, address(2)), (400, 500, address(1))] {
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
            let (chosen, reason) = elected(steps(&mut keeper, 10_130, (&cluster, &in_sync))).unwrap();
            assert_eq!(chosen, expected, "{member_at} {master_at}");
            assert!(reason.contains("may be lost") && !reason.contains("has all"), "{reason}");
            let told = "127.0.0.1:2 has less than it had, too (up to 600)";
            assert_eq!(reason.contains(told), chosen == address(2), "{reason}");
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
    fn a_member_that_has_less_than_it_had_is_in_sync_no_more() {
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
        assert!(keeper.has_fallen(&address(2)), "nobody knows whether it has had more than was seen");
        written(&mut keeper, 10_300);
        // It is written, and the member joins again as any other.
        let none = InSync { members: Vec::new(), serial: 2, ..in_sync.clone() };
        steps(&mut keeper, 10_310, (&cluster, &none));
        assert!(!keeper.has_fallen(&address(2)));
    }

    /// All hosts have lost power: what the leader before knew, voters remember.
    #[test]
    fn a_new_leader_knows_what_voters_remember() {
        let (cluster, in_sync) = group_of_two();
        let group = &cluster.groups[&1];
        let id = |port: u16| group.server(&address(port)).unwrap().id.clone();
        let known =
            Heights { reign: group.config_epoch, of: [(id(1), 590), (id(2), 580)].into(), ..Heights::default() };
        let elected = |keeper: &mut Keeper, now: u64| {
            let incarnations = BTreeMap::from([("h".to_owned(), 7)]);
            let (cluster, in_sync, heights) = (&cluster, &in_sync, Some(&known));
            let incarnations = &incarnations;
            let situation = Situation { cluster, in_sync, incarnations, term: 1, believed_since: Some(0), heights };
            elected(keeper.poll_steps(now, situation))
        };
        let promise = Promise { floor: cluster.epoch + 1, votes: Vec::new() };
        // The master is not there yet; the member was set back.
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        says(&mut keeper, 2, 10_000, "b", 500);
        assert_eq!(elected(&mut keeper, 10_000), None);
        keeper.handle_promise("h", 7, &promise, 10_010);
        says(&mut keeper, 2, 10_020, "b", 500);
        assert_eq!(elected(&mut keeper, 10_030), None);
        says(&mut keeper, 1, 10_040, "n", 600);
        says(&mut keeper, 2, 10_050, "b", 500);
        assert_eq!(elected(&mut keeper, 10_060), None);
        says(&mut keeper, 2, 10_070, "b", 500);
        assert_eq!(elected(&mut keeper, 10_080), None);
        assert!(keeper.is_proven("n"));
        // The master was set back, and the member is there much later.
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        for at in [10_000, 18_000] {
            says(&mut keeper, 1, at, "n", 500);
            assert_eq!(elected(&mut keeper, at), None);
            assert!(!keeper.is_proven("n"));
        }
        keeper.handle_promise("h", 7, &promise, 18_010);
        says(&mut keeper, 1, 18_020, "n", 500);
        says(&mut keeper, 2, 18_020, "b", 600);
        let (chosen, reason) = elected(&mut keeper, 18_030).unwrap();
        assert_eq!(chosen, address(2));
        assert!(reason.contains("it ends at 500, and it had it up to 590"), "{reason}");
        assert!(reason.contains("127.0.0.1:2 has all that was acknowledged (offset 600)"), "{reason}");
        // Both were set back, to the same moment: that is said.
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        for at in [10_000, 10_020] {
            says(&mut keeper, 1, at, "n", 500);
            says(&mut keeper, 2, at, "b", 500);
            keeper.handle_promise("h", 7, &promise, at + 1);
            elected(&mut keeper, at + 2);
        }
        says(&mut keeper, 2, 10_030, "b", 500);
        let (chosen, reason) = elected(&mut keeper, 10_040).unwrap();
        assert_eq!(chosen, address(1));
        assert!(
            reason.contains("none of those in sync has more: what was acknowledged behind 500 may be lost"),
            "{reason}"
        );
    }

    /// The leader that has called hosts otherwise dies before it has said anything more.
    #[test]
    fn what_hosts_remember_holds_where_a_master_has_another_address() {
        let (cluster, in_sync) = group_of_two();
        let id = cluster.groups[&1].server(&address(2)).unwrap().id.clone();
        let known = Heights { reign: cluster.groups[&1].reign(), of: [(id, 580)].into(), ..Heights::default() };
        let moved = cluster.with_addresses(&[("here".to_owned(), "127.0.0.2".to_owned())].into()).unwrap();
        let group = &moved.groups[&1];
        assert!(group.config_epoch > in_sync.config_epoch);
        let [master, member] = [1, 2].map(|port| Address::new("127.0.0.2", port));
        let in_sync = InSync { config_epoch: group.config_epoch, members: vec![member.clone()], ..in_sync };
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        let seen = Observation { role: Role::Replica { master, is_linked: true }, ..observation(2, 10_000, "b", 500) };
        keeper.handle_observed(&member, seen);
        let incarnations = BTreeMap::new();
        let (cluster, in_sync, heights) = (&moved, &in_sync, Some(&known));
        let incarnations = &incarnations;
        let situation = Situation { cluster, in_sync, incarnations, term: 2, believed_since: Some(0), heights };
        keeper.poll_steps(10_000, situation);
        assert_eq!(keeper.fallen_from(&member), Some(580));
    }

    /// A machine is set back to before two failovers: it went on alone then, so its log is as long as that of others, and is another one.
    #[test]
    fn a_log_of_another_history_is_found_however_long_it_is() {
        let (cluster, in_sync) = group_of_two();
        let group = &cluster.groups[&1];
        let (present, before) = ([("a", 0), ("b", 300), ("c", 400)], [("a", 0)]);
        let poll = |keeper: &mut Keeper, heights: Option<&Heights>, at: u64| {
            let incarnations = BTreeMap::from([("h".to_owned(), 7)]);
            let (cluster, in_sync, incarnations) = (&cluster, &in_sync, &incarnations);
            let situation = Situation { cluster, in_sync, incarnations, term: 1, believed_since: Some(0), heights };
            elected(keeper.poll_steps(at, situation))
        };
        let says = |keeper: &mut Keeper, port: u16, at: u64, offset: u64, told: &[(&str, u64)]| {
            let histories = crate::keeper::logs::tests::histories(told);
            let seen = Observation { histories, ..observation(port, at, &format!("r{port}"), offset) };
            keeper.handle_observed(&address(port), seen);
        };
        let promise = Promise { floor: cluster.epoch + 1, votes: Vec::new() };
        // The replica tells it.
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        let mut chosen = None;
        for at in [10_000, 10_020, 10_040] {
            says(&mut keeper, 2, at, 500, &present);
            says(&mut keeper, 1, at + 1, 500, &before);
            chosen = chosen.or(poll(&mut keeper, None, at + 2));
            assert!(!keeper.is_proven("r1"));
            keeper.handle_promise("h", 7, &promise, at + 3);
        }
        let (chosen, reason) = chosen.unwrap();
        assert_eq!(chosen, address(2));
        assert!(reason.contains("(it ends at 300, and 127.0.0.1:2 has it up to 500)"), "{reason}");
        // The replica is away, and hosts tell it.
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        let id = |port: u16| group.server(&address(port)).unwrap().id.clone();
        let known =
            Heights { reign: group.reign(), of: [(id(1), 500)].into(), histories: [(id(1), "c".to_owned())].into() };
        for at in [10_000, 18_000] {
            says(&mut keeper, 1, at, 510, &before);
            assert_eq!(poll(&mut keeper, Some(&known), at), None);
            assert!(!keeper.is_proven("r1") && keeper.lost_part(group).is_some());
        }
        // A process that has begun another history since is whole.
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        let next = [present.as_slice(), &[("d", 500)]].concat();
        for at in [10_000, 10_020] {
            says(&mut keeper, 1, at, 500, &next);
            says(&mut keeper, 2, at, 500, &present);
            assert_eq!(poll(&mut keeper, Some(&known), at), None);
        }
        assert!(keeper.is_proven("r1"));
        assert_eq!(keeper.heights(group).unwrap().histories[&id(1)], "c");
        // A replica of another log has fallen.
        says(&mut keeper, 2, 10_040, 505, &before);
        poll(&mut keeper, Some(&known), 10_040);
        assert!(keeper.has_fallen(&address(2)));
    }

    /// A member is set back to before two failovers, when it was a master, and hosts remember what its log told: the master has lost nothing,
    /// whatever the member's length.
    #[test]
    fn a_member_of_another_log_says_nothing_against_its_master() {
        let mut cluster = Cluster::default().with_group(1, vec![server(1), server(2), server(3)], 1).unwrap();
        cluster.hosts = vec!["h".into()];
        let config_epoch = cluster.groups[&1].config_epoch;
        let both = InSync { config_epoch, members: vec![address(2), address(3)], ack: Some(2), serial: 1 };
        let alone = InSync { members: vec![address(2)], ..both.clone() };
        let says = |keeper: &mut Keeper, port: u16, at: u64, offset: u64| {
            let told: &[_] = if port == 2 { &[("a", 0)] } else { &[("a", 0), ("b", 300), ("c", 400)] };
            let histories = crate::keeper::logs::tests::histories(told);
            let seen = Observation { histories, ..observation(port, at, &format!("r{port}"), offset) };
            keeper.handle_observed(&address(port), seen);
        };
        let group = &cluster.groups[&1];
        let id = group.server(&address(2)).unwrap().id.clone();
        let (of, histories) = ([(id.clone(), 420)].into(), [(id, "c".to_owned())].into());
        let known = Heights { reign: group.reign(), of, histories };
        let steps = |keeper: &mut Keeper, now: u64, (cluster, in_sync): (&Cluster, &InSync)| {
            let incarnations = BTreeMap::from([("h".to_owned(), 7)]);
            let (incarnations, heights) = (&incarnations, Some(&known));
            let situation = Situation { cluster, in_sync, incarnations, term: 1, believed_since: Some(0), heights };
            keeper.poll_steps(now, situation)
        };
        let promise = Promise { floor: cluster.epoch + 1, votes: Vec::new() };
        // It follows its master, and keeps nothing against it.
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        let mut told = Vec::new();
        for at in [10_000, 10_100] {
            says(&mut keeper, 2, at, 500);
            says(&mut keeper, 1, at + 1, 420);
            told.extend(steps(&mut keeper, at + 2, (&cluster, &alone)));
        }
        assert!(keeper.is_proven("r1") && keeper.has_fallen(&address(2)));
        assert!(
            !told.iter().any(|step| matches!(step, Step::Elect { .. } | Step::Follow { keeps: true, .. })),
            "{told:?}"
        );
        // The master goes: it is waited for, or a whole member takes its place.
        for (in_sync, others, expected) in [(&alone, &[][..], None), (&both, &[3], Some(address(3)))] {
            let mut keeper = Keeper::new(1, Patience::default(), 0);
            let mut chosen = None;
            for turn in 0..30 {
                let at = 10_000 + turn * 200;
                says(&mut keeper, 2, at, 500);
                others.iter().for_each(|port| says(&mut keeper, *port, at, 420));
                if turn == 0 {
                    says(&mut keeper, 1, at, 420);
                }
                chosen = chosen.or(elected(steps(&mut keeper, at + 1, (&cluster, in_sync))));
                keeper.handle_promise("h", 7, &promise, at + 2);
            }
            assert_eq!(chosen.as_ref().map(|(master, _)| master), expected.as_ref(), "{chosen:?}");
            assert!(chosen.is_none_or(|(_, reason)| reason.contains("127.0.0.1:3 has all that was acknowledged")));
        }
        // The master was set back, too, to before it had all: the member that has all is elected, not the one whose log is longest.
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        let mut chosen = None;
        for turn in 0..30 {
            let at = 10_000 + turn * 200;
            says(&mut keeper, 2, at, 500);
            says(&mut keeper, 3, at, 420);
            says(&mut keeper, 1, at + 1, 410);
            chosen = chosen.or(elected(steps(&mut keeper, at + 2, (&cluster, &both))));
            keeper.handle_promise("h", 7, &promise, at + 3);
        }
        let (master, reason) = chosen.unwrap();
        assert_eq!(master, address(3), "{reason}");
        assert!(reason.contains("has all that was acknowledged (offset 420)"), "{reason}");
    }

    #[test]
    fn what_hosts_are_to_remember_is_what_servers_had_durably() {
        let (cluster, in_sync) = group_of_two();
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        let group = &cluster.groups[&1];
        assert_eq!(keeper.heights(group), None);
        says(&mut keeper, 1, 10_000, "m", 600);
        says(&mut keeper, 2, 10_000, "a", 590);
        steps(&mut keeper, 10_000, (&cluster, &in_sync));
        let heights: Vec<u64> = keeper.heights(group).unwrap().of.into_values().collect();
        assert_eq!(heights, [600 - 5, 590 - 5]);
    }
}
