//! A cluster in bad hands: what an operator does wrong is refused with the reason and what to do, or survived.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    os::unix::net::UnixStream,
    process::{Command, Output, Stdio},
    sync::Arc,
};

use serde_json::Value;
use support::{
    Folder, RedisClient,
    cluster::{Cluster, PATIENCE, Writer, free_ports, nothing_is_lost},
    wait_within,
};

fn at(address: &str) -> RedisClient {
    RedisClient::connect(address.parse().unwrap())
}

fn server(status: &Value, group: usize, role: &str) -> String {
    let servers = status["groups"][group]["servers"].as_array().unwrap();
    let found = servers.iter().find(|server| server["role"] == role).unwrap();
    found["address"].as_str().unwrap().to_owned()
}

/// Runs `tidegate cluster up`, which must end by itself, with an error that says so.
#[track_caller]
fn no_cluster(words: &[&str], reason: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output: Output = command.args(["cluster", "up"]).args(words).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(reason), "{words:?}: not refused because '{reason}': {said}");
}

#[test]
fn nodes_refuse_what_is_not_for_them() {
    let cluster = Cluster::up(&["--groups", "2", "--replicas", "1", "--ack", "1", "--failover-after", "20000"]);
    let status = cluster.status();
    let (master, replica) = (server(&status, 0, "master"), server(&status, 0, "replica"));
    assert_eq!(at(&master).text(&["SET", "b", "1"]), "OK");
    for (node, words, reason) in [
        (&replica, &["FLUSHALL"][..], "READONLY You can't write against a read only replica."),
        (&replica, &["SET", "b", "2"], &format!("MOVED 3300 {master}")),
        (&master, &["MSET", "b", "2", "a", "2"], "CROSSSLOT Keys in request don't hash to the same slot"),
        (&master, &["SELECT", "1"], "ERR SELECT is not allowed in cluster mode"),
        (&master, &["DEBUG", "SLEEP", "5"], "ERR DEBUG command not allowed."),
        (
            &master,
            &["CONFIG", "SET", "cluster-enabled", "no"],
            "ERR CONFIG SET failed (possibly related to argument 'cluster-enabled')",
        ),
        (&master, &["CONFIG", "SET", "dir", "/tmp"], "ERR CONFIG SET failed (possibly related to argument 'dir')"),
        (&master, &["REPLICAOF", "127.0.0.1", "1"], "ERR REPLICAOF not allowed in cluster mode"),
        (&master, &["CLUSTER", "TOPOLOGY", "0", "x"], "STALEEPOCH this node knows epoch"),
    ] {
        let said = at(node).text(words);
        assert!(said.starts_with(reason), "{words:?} at {node}: {said}");
    }
    assert_eq!(at(&master).text(&["GET", "b"]), "1");
}

#[test]
fn a_master_that_is_shut_down_is_replaced() {
    let cluster = Cluster::up(&["--groups", "1", "--replicas", "1", "--ack", "1"]);
    let master = server(&cluster.status(), 0, "master");
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(20);
    let mut client = at(&master);
    let mut bytes = Vec::new();
    resp::encode_command(&mut bytes, &["SHUTDOWN"]);
    client.send(&bytes);
    writer.wait_more(50);
    cluster.wait_well();
    assert_ne!(server(&cluster.status(), 0, "master"), master);
    let (acknowledged, _) = writer.end();
    nothing_is_lost(cluster.address, "b", &acknowledged);
}

#[test]
fn places_that_are_taken_or_damaged_are_told() {
    let place = free_ports();
    let taken = TcpListener::bind(place).unwrap();
    let (folder, port) = (Folder::new(), place.port().to_string());
    let dir = folder.0.display().to_string();
    no_cluster(&["--dir", &dir, "--port", &port], "--port chooses another one");
    drop(taken);
    no_cluster(&["--dir", &dir, "--host", "203.0.113.7", "--port", &port], "nobody can listen on 203.0.113.7");
    no_cluster(&["--dir", &dir, "--ack", "2", "--replicas", "1"], "cannot wait for more than there are");
    no_cluster(&["--dir", "/proc/nowhere", "--port", &port], "/proc/nowhere");
    // Somebody has written into the coordinator's file.
    let mut cluster = Cluster::up_at(place, Arc::new(folder), &["--groups", "1", "--replicas", "1"]);
    assert!(cluster.command(&["down"]).status.success());
    assert!(cluster.agent.wait().unwrap().success());
    let path = cluster.folder.0.join("coordinator/coordinator");
    let whole = fs::read(&path).unwrap();
    let mut edited = whole.clone();
    let place = edited.windows(7).position(|bytes| bytes == b"127.0.0").unwrap();
    edited[place] = b'9';
    fs::write(&path, &edited).unwrap();
    no_cluster(&["--dir", &dir, "--port", &port], "restore the folder from a backup");
    fs::write(&path, &whole).unwrap();
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
    cluster.wait_well();
}

#[test]
fn requests_that_make_no_sense_are_answered_so() {
    let cluster = Cluster::up(&["--groups", "1", "--replicas", "0"]);
    let ask = |request: &str| {
        let mut stream = UnixStream::connect(cluster.folder.0.join("agent.sock")).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        std::io::read_to_string(stream).unwrap()
    };
    let post = |body: &str| {
        ask(&format!("POST /api/nodes/command HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
    };
    for (body, status, reason) in [
        ("{", "400", "its body is no JSON"),
        ("{}", "400", "'node'"),
        (r#"{"node": "x", "command": "SET a 1"}"#, "400", "is nothing that a node passes on"),
        (r#"{"node": "x", "command": "ADDSLOTS 5-1"}"#, "400", "5 to 1 are no slots"),
        (r#"{"node": "x", "command": "FLUSHSLOTS"}"#, "409", "only a master has slots"),
        (
            r#"{"node": "x", "command": "MEET 127.0.0.1:1"}"#,
            "409",
            "neither this node nor 127.0.0.1:1 belongs to the cluster",
        ),
        (r#"{"node": "x", "command": "FORGET y"}"#, "404", "Unknown node y"),
        (r#"{"node": "x", "command": "RESET", "wait": "for ever"}"#, "400", "'wait' is not as it was told"),
    ] {
        let said = post(body);
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")) && said.contains(reason), "{body}: {said}");
    }
    assert_eq!(cluster.status()["epoch"], 1);
}
