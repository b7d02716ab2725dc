//! Folders that come back as they were before: a machine that is set back to a snapshot, a disk that is restored from a copy. Nothing that was
//! acknowledged since is lost while a replica in sync has it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use rustix::process::Signal;
use support::{
    RedisClient,
    cluster::{Acknowledged, Cluster, PATIENCE, Writer, nothing_is_lost},
    hosts::{COUNT, Hosts},
    signal_process, wait_within,
};

const ARGUMENTS: [&str; 4] = ["--groups", "1", "--replicas", "1"];

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// A cluster whose master's folder was set back to what it was before most of its writes; nothing of it runs.
struct SetBack {
    cluster: Cluster,
    master: String,
    /// The replica and its folder.
    replica: (String, PathBuf),
    done: Acknowledged,
}

impl SetBack {
    fn new() -> Self {
        let mut cluster = Cluster::up(&ARGUMENTS);
        let mut done = Acknowledged::new();
        let (master, pid) = cluster.master(0);
        let data = cluster.data_of(pid);
        let kept = cluster.folder.0.join("kept");
        for (tag, count) in [("a", 20), ("b", 100)] {
            let writer = Writer::start(cluster.address, tag);
            writer.wait_more(count);
            let (written, errors) = writer.end();
            assert_eq!(errors, Vec::<String>::new());
            if tag == "a" {
                copy(&data, &kept);
            }
            done = written;
        }
        cluster.wait_well();
        let status = cluster.status();
        let servers = status["groups"][0]["servers"].as_array().unwrap();
        let replica = servers.iter().find(|server| server["role"] == "replica").unwrap();
        let folder = cluster.data_of(replica["pid"].as_u64().unwrap() as u32);
        let replica = (replica["address"].as_str().unwrap().to_owned(), folder);
        cluster.lose_power();
        fs::remove_dir_all(&data).unwrap();
        fs::rename(&kept, &data).unwrap();
        Self { cluster, master, replica, done }
    }

    /// Starts it, and looks whether all is there.
    fn goes_on(&mut self) {
        let folder = Arc::clone(&self.cluster.folder);
        self.cluster.agent = Cluster::spawn(self.cluster.address, &folder, &[]);
        self.cluster.wait_well();
        nothing_is_lost(self.cluster.address, "b", &self.done);
        assert_eq!(self.cluster.master(0).0, self.replica.0);
        assert_eq!(self.cluster.done(&["check"]), "everything is as it should be\n");
    }
}

#[test]
fn a_master_that_was_set_back_gives_its_place_to_the_replica_that_has_everything() {
    let mut set_back = SetBack::new();
    set_back.goes_on();
    let history = set_back.cluster.done(&["action", "history"]);
    let reason = format!("{} has lost a part of its log (it ends at ", set_back.master);
    assert!(history.contains(&reason), "{history}");
}

/// The stores that a rescue starts to ask them what they have copy nothing, however often it is asked.
#[test]
fn a_dry_run_of_a_rescue_leaves_the_better_copy_as_it_is() {
    let mut set_back = SetBack::new();
    let (replica, folder) = set_back.replica.clone();
    fs::remove_file(set_back.cluster.folder.0.join("coordinator/coordinator")).unwrap();
    let plans = [0; 2].map(|_| set_back.cluster.done(&["rescue", "--dry-run"]));
    for plan in &plans {
        let promised = format!("group 1: master {replica}; nothing that was acknowledged is lost");
        assert!(plan.contains(&promised), "{plan}");
    }
    let set_aside = fs::read_dir(folder).unwrap().filter_map(Result::ok);
    let set_aside = set_aside.filter(|one| one.file_name().to_string_lossy().starts_with("set-aside")).count();
    assert_eq!(set_aside, 0);
    set_back.cluster.done(&["rescue", "--words", "rescue"]);
    set_back.goes_on();
}

/// A store's end of the log.
fn end(store: &str) -> u64 {
    info(store, "master_repl_offset").parse().unwrap()
}

/// A field of what a store says of its log.
fn info(store: &str, name: &str) -> String {
    let reply = RedisClient::connect(store.parse().unwrap()).command(&["INFO", "replication"]);
    let text = String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned();
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned)).unwrap_or_default()
}

/// Nobody has any more what was acknowledged: the group serves on, and people are told.
#[test]
fn what_all_have_lost_is_said() {
    let mut cluster = Cluster::up(&ARGUMENTS);
    let stores: Vec<(String, PathBuf)> = {
        let status = cluster.status();
        let servers = status["groups"][0]["servers"].as_array().unwrap().iter();
        let store = |server: &serde_json::Value| {
            let pid = server["pid"].as_u64().unwrap() as u32;
            (server["address"].as_str().unwrap().to_owned(), cluster.data_of(pid))
        };
        servers.map(store).collect()
    };
    let kept = |number: usize| cluster.folder.0.join(format!("kept{number}"));
    for (number, (_, data)) in stores.iter().enumerate() {
        copy(data, &kept(number));
    }
    let before = end(&stores[0].0);
    let writer = Writer::start(cluster.address, "a");
    writer.wait_more(50);
    writer.end();
    // Hosts remember that there is more.
    let heights = cluster.folder.0.join("heights.json");
    wait_within(PATIENCE, "it is written how far servers are", || {
        let text = fs::read(&heights).unwrap_or_default();
        let known: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let all: Vec<u64> = known["groups"]["1"]["of"]
            .as_object()
            .map(|of| of.values().filter_map(serde_json::Value::as_u64).collect())
            .unwrap_or_default();
        all.len() == 2 && all.iter().all(|height| *height > before)
    });
    let places: Vec<PathBuf> = (0..stores.len()).map(kept).collect();
    cluster.lose_power();
    for ((_, data), kept) in stores.iter().zip(places) {
        fs::remove_dir_all(data).unwrap();
        fs::rename(kept, data).unwrap();
    }
    let folder = Arc::clone(&cluster.folder);
    cluster.agent = Cluster::spawn(cluster.address, &folder, &[]);
    wait_within(PATIENCE, "the group serves, with its replica", || {
        let Some(status) = cluster.try_status() else { return false };
        let mut servers = status["groups"][0]["servers"].as_array().unwrap().iter();
        status["state"] == "ok" && servers.all(|server| server["in_sync"] == true)
    });
    let check = cluster.command(&["check"]);
    let said = String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
    assert!(said.contains("has lost a part of its log") && said.contains("may be lost"), "{said}");
}

/// Each start of a master begins a history. A replica that was away meanwhile knows all of them when it is back: by these it is told later what
/// it has in common with others.
#[test]
fn a_replica_that_was_away_learns_of_the_histories_that_began_meanwhile() {
    let cluster = Cluster::up(&ARGUMENTS);
    let status = cluster.status();
    let servers = status["groups"][0]["servers"].as_array().unwrap();
    let of = |role: &str| servers.iter().find(|server| server["role"] == role).unwrap()["address"].as_str().unwrap();
    let (master, replica) = (of("master"), of("replica"));
    let pid = |address: &str| {
        let status = cluster.status();
        let mut servers = status["groups"][0]["servers"].as_array().unwrap().iter();
        servers.find(|server| server["address"] == address).unwrap()["pid"].as_u64().map(|pid| pid as u32)
    };
    let away = pid(replica).unwrap();
    signal_process(away, Signal::STOP);
    wait_within(PATIENCE, "the replica is in sync no more", || {
        let status = cluster.status();
        let mut servers = status["groups"][0]["servers"].as_array().unwrap().iter();
        servers.find(|server| server["address"] == replica).unwrap()["in_sync"] == false
    });
    for number in 0..2 {
        let before = pid(master).unwrap();
        signal_process(before, Signal::KILL);
        wait_within(PATIENCE, "another process of the master takes writes", || {
            pid(master).is_some_and(|now| now != before)
                && RedisClient::connect_if_listens(cluster.address)
                && RedisClient::connect(cluster.address).text(&["SET", &format!("key{number}"), "1"]) == "OK"
        });
    }
    signal_process(away, Signal::CONT);
    cluster.wait_well();
    let all = info(master, "log_histories");
    assert!(all.split(',').count() >= 3, "{all}");
    wait_within(PATIENCE, "the replica tells the same", || info(replica, "log_histories") == all);
}

/// All hosts lose power. The disk of the master's host comes back as it was a moment before, and the host of its replica is there later: another host
/// remembers that there was more. Needs root and etcd; skipped where they are not.
#[test]
fn a_hosts_disk_that_was_set_back_is_known_by_what_another_host_remembers() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.start_own_etcd();
    (0..COUNT).for_each(|host| hosts.start_agent(host, &["--groups", "1", "--replicas", "1", "--ack", "1"]));
    hosts.wait_well();
    let (master, own, _) = hosts.master(0, 0);
    let status = hosts.status(0).unwrap();
    let servers = status["groups"][0]["servers"].as_array().unwrap();
    let replica = servers.iter().find(|server| server["role"] == "replica").unwrap();
    let (of_replica, replica) = (hosts.number(replica["host"].as_str().unwrap()), replica["address"].as_str().unwrap());
    let other = (0..COUNT).find(|host| ![own, of_replica].contains(host)).unwrap();
    let writer = hosts.writer(other, "a");
    writer.wait_more(20);
    let before = writer.end();
    let kept = hosts.dir(own).with_extension("kept");
    copy(&hosts.dir(own), &kept);
    let reply = hosts.client(own, master).command(&["INFO", "replication"]);
    let text = String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned();
    let end = text.lines().find_map(|line| line.strip_prefix("master_repl_offset:")).unwrap().trim();
    let end: u64 = end.parse().unwrap();
    let writer = hosts.writer(other, "b");
    writer.wait_more(20);
    match std::env::var("GAP_MS").ok().and_then(|text| text.parse().ok()) {
        Some(gap_ms) => std::thread::sleep(std::time::Duration::from_millis(gap_ms)),
        None => wait_within(PATIENCE, "another host has noted that there is more", || {
            let text = fs::read_to_string(hosts.dir(other).join("heights.json")).unwrap_or_default();
            let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
            numbers.any(|number| number > end)
        }),
    }
    (0..COUNT).for_each(|host| hosts.kill(host));
    let after = writer.end();
    fs::remove_dir_all(hosts.dir(own)).unwrap();
    fs::rename(&kept, hosts.dir(own)).unwrap();
    [own, other].iter().for_each(|host| hosts.start_agent(*host, &[]));
    let parts =
        [format!("Its master {master} has lost a part of its log (it ends at {end}"), format!("waits for {replica}")];
    wait_within(PATIENCE, "`check` says what is waited for", || {
        let said = hosts.command(other, &["check"]).stdout;
        parts.iter().all(|part| String::from_utf8_lossy(&said).contains(part))
    });
    hosts.start_agent(of_replica, &[]);
    hosts.wait_well();
    hosts.nothing_is_lost(other, "a", &before);
    hosts.nothing_is_lost(other, "b", &after);
    assert_eq!(hosts.master(other, 0).0.to_string(), replica);
}
