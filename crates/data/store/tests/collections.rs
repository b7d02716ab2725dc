//! Collections whose elements are records, on a disk.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{fs, path::Path, thread, time::Duration};

use engine::{
    Bounds, Direction, FjallEngine, FjallOptions, Records as _,
    record::{self, RecordKey},
};
use support::{Client, Folder, start, wait_until};

const SPREAD: &[&str] = &["--collection-max-whole-entries", "64"];
/// Replies to the commands for one number.
const COMMANDS: usize = 5;

fn entry(number: usize) -> String {
    format!("{}-7", number + 1)
}

fn add(number: usize, bytes: &mut Vec<u8>) {
    let text = number.to_string();
    resp::encode_command(bytes, &["HSET", "hash", &format!("f{number}"), &text]);
    resp::encode_command(bytes, &["ZADD", "zset", &text, &format!("m{number}")]);
    resp::encode_command(bytes, &["RPUSH", "list", &text]);
    resp::encode_command(bytes, &["XADD", "stream", &entry(number), "f", &text]);
    resp::encode_command(bytes, &["SADD", "set", &format!("m{number}")]);
}

/// How many numbers the collections have, all the same and each in its place; those that one has more were on their way.
fn check(client: &mut Client, least: usize) {
    let lens: Vec<usize> =
        [["HLEN", "hash"], ["ZCARD", "zset"], ["LLEN", "list"], ["XLEN", "stream"], ["SCARD", "set"]]
            .iter()
            .map(|command| client.text(command).parse().unwrap())
            .collect();
    assert!(lens.windows(2).all(|pair| pair[0] == pair[1] || pair[0] == pair[1] + 1), "{lens:?}");
    assert!(lens[4] >= least, "{lens:?}, {least} were acknowledged");
    for number in (0..lens[4]).step_by(37).chain([lens[4] - 1]) {
        let text = number.to_string();
        assert_eq!(client.text(&["HGET", "hash", &format!("f{number}")]), text);
        assert_eq!(client.text(&["ZRANK", "zset", &format!("m{number}")]), text);
        assert_eq!(client.text(&["LINDEX", "list", &text]), text);
        assert_eq!(client.text(&["SISMEMBER", "set", &format!("m{number}")]), "1");
        let found = client.command(&["XRANGE", "stream", &entry(number), "+", "COUNT", "1"]);
        let found = found.as_slice().unwrap()[0].as_slice().unwrap()[1].as_slice().unwrap()[1].clone();
        assert_eq!(found.as_bytes(), Some(text.as_bytes()));
    }
    assert_eq!(client.text(&["HGET", "hash", &format!("f{}", lens[0])]), "(nil)");
    for (command, len) in [(["ZRANGE", "zset", "0", "-1"], lens[1]), (["XRANGE", "stream", "-", "+"], lens[3])] {
        assert_eq!(client.command(&command).as_slice().unwrap().len(), len);
    }
}

#[test]
fn who_asks_for_much_at_once_takes_turns_with_others_and_gets_all_in_order() {
    const FIELDS: usize = 5_000;
    let folder = Folder::new();
    let store = start(&folder.data(), SPREAD);
    let mut client = store.client();
    let (mut fill, mut asks) = (Vec::new(), Vec::new());
    for number in 0..FIELDS {
        resp::encode_command(&mut fill, &["HSET", "hash", &format!("f{number}"), &number.to_string()]);
    }
    assert!(client.send(&fill));
    (0..FIELDS).for_each(|_| drop(client.reply().expect("a reply")));
    client.text(&["DEBUG", "RELOAD"]);
    let asked: Vec<usize> = (0..FIELDS).map(|number| number * 37 % FIELDS).collect();
    for numbers in asked.chunks(50) {
        let fields = numbers.iter().map(|number| format!("f{number}"));
        resp::encode_command(
            &mut asks,
            &["HMGET".to_owned(), "hash".to_owned()].into_iter().chain(fields).collect::<Vec<_>>(),
        );
    }
    resp::encode_command(&mut asks, &["PING"]);
    assert!(client.send(&asks));
    for numbers in asked.chunks(50) {
        let reply = client.reply().expect("a reply");
        let texts: Vec<&[u8]> = reply.as_slice().unwrap().iter().map(|value| value.as_bytes().unwrap()).collect();
        let wanted: Vec<String> = numbers.iter().map(usize::to_string).collect();
        assert_eq!(texts, wanted.iter().map(String::as_bytes).collect::<Vec<_>>());
    }
    assert_eq!(client.reply().expect("a reply").as_bytes(), Some(b"PONG".as_slice()));
}

#[test]
fn a_store_that_is_killed_while_collections_grow_has_what_it_acknowledged() {
    const AT_ONCE: usize = 50;
    let folder = Folder::new();
    let mut count = 0;
    for round in 0..3 {
        let mut store = start(&folder.data(), SPREAD);
        let mut client = store.client();
        if round > 0 {
            check(&mut client, count);
            count = client.text(&["LLEN", "list"]).parse().unwrap();
            // What was cut off in the middle of a number.
            client.text(&["SADD", "set", &format!("m{}", count - 1)]);
            if client.text(&["XLEN", "stream"]) != count.to_string() {
                client.text(&["XADD", "stream", &entry(count - 1), "f", &(count - 1).to_string()]);
            }
            let len = client.text(&["HLEN", "hash"]).parse::<usize>().unwrap();
            client.text(&["HDEL", "hash", &format!("f{count}")]);
            client.text(&["ZREM", "zset", &format!("m{count}")]);
            assert!(len <= count + 1);
        }
        for step in 0..12 {
            let mut bytes = Vec::new();
            (count..count + AT_ONCE).for_each(|number| add(number, &mut bytes));
            if step % 3 == 1 {
                // The next ones meet a checkpoint at any of its stages.
                resp::encode_command(&mut bytes, &["BGSAVE"]);
            }
            client.send(&bytes);
            if step == 11 {
                store.kill();
                let answered = std::iter::from_fn(|| client.reply()).count();
                count += answered / COMMANDS;
                break;
            }
            (0..AT_ONCE * COMMANDS + usize::from(step % 3 == 1)).for_each(|_| drop(client.reply().unwrap()));
            count += AT_ONCE;
        }
    }
    let mut store = start(&folder.data(), SPREAD);
    check(&mut store.client(), count);
    assert_eq!(store.stop(), Some(0));
    // All of it out of the tables.
    let store = start(&folder.data(), SPREAD);
    check(&mut store.client(), count);
}

/// How many elements the tables of a store that has stopped have, and how many collections that are no more.
fn left(folder: &Path) -> (usize, usize) {
    let tables = FjallEngine::open(&folder.join("shard-0/tables"), &FjallOptions::default()).unwrap();
    let mut left = (0, 0);
    for found in tables.scan(&Bounds::all(), Direction::Forward) {
        match record::decode(&found.unwrap().0).unwrap() {
            RecordKey::Element { .. } => left.0 += 1,
            RecordKey::Orphan { .. } => left.1 += 1,
            _ => {}
        }
    }
    left
}

#[test]
fn elements_of_what_is_gone_are_removed_from_the_tables() {
    const COUNT: usize = 12_000;
    let folder = Folder::new();
    let mut store = start(&folder.data(), SPREAD);
    let mut client = store.client();
    for (db, key) in [("0", "hash"), ("1", "other")] {
        client.text(&["SELECT", db]);
        let mut bytes = Vec::new();
        (0..COUNT).for_each(|number| resp::encode_command(&mut bytes, &["HSET", key, &number.to_string(), "x"]));
        client.send(&bytes);
        (0..COUNT).for_each(|_| drop(client.reply().unwrap()));
    }
    assert_eq!(store.stop(), Some(0));
    assert_eq!(left(&folder.data()), (2 * COUNT, 0));
    let mut store = start(&folder.data(), SPREAD);
    let mut client = store.client();
    assert_eq!(client.text(&["DEL", "hash"]), "1");
    client.text(&["SELECT", "1"]);
    assert_eq!(client.text(&["FLUSHDB"]), "OK");
    assert_eq!(store.stop(), Some(0));
    // It goes on when the store starts again.
    let mut starts = 0;
    wait_until("all elements are gone", || {
        let mut store = start(&folder.data(), SPREAD);
        starts += 1;
        thread::sleep(Duration::from_millis(300 * starts));
        assert_eq!(store.client().text(&["DBSIZE"]), "0");
        assert_eq!(store.stop(), Some(0));
        left(&folder.data()) == (0, 0)
    });
}

/// A client that does not read its reply delays nobody, and gets all of what was there although it is gone meanwhile.
#[test]
fn a_slow_reader_gets_a_collection_that_is_gone() {
    const COUNT: usize = 30_000;
    let folder = Folder::new();
    // It is too large for memory.
    let words = [SPREAD, &["--maxmemory", "64mb"]].concat();
    let mut store = start(&folder.data(), &words);
    let mut client = store.client();
    let value = "v".repeat(400);
    for from in (0..COUNT).step_by(1_000) {
        let fields: Vec<String> = (from..from + 1_000).flat_map(|number| [number.to_string(), value.clone()]).collect();
        let words: Vec<&str> = ["HSET", "hash"].into_iter().chain(fields.iter().map(String::as_str)).collect();
        assert_eq!(client.text(&words), "1000");
    }
    assert_eq!(store.stop(), Some(0));
    let mut store = start(&folder.data(), &words);
    let (mut slow, mut client) = (store.client(), store.client());
    let mut bytes = Vec::new();
    resp::encode_command(&mut bytes, &["HGETALL", "hash"]);
    resp::encode_command(&mut bytes, &["EXISTS", "hash"]);
    slow.send(&bytes);
    wait_until("it has begun", || client.text(&["CLIENT", "LIST"]).contains("cmd=hgetall"));
    assert_eq!(client.text(&["HSET", "hash", "0", "changed", "new", "x"]), "1");
    assert_eq!(client.text(&["HDEL", "hash", "1"]), "1");
    assert_eq!(client.text(&["DEL", "hash"]), "1");
    assert_eq!(client.text(&["SAVE"]), "OK");
    let reply = slow.reply().unwrap();
    let reply = reply.as_slice().unwrap();
    assert_eq!(reply.len(), 2 * COUNT);
    assert!(reply.chunks(2).all(|pair| pair[1].as_bytes() == Some(value.as_bytes())));
    assert_eq!(slow.reply().unwrap(), resp::Value::Integer(0));
    assert_eq!(store.stop(), Some(0));
}

/// What is copied from the disk to the disk does not go through memory as a whole, and a copy that was not whole when the store was
/// killed leaves nothing.
#[test]
fn copies_on_the_disk_are_whole_or_nothing() {
    const COUNT: usize = 40_000;
    const BOUND: usize = 24 << 20;
    let folder = Folder::new();
    let words = [SPREAD, &["--maxmemory", "24mb"]].concat();
    let mut store = start(&folder.data(), &words);
    let mut client = store.client();
    let value = "v".repeat(400);
    send_all(&mut client, 0..COUNT, |number| vec!["HSET".into(), "hash".into(), number.to_string(), value.clone()]);
    assert_eq!(store.stop(), Some(0));
    let mut store = start(&folder.data(), &words);
    let mut client = store.client();
    let figure = |client: &mut Client, section: &str, name: &str| {
        let text = client.text(&["INFO", section]);
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap().trim().parse::<usize>().unwrap()
    };
    // Nothing else is written meanwhile.
    assert_eq!(client.text(&["COPY", "hash", "moved"]), "1");
    assert_eq!(client.text(&["MOVE", "moved", "1"]), "1");
    let peak = figure(&mut client, "memory", "used_memory_peak");
    assert!(peak <= BOUND, "{peak}");
    let before = figure(&mut client, "persistence", "rdb_saves");
    let mut bytes = Vec::new();
    resp::encode_command(&mut bytes, &["COPY", "hash", "half"]);
    client.send(&bytes);
    let mut other = store.client();
    wait_until("some of it is in the tables", || figure(&mut other, "persistence", "rdb_saves") > before + 1);
    store.kill();
    assert_eq!(client.reply(), None, "it was too fast for this test");
    let mut starts = 0;
    wait_until("its elements are gone", || {
        let mut store = start(&folder.data(), &words);
        starts += 1;
        thread::sleep(Duration::from_millis(300 * starts));
        let mut client = store.client();
        assert_eq!(client.text(&["EXISTS", "half", "moved"]), "0");
        assert_eq!(client.text(&["HLEN", "hash"]), COUNT.to_string());
        client.text(&["SELECT", "1"]);
        assert_eq!(client.text(&["HLEN", "moved"]), COUNT.to_string());
        assert_eq!(client.text(&["HGET", "moved", "777"]), value);
        assert_eq!(store.stop(), Some(0));
        left(&folder.data()) == (2 * COUNT, 0)
    });
}

/// Sends commands, one for each number, and drops their replies.
fn send_all(client: &mut Client, numbers: std::ops::Range<usize>, command: impl Fn(usize) -> Vec<String>) {
    const AT_ONCE: usize = 1_000;
    let numbers: Vec<usize> = numbers.collect();
    for some in numbers.chunks(AT_ONCE) {
        let mut bytes = Vec::new();
        some.iter().for_each(|number| resp::encode_command(&mut bytes, &command(*number)));
        client.send(&bytes);
        some.iter().for_each(|_| drop(client.reply().unwrap()));
    }
}

#[test]
fn collections_that_are_used_come_into_memory_while_they_change() {
    const COUNT: usize = 6_000;
    const IN_MEMORY: usize = 30_000;
    let folder = Folder::new();
    let mut store = start(&folder.data(), SPREAD);
    let mut client = store.client();
    send_all(&mut client, 0..COUNT, |number| {
        vec!["HSET".into(), "hash".into(), format!("f{number}"), format!("v{number}")]
    });
    send_all(&mut client, 0..COUNT, |number| {
        vec!["ZADD".into(), "zset".into(), number.to_string(), format!("m{number}")]
    });
    send_all(&mut client, 0..COUNT, |number| vec!["RPUSH".into(), "list".into(), format!("e{number}")]);
    assert_eq!(store.stop(), Some(0));
    for is_killed in [false, true] {
        let mut store = start(&folder.data(), SPREAD);
        let mut client = store.client();
        let size = |client: &mut Client, key: &str| client.text(&["MEMORY", "USAGE", key]).parse::<usize>().unwrap();
        assert!(["hash", "zset", "list"].iter().all(|key| size(&mut client, key) < IN_MEMORY));
        for (key, command) in [("hash", "HLEN"), ("zset", "ZCARD"), ("list", "LLEN")] {
            // They change before, while and after they come.
            let mut turn = 0;
            wait_until("it comes into memory", || {
                turn += 1;
                client.text(&[command, key]);
                let number = turn * 7 % COUNT;
                client.text(&["HSET", "hash", &format!("f{number}"), "changed"]);
                client.text(&["HDEL", "hash", &format!("f{}", number + 1)]);
                client.text(&["ZADD", "zset", &(number * 10).to_string(), &format!("m{number}")]);
                client.text(&["LSET", "list", &number.to_string(), "changed"]);
                size(&mut client, key) > IN_MEMORY
            });
            send_all(&mut client, 0..50, |number| {
                vec!["HSET".into(), "hash".into(), format!("f{number}"), "again".into()]
            });
            send_all(&mut client, 0..50, |number| vec!["ZREM".into(), "zset".into(), format!("m{number}")]);
            send_all(&mut client, 0..50, |_| vec!["LPOP".into(), "list".into()]);
        }
        let digests = ["DEBUG", "DIGEST-VALUE", "hash", "zset", "list"];
        let before = client.text(&digests);
        if is_killed {
            store.kill();
        } else {
            assert_eq!(store.stop(), Some(0));
        }
        let mut store = start(&folder.data(), SPREAD);
        assert_eq!(store.client().text(&digests), before);
        assert_eq!(store.stop(), Some(0));
    }
}

/// What the files of the tables take of the disk.
fn bytes_of_tables(folder: &Path) -> u64 {
    let tables = fs::read_dir(folder.join("shard-0/tables/tree/tables")).unwrap();
    tables.map(|entry| entry.unwrap().metadata().map_or(0, |meta| meta.len())).sum()
}

/// Text that cannot be made much smaller.
fn letters(seed: u64, len: usize) -> String {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state % 26) as u8)
    };
    (0..len).map(letter).collect()
}

#[test]
fn what_emptied_databases_took_of_the_disk_comes_back_by_itself() {
    const COUNT: usize = 12_000;
    let folder = Folder::new();
    let store = start(&folder.data(), &["--maxmemory", "64mb"]);
    let mut client = store.client();
    client.text(&["SET", "kept", "x"]);
    client.text(&["SELECT", "1"]);
    for from in (0..COUNT).step_by(1_000) {
        send_all(&mut client, from..from + 1_000, |number| {
            vec!["SET".into(), format!("key:{number}"), letters(number as u64, 1_000)]
        });
    }
    wait_until("all is in the tables", || client.text(&["SAVE"]) == "OK");
    assert!(bytes_of_tables(&folder.data()) > 8 << 20);
    assert_eq!(client.text(&["FLUSHDB"]), "OK");
    wait_until("that too", || client.text(&["SAVE"]) == "OK");
    // Nobody writes any more.
    wait_until("the disk has its room back", || bytes_of_tables(&folder.data()) < 1 << 20);
    client.text(&["SELECT", "0"]);
    assert_eq!((client.text(&["GET", "kept"]), client.text(&["DBSIZE"])), ("x".into(), "1".into()));
}
