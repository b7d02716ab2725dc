//! `FAILOVER`: a master hands over to a replica while clients write, stores and Debian's redis-server in either place.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use support::{
    LONG, Redis, RedisClient, StoppedProcess, Store, assert_same, field, follow, host, wait_for_link, wait_until,
    wait_within,
};

/// A store that says where it is reached, as it is on an address of the loopback that its connections do not come from.
fn store() -> Store {
    Store::start(&["--enable-debug-command", "yes", "--replica-announce-ip", &host()])
}

fn redis() -> Redis {
    Redis::start(&["--replica-announce-ip", &host()])
}

fn failover_to(master: &mut RedisClient, target: SocketAddr, more: &[&str]) -> String {
    let (ip, port) = (target.ip().to_string(), target.port().to_string());
    master.text(&[&["FAILOVER", "TO", &ip, &port], more].concat())
}

#[track_caller]
fn wait_for_state(client: &mut RedisClient, state: &str) {
    wait_within(LONG, &format!("the failover is {state}"), || field(client, "master_failover_state") == state);
}

/// Waits until a master's replicas have got a copy, and are given the log.
#[track_caller]
fn wait_for_replicas(master: &mut RedisClient, count: usize) {
    wait_within(LONG, "the replicas are online", || {
        (0..count).all(|number| field(master, &format!("slave{number}")).contains("state=online"))
    });
}

/// Counts up at a server until it takes no writes. Returns the last number that was answered.
fn count(address: SocketAddr, has_begun: &AtomicBool) -> i64 {
    let mut client = RedisClient::connect(address);
    let mut last = 0;
    loop {
        let answer = client.text(&["INCR", "counter"]);
        let Ok(number) = answer.parse::<i64>() else {
            assert!(answer.starts_with("READONLY "), "{answer}");
            return last;
        };
        last = number;
        has_begun.store(last > 100, Ordering::Relaxed);
    }
}

/// A master hands over to a replica; a third server follows the new one.
#[track_caller]
fn hand_over(old: SocketAddr, new: SocketAddr, third: SocketAddr) {
    let (mut master, mut next, mut other) =
        (RedisClient::connect(old), RedisClient::connect(new), RedisClient::connect(third));
    for replica in [&mut next, &mut other] {
        follow(replica, old);
        wait_for_link(replica);
    }
    wait_for_replicas(&mut master, 2);
    let has_begun = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let has_begun = Arc::clone(&has_begun);
            thread::spawn(move || count(old, &has_begun))
        })
        .collect();
    wait_within(LONG, "clients write", || has_begun.load(Ordering::Relaxed));
    assert_eq!(failover_to(&mut master, new, &[]), "OK");
    wait_for_state(&mut master, "no-failover");
    let last = writers.into_iter().map(|writer| writer.join().unwrap()).max().unwrap();
    assert_eq!((field(&mut master, "role"), field(&mut next, "role")), ("slave".into(), "master".into()));
    assert_eq!(next.text(&["GET", "counter"]), last.to_string(), "all that was answered, and nothing more");
    follow(&mut other, new);
    for replica in [&mut master, &mut other] {
        wait_for_link(replica);
    }
    assert_eq!(next.text(&["INCR", "counter"]), (last + 1).to_string());
    for replica in [&mut master, &mut other] {
        assert_same(&mut next, replica);
    }
    let stats = next.text(&["INFO", "stats"]);
    assert!(stats.contains("sync_full:0\r\n") && stats.contains("sync_partial_ok:2\r\n"), "{stats}");
}

#[test]
fn a_store_hands_over_to_a_store() {
    let stores = [store(), store(), store()];
    hand_over(stores[0].address, stores[1].address, stores[2].address);
}

#[test]
fn a_store_hands_over_to_redis() {
    let (old, third) = (store(), store());
    let new = redis();
    hand_over(old.address, new.address, third.address);
}

#[test]
fn redis_hands_over_to_a_store() {
    let (new, third) = (store(), store());
    let old = redis();
    hand_over(old.address, new.address, third.address);
}

#[test]
fn a_failover_is_refused_where_it_can_come_to_nothing() {
    let (master_store, replica_store) = (store(), store());
    let (mut master, mut replica) = (master_store.client(), replica_store.client());
    let target = replica_store.address;
    assert_eq!(master.text(&["FAILOVER"]), "ERR FAILOVER requires connected replicas.");
    assert_eq!(master.text(&["FAILOVER", "ABORT"]), "ERR No failover in progress.");
    follow(&mut replica, master_store.address);
    wait_for_link(&mut replica);
    wait_for_replicas(&mut master, 1);
    let both = "ERR FAILOVER with force option requires both a timeout and target HOST and IP.";
    for (words, expected) in [
        (&["FAILOVER", "FORCE", "TIMEOUT", "100"][..], both),
        (&["FAILOVER", "TIMEOUT", "0"], "ERR FAILOVER timeout must be greater than 0"),
        (&["FAILOVER", "TO", "nowhere", "1"], "ERR FAILOVER target HOST and PORT is not a replica."),
        (&["FAILOVER", "TO", "nowhere"], "ERR syntax error"),
        (&["FAILOVER", "TO", "nowhere", "x"], "ERR value is not an integer or out of range"),
    ] {
        assert_eq!(master.text(words), expected, "{words:?}");
    }
    assert_eq!(failover_to(&mut master, target, &["FORCE"]), both);
    assert_eq!(
        failover_to(&mut replica, master_store.address, &[]),
        "ERR FAILOVER is not valid when server is a replica."
    );
    let id = field(&mut master, "master_replid");
    assert_eq!(master.text(&["PSYNC", &id, "1", "FAILOVER"]), "ERR PSYNC FAILOVER can't be sent to a master.");
    let other = "0".repeat(40);
    assert_eq!(replica.text(&["PSYNC", &other, "1", "FAILOVER"]), "ERR PSYNC FAILOVER replid must match my replid.");
    assert_eq!(field(&mut replica, "role"), "slave");
}

#[test]
fn a_master_takes_writes_again_if_its_replica_is_not_there_in_time() {
    let (master_store, replica_store) = (store(), store());
    let (mut master, mut replica) = (master_store.client(), replica_store.client());
    follow(&mut replica, master_store.address);
    wait_for_link(&mut replica);
    wait_for_replicas(&mut master, 1);
    let stopped = StoppedProcess::new(replica_store.pid());
    assert_eq!(master.text(&["SET", "a", "1"]), "OK");
    assert_eq!(failover_to(&mut master, replica_store.address, &["TIMEOUT", "100000"]), "OK");
    assert_eq!(field(&mut master, "master_failover_state"), "waiting-for-sync");
    assert_eq!(master.text(&["GET", "a"]), "1", "reads go on");
    assert_eq!(master.text(&["REPLICAOF", "NO", "ONE"]), "ERR REPLICAOF not allowed while failing over.");
    assert_eq!(master.text(&["FAILOVER"]), "ERR FAILOVER already in progress.");
    let address = master_store.address;
    let writer = thread::spawn(move || RedisClient::connect(address).text(&["SET", "b", "1"]));
    wait_until("the write waits", || master.text(&["INFO", "clients"]).contains("blocked_clients:1"));
    assert_eq!(master.text(&["FAILOVER", "ABORT"]), "OK");
    assert_eq!(writer.join().unwrap(), "OK", "it waited, and runs");
    assert_eq!(field(&mut master, "master_failover_state"), "no-failover");
    assert_eq!(master.text(&["FAILOVER", "TIMEOUT", "50"]), "OK");
    wait_for_state(&mut master, "no-failover");
    assert_eq!(field(&mut master, "role"), "master");
    assert_eq!(master.text(&["SET", "c", "1"]), "OK");
    drop(stopped);
    assert_same(&mut master, &mut replica);
}

#[test]
fn by_force_a_replica_is_the_master_with_what_has_come_to_it() {
    let (master_store, replica_store) = (store(), store());
    let (mut master, mut replica) = (master_store.client(), replica_store.client());
    follow(&mut replica, master_store.address);
    wait_for_link(&mut replica);
    wait_for_replicas(&mut master, 1);
    let stopped = StoppedProcess::new(replica_store.pid());
    assert_eq!(master.text(&["SET", "a", "1"]), "OK");
    assert_eq!(failover_to(&mut master, replica_store.address, &["TIMEOUT", "50", "FORCE"]), "OK");
    wait_for_state(&mut master, "failover-in-progress");
    assert_eq!(field(&mut master, "role"), "slave", "there are never two masters");
    drop(stopped);
    wait_for_state(&mut master, "no-failover");
    wait_for_link(&mut master);
    assert_eq!(replica.text(&["GET", "a"]), "1", "it was on its way");
    assert_eq!(replica.text(&["SET", "a", "2"]), "OK");
    assert_same(&mut replica, &mut master);
    assert!(replica.text(&["INFO", "stats"]).contains("sync_full:0\r\n"));
}

#[test]
fn a_target_that_refuses_leaves_the_master_as_it_was() {
    let (master_store, replica_store) = (store(), store());
    let (mut master, mut replica) = (master_store.client(), replica_store.client());
    follow(&mut replica, master_store.address);
    wait_for_link(&mut replica);
    wait_for_replicas(&mut master, 1);
    assert_eq!(replica.text(&["ACL", "SETUSER", "default", "-psync"]), "OK");
    assert_eq!(failover_to(&mut master, replica_store.address, &[]), "OK");
    wait_for_state(&mut master, "no-failover");
    assert_eq!(field(&mut master, "role"), "master");
    assert_eq!(master.text(&["SET", "a", "1"]), "OK");
    wait_for_link(&mut replica);
    assert_same(&mut master, &mut replica);
}
