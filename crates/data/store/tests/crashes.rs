//! A store that is killed in the middle of what it does to its disk: at the n-th call of each kind that changes a file. What it
//! acknowledged is there afterwards, and nothing is there by half.
//!
//! strace ends the process right before the call. Some calls are tried in each run of the tests; `CRASHES=all` tries all.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::process::Command;

use support::{Client, Folder, free_address, start, start_by, store_command};

/// System calls that change files, or bring them to the disk.
const CALLS: &[&str] = &[
    "write",
    "pwrite64",
    "openat",
    "fsync",
    "fdatasync",
    "rename,renameat,renameat2",
    "unlink,unlinkat",
    "ftruncate,fallocate",
    "mkdir,mkdirat",
];
const WRITES: usize = 24;
/// Small files, so that the log has several, and every write is on the disk when it is answered.
const WORDS: &[&str] = &["--appendfsync", "always", "--log-segment-size", "64kb", "--log-retention-size", "64kb"];

/// Three keys that change together, with a checkpoint now and then. Returns how many times it was acknowledged.
fn write(client: &mut Client) -> usize {
    let filler = "x".repeat(4_000);
    for number in 0..WRITES {
        let text = number.to_string();
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, &["MULTI"]);
        resp::encode_command(&mut bytes, &["SET", &format!("key:{text}"), &format!("{text}:{filler}")]);
        resp::encode_command(&mut bytes, &["HSET", "hash", &text, &text]);
        resp::encode_command(&mut bytes, &["RPUSH", "list", &text]);
        resp::encode_command(&mut bytes, &["EXEC"]);
        client.send(&bytes);
        if (0..5).any(|_| client.reply().is_none()) {
            return number;
        }
        if number % 10 == 4 && client.try_text(&["SAVE"]).is_none() {
            return number + 1;
        }
    }
    WRITES
}

fn check(client: &mut Client, acknowledged: usize, told: &str) {
    let count: usize = client.text(&["LLEN", "list"]).parse().unwrap();
    assert!((acknowledged..=acknowledged + 1).contains(&count), "{told}: {count} of {acknowledged}");
    assert_eq!(client.text(&["HLEN", "hash"]), count.to_string(), "{told}");
    let others = 2 * usize::from(count > 0);
    assert_eq!(client.text(&["DBSIZE"]), (count + others).to_string(), "{told}");
    for number in 0..count {
        let text = number.to_string();
        assert!(client.text(&["GET", &format!("key:{text}")]).starts_with(&format!("{text}:x")), "{told}");
        assert_eq!(client.text(&["HGET", "hash", &text]), text, "{told}");
        assert_eq!(client.text(&["LINDEX", "list", &text]), text, "{told}");
    }
}

/// Runs a store that is killed at the n-th of some calls. Returns whether it came so far.
fn is_killed_at(calls: &str, number: usize) -> bool {
    let folder = Folder::new();
    let address = free_address();
    let store = store_command(address, &folder.data(), WORDS);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}"), "-e"]);
    command.arg(format!("inject={calls}:signal=KILL:when={number}"));
    command.arg(store.get_program()).args(store.get_args());
    command.envs(store.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let told = format!("{calls} {number}");
    let mut acknowledged = 0;
    // One that is killed before it listens, or before anybody is connected, has acknowledged nothing.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut traced = start_by(&mut command, address);
        acknowledged = write(&mut traced.client());
        let is_over = acknowledged == WRITES && traced.client().try_text(&["PING"]).is_some();
        if is_over {
            traced.client().try_text(&["SHUTDOWN", "NOSAVE"]);
        }
        traced.wait_end();
        is_over
    }));
    let was_killed = !outcome.unwrap_or(false);
    let store = start(&folder.data(), WORDS);
    check(&mut store.client(), acknowledged, &told);
    was_killed
}

#[test]
fn a_store_that_is_killed_at_any_call_has_what_it_acknowledged() {
    const NUMBERS: &[(&str, usize)] = &[("pwrite64", 7), ("fdatasync", 9), ("fsync", 3), ("openat", 10)];
    assert!(Command::new("strace").arg("-V").output().is_ok(), "strace is not installed: .ci/tools installs it");
    if std::env::var("CRASHES").as_deref() != Ok("all") {
        for (calls, number) in NUMBERS {
            assert!(is_killed_at(calls, *number), "{calls} {number}: it did not come so far");
        }
        return;
    }
    for calls in CALLS {
        let count = (1..).take_while(|number| is_killed_at(calls, *number)).count();
        println!("{calls}: killed {count} times");
    }
}
