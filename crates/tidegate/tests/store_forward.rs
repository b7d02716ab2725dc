//! A replica that sends its clients' commands to its master (`replica-forward`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use resp::Value;
use support::{
    LONG, Redis, RedisClient, StoppedProcess, Store, assert_same, field, follow, host, wait_for_link, wait_within,
};

fn store(more: &[&str]) -> Store {
    Store::start(&[&["--enable-debug-command", "yes", "--replica-announce-ip", &host()], more].concat())
}

#[track_caller]
fn pair(master: SocketAddr, more: &[&str]) -> (Store, RedisClient) {
    let replica = store(&[&["--replica-forward", "yes"], more].concat());
    let mut client = replica.client();
    follow(&mut client, master);
    wait_for_link(&mut client);
    (replica, client)
}

/// All that a client may do at a replica that forwards.
fn use_it(master: &mut RedisClient, replica: &Store) {
    let mut client = replica.client();
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    assert_eq!(client.text(&["GET", "a"]), "1", "who wrote there finds it");
    assert_eq!(master.text(&["GET", "a"]), "1");
    assert_eq!(client.text(&["SELECT", "3"]), "OK");
    assert_eq!(client.text(&["INCRBY", "n", "5"]), "5");
    assert_eq!(replica.client().text(&["GET", "n"]), "(nil)", "each client has its own database");
    client.text(&["MULTI"]);
    assert_eq!(client.text(&["INCR", "n"]), "QUEUED");
    assert_eq!(client.text(&["GET", "n"]), "QUEUED");
    assert_eq!(client.command(&["EXEC"]), Value::Array(vec![Value::Integer(6), Value::Bulk(b"6".to_vec())]));
    assert_eq!(client.text(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "n"]), "7");
    assert!(client.text(&["INCR", "n", "m"]).starts_with("ERR wrong number"));
    client.text(&["LPUSH", "list", "x"]);
    assert!(client.text(&["INCR", "list"]).starts_with("WRONGTYPE "), "errors are the master's");
    // Very many keys at once.
    let words: Vec<String> = (0..3000).flat_map(|number| [format!("key:{number}"), number.to_string()]).collect();
    let words: Vec<&str> = ["MSET"].into_iter().chain(words.iter().map(String::as_str)).collect();
    assert_eq!(client.text(&words), "OK");
    let keys: Vec<&str> = ["MGET"].into_iter().chain(words[1..].iter().copied().step_by(2)).collect();
    assert_eq!(client.command(&keys).as_slice().unwrap().len(), 3000);
    // Answers are in order, those of this server among them.
    client.send(b"SET p 1\r\nPING\r\nINCR p\r\nCLIENT GETNAME\r\nGET p\r\n");
    let answers: Vec<String> = (0..5).map(|_| format!("{:?}", client.reply().unwrap())).collect();
    assert!(answers[1].contains("80, 79, 78, 71") && answers[2] == "Integer(2)", "{answers:?}");
    // In either protocol.
    client.command(&["HELLO", "3"]);
    client.text(&["HSET", "hash", "f", "v"]);
    assert!(matches!(client.command(&["HGETALL", "hash"]), Value::Map(_)));
    client.command(&["HELLO", "2"]);
    assert!(matches!(client.command(&["HGETALL", "hash"]), Value::Array(_)));
    // What would not be as safe is refused.
    assert!(client.text(&["BLPOP", "list", "0"]).starts_with("READONLY "));
    client.text(&["WATCH", "n"]);
    client.text(&["MULTI"]);
    client.text(&["INCR", "n"]);
    assert!(client.text(&["EXEC"]).contains("READONLY "));
    assert_eq!(client.text(&["FLUSHALL"]), "OK");
    assert_eq!(master.text(&["DBSIZE"]), "0");
}

#[test]
fn commands_of_a_replicas_clients_run_on_its_master() {
    for threads in ["1", "3"] {
        let master = store(&[]);
        let (replica, mut client) = pair(master.address, &["--io-threads", threads]);
        use_it(&mut master.client(), &replica);
        assert_same(&mut master.client(), &mut client);
        assert_eq!(client.text(&["CONFIG", "SET", "replica-forward", "no"]), "OK");
        assert!(client.text(&["SET", "a", "1"]).starts_with("READONLY "));
    }
}

#[test]
fn the_master_may_be_redis() {
    let master = Redis::start(&["--requirepass", "secret"]);
    let mut client = master.client();
    assert_eq!(client.text(&["AUTH", "secret"]), "OK");
    let (replica, _) = pair(master.address, &["--masterauth", "secret"]);
    use_it(&mut client, &replica);
}

#[test]
fn rights_are_looked_at_before() {
    let master = store(&[]);
    let (_replica, mut client) = pair(master.address, &[]);
    assert_eq!(client.text(&["ACL", "SETUSER", "default", "-set"]), "OK");
    assert!(client.text(&["SET", "a", "1"]).starts_with("NOPERM "));
    assert_eq!(client.text(&["INCR", "a"]), "1");
}

/// The connection by which a replica forwards, as its master sees it: the client there that has set something last.
fn forwarding_connection(master: &mut RedisClient) -> SocketAddr {
    let clients = master.text(&["CLIENT", "LIST", "TYPE", "normal"]);
    let line = clients.lines().find(|line| line.contains(" cmd=set ")).unwrap_or_else(|| panic!("{clients}"));
    let address = line.split(' ').find_map(|field| field.strip_prefix("addr=")).unwrap();
    address.parse().unwrap()
}

/// Bytes that a server has received from a connection and has not read, as the kernel counts them.
fn unread_from(peer: SocketAddr, server: SocketAddr) -> u64 {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port_of = |field: &str| u16::from_str_radix(field.rsplit_once(':').unwrap().1, 16).unwrap();
    let of_connection =
        sockets.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|fields| {
            const ESTABLISHED: &str = "01";
            (port_of(fields[1]), port_of(fields[2]), fields[3]) == (server.port(), peer.port(), ESTABLISHED)
        });
    let queues = of_connection.map_or("0:0", |fields| fields[4]).to_owned();
    u64::from_str_radix(queues.split_once(':').unwrap().1, 16).unwrap()
}

#[test]
fn who_waits_for_a_master_that_is_lost_is_told() {
    let mut master = store(&[]);
    let (_replica, mut client) = pair(master.address, &[]);
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    let forwarding = forwarding_connection(&mut master.client());
    let stopped = StoppedProcess::new(master.pid());
    client.send_command(&["SET", "a", "2"]);
    // One that has not been sent yet cannot have run, and its client would hear something else.
    wait_within(LONG, "the command is with the master", || unread_from(forwarding, master.address) > 0);
    master.kill();
    drop(stopped);
    let answer = client.reply().unwrap();
    let text = String::from_utf8_lossy(answer.as_error().unwrap()).into_owned();
    assert!(text.starts_with("MASTERDOWN the master ") && text.ends_with("The command may have run"), "{text}");
    wait_within(LONG, "the link is down", || field(&mut client, "master_link_status") == "down");
    assert!(client.text(&["SET", "a", "3"]).starts_with("READONLY "));
    assert_eq!(client.text(&["GET", "a"]), "1", "reads are answered here then");
}

/// Counts up until it is told to stop; gives all numbers that were answered. Nothing may fail.
fn count(address: SocketAddr, done: &AtomicUsize, is_over: &AtomicBool) -> Vec<i64> {
    let mut client = RedisClient::connect(address);
    let mut numbers = Vec::new();
    while !is_over.load(Relaxed) {
        let answer = client.text(&["INCR", "counter"]);
        let number = answer.parse().unwrap_or_else(|_| panic!("a command has failed: {answer}"));
        let read: i64 = client.text(&["GET", "counter"]).parse().unwrap();
        assert!(read >= number, "{read} is read after {number}");
        numbers.push(number);
        done.fetch_add(1, Relaxed);
    }
    numbers
}

#[test]
fn masters_change_there_and_back_while_clients_stay_and_no_command_fails() {
    let stores = [store(&["--replica-forward", "yes"]), store(&["--replica-forward", "yes"])];
    let (mut old, mut new) = (stores[0].client(), stores[1].client());
    follow(&mut new, stores[0].address);
    wait_for_link(&mut new);
    wait_within(LONG, "the replica is online", || field(&mut old, "slave0").contains("state=online"));
    let (done, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let counters: Vec<_> = (0..4)
        .map(|number| {
            let (address, done, is_over) = (stores[number % 2].address, Arc::clone(&done), Arc::clone(&is_over));
            thread::spawn(move || count(address, &done, &is_over))
        })
        .collect();
    let go_on = |what: &str| {
        let before = done.load(Relaxed);
        wait_within(LONG, what, || done.load(Relaxed) > before + 200 || counters.iter().any(|one| one.is_finished()));
        assert!(counters.iter().all(|one| !one.is_finished()), "{what}: a client has failed");
    };
    go_on("clients write");
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        let target = stores[to].address;
        let mut master = stores[from].client();
        let words = ["FAILOVER", "TO", &target.ip().to_string(), &target.port().to_string(), "TIMEOUT", "60000"];
        assert_eq!(master.text(&words), "OK");
        wait_within(LONG, "the failover is over", || field(&mut master, "master_failover_state") == "no-failover");
        assert_eq!(field(&mut stores[to].client(), "role"), "master");
        go_on("clients go on");
        wait_within(LONG, "the replica is online", || {
            field(&mut stores[to].client(), "slave0").contains("state=online")
        });
    }
    is_over.store(true, Relaxed);
    let numbers: Vec<i64> = counters.into_iter().flat_map(|one| one.join().unwrap()).collect();
    let different: BTreeSet<i64> = numbers.iter().copied().collect();
    assert_eq!(different.len(), numbers.len(), "each number was given once");
    assert_eq!(new.text(&["GET", "counter"]), numbers.len().to_string(), "and none is missing");
}
