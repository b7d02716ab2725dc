//! Purges by tag.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
};

use cache::{
    index::{Cache, Fetch, Found, Query, xkeys},
    object::{Kind, Lifetime, Object},
    storage::Stevedore,
};
use http::{Headers, ResponseHead, Version};
use proptest::prelude::*;

const NOW: f64 = 1_000_000.0;

fn digest(number: u8) -> [u8; 32] {
    let mut digest = [number; 32];
    digest[1] = 1;
    digest
}

fn put(cache: &Arc<Cache>, memory: &Arc<Stevedore>, number: u8, tags: &[&str]) -> bool {
    let request = Headers::new();
    let mut query = Query::new(digest(number), b"/", &request, NOW);
    query.always_misses = true;
    query.is_impatient = true;
    let Found::Miss { fetch, .. } = cache.lookup(&query) else { panic!() };
    let mut head = ResponseHead::new();
    head.start(Version::Http11, 200);
    let lifetime = Lifetime { origin: NOW, ttl: 100.0, grace: 10.0, keep: 0.0 };
    let Ok((object, filler)) = Object::start(cache, memory, Kind::Ordinary, head, lifetime) else { return false };
    if tags.iter().any(|tag| object.add_tag(cache, tag.as_bytes()).is_err()) {
        return false;
    }
    filler.finish();
    fetch.publish(object);
    true
}

fn found(cache: &Arc<Cache>, number: u8, now: f64) -> &'static str {
    let request = Headers::new();
    match cache.lookup(&Query::new(digest(number), b"/", &request, now)) {
        Found::Hit(_) => "hit",
        Found::Grace { .. } => "grace",
        Found::Miss { .. } => "miss",
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_of_a_field() {
    let keys: Vec<&[u8]> = xkeys(b" a, bb\tc,,\"d\" ").collect();
    assert_eq!(keys, [&b"a"[..], b"bb", b"c", b"\"d\""]);
}

#[test]
fn purges() {
    let (cache, memory) = (Cache::new(), Arc::new(Stevedore::malloc("s0", 1 << 20)));
    put(&cache, &memory, 1, &["news", "front"]);
    put(&cache, &memory, 2, &["news", "news"]);
    put(&cache, &memory, 3, &["sport"]);
    assert_eq!(cache.tag_entries(), 4);
    assert_eq!(cache.soft_purge_tag(b"front", NOW + 5.0), 1);
    assert_eq!(["grace", "hit", "hit"], [1, 2, 3].map(|number| found(&cache, number, NOW + 5.5)));
    assert_eq!(found(&cache, 1, NOW + 16.0), "miss");
    assert_eq!(cache.purge_tag(b"news"), 2);
    assert_eq!(cache.purge_tag(b"news"), 0);
    assert_eq!(["miss", "miss", "hit"], [1, 2, 3].map(|number| found(&cache, number, NOW)));
    assert_eq!(cache.counters.purged.load(Relaxed), 2);
    // A new object takes the place and the tags of the old one.
    put(&cache, &memory, 3, &["weather"]);
    assert_eq!((cache.purge_tag(b"sport"), cache.soft_purge_tag(b"nothing", NOW)), (0, 0));
    assert_eq!(cache.purge_tag(b"weather"), 1);
    assert_eq!((cache.tag_entries(), memory.used()), (0, 0));
}

/// A fetch of a page, which ends with these tags.
fn fetched(
    cache: &Arc<Cache>,
    memory: &Arc<Stevedore>,
    number: u8,
    while_it_runs: impl FnOnce(&mut Fetch),
    tags: &[&str],
) {
    let request = Headers::new();
    let Found::Miss { mut fetch, .. } = cache.lookup(&Query::new(digest(number), b"/", &request, NOW)) else {
        panic!()
    };
    while_it_runs(&mut fetch);
    let mut head = ResponseHead::new();
    head.start(Version::Http11, 200);
    let lifetime = Lifetime { origin: NOW, ttl: 100.0, grace: 10.0, keep: 0.0 };
    let (object, filler) = Object::start(cache, memory, Kind::Ordinary, head, lifetime).unwrap();
    tags.iter().for_each(|tag| object.add_tag(cache, tag.as_bytes()).unwrap());
    filler.finish();
    fetch.publish(object);
}

#[test]
fn what_is_purged_by_a_tag_does_not_come_back_by_a_fetch_that_ran() {
    let (cache, memory) = (Cache::new(), Arc::new(Stevedore::malloc("s0", 1 << 20)));
    let purge = |_: &mut Fetch| assert_eq!(cache.purge_tag(b"news"), 0);
    fetched(&cache, &memory, 1, purge, &["front", "news"]);
    fetched(&cache, &memory, 2, purge, &["sport"]);
    fetched(&cache, &memory, 3, |_| assert_eq!(cache.soft_purge_tag(b"news", NOW), 0), &["news"]);
    assert_eq!(["miss", "hit", "miss"], [1, 2, 3].map(|number| found(&cache, number, NOW)));
    assert_eq!((cache.tag_entries(), cache.counters.objects.load(Relaxed)), (1, 1));
    // Its server was asked after the purge, or who fetches has purged what was there before.
    let asks_then = |fetch: &mut Fetch| {
        purge(fetch);
        fetch.asks_now();
    };
    fetched(&cache, &memory, 4, asks_then, &["news"]);
    assert_eq!((found(&cache, 4, NOW), cache.purge_tag(b"news")), ("hit", 1));
    let purges_itself = |fetch: &mut Fetch| {
        purge(fetch);
        fetch.has_banned();
    };
    fetched(&cache, &memory, 5, purges_itself, &["news"]);
    assert_eq!(found(&cache, 5, NOW), "hit");
}

#[test]
fn tags_count_within_the_bound() {
    let (cache, memory) = (Cache::new(), Arc::new(Stevedore::malloc("s0", 64 << 10)));
    let many: Vec<String> = (0..100).map(|number| format!("tag{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for number in 0..20 {
        assert!(put(&cache, &memory, number, &many));
        assert!(memory.used() <= memory.limit());
    }
    // Older objects have left for these, with their tags.
    let objects = cache.counters.objects.load(Relaxed);
    assert!((1..10).contains(&objects));
    assert_eq!(cache.tag_entries(), objects * 100);
    let long = "x".repeat(40 << 10);
    assert!(!put(&cache, &memory, 30, &[&long]));
}

#[test]
fn threads_that_store_and_purge() {
    let (cache, memory) = (Cache::new(), Arc::new(Stevedore::malloc("s0", 40 << 10)));
    thread::scope(|scope| {
        for worker in 0..4_u8 {
            let (cache, memory) = (&cache, &memory);
            scope.spawn(move || {
                for round in 0..2000_u32 {
                    let number = u8::try_from(round.wrapping_mul(31) % 64).unwrap();
                    let (own, shared) = (format!("w{worker}"), format!("n{}", number % 4));
                    put(cache, memory, number, &[&own, &shared]);
                    if round % 7 == 0 {
                        cache.purge_tag(shared.as_bytes());
                    }
                    if round % 11 == 0 {
                        cache.soft_purge_tag(own.as_bytes(), NOW);
                    }
                }
            });
        }
    });
    assert_eq!(cache.tag_entries(), 2 * cache.counters.objects.load(Relaxed));
    for tag in 0..4 {
        cache.purge_tag(format!("n{tag}").as_bytes());
    }
    assert_eq!((cache.tag_entries(), cache.counters.objects.load(Relaxed), memory.used()), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a map of numbers to tags.
    #[test]
    fn as_a_plain_map(steps in prop::collection::vec((0u8..4, 0u8..12, prop::collection::vec(0u8..5, 0..4)), 1..80)) {
        let (cache, memory) = (Cache::new(), Arc::new(Stevedore::malloc("s0", 1 << 20)));
        let mut model: BTreeMap<u8, BTreeSet<String>> = BTreeMap::new();
        for (kind, number, tags) in steps {
            let names: Vec<String> = tags.iter().map(|tag| format!("t{tag}")).collect();
            if kind < 3 {
                put(&cache, &memory, number, &names.iter().map(String::as_str).collect::<Vec<_>>());
                model.insert(number, names.into_iter().collect());
            } else {
                let tag = format!("t{}", number % 5);
                let expected = model.values().filter(|tags| tags.contains(&tag)).count();
                model.retain(|_, tags| !tags.contains(&tag));
                prop_assert_eq!(cache.purge_tag(tag.as_bytes()), expected);
            }
            prop_assert_eq!(cache.tag_entries(), model.values().map(|tags| tags.len() as u64).sum::<u64>());
            prop_assert_eq!(cache.counters.objects.load(Relaxed), model.len() as u64);
        }
    }
}
