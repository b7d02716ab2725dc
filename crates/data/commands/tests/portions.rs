//! Replies that are given over several turns, while others change what they are about.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod support;

use commands::{
    Server, SessionId,
    config::{Allowed, Integer, Settings},
    session::Close,
};
use keyspace::random::Random;

const NOW: i64 = 1_700_000_000_000;

/// A server whose collections are records from the third element on, and whose replies are given by twos.
fn spread(tables: &support::Shared) -> Server {
    let settings = Settings { collection_max_whole_entries: Integer(2), ..settings() };
    let records = Some(Box::new(tables.clone()) as Box<dyn keyspace::Records>);
    let mut server = Server::new(settings, support::SEED, 7, NOW, records, std::rc::Rc::new(|| 0));
    server.step_limits_mut().portion_min = 2;
    server.keyspace.set_complete();
    server
}

fn settings() -> Settings {
    Settings { enable_debug_command: Allowed::Yes, stream_node_max_entries: Integer(3), ..Settings::default() }
}

fn connect(server: &mut Server) -> SessionId {
    server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), NOW)
}

fn send(server: &mut Server, id: SessionId, command: &str) {
    server.input(id).unwrap().extend_from_slice(format!("{command}\r\n").as_bytes());
    server.run(id, NOW);
}

fn taken(server: &mut Server, id: SessionId) -> String {
    String::from_utf8(std::mem::take(server.output(id).unwrap().0)).unwrap()
}

fn is_done(server: &mut Server, id: SessionId) -> bool {
    !server.gives_portions(id)
}

/// A reply without the order of what has none.
fn essence(command: &str, reply: &str) -> Vec<String> {
    let mut lines: Vec<String> = reply.lines().map(str::to_owned).collect();
    let pairs = command.starts_with("HGETALL");
    if pairs || command.starts_with(['H', 'S', 'K']) {
        let header = lines.remove(0);
        let of_element = if pairs { 4 } else { 2 };
        let mut elements: Vec<String> = lines.chunks(of_element).map(|lines| lines.join(" ")).collect();
        elements.sort_unstable();
        lines = elements;
        lines.insert(0, header);
    }
    lines
}

fn read(random: &mut Random) -> String {
    let (from, to) = (random.below(12) as i64 - 6, random.below(12) as i64 - 4);
    match random.below(14) {
        12 => "KEYS *".into(),
        13 => "KEYS *[02468]".into(),
        0 => "HGETALL hash".into(),
        1 => "HKEYS hash".into(),
        2 => "HVALS hash".into(),
        3 => "SMEMBERS set".into(),
        4 => format!("LRANGE list {from} {to}"),
        5 => "LRANGE list 0 -1".into(),
        6 => "ZRANGE zset 0 -1 WITHSCORES".into(),
        7 => format!("ZRANGE zset {from} {to} REV"),
        8 => "ZRANGEBYSCORE zset -inf +inf LIMIT 2 20".into(),
        9 => "ZREVRANGE zset 0 -1 WITHSCORES".into(),
        10 => "XRANGE stream - +".into(),
        _ => "XREVRANGE stream + - COUNT 20".into(),
    }
}

fn write(random: &mut Random, step: usize) -> String {
    let mut number = || random.below(30);
    let (one, two) = (number(), number());
    match random.below(46) {
        40..42 => format!("SET {one} x PX {}", 1 + two),
        42 => format!("DEL {one} {two}"),
        43 => format!("RENAME {one} {two}"),
        44 if one < 5 => "SWAPDB 0 1".into(),
        45 => format!("COPY {one} {two} REPLACE"),
        0..5 => format!("HSET hash f{one} v{two} f{two} {step}"),
        5..8 => format!("HDEL hash f{one} f{two}"),
        8..12 => format!("SADD set m{one} m{two}"),
        12..15 => format!("SREM set m{one} m{two}"),
        15..20 => format!("ZADD zset {one} m{two} {two} m{one}"),
        20..22 => format!("ZREM zset m{one}"),
        22 => format!("ZREMRANGEBYRANK zset {} {}", one / 3, two / 3),
        23..26 => format!("RPUSH list {step} e{one}"),
        26..28 => format!("LPUSH list {step}"),
        28 => format!("LTRIM list {} -{}", one / 8, two / 8 + 1),
        29 => format!("LREM list 1 e{one}"),
        30 => format!("LINSERT list BEFORE e{one} {step}"),
        31..34 => format!("XADD stream {step}-1 f {one}"),
        34 => format!("XTRIM stream MAXLEN {one}"),
        35 => format!("XDEL stream {}-1 {}-1", step.saturating_sub(one as usize * 20), step.saturating_sub(5)),
        36 => ["DEL hash", "DEL zset", "DEL list", "DEL set", "DEL stream"][one as usize % 5].into(),
        37 => {
            "EVAL \"redis.call('HSET',KEYS[1],'f1','x') return redis.call('ZADD',KEYS[2],1,'m1')\" 2 hash zset".into()
        }
        38 if one == 0 => "FLUSHALL".into(),
        _ => format!("RENAME {0} {0}", ["hash", "set", "zset", "list", "stream"][one as usize % 5]),
    }
}

/// What a read gives is what was there when it came, whatever is changed before it has come to its end.
#[test]
fn a_reply_is_of_one_moment() {
    const READERS: usize = 3;
    let mut random = Random::new(11);
    let tables = support::Shared::default();
    let (mut ours, mut model) = (spread(&tables), Server::new(settings(), 1, 7, NOW, None, std::rc::Rc::new(|| 0)));
    let (writer, model_client) = (connect(&mut ours), connect(&mut model));
    let readers: Vec<SessionId> = (0..READERS).map(|_| connect(&mut ours)).collect();
    let mut expected: Vec<Option<(String, String)>> = vec![None; READERS];
    let mut given = 0;
    for step in 0..8_000 {
        match random.below(10) {
            0..5 => {
                let command = write(&mut random, step);
                send(&mut ours, writer, &command);
                support::read_keys(&mut ours, &tables);
                send(&mut model, model_client, &command);
                assert_eq!(taken(&mut ours, writer), taken(&mut model, model_client), "{command}");
            }
            5..7 => {
                let at = random.below(READERS as u64) as usize;
                if expected[at].is_none() {
                    let command = read(&mut random);
                    send(&mut ours, readers[at], &command);
                    support::read_keys(&mut ours, &tables);
                    send(&mut model, model_client, &command);
                    expected[at] = Some((command, taken(&mut model, model_client)));
                }
            }
            _ => ours.go_on(NOW),
        }
        if random.below(50) == 0 {
            support::checkpoint(&mut ours, &tables);
        }
        for (at, id) in readers.iter().enumerate() {
            if is_done(&mut ours, *id)
                && let Some((command, reply)) = expected[at].take()
            {
                assert_eq!(essence(&command, &taken(&mut ours, *id)), essence(&command, &reply), "{command} at {step}");
                given += 1;
            }
        }
    }
    assert!(given > 500, "{given}");
    ours.finish_replies();
    assert_eq!((tables.0.pinned.borrow().len(), &ours.condition().broken), (0, &None));
}

fn filled(tables: &support::Shared) -> (Server, SessionId) {
    let mut server = spread(tables);
    let id = connect(&mut server);
    for number in 0..50 {
        send(&mut server, id, &format!("HSET hash f{number} v"));
    }
    // Only the records are left.
    support::checkpoint(&mut server, tables);
    send(&mut server, id, "HLEN hash");
    support::read_keys(&mut server, tables);
    assert!(taken(&mut server, id).ends_with(":50\r\n"));
    (server, id)
}

#[test]
fn commands_of_one_client_are_answered_in_order() {
    let tables = support::Shared::default();
    let (mut server, id) = filled(&tables);
    send(&mut server, id, "HGETALL hash\r\nHLEN hash\r\nHVALS hash\r\nPING");
    assert!(!is_done(&mut server, id));
    while server.can_go_on() {
        server.go_on(NOW);
    }
    let reply = taken(&mut server, id);
    assert!(reply.starts_with("*100\r\n") && reply.contains("\r\n:50\r\n*50\r\n") && reply.ends_with("v\r\n+PONG\r\n"));
}

#[test]
fn messages_come_behind_the_reply() {
    let tables = support::Shared::default();
    let (mut server, id) = filled(&tables);
    let other = connect(&mut server);
    send(&mut server, id, "HELLO 3\r\nSUBSCRIBE c\r\nHKEYS hash");
    send(&mut server, other, "PUBLISH c text\r\nHDEL hash f1");
    server.finish_replies();
    let reply = taken(&mut server, id);
    let (_, keys) = reply.split_once("*50\r\n").unwrap();
    assert_eq!(keys.find(">3\r\n"), keys.rfind("f").map(|at| keys[at..].find("\r\n").unwrap() + at + 2));
    assert!(reply.ends_with("$4\r\ntext\r\n"));
}

#[test]
fn in_a_transaction_and_in_a_script_it_is_done_in_one_go() {
    let tables = support::Shared::default();
    let (mut server, id) = filled(&tables);
    for commands in ["MULTI\r\nHKEYS hash\r\nEXEC", "EVAL \"return redis.call('HKEYS',KEYS[1])\" 1 hash"] {
        send(&mut server, id, commands);
        assert!(is_done(&mut server, id));
        assert!(taken(&mut server, id).contains("*50\r\n"), "{commands}");
    }
}

#[test]
fn a_client_that_goes_leaves_nothing() {
    let tables = support::Shared::default();
    let (mut server, id) = filled(&tables);
    let other = connect(&mut server);
    send(&mut server, id, "HGETALL hash");
    send(&mut server, other, "DEL hash");
    assert_eq!((tables.0.pinned.borrow().len(), tables.0.collections().len()), (1, 1));
    server.disconnect(id);
    assert_eq!((tables.0.pinned.borrow().len(), tables.0.collections().len()), (0, 0));
    server.go_on(NOW);
    assert!(!server.can_go_on());
}

#[test]
fn a_client_that_is_killed_gets_no_more() {
    let tables = support::Shared::default();
    let (mut server, id) = filled(&tables);
    let other = connect(&mut server);
    send(&mut server, id, "HGETALL hash");
    send(&mut server, other, &format!("CLIENT KILL ID {}", id.0));
    server.go_on(NOW);
    assert_eq!(server.output(id).unwrap().1, Close::Now);
    assert!(is_done(&mut server, id) && tables.0.pinned.borrow().is_empty());
}

#[test]
fn a_reply_that_cannot_be_completed_ends_the_connection() {
    let tables = support::Shared::default();
    let (mut server, id) = filled(&tables);
    send(&mut server, id, "HGETALL hash");
    tables.0.fails_after.set(Some(10));
    while server.can_go_on() {
        server.go_on(NOW);
    }
    assert_eq!((server.output(id).unwrap().1, &server.condition().broken), (Close::Now, &None));
    let said = server.take_log_lines().last().unwrap().text;
    assert!(said.contains("is closed in the middle of a reply: the rest of its reply cannot be read: ERR"), "{said}");
}

#[test]
fn nothing_is_made_that_is_not_read() {
    let tables = support::Shared::default();
    let (mut server, id) = filled(&tables);
    let (other, long) = (connect(&mut server), "x".repeat(60_000));
    for number in 0..50 {
        send(&mut server, other, &format!("HSET hash f{number} {long}"));
    }
    send(&mut server, id, "HVALS hash");
    let (mut len, mut most) = (0, 0);
    while !is_done(&mut server, id) {
        while server.can_go_on() {
            server.go_on(NOW);
        }
        let output = taken(&mut server, id);
        most = most.max(output.len());
        len += output.len();
    }
    assert!(len > 3_000_000 && most < 500_000, "{len} {most}");
}
