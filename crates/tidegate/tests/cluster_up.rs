//! `tidegate cluster`: everything by one command, and what becomes of it when parts of it die.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{path::Path, process::Command};

use rustix::process::Signal;
use support::{
    RedisClient,
    cluster::{Cluster, PATIENCE, Writer, nothing_is_lost},
    signal_process, wait_within,
};

#[test]
fn a_killed_master_is_replaced_and_comes_back_as_a_replica() {
    let cluster = Cluster::up(&["--groups", "2", "--replicas", "1", "--ack", "1"]);
    let mut client = RedisClient::connect(cluster.address);
    // Slots 3300 and 15495: one of each group.
    assert_eq!(client.text(&["MSET", "b", "1", "a", "2"]), "OK");
    let (former, pid) = cluster.master(0);
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(50);
    signal_process(pid, Signal::KILL);
    writer.wait_more(50);
    cluster.wait_well();
    let (successor, _) = cluster.master(0);
    assert_ne!(successor, former);
    let (done, _) = writer.end();
    nothing_is_lost(cluster.address, "b", &done);
    assert_eq!(client.text(&["GET", "a"]), "2");
    // And the other way round, with what is there now.
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(50);
    signal_process(cluster.master(0).1, Signal::KILL);
    writer.wait_more(50);
    let (again, _) = writer.end();
    cluster.wait_well();
    nothing_is_lost(cluster.address, "b", &done.into_iter().chain(again).collect());
}

#[test]
fn a_stopped_master_is_replaced_and_serves_nothing_when_it_goes_on() {
    let cluster = Cluster::up(&["--groups", "1", "--replicas", "1", "--ack", "1"]);
    let (former, pid) = cluster.master(0);
    let mut direct = RedisClient::connect(former.parse().unwrap());
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(50);
    signal_process(pid, Signal::STOP);
    // This lies in its socket when it goes on.
    let mut bytes = Vec::new();
    resp::encode_command(&mut bytes, &["SET", "{b}0", "what nobody may hear of"]);
    direct.send(&bytes);
    writer.wait_more(50);
    signal_process(pid, Signal::CONT);
    let reply = direct.reply();
    let text = format!("{reply:?}");
    assert!(reply.is_none_or(|reply| reply.as_error().is_some()), "a master of the past has acknowledged: {text}");
    cluster.wait_well();
    assert_ne!(cluster.master(0).0, former);
    let (done, _) = writer.end();
    nothing_is_lost(cluster.address, "b", &done);
}

#[test]
fn an_agent_that_was_killed_finds_everything_as_it_was() {
    let mut cluster = Cluster::up(&["--groups", "2", "--replicas", "1"]);
    let before = cluster.pids();
    let mut client = RedisClient::connect(cluster.address);
    assert_eq!(client.text(&["SET", "b", "1"]), "OK");
    cluster.agent.kill().unwrap();
    cluster.agent.wait().unwrap();
    // Figures of another cluster are refused, and nothing happens to what runs.
    assert!(!Cluster::spawn(cluster.address, &cluster.folder, &["--groups", "7"]).wait().unwrap().success());
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &["--groups", "2"]);
    cluster.wait_well();
    assert_eq!(cluster.pids(), before, "{}", cluster.log());
    assert_eq!(client.text(&["GET", "b"]), "1");
    // A second one on the same folder is refused.
    let second =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["cluster", "up", "--dir"]).arg(&cluster.folder.0).output();
    let second = second.unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("is used by another process"), "{second:?}");
}

#[test]
fn what_a_cluster_has_is_there_after_down_and_up() {
    let mut cluster = Cluster::up(&["--groups", "2", "--replicas", "0"]);
    let mut client = RedisClient::connect(cluster.address);
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        assert_eq!(client.text(&["SET", key, value]), "OK");
    }
    let output = cluster.command(&["down"]);
    assert!(output.status.success(), "{output:?}");
    assert!(cluster.agent.wait().unwrap().success());
    assert!(!cluster.command(&["status"]).status.success());
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
    cluster.wait_well();
    let mut client = RedisClient::connect(cluster.address);
    assert_eq!(["a", "b", "c"].map(|key| client.text(&["GET", key])), ["1", "2", "3"]);
    assert_eq!(cluster.status()["epoch"], 1);
}

#[test]
fn stores_are_steered_by_a_coordinator_that_was_restored_from_a_backup() {
    let mut cluster = Cluster::up(&["--groups", "1", "--replicas", "0"]);
    assert_eq!(RedisClient::connect(cluster.address).text(&["SET", "a", "1"]), "OK");
    let restart = |cluster: &mut Cluster, meanwhile: &dyn Fn()| {
        assert!(cluster.command(&["down"]).status.success());
        assert!(cluster.agent.wait().unwrap().success());
        meanwhile();
        cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
        cluster.wait_well();
    };
    let coordinator = cluster.folder.0.join("coordinator");
    let backup = cluster.folder.0.join("backup");
    let copy = |from: &Path, to: &Path| {
        let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(status.success());
    };
    let record = cluster.folder.0.join("record.json");
    restart(&mut cluster, &|| {
        copy(&coordinator, &backup);
        copy(&record, &backup.join("record.json"));
    });
    restart(&mut cluster, &|| {});
    // Stores have heard of terms that the backup does not have. The folder's own record is of then, too: else it would be refused.
    restart(&mut cluster, &|| {
        std::fs::remove_dir_all(&coordinator).unwrap();
        copy(&backup, &coordinator);
        std::fs::rename(coordinator.join("record.json"), &record).unwrap();
    });
    assert!(cluster.log().contains("it was restored from a backup"), "{}", cluster.log());
    let mut client = RedisClient::connect(cluster.address);
    assert_eq!(client.text(&["GET", "a"]), "1");
    assert_eq!(client.text(&["SET", "a", "2"]), "OK");
}

#[test]
fn a_replica_is_promoted_without_a_failed_command() {
    let cluster = Cluster::up(&["--groups", "1", "--replicas", "2", "--ack", "1"]);
    let (former, _) = cluster.master(0);
    let status = cluster.status();
    let servers = status["groups"][0]["servers"].as_array().unwrap();
    let replica =
        servers.iter().find(|server| server["role"] == "replica").unwrap()["address"].as_str().unwrap().to_owned();
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(20);
    let output = cluster.command(&["server", "promote", "1", &replica]);
    assert!(output.status.success(), "{output:?}");
    writer.wait_more(20);
    let (done, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(cluster.master(0).0, replica);
    cluster.wait_well();
    nothing_is_lost(cluster.address, "b", &done);
    // Whoever has the place already, or is not there, does not get it.
    for (server, expected) in [(replica.as_str(), "is the master already"), ("127.0.0.1:1", "there is no server")] {
        let output = cluster.command(&["server", "promote", "1", server, "--yes"]);
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
    let history = String::from_utf8(cluster.command(&["action", "history"]).stdout).unwrap();
    assert!(history.contains("the cluster begins") && history.contains("was asked for as the master"), "{history}");
    assert_ne!(former, replica);
}

#[test]
fn slots_move_while_they_are_written_and_read() {
    // No master is given up because the machine is busy.
    let cluster = Cluster::up(&["--groups", "2", "--replicas", "1", "--ack", "1", "--failover-after", "20000"]);
    let mut client = RedisClient::connect(cluster.address);
    for number in 0..300 {
        assert_eq!(client.text(&["SET", &format!("key:{number}"), &number.to_string()]), "OK");
    }
    // The slot of b is 3300, of group 1.
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(50);
    let output = cluster.command(&["slot", "migrate", "3000", "4000", "2"]);
    assert!(output.status.success(), "{output:?}");
    writer.wait_more(50);
    let status = cluster.status();
    assert_eq!((&status["groups"][0]["slots"], &status["groups"][1]["slots"]), (&7191.into(), &9193.into()));
    let back = cluster.command(&["slot", "rebalance"]);
    assert!(back.status.success(), "{back:?}");
    writer.wait_more(50);
    let (done, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new(), "{}", cluster.log());
    nothing_is_lost(cluster.address, "b", &done);
    for number in 0..300 {
        assert_eq!(client.text(&["GET", &format!("key:{number}")]), number.to_string());
    }
    assert_eq!(client.text(&["DBSIZE"]), (300 + done.len()).to_string());
    let status = cluster.status();
    assert_eq!((&status["groups"][0]["slots"], &status["groups"][1]["slots"]), (&8192.into(), &8192.into()));
    // What makes no sense is refused, with the reason.
    for (words, expected) in [
        (&["slot", "migrate", "5", "5", "9"][..], "there is no group 9"),
        (&["slot", "migrate", "9", "5", "2"], "are no slots"),
        (&["slot", "init"], "are given out already"),
    ] {
        let output = cluster.command(words);
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
}

/// A replica dies while nobody is there to say that it is not waited for any more: what the master refuses meanwhile is tried again.
#[test]
fn the_death_of_a_replica_costs_clients_of_a_proxy_no_error() {
    let cluster = Cluster::up(&["--groups", "1", "--replicas", "1", "--ack", "1"]);
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(50);
    let status = cluster.status();
    let servers = status["groups"][0]["servers"].as_array().unwrap();
    let replica = servers.iter().find(|server| server["role"] == "replica").unwrap()["pid"].as_u64().unwrap();
    signal_process(cluster.agent.id(), Signal::STOP);
    signal_process(u32::try_from(replica).unwrap(), Signal::KILL);
    // The master refuses writes from now on.
    let master = servers.iter().find(|server| server["role"] == "master").unwrap()["address"].as_str().unwrap();
    let mut direct = RedisClient::connect(master.parse().unwrap());
    wait_within(PATIENCE, "the master misses its replica", || {
        direct.text(&["INFO", "replication"]).contains("connected_slaves:0")
    });
    let mut late = RedisClient::connect(cluster.address);
    late.send_command(&["SET", "{b}late", "1"]);
    for _ in 0..100 {
        assert!(direct.text(&["SET", "{b}x", "1"]).starts_with("NOREPLICAS"));
    }
    signal_process(cluster.agent.id(), Signal::CONT);
    let reply = late.reply();
    assert!(reply.as_ref().is_some_and(|reply| reply.as_error().is_none()), "{reply:?}");
    writer.wait_more(50);
    cluster.wait_well();
    let (done, errors) = writer.end();
    assert!(errors.is_empty(), "{} errors, the first: {}", errors.len(), errors[0]);
    nothing_is_lost(cluster.address, "b", &done);
}
