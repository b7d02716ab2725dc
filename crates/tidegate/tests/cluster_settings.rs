//! Settings of stores that a cluster keeps: told at once, there after each start, and with servers that join; and what `up` says of a
//! cluster that is another one than it was told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use support::{
    RedisClient,
    cluster::{Cluster, PATIENCE},
    signal_process, wait_within,
};

/// A setting of a store, as it runs.
fn setting(store: &str, name: &str) -> String {
    let address = store.parse().unwrap();
    // One that was killed is being started again.
    wait_within(PATIENCE, "the store listens", || RedisClient::connect_if_listens(address));
    let reply = RedisClient::connect(address).command(&["CONFIG", "GET", name]);
    String::from_utf8(reply.as_slice().unwrap()[1].as_bytes().unwrap().to_vec()).unwrap()
}

fn set(store: &str, name: &str, value: &str) -> String {
    RedisClient::connect(store.parse().unwrap()).text(&["CONFIG", "SET", name, value])
}

/// All stores, the master first.
fn stores(cluster: &Cluster) -> Vec<String> {
    let status = cluster.status();
    let servers = status["groups"][0]["servers"].as_array().unwrap().iter();
    let mut all: Vec<(bool, String)> =
        servers.map(|server| (server["role"] != "master", server["address"].as_str().unwrap().to_owned())).collect();
    all.sort();
    all.into_iter().map(|(_, address)| address).collect()
}

/// Kills a store, and waits until another process is in its place.
fn kill(cluster: &Cluster, store: &str) {
    let before = pid(cluster, store).unwrap();
    signal_process(before, Signal::KILL);
    wait_within(PATIENCE, "it is started again", || pid(cluster, store).is_some_and(|now| now != before));
    cluster.wait_well();
}

fn pid(cluster: &Cluster, store: &str) -> Option<u32> {
    let status = cluster.status();
    let mut servers = status["groups"][0]["servers"].as_array().unwrap().iter();
    servers.find(|one| one["address"] == store).unwrap()["pid"].as_u64().map(|pid| pid as u32)
}

fn shown(cluster: &Cluster, pattern: &str) -> Value {
    serde_json::from_str(&cluster.done(&["config", "get", pattern, "--json"])).unwrap()
}

#[test]
fn settings_are_told_at_once_and_are_there_after_each_start() {
    let cluster = Cluster::up(&["--groups", "1", "--replicas", "1", "--set", "maxmemory=64mb", "--set", "save="]);
    let all = stores(&cluster);
    let (master, replica) = (all[0].as_str(), all[1].as_str());
    let both = |name: &str| [setting(master, name), setting(replica, name)];
    assert_eq!(both("maxmemory"), ["67108864", "67108864"]);
    assert_eq!(both("save"), ["", ""]);
    let said = cluster.done(&["config", "set", "timeout", "70", "--yes"]);
    assert!(
        said.contains("setting of all stores: timeout is 70") && said.contains("2 stores have been told"),
        "{said}"
    );
    cluster.done(&["config", "set", "timeout", "80", "--group", "1"]);
    cluster.done(&["config", "set", "timeout", "90", "--server", replica]);
    assert_eq!(both("timeout"), ["80", "90"]);
    // What somebody sets on one store stays while the cluster says nothing about it.
    assert_eq!(set(replica, "slowlog-max-len", "5"), "OK");
    assert_eq!(set(replica, "hz", "20"), "OK");
    cluster.done(&["config", "set", "maxmemory-policy", "allkeys-lru"]);
    assert_eq!(both("slowlog-max-len"), ["128", "5"]);
    let found = shown(&cluster, "slowlog-max-len");
    assert_eq!(found[0]["differs"][0]["server"], replica, "{found}");
    let told = cluster.done(&["config", "get"]);
    for expected in [
        "maxmemory-policy  allkeys-lru  cluster",
        "group 1",
        &format!("{replica} runs with slowlog-max-len 5: a CONFIG SET"),
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
    // CONFIG REWRITE keeps it, on that store alone, and only what is not kept already.
    let mut client = RedisClient::connect(replica.parse().unwrap());
    assert_eq!(client.text(&["CONFIG", "REWRITE"]), "OK");
    assert_eq!(client.text(&["CONFIG", "REWRITE"]), "OK");
    let history = cluster.done(&["action", "history"]);
    assert_eq!(history.matches("are kept (CONFIG REWRITE)").count(), 1, "a second time changes nothing:\n{history}");
    let kept = shown(&cluster, "slowlog-max-len");
    assert_eq!((&kept[0]["kept"][0]["server"], &kept[0]["kept"][0]["value"]), (&replica.into(), &"5".into()), "{kept}");
    assert_eq!(shown(&cluster, "timeout")[0]["kept"].as_array().unwrap().len(), 3);
    kill(&cluster, master);
    wait_within(PATIENCE, "the former master has all of it again", || {
        both("timeout") == ["80", "90"] && both("maxmemory") == ["67108864", "67108864"]
    });
    kill(&cluster, replica);
    assert_eq!(
        ["timeout", "slowlog-max-len", "hz", "maxmemory-policy"].map(|name| setting(replica, name)),
        ["90", "5", "20", "allkeys-lru"]
    );
    // One that joins.
    cluster.done(&["server", "add", "1", "--yes"]);
    let third = stores(&cluster).into_iter().find(|one| !all.contains(one)).unwrap();
    assert_eq!(
        ["timeout", "slowlog-max-len", "maxmemory"].map(|name| setting(&third, name)),
        ["80", "128", "67108864"]
    );
    // Taken back, what is said of more stores counts again, and at last the default.
    cluster.done(&["config", "unset", "timeout", "--server", replica]);
    cluster.done(&["config", "unset", "timeout", "--group", "1"]);
    assert_eq!([master, replica, &third].map(|store| setting(store, "timeout")), ["70"; 3]);
    cluster.done(&["config", "unset", "timeout"]);
    assert_eq!([master, replica, &third].map(|store| setting(store, "timeout")), ["0"; 3]);
    cluster.refused(&["config", "unset", "timeout"], "no setting timeout of all stores is kept");
}

#[test]
fn what_makes_no_sense_is_refused_and_what_waits_for_a_start_is_told() {
    let mut cluster = Cluster::up(&["--groups", "1", "--replicas", "1"]);
    let all = stores(&cluster);
    let (master, replica) = (all[0].as_str(), all[1].as_str());
    for (words, reason) in [
        (&["maxmemry", "1gb"][..], "there is no setting 'maxmemry'; did you mean 'maxmemory'?"),
        (&["maxmemory", "50%"], "'maxmemory': argument must be a memory value"),
        (&["maxmemory-policy", "some"], "must be one of the following: volatile-lru"),
        (&["port", "7000"], "'port' is not set by hand in a cluster: each store has a port of its own"),
        (&["slaveof", "a 1"], "'replicaof' is not set by hand in a cluster: the cluster decides who follows whom"),
        (&["page-address", "127.0.0.1:1"], "no two stores can have the same"),
        (&["timeout", "1", "--group", "7"], "there is no group 7"),
        (&["timeout", "1", "--server", "127.0.0.1:1"], "127.0.0.1:1"),
    ] {
        cluster.refused(&[&["config", "set"], words].concat(), reason);
    }
    // It is kept, and no running store can do it: that is told, also by `check`, until it is taken back.
    cluster
        .refused(&["config", "set", "maxclients", "4000000000"], "not able to handle the specified number of clients");
    let checked = cluster.command(&["check"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(!checked.status.success() && said.contains("does not take a setting that the cluster keeps"), "{said}");
    // Others are not kept from the stores by that.
    let _ = cluster.command(&["config", "set", "timeout", "11"]);
    wait_within(PATIENCE, "stores have what they can", || {
        [master, replica].iter().all(|one| setting(one, "timeout") == "11")
    });
    cluster.done(&["config", "unset", "maxclients"]);
    cluster.wait_well();
    let planned = cluster.done(&["config", "set", "timeout", "12", "--dry-run"]);
    assert!(planned.contains("timeout is 12") && planned.contains("nothing has been changed"), "{planned}");
    assert!(!cluster.done(&["action", "history"]).contains("timeout is 12"));
    assert_eq!(setting(master, "timeout"), "11");
    let said = cluster.done(&["config", "set", "io-threads", "2"]);
    assert!(said.contains("stores take it when they start"), "{said}");
    assert_eq!(shown(&cluster, "io-threads")[0]["differs"].as_array().unwrap().len(), 2);
    // A transaction would have all clients of the store wait.
    let mut client = RedisClient::connect(replica.parse().unwrap());
    client.text(&["MULTI"]);
    client.text(&["CONFIG", "REWRITE"]);
    let reply = client.command(&["EXEC"]);
    let error = String::from_utf8_lossy(reply.as_slice().unwrap()[0].as_error().unwrap()).into_owned();
    assert!(error.contains("is no part of a transaction"), "{error}");
    assert!(set(replica, "cluster-settings-told", "9 9").contains("tidegate cluster config set"));
    // `up` says what is otherwise than it was told, and changes nothing.
    assert!(cluster.command(&["down"]).status.success());
    assert!(cluster.agent.wait().unwrap().success());
    let output =
        Cluster::spawn(cluster.address, &cluster.folder, &["--groups", "2", "--set", "timeout=5"]).wait().unwrap();
    assert!(!output.success());
    let said = std::fs::read_to_string(cluster.folder.0.join("up.out")).unwrap();
    for expected in [
        "--groups 2: it has 1 (`tidegate cluster server add-group`",
        "--set timeout=5: it keeps 11 (`tidegate cluster config set timeout '5'`)",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    cluster.agent =
        Cluster::spawn(cluster.address, &cluster.folder, &["--groups", "1", "--replicas", "1", "--set", "timeout=11"]);
    cluster.wait_well();
    assert_eq!([master, replica].map(|one| setting(one, "io-threads")), ["2", "2"]);
}
