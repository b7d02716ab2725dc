//! What waits for replicas and what does not (`replica-ack`, `CLIENT REPLICA-ACK`), and what a node of a cluster does not say any more
//! when its lease is over.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::{LONG, RedisClient, StoppedProcess, Store, field, follow, wait_for_link, wait_until, wait_within};

/// A master and its replica.
fn pair(arguments: &[&str]) -> (Store, Store) {
    let (master, replica) = (Store::start(arguments), Store::start(&[]));
    let mut client = replica.client();
    follow(&mut client, master.address);
    wait_for_link(&mut client);
    wait_for_replica(&master);
    (master, replica)
}

#[track_caller]
fn wait_for_replica(master: &Store) {
    wait_within(LONG, "the replica is online", || field(&mut master.client(), "slave0").contains("state=online"));
}

/// Waits until a client's last command has run, or waits: it is the one of a line of `CLIENT LIST`.
#[track_caller]
fn wait_for_command(asker: &mut RedisClient, name: &str, command: &str) {
    wait_until("the command has run", || {
        let list = asker.text(&["CLIENT", "LIST"]);
        list.lines().any(|line| line.contains(&format!(" name={name} ")) && line.contains(&format!(" cmd={command} ")))
    });
}

fn named(store: &Store, name: &str) -> RedisClient {
    let mut client = store.client();
    assert_eq!(client.text(&["CLIENT", "SETNAME", name]), "OK");
    client
}

#[test]
fn who_asks_how_the_server_is_does_not_wait_for_replicas() {
    for threads in ["1", "3"] {
        let (master, replica) = pair(&["--replica-ack", "1", "--io-threads", threads, "--appendfsync", "always"]);
        let (mut writer, mut reader) = (named(&master, "writer"), named(&master, "reader"));
        assert_eq!(writer.text(&["SET", "a", "1"]), "OK");
        let stopped = StoppedProcess::new(replica.pid());
        let mut asker = master.client();
        writer.send_command(&["SET", "a", "2"]);
        wait_for_command(&mut asker, "writer", "set");
        reader.send(b"GET a\r\nPING\r\n");
        wait_for_command(&mut asker, "reader", "ping");
        for words in [&["INFO", "replication"][..], &["ROLE"], &["PING"], &["CONFIG", "GET", "replica-ack"]] {
            let answer = asker.command(words);
            assert!(answer.as_error().is_none(), "{words:?}: {answer:?}");
        }
        assert!(asker.text(&["CLUSTER", "INFO"]).starts_with("ERR "), "what is refused tells of nothing either");
        assert_eq!(asker.text(&["PUBLISH", "__sentinel__:hello", "x"]), "0");
        asker.command(&["SUBSCRIBE", "__sentinel__:hello"]);
        assert!(!writer.has_come() && !reader.has_come(), "what tells of the write waits, and what is behind it");
        drop(stopped);
        assert_eq!(writer.reply().unwrap().as_bytes(), Some(&b"OK"[..]));
        for expected in ["2", "PONG"] {
            assert_eq!(reader.reply().unwrap().as_bytes(), Some(expected.as_bytes()));
        }
    }
}

#[test]
fn a_connection_asks_for_replicas_of_its_own() {
    let (master, replica) = pair(&[]);
    let (mut careful, mut asker, mut other) = (named(&master, "careful"), master.client(), master.client());
    assert_eq!(careful.text(&["CLIENT", "REPLICA-ACK"]), "0");
    for wrong in ["-1", "101", "x"] {
        assert!(careful.text(&["CLIENT", "REPLICA-ACK", wrong]).starts_with("ERR "), "{wrong}");
    }
    assert_eq!(careful.text(&["CLIENT", "REPLICA-ACK", "1"]), "OK");
    assert_eq!(careful.text(&["CLIENT", "REPLICA-ACK"]), "1");
    assert_eq!(careful.text(&["SET", "a", "1"]), "OK");
    let stopped = StoppedProcess::new(replica.pid());
    assert_eq!(other.text(&["SET", "b", "1"]), "OK", "others are promised nothing");
    careful.send_command(&["GET", "b"]);
    wait_for_command(&mut asker, "careful", "get");
    assert_eq!(other.text(&["GET", "b"]), "1");
    assert!(!careful.has_come(), "what another one wrote is not on a replica yet");
    drop(stopped);
    assert_eq!(careful.reply().unwrap().as_bytes(), Some(&b"1"[..]));
    // There is one replica.
    assert_eq!(careful.text(&["CLIENT", "REPLICA-ACK", "2"]), "OK");
    assert!(careful.text(&["SET", "a", "2"]).starts_with("NOREPLICAS "));
    let script = careful.text(&["EVAL", "return redis.call('SET', KEYS[1], 3)", "1", "a"]);
    assert!(script.contains("NOREPLICAS"), "{script}");
    assert_eq!(careful.text(&["GET", "a"]), "1");
    assert_eq!(other.text(&["SET", "a", "4"]), "OK");
    assert_eq!(careful.text(&["RESET"]), "RESET");
    assert_eq!(careful.text(&["SET", "a", "5"]), "OK");
    // It may ask for more than the setting says, and not for less.
    assert_eq!(other.text(&["CONFIG", "SET", "replica-ack", "1"]), "OK");
    assert_eq!(careful.text(&["CLIENT", "REPLICA-ACK", "0"]), "OK");
    assert_eq!(careful.text(&["CLIENT", "REPLICA-ACK"]), "1");
}

#[test]
fn who_waits_for_replicas_of_a_master_of_the_past_is_not_acknowledged() {
    for threads in ["1", "3"] {
        let (master, replica) = pair(&["--replica-ack", "1", "--io-threads", threads]);
        let (mut writer, mut asker) = (named(&master, "writer"), master.client());
        let stopped = StoppedProcess::new(replica.pid());
        writer.send_command(&["SET", "a", "1"]);
        wait_for_command(&mut asker, "writer", "set");
        let other = Store::start(&[]);
        follow(&mut asker, other.address);
        assert!(writer.reply().is_none(), "the connection is closed without an answer");
        wait_for_link(&mut asker);
        assert_eq!(asker.text(&["GET", "a"]), "(nil)", "it is the data of the new master");
        drop(stopped);
    }
}

/// Has a store be the only node of a cluster that it is told of, for so many milliseconds.
#[track_caller]
fn begin_lease(client: &mut RedisClient, store: &Store, ms: &str) {
    let topology = format!("m 127.0.0.1:{}@0 myself,master - 0 0 1 connected 0-16383", store.address.port());
    assert_eq!(client.text(&["CLUSTER", "TOPOLOGY", "1", &topology, "LEASE", ms]), "OK");
}

#[test]
fn a_node_that_was_paused_until_its_lease_was_over_acknowledges_nothing() {
    for (threads, command) in [("1", "SET a 2"), ("3", "SET a 2"), ("1", "GET a"), ("3", "GET a")] {
        let store =
            Store::start(&["--cluster-enabled", "yes", "--enable-debug-command", "yes", "--io-threads", threads]);
        let (mut client, mut steering) = (store.client(), store.client());
        begin_lease(&mut steering, &store, "2000");
        assert_eq!(client.text(&["SET", "a", "1"]), "OK");
        // It has run, and then nothing does until its reply is about to go out.
        client.send(format!("{command}\r\nDEBUG SLEEP 2.1\r\n").as_bytes());
        assert!(client.reply().is_none(), "'{command}' is not answered");
        assert!(steering.text(&["CLUSTER", "INFO"]).contains("cluster_state:fail"));
        assert_eq!(steering.text(&["CLUSTER", "LEASE", "1", "60000"]), "OK");
        let expected = if command.starts_with("SET") { "2" } else { "1" };
        assert_eq!(steering.text(&["GET", "a"]), expected, "it had run");
    }
}

#[test]
fn an_acknowledgement_that_comes_when_the_lease_is_over_lets_nothing_go() {
    for threads in ["1", "3"] {
        let (master, replica) = pair(&["--replica-ack", "1", "--cluster-enabled", "yes", "--io-threads", threads]);
        let (mut writer, mut asker) = (named(&master, "writer"), master.client());
        // Who is told that it is a master begins a history of its own, of which its replicas learn as they link again.
        let before = field(&mut asker, "master_replid");
        begin_lease(&mut asker, &master, "1");
        wait_until("it has begun one", || field(&mut asker, "master_replid") != before);
        wait_for_replica(&master);
        assert_eq!(asker.text(&["CLUSTER", "LEASE", "1", "1500"]), "OK");
        assert_eq!(writer.text(&["SET", "a", "1"]), "OK");
        let stopped = StoppedProcess::new(replica.pid());
        writer.send_command(&["SET", "a", "2"]);
        wait_for_command(&mut asker, "writer", "set");
        wait_until("the lease is over", || asker.text(&["CLUSTER", "INFO"]).contains("cluster_state:fail"));
        assert!(!writer.has_come());
        drop(stopped);
        assert!(writer.reply().is_none(), "the connection is closed without an answer");
        assert!(asker.text(&["GET", "a"]).starts_with("CLUSTERDOWN "));
        assert_eq!(asker.text(&["CLUSTER", "LEASE", "1", "60000"]), "OK");
        assert_eq!(asker.text(&["GET", "a"]), "2");
    }
}
