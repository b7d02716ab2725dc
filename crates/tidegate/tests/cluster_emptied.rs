//! A master that loses its disk while everything is off.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fs, sync::Arc};

use rustix::process::Signal;
use support::{
    cluster::{Cluster, Writer, nothing_is_lost},
    signal_process, wait_until,
};

/// Kills all of it at once, as the loss of power would.
fn lose_power(cluster: &mut Cluster) {
    let pids = cluster.pids();
    cluster.agent.kill().unwrap();
    cluster.agent.wait().unwrap();
    pids.iter().for_each(|pid| signal_process(u32::try_from(*pid).unwrap(), Signal::KILL));
    let is_there = |pid: &u64| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    wait_until("all have ended", || !pids.iter().any(is_there));
}

#[test]
fn a_master_whose_folder_was_emptied_is_not_the_master_again() {
    let arguments = ["--groups", "1", "--replicas", "1"];
    let mut cluster = Cluster::up(&arguments);
    let writer = Writer::start(cluster.address, "a");
    writer.wait_more(100);
    let (done, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new());
    cluster.wait_well();
    let (master, pid) = cluster.master(0);
    let words = String::from_utf8(fs::read(format!("/proc/{pid}/cmdline")).unwrap()).unwrap();
    let place = cluster.folder.0.display().to_string();
    let is_data = |word: &&str| word.starts_with(&place) && fs::metadata(word).is_ok_and(|found| found.is_dir());
    let data = words.split('\0').find(is_data).expect("the folder of its data").to_owned();
    lose_power(&mut cluster);
    fs::remove_dir_all(data).unwrap();
    let folder = Arc::clone(&cluster.folder);
    cluster.agent = Cluster::spawn(cluster.address, &folder, &arguments);
    cluster.wait_well();
    nothing_is_lost(cluster.address, "a", &done);
    assert_ne!(cluster.master(0).0, master);
    assert!(cluster.log().contains("is empty, and the cluster counts on what it had"), "{}", cluster.log());
}
