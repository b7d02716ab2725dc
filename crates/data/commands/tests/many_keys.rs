//! Commands of very many words or long replies, at the sizes from which on they are not copied.

#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use commands::{
    Server, SessionId,
    config::{Allowed, Settings},
    server::StepLimits,
};
use keyspace::Records;

const NOW: i64 = 1_700_000_000_000;
/// How much of a reply is made before its client has read some.
const OUTPUT_MAX: usize = 256 * 1024;

/// A server whose commands of more words than that take turns.
fn server(from: usize, tables: Option<&support::Shared>) -> Server {
    let settings = Settings { enable_debug_command: Allowed::Yes, ..Settings::default() };
    let records = tables.map(|tables| Box::new(tables.clone()) as Box<dyn Records>);
    let mut server = Server::new(settings, support::SEED, 7, NOW, records, std::rc::Rc::new(|| 0));
    *server.step_limits_mut() = StepLimits { from, keys_from: from, step_max: 512, steps: 1, ..StepLimits::default() };
    server.keyspace.set_complete();
    server
}

fn connect(server: &mut Server) -> SessionId {
    server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), NOW)
}

fn encoded(command: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode_command(&mut bytes, &command.split(' ').collect::<Vec<_>>());
    bytes
}

fn send(server: &mut Server, id: SessionId, commands: &[&str]) {
    for command in commands {
        server.input(id).unwrap().extend(encoded(command));
    }
    server.run(id, NOW);
}

fn taken(server: &mut Server, id: SessionId) -> String {
    String::from_utf8(std::mem::take(server.output(id).unwrap().0)).unwrap()
}

/// Goes on until there is nothing more to do. Returns in how many turns, and the reply.
fn finish(server: &mut Server, id: SessionId) -> (usize, String) {
    let (mut turns, mut reply) = (0, taken(server, id));
    while server.can_go_on() {
        server.go_on(NOW);
        turns += 1;
        let some = taken(server, id);
        assert!(some.len() <= OUTPUT_MAX, "{}", some.len());
        reply += &some;
    }
    (turns, reply)
}

fn keys(count: usize) -> String {
    (0..count).map(|number| format!(" key:{number}")).collect()
}

fn pairs(count: usize, value: &str) -> String {
    (0..count).map(|number| format!(" key:{number} {value}{number}")).collect()
}

/// Each command, alone and among others that came with it, gives what it gives in one go, and so does its log.
#[test]
fn long_commands_are_as_those_in_one_go() {
    const COUNT: usize = 3_000;
    let long = "v".repeat(200);
    let fields = |len: usize| (0..len).map(|number| format!(" f{number} {number}")).collect::<String>();
    let ids: String = (1..2_000).map(|number| format!(" {number}-0")).collect();
    let (mut ours, mut model, mut again) = (server(100, None), server(usize::MAX, None), server(usize::MAX, None));
    let (one, other, client, last) = (connect(&mut ours), connect(&mut ours), connect(&mut model), connect(&mut again));
    let commands = [
        format!("MSET{}", pairs(COUNT, "v")),
        format!("MSETNX{} key:17 x", pairs(COUNT, "w")),
        format!("DEL{}", keys(COUNT)),
        format!("MSETNX{} key:17 x", pairs(COUNT, &long)),
        format!("mget{} none key:0", keys(COUNT)),
        format!("EXISTS{} none key:0", keys(COUNT)),
        format!("MGET{}", keys(COUNT).repeat(2)),
        format!("HSET h{}", fields(2_000)),
        format!("HMGET h{}", keys(1_500)),
        format!("PFMERGE p{}", " p0 p1 p2 none".repeat(400)),
        format!("PFCOUNT{}", " p0 p1 none p2".repeat(400)),
        format!("PFCOUNT{} h", " p0 p1 none p2".repeat(400)),
        format!("PFMERGE p3{} h", " p0 p1 none p2".repeat(400)),
        format!("GEOHASH geo{}", keys(1_200)),
        format!("GEOPOS geo{}", keys(1_200)),
        format!("XCLAIM x g c 0{ids}"),
        format!("XACK x g{ids}"),
    ];
    let mut before = vec!["XGROUP CREATE x g 0 MKSTREAM".to_owned()];
    before.extend((0..2_500).map(|number| format!("XADD x {}-0 f v{number}", number + 1)));
    before.push("XREADGROUP GROUP g a COUNT 1500 STREAMS x >".into());
    before.push("GEOADD geo 13.5 38.25 key:1 -100.5 -45.75 key:999 1 1 none".into());
    for (key, count) in [("p0", 20), ("p1", 2_000), ("p2", 300)] {
        before.push(format!("PFADD {key}{}", keys(count)));
    }
    for command in &before {
        send(&mut model, client, &[command]);
        send(&mut ours, one, &[command]);
        finish(&mut ours, one);
    }
    taken(&mut model, client);
    for command in &commands {
        let name = &command[..12];
        send(&mut model, client, &["PING", command, "INCR n"]);
        let done = ours.tasks_done();
        send(&mut ours, one, &["PING", command, "INCR n"]);
        assert_eq!(taken(&mut ours, one), "+PONG\r\n", "{name}");
        send(&mut ours, other, &["PING"]);
        assert_eq!(taken(&mut ours, other), "+PONG\r\n", "{name}");
        let (turns, reply) = finish(&mut ours, one);
        assert!(turns > 1, "{name}: {turns}");
        assert!(ours.tasks_done().0 == done.0 + 1 && ours.tasks_done().1 > done.1 + 1, "{name}");
        assert!("+PONG\r\n".to_owned() + &reply == finish(&mut model, client).1, "{name}");
    }
    let log = ours.effects().bytes().to_vec();
    send(&mut ours, one, &["DEBUG DIGEST"]);
    send(&mut model, client, &["DEBUG DIGEST"]);
    let digest = taken(&mut model, client);
    assert_eq!(taken(&mut ours, one), digest);
    again.input(last).unwrap().extend(log);
    again.run(last, NOW);
    finish(&mut again, last);
    send(&mut again, last, &["DEBUG DIGEST"]);
    assert_eq!(taken(&mut again, last), digest);
}

/// Very many keys that are not in memory are read off the loop, so many at a time; the command does not read any itself.
#[test]
fn many_keys_are_read_some_at_a_time() {
    const COUNT: usize = 2_000;
    const AT_ONCE: usize = 256;
    for (command, expected) in [
        (format!("MGET{}", keys(COUNT)), None),
        (format!("EXISTS{}", keys(COUNT)), Some(format!(":{COUNT}\r\n"))),
        (format!("MSET{}", pairs(COUNT, "new")), Some("+OK\r\n".to_owned())),
        (format!("MSETNX{}", pairs(COUNT, "new")), Some(":0\r\n".to_owned())),
        (format!("DEL{}", keys(COUNT)), Some(format!(":{COUNT}\r\n"))),
        (format!("PFCOUNT none{}", keys(COUNT)), Some(String::new())),
    ] {
        let name = &command[..8];
        let tables = support::Shared::default();
        let mut server = server(100, Some(&tables));
        let (one, other) = (connect(&mut server), connect(&mut server));
        send(&mut server, one, &[&format!("MSET{}", pairs(COUNT, "v"))]);
        finish(&mut server, one);
        support::checkpoint(&mut server, &tables);
        assert!(server.keyspace.is_partial());
        let (before, mut asked, mut rounds) = (server.keyspace.loads, 0, 0);
        send(&mut server, one, &[&command]);
        let mut reply = String::new();
        for _ in 0..200 {
            server.go_on(NOW);
            let (loads, _) = support::wanted(&mut server);
            assert!(loads.len() <= AT_ONCE, "{name}: {}", loads.len());
            if !loads.is_empty() {
                rounds += 1;
                assert!(!server.can_go_on(), "{name}: it waits for them");
                send(&mut server, other, &["PING"]);
                assert_eq!(taken(&mut server, other), "+PONG\r\n");
            }
            asked += loads.len() as u64;
            for load in loads {
                let loaded = tables.load(load.disk, load.slot, &load.key);
                server.loaded(&load, loaded.ok());
            }
            server.run_loaded();
            reply += &taken(&mut server, one);
        }
        assert!(!server.can_go_on(), "{name}");
        let least = if name.starts_with("MSETNX") || name.starts_with("PFCOUNT") { 1 } else { COUNT / AT_ONCE };
        assert!(rounds >= least, "{name}: {rounds}");
        assert_eq!(server.keyspace.loads - before, asked, "{name}: all were asked for");
        match expected {
            Some(expected) if expected.is_empty() => assert!(reply.starts_with("-WRONGTYPE"), "{name} {reply}"),
            Some(expected) => assert_eq!(reply, expected, "{name}"),
            None => assert!(reply.matches("\r\nv").count() == COUNT, "{name}"),
        }
    }
}

/// Long strings are given and put over many turns, and stay what they are; what is behind them waits.
#[test]
fn long_strings_in_steps() {
    const LEN: usize = 10_000_000;
    let value: String = (0..LEN / 10).map(|number| format!("{number:10}")).collect::<String>().replace(' ', ".");
    let mut ours = server(100, None);
    let (one, other) = (connect(&mut ours), connect(&mut ours));
    let effects = |server: &mut Server| {
        let bytes = String::from_utf8(server.effects().bytes().to_vec()).unwrap();
        server.effects().clear();
        bytes
    };
    let log_of = |commands: &[&str]| {
        let commands = commands.iter().flat_map(|command| encoded(command)).collect();
        String::from_utf8(encoded("SELECT 0")).unwrap() + &String::from_utf8(commands).unwrap()
    };
    let at = NOW + 1_000_000;
    for (command, logged) in [
        (format!("SET key {value}"), None),
        (format!("SET key {value} XX PX 1000000"), Some(format!("SET key {value} PXAT {at}"))),
        (format!("SET key {value} XX GET KEEPTTL"), None),
        (format!("SETEX key 1000 {value}"), Some(format!("SET key {value} PXAT {at}"))),
        (format!("SET key {value} NX"), Some(String::new())),
    ] {
        let name = command.replace(&value, "value");
        let gives = command.contains(" GET");
        send(&mut ours, one, &[&command, "INCR n"]);
        send(&mut ours, other, &["GET n", "GET key"]);
        let first = taken(&mut ours, other);
        assert!(first.starts_with('$') && first.len() < 20, "{name}: the key is busy, and nobody else waits {first}");
        let (turns, reply) = finish(&mut ours, one);
        assert!(turns > 50, "{name}: {turns}");
        let expected = match gives {
            true => format!("${LEN}\r\n{value}\r\n"),
            false => if logged.as_deref() == Some("") { "$-1\r\n" } else { "+OK\r\n" }.to_owned(),
        };
        assert!(reply.starts_with(&expected) && reply[expected.len()..].starts_with(':'), "{name}");
        assert!(finish(&mut ours, other).1 == format!("${LEN}\r\n{value}\r\n"), "{name}");
        let mut log = vec![logged.as_deref().unwrap_or(&command), "INCR n"];
        log.retain(|command| !command.is_empty());
        assert!(effects(&mut ours) == log_of(&log), "{name}");
    }
    // It is given as it was when the command ran.
    send(&mut ours, one, &["GETRANGE key 10 -11"]);
    ours.go_on(NOW);
    send(&mut ours, other, &["SETRANGE key 1000 new"]);
    assert_eq!(taken(&mut ours, other), "", "it waits for those who read");
    let (_, reply) = finish(&mut ours, one);
    assert!(reply == format!("${}\r\n{}\r\n", LEN - 20, &value[10..LEN - 10]));
    assert_eq!(taken(&mut ours, other), format!(":{LEN}\r\n"));
    // Elsewhere it is one reply, which is sent as far as it is read.
    send(&mut ours, one, &["MULTI", "GET key", "EXEC", "PING"]);
    let (turns, reply) = finish(&mut ours, one);
    assert!(
        turns > 10 && reply.starts_with("+OK\r\n+QUEUED\r\n*1\r\n$10000000\r\n") && reply.ends_with("\r\n+PONG\r\n")
    );
    assert_eq!(reply.len(), 14 + 4 + 11 + LEN + 2 + 7);
}

/// Unions and differences of very many keys take no more steps than they have elements and keys: each step looks at a few of them.
#[test]
fn many_sets_are_combined_some_at_a_time() {
    const KEYS: usize = 5_000;
    let mut server = server(100, None);
    let id = connect(&mut server);
    let members: String = (0..2_000).map(|number| format!(" m{number}")).collect();
    let scored: String = (0..2_000).map(|number| format!(" {number} m{number}")).collect();
    send(&mut server, id, &[&format!("SADD s{members}"), &format!("ZADD z{scored}"), "SADD t m1 m2 m3"]);
    finish(&mut server, id);
    for (command, expected) in [
        (format!("SUNIONSTORE to s{} t", keys(KEYS)), 2_000),
        (format!("SDIFFSTORE to s{} t", keys(KEYS)), 1_997),
        (format!("ZUNIONSTORE to {} z{} t", KEYS + 2, keys(KEYS)), 2_000),
    ] {
        let name = &command[..10];
        let before = server.tasks_done();
        send(&mut server, id, &[&command]);
        assert!(finish(&mut server, id).1 == format!(":{expected}\r\n"), "{name}");
        let done = server.tasks_done();
        assert_eq!(done.0, before.0 + 1, "{name}");
        assert!(done.1 - before.1 < 120, "{name}: {}", done.1 - before.1);
    }
}

/// The SCAN family looks at as many as it is asked to, over turns if these are very many, and misses nothing.
#[test]
fn long_scans_take_turns() {
    const COUNT: usize = 5_000;
    let mut server = server(100, None);
    let id = connect(&mut server);
    let members: String = (0..COUNT).map(|number| format!(" {number} m{number}")).collect();
    let names: String = (0..COUNT).map(|number| format!(" m{number}")).collect();
    send(
        &mut server,
        id,
        &[
            &format!("HSET h{members}"),
            &format!("SADD s{names}"),
            &format!("ZADD z{members}"),
            &format!("MSET{}", pairs(COUNT, "v")),
        ],
    );
    finish(&mut server, id);
    for (command, wanted, each) in [
        ("SCAN 0 COUNT 100000 MATCH key:*", COUNT, 1),
        ("SSCAN s 0 COUNT 100000", COUNT, 1),
        ("HSCAN h 0 COUNT 100000", COUNT, 2),
        ("ZSCAN z 0 COUNT 100000", COUNT, 2),
        ("SSCAN s 0 COUNT 100000 MATCH m1*", 1_111, 1),
    ] {
        let before = server.tasks_done();
        send(&mut server, id, &[command]);
        let (turns, reply) = finish(&mut server, id);
        assert!(turns > 5 && server.tasks_done().0 == before.0 + 1, "{command}: {turns}");
        let head = format!("*2\r\n$1\r\n0\r\n*{}\r\n", wanted * each);
        assert!(reply.starts_with(&head), "{command}: {}", &reply[..40]);
        let mut found: Vec<&str> = reply[head.len()..].lines().skip(1).step_by(2 * each).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), wanted, "{command}");
    }
    // One that does not ask for all goes on where it was.
    send(&mut server, id, &["SSCAN s 0 COUNT 2000"]);
    let (_, reply) = finish(&mut server, id);
    let cursor = reply.lines().nth(2).unwrap().to_owned();
    let first = reply.matches("\r\nm").count();
    assert!(cursor != "0" && (1_500..3_000).contains(&first), "{cursor} {first}");
    send(&mut server, id, &[&format!("SSCAN s {cursor} COUNT 100000")]);
    assert_eq!(first + finish(&mut server, id).1.matches("\r\nm").count(), COUNT);
}
