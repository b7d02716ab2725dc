//! Worlds that are played from beginning to end.

use std::collections::BTreeSet;

use super::{Kinds, World, number};

/// Seeds of a usual run.
const SEEDS: u64 = 25;

/// Plays worlds. Each seed that fails is said.
fn play(kinds: Kinds, seeds: u64) {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..number("SEEDS").unwrap_or(seeds) + 1,
    };
    let (mut elections, mut readdressed, mut acknowledged, mut switches, mut count) = (0, 0, 0, 0, 0);
    for seed in seeds {
        let mut world = World::new(seed, kinds);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run()));
        assert!(result.is_ok(), "SEED={seed}");
        elections += world.elections;
        readdressed += world.readdressed;
        switches += world.switches;
        acknowledged += world.acknowledged.iter().map(BTreeSet::len).sum::<usize>() as u64;
        count += 1;
    }
    // Else nothing was tested.
    let is_enough = elections >= count && acknowledged > 100 * count && switches >= count;
    assert!(is_enough, "{elections} elections, {acknowledged} writes, {switches} ranges have moved");
    assert!(readdressed * 4 >= count || kinds == Kinds::Mixed || count == 1, "{readdressed} hosts had other addresses");
}

#[test]
fn one_serves_nothing_is_lost_and_all_is_well_again() {
    play(Kinds::Stores, SEEDS);
}

#[test]
fn redis_servers_lose_no_more_than_they_may_and_none_is_written_to_beside_another() {
    play(Kinds::Mixed, SEEDS);
}

/// Masters that are silent for a moment again and again do not lose their places without end.
#[test]
fn groups_come_to_rest_on_a_machine_that_has_too_much_to_do() {
    for kinds in [Kinds::Stores, Kinds::Mixed] {
        let (mut soon, mut later, mut groups) = (0, 0, 0);
        for seed in 1..=10 {
            let mut world = World { is_overloaded: true, wants_faults: false, ..World::new(seed, kinds) };
            world.run_until(30_000);
            soon += std::mem::take(&mut world.elections);
            world.run_until(70_000);
            later += world.elections;
            groups += world.record.cluster.groups.len() as u64;
        }
        eprintln!("{kinds:?}: {groups} groups changed their masters {soon} times in 30 s, then {later} times in 40 s");
        assert!(later * 4 <= groups * 3, "{later} changes of masters in 40 s, of {groups} groups");
    }
}

/// Coordinators are set back, disks take no writes, and clusters are made anew: what a plan calls safe is there.
#[test]
fn records_with_wrong_histories_lose_nothing_unsaid() {
    let (mut rescues, mut set_back, mut said_lost, mut acknowledged) = (0, 0, 0, 0);
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..number("SEEDS").unwrap_or(SEEDS) + 1,
    };
    for seed in seeds {
        let mut world = World::new(seed, Kinds::Stores);
        world.histories.is_on = true;
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run()));
        assert!(result.is_ok(), "SEED={seed}");
        rescues += world.histories.rescues;
        set_back += world.histories.set_back;
        said_lost += world.histories.said_lost;
        acknowledged += world.acknowledged.iter().map(BTreeSet::len).sum::<usize>();
    }
    eprintln!(
        "{rescues} rescues, {set_back} coordinators set back, {acknowledged} writes, {said_lost} lost as was said"
    );
    assert!(number("SEED").is_some() || rescues > 10 && set_back > 5, "{rescues} rescues, {set_back} set back");
}
