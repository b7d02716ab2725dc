//! What the command line says of a store that runs, ends it, and takes its data out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    process::{Command, Output, Stdio},
};

use support::Store;

fn tidegate(words: &[&str], password: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(words).stdin(Stdio::null()).env_remove("REDISCLI_AUTH");
    if let Some(password) = password {
        command.env("REDISCLI_AUTH", password);
    }
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_store_is_found_by_its_folder_and_by_its_port() {
    let mut store = Store::start(&["--requirepass", "secret", "--maxmemory", "100mb"]);
    let mut client = store.client();
    client.text(&["AUTH", "secret"]);
    client.text(&["SET", "key", "value"]);
    client.text(&["SELECT", "3"]);
    client.text(&["SET", "key", "value"]);
    let dir = client.command(&["CONFIG", "GET", "dir"]);
    let dir = text(dir.as_slice().unwrap()[1].as_bytes().unwrap());
    let (host, port) = (store.address.ip().to_string(), store.address.port().to_string());
    let by_port = ["--host", &host, "--port", &port];
    for which in [&["--dir", &dir][..], &by_port] {
        let words = [&["store", "status"], which].concat();
        let refused = tidegate(&words, None);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("NOAUTH"), "{}", text(&refused.stderr));
        let shown = tidegate(&words, Some("secret"));
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        let shown = text(&shown.stdout);
        for wanted in [
            format!("process {}, up ", store.pid()),
            format!("listens on    {host}:{port}"),
            "keys          2 keys (db0 1, db3 1)".into(),
            "of 100.0 MB (maxmemory, noeviction)".into(),
            format!("folder        {dir}"),
            "checkpoint    none since the start, ".into(),
        ] {
            assert!(shown.contains(&wanted), "{wanted}\n{shown}");
        }
        let json = tidegate(&[words.as_slice(), &["--json"]].concat(), Some("secret"));
        let json = text(&json.stdout);
        for wanted in ["\"maxmemory\":104857600".to_owned(), format!("\"folder\":\"{dir}\"")] {
            assert!(json.starts_with('{') && json.contains(&wanted), "{wanted}\n{json}");
        }
    }
    // Who may end the process needs no password; who knows the port does.
    let refused = tidegate(&[&["store", "stop"][..], &by_port].concat(), None);
    assert!(!refused.status.success() && text(&refused.stderr).contains("NOAUTH"), "{}", text(&refused.stderr));
    let stopped = tidegate(&["store", "stop", "--dir", &dir], None);
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    assert!(text(&stopped.stdout).contains(&format!("(process {}) has ended", store.pid())));
    assert_eq!(store.wait_end(), 0);
    for command in ["status", "stop"] {
        let none = tidegate(&["store", command, "--dir", &dir], None);
        assert_eq!(none.status.code(), Some(3), "{}", text(&none.stderr));
        assert!(text(&none.stderr).contains(&format!("no store runs on {dir}")), "{}", text(&none.stderr));
    }
    let none = tidegate(&[&["store", "status"][..], &by_port].concat(), None);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains(&format!("the store at {host}:{port}: ")), "{}", text(&none.stderr));
}

#[test]
fn a_store_that_is_told_by_its_port_ends() {
    let mut store = Store::start(&[]);
    let (host, port) = (store.address.ip().to_string(), store.address.port().to_string());
    let stopped = tidegate(&["store", "stop", "--host", &host, "--port", &port], None);
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    assert_eq!(store.wait_end(), 0);
}

#[test]
fn a_dump_goes_to_a_file_or_to_a_pipe() {
    let store = Store::start(&["--requirepass", "secret"]);
    let mut client = store.client();
    client.text(&["AUTH", "secret"]);
    for number in 0..100 {
        client.text(&["SET", &format!("key:{number}"), &"value ".repeat(number)]);
    }
    let from = store.address.to_string();
    let folder = support::Folder::new();
    let path = folder.0.join("dump.rdb");
    let refused = tidegate(&["export", path.to_str().unwrap(), "--from", &from], None);
    assert!(text(&refused.stderr).contains("NOAUTH"), "{}", text(&refused.stderr));
    let done = tidegate(&["export", path.to_str().unwrap(), "--from", &from], Some("secret"));
    assert!(done.status.success(), "{}", text(&done.stderr));
    let said = text(&done.stderr);
    assert!(said.contains("dump.rdb: 100 keys of 1 database, ") && said.contains("log up to offset "), "{said}");
    let file = fs::read(&path).unwrap();
    assert!(file.starts_with(b"REDIS0010") && done.stdout.is_empty());
    let piped = tidegate(&["export", "-", "--from", &from, "--no-compression"], Some("secret"));
    assert!(piped.status.success() && piped.stdout.starts_with(b"REDIS0010"), "{}", text(&piped.stderr));
    assert!(piped.stdout.len() > file.len() + 1000, "{} {}", piped.stdout.len(), file.len());
    let old = tidegate(&["export", "-", "--from", &from, "--rdb-version", "9"], Some("secret"));
    assert!(old.stdout.starts_with(b"REDIS0009"), "{}", text(&old.stderr));
    let nowhere = tidegate(&["export", "-", "--dir", "/nowhere"], None);
    assert!(text(&nowhere.stderr).contains("/nowhere is no folder of a store"), "{}", text(&nowhere.stderr));
}
