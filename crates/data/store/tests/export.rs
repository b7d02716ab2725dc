//! The way out: what a store has, loaded by the real redis-server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use resp::Value;
use store::export::{Exported, FileOptions, FileVersion, RdbOptions, export, export_to_file};
use support::{Client, Folder, Running, redis_server, start, wait_until};

/// Collections of more elements than this are records by element.
const SPREAD: [&str; 2] = ["--collection-max-whole-entries", "50"];

fn options(version: FileVersion, compress: bool) -> RdbOptions {
    RdbOptions { file: FileOptions { version, compress, ..FileOptions::default() }, ..RdbOptions::default() }
}

/// All types in all forms, in some databases of which one was emptied and two were swapped.
fn fill(client: &mut Client) {
    let long = "long ".repeat(2000);
    for db in ["0", "3", "9"] {
        client.text(&["SELECT", db]);
        client.text(&["SET", "emptied", "1"]);
        client.text(&["FLUSHDB"]);
        for (name, count) in [("small", 5), ("large", 400)] {
            let key = |kind: &str| format!("{name}:{kind}:{db}");
            let mut pipeline = Vec::new();
            let mut send = |words: &[&str]| resp::encode_command(&mut pipeline, words);
            for number in 0..count {
                let (text, word) = (number.to_string(), format!("word-{number}-{}", "x".repeat(number % 90)));
                send(&["RPUSH", &key("list"), &word, &text]);
                send(&["SADD", &key("words"), &word]);
                send(&["SADD", &key("numbers"), &text]);
                send(&["HSET", &key("hash"), &word, &text]);
                send(&["ZADD", &key("ordered"), &format!("{}.5", number % 7), &word]);
                send(&["XADD", &key("stream"), &format!("{number}-1"), "field", &word, &text, "x"]);
            }
            assert!(client.send(&pipeline));
            (0..6 * count).for_each(|_| drop(client.reply().expect("a reply")));
            client.text(&["LPUSH", &key("list"), &long]);
            client.text(&["ZADD", &key("ordered"), "-inf", "first", "inf", "last", "-0.0", "zero", "1e300", "far"]);
            client.text(&["HSET", &key("hash"), &long, &long]);
            client.text(&["XGROUP", "CREATE", &key("stream"), "group", "0"]);
            client.text(&["XGROUP", "CREATE", &key("stream"), "idle", "$"]);
            for (consumer, count) in [("one", "3"), ("two", "300"), ("one", "1")] {
                client.command(&[
                    "XREADGROUP",
                    "GROUP",
                    "group",
                    consumer,
                    "COUNT",
                    count,
                    "STREAMS",
                    &key("stream"),
                    ">",
                ]);
            }
            client.text(&["XACK", &key("stream"), "group", "1-1"]);
            client.text(&["XDEL", &key("stream"), "2-1"]);
            client.text(&["PEXPIREAT", &key("hash"), "4102444800123"]);
        }
        for (key, value) in
            [("text", "a"), ("number", "-12345"), ("empty", ""), ("bytes", "\0\r\n"), (long.as_str(), &long)]
        {
            client.text(&["SET", key, value]);
        }
        client.text(&["SET", "expires", "soon", "PXAT", "4102444800000"]);
        client.text(&["SETBIT", "bits", "70000", "1"]);
        client.text(&["PFADD", "counted", "a", "b", "c"]);
        client.text(&["GEOADD", "places", "13.4", "52.5", "Berlin"]);
    }
    client.text(&["SWAPDB", "3", "5"]);
    client.text(&["SELECT", "0"]);
    for name in ["first", "second"] {
        let code = format!("#!lua name={name}\nredis.register_function('{name}', function() return '{name}' end)");
        client.text(&["FUNCTION", "LOAD", &code]);
    }
}

/// What is told of a store or of Redis, to be compared.
#[derive(Debug, PartialEq)]
struct Told {
    digest: String,
    sizes: Vec<String>,
    streams: Vec<String>,
    deadlines: Vec<String>,
    functions: Vec<String>,
}

fn told(client: &mut Client, version: FileVersion) -> Told {
    let mut told = Told {
        digest: client.text(&["DEBUG", "DIGEST"]),
        sizes: Vec::new(),
        streams: Vec::new(),
        deadlines: Vec::new(),
        functions: Vec::new(),
    };
    for db in 0..16 {
        client.text(&["SELECT", &db.to_string()]);
        told.sizes.push(client.text(&["DBSIZE"]));
        for key in ["expires", "large:hash:0", "small:hash:3", "text"] {
            told.deadlines.push(client.text(&["PEXPIRETIME", key]));
        }
        for name in ["small", "large"] {
            let key = format!("{name}:stream:{db}");
            let (words, of_clock): (&[&str], &[&str]) = match version {
                FileVersion::Ten => {
                    (&["XINFO", "STREAM", &key, "FULL", "COUNT", "0"], &["radix-tree-keys", "radix-tree-nodes"])
                }
                // How many entries there ever were is not in the file.
                FileVersion::Nine => (&["XPENDING", &key, "group"], &[]),
            };
            let mut text = String::new();
            flat(&client.command(words), of_clock, &mut text);
            told.streams.push(text);
        }
    }
    client.text(&["SELECT", "0"]);
    told.functions = ["first", "second"].map(|name| client.text(&["FCALL", name, "0"])).to_vec();
    told
}

/// A reply as words, without what follows some of them: trees of Redis take no such memory here.
fn flat(value: &Value, without: &[&str], text: &mut String) {
    match value {
        Value::Array(parts) => {
            text.push('(');
            let mut parts = parts.iter();
            while let Some(part) = parts.next() {
                flat(part, without, text);
                if part.as_bytes().is_some_and(|name| without.iter().any(|known| known.as_bytes() == name)) {
                    parts.next();
                }
            }
            text.push(')');
        }
        Value::Integer(number) => *text += &format!("{number} "),
        other => {
            *text += &format!("{} ", String::from_utf8_lossy(other.as_bytes().or(other.as_error()).unwrap_or(b"(nil)")))
        }
    }
}

/// What is different, in few words.
#[track_caller]
fn check(found: &Told, expected: &Told, what: &str) {
    for (index, (found, expected)) in found.streams.iter().zip(&expected.streams).enumerate() {
        let at = found.bytes().zip(expected.bytes()).take_while(|(one, other)| one == other).count();
        let near = |text: &str| text.get(at.saturating_sub(80)..text.len().min(at + 80)).unwrap_or_default().to_owned();
        assert!(found == expected, "{what}: stream {index} at {at}: {} instead of {}", near(found), near(expected));
    }
    assert_eq!(found, expected, "{what}");
}

fn write(dir: &Path, options: &RdbOptions, to: &Folder) -> Exported {
    export_to_file(dir, options, &to.0.join("dump.rdb")).unwrap()
}

fn loaded(folder: &Folder) -> Running {
    let redis = redis_server(&folder.0, &[]);
    let loading = || redis.client().text(&["INFO", "persistence"]).contains("loading:1");
    wait_until("redis-server has loaded the file", || !loading());
    redis
}

#[test]
fn redis_loads_all_that_a_store_has() {
    let folder = Folder::new();
    let store = start(&folder.data(), &SPREAD);
    let mut client = store.client();
    fill(&mut client);
    // A part of it is in the tables and a part in the log alone.
    client.text(&["SAVE"]);
    for db in ["0", "5"] {
        client.text(&["SELECT", db]);
        client.text(&["SET", "later", db]);
        client.text(&["ZADD", "large:ordered:0", "77", "later"]);
        client.text(&["XADD", "large:stream:0", "1000000-1", "field", "later"]);
        client.text(&["DEL", "bits"]);
    }
    let expected = told(&mut client, FileVersion::Ten);
    for compress in [true, false] {
        let to = Folder::new();
        let exported = write(&folder.data(), &options(FileVersion::Ten, compress), &to);
        assert_eq!((exported.written.databases, exported.written.libraries), (3, 2));
        let len = fs::metadata(to.0.join("dump.rdb")).unwrap().len();
        assert_eq!(exported.written.bytes, len);
        let redis = loaded(&to);
        check(&told(&mut redis.client(), FileVersion::Ten), &expected, "of a store that serves");
        assert!(redis.output().contains("keys loaded: "), "{}", redis.output());
    }
    assert!(!folder.data().join("shard-0/backup").exists());
    // The store was not changed by it, and what the file says is what the store has after its next start too.
    check(&told(&mut client, FileVersion::Ten), &expected, "of a store that serves");
    drop(store);
    let to = Folder::new();
    write(&folder.data(), &options(FileVersion::Ten, true), &to);
    check(&told(&mut loaded(&to).client(), FileVersion::Ten), &expected, "of a store that was killed");
    let mut store = start(&folder.data(), &SPREAD);
    check(&told(&mut store.client(), FileVersion::Ten), &expected, "of a store that serves");
    assert_eq!(store.stop(), Some(0));
    let to = Folder::new();
    write(&folder.data(), &options(FileVersion::Ten, true), &to);
    check(&told(&mut loaded(&to).client(), FileVersion::Ten), &expected, "of a store that was stopped");
}

#[test]
fn older_redis_gets_what_it_knows() {
    let folder = Folder::new();
    let store = start(&folder.data(), &SPREAD);
    let mut client = store.client();
    fill(&mut client);
    client.text(&["SAVE"]);
    let expected = told(&mut client, FileVersion::Nine);
    let to = Folder::new();
    let path = to.0.join("dump.rdb");
    let refused = export_to_file(&folder.data(), &options(FileVersion::Nine, true), &path).unwrap_err().to_string();
    assert!(refused.contains("2 libraries of functions, which Redis 5 and 6 do not know: say --without-functions"));
    assert_eq!(fs::read_dir(&to.0).unwrap().count(), 0, "nothing half written is left");
    let without = RdbOptions { without_functions: true, ..options(FileVersion::Nine, true) };
    write(&folder.data(), &without, &to);
    assert!(fs::read(&path).unwrap().starts_with(b"REDIS0009"));
    let redis = loaded(&to);
    let mut redis = redis.client();
    assert!(redis.text(&["FCALL", "first", "0"]).contains("Function not found"));
    for name in ["first", "second"] {
        let code = format!("#!lua name={name}\nredis.register_function('{name}', function() return '{name}' end)");
        redis.text(&["FUNCTION", "LOAD", &code]);
    }
    check(&told(&mut redis, FileVersion::Nine), &expected, "of a store that serves");
}

#[test]
fn a_file_is_of_one_moment() {
    let folder = Folder::new();
    // Checkpoints come often, and the log's files are given up soon.
    let store = start(&folder.data(), &["--log-retention-size", "1", "--maxmemory", "20mb"]);
    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (mut client, stopping, done) = (store.client(), Arc::clone(&stop), Arc::clone(&acknowledged));
    let writer = thread::spawn(move || {
        let filler = "f".repeat(3000);
        let mut number = 0;
        while !stopping.load(Ordering::Relaxed) {
            number += 1;
            let text = number.to_string();
            client.command(&["MSET", "left", &text, "right", &text]);
            client.command(&["SET", &format!("filler:{}", number % 300), &filler]);
            done.store(number, Ordering::Release);
        }
    });
    for _ in 0..3 {
        let before = acknowledged.load(Ordering::Acquire);
        wait_until("more was written", || acknowledged.load(Ordering::Acquire) > before + 50);
        let before = acknowledged.load(Ordering::Acquire);
        let to = Folder::new();
        write(&folder.data(), &options(FileVersion::Ten, true), &to);
        let after = acknowledged.load(Ordering::Acquire) + 1;
        let redis = loaded(&to);
        let count = |key: &str| redis.client().text(&["GET", key]).parse::<u64>().unwrap();
        assert_eq!(count("left"), count("right"));
        // What was acknowledged in the last second may not be in the file of the log yet where that is synced each second.
        assert!((before..=after).contains(&count("left")), "{before} {} {after}", count("left"));
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

#[test]
fn what_cannot_be_exported_leaves_nothing_behind() {
    let folder = Folder::new();
    let path = folder.0.join("dump.rdb");
    let refused = export_to_file(&folder.0, &RdbOptions::default(), &path).unwrap_err().to_string();
    assert!(refused.contains("is no folder of a store"), "{refused}");
    let mut store = start(&folder.data(), &[]);
    store.client().text(&["SET", "key", &"value".repeat(1000)]);
    assert_eq!(store.stop(), Some(0));
    fs::write(&path, "what was there before").unwrap();

    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert!(export(&folder.data(), &RdbOptions::default(), &mut Full(50)).is_err());
    export(&folder.data(), &RdbOptions::default(), &mut Full(1 << 20)).unwrap();
    // A record that no longer is what it was.
    let tree = folder.data().join("shard-0/tables/tree/tables");
    for entry in fs::read_dir(&tree).unwrap() {
        let file = entry.unwrap().path();
        let mut bytes = fs::read(&file).unwrap();
        bytes[10] ^= 1;
        fs::write(&file, bytes).unwrap();
    }
    assert!(export_to_file(&folder.data(), &RdbOptions::default(), &path).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"what was there before");
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn an_empty_store_is_an_empty_file() {
    let folder = Folder::new();
    let store = start(&folder.data(), &[]);
    let to = Folder::new();
    let exported = write(&folder.data(), &RdbOptions::default(), &to);
    assert_eq!((exported.written.keys, exported.written.databases), (0, 0));
    assert_eq!(loaded(&to).client().text(&["DBSIZE"]), "0");
    assert_eq!(store.client().text(&["PING"]), "PONG");
}
