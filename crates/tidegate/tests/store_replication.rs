//! Replication: Debian's redis-server as the replica of a store and as its master, and stores among themselves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use resp::Value;
use support::{
    Folder, LONG, Redis, RedisClient, ScriptedMaster, Store, assert_same, field, follow, free_address, wait_for_link,
    wait_within,
};

fn debug() -> Vec<&'static str> {
    let mut words = vec!["--enable-debug-command", "yes"];
    if Redis::is_old() {
        words.extend(["--replica-rdb-version", "9"]);
    }
    words
}

fn write_some(client: &mut RedisClient, name: &str) {
    for db in ["0", "3"] {
        client.text(&["SELECT", db]);
        for number in 0..300 {
            let (number, word) = (number.to_string(), format!("{name}-{number}"));
            client.command(&["SET", &word, &number]);
            client.command(&["RPUSH", "list", &word]);
            client.command(&["SADD", "set", &word]);
            client.command(&["HSET", "hash", &word, &number]);
            client.command(&["ZADD", "sorted", &number, &word]);
            client.command(&["XADD", "stream", "*", "field", &word]);
        }
        client.command(&["SET", &format!("{name}-expires"), "1", "EX", "1000"]);
        client.command(&["MULTI"]);
        client.command(&["INCR", "counter"]);
        client.command(&["LPOP", "list"]);
        client.command(&["EXEC"]);
        client.command(&["EVAL", "redis.call('INCR', KEYS[1]) redis.call('SPOP', KEYS[2])", "2", "counter", "set"]);
    }
    client.text(&["SELECT", "0"]);
}

fn function(client: &mut RedisClient) {
    let code = "#!lua name=lib\nredis.register_function{function_name='seven', \
                callback=function() return 7 end, flags={'no-writes'}}";
    client.command(&["FUNCTION", "LOAD", "REPLACE", code]);
}

#[test]
fn a_store_follows_redis() {
    let redis = Redis::start(&[]);
    let mut master = redis.client();
    write_some(&mut master, "before");
    if !Redis::is_old() {
        function(&mut master);
    }
    let store = Store::start(&debug());
    let mut replica = store.client();
    replica.text(&["SET", "own", "goes"]);
    follow(&mut replica, redis.address);
    wait_for_link(&mut replica);
    assert_same(&mut master, &mut replica);
    if !Redis::is_old() {
        assert_eq!(replica.text(&["FCALL_RO", "seven", "0"]), "7");
    }
    assert_eq!(replica.text(&["GET", "own"]), "(nil)");
    write_some(&mut master, "behind");
    assert_same(&mut master, &mut replica);
    assert!(replica.text(&["SET", "a", "1"]).starts_with("READONLY "));
    assert_eq!(field(&mut replica, "role"), "slave");
    let slave = field(&mut master, "slave0");
    assert!(slave.contains(&format!("port={},state=online", store.address.port())), "{slave}");
    assert_eq!(master.text(&["WAIT", "1", "10000"]), "1");
}

#[test]
fn redis_follows_a_store() {
    let version = if Redis::is_old() { "9" } else { "10" };
    let store = Store::start(&["--enable-debug-command", "yes", "--replica-rdb-version", version]);
    let mut master = store.client();
    write_some(&mut master, "before");
    function(&mut master);
    let redis = Redis::start(&[]);
    let mut replica = redis.client();
    follow(&mut replica, store.address);
    wait_for_link(&mut replica);
    write_some(&mut master, "behind");
    assert_same(&mut master, &mut replica);
    if !Redis::is_old() {
        assert_eq!(replica.text(&["FCALL_RO", "seven", "0"]), "7");
    }
    assert_eq!(master.text(&["WAIT", "1", "10000"]), "1");
    assert_eq!(master.text(&["WAIT", "2", "50"]), "1");
    let slave = field(&mut master, "slave0");
    assert!(slave.contains(&format!("port={},state=online", redis.address.port())), "{slave}");
    assert!(master.text(&["ROLE"]).contains("master") || master.command(&["ROLE"]).as_slice().unwrap().len() == 3);
    // Messages go to those who listen at the replica.
    let mut listener = redis.client();
    listener.command(&["SUBSCRIBE", "news"]);
    assert_eq!(master.text(&["PUBLISH", "news", "hello"]), "0");
    let message = listener.reply().unwrap();
    assert_eq!(message.as_slice().unwrap()[2].as_bytes().unwrap(), b"hello");
}

#[test]
fn stores_follow_each_other_and_go_on_after_restarts() {
    let mut master_store = Store::start(&debug());
    let mut master = master_store.client();
    write_some(&mut master, "before");
    let mut middle_store = Store::start(&debug());
    let mut middle = middle_store.client();
    follow(&mut middle, master_store.address);
    wait_for_link(&mut middle);
    let last_store = Store::start(&debug());
    let mut last = last_store.client();
    follow(&mut last, middle_store.address);
    wait_for_link(&mut last);
    write_some(&mut master, "behind");
    assert_same(&mut master, &mut middle);
    assert_same(&mut master, &mut last);
    // The replica in the middle crashes: it goes on where its log ends, and so does the last one.
    let (address, folder) = (middle_store.address, Arc::clone(&middle_store.folder));
    middle_store.kill();
    write_some(&mut master, "meanwhile");
    let middle_store = Store::start_at(address, folder, &debug());
    let mut middle = middle_store.client();
    assert_eq!(field(&mut middle, "role"), "slave", "the role is in the folder");
    wait_for_link(&mut middle);
    assert_same(&mut master, &mut middle);
    wait_for_link(&mut last);
    assert_same(&mut master, &mut last);
    let syncs = |client: &mut RedisClient, name: &str| {
        let info = client.text(&["INFO", "stats"]);
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned)).unwrap()
    };
    assert_eq!((syncs(&mut master, "sync_full"), syncs(&mut master, "sync_partial_ok")), ("1".into(), "1".into()));
    assert_eq!(syncs(&mut middle, "sync_full"), "0", "its replica goes on as well");
    // So does one whose master crashes.
    let (address, folder) = (master_store.address, Arc::clone(&master_store.folder));
    master_store.kill();
    wait_within(LONG, "the link is down", || field(&mut middle, "master_link_status") == "down");
    let master_store = Store::start_at(address, folder, &debug());
    let mut master = master_store.client();
    write_some(&mut master, "again");
    wait_for_link(&mut middle);
    assert_same(&mut master, &mut middle);
    assert_same(&mut master, &mut last);
    assert_eq!(syncs(&mut master, "sync_full"), "0");
}

#[test]
fn a_promoted_replica_is_followed_by_the_others_without_a_copy() {
    let mut old_store = Store::start(&debug());
    let mut old = old_store.client();
    write_some(&mut old, "before");
    let (new_store, other_store) = (Store::start(&debug()), Store::start(&debug()));
    let (mut new, mut other) = (new_store.client(), other_store.client());
    let redis = Redis::start(&[]);
    let mut third = redis.client();
    for replica in [&mut new, &mut other, &mut third] {
        follow(replica, old_store.address);
        wait_for_link(replica);
    }
    write_some(&mut old, "behind");
    assert_same(&mut old, &mut new);
    assert_same(&mut old, &mut other);
    assert_same(&mut old, &mut third);
    let id = field(&mut old, "master_replid");
    old_store.kill();
    assert_eq!(new.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    wait_within(LONG, "it is promoted", || new.text(&["SET", "now", "writable"]) == "OK");
    assert_eq!(field(&mut new, "role"), "master");
    assert_eq!(field(&mut new, "master_replid2"), id);
    for replica in [&mut other, &mut third] {
        follow(replica, new_store.address);
        wait_for_link(replica);
        assert_same(&mut new, replica);
    }
    let stats = new.text(&["INFO", "stats"]);
    assert!(stats.contains("sync_full:0\r\n") && stats.contains("sync_partial_ok:2\r\n"), "{stats}");
    // The old master comes back with writes that nobody else has: it gives them up.
    let folder = Arc::clone(&old_store.folder);
    let old_store = Store::start_in(folder, &debug());
    let mut old = old_store.client();
    old.text(&["SET", "nobody", "has"]);
    follow(&mut old, new_store.address);
    wait_for_link(&mut old);
    assert_same(&mut new, &mut old);
    assert_eq!(old.text(&["GET", "nobody"]), "(nil)");
}

#[test]
fn clients_are_told_what_replication_does_not_let_them_do() {
    let store = Store::start(&["--min-replicas-to-write", "1", "--repl-ping-replica-period", "1"]);
    let mut master = store.client();
    assert_eq!(master.text(&["SET", "a", "1"]), "NOREPLICAS Not enough good replicas to write.");
    // What could be queued before is asked again when it is to run.
    master.text(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    master.text(&["MULTI"]);
    master.text(&["SET", "a", "1"]);
    store.client().text(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let refused = master.text(&["EXEC"]);
    assert!(refused.starts_with("EXECABORT ") && refused.contains("NOREPLICAS"), "{refused}");
    let mut replica_store = Store::start(&["--replica-serve-stale-data", "no", "--repl-timeout", "60"]);
    let mut replica = replica_store.client();
    follow(&mut replica, store.address);
    wait_for_link(&mut replica);
    wait_within(LONG, "there is a replica", || master.text(&["SET", "a", "1"]) == "OK");
    assert_eq!(master.text(&["WAIT", "1", "10000"]), "1");
    assert_eq!(replica.text(&["GET", "a"]), "1");
    assert!(replica.text(&["SET", "a", "2"]).starts_with("READONLY "));
    assert!(replica.text(&["EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "a"]).contains("READONLY"));
    master.text(&["PFADD", "log", "a", "b"]);
    master.text(&["WAIT", "1", "10000"]);
    assert_eq!(replica.text(&["PFCOUNT", "log"]), "2");
    assert_eq!(replica.text(&["PUBLISH", "a", "b"]), "0");
    assert!(replica.text(&["WAIT", "1", "0"]).starts_with("ERR WAIT cannot be used with replica"));
    let waitaof = master.command(&["WAITAOF", "1", "1", "10000"]);
    assert_eq!(format!("{:?}", waitaof.as_slice().unwrap()), "[Integer(1), Integer(1)]");
    follow(&mut replica, "127.0.0.1:1".parse().unwrap());
    assert!(replica.text(&["GET", "a"]).starts_with("MASTERDOWN "), "no link, no answer");
    assert_eq!(
        replica.text(&["PING"]),
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
    );
    assert_eq!(field(&mut replica, "master_link_status"), "down");
    assert_eq!(replica_store.stop(), 0);
}

#[test]
fn redis_cli_copies_and_listens() {
    let store = Store::start(&debug());
    let mut client = store.client();
    write_some(&mut client, "some");
    let (host, port) = (store.address.ip().to_string(), store.address.port().to_string());
    let folder = Folder::new();
    let file = folder.0.join("dump.rdb");
    let output = std::process::Command::new("redis-cli")
        .args(["-h", &host, "-p", &port, "--rdb", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let redis = Redis::start_at(free_address(), Arc::new(folder), &[]);
    let expected = client.text(&["DEBUG", "DIGEST"]);
    assert_eq!(redis.client().text(&["DEBUG", "DIGEST"]), expected);
    let mut listening = std::process::Command::new("redis-cli")
        .args(["-h", &host, "-p", &port, "--replica"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_within(LONG, "it is online", || field(&mut client, "slave0").contains("state=online"));
    client.text(&["SET", "told", "to-the-listener"]);
    let mut output = listening.stdout.take().unwrap();
    let mut said = String::new();
    wait_within(LONG, "it hears of a write", || {
        let mut piece = [0; 4096];
        let len = std::io::Read::read(&mut output, &mut piece).unwrap();
        said += &String::from_utf8_lossy(&piece[..len]);
        said.contains("to-the-listener")
    });
    listening.kill().unwrap();
    listening.wait().unwrap();
}

/// Small random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Writes at random until the connection is lost or it was so many commands.
fn write_at_random(address: SocketAddr, dice: &mut Dice, count: usize) {
    let Ok(stream) = std::net::TcpStream::connect(address) else { return };
    drop(stream);
    let mut client = RedisClient::connect(address);
    for _ in 0..count {
        let key = format!("key-{}", dice.roll(40));
        let (value, score) = (format!("value-{}", dice.roll(1000)), dice.roll(100).to_string());
        let words: Vec<&str> = match dice.roll(16) {
            0 => vec!["SET", &key, &value],
            1 => vec!["SET", &key, &value, "PX", "50"],
            2 => vec!["APPEND", &key, &value],
            3 => vec!["RPUSH", &key, &value, &value],
            4 => vec!["LPOP", &key],
            5 => vec!["SADD", &key, &value],
            6 => vec!["SPOP", &key],
            7 => vec!["HSET", &key, &value, &score],
            8 => vec!["ZADD", &key, &score, &value],
            9 => vec!["XADD", &key, "*", "field", &value],
            10 => vec!["DEL", &key],
            11 => {
                vec!["EVAL", "redis.call('SET', KEYS[1], 1) redis.call('SELECT', 2) redis.call('INCR', 'n')", "1", &key]
            }
            12 => vec!["MULTI"],
            13 => vec!["EXEC"],
            14 => vec!["PEXPIRE", &key, &score],
            _ => vec!["SELECT", if dice.roll(2) == 0 { "0" } else { "5" }],
        };
        if client.try_command(&words).is_none() {
            return;
        }
    }
}

#[test]
fn kills_of_either_side_leave_both_with_the_same() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x1234_5678_9abc_def1);
    let mut dice = Dice(seed);
    let mut stores: Vec<Option<Store>> = vec![Some(Store::start(&debug())), Some(Store::start(&debug()))];
    let addresses: Vec<SocketAddr> = stores.iter().flatten().map(|store| store.address).collect();
    let redis = Redis::start(&[]);
    follow(&mut stores[1].as_ref().unwrap().client(), addresses[0]);
    follow(&mut redis.client(), addresses[1]);
    for round in 0..8 {
        let count = 200 + dice.roll(1500) as usize;
        let master = addresses[0];
        let writer = std::thread::spawn(move || {
            let mut dice = Dice(seed ^ ((round + 1) * 7919));
            write_at_random(master, &mut dice, count);
        });
        std::thread::sleep(Duration::from_millis(dice.roll(300)));
        let victim = (dice.roll(2)) as usize;
        let mut store = stores[victim].take().unwrap();
        store.kill();
        let folder = Arc::clone(&store.folder);
        drop(store);
        stores[victim] = Some(Store::start_at(addresses[victim], folder, &debug()));
        writer.join().unwrap();
    }
    let mut master = stores[0].as_ref().unwrap().client();
    let mut replica = stores[1].as_ref().unwrap().client();
    let mut third = redis.client();
    wait_for_link(&mut replica);
    wait_for_link(&mut third);
    // What is due expires on the master, which says so.
    wait_within(LONG, "nothing expires any more", || {
        !master.text(&["INFO", "keyspace"]).lines().any(|line| line.contains("expires=") && !line.contains("expires=0"))
    });
    for replica in [&mut replica, &mut third] {
        assert_same(&mut master, replica);
    }
}

#[test]
fn with_replica_ack_nobody_is_told_of_what_a_replica_lacks() {
    let mut store = Store::start(&["--replica-ack", "1", "--appendfsync", "no"]);
    let mut master = store.client();
    assert!(master.text(&["SET", "a", "1"]).starts_with("NOREPLICAS "));
    assert_eq!(master.text(&["GET", "a"]), "(nil)", "who asks is answered");
    let replica_store = Store::start(&[&["--appendfsync", "always"], debug().as_slice()].concat());
    let mut replica = replica_store.client();
    follow(&mut replica, store.address);
    wait_within(LONG, "the replica is there", || master.text(&["SET", "a", "1"]) == "OK");
    let mut last = 0;
    let mut other = store.client();
    for number in 0..300 {
        let text = number.to_string();
        if number == 200 {
            // From here on it is not known whether the next ones are there.
            store.kill();
        }
        if other.try_command(&["SET", "number", &text]).is_none() {
            break;
        }
        last = number;
    }
    assert_eq!(last, 199);
    wait_within(LONG, "it is promoted", || {
        replica.text(&["REPLICAOF", "NO", "ONE"]) == "OK" && field(&mut replica, "role") == "master"
    });
    assert_eq!(replica.text(&["GET", "number"]), last.to_string());
    // Redis as the replica says how far it is when it is asked.
    let redis = Redis::start(&[]);
    follow(&mut redis.client(), replica_store.address);
    assert_eq!(replica.text(&["CONFIG", "SET", "replica-ack", "1"]), "OK");
    wait_within(LONG, "Redis is there", || replica.text(&["SET", "b", "1"]) == "OK");
    let began = std::time::Instant::now();
    for _ in 0..20 {
        assert!(replica.text(&["INCR", "counter"]).parse::<u32>().is_ok());
    }
    assert!(began.elapsed() < Duration::from_secs(15), "not a second each");
    assert_eq!(redis.client().text(&["GET", "counter"]), "20");
}

#[test]
fn replicas_come_through_threads_of_the_sockets() {
    let store = Store::start(&["--enable-debug-command", "yes", "--io-threads", "3"]);
    let mut master = store.client();
    write_some(&mut master, "before");
    let others: Vec<Store> =
        (0..3).map(|_| Store::start(&["--enable-debug-command", "yes", "--io-threads", "2"])).collect();
    for other in &others {
        follow(&mut other.client(), store.address);
    }
    for other in &others {
        let mut replica = other.client();
        wait_for_link(&mut replica);
        write_some(&mut master, "behind");
        assert_same(&mut master, &mut replica);
    }
    assert_eq!(master.text(&["WAIT", "3", "30000"]), "3");
}

/// Masters before Redis 7 send times to live as so much from now.
#[test]
fn times_to_live_of_old_masters_count_from_when_they_came() {
    let mut store = Store::start(&debug());
    let mut client = store.client();
    client.text(&["SET", "template", "value"]);
    let Value::Bulk(payload) = client.command(&["DUMP", "template"]) else { panic!("no payload") };
    let master = ScriptedMaster::start();
    follow(&mut client, master.address);
    wait_for_link(&mut client);
    let earliest = now_ms();
    master.append(&[
        &[b"SELECT", b"0"],
        &[b"SET", b"a", b"1"],
        &[b"EXPIRE", b"a", b"1000"],
        &[b"SET", b"b", b"1"],
        &[b"PEXPIRE", b"b", b"1000000"],
        &[b"SETEX", b"c", b"1000", b"1"],
        &[b"PSETEX", b"d", b"1000000", b"1"],
        &[b"SET", b"e", b"1", b"EX", b"1000"],
        &[b"MULTI"],
        &[b"SET", b"f", b"1", b"PX", b"1000000"],
        &[b"EXEC"],
        &[b"SET", b"g", b"1"],
        &[b"GETEX", b"g", b"EX", b"1000"],
        &[b"RESTORE", b"h", b"1000000", &payload],
    ]);
    let caught_up = |client: &mut RedisClient| {
        wait_within(LONG, "the replica has caught up", || {
            field(client, "slave_repl_offset").parse().ok() == master.end()
        });
    };
    caught_up(&mut client);
    let latest = now_ms();
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let times = |client: &mut RedisClient| keys.map(|key| client.text(&["PEXPIRETIME", key]).parse::<u64>().unwrap());
    let before = times(&mut client);
    for (key, at) in keys.iter().zip(before) {
        assert!((earliest + 1_000_000..=latest + 1_000_000).contains(&at), "{key}: {at}, {earliest}");
    }
    assert_eq!(client.text(&["GET", "h"]), "value");
    let (address, folder) = (store.address, Arc::clone(&store.folder));
    store.kill();
    let store = Store::start_at(address, folder, &debug());
    let mut client = store.client();
    assert_eq!(times(&mut client), before);
    master.append(&[&[b"DEL", b"a"]]);
    caught_up(&mut client);
    assert_eq!(client.text(&["EXISTS", "a", "b"]), "1");
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// What comes of a connection, until it has some text.
fn read_until(client: &mut RedisClient, text: &str) -> String {
    let mut seen = Vec::new();
    wait_within(LONG, "the copy comes", || {
        seen.extend_from_slice(&client.bytes());
        seen.windows(text.len()).any(|window| window == text.as_bytes())
    });
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn copies_are_of_the_version_that_replicas_read() {
    let store = Store::start(&debug());
    let mut client = store.client();
    function(&mut client);
    client.text(&["HSET", "hash", "field", "value"]);
    client.text(&["SAVE"]);
    for (version, mark, has_function) in [("10", "REDIS0010", true), ("9", "REDIS0009", false)] {
        assert_eq!(client.text(&["CONFIG", "SET", "replica-rdb-version", version]), "OK");
        let mut replica = store.client();
        assert_eq!(replica.text(&["REPLCONF", "capa", "eof"]), "OK");
        replica.send(b"PSYNC ? -1\r\n");
        let copy = read_until(&mut replica, "value");
        assert!(copy.contains(mark), "{copy}");
        assert_eq!(copy.contains("lua name=lib"), has_function, "{copy}");
    }
}
