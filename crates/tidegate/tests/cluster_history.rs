//! Records with wrong histories: a coordinator that was set back, hosts that were rescued without the others, a disk that takes no writes, a
//! folder that was copied. Every write that was acknowledged is there afterwards, or the plan of the rescue has said that it may not be.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    sync::Arc,
};

use rustix::process::Signal;
use serde_json::Value;
use support::{
    Folder,
    cluster::{Cluster, PATIENCE, Writer, nothing_is_lost},
    hosts::{COUNT, Hosts},
    signal_process, wait_within,
};

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn refused(output: &Output, reason: &str) {
    assert!(!output.status.success() && text(output).contains(reason), "not refused because '{reason}': {output:?}");
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    text(output)
}

/// `up` on a folder, which is to end by itself.
fn up(folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["cluster", "up", "--dir"]).arg(folder).stdin(Stdio::null()).output().unwrap()
}

fn down(cluster: &mut Cluster) {
    cluster.done(&["down"]);
    assert!(cluster.agent.wait().unwrap().success());
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// The copy of the record in a folder.
fn record(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("record.json")).unwrap()).unwrap()
}

const SHAPE: [&str; 6] = ["--groups", "1", "--replicas", "1", "--ack", "1"];

/// The file of before has the same epoch: that a replica is in sync no more is no change of the cluster.
#[test]
fn an_older_coordinator_of_the_same_epoch_is_refused() {
    let mut cluster = Cluster::up(&SHAPE);
    let file = cluster.folder.0.join("coordinator/coordinator");
    let before = fs::read(&file).unwrap();
    let status = cluster.status();
    let servers = status["groups"][0]["servers"].as_array().unwrap();
    let replica = servers.iter().find(|server| server["role"] == "replica").unwrap();
    let replica = replica["pid"].as_u64().unwrap() as u32;
    signal_process(replica, Signal::STOP);
    wait_within(PATIENCE, "the replica is in sync no more", || {
        record(&cluster.folder.0)["in_sync"]["1"]["members"].as_array().is_some_and(Vec::is_empty)
    });
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(50);
    let written = writer.end().0;
    signal_process(replica, Signal::KILL);
    down(&mut cluster);
    let last = fs::read(&file).unwrap();
    fs::write(&file, &before).unwrap();
    let said = up(&cluster.folder.0);
    refused(&said, "knows it as it was before, in epoch 1 (change ");
    assert!(text(&said).contains("tidegate cluster rescue --dir"), "{said:?}");
    // As it was last, it is taken again.
    fs::write(&file, &last).unwrap();
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
    cluster.wait_well();
    nothing_is_lost(cluster.address, "b", &written);
    // So is what a rescue makes of the folder, beside the older one.
    down(&mut cluster);
    fs::write(&file, &before).unwrap();
    let plan = done(&cluster.command(&["rescue", "--dry-run"]));
    assert!(plan.contains("nothing that was acknowledged is lost"), "{plan}");
    done(&cluster.command(&["rescue", "--words", "rescue"]));
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
    cluster.wait_well();
    nothing_is_lost(cluster.address, "b", &written);
    refused(&cluster.command(&["rescue"]), "there is nothing to rescue");
}

/// A folder whose record and coordinator were written by a release without histories.
#[test]
fn a_folder_of_an_earlier_release_goes_on() {
    let mut cluster = Cluster::up(&SHAPE);
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(50);
    let written = writer.end().0;
    down(&mut cluster);
    // What the earlier release wrote: the copy without the changes behind it, and a coordinator without that name.
    let file = cluster.folder.0.join("record.json");
    let mut copy = record(&cluster.folder.0);
    copy.as_object_mut().unwrap().remove("history").expect("a history");
    fs::write(&file, copy.to_string()).unwrap();
    let coordinator = coord::Embedded::open(&cluster.folder.0.join("coordinator")).unwrap();
    let past = coord::keys::Keys::new("main").past();
    coord::Coordinator::commit(&coordinator, coord::Transaction::new().delete(past)).unwrap();
    drop(coordinator);
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
    cluster.wait_well();
    nothing_is_lost(cluster.address, "b", &written);
    wait_within(PATIENCE, "it has a history from now on", || {
        record(&cluster.folder.0)["history"]["number"].as_u64().is_some_and(|number| number > 0)
    });
    // The copy of the earlier release with the present coordinator, as of a host that was off meanwhile.
    down(&mut cluster);
    fs::write(&file, copy.to_string()).unwrap();
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
    cluster.wait_well();
    nothing_is_lost(cluster.address, "b", &written);
}

#[test]
fn a_copied_folder_does_not_steer_the_stores_of_the_first_one() {
    let cluster = Cluster::up(&SHAPE);
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(50);
    let other = Folder::new();
    let place = other.0.join("copy");
    copy(&cluster.folder.0, &place);
    let said = up(&place);
    refused(&said, "Nothing is started: two agents would give the same stores different orders");
    let first = cluster.folder.0.display().to_string();
    assert!(text(&said).contains(&format!("the agent of {first} has ")), "{said:?}");
    assert!(text(&said).contains(&format!(" already (process {})", cluster.agent.id())), "{said:?}");
    refused(
        &Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["cluster", "rescue", "--dir"])
            .arg(&place)
            .output()
            .unwrap(),
        &first,
    );
    // Its agent is gone, what it has started is not.
    signal_process(cluster.agent.id(), Signal::KILL);
    wait_within(PATIENCE, "the agent is gone", || cluster.try_status().is_none());
    let said = up(&place);
    refused(&said, &format!("the program of {first} has "));
    let mut cluster = cluster;
    cluster.agent.wait().unwrap();
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
    cluster.wait_well();
    writer.wait_more(50);
    nothing_is_lost(cluster.address, "b", &writer.end().0);
    // When the first one has ended, the copy may be used.
    down(&mut cluster);
    let copied = Arc::new(Folder(place.clone()));
    let mut second =
        Cluster { agent: Cluster::spawn(cluster.address, &copied, &[]), address: cluster.address, folder: copied };
    second.wait_well();
    down(&mut second);
}

#[test]
fn a_rescue_of_what_is_no_folder_of_a_cluster_makes_nothing_there() {
    let folder = Folder::new();
    let rescue =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["cluster", "rescue", "--dir"]).arg(&folder.0).output();
    refused(&rescue.unwrap(), "is no folder of a cluster");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

fn begun() -> Option<Hosts> {
    let hosts = Hosts::new()?;
    (0..COUNT).for_each(|host| hosts.start(host, &SHAPE));
    hosts.wait_well();
    Some(hosts)
}

/// The hosts of the group's master and of its replica, and the one that has nothing of it.
fn roles(hosts: &Hosts) -> (usize, usize, usize) {
    let status = hosts.status(0).unwrap();
    let servers = status["groups"][0]["servers"].as_array().unwrap();
    let of = |role| servers.iter().find(|server| server["role"] == role).unwrap()["host"].as_str().unwrap();
    let (master, replica) = (hosts.number(of("master")), hosts.number(of("replica")));
    (master, replica, 3 - master - replica)
}

#[track_caller]
fn wait_for_rescue(hosts: &Hosts, some: &[usize]) {
    wait_within(PATIENCE, "agents wait for a rescue", || {
        some.iter().all(|host| text(&hosts.command(*host, &["status"])).contains("cluster rescue"))
    });
}

/// Has a cluster rescued by the words that the plan asks for. Gives the plan.
#[track_caller]
fn rescue(hosts: &Hosts, host: usize) -> (Value, String) {
    let plan: Value = serde_json::from_str(&done(&hosts.command(host, &["rescue", "--dry-run", "--json"]))).unwrap();
    let shown = done(&hosts.command(host, &["rescue", "--dry-run"]));
    done(&hosts.command(host, &["rescue", "--words", plan["words"].as_str().unwrap()]));
    (plan, shown)
}

/// etcd and one host are as they were at a backup; that host begins there and makes changes, as many as the others know of.
#[test]
fn an_etcd_of_a_backup_that_goes_on_by_itself_is_refused() {
    let Some(hosts) = begun() else { return };
    // The one that leads begins to lead at once when it comes back by itself.
    let former = hosts.leader(0).unwrap();
    let before = hosts.writer(0, "b");
    before.wait_more(20);
    let before = before.end();
    (0..COUNT).for_each(|host| hosts.kill(host));
    let kept = |host: usize| hosts.etcd_dir(host).with_extension("kept");
    (0..COUNT).for_each(|host| copy(&hosts.etcd_dir(host), &kept(host)));
    let old_copy = fs::read(hosts.dir(former).join("record.json")).unwrap();
    (0..COUNT).for_each(|host| hosts.start(host, &[]));
    hosts.wait_well();
    hosts.kill(former);
    let left: Vec<usize> = (0..COUNT).filter(|host| *host != former).collect();
    let writer = hosts.writer(left[0], "b");
    writer.wait_more(50);
    let written = writer.end();
    (0..COUNT).for_each(|host| hosts.kill(host));
    // All is restored but the folders of two hosts.
    (0..COUNT).for_each(|host| copy(&kept(host), &hosts.etcd_dir(host)));
    fs::write(hosts.dir(former).join("record.json"), &old_copy).unwrap();
    (0..COUNT).for_each(|host| hosts.start(host, &[]));
    wait_for_rescue(&hosts, &left);
    wait_within(PATIENCE, "the host of before begins", || hosts.status(former).is_some());
    let last = record(&hosts.dir(left[0]))["history"]["number"].as_u64().unwrap();
    wait_within(PATIENCE, "its changes are as many as those of the others", || {
        hosts.command(former, &["proxy", "add"]);
        record(&hosts.dir(former))["history"]["number"].as_u64().unwrap() > last
    });
    wait_within(PATIENCE, "the others say that there is another history", || {
        left.iter().all(|host| text(&hosts.command(*host, &["status"])).contains("has another history of it"))
    });
    refused(&hosts.command(left[0], &["rescue", "--dry-run"]), "is not waiting for a rescue");
    done(&hosts.command(former, &["down"]));
    let (plan, shown) = rescue(&hosts, left[0]);
    assert!(plan["words"].as_str().unwrap().contains("without the branch of"), "{shown}");
    assert!(shown.contains("DANGER") && !shown.contains("nothing that was acknowledged is lost"), "{shown}");
    wait_within(PATIENCE, "the group serves", || hosts.status(left[0]).is_some_and(|status| status["state"] == "ok"));
    hosts.nothing_is_lost(left[0], "b", &before);
    hosts.nothing_is_lost(left[0], "b", &written);
    // The host of the branch was not there. It is told so, or joins if nothing can have been served by what it alone knows.
    hosts.start_agent(former, &[]);
    wait_within(PATIENCE, "it joins or is told", || {
        hosts.said(former).contains("has another history of it") || hosts.command(former, &["check"]).status.success()
    });
    hosts.nothing_is_lost(left[0], "b", &before);
    hosts.nothing_is_lost(left[0], "b", &written);
    // All agents end when they are told to, those that wait for a rescue as well.
    for host in [former, left[0], left[1]] {
        done(&hosts.command(host, &["down"]));
    }
}

/// A host votes only by what is on its disk. One whose disk takes nothing more makes nobody the master.
#[test]
fn a_host_whose_disk_is_full_makes_no_master() {
    let Some(hosts) = begun() else { return };
    let (master, replica, voter) = roles(&hosts);
    let writer = hosts.writer(replica, "b");
    writer.wait_more(50);
    // No file can be written where a folder is.
    fs::create_dir(hosts.dir(voter).join("record.new")).unwrap();
    wait_within(PATIENCE, "check names the host", || {
        hosts.command(replica, &["proxy", "add"]);
        let check = text(&hosts.command(replica, &["check"]));
        check.contains(&format!("host {} ({}) cannot write the record", hosts.host_name(voter), hosts.address(voter)))
    });
    hosts.kill(master);
    let new = hosts.address(replica);
    wait_within(PATIENCE, "the replica is named the master", || {
        hosts
            .status(replica)
            .is_some_and(|status| status["groups"][0]["master"].as_str().is_some_and(|master| master.starts_with(&new)))
    });
    let written = writer.end();
    hosts.kill(replica);
    hosts.kill(voter);
    fs::remove_dir(hosts.dir(voter).join("record.new")).unwrap();
    // The host of the new master is gone for good.
    hosts.start_new_etcds(&[master, voter]);
    [master, voter].iter().for_each(|host| hosts.start_agent(*host, &[]));
    wait_for_rescue(&hosts, &[master, voter]);
    let (plan, shown) = rescue(&hosts, voter);
    assert_eq!(plan["words"], "rescue");
    assert!(shown.contains("nothing that was acknowledged is lost"), "{shown}");
    wait_within(PATIENCE, "the group serves", || hosts.status(voter).is_some_and(|status| status["state"] == "ok"));
    hosts.nothing_is_lost(voter, "b", &written);
}

/// One host was rescued without the others, which served on. Then all are brought together.
#[test]
fn the_record_of_a_host_that_was_rescued_alone_is_a_branch() {
    let Some(hosts) = begun() else { return };
    let (master, lone, _) = roles(&hosts);
    hosts.set_connected(lone, false);
    hosts.kill(lone);
    hosts.start_new_etcds(&[lone]);
    hosts.start_agent(lone, &[]);
    wait_for_rescue(&hosts, &[lone]);
    let (plan, _) = rescue(&hosts, lone);
    assert_eq!(plan["words"], "rescue without 2 of 3 hosts");
    wait_within(PATIENCE, "it serves", || hosts.status(lone).is_some_and(|status| status["state"] == "ok"));
    let [alone, writer] = [lone, master].map(|host| hosts.writer(host, "b"));
    alone.wait_more(10);
    alone.end();
    writer.wait_more(100);
    let written = writer.end();
    (0..COUNT).for_each(|host| hosts.kill(host));
    hosts.set_connected(lone, true);
    hosts.start_new_etcds(&[0, 1, 2]);
    (0..COUNT).for_each(|host| hosts.start_agent(host, &[]));
    wait_for_rescue(&hosts, &[0, 1, 2]);
    let plan = hosts.command(master, &["rescue", "--dry-run", "--json"]);
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let words = format!("rescue without the branch of {}", hosts.host_name(lone));
    assert_eq!(plan["words"], words);
    refused(&hosts.command(lone, &["rescue", "--words", "rescue"]), "the words are");
    let (_, shown) = rescue(&hosts, lone);
    assert!(shown.contains("DANGER: there are two histories"), "{shown}");
    assert!(shown.contains("writes may be lost") && !shown.contains("nothing that was acknowledged"), "{shown}");
    hosts.wait_well();
    hosts.nothing_is_lost(lone, "b", &written);
}

/// An etcd that knows nothing takes the place of the one that agents run by, at the same addresses.
#[test]
#[ignore = "takes half a minute: make test-hosts"]
fn an_etcd_that_was_emptied_under_running_agents_is_noticed() {
    let Some(hosts) = begun() else { return };
    let writer = hosts.writer(0, "b");
    writer.wait_more(50);
    hosts.etcds().iter().for_each(|pid| signal_process(*pid, Signal::KILL));
    wait_within(PATIENCE, "etcd is gone", || hosts.etcds().is_empty());
    hosts.start_new_etcds(&[0, 1, 2]);
    wait_within(PATIENCE, "all say so", || {
        (0..COUNT).all(|host| {
            text(&hosts.command(host, &["check"]))
                .contains("the coordinator is not the one that this agent began by: it knows of no cluster")
        })
    });
    // Commands go on.
    writer.wait_more(50);
    for host in 0..COUNT {
        done(&hosts.command(host, &["down"]));
    }
    let written = writer.end();
    (0..COUNT).for_each(|host| hosts.start_agent(host, &[]));
    wait_for_rescue(&hosts, &[0, 1, 2]);
    // Two at the same time: one of them does it, and each is answered.
    let both: Vec<Output> = std::thread::scope(|scope| {
        let rescues: Vec<_> = [0, 1]
            .map(|host| {
                scope.spawn({
                    let hosts = &hosts;
                    move || hosts.command(host, &["rescue", "--words", "rescue"])
                })
            })
            .into();
        rescues.into_iter().map(|rescue| rescue.join().unwrap()).collect()
    });
    assert!(both.iter().any(|output| output.status.success()), "{both:?}");
    hosts.wait_well();
    hosts.nothing_is_lost(2, "b", &written);
}
