//! Replication: Debian's redis-server as the replica of a store and as its master, and stores among themselves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use support::{Folder, Redis, RedisClient, Store, free_address, wait_within};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];
/// How long copies and failovers may take on a machine that does much else.
const LONG: Duration = Duration::from_secs(60);

fn follow(replica: &mut RedisClient, master: SocketAddr) {
    assert_eq!(replica.text(&["REPLICAOF", &master.ip().to_string(), &master.port().to_string()]), "OK");
}

fn field(client: &mut RedisClient, name: &str) -> String {
    let info = client.text(&["INFO", "replication"]);
    let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_default().to_owned()
}

fn wait_for_link(replica: &mut RedisClient) {
    wait_within(LONG, "the link is up", || field(replica, "master_link_status") == "up");
}

/// Waits until a replica has all that its master has, by offsets, and compares what they have.
#[track_caller]
fn assert_same(master: &mut RedisClient, replica: &mut RedisClient) {
    wait_within(LONG, "the replica has caught up", || {
        field(master, "master_repl_offset") == field(replica, "slave_repl_offset")
    });
    let (expected, found) = (master.text(&["DEBUG", "DIGEST"]), replica.text(&["DEBUG", "DIGEST"]));
    assert_eq!(found, expected, "{} and {} keys", master.text(&["DBSIZE"]), replica.text(&["DBSIZE"]));
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
    let code = "#!lua name=lib\nredis.register_function('seven', function() return 7 end)";
    client.command(&["FUNCTION", "LOAD", "REPLACE", code]);
}

#[test]
fn a_store_follows_redis() {
    let redis = Redis::start(&[]);
    let mut master = redis.client();
    write_some(&mut master, "before");
    function(&mut master);
    let store = Store::start(&DEBUG);
    let mut replica = store.client();
    replica.text(&["SET", "own", "goes"]);
    follow(&mut replica, redis.address);
    wait_for_link(&mut replica);
    assert_same(&mut master, &mut replica);
    assert!(replica.text(&["FUNCTION", "LIST"]).contains("seven") || replica.text(&["FUNCTION", "STATS"]).contains("lib"));
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
    let store = Store::start(&DEBUG);
    let mut master = store.client();
    write_some(&mut master, "before");
    function(&mut master);
    let redis = Redis::start(&[]);
    let mut replica = redis.client();
    follow(&mut replica, store.address);
    wait_for_link(&mut replica);
    write_some(&mut master, "behind");
    assert_same(&mut master, &mut replica);
    assert_eq!(replica.text(&["FCALL", "seven", "0"]), "7");
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
