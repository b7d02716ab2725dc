//! What a replica had and its master has not: commands from where both histories part, or all data where they have nothing in common.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fs, path::Path, process::Command};

use support::{Client, Folder, Running, redis_server, start, start_by, store_command, wait_until};

fn field(client: &mut Client, name: &str) -> String {
    let info = client.text(&["INFO", "replication"]);
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().to_owned()
}

/// Has a store follow a server, and waits until it has as many keys.
#[track_caller]
fn follow(replica: &mut Client, master: &Running) {
    let (host, port) = (master.address.ip().to_string(), master.address.port().to_string());
    assert_eq!(replica.text(&["REPLICAOF", &host, &port]), "OK");
    wait_until("the replica has what its master has", || is_same(replica, master));
}

fn is_same(replica: &mut Client, master: &Running) -> bool {
    // Whoever follows nobody yet has no such field.
    field(replica, "master_link_status") == "up"
        && replica.text(&["DBSIZE"]) == master.client().text(&["DBSIZE"])
        && field(replica, "master_replid") == field(&mut master.client(), "master_replid")
}

#[track_caller]
fn promote(client: &mut Client) {
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    wait_until("it is a master", || client.text(&["SET", "promoted", "1"]) == "OK");
}

/// What is set aside.
#[track_caller]
fn set_aside(client: &mut Client, data: &Path) -> std::path::PathBuf {
    wait_until("something is set aside", || field(client, "set_aside_files") == "1");
    data.join(field(client, "set_aside_last"))
}

/// What a store has that was kept as a folder.
fn kept(folder: &Path) -> (Folder, Running) {
    let other = Folder::new();
    fs::create_dir_all(other.data()).unwrap();
    fs::rename(folder, other.data().join("shard-0")).unwrap();
    let store = start(&other.data(), &[]);
    (other, store)
}

/// A master that comes back without its data, at the same address.
#[track_caller]
fn comes_back_empty(master: Running, again: impl FnOnce(&Running) -> Running) {
    let folder = Folder::new();
    let replica = start(&folder.data(), &[]);
    let (mut client, mut of_master) = (replica.client(), master.client());
    for number in 0..100 {
        of_master.text(&["SET", &format!("key:{number}"), "value"]);
    }
    follow(&mut client, &master);
    let mut master = master;
    master.kill();
    let master = again(&master);
    master.client().text(&["SET", "new", "1"]);
    wait_until("the replica has what its master has", || is_same(&mut client, &master));
    assert_eq!(client.text(&["DBSIZE"]), "1");
    let folder = set_aside(&mut client, &folder.data());
    wait_until("it is said", || replica.output().contains("IT IS REPLACED"));
    let (_other, store) = kept(&folder);
    assert_eq!(store.client().text(&["DBSIZE"]), "100");
    assert_eq!(store.client().text(&["GET", "key:99"]), "value");
}

#[test]
fn what_a_replica_has_is_kept_when_its_master_comes_back_empty() {
    let (folder, other) = (Folder::new(), Folder::new());
    let again = |master: &Running| {
        let address = master.address;
        start_by(&mut store_command(address, &other.data(), &[]), address)
    };
    comes_back_empty(start(&folder.data(), &[]), again);
}

#[test]
fn the_same_goes_for_a_redis_that_comes_back_empty() {
    let (folder, other) = (Folder::new(), Folder::new());
    let (folder, other) = (folder.data(), other.data());
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&other).unwrap();
    let delay = ["--repl-diskless-sync-delay", "0"];
    let again = |master: &Running| {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &master.address.port().to_string(), "--save", ""]).args(delay);
        start_by(command.arg("--dir").arg(&other), master.address)
    };
    comes_back_empty(redis_server(&folder, &delay), again);
}

#[test]
fn who_wants_nothing_kept_says_so() {
    let (folder, other) = (Folder::new(), Folder::new());
    let (master, replica) = (start(&folder.data(), &[]), start(&other.data(), &["--replica-set-aside-data", "no"]));
    let mut client = replica.client();
    client.text(&["SET", "own", "goes"]);
    master.client().text(&["SET", "theirs", "comes"]);
    follow(&mut client, &master);
    wait_until("it is said", || replica.output().contains("and not kept"));
    assert_eq!(client.text(&["GET", "own"]), "(nil)");
    assert_eq!(field(&mut client, "set_aside_files"), "0");
}

#[test]
fn nothing_is_kept_of_a_store_without_keys() {
    let (folder, other) = (Folder::new(), Folder::new());
    let (master, replica) = (start(&folder.data(), &[]), start(&other.data(), &[]));
    let mut client = replica.client();
    client.text(&["SET", "own", "1"]);
    client.text(&["DEL", "own"]);
    master.client().text(&["SET", "theirs", "comes"]);
    follow(&mut client, &master);
    assert_eq!(field(&mut client, "set_aside_files"), "0");
}

/// A replica is promoted, goes on alone, and follows its master again, which has gone on too.
#[track_caller]
fn parts_and_comes_back(master: &Running) {
    let folder = Folder::new();
    let replica = start(&folder.data(), &[]);
    let (mut client, mut of_master) = (replica.client(), master.client());
    for number in 0..100 {
        of_master.text(&["SET", &format!("common:{number}"), "value"]);
    }
    follow(&mut client, master);
    promote(&mut client);
    client.text(&["SET", "own", "1"]);
    of_master.text(&["SET", "theirs", "1"]);
    follow(&mut client, master);
    let text = fs::read_to_string(set_aside(&mut client, &folder.data())).unwrap();
    assert!(text.contains("own") && text.contains("promoted") && !text.contains("common"), "{text}");
    assert_eq!(client.text(&["GET", "own"]), "(nil)");
    assert_eq!(client.text(&["GET", "theirs"]), "1");
}

#[test]
fn what_is_set_aside_begins_where_the_histories_part() {
    let folder = Folder::new();
    parts_and_comes_back(&start(&folder.data(), &[]));
}

/// It is promoted where its copy ends: nothing of the stream has come yet.
#[test]
fn a_redis_as_master_parts_from_where_the_copy_was_made() {
    let folder = Folder::new();
    fs::create_dir_all(folder.data()).unwrap();
    parts_and_comes_back(&redis_server(&folder.data(), &["--repl-diskless-sync-delay", "0"]));
}
