//! What a store has acknowledged is there after its process is gone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    sync::{Arc, Mutex},
    thread,
};

use support::{Store, free_address};

/// Clients count up keys of their own until the store is killed; the last acknowledged number of each must be there.
fn write_until_killed(arguments: &[&str]) -> (Store, Vec<u64>) {
    const CLIENTS: usize = 4;
    let mut store = Store::start(arguments);
    let acknowledged = Arc::new(Mutex::new(vec![0; CLIENTS]));
    let writers: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let mut connection = store.client();
            let acknowledged = Arc::clone(&acknowledged);
            thread::spawn(move || {
                for number in 1u64.. {
                    let key = format!("writer:{client}");
                    if connection.try_command(&["SET", &key, &number.to_string()]).is_none() {
                        return;
                    }
                    acknowledged.lock().unwrap()[client] = number;
                }
            })
        })
        .collect();
    support::wait_until("every client has written", || acknowledged.lock().unwrap().iter().all(|count| *count > 50));
    store.kill();
    for writer in writers {
        writer.join().unwrap();
    }
    let acknowledged = acknowledged.lock().unwrap().clone();
    (store, acknowledged)
}

#[test]
fn no_acknowledged_write_is_lost_by_kill_9() {
    for policy in ["always", "everysec"] {
        // The kernel outlives the process, so even `everysec` loses nothing here.
        let (killed, acknowledged) = write_until_killed(&["--appendfsync", policy]);
        let store = Store::start_in(Arc::clone(&killed.folder), &[]);
        let mut client = store.client();
        for (writer, count) in acknowledged.iter().enumerate() {
            let found: u64 = client.text(&["GET", &format!("writer:{writer}")]).parse().unwrap();
            assert!(found == *count || found == count + 1, "{policy}: {found} is there, {count} was acknowledged");
        }
    }
}

#[test]
fn a_store_that_was_stopped_has_nothing_to_run_again() {
    let mut store = Store::start(&[]);
    let mut client = store.client();
    for number in 0..500 {
        assert_eq!(client.text(&["SET", &format!("key:{number}"), "x"]), "OK");
    }
    assert_eq!(client.text(&["DEL", "key:0"]), "1");
    assert_eq!(client.text(&["SELECT", "3"]), "OK");
    assert_eq!(client.text(&["SET", "other", "y", "EX", "1000"]), "OK");
    assert_eq!(store.stop(), 0);
    let again = Store::start_in(Arc::clone(&store.folder), &[]);
    assert!(!again.output().contains("ran again"), "{}", again.output());
    let mut client = again.client();
    assert_eq!(client.text(&["DBSIZE"]), "499");
    assert_eq!(client.text(&["GET", "key:0"]), "(nil)");
    assert_eq!(client.text(&["GET", "key:499"]), "x");
    client.text(&["SELECT", "3"]);
    assert_eq!(client.text(&["GET", "other"]), "y");
}

#[test]
fn two_stores_do_not_share_a_folder() {
    let store = Store::start(&[]);
    let mut second = Store::spawn(free_address(), Arc::clone(&store.folder), &[]);
    assert_eq!(second.wait_end(), 1);
    support::wait_until("it says why", || second.output().contains("is in use by another process"));
}

/// Puts as many keys of a kilobyte each, in one go.
fn fill(client: &mut support::RedisClient, count: usize) {
    let value = "v".repeat(1000);
    for first in (0..count).step_by(500) {
        let mut bytes = Vec::new();
        for number in first..first + 500 {
            resp::encode_command(&mut bytes, &["SET", &format!("key:{number}"), &value]);
        }
        client.send(&bytes);
        for _ in 0..500 {
            assert_eq!(client.reply().unwrap().as_bytes(), Some(b"OK".as_slice()));
        }
    }
}

/// All keys that a walk meets.
fn walk(client: &mut support::RedisClient) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = client.command(&["SCAN", &cursor, "COUNT", "1000"]);
        let parts = reply.as_slice().unwrap();
        cursor = String::from_utf8_lossy(parts[0].as_bytes().unwrap()).into_owned();
        let keys = parts[1].as_slice().unwrap().iter().map(|key| key.as_bytes().unwrap());
        found.extend(keys.map(|key| String::from_utf8_lossy(key).into_owned()));
        if cursor == "0" {
            return found;
        }
    }
}

#[test]
fn data_may_be_larger_than_memory() {
    const COUNT: usize = 40_000;
    let mut store = Store::start(&["--maxmemory", "24mb"]);
    let mut client = store.client();
    fill(&mut client, COUNT);
    assert_eq!(client.text(&["DBSIZE"]), COUNT.to_string());
    for number in (0..COUNT).step_by(997) {
        assert_eq!(client.text(&["STRLEN", &format!("key:{number}")]), "1000", "{number}");
    }
    assert_eq!(client.text(&["GET", "key:none"]), "(nil)");
    let mut found = walk(&mut client);
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), COUNT);
    assert_eq!(store.stop(), 0);

    let mut store = Store::start_in(Arc::clone(&store.folder), &["--maxmemory", "24mb"]);
    let mut client = store.client();
    assert_eq!(client.text(&["DBSIZE"]), COUNT.to_string());
    assert!(client.text(&["RANDOMKEY"]).starts_with("key:"));
    assert_eq!(client.text(&["SWAPDB", "0", "5"]), "OK");
    assert_eq!(client.text(&["GET", "key:7"]), "(nil)");
    client.text(&["SELECT", "5"]);
    assert_eq!(client.text(&["STRLEN", "key:7"]), "1000");
    assert_eq!(client.text(&["FLUSHDB"]), "OK");
    assert_eq!(client.text(&["STRLEN", "key:8"]), "0");
    assert!(walk(&mut client).is_empty());
    assert_eq!(client.text(&["SET", "new", "x"]), "OK");
    store.kill();

    let store = Store::start_in(Arc::clone(&store.folder), &[]);
    let mut client = store.client();
    assert_eq!(client.text(&["DBSIZE"]), "0");
    client.text(&["SELECT", "5"]);
    assert_eq!(walk(&mut client), ["new"]);
}

#[test]
fn keys_that_are_not_in_memory_expire_too() {
    let mut store = Store::start(&[]);
    let mut client = store.client();
    for number in 0..100 {
        assert_eq!(client.text(&["SET", &format!("short:{number}"), "x", "PX", "1500"]), "OK");
    }
    assert_eq!(client.text(&["SET", "long", "x", "EX", "1000"]), "OK");
    assert_eq!(store.stop(), 0);
    // Nobody asks for them: the tables know that their time has come.
    let store = Store::start_in(Arc::clone(&store.folder), &[]);
    let mut client = store.client();
    support::wait_until("all but one have expired", || client.text(&["DBSIZE"]) == "1");
    assert_eq!(client.text(&["GET", "long"]), "x");
}
