//! Bounds on what clients take, and on what is made for them.

use crate::{client_info, config::OutputLimit, groups::testing::Shard, session::Close};

#[test]
fn the_largest_clients_go_when_all_take_too_much() {
    let mut shard = Shard::new();
    let (admin, large, kept, small) = (shard.client(), shard.client(), shard.client(), shard.client());
    shard.ask(kept, "CLIENT NO-EVICT ON");
    shard.ask(admin, "CONFIG SET maxmemory-clients 600kb");
    for (client, bytes) in [(large, 300_000), (kept, 250_000)] {
        shard.0.input(client).unwrap().extend_from_slice(format!("*1\r\n${bytes}\r\n").as_bytes());
        shard.0.input(client).unwrap().resize(bytes, b'x');
        shard.0.run(client, 1000);
        shard.0.sessions_with_output(&mut Vec::new());
    }
    let state = |shard: &mut Shard, client| shard.0.output(client).unwrap().1;
    assert_eq!(state(&mut shard, large), Close::No);
    // Room for all that is said to come is made at once, so that it takes no more than that, and what is read behind it.
    shard.0.input(small).unwrap().extend_from_slice(b"*1\r\n$210000\r\nx");
    shard.0.run(small, 1000);
    assert!((210_000..276_000).contains(&shard.0.input(small).unwrap().capacity()));
    shard.0.sessions_with_output(&mut Vec::new());
    assert_eq!(state(&mut shard, large), Close::Now);
    assert_eq!((state(&mut shard, kept), state(&mut shard, small)), (Close::No, Close::No));
    assert_eq!(shard.0.shared.statistics.evicted_clients, 1);
    shard.0.input(small).unwrap().reserve(2_000_000);
    assert!(!shard.0.relieve(10_000_000, 0), "none is so large");
    assert!(shard.0.relieve(0, 0), "there is a large one");
    assert!(!shard.0.relieve(0, 0), "the rest is small, or wants to stay");
}

#[test]
fn many_small_clients_that_fill_memory_go_as_large_ones_do() {
    let mut shard = Shard::new();
    shard.0.shared.settings.maxmemory.0 = 7_600_000;
    let clients: Vec<_> = (0..12).map(|_| shard.client()).collect();
    let send = |shard: &mut Shard, client, bytes: usize| {
        shard.0.input(client).unwrap().resize(bytes, b'x');
        shard.0.input(client).unwrap().splice(..15, *b"*1\r\n$220000\r\nxx");
        shard.0.run(client, 1000);
    };
    for client in &clients[..9] {
        send(&mut shard, *client, 200_000);
    }
    assert!(!shard.0.relieve(0, 1), "together they take less than a quarter");
    send(&mut shard, clients[9], 200_000);
    send(&mut shard, clients[10], 10_000);
    assert!(!shard.0.relieve(5_000_000, 1), "so much is nothing to win");
    assert!(shard.0.relieve(0, 500_000));
    let closed = |shard: &mut Shard| clients.iter().filter(|id| shard.0.output(**id).unwrap().1 == Close::Now).count();
    assert_eq!(closed(&mut shard), 3, "no more than it takes");
    assert_eq!(shard.0.output(clients[11]).unwrap().1, Close::No);
}

#[test]
fn what_a_client_listens_to_watches_and_waits_for_counts_and_is_given_back() {
    let send = |shard: &mut Shard, id, words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let query = format!("*{}\r\n{}", words.len(), words.concat());
        shard.0.input(id).unwrap().extend_from_slice(query.as_bytes());
        shard.0.run(id, 1000);
    };
    // But for what it has sent and not read.
    let taken = |shard: &mut Shard, id| {
        let session = shard.0.shared.sessions.get_mut(id).unwrap();
        (session.output.bytes, session.query.bytes) = Default::default();
        client_info::memory(session)
    };
    let names = (0..20_000).map(|name| format!("a-name-that-is-not-short-{name}")).collect::<Vec<_>>();
    for (verb, rest, least) in [
        ("SUBSCRIBE", None, 100),
        ("PSUBSCRIBE", None, 100),
        ("SSUBSCRIBE", None, 100),
        ("WATCH", None, 100),
        ("BLPOP", Some("0"), 300),
    ] {
        let mut shard = Shard::new();
        let client = shard.client();
        let before = taken(&mut shard, client);
        let words: Vec<_> = [verb].into_iter().chain(names.iter().map(String::as_str)).chain(rest).collect();
        send(&mut shard, client, &words);
        shard.output(client);
        let more = taken(&mut shard, client) - before;
        assert!(more > 20_000 * least, "{verb}: {more}");
        shard.0.shared.kill(client);
        let shared = &shard.0.shared;
        let kept = [
            shared.sessions.pubsub.channels.capacity(),
            shared.sessions.pubsub.shards.capacity(),
            shared.sessions.watches.by_key.capacity(),
            shared.sessions.blocked.queues.capacity(),
        ];
        assert!(kept.iter().all(|places| *places < 2_000), "{verb}: {kept:?}");
    }
    let mut shard = Shard::new();
    let client = shard.client();
    send(&mut shard, client, &["WATCH", &"k".repeat(1_000_000)]);
    assert!(taken(&mut shard, client) > 2_000_000, "names count");
    shard.ask(client, "UNWATCH");
    assert!(taken(&mut shard, client) < 10_000);
}

#[test]
fn while_memory_is_short_few_commands_make_long_replies_and_what_they_make_counts() {
    let mut shard = Shard::new();
    let writer = shard.client();
    for _ in 0..50 {
        shard.ask(writer, &format!("RPUSH l {}", "an-element-of-a-list ".repeat(100)));
    }
    shard.0.shared.step_limits.from = 100;
    shard.0.shared.step_limits.portion_min = usize::MAX;
    let clients: Vec<_> = (0..6).map(|_| shard.client()).collect();
    for client in &clients {
        shard.0.input(*client).unwrap().extend_from_slice(b"LRANGE l 0 -1\r\n");
        shard.0.run(*client, 1000);
    }
    let making = |shard: &mut Shard, id| shard.0.shared.sessions.get_mut(id).map_or(0, |session| session.making);
    let which = |shard: &mut Shard| clients.iter().map(|id| making(shard, *id) > 0).collect::<Vec<_>>();
    (shard.0.shared.step_limits.steps, shard.0.shared.step_limits.step_max) = (12, 128);
    shard.0.shared.condition.memory_short = true;
    shard.0.go_on(1000);
    assert_eq!(which(&mut shard), [true, true, false, false, false, false]);
    let session = shard.0.shared.sessions.get_mut(clients[0]).unwrap();
    assert!(client_info::memory(session) > session.making && session.making > 1_000);
    // Who is closed keeps nothing, and the next ones begin.
    shard.0.shared.kill(clients[0]);
    shard.0.go_on(1000);
    assert_eq!(which(&mut shard)[..4], [false, true, true, false]);
    shard.0.shared.condition.memory_short = false;
    shard.0.go_on(1000);
    assert!(which(&mut shard)[1..].iter().all(|makes| *makes));
    shard.0.shared.condition.memory_short = true;
    for _ in 0..200 {
        shard.0.go_on(1000);
    }
    for client in &clients[1..] {
        assert_eq!((making(&mut shard, *client), shard.output(*client).len() > 100_000), (0, true));
    }
}

#[test]
fn keys_that_are_imported_have_time_until_all_has_come() {
    let mut shard = Shard::new();
    let (importer, client) = (shard.client(), shard.client());
    assert_eq!(shard.ask(importer, "CLIENT IMPORT-SOURCE ON"), "+OK ");
    shard.0.tick(1_000);
    // A copy of some time ago, and what was done since.
    assert_eq!(shard.ask(importer, "SET a v PXAT 500"), "+OK ");
    assert_eq!(shard.ask(importer, "SET b v PXAT 500"), "+OK ");
    assert_eq!(shard.ask(importer, "SET c v PXAT 500"), "+OK ");
    shard.0.tick(2_000);
    assert_eq!(shard.ask(importer, "APPEND a x"), ":2 ");
    assert_eq!(shard.ask(importer, "PERSIST a"), ":1 ");
    assert_eq!(shard.ask(importer, "PEXPIREAT b 9000"), ":1 ");
    assert_eq!(shard.ask(client, "GET a"), "$2 vx ");
    assert_eq!(shard.ask(client, "DBSIZE"), ":3 ");
    // Others see what has expired as that.
    assert_eq!(shard.ask(client, "GET c"), "$-1 ");
    assert_eq!(shard.ask(importer, "SET c v PXAT 500"), "+OK ");
    shard.0.disconnect(importer);
    shard.0.tick(2_000);
    assert_eq!(shard.ask(client, "DBSIZE"), ":2 ", "keys go by themselves again");
    assert!(shard.ask(client, "CLIENT IMPORT-SOURCE maybe").starts_with("-ERR syntax"));
}

#[test]
fn what_is_answered_in_one_go_leaves_room_in_memory_for_others() {
    const MB: usize = 1 << 20;
    let mut shard = Shard::new();
    shard.0.shared.settings.maxmemory.0 = 100 << 20;
    let client = shard.client();
    shard.ask(client, &format!("SETRANGE k {} x", MB - 1));
    shard.ask(client, "EVAL \"redis.call('hset', 'h', 'f', redis.call('get', 'k'))\" 0");
    let value = format!("{}x", "\0".repeat(MB - 1));
    shard.output(client);
    let send = |shard: &mut Shard, client, queries: &str| {
        shard.0.input(client).unwrap().extend_from_slice(queries.as_bytes());
        shard.0.run(client, 1000);
    };
    let gets = format!("MULTI\r\n{}SET done 1\r\nGET done\r\nEXEC\r\n", "GET k\r\n".repeat(100));
    send(&mut shard, client, &gets);
    // It has its reply: as many values as there is room for, and the others' absence in its words.
    let mut reply = shard.output(client);
    while shard.0.can_go_on() {
        shard.0.go_on(1000);
        reply += &shard.output(client);
    }
    assert!((24 * MB..27 * MB).contains(&reply.len()), "{}", reply.len());
    assert_eq!(
        reply.matches(&value).count() + reply.matches("ERR the command has run and its reply is left out").count(),
        100
    );
    assert!(
        reply.contains("would take more than 25 MB at once, a quarter of maxmemory") && reply.ends_with("+OK $1 1 ")
    );
    assert_eq!(shard.ask(client, "GET done"), "$1 1 ");
    // Other ways to as long a reply.
    let ask = |shard: &mut Shard, query: &str| {
        send(shard, client, query);
        shard.output(client)
    };
    for query in [
        format!("MGET{}\r\n", " k".repeat(100)),
        format!("HMGET h{}\r\n", " f".repeat(100)),
        "EVAL \"local v, t = redis.call('get', 'k'), {} for i = 1, 100 do t[i] = v end return t\" 0\r\n".into(),
    ] {
        let reply = ask(&mut shard, &query);
        assert!(reply.starts_with("-ERR the ") && reply.contains("25 MB"), "{}", &reply[..100]);
    }
    // Many clients at once: each turn makes so much, and memory is looked at in between.
    let gets = format!("MULTI\r\n{}EXEC\r\n", "GET k\r\n".repeat(20));
    let clients: Vec<_> = (0..6).map(|_| shard.client()).collect();
    clients.iter().for_each(|id| send(&mut shard, *id, &gets));
    let answered = |shard: &mut Shard| {
        clients.iter().filter(|id| shard.0.shared.sessions.get_mut(**id).unwrap().portions.is_some()).count()
    };
    assert_eq!(answered(&mut shard), 2);
    shard.0.go_on(1000);
    assert_eq!(answered(&mut shard), 4);
    // A bound on what is not read closes, as it does elsewhere.
    shard.0.shared.settings.client_output_buffer_limit.normal =
        OutputLimit { hard: 1_000_000, soft: 0, soft_seconds: 0 };
    shard.0.shared.refresh_limits();
    let client = shard.client();
    send(&mut shard, client, &gets);
    while shard.0.has_more_to_run(client) {
        shard.0.go_on(1000);
    }
    assert_eq!(shard.0.output(client).unwrap().1, Close::Now);
    assert!(shard.0.output(client).unwrap().0.capacity() < 4 * MB);
}
