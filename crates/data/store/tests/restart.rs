//! A store that is written to with all it takes and then ends, by SIGTERM or by `kill -9`, again and again: after each start it has the
//! very data that it had. All types, many keys, several clients, settings at random.
//!
//! `make test-restart SEED=7 MINUTES=60` runs for long. A failure names its round: `SEED=..` runs it again, with other timing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[allow(dead_code, reason = "each program of tests uses a part of it")]
#[path = "model/grammar.rs"]
mod grammar;
#[path = "model/random.rs"]
mod random;
mod support;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use grammar::Generator;
use random::Random;
use support::{Client, Folder, start};

/// Commands that are sent together.
const PIPELINE: usize = 50;
/// Databases that commands touch.
const DATABASES: usize = 3;
/// Keys whose digests are asked for together.
const KEYS_AT_ONCE: usize = 100;

type Words = Vec<Vec<u8>>;

/// What is set at random, each as one of these.
const SETTINGS: &[(&str, &[&str])] = &[
    ("--appendfsync", &["always", "everysec", "no"]),
    ("--maxmemory", &["0", "0", "12mb", "40mb"]),
    ("--io-threads", &["1", "2", "3"]),
    ("--collection-max-whole-entries", &["8192", "100", "3"]),
    ("--log-retention-size", &["0", "1", "8mb"]),
    // Checkpoints follow each other all the time.
    ("--tables-behind-max", &["1gb", "2mb", "16mb"]),
    ("--list-max-listpack-size", &["128", "4"]),
];

fn words(of: &[&str]) -> Words {
    of.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// A command of the grammar, or one of those that it has not: long values, long collections, keys that change places.
fn command(generator: &mut Generator) -> Words {
    let long = format!("long{}", generator.random.below(4));
    match generator.random.below(4_000) {
        0 => return words(&["FLUSHALL"]),
        1 => return words(&["FLUSHDB", "ASYNC"]),
        2 => return words(&["SWAPDB", "0", "1"]),
        3..6 => return words(&["BGSAVE"]),
        6..10 => return words(&["SET", &long, &"v".repeat(generator.random.below(2_000_000))]),
        10..14 => return words(&["SETRANGE", &long, &generator.random.below(1_000_000).to_string(), "range"]),
        14..18 => return words(&["RENAME", &long, &format!("long{}", generator.random.below(4))]),
        18..30 => {
            let (name, key) = *generator.random.pick(&[("RPUSH", "l"), ("SADD", "e")]);
            let mut words = words(&[name, &format!("{key}{}", generator.random.below(20))]);
            words.extend((0..2_000).map(|_| generator.random.below(100_000).to_string().into_bytes()));
            return words;
        }
        30..800 => {
            // Some thousand small keys that come and go.
            let key = format!("k{}", generator.random.below(5_000));
            let value = generator.random.next().to_string();
            return if generator.random.one_in(4) { words(&["DEL", &key]) } else { words(&["SET", &key, &value]) };
        }
        _ => {}
    }
    loop {
        let (_, words) = generator.command();
        // Nobody is to wait.
        let is_unfit = |word: &[u8]| [b"BL".as_slice(), b"BR", b"BZ"].iter().any(|blocking| word.starts_with(blocking));
        if !is_unfit(&words[0]) {
            return words;
        }
    }
}

/// A client that writes for a while. All that it has sent is answered when it ends.
fn write(address: SocketAddr, seed: u64, until: Instant) -> usize {
    let mut generator = Generator::of_keys(seed, 400);
    let mut client = Client::connect(address);
    client.command(&["SELECT", &(generator.random.below(DATABASES)).to_string()]);
    let mut count = 0;
    while Instant::now() < until {
        let (mut bytes, mut sent) = (Vec::new(), 0);
        while sent < PIPELINE {
            let is_transaction = generator.random.one_in(20);
            let mut all: Vec<Words> =
                (0..1 + 3 * usize::from(is_transaction)).map(|_| command(&mut generator)).collect();
            if is_transaction {
                all.insert(0, words(&["MULTI"]));
                all.push(words(&["EXEC"]));
            }
            all.iter().for_each(|words| resp::encode_command(&mut bytes, words));
            sent += all.len();
        }
        let began = Instant::now();
        if client.send(&bytes) && (0..sent).all(|_| client.reply().is_some()) {
            count += sent;
        } else {
            // Where memory is short, a store closes clients that take much of it.
            assert!(began.elapsed() < support::PATIENCE, "it answers");
            client = Client::connect(address);
        }
    }
    count
}

/// A digest of each key.
fn digests(client: &mut Client) -> BTreeMap<(usize, Vec<u8>), String> {
    let mut all = BTreeMap::new();
    for db in 0..DATABASES {
        client.command(&["SELECT", &db.to_string()]);
        let keys = client.command(&["KEYS", "*"]);
        let keys: Vec<Vec<u8>> = keys.as_slice().unwrap().iter().map(|key| key.as_bytes().unwrap().to_vec()).collect();
        for some in keys.chunks(KEYS_AT_ONCE) {
            let mut words = words(&["DEBUG", "DIGEST-VALUE"]);
            words.extend(some.iter().cloned());
            let reply = client.command(&words);
            let values = reply.as_slice().unwrap_or_else(|| panic!("{reply:?}"));
            for (key, digest) in some.iter().zip(values) {
                all.insert((db, key.clone()), String::from_utf8_lossy(digest.as_bytes().unwrap()).into_owned());
            }
        }
    }
    all
}

fn round(seed: u64, time: Duration) -> usize {
    let mut random = Random(seed);
    let folder = Folder::new();
    let settings: Vec<&str> = SETTINGS.iter().flat_map(|(name, values)| [*name, *random.pick(values)]).collect();
    let mut store = start(&folder.data(), &settings);
    let mut told = format!("SEED={seed}, {settings:?}");
    let mut count = 0;
    for life in 0..1 + random.below(3) {
        let until = Instant::now() + time.mul_f64(0.3 + random.below(100) as f64 / 100.0);
        let seeds: Vec<u64> = (0..1 + random.below(3)).map(|_| random.next()).collect();
        let address = store.address;
        let clients: Vec<_> =
            seeds.into_iter().map(|seed| thread::spawn(move || write(address, seed, until))).collect();
        for client in clients {
            count += client.join().unwrap_or_else(|_| panic!("{told}\n{}", store.output()));
        }
        let kills = random.one_in(2);
        told += &format!("\nlife {life}: {count} commands, then {}", if kills { "kill -9" } else { "SIGTERM" });
        let before = digests(&mut store.client());
        if kills {
            store.kill();
        } else {
            assert_eq!(store.stop(), Some(0), "{told}\n{}", store.output());
        }
        store = start(&folder.data(), &settings);
        let after = digests(&mut store.client());
        let differs = |(key, digest): &(&(usize, Vec<u8>), &String)| after.get(*key) != Some(*digest);
        let name = |(db, key): &(usize, Vec<u8>)| format!("{db}> {}", key[..key.len().min(40)].escape_ascii());
        let wrong: Vec<String> = before.iter().filter(differs).map(|(key, _)| name(key)).collect();
        let more: Vec<String> = after.keys().filter(|key| !before.contains_key(*key)).map(name).collect();
        assert!(
            wrong.is_empty() && more.is_empty(),
            "{told}\nof {} keys, {} are lost or have another value: {:?}\n{} are there again: {:?}\n{}",
            before.len(),
            wrong.len(),
            &wrong[..wrong.len().min(20)],
            more.len(),
            &more[..more.len().min(20)],
            store.output()
        );
    }
    count
}

#[test]
fn a_store_has_after_a_start_what_it_had_before() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SEED").unwrap_or(1);
    let Some(minutes) = number("MINUTES") else {
        round(first, Duration::from_secs(2));
        return;
    };
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    for seed in first.. {
        if Instant::now() >= until {
            break;
        }
        let count = round(seed, Duration::from_secs(if seed % 4 == 0 { 60 } else { 12 }));
        eprintln!("round {seed}: {count} commands");
    }
}
