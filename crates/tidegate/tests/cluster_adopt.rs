//! A single store becomes a cluster; what a cluster tells programs that watch it; and plans that change nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    net::SocketAddr,
    process::{Command, Output, Stdio},
    sync::Arc,
};

use rustix::process::Signal;
use serde_json::Value;
use support::{
    Folder, RedisClient, Store,
    cluster::{Cluster, PATIENCE, Writer, free_ports, nothing_is_lost},
    signal_process, wait_within,
};

/// Runs a command of `tidegate cluster` that ends by itself.
fn run(words: &[&str], folder: &Folder) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("cluster").args(words).arg("--dir").arg(&folder.0).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn refused(words: &[&str], folder: &Folder, reason: &str) {
    let output = run(words, folder);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(reason), "{words:?}: not refused because '{reason}': {output:?}");
}

/// What is in a folder, by name.
fn names(folder: &Folder) -> Vec<String> {
    let mut all: Vec<String> =
        fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

#[test]
fn a_store_becomes_a_cluster_with_all_its_keys() {
    let folder = Arc::new(Folder::new());
    let place = folder.0.display().to_string();
    let mut store = Store::start(&["--dir", &place]);
    let mut client = store.client();
    for number in 0..200 {
        assert_eq!(client.text(&["SET", &format!("key{number}"), &number.to_string()]), "OK");
    }
    client.text(&["SELECT", "3"]);
    assert_eq!(client.text(&["SET", "elsewhere", "1"]), "OK");
    refused(&["adopt"], &folder, "is in use by another process: stop it");
    store.stop();
    let before = names(&folder);
    refused(
        &["up", "--port", "1"],
        &folder,
        "has the data of a single store, which a new cluster would not serve: `tidegate cluster adopt",
    );
    refused(&["adopt"], &folder, "has keys in database 3 (1): a cluster serves database 0 alone");
    refused(&["adopt", "--groups", "2"], &folder, "--groups is not for `adopt`");
    assert_eq!(names(&folder), before, "nothing is left of what was refused");
    let mut store = Store::start(&["--dir", &place]);
    let mut client = store.client();
    client.text(&["SELECT", "3"]);
    assert_eq!(client.text(&["FLUSHDB"]), "OK");
    store.stop();
    let planned = run(&["adopt", "--dry-run"], &folder);
    let said = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(said.contains("becomes the master of group 1") && said.contains("nothing has been changed"), "{said}");
    assert_eq!(names(&folder), before);
    // It goes on as any other cluster: with a replica, and one more group.
    let address = free_ports();
    let agent = Cluster::spawn_as("adopt", address, &folder, &["--replicas", "1", "--set", "timeout=0"]);
    let mut cluster = Cluster { agent, address, folder: Arc::clone(&folder) };
    cluster.wait_well();
    let all_are_there = |cluster: &Cluster| {
        let mut client = RedisClient::connect(cluster.address);
        assert!((0..200).all(|number| client.text(&["GET", &format!("key{number}")]) == number.to_string()));
    };
    all_are_there(&cluster);
    assert_eq!(cluster.status()["groups"][0]["servers"].as_array().unwrap().len(), 2);
    cluster.done(&["server", "add-group", "--replicas", "0", "--ack", "0", "--yes"]);
    cluster.done(&["slot", "rebalance", "--yes"]);
    all_are_there(&cluster);
    assert!(cluster.command(&["down"]).status.success());
    assert!(cluster.agent.wait().unwrap().success());
    refused(&["adopt"], &folder, "has a cluster already");
    cluster.agent = Cluster::spawn(cluster.address, &folder, &[]);
    cluster.wait_well();
    all_are_there(&cluster);
}

fn fetched(address: SocketAddr, path: &str) -> (u16, String) {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text)
}

#[test]
fn programs_that_watch_are_told_and_plans_change_nothing() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind((support::host().as_str(), 0)).unwrap();
    let (host, port) = (support::host(), taken.local_addr().unwrap().port().to_string());
    refused(&["up", "--host", &host, "--port", &port, "--protected-mode", "no"], &folder, "nobody can listen on");
    assert!(!names(&folder).contains(&"api.address".to_owned()), "{:?}", names(&folder));
    let planned = run(&["up", "--groups", "3", "--replicas", "0", "--set", "timeout=5", "--dry-run"], &Folder::new());
    let said = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(said.contains("a new cluster begins") && said.contains("group 3") && said.contains("timeout 5"), "{said}");

    let cluster = Cluster::up(&["--groups", "2", "--replicas", "1", "--ack", "1"]);
    let page = cluster.status()["agent"]["page"].as_str().unwrap().to_owned();
    let api: SocketAddr = page.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    wait_within(PATIENCE, "figures of servers are there", || {
        fetched(api, "/metrics").1.contains("redis_connected_clients{addr=")
    });
    let (status, text) = fetched(api, "/metrics");
    assert_eq!(status, 200);
    for expected in [
        "content-type: text/plain; version=0.0.4",
        "\nredis_cluster_state 1\n",
        "redis_cluster_slots_ok 16384",
        "tidegate_cluster_proxy_up",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let (status, text) = fetched(api, "/health");
    assert!(status == 200 && text.contains("\"status\":\"ok\""), "{text}");
    // Plans of what is done without a question.
    let before = cluster.status();
    for words in [
        &["policy", "set", "failover", "off"][..],
        &["slot", "rate", "1mb"],
        &["slot", "cancel"],
        &["action", "gc", "--keep", "1"],
        &["server", "add", "1"],
        &["down"],
    ] {
        let said = cluster.done(&[words, &["--dry-run"]].concat());
        assert!(said.contains("nothing has been changed"), "{words:?}: {said}");
    }
    let after = cluster.status();
    assert_eq!(before["policy"], after["policy"]);
    assert_eq!(
        before["groups"][0]["servers"].as_array().unwrap().len(),
        after["groups"][0]["servers"].as_array().unwrap().len()
    );
    // A change that is not about a group is no reason to call it down, not even before its master has heard of it.
    for mode in ["ask", "auto", "ask", "auto"] {
        cluster.done(&["policy", "set", "rebalance", mode]);
        let status = cluster.status();
        assert!(status["groups"].as_array().unwrap().iter().all(|group| group["state"] == "ok"), "{status}");
    }
    let writer = Writer::start(cluster.address, "a");
    writer.wait_more(20);
    signal_process(cluster.master(0).1, Signal::KILL);
    wait_within(PATIENCE, "the other group has another master", || {
        let status = cluster.status();
        assert_eq!(status["groups"][1]["state"], "ok", "nothing has happened to group 2: {status}");
        cluster.log().contains("is the master: ")
    });
    writer.wait_more(20);
    let (done, _) = writer.end();
    cluster.wait_well();
    nothing_is_lost(cluster.address, "a", &done);
    let history: Value = serde_json::from_str(&cluster.done(&["action", "history", "--json"])).unwrap();
    let last = history.as_array().unwrap().iter().find(|change| change["by"] == "failover").unwrap();
    assert!(last["what"].as_str().unwrap().contains("(decided by the agent of host local, "), "{last}");
    let told = fs::read_to_string(cluster.folder.0.join("up.out")).unwrap();
    assert!(told.contains("tidegate cluster: group 1: ") && told.contains("is the master"), "{told}");
}
