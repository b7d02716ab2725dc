//! Scripts and functions of a store that is killed, stopped, and kept waiting.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

use resp::Value;
use support::{Client, Folder, redis_server, start};

const LIBRARY: &str = "#!lua name=counting\nredis.register_function('count', function(keys) \
                       return redis.call('INCR', keys[1]) end)";
const OTHER: &str = "#!lua name=other\nredis.register_function{function_name='other', callback=function() return 'o' end, \
                     flags={'no-writes'}, description='text'}";

fn names(client: &mut Client) -> String {
    format!("{:?}", client.command(&["FUNCTION", "LIST", "WITHCODE"]))
}

/// Libraries are in the log until a checkpoint has them in the tables: a store that is killed has them in both cases.
#[test]
fn functions_outlive_a_store_that_is_killed() {
    let folder = Folder::new();
    let mut store = start(&folder.data(), &["--appendfsync", "always"]);
    let mut client = store.client();
    assert_eq!(client.text(&["FUNCTION", "LOAD", LIBRARY]), "counting");
    assert_eq!(client.text(&["FUNCTION", "LOAD", OTHER]), "other");
    assert_eq!(client.text(&["FCALL", "count", "1", "k"]), "1");
    let before = names(&mut client);
    store.kill();

    // From the log alone.
    let mut store = start(&folder.data(), &["--appendfsync", "always"]);
    let mut client = store.client();
    assert_eq!(names(&mut client), before);
    assert_eq!(client.text(&["FCALL", "count", "1", "k"]), "2");
    store.stop();

    // From the tables: a store that stops makes a checkpoint. What comes after it is in the log.
    let mut store = start(&folder.data(), &["--appendfsync", "always"]);
    let mut client = store.client();
    assert_eq!(names(&mut client), before);
    assert_eq!(client.text(&["FCALL", "count", "1", "k"]), "3");
    assert_eq!(client.text(&["FUNCTION", "DELETE", "other"]), "OK");
    let after = names(&mut client);
    store.kill();

    let mut store = start(&folder.data(), &["--appendfsync", "always"]);
    let mut client = store.client();
    assert_eq!(names(&mut client), after);
    assert_eq!(client.text(&["FCALL", "count", "1", "k"]), "4");
    assert_eq!(client.text(&["FUNCTION", "FLUSH"]), "OK");
    store.stop();

    let store = start(&folder.data(), &[]);
    assert_eq!(store.client().command(&["FUNCTION", "LIST"]), Value::Array(Vec::new()));
    assert_eq!(store.client().text(&["GET", "k"]), "4");
}

/// A script in a transaction is part of it, also when its effects run again.
#[test]
fn scripts_in_transactions_outlive_a_store_that_is_killed() {
    let folder = Folder::new();
    let mut store = start(&folder.data(), &["--appendfsync", "always"]);
    let mut client = store.client();
    let script =
        "redis.call('SELECT', 3) redis.call('SET', 'a', 1) redis.call('SELECT', 0) return redis.call('SET', 'b', 2)";
    for command in [&["MULTI"][..], &["SET", "c", "3"], &["EVAL", script, "0"], &["INCR", "c"], &["EXEC"]] {
        client.command(command);
    }
    store.kill();
    let store = start(&folder.data(), &[]);
    let mut client = store.client();
    assert_eq!((client.text(&["GET", "b"]), client.text(&["GET", "c"])), ("2".into(), "4".into()));
    client.command(&["SELECT", "3"]);
    assert_eq!(client.text(&["GET", "a"]), "1");
}

/// What one has dumped the other restores.
#[test]
fn libraries_go_to_redis_and_back() {
    let folder = Folder::new();
    let (store, redis) = (start(&folder.data(), &[]), redis_server(&folder.0, &[]));
    let (mut ours, mut real) = (store.client(), redis.client());
    ours.command(&["FUNCTION", "LOAD", LIBRARY]);
    ours.command(&["FUNCTION", "LOAD", OTHER]);
    let restore = |payload: Value, to: &mut Client| {
        let payload = payload.as_bytes().unwrap().to_vec();
        assert_eq!(
            to.command(&[b"FUNCTION".as_slice(), b"RESTORE", &payload, b"FLUSH"]),
            Value::Simple(b"OK".to_vec())
        );
    };
    restore(ours.command(&["FUNCTION", "DUMP"]), &mut real);
    assert_eq!(real.text(&["FCALL", "count", "1", "k"]), "1");
    real.command(&["FUNCTION", "DELETE", "other"]);
    restore(real.command(&["FUNCTION", "DUMP"]), &mut ours);
    assert_eq!(ours.text(&["FCALL", "count", "1", "k"]), "1");
    assert_eq!(ours.text(&["FCALL", "other", "0"]), "ERR Function not found");
}

const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// Waits until a script is busy: others are told so.
fn wait_until_busy(client: &mut Client) {
    support::wait_until("the script is busy", || client.text(&["PING"]).starts_with("BUSY"));
}

/// A script that never ends lets others be answered, and be ended by them; also if it catches errors, or runs elsewhere than in
/// its own thread.
#[test]
fn a_busy_script_is_ended_by_others() {
    for threads in ["1", "2", "3"] {
        end_busy_scripts(threads);
    }
}

fn end_busy_scripts(threads: &str) {
    let folder = Folder::new();
    let store = start(&folder.data(), &["--busy-reply-threshold", "10", "--io-threads", threads]);
    let mut other = store.client();
    other.command(&["SET", "k", "before"]);
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "coroutine.wrap(function() while true do end end)()",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "while true do redis.pcall('GET', 'k') end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) while true do pcall(function() return t[1] end) end",
    ] {
        let mut busy = store.client();
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, &["EVAL", script, "0"]);
        // What is sent behind it waits.
        resp::encode_command(&mut bytes, &["GET", "k"]);
        busy.send(&bytes);
        wait_until_busy(&mut other);
        assert_eq!(other.text(&["GET", "k"]), BUSY);
        assert_eq!(other.text(&["FUNCTION", "KILL"]), BUSY);
        assert_eq!(other.text(&["SHUTDOWN"]), BUSY);
        assert_eq!(store.client().text(&["EVAL", "return 1", "0"]), BUSY, "a client that comes now");
        assert_eq!(other.text(&["MULTI"]), "OK");
        assert_eq!(other.text(&["SET", "k", "changed"]), BUSY);
        assert_eq!(other.text(&["EXEC"]), format!("EXECABORT Transaction discarded because of: {BUSY}"));
        assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
        let Some(reply) = busy.reply() else { panic!("no reply to {script}") };
        let text = String::from_utf8_lossy(reply.as_error().unwrap()).into_owned();
        assert!(text.starts_with("ERR Script killed by user with SCRIPT KILL..."), "{script}: {text}");
        assert_eq!(busy.reply().unwrap().as_bytes(), Some(b"before".as_slice()));
        assert_eq!(other.text(&["PING"]), "PONG");
    }
}

#[test]
fn a_busy_function_is_ended_by_others() {
    let folder = Folder::new();
    let store = start(&folder.data(), &["--busy-reply-threshold", "10"]);
    let (mut busy, mut other) = (store.client(), store.client());
    let library = "#!lua name=l\nredis.register_function('forever', function() while true do end end)";
    other.command(&["FUNCTION", "LOAD", library]);
    let mut bytes = Vec::new();
    resp::encode_command(&mut bytes, &["FCALL", "forever", "1", "k"]);
    busy.send(&bytes);
    wait_until_busy(&mut other);
    assert!(
        other
            .text(&["SCRIPT", "KILL"])
            .starts_with("BUSY Redis is busy running a script. You can only call FUNCTION KILL")
    );
    let statistics = format!("{:?}", other.command(&["FUNCTION", "STATS"]));
    assert!(statistics.contains(&format!("{:?}", b"forever")), "{statistics}");
    assert_eq!(other.text(&["FUNCTION", "KILL"]), "OK");
    assert!(busy.reply().unwrap().as_error().is_some());
    assert_eq!(other.text(&["FUNCTION", "KILL"]), "NOTBUSY No scripts in execution right now.");
    let forever = "#!lua name=m\nwhile 1 do end";
    let refused = other.text(&["FUNCTION", "LOAD", forever]);
    assert!(refused.starts_with("ERR Error registering functions: ERR FUNCTION LOAD timeout"), "{refused}");
}

/// A script that has written can only be ended with the store, and nothing of it stays.
#[test]
fn of_a_script_that_ends_with_the_store_nothing_stays() {
    for (by_signal, threads) in [(false, "1"), (true, "1"), (false, "2"), (false, "3"), (true, "3")] {
        let folder = Folder::new();
        let words = ["--busy-reply-threshold", "10", "--appendfsync", "always", "--io-threads", threads];
        let mut store = start(&folder.data(), &words);
        let (mut busy, mut other) = (store.client(), store.client());
        other.command(&["SET", "k", "before"]);
        let mut bytes = Vec::new();
        let script =
            "redis.call('SET', 'k', 'half') redis.call('SELECT', 1) redis.call('SET', 'l', 1) while true do end";
        resp::encode_command(&mut bytes, &["EVAL", script, "0"]);
        busy.send(&bytes);
        wait_until_busy(&mut other);
        assert!(other.text(&["SCRIPT", "KILL"]).starts_with("UNKILLABLE"));
        if by_signal {
            store.stop();
        } else {
            assert_eq!(other.try_command(&["SHUTDOWN", "NOSAVE"]), None);
            store.wait_end();
        }
        let store = start(&folder.data(), &[]);
        let mut client = store.client();
        assert_eq!(client.text(&["GET", "k"]), "before");
        client.command(&["SELECT", "1"]);
        assert_eq!(client.text(&["EXISTS", "l"]), "0");
    }
}
