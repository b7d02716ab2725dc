//! A cluster in the hands of users of Redis Cluster: `redis-cli --cluster` and the commands behind it, at any node.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    process::{Child, Command, Output, Stdio},
};

use support::{
    Folder, RedisClient,
    cluster::{Cluster, PATIENCE, Writer, free_ports, nothing_is_lost},
    wait_within,
};

/// No master is given up because the machine is busy.
const PATIENT: [&str; 2] = ["--failover-after", "20000"];

fn up(arguments: &[&str]) -> Cluster {
    Cluster::up(&[arguments, &PATIENT].concat())
}

fn servers(cluster: &Cluster) -> Vec<String> {
    let status = cluster.status();
    let groups = status["groups"].as_array().unwrap();
    let servers = groups.iter().flat_map(|group| group["servers"].as_array().unwrap());
    servers.map(|server| server["address"].as_str().unwrap().to_owned()).collect()
}

fn redis_cli(words: &[&str]) -> Output {
    Command::new("redis-cli").args(words).stdin(Stdio::null()).output().expect("redis-cli (Debian's redis-tools)")
}

#[track_caller]
fn done(words: &[&str]) -> String {
    let output = redis_cli(words);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "redis-cli {words:?}: {text}");
    text
}

/// A store that belongs to no cluster yet.
struct Lone {
    process: Child,
    address: String,
    _folder: Folder,
}

impl Lone {
    fn start(arguments: &[&str]) -> Self {
        let (place, folder) = (free_ports(), Folder::new());
        let log = fs::File::create(folder.0.join("out")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["store", "--bind", &place.ip().to_string(), "--port", &place.port().to_string()])
            .args(["--dir", &folder.0.join("data").display().to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let lone = Self { process, address: place.to_string(), _folder: folder };
        wait_within(PATIENCE, "the store listens", || RedisClient::connect_if_listens(place));
        lone
    }

    fn client(&self) -> RedisClient {
        RedisClient::connect(self.address.parse().unwrap())
    }
}

impl Drop for Lone {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn at(address: &str) -> RedisClient {
    RedisClient::connect(address.parse().unwrap())
}

#[test]
fn redis_cli_looks_follows_and_moves_slots() {
    let cluster = up(&["--groups", "2", "--replicas", "1", "--ack", "1"]);
    let nodes = servers(&cluster);
    let (host, port) = nodes[0].rsplit_once(':').unwrap();
    for number in 0..30 {
        assert_eq!(done(&["-c", "-h", host, "-p", port, "SET", &format!("key:{number}"), "x"]).trim(), "OK");
    }
    for node in &nodes {
        let said = done(&["--cluster", "check", node]);
        assert!(said.contains("[OK] All 16384 slots covered.") && said.contains("[OK] All nodes agree"), "{said}");
        assert!(done(&["--cluster", "info", node]).contains("[OK] 30 keys in 2 masters."));
    }
    let said = done(&["--cluster", "call", &nodes[0], "PING"]);
    assert_eq!(said.matches("PONG").count(), 4, "{said}");
    // Two slots of the first master with whatever they have, while somebody writes to one of them (b: slot 3300).
    let (from, to) = (at(&nodes[0]).text(&["CLUSTER", "MYID"]), at(&nodes[2]).text(&["CLUSTER", "MYID"]));
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(20);
    let said = done(&[
        "--cluster",
        "reshard",
        &nodes[3],
        "--cluster-from",
        &from,
        "--cluster-to",
        &to,
        "--cluster-slots",
        "2",
        "--cluster-yes",
    ]);
    assert!(said.contains("Moving slot 1 from"), "{said}");
    let mut source = at(&nodes[0]);
    let slots =
        |client: &mut RedisClient, words: &[&str]| client.text(&[&["CLUSTER", "SETSLOT", "3300"], words].concat());
    assert_eq!(slots(&mut at(&nodes[2]), &["IMPORTING", &from]), "OK");
    assert_eq!(slots(&mut source, &["MIGRATING", &to]), "OK");
    assert_eq!(source.text(&["CLUSTER", "COUNTKEYSINSLOT", "3300"]), "0");
    assert_eq!(slots(&mut source, &["NODE", &to]), "OK");
    assert_eq!(source.text(&["CLUSTER", "KEYSLOT", "b"]), "3300");
    assert!(source.text(&["GET", "b"]).starts_with(&format!("MOVED 3300 {}", nodes[2])));
    writer.wait_more(20);
    let (acknowledged, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new());
    nothing_is_lost(cluster.address, "b", &acknowledged);
    assert!(done(&["--cluster", "check", &nodes[1]]).contains("[OK] All 16384 slots covered."));
    // What makes no sense is refused as Redis refuses it, or says what to use.
    for (words, expected) in [
        (&["SETSLOT", "3300", "MIGRATING", &to][..], "ERR I'm not the owner of hash slot 3300"),
        (&["SETSLOT", "5", "MIGRATING", "nobody"], "ERR I don't know about node nobody"),
        (&["SETSLOT", "5", "IMPORTING", &to], "ERR I'm already the owner of hash slot 5"),
        (
            &["SETSLOT", "5", "NODE", &to],
            "ERR slot 5 is another master's, and its keys with it: CLUSTER SETSLOT 5 MIGRATING",
        ),
        (&["ADDSLOTS", "5"], "ERR Slot 5 is already busy"),
        (&["ADDSLOTS", "5", "5"], "ERR Slot 5 specified multiple times"),
        (&["ADDSLOTSRANGE", "5"], "ERR wrong number of arguments"),
        (&["ADDSLOTS", "16384"], "ERR Invalid or out of range slot"),
        (&["FAILOVER"], "ERR You should send CLUSTER FAILOVER to a replica"),
        (&["FAILOVER", "TAKEOVER"], "ERR TAKEOVER would make a master without asking"),
        (&["FORGET", "nobody"], "ERR Unknown node nobody"),
        (&["FORGET", &from], "ERR I tried hard but I can't forget myself..."),
        (&["REPLICATE", &from], "ERR Can't replicate myself"),
        (&["REPLICATE", &to], "ERR this master has replicas"),
        (&["MEET", "127.0.0.1", "1"], "ERR 127.0.0.1:1 cannot join: nobody answers there"),
        (&["MEET", "nowhere", "1"], "ERR Invalid node address specified: nowhere:1"),
        (&["SET-CONFIG-EPOCH", "5"], "ERR epochs are the coordinator's"),
        (&["RESET"], "ERR CLUSTER RESET can't be called with master nodes containing keys"),
    ] {
        let said = source.text(&[&["CLUSTER"], words].concat());
        assert!(said.starts_with(expected), "{words:?}: {said}");
    }
    assert_eq!(source.text(&["CLUSTER", "SAVECONFIG"]), "OK");
    assert!(source.text(&["CLUSTER", "BUMPEPOCH"]).starts_with("STILL "));
    assert_eq!(source.text(&["CLUSTER", "SETSLOT", "5", "STABLE"]), "OK");
    assert_eq!(at(&nodes[1]).text(&["CLUSTER", "MYSHARDID"]), source.text(&["CLUSTER", "MYSHARDID"]));
    // Slots that are taken from a master are served by nobody, until somebody gets them.
    assert_eq!(source.text(&["CLUSTER", "DELSLOTSRANGE", "10", "12"]), "OK");
    assert!(!redis_cli(&["--cluster", "check", &nodes[0]]).status.success());
    assert_eq!(source.text(&["CLUSTER", "ADDSLOTS", "10", "11", "12"]), "OK");
    assert!(done(&["--cluster", "check", &nodes[2]]).contains("[OK] All 16384 slots covered."));
}

#[test]
fn nodes_join_change_their_roles_and_leave() {
    let cluster = up(&["--groups", "2", "--replicas", "1", "--ack", "1"]);
    let nodes = servers(&cluster);
    let (one, two) = (Lone::start(&["--cluster-enabled", "yes"]), Lone::start(&["--cluster-enabled", "yes"]));
    let id = |address: &str| at(address).text(&["CLUSTER", "MYID"]);
    assert!(one.client().text(&["CLUSTER", "NODES"]).contains("myself,master - 0 0 0 connected"));
    assert!(one.client().text(&["CLUSTER", "INFO"]).contains("cluster_known_nodes:1"));
    assert!(one.client().text(&["CLUSTER", "ADDSLOTS", "1"]).starts_with("ERR no agent looks after this node"));
    // One as a master without slots, one as a replica.
    done(&["--cluster", "add-node", &one.address, &nodes[0]]);
    let master = id(&nodes[2]);
    done(&["--cluster", "add-node", &two.address, &nodes[1], "--cluster-slave", "--cluster-master-id", &master]);
    cluster.wait_well();
    let status = cluster.status();
    assert_eq!(status["groups"][2]["master"], one.address.as_str(), "{status}");
    assert_eq!(status["groups"][1]["servers"][2]["address"], two.address.as_str(), "{status}");
    assert!(done(&["--cluster", "check", &one.address]).contains("[OK] All nodes agree"));
    // The replica takes its master's place, and no command fails (a: slot 15495).
    let writer = Writer::start(cluster.address, "a");
    writer.wait_more(20);
    assert_eq!(two.client().text(&["CLUSTER", "FAILOVER"]), "OK");
    assert_eq!(cluster.status()["groups"][1]["master"], two.address.as_str());
    writer.wait_more(20);
    let (acknowledged, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new());
    nothing_is_lost(cluster.address, "a", &acknowledged);
    cluster.wait_well();
    // By hand nobody is made a replica, and nobody changes what the agent looks after.
    for words in [&["REPLICAOF", "NO", "ONE"][..], &["SLAVEOF", "127.0.0.1", "1"]] {
        let said = at(&nodes[0]).text(words);
        assert!(said.starts_with("ERR REPLICAOF not allowed in cluster mode: CLUSTER FAILOVER"), "{said}");
    }
    for setting in ["replica-ack", "cluster-node-timeout"] {
        let said = at(&nodes[0]).text(&["CONFIG", "SET", setting, "0"]);
        assert!(said.contains("the cluster's agent looks after that"), "{said}");
    }
    // It becomes the master again, and both leave.
    assert_eq!(at(&nodes[2]).text(&["CLUSTER", "FAILOVER"]), "OK");
    cluster.wait_well();
    for lone in [&one, &two] {
        done(&["--cluster", "del-node", &nodes[0], &id(&lone.address)]);
        assert!(lone.client().text(&["CLUSTER", "INFO"]).contains("cluster_known_nodes:1"));
    }
    cluster.wait_well();
    assert_eq!(servers(&cluster).len(), 4);
    // Who has been there may come again, empty.
    wait_within(PATIENCE, "it is a master again", || two.client().text(&["FLUSHALL"]) == "OK");
    done(&["--cluster", "add-node", &two.address, &nodes[0], "--cluster-slave"]);
    // A node of the cluster's own is not ended when it is forgotten: it says so itself when it leaves.
    let own = nodes[1].clone();
    cluster.wait_well();
    let replica = cluster.status()["groups"][0]["servers"].as_array().unwrap().len();
    if replica > 2 {
        done(&["--cluster", "del-node", &nodes[2], &id(&own)]);
        assert!(at(&own).text(&["CLUSTER", "INFO"]).contains("cluster_known_nodes:1"));
        assert!(!servers(&cluster).contains(&own));
    }
}

#[test]
fn who_is_no_empty_store_does_not_join() {
    let cluster = up(&["--groups", "1", "--replicas", "0"]);
    let other = up(&["--groups", "1", "--replicas", "0"]);
    let node = servers(&cluster).remove(0);
    let alone = Lone::start(&[]);
    let full = Lone::start(&["--cluster-enabled", "yes"]);
    // What moves slots writes where nobody serves yet.
    let mut client = full.client();
    assert_eq!(client.text(&["CLUSTER", "CONNECTION", "MOVER", "0", "16383", "0"]), "OK");
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    let foreign = servers(&other).remove(0);
    for (address, reason) in [
        (&alone.address, "it stands alone: start it with --cluster-enabled yes"),
        (&full.address, "it has keys: only an empty store joins"),
        (&foreign, "it belongs to a cluster already: remove it there first"),
    ] {
        let (host, port) = address.rsplit_once(':').unwrap();
        let said = at(&node).text(&["CLUSTER", "MEET", host, port]);
        assert_eq!(said.split(" (").next().unwrap(), format!("ERR {address} cannot join: {reason}"));
    }
    // A stranger is asked by its own redis-cli, too.
    let (host, port) = node.rsplit_once(':').unwrap();
    assert!(full.client().text(&["CLUSTER", "MEET", host, port]).contains("it has keys"));
    let status = cluster.status();
    assert_eq!(status["groups"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["epoch"], 1);
}
