//! A group that waits for servers which may have what no other one has: for whom, and what a person may decide who knows that they are gone
//! for good. The keeper decides nothing of that by itself, whatever time passes: what was acknowledged may be lost by it.

use serde::Serialize;

use super::{Keeper, Step, election};
use crate::model::{Address, Group, GroupId, InSync};

/// How long a master that a person has given up is tried to be replaced, in milliseconds. Meanwhile its votes end.
const LAST_RESORT_MS: u64 = 15_000;

/// A server that a group waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Awaited {
    /// Which.
    pub server: Address,
    /// It is the master.
    pub is_master: bool,
    /// Where its log ends, and where it has ended before, if its folder was set back; nothing: it does not answer.
    pub fallen: Option<(u64, u64)>,
}

/// Why servers are not given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivingUpError {
    /// It is not known who has what.
    #[error(
        "the agent that leads has begun a moment ago, and does not know yet how far the servers of the group are: try again in some seconds"
    )]
    TooEarly,
    /// It is there.
    #[error("{0} answers, so it is not gone")]
    Answers(Address),
    /// Nobody would be left.
    #[error("{}", without(.server, .master, (*.group, .best.as_ref())))]
    NobodyLeft {
        /// The group.
        group: GroupId,
        /// Who is to be given up.
        server: Address,
        /// The master.
        master: Address,
        /// Who has most of those that answer.
        best: Option<Address>,
    },
    /// It is the master.
    #[error("{0} is the master already")]
    IsMaster(Address),
    /// It cannot be asked.
    #[error("{0} does not answer")]
    Silent(Address),
    /// Another one has more.
    #[error("{other} has more than it (its log ends at {end}): name that one")]
    Better {
        /// Who.
        other: Address,
        /// Up to where.
        end: u64,
    },
    /// Nothing has to be given up.
    #[error(
        "enough of those in sync are there: one that has all that was acknowledged takes the master's place by itself (`tidegate cluster \
         check` says if that waits for you)"
    )]
    NotNeeded,
}

fn without(server: &Address, master: &Address, (group, best): (GroupId, Option<&Address>)) -> String {
    let gone = if best == Some(server) { format!("{master} is") } else { "both are".to_owned() };
    let best = match best {
        Some(best) => format!(
            "If {gone} gone for good: `tidegate cluster server promote {group} {best} --gone` makes {best} the master with what it has"
        ),
        None => "No other server of the group answers".to_owned(),
    };
    format!(
        "without {server} nobody is left who has all that {master} has acknowledged, and {master} does not answer: start one of the two. {best}"
    )
}

/// A person has named who takes the place of a master that is gone for good.
#[derive(Clone, Debug)]
pub(super) struct LastResort {
    to: Address,
    began_at: u64,
}

impl Keeper {
    /// Those in sync that have all that they had, as far as is known, and answer.
    fn whole<'a>(&'a self, now: u64, group: &'a Group, in_sync: &'a InSync) -> impl Iterator<Item = &'a Address> {
        let counts = move |member: &&Address| in_sync.needed(group) == 0 || !self.has_fallen(member);
        in_sync.members.iter().filter(move |member| self.fresh(member, now).is_some()).filter(counts)
    }

    fn can_elect(&self, now: u64, group: &Group, in_sync: &InSync) -> bool {
        !in_sync.members.is_empty() && self.whole(now, group, in_sync).count() >= election::quorum(group, in_sync)
    }

    /// Whom a group waits for that has no master which serves. `in_sync`: of the present master.
    #[must_use]
    pub fn awaited(&self, now: u64, group: &Group, in_sync: &InSync) -> Vec<Awaited> {
        let is_there = |server: &Address| self.fresh(server, now).is_some();
        let silent =
            |server: &Address| Awaited { server: server.clone(), is_master: *server == group.master, fallen: None };
        let is_lost = !is_there(&group.master) || self.lost_part(group).is_some();
        if !self.had_time(now) || is_lost && self.can_elect(now, group, in_sync) {
            return Vec::new();
        }
        let fallen = |member: &Address| {
            let (seen, had) = (self.fresh(member, now)?, self.fallen_from(member)?);
            let fallen = Some((seen.offset, had)).filter(|_| is_lost && in_sync.needed(group) > 0)?;
            Some(Awaited { fallen: Some(fallen), ..silent(member) })
        };
        let master = Some(&group.master).filter(|master| !is_there(master)).map(silent);
        let members = in_sync.members.iter();
        let members = members.filter_map(|member| if is_there(member) { fallen(member) } else { Some(silent(member)) });
        master.into_iter().chain(members).collect()
    }

    /// Of the replicas that answer, who has most, and up to where its log goes.
    #[must_use]
    pub fn best_there(&self, now: u64, group: &Group) -> Option<(Address, u64)> {
        let there =
            group.replicas().filter_map(|server| Some((&server.address, self.fresh(&server.address, now)?.offset)));
        let best = there.max_by(|one, other| one.1.cmp(&other.1).then_with(|| other.0.cmp(one.0)));
        best.map(|(server, offset)| (server.clone(), offset))
    }

    /// Whether it is known how far servers are: all have had the time to answer, and hosts the time to say what they remember.
    fn knows_servers(&self, now: u64, is_believed: bool) -> bool {
        is_believed && now >= self.began_at + self.patience.master_ms.max(self.patience.replica_ms)
    }

    /// Whether a group that waits for a member in sync may go on without it. Says who is in sync then, and whether something may be lost.
    ///
    /// # Errors
    ///
    /// It is there, or nobody would be left who has what was acknowledged.
    pub fn may_give_up(
        &self,
        now: u64,
        (group, in_sync): (&Group, &InSync),
        server: &Address,
        is_believed: bool,
    ) -> Result<(InSync, bool), GivingUpError> {
        if !self.knows_servers(now, is_believed) {
            return Err(GivingUpError::TooEarly);
        }
        if self.fresh(server, now).is_some() && !self.has_fallen(server) {
            return Err(GivingUpError::Answers(server.clone()));
        }
        let mut next = InSync { serial: in_sync.serial + 1, ..in_sync.clone() };
        next.members.retain(|member| member != server);
        if self.fresh(&group.master, now).is_none() && next.members.iter().all(|member| self.has_fallen(member)) {
            let best = self.best_there(now, group).map(|(best, _)| best);
            let (server, master) = (server.clone(), group.master.clone());
            return Err(GivingUpError::NobodyLeft { group: self.group, server, master, best });
        }
        // Of those that have a write, the one that is given up may be one.
        let needed = in_sync.needed(group);
        if needed > 0 {
            next.ack = u32::try_from(needed - 1).ok().map(|ack| ack.max(1));
        }
        // Where nobody else is left, it is the master alone that counts.
        let may_lose = if next.members.is_empty() { self.lost_part(group).is_some() } else { needed == 1 };
        Ok((next, may_lose))
    }

    /// Has a server take the place of a master that is gone for good, with what it has. Says what may be lost.
    ///
    /// # Errors
    ///
    /// The master is not gone, or somebody else has more.
    pub fn give_master_up(
        &mut self,
        now: u64,
        (group, in_sync): (&Group, &InSync),
        to: &Address,
        is_believed: bool,
    ) -> Result<String, GivingUpError> {
        if group.master == *to {
            return Err(GivingUpError::IsMaster(to.clone()));
        }
        if !self.knows_servers(now, is_believed) {
            return Err(GivingUpError::TooEarly);
        }
        if self.fresh(&group.master, now).is_some() {
            return Err(GivingUpError::Answers(group.master.clone()));
        }
        let Some(end) = self.fresh(to, now).map(|seen| seen.offset) else {
            return Err(GivingUpError::Silent(to.clone()));
        };
        if let Some((other, best)) = self.best_there(now, group).filter(|(_, best)| *best > end) {
            return Err(GivingUpError::Better { other, end: best });
        }
        if self.can_elect(now, group, in_sync) {
            return Err(GivingUpError::NotNeeded);
        }
        self.last_resort = Some(LastResort { to: to.clone(), began_at: now });
        Ok(self.last_resort_reason(group, end))
    }

    fn last_resort_reason(&self, group: &Group, end: u64) -> String {
        let master = &group.master;
        format!("{master} was given up as gone for good: what was acknowledged behind offset {end} may be lost")
    }

    /// Whether a person has named who becomes the master.
    pub(crate) fn takes_last_resort(&self) -> bool {
        self.last_resort.is_some()
    }

    /// Elects whom a person has named. Says whether it is about that.
    pub(super) fn elect_last_resort(
        &mut self,
        now: u64,
        group: &Group,
        is_master_lost: bool,
        steps: &mut Vec<Step>,
    ) -> bool {
        let Some(LastResort { to, began_at }) = self.last_resort.clone() else { return false };
        if !is_master_lost || now >= began_at + LAST_RESORT_MS || group.server(&to).is_none() {
            self.last_resort = None;
            return false;
        }
        // It may have got more until the last vote of the master was over.
        let fence = self.fence().filter(|_| self.is_fenced(now, &group.master));
        let seen = fence.and_then(|fence| self.fresh(&to, now).filter(|seen| seen.asked_at >= fence));
        if let Some(end) = seen.map(|seen| seen.offset) {
            let reason = self.last_resort_reason(group, end);
            steps.push(Step::Elect { master: to, reason, may_lose: true });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        ballot::Promise,
        change::tests::server,
        heights::Heights,
        keeper::{Observation, Patience, Role, Situation},
        model::Cluster,
    };

    fn address(port: u16) -> Address {
        Address::new("127.0.0.1", port)
    }

    /// A server that is waited for: its port, whether it is the master, and its fall.
    type AwaitedPort = (u16, bool, Option<(u64, u64)>);

    /// A group of three, two of which are in sync with the first.
    struct Scene {
        keeper: Keeper,
        cluster: Cluster,
        in_sync: InSync,
        heights: Option<Heights>,
        now: u64,
    }

    impl Scene {
        fn new(in_sync: &[u16]) -> Self {
            let mut cluster = Cluster::default().with_group(1, vec![server(1), server(2), server(3)], 1).unwrap();
            cluster.hosts = vec!["h".into()];
            let config_epoch = cluster.groups[&1].config_epoch;
            let members = in_sync.iter().map(|port| address(*port)).collect();
            let in_sync = InSync { config_epoch, members, ack: Some(1), serial: 1 };
            Self { keeper: Keeper::new(1, Patience::default(), 0), cluster, in_sync, heights: None, now: 10_000 }
        }

        fn says(&mut self, port: u16, offset: u64) {
            let role = match port {
                1 => Role::Master,
                _ => Role::Replica { master: address(1), is_linked: false },
            };
            let seen = Observation {
                asked_at: self.now,
                answered_at: self.now,
                role,
                offset,
                durable: offset,
                epoch: 1,
                counting: None,
                followers: Vec::new(),
                run: format!("r{port}"),
                serves: false,
                pauses: Vec::new(),
                bond: None,
                histories: Vec::new(),
            };
            self.keeper.handle_observed(&address(port), seen);
        }

        /// These answer, a moment later. What is written down then.
        fn poll(&mut self, ends: &[(u16, u64)]) -> Option<(Address, String, bool)> {
            self.now += 100;
            ends.iter().for_each(|(port, offset)| self.says(*port, *offset));
            let incarnations = BTreeMap::from([("h".to_owned(), 7)]);
            let situation = Situation {
                cluster: &self.cluster,
                in_sync: &self.in_sync,
                incarnations: &incarnations,
                term: 1,
                believed_since: Some(0),
                heights: self.heights.as_ref(),
            };
            let steps = self.keeper.poll_steps(self.now, situation);
            let floor = self.cluster.epoch + 1;
            self.keeper.handle_promise("h", 7, &Promise { floor, votes: Vec::new() }, self.now);
            steps.into_iter().find_map(|step| match step {
                Step::Elect { master, reason, may_lose } => Some((master, reason, may_lose)),
                _ => None,
            })
        }

        fn awaited(&self) -> Vec<AwaitedPort> {
            let all = self.keeper.awaited(self.now, &self.cluster.groups[&1], &self.in_sync);
            all.into_iter().map(|one| (one.server.port(), one.is_master, one.fallen)).collect()
        }

        fn remove(&self, port: u16) -> Result<(InSync, bool), GivingUpError> {
            let of = (&self.cluster.groups[&1], &self.in_sync);
            self.keeper.may_give_up(self.now, of, &address(port), true)
        }

        fn promote(&mut self, port: u16) -> Result<String, GivingUpError> {
            let of = (&self.cluster.groups[&1], &self.in_sync);
            self.keeper.give_master_up(self.now, of, &address(port), true)
        }
    }

    #[test]
    fn a_silent_member_is_given_up_while_another_one_is_left() {
        let mut scene = Scene::new(&[2, 3]);
        for _ in 0..20 {
            assert_eq!(scene.poll(&[(2, 500)]), None, "3 may have what 2 has not");
        }
        assert_eq!(scene.awaited(), [(1, true, None), (3, false, None)]);
        assert_eq!(scene.remove(2), Err(GivingUpError::Answers(address(2))));
        assert_eq!(
            scene.keeper.may_give_up(scene.now, (&scene.cluster.groups[&1], &scene.in_sync), &address(3), false),
            Err(GivingUpError::TooEarly),
            "hosts have not said yet what they remember"
        );
        let (next, may_lose) = scene.remove(3).unwrap();
        assert_eq!((next.members.as_slice(), may_lose), ([address(2)].as_slice(), true));
        // Where each write is on both, nothing is lost.
        scene.in_sync.ack = Some(2);
        assert!(!scene.remove(3).unwrap().1);
        scene.in_sync = next;
        let (master, reason, may_lose) = (0..3).find_map(|_| scene.poll(&[(2, 500)])).unwrap();
        assert_eq!((master, may_lose), (address(2), false), "{reason}");
    }

    #[test]
    fn the_last_one_is_not_given_up_without_a_word_about_the_master() {
        let mut scene = Scene::new(&[2]);
        for _ in 0..20 {
            assert_eq!(scene.poll(&[(3, 400)]), None);
        }
        let refusal = scene.remove(2).unwrap_err();
        let best = Some(address(3));
        assert_eq!(refusal, GivingUpError::NobodyLeft { group: 1, server: address(2), master: address(1), best },);
        assert!(refusal.to_string().contains("`tidegate cluster server promote 1 127.0.0.1:3 --gone`"), "{refusal}");
        // With the master there, it goes.
        scene.poll(&[(1, 500), (3, 400)]);
        assert_eq!(scene.remove(2).map(|(next, may_lose)| (next.members, may_lose)), Ok((Vec::new(), false)));
        // A leader that has just begun does not know who is there.
        scene.keeper = Keeper::new(1, Patience::default(), scene.now);
        scene.poll(&[(1, 500)]);
        assert_eq!(scene.remove(2), Err(GivingUpError::TooEarly));
    }

    #[test]
    fn a_member_that_was_set_back_waits_for_its_master_until_a_person_gives_that_up() {
        let mut scene = Scene::new(&[2]);
        let group = &scene.cluster.groups[&1];
        let id = group.server(&address(2)).unwrap().id.clone();
        scene.heights = Some(Heights { reign: group.config_epoch, of: [(id, 900)].into(), ..Heights::default() });
        for _ in 0..20 {
            assert_eq!(scene.poll(&[(2, 500), (3, 450)]), None);
        }
        assert_eq!(scene.awaited(), [(1, true, None), (2, false, Some((500, 900)))]);
        assert!(
            matches!(scene.remove(2), Err(GivingUpError::NobodyLeft { best: Some(best), .. }) if best == address(2))
        );
        assert_eq!(scene.promote(1), Err(GivingUpError::IsMaster(address(1))));
        assert_eq!(scene.promote(3), Err(GivingUpError::Better { other: address(2), end: 500 }));
        let said = scene.promote(2).unwrap();
        assert!(said.contains("behind offset 500 may be lost"), "{said}");
        let (master, reason, may_lose) = (0..3).find_map(|_| scene.poll(&[(2, 500)])).unwrap();
        assert_eq!((master, may_lose), (address(2), true));
        assert!(reason.contains("127.0.0.1:1 was given up as gone for good"), "{reason}");
    }

    #[test]
    fn a_master_that_comes_back_is_not_given_up() {
        let mut scene = Scene::new(&[]);
        for _ in 0..20 {
            assert_eq!(scene.poll(&[(2, 500), (3, 450)]), None);
        }
        assert_eq!(scene.awaited(), [(1, true, None)], "nobody else has what it has acknowledged");
        scene.promote(2).unwrap();
        assert_eq!(scene.poll(&[(1, 600), (2, 500)]), None);
        assert!(!scene.keeper.takes_last_resort());
        assert_eq!(scene.promote(2), Err(GivingUpError::Answers(address(1))));
        // Nor where somebody takes its place by itself, nor for one that is silent.
        let mut scene = Scene::new(&[2]);
        for _ in 0..12 {
            scene.poll(&[(3, 450)]);
        }
        assert_eq!(scene.promote(2), Err(GivingUpError::Silent(address(2))));
        scene.poll(&[(2, 500)]);
        assert_eq!(scene.promote(2), Err(GivingUpError::NotNeeded));
    }

    /// Each write is on two of three: the one that is left may lack it, and the third is waited for.
    #[test]
    fn who_is_given_up_takes_no_more_along_than_itself() {
        let mut scene = Scene::new(&[2, 3]);
        scene.in_sync.ack = Some(2);
        for _ in 0..20 {
            scene.poll(&[(2, 500)]);
        }
        let (next, may_lose) = scene.remove(3).unwrap();
        assert_eq!((next.members, next.ack, may_lose), (vec![address(2)], Some(1), false));
        scene.in_sync.ack = Some(1);
        let (next, may_lose) = scene.remove(3).unwrap();
        assert_eq!((next.ack, may_lose), (Some(1), true));
    }
}
