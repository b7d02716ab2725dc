//! Keys that go because memory is full, and those that do not although it is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::{Client, Folder, start};

fn stat(client: &mut Client, name: &str) -> u64 {
    let info = client.text(&["INFO"]);
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.parse().ok()).unwrap_or_default()
}

/// Sets keys in pipelines.
#[track_caller]
fn set_many(client: &mut Client, name: &str, count: usize, value: &str) {
    for from in (0..count).step_by(500) {
        let keys: Vec<String> = (from..count.min(from + 500)).map(|number| format!("{name}:{number}")).collect();
        let mut bytes = Vec::new();
        keys.iter().for_each(|key| resp::encode_command(&mut bytes, &["SET", key.as_str(), value]));
        assert!(client.send(&bytes));
        for key in keys {
            assert_eq!(client.reply(), Some(resp::Value::Simple(b"OK".to_vec())), "{key}");
        }
    }
}

/// What is being removed, and what records leave behind, is no reason for keys to go.
#[test]
fn keys_go_when_keys_are_too_many() {
    let folder = Folder::new();
    let store = start(&folder.data(), &["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = store.client();
    let elements: Vec<String> = (0..1_000).map(|number| format!("element:{number}")).collect();
    let push = |client: &mut Client, key: &str| {
        for _ in 0..150 {
            let words: Vec<&str> = ["RPUSH", key].into_iter().chain(elements.iter().map(String::as_str)).collect();
            client.command(&words);
        }
    };
    for key in ["one", "two", "three"] {
        push(&mut client, key);
    }
    client.text(&["FLUSHALL"]);
    set_many(&mut client, "key", 80_000, &"x".repeat(300));
    client.text(&["FLUSHALL"]);
    push(&mut client, "large");
    client.text(&["DEL", "large"]);
    set_many(&mut client, "key", 80_000, &"x".repeat(300));
    assert_eq!(client.text(&["DBSIZE"]), "80000");
    assert_eq!(stat(&mut client, "evicted_keys"), 0);
    // Ten clients ask for a hundred times as much as there is room for.
    client.text(&["SET", "long", &"y".repeat(20_000)]);
    let mut request = Vec::new();
    (0..2_000).for_each(|_| resp::encode_command(&mut request, &["GET", "long"]));
    let mut readers: Vec<Client> = (0..10).map(|_| store.client()).collect();
    readers.iter_mut().for_each(|reader| assert!(reader.send(&request)));
    for reader in &mut readers {
        (0..2_000).for_each(|_| assert!(matches!(reader.reply(), Some(resp::Value::Bulk(_)))));
    }
    assert!(stat(&mut client, "evicted_keys") < 8_000, "{} went", stat(&mut client, "evicted_keys"));
    // Many more than there is room for: old ones go, and nothing is refused.
    set_many(&mut client, "more", 120_000, &"x".repeat(300));
    let keys: u64 = client.text(&["DBSIZE"]).parse().unwrap();
    assert!((90_000..200_000).contains(&keys), "{keys}");
}

/// What clients have said they will send takes no room from keys, and all of them may send it.
#[test]
fn keys_stay_until_what_was_announced_has_come() {
    const CLIENTS: usize = 50;
    let folder = Folder::new();
    let store = start(&folder.data(), &["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = store.client();
    set_many(&mut client, "key", 60_000, &"x".repeat(300));
    let value = "y".repeat(1_000_000);
    let requests: Vec<Vec<u8>> = (0..CLIENTS)
        .map(|number| {
            let mut request = Vec::new();
            resp::encode_command(&mut request, &["SET", &format!("long:{number}"), &value]);
            request
        })
        .collect();
    let mut senders: Vec<Client> = (0..CLIENTS).map(|_| store.client()).collect();
    for (sender, request) in senders.iter_mut().zip(&requests) {
        assert!(sender.send(&request[..100_000]));
    }
    let come = |client: &mut Client| {
        let list = client.text(&["CLIENT", "LIST"]);
        list.lines().filter(|line| line.contains(" qbuf=9996")).count()
    };
    while come(&mut client) < CLIENTS {
        std::thread::yield_now();
    }
    assert_eq!(client.text(&["DBSIZE"]), "60000");
    assert_eq!(stat(&mut client, "evicted_keys"), 0);
    std::thread::scope(|scope| {
        for (sender, request) in senders.iter_mut().zip(&requests) {
            scope.spawn(|| {
                assert!(sender.send(&request[100_000..]));
                assert_eq!(sender.reply(), Some(resp::Value::Simple(b"OK".to_vec())));
            });
        }
    });
}
