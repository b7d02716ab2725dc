//! What commands about strings and keys leave in the log: times instead of spans, results instead of arithmetic, nothing
//! where nothing changed.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use commands::{Server, config::Settings};
use resp::{Limits, Progress, RequestParser};

const NOW: i64 = 1_700_000_000_000;

/// The commands of a log, a line each.
fn lines(mut log: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut parser = RequestParser::new();
    while !log.is_empty() {
        let Ok(Progress::Complete { consumed }) = parser.parse(log, &Limits::default()) else { break };
        let words: Vec<_> = parser.arguments(log).iter().map(|word| word.escape_ascii().to_string()).collect();
        lines.push(words.join(" "));
        log = &log[consumed..];
    }
    lines
}

/// Runs some commands and then one, of which the effects are wanted, without the `SELECT` in front.
fn check(before: &[&str], command: &str, expected: &[&str]) {
    let mut server = Server::new(Settings::default(), 7, 7, NOW, None, std::rc::Rc::new(|| 0));
    let session = server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), NOW);
    let mut run = |command: &str, now: i64| {
        server.effects().clear();
        server.input(session).unwrap().extend_from_slice(format!("{command}\r\n").as_bytes());
        server.run(session, now);
        lines(server.effects().bytes())
    };
    before.iter().for_each(|command| drop(run(command, NOW)));
    let effects: Vec<String> = run(command, NOW + 10).into_iter().filter(|line| line != "SELECT 0").collect();
    assert_eq!(effects, expected, "{before:?} {command}");
}

#[test]
fn effects_are_deterministic() {
    let set: &[&str] = &["SET k v"];
    let expiring: &[&str] = &["SET k v", "PEXPIREAT k 1700000000005"];
    let lasting: &[&str] = &["SET k v EX 100"];
    for (before, command, expected) in [
        (&[][..], "SET k v", &["SET k v"][..]),
        (&[], "SET k v EX 10", &["SET k v PXAT 1700000010010"]),
        (set, "SET k v NX", &[]),
        (set, "SET k w GET XX PX 5", &["SET k w PXAT 1700000000015"]),
        (&[], "SETEX k 10 v", &["SET k v PXAT 1700000010010"]),
        (&[], "PSETEX k 10 v", &["SET k v PXAT 1700000000020"]),
        (set, "GETSET k w", &["SET k w"]),
        // A script in a transaction is part of it: MULTI cannot be nested.
        (
            &["MULTI", "EVAL \"redis.call('SET','a',1) redis.call('SET','b',1)\" 0", "INCR b"],
            "EXEC",
            &["MULTI", "SET a 1", "SET b 1", "INCR b", "EXEC"],
        ),
        (set, "GETDEL k", &["DEL k"]),
        (&[], "GETDEL k", &[]),
        (set, "GETEX k", &[]),
        (set, "GETEX k PERSIST", &[]),
        (lasting, "GETEX k PERSIST", &["PERSIST k"]),
        (set, "GETEX k EX 10", &["PEXPIREAT k 1700000010010"]),
        (set, "GETEX k PXAT 5", &["DEL k"]),
        (&[], "INCRBYFLOAT k 0.1", &["SET k 0.1 KEEPTTL"]),
        (&["SET k 1"], "INCR k", &["INCR k"]),
        (set, "INCR k", &[]),
        (set, "MSETNX a 1 k 2", &[]),
        (set, "SETRANGE k 0 \"\"", &[]),
        (set, "EXPIRE k 10", &["PEXPIREAT k 1700000010010"]),
        (set, "EXPIRE k 10 XX", &[]),
        (set, "EXPIRE k 10 NX", &["PEXPIREAT k 1700000010010"]),
        (set, "EXPIREAT k 1", &["DEL k"]),
        (set, "PEXPIREAT k 1800000000000", &["PEXPIREAT k 1800000000000"]),
        (lasting, "PERSIST k", &["PERSIST k"]),
        (set, "PERSIST k", &[]),
        (expiring, "GET k", &["DEL k"]),
        (expiring, "SETNX k w", &["DEL k", "SETNX k w"]),
        (expiring, "SCAN 0", &["DEL k"]),
        (expiring, "RANDOMKEY", &["DEL k"]),
        (set, "RENAME k l", &["RENAME k l"]),
        (set, "RENAME k k", &[]),
        (set, "COPY k l", &["COPY k l"]),
        (&["MSET k 1 l 2"], "COPY k l", &[]),
        (set, "MOVE k 1", &["MOVE k 1"]),
        (&[], "SWAPDB 0 1", &["SWAPDB 0 1"]),
        (set, "SETBIT k 0 0", &[]),
        (set, "SETBIT k 0 1", &["SETBIT k 0 1"]),
        (set, "BITFIELD k GET u8 0", &[]),
        (&[], "BITFIELD k OVERFLOW FAIL INCRBY u1 100 5", &["BITFIELD k OVERFLOW FAIL INCRBY u1 100 5"]),
        (&[], "BITFIELD k SET u8 0 0", &["BITFIELD k SET u8 0 0"]),
        (set, "BITOP NOT l k", &["BITOP NOT l k"]),
        (&[], "BITOP NOT l k", &[]),
        (&["RPUSH k 2 1"], "SORT k", &[]),
        (&["RPUSH k 2 1"], "SORT k STORE l", &["SORT k STORE l"]),
        (&[], "SORT k STORE l", &[]),
    ] {
        check(before, command, expected);
    }
}

#[test]
fn what_is_restored_for_a_time_is_logged_with_its_end() {
    const PAYLOAD: &str = "\\x00\\x03bar\\x0a\\x00\\xe6\\xbeI`\\xeef\\xfd\\x17";
    let restore = |arguments: &str| format!("RESTORE k {}", arguments.replace("PAYLOAD", &format!("\"{PAYLOAD}\"")));
    let logged = |arguments: &str| {
        let payload = b"\x00\x03bar\x0a\x00\xe6\xbeI`\xeef\xfd\x17".escape_ascii().to_string();
        format!("RESTORE k {}", arguments.replace("PAYLOAD", &payload))
    };
    for (arguments, expected) in [
        ("0 PAYLOAD", "0 PAYLOAD"),
        ("50 PAYLOAD", "1700000000060 PAYLOAD ABSTTL"),
        ("1700000000060 PAYLOAD ABSTTL", "1700000000060 PAYLOAD ABSTTL"),
    ] {
        check(&[], &restore(arguments), &[&logged(expected)]);
    }
    check(&["SET k v"], &restore("5 PAYLOAD ABSTTL REPLACE"), &["DEL k"]);
    check(&[], &restore("5 PAYLOAD ABSTTL"), &[]);
}

/// A log that is read again comes to the same keys, also to those that have expired since: their removal is in it.
#[test]
fn a_replay_removes_nothing_by_itself() {
    let mut server = Server::new(Settings::default(), 7, 7, NOW, None, std::rc::Rc::new(|| 0));
    let mut session = commands::Session::new(commands::SessionId(0), NOW);
    session.internal = true;
    session.replaying = true;
    for command in [&[b"SET".as_slice(), b"k", b"v"][..], &[b"PEXPIREAT", b"k", b"5"]] {
        server.replay(&mut session, command).unwrap();
    }
    assert_eq!(server.keyspace.database(0).unwrap().len(), 1);
}

/// A consumer that the log makes has been seen when the server started, at the latest.
#[test]
fn a_replay_knows_no_time_but_the_start() {
    let mut server = Server::new(Settings::default(), 7, 7, NOW, None, std::rc::Rc::new(|| 0));
    let mut session = commands::Session::new(commands::SessionId(0), NOW);
    session.internal = true;
    session.replaying = true;
    for command in [
        &[b"XGROUP".as_slice(), b"CREATE", b"x", b"g", b"$", b"MKSTREAM"][..],
        &[b"XGROUP", b"CREATECONSUMER", b"x", b"g", b"c"],
    ] {
        server.replay(&mut session, command).unwrap();
    }
    let client = server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), NOW);
    server.input(client).unwrap().extend_from_slice(b"XINFO CONSUMERS x g\r\n");
    server.run(client, NOW + 5);
    let consumers = server.output(client).unwrap().0;
    assert!(consumers.ends_with(b"$4\r\nidle\r\n:5\r\n"), "{}", consumers.escape_ascii());
}

/// Of commands on lists, sets and hashes: what was random, rounded or waited for is said as what came of it.
#[test]
fn collections_leave_what_reproduces_them() {
    let list: &[&str] = &["RPUSH l 1 2 3"];
    let integers: &[&str] = &["SADD s 1"];
    for (before, command, expected) in [
        (list, "LPUSHX l 0", &["LPUSHX l 0"][..]),
        (&[], "LPUSHX l 0", &[]),
        (list, "LPOP l 0", &[]),
        (list, "RPOP l 5", &["RPOP l 5"]),
        (list, "BLPOP x l 0", &["LPOP l"]),
        (list, "BRPOP x l 0", &["RPOP l"]),
        (list, "LMPOP 2 x l LEFT COUNT 5", &["LPOP l 3"]),
        (list, "BLMPOP 0 2 x l RIGHT COUNT 2", &["RPOP l 2"]),
        (list, "BLMOVE l m LEFT RIGHT 0", &["LMOVE l m LEFT RIGHT"]),
        (list, "BRPOPLPUSH l m 0", &["RPOPLPUSH l m"]),
        (list, "LMOVE l l LEFT RIGHT", &["LMOVE l l LEFT RIGHT"]),
        (&[], "BLPOP l 0", &[]),
        (&[], "RPOPLPUSH l m", &[]),
        (list, "LTRIM l 0 -1", &[]),
        (list, "LTRIM l 0 0", &["LTRIM l 0 0"]),
        (list, "LREM l 0 x", &[]),
        (list, "LREM l 0 1", &["LREM l 0 1"]),
        (list, "LINSERT l BEFORE x y", &[]),
        (list, "LSET l 0 x", &["LSET l 0 x"]),
        (integers, "SADD s 1", &[]),
        (integers, "SADD s 1 2", &["SADD s 1 2"]),
        (integers, "SREM s 2", &[]),
        (integers, "SPOP s", &["SREM s 1"]),
        (integers, "SPOP s 5", &["DEL s"]),
        (integers, "SPOP s 0", &[]),
        (&[], "SPOP s", &[]),
        (integers, "SMOVE s t 1", &["SMOVE s t 1"]),
        (integers, "SMOVE s t 2", &[]),
        (integers, "SUNIONSTORE t s", &["SUNIONSTORE t s"]),
        (integers, "SINTERSTORE t none", &[]),
        (integers, "SDIFFSTORE s s s", &["SDIFFSTORE s s s"]),
        (&[], "HSET h a 1 b 2", &["HSET h a 1 b 2"]),
        (&["HSET h a 1"], "HSETNX h a 2", &[]),
        (&["HSET h a 1"], "HDEL h b", &[]),
        (&["HSET h a 1"], "HINCRBY h a 2", &["HINCRBY h a 2"]),
        (&["HSET h a 1"], "HINCRBYFLOAT h a 0.1", &["HSET h a 1.1"]),
        (&["HSET h a x"], "HINCRBYFLOAT h a 0.1", &[]),
    ] {
        check(before, command, expected);
    }
}
