//! What the command line does with a store's data: backups and what is made of them, the log as commands, points of the past,
//! a local socket.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::Path,
    process::{Command, Output, Stdio},
    sync::Arc,
};

use support::{Folder, Store, wait_until};

/// Runs a subcommand to its end.
fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(words).stdin(Stdio::null()).output().unwrap()
}

/// What it prints, when it goes well.
#[track_caller]
fn printed(words: &[&str]) -> String {
    let output = run(words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it says, when it does not.
#[track_caller]
fn refused(words: &[&str]) -> String {
    let output = run(words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A store on `data` in this folder.
fn store_on(folder: Folder, words: &[&str]) -> Store {
    Store::start_in(Arc::new(folder), words)
}

#[test]
fn a_backup_of_a_store_that_serves_is_listed_and_restored() {
    let places = Folder::new();
    let archive = places.0.join("archive");
    let store = Store::start(&["--enable-debug-command", "yes", "--requirepass", "secret"]);
    let mut client = store.client();
    assert_eq!(client.text(&["AUTH", "secret"]), "OK");
    for number in 0..200 {
        client.text(&["RPUSH", "list", &number.to_string()]);
    }
    client.text(&["SET", "expiring", "x", "EX", "1000"]);
    let digest = client.text(&["DEBUG", "DIGEST"]);
    // Its folder may be named, or the store asked for it.
    let data = store.folder.0.join("data");
    let first = printed(&["backup", "--dir", text(&data), "--to", text(&archive)]);
    client.text(&["SET", "later", "1"]);
    let later = client.text(&["DEBUG", "DIGEST"]);
    let address = store.address.to_string();
    let words = ["backup", "--from", &address, "--to", text(&archive)];
    assert!(refused(&words).starts_with("tidegate backup: "), "it wants a password");
    let output =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(words).env("REDISCLI_AUTH", "secret").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let second = String::from_utf8(output.stdout).unwrap();
    let name_of = |line: &str| line.split_once(": ").unwrap().0.to_owned();
    let names = [name_of(&first), name_of(&second)];
    let listed = printed(&["backup", "--to", text(&archive), "--list"]);
    assert_eq!(listed.lines().collect::<Vec<_>>(), names);

    for (name, expected) in [(Some(&names[0]), &digest), (None, &later)] {
        let folder = Folder::new();
        let dir = folder.0.join("data");
        let mut words = vec!["restore", "--from", text(&archive), "--dir", text(&dir)];
        words.extend(name.iter().flat_map(|name| ["--backup", name.as_str()]));
        assert!(printed(&words).starts_with(text(&dir)));
        assert!(refused(&words).starts_with("tidegate restore: "), "what is there is not overwritten");
        let restored = store_on(folder, &["--enable-debug-command", "yes"]);
        assert_eq!(restored.client().text(&["DEBUG", "DIGEST"]), *expected, "{name:?}");
    }

    // Of two backups one is kept.
    let third = printed(&["backup", "--dir", text(&data), "--to", text(&archive), "--keep", "1"]);
    assert!(third.contains("removed: 2 older backups"), "{third}");
    assert_eq!(printed(&["backup", "--to", text(&archive), "--list"]).trim(), name_of(&third));
    let folder = Folder::new();
    let dir = folder.0.join("data");
    let said = refused(&["restore", "--from", text(&archive), "--dir", text(&dir), "--backup", &names[0]]);
    assert!(said.starts_with("tidegate restore: ") && said.contains("there is none of that name"), "{said}");
    assert!(!dir.exists() || fs::read_dir(&dir).unwrap().next().is_none(), "nothing is left of it");
    assert!(refused(&["backup", "--dir", text(&dir), "--to", text(&archive)]).starts_with("tidegate backup: "));
}

#[test]
fn the_log_is_shown_and_a_store_goes_back_in_it() {
    let mut store = Store::start(&["--appendfsync", "always"]);
    let data = store.folder.0.join("data");
    let mut client = store.client();
    for number in 1..=5 {
        client.text(&["SET", "key", &number.to_string()]);
    }
    let commands = printed(&["log", "dump", "--dir", text(&data), "--commands"]);
    let expected: String = (1..=5).map(|number| format!("\"SET\" \"key\" \"{number}\"\n")).collect();
    assert_eq!(commands, format!("\"SELECT\" \"0\"\n{expected}"));
    let raw = printed(&["log", "dump", "--dir", text(&data), "--raw"]);
    assert!(raw.contains("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1\r\n5\r\n"), "{raw}");
    let lines = printed(&["log", "dump", "--dir", text(&data)]);
    let offsets: Vec<&str> = lines.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(offsets.len(), 5, "{lines}");
    let part = printed(&["log", "dump", "--dir", text(&data), "--from", offsets[1], "--to", offsets[3]]);
    assert_eq!(part, lines.lines().skip(1).take(2).map(|line| format!("{line}\n")).collect::<String>());
    assert_eq!(printed(&["log", "dump", "--dir", text(&data), "--to", "-1h"]), "");

    // With --follow it goes on until it is ended.
    let mut follower = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["log", "dump", "--dir", text(&data), "--from", offsets[4], "--follow", "--commands"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(follower.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(shown.by_ref().any(|line| line == "\"SET\" \"key\" \"5\""));
    client.text(&["SET", "key", "6"]);
    assert_eq!(shown.next().unwrap(), "\"SET\" \"key\" \"6\"");
    follower.kill().unwrap();
    follower.wait().unwrap();
    let said = refused(&["log", "dump", "--dir", text(&store.folder.0.join("none"))]);
    assert!(said.starts_with("tidegate log dump: "), "{said}");
    assert_eq!(run(&["log", "dump", "--dir", text(&data), "--from", "someday"]).status.code(), Some(2));

    store.kill();
    let said = refused(&["store", "--until", offsets[3]]);
    assert!(said.contains("--until: without a folder"), "{said}");
    let said = refused(&["store", "--dir", text(&data), "--until", "someday"]);
    assert!(said.contains("'someday' is no point of a log"), "{said}");
    let mut store = Store::start_in(Arc::clone(&store.folder), &["--until", offsets[3]]);
    assert_eq!(store.client().text(&["GET", "key"]), "3");
    assert_eq!(store.stop(), 0);
    let store = Store::start_in(Arc::clone(&store.folder), &[]);
    assert_eq!(store.client().text(&["GET", "key"]), "3");
}

#[test]
fn a_store_listens_on_a_local_socket() {
    let place = Folder::new();
    let path = place.0.join("socket");
    let ask = |words: &[&str], answer: &str| {
        // It listens on the address first, which is what a store that starts is waited for.
        let mut stream = None;
        wait_until("it listens on the path", || {
            stream = UnixStream::connect(&path).ok();
            stream.is_some()
        });
        let mut stream = stream.unwrap();
        stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, words);
        stream.write_all(&bytes).unwrap();
        let mut found = vec![0; answer.len()];
        stream.read_exact(&mut found).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), answer);
    };
    let words = ["--unixsocket", text(&path), "--unixsocketperm", "700"];
    let mut store = Store::start(&words);
    ask(&["SET", "key", "1"], "+OK\r\n");
    assert_eq!(store.client().text(&["INCR", "key"]), "2");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    // What a store that was killed left behind is in nobody's way; what one that ends leaves is nothing.
    store.kill();
    assert!(path.exists());
    let mut store = Store::start_in(Arc::clone(&store.folder), &words);
    ask(&["GET", "key"], "$1\r\n2\r\n");
    assert_eq!(store.stop(), 0);
    assert!(!path.exists());
    // It may be the only one.
    let folder = Folder::new();
    let data = folder.0.join("data");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["store", "--port", "0", "--dir", text(&data)])
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    support::wait_until("the socket is there", || UnixStream::connect(&path).is_ok());
    ask(&["CONFIG", "GET", "port"], "*2\r\n$4\r\nport\r\n$1\r\n0\r\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn words_of_the_command_line_are_names_and_values_as_redis_server_has_them() {
    let place = Folder::new();
    let file = place.file("store.conf", "save 900 1\nmaxmemory 1mb\n");
    let said = refused(&["store", text(&file), "--port", "7000", "7001"]);
    assert!(said.contains("'port \"7000\" \"7001\"': wrong number of arguments"), "{said}");
    let said = refused(&["store", "--port"]);
    assert!(said.contains("'port': wrong number of arguments"), "{said}");
    let store = Store::start(&["--maxmemory 700mb", "--save", "--requirepass", "--secret"]);
    let mut client = store.client();
    assert_eq!(client.text(&["AUTH", "--secret"]), "OK");
    let values = client.command(&["CONFIG", "GET", "maxmemory", "save"]);
    let values: Vec<_> = values.as_slice().unwrap().iter().map(|value| value.as_bytes().unwrap().to_vec()).collect();
    assert_eq!(values.iter().find(|value| value.starts_with(b"7")).unwrap(), b"734003200");
    assert!(values.iter().any(|value| value.is_empty()));
}
