//! Three hosts whose addresses change: a host is known by its folder, so it comes back as itself. Network name spaces with real addresses and
//! a real etcd, which is on a machine of its own here. Needs root and etcd; skipped where they are not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{collections::BTreeSet, fs, net::SocketAddr, process::Command};

use serde_json::Value;
use support::{
    cluster::{Cluster, Writer, nothing_is_lost},
    hosts::{COUNT, Hosts, PATIENCE},
    wait_within,
};

/// Keys of three slots, one of each of three groups.
const TAGS: [&str; 3] = ["b", "c", "a"];

#[track_caller]
fn done(hosts: &Hosts, host: usize, words: &[&str]) -> String {
    let output = hosts.command(host, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refused(hosts: &Hosts, host: usize, words: &[&str], reason: &str) {
    let output = hosts.command(host, words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains(reason),
        "{words:?} is not refused because '{reason}': {output:?}"
    );
}

fn all_hosts(hosts: &Hosts, host: usize) -> Vec<Value> {
    serde_json::from_str(&done(hosts, host, &["host", "list", "--json"])).unwrap()
}

fn begun() -> Option<Hosts> {
    let hosts = Hosts::new()?;
    hosts.start_own_etcd();
    // What is started from now on sees this file, and what becomes of it.
    hosts.name_addresses("");
    (0..COUNT).for_each(|host| hosts.start_agent(host, &["--groups", "3", "--replicas", "1", "--ack", "1"]));
    hosts.wait_well();
    Some(hosts)
}

#[test]
fn three_hosts_come_back_at_other_addresses_by_the_command_that_began_them() {
    let Some(hosts) = begun() else { return };
    all_come_back(&hosts);
}

/// While a third one leads, two hosts are called by each other's addresses: each server is talked to where it is now.
#[test]
fn two_hosts_come_back_with_their_addresses_exchanged() {
    let Some(hosts) = begun() else { return };
    let leader = hosts.leader(0).unwrap();
    let [one, other] = [1, 2].map(|more| (leader + more) % COUNT);
    let writers = TAGS.map(|tag| hosts.writer(leader, tag));
    writers.iter().for_each(|writer| writer.wait_more(50));
    [one, other].iter().for_each(|host| hosts.kill(*host));
    let written = writers.map(|writer| (writer.tag, writer.end()));
    let (address, of_other) = (hosts.address(one), hosts.address(other));
    hosts.readdress_one(one, &address, "10.77.0.50");
    hosts.readdress_one(other, &of_other, &address);
    hosts.readdress_one(one, "10.77.0.50", &of_other);
    hosts.start_agent_at(one, &of_other, &[]);
    hosts.start_agent_at(other, &address, &[]);
    hosts.wait_well();
    assert_eq!(hosts.leader(leader), Some(leader), "nobody else has led, who would have looked for all servers anew");
    let found = all_hosts(&hosts, leader);
    assert!(found.iter().any(|host| host["host"] == hosts.host_name(one) && host["address"] == of_other), "{found:?}");
    written.iter().for_each(|(tag, written)| hosts.nothing_is_lost(leader, tag, written));
    let history = done(&hosts, leader, &["action", "history"]);
    assert!(!history.contains("may be lost"), "{history}");
}

/// `make test-hosts`.
#[test]
#[ignore = "takes a minute: make test-hosts"]
fn one_host_is_itself_whatever_its_address_and_another_one_takes_the_place_of_a_lost_one() {
    let Some(hosts) = begun() else { return };
    all_come_back(&hosts);
    one_comes_back(&hosts);
    a_name_will_do(&hosts);
    one_is_gone_for_good(&hosts);
}

/// The usual machine: its address was one of a network that it has left.
#[test]
fn a_cluster_of_one_machine_comes_back_at_another_address() {
    let mut cluster = Cluster::up(&["--groups", "2", "--replicas", "1", "--ack", "1"]);
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(50);
    let (written, _) = writer.end();
    cluster.done(&["down"]);
    assert!(cluster.agent.wait().unwrap().success());
    let (former, port) = (cluster.address, cluster.address.port());
    cluster.address = SocketAddr::new("127.77.7.7".parse().unwrap(), port);
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
    cluster.wait_well();
    nothing_is_lost(cluster.address, "b", &written);
    let status = cluster.done(&["status"]);
    assert!(status.contains(&format!("127.77.7.7:{port}")) && !status.contains(&former.ip().to_string()), "{status}");
    // The next start needs nothing but the folder.
    cluster.done(&["down"]);
    assert!(cluster.agent.wait().unwrap().success());
    let dir = cluster.folder.0.display().to_string();
    let output = fs::File::create(cluster.folder.0.join("again.out")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    cluster.agent = command.args(["cluster", "up", "--dir", &dir]).stdout(output).spawn().unwrap();
    cluster.wait_well();
    assert!(!cluster.done(&["status"]).contains(&former.ip().to_string()));
}

/// All lose their power, and get addresses of another network. The same command as before brings them back.
#[track_caller]
fn all_come_back(hosts: &Hosts) {
    let names: Vec<String> = (0..COUNT).map(|host| hosts.host_name(host)).collect();
    let writers = TAGS.map(|tag| hosts.writer(1, tag));
    writers.iter().for_each(|writer| writer.wait_more(50));
    (0..COUNT).for_each(|host| hosts.kill(host));
    let written = writers.map(|writer| (writer.tag, writer.end()));
    hosts.readdress();
    (0..COUNT).for_each(|host| hosts.start_agent(host, &[]));
    hosts.wait_well();
    assert_eq!((0..COUNT).map(|host| hosts.host_name(host)).collect::<Vec<_>>(), names);
    for (tag, done) in &written {
        hosts.nothing_is_lost(2, tag, done);
    }
    let found: BTreeSet<String> =
        all_hosts(hosts, 0).iter().map(|host| host["address"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, (0..COUNT).map(|host| hosts.address(host)).collect());
    let status = done(hosts, 0, &["status"]);
    assert!(!status.contains("10.77.0."), "{status}");
    assert!(done(hosts, 0, &["action", "history"]).contains("is at 10.77.1.1 (before: 10.77.0.1)"));
}

/// While the others serve on, one comes back at another address: it is no fourth voter, so two of three are enough afterwards.
#[track_caller]
fn one_comes_back(hosts: &Hosts) {
    let writers = TAGS.map(|tag| hosts.writer(1, tag));
    writers.iter().for_each(|writer| writer.wait_more(50));
    hosts.kill(0);
    writers.iter().for_each(|writer| writer.wait_more(50));
    let check = hosts.command(1, &["check"]);
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    let name = hosts.host_name(0);
    assert!(
        said.contains(&format!("host {name} (10.77.1.1) is down")) && said.contains("its proxy 10.77.1.1:6379"),
        "{said}"
    );
    hosts.readdress_one(0, "10.77.1.1", "10.77.1.11");
    hosts.start_agent_at(0, "10.77.1.11", &[]);
    hosts.wait_well();
    let found = all_hosts(hosts, 1);
    assert_eq!(found.iter().filter(|host| host["votes"] == true).count(), COUNT, "{found:?}");
    assert!(found.iter().any(|host| host["host"] == *name && host["address"] == "10.77.1.11"), "{found:?}");
    hosts.kill(2);
    writers.iter().for_each(|writer| writer.wait_more(50));
    hosts.start_agent(2, &[]);
    hosts.wait_well();
    for writer in writers {
        let tag = writer.tag;
        hosts.nothing_is_lost(1, tag, &writer.end());
    }
}

/// A host that is called by a name: only what the name stands for is another address the next time.
#[track_caller]
fn a_name_will_do(hosts: &Hosts) {
    hosts.name_addresses("10.77.1.11 alpha.test\n");
    hosts.kill(0);
    hosts.start_agent_at(0, "alpha.test", &[]);
    hosts.wait_well();
    let epoch = |hosts: &Hosts| hosts.status(1).unwrap()["epoch"].as_u64().unwrap();
    assert!(all_hosts(hosts, 1).iter().any(|host| host["address"] == "alpha.test"));
    let writers = TAGS.map(|tag| hosts.writer(1, tag));
    writers.iter().for_each(|writer| writer.wait_more(50));
    let before = epoch(hosts);
    hosts.kill(0);
    hosts.readdress_one(0, "10.77.1.11", "10.77.1.12");
    hosts.name_addresses("10.77.1.12 alpha.test\n");
    hosts.start_agent_at(0, "alpha.test", &[]);
    hosts.wait_well();
    writers.iter().for_each(|writer| writer.wait_more(20));
    for writer in writers {
        let tag = writer.tag;
        hosts.nothing_is_lost(1, tag, &writer.end());
    }
    // Masters may have been replaced; addresses have not changed.
    let history = done(hosts, 1, &["action", "history"]);
    assert_eq!(history.matches("alpha.test (before").count(), 1, "since epoch {before}: {history}");
}

#[track_caller]
fn one_is_gone_for_good(hosts: &Hosts) {
    let name = hosts.host_name(2);
    refused(hosts, 1, &["host", "remove", &name], "is there: end it first");
    refused(hosts, 1, &["host", "remove", "nobody"], "there is no host nobody");
    hosts.kill(2);
    wait_within(PATIENCE, "the others serve all groups", || {
        hosts.status(1).is_some_and(|status| {
            let groups = status["groups"].as_array().unwrap();
            status["state"] == "ok"
                && groups.iter().all(|group| {
                    let servers = group["servers"].as_array().unwrap();
                    servers.iter().all(|server| server["role"] != "master" || server["host"] != *name)
                })
        })
    });
    // Nothing is added where nobody would start it.
    refused(hosts, 1, &["server", "add", "1", "10.77.1.3:7300"], "nobody would start it there");
    refused(hosts, 1, &["host", "remove", "10.77.1.3"], "server add");
    for group in 1..=3 {
        let status = hosts.status(1).unwrap();
        let servers = status["groups"][group - 1]["servers"].as_array().unwrap().clone();
        if servers.iter().any(|server| server["host"] == *name) {
            done(hosts, 1, &["server", "add", &group.to_string()]);
        }
    }
    let plan = done(hosts, 1, &["host", "remove", "10.77.1.3"]);
    assert!(plan.contains("2 of 2 votes let a master serve then"), "{plan}");
    wait_within(PATIENCE, "all is well with two", || {
        (0..2).all(|host| hosts.command(host, &["check"]).status.success())
    });
    assert_eq!(all_hosts(hosts, 0).len(), 2);
    // Another machine takes its place.
    fs::remove_dir_all(hosts.dir(2)).unwrap();
    hosts.start_agent(2, &[]);
    wait_within(PATIENCE, "there are three votes again", || {
        all_hosts(hosts, 0).iter().filter(|host| host["votes"] == true).count() == COUNT
    });
    hosts.wait_well();
    assert_ne!(hosts.host_name(2), name);
}
