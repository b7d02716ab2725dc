//! Directors by data. The shard director's choices are those of varnishd 7.1 with the same backends and keys.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends")]

use vcl::{
    program::{BackendIndex, ObjectIndex},
    run::Backend,
};

use super::{
    By, Choice, Healthy, Members, Neighbours, Policy, Shard, ShardParameters, ShardTask, Wishes,
    shard::{Change, ShardBackend},
};

fn backend(number: u32) -> Backend {
    Backend::Declared(BackendIndex(number))
}

/// Which are sick, and when the health of each changed.
#[derive(Default)]
struct World {
    sick: Vec<u32>,
    changed: Vec<(u32, f64)>,
}

impl Neighbours for World {
    fn is_healthy(&self, backend: Backend) -> bool {
        !matches!(backend, Backend::Declared(BackendIndex(number)) if self.sick.contains(&number))
    }

    fn changed(&self, backend: Backend) -> f64 {
        let Backend::Declared(BackendIndex(number)) = backend else { return 0.0 };
        self.changed.iter().find(|(known, _)| *known == number).map_or(0.0, |(_, time)| *time)
    }
}

#[test]
fn members_take_turns() {
    let members = Members::new(Policy::RoundRobin);
    for number in 0..3 {
        members.add(backend(number), 0.0);
    }
    let all = |_| true;
    let turns: Vec<_> = (0..4).map(|_| members.choose(b"", 0.0, all)).collect();
    assert_eq!(turns, [0, 1, 2, 0].map(|number| Some(backend(number))));
    members.remove(backend(1));
    assert_eq!(members.choose(b"", 0.0, all), Some(backend(2)));
    assert_eq!(members.choose(b"", 0.0, |member| member == backend(2)), Some(backend(2)));
    assert_eq!(members.choose(b"", 0.0, |_| false), None);
}

#[test]
fn a_fallback_stays_when_it_is_sticky() {
    for (sticky, expected) in [(false, 0), (true, 1)] {
        let members = Members::new(Policy::Fallback { sticky });
        members.add(backend(0), 0.0);
        members.add(backend(1), 0.0);
        assert_eq!(members.choose(b"", 0.0, |member| member == backend(1)), Some(backend(1)));
        assert_eq!(members.choose(b"", 0.0, |_| true), Some(backend(expected)), "{sticky}");
    }
}

#[test]
fn weights_are_of_the_healthy_ones() {
    let members = Members::new(Policy::Random);
    for (number, weight) in [(0, 1.0), (1, 2.0), (2, 1.0)] {
        members.add(backend(number), weight);
    }
    for (random, expected) in [(0.0, 0), (0.24, 0), (0.26, 1), (0.74, 1), (0.76, 2)] {
        assert_eq!(members.choose(b"", random, |_| true), Some(backend(expected)), "{random}");
    }
    assert_eq!(members.choose(b"", 0.6, |member| member != backend(1)), Some(backend(2)));
    assert_eq!(Members::new(Policy::Random).choose(b"", 0.5, |_| true), None);
}

fn shard(names: &[&str]) -> Shard {
    let shard = Shard::default();
    let changes: Vec<_> = names
        .iter()
        .zip(0..)
        .map(|(name, number)| {
            Change::Add(ShardBackend {
                backend: backend(number),
                name: name.as_bytes().to_vec(),
                ident: None,
                rampup: None,
                weight: 1.0,
            })
        })
        .collect();
    assert_eq!(shard.reconfigure(&changes, 25), (Vec::new(), true));
    shard
}

fn choice(shard: ShardParameters, now: f64, random: f64) -> Choice<'static> {
    Choice { key: b"", random, now, shard }
}

fn by_key(key: u32) -> ShardParameters {
    ShardParameters { by: By::Key, key, ..ShardParameters::default() }
}

/// Points of the ring that varnishd makes of three backends with 25 points each.
#[test]
fn keys_go_where_varnish_sends_them() {
    let shard = shard(&["s1", "s2", "s3"]);
    for (key, expected) in [
        (0x03b6_b56a, 0),
        (0x03b6_b56b, 2),
        (0x0669_86a7, 2),
        (0x1112_f910, 1),
        (0x68b9_02f8, 0),
        (0x39dc_4614, 1),
        (0xc779_3506, 2),
    ] {
        let found = shard.choose(&choice(by_key(key), 0.0, 0.0), &World::default());
        assert_eq!(found, Some(backend(expected)), "{key:x}");
    }
}

#[test]
fn a_sick_one_moves_its_keys_alone() {
    let shard = shard(&["s1", "s2", "s3"]);
    let (well, world) = (World::default(), World { sick: vec![1], ..World::default() });
    for key in (0..200).map(|number| number * 20_000_000) {
        let before = shard.choose(&choice(by_key(key), 0.0, 0.0), &well);
        let after = shard.choose(&choice(by_key(key), 0.0, 0.0), &world);
        assert_ne!(after, Some(backend(1)));
        if before != Some(backend(1)) {
            assert_eq!(before, after);
        }
        let ignoring = ShardParameters { healthy: Healthy::Ignore, ..by_key(key) };
        assert_eq!(shard.choose(&choice(ignoring, 0.0, 0.0), &world), before);
        let alternative = ShardParameters { alternative: 1, ..by_key(key) };
        assert_ne!(shard.choose(&choice(alternative, 0.0, 0.0), &well), before);
    }
}

#[test]
fn a_new_one_is_asked_little_by_little() {
    let shard = shard(&["s1", "s2", "s3"]);
    shard.set_rampup(100.0);
    let key = 77;
    let well = World::default();
    let Some(Backend::Declared(BackendIndex(owner))) = shard.choose(&choice(by_key(key), 1e6, 0.5), &well) else {
        panic!("nobody")
    };
    let world = World { changed: vec![(owner, 1e6 - 30.0)], ..World::default() };
    for (random, stays) in [(0.2, true), (0.4, false)] {
        let found = shard.choose(&choice(by_key(key), 1e6, random), &world);
        assert_eq!(found == Some(backend(owner)), stays, "{random}");
    }
    let at_once = ShardParameters { rampup: false, ..by_key(key) };
    assert_eq!(shard.choose(&choice(at_once, 1e6, 0.9), &world), Some(backend(owner)));
    let warm = ShardParameters { warmup: 0.5, ..by_key(key) };
    assert_ne!(shard.choose(&choice(warm, 1e6, 0.4), &well), Some(backend(owner)));
    assert_eq!(shard.choose(&choice(warm, 1e6, 0.6), &well), Some(backend(owner)));
}

#[test]
fn backends_come_and_go() {
    let shard = shard(&["s1", "s2"]);
    let again = ShardBackend { backend: backend(1), name: b"s2".to_vec(), ident: None, rampup: None, weight: 1.0 };
    let other = ShardBackend { ident: Some(b"twin".to_vec()), ..again.clone() };
    let (notes, _) = shard.reconfigure(&[Change::Add(again), Change::Add(other)], 67);
    assert_eq!(notes, ["backend s2 already exists - skipping"]);
    assert_eq!(shard.members(), [backend(0), backend(1), backend(1)]);
    shard.reconfigure(&[Change::RemoveIdent(b"twin".to_vec())], 67);
    assert_eq!(shard.members(), [backend(0), backend(1)]);
    shard.reconfigure(&[Change::RemoveBackend(backend(0))], 67);
    assert_eq!(shard.members(), [backend(1)]);
    assert_eq!(shard.reconfigure(&[Change::Clear], 67), (Vec::new(), false));
    assert_eq!(shard.choose(&choice(by_key(0), 0.0, 0.0), &World::default()), None);
}

#[test]
fn what_is_said_stands_over_what_was() {
    let (director, set) = (ObjectIndex(0), ObjectIndex(1));
    let in_init = Wishes { by: Some((By::Url, 0)), alternative: Some(1), ..Wishes::default() };
    let of_set = |_| in_init;
    let mut task = ShardTask::default();
    assert_eq!(task.of_director(director, None, of_set), Wishes::default());
    assert_eq!(task.of_director(director, Some(set), of_set), in_init);
    task.set_parameters(set, Wishes { alternative: Some(2), ..Wishes::default() });
    let of_task = Wishes { alternative: Some(2), ..in_init };
    assert_eq!(task.of_director(director, Some(set), of_set), of_task);
    task.set_director(director, Wishes { warmup: Some(0.1), ..Wishes::default() }, None, Some(set));
    assert_eq!(task.of_director(director, Some(set), of_set), Wishes { warmup: Some(0.1), ..of_task });
    task.set_director(director, Wishes::default(), Some(set), None);
    assert_eq!(task.of_director(director, None, of_set), in_init);
}
