//! Replicas that come back: an old master with writes that nobody else has, one that is too far behind, one whose link is cut.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fs::File, net::SocketAddr, process::Command, sync::Arc};

use support::{
    LONG, Redis, RedisClient, Store, assert_same, field, follow, host, signal_process, wait_for_link, wait_within,
};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// A field of `INFO stats`.
fn stat(client: &mut RedisClient, name: &str) -> String {
    let info = client.text(&["INFO", "stats"]);
    let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::to_owned);
    found.unwrap_or_default()
}

/// An old master that has gone on alone becomes the replica of the new one. Returns it and the file of what it has set aside.
#[track_caller]
fn come_back(old: Store, new: &mut RedisClient, at: SocketAddr) -> (Store, std::path::PathBuf) {
    let mut client = old.client();
    assert_eq!(client.text(&["MSET", "nobody", "has", "these", "two"]), "OK");
    client.text(&["SELECT", "3"]);
    client.command(&["MULTI"]);
    client.command(&["RPUSH", "list", "a", "b"]);
    client.command(&["SET", "bytes", "line\r\nline"]);
    client.command(&["EXEC"]);
    client.text(&["SELECT", "0"]);
    new.text(&["SET", "new", "1"]);
    // It has no replica: a crash leaves it as it is, and it goes on when it is started anew.
    let folder = Arc::clone(&old.folder);
    drop(old);
    let old = Store::start_in(folder, &DEBUG);
    let mut client = old.client();
    follow(&mut client, at);
    wait_for_link(&mut client);
    wait_within(LONG, "what only it had is set aside", || field(&mut client, "set_aside_files") == "1");
    assert_same(new, &mut client);
    assert_eq!(client.text(&["GET", "nobody"]), "(nil)", "nothing is merged by itself");
    let name = field(&mut client, "set_aside_last");
    let file = old.folder.0.join("data").join(name);
    (old, file)
}

fn pipe(file: &std::path::Path, to: SocketAddr) {
    let output = Command::new("redis-cli")
        .args(["-h", &to.ip().to_string(), "-p", &to.port().to_string(), "--pipe"])
        .stdin(File::open(file).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[track_caller]
fn assert_has_what_was_set_aside(client: &mut RedisClient) {
    assert_eq!(client.text(&["GET", "nobody"]), "has");
    client.text(&["SELECT", "3"]);
    assert_eq!(client.text(&["GET", "bytes"]), "line\r\nline");
    assert_eq!(client.text(&["LLEN", "list"]), "2");
    client.text(&["SELECT", "0"]);
}

#[test]
fn what_an_old_master_has_alone_is_set_aside_as_commands() {
    let old = Store::start(&DEBUG);
    let (next_store, last_store) = (Store::start(&DEBUG), Store::start(&DEBUG));
    let (mut next, mut last) = (next_store.client(), last_store.client());
    old.client().text(&["SET", "common", "1"]);
    for replica in [&mut next, &mut last] {
        follow(replica, old.address);
        wait_for_link(replica);
        assert_same(&mut old.client(), replica);
    }
    // Two failovers while it is away.
    assert_eq!(next.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    wait_within(LONG, "it is promoted", || next.text(&["SET", "by", "next"]) == "OK");
    follow(&mut last, next_store.address);
    wait_for_link(&mut last);
    assert_same(&mut next, &mut last);
    assert_eq!(last.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    wait_within(LONG, "it is promoted", || last.text(&["SET", "by", "last"]) == "OK");
    let (old, file) = come_back(old, &mut last, last_store.address);
    pipe(&file, last_store.address);
    assert_has_what_was_set_aside(&mut last);
    assert_eq!(last.text(&["GET", "common"]), "1");
    assert_same(&mut last, &mut old.client());
}

#[test]
fn it_is_set_aside_too_if_the_new_master_is_redis() {
    let old = Store::start(&DEBUG);
    let redis = Redis::start(&[]);
    let mut next = redis.client();
    old.client().text(&["SET", "common", "1"]);
    follow(&mut next, old.address);
    wait_for_link(&mut next);
    assert_same(&mut old.client(), &mut next);
    assert_eq!(next.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    let (_old, file) = come_back(old, &mut next, redis.address);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("common"), "{text}");
    pipe(&file, redis.address);
    assert_eq!(next.text(&["GET", "nobody"]), "has");
}

#[test]
fn data_of_another_history_are_replaced_and_kept() {
    let (master, replica) = (Store::start(&DEBUG), Store::start(&DEBUG));
    let (mut first, mut second) = (master.client(), replica.client());
    second.text(&["SET", "own", "goes"]);
    follow(&mut second, master.address);
    wait_for_link(&mut second);
    assert_same(&mut first, &mut second);
    wait_within(LONG, "what it had is kept", || field(&mut second, "set_aside_files") == "1");
    assert!(field(&mut second, "set_aside_last").starts_with("set-aside-data-"));
}

#[test]
fn a_replica_that_is_too_far_behind_is_given_up() {
    let limits = ["--log-segment-size", "1mb", "--log-retention-size", "1mb", "--replica-log-size-max", "2mb"];
    let master = Store::start(&[&DEBUG[..], &limits].concat());
    let (mut first, replica) = (master.client(), Store::start(&DEBUG));
    let mut second = replica.client();
    follow(&mut second, master.address);
    wait_for_link(&mut second);
    assert_same(&mut first, &mut second);
    signal_process(replica.pid(), rustix::process::Signal::STOP);
    let value = "v".repeat(1 << 20);
    wait_within(LONG, "the replica is given up", || {
        first.text(&["SET", "key", &value]);
        field(&mut first, "connected_slaves") == "0"
    });
    // What was kept for it goes with the next checkpoints.
    wait_within(LONG, "the log is short again", || {
        first.text(&["SET", "key", &value]);
        first.text(&["SAVE"]);
        let len: u64 = field(&mut first, "repl_backlog_histlen").parse().unwrap();
        len < 8 << 20
    });
    signal_process(replica.pid(), rustix::process::Signal::CONT);
    wait_within(LONG, "it has got a copy", || stat(&mut first, "sync_full") == "2");
    wait_for_link(&mut second);
    assert_same(&mut first, &mut second);
}

#[test]
fn the_master_is_a_client_of_its_replica() {
    let master = Store::start(&["--enable-debug-command", "yes", "--replica-announce-ip", &host()]);
    let (mut first, replica) = (master.client(), Store::start(&DEBUG));
    let mut second = replica.client();
    follow(&mut second, master.address);
    wait_for_link(&mut second);
    let list = |client: &mut RedisClient| client.text(&["CLIENT", "LIST", "TYPE", "master"]);
    wait_within(LONG, "it is listed", || list(&mut second).contains(&format!("addr={} ", master.address)));
    assert!(list(&mut second).contains("flags=M "), "{}", list(&mut second));
    assert_eq!(list(&mut first), "");
    for (number, words) in
        [&["CLIENT", "KILL", "TYPE", "master"][..], &["CLIENT", "KILL", "ADDR", &master.address.to_string()]]
            .into_iter()
            .enumerate()
    {
        assert_eq!(second.text(words), "1");
        let expected = (number + 1).to_string();
        wait_within(LONG, "it goes on", || stat(&mut first, "sync_partial_ok") == expected);
        wait_within(LONG, "it is listed", || list(&mut second).contains("flags=M "));
    }
    assert_eq!(stat(&mut first, "sync_full"), "1");
    first.text(&["SET", "a", "1"]);
    assert_same(&mut first, &mut second);
    assert_eq!(second.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    wait_within(LONG, "it is listed no more", || list(&mut second).is_empty());
}

/// A node of a cluster, and what its agent says to it.
fn node(address: Option<SocketAddr>, folder: Arc<support::Folder>) -> (Store, RedisClient) {
    let store = match address {
        Some(address) => Store::start_at(address, folder, &["--cluster-enabled", "yes"]),
        None => Store::start_in(folder, &["--cluster-enabled", "yes"]),
    };
    let mut agent = store.client();
    assert_eq!(agent.text(&["CLUSTER", "CONNECTION", "AGENT", "1"]), "OK");
    (store, agent)
}

fn serve(agent: &mut RedisClient, at: SocketAddr) {
    let line = format!("m {at}@1 myself,master - 0 0 1 connected 0-16383\n");
    assert_eq!(agent.text(&["CLUSTER", "TOPOLOGY", "1", &line]), "OK");
}

#[test]
fn a_node_copies_no_master_that_has_lost_what_it_has_itself() {
    let (master, mut first) = node(None, Arc::new(support::Folder::new()));
    serve(&mut first, master.address);
    let (_replica, mut second) = node(None, Arc::new(support::Folder::new()));
    let follow_since = |agent: &mut RedisClient, since: &str, at: SocketAddr| {
        assert_eq!(agent.text(&["CLUSTER", "CONNECTION", "MASTER", since]), "OK");
        follow(agent, at);
    };
    follow_since(&mut second, "7", master.address);
    wait_for_link(&mut second);
    assert_eq!(first.text(&["SET", "before", "1"]), "OK");
    let has = |client: &mut RedisClient, count: &str| client.text(&["DBSIZE"]) == count;
    wait_within(LONG, "the replica has it", || has(&mut second, "1"));
    assert_eq!(field(&mut second, "master_since_epoch"), "7");
    let (address, folder) = (master.address, Arc::clone(&master.folder));
    let (data, kept) = (folder.0.join("data"), folder.0.join("kept"));
    assert!(Command::new("cp").arg("-a").args([&data, &kept]).status().unwrap().success());
    assert_eq!(first.text(&["SET", "after", "1"]), "OK");
    wait_within(LONG, "the replica has it", || has(&mut second, "2"));
    // A crash, and the folder as it was before.
    signal_process(master.pid(), rustix::process::Signal::KILL);
    drop(master);
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&kept, &data).unwrap();
    let (_master, mut first) = node(Some(address), folder);
    serve(&mut first, address);
    wait_within(LONG, "the replica refuses it", || field(&mut second, "master_refused").starts_with("lacks_from="));
    let end = field(&mut second, "master_repl_offset");
    assert!(field(&mut second, "master_refused").ends_with(&format!(",lacks_to={end}")));
    assert_eq!(field(&mut second, "master_link_status"), "down");
    assert!(has(&mut second, "2") && has(&mut first, "1"));
    // Said again, it is the same. Whoever is the master since a later epoch may have less.
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    assert_eq!(second.text(&["REPLICAOF", &host, &port]), "OK Already connected to specified master");
    follow_since(&mut second, "8", address);
    wait_for_link(&mut second);
    wait_within(LONG, "what it has alone is set aside", || field(&mut second, "set_aside_files") == "1");
    assert!(has(&mut second, "1"));
    assert_eq!(field(&mut second, "master_refused"), "");
}
