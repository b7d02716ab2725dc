//! `tidegate cluster backup` and `restore`: all groups at one moment, into a cluster of another size.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use support::{Folder, RedisClient, cluster::Cluster};

fn number(client: &mut RedisClient, key: &str) -> u64 {
    client.text(&["GET", key]).parse().unwrap()
}

#[test]
fn a_backup_is_of_one_moment_and_fits_into_another_size() {
    let cluster = Cluster::up(&["--groups", "2", "--replicas", "0"]);
    let mut client = RedisClient::connect(cluster.address);
    for key in 0..200 {
        assert_eq!(client.text(&["SET", &format!("key:{key}"), &key.to_string()]), "OK");
    }
    client.command(&["RPUSH", "list", "a", "b"]);
    client.command(&["HSET", "hash", "field", "value"]);
    let archive = Folder::new();
    let place = archive.0.display().to_string();
    let stop = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        // Slots 3300 and 15495: one of each group. The second is written when the first is done.
        scope.spawn(|| {
            let mut client = RedisClient::connect(cluster.address);
            for round in 1.. {
                if stop.load(Relaxed) {
                    break;
                }
                for key in ["b", "a"] {
                    assert_eq!(client.text(&["SET", key, &round.to_string()]), "OK");
                }
            }
        });
        let made: Vec<String> = (0..3).map(|_| cluster.done(&["backup", "--to", &place, "--json"])).collect();
        stop.store(true, Relaxed);
        made
    });
    let name =
        |made: &String| serde_json::from_str::<serde_json::Value>(made).unwrap()["backup"].as_str().unwrap().to_owned();
    let names: Vec<String> = made.iter().map(name).collect();
    let listed = cluster.done(&["backup", "--to", &place, "--list"]);
    assert_eq!(listed.lines().collect::<Vec<_>>(), names.iter().map(String::as_str).collect::<Vec<_>>());

    let other = Cluster::up(&["--groups", "3", "--replicas", "0"]);
    let into = other.address.to_string();
    let work = archive.0.join("work").display().to_string();
    let restore = |backup: &str, more: &[&str]| {
        let words = ["restore", "--from", &place, "--backup", backup, "--into", &into, "--work-dir", &work];
        other.done(&[&words, more].concat())
    };
    other.refused(&["restore", "--from", &place, "--work-dir", &work], "work-dir");
    std::fs::create_dir(archive.0.join("work")).unwrap();
    other.refused(&["restore", "--from", &place, "--backup", "nothing"], "has no backup nothing");
    restore(&names[0], &[]);
    let mut restored = RedisClient::connect(other.address);
    for key in 0..200 {
        assert_eq!(number(&mut restored, &format!("key:{key}")), key);
    }
    assert_eq!(restored.text(&["LINDEX", "list", "1"]), "b");
    assert_eq!(restored.text(&["HGET", "hash", "field"]), "value");
    // It has keys by now.
    let words = ["restore", "--from", &place, "--backup", &names[1], "--into", &into, "--work-dir", &work];
    other.refused(&words, "--replace");
    for backup in &names[1..] {
        restore(backup, &["--replace"]);
        let (first, second) = (number(&mut restored, "b"), number(&mut restored, "a"));
        assert!(first == second || first == second + 1, "{first} and {second} are not of one moment");
    }
}

#[test]
fn a_group_without_a_master_has_no_backup() {
    let cluster = Cluster::up(&["--groups", "2", "--replicas", "0"]);
    let archive = Folder::new();
    let place = archive.0.display().to_string();
    // A group without a master that serves has no moment either.
    support::signal_process(cluster.master(0).1, rustix::process::Signal::STOP);
    support::wait_within(support::cluster::PATIENCE, "the group does not serve", || {
        cluster.status()["groups"][0]["state"] == "down"
    });
    cluster.refused(&["backup", "--to", &place], "group 1: it has no master that serves");
    support::signal_process(cluster.master(0).1, rustix::process::Signal::CONT);
    cluster.wait_well();
    cluster.done(&["backup", "--to", &place]);
}
