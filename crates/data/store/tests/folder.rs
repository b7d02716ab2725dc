//! What a store's folder has, and what it says to others.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::fs;

use store::running::{Running, disk_bytes, is_served};
use support::{Folder, start, wait_until};

#[test]
fn more_databases_than_there_were_are_empty() {
    let folder = Folder::new();
    let mut store = start(&folder.data(), &["--databases", "2"]);
    let mut client = store.client();
    // An emptied database gets another number in the tables.
    for round in ["1", "2"] {
        client.text(&["FLUSHDB"]);
        client.text(&["SET", "round", round]);
        client.text(&["SAVE"]);
    }
    assert_eq!(store.stop(), Some(0));
    let store = start(&folder.data(), &["--databases", "8"]);
    let mut client = store.client();
    for db in 1..8 {
        client.text(&["SELECT", &db.to_string()]);
        assert_eq!(client.text(&["GET", "round"]), "(nil)", "in database {db}");
        client.text(&["SET", "round", "other"]);
    }
    client.text(&["SAVE"]);
    client.text(&["SELECT", "0"]);
    assert_eq!(client.text(&["GET", "round"]), "2");
}

#[test]
fn a_log_that_nobody_writes_to_takes_little_of_the_disk() {
    const SEGMENT: u64 = 16 << 20;
    let folder = Folder::new();
    let store = start(&folder.data(), &["--log-segment-size", &SEGMENT.to_string()]);
    let mut client = store.client();
    let log = folder.data().join("shard-0/log");
    client.text(&["GET", "nothing"]);
    assert!(disk_bytes(&log) < SEGMENT / 4, "{}", disk_bytes(&log));
    let names = || fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names().any(|name| name.starts_with("spare-")));
    client.text(&["SET", "something", "1"]);
    wait_until("the next segment is prepared", || names().any(|name| name.starts_with("spare-")));
}

#[test]
fn who_knows_the_folder_finds_the_store() {
    let folder = Folder::new();
    let socket = folder.0.join("store.sock");
    let mut store = start(&folder.data(), &["--unixsocket", socket.to_str().unwrap()]);
    let found = Running::find(&folder.data()).unwrap().unwrap();
    assert_eq!(found.pid, store.pid());
    assert_eq!(found.listens, [store.address.to_string(), socket.display().to_string()]);
    // Another one that is refused takes nothing of it away.
    let said = support::refusal(&folder.data(), &[]);
    assert!(said.contains("is in use by another process"), "{said}");
    assert_eq!(Running::find(&folder.data()).unwrap(), Some(found.clone()));
    store.client().text(&["DEBUG", "RELOAD"]);
    assert_eq!(Running::find(&folder.data()).unwrap(), Some(found));
    let other = support::free_address();
    assert_eq!(store.client().text(&["CONFIG", "SET", "port", &other.port().to_string()]), "OK");
    wait_until("it says where it listens now", || {
        Running::find(&folder.data()).unwrap().is_some_and(|found| found.listens.first() == Some(&other.to_string()))
    });
    store.kill();
    assert!(!is_served(&folder.data()));
    assert_eq!(Running::find(&folder.data()).unwrap(), None);
}
