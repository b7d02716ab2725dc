//! Servers that are gone for good while a group waits for them: `check` says for whom, and what can be done; a person does it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fs, path::PathBuf, process::Command, sync::Arc};

use rustix::process::Signal;
use serde_json::Value;
use support::{
    RedisClient,
    cluster::{Acknowledged, Cluster, PATIENCE, Writer, nothing_is_lost},
    signal_process, wait_within,
};

/// A server of the only group.
#[derive(Debug, Clone)]
struct Member {
    address: String,
    pid: u32,
    data: PathBuf,
}

/// The master first.
fn members(cluster: &Cluster) -> Vec<Member> {
    let status = cluster.status();
    let mut servers: Vec<Value> = status["groups"][0]["servers"].as_array().unwrap().clone();
    servers.sort_by_key(|server| server["role"] != "master");
    let member = |server: &Value| {
        let pid = server["pid"].as_u64().unwrap() as u32;
        Member { address: server["address"].as_str().unwrap().to_owned(), pid, data: cluster.data_of(pid) }
    };
    servers.iter().map(member).collect()
}

fn written(cluster: &Cluster, tag: &'static str, count: u64) -> Acknowledged {
    let writer = Writer::start(cluster.address, tag);
    writer.wait_more(count);
    let (done, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new());
    cluster.wait_well();
    done
}

fn check(cluster: &Cluster) -> String {
    let output = cluster.command(&["check"]);
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[track_caller]
fn wait_said(cluster: &Cluster, parts: &[&str]) -> String {
    wait_within(PATIENCE, &format!("`check` says {parts:?}"), || {
        let said = check(cluster);
        parts.iter().all(|part| said.contains(part))
    });
    check(cluster)
}

/// A command is refused for a reason, once the agent that leads knows how far servers are.
#[track_caller]
fn refused_in_time(cluster: &Cluster, words: &[&str], reason: &str) {
    let is_early = || {
        let said = cluster.command(words).stderr;
        String::from_utf8_lossy(&said).contains("try again in some seconds")
    };
    wait_within(PATIENCE, "the agent knows how far servers are", || !is_early());
    cluster.refused(words, reason);
}

#[track_caller]
fn wait_master(cluster: &Cluster, address: &str) {
    wait_within(PATIENCE, "another master serves", || {
        cluster
            .try_status()
            .is_some_and(|status| status["groups"][0]["master"] == address && status["groups"][0]["state"] == "ok")
    });
}

/// Takes note of all that `check` says to be lost, and waits until nothing else is wrong.
#[track_caller]
fn note_losses(cluster: &Cluster, count: usize) {
    let status = cluster.status();
    let losses = status["losses"].as_array().unwrap();
    assert_eq!(losses.len(), count, "{losses:?}");
    for loss in losses {
        let number = loss["number"].to_string();
        assert!(check(cluster).contains(&format!("`tidegate cluster action confirm {number}`")));
        let said = cluster.done(&["action", "confirm", &number]);
        assert!(said.contains("noted, and told no more"), "{said}");
        cluster.refused(&["action", "confirm", &number], "nothing of number");
    }
    cluster.wait_well();
}

#[test]
fn a_replica_that_is_gone_is_waited_for_until_somebody_says_that_it_is() {
    let cluster = Cluster::up(&["--groups", "1", "--replicas", "2", "--ack", "1"]);
    let done = written(&cluster, "a", 50);
    let [master, gone, left] = <[Member; 3]>::try_from(members(&cluster)).unwrap();
    for member in [&master, &gone] {
        signal_process(member.pid, Signal::STOP);
    }
    let words = format!("server remove 1 {} --gone", gone.address);
    let hint = format!("If {} is gone for good: `tidegate cluster {words}` has the group go on", gone.address);
    let waits = format!("It waits for its master {}, which does not answer, {},", master.address, gone.address);
    wait_said(&cluster, &[&hint, &waits]);
    let words: Vec<&str> = words.split(' ').collect();
    cluster.refused(&words[..4], "start that server. If it is gone for good");
    cluster.refused(&["server", "remove", "1", &left.address, "--gone"], "answers, so it is not gone");
    cluster.refused(&["server", "remove", "1", &master.address, "--gone"], "is the master of its group");
    cluster.refused(&["server", "promote", "1", &gone.address, "--gone"], "does not answer");
    let plan = cluster.done(&[words.as_slice(), &["--dry-run"]].concat());
    assert!(plan.contains("it alone had may be lost"), "{plan}");
    assert_eq!(cluster.status()["groups"][0]["state"], "down", "that was a plan");
    cluster.done(&words);
    wait_master(&cluster, &left.address);
    nothing_is_lost(cluster.address, "a", &done);
    for member in [&master, &gone] {
        signal_process(member.pid, Signal::CONT);
    }
    note_losses(&cluster, 1);
    assert_eq!(members(&cluster).len(), 2);
}

#[test]
fn the_last_one_that_was_in_sync_is_not_given_up_while_its_master_is_away() {
    let cluster = Cluster::up(&["--groups", "1", "--replicas", "1", "--ack", "1"]);
    let done = written(&cluster, "a", 50);
    let [master, replica] = <[Member; 2]>::try_from(members(&cluster)).unwrap();
    for member in [&master, &replica] {
        signal_process(member.pid, Signal::STOP);
    }
    wait_said(&cluster, &["start them. No other server of it answers", &replica.address]);
    let reason = format!("without {} nobody is left who has all that {} has", replica.address, master.address);
    cluster.refused(&["server", "remove", "1", &replica.address, "--gone", "--ack", "0"], &reason);
    assert_eq!(members_known(&cluster), 2);
    signal_process(replica.pid, Signal::CONT);
    wait_master(&cluster, &replica.address);
    cluster.refused(&["server", "promote", "1", &master.address, "--gone"], "answers, so it is not gone");
    signal_process(master.pid, Signal::CONT);
    cluster.wait_well();
    nothing_is_lost(cluster.address, "a", &done);
}

fn members_known(cluster: &Cluster) -> usize {
    cluster.status()["groups"][0]["servers"].as_array().unwrap().len()
}

/// A cluster that has lost power after the folder of one member was copied, more was written, and hosts have noted that.
struct Failed {
    cluster: Cluster,
    /// The master first.
    members: [Member; 2],
    /// What was written before the copy, and after it.
    done: [Acknowledged; 2],
}

impl Failed {
    /// One is set back to the copy; the other one's disk is gone.
    fn new(set_back: usize) -> Self {
        let mut cluster = Cluster::up(&["--groups", "1", "--replicas", "1", "--ack", "1"]);
        let before = written(&cluster, "a", 50);
        let members = <[Member; 2]>::try_from(members(&cluster)).unwrap();
        let (kept, data) = (cluster.folder.0.join("kept"), &members[set_back].data);
        assert!(Command::new("cp").arg("-a").args([data, &kept]).status().unwrap().success());
        let end = || {
            let mut client = RedisClient::connect(members[0].address.parse().unwrap());
            let reply = client.command(&["INFO", "replication"]);
            let text = String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned();
            text.lines().find_map(|line| line.strip_prefix("master_repl_offset:")?.trim().parse::<u64>().ok()).unwrap()
        };
        let copied = end();
        let after = written(&cluster, "b", 100);
        let heights = cluster.folder.0.join("heights.json");
        wait_within(PATIENCE, "it is noted how far servers are", || {
            let text = fs::read(&heights).unwrap_or_default();
            let known: Value = serde_json::from_slice(&text).unwrap_or_default();
            let of = known["groups"]["1"]["of"].as_object();
            of.is_some_and(|of| of.values().filter(|end| end.as_u64().is_some_and(|end| end > copied)).count() == 2)
        });
        cluster.lose_power();
        for member in &members {
            fs::remove_dir_all(&member.data).unwrap();
        }
        fs::rename(&kept, data).unwrap();
        let folder = Arc::clone(&cluster.folder);
        cluster.agent = Cluster::spawn(cluster.address, &folder, &[]);
        Self { cluster, members, done: [before, after] }
    }
}

#[test]
fn a_replica_that_was_set_back_takes_the_place_of_a_master_that_is_gone_when_a_person_says_so() {
    let Failed { cluster, members: [master, replica], done: [before, after] } = Failed::new(1);
    let hint = format!(
        "`tidegate cluster server promote 1 {0} --gone` makes {0} the master with what it has",
        replica.address
    );
    let waits = format!("its master {}, which does not answer", master.address);
    let had = format!("what {} had (its folder was set back: its log went on to ", replica.address);
    wait_said(&cluster, &[&hint, &waits, &had]);
    refused_in_time(&cluster, &["server", "remove", "1", &replica.address, "--gone", "--ack", "0"], &hint);
    cluster.refused(&["server", "promote", "1", &master.address, "--gone"], "is the master already");
    let words = ["server", "promote", "1", &replica.address, "--gone"];
    let plan = cluster.done(&[&words[..], &["--dry-run"]].concat());
    assert!(plan.contains("was given up as gone for good: what was acknowledged behind offset "), "{plan}");
    cluster.done(&words);
    wait_master(&cluster, &replica.address);
    nothing_is_lost(cluster.address, "a", &before);
    let mut client = RedisClient::connect(cluster.address);
    let number = after.keys().next_back().unwrap();
    let reply = client.command(&["GET", &format!("{{b}}{number}")]);
    assert!(reply.as_bytes().is_none(), "what was set back is not there");
    note_losses(&cluster, 1);
    let history = cluster.done(&["action", "history"]);
    assert!(
        history.contains(&format!("{} is the master: {} was given up", replica.address, master.address)),
        "{history}"
    );
}

#[test]
fn a_master_that_was_set_back_goes_on_when_its_replica_is_given_up() {
    let Failed { cluster, members: [master, replica], done: [before, _] } = Failed::new(0);
    let words = format!("server remove 1 {} --gone --ack 0", replica.address);
    wait_said(&cluster, &[&format!("`tidegate cluster {words}`")]);
    let words: Vec<&str> = words.split(' ').collect();
    refused_in_time(&cluster, &words[..5], "its writes wait for 1");
    cluster.done(&words);
    wait_master(&cluster, &master.address);
    nothing_is_lost(cluster.address, "a", &before);
    // That the replica is given up, and that its master has less than it had.
    note_losses(&cluster, 2);
}
