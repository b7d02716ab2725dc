//! The disk tier: what is there after a restart, after a crash at any moment, and with damaged files.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "disk/support.rs"]
mod support;

use std::sync::{Arc, atomic::Ordering::Relaxed};

use cache::{
    bans::Expression,
    index::{Cache, Digest, Found, Query},
    object::{Kind, Lifetime, Object, Variant},
    storage::{
        Stevedore,
        disk::{Compaction, DiskNews, MemoryFiles, StartedEmpty},
    },
};
use http::{Headers, ResponseHead};
use support::{NOW, Place, body_of, read};

const SIZE: u64 = 4 << 20;

#[test]
fn a_restart_keeps_what_was_there() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, SIZE);
    for key in 0..8 {
        place.put(key, 1, &[]);
    }
    place.put(8, 1, &["news", "front"]);
    place.put(9, 1, &["news"]);
    place.put(10, 700_000, &["large"]);
    place.put(3, 2, &[]);
    assert_eq!(place.cache.purge(Digest(support::digest(4))), 1);
    assert_eq!(place.cache.soft_purge(Digest(support::digest(5)), NOW + 1.0, Some(0.0), Some(5.0), None), 1);
    assert_eq!(place.cache.purge_tag(b"front"), 1);
    place.cache.bans().add(Expression::parse("req.url == /6").unwrap(), NOW + 1.0);
    place.cache.bans().add(Expression::parse("obj.http.key == \"7\"").unwrap(), NOW + 1.0);
    place.put(11, 1, &[]);

    for _ in 0..2 {
        let again = Place::open(&files, SIZE);
        assert_eq!(again.recovered.started_empty, None);
        assert_eq!((again.recovered.bans, again.recovered.dropped), (2, 0));
        let found: Vec<Option<usize>> = (0..12).map(|key| again.find(key, NOW + 2.0)).collect();
        let one = Some(1);
        assert_eq!(found, [one, one, one, Some(2), None, None, None, None, None, one, Some(700_000), one]);
        // A soft purge leaves grace.
        assert_eq!(again.state(5, NOW + 2.0), "grace");
        assert_eq!(again.state(5, NOW + 7.0), "miss");
        assert_eq!(again.place_bans(), place.place_bans());
    }
    let again = Place::open(&files, SIZE);
    assert_eq!(again.cache.purge_tag(b"news"), 1);
    assert_eq!(again.find(9, NOW + 2.0), None);
    // What has expired is not there, and its room is free.
    let late = Place::open_at(&files, SIZE, NOW + 1e6);
    assert_eq!((late.recovered.objects, late.recovered.expired > 5), (0, true));
    assert_eq!(late.disk().free(), SIZE);
}

#[test]
fn variants_and_heads_survive() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, SIZE);
    let of = |language: &str| {
        let mut request = Headers::new();
        request.add(b"accept-language", language.as_bytes());
        request
    };
    for language in ["de", "fr"] {
        let request = of(language);
        let mut query = Query::new(support::digest(1), b"/1", &request, NOW);
        query.is_impatient = true;
        let Found::Miss { mut fetch, .. } = place.cache.lookup(&query) else { panic!() };
        fetch.varies_by(Variant::of(vec![b"accept-language".to_vec()], &request));
        let mut head = support::head(1, 5);
        head.set_status(404);
        head.set_reason(b"Gone fishing");
        head.headers.add(b"Content-Language", language.as_bytes());
        head.headers.add(b"Empty", b"");
        let lifetime = Lifetime { origin: NOW, ttl: 100.0, grace: 0.0, keep: 0.0 };
        let (object, filler) = Object::start(&place.cache, &place.storage, Kind::Ordinary, head, lifetime).unwrap();
        // This one is published before it is whole, and has no body.
        fetch.publish(object);
        filler.finish();
    }
    let again = Place::open(&files, SIZE);
    assert_eq!(again.recovered.objects, 2);
    for language in ["fr", "de"] {
        let request = of(language);
        let Found::Hit(object) = again.cache.lookup(&Query::new(support::digest(1), b"/1", &request, NOW)) else {
            panic!()
        };
        assert_eq!((object.head().status(), object.head().reason()), (404, &b"Gone fishing"[..]));
        assert_eq!(object.head().first(b"content-language"), Some(language.as_bytes()));
        assert_eq!(object.head().first(b"empty"), Some(&b""[..]));
        assert_eq!((object.body().length(), read(&object)), (Some(0), Some(Vec::new())));
    }
    assert!(matches!(again.cache.lookup(&Query::new(support::digest(1), b"/1", &of("en"), NOW)), Found::Miss { .. }));
}

/// Kills the process at each write, and within it: what was told to be gone is gone, what was whole is there.
#[test]
fn a_crash_at_any_write() {
    let files = MemoryFiles::remembering();
    let place = Place::open(&files, SIZE);
    // After how many writes which keys had which version.
    let mut states = vec![(0, [None; 6])];
    let mut state = [None; 6];
    let mut random = 1_u64;
    for step in 0..70_usize {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = usize::try_from(random >> 40).unwrap() % 6;
        let name = u8::try_from(key).unwrap();
        match random >> 61 {
            0 => {
                place.cache.purge(Digest(support::digest(name)));
                state[key] = None;
            }
            1 => {
                place.cache.bans().add(Expression::parse(&format!("obj.http.key == {key}")).unwrap(), NOW);
                state[key] = None;
            }
            2 => {
                let mut compaction = Compaction::begin(place.disk(), &place.cache).unwrap();
                while !compaction.step(&place.cache).unwrap() {}
            }
            _ => {
                place.put(name, 1 + step * 7, &[]);
                state[key] = Some(1 + step * 7);
            }
        }
        states.push((files.writes(), state));
    }
    for writes in 0..=files.writes() {
        let before = states.iter().rposition(|(after, _)| *after <= writes).unwrap();
        let after = (before + 1).min(states.len() - 1);
        for bytes in [0, 1, 5, 11, 40] {
            let crashed = Place::open(&files.killed_after(writes, bytes), SIZE);
            assert_eq!(crashed.recovered.started_empty, None, "after {writes} writes and {bytes} bytes");
            assert_eq!(crashed.recovered.dropped, 0);
            for key in 0..6_u8 {
                let found = crashed.find(key, NOW);
                let (old, new) = (states[before].1[usize::from(key)], states[after].1[usize::from(key)]);
                // While an object takes another one's place, neither may be there.
                let is_between = bytes > 0 || writes > states[before].0;
                assert!(
                    found == old || (is_between && (found == new || found.is_none())),
                    "key {key} after {writes} writes and {bytes} bytes: {found:?}, not {old:?} or {new:?}"
                );
            }
        }
    }
}

#[test]
fn a_damaged_journal_is_not_used() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, SIZE);
    for key in 0..3 {
        place.put(key, 9, &["tag"]);
    }
    place.cache.bans().add(Expression::parse("req.url ~ ^/1$").unwrap(), NOW);
    place.cache.purge(Digest(support::digest(2)));
    let (data, journal) = files.contents();
    for at in 0..journal.len() {
        let mut damaged = journal.clone();
        damaged[at] ^= 1 << (at % 8);
        let again = Place::open(&MemoryFiles::of(data.clone(), damaged), SIZE);
        assert!(
            matches!(again.recovered.started_empty, Some(StartedEmpty::Damaged(place)) if place <= at),
            "byte {at}"
        );
        assert_eq!(again.cache.counters.objects.load(Relaxed), 0);
        // It is of use from now on.
        again.put(1, 3, &[]);
        assert_eq!(again.find(1, NOW), Some(3));
    }
    // The end of a power loss: zeros where a record was.
    let again = Place::open(&MemoryFiles::of(data, [journal, vec![0; 40]].concat()), SIZE);
    assert!(matches!(again.recovered.started_empty, Some(StartedEmpty::Damaged(_))));
}

#[test]
fn damaged_data_is_not_delivered() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, SIZE);
    for key in 0..4 {
        place.put(key, 600, &[]);
    }
    place.put(4, 600_000, &[]);
    let (data, journal) = files.contents();
    let pieces = data.len() / 64;
    let mut missed = 0;
    for piece in 0..pieces.min(200) {
        // Denser at the start, where the small ones are.
        let at = if piece < 120 { piece * 40 } else { piece * (data.len() / 200) };
        let mut damaged = data.clone();
        damaged[at] ^= 0x10;
        let again = Place::open(&MemoryFiles::of(damaged, journal.clone()), SIZE);
        assert_eq!(again.recovered.objects, 5);
        for key in 0..5 {
            // `find` looks at each byte of what it is given.
            missed += usize::from(again.find(key, NOW).is_none());
        }
        assert!(again.cache.counters.objects.load(Relaxed) >= 4);
    }
    assert!(missed > 100, "{missed}");
}

#[test]
fn a_full_file_evicts_and_keeps_its_bound() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, SIZE);
    for round in 0..600_usize {
        let key = u8::try_from(round % 200).unwrap();
        place.put(key, 1 + (round * 7919) % 90_000, &[]);
        assert!(place.storage.used() <= SIZE);
    }
    assert!(place.cache.counters.lru_nuked.load(Relaxed) > 100);
    assert!(files.contents().0.len() as u64 <= SIZE);
    let there: Vec<Option<usize>> = (0..200).map(|key| place.find(key, NOW)).collect();
    let again = Place::open(&files, SIZE);
    assert_eq!(again.recovered.dropped, 0);
    assert_eq!((0..200).map(|key| again.find(key, NOW)).collect::<Vec<_>>(), there);
    assert_eq!(again.disk().free(), place.disk().free());
    // A smaller file drops what lies behind its end.
    let smaller = Place::open(&files, SIZE - SIZE / 8);
    assert!(smaller.recovered.dropped > 0 && smaller.recovered.objects > 0, "{:?}", smaller.recovered);
    for (key, length) in (0..200).zip(&there) {
        assert!([None, *length].contains(&smaller.find(key, NOW)));
    }
}

#[test]
fn a_reader_keeps_what_was_evicted() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, 64 << 10);
    place.put(1, 20_000, &[]);
    let Found::Hit(object) = place.lookup(1, NOW) else { panic!() };
    for round in 0..50 {
        place.put(2 + round % 5, 12_000, &[]);
    }
    assert!(object.is_gone());
    assert_eq!(read(&object), Some(body_of(1, 20_000)));
    let free = place.disk().free();
    drop(object);
    assert!(place.disk().free() >= free + 20_000);
}

#[test]
fn disks_that_fail() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, SIZE);
    place.put(1, 100, &[]);
    files.fail_writes(true);
    // The object is served from memory.
    place.put(2, 3000, &[]);
    assert_eq!((place.find(1, NOW), place.find(2, NOW)), (Some(100), Some(3000)));
    assert!(place.disk().counters.write_errors.load(Relaxed) > 0);
    // A ban that cannot be noted: nothing of the tier comes back.
    files.fail_writes(false);
    assert_eq!(Place::open(&files, SIZE).recovered.objects, 1);
    files.fail_writes(true);
    place.cache.bans().add(Expression::parse("req.url == /1").unwrap(), NOW);
    assert_eq!(place.disk().counters.journal_failed.load(Relaxed), 1);
    assert_eq!(place.find(1, NOW), None);
    assert!(Compaction::begin(place.disk(), &place.cache).is_err());
    // Once the disk takes something again, all that is there is noted again, the ban included.
    place.put(3, 500, &[]);
    place.disk().probe();
    assert!(place.disk().is_failing() && !place.disk().wants_compaction());
    files.fail_writes(false);
    place.disk().probe();
    assert!(!place.disk().is_failing() && place.disk().wants_compaction());
    place.put(4, 600, &[]);
    let mut compaction = Compaction::begin(place.disk(), &place.cache).unwrap();
    place.put(5, 700, &[]);
    while !compaction.step(&place.cache).unwrap() {}
    place.put(6, 800, &[]);
    assert_eq!(place.disk().counters.journal_failed.load(Relaxed), 0);
    let again = Place::open(&files, SIZE);
    let found = [1, 2, 3, 4, 5, 6].map(|key| again.find(key, NOW));
    assert_eq!(found, [None, None, None, Some(600), Some(700), Some(800)]);
    assert_eq!(again.recovered.bans, 1);
}

/// What a disk does not take is bounded by the memory beside it, and what begins meanwhile goes there.
#[test]
fn a_full_disk_fills_no_memory() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, SIZE);
    let memory = Arc::new(Stevedore::malloc("memory", 100_000));
    place.storage.falls_back_to(&memory);
    place.put(1, 1000, &[]);
    assert!(place.disk().take_news().is_none());
    // Objects on their way when the disk is full.
    let mut ways: Vec<_> = (0..40)
        .map(|_| {
            let head = ResponseHead::new();
            Object::start(&place.cache, &place.storage, Kind::Ordinary, head, Lifetime::default()).unwrap()
        })
        .collect();
    files.fail_writes(true);
    let results: Vec<bool> = ways
        .iter_mut()
        .map(|(_, filler)| {
            let first = filler.write(&[7; 8000]);
            filler.flush();
            first.and_then(|()| filler.write(b"x")).is_ok()
        })
        .collect();
    assert!(results.contains(&true) && results.contains(&false), "{results:?}");
    assert!(place.storage.unwritten() <= 100_000);
    assert!(matches!(place.disk().take_news(), Some(DiskNews::Failing(_))) && place.disk().take_news().is_none());
    // Who has a hole is broken, not short.
    let whole: Vec<bool> = ways
        .into_iter()
        .map(|(object, filler)| {
            filler.finish();
            assert_eq!(object.body().length().is_some(), !object.body().is_broken());
            !object.body().is_broken()
        })
        .collect();
    assert_eq!(whole, results);
    assert_eq!(place.storage.unwritten(), 0, "it goes with the objects");
    // What begins now goes into memory, and is as bounded as anything there.
    for key in 10..60 {
        place.put(key, 8000, &[]);
    }
    assert!(memory.used() <= memory.limit() && memory.used() > 0);
    assert_eq!((place.find(1, NOW), place.find(59, NOW)), (Some(1000), Some(8000)));
    assert_eq!(place.storage.unwritten(), 0);
    files.fail_writes(false);
    place.disk().probe();
    assert!(matches!(place.disk().take_news(), Some(DiskNews::Works)));
    let before = memory.used();
    place.put(70, 8000, &[]);
    assert_eq!((memory.used(), place.find(70, NOW)), (before, Some(8000)));
}

#[test]
fn two_tiers_share_bans() {
    let (one, other) = (MemoryFiles::default(), MemoryFiles::default());
    let place = Place::open(&one, SIZE);
    place.put(1, 10, &[]);
    place.cache.bans().add(Expression::parse("obj.http.key == 1").unwrap(), NOW);
    // The second one comes later.
    let second = place.beside(&other, SIZE);
    second.put(2, 20, &[]);
    place.cache.bans().add(Expression::parse("obj.http.key == 2").unwrap(), NOW);
    second.put(3, 30, &[]);

    let again = Place::open(&one, SIZE);
    let second = again.beside(&other, SIZE);
    assert_eq!((again.recovered.bans, second.recovered.bans), (2, 2));
    assert_eq!([None, None, Some(30)], [1, 2, 3].map(|key| again.find(key, NOW)));

    // Another cache's bans do not tell what these objects have passed.
    let cache = Place::open(&MemoryFiles::default(), SIZE);
    cache.cache.bans().add(Expression::parse("obj.http.key == 9").unwrap(), NOW);
    let strange = cache.beside(&other, SIZE);
    assert_eq!(strange.recovered.started_empty, Some(StartedEmpty::OtherBans));
    assert_eq!(cache.find(3, NOW), None);
}

#[test]
fn what_happens_during_a_compaction_is_in_the_new_journal() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, SIZE);
    (0..10).for_each(|key| place.put(key, 1, &["tag"]));
    let mut compaction = Compaction::begin(place.disk(), &place.cache).unwrap();
    for step in 0.. {
        // Before, while and after the walk comes to these objects.
        match step {
            0 => assert_eq!(place.cache.purge(Digest(support::digest(1))), 1),
            1 => place.put(2, 22, &[]),
            3 => place.cache.bans().add(Expression::parse("obj.http.key == 3").unwrap(), NOW),
            4 => assert_eq!(place.cache.soft_purge_tag(b"tag", NOW + 1.0), 8),
            5 => assert_eq!(place.cache.purge(Digest(support::digest(5))), 1),
            100 => assert_eq!(place.cache.purge(Digest(support::digest(6))), 1),
            101 => place.put(11, 111, &[]),
            _ => {}
        }
        if compaction.step(&place.cache).unwrap() {
            assert!(step > 101);
            break;
        }
    }
    let again = Place::open(&files, SIZE);
    let states: Vec<&str> = (0..12).map(|key| again.state(key, NOW + 1.5)).collect();
    let (grace, miss) = ("grace", "miss");
    assert_eq!(states, [grace, miss, "hit", miss, grace, miss, miss, grace, grace, grace, miss, "hit"]);
    assert_eq!((again.find(2, NOW), again.find(11, NOW)), (Some(22), Some(111)));
}

#[test]
fn compaction_while_threads_write() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, SIZE);
    std::thread::scope(|scope| {
        for worker in 0..3_usize {
            let place = &place;
            scope.spawn(move || {
                for round in 0..400_usize {
                    let key = u8::try_from((round * 37 + worker * 11) % 60).unwrap();
                    place.put(key, 1 + round + worker * 1000, &[]);
                    if round % 9 == 0 {
                        place.cache.purge(Digest(support::digest(key)));
                    }
                    if round % 50 == 0 {
                        let ban = format!("obj.http.key == {}", key / 2);
                        place.cache.bans().add(Expression::parse(&ban).unwrap(), NOW);
                    }
                }
            });
        }
        for _ in 0..5 {
            let mut compaction = Compaction::begin(place.disk(), &place.cache).unwrap();
            while !compaction.step(&place.cache).unwrap() {}
        }
    });
    let long = place.disk().journal_bytes();
    let mut compaction = Compaction::begin(place.disk(), &place.cache).unwrap();
    while !compaction.step(&place.cache).unwrap() {}
    assert!(place.disk().journal_bytes() < long);
    assert_eq!(place.disk().journal_bytes(), files.contents().1.len() as u64);
    let there: Vec<Option<usize>> = (0..60).map(|key| place.find(key, NOW)).collect();
    let again = Place::open(&files, SIZE);
    assert_eq!((again.recovered.started_empty, again.recovered.dropped), (None, 0));
    assert_eq!((0..60).map(|key| again.find(key, NOW)).collect::<Vec<_>>(), there);
    assert!(there.iter().filter(|found| found.is_some()).count() > 10);
}

#[test]
fn what_is_not_whole_is_not_there() {
    let files = MemoryFiles::default();
    let place = Place::open(&files, SIZE);
    let headers = Headers::new();
    let Found::Miss { fetch, .. } = place.cache.lookup(&Query::new(support::digest(1), b"/1", &headers, NOW)) else {
        panic!()
    };
    let lifetime = Lifetime { origin: NOW, ttl: 100.0, grace: 0.0, keep: 0.0 };
    let head = support::head(1, 10);
    let (object, mut filler) = Object::start(&place.cache, &place.storage, Kind::Ordinary, head, lifetime).unwrap();
    fetch.publish(Arc::clone(&object));
    filler.write(b"01234").unwrap();
    filler.flush();
    assert_eq!(Place::open(&files, SIZE).recovered.objects, 0);
    drop(filler);
    assert!(object.body().is_broken());
    drop(object);
    assert_eq!((Place::open(&files, SIZE).recovered.objects, place.disk().free()), (0, SIZE));
    let cache = Cache::new();
    assert_eq!(cache.counters.objects.load(Relaxed), 0);
}
