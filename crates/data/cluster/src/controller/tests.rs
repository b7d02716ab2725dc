//! Copies that come to nothing, and slots that go the same way twice.

use std::collections::BTreeMap;

use super::*;
use crate::{
    change::tests::two_groups,
    controller::moves::CopyNews,
    keeper::Role,
    migration::CopyProgress,
    slots::{SlotEvent, SlotRange},
};

const WHAT: Move = Move { slots: SlotRange { first: 0, last: 15 }, from: 1, to: 2 };

/// What a record has nothing of.
#[derive(Default)]
struct Nothing {
    in_sync: BTreeMap<GroupId, (InSync, u64)>,
    incarnations: BTreeMap<String, Incarnation>,
    pending: PendingRecord,
}

impl Nothing {
    fn record<'a>(&'a self, cluster: &'a Cluster, moving: &'a [(Move, Phase)]) -> Record<'a> {
        let Self { in_sync, incarnations, pending } = self;
        Record { cluster, moving, leader: None, in_sync, incarnations, pending }
    }
}

struct Scene {
    controller: Controller,
    cluster: Cluster,
    now: u64,
}

impl Scene {
    fn new() -> Self {
        let mut controller = Controller::new("h", Patience::default(), Fence::new((1_500, 100), 1, 0));
        let (cluster, none) = (two_groups(), Nothing::default());
        controller.handle_claimed(1, none.record(&cluster, &[]), 0);
        Self { controller, cluster, now: 10_000 }
    }

    /// What is said of the slots once both masters have answered.
    fn poll(&mut self, phase: Phase) -> Vec<Action> {
        self.now += 10;
        for (id, group) in self.cluster.groups.clone() {
            let seen = Observation {
                asked_at: self.now,
                answered_at: self.now,
                role: Role::Master,
                offset: 100,
                durable: 100,
                epoch: self.cluster.epoch,
                counting: None,
                followers: Vec::new(),
                run: format!("r{id}"),
                serves: true,
                pauses: Vec::new(),
                bond: None,
                histories: Vec::new(),
            };
            self.controller.handle_observed(&self.cluster, &group.master, seen, self.now);
        }
        let none = Nothing::default();
        self.controller.poll_moves(self.now, none.record(&self.cluster, &[(WHAT, phase)]))
    }

    /// All servers say where their logs end; what is to be done then.
    fn all_say(&mut self, ends: &[(u16, u64)]) -> Vec<Action> {
        self.now += 10;
        for (port, offset) in ends {
            let address = Address::new("127.0.0.1", *port);
            let group = &self.cluster.groups[&self.cluster.group_of(&address).unwrap()];
            let role = match group.master == address {
                true => Role::Master,
                false => Role::Replica { master: group.master.clone(), is_linked: true },
            };
            let seen = Observation {
                asked_at: self.now,
                answered_at: self.now,
                role,
                offset: *offset,
                durable: *offset,
                epoch: self.cluster.epoch,
                counting: None,
                followers: Vec::new(),
                run: format!("r{port}"),
                serves: true,
                pauses: Vec::new(),
                bond: None,
                histories: Vec::new(),
            };
            self.controller.handle_observed(&self.cluster, &address, seen, self.now);
            self.controller.handle_round(&address, true);
        }
        let config_epoch = self.cluster.groups[&1].config_epoch;
        let in_sync = InSync { config_epoch, members: vec![Address::new("127.0.0.1", 2)], ack: Some(1), serial: 1 };
        let nothing = Nothing { in_sync: [(1, (in_sync, 1))].into(), ..Nothing::default() };
        let at = Moment { now: self.now, date: 0 };
        self.controller.poll(at, nothing.record(&self.cluster, &[]))
    }

    fn started(&mut self) -> Option<CopyNumber> {
        let number = |action: &Action| if let Action::StartCopy { number, .. } = action { Some(*number) } else { None };
        self.poll(Phase::Copying).iter().find_map(number)
    }

    fn hear(&mut self, number: CopyNumber, news: CopyNews) {
        self.controller.handle_copy(number, news, self.now);
    }
}

#[test]
fn a_copy_that_the_cluster_has_overtaken_begins_again_at_once() {
    let mut scene = Scene::new();
    let first = scene.started().unwrap();
    scene.cluster.epoch += 1;
    assert_eq!(scene.started(), None);
    scene.hear(first, CopyNews::Outdated("STALEEPOCH".into()));
    // It is told to end, and is waited for.
    assert_eq!(scene.poll(Phase::Copying), [Action::StopCopy(first)]);
    scene.hear(first, CopyNews::Ended);
    let second = scene.started().unwrap();
    let seen = scene.controller.move_seen(WHAT, scene.now);
    assert_eq!((seen.attempts, seen.problem), (1, None));
    // A target that knows more than the agent at all is no reason to ask it without a pause.
    scene.hear(second, CopyNews::Outdated("STALEEPOCH".into()));
    scene.hear(second, CopyNews::Ended);
    assert_eq!(scene.started(), None);
    assert_eq!(scene.controller.move_seen(WHAT, scene.now).problem.as_deref(), Some("STALEEPOCH"));
    scene.now += 1_000;
    assert!(scene.started().is_some_and(|third| third > second));
}

#[test]
fn slots_that_go_the_same_way_twice_are_cleared_twice() {
    let mut scene = Scene::new();
    let master = scene.cluster.groups[&1].master.clone();
    let cleared = Action::Write(Decision::Slots(WHAT, SlotEvent::Cleared));
    for _ in 0..2 {
        let part = Action::Clear { server: master.clone(), slots: WHAT.slots, count: 250, cursor: None };
        assert_eq!(scene.poll(Phase::Clearing), [part]);
        scene.controller.handle_cleared(&master, 0, &Cleared::Keys(3));
        assert_eq!(scene.poll(Phase::Clearing), std::slice::from_ref(&cleared));
        // Nobody has looked in between but when they were on their way again.
        let number = scene.started().unwrap();
        let progress = CopyProgress { is_following: true, offset: 100, ..CopyProgress::default() };
        scene.hear(number, CopyNews::Progress(progress));
        scene.poll(Phase::Clearing);
        scene.hear(number, CopyNews::Ended);
    }
}

#[test]
fn a_pause_ends_with_its_copy() {
    let mut scene = Scene::new();
    let number = scene.started().unwrap();
    let progress = CopyProgress { is_following: true, offset: 100, ..CopyProgress::default() };
    scene.hear(number, CopyNews::Progress(progress));
    let pauses = scene.poll(Phase::Copying);
    let [Action::PauseSlots { server, number: pause, .. }] = pauses.as_slice() else { panic!("{pauses:?}") };
    let end = Action::EndPause { server: server.clone(), number: *pause };
    scene.hear(number, CopyNews::Failed("the target is full".into()));
    assert_eq!(scene.poll(Phase::Copying), [end, Action::StopCopy(number)]);
}

/// Two hosts have exchanged their addresses: who answers at one of them now is not judged by what the other one has said there.
#[test]
fn an_address_that_changes_hands_says_nothing_of_who_was_there() {
    let mut scene = Scene::new();
    let address = |port| Address::new("127.0.0.1", port);
    scene.all_say(&[(1, 500), (2, 900)]);
    let asks = |actions: &[Action]| {
        let asked = |action: &Action| matches!(action, Action::Ask { server, .. } if *server == address(2));
        actions.iter().any(asked)
    };
    scene.now += 1_000;
    assert!(!asks(&scene.all_say(&[(1, 510)])), "a round is under way");
    scene.cluster.epoch += 1;
    let group = scene.cluster.groups.get_mut(&1).unwrap();
    let server = group.servers.iter_mut().find(|server| server.address == address(2)).unwrap();
    server.id = "another".into();
    assert!(asks(&scene.all_say(&[(1, 520)])), "who is there now has a round of its own");
    scene.all_say(&[(1, 530), (2, 530)]);
    let keeper = &scene.controller.keepers[&1];
    assert!(!keeper.has_fallen(&address(2)), "its log has never been longer");
    // The same one that says less has lost something.
    scene.all_say(&[(1, 540), (2, 520)]);
    assert!(scene.controller.keepers[&1].has_fallen(&address(2)));
}
