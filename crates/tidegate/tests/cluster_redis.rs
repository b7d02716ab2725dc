//! Groups of real Redis servers in a cluster: slots move to them and from them, their masters die and are promoted, and one that was
//! there before is taken over with what it has. Debian's redis-server, or what `REDIS_SERVER` names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt as _, sync::Arc, thread, time::Duration};

use rustix::process::Signal;
use store::slotmove::{Move, Phase};
use support::{
    Redis, RedisClient, Store, Wire,
    cluster::{Cluster, PATIENCE, Writer, nothing_is_lost},
    signal_process, wait_within,
};

/// No master is given up because the machine is busy.
const PATIENT: [&str; 2] = ["--failover-after", "20000"];
/// Tags of keys, and the slots that they are: 3300, 15495.
const TAGS: [&str; 2] = ["b", "a"];

fn redis_program() -> String {
    std::env::var("REDIS_SERVER").unwrap_or_else(|_| "/usr/bin/redis-server".into())
}

fn up(arguments: &[&str]) -> Cluster {
    Cluster::up(&[arguments, &["--redis-server", &redis_program()]].concat())
}

fn add_redis_group(cluster: &Cluster) {
    cluster.done(&["server", "add-group", "--program", "redis-server", "--replicas", "1", "--ack", "1"]);
    cluster.wait_well();
}

fn replica_of(cluster: &Cluster, group: usize) -> String {
    let status = cluster.status();
    let servers = status["groups"][group]["servers"].as_array().unwrap();
    servers.iter().find(|server| server["role"] == "replica").unwrap()["address"].as_str().unwrap().to_owned()
}

fn master_of(cluster: &Cluster, group: usize) -> String {
    cluster.status()["groups"][group]["master"].as_str().unwrap().to_owned()
}

fn at(address: &str) -> RedisClient {
    RedisClient::connect(address.parse().unwrap())
}

/// The writers end: nothing failed, nothing is lost.
fn all_is_well(cluster: &Cluster, writers: Vec<(&'static str, Writer)>) {
    for (tag, writer) in writers {
        let (done, errors) = writer.end();
        assert_eq!(errors, Vec::<String>::new(), "{}", cluster.log());
        println!("{}", cluster.log());
        nothing_is_lost(cluster.address, tag, &done);
    }
}

#[test]
fn slots_move_to_redis_and_back_and_its_master_is_promoted_while_writes_go_on() {
    let cluster = up(&["--groups", "1", "--replicas", "0", PATIENT[0], PATIENT[1]]);
    add_redis_group(&cluster);
    assert_eq!(cluster.status()["groups"][1]["kind"], "redis");
    let store = cluster.master(0).0;
    cluster.refused(&["server", "add", "1", &replica_of(&cluster, 1), "--redis"], "is in group 2");
    let writers: Vec<_> = TAGS.iter().map(|tag| (*tag, Writer::start(cluster.address, tag))).collect();
    let more = || writers.iter().for_each(|(_, writer)| writer.wait_more(30));
    more();
    // Somebody waits for a key, and somebody has watched one, while their slots go back and forth.
    let mut waiting = RedisClient::connect(cluster.address);
    waiting.send_command(&["BLPOP", "{b}:queue", "0"]);
    cluster.done(&["slot", "migrate", "0", "16383", "2", "--yes"]);
    more();
    let redis = cluster.master(1).0;
    assert_eq!(at(&redis).text(&["EXISTS", "{b}0", "{a}0"]), "2");
    // Clients of Redis Cluster are sent to a Redis by a proxy: it would serve a slot also when that is another one's.
    let moved = at(&store).text(&["GET", "{b}0"]);
    assert_eq!(moved, format!("MOVED 3300 {}", cluster.address));
    cluster.done(&["server", "promote", "2", &replica_of(&cluster, 1), "--yes"]);
    more();
    cluster.wait_well();
    assert_eq!(replica_of(&cluster, 1), redis, "the former master is a replica now");
    let mut watching = RedisClient::connect(cluster.address);
    assert_eq!(watching.text(&["WATCH", "{b}watched"]), "OK");
    cluster.done(&["slot", "migrate", "0", "8191", "1", "--yes"]);
    more();
    assert_eq!(watching.text(&["MULTI"]), "OK");
    assert_eq!(watching.text(&["SET", "{b}watched", "1"]), "QUEUED");
    let ended = watching.command(&["EXEC"]);
    assert!(ended.as_slice().is_none(), "what was watched has another server, so nothing is executed: {ended:?}");
    // What has left is removed there, and the replica has that too.
    for address in [cluster.master(1).0, replica_of(&cluster, 1)] {
        wait_within(PATIENCE, "nothing is left", || at(&address).text(&["EXISTS", "{b}0"]) == "0");
    }
    assert_eq!(RedisClient::connect(cluster.address).text(&["RPUSH", "{b}:queue", "x"]), "1");
    let found = waiting.reply();
    assert_eq!(
        found.as_ref().and_then(|found| found.as_slice()).map(<[_]>::len),
        Some(2),
        "who waited has it: {found:?}"
    );
    cluster.refused(&["backup", "--to", "/nowhere/at-all"], "group 2 is of Redis servers");
    all_is_well(&cluster, writers);
}

#[test]
fn a_redis_master_that_is_killed_is_replaced_and_comes_back_as_a_replica() {
    let cluster = up(&["--groups", "1", "--replicas", "0"]);
    add_redis_group(&cluster);
    cluster.done(&["slot", "migrate", "0", "16383", "2", "--yes"]);
    let mut client = RedisClient::connect(cluster.address);
    for number in 0..200 {
        assert_eq!(client.text(&["SET", &format!("key:{number}"), "1"]), "OK");
    }
    assert_eq!(at(&cluster.master(1).0).text(&["WAIT", "1", "10000"]), "1");
    let writer = Writer::start(cluster.address, "b");
    writer.wait_more(30);
    for signal in [Signal::KILL, Signal::STOP] {
        let (former, pid) = cluster.master(1);
        signal_process(pid, signal);
        wait_within(PATIENCE, "another master", || master_of(&cluster, 1) != former);
        writer.wait_more(30);
        if signal == Signal::STOP {
            signal_process(pid, Signal::CONT);
        }
        cluster.wait_well();
        assert_eq!(replica_of(&cluster, 1), former);
    }
    writer.end();
    // What had reached the replica is there: one that is started again does not empty it.
    assert_eq!(client.text(&["EXISTS", "key:0", "key:99", "key:199"]), "3");
    let before = cluster.pids();
    // The agent dies, and the next one finds all of them.
    signal_process(cluster.agent.id(), Signal::KILL);
    let mut cluster = cluster;
    cluster.agent.wait().unwrap();
    cluster.agent = Cluster::spawn(cluster.address, &cluster.folder, &["--redis-server", &redis_program()]);
    cluster.wait_well();
    assert_eq!(cluster.pids(), before, "{}", cluster.log());
    assert_eq!(client.text(&["EXISTS", "key:0", "key:99", "key:199"]), "3");
}

/// A Redis with some of each kind, and what it says of them.
fn filled(redis: &Redis, password: &str) -> RedisClient {
    let mut client = redis.client();
    assert_eq!(client.text(&["AUTH", password]), "OK");
    for number in 0..300 {
        client.text(&["SET", &format!("key:{number}"), &number.to_string()]);
    }
    client.text(&["HSET", "hash", "field", "value"]);
    client.text(&["RPUSH", "list", "1", "2", "3"]);
    client.text(&["ZADD", "sorted", "1.5", "member"]);
    client.text(&["XADD", "stream", "1-1", "field", "value"]);
    client.text(&["SET", "passes", "1", "PX", "100000000"]);
    client
}

#[test]
fn bring_what_you_have_a_running_redis_becomes_a_cluster_and_moves_to_stores() {
    let redis = Redis::start(&["--requirepass", "secret-word"]);
    let mut direct = filled(&redis, "secret-word");
    let password = redis.folder.file("password", "secret-word\n").display().to_string();
    let place = redis.address.to_string();
    let cluster = Cluster::up(&[
        "--redis",
        &place,
        "--password-file",
        &password,
        "--groups",
        "1",
        "--replicas",
        "0",
        PATIENT[0],
        PATIENT[1],
    ]);
    let mut client = RedisClient::connect(cluster.address);
    assert_eq!(client.text(&["DBSIZE"]), "305");
    assert_eq!(client.text(&["GET", "key:7"]), "7");
    let secrets = cluster.folder.0.join("topology.secrets");
    assert_eq!(fs::metadata(secrets).unwrap().permissions().mode() & 0o777, 0o600);
    let writers: Vec<_> = TAGS.iter().map(|tag| (*tag, Writer::start(cluster.address, tag))).collect();
    writers.iter().for_each(|(_, writer)| writer.wait_more(20));
    // Servers that do not fit.
    let (stranger, emptier) = (Redis::start(&[]), Redis::start(&[]));
    stranger.client().text(&["SET", "x", "1"]);
    let stranger_place = stranger.address.to_string();
    cluster.refused(
        &["server", "add-group", "--redis", &stranger_place],
        "1 keys, and their slots belong to other groups",
    );
    cluster.refused(&["server", "add", "1", &stranger_place, "--redis"], "has 1 keys, which it would lose");
    cluster.refused(
        &["server", "add", "2", &emptier.address.to_string(), "--redis"],
        "is a redis, and the servers of group 2",
    );
    cluster.refused(&["server", "add-group", "--redis", &place], "is in group 1");
    stranger.client().text(&["FLUSHALL"]);
    stranger.client().command(&["SELECT", "3"]);
    let mut third = stranger.client();
    assert_eq!(third.text(&["SELECT", "3"]), "OK");
    third.text(&["SET", "x", "1"]);
    cluster.refused(&["server", "add-group", "--redis", &stranger_place], "it has keys in db3");
    let store = Store::start(&[]);
    cluster.refused(&["server", "add-group", "--redis", &store.address.to_string()], "it is a Tidegate store");
    let nobody = support::free_address().to_string();
    cluster.refused(&["server", "add-group", "--redis", &nobody], "refused");
    let clustered = Redis::start(&["--cluster-enabled", "yes"]);
    cluster.refused(&["server", "add-group", "--redis", &clustered.address.to_string()], "tidegate proxy --cluster");
    // All of it moves to the stores while clients write, and the Redis is free.
    cluster.done(&["slot", "rebalance", "--drain", "1", "--yes"]);
    writers.iter().for_each(|(_, writer)| writer.wait_more(20));
    all_is_well(&cluster, writers);
    cluster.done(&["server", "remove-group", "1", "--yes"]);
    assert_eq!(direct.text(&["DBSIZE"]), "0", "it runs on, and has nothing that is another one's");
    for number in 0..300 {
        assert_eq!(client.text(&["GET", &format!("key:{number}")]), number.to_string());
    }
    assert_eq!(client.text(&["HGET", "hash", "field"]), "value");
    assert_eq!(client.command(&["LRANGE", "list", "0", "-1"]).as_slice().unwrap().len(), 3);
    assert_eq!(client.text(&["ZSCORE", "sorted", "member"]), "1.5");
    assert_eq!(client.text(&["XLEN", "stream"]), "1");
    assert!(client.text(&["PTTL", "passes"]).parse::<u64>().unwrap() > 90_000_000);
}

#[test]
fn redis_servers_of_a_cluster_with_a_password_have_it_too_and_others_keep_theirs() {
    let folder = Arc::new(support::Folder::new());
    let password = folder.file("password", "of-the-cluster\n").display().to_string();
    let program = redis_program();
    let words = ["--groups", "1", "--replicas", "0", "--requirepass-file", &password, "--redis-server", &program];
    let cluster = Cluster::up_at(support::cluster::free_ports(), folder, &[&words[..], &PATIENT[..]].concat());
    add_redis_group(&cluster);
    let mut client = RedisClient::connect(cluster.address);
    assert_eq!(client.text(&["AUTH", "of-the-cluster"]), "OK");
    assert_eq!(client.text(&["SET", "{b}1", "x"]), "OK");
    cluster.done(&["slot", "migrate", "0", "16383", "2", "--yes"]);
    assert_eq!(client.text(&["GET", "{b}1"]), "x");
    let replica = replica_of(&cluster, 1);
    assert!(at(&replica).text(&["GET", "{b}1"]).starts_with("NOAUTH"), "nobody gets in without it");
    cluster.done(&["server", "promote", "2", &replica, "--yes"]);
    assert_eq!(client.text(&["SET", "{b}2", "y"]), "OK");
    cluster.wait_well();
    // A running one with another password, and one without any, in a group.
    let (other, open) = (Redis::start(&["--requirepass", "its-own"]), Redis::start(&[]));
    let of_other = other.folder.file("password", "its-own\n").display().to_string();
    let (other, open) = (other.address.to_string(), open.address.to_string());
    cluster.done(&["server", "add-group", "--redis", &other, "--password-file", &of_other]);
    cluster.done(&["server", "add", "3", &open, "--redis"]);
    cluster.wait_well();
    cluster.done(&["slot", "migrate", "0", "16383", "3", "--yes"]);
    assert_eq!(client.command(&["MGET", "{b}1", "{b}2"]).as_slice().unwrap()[1].as_bytes(), Some(b"y".as_slice()));
    assert_eq!(client.text(&["SET", "{b}3", "z"]), "OK");
    wait_within(PATIENCE, "its replica has it too", || at(&open).text(&["GET", "{b}3"]) == "z");
}

/// Sends a request with the token, and gives what came.
fn rest(cluster: &Cluster, method: &str, path: &str) -> String {
    let site = cluster.status()["agent"]["page"].as_str().unwrap().to_owned();
    let address = site.trim_start_matches("http://").trim_end_matches('/');
    let token = fs::read_to_string(cluster.folder.0.join("api.token")).unwrap();
    let head = format!("host: {address}\r\nauthorization: Bearer {}\r\ncontent-length: 0\r\n", token.trim());
    Wire::connect(address.parse().unwrap()).ask(format!("{method} {path} HTTP/1.1\r\n{head}\r\n")).text()
}

#[test]
fn a_redis_is_started_by_itself_and_stopped_in_words_of_reborndb() {
    let cluster = up(&["--groups", "1", "--replicas", "0", PATIENT[0], PATIENT[1]]);
    let address: SocketAddr = (cluster.address.ip(), cluster.address.port() + 40).into();
    let said = rest(&cluster, "POST", &format!("/api/start_redis?addr={address}"));
    assert!(said.contains("\"type\":\"redis\""), "{said}");
    wait_within(PATIENCE, "it listens", || RedisClient::connect_if_listens(address));
    let kept = RedisClient::connect(address).command(&["CONFIG", "GET", "appendonly"]);
    assert_eq!(kept.as_slice().unwrap()[1].as_bytes(), Some(b"yes".as_slice()));
    cluster.refused(&["server", "add", "1", &address.to_string()], "is a redis, and the servers of group 1");
    assert!(rest(&cluster, "GET", "/api/procs").contains(&address.to_string()));
    rest(&cluster, "DELETE", &format!("/api/stop?id={address}"));
    wait_within(PATIENCE, "it has ended", || !support::listens(address));
    assert!(!rest(&cluster, "GET", "/api/procs").contains(&address.to_string()));
}

#[test]
fn keys_whose_times_change_while_their_slots_move_to_a_redis_live_as_long_as_they_are_to() {
    let (redis, store) = (Redis::start(&[]), Store::start(&[]));
    for (from, mut source) in [(redis.address, redis.client()), (store.address, store.client())] {
        lives_are_kept(from, &mut source);
    }
}

/// Times of keys change at the source while a copy of all goes to a Redis, slowly, and while it follows.
fn lives_are_kept(from: SocketAddr, source: &mut RedisClient) {
    const SHORT_MS: &str = "1500";
    let target = Redis::start(&[]);
    let mut there = target.client();
    for number in 0..200 {
        source.text(&["SET", &format!("filler:{number}"), &"x".repeat(1_000)]);
    }
    let each = |name: &str| (0..10).map(|number| format!("{name}:{number}")).collect::<Vec<_>>();
    for key in ["prolonged", "kept", "renamed", "ended"].iter().flat_map(|name| each(name)) {
        source.text(&["SET", &key, "value", "PX", SHORT_MS]);
    }
    let mut task = Move::between(from, target.address, (0, 16_383));
    task.target_is_plain = true;
    let mover = store::slotmove::start(task).unwrap();
    mover.set_rate(Some(60_000));
    wait_within(PATIENCE, "the copy begins", || mover.progress().bytes > 0);
    for key in each("prolonged") {
        assert_eq!(source.text(&["PEXPIRE", &key, "100000"]), "1");
    }
    for key in each("kept") {
        assert_eq!(source.text(&["PERSIST", &key]), "1");
    }
    for key in each("renamed") {
        assert_eq!(source.text(&["RENAME", &key, &format!("{key}:new")]), "OK");
        assert_eq!(source.text(&["PEXPIRE", &format!("{key}:new"), "100000"]), "1");
    }
    wait_within(PATIENCE, "the mover follows", || match mover.progress().phase {
        Phase::Failed(reason) => panic!("{reason}"),
        phase => phase == Phase::Following,
    });
    source.text(&["SET", "soon", "value", "PX", "30000"]);
    source.text(&["SET", "later", "value", "EX", "100"]);
    source.text(&["SET", "moment", "value", "PX", "1"]);
    for key in each("ended").iter().chain([&"moment".to_owned()]) {
        wait_within(PATIENCE, "it expires", || source.text(&["EXISTS", key]) == "0");
        wait_within(PATIENCE, "it is gone there too", || there.text(&["EXISTS", key]) == "0");
    }
    let mut lives_for = |key: &str| there.text(&["PTTL", key]).parse::<i64>().unwrap();
    wait_within(PATIENCE, "the key arrives", || lives_for("soon") > 30_000);
    assert!(mover.progress().lacks_times);
    let pause = || {
        mover.set_paused(true);
        wait_within(PATIENCE, "the keys have their times", || !mover.progress().lacks_times);
    };
    pause();
    for key in each("prolonged").into_iter().chain(each("renamed").iter().map(|key| format!("{key}:new"))) {
        assert!((1..=100_000).contains(&lives_for(&key)), "{key} {}", lives_for(&key));
    }
    for key in each("kept") {
        assert_eq!(lives_for(&key), -1, "{key}");
    }
    assert!((1..=30_000).contains(&lives_for("soon")) && (1..=100_000).contains(&lives_for("later")));
    // The slots do not switch after all, and then they do.
    mover.set_paused(false);
    wait_within(PATIENCE, "the key does not expire by itself", || lives_for("soon") > 30_000);
    source.text(&["PEXPIRE", "soon", "20000"]);
    source.text(&["SET", "last", "value"]);
    let mut there = target.client();
    wait_within(PATIENCE, "all is there", || there.text(&["EXISTS", "last"]) == "1");
    pause();
    assert!((1..=20_000).contains(&lives_for("soon")));
    mover.stop();
}

#[test]
fn a_copy_to_a_redis_ends_the_connections_of_those_before_it_and_no_others() {
    let (source, target) = (Redis::start(&[]), Redis::start(&[]));
    let mut client = source.client();
    for number in 0..400 {
        client.text(&["SET", &format!("key:{number}"), &"x".repeat(1_000)]);
    }
    let begin = |slots: (u16, u16), term: u64, rate: Option<u64>| {
        let mut task = Move::between(source.address, target.address, slots);
        (task.target_is_plain, task.term) = (true, Some(term));
        let mover = store::slotmove::start(task).unwrap();
        mover.set_rate(rate);
        wait_within(PATIENCE, "the copy begins", || mover.progress().bytes > 0 || failure(&mover).is_some());
        mover
    };
    fn failure(mover: &store::slotmove::Mover) -> Option<String> {
        if let Phase::Failed(reason) = mover.progress().phase { Some(reason) } else { None }
    }
    const SLOW: Option<u64> = Some(2_000);
    let (former, other) = (begin((0, 8_191), 5, SLOW), begin((8_192, 16_383), 5, SLOW));
    wait_within(PATIENCE, "both have copied something", || former.progress().keys > 1 && other.progress().keys > 1);
    let late = begin((100, 200), 4, None);
    wait_within(PATIENCE, "a leader of the past is refused", || failure(&late).is_some());
    assert!(failure(&late).unwrap().contains("slots 0-8191 by a later leader"), "{:?}", failure(&late));
    let next = begin((0, 8_191), 6, None);
    wait_within(PATIENCE, "the former one has ended", || failure(&former).is_some());
    wait_within(PATIENCE, "the next one follows", || next.progress().phase == Phase::Following);
    assert_eq!(failure(&other), None);
    client.text(&["SET", "{b}last", "1"]);
    wait_within(PATIENCE, "it has all", || target.client().text(&["EXISTS", "{b}last"]) == "1");
    let of_former = store::slotmove::Filter::new(&[(0, 8_191)]);
    for number in 0..400 {
        let key = format!("key:{number}");
        let has = target.client().text(&["EXISTS", &key]) == "1";
        assert!(has || !of_former.has(key.as_bytes()), "{key}");
    }
    [former, other, late, next].into_iter().for_each(store::slotmove::Mover::stop);
}

#[test]
#[ignore = "long: make test-redis-groups"]
fn a_proxy_that_is_stopped_is_waited_out_and_sends_nothing_late() {
    let cluster = up(&["--groups", "1", "--replicas", "0"]);
    add_redis_group(&cluster);
    cluster.done(&["slot", "migrate", "0", "16383", "2", "--yes"]);
    cluster.done(&["proxy", "add", "--yes"]);
    cluster.wait_well();
    let proxy = cluster.status()["proxies"][1].clone();
    let (second, pid) = (proxy["address"].as_str().unwrap().parse().unwrap(), proxy["pid"].as_u64().unwrap() as u32);
    for group in ["1", "2", "1", "2"] {
        let (writer, stopped) = (Writer::start(cluster.address, "b"), Writer::start(second, "a"));
        let go_on = || [&writer, &stopped].into_iter().for_each(|writer| writer.wait_more(20));
        go_on();
        signal_process(pid, Signal::STOP);
        cluster.done(&["slot", "migrate", "0", "16383", group, "--yes"]);
        signal_process(pid, Signal::CONT);
        go_on();
        // What was under way there when it was stopped may have been done, or its client has waited long enough.
        let (done, errors) = stopped.end();
        let is_known = |error: &String| {
            error.ends_with("whether the command was done is not known") || error == "the connection was lost"
        };
        assert!(errors.iter().all(is_known), "{errors:?} {}", cluster.log());
        nothing_is_lost(cluster.address, "a", &done);
        all_is_well(&cluster, vec![("b", writer)]);
    }
}

#[test]
#[ignore = "long: make test-redis-groups"]
fn masters_of_redis_groups_die_again_and_again() {
    let cluster = up(&["--groups", "1", "--replicas", "0"]);
    add_redis_group(&cluster);
    cluster.done(&["slot", "migrate", "0", "16383", "2", "--yes"]);
    let (mut written, mut lost) = (0, 0);
    for round in 0..20 {
        let writer = Writer::start(cluster.address, if round % 2 == 0 { "even" } else { "odd" });
        writer.wait_more(50);
        let (former, pid) = cluster.master(1);
        let signal = if round % 3 == 0 { Signal::STOP } else { Signal::KILL };
        signal_process(pid, signal);
        wait_within(PATIENCE, "another master", || master_of(&cluster, 1) != former);
        writer.wait_more(50);
        if signal == Signal::STOP {
            signal_process(pid, Signal::CONT);
        }
        let (done, _) = writer.end();
        let mut client = RedisClient::connect(cluster.address);
        let tag = if round % 2 == 0 { "even" } else { "odd" };
        written += done.len();
        lost += done
            .keys()
            .filter(|number| client.text(&["GET", &format!("{{{tag}}}{number}")]) != number.to_string())
            .count();
        cluster.wait_well();
        thread::sleep(Duration::from_millis(100));
    }
    println!("{written} writes were answered, {lost} of them are lost");
    assert!(lost * 100 < written, "{lost} of {written} writes are lost: more than were under way");
}
