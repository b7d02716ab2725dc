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
