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

use support::cluster::{Acknowledged, Cluster, Writer, nothing_is_lost};

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
