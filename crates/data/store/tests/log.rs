//! The log of a store as commands, and going back in it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use store::log_dump::{Dump, Form, dump, point};
use support::{Client, Folder, Running, refusal, start};

fn dumped(folder: &Path, form: Form, from: Option<&str>, to: Option<&str>) -> Vec<u8> {
    let [from, to] = [from, to].map(|text| text.map(|text| point(text).unwrap()));
    let mut out = Vec::new();
    dump(
        &Dump { folder: folder.to_owned(), from, to, follow: false, follower: None, form, with_flushes: true },
        &mut out,
    )
    .unwrap();
    out
}

/// The lines of a log without times: those of transactions and commands alike.
fn lines(folder: &Path, from: Option<&str>, to: Option<&str>) -> Vec<(String, String)> {
    let text = String::from_utf8(dumped(folder, Form::Lines, from, to)).unwrap();
    text.lines()
        .map(|line| {
            let mut parts = line.splitn(3, ' ');
            let offset = parts.next().unwrap().to_owned();
            assert!(parts.next().unwrap().ends_with('Z'), "{line}");
            (offset, parts.next().unwrap().to_owned())
        })
        .collect()
}

fn commands_of(lines: &[(String, String)]) -> Vec<&str> {
    lines.iter().map(|line| line.1.as_str()).collect()
}

fn fill(client: &mut Client) {
    for words in [
        &["SET", "greeting", "hello \"you\"\r\n\u{e9}"][..],
        &["RPUSH", "list", "a", ""],
        &["SELECT", "3"],
        &["SADD", "numbers", "1", "2", "3"],
        &["MULTI"],
        &["INCR", "count"],
        &["HSET", "hash", "field", "value"],
        &["EXEC"],
        &["SELECT", "0"],
        &["DEL", "list"],
    ] {
        let reply = client.command(words);
        assert!(reply.as_error().is_none(), "{words:?} {reply:?}");
    }
}

const FILLED: &[&str] = &[
    r#"[0] "SET" "greeting" "hello \"you\"\r\n\xc3\xa9""#,
    r#"[0] "RPUSH" "list" "a" """#,
    r#"[3] "SADD" "numbers" "1" "2" "3""#,
    r#"[3] "MULTI""#,
    r#"[3] "INCR" "count""#,
    r#"[3] "HSET" "hash" "field" "value""#,
    r#"[3] "EXEC""#,
    r#"[0] "DEL" "list""#,
];

#[test]
fn a_log_is_shown_while_it_is_served() {
    let folder = Folder::new();
    let store = start(&folder.data(), &[]);
    let mut client = store.client();
    fill(&mut client);
    let all = lines(&folder.data(), None, None);
    assert_eq!(commands_of(&all), FILLED);
    let from_transaction = lines(&folder.data(), Some(&all[3].0), Some(&all[7].0));
    assert_eq!(commands_of(&from_transaction), &FILLED[3..7]);
    let within_transaction = lines(&folder.data(), Some(&all[4].0), None);
    assert_eq!(commands_of(&within_transaction), &FILLED[7..], "a transaction is shown whole or not at all");
    assert_eq!(commands_of(&lines(&folder.data(), Some("-1h"), Some("-0s"))), FILLED);
    assert!(lines(&folder.data(), None, Some("-1h")).is_empty());
    // What comes later is shown as it comes.
    let (sender, receiver) = mpsc::channel();
    struct Lines(mpsc::Sender<Vec<u8>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(|_| std::io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let from = Some(point(&all[7].0).unwrap());
    let what = Dump {
        folder: folder.data(),
        from,
        to: None,
        follow: true,
        follower: None,
        form: Form::Commands,
        with_flushes: false,
    };
    let follower = thread::spawn(move || dump(&what, &mut Lines(sender)));
    let patience = Duration::from_secs(30);
    assert_eq!(receiver.recv_timeout(patience).unwrap(), b"\"SELECT\" \"0\"\n\"DEL\" \"list\"\n");
    client.text(&["SET", "later", "1"]);
    assert_eq!(receiver.recv_timeout(patience).unwrap(), b"\"SET\" \"later\" \"1\"\n");
    drop(receiver);
    client.text(&["SET", "later", "2"]);
    follower.join().unwrap().unwrap();
}

/// Sends what a program wants to read.
fn feed(program: &str, words: &[&str], input: &[u8]) {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn redis_cli_takes_what_is_shown() {
    let folder = Folder::new();
    let store = start(&folder.data(), &[]);
    let mut client = store.client();
    fill(&mut client);
    let digest = client.text(&["DEBUG", "DIGEST"]);
    for (form, how) in [(Form::Commands, &[][..]), (Form::Raw, &["--pipe"])] {
        let other = Folder::new();
        let copy = start(&other.data(), &[]);
        let port = copy.address.port().to_string();
        let words = [&["-h", "127.0.0.1", "-p", &port], how].concat();
        feed("redis-cli", &words, &dumped(&folder.data(), form, None, None));
        assert_eq!(copy.client().text(&["DEBUG", "DIGEST"]), digest, "{form:?}");
    }
}

/// A store that was killed after ten writes to a key, so that its tables have none of them; the offsets of the writes.
fn killed_after_ten_writes(folder: &Folder) -> Vec<String> {
    let mut store: Running = start(&folder.data(), &["--appendfsync", "always"]);
    let mut client = store.client();
    for number in 1..=10 {
        client.text(&["SET", "key", &number.to_string()]);
    }
    store.kill();
    lines(&folder.data(), None, None).into_iter().map(|line| line.0).collect()
}

#[test]
fn a_store_starts_at_a_point_of_the_past() {
    let folder = Folder::new();
    let offsets = killed_after_ten_writes(&folder);
    let within = (offsets[4].parse::<u64>().unwrap() + 1).to_string();
    let text = refusal(&folder.data(), &["--until", &within]);
    assert!(text.contains(&format!("{} is before it", offsets[4])), "{text}");
    let text = refusal(&folder.data(), &["--until", "someday"]);
    assert!(text.contains("'someday' is no point of a log"), "{text}");

    let mut store = start(&folder.data(), &["--until", &offsets[7]]);
    let aside = folder.data().join("shard-0").join(format!("log-after-{}", offsets[7]));
    support::wait_until("it says so", || store.output().contains(&aside.display().to_string()));
    let mut client = store.client();
    assert_eq!(client.text(&["GET", "key"]), "7");
    client.text(&["SET", "another", "life"]);
    store.kill();
    assert_eq!(
        commands_of(&lines(&aside, Some(&offsets[7]), None)),
        [r#"[0] "SET" "key" "8""#, r#"[0] "SET" "key" "9""#, r#"[0] "SET" "key" "10""#]
    );
    // Started again with the same words, it does not lose what came since.
    let text = refusal(&folder.data(), &["--until", &offsets[7]]);
    assert!(text.contains("start it without --until"), "{text}");
    let mut store = start(&folder.data(), &[]);
    let mut client = store.client();
    assert_eq!((client.text(&["GET", "key"]), client.text(&["GET", "another"])), ("7".into(), "life".into()));
    assert_eq!(store.stop(), Some(0));
    // Its tables are behind these points now.
    let text = refusal(&folder.data(), &["--until", &offsets[3]]);
    assert!(text.contains("restore a backup that is older"), "{text}");
    let text = refusal(&folder.data(), &["--until", "-1h"]);
    assert!(text.contains("restore a backup that is older"), "{text}");
    // A point behind the end takes nothing away.
    let store = start(&folder.data(), &["--until", "-0s"]);
    assert_eq!(store.client().text(&["GET", "another"]), "life");
}

#[test]
fn a_store_starts_at_a_time_of_the_past() {
    let folder = Folder::new();
    let mut store = start(&folder.data(), &[]);
    let mut client = store.client();
    client.text(&["SET", "key", "before"]);
    thread::sleep(Duration::from_millis(20));
    let seconds: Vec<String> = client
        .command(&["TIME"])
        .as_slice()
        .unwrap()
        .iter()
        .map(|part| String::from_utf8(part.as_bytes().unwrap().to_vec()).unwrap())
        .collect();
    let time = format!("@{}.{:0>6}", seconds[0], seconds[1]);
    thread::sleep(Duration::from_millis(20));
    client.text(&["SET", "key", "after"]);
    store.kill();
    let store = start(&folder.data(), &["--until", &time]);
    assert_eq!(store.client().text(&["GET", "key"]), "before");
}

#[test]
fn a_log_is_kept_as_long_as_it_is_said() {
    const LEN: usize = 300_000;
    let folder = Folder::new();
    let mut store = start(&folder.data(), &[]);
    let mut client = store.client();
    let value = "v".repeat(LEN);
    for _ in 0..10 {
        client.text(&["SET", "large", &value]);
    }
    // Then the tables have all of it.
    assert_eq!(store.stop(), Some(0));
    let mut store = start(&folder.data(), &[]);
    let mut client = store.client();
    assert_eq!(client.text(&["CONFIG", "SET", "log-retention-size", "500kb"]), "OK");
    let log = folder.data().join("shard-0/log");
    let first = || {
        let names = fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".oplog")).min().unwrap()
    };
    support::wait_until("the first segment is given up", || !first().starts_with("00000000000000000000"));
    assert_eq!(store.stop(), Some(0));
    let text = refusal(&folder.data(), &["--until", "100"]);
    assert!(text.contains("is not kept any more"), "{text}");
    // Without the tables, that log is not all.
    fs::rename(folder.data().join("shard-0/tables"), folder.0.join("tables")).unwrap();
    let text = refusal(&folder.data(), &[]);
    assert!(text.contains("the tables are missing"), "{text}");
    fs::remove_dir_all(folder.data().join("shard-0/tables")).unwrap();
    fs::rename(folder.0.join("tables"), folder.data().join("shard-0/tables")).unwrap();
    assert_eq!(start(&folder.data(), &[]).client().text(&["STRLEN", "large"]), LEN.to_string());
}

/// A store that was killed after writes to some small segments, and before its tables had any of them; its segments.
fn killed_after_some_segments(folder: &Folder) -> Vec<std::path::PathBuf> {
    let mut store = start(&folder.data(), &["--appendfsync", "always", "--log-segment-size", "64kb"]);
    let mut client = store.client();
    let value = "v".repeat(1_000);
    for first in (0..300).step_by(10) {
        let keys: Vec<String> = (first..first + 10).map(|number| format!("key{number}")).collect();
        let pairs: Vec<&str> = keys.iter().flat_map(|key| [key.as_str(), &value]).collect();
        client.text(&[&["MSET"], &pairs[..]].concat());
    }
    store.kill();
    let log = folder.data().join("shard-0/log");
    let names = fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = names.filter(|path| path.extension().is_some_and(|end| end == "oplog")).collect();
    segments.sort();
    assert!(segments.len() > 2, "{segments:?}");
    segments
}

/// The offset that a message says to give everything up after.
fn offset_to_give_up_after(text: &str) -> String {
    let (_, rest) = text.split_once("start the store with --until ").unwrap_or_else(|| panic!("{text}"));
    rest.chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn a_newest_segment_that_is_gone_is_missed() {
    type Harm = fn(&Path);
    let remove: Harm = |path| fs::remove_file(path).unwrap();
    let empty: Harm = |path| drop(fs::File::create(path).unwrap());
    let cut: Harm = |path| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(5_000).unwrap();
    };
    for (harm, said) in [(remove, "the file is missing"), (empty, "not one"), (cut, "was durable up to offset")] {
        let folder = Folder::new();
        let segments = killed_after_some_segments(&folder);
        let newest = segments.last().unwrap();
        let all = fs::read(newest).unwrap();
        harm(newest);
        let text = refusal(&folder.data(), &[]);
        assert!(text.contains(said) && text.contains(&newest.display().to_string()), "{text}");
        // Nothing was changed: put back, it is as it was.
        let mended = folder.0.join("mended");
        assert!(Command::new("cp").arg("-r").args([&folder.data(), &mended]).status().unwrap().success());
        fs::write(mended.join(newest.strip_prefix(folder.data()).unwrap()), &all).unwrap();
        assert_eq!(start(&mended, &[]).client().text(&["DBSIZE"]), "300");
        // Or what came later is given up, by word of who starts it.
        let offset = offset_to_give_up_after(&refusal(&folder.data(), &[]));
        let mut store = start(&folder.data(), &["--until", &offset]);
        let aside = folder.data().join("shard-0").join(format!("log-after-{offset}"));
        support::wait_until("it says so", || store.output().contains(&aside.display().to_string()));
        let mut client = store.client();
        let count: u32 = client.text(&["DBSIZE"]).parse().unwrap();
        assert!(count > 0 && count < 300, "{count}");
        assert_eq!(client.text(&["EXISTS", &format!("key{}", count - 1), &format!("key{count}")]), "1");
        client.text(&["SET", "another", "life"]);
        store.kill();
        let store = start(&folder.data(), &[]);
        assert_eq!(store.client().text(&["DBSIZE"]), (count + 1).to_string());
    }
}

#[test]
fn a_log_that_is_gone_is_missed() {
    let folder = Folder::new();
    for segment in killed_after_some_segments(&folder) {
        fs::remove_file(segment).unwrap();
    }
    let text = refusal(&folder.data(), &[]);
    assert!(text.contains("has no files any more") && text.contains("durable up to offset"), "{text}");
}
