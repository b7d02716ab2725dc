//! Whether a cluster is one store: clients append to lists and read them while masters are killed and stand still, replicas are promoted,
//! slots move and the agent dies; then all that they saw must be what one store could have done.
//!
//! A quick round is among the tests. For long: `MINUTES=60 SEED=7 make test-consistency`. A failure names its seed; faults depend on it,
//! what clients see depends on the machine too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

mod checker;
mod faults;
mod history;

use std::{
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use faults::Dice;
use history::{History, Operation, Outcome};
use resp::Value;
use support::{RedisClient, cluster::Cluster};

/// Clients that work at the same time.
const CLIENTS: u64 = 8;
/// Lists that they share.
const LISTS: u64 = 24;
/// After so many elements another list is begun in its place, so that reads stay short.
const ELEMENTS_MAX: u64 = 150;
/// How long the quick round takes, in seconds.
const QUICK: u64 = 15;

/// What all clients share.
#[derive(Default)]
struct Work {
    is_over: AtomicBool,
    next_value: AtomicU64,
    /// Appends to each list so far.
    appends: [AtomicU64; LISTS as usize],
}

impl Work {
    fn key(&self, dice: &mut Dice) -> String {
        let list = dice.below(LISTS);
        let round = self.appends[list as usize].fetch_add(1, Relaxed) / ELEMENTS_MAX;
        format!("list:{list}:{round}")
    }
}

fn elements(reply: &Value) -> Option<Vec<u64>> {
    reply.as_slice()?.iter().map(|value| String::from_utf8_lossy(value.as_bytes()?).parse().ok()).collect()
}

fn work(work: &Work, history: &History, address: SocketAddr, mut dice: Dice) {
    let mut client = None;
    while !work.is_over.load(Relaxed) {
        if client.is_none() && TcpStream::connect(address).is_err() {
            thread::sleep(Duration::from_millis(20));
            continue;
        }
        let open = client.get_or_insert_with(|| RedisClient::connect(address));
        let key = work.key(&mut dice);
        let reads = dice.below(3) == 0;
        let value = work.next_value.fetch_add(1, Relaxed);
        let invoked = history.now();
        let reply = if reads {
            open.try_command(&["LRANGE", &key, "0", "-1"])
        } else {
            open.try_command(&["RPUSH", &key, &value.to_string()])
        };
        let completed = history.now();
        if reply.is_none() {
            client = None;
        }
        let (completed, outcome) = match (reads, reply) {
            (true, Some(reply)) => match elements(&reply) {
                Some(values) => (completed, Outcome::Read(values)),
                None => continue,
            },
            (true, None) => continue,
            (false, Some(reply)) => match (reply.as_integer(), reply.as_error()) {
                (Some(length), _) => (completed, Outcome::Appended { value, length: length as usize }),
                // An error does not say by itself that nothing was done: the connection may have been lost behind the proxy.
                _ => (u64::MAX, Outcome::Unknown { value }),
            },
            (false, None) => (u64::MAX, Outcome::Unknown { value }),
        };
        history.note(Operation { key, invoked, completed, outcome });
    }
}

/// Reads all lists when everything is well again: what was acknowledged must be there.
fn read_all(work: &Work, history: &History, address: SocketAddr) {
    let mut client = RedisClient::connect(address);
    for list in 0..LISTS {
        for round in 0..=work.appends[list as usize].load(Relaxed) / ELEMENTS_MAX {
            let key = format!("list:{list}:{round}");
            let invoked = history.now();
            let reply = client.command(&["LRANGE", &key, "0", "-1"]);
            let values = elements(&reply).unwrap_or_else(|| panic!("{key} cannot be read: {reply:?}"));
            history.note(Operation { key, invoked, completed: history.now(), outcome: Outcome::Read(values) });
        }
    }
}

fn play(seed: u64, how_long: Duration) {
    let mut cluster = Cluster::up(&["--groups", "2", "--replicas", "2", "--ack", "1"]);
    let (shared, history) = (Work::default(), History::new());
    let address = cluster.address;
    let faults = thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (shared, history) = (&shared, &history);
            scope.spawn(move || work(shared, history, address, Dice::new(seed ^ (client + 1).wrapping_mul(77_777))));
        }
        let faults = faults::go_wrong(&mut cluster, seed, how_long);
        cluster.command(&["slot", "cancel"]);
        cluster.wait_well();
        shared.is_over.store(true, Relaxed);
        faults
    });
    read_all(&shared, &history, address);
    let operations = history.take();
    let count = |wanted: fn(&Outcome) -> bool| operations.iter().filter(|one| wanted(&one.outcome)).count();
    let appended = count(|outcome| matches!(outcome, Outcome::Appended { .. }));
    let unknown = count(|outcome| matches!(outcome, Outcome::Unknown { .. }));
    let read = count(|outcome| matches!(outcome, Outcome::Read(_)));
    eprintln!("seed {seed}: {appended} appended, {read} read, {unknown} of unknown outcome; {} faults", faults.len());
    let found = checker::anomalies(&operations);
    let shown: Vec<_> = found.iter().take(20).collect();
    assert!(found.is_empty(), "seed {seed}: {} anomalies: {shown:#?}\nfaults: {faults:#?}", found.len());
    assert!(appended > 100 && read > 50, "seed {seed}: too little was done to say anything: {faults:#?}");
}

#[test]
fn a_cluster_is_one_store_whatever_dies() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("SEED").unwrap_or(1);
    let Some(minutes) = number("MINUTES") else { return play(seed, Duration::from_secs(QUICK)) };
    // A cluster of its own for each minute: what one does to its folder does not hide what the next would show.
    for round in 0..minutes {
        play(seed + round, Duration::from_secs(60));
    }
}
