//! Stores that are nodes of a cluster and serve plain clients (`cluster-proxy`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{collections::BTreeSet, thread};

use support::{RedisClient, Store, wait_until};

/// Nodes that have a third of the slots each.
fn nodes() -> [Store; 3] {
    let node = || Store::start(&["--cluster-enabled", "yes", "--cluster-proxy", "yes"]);
    let stores = [node(), node(), node()];
    tell(&stores, 1, ["0-4999", "5000-9999", "10000-16383"]);
    stores
}

fn tell(stores: &[Store; 3], epoch: u32, slots: [&str; 3]) {
    for myself in 0..3 {
        let line = |(number, store): (usize, &Store)| {
            let mine = if myself == number { "myself," } else { "" };
            format!("n{number} {}@0 {mine}master - 0 0 {epoch} connected {}\n", store.address, slots[number])
        };
        let text: String = stores.iter().enumerate().map(line).collect();
        assert_eq!(stores[myself].client().text(&["CLUSTER", "TOPOLOGY", &epoch.to_string(), &text]), "OK");
    }
}

fn texts(client: &mut RedisClient, words: &[&str]) -> Vec<String> {
    let reply = client.command(words);
    let all = reply.as_slice().unwrap_or_else(|| panic!("{words:?}: {reply:?}"));
    all.iter()
        .map(|value| value.as_bytes().map_or("(nil)".into(), |text| String::from_utf8_lossy(text).into()))
        .collect()
}

#[test]
fn a_plain_client_sees_one_server_at_any_node() {
    let stores = nodes();
    let mut clients = stores.each_ref().map(Store::client);
    let keys: Vec<String> = (0..60).map(|number| format!("key:{number}")).collect();
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(clients[number % 3].text(&["SET", key, &number.to_string()]), "OK");
    }
    for client in &mut clients {
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(client.text(&["GET", key]), number.to_string());
        }
        assert_eq!(client.text(&["DBSIZE"]), "60");
        let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        assert_eq!(texts(client, &words), (0..60).map(|number| number.to_string()).collect::<Vec<_>>());
        let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
        loop {
            let reply = client.command(&["SCAN", &cursor]);
            let parts = reply.as_slice().unwrap();
            let found = parts[1].as_slice().unwrap().iter().map(|key| key.as_bytes().unwrap().to_vec());
            seen.extend(found);
            cursor = String::from_utf8_lossy(parts[0].as_bytes().unwrap()).into_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), 60);
    }
    // Each node has a part.
    for store in &stores {
        let mut knowing = store.client();
        knowing.text(&["READONLY"]);
        assert!((1..60).contains(&knowing.text(&["DBSIZE"]).parse::<u32>().unwrap()));
        let moved = keys.iter().filter(|key| knowing.text(&["GET", key]).starts_with("MOVED")).count();
        assert!(moved > 0, "who knows clusters is sent elsewhere");
    }
    // One after the other in one go, in order.
    let client = &mut clients[0];
    for key in &keys {
        client.send_command(&["INCR", key]);
    }
    for number in 0..60 {
        assert_eq!(client.reply().unwrap().as_integer(), Some(number + 1));
    }
    assert_eq!(client.text(&["DEL", &keys[0], &keys[1], &keys[2]]), "3");
    assert_eq!(client.text(&["FLUSHALL"]), "OK");
    assert_eq!(clients[2].text(&["DBSIZE"]), "0");
}

#[test]
fn transactions_waits_and_messages_cross_nodes() {
    let stores = nodes();
    // The slot of "a" is 15495, the third node's; of "b" 3300, the first's.
    let (mut client, mut other) = (stores[0].client(), stores[1].client());
    for command in [&["MULTI"][..], &["SET", "a", "1"], &["INCR", "a"]] {
        client.text(command);
    }
    assert_eq!(client.command(&["EXEC"]).as_slice().unwrap().len(), 2);
    assert_eq!((other.text(&["GET", "a"]), client.text(&["WATCH", "a"])), ("2".into(), "OK".into()));
    assert_eq!(other.text(&["SET", "a", "9"]), "OK");
    for command in [&["MULTI"][..], &["SET", "a", "3"]] {
        client.text(command);
    }
    assert_eq!(client.text(&["EXEC"]), "(nil)", "it was changed meanwhile");
    assert_eq!((client.text(&["GET", "a"]), client.text(&["SET", "b", "here"])), ("9".into(), "OK".into()));
    for command in [&["MULTI"][..], &["SET", "a", "3"], &["SET", "b", "3"]] {
        client.text(command);
    }
    let said = client.text(&["EXEC"]);
    assert!(said.contains("CROSSSLOT") || said.starts_with("EXECABORT"), "{said}");
    assert_eq!(other.text(&["GET", "b"]), "here");
    // One that waits, and one that leaves while it waits.
    let address = stores[0].address;
    let waiting =
        |key: &'static str| thread::spawn(move || RedisClient::connect(address).command(&["BLPOP", key, "0"]));
    let blocked = |count: &str| {
        let mut third = stores[2].client();
        third.text(&["INFO", "clients"]).contains(&format!("blocked_clients:{count}"))
    };
    let first = waiting("{a}list");
    wait_until("it waits at the node of its key", || blocked("1"));
    assert_eq!(other.text(&["RPUSH", "{a}list", "x"]), "1");
    assert_eq!(first.join().unwrap().as_slice().unwrap().len(), 2);
    let mut leaving = stores[0].client();
    leaving.send_command(&["BLPOP", "{a}list", "0"]);
    wait_until("it waits", || blocked("1"));
    drop(leaving);
    wait_until("it waits no more", || blocked("0"));
    assert_eq!(other.text(&["RPUSH", "{a}list", "kept"]), "1");
    // What is published anywhere is heard everywhere.
    let mut listener = stores[2].client();
    listener.text(&["SUBSCRIBE", "news"]);
    assert_eq!(client.text(&["PUBLISH", "news", "hello"]), "1");
    let message = listener.reply().unwrap();
    assert_eq!(message.as_slice().unwrap()[2].as_bytes(), Some(&b"hello"[..]));
}

#[test]
fn what_is_published_at_one_node_is_heard_at_all_once() {
    let node = || Store::start(&["--cluster-enabled", "yes"]);
    let stores = [node(), node(), node()];
    tell(&stores, 1, ["0-4999", "5000-9999", "10000-16383"]);
    let mut listeners = stores.each_ref().map(Store::client);
    for listener in &mut listeners {
        listener.text(&["SUBSCRIBE", "news"]);
    }
    let mut client = stores[1].client();
    assert_eq!(
        client.text(&["PUBLISH", "news", "plain"]),
        "1",
        "those who listen here are counted, as in Redis Cluster"
    );
    client.text(&["EVAL", "return redis.call('publish', 'news', 'script')", "0"]);
    client.text(&["MULTI"]);
    client.text(&["PUBLISH", "news", "transaction"]);
    client.command(&["EXEC"]);
    client.text(&["PUBLISH", "news", "last"]);
    for listener in &mut listeners {
        for expected in ["plain", "script", "transaction", "last"] {
            let message = listener.reply().unwrap();
            assert_eq!(message.as_slice().unwrap()[2].as_bytes(), Some(expected.as_bytes()));
        }
    }
}

#[test]
fn slots_that_change_hands_are_found() {
    let stores = nodes();
    let mut client = stores[0].client();
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    let mut mover = stores[1].client();
    assert_eq!(mover.text(&["CLUSTER", "CONNECTION", "MOVER", "10000", "16383", "1"]), "OK");
    mover.text(&["SET", "a", "moved"]);
    tell(&stores, 2, ["0-4999", "5000-16383", ""]);
    assert_eq!(client.text(&["GET", "a"]), "moved");
    assert_eq!(stores[2].client().text(&["GET", "a"]), "moved");
}
