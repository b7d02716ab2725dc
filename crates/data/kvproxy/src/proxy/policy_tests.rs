//! Reads from replicas, breakers, databases and health, with servers that are scripted.

use super::{
    tests::{Scene, following},
    *,
};
use crate::{nutcracker, policy::ReadFrom};

/// A master with two replicas; the slot of "a" is 15495.
const GROUP: &str = "\
m 127.0.0.1:2@0 master - 0 0 1 connected 0-16383
r 127.0.0.1:3@0 slave m 0 0 1 connected
s 127.0.0.1:4@0 slave m 0 0 1 connected
";

fn replica(state: &str) -> String {
    format!("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:2\r\n${}\r\n{state}\r\n:7\r\n", state.len())
}

const MASTER: &str = "*3\r\n$6\r\nmaster\r\n:7\r\n*0\r\n";

/// The connection to the server at a port, as a replica or not.
fn link(scene: &Scene, port: u16, reads_replica: bool) -> usize {
    let pool = &scene.proxy.pools[0];
    let is_it = |address: &nutcracker::Address| address.to_string() == format!("127.0.0.1:{port}");
    let place = pool.config.servers.iter().position(|server| is_it(&server.address)).unwrap();
    pool.servers[place].links(LinkKind { reads_replica, ..LinkKind::default() })[0]
}

/// A scene whose servers have said their roles: the time until they did, in microseconds.
fn watched(policy: ReadFrom, roles: [(&str, u64); 3]) -> Scene {
    let mut scene = following(GROUP, policy, false);
    scene.wait(1);
    let all = [(2, false, roles[0]), (3, true, roles[1]), (4, true, roles[2])];
    let asked = scene.proxy.now_micros;
    for (port, reads_replica, (role, latency)) in all {
        let link = link(&scene, port, reads_replica);
        let said = scene.sent(link);
        let head = if reads_replica { "CLUSTER CONNECTION PROXY READONLY" } else { "CLUSTER CONNECTION PROXY" };
        assert_eq!(said, format!("{head} ROLE"));
        let head = if reads_replica { "+OK\r\n+OK\r\n" } else { "+OK\r\n" };
        scene.proxy.set_time(asked + latency, 0);
        scene.reply(link, &format!("{head}{role}"));
    }
    scene
}

/// Which of the servers a request goes to, by port.
fn goes_to(scene: &mut Scene, client: usize, words: &str) -> Vec<u16> {
    scene.ask(client, words);
    let asked = |(port, reads_replica): &(u16, bool)| {
        let link = link(scene, *port, *reads_replica);
        scene.proxy.links[link]
            .waiting
            .iter()
            .any(|waiting| matches!(waiting, Waiting::Answer { client: of, .. } if *of == client))
    };
    [(2, false), (3, true), (4, true)].iter().filter(|at| asked(at)).map(|(port, _)| *port).collect()
}

#[test]
fn reads_go_to_replicas_and_all_else_to_the_master() {
    let (master, connected) = ((MASTER, 100), replica("connected"));
    let roles = [master, (connected.as_str(), 100), (connected.as_str(), 100)];
    for (policy, words, ports) in [
        (ReadFrom::Master, "GET a", &[2][..]),
        (ReadFrom::PreferReplica, "GET a", &[3, 4]),
        (ReadFrom::PreferReplica, "MGET a b", &[3, 4]),
        (ReadFrom::PreferReplica, "SINTER a {a}b", &[3, 4]),
        (ReadFrom::PreferReplica, "EVAL_RO 1 1 a", &[3, 4]),
        (ReadFrom::PreferReplica, "EVAL 1 1 a", &[2]),
        (ReadFrom::PreferReplica, "SET a 1", &[2]),
        (ReadFrom::PreferReplica, "DEL a", &[2]),
        (ReadFrom::PreferReplica, "SORT a", &[2]),
        (ReadFrom::PreferReplica, "DBSIZE", &[2]),
        (ReadFrom::PreferReplica, "SCAN 0", &[2]),
    ] {
        let mut scene = if policy == ReadFrom::Master {
            following(&GROUP.replace("r 1", "x 1").replace("s 1", "y 1"), policy, false)
        } else {
            watched(policy, roles)
        };
        let clients = [scene.client(), scene.client()];
        let mut found: Vec<u16> = Vec::new();
        for client in clients {
            let to = if policy == ReadFrom::Master {
                scene.ask(client, words);
                vec![2; usize::from(!scene.proxy.links[link(&scene, 2, false)].waiting.is_empty())]
            } else {
                goes_to(&mut scene, client, words)
            };
            assert_eq!(to.len(), 1, "{words}: {to:?}");
            found.extend(to);
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, ports, "{words} with {policy}");
    }
}

#[test]
fn a_replica_that_does_not_follow_its_master_is_read_only_if_the_master_is_gone() {
    let (connected, parted) = (replica("connected"), replica("connect"));
    let roles = [(MASTER, 9), (connected.as_str(), 9), (parted.as_str(), 9)];
    let mut scene = watched(ReadFrom::PreferReplica, roles);
    for _ in 0..4 {
        let client = scene.client();
        assert_eq!(goes_to(&mut scene, client, "GET a"), [3]);
    }
    let roles = [(MASTER, 9), ("-LOADING Redis is loading\r\n", 9), (parted.as_str(), 9)];
    let mut scene = watched(ReadFrom::PreferReplica, roles);
    let client = scene.client();
    assert_eq!(goes_to(&mut scene, client, "GET a"), [2]);
    let master = link(&scene, 2, false);
    scene.proxy.link_failed(master, &LinkFailure::Other("Connection refused".into()));
    let other = scene.client();
    assert_eq!(goes_to(&mut scene, other, "GET a"), [4]);
}

#[test]
fn what_a_replica_does_not_answer_its_master_does() {
    let connected = replica("connected");
    let roles = [(MASTER, 9), (connected.as_str(), 9), ("-LOADING\r\n", 9)];
    for what in [
        "-LOADING Redis is loading\r\n",
        "-MASTERDOWN Link is down\r\n",
        "-MOVED 15495 127.0.0.1:2\r\n",
        "lost",
        "silent",
    ] {
        let mut scene = watched(ReadFrom::PreferReplica, roles);
        let client = scene.client();
        assert_eq!(goes_to(&mut scene, client, "GET a"), [3]);
        let (replica, master) = (link(&scene, 3, true), link(&scene, 2, false));
        scene.sent(replica);
        match what {
            "lost" => scene.proxy.link_failed(replica, &LinkFailure::Eof),
            // It is asked for its role and says nothing.
            "silent" => (0..3).for_each(|_| scene.wait(1_000)),
            refusal => scene.reply(replica, refusal),
        }
        scene.settle();
        assert!(scene.sent(master).ends_with("GET a"), "{what}");
        if what == "silent" {
            scene.reply(master, MASTER);
        }
        scene.reply(master, "$1\r\n7\r\n");
        assert_eq!(scene.said(client), "$1\r\n7\r\n", "{what}");
        // It is left alone until it says again that it follows.
        assert_eq!(goes_to(&mut scene, client, "GET a"), [2], "{what}");
    }
}

#[test]
fn the_nearest_server_is_read_from() {
    let connected = replica("connected");
    for (latencies, ports) in
        [([100, 2_000, 5_000], &[2][..]), ([3_000, 200, 5_000], &[3]), ([3_000, 200, 300], &[3, 4])]
    {
        let roles = [(MASTER, latencies[0]), (connected.as_str(), latencies[1]), (connected.as_str(), latencies[2])];
        let mut scene = watched(ReadFrom::Nearest, roles);
        let mut found: Vec<u16> = Vec::new();
        for _ in 0..2 {
            let client = scene.client();
            found.extend(goes_to(&mut scene, client, "GET a"));
        }
        found.sort_unstable();
        assert_eq!(found.first(), ports.first(), "{latencies:?}");
        found.dedup();
        assert_eq!(found, ports, "{latencies:?}");
    }
}

#[test]
fn a_replica_of_sentinels_needs_no_word_to_be_read_from() {
    let mut scene = following(GROUP, ReadFrom::PreferReplica, true);
    scene.wait(1);
    let replica = link(&scene, 3, true);
    assert_eq!(scene.sent(replica), "ROLE");
}

/// A server that refuses connections so many times.
fn fail(scene: &mut Scene, client: usize, key: &str, times: usize) {
    for _ in 0..times {
        scene.ask(client, &format!("GET {key}"));
        scene.proxy.link_failed(0, &LinkFailure::Other("Connection refused".into()));
        scene.settle();
    }
}

#[test]
fn requests_for_a_server_that_fails_again_and_again_fail_at_once_until_it_answers() {
    let mut scene = Scene::new("");
    let (client, a, b) = (scene.client(), scene.key(0), scene.key(1));
    fail(&mut scene, client, &a, 5);
    scene.said(client);
    assert!(scene.proxy.work.messages.last().unwrap().contains("has failed 5 times in a row (Connection refused)"));
    assert_eq!(scene.proxy.health().reasons, Vec::<String>::new());
    assert_eq!(scene.proxy.health().degraded, ["pool 'pool': server 127.0.0.1:2 does not answer"]);
    scene.ask(client, &format!("GET {a}"));
    let said = scene.said(client);
    assert!(
        said.starts_with("-ERR server 127.0.0.1:2 has failed 5 times in a row (Connection refused): its keys"),
        "{said}"
    );
    // Those of the other server are served.
    scene.ask(client, &format!("GET {b}"));
    scene.reply(1, "$1\r\n7\r\n");
    assert_eq!(scene.said(client), "$1\r\n7\r\n");
    scene.ask(client, &format!("BLPOP {a} 1"));
    assert!(scene.said(client).starts_with("-ERR server 127.0.0.1:2 has failed"));
    let said_before = scene.proxy.work.messages.len();
    // It is tried; that fails again, and nobody is told a second time.
    scene.wait(500);
    assert!(scene.sent(0).ends_with("PING"));
    scene.proxy.link_failed(0, &LinkFailure::Other("Connection refused".into()));
    scene.wait(500);
    scene.reply(0, "-LOADING Redis is loading the dataset in memory\r\n");
    scene.ask(client, &format!("GET {a}"));
    assert!(scene.said(client).starts_with("-ERR server"));
    assert_eq!(scene.proxy.work.messages.len(), said_before);
    scene.wait(500);
    scene.reply(0, "+PONG\r\n");
    assert!(
        scene.proxy.work.messages.last().unwrap().ends_with("server 127.0.0.1:2 answers: its requests are sent again")
    );
    scene.ask(client, &format!("GET {a}"));
    scene.reply(0, "$1\r\n8\r\n");
    assert_eq!(scene.said(client), "$1\r\n8\r\n");
    assert_eq!(scene.proxy.pools[0].servers[0].breaker.trips, 1);
}

#[test]
fn each_request_without_an_answer_in_time_is_a_failure() {
    let mut scene = Scene::new("  timeout: 100\n");
    let (key, clients) = (scene.key(0), (0..5).map(|_| scene.client()).collect::<Vec<_>>());
    for client in &clients {
        scene.ask(*client, &format!("GET {key}"));
    }
    scene.wait(101);
    assert!(scene.proxy.pools[0].servers[0].breaker.is_open());
    assert!(scene.proxy.health().reasons.is_empty());
}

#[test]
fn a_master_that_may_be_replaced_is_waited_for_before_its_requests_fail_at_once() {
    let mut scene = following(GROUP, ReadFrom::Master, false);
    let client = scene.client();
    let lose = |scene: &mut Scene| {
        let master = link(scene, 2, false);
        scene.proxy.link_failed(master, &LinkFailure::Other("Connection refused".into()));
        scene.proxy.pools[0].servers[0].breaker.is_open()
    };
    scene.ask(client, "GET a");
    for at in 0..500 {
        assert!(!lose(&mut scene), "after {at} times 10 ms");
        scene.wait(10);
    }
    assert!(scene.said(client).starts_with("-ERR Connection refused"));
    // Nobody has taken its place for as long as requests are tried again.
    scene.ask(client, "GET a");
    assert!(lose(&mut scene));
    scene.ask(client, "GET a");
    scene.wait(20);
    let said = scene.said(client);
    assert_eq!(said.matches("-ERR ").count(), 2, "{said}");
    assert_eq!(scene.proxy.health().reasons, ["pool 'pool': no server answers"]);
}

#[test]
fn no_more_requests_wait_for_a_server_than_may() {
    let mut scene = Scene::new("");
    scene.proxy.pools[0].config.limits.waiting_max = 3;
    let (client, a, b) = (scene.client(), scene.key(0), scene.key(1));
    (0..4).for_each(|_| scene.ask(client, &format!("GET {a}")));
    scene.ask(client, &format!("GET {b}"));
    scene.reply(1, ":9\r\n");
    scene.reply(0, ":1\r\n:2\r\n:3\r\n");
    let said = scene.said(client);
    assert!(said.starts_with(":1\r\n:2\r\n:3\r\n-ERR server 127.0.0.1:2 is too slow: 3 requests wait"), "{said}");
    assert!(said.ends_with(":9\r\n"));
}

#[test]
fn requests_that_are_kept_for_being_tried_again_are_bounded() {
    let mut scene = following(GROUP, ReadFrom::Master, false);
    scene.proxy.kept_max = 1_000;
    let (client, value) = (scene.client(), "x".repeat(600));
    let master = link(&scene, 2, false);
    (0..9).for_each(|_| scene.ask(client, &format!("SET a {value}")));
    scene.sent(master);
    assert!(scene.proxy.links[master].kept_bytes < 2_000, "{}", scene.proxy.links[master].kept_bytes);
    assert!(scene.proxy.clients[client].is_paused());
    // The first reply is that to the proxy's own question.
    for _ in 0..10 {
        scene.reply(master, "+OK\r\n");
        scene.sent(master);
    }
    assert_eq!(scene.said(client), "+OK\r\n".repeat(9));
    assert_eq!(scene.proxy.links[master].kept_bytes, 0);
}

#[test]
fn a_client_chooses_a_database_where_all_keys_are_on_one_server() {
    let mut scene = following(GROUP, ReadFrom::Master, true);
    let (client, other) = (scene.client(), scene.client());
    scene.ask(client, "SELECT 3");
    scene.ask(client, "SET a 1");
    assert_eq!(scene.sent(0), "SELECT 3 SELECT 0");
    scene.reply(0, "+OK\r\n+OK\r\n");
    assert_eq!(scene.said(client), "+OK\r\n");
    let kind = LinkKind { db: 3, ..LinkKind::default() };
    let mine = scene.proxy.pools[0].servers[0].links(kind)[0];
    assert_eq!(scene.sent(mine), "SELECT 3 SET a 1");
    scene.ask(other, "SET a 2");
    assert_eq!(scene.sent(0), "SET a 2");
    scene.reply(mine, "+OK\r\n+OK\r\n");
    assert_eq!(scene.said(client), "+OK\r\n");
    // One that the server has not is not chosen.
    scene.ask(client, "SELECT 99");
    assert_eq!(scene.sent(mine), "SELECT 99 SELECT 3");
    scene.reply(mine, "-ERR DB index is out of range\r\n+OK\r\n");
    scene.ask(client, "GET a");
    assert_eq!(scene.sent(mine), "GET a");
    scene.ask(client, "RESET");
    scene.reply(mine, "$1\r\n1\r\n");
    scene.ask(client, "GET a");
    assert_eq!(scene.sent(0), "GET a");
    assert!(scene.said(client).ends_with("$1\r\n1\r\n+RESET\r\n"));
}

#[test]
fn databases_are_refused_where_keys_are_on_several_servers() {
    let mut cluster = following(GROUP, ReadFrom::Master, false);
    let client = cluster.client();
    cluster.ask(client, "SELECT 1");
    cluster.ask(client, "SELECT 0");
    assert_eq!(cluster.said(client), "-ERR SELECT is not allowed in cluster mode\r\n+OK\r\n");
    let mut scene = Scene::new("");
    let client = scene.client();
    scene.ask(client, "SELECT 1");
    assert!(scene.said(client).starts_with("-ERR DB index is out of range: a pool of several servers"));
}

#[test]
fn a_proxy_that_knows_no_slots_says_so() {
    let mut scene = following("", ReadFrom::Master, false);
    assert_eq!(scene.proxy.health().reasons, ["pool 'pool': which server has which slots is not known"]);
    let part = commands::cluster::Topology::parse("m 127.0.0.1:2@0 master - 0 0 1 connected 0-16373\n").unwrap();
    scene.proxy.set_topology(0, &part);
    assert_eq!(scene.proxy.health().reasons, ["pool 'pool': 10 of 16384 slots have no server"]);
    let whole = commands::cluster::Topology::parse(GROUP).unwrap();
    scene.proxy.set_topology(0, &whole);
    assert_eq!(scene.proxy.health(), PoolHealth::default());
}
