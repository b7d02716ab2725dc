//! What a conversation with one client cannot show: clients that wait, what goes into the log.

use crate::groups::testing::Shard;

#[test]
fn readers_wait_for_what_comes_next() {
    let mut shard = Shard::new();
    let [one, two, writer] = [(); 3].map(|()| shard.client());
    shard.ask(writer, "XADD s 1-1 a 1");
    assert_eq!(shard.ask(one, "XREAD BLOCK 0 STREAMS none s 0 $"), "");
    assert_eq!(shard.ask(two, "XREAD BLOCK 500 STREAMS s 9"), "");
    shard.ask(writer, "XADD s 2-1 b 2");
    assert_eq!(shard.output(one), "*1 *2 $1 s *1 *2 $3 2-1 *2 $1 b $1 2 ");
    assert_eq!(shard.output(two), "");
    shard.0.tick(1500);
    assert_eq!(shard.output(two), "*-1 ");
    assert_eq!(shard.log(), ["XADD s 1-1 a 1", "XADD s 2-1 b 2"]);
}

#[test]
fn consumers_share_what_comes() {
    let mut shard = Shard::new();
    let [one, two, writer] = [(); 3].map(|()| shard.client());
    shard.ask(writer, "XGROUP CREATE s g $ MKSTREAM");
    assert_eq!(shard.ask(one, "XREADGROUP GROUP g one BLOCK 0 STREAMS s >"), "");
    assert_eq!(shard.ask(two, "XREADGROUP GROUP g two NOACK BLOCK 0 STREAMS s >"), "");
    shard.log();
    shard.ask(writer, "XADD s 1-1 a 1");
    assert_eq!(shard.output(one), "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 a $1 1 ");
    assert_eq!(shard.output(two), "");
    shard.ask(writer, "XADD s 2-1 b 2");
    assert_eq!(shard.output(two), "*1 *2 $1 s *1 *2 $3 2-1 *2 $1 b $1 2 ");
    assert_eq!(
        shard.log(),
        [
            "XADD s 1-1 a 1",
            "XGROUP CREATECONSUMER s g one",
            "XCLAIM s g one 0 1-1 TIME 1000 RETRYCOUNT 1 FORCE JUSTID LASTID 1-1",
            "XGROUP SETID s g 1-1 ENTRIESREAD 1",
            "XADD s 2-1 b 2",
            "XGROUP CREATECONSUMER s g two",
            "XGROUP SETID s g 2-1 ENTRIESREAD 2",
        ]
    );
}

#[test]
fn consumers_that_wait_learn_that_there_is_nothing_to_wait_for() {
    for (command, expected) in [
        ("XGROUP DESTROY s g", "-NOGROUP the consumer group this client was blocked on no longer exists "),
        ("DEL s", "-UNBLOCKED the stream key no longer exists "),
        ("SET s x", "-UNBLOCKED the stream key no longer exists "),
    ] {
        let mut shard = Shard::new();
        let [reader, writer] = [(); 2].map(|()| shard.client());
        shard.ask(writer, "XGROUP CREATE s g $ MKSTREAM");
        assert_eq!(shard.ask(reader, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"), "");
        shard.ask(writer, command);
        assert_eq!(shard.output(reader), expected, "{command}");
    }
}

#[test]
fn scripts_do_not_wait() {
    let mut shard = Shard::new();
    let client = shard.client();
    let reply = shard.ask(client, "EVAL \"return redis.pcall('xread', 'BLOCK', '5', 'STREAMS', 's', '0')\" 0");
    assert_eq!(reply, "-ERR xread command is not allowed with BLOCK option from scripts ");
    // In a transaction it is as if the time were over.
    shard.ask(client, "MULTI");
    shard.ask(client, "XREAD BLOCK 5 STREAMS s 0");
    assert_eq!(shard.ask(client, "EXEC"), "*1 *-1 ");
}

/// The log has no `*`, no `~` and no time that is relative.
#[test]
fn the_log_has_what_took_effect() {
    let mut shard = Shard::new();
    let client = shard.client();
    (1..=250).for_each(|ms| drop(shard.ask(client, &format!("XADD s {ms}-0 f v"))));
    shard.log();
    for (command, expected) in [
        ("XADD s * a 1", vec!["XADD s 1000-0 a 1"]),
        ("XADD s * a 1", vec!["XADD s 1000-1 a 1"]),
        ("XADD s 1000-* a 1", vec!["XADD s 1000-2 a 1"]),
        ("XADD s MAXLEN ~ 200 LIMIT 1000 1001-0 a 1", vec!["XADD s MAXLEN = 254 1001-0 a 1"]),
        ("XADD s NOMKSTREAM MAXLEN ~ 120 1002-0 a 1", vec!["XADD s MAXLEN = 155 NOMKSTREAM 1002-0 a 1"]),
        ("XADD s MAXLEN 150 1003-* a 1", vec!["XADD s MAXLEN = 150 1003-0 a 1"]),
        ("XADD s MAXLEN 150 1003-1 a 1", vec!["XADD s MAXLEN 150 1003-1 a 1"]),
        ("XTRIM s MAXLEN ~ 100", vec![]),
        ("XTRIM s MINID ~ 240", vec!["XTRIM s MINID = 201-0"]),
        ("XTRIM s MAXLEN 2", vec!["XTRIM s MAXLEN 2"]),
        ("XDEL s 5-5", vec![]),
        ("XGROUP CREATE s g 0", vec!["XGROUP CREATE s g 0"]),
        (
            "XCLAIM s g c 0 1003-1 FORCE IDLE 100",
            vec!["XGROUP CREATECONSUMER s g c", "XCLAIM s g c 0 1003-1 TIME 900 RETRYCOUNT 2 FORCE JUSTID LASTID 0-0"],
        ),
        ("XCLAIM s g c 0 7-7 LASTID 1003-0", vec!["XGROUP SETID s g 1003-0 ENTRIESREAD -1"]),
        (
            "XAUTOCLAIM s g d 50 0",
            vec![
                "XGROUP CREATECONSUMER s g d",
                "XCLAIM s g d 0 1003-1 TIME 1000 RETRYCOUNT 3 FORCE JUSTID LASTID 1003-0",
            ],
        ),
        (
            "XREADGROUP GROUP g d STREAMS s 0",
            vec!["XCLAIM s g d 0 1003-1 TIME 1000 RETRYCOUNT 4 FORCE JUSTID LASTID 1003-0"],
        ),
    ] {
        shard.ask(client, command);
        assert_eq!(shard.log(), expected, "{command}");
    }
}
