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
    // A machine that is very busy may have a lease end for a moment.
    wait_within(PATIENCE, "the master serves", || at(&master).text(&["SET", "b", "1"]) == "OK");
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
    assert_eq!(RedisClient::connect(cluster.address).text(&["GET", "b"]), "1");
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
    let host = place.ip().to_string();
    no_cluster(&["--dir", &dir, "--host", &host, "--port", &port], "--port chooses another one");
    drop(taken);
    no_cluster(
        &["--dir", &dir, "--host", "203.0.113.7", "--port", &port],
        "can be reached by other machines: say which password",
    );
    no_cluster(
        &["--dir", &dir, "--ack", "2", "--replicas", "1", "--host", &host],
        "cannot wait for more than there are",
    );
    no_cluster(&["--dir", "/proc/nowhere", "--host", &host, "--port", &port], "/proc/nowhere");
    // Somebody has written into the coordinator's file.
    let mut cluster = Cluster::up_at(place, Arc::new(folder), &["--groups", "1", "--replicas", "1"]);
    assert!(cluster.command(&["down"]).status.success());
    assert!(cluster.agent.wait().unwrap().success());
    let path = cluster.folder.0.join("coordinator/coordinator");
    let whole = fs::read(&path).unwrap();
    let mut edited = whole.clone();
    let place = edited.windows(4).position(|bytes| bytes == b"127.").unwrap();
    edited[place] = b'9';
    fs::write(&path, &edited).unwrap();
    no_cluster(&["--dir", &dir, "--host", &host, "--port", &port], "tidegate cluster rescue --dir");
    // Or has taken it away: the stores of before are not left behind for new ones.
    fs::remove_file(&path).unwrap();
    no_cluster(&["--dir", &dir, "--host", &host, "--port", &port], "knows of none. Nothing is started");
    fs::write(&path, &whole).unwrap();
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
    cluster.wait_well();
}

/// A cluster whose coordinator has a disk of its own, of so many kilobytes, in a mount namespace (for which it needs root).
fn on_a_small_disk(kilobytes: u32) -> Option<Cluster> {
    let (place, folder) = (free_ports(), Arc::new(Folder::new()));
    let disk = folder.0.join("coordinator");
    fs::create_dir(&disk).unwrap();
    let script = format!("mount -t tmpfs -o size={kilobytes}k tmpfs \"$0\" && exec \"$@\"");
    let is_possible = Command::new("unshare").args(["-m", "sh", "-c", &script]).arg(&disk).arg("true").output();
    if !is_possible.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let output = fs::File::create(folder.0.join("up.out")).unwrap();
    let (host, port) = (place.ip().to_string(), place.port().to_string());
    let agent = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .arg(&disk)
        .args([env!("CARGO_BIN_EXE_tidegate"), "cluster", "up", "--groups", "1", "--replicas", "1", "--ack", "1"])
        .args(["--host", &host, "--port", &port, "--api", "off", "--dir"])
        .arg(&folder.0)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    let cluster = Cluster { agent, address: place, folder };
    cluster.wait_well();
    Some(cluster)
}

#[test]
fn a_full_disk_stops_changes_and_no_commands() {
    let Some(cluster) = on_a_small_disk(256) else {
        eprintln!("left out: this user cannot mount a disk in a namespace of his own");
        return;
    };
    let filler = format!("/proc/{}/root{}/coordinator/filler", cluster.agent.id(), cluster.folder.0.display());
    let full = fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(20);
    // What is left of the last block may take one more change.
    let epoch = || cluster.status()["epoch"].as_u64().unwrap();
    let mut refused = None;
    for number in 0..200 {
        let mode = if number % 2 == 0 { "ask" } else { "auto" };
        let output = cluster.command(&["policy", "set", "rejoin", mode]);
        if !output.status.success() {
            refused = Some(String::from_utf8_lossy(&output.stderr).into_owned());
            break;
        }
    }
    let before = epoch();
    let refused = refused.expect("a change is refused");
    assert!(refused.contains("coordinator/coordinator") && refused.contains("No space left"), "{refused}");
    writer.wait_more(50);
    let (acknowledged, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new());
    // With room again, changes are made again.
    fs::remove_file(&filler).unwrap();
    cluster.done(&["policy", "set", "rebalance", "ask"]);
    assert_eq!(epoch(), before + 1);
    nothing_is_lost(cluster.address, "b", &acknowledged);
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

#[test]
fn what_the_policy_leaves_to_a_person_waits_for_one() {
    let mut cluster = Cluster::up(&["--groups", "1", "--replicas", "1", "--ack", "1"]);
    cluster.refused(&["policy", "set", "fail-over", "ask"], "there are failover, restart, rejoin and rebalance");
    cluster.refused(&["policy", "set", "failover", "yes"], "is none of auto (by itself), ask");
    cluster.refused(&["action", "confirm", "1"], "nothing of number 1 waits for anybody");
    for action in ["failover", "restart", "rejoin"] {
        assert!(cluster.done(&["policy", "set", action, "ask"]).contains(&format!("policy: {action} is ask")));
    }
    assert!(cluster.done(&["policy", "show"]).contains("failover"));
    cluster.wait_well();
    let status = cluster.status();
    let (master, replica) = (server(&status, 0, "master"), server(&status, 0, "replica"));
    let (_, pid) = cluster.master(0);
    support::signal_process(pid, rustix::process::Signal::KILL);
    let number_in = |cluster: &Cluster, action: &str| {
        let status = cluster.status();
        let found = status["pending"].as_array().unwrap().iter().find(|one| one["action"] == action)?;
        Some((found["number"].to_string(), found["what"].as_str().unwrap().to_owned()))
    };
    wait_within(PATIENCE, "both wait for a person", || {
        number_in(&cluster, "failover").is_some() && number_in(&cluster, "restart").is_some()
    });
    let (failover, what) = number_in(&cluster, "failover").unwrap();
    assert!(what.contains(&format!("{replica} becomes the master")), "{what}");
    let said = cluster.command(&["check"]);
    assert!(String::from_utf8_lossy(&said.stdout).contains(&format!("action confirm {failover}")), "{said:?}");
    assert!(cluster.done(&["action", "pending"]).contains("restart"));
    // Nothing is done that nobody has confirmed.
    cluster.done(&["action", "refuse", &failover]);
    assert_eq!(server(&cluster.status(), 0, "master"), master);
    cluster.done(&["action", "confirm", &failover]);
    wait_within(PATIENCE, "the replica is the master", || server(&cluster.status(), 0, "master") == replica);
    assert_eq!(RedisClient::connect(cluster.address).text(&["SET", "b", "1"]), "OK");
    let (restart, _) = number_in(&cluster, "restart").unwrap();
    cluster.done(&["action", "confirm", &restart]);
    wait_within(PATIENCE, "the former master waits to come back", || number_in(&cluster, "rejoin").is_some());
    cluster.done(&["action", "confirm", &number_in(&cluster, "rejoin").unwrap().0]);
    cluster.wait_well();
    assert_eq!(server(&cluster.status(), 0, "replica"), master);
    // What waits, and what was said to it, outlives the agent.
    let (_, pid) = cluster.master(0);
    support::signal_process(pid, rustix::process::Signal::KILL);
    wait_within(PATIENCE, "the restart waits", || {
        number_in(&cluster, "failover").is_some() && number_in(&cluster, "restart").is_some()
    });
    let (waits, refused) = (number_in(&cluster, "restart").unwrap(), number_in(&cluster, "failover").unwrap().0);
    cluster.done(&["action", "refuse", &refused]);
    cluster.agent.kill().unwrap();
    cluster.agent.wait().unwrap();
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &[]);
    wait_within(PATIENCE, "the agent answers", || cluster.try_status().is_some());
    let kept = cluster.status();
    let kept = kept["pending"].as_array().unwrap();
    let state = |number: &str| {
        kept.iter().find(|one| one["number"] == number.parse::<u64>().unwrap()).map(|one| one["state"].clone())
    };
    assert_eq!((state(&waits.0), state(&refused)), (Some("waits".into()), Some("refused".into())), "{kept:?}");
    wait_within(PATIENCE, "it is proposed again", || number_in(&cluster, "restart") == Some(waits.clone()));
    cluster.done(&["action", "confirm", &waits.0]);
    cluster.wait_well();
    wait_within(PATIENCE, "nothing waits any more", || cluster.status()["pending"] == serde_json::json!([]));
    // The policy is a change like others, and is kept.
    let history = cluster.done(&["action", "history"]);
    assert!(history.contains("policy: rejoin is ask"), "{history}");
    cluster.done(&["policy", "set", "rebalance", "auto"]);
    cluster.done(&["server", "add-group", "--replicas", "0", "--yes"]);
    let shares = || {
        let status = cluster.status();
        status["groups"].as_array().unwrap().iter().map(|group| group["slots"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    wait_within(PATIENCE, "both have the same share", || shares() == [8192, 8192]);
}
