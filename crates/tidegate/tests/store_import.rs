//! Redis' files, brought into a store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output, Stdio},
};

use support::{Folder, RedisClient, Store};

fn import(path: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("import").arg(path).args(words).env("REDISCLI_AUTH", "secret").stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn checksum(bytes: &[u8]) -> u64 {
    // The polynomial of Redis' files, bit by bit.
    bytes.iter().fold(0, |sum: u64, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 })
    })
}

/// An RDB file of what a store has in two of its databases.
fn rdb_of(client: &mut RedisClient) -> Vec<u8> {
    let mut bytes = b"REDIS0010".to_vec();
    for db in [0, 5] {
        client.text(&["SELECT", &db.to_string()]);
        bytes.extend_from_slice(&[254, db]);
        let keys = client.command(&["KEYS", "*"]);
        for key in keys.as_slice().unwrap() {
            let name = String::from_utf8(key.as_bytes().unwrap().to_vec()).unwrap();
            let payload = client.command(&["DUMP", &name]).as_bytes().unwrap().to_vec();
            let expires: i64 = client.text(&["PEXPIRETIME", &name]).parse().unwrap();
            if expires > 0 {
                bytes.push(252);
                bytes.extend_from_slice(&expires.to_le_bytes());
            }
            bytes.push(payload[0]);
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(&payload[1..payload.len() - 10]);
        }
    }
    let library = "#!lua name=lib\nredis.register_function('f', function() return 7 end)";
    bytes.extend_from_slice(&[245, 0x40, library.len() as u8]);
    bytes.extend_from_slice(library.as_bytes());
    bytes.push(255);
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn fill(client: &mut RedisClient) {
    for db in ["0", "5"] {
        client.text(&["SELECT", db]);
        for number in 0..600 {
            let (number, word) = (number.to_string(), format!("word-{number}"));
            client.command(&["RPUSH", "list", &word]);
            client.command(&["SADD", "numbers", &number]);
            client.command(&["SADD", "words", &word]);
            client.command(&["HSET", "hash", &word, &number]);
            client.command(&["ZADD", "ordered", &number, &word]);
            client.command(&["XADD", "stream", &format!("{number}-1"), "field", &word]);
        }
        client.command(&["SET", "text", &"abc".repeat(1000), "EX", "100000"]);
        client.command(&["SET", "number", "-17"]);
        client.command(&["XGROUP", "CREATE", "stream", "group", "0"]);
        client.command(&["XREADGROUP", "GROUP", "group", "one", "COUNT", "5", "STREAMS", "stream", ">"]);
    }
}

#[test]
fn an_rdb_file_brings_every_key_with_its_time() {
    let store = Store::start(&["--enable-debug-command", "yes"]);
    let mut client = store.client();
    fill(&mut client);
    let folder = Folder::new();
    let file = folder.file("dump.rdb", rdb_of(&mut client));
    let digest = client.text(&["DEBUG", "DIGEST"]);
    let other = Store::start(&["--enable-debug-command", "yes", "--requirepass", "secret"]);
    let to = other.address.to_string();
    let mut client = other.client();
    client.text(&["AUTH", "secret"]);
    // The folder names the file that it has.
    let output = import(&folder.0, &["--to", &to]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains(": 16 keys, 1 library of functions, 0 commands"));
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
    assert_eq!(client.text(&["FCALL", "f", "0"]), "7");

    let again = import(&file, &["--to", &to]);
    assert!(!again.status.success() && said(&again).contains("has keys already"), "{}", said(&again));
    assert!(import(&file, &["--to", &to, "--replace"]).status.success());
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);

    // Of a file that is damaged nothing is taken.
    client.text(&["FLUSHALL"]);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = import(&folder.file("damaged", &bytes), &["--to", &to]);
    assert!(!damaged.status.success() && said(&damaged).contains("nothing of it was imported"), "{}", said(&damaged));
    assert_eq!(client.text(&["DBSIZE"]), "0");
}

#[test]
fn an_aof_of_several_files_is_played_up_to_its_last_whole_command() {
    let folder = Folder::new();
    let of = folder.0.join("appendonlydir");
    fs::create_dir(&of).unwrap();
    let mut base = Vec::new();
    resp::encode_command(&mut base, &["SELECT", "2"]);
    resp::encode_command(&mut base, &["SET", "a", "1"]);
    let mut rest = b"#TS:1700000000\r\n".to_vec();
    resp::encode_command(&mut rest, &["INCR", "in-the-first-database"]);
    resp::encode_command(&mut rest, &["NONSENSE", "b"]);
    resp::encode_command(&mut rest, &["MULTI"]);
    resp::encode_command(&mut rest, &["SET", "c", "1"]);
    fs::write(of.join("appendonly.aof.1.base.aof"), base).unwrap();
    fs::write(of.join("appendonly.aof.1.incr.aof"), rest).unwrap();
    let manifest = "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
    fs::write(of.join("appendonly.aof.manifest"), manifest).unwrap();
    let store = Store::start(&[]);
    let output = import(&folder.0, &["--to", &store.address.to_string()]);
    // Who has no password does not ask for one.
    assert!(said(&output).contains("AUTH"), "{}", said(&output));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.arg("import").arg(&folder.0).args(["--to", &store.address.to_string()]);
    let output = output.env_remove("REDISCLI_AUTH").output().unwrap();
    let text = said(&output);
    assert!(!output.status.success() && text.contains("refused 1 of them") && text.contains("NONSENSE b:"), "{text}");
    assert!(text.contains("ends in the middle of a command"), "{text}");
    let mut client = store.client();
    assert_eq!(client.text(&["GET", "in-the-first-database"]), "1");
    assert_eq!(client.text(&["EXISTS", "c"]), "0");
    client.text(&["SELECT", "2"]);
    assert_eq!(client.text(&["GET", "a"]), "1");
    // Which of two is meant, only a person knows.
    folder.file("dump.rdb", "REDIS0010\u{1}");
    assert!(said(&import(&folder.0, &[])).contains("has appendonlydir and dump.rdb"));
}

#[test]
fn in_redis_place_nobody_gets_an_empty_store_for_his_data() {
    let folder = Folder::new();
    let program = folder.0.join("redis-server");
    symlink(env!("CARGO_BIN_EXE_tidegate"), &program).unwrap();
    let data = folder.0.join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("dump.rdb"), b"REDIS0010\xfe\x00\x00\x01a\x01b\xff").unwrap();
    let output = Command::new(&program).args(["--dir", data.to_str().unwrap(), "--port", "0"]).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("has Redis' data (dump.rdb)") && text.contains("tidegate import"), "{text}");
}
