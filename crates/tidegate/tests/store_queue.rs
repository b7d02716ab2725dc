//! Queues of a store over real processes: a kill, a replica that takes over, slots that move, a Redis that has no queues, and more messages
//! than memory holds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{collections::BTreeSet, fs, process::Command, sync::Arc, thread};

use resp::Value;
use support::{
    Folder, LONG, Redis, RedisClient, Store, assert_same, field, follow, wait_for_link, wait_until, wait_within,
};

/// A message that was reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    receipt: String,
    body: String,
    attempts: i64,
}

fn message(value: &Value) -> Message {
    let pairs = value.as_slice().unwrap();
    let found = |name: &str| {
        let pair = pairs.chunks(2).find(|pair| pair[0].as_bytes() == Some(name.as_bytes()));
        pair.unwrap_or_else(|| panic!("no {name} in {value:?}"))[1].clone()
    };
    let text = |name: &str| String::from_utf8_lossy(found(name).as_bytes().unwrap()).into_owned();
    let Value::Integer(attempts) = found("attempts") else { panic!("{value:?}") };
    Message { receipt: text("receipt"), body: text("body"), attempts }
}

fn messages(value: &Value) -> Vec<Message> {
    match value {
        Value::Null | Value::NullArray => Vec::new(),
        value => value.as_slice().unwrap_or_else(|| panic!("{value:?}")).iter().map(message).collect(),
    }
}

fn reserve(client: &mut RedisClient, words: &[&str]) -> Vec<Message> {
    let words: Vec<&str> = ["QUEUE", "RESERVE"].iter().chain(words).copied().collect();
    messages(&client.command(&words))
}

/// A figure of a queue.
fn figure(client: &mut RedisClient, key: &str, name: &str) -> i64 {
    let stat = client.command(&["QUEUE", "STAT", key]);
    let pairs = stat.as_slice().unwrap_or_else(|| panic!("{stat:?}"));
    let pair = pairs.chunks(2).find(|pair| pair[0].as_bytes() == Some(name.as_bytes())).unwrap();
    let Value::Integer(number) = pair[1] else { panic!("{name}: {pair:?}") };
    number
}

/// Publishes numbered messages, and returns how many.
fn fill(client: &mut RedisClient, key: &str, numbers: std::ops::Range<usize>, padding: usize) -> usize {
    let all: Vec<usize> = numbers.collect();
    let padding = "x".repeat(padding);
    for some in all.chunks(500) {
        let bodies: Vec<String> = some.iter().map(|number| format!("{number}:{padding}")).collect();
        let words: Vec<&str> =
            ["QUEUE", "PUSH", key, "BODY"].into_iter().chain(bodies.iter().map(String::as_str)).collect();
        assert_eq!(client.command(&words).as_slice().unwrap().len(), some.len());
    }
    all.len()
}

fn number(message: &Message) -> usize {
    message.body.split(':').next().unwrap().parse().unwrap()
}

#[test]
fn what_was_answered_outlives_a_kill_and_an_id_counts_once() {
    let mut store = Store::start(&["--appendfsync", "always"]);
    let publishers: Vec<_> = (0..4)
        .map(|publisher| {
            let address = store.address;
            thread::spawn(move || {
                let mut client = RedisClient::connect(address);
                let mut answered = Vec::new();
                for number in 0.. {
                    let id = format!("{publisher}-{number}");
                    let words = ["QUEUE", "PUSH", "jobs", "ID", &id, "BODY", &id];
                    match client.try_command(&words) {
                        Some(reply) if reply.as_slice().is_some() => answered.push(id),
                        _ => return (answered, id),
                    }
                }
                unreachable!()
            })
        })
        .collect();
    let mut client = store.client();
    // Some are in the hands of a consumer, and some are done.
    let mut done = BTreeSet::new();
    let mut held = Vec::new();
    while done.len() < 300 {
        for one in reserve(&mut client, &["jobs", "COUNT", "10", "TIMEOUT", "600000", "BLOCK", "5000"]) {
            if held.len() < 20 {
                held.push(one);
            } else {
                assert_eq!(client.text(&["QUEUE", "DELETE", "jobs", &one.receipt]), "1");
                assert!(done.insert(one.body));
            }
        }
    }
    store.kill();
    let ended: Vec<_> = publishers.into_iter().map(|publisher| publisher.join().unwrap()).collect();
    let store = Store::start_in(Arc::clone(&store.folder), &["--appendfsync", "always"]);
    let mut client = store.client();
    for (_, unsure) in &ended {
        // Whether it was published is not known: so it is published again, and then again.
        let again = client.command(&["QUEUE", "PUSH", "jobs", "ID", unsure, "BODY", unsure]);
        assert_eq!(client.command(&["QUEUE", "PUSH", "jobs", "ID", unsure, "BODY", unsure]), again);
    }
    let mut left = BTreeSet::new();
    for one in &held {
        assert_eq!(client.text(&["QUEUE", "DELETE", "jobs", &one.receipt]), "1", "its receipt counts as before");
        assert!(left.insert(one.body.clone()));
    }
    loop {
        let given = reserve(&mut client, &["jobs", "COUNT", "1000"]);
        if given.is_empty() {
            break;
        }
        given.into_iter().for_each(|one| assert!(left.insert(one.body.clone()), "{} twice", one.body));
    }
    for (answered, unsure) in ended {
        for id in answered.iter().chain([&unsure]) {
            assert!(done.contains(id) ^ left.contains(id), "{id} is there once, or is done");
        }
    }
}

#[test]
fn a_consumer_waits_for_a_message_a_delay_and_a_time_out() {
    let store = Store::start(&[]);
    let (mut client, mut consumer) = (store.client(), store.client());
    for (publish, body, attempts) in [
        (&["QUEUE", "PUSH", "q", "BODY", "now"][..], "now", 1),
        (&["QUEUE", "PUSH", "q", "DELAY", "150", "BODY", "later"], "later", 1),
        // Nobody publishes anything: the first one comes back.
        (&["PING"], "now", 2),
    ] {
        consumer.send_command(&["QUEUE", "RESERVE", "q", "BLOCK", "0", "TIMEOUT", "700"]);
        wait_until("it waits", || client.text(&["INFO", "clients"]).contains("blocked_clients:1"));
        client.command(publish);
        let given = messages(&consumer.reply().unwrap());
        assert_eq!((given[0].body.as_str(), given[0].attempts), (body, attempts));
    }
}

#[test]
fn a_replica_has_the_queue_and_goes_on_with_it() {
    let mut master_store = Store::start(&["--enable-debug-command", "yes"]);
    let mut master = master_store.client();
    // Enough that the copy has it in pieces.
    let count = fill(&mut master, "q", 0..3_000, 100);
    master.text(&["QUEUE", "PUSH", "q", "GROUP", "g", "ID", "same", "DELAY", "100000", "BODY", "in-a-group"]);
    let before = reserve(&mut master, &["q", "COUNT", "5", "TIMEOUT", "600000"]);
    let replica_store = Store::start(&["--enable-debug-command", "yes"]);
    let mut replica = replica_store.client();
    follow(&mut replica, master_store.address);
    wait_for_link(&mut replica);
    assert_same(&mut master, &mut replica);
    let behind = reserve(&mut master, &["q", "COUNT", "5", "CONSUMER", "c", "TIMEOUT", "600000"]);
    assert_eq!(master.text(&["QUEUE", "DELETE", "q", &behind[0].receipt]), "1");
    assert_eq!(master.text(&["QUEUE", "BURY", "q", &behind[1].receipt, "REASON", "broken"]), "OK");
    assert_eq!(master.text(&["QUEUE", "RELEASE", "q", &behind[2].receipt]), "OK");
    fill(&mut master, "other", 0..10, 0);
    assert_same(&mut master, &mut replica);
    assert!(replica.text(&["QUEUE", "RESERVE", "q"]).starts_with("READONLY"));
    for name in ["ready", "reserved", "dead", "delayed", "deleted", "published"] {
        assert_eq!(figure(&mut replica, "q", name), figure(&mut master, "q", name), "{name}");
    }
    assert_eq!(master.text(&["WAIT", "1", "10000"]), "1");
    master_store.kill();
    assert_eq!(replica.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    for one in before.iter().chain(&behind[3..]) {
        assert_eq!(replica.text(&["QUEUE", "DELETE", "q", &one.receipt]), "1");
    }
    assert_eq!(replica.text(&["QUEUE", "DELETE", "q", &behind[0].receipt]), "0");
    let again = replica.command(&["QUEUE", "PUSH", "q", "ID", "same", "BODY", "again"]);
    assert_eq!(figure(&mut replica, "q", "duplicates"), 1, "{again:?}");
    let mut numbers = Vec::new();
    loop {
        let given = reserve(&mut replica, &["q", "COUNT", "1000"]);
        if given.is_empty() {
            break;
        }
        numbers.extend(given.iter().map(number));
    }
    assert_eq!(numbers.len(), count - before.len() - behind.len() + 1);
    assert_eq!(numbers[0], 7, "what was released comes first");
    assert!(numbers[1..].is_sorted());
}

#[test]
fn a_queue_moves_with_its_slot() {
    let node = || Store::start(&["--cluster-enabled", "yes", "--enable-debug-command", "yes"]);
    let (first, second) = (node(), node());
    let tell = |epoch: u32, owner: usize| {
        for (to, store) in [&first, &second].into_iter().enumerate() {
            let line = |number: usize, at: &Store| {
                let mine = if to == number { "myself," } else { "" };
                let slots = if owner == number { " 0-16383" } else { "" };
                format!("n{number} {}@0 {mine}master - 0 0 {epoch} connected{slots}\n", at.address)
            };
            let text = format!("{}{}", line(0, &first), line(1, &second));
            assert_eq!(store.client().text(&["CLUSTER", "TOPOLOGY", &epoch.to_string(), &text]), "OK");
        }
    };
    tell(1, 0);
    let mut client = first.client();
    let count = fill(&mut client, "q", 0..3_000, 100);
    let held = reserve(&mut client, &["q", "COUNT", "3", "TIMEOUT", "600000"]);
    let mover =
        store::slotmove::start(store::slotmove::Move::between(first.address, second.address, (0, 16383))).unwrap();
    wait_within(LONG, "the mover follows", || match mover.progress().phase {
        store::slotmove::Phase::Failed(reason) => panic!("{reason}"),
        phase => phase == store::slotmove::Phase::Following,
    });
    // What happens meanwhile has the time at which it happened.
    client.text(&["QUEUE", "PUSH", "q", "DELAY", "300000", "BODY", "delayed"]);
    assert_eq!(client.text(&["QUEUE", "DELETE", "q", &held[0].receipt]), "1");
    let digest = client.text(&["DEBUG", "DIGEST-VALUE", "q"]);
    assert_eq!(client.text(&["CLUSTER", "PAUSE", "0", "16383", "60000"]), "OK");
    let end: u64 = field(&mut client, "master_repl_offset").parse().unwrap();
    wait_within(LONG, "the mover has everything", || mover.progress().applied >= end);
    tell(2, 1);
    mover.stop();
    let mut there = second.client();
    assert_eq!(there.text(&["DEBUG", "DIGEST-VALUE", "q"]), digest);
    assert_eq!(figure(&mut there, "q", "delayed"), 1);
    for one in &held[1..] {
        assert_eq!(there.text(&["QUEUE", "DELETE", "q", &one.receipt]), "1");
    }
    let given = reserve(&mut there, &["q", "COUNT", "1000"]);
    assert_eq!((given.len(), number(&given[0])), (1000, held.len()));
    assert_eq!(figure(&mut there, "q", "ready") as usize, count - held.len() - given.len());
    assert!(client.text(&["QUEUE", "STAT", "q"]).starts_with("MOVED"));
}

#[test]
fn redis_is_not_given_a_queue_and_the_log_says_so() {
    let version = if Redis::is_old() { "9" } else { "10" };
    let folder = Folder::new();
    let log = folder.0.join("log");
    let store = Store::start(&["--replica-rdb-version", version, "--logfile", log.to_str().unwrap()]);
    let mut client = store.client();
    client.text(&["QUEUE", "PUSH", "q", "one"]);
    let redis = Redis::start(&[]);
    let mut replica = redis.client();
    let dump = client.command(&["DUMP", "q"]);
    let payload = dump.as_bytes().unwrap();
    let mut words = b"*4\r\n$7\r\nRESTORE\r\n$1\r\nq\r\n$1\r\n0\r\n".to_vec();
    words.extend(format!("${}\r\n", payload.len()).bytes().chain(payload.iter().copied()).chain(*b"\r\n"));
    replica.send(&words);
    assert!(replica.reply().unwrap().as_error().is_some());
    assert_eq!(client.text(&["SAVE"]), "OK");
    follow(&mut replica, store.address);
    wait_within(LONG, "the log says why", || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("it is a queue, which Redis does not have"))
    });
    assert_eq!(replica.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert_eq!(reserve(&mut client, &["q"])[0].body, "one", "the store serves all the same");
    let file = folder.0.join("dump.rdb");
    let export = |more: &[&str]| {
        let from = store.address.to_string();
        let program = env!("CARGO_BIN_EXE_tidegate");
        let output = Command::new(program).args(["export", "--from", &from]).args(more).arg(&file).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_done, told) = export(&[]);
    assert!(!is_done && told.contains("'q'") && told.contains("queue"), "{told}");
    let (is_done, told) = export(&["--with-queues"]);
    assert!(is_done, "{told}");
    let other = Store::start(&[]);
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["import", file.to_str().unwrap(), "--to", &other.address.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(figure(&mut other.client(), "q", "reserved"), 1);
}

#[test]
fn more_messages_wait_than_memory_holds() {
    // As many bytes of bodies as memory may take, and as much again.
    const COUNT: usize = 128_000;
    const LEN: usize = 1_000;
    let store = Store::start(&["--maxmemory", "64mb"]);
    let mut client = store.client();
    fill(&mut client, "q", 0..COUNT, LEN);
    let used = |client: &mut RedisClient| -> u64 {
        let info = client.text(&["INFO", "memory"]);
        info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim().parse().unwrap()
    };
    wait_within(LONG, "memory is within its bound", || used(&mut client) <= 64 << 20);
    assert_eq!(figure(&mut client, "q", "ready") as usize, COUNT);
    let mut next = 0;
    while next < 3_000 {
        let given = reserve(&mut client, &["q", "COUNT", "100", "TIMEOUT", "600000"]);
        let mut words = vec!["QUEUE", "DELETE", "q"];
        for one in &given {
            assert_eq!(number(one), next);
            next += 1;
            words.push(&one.receipt);
        }
        client.command(&words);
    }
    assert_eq!(figure(&mut client, "q", "ready") as usize, COUNT - next);
    assert!(used(&mut client) <= 80 << 20);
    assert_eq!(client.text(&["QUEUE", "PURGE", "q"]), (COUNT - next).to_string());
    assert_eq!(client.text(&["QUEUE", "RESERVE", "q"]), "(nil)");
}
