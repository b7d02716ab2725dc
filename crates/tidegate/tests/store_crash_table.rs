//! The table of docs/replicate.md, "What a crash may lose": each cell of it in which a process is killed or stopped, or a line is cut. What
//! the loss of a machine leaves of its disk is simulated (crates/data/store/tests: simulation, following).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use support::{
    Folder, LONG, Line, RedisClient, StoppedProcess, Store, assert_same, field, follow, free_address, wait_for_link,
    wait_within,
};

const WRITERS: usize = 3;
/// So many writes are acknowledged before anything happens.
const ENOUGH: usize = 30;

/// What happens to the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    /// It is killed, and started anew.
    KilledAndBack,
    /// It is killed, and a replica takes over.
    Killed,
    /// It is stopped, a replica takes over, and it goes on.
    Stopped,
    /// Replicas hear nothing of it any more, one takes over, and it hears of them again.
    Cut,
}

/// How safe a write is that was acknowledged.
#[derive(Debug, Clone, Copy)]
struct Safety {
    appendfsync: &'static str,
    /// `replica-ack`.
    ack: usize,
    replicas: usize,
}

/// A master with its replicas, which reach it by a line of their own, and clients that write.
struct Group {
    master: Store,
    replicas: Vec<Store>,
    line: Line,
    writers: Vec<Arc<AtomicUsize>>,
    is_over: Arc<AtomicBool>,
}

fn options(safety: Safety) -> Vec<String> {
    let ack = safety.ack.to_string();
    let words = ["--enable-debug-command", "yes", "--appendfsync", safety.appendfsync, "--replica-ack", &ack];
    words.iter().chain(&["--repl-timeout", "60"]).map(|word| (*word).to_owned()).collect()
}

fn start(address: SocketAddr, folder: Arc<Folder>, safety: Safety) -> Store {
    Store::start_at(address, folder, &options(safety).iter().map(String::as_str).collect::<Vec<_>>())
}

impl Group {
    fn new(safety: Safety) -> Self {
        let start = || start(free_address(), Arc::new(Folder::new()), safety);
        let (master, replicas) = (start(), (0..safety.replicas).map(|_| start()).collect::<Vec<_>>());
        let line = Line::new(master.address);
        for replica in &replicas {
            let mut replica = replica.client();
            follow(&mut replica, line.address);
            wait_for_link(&mut replica);
        }
        let mut client = master.client();
        wait_within(LONG, "the replicas are online", || {
            (0..safety.replicas).all(|number| field(&mut client, &format!("slave{number}")).contains("state=online"))
        });
        let mut group = Self { master, replicas, line, writers: Vec::new(), is_over: Arc::default() };
        for number in 0..WRITERS {
            let (count, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&group.is_over));
            group.writers.push(Arc::clone(&count));
            let address = group.master.address;
            thread::spawn(move || write(address, number, &count, &is_over));
        }
        wait_within(LONG, "enough is written", || group.acknowledged().iter().all(|count| *count >= ENOUGH));
        group
    }

    /// How many writes of each client were acknowledged.
    fn acknowledged(&self) -> Vec<usize> {
        self.writers.iter().map(|count| count.load(Relaxed)).collect()
    }

    /// Checks what a server has of the writes that were acknowledged by some time: all of them, or the first ones of each client.
    fn check(&self, server: &mut RedisClient, acknowledged: &[usize], has_all: bool, told: &str) {
        for (number, count) in acknowledged.iter().enumerate() {
            let list = server.command(&["LRANGE", &format!("writer:{number}"), "0", "-1"]);
            let found: Vec<String> = list
                .as_slice()
                .unwrap()
                .iter()
                .map(|one| String::from_utf8_lossy(one.as_bytes().unwrap()).into())
                .collect();
            let expected: Vec<String> = (0..found.len()).map(|number| number.to_string()).collect();
            assert_eq!(found, expected, "{told}: no write is missing before one that is there");
            assert!(!has_all || found.len() >= *count, "{told}: {count} were acknowledged, {} are there", found.len());
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

/// Appends numbers to a list, one after the other, as long as they are acknowledged.
fn write(address: SocketAddr, number: usize, acknowledged: &AtomicUsize, is_over: &AtomicBool) {
    let mut client = RedisClient::connect(address);
    let key = format!("writer:{number}");
    for next in 0.. {
        let answer = client.try_command(&["RPUSH", &key, &next.to_string()]);
        if is_over.load(Relaxed) || answer.is_none_or(|answer| answer.as_error().is_some()) {
            return;
        }
        acknowledged.store(next + 1, Relaxed);
        thread::yield_now();
    }
}

fn number_of(client: &mut RedisClient, name: &str) -> u64 {
    field(client, name).parse().unwrap()
}

/// Makes the replica that has the most of the log the master, and others follow it; returns it.
fn take_over(replicas: &[Store]) -> &Store {
    let new = replicas.iter().max_by_key(|replica| number_of(&mut replica.client(), "slave_repl_offset")).unwrap();
    assert_eq!(new.client().text(&["REPLICAOF", "NO", "ONE"]), "OK");
    wait_within(LONG, "it is promoted", || field(&mut new.client(), "role") == "master");
    for other in replicas.iter().filter(|other| other.address != new.address) {
        follow(&mut other.client(), new.address);
        wait_for_link(&mut other.client());
    }
    new
}

fn suffer(mishap: Mishap, safety: Safety) {
    let told = format!("{mishap:?}, {safety:?}");
    let mut group = Group::new(safety);
    if mishap == Mishap::KilledAndBack {
        group.master.kill();
        let acknowledged = group.acknowledged();
        let (address, folder) = (group.master.address, Arc::clone(&group.master.folder));
        group.master = start(address, folder, safety);
        return group.check(&mut group.master.client(), &acknowledged, true, &told);
    }
    let stopped = match mishap {
        Mishap::Stopped => Some(StoppedProcess::new(group.master.pid())),
        Mishap::Cut => {
            group.line.set_connected(false);
            let before = group.acknowledged();
            // Clients go on for a while: what is acknowledged from here on no replica can have.
            wait_within(LONG, "clients go on", || safety.ack > 0 || group.acknowledged()[0] > before[0] + ENOUGH);
            None
        }
        _ => {
            group.master.kill();
            None
        }
    };
    let acknowledged = group.acknowledged();
    let new = take_over(&group.replicas);
    group.check(&mut new.client(), &acknowledged, safety.ack > 0, &told);
    if mishap == Mishap::Killed {
        return;
    }
    // The old master has not heard of it. With `replica-ack` it acknowledges nothing more: its replicas are the new one's.
    drop(stopped);
    group.line.set_connected(true);
    if safety.ack > 0 {
        let mut old = group.master.client();
        wait_within(LONG, "the old master has no replicas", || field(&mut old, "connected_slaves") == "0");
        assert!(old.text(&["SET", "late", "1"]).starts_with("NOREPLICAS "), "{told}");
        group.check(&mut new.client(), &group.acknowledged(), true, &told);
    }
    let mut old = group.master.client();
    follow(&mut old, new.address);
    wait_for_link(&mut old);
    assert_same(&mut new.client(), &mut old);
}

/// A row of the table: all settings of `appendfsync` and `replica-ack`.
fn suffer_with_all_settings(mishap: Mishap) {
    for appendfsync in ["no", "everysec", "always"] {
        for (ack, replicas) in [(0, 1), (1, 1), (2, 2)] {
            suffer(mishap, Safety { appendfsync, ack, replicas });
        }
    }
}

#[test]
fn a_master_that_is_killed_and_comes_back_has_lost_nothing() {
    suffer_with_all_settings(Mishap::KilledAndBack);
}

#[test]
fn a_replica_that_takes_over_from_a_killed_master_has_what_replicas_were_waited_for() {
    suffer_with_all_settings(Mishap::Killed);
}

#[test]
fn a_replica_that_takes_over_from_a_stopped_master_has_it_too() {
    suffer_with_all_settings(Mishap::Stopped);
}

#[test]
fn a_replica_that_takes_over_behind_a_cut_line_has_it_too() {
    suffer_with_all_settings(Mishap::Cut);
}
