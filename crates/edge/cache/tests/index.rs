//! The index: who fetches, who waits, what leaves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};

use cache::{
    bans::{Expression, Lurker, LurkerSettings},
    body::Cursor,
    index::{Cache, Digest, Fetch, Found, Outcome, Query},
    object::{Kind, Lifetime, Object, Variant},
    storage::Stevedore,
};
use http::{Headers, ResponseHead, Version};
use proptest::prelude::*;

const NOW: f64 = 1_000_000.0;

fn head(fields: &[(&str, &str)]) -> ResponseHead {
    let mut head = ResponseHead::new();
    head.start(Version::Http11, 200);
    for (name, value) in fields {
        head.headers.add(name.as_bytes(), value.as_bytes());
    }
    head
}

fn lifetime(ttl: f64, grace: f64, keep: f64) -> Lifetime {
    Lifetime { origin: NOW, ttl, grace, keep }
}

fn request(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.add(name.as_bytes(), value.as_bytes());
    }
    headers
}

struct Place {
    cache: Arc<Cache>,
    memory: Arc<Stevedore>,
}

impl Place {
    fn with(bytes: u64) -> Self {
        Self { cache: Cache::new(), memory: Arc::new(Stevedore::malloc("s0", bytes)) }
    }

    fn store(&self, fetch: Fetch, kind: Kind, lifetime: Lifetime, body: &[u8]) -> Arc<Object> {
        let (object, mut filler) = Object::start(&self.cache, &self.memory, kind, head(&[]), lifetime).unwrap();
        filler.expect(body.len() as u64);
        filler.write(body).unwrap();
        filler.finish();
        fetch.publish(Arc::clone(&object));
        object
    }

    fn put(&self, query: &Query<'_>, lifetime: Lifetime, body: &[u8]) -> Arc<Object> {
        let fetch = match self.cache.lookup(query) {
            Found::Miss { fetch, .. } | Found::Grace { fetch: Some(fetch), .. } | Found::HitForMiss { fetch, .. } => {
                fetch
            }
            other => panic!("{other:?}"),
        };
        self.store(fetch, Kind::Ordinary, lifetime, body)
    }
}

fn digest(number: u32) -> [u8; 32] {
    let mut digest = [0; 32];
    let mut mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for chunk in digest.chunks_mut(8) {
        chunk.copy_from_slice(&mixed.to_le_bytes());
        mixed = mixed.rotate_left(17).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    digest
}

struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_stale_object_answers_while_one_request_fetches_it() {
    let place = Place::with(1 << 20);
    let fields = Headers::new();
    let query = Query::new(digest(1), b"/", &fields, NOW);
    let old = place.put(&query, lifetime(10.0, 10.0, 10.0), b"old");

    let later = Query { now: NOW + 15.0, ..query };
    let Found::Grace { object, fetch: Some(fetch) } = place.cache.lookup(&later) else { panic!() };
    assert!(Arc::ptr_eq(&object, &old));
    assert!(matches!(place.cache.lookup(&later), Found::Grace { fetch: None, .. }));
    drop(fetch);
    assert!(
        matches!(place.cache.lookup(&later), Found::Grace { fetch: Some(_), .. }),
        "the one that failed leaves the fetch to the next"
    );

    let impatient = Query { grace: Some(0.0), ..later };
    assert!(
        matches!(place.cache.lookup(&impatient), Found::Miss { stale: Some(_), .. }),
        "without grace it is there to be validated"
    );
    let picky = Query { ttl: Some(3.0), now: NOW + 5.0, ..query };
    assert!(matches!(place.cache.lookup(&picky), Found::Grace { .. }), "req.ttl makes it stale");
}

#[test]
fn nobody_waits_after_a_response_for_one_request_alone() {
    let place = Place::with(1 << 20);
    let fields = Headers::new();
    let query = Query::new(digest(1), b"/", &fields, NOW);
    let Found::Miss { fetch, .. } = place.cache.lookup(&query) else { panic!() };
    let waiting: Vec<_> = (0..3)
        .map(|_| match place.cache.lookup(&query) {
            Found::Busy(waiting) => waiting,
            other => panic!("{other:?}"),
        })
        .collect();
    fetch.is_private();
    let impatient = Query { is_impatient: true, ..query };
    let mut fetches = Vec::new();
    for waiting in &waiting {
        assert!(matches!(waiting.outcome(), Some(Outcome::Private)));
        let Found::Miss { fetch, .. } = place.cache.lookup(&impatient) else { panic!("they fetch side by side") };
        fetches.push(fetch);
    }
    drop(fetches);

    let Found::Miss { fetch, .. } = place.cache.lookup(&query) else { panic!() };
    place.store(fetch, Kind::HitForMiss, lifetime(120.0, 0.0, 0.0), b"");
    let both = (place.cache.lookup(&query), place.cache.lookup(&query));
    assert!(matches!(both, (Found::HitForMiss { .. }, Found::HitForMiss { .. })));
    assert_eq!(place.cache.counters.busy_wakeup.load(Relaxed), 3);
}

#[test]
fn variants_answer_only_those_who_ask_for_them() {
    let place = Place::with(1 << 20);
    let (german, english) = (request(&[("accept-language", "de")]), request(&[("accept-language", "en")]));
    let asks = |fields| Query::new(digest(1), b"/", fields, NOW);
    let Found::Miss { mut fetch, .. } = place.cache.lookup(&asks(&german)) else { panic!() };
    fetch.varies_by(Variant::of(vec![b"accept-language".to_vec()], &german));
    place.store(fetch, Kind::Ordinary, lifetime(60.0, 0.0, 0.0), b"de");
    assert!(matches!(place.cache.lookup(&asks(&german)), Found::Hit(_)));
    let Found::Miss { fetch, .. } = place.cache.lookup(&asks(&english)) else { panic!() };
    // What is on its way is English, as far as the last response tells: French need not wait.
    let french = request(&[("accept-language", "fr")]);
    assert!(matches!(place.cache.lookup(&asks(&english)), Found::Busy(_)));
    assert!(matches!(place.cache.lookup(&asks(&french)), Found::Miss { .. }));
    drop(fetch);
}

#[test]
fn readers_have_a_body_while_it_arrives() {
    let place = Place::with(1 << 20);
    let (object, mut filler) =
        Object::start(&place.cache, &place.memory, Kind::Ordinary, head(&[]), lifetime(1.0, 0.0, 0.0)).unwrap();
    let counting = Arc::new(Counting(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&counting));
    let mut context = Context::from_waker(&waker);
    let mut cursor = Cursor::default();
    assert!(object.poll_next(&mut cursor, &mut context).is_pending());
    assert!(object.poll_next(&mut cursor, &mut context).is_pending());
    filler.write(b"one").unwrap();
    assert_eq!(counting.0.load(Relaxed), 0);
    filler.flush();
    assert_eq!(counting.0.load(Relaxed), 1, "a reader that has asked twice is woken once");
    assert!(
        matches!(object.poll_next(&mut cursor, &mut context), Poll::Ready(Ok(Some(chunk))) if &chunk[..] == b"one")
    );
    assert!(object.poll_next(&mut cursor, &mut context).is_pending());
    filler.finish();
    assert!(matches!(object.poll_next(&mut cursor, &mut context), Poll::Ready(Ok(None))));
}

#[test]
fn a_body_that_breaks_is_found_by_nobody() {
    let place = Place::with(1 << 20);
    let fields = Headers::new();
    let query = Query::new(digest(1), b"/", &fields, NOW);
    let Found::Miss { fetch, .. } = place.cache.lookup(&query) else { panic!() };
    let (object, mut filler) =
        Object::start(&place.cache, &place.memory, Kind::Ordinary, head(&[]), lifetime(9.0, 0.0, 0.0)).unwrap();
    fetch.publish(Arc::clone(&object));
    filler.write(b"half of it").unwrap();
    drop(filler);
    let mut context = Context::from_waker(Waker::noop());
    let mut cursor = Cursor::default();
    assert!(matches!(object.poll_next(&mut cursor, &mut context), Poll::Ready(Ok(Some(_)))));
    assert!(matches!(object.poll_next(&mut cursor, &mut context), Poll::Ready(Err(_))));
    assert!(matches!(place.cache.lookup(&query), Found::Miss { .. }));
    drop(object);
    assert_eq!(place.memory.used(), 0);
}

#[test]
fn what_is_read_stays_counted_and_the_bound_holds() {
    let place = Place::with(64 << 10);
    let fields = Headers::new();
    let query = Query::new(digest(0), b"/", &fields, NOW);
    let read = place.put(&query, lifetime(60.0, 0.0, 0.0), &[7; 20_000]);
    for number in 1..200 {
        place.put(&Query { digest: Digest(digest(number)), ..query }, lifetime(60.0, 0.0, 0.0), &[1; 5_000]);
        assert!(place.memory.used() <= place.memory.limit());
    }
    assert!(read.is_gone());
    assert_eq!(read.body().length(), Some(20_000), "whoever reads it has it whole");
    let before = place.memory.used();
    drop(read);
    assert!(place.memory.used() < before - 20_000);
    let refused = Object::start(&place.cache, &place.memory, Kind::Ordinary, head(&[]), lifetime(1.0, 0.0, 0.0))
        .and_then(|(_, mut filler)| filler.write(&[0; 100_000]))
        .unwrap_err();
    assert!(refused.to_string().contains("storage s0 has no room"), "{refused}");
}

#[test]
fn bans_are_about_what_was_there() {
    let place = Place::with(1 << 20);
    let fields = request(&[("host", "a.example")]);
    let query = Query::new(digest(1), b"/news/1", &fields, NOW);
    place.put(&query, lifetime(60.0, 0.0, 0.0), b"x");
    place.cache.bans().add(Expression::parse("req.url ~ ^/sport").unwrap(), NOW + 1.0);
    assert!(matches!(place.cache.lookup(&query), Found::Hit(_)));
    place.cache.bans().add(Expression::parse("req.url ~ ^/news && req.http.Host == a.example").unwrap(), NOW + 2.0);
    place.put(&query, lifetime(60.0, 0.0, 0.0), b"y");
    assert!(matches!(place.cache.lookup(&query), Found::Hit(_)), "what came after the ban stays");
    place.cache.bans().add(Expression::parse("obj.age > 1d").unwrap(), NOW + 3.0);
    assert!(matches!(place.cache.lookup(&query), Found::Hit(_)));
    place.cache.bans().add(Expression::parse("obj.status == 200 && obj.http.x-tag != 7").unwrap(), NOW + 4.0);
    assert!(matches!(place.cache.lookup(&query), Found::Miss { .. }));
    let list = place.cache.bans().list();
    assert!(
        list.starts_with("Present bans:\n1000004.000000     0 -  obj.status == 200 && obj.http.x-tag != 7\n"),
        "{list}"
    );
}

fn fetch_of(found: Found) -> Fetch {
    match found {
        Found::Miss { fetch, .. } | Found::HitForMiss { fetch, .. } => fetch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_purged_does_not_come_back_by_a_fetch_that_ran() {
    let fields = request(&[]);
    let lives = lifetime(60.0, 60.0, 60.0);
    type Purge = fn(&Cache, Digest);
    let purges: [Purge; 2] = [
        |cache, digest| assert_eq!(cache.purge(digest), 0),
        |cache, digest| assert_eq!(cache.soft_purge(digest, NOW, Some(0.0), None, None), 0),
    ];
    for (purge, is_impatient) in purges.iter().flat_map(|purge| [(purge, false), (purge, true)]) {
        let place = Place::with(1 << 20);
        let query = Query { is_impatient, ..Query::new(digest(1), b"/a", &fields, NOW) };
        let first = fetch_of(place.cache.lookup(&query));
        let ran = match is_impatient {
            true => fetch_of(place.cache.lookup(&query)),
            false => first,
        };
        purge(&place.cache, Digest(digest(1)));
        let patient = Query::new(digest(1), b"/a", &fields, NOW);
        let next = fetch_of(place.cache.lookup(&patient));
        place.store(ran, Kind::Ordinary, lives, b"old");
        assert!(matches!(place.cache.lookup(&patient), Found::Busy(_)), "the next one is on its way");
        place.store(next, Kind::Ordinary, lives, b"new");
        assert!(matches!(place.cache.lookup(&patient), Found::Hit(object) if object.body().length() == Some(3)));
        assert_eq!(place.cache.purge(Digest(digest(1))), 1);
    }
}

#[test]
fn what_is_banned_does_not_come_back_by_a_fetch_that_ran() {
    let place = Place::with(1 << 20);
    let fields = request(&[]);
    let query = Query::new(digest(1), b"/a", &fields, NOW);
    let ban = || place.cache.bans().add(Expression::parse("req.url == /a").unwrap(), NOW);
    let ran = fetch_of(place.cache.lookup(&query));
    ban();
    place.store(ran, Kind::Ordinary, lifetime(60.0, 0.0, 0.0), b"old");
    let mut next = fetch_of(place.cache.lookup(&query));
    ban();
    next.asks_now();
    place.store(next, Kind::Ordinary, lifetime(60.0, 0.0, 0.0), b"new");
    assert!(matches!(place.cache.lookup(&query), Found::Hit(_)), "its server was asked after the ban");
    place.cache.purge(Digest(digest(1)));
    let mut own = fetch_of(place.cache.lookup(&query));
    ban();
    own.has_banned();
    place.store(own, Kind::Ordinary, lifetime(60.0, 0.0, 0.0), b"newer");
    assert!(matches!(place.cache.lookup(&query), Found::Hit(_)), "it has banned what was there before it");
}

#[test]
fn the_lurker_removes_what_nobody_asks_for() {
    let place = Place::with(1 << 20);
    let fields = Headers::new();
    for number in 0..50 {
        place.put(&Query::new(digest(number), b"/", &fields, NOW), lifetime(f64::from(number), 0.0, 0.0), b"x");
    }
    place.cache.bans().add(Expression::parse("obj.ttl < 25s").unwrap(), NOW);
    place.cache.bans().add(Expression::parse("req.url == /other").unwrap(), NOW + 1.0);
    let settings = LurkerSettings { age: 60.0, batch: 8, sleep: 0.1 };
    let mut lurker = Lurker::default();
    assert_eq!(lurker.step(&place.cache, NOW + 10.0, settings), None, "no ban has the age");
    let steps = (0..100).take_while(|_| lurker.step(&place.cache, NOW + 100.0, settings).is_some()).count();
    assert!(steps >= 50 / 8, "{steps}");
    assert_eq!(place.cache.counters.objects.load(Relaxed), 25);
    let bans = place.cache.bans().all();
    assert_eq!(
        bans.len(),
        2,
        "the first entry and the ban that is done stay as long as objects stand there: {}",
        place.cache.bans().list()
    );
    assert!(bans[1].is_completed() && !bans[0].is_completed());
}

#[test]
fn texts_that_are_no_bans() {
    for (text, why) in [
        ("", "No ban conditions found."),
        ("req.url", "Expected comparison operator."),
        ("req.url ==", "Expected second operand."),
        ("req.url == / || obj.status == 200", "Expected && between conditions, found \"||\""),
        ("req.method == GET", "Unknown or unsupported field \"req.method\""),
        ("obj.ttl ~ 5s", "expected conditional (==, !=, >, >=, < or <=) got \"~\""),
        ("req.url > 5s", "expected conditional (==, !=, ~ or !~) got \">\""),
        ("obj.ttl > soon", "expected duration <n.nn>[ms|s|m|h|d|w|y] got \"soon\""),
    ] {
        assert_eq!(Expression::parse(text).unwrap_err().to_string(), why, "{text}");
    }
    assert_eq!(
        Expression::parse("obj.keep > 90m && obj.grace < 1.5s").unwrap().to_string(),
        "obj.keep > 90m && obj.grace < 1.500s"
    );
}

#[test]
fn threads_share_it() {
    let place = Arc::new(Place::with(200 << 10));
    let fetched = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..4_u32)
        .map(|seed| {
            let (place, fetched) = (Arc::clone(&place), Arc::clone(&fetched));
            thread::spawn(move || {
                let fields = Headers::new();
                let mut random = seed.wrapping_add(1);
                for turn in 0..5_000 {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let number = (random >> 16) % 300;
                    let query = Query::new(digest(number), b"/", &fields, NOW);
                    let body = vec![number as u8; 100 + number as usize * 10];
                    match place.cache.lookup(&query) {
                        Found::Hit(object) => {
                            object.count_hit();
                            assert!(object.body().length().is_none_or(|length| length == body.len() as u64));
                        }
                        Found::Miss { fetch, .. } => {
                            fetched.fetch_add(1, Relaxed);
                            place.store(fetch, Kind::Ordinary, lifetime(60.0, 0.0, 0.0), &body);
                        }
                        _ => {}
                    }
                    if turn % 500 == 0 {
                        place.cache.purge(Digest(digest(number)));
                        place.cache.expire(NOW + 1.0, 10);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(place.memory.used() <= place.memory.limit());
    let left: usize = (0..).map_while(|part| place.cache.objects_of(part)).map(|objects| objects.len()).sum();
    assert_eq!(left as u64, place.cache.counters.objects.load(Relaxed));
    let (expired, next) = place.cache.expire(NOW + 1000.0, usize::MAX);
    assert_eq!((expired, next, place.memory.used()), (left, None, 0), "nothing is counted that is not there");
}

/// A trace in which most requests are for few objects, and now and then somebody reads a thousand objects once.
#[test]
fn a_scan_displaces_less_than_it_would_by_age_of_use() {
    let (objects, room) = (20_000_u32, 1_000_usize);
    let sum: f64 = (1..=objects).map(|rank| 1.0 / f64::from(rank).powf(0.9)).sum();
    let mut bounds = Vec::new();
    let mut reached = 0.0;
    for rank in 1..=objects {
        reached += 1.0 / f64::from(rank).powf(0.9) / sum;
        bounds.push(reached);
    }
    let mut random = 12_345_u64;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut trace = Vec::new();
    for turn in 0..100_000_u32 {
        trace.push(bounds.partition_point(|bound| *bound < draw()) as u32);
        if turn % 20_000 == 10_000 {
            trace.extend((0..1_000).map(|scanned| 1_000_000 + turn + scanned));
        }
    }
    let place = Place::with(1 << 30);
    let fields = Headers::new();
    let bytes = place.put(&Query::new(digest(u32::MAX), b"/", &fields, NOW), lifetime(1e6, 0.0, 0.0), b"x").bytes();
    let place = Place::with(bytes * room as u64);
    let mut ours = 0_u32;
    let (mut by_use, mut lru) = (HashMap::new(), 0_u32);
    let mut order = std::collections::BTreeMap::new();
    for (turn, number) in trace.iter().enumerate() {
        match place.cache.lookup(&Query::new(digest(*number), b"/", &fields, NOW)) {
            Found::Hit(object) => {
                object.count_hit();
                ours += 1;
            }
            Found::Miss { fetch, .. } => {
                place.store(fetch, Kind::Ordinary, lifetime(1e6, 0.0, 0.0), b"x");
            }
            other => panic!("{other:?}"),
        }
        if let Some(before) = by_use.insert(*number, turn) {
            lru += 1;
            order.remove(&before);
        } else if by_use.len() > room {
            let (_, oldest) = order.pop_first().unwrap();
            by_use.remove(&oldest);
        }
        order.insert(turn, *number);
    }
    println!("hits of {}: {ours} with S3-FIFO, {lru} with LRU", trace.len());
    assert!(ours > lru + lru / 20, "{ours} of {}, least recently used: {lru}", trace.len());
}

/// What a test does to the cache.
#[derive(Clone, Debug)]
enum Step {
    Get(u32),
    Purge(u32),
    Wait(f64),
    Ban(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 0..6_u32;
    let step = prop_oneof![
        6 => number.clone().prop_map(Step::Get),
        1 => number.clone().prop_map(Step::Purge),
        2 => (0.0..8.0).prop_map(Step::Wait),
        1 => number.prop_map(Step::Ban),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The index says what a plain table with times says.
    #[test]
    fn it_says_what_a_plain_table_says(steps in steps()) {
        let place = Place::with(1 << 20);
        let fields = Headers::new();
        let mut now = NOW;
        let mut plain: HashMap<u32, (f64, f64)> = HashMap::new();
        for step in steps {
            match step {
                Step::Wait(seconds) => now += seconds,
                Step::Purge(number) => {
                    let purged = place.cache.purge(Digest(digest(number)));
                    prop_assert!(plain.remove(&number).is_none() || purged == 1);
                }
                Step::Ban(number) => {
                    plain.remove(&number);
                    place.cache.bans().add(Expression::parse(&format!("req.url == /{number}")).unwrap(), now);
                }
                Step::Get(number) => {
                    let url = format!("/{number}");
                    let query = Query::new(digest(number), url.as_bytes(), &fields, now);
                    let known = plain.get(&number).copied();
                    let fetch = match (place.cache.lookup(&query), known) {
                        (Found::Hit(_), Some((fresh, _))) if now < fresh => None,
                        (Found::Grace { fetch, .. }, Some((fresh, grace))) if now >= fresh && now < grace => fetch,
                        (Found::Miss { fetch, .. }, None) => Some(fetch),
                        (Found::Miss { fetch, .. }, Some((_, grace))) if now >= grace => Some(fetch),
                        (found, known) => panic!("{found:?} at {now}, known: {known:?}"),
                    };
                    if let Some(fetch) = fetch {
                        let life = Lifetime { origin: now, ttl: 5.0, grace: 3.0, keep: 0.0 };
                        place.store(fetch, Kind::Ordinary, life, b"x");
                        plain.insert(number, (now + 5.0, now + 8.0));
                    }
                }
            }
        }
    }
}

/// What was taken for a body and is not used is given back, however it came: in one piece or in many that readers already have.
#[test]
fn a_body_takes_what_it_needs() {
    for (pieces, length) in [(1, 600), (1, 40), (7, 100), (30, 1000), (100, 3000)] {
        let cache = Cache::new();
        let storage = Arc::new(Stevedore::malloc("s0", 1 << 30));
        let head = ResponseHead::new();
        let (object, mut filler) = Object::start(&cache, &storage, Kind::Ordinary, head, Lifetime::default()).unwrap();
        let empty = object.bytes();
        let (mut cursor, mut read) = (cache::body::Cursor::default(), Vec::new());
        let mut context = Context::from_waker(Waker::noop());
        let mut written = Vec::new();
        for piece in 0..pieces {
            let bytes: Vec<u8> = (0..length).map(|place| u8::try_from((place + piece) % 251).unwrap()).collect();
            filler.write(&bytes).unwrap();
            filler.flush();
            written.extend_from_slice(&bytes);
            // A reader that is half way.
            if piece % 2 == 0
                && let Poll::Ready(Ok(Some(chunk))) = object.poll_next(&mut cursor, &mut context)
            {
                read.extend_from_slice(&chunk);
            }
        }
        filler.finish();
        while let Poll::Ready(Ok(Some(chunk))) = object.poll_next(&mut cursor, &mut context) {
            read.extend_from_slice(&chunk);
        }
        assert_eq!(read, written);
        let taken = object.bytes() - empty;
        let needed = written.len() as u64;
        assert!(taken >= needed && taken <= needed + needed / 4 + 64, "{pieces} of {length}: {taken}");
        assert_eq!(storage.used(), object.bytes());
    }
}

/// What is counted is what is taken: little for a tiny object, and of a larger one not much more than its body.
#[test]
fn objects_take_little_beside_their_bodies() {
    let place = Place::with(8 << 20);
    let fields = request(&[]);
    let reply =
        head(&[("Content-Length", "5"), ("Cache-Control", "max-age=3600"), ("Date", "Sat, 28 Nov 2026 12:00:00 GMT")]);
    for (number, length, expected, announced) in [
        (1, 0, 480, true),
        (2, 5, 490, true),
        (3, 5, 490, false),
        (4, 1_000, 1_620, true),
        (5, 1_000, 1_620, false),
        (6, 100_000, 101_500, true),
    ] {
        let query = Query::new(digest(number), b"/", &fields, NOW);
        let Found::Miss { fetch, .. } = place.cache.lookup(&query) else { panic!("{number}") };
        let started =
            Object::start(&place.cache, &place.memory, Kind::Ordinary, reply.clone(), lifetime(60.0, 0.0, 0.0));
        let (object, mut filler) = started.unwrap();
        if announced {
            filler.expect(length);
        }
        filler.write(&vec![7; length as usize]).unwrap();
        filler.finish();
        fetch.publish(Arc::clone(&object));
        assert!(object.bytes() <= expected, "{length} ({announced}): {}", object.bytes());
        assert_eq!(object.body().length(), Some(length));
    }
    let all: u64 =
        (1..=6).flat_map(|number| place.cache.all_of(Digest(digest(number)))).map(|object| object.bytes()).sum();
    assert_eq!(place.memory.used(), all);
}

/// A body that comes in many small pieces is put together when it is whole; who has read some of them gets the rest.
#[test]
fn small_pieces_are_put_together() {
    let place = Place::with(8 << 20);
    let mut context = Context::from_waker(Waker::noop());
    for (length, read) in [(1, 1), (100, 33), (300, 0), (300, 299), (5_000, 2_500), (300_000, 299_000)] {
        let body: Vec<u8> = (0..length).map(|place| place as u8).collect();
        let started = Object::start(&place.cache, &place.memory, Kind::Ordinary, head(&[]), lifetime(60.0, 0.0, 0.0));
        let (object, mut filler) = started.unwrap();
        let (mut cursor, mut seen) = (Cursor::default(), Vec::new());
        for (number, piece) in body.chunks(7).enumerate() {
            filler.write(piece).unwrap();
            filler.flush();
            if number * 7 < read {
                let Poll::Ready(Ok(Some(chunk))) = object.poll_next(&mut cursor, &mut context) else { panic!() };
                seen.extend_from_slice(&chunk);
            }
        }
        filler.finish();
        let mut chunks = 0;
        while let Poll::Ready(Ok(Some(chunk))) = object.poll_next(&mut cursor, &mut context) {
            seen.extend_from_slice(&chunk);
            chunks += 1;
        }
        assert!(seen == body, "{length} {read}");
        assert!(chunks <= 2, "{length} {read}: {chunks}");
        assert!(object.bytes() < length as u64 * 5 / 4 + 1_000, "{length}: {}", object.bytes());
    }
}
