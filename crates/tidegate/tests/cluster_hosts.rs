//! `tidegate cluster up --etcd` on three hosts, which are network name spaces with a real etcd each, and what becomes of the cluster
//! when something happens to one of them, to etcd, or to all at once. Needs root and etcd; skipped where they are not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use rustix::process::Signal;
use support::{
    RedisClient,
    cluster::Cluster,
    hosts::{COUNT, HostWriter, Hosts, PASSWORD, PATIENCE},
    signal_process, wait_within,
};

/// Keys of three slots, one of each of three groups: 3300, 7365, 15495.
const TAGS: [&str; 3] = ["b", "c", "a"];

fn begun() -> Option<Hosts> {
    let hosts = Hosts::new()?;
    (0..COUNT).for_each(|host| hosts.start(host, &["--groups", "3", "--replicas", "1", "--ack", "1"]));
    hosts.wait_well();
    Some(hosts)
}

fn writers(hosts: &Hosts, host: usize) -> Vec<HostWriter> {
    TAGS.map(|tag| hosts.writer(host, tag)).into()
}

/// All of them are told of so many more writes.
#[track_caller]
fn go_on(writers: &[HostWriter], count: u64) {
    writers.iter().for_each(|writer| writer.wait_more(count));
}

#[track_caller]
fn end(hosts: &Hosts, host: usize, writers: Vec<HostWriter>) {
    hosts.wait_well();
    for writer in writers {
        let tag = writer.tag;
        hosts.nothing_is_lost(host, tag, &writer.end());
    }
}

#[test]
fn three_hosts_are_one_cluster_that_survives_what_happens_to_one() {
    let Some(hosts) = begun() else { return };
    is_as_it_should_begin(&hosts);
    the_password_is_needed_and_on_no_command_line(&hosts);
    a_backup_is_of_one_moment_of_all_hosts(&hosts);
    what_waits_for_a_person_outlives_the_leader(&hosts);
    survive(&hosts, 4);
}

/// `make test-hosts`.
#[test]
#[ignore = "takes minutes: make test-hosts"]
fn three_hosts_survive_it_over_and_over() {
    let Some(hosts) = begun() else { return };
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    for round in 1..=rounds {
        println!("round {round} of {rounds}");
        survive(&hosts, 10);
    }
}

/// Everything that may happen, one after the other; etcd is away for so many seconds.
#[track_caller]
fn survive(hosts: &Hosts, without_etcd: u64) {
    let leader = hosts.leader(0).unwrap();
    let other = (leader + 1) % COUNT;

    // The host whose agent leads loses its power.
    let busy = writers(hosts, other);
    go_on(&busy, 50);
    hosts.kill(leader);
    go_on(&busy, 50);
    hosts.start(leader, &[]);
    end(hosts, other, busy);

    // A host is taken down in order, and comes back.
    let busy = writers(hosts, other);
    go_on(&busy, 50);
    let output = hosts.command(leader, &["down"]);
    assert!(output.status.success(), "{output:?}");
    go_on(&busy, 50);
    hosts.start_agent(leader, &[]);
    end(hosts, other, busy);

    // A master is stopped, with a write in its socket.
    let busy = writers(hosts, other);
    go_on(&busy, 50);
    let (master, place, pid) = hosts.master(other, 0);
    let mut direct = hosts.client(place, master);
    signal_process(pid, Signal::STOP);
    direct.send_command(&["SET", "{b}0", "what nobody may hear of"]);
    go_on(&busy, 50);
    signal_process(pid, Signal::CONT);
    let reply = direct.reply();
    let text = format!("{reply:?}");
    assert!(reply.is_none_or(|reply| reply.as_error().is_some()), "a master of the past has acknowledged: {text}");
    end(hosts, other, busy);

    // The host whose agent leads is cut off, with the masters on it.
    let leader = hosts.leader(0).unwrap();
    let other = (leader + 1) % COUNT;
    let group = (0..3).find(|group| hosts.master(other, *group).1 == leader);
    let former = group.map(|group| (TAGS[group], hosts.master(other, group).0));
    let busy = writers(hosts, other);
    go_on(&busy, 50);
    let direct = former.map(|(tag, master)| (tag, hosts.client(leader, master)));
    hosts.set_connected(leader, false);
    go_on(&busy, 50);
    if let Some((tag, mut client)) = direct {
        let reply = client.try_command(&["SET", &format!("{{{tag}}}0"), "what nobody may hear of"]);
        let text = format!("{reply:?}");
        assert!(reply.is_none_or(|reply| reply.as_error().is_some()), "who is cut off has acknowledged: {text}");
    }
    hosts.set_connected(leader, true);
    end(hosts, other, busy);

    // No etcd answers. Writes go on, for longer than any lease.
    let busy = writers(hosts, other);
    go_on(&busy, 50);
    let etcds = hosts.etcds();
    assert_eq!(etcds.len(), COUNT);
    etcds.iter().for_each(|pid| signal_process(*pid, Signal::STOP));
    let ends = std::time::Instant::now() + std::time::Duration::from_secs(without_etcd);
    while std::time::Instant::now() < ends {
        go_on(&busy, 10);
    }
    etcds.iter().for_each(|pid| signal_process(*pid, Signal::CONT));
    go_on(&busy, 50);
    end(hosts, other, busy);

    // All lose their power at once.
    let busy = writers(hosts, other);
    go_on(&busy, 50);
    let done: Vec<_> = busy.into_iter().map(|writer| (writer.tag, writer.end())).collect();
    (0..COUNT).for_each(|host| hosts.kill(host));
    (0..COUNT).for_each(|host| hosts.start(host, &[]));
    hosts.wait_well();
    done.iter().for_each(|(tag, done)| hosts.nothing_is_lost(0, tag, done));
}

/// Servers of a group are on different hosts, masters are spread, each host has a proxy, and all of them serve everything.
#[track_caller]
fn is_as_it_should_begin(hosts: &Hosts) {
    let status = hosts.status(0).unwrap();
    let mut masters = Vec::new();
    for group in status["groups"].as_array().unwrap() {
        let servers = group["servers"].as_array().unwrap();
        let mut places: Vec<&str> = servers.iter().map(|server| server["host"].as_str().unwrap()).collect();
        masters.push(places[0].to_owned());
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 2, "{group}");
    }
    masters.sort_unstable();
    masters.dedup();
    assert_eq!(masters.len(), COUNT, "{status}");
    for host in 0..COUNT {
        let mut client = hosts.client(host, hosts.proxy(host));
        assert_eq!(client.text(&["MSET", "a", "1", "b", &host.to_string(), "c", "3"]), "OK");
        let mut other = hosts.client(host, hosts.proxy((host + 1) % COUNT));
        assert_eq!(other.text(&["GET", "b"]), host.to_string());
    }
    // Any agent answers, and who has no folder of the cluster asks by etcd.
    for host in 0..COUNT {
        assert_eq!(hosts.status(host).unwrap()["epoch"], 1);
        let output = hosts.command_by_coordinator(host, &["status", "--json"]);
        assert!(output.status.success(), "{output:?}");
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(status["state"], "ok");
    }
}

/// The masters are on three hosts; the backup is made on one of them, or by who has no folder of the cluster at all.
#[track_caller]
fn a_backup_is_of_one_moment_of_all_hosts(hosts: &Hosts) {
    let mut client = hosts.client(0, hosts.proxy(0));
    for key in 0..300 {
        assert_eq!(client.text(&["SET", &format!("key:{key}"), &key.to_string()]), "OK");
    }
    let archive = support::Folder::new();
    let place = archive.0.display().to_string();
    let stop = AtomicBool::new(false);
    let outputs = thread::scope(|scope| {
        // Of three groups, on three hosts. Each is written when the one before it is done.
        scope.spawn(|| {
            for round in 1.. {
                if stop.load(Relaxed) {
                    break;
                }
                for key in TAGS {
                    assert_eq!(client.text(&["SET", key, &round.to_string()]), "OK");
                }
            }
        });
        let words = ["backup", "--to", &place, "--json"];
        let outputs = [hosts.command_there(1, &words), hosts.command_by_coordinator(2, &words)];
        stop.store(true, Relaxed);
        outputs
    });
    let other = Cluster::up(&["--groups", "2", "--replicas", "0"]);
    for output in outputs {
        assert!(output.status.success(), "{output:?}");
        let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(made["groups"].as_array().unwrap().len(), 3);
        let into = other.address.to_string();
        let name = made["backup"].as_str().unwrap();
        other.done(&[
            "restore",
            "--from",
            &place,
            "--backup",
            name,
            "--into",
            &into,
            "--work-dir",
            &place,
            "--replace",
        ]);
        let mut restored = RedisClient::connect(other.address);
        for key in 0..300 {
            assert_eq!(restored.text(&["GET", &format!("key:{key}")]), key.to_string());
        }
        let rounds = TAGS.map(|key| restored.text(&["GET", key]).parse::<u64>().unwrap());
        assert!(rounds.is_sorted_by(|before, after| before >= after), "{rounds:?} are not of one moment");
        assert!(rounds[0] - rounds[2] <= 1, "{rounds:?} are not of one moment");
    }
    // The agents hold nothing of them any more, and without the token nothing is given away.
    let held = |host| {
        let stores = fs::read_dir(hosts.dir(host)).unwrap();
        stores.filter(|store| store.as_ref().unwrap().path().join("shard-0/backup").exists()).count()
    };
    assert_eq!([0, 1, 2].map(held), [0, 0, 0]);
}

/// A store of a host whose agent does not lead is started again when somebody has said so, whoever leads by then.
#[track_caller]
fn what_waits_for_a_person_outlives_the_leader(hosts: &Hosts) {
    let leader = hosts.leader(0).unwrap();
    let other = (leader + 1) % COUNT;
    let done = |words: &[&str]| {
        let output = hosts.command(other, words);
        assert!(output.status.success(), "{words:?}: {output:?}");
    };
    done(&["policy", "set", "restart", "ask"]);
    let replica = || {
        let status = hosts.status(other)?;
        let groups = status["groups"].as_array()?;
        let mut servers = groups.iter().flat_map(|group| group["servers"].as_array().unwrap());
        servers.find(|server| server["host"] == hosts.host_name(other) && server["role"] == "replica").cloned()
    };
    let pid = replica().unwrap()["pid"].as_u64().unwrap();
    signal_process(u32::try_from(pid).unwrap(), Signal::KILL);
    let waits = || hosts.status(other).map(|status| status["pending"].clone()).filter(|all| all[0]["state"] == "waits");
    wait_within(PATIENCE, "its restart waits", || waits().is_some());
    let number = waits().unwrap()[0]["number"].clone();
    hosts.kill(leader);
    wait_within(PATIENCE, "another agent leads", || hosts.leader(other).is_some_and(|now| now != leader));
    wait_within(PATIENCE, "it still waits", || waits().is_some_and(|all| all[0]["number"] == number));
    assert!(replica().unwrap()["pid"].is_null());
    done(&["action", "confirm", &number.to_string()]);
    wait_within(PATIENCE, "it runs", || replica().is_some_and(|replica| replica["pid"].is_u64()));
    hosts.start(leader, &[]);
    hosts.wait_well();
    done(&["policy", "set", "restart", "auto"]);
}

#[track_caller]
fn the_password_is_needed_and_on_no_command_line(hosts: &Hosts) {
    for host in 0..COUNT {
        for pid in hosts.pids(host) {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            assert!(
                !String::from_utf8_lossy(&line).contains(PASSWORD),
                "process {pid} has the password on its command line"
            );
        }
    }
    let (master, ..) = hosts.master(0, 0);
    for address in [master, hosts.proxy(1)] {
        let mut stranger = hosts.on(0, || RedisClient::connect(address));
        let reply = stranger.command(&["GET", "a"]);
        let text = String::from_utf8_lossy(reply.as_error().unwrap_or_default()).into_owned();
        assert!(text.starts_with("NOAUTH"), "{address}: {text}");
    }
}

#[test]
fn who_can_be_reached_by_others_needs_a_password() {
    for (words, expected) in [
        (&["--host", "10.0.0.1"][..], "--requirepass-file FILE"),
        (&["--host", "10.0.0.1", "--etcd", "http://127.0.0.1:1"], "--protected-mode no"),
        (&["--host", "somewhere"], "an address of this machine is expected"),
        (&["--host", "0.0.0.0", "--protected-mode", "no", "--etcd", "http://127.0.0.1:1"], "name this host's own"),
        (&["--api", "off", "--etcd", "http://127.0.0.1:1"], "agents of several hosts talk to each other there"),
        (&["--requirepass-file", "/nowhere"], "--requirepass-file /nowhere cannot be read"),
        (&["--etcd", "https://127.0.0.1:1"], "TLS to etcd is not supported yet"),
    ] {
        let folder = support::Folder::new();
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["cluster", "up", "--dir"])
            .arg(&folder.0)
            .args(words)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{words:?}: {said}");
    }
}
