//! `tidegate cluster`: servers, groups and proxies come and go in a cluster that serves, and what makes no sense is refused; by the
//! command line and by REST.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use support::{
    RedisClient, Wire,
    cluster::{Cluster, PATIENCE, Writer, nothing_is_lost},
    wait_within,
};

/// No master is given up because the machine is busy.
const PATIENT: [&str; 2] = ["--failover-after", "20000"];

fn up(arguments: &[&str]) -> Cluster {
    Cluster::up(&[arguments, &PATIENT].concat())
}

fn servers(cluster: &Cluster, group: usize) -> Vec<String> {
    let status = cluster.status();
    let servers = status["groups"][group]["servers"].as_array().unwrap();
    servers.iter().map(|server| server["address"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn servers_come_and_go_while_writes_go_on() {
    let mut cluster = up(&["--groups", "1", "--replicas", "1", "--ack", "1"]);
    let before = servers(&cluster, 0);
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(20);
    let said = cluster.done(&["server", "add", "1"]);
    let added = servers(&cluster, 0).into_iter().find(|server| !before.contains(server)).unwrap();
    assert!(said.contains(&format!("{added} is added to group 1")), "{said}");
    assert!(cluster.is_well());
    writer.wait_more(20);
    // The replica of before goes, by name.
    let pid = cluster.status()["groups"][0]["servers"][1]["pid"].as_u64().unwrap();
    let said = cluster.done(&["server", "remove", "1", &before[1], "--yes"]);
    let data = said.lines().find_map(|line| line.split_once("may be removed: ")).unwrap().1.to_owned();
    wait_within(PATIENCE, "its process ends", || !fs::exists(format!("/proc/{pid}")).unwrap());
    assert!(fs::exists(data).unwrap(), "its data stays");
    writer.wait_more(20);
    for (words, reason) in [
        (&["server", "remove", "1", &added][..], "has 0 replicas, and its writes wait for 1: add another server first"),
        (&["server", "remove", "1", &before[0]], "is the master of its group"),
        (&["server", "remove", "1", &before[1]], "there is no server"),
        (&["server", "remove", "2", &added], "there is no group 2"),
        (&["server", "add", "2"], "there is no group 2"),
        (&["server", "add", "1", &added], "is in group 1"),
        (&["server", "add", "1", &cluster.address.to_string()], "is a proxy of the cluster"),
        (&["server", "add", "1", "203.0.113.7:6379"], "name an address of the agent's machine"),
        (&["server", "add", "1", "6379"], "host:port is expected"),
    ] {
        cluster.refused(words, reason);
    }
    // The new one has everything: it takes over.
    cluster.done(&["server", "promote", "1", &added]);
    let (done, errors) = writer.end();
    assert_eq!(errors, Vec::<String>::new(), "{}", cluster.log());
    nothing_is_lost(cluster.address, "b", &done);
    cluster.done(&["server", "remove", "1", &before[0], "--ack", "0"]);
    assert_eq!(servers(&cluster, 0), std::slice::from_ref(&added));
    // It is so after down and up.
    cluster.done(&["down"]);
    assert!(cluster.agent.wait().unwrap().success());
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &PATIENT);
    cluster.wait_well();
    assert_eq!(servers(&cluster, 0), [added]);
    nothing_is_lost(cluster.address, "b", &done);
}

#[test]
fn a_foreign_server_is_refused() {
    let cluster = up(&["--groups", "1", "--replicas", "0"]);
    let foreign = TcpListener::bind((cluster.address.ip(), 0)).unwrap();
    let address = foreign.local_addr().unwrap().to_string();
    cluster.refused(&["server", "add", "1", &address], "belongs to a program that this cluster has not started");
    cluster.refused(&["proxy", "add", &address], "belongs to a program that this cluster has not started");
    drop(foreign);
    cluster.done(&["server", "add", "1", &address]);
    assert!(servers(&cluster, 0).contains(&address));
}

#[test]
fn a_group_is_added_gets_its_share_and_leaves_again() {
    let cluster = up(&["--groups", "2", "--replicas", "0"]);
    let mut client = RedisClient::connect(cluster.address);
    for number in 0..300 {
        assert_eq!(client.text(&["SET", &format!("key:{number}"), &number.to_string()]), "OK");
    }
    cluster.refused(&["server", "add-group", "2"], "group 2 is there already");
    cluster.refused(&["server", "add-group", "--ack", "1"], "writes cannot wait for 1 replicas where there are 0");
    let said = cluster.done(&["server", "add-group"]);
    assert!(said.contains("group 3 is added") && said.contains("slot rebalance"), "{said}");
    let mut first = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["cluster", "slot", "rebalance", "--dir"])
        .arg(&cluster.folder.0)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_within(PATIENCE, "slots are on their way", || !cluster.status()["moves"].as_array().unwrap().is_empty());
    cluster.refused(&["slot", "rebalance"], "are on their way already: wait for that (`slot info`), or cancel it");
    cluster.refused(&["server", "remove-group", "3"], "group 3 still has to do with 5461 slots");
    assert!(first.wait().unwrap().success());
    let count = |cluster: &Cluster| -> Vec<u64> {
        let status = cluster.status();
        status["groups"].as_array().unwrap().iter().map(|group| group["slots"].as_u64().unwrap()).collect()
    };
    assert_eq!(count(&cluster), [5461, 5462, 5461]);
    cluster.refused(&["server", "remove-group", "3"], "`tidegate cluster slot rebalance --drain 3`");
    cluster.refused(&["slot", "rebalance", "--drain", "7"], "there is no group 7");
    // What has moved moves back, and so the group can go.
    let history: Value = serde_json::from_str(&cluster.done(&["action", "history", "--json"])).unwrap();
    let epoch_of = |what: &str| {
        let found = history.as_array().unwrap().iter().find(|change| change["what"].as_str().unwrap().contains(what));
        found.unwrap()["epoch"].to_string()
    };
    cluster.refused(&["action", "undo", &epoch_of("the copy from group")], "it is a step of a move");
    cluster.refused(&["action", "undo", "1"], "with it the cluster began");
    cluster.refused(&["action", "undo", "9999"], "there is no change 9999");
    cluster.refused(&["action", "undo", &epoch_of("group 3 is added")], "group 3 still has to do with 5461 slots");
    cluster.done(&["action", "undo", &epoch_of("are to have the same share")]);
    assert_eq!(count(&cluster), [8192, 8192, 0]);
    cluster.done(&["action", "undo", &epoch_of("group 3 is added")]);
    assert_eq!(count(&cluster), [8192, 8192]);
    for number in 0..300 {
        assert_eq!(client.text(&["GET", &format!("key:{number}")]), number.to_string());
    }
    assert_eq!(client.text(&["DBSIZE"]), "300");
}

#[test]
fn proxies_are_added_and_set_offline_and_online() {
    let cluster = up(&["--groups", "1", "--replicas", "0"]);
    cluster.done(&["proxy", "add"]);
    let list: Value = serde_json::from_str(&cluster.done(&["proxy", "list", "--json"])).unwrap();
    let (first, second) = (list[0]["address"].as_str().unwrap(), list[1]["address"].as_str().unwrap());
    let at = |proxy: &str| proxy.parse::<SocketAddr>().unwrap();
    wait_within(PATIENCE, "the second takes clients", || support::listens(at(second)));
    assert_eq!(RedisClient::connect(at(second)).text(&["SET", "a", "1"]), "OK");
    cluster.done(&["proxy", "offline", first]);
    wait_within(PATIENCE, "the first takes none", || !support::listens(at(first)));
    assert_eq!(RedisClient::connect(at(second)).text(&["GET", "a"]), "1");
    cluster.refused(&["proxy", "offline", first], "is offline already");
    cluster.refused(&["proxy", "online", "127.0.0.1:1"], "there is no proxy 127.0.0.1:1");
    cluster.done(&["proxy", "online", first]);
    wait_within(PATIENCE, "the first takes clients again", || support::listens(at(first)));
    let said = cluster.done(&["proxy", "remove", second]);
    assert!(!said.contains("no proxy takes plain clients"), "{said}");
    assert!(cluster.done(&["proxy", "offline", first]).contains("no proxy takes plain clients then"));
}

/// Somebody who asks by REST.
struct Guest {
    address: SocketAddr,
    token: String,
}

impl Guest {
    fn of(cluster: &Cluster) -> Self {
        let page = cluster.status()["agent"]["page"].as_str().unwrap().to_owned();
        let address = page.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        let token = fs::read_to_string(cluster.folder.0.join("api.token")).unwrap().trim().to_owned();
        Self { address, token }
    }

    /// The status and the body of an answer to a request with these lines in its head.
    fn raw(&self, first: &str, lines: &str, body: &str) -> (u16, String) {
        let mut wire = Wire::connect(self.address);
        let length = body.len();
        let answer = wire.ask(format!("{first} HTTP/1.1\r\n{lines}content-length: {length}\r\n\r\n{body}"));
        (answer.status(), answer.text())
    }

    /// With the token.
    fn ask(&self, first: &str, body: &Value) -> (u16, Value) {
        let lines = format!("host: {}\r\nauthorization: Bearer {}\r\n", self.address, self.token);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = self.raw(first, &lines, &body);
        (status, serde_json::from_str(&text).unwrap())
    }
}

#[test]
fn rest_is_for_those_who_may() {
    let cluster = up(&["--groups", "1", "--replicas", "0"]);
    let guest = Guest::of(&cluster);
    let host = format!("host: {}\r\n", guest.address);
    let token = format!("authorization: Bearer {}\r\n", guest.token);
    let wrong = "authorization: Bearer nonsense-nonsense\r\n";
    let mode = fs::metadata(cluster.folder.0.join("api.token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (first, lines, expected) in [
        ("GET /api/status", host.clone(), (200, "\"groups\"")),
        ("GET /", host.clone(), (200, "<!doctype html>")),
        ("GET /asset/cluster.js", host.clone(), (200, "\"use strict\"")),
        ("GET /api/status", "host: evil.example\r\n".to_owned(), (403, "by its address or as localhost")),
        ("GET /api/status", format!("{host}origin: http://evil.example\r\n"), (403, "a page of another site")),
        ("GET /api/status", format!("{host}{wrong}"), (401, "is not the token")),
        ("POST /api/rebalance", host.clone(), (401, "api.token")),
        ("GET /api/action/gc?keep=1", host.clone(), (401, "api.token")),
        (
            "POST /api/rebalance",
            format!("{host}{token}origin: http://evil.example\r\n"),
            (403, "a page of another site"),
        ),
        ("POST /api/rebalance", format!("{host}{token}origin: http://{}\r\n", guest.address), (200, "\"moves\":[]")),
        ("GET /api/nothing", host.clone(), (404, "/api/openapi.json lists")),
        ("PUT /api/rebalance", format!("{host}{token}"), (405, "is asked with POST, not with PUT")),
        ("GET /api/status", format!("{host}{host}"), (400, "host twice")),
        ("GET api", host.clone(), (400, "does not begin with /")),
        ("POST /api/rebalance?drain=x", format!("{host}{token}"), (400, "'drain' is a number")),
    ] {
        let (status, text) = guest.raw(first, &lines, "");
        assert!(status == expected.0 && text.contains(expected.1), "{first} {lines:?}: {status} {text}");
    }
    let (status, text) = guest.raw("POST /api/rebalance", &format!("{host}{token}"), &"x".repeat(70_000));
    assert!(status == 400 && text.contains("too long"), "{status} {text}");
    let (status, text) = guest.raw("POST /api/rebalance", &format!("{host}{token}"), "{\"drian\":1}");
    assert!(status == 400 && text.contains("'drian' is no parameter"), "{status} {text}");
    // It describes itself.
    let (_, described) = guest.ask("GET /api/openapi.json", &Value::Null);
    assert_eq!(described["openapi"], "3.1.0");
    assert!(described["paths"]["/api/groups/{group}/servers"]["post"]["summary"].is_string());
    // A plan changes nothing.
    let epoch = cluster.status()["epoch"].clone();
    let (status, plan) = guest.ask("POST /api/groups", &json!({ "plan": true }));
    assert!(status == 200 && plan["what"].as_str().unwrap().starts_with("group 2 is added"), "{plan}");
    assert_eq!(cluster.status()["epoch"], epoch);
    let link = cluster.done(&["page"]);
    assert_eq!(link.trim(), format!("http://{}/#token={}", guest.address, guest.token));
}

#[test]
fn rest_changes_the_cluster_in_words_of_reborndb_too() {
    let cluster = up(&["--groups", "1", "--replicas", "0"]);
    let guest = Guest::of(&cluster);
    let done = (200, json!({ "ret": 0, "msg": "OK" }));
    let port = cluster.address.port() + 50;
    let address = SocketAddr::new(cluster.address.ip(), port).to_string();
    // A store by itself, which then joins a group.
    let (status, store) = guest.ask(&format!("POST /api/start_store?addr={address}"), &Value::Null);
    assert!(status == 200 && store["addr"] == address.as_str(), "{store}");
    let procs = guest.ask("GET /api/procs", &Value::Null).1;
    assert!(procs.as_array().unwrap().iter().any(|one| one["id"] == store["id"]), "{procs}");
    assert_eq!(guest.ask("PUT /api/server_group/1/addServer", &json!({ "addr": address, "type": "slave" })), done);
    cluster.wait_well();
    let group = guest.ask("GET /api/server_group/1", &Value::Null).1;
    assert_eq!(group["servers"][1], json!({ "type": "slave", "group_id": 1, "addr": address }));
    let (status, refused) = guest.ask(&format!("DELETE /api/stop?id={address}"), &Value::Null);
    assert!(status == 409 && refused["error"].as_str().unwrap().contains("server remove 1"), "{refused}");
    assert_eq!(guest.ask("POST /api/server_group/1/promote", &json!({ "addr": address, "group_id": 1 })), done);
    wait_within(PATIENCE, "it is the master", || cluster.status()["groups"][0]["master"] == address.as_str());
    cluster.wait_well();
    // A group, slots to it, and back.
    assert_eq!(guest.ask("PUT /api/server_groups", &json!({ "id": 5 })), done);
    cluster.wait_well();
    assert_eq!(RedisClient::connect(cluster.address).text(&["SET", "b", "1"]), "OK");
    assert_eq!(guest.ask("POST /api/migrate", &json!({ "from": 3300, "to": 3300, "new_group": 5, "delay": 0 })), done);
    wait_within(PATIENCE, "the slot has moved", || {
        let slot = guest.ask("GET /api/slot/3300", &Value::Null).1;
        slot["group_id"] == 5 && slot["state"]["status"] == "online"
    });
    let keys = guest.ask("GET /api/redis/group/5/3300/slotinfo", &Value::Null).1;
    assert_eq!((&keys["keys"], &keys["slot_id"]), (&json!(1), &json!(3300)));
    assert_eq!(RedisClient::connect(cluster.address).text(&["GET", "b"]), "1");
    let (status, refused) = guest.ask("DELETE /api/server_group/5", &Value::Null);
    assert!(status == 409 && refused["error"].as_str().unwrap().contains("1 slots"), "{refused}");
    let (status, refused) = guest.ask("GET /api/redis/203.0.113.7:6379/stat", &Value::Null);
    assert!(status == 404, "{refused}");
    let stat = guest.ask(&format!("GET /api/redis/{address}/stat"), &Value::Null).1;
    assert_eq!(stat["role"], "master");
    let (status, refused) = guest.ask(&format!("POST /api/start_redis?addr={address}"), &Value::Null);
    assert!(status == 409, "{refused}");
    assert_eq!(guest.ask("GET /api/action/gc?keep=1", &Value::Null), done);
    assert_eq!(guest.ask("GET /api/actions", &Value::Null).1.as_array().unwrap().len(), 1);
}
