//! What tests of replication have in common.

use std::{net::SocketAddr, time::Duration};

use rustix::process::Signal;

use super::{RedisClient, signal_process, wait_within};

/// How long copies and failovers may take on a machine that does much else.
pub const LONG: Duration = Duration::from_secs(60);

/// A process that is stopped, until this goes.
#[derive(Debug)]
pub struct StoppedProcess(u32);

impl StoppedProcess {
    /// Stops it.
    pub fn new(pid: u32) -> Self {
        signal_process(pid, Signal::STOP);
        Self(pid)
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        signal_process(self.0, Signal::CONT);
    }
}

/// Has a server follow another one.
#[track_caller]
pub fn follow(replica: &mut RedisClient, master: SocketAddr) {
    assert_eq!(replica.text(&["REPLICAOF", &master.ip().to_string(), &master.port().to_string()]), "OK");
}

/// A field of `INFO replication`.
pub fn field(client: &mut RedisClient, name: &str) -> String {
    let info = client.text(&["INFO", "replication"]);
    let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_default().to_owned()
}

/// Waits until a replica is given its master's log.
#[track_caller]
pub fn wait_for_link(replica: &mut RedisClient) {
    wait_within(LONG, "the link is up", || field(replica, "master_link_status") == "up");
}

/// Waits until a replica has all that its master has, by offsets, and compares what they have.
#[track_caller]
pub fn assert_same(master: &mut RedisClient, replica: &mut RedisClient) {
    wait_within(LONG, "the replica has caught up", || {
        field(master, "master_repl_offset") == field(replica, "slave_repl_offset")
    });
    let (expected, found) = (master.text(&["DEBUG", "DIGEST"]), replica.text(&["DEBUG", "DIGEST"]));
    assert_eq!(found, expected, "{} and {} keys", master.text(&["DBSIZE"]), replica.text(&["DBSIZE"]));
}
