//! What clients see of each other: caches, monitors, pauses, limits.

use crate::{
    config::{OutputLimit, Settings},
    groups::testing::Shard,
    session::Close,
};

use super::{Server, TrackingCounts};

/// The end of a turn: who named prefixes is told.
fn turn(shard: &mut Shard) {
    shard.0.sessions_with_output(&mut Vec::new());
}

/// A client of the newer protocol that is told of keys, as options say.
fn tracked(shard: &mut Shard, options: &str) -> crate::SessionId {
    let client = shard.client();
    shard.ask(client, "HELLO 3");
    assert_eq!(shard.ask(client, &format!("CLIENT TRACKING ON {options}")), "+OK ");
    client
}

#[test]
fn a_key_that_was_read_is_told_once() {
    let mut shard = Shard::new();
    let (reader, writer) = (tracked(&mut shard, ""), shard.client());
    shard.ask(writer, "SET a 1");
    assert_eq!(shard.output(reader), "");
    shard.ask(reader, "GET a");
    shard.ask(writer, "SET a 2");
    assert_eq!(shard.output(reader), ">2 $10 invalidate *1 $1 a ");
    shard.ask(writer, "SET a 3");
    assert_eq!(shard.output(reader), "");
    shard.ask(reader, "MGET a b");
    assert_eq!(
        shard.0.shared.sessions.tracking_counts(),
        TrackingCounts { clients: 1, keys: 2, items: 2, prefixes: 0 }
    );
    shard.ask(writer, "DEL a");
    shard.ask(writer, "RPUSH b x");
    assert_eq!(shard.output(reader), ">2 $10 invalidate *1 $1 a >2 $10 invalidate *1 $1 b ");
    assert_eq!(shard.ask(reader, "CLIENT TRACKING OFF"), "+OK ");
    assert_eq!(shard.0.shared.sessions.tracking_counts(), TrackingCounts::default());
}

#[test]
fn what_a_client_changes_itself_is_told_behind_the_reply() {
    let mut shard = Shard::new();
    let client = tracked(&mut shard, "");
    shard.ask(client, "GET a");
    assert_eq!(shard.ask(client, "SET a 1\r\nGET a"), "+OK >2 $10 invalidate *1 $1 a $1 1 ");
    shard.ask(client, "MULTI");
    shard.ask(client, "SET a 2");
    shard.ask(client, "PING");
    assert_eq!(shard.ask(client, "EXEC"), "*2 +OK +PONG >2 $10 invalidate *1 $1 a ");
    shard.ask(client, "GET a");
    assert_eq!(shard.ask(client, "FLUSHALL"), "+OK >2 $10 invalidate _ ");
    let quiet = tracked(&mut shard, "NOLOOP");
    shard.ask(quiet, "GET a");
    assert_eq!(shard.ask(quiet, "SET a 1"), "+OK ");
    assert_eq!(shard.ask(quiet, "CLIENT REPLY OFF\r\nGET a"), "");
    shard.ask(client, "SET a 2");
    assert_eq!(shard.output(quiet), ">2 $10 invalidate *1 $1 a ", "what nobody asked for is no reply");
}

#[test]
fn keys_that_expire_or_are_flushed_are_told() {
    let mut shard = Shard::new();
    let (reader, writer) = (tracked(&mut shard, ""), shard.client());
    shard.ask(writer, "SET a 1 PX 5");
    shard.ask(reader, "GET a");
    shard.0.tick(2000);
    assert_eq!(shard.output(reader), ">2 $10 invalidate *1 $1 a ");
    shard.ask(writer, "FLUSHDB");
    assert_eq!(shard.output(reader), ">2 $10 invalidate _ ");
    // One that listened to nobody before says nothing of what was emptied then.
    shard.ask(writer, "FLUSHALL");
    let late = tracked(&mut shard, "");
    assert_eq!(shard.ask(late, "PING"), "+PONG ");
}

#[test]
fn prefixes_are_told_at_the_end_of_a_turn() {
    let mut shard = Shard::new();
    let (all, some) = (tracked(&mut shard, "BCAST"), tracked(&mut shard, "BCAST NOLOOP PREFIX a: PREFIX b:"));
    let writer = shard.client();
    shard.ask(writer, "MSET a:2 x b:1 x c:1 x a:1 x");
    assert_eq!((shard.output(all), shard.output(some)), (String::new(), String::new()));
    turn(&mut shard);
    assert_eq!(shard.output(all), ">2 $10 invalidate *4 $3 a:1 $3 a:2 $3 b:1 $3 c:1 ");
    assert_eq!(shard.output(some), ">2 $10 invalidate *2 $3 a:1 $3 a:2 >2 $10 invalidate *1 $3 b:1 ");
    shard.ask(some, "SET a:1 y");
    shard.ask(writer, "SET a:2 y");
    turn(&mut shard);
    assert_eq!(shard.output(some), ">2 $10 invalidate *1 $3 a:2 ");
    assert_eq!(shard.0.shared.sessions.tracking_counts().prefixes, 3);
    shard.0.disconnect(some);
    assert_eq!(shard.0.shared.sessions.tracking_counts().prefixes, 1);
}

#[test]
fn another_client_may_be_told_instead() {
    let mut shard = Shard::new();
    let (listener, reader, writer) = (shard.client(), shard.client(), shard.client());
    shard.ask(listener, "SUBSCRIBE __redis__:invalidate");
    assert_eq!(shard.ask(reader, &format!("CLIENT TRACKING ON REDIRECT {}", listener.0)), "+OK ");
    assert_eq!(shard.ask(reader, "CLIENT GETREDIR"), format!(":{} ", listener.0));
    shard.ask(reader, "GET a");
    shard.ask(writer, "SET a 1");
    assert_eq!(shard.output(listener), "*3 $7 message $20 __redis__:invalidate *1 $1 a ");
    shard.ask(writer, "FLUSHALL");
    assert_eq!(shard.output(listener), "*3 $7 message $20 __redis__:invalidate $-1 ");
    shard.ask(reader, "HELLO 3");
    shard.ask(reader, "GET a");
    shard.0.disconnect(listener);
    shard.ask(writer, "SET a 1");
    assert_eq!(shard.output(reader), format!(">2 $21 tracking-redir-broken :{} ", listener.0));
    assert!(shard.ask(reader, "CLIENT TRACKINGINFO").contains("broken_redirect"));
}

#[test]
fn what_is_remembered_may_be_chosen() {
    let mut shard = Shard::new();
    let (chosen, most, writer) = (tracked(&mut shard, "OPTIN"), tracked(&mut shard, "OPTOUT"), shard.client());
    for (client, word) in [(chosen, "YES"), (most, "NO")] {
        shard.ask(client, "GET plain");
        shard.ask(client, &format!("CLIENT CACHING {word}"));
        shard.ask(client, "GET said");
        shard.ask(client, "GET after");
    }
    shard.ask(writer, "MSET plain 1 said 1 after 1");
    assert_eq!(shard.output(chosen), ">2 $10 invalidate *1 $4 said ");
    assert_eq!(shard.output(most), ">2 $10 invalidate *1 $5 plain >2 $10 invalidate *1 $5 after ");
    shard.ask(chosen, "CLIENT CACHING YES");
    shard.ask(chosen, "MULTI");
    shard.ask(chosen, "GET a");
    shard.ask(chosen, "GET b");
    shard.ask(chosen, "EXEC");
    shard.ask(writer, "MSET a 1 b 1");
    assert_eq!(shard.output(chosen), ">2 $10 invalidate *1 $1 a >2 $10 invalidate *1 $1 b ");
}

#[test]
fn a_script_reads_the_keys_that_it_declares_if_it_reads_any() {
    let mut shard = Shard::new();
    let (reader, writer) = (tracked(&mut shard, ""), shard.client());
    shard.ask(reader, "EVAL \"redis.call('set', 'x', '1')\" 2 a b");
    shard.ask(writer, "MSET a 1 b 1");
    assert_eq!(shard.output(reader), "");
    shard.ask(reader, "EVAL \"return redis.call('get', 'x')\" 2 a b");
    shard.ask(writer, "MSET b 2 a 2");
    assert_eq!(shard.output(reader), ">2 $10 invalidate *1 $1 b >2 $10 invalidate *1 $1 a ");
}

#[test]
fn that_all_is_gone_is_told_once() {
    let mut shard = Shard::new();
    let (reader, watcher) = (tracked(&mut shard, "BCAST"), shard.client());
    shard.ask(watcher, "SET a 1");
    turn(&mut shard);
    shard.output(reader);
    shard.ask(watcher, "WATCH a\r\nFLUSHALL");
    turn(&mut shard);
    assert_eq!(shard.output(reader), ">2 $10 invalidate _ ");
}

#[test]
fn what_a_script_changes_after_it_has_read_is_told() {
    let mut shard = Shard::new();
    let (reader, writer) = (tracked(&mut shard, ""), shard.client());
    let script = "EVAL \"redis.call('get', 'a') return redis.call('incr', 'a')\" 1 a";
    assert_eq!(shard.ask(reader, script), ":1 >2 $10 invalidate *1 $1 a ");
    shard.ask(writer, "INCR a");
    assert_eq!(shard.output(reader), "");
    shard.ask(reader, "EVAL \"redis.call('incr', 'a') return redis.call('get', 'a')\" 1 a");
    shard.ask(writer, "INCR a");
    assert_eq!(shard.output(reader), ">2 $10 invalidate *1 $1 a ");
}

#[test]
fn what_a_script_sends_to_its_own_client_comes_before_the_reply() {
    let mut shard = Shard::new();
    let client = shard.client();
    shard.ask(client, "HELLO 3");
    shard.ask(client, "PSUBSCRIBE n*");
    const MESSAGE: &str = ">4 $8 pmessage $2 n* $4 news $2 hi ";
    let script = "EVAL \"return redis.call('publish', 'news', 'hi')\" 0";
    assert_eq!(shard.ask(client, script), format!("{MESSAGE}:1 "));
    let script = "EVAL \"redis.call('publish', 'news', 'hi') return redis.error_reply('ERR no')\" 0";
    assert_eq!(shard.ask(client, script), format!("{MESSAGE}-ERR no "));
    let script = "EVAL \"for i = 1, 99999 do redis.call('publish', 'news', ('x'):rep(10000)) end\" 0";
    shard.ask(client, script);
    assert_eq!(shard.0.output(client).unwrap().1, Close::Now);
}

#[test]
fn messages_reach_a_client_that_wants_no_replies() {
    let mut shard = Shard::new();
    let client = shard.client();
    shard.ask(client, "HELLO 3\r\nSUBSCRIBE news");
    assert_eq!(shard.ask(client, "CLIENT REPLY SKIP\r\nPUBLISH news a\r\nPING"), ">3 $7 message $4 news $1 a +PONG ");
    assert_eq!(shard.ask(client, "CLIENT REPLY OFF\r\nMULTI\r\nSUBSCRIBE more\r\nDISCARD"), "");
    let muted = "MULTI\r\nPUBLISH news b\r\nEXEC";
    assert_eq!(shard.ask(client, muted), ">3 $7 message $4 news $1 b ");
}

#[test]
fn events_of_what_a_client_does_itself_follow_the_reply() {
    let mut shard = Shard::new();
    let (client, waiter) = (shard.client(), shard.client());
    shard.ask(client, "CONFIG SET notify-keyspace-events KEA\r\nHELLO 3");
    shard.ask(client, "SUBSCRIBE __keyspace@0__:list");
    let event = |name: &str| format!(">3 $7 message $19 __keyspace@0__:list ${} {name} ", name.len());
    assert_eq!(shard.ask(client, "LPUSH list a\r\nPING"), format!(":1 {}+PONG ", event("lpush")));
    assert_eq!(
        shard.ask(client, "MULTI\r\nLPOP list\r\nEXEC"),
        format!("+OK +QUEUED *1 $1 a {}{}", event("lpop"), event("del"))
    );
    shard.ask(waiter, "BLPOP list 0");
    let all = ["lpush", "lpop", "del"].map(event).concat();
    assert_eq!(shard.ask(client, "LPUSH list a"), format!(":1 {all}"));
}

#[test]
fn a_script_that_was_to_be_debugged_does_not_run() {
    let mut shard = Shard::new();
    let (client, other) = (shard.client(), shard.client());
    for how in ["YES", "SYNC"] {
        let refused = shard.ask(client, &format!("SCRIPT DEBUG {how}"));
        assert!(refused.starts_with("-ERR scripts cannot be stepped through here"), "{refused}");
        assert_eq!(shard.ask(other, "EVAL 'return 1' 0"), ":1 ");
        assert_eq!(shard.ask(client, "EVAL 'return redis.call(\"SET\", KEYS[1], 1)' 1 key"), refused);
        assert_eq!(shard.ask(client, "EXISTS key"), ":0 ");
        assert_eq!(shard.ask(client, "EVAL 'return 1' 0"), ":1 ", "once");
    }
    shard.ask(client, "SCRIPT DEBUG YES\r\nSCRIPT DEBUG NO");
    assert_eq!(shard.ask(client, "EVAL 'return 1' 0"), ":1 ");
}

#[test]
fn a_shorter_slow_log_forgets_at_once() {
    let mut shard = Shard::new();
    let client = shard.client();
    shard.ask(client, "CONFIG SET slowlog-log-slower-than 0\r\nPING\r\nPING\r\nPING");
    shard.ask(client, "CONFIG SET slowlog-log-slower-than -1");
    assert_eq!(shard.ask(client, "SLOWLOG LEN"), ":4 ");
    shard.ask(client, "CONFIG SET slowlog-max-len 2");
    assert_eq!(shard.ask(client, "SLOWLOG LEN"), ":2 ");
}

#[test]
fn who_asks_about_a_key_that_is_not_there_misses_it() {
    let mut shard = Shard::new();
    let (client, listener) = (shard.client(), shard.client());
    shard.ask(client, "CONFIG SET notify-keyspace-events Em");
    shard.ask(listener, "SUBSCRIBE __keyevent@0__:keymiss");
    for command in ["TTL key", "PTTL key", "EXPIRETIME key", "PEXPIRETIME key", "TYPE key", "GET key"] {
        shard.ask(client, command);
        assert!(shard.output(listener).ends_with("$3 key "), "{command}");
    }
    let stats = shard.ask(client, "INFO stats");
    assert!(stats.contains("keyspace_misses:6 "), "{stats}");
}

#[test]
fn transactions_may_begin_to_listen() {
    let mut shard = Shard::new();
    let client = shard.client();
    shard.ask(client, "MULTI\r\nSUBSCRIBE news\r\nSSUBSCRIBE shard\r\nPING\r\n");
    assert_eq!(
        shard.ask(client, "EXEC"),
        "*3 *3 $9 subscribe $4 news :1 -ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client *2 $4 pong $0  "
    );
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut shard = Shard::new();
    let reader = tracked(&mut shard, "NOLOOP");
    shard.ask(reader, "CONFIG SET tracking-table-max-keys 10");
    for number in 0..50 {
        shard.ask(reader, &format!("GET {number}"));
        assert!(shard.0.shared.sessions.tracking_counts().keys <= 10);
    }
    assert_eq!(shard.0.shared.sessions.tracking_counts().items, 10);
    // One turn does not do for many; the clock goes on with it.
    shard.ask(reader, "CONFIG SET tracking-table-max-keys 1000");
    (0..500).for_each(|number| drop(shard.ask(reader, &format!("GET {number}"))));
    shard.ask(reader, "CONFIG SET tracking-table-max-keys 10");
    assert!(shard.0.shared.sessions.tracking_counts().keys > 10);
    (0..5).for_each(|turn| shard.0.tick(1000 + turn));
    assert_eq!(shard.0.shared.sessions.tracking_counts().keys, 10);
    assert!(shard.ask(reader, "GET last").contains("invalidate"), "what is forgotten is told to all");
}

#[test]
fn monitors_see_commands_but_no_secrets() {
    let mut shard = Shard::new();
    let (monitor, client) = (shard.client(), shard.client());
    assert_eq!(shard.ask(monitor, "MONITOR"), "+OK ");
    for (command, expected) in [
        ("SET a \"b\\n\\x01\\\"\"", "\"SET\" \"a\" \"b\\n\\x01\\\"\""),
        ("AUTH user secret", "\"AUTH\" \"(redacted)\" \"(redacted)\""),
        ("HELLO 2 AUTH user secret", "\"HELLO\" \"2\" \"AUTH\" \"(redacted)\" \"(redacted)\""),
    ] {
        shard.ask(client, command);
        assert_eq!(shard.output(monitor), format!("+1.000000 [0 ] {expected} "), "{command}");
    }
    shard.ask(client, "CONFIG SET requirepass x");
    assert_eq!(shard.output(monitor), "", "what administrators do is not shown");
    shard.ask(client, "EVAL \"return redis.call('get', 'a')\" 0");
    let lines = shard.output(monitor);
    assert!(
        lines.starts_with("+1.000000 [0 ] \"EVAL\"") && lines.ends_with("+1.000000 [0 lua] \"get\" \"a\" "),
        "{lines}"
    );
    assert_eq!(shard.ask(monitor, "PING"), "+PONG +1.000000 [0 ] \"PING\" ");
    assert_eq!(shard.ask(monitor, "GET a"), "-ERR Replica can't interact with the keyspace ");
    assert_eq!(shard.ask(monitor, "RESET"), "+RESET ");
    shard.ask(client, "PING");
    assert_eq!(shard.output(monitor), "");
}

#[test]
fn commands_wait_while_there_is_a_pause() {
    let mut shard = Shard::new();
    let (admin, writer, another) = (shard.client(), shard.client(), shard.client());
    shard.ask(admin, "SET short 1 PX 5");
    assert_eq!(shard.ask(admin, "CLIENT PAUSE 100 WRITE"), "+OK ");
    assert_eq!(shard.ask(writer, "GET a\r\nSET a 1\r\nGET a"), "$-1 ");
    assert_eq!(shard.ask(another, "SET"), "-ERR wrong number of arguments for 'set' command ");
    assert_eq!(shard.ask(another, "EVAL \"return 1\" 0"), "");
    assert_eq!(shard.0.shared.statistics.blocked, 2);
    assert!(shard.ask(admin, "CLIENT LIST").contains("flags=b"));
    shard.0.tick(1050);
    assert_eq!(shard.output(writer), "");
    shard.0.keyspace.expired = 0;
    assert_eq!(shard.ask(admin, "CLIENT UNPAUSE"), "+OK ");
    assert_eq!((shard.output(writer), shard.output(another)), ("+OK $1 1 ".into(), ":1 ".into()));
    shard.0.tick(1051);
    assert_eq!(shard.0.keyspace.expired, 1, "it was kept during the pause");
    assert_eq!(shard.ask(admin, "CLIENT PAUSE 100"), "+OK ");
    assert_eq!(shard.ask(another, "PING"), "");
    shard.ask(writer, "MULTI");
    assert_eq!(shard.0.next_deadline(), Some(1101));
    shard.0.disconnect(writer);
    shard.0.tick(1101);
    assert_eq!(shard.output(another), "+PONG ");
    assert_eq!(shard.0.shared.statistics.blocked, 0);
}

#[test]
fn a_transaction_that_pauses_is_not_held_up_by_its_own_pause() {
    let mut shard = Shard::new();
    let (client, other) = (shard.client(), shard.client());
    shard.ask(client, "SET gone 1 PXAT 1");
    shard.ask(other, "MULTI");
    shard.ask(other, "SET a 2");
    shard.ask(client, "MULTI\r\nCLIENT PAUSE 1000 WRITE\r\nSET a 1");
    assert_eq!(shard.ask(client, "EXEC"), "*2 +OK +OK ");
    assert_eq!(shard.ask(other, "EXEC"), "");
    assert_eq!(shard.ask(client, "GET a"), "$1 1 ");
    shard.ask(client, "CLIENT UNPAUSE");
    assert_eq!(shard.output(other), "*1 +OK ");
}

/// A server with a limit for those who listen, and for others.
fn limited(normal: OutputLimit, pubsub: OutputLimit) -> Shard {
    let mut settings = Settings::default();
    settings.client_output_buffer_limit.normal = normal;
    settings.client_output_buffer_limit.pubsub = pubsub;
    Shard(Server::new(settings, 1, 1, 1000, None, std::rc::Rc::new(|| 0)))
}

#[test]
fn a_listener_that_does_not_read_is_closed_and_takes_no_more() {
    let limit = OutputLimit { hard: 50_000, ..OutputLimit::default() };
    let mut shard = limited(OutputLimit::default(), limit);
    let (listener, sender) = (shard.client(), shard.client());
    shard.ask(listener, "SUBSCRIBE news");
    let text = "x".repeat(1000);
    let most = (0..1000)
        .map(|_| {
            shard.0.input(sender).unwrap().extend_from_slice(format!("PUBLISH news {text}\r\n").as_bytes());
            shard.0.run(sender, 1000);
            shard.0.output(listener).unwrap().0.len()
        })
        .max();
    assert!(most.unwrap() < 80_000, "{most:?}");
    assert_eq!(shard.0.output(listener).unwrap().1, Close::Now);
}

#[test]
fn a_soft_limit_gives_some_time() {
    let limit = OutputLimit { soft: 1_000, soft_seconds: 2, hard: 0 };
    let mut shard = limited(OutputLimit::default(), limit);
    let (listener, sender) = (shard.client(), shard.client());
    shard.ask(listener, "SUBSCRIBE news");
    shard.ask(sender, &format!("PUBLISH news {}", "x".repeat(20_000)));
    for (now, expected) in [(2_000, Close::No), (3_000, Close::No), (4_100, Close::Now)] {
        shard.0.tick(now);
        assert_eq!(shard.0.output(listener).unwrap().1, expected, "{now}");
    }
}

#[test]
fn a_clock_that_is_set_makes_nothing_longer_or_shorter() {
    const TEN_YEARS: i64 = 3_650 * 86_400_000;
    for by in [-TEN_YEARS, -3_600_000, 3_600_000, TEN_YEARS] {
        let limit = OutputLimit { soft: 1_000, soft_seconds: 2, hard: 0 };
        let mut shard = limited(OutputLimit::default(), limit);
        shard.0.shared.settings.timeout.0 = 60;
        let (waiter, paused, listener, sender) = (shard.client(), shard.client(), shard.client(), shard.client());
        shard.ask(sender, "SET used x");
        shard.ask(listener, "SUBSCRIBE news");
        shard.ask(sender, &format!("PUBLISH news {}", "x".repeat(20_000)));
        shard.0.tick(2_000);
        shard.0.input(waiter).unwrap().extend_from_slice(b"BLPOP none 2\r\n");
        shard.0.run(waiter, 2_000);
        shard.0.input(sender).unwrap().extend_from_slice(b"CLIENT PAUSE 3000 WRITE\r\n");
        shard.0.run(sender, 2_000);
        shard.0.input(paused).unwrap().extend_from_slice(b"SET key value\r\n");
        shard.0.run(paused, 2_000);
        shard.0.clock_was_set(by);
        let mut sent = |client: crate::SessionId, now: i64| {
            shard.0.tick(now + by);
            let (output, close) = shard.0.output(client).unwrap();
            (String::from_utf8_lossy(output).into_owned(), close)
        };
        assert_eq!(sent(listener, 3_000).1, Close::No, "{by}");
        assert_eq!(sent(waiter, 3_900).0, "", "{by}");
        assert_eq!(sent(waiter, 4_000).0, "*-1\r\n", "{by}");
        assert_eq!(sent(paused, 4_999).0, "", "{by}");
        assert_eq!(sent(listener, 5_000).1, Close::Now, "{by}");
        assert_eq!(sent(paused, 5_001).0, "+OK\r\n", "{by}");
        assert_eq!(sent(paused, 61_000).1, Close::No, "{by}: by `timeout`");
        shard.0.input(sender).unwrap().extend_from_slice(b"OBJECT IDLETIME used\r\n");
        shard.0.run(sender, 61_000 + by);
        let idle = String::from_utf8_lossy(shard.0.output(sender).unwrap().0).into_owned();
        assert!(idle.ends_with(":61\r\n"), "{by}: {idle}");
        assert_eq!(shard.0.shared.clock.started, 1_000 + by);
    }
}

#[test]
fn requests_of_http_are_not_read_as_commands() {
    for request in
        ["POST / HTTP/1.1\r\nSET a 1", "GET / HTTP/1.1\r\nhOST: x\r\nSET a 1", "*1\r\n$5\r\nHost:\r\nSET a 1"]
    {
        let mut shard = limited(OutputLimit::default(), OutputLimit::default());
        let (browser, other) = (shard.client(), shard.client());
        for _ in 0..2 {
            shard.ask(browser, request);
            assert_eq!(shard.0.output(browser).unwrap().1, Close::Now, "{request}");
        }
        assert_eq!(shard.ask(other, "EXISTS a").trim(), ":0", "{request}");
        let told: Vec<_> = shard.0.shared.log.lines.iter().map(|line| line.text.as_str()).collect();
        assert!(matches!(told.as_slice(), [line] if line.contains("SECURITY ATTACK")), "{told:?}");
    }
}

#[test]
fn scripts_say_what_they_need_while_memory_is_full() {
    let mut shard = limited(OutputLimit::default(), OutputLimit::default());
    let client = shard.client();
    let mut script = |flags: &str, command: &str| {
        shard.0.shared.condition.memory_full = true;
        shard.ask(client, &format!("{command} \"#!lua{flags}\\nreturn 1\" 0")).trim().to_owned()
    };
    const REFUSED: &str = "-OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(script("", "EVAL"), REFUSED);
    assert_eq!(script("", "EVAL_RO"), REFUSED);
    assert_eq!(script(" flags=allow-oom", "EVAL"), ":1");
    assert_eq!(script(" flags=no-writes", "EVAL_RO"), ":1");
}

#[test]
fn a_pipeline_stops_where_its_replies_are_too_many() {
    let limit = OutputLimit { hard: 100_000, ..OutputLimit::default() };
    let mut shard = limited(limit, OutputLimit::default());
    let client = shard.client();
    shard.ask(client, &format!("SET big {}", "x".repeat(10_000)));
    assert_eq!(shard.ask(client, &"GET big\r\n".repeat(1000)), "");
    assert_eq!(shard.0.output(client).unwrap().1, Close::Now);
    assert!(shard.0.shared.statistics.processed < 50);
}

#[test]
fn an_answer_of_any_length_that_is_asked_for_is_cut_off() {
    let limit = OutputLimit { hard: 100_000, ..OutputLimit::default() };
    for command in ["HRANDFIELD h -999999999", "SRANDMEMBER s -999999999", "ZRANDMEMBER z -999999999 WITHSCORES"] {
        let mut shard = limited(limit, OutputLimit::default());
        let client = shard.client();
        shard.ask(client, "HSET h a b");
        shard.ask(client, "SADD s a");
        shard.ask(client, "ZADD z 1 a");
        assert_eq!(shard.ask(client, command), "", "{command}");
        while shard.0.can_go_on() {
            shard.0.go_on(1_000);
        }
        let (output, close) = shard.0.output(client).unwrap();
        assert!(close == Close::Now && output.len() < 200_000, "{command}");
    }
}

#[test]
fn a_query_without_an_end_is_cut_off() {
    let mut shard = Shard::new();
    let client = shard.client();
    shard.ask(client, "CONFIG SET client-query-buffer-limit 1mb");
    shard.0.input(client).unwrap().extend_from_slice(b"*2\r\n$3\r\nGET\r\n$100000000\r\n");
    for _ in 0..40 {
        assert!(shard.0.input(client).unwrap().len() <= 1024 * 1024 + 65536);
        shard.0.input(client).unwrap().extend_from_slice(&[b'x'; 65536]);
        shard.0.run(client, 1000);
        if shard.0.output(client).unwrap().1 == Close::Now {
            return;
        }
    }
    panic!("it was read to the end");
}
