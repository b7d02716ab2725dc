//! Collections whose elements are records: what becomes of the records, and of commands that cannot read them.

#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use commands::config::{Allowed, Integer, Settings};

const NOW: i64 = 1_700_000_000_000;
/// More elements than this are spread.
const WHOLE_MAX: i64 = 10;

struct Store(support::Client);

impl Store {
    fn new() -> Self {
        Self(support::Client::new(
            Settings {
                collection_max_whole_entries: Integer(WHOLE_MAX),
                enable_debug_command: Allowed::Yes,
                ..Settings::default()
            },
            NOW,
        ))
    }

    fn ask(&mut self, command: &str) -> String {
        self.0.ask(command, NOW)
    }

    #[track_caller]
    fn check(&mut self, command: &str, reply: &str) {
        assert_eq!(self.ask(command), format!("{reply}\r\n"), "{command}");
    }

    /// A collection of each type, of so many elements, of which only the records are left.
    fn fill(&mut self, count: usize) {
        self.fill_memory(count);
        support::checkpoint(&mut self.0.server, &self.0.tables);
        assert_eq!(self.collections(), 4);
    }

    /// A collection of each type, of so many elements.
    fn fill_memory(&mut self, count: usize) {
        for number in 0..count {
            self.check(&format!("HSET hash f{number} v{number}"), ":1");
            self.check(&format!("SADD set m{number}"), ":1");
            self.check(&format!("ZADD zset {number} m{number}"), ":1");
            self.check(&format!("RPUSH list e{number}"), &format!(":{}", number + 1));
        }
    }

    /// How many collections have records.
    fn collections(&self) -> usize {
        self.0.tables.0.collections().len()
    }
}

const KEYS: [&str; 4] = ["hash", "set", "zset", "list"];

#[test]
fn few_elements_are_kept_whole() {
    let mut store = Store::new();
    for number in 0..WHOLE_MAX {
        store.check(&format!("SADD set m{number}"), ":1");
    }
    assert_eq!(store.collections(), 0);
    store.ask("SADD set a b c");
    store.check("SADD set d", ":1");
    support::take(&mut store.0.server, &store.0.tables);
    assert_eq!(store.collections(), 1);
    store.check("SCARD set", ":14");
}

#[test]
fn no_elements_stay_of_what_is_gone() {
    for way in ["DEL {}", "UNLINK {}", "SET {} x", "PEXPIRE {} -1", "RENAME other {}", "COPY other {} REPLACE"] {
        let mut store = Store::new();
        store.fill(50);
        for key in KEYS {
            store.check("SET other x", "+OK");
            assert!(!store.ask(&way.replace("{}", key)).starts_with('-'), "{way}");
        }
        assert_eq!(store.collections(), 0, "{way}");
    }
}

#[test]
fn what_becomes_empty_has_no_elements() {
    let mut store = Store::new();
    store.fill(50);
    for number in 0..50 {
        store.check(&format!("HDEL hash f{number}"), ":1");
        store.check(&format!("SREM set m{number}"), ":1");
        store.check(&format!("ZREM zset m{number}"), ":1");
    }
    store.check("LTRIM list 1 0", "+OK");
    assert_eq!((store.collections(), store.ask("DBSIZE").as_str()), (0, ":0\r\n"));
    assert_eq!(store.0.tables.0.orphans.borrow().len(), 4);
}

#[test]
fn elements_follow_their_keys() {
    let mut store = Store::new();
    store.fill(50);
    for key in KEYS {
        store.check(&format!("COPY {key} copy:{key}"), ":1");
        store.check(&format!("RENAME {key} new:{key}"), "+OK");
        store.check(&format!("MOVE copy:{key} 1"), ":1");
    }
    assert_eq!(store.collections(), 8);
    store.check("HSET new:hash f0 changed", ":0");
    for round in 0..2 {
        store.check("HGET new:hash f0", "$7\r\nchanged");
        store.check("ZRANK new:zset m17", ":17");
        store.check("LINDEX new:list -1", "$3\r\ne49");
        store.ask("SELECT 1");
        store.check("HGET copy:hash f0", "$2\r\nv0");
        store.check("ZRANK copy:zset m17", ":17");
        store.check("LINDEX copy:list 20", "$3\r\ne20");
        store.check("SISMEMBER copy:set m49", ":1");
        store.ask("SELECT 0");
        if round == 0 {
            support::checkpoint(&mut store.0.server, &store.0.tables);
        }
    }
    store.check("SWAPDB 0 1", "+OK");
    store.check("ZCARD copy:zset", ":50");
    store.check("ZADD copy:zset -1 first", ":1");
    store.check("ZRANK copy:zset m17", ":18");
}

#[test]
fn a_command_that_cannot_read_changes_nothing() {
    let mut store = Store::new();
    store.fill(50);
    let digest = store.ask("DEBUG DIGEST");
    assert!(digest.starts_with('+'), "{digest}");
    let refused = "-ERR cannot read from disk: it is a test";
    for command in [
        "HGET hash f1",
        "HGETALL hash",
        "HSET hash f1 x",
        "HSET hash new x",
        "HDEL hash f1",
        "HINCRBY hash new 1",
        "SADD set x",
        "SREM set m1",
        "SMEMBERS set",
        "SPOP set",
        "SUNIONSTORE target set",
        "SMOVE set other m1",
        "ZADD zset 5 m1",
        "ZREM zset m1",
        "ZPOPMIN zset",
        "ZRANGE zset 0 -1",
        "ZINCRBY zset 1 m1",
        "LPUSH list x",
        "RPOP list",
        "LSET list 5 x",
        "LREM list 0 e1",
        "LTRIM list 5 10",
        "LINSERT list BEFORE e20 x",
        "LMOVE list other LEFT LEFT",
        "COPY list copy",
        "SORT list ALPHA STORE target",
    ] {
        store.0.tables.0.fails_after.set(Some(0));
        store.check(command, refused);
        store.0.tables.0.fails_after.set(None);
        assert_eq!(store.0.server.condition().broken, None, "{command}");
        assert_eq!(store.ask("DEBUG DIGEST"), digest, "{command}");
    }
    store.0.server.effects().clear();
    store.0.tables.0.fails_after.set(Some(0));
    store.check("HSET hash f1 x", refused);
    assert!(store.0.server.effects().is_empty(), "nothing is in the log");
}

#[test]
fn a_command_that_cannot_read_after_a_change_stops_the_store() {
    for (command, reads) in [("HSET hash f1 x f2 y", 1), ("SREM set m1 m2", 1), ("ZADD zset 70 m1 80 m2", 2)] {
        let mut store = Store::new();
        store.fill(50);
        // What it knows of the parts it has.
        store.check("ZRANK zset m1", ":1");
        store.0.tables.0.fails_after.set(Some(reads));
        assert!(store.ask(command).starts_with("-ERR cannot read from disk"), "{command}");
        assert!(store.0.server.condition().broken.is_some(), "{command}");
    }
}

#[test]
fn a_database_is_filled_and_emptied_as_often_as_one_likes() {
    let mut store = Store::new();
    for round in 0..5 {
        for _ in 0..300 {
            store.check("SET key value", "+OK");
            store.fill_memory(WHOLE_MAX as usize + 1);
            store.check("FLUSHALL", "+OK");
        }
        store.check("DBSIZE", ":0");
        store.check("GET key", "$-1");
        // What a checkpoint has taken before is not found again, nor what was emptied after it.
        store.check(&format!("SET round {round}"), "+OK");
        support::checkpoint(&mut store.0.server, &store.0.tables);
        store.check("DBSIZE", ":1");
        store.check("EXISTS hash set key", ":0");
        store.check("GET round", &format!("$1\r\n{round}"));
    }
}
