//! Names of hosts that are exchanged in the name service while all runs: new connections lead to other machines than those that are meant.

use std::sync::Arc;

use cluster::Address;

use super::{
    Kinds, World, number,
    planted::Planted,
    world::{HOSTS, name, number_of},
};

/// The names of two hosts, each of which leads to the other one.
pub struct Exchanged([usize; 2]);

impl Exchanged {
    /// The address of what listens where an address leads to.
    pub fn leads_to(&self, address: &Address) -> Address {
        let [one, other] = self.0.map(name);
        let host = match address.host() {
            host if host == one => other,
            host if host == other => one,
            host => host.to_owned(),
        };
        Address::new(host, address.port())
    }
}

/// The servers of each host listen on the same ports as those of other hosts, so that by exchanged names one answers for another group's.
fn world(seed: u64, planted: Option<Planted>) -> World {
    let mut world = World::new(seed, Kinds::Stores);
    let mut cluster = (*world.record.cluster).clone();
    let mut taken = [1_000; HOSTS];
    for group in cluster.groups.values_mut() {
        let master = group.servers.iter().position(|server| server.address == group.master).unwrap();
        for server in &mut group.servers {
            let port = &mut taken[number_of(&server.host)];
            *port += 1;
            let address = Address::new(server.address.host(), *port);
            world.stores.iter_mut().find(|store| store.server.id == server.id).unwrap().server.address =
                address.clone();
            server.address = address;
        }
        group.master = group.servers[master].address.clone();
    }
    world.record.cluster = Arc::new(cluster);
    World { wants_faults: false, planted, ..world }
}

/// Names are exchanged for a while, and then right again.
fn play(world: &mut World) {
    world.run_until(4_000);
    for turn in 0..3 {
        let one = world.random.below(HOSTS as u64) as usize;
        world.exchanged = Some(Exchanged([one, (one + 1) % HOSTS]));
        // Connections that were there end now and then.
        let index = world.random.below(world.stores.len() as u64) as usize;
        world.kill_store(index);
        let until = 4_000 + 10_000 * turn + 5_000;
        world.run_until(until);
        world.exchanged = None;
        world.run_until(until + 5_000);
    }
    world.served = Default::default();
    world.run_until(37_000);
    assert!(world.served.iter().all(|served| *served > 100), "not all is served: {:?}", world.served);
}

#[test]
fn names_that_lead_elsewhere_have_nobody_take_what_is_meant_for_another() {
    for seed in number("SEED").map_or(1..31, |seed| seed..seed + 1) {
        let mut world = world(seed, None);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(&mut world)));
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_store_that_takes_what_is_meant_for_another_is_found() {
    let fails = |seed: &u64| {
        let mut world = world(*seed, Some(Planted::TakesWhatIsMeantForOthers));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(&mut world))).is_err()
    };
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=100).find(fails);
    let _ = std::panic::take_hook();
    assert!(found.is_some(), "it is not found");
    eprintln!("found with seed {found:?}");
}
