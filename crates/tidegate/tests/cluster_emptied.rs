//! A master that loses its disk while everything is off.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fs, sync::Arc};

use support::cluster::{Cluster, Writer, nothing_is_lost};

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
    let data = cluster.data_of(pid);
    cluster.lose_power();
    fs::remove_dir_all(data).unwrap();
    let folder = Arc::clone(&cluster.folder);
    cluster.agent = Cluster::spawn(cluster.address, &folder, &arguments);
    cluster.wait_well();
    nothing_is_lost(cluster.address, "a", &done);
    assert_ne!(cluster.master(0).0, master);
    assert!(cluster.log().contains("is empty, and the cluster counts on what it had"), "{}", cluster.log());
}
