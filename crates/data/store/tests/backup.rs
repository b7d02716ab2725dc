//! Backups of stores that go on serving, and what is made of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use store::{
    archive::{Archive as _, FolderArchive},
    backup::{Manifest, Restore, backup, backup_and_keep, names, restore},
    log_dump::point,
};
use support::{Client, Folder, start};

fn fill(client: &mut Client, name: &str, count: usize) {
    for number in 0..count {
        let key = format!("{name}:{number}");
        client.text(&["SET", &key, &"v".repeat(number % 500)]);
        client.text(&["RPUSH", "list", &key]);
        client.text(&["ZADD", "scores", &number.to_string(), &key]);
    }
    client.text(&["SET", "expiring", "x", "PX", "100000000"]);
}

fn digest(client: &mut Client) -> String {
    client.text(&["DEBUG", "DIGEST"])
}

/// The digest of a store that is started on a folder.
fn digest_of(dir: &Path) -> String {
    digest(&mut start(dir, &[]).client())
}

fn all_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut all_files(&path));
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

#[test]
fn a_backup_holds_what_the_store_had_and_copies_nothing_twice() {
    let folder = Folder::new();
    let archive = FolderArchive(folder.0.join("archive"));
    let mut store = start(&folder.data(), &[]);
    fill(&mut store.client(), "first", 300);
    // So that there is something in the tables, and something behind them.
    assert_eq!(store.stop(), Some(0));
    let store = start(&folder.data(), &[]);
    let mut client = store.client();
    fill(&mut client, "second", 100);
    let first_digest = digest(&mut client);
    let first = backup(&folder.data(), &archive).unwrap();
    assert!(first.manifest.records.count >= 300, "{:?}", first.manifest);
    assert!(first.manifest.log_end > first.manifest.applied, "{:?}", first.manifest);
    thread::sleep(Duration::from_millis(5));
    client.text(&["SET", "later", "1"]);
    let second_digest = digest(&mut client);
    let second = backup(&folder.data(), &archive).unwrap();
    assert_eq!(second.copied.0, 1, "the log's last file alone has changed");
    assert_eq!(names(&archive).unwrap(), [first.name.clone(), second.name.clone()]);
    assert!(!folder.data().join("shard-0/backup").exists());

    let none = restore(&Restore::default(), &archive, &folder.data()).unwrap_err().to_string();
    assert!(none.contains("is not empty"), "{none}");
    for (name, expected) in [(Some(first.name), first_digest), (None, second_digest)] {
        let new = Folder::new();
        restore(&Restore { backup: name, until: None }, &archive, &new.data()).unwrap();
        assert_eq!(digest_of(&new.data()), expected);
        // A restored store makes backups like any other.
        backup(&new.data(), &FolderArchive(new.0.join("archive"))).unwrap();
        // It goes on without the one that it is of, so it has a history of its own, and keeps it.
        let history = history_of(&mut start(&new.data(), &[]).client());
        assert_ne!(history, history_of(&mut client));
        assert_eq!(history, history_of(&mut start(&new.data(), &[]).client()));
    }
}

fn history_of(client: &mut Client) -> String {
    let info = client.text(&["INFO", "replication"]);
    info.lines().find_map(|line| line.strip_prefix("master_replid:")).expect("it has one").trim().to_owned()
}

#[test]
fn older_backups_go_with_what_only_they_need() {
    let folder = Folder::new();
    let archive = FolderArchive(folder.0.join("archive"));
    let keep = NonZeroUsize::new(2);
    for round in 0..4 {
        let mut store = start(&folder.data(), &[]);
        fill(&mut store.client(), &format!("round-{round}"), 100);
        assert_eq!(store.stop(), Some(0));
        let made = backup_and_keep(&folder.data(), &archive, keep).unwrap();
        assert_eq!(made.removed.backups, usize::from(round >= 2), "{round}");
        thread::sleep(Duration::from_millis(5));
    }
    let kept = names(&archive).unwrap();
    assert_eq!(kept.len(), 2);
    let needed: BTreeSet<String> = kept
        .iter()
        .map(|name| Manifest::read(&archive, name).unwrap())
        .flat_map(|manifest| [manifest.tables, manifest.log].concat())
        .map(|item| item.name())
        .collect();
    let there: BTreeSet<String> = archive.list("files").unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(there, needed);
    let expected = digest_of(&folder.data());
    let new = Folder::new();
    restore(&Restore::default(), &archive, &new.data()).unwrap();
    assert_eq!(digest_of(&new.data()), expected);

    // One that cannot be read may need anything.
    let oldest = folder.0.join("archive").join(&kept[0]);
    fs::write(&oldest, "damaged").unwrap();
    let refused = backup_and_keep(&folder.data(), &archive, NonZeroUsize::new(2)).map(|made| made.removed.backups);
    assert!(refused.is_ok(), "the damaged one is the one to go: {refused:?}");
    let newest = names(&archive).unwrap().pop().unwrap();
    fs::write(folder.0.join("archive").join(newest), "damaged").unwrap();
    thread::sleep(Duration::from_millis(5));
    let refused = backup_and_keep(&folder.data(), &archive, NonZeroUsize::new(2)).unwrap_err().to_string();
    assert!(refused.contains("is damaged"), "{refused}");
    assert_eq!(names(&archive).unwrap().len(), 3);
}

#[test]
fn a_backup_under_load_is_of_one_moment() {
    const WRITERS: usize = 3;
    let folder = Folder::new();
    // Small files of the log that are soon given up: what a backup holds on to must stay.
    let words = ["--log-retention-size", "1", "--maxmemory", "20mb"];
    let store = start(&folder.data(), &words);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (mut client, stop) = (store.client(), Arc::clone(&stop));
            thread::spawn(move || {
                let filler = "f".repeat(3000);
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let [left, right] = ["left", "right"].map(|side| format!("{side}:{writer}"));
                    // Both or none.
                    client.command(&["MSET", &left, &number.to_string(), &right, &number.to_string()]);
                    client.command(&["SET", &format!("{writer}:{}", number % 300), &filler]);
                    thread::sleep(Duration::from_millis(1));
                }
            })
        })
        .collect();
    let archive = FolderArchive(folder.0.join("archive"));
    let mut client = store.client();
    let count = |client: &mut Client, key: &str| client.text(&["GET", key]).parse::<u64>().unwrap_or(0);
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(100));
        let before: Vec<u64> = (0..WRITERS).map(|writer| count(&mut client, &format!("left:{writer}"))).collect();
        let made = backup(&folder.data(), &archive).unwrap();
        let after: Vec<u64> = (0..WRITERS).map(|writer| count(&mut client, &format!("left:{writer}"))).collect();
        let new = Folder::new();
        restore(&Restore { backup: Some(made.name), until: None }, &archive, &new.data()).unwrap();
        let restored = start(&new.data(), &[]);
        let mut restored = restored.client();
        for writer in 0..WRITERS {
            let [left, right] = ["left", "right"].map(|side| count(&mut restored, &format!("{side}:{writer}")));
            assert_eq!(left, right);
            assert!((before[writer]..=after[writer]).contains(&left), "{} {left} {}", before[writer], after[writer]);
        }
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

#[test]
fn what_is_damaged_is_not_restored() {
    let folder = Folder::new();
    let root = folder.0.join("archive");
    let archive = FolderArchive(root.clone());
    let refused = |what: &Restore| {
        let error = restore(what, &archive, &folder.0.join("new")).unwrap_err();
        assert!(!folder.0.join("new").exists() && !folder.0.join("new.restoring").exists());
        let source = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        format!("{error}{source}")
    };
    assert!(refused(&Restore::default()).contains("there is none"));
    let error = backup(&folder.0, &archive).unwrap_err().to_string();
    assert!(error.contains("is no folder of a store"), "{error}");
    let mut store = start(&folder.data(), &[]);
    fill(&mut store.client(), "key", 50);
    assert_eq!(store.stop(), Some(0));
    let made = backup(&folder.data(), &archive).unwrap();
    for (path, bytes) in all_files(&root) {
        let mut damaged = bytes.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 4;
        for damaged in [&damaged[..], &bytes[..middle], &[bytes.as_slice(), b"x"].concat()] {
            fs::write(&path, damaged).unwrap();
            let text = refused(&Restore::default());
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(text.contains("damaged or cannot be used") && text.contains(name), "{}: {text}", path.display());
        }
        fs::remove_file(&path).unwrap();
        refused(&Restore::default());
        fs::write(&path, bytes).unwrap();
    }
    let text = refused(&Restore { backup: Some("tomorrow".into()), until: None });
    assert!(text.contains("none of that name") && text.contains(made.name.trim_start_matches("backups/")), "{text}");
    let text = refused(&Restore { backup: None, until: Some(point("2001-01-01").unwrap()) });
    assert!(text.contains("none is older than 2001-01-01T00:00:00.000Z"), "{text}");
    // A backup whose description was written by a later version.
    let mut later = made.manifest.clone();
    later.version = 2;
    fs::write(root.join(&made.name), later.encode().unwrap()).unwrap();
    assert!(refused(&Restore::default()).contains("it is of version 2"));
    fs::write(root.join(&made.name), made.manifest.encode().unwrap()).unwrap();
    restore(&Restore::default(), &archive, &folder.0.join("new")).unwrap();
}

#[test]
fn backups_and_the_log_between_them_lead_to_any_moment() {
    let folder = Folder::new();
    let archive = FolderArchive(folder.0.join("archive"));
    let mut store = start(&folder.data(), &["--log-segment-size", "64kb"]);
    let mut client = store.client();
    let mut moments = Vec::new();
    for number in 0..60 {
        client.text(&["SET", "number", &number.to_string()]);
        client.text(&["SET", "filler", &"f".repeat(5000)]);
        moments.push((
            number,
            format!(
                "@{}",
                client.text(&["EVAL", "local t=redis.call('TIME') return t[1]..'.'..string.format('%06d',t[2])", "0"])
            ),
        ));
        thread::sleep(Duration::from_millis(3));
        if number % 20 == 10 {
            backup(&folder.data(), &archive).unwrap();
        }
        if number == 25 {
            // The tables go on.
            assert_eq!(store.stop(), Some(0));
            store = start(&folder.data(), &["--log-segment-size", "64kb"]);
            client = store.client();
        }
    }
    store.kill();
    // The machine is lost; the last backup was made at 50.
    fs::remove_dir_all(folder.data()).unwrap();
    for wanted in [11, 24, 30, 37, 49] {
        let new = Folder::new();
        let (number, moment) = &moments[wanted];
        restore(&Restore { backup: None, until: Some(point(moment).unwrap()) }, &archive, &new.data()).unwrap();
        let store = start(&new.data(), &["--until", moment]);
        assert_eq!(store.client().text(&["GET", "number"]), number.to_string(), "{}", store.output());
    }
}
