//! Folders of stores that are set back to copies of before: a machine to a snapshot, a disk to a backup. It happens to one store at a time
//! while all is well, so that others have all that was acknowledged.

use super::{
    Kinds, World,
    log::Log,
    number,
    planted::Planted,
    world::{HOSTS, Store},
};
use cluster::{
    Address,
    keeper::{Bond, LogHistory},
};

/// So long everything has to become well again after one.
const PATIENCE_MS: u64 = 15_000;

/// What a folder had.
#[derive(Clone)]
struct Snapshot {
    log: Log,
    histories: Vec<LogHistory>,
    master: Option<Address>,
    bond: Option<Bond>,
    is_bound: bool,
    term: u64,
}

/// What there is to set back to, and when.
#[derive(Default)]
pub struct SetBacks {
    snapshots: Vec<Option<Snapshot>>,
    /// Since when something is not well.
    unwell_since: u64,
    /// Since when all is well; 0: it is not.
    well_since: u64,
    pub count: u64,
}

impl Snapshot {
    fn of(store: &Store) -> Self {
        Self {
            log: store.log.clone(),
            histories: store.histories.clone(),
            master: store.master.clone(),
            bond: store.bond,
            is_bound: store.is_bound,
            term: store.term,
        }
    }

    fn restore(self, store: &mut Store) {
        store.longest = store.longest.max(store.log.len());
        (store.log, store.master, store.bond) = (self.log, self.master, self.bond);
        (store.is_bound, store.term, store.histories) = (self.is_bound, self.term, self.histories);
    }
}

impl World {
    /// Whether all replicas of all groups are in sync, and have been told so.
    fn is_well(&self) -> bool {
        let runs = |index: &usize| self.store_runs(*index);
        (0..self.stores.len()).all(|index| runs(&index))
            && self.hosts.iter().all(|host| host.agent.is_some())
            && self.record.cluster.groups.iter().all(|(id, group)| {
                let members = self.record.in_sync.get(id).map(|known| known.0.of(group).members).unwrap_or_default();
                let master = self.found(&group.master).map(|index| &self.stores[index]);
                master.is_some_and(|master| {
                    let counts = |member: &Address| {
                        master.counting.as_ref().is_some_and(|told| told.count.members.contains(member))
                    };
                    group.replicas().all(|server| members.contains(&server.address) && counts(&server.address))
                })
            })
    }

    pub fn set_something_back(&mut self) {
        let Some(mut state) = self.set_backs.take() else { return };
        if state.snapshots.is_empty() {
            state.snapshots = vec![None; self.stores.len()];
        }
        if self.random.one_in(100) {
            let index = self.random.below(self.stores.len() as u64) as usize;
            state.snapshots[index] = Some(Snapshot::of(&self.stores[index]));
        }
        if self.is_well() {
            state.unwell_since = self.now;
            state.well_since = if state.well_since == 0 { self.now } else { state.well_since };
        } else {
            state.well_since = 0;
        }
        assert!(self.now < state.unwell_since + PATIENCE_MS, "nothing is well at {}", self.now);
        if state.well_since > 0 && self.now > state.well_since + 2_000 && self.random.one_in(50) {
            self.set_back(&mut state);
            state.well_since = 0;
        }
        if self.random.one_in(700) {
            let host = self.random.below(HOSTS as u64) as usize;
            self.kill_agent(host, 10);
        }
        self.set_backs = Some(state);
    }

    /// Hosts write down from time to time how far servers were.
    pub fn keep_heights(&mut self) {
        for (number, host) in self.hosts.iter_mut().enumerate() {
            let Some(agent) = &host.agent else { continue };
            if (self.now / 10 + number as u64).is_multiple_of(100) {
                host.heights = agent.voter.heights().clone();
            }
        }
    }

    /// Whether all hosts remember that a store had more than this.
    fn is_remembered(&self, index: usize, snapshot: &Snapshot) -> bool {
        let (id, group) = (&self.stores[index].server.id, self.stores[index].group);
        let reign = self.record.cluster.groups[&group].reign();
        self.hosts.iter().all(|host| {
            let known = host.heights.of(group).filter(|known| known.reign == reign);
            known.and_then(|known| known.of.get(id)).is_some_and(|height| *height > snapshot.log.len() as u64)
        })
    }

    /// All lose power. The other stores of a group are there later, perhaps much later, so that the one that is set back is heard alone.
    fn lose_power_with(&mut self, index: usize) {
        (0..HOSTS).for_each(|host| self.kill_host(host));
        let (group, late_ms) = (self.stores[index].group, self.random.below(9_000));
        for (other, store) in self.stores.iter_mut().enumerate() {
            if other != index && store.group == group {
                store.back_at = self.now + late_ms;
            }
        }
    }

    fn set_back(&mut self, state: &mut SetBacks) {
        let index = self.random.below(self.stores.len() as u64) as usize;
        let Some(snapshot) = state.snapshots[index].take() else { return };
        state.count += 1;
        if number("TELL").is_some() {
            eprintln!(
                "{} {} is set back from {} to {}",
                self.now,
                self.stores[index].run,
                self.stores[index].log.len(),
                snapshot.log.len()
            );
        }
        let address = &self.stores[index].server.address;
        let is_master = self.record.cluster.groups[&self.stores[index].group].master == *address;
        // NOTE: where the others are away, what it had is known only if hosts have written down since that it had more.
        let is_remembered = self.is_remembered(index, &snapshot);
        match self.random.below(6) {
            4 | 5 if is_remembered => self.lose_power_with(index),
            0 if is_master => (0..HOSTS).for_each(|host| self.kill_host(host)),
            0 | 1 => self.kill_host(self.stores[index].host),
            // Its agent notices, or the process is another one before anybody has.
            2 => self.kill_store(index),
            _ => {
                let planted = self.planted;
                self.stores[index].start_anew(planted);
            }
        }
        snapshot.restore(&mut self.stores[index]);
        (self.network.lost, self.network.slow) = (self.random.below(20), self.random.below(100));
    }
}

fn world(seed: u64, planted: Option<Planted>) -> World {
    let set_backs = Some(SetBacks::default());
    World { set_backs, wants_faults: false, planted, ..World::new(seed, Kinds::Stores) }
}

#[test]
fn a_folder_that_was_set_back_takes_nothing_from_others() {
    let (mut count, mut elections) = (0, 0);
    let seeds = number("SEED").map_or(1..41, |seed| seed..seed + 1);
    for seed in seeds {
        let mut world = world(seed, None);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run_until(60_000)));
        assert!(result.is_ok(), "seed {seed}");
        count += world.set_backs.unwrap().count;
        elections += world.elections;
    }
    assert!(count > 200 && elections > 40, "{count} folders were set back, {elections} elections");
}

#[test]
fn hosts_that_forget_how_far_servers_were_are_found() {
    is_found(Planted::ForgetsHeights);
}

#[test]
fn a_replica_that_copies_what_has_lost_something_is_found() {
    is_found(Planted::CopiesWhatHasLost);
}

#[test]
fn a_master_that_serves_with_less_than_a_replica_has_is_found() {
    is_found(Planted::ServesWithLess);
}

fn is_found(planted: Planted) {
    let fails = |seed: &u64| {
        let mut world = world(*seed, Some(planted));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run_until(60_000))).is_err()
    };
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=100).find(fails);
    let _ = std::panic::take_hook();
    assert!(found.is_some(), "{planted:?} is not found");
    eprintln!("{planted:?} is found with seed {found:?}");
}
