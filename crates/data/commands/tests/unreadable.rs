//! What cannot be read: every reply is whole or an error, nothing is half done, and a key that cannot be read can be replaced.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod support;

use commands::{
    Server,
    config::{Allowed, Integer, Settings},
};
use keyspace::{Bytes, Records};
use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};

const NOW: i64 = 1_700_000_000_000;
/// More elements than this are records of their own.
const WHOLE_MAX: i64 = 10;

struct Store(support::Client);

impl Store {
    fn settings() -> Settings {
        Settings {
            collection_max_whole_entries: Integer(WHOLE_MAX),
            enable_debug_command: Allowed::Yes,
            ..Settings::default()
        }
    }

    fn new() -> Self {
        Self(support::Client::new(Self::settings(), NOW))
    }

    /// Keys of every type, small and large, none in memory.
    fn filled() -> Self {
        let mut store = Self::new();
        for number in 1..=3 {
            for command in [
                format!("MSET k{number} value{number} n{number} {number} w:{number} {number}"),
                format!("PFADD p{number} a{number} b"),
                format!("SETBIT bits{number} {number} 1"),
                format!("GEOADD g{number} 13.{number} 38.1 a 15.0 37.{number} b"),
            ] {
                assert!(!store.ask(&command).starts_with('-'), "{command}");
            }
            for element in 0..number * 8 {
                for command in [
                    format!("HSET h{number} f{element} v"),
                    format!("SADD s{number} {element}"),
                    format!("ZADD z{number} {element} {element}"),
                    format!("RPUSH l{number} {element}"),
                    format!("XADD x{number} {}-1 f v", element + 1),
                ] {
                    assert!(!store.ask(&command).starts_with('-'), "{command}");
                }
            }
            store.ask(&format!("XGROUP CREATE x{number} group 0"));
            store.ask(&format!("XREADGROUP GROUP group one COUNT 3 STREAMS x{number} >"));
        }
        support::checkpoint(&mut store.0.server, &store.0.tables);
        store
    }

    fn ask(&mut self, command: &str) -> String {
        self.0.ask(command, NOW)
    }

    #[track_caller]
    fn check(&mut self, command: &str, reply: &str) {
        assert_eq!(self.ask(command), format!("{reply}\r\n"), "{command}");
    }

    /// The replies to some lines that are sent in one go.
    fn replies(&mut self, lines: &str) -> Vec<Value> {
        let output = self.0.ask_bytes(lines, NOW);
        let (mut parser, mut rest, mut values) = (ReplyParser::new(), output.as_slice(), Vec::new());
        while !rest.is_empty() {
            match parser.parse(rest, &ReplyLimits::default()).unwrap() {
                ReplyProgress::Complete { consumed, value } => {
                    rest = &rest[consumed..];
                    values.push(value);
                }
                ReplyProgress::Incomplete { .. } => {
                    panic!("half of a reply to {lines}: {:?}", output.escape_ascii().to_string())
                }
            }
        }
        values
    }

    /// Has a key be unreadable.
    fn damage(&self, key: &str) {
        self.0.tables.0.damaged.borrow_mut().push(Bytes::from_slice(key.as_bytes()));
    }

    fn is_broken(&self) -> bool {
        self.0.server.condition().broken.is_some()
    }

    /// Another store with what the tables of this one have.
    fn copy(&self) -> Self {
        let mut next = Self::new();
        next.0.tables = self.0.tables.0.crash();
        let records = Box::new(next.0.tables.clone()) as Box<dyn Records>;
        next.0.server = Server::new(Self::settings(), support::SEED, 7, NOW, Some(records), std::rc::Rc::new(|| 0));
        next.0.tables.0.restore(&mut next.0.server.keyspace);
        next.0.session = next.0.server.connect(String::new(), String::new(), NOW);
        next
    }
}

const PONG: &[u8] = b"PONG";

fn is_pong(value: &Value) -> bool {
    value.as_bytes() == Some(PONG)
}

/// Commands that read several keys, elements, or both.
const COMMANDS: &[&str] = &[
    "MGET k1 k2 k3",
    "MSET k1 a k2 b k3 c",
    "MSETNX k1 a new b",
    "DEL k1 h2 s3 z1",
    "UNLINK k1 h2 s3",
    "EXISTS k1 k2 h3",
    "TOUCH k1 k2",
    "GETSET k1 x",
    "GETDEL k1",
    "GETEX k1 EX 100",
    "SET k1 x GET",
    "SET k1 x KEEPTTL",
    "INCR n1",
    "APPEND k1 x",
    "LCS k1 k2",
    "LCS k1 k2 IDX WITHMATCHLEN",
    "BITOP OR new bits1 bits2 bits3",
    "BITFIELD bits1 GET u8 0 SET u8 8 7",
    "PFMERGE p1 p2 p3",
    "PFCOUNT p1 p2 p3",
    "RENAME k1 k2",
    "RENAMENX k1 k2",
    "COPY k1 k2 REPLACE",
    "COPY h3 new",
    "MOVE k1 1",
    "EXPIRE k1 100",
    "PERSIST k1",
    "DUMP z3",
    "OBJECT ENCODING l3",
    "DEBUG OBJECT k1",
    "MEMORY USAGE h3 SAMPLES 0",
    "RANDOMKEY",
    "KEYS *",
    "SCAN 0 COUNT 100",
    "SCAN 0 COUNT 100 TYPE hash",
    "SORT s3 BY w:* GET n* GET # GET k*",
    "SORT s3 BY nosort GET k* GET h*->f1",
    "SORT l3 BY w:* STORE new",
    "SORT s1 BY nosort GET k1",
    "HGETALL h3",
    "HMGET h3 f1 f2 f3",
    "HRANDFIELD h3 5 WITHVALUES",
    "HSET h3 f1 x f2 y new z",
    "HDEL h3 f1 f2",
    "HSCAN h3 0 COUNT 50",
    "HINCRBY h3 new 1",
    "SMEMBERS s3",
    "SMISMEMBER s3 1 2 3",
    "SINTER s1 s2 s3",
    "SUNION s1 s2 s3",
    "SDIFF s3 s1 s2",
    "SINTERCARD 3 s1 s2 s3",
    "SUNIONSTORE new s1 s2 s3",
    "SINTERSTORE s1 s2 s3",
    "SMOVE s1 s2 1",
    "SPOP s3 5",
    "SRANDMEMBER s3 5",
    "SSCAN s3 0 COUNT 50",
    "ZRANGE z3 0 -1 WITHSCORES",
    "ZRANGE z3 (1 +inf BYSCORE LIMIT 1 5",
    "ZRANGESTORE new z3 0 -1",
    "ZUNION 3 z1 z2 z3 WITHSCORES",
    "ZINTER 2 z1 s2",
    "ZDIFF 2 z3 z1",
    "ZUNIONSTORE new 3 z1 z2 z3",
    "ZADD z3 5 1 6 new",
    "ZREM z3 1 2",
    "ZMSCORE z3 1 2 3",
    "ZPOPMIN z3 4",
    "ZMPOP 3 none z1 z2 MIN COUNT 2",
    "BZPOPMIN none z1 z2 0",
    "ZRANDMEMBER z3 5 WITHSCORES",
    "ZSCAN z3 0 COUNT 50",
    "ZRANK z3 4",
    "LRANGE l3 0 -1",
    "LPOP l3 3",
    "LPOS l3 5 COUNT 0",
    "LINSERT l3 BEFORE 5 x",
    "LREM l3 0 5",
    "LMOVE l1 l2 LEFT RIGHT",
    "LMPOP 3 none l1 l2 LEFT COUNT 2",
    "BLPOP none l1 l2 0",
    "BLMOVE l1 l2 LEFT RIGHT 0",
    "GEOSEARCH g1 FROMMEMBER a BYRADIUS 500 km WITHDIST WITHCOORD",
    "GEOSEARCHSTORE new g1 FROMMEMBER a BYRADIUS 500 km",
    "GEOPOS g1 a b c",
    "XRANGE x3 - +",
    "XREVRANGE x3 + - COUNT 3",
    "XREAD STREAMS x1 x2 x3 0 0 0",
    "XREADGROUP GROUP group two STREAMS x1 x2 x3 > > >",
    "XINFO STREAM x3 FULL",
    "XINFO CONSUMERS x3 group",
    "XPENDING x3 group - + 10",
    "XCLAIM x3 group two 0 1-1 2-1",
    "XAUTOCLAIM x3 group two 0 0",
    "XACK x3 group 1-1 2-1",
    "XDEL x3 1-1 2-1",
    "XTRIM x3 MAXLEN 2",
    "WATCH k1 k2",
    "SWAPDB 0 1",
    "DEBUG DIGEST-VALUE k1 k2 h3",
];

#[test]
fn a_reply_is_whole_or_an_error_wherever_reading_fails() {
    let filled = Store::filled();
    let (mut errors, mut faults) = (0, Vec::new());
    let counts_of = |store: &mut Store| ["XINFO GROUPS x1", "XINFO GROUPS x3", "DBSIZE"].map(|one| store.ask(one));
    for command in COMMANDS {
        for (of_keys, after) in (0..5).flat_map(|after| [(true, after), (false, after)]) {
            let mut store = filled.copy();
            let digest = store.ask("DEBUG DIGEST");
            assert!(digest.starts_with('+'), "{digest}");
            let counts = counts_of(&mut store);
            support::checkpoint(&mut store.0.server, &store.0.tables);
            store.0.server.effects().clear();
            let tables = store.0.tables.0.clone();
            let fails_after = if of_keys { &tables.keys_fail_after } else { &tables.fails_after };
            fails_after.set(Some(after));
            let replies = store.replies(&format!("{command}\r\nPING"));
            let failed = fails_after.replace(None) == Some(0);
            let (first, rest) = replies.split_first().unwrap_or_else(|| panic!("{command} is answered"));
            assert!(matches!(rest, [pong] if is_pong(pong)), "{command} {after}: {replies:?}");
            let Some(text) = first.as_error() else { continue };
            let text = String::from_utf8_lossy(text);
            assert!(failed && text.starts_with("ERR cannot read from disk"), "{command} {after} {failed}: {text}");
            errors += 1;
            if !store.is_broken() {
                let now = counts_of(&mut store);
                if (&digest, &counts) != (&store.ask("DEBUG DIGEST"), &now) {
                    faults.push(format!("{command} {of_keys} {after} has changed something: {text}"));
                }
                if !store.0.server.effects().is_empty() {
                    faults.push(format!("{command} {of_keys} {after} is in the log"));
                }
            } else if of_keys {
                faults.push(format!("{command} {after} stops the store for a key"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(errors > 2 * COMMANDS.len(), "{errors} errors of {} commands", COMMANDS.len());
}

#[test]
fn what_follows_an_error_is_not_taken_for_a_part_of_the_reply() {
    let mut store = Store::filled();
    store.damage("k2");
    let error = "-ERR cannot read from disk: it is damaged\r\n";
    assert_eq!(store.ask("MGET k1 k2 k3\r\nPING\r\nGET k3"), format!("{error}+PONG\r\n$6\r\nvalue3\r\n"));
    assert_eq!(
        store.ask("SADD numbers 1 2 3\r\nSORT numbers GET k* BY nosort\r\nPING"),
        format!(":3\r\n{error}+PONG\r\n")
    );
    let all = "MULTI\r\nGET k1\r\nMGET k1 k2 k3\r\nPING\r\nEXEC\r\nPING";
    let queued = "+QUEUED\r\n".repeat(3);
    assert_eq!(store.ask(all), format!("+OK\r\n{queued}*3\r\n$6\r\nvalue1\r\n{error}+PONG\r\n+PONG\r\n"));
}

#[test]
fn a_script_is_told_of_what_cannot_be_read() {
    let mut store = Store::filled();
    store.damage("k2");
    let reply = store.ask("EVAL \"return redis.call('mget', 'k1', 'k2')\" 0\r\nPING");
    assert!(reply.starts_with("-ERR cannot read from disk: it is damaged script: "), "{reply}");
    assert!(reply.ends_with("\r\n+PONG\r\n") && reply.lines().count() == 2, "{reply}");
    let error = "-ERR cannot read from disk: it is damaged";
    store.check("EVAL \"return redis.pcall('mget', 'k1', 'k2')\" 0", error);
    // What it has done before stays, and is in the log.
    store.0.server.effects().clear();
    let reply = store.ask("EVAL \"redis.call('set', 'k1', 'x'); return redis.call('get', 'k2')\" 0");
    assert!(reply.starts_with(error), "{reply}");
    assert!(!store.is_broken());
    store.check("GET k1", "$1\r\nx");
    assert!(String::from_utf8_lossy(store.0.server.effects().bytes()).contains("\r\nk1\r\n"));
}

#[test]
fn a_transaction_whose_watched_key_cannot_be_read_does_not_run() {
    let mut store = Store::filled();
    store.check("WATCH k2", "+OK");
    support::checkpoint(&mut store.0.server, &store.0.tables);
    store.damage("k2");
    store.check("MULTI\r\nSET k1 x\r\nEXEC", "+OK\r\n+QUEUED\r\n-ERR cannot read from disk: it is damaged");
    store.check("GET k1", "$6\r\nvalue1");
    store.check("MULTI\r\nSET k1 x\r\nEXEC", "+OK\r\n+QUEUED\r\n*1\r\n+OK");
}

#[test]
fn an_expired_key_beside_a_damaged_one_goes() {
    let mut store = Store::filled();
    store.check("SET short x PX 1", "+OK");
    support::checkpoint(&mut store.0.server, &store.0.tables);
    store.damage("k2");
    let reply = store.0.ask("MGET short k2", NOW + 10);
    assert!(reply.starts_with("-ERR cannot read from disk") && !store.is_broken(), "{reply}");
    assert_eq!(store.0.ask("GET short", NOW + 10), "$-1\r\n");
}

#[test]
fn a_key_that_cannot_be_read_can_be_replaced_and_removed() {
    for (command, reply, left) in [
        ("SET k2 new", "+OK", Some("new")),
        ("SETEX k2 100 new", "+OK", Some("new")),
        ("MSET k1 value1 k2 new", "+OK", Some("new")),
        ("RENAME k3 k2", "+OK", Some("value3")),
        ("COPY k3 k2 REPLACE", ":1", Some("value3")),
        ("BITOP OR k2 k3 none", ":6", Some("value3")),
        ("DEL k2", ":1", None),
        ("UNLINK none k2", ":1", None),
        ("SUNIONSTORE k2 none", ":0", None),
    ] {
        let mut store = Store::filled();
        let count: usize = store.ask("DBSIZE").trim()[1..].parse().unwrap();
        let renamed = usize::from(command.starts_with("RENAME"));
        store.damage("k2");
        store.check("GET k2", "-ERR cannot read from disk: it is damaged");
        store.check("SET k2 x KEEPTTL", "-ERR cannot read from disk: it is damaged");
        store.check(command, reply);
        assert!(!store.is_broken(), "{command}");
        let value = left.map_or("$-1".to_owned(), |left| format!("${}\r\n{left}", left.len()));
        let count = format!(":{}", count - usize::from(left.is_none()) - renamed);
        for round in 0..2 {
            store.check("GET k2", &value);
            store.check("DBSIZE", &count);
            if round == 0 {
                // It is so in the tables too: what they had is overwritten.
                support::checkpoint(&mut store.0.server, &store.0.tables);
                store.0.tables.0.damaged.borrow_mut().clear();
            }
        }
        let mut next = store.copy();
        next.check("GET k2", &value);
        next.check("DBSIZE", &count);
    }
}
