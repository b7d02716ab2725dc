//! Commands of very many words or long replies, at the sizes from which on they are not copied.

#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use commands::{
    Server, SessionId,
    config::{Allowed, Settings},
    keyspace::Records,
    server::Pace,
};

const NOW: i64 = 1_700_000_000_000;
/// How much of a reply is made before its client has read some.
const OUTPUT_MAX: usize = 256 * 1024;

/// A server whose commands of more words than that take turns.
fn server(from: usize, tables: Option<&support::Shared>) -> Server {
    let settings = Settings { enable_debug_command: Allowed::Yes, ..Settings::default() };
    let records = tables.map(|tables| Box::new(tables.clone()) as Box<dyn Records>);
    let mut server = Server::new(settings, support::SEED, 7, NOW, records, std::rc::Rc::new(|| 0));
    server.shared.pace = Pace { from, keys_from: from, step_max: 512, steps: 1 };
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
        format!("XCLAIM x g c 0{ids}"),
        format!("XACK x g{ids}"),
    ];
    let mut before = vec!["XGROUP CREATE x g 0 MKSTREAM".to_owned()];
    before.extend((0..2_500).map(|number| format!("XADD x {}-0 f v{number}", number + 1)));
    before.push("XREADGROUP GROUP g a COUNT 1500 STREAMS x >".into());
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
        assert!("+PONG\r\n".to_owned() + &reply == taken(&mut model, client), "{name}");
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
            let mut loads = Vec::new();
            server.take_loads(&mut loads);
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
