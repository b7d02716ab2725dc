//! Commands in steps, while other clients send theirs: beside a server that does all in one go.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod support;

use std::collections::VecDeque;

use commands::{
    Server, Session, SessionId,
    config::{Allowed, Integer, Settings},
    server::StepLimits,
};
use keyspace::random::Random;
use resp::{Limits, Progress, RequestParser};

const NOW: i64 = 1_700_000_000_000;

fn settings() -> Settings {
    Settings {
        enable_debug_command: Allowed::Yes,
        list_max_listpack_size: Integer(4),
        set_max_intset_entries: Integer(8),
        zset_max_listpack_entries: Integer(4),
        hash_max_listpack_entries: Integer(4),
        stream_node_max_entries: Integer(3),
        ..Settings::default()
    }
}

/// A server that does nothing in steps.
fn plain() -> Server {
    let mut server = Server::new(settings(), support::SEED, 7, NOW, None, std::rc::Rc::new(|| 0));
    server.step_limits_mut().from = usize::MAX;
    server
}

/// A server that does nearly everything in steps, each of two elements and in a turn of its own.
fn stepping(tables: Option<&support::Shared>) -> Server {
    let whole = if tables.is_some() { Integer(6) } else { Integer(1_000) };
    let settings = Settings { collection_max_whole_entries: whole, ..settings() };
    let records = tables.map(|tables| Box::new(tables.clone()) as Box<dyn keyspace::Records>);
    let mut server = Server::new(settings, support::SEED, 7, NOW, records, std::rc::Rc::new(|| 0));
    *server.step_limits_mut() = StepLimits { from: 2, keys_from: 2, step_max: 2, steps: 1, ..StepLimits::default() };
    server.step_limits_mut().portion_min = 2;
    server.keyspace.set_complete();
    server
}

fn connect(server: &mut Server, number: usize) -> SessionId {
    server.connect(format!("127.0.0.1:{number}"), "127.0.0.1:2".into(), NOW)
}

fn send(server: &mut Server, id: SessionId, command: &str) {
    server.input(id).unwrap().extend_from_slice(format!("{command}\r\n").as_bytes());
    server.run(id, NOW);
}

fn taken(server: &mut Server, id: SessionId) -> String {
    String::from_utf8(std::mem::take(server.output(id).unwrap().0)).unwrap()
}

fn ask(server: &mut Server, id: SessionId, command: &str) -> String {
    send(server, id, command);
    taken(server, id)
}

/// Commands of a log, in words.
fn commands_of(mut log: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let (mut commands, mut parser) = (Vec::new(), RequestParser::new());
    while let Ok(Progress::Complete { consumed }) = parser.parse(log, &Limits::default()) {
        commands.push(parser.arguments(log).iter().map(<[u8]>::to_vec).collect());
        log = &log[consumed..];
    }
    assert!(log.is_empty());
    commands
}

fn replay(server: &mut Server, log: &[u8]) {
    let mut session = Session::new(SessionId(0), NOW);
    (session.internal, session.replaying, session.deny_blocking) = (true, true, true);
    for words in commands_of(log) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        server.replay(&mut session, &words).unwrap();
    }
    server.set_now(NOW);
}

/// Of all keys, and of what consumers of streams have.
fn digest(server: &mut Server, tables: &support::Shared) -> String {
    let id = connect(server, 99);
    let mut all = String::new();
    for command in ["DEBUG DIGEST", "XINFO GROUPS x0", "XPENDING x0 g", "XPENDING x1 g - + 50"] {
        send(server, id, command);
        support::answer_loads(server, tables);
        all += &taken(server, id);
    }
    server.disconnect(id);
    all
}

fn command(random: &mut Random) -> String {
    let mut number = |below: u64| random.below(below);
    let (one, two, three) = (number(40), number(40), number(3) + 1);
    let set = |number: u64| format!("s{}", number % 4);
    let sorted = |number: u64| format!("z{}", number % 3);
    let stream = |number: u64| format!("x{}", number % 2);
    match number(60) {
        0..4 => format!("SADD {} m{one} m{two} m{} m{}", set(three), one + 1, two + 2),
        4 => format!("SADD {} {one} {two} {}", set(one), one + two),
        5..8 => format!("ZADD {} {one} m{two} {two} m{one} {three} m{}", sorted(three), one + 7),
        8..10 => format!("RPUSH l{} e{} e{} e{three} e{two}", one % 2, one % 4, two % 4),
        10 => format!("LPUSH l{} e{} e{}", one % 2, one % 4, two % 4),
        11 => format!("ZREMRANGEBYRANK {} {} {}", sorted(one), one / 4, two),
        12 => format!("ZREMRANGEBYSCORE {} {one} {}", sorted(one), one + two),
        13 => format!("ZREMRANGEBYSCORE {} {one} {}", sorted(two), one + 3),
        14 => format!("LTRIM l{} {} -{}", one % 2, one / 8, two / 8 + 1),
        15 => format!("LREM l{} {} e{}", one % 2, two as i64 / 4 - 5, three),
        16 => format!("SPOP {} {}", set(one), two / 3),
        17 => format!("SUNIONSTORE {} {} {}", set(one), set(two), set(three)),
        18 => format!("SINTERSTORE {} {} {}", set(one), set(two), set(three)),
        19 => format!("SDIFFSTORE {} {} {} {}", set(one), set(two), set(three), set(two + three)),
        20 => format!("SUNION {} {}", set(two), set(three)),
        21 => format!("SDIFF {} {} {}", set(one), set(two), set(one + three)),
        22 => format!("SINTER {} {}", set(one), set(two)),
        23 => format!("SINTERCARD 2 {} {} LIMIT {}", set(one), set(two), two / 4),
        24 => {
            let how = ["SUM", "MIN", "MAX"][one as usize % 3];
            format!(
                "ZUNIONSTORE {} 3 {} {} {} WEIGHTS 2 3 0.5 AGGREGATE {how}",
                sorted(one),
                sorted(two),
                set(one),
                sorted(three)
            )
        }
        25 => format!("ZINTERSTORE {} 2 {} {}", sorted(one), sorted(two), sorted(three)),
        26 => format!("ZDIFFSTORE {} 2 {} {}", sorted(one), sorted(two), set(three)),
        27 => format!("ZUNION 2 {} {} WITHSCORES", sorted(one), sorted(two)),
        28 => format!("ZINTER 2 {} {}", set(one), sorted(two)),
        29 => format!("ZRANGESTORE {} {} {} -1", sorted(one), sorted(two), three),
        30 => format!("ZRANGE {} 0 -1 WITHSCORES", sorted(one)),
        31 => format!("LRANGE l{} 0 -1", one % 2),
        33..36 => format!("XADD {} * f {one} g {two}", stream(one)),
        36 => format!("XADD {} MAXLEN {} * f {one}", stream(one), two / 2),
        37 => format!("XADD {} MAXLEN ~ {} LIMIT {} * f {one}", stream(one), two / 4, three * 4),
        38 => format!("XADD {} MINID {NOW}-{} {NOW}-* g {one}", stream(one), two * 2),
        39 => format!("XTRIM {} MAXLEN {}", stream(one), two / 2),
        40 => [
            format!("XTRIM {} MINID ~ {NOW}-{}", stream(one), two * 3),
            format!("XTRIM {} MAXLEN ~ {} LIMIT 0", stream(one), two / 4),
        ][two as usize % 2]
            .clone(),
        41 => format!("XRANGE {} - +", stream(one)),
        42 => format!("XRANGE {} {NOW}-{} ({NOW}-{}", stream(one), two, two + one * 2),
        43 => format!("XREVRANGE {} {NOW}-{} - COUNT {}", stream(one), two * 2, one + 1),
        44 => format!("XREAD STREAMS x1 x0 {NOW}-{one} {NOW}-{two}"),
        45 => format!("XREAD COUNT {} STREAMS x0 none x1 0 0 {NOW}-{two}", one / 2 + 1),
        46 => [
            format!("XGROUP CREATE {} g 0 MKSTREAM", stream(one)),
            format!("XGROUP SETID {} g {NOW}-{two}", stream(one)),
            format!("XDEL {} {NOW}-{two} {NOW}-{one}", stream(one)),
            format!("XACK {} g {NOW}-{two} {NOW}-{one} {NOW}-{}", stream(one), one + two),
        ][two as usize % 4]
            .clone(),
        47 => [
            format!("XREADGROUP GROUP g c{} STREAMS {} >", two % 2, stream(one)),
            format!("XPENDING {} g - + {}", stream(one), two),
            format!("XPENDING {} g IDLE 0 {NOW}-{two} + 30 c{}", stream(one), one % 2),
            format!("XAUTOCLAIM {} g c{} 0 {NOW}-{} COUNT {}", stream(one), two % 2, two / 2, one + 1),
            format!("XAUTOCLAIM {} g c{} 0 - JUSTID", stream(one), two % 2),
            format!("XGROUP DELCONSUMER {} g c{}", stream(one), two % 2),
            format!(
                "XCLAIM {} g c{} 0 {NOW}-{one} {NOW}-{two} {NOW}-{} {NOW}-{} {NOW}-{}{}",
                stream(two),
                two % 3,
                one + 1,
                two + 1,
                one + two,
                ["", " FORCE", " JUSTID", " FORCE JUSTID RETRYCOUNT 7", " IDLE 5 LASTID 1800000000000-1"]
                    [two as usize % 5]
            ),
            format!("XINFO STREAM {} FULL COUNT {}", stream(two), two % 5),
            format!("XINFO STREAM {} FULL", stream(two)),
        ][one as usize % 9]
            .clone(),
        48 => format!(
            "XREADGROUP GROUP g c{} COUNT {} STREAMS x0 x1 {} >",
            two % 2,
            one / 2 + 1,
            ["0", ">"][one as usize % 2]
        ),
        49..51 => [
            format!("SET wm{one} {two}"),
            format!("SET w{one} {two}"),
            format!("SET we{three} {two}"),
            format!("RPUSH n {one} {two} {}", one + two),
            format!("HSET h f{one} {two} f{two} {one} f{} x", one + two),
            format!("GEOADD g {}.5 {} m{two} {} {}.25 m{one}", one, two, two, one),
            format!("DEL {}", ["n", "h", "g", "x0", "wm3"][two as usize % 5]),
            format!("LPOS l{} e{} RANK {} COUNT {}", one % 2, two % 4, [1, -1, 3, -2][three as usize], one / 8),
            format!("LINSERT l{} AFTER e{} e9", one % 2, two % 8),
            format!("LPOS n {two} MAXLEN {}", one + 1),
            format!("LPOP l{} {}", one % 2, two / 4),
            format!("ZPOPMAX {} {}", sorted(one), two / 4),
            format!("LMPOP 2 l{} l1 RIGHT COUNT {}", two % 2, two / 4 + 1),
            format!("ZMPOP 2 {} {} MIN COUNT {}", sorted(one), sorted(two), two / 4 + 1),
        ][one as usize % 14]
            .clone(),
        51 => format!("SORT n BY w* GET # GET w* LIMIT {} {}", one / 8, two / 2),
        52 => [
            format!("SORT l{} ALPHA DESC LIMIT {} {}", one % 2, one / 4, two / 2),
            format!("SORT {} BY w* GET w* GET # DESC", sorted(one)),
            format!("SORT {} BY none DESC LIMIT {} {}", sorted(one), one / 8, two / 4),
            format!("SORT {} BY w* STORE n", set(one)),
            format!("SORT n BY w* ALPHA STORE wm{one}"),
            format!("SORT l{} BY none LIMIT {} 7 GET w*", two % 2, one / 8),
            "SORT n".to_owned(),
            format!("SORT {} ALPHA", set(one)),
        ][two as usize % 8]
            .clone(),
        53 => format!(
            "GEOSEARCH g FROMLONLAT {one} {two} BYBOX 4000 4000 km {} WITHDIST",
            ["ASC", "DESC"][one as usize % 2]
        ),
        54 => format!("GEOSEARCH g FROMLONLAT {one} {two} BYRADIUS 3000 km COUNT {}", one / 4 + 1),
        55 => format!("GEOSEARCHSTORE {} g FROMLONLAT {one} {two} BYBOX 4000 4000 km", sorted(two)),
        56 => ["HGETALL h", "HKEYS h", "HVALS h", "SMEMBERS s1", "ZREVRANGE z0 1 20", "LRANGE n 2 -2"]
            [one as usize % 6]
            .to_owned(),
        32 | 57 => [
            format!("COPY {} {} REPLACE", set(one), set(two + 1)),
            format!("COPY {0} {0}x REPLACE", sorted(one)),
            format!("COPY {} {} REPLACE", stream(one), stream(two)),
            format!("COPY l{} l{} REPLACE DB {}", one % 2, two % 2, three / 3),
            "COPY h hx REPLACE".to_owned(),
            format!("COPY g {}", sorted(two)),
            "COPY h h DB 1 REPLACE".to_owned(),
        ][two as usize % 7]
            .clone(),
        58 => [
            format!("MOVE {} 1", set(two)),
            format!("MOVE {} 1", sorted(two)),
            format!("MOVE {} 1", stream(two)),
            format!("MOVE l{} 1", two % 2),
            format!("MOVE {} 1", ["h", "g", "n"][two as usize % 3]),
            "SWAPDB 0 1".to_owned(),
        ][one as usize % 6]
            .clone(),
        _ if one % 5 == 0 => {
            let how = ["AND", "OR", "XOR", "OR"][two as usize % 4];
            format!("BITOP {how} b{} b{} b{} wm{one} b{}", one % 4, two % 4, three, one % 3)
        }
        _ if one % 5 == 2 => [
            format!(
                "MSET b{} {one} {} {two} wm{one} {one} {} x w{two} {two} b{} z",
                one % 4,
                set(two),
                stream(one),
                one % 4
            ),
            format!("MGET b{} {} wm{one} wm{two} b{} b{} {} w{two}", one % 4, set(two), two % 4, one % 4, sorted(two)),
            format!("DEL b{} {} wm{one} wm{two} b{} {} w{two}", one % 4, set(two), two % 4, sorted(two)),
            format!("UNLINK wm{one} l{} {} {} wm{two} wm{one}", one % 2, set(two), stream(two)),
            format!("EXISTS b{} {} wm{one} wm{two} b{} {} {}", one % 4, set(two), two % 4, sorted(two), sorted(two)),
            format!("TOUCH b{} {} wm{one} wm{two} b{} {} w{two}", one % 4, set(two), two % 4, sorted(one)),
            format!("MSETNX wn{one} {one} wn{two} {two} wn{three} x wn{} y wn{one} z", one / 8),
            format!("PFADD p{} {one} {two} {} {}", one % 4, one * two, one + two),
            format!("PFMERGE p{} p{} p{three} p{} none p{}", one % 4, two % 4, one % 3, one / 20),
            format!("PFCOUNT p{} none p{three} p{} p0", one % 4, one % 3),
            format!("DEL wn{one} wn{two} wn{three} wn{} none", one / 8),
        ][two as usize % 11]
            .clone(),
        _ if one % 5 == 1 => [
            format!("SETRANGE b{} {} {}", two % 4, two * 30, "y".repeat(three as usize * 100)),
            format!("BITOP NOT b{} b{}", two % 4, three),
            format!("GETRANGE b{} 0 -1", two % 4),
            format!("DEL b{}", two % 4),
        ][two as usize / 4 % 4]
            .clone(),
        _ => [
            format!("DEL {}", set(one)),
            format!("RENAME {} {}", sorted(one), sorted(two)),
            format!("SCARD {}", set(two)),
            format!("ZINTERCARD 2 {} {} LIMIT {three}", sorted(one), sorted(two)),
            format!("SORT l{} ALPHA STORE l1", one % 2),
            format!("DEL l{}", one % 2),
            format!("ZDIFF 2 {} {} WITHSCORES", sorted(one), sorted(two)),
        ][two as usize % 7]
            .clone(),
    }
}

/// A reply without the order of what has none.
fn essence(command: &str, reply: &str) -> Vec<String> {
    let mut lines: Vec<String> = reply.lines().map(str::to_owned).collect();
    let has_order = !command.starts_with(['S', 'H']) || command.starts_with("SORT");
    if !has_order && lines.len() > 1 {
        let header = lines.remove(0);
        let of_one = if command.starts_with("HGETALL") { 4 } else { 2 };
        let mut elements: Vec<String> = lines.chunks(of_one).map(|lines| lines.join(" ")).collect();
        elements.sort_unstable();
        lines = elements;
        lines.insert(0, header);
    }
    lines
}

/// The first reply, if it is whole, and the rest.
fn split_reply(output: &str) -> Option<(String, String)> {
    fn len(output: &str) -> Option<usize> {
        let line = output.find("\r\n")? + 2;
        let number = || output[1..line - 2].parse::<i64>().unwrap();
        match output.as_bytes()[0] {
            b'$' if number() >= 0 => Some(line + number() as usize + 2),
            b'*' => (0..number()).try_fold(line, |at, _| Some(at + len(output.get(at..)?)?)),
            _ => Some(line),
        }
    }
    output.split_at_checked(len(output)?).map(|(reply, rest)| (reply.to_owned(), rest.to_owned()))
}

/// A server in steps, one in one go, and their clients.
struct Pair {
    ours: Server,
    model: Server,
    model_client: SessionId,
    monitor: SessionId,
    clients: Vec<(SessionId, VecDeque<String>, String)>,
    /// Replies that are to come, for each client.
    expected: Vec<VecDeque<(String, String)>>,
    compared: usize,
}

impl Pair {
    fn new(mut ours: Server, count: usize) -> Self {
        let mut model = plain();
        let model_client = connect(&mut model, 1);
        let monitor = connect(&mut ours, 50);
        assert_eq!(ask(&mut ours, monitor, "MONITOR"), "+OK\r\n");
        let clients = (0..count).map(|number| (connect(&mut ours, 100 + number), VecDeque::new(), String::new()));
        let clients = clients.collect();
        Self { ours, model, model_client, monitor, clients, expected: vec![VecDeque::new(); count], compared: 0 }
    }

    fn send(&mut self, client: usize, command: String) {
        send(&mut self.ours, self.clients[client].0, &command);
        self.clients[client].1.push_back(command);
    }

    /// Has the model do what came to its end since, in that order.
    fn follow(&mut self) {
        for line in taken(&mut self.ours, self.monitor).lines() {
            let number: usize = line.split(':').nth(1).unwrap().split(']').next().unwrap().parse().unwrap();
            let Some(client) = number.checked_sub(100) else { continue };
            let command = self.clients[client].1.pop_front().unwrap();
            let reply = if command.starts_with("SPOP") {
                // The model removes the same.
                self.compare(client);
                let (reply, rest) = split_reply(&self.clients[client].2).unwrap();
                self.clients[client].2 = rest;
                let members: Vec<&str> = reply.lines().skip(2).step_by(2).collect();
                let key = command.split(' ').nth(1).unwrap();
                if !members.is_empty() {
                    let removed = ask(&mut self.model, self.model_client, &format!("SREM {key} {}", members.join(" ")));
                    assert_eq!(removed, format!(":{}\r\n", members.len()), "{command}");
                    let count = command.split(' ').nth(2).unwrap().parse::<usize>().unwrap();
                    let left = ask(&mut self.model, self.model_client, &format!("EXISTS {key}"));
                    assert!(members.len() == count || left == ":0\r\n", "{command}");
                }
                continue;
            } else {
                ask(&mut self.model, self.model_client, &command)
            };
            self.expected[client].push_back((command, reply));
        }
        for client in 0..self.clients.len() {
            self.compare(client);
        }
    }

    /// Compares the replies that have come with those that are known.
    fn compare(&mut self, client: usize) {
        let replies = taken(&mut self.ours, self.clients[client].0);
        self.clients[client].2 += &replies;
        while let Some((command, expected)) = self.expected[client].front() {
            let Some((reply, rest)) = split_reply(&self.clients[client].2) else { return };
            assert_eq!(essence(command, &reply), essence(command, expected), "{command}");
            self.compared += 1;
            self.clients[client].2 = rest;
            self.expected[client].pop_front();
        }
    }
}

/// Everybody gets what they would get if each command were done at its end and in one go; so the log says.
#[test]
fn commands_in_steps_are_as_those_in_one_go() {
    const CLIENTS: usize = 4;
    for (round, with_tables) in [(0, false), (1, true), (2, true)] {
        let mut random = Random::new(21 + round);
        let tables = support::Shared::default();
        let mut pair = Pair::new(stepping(with_tables.then_some(&tables)), CLIENTS);
        let (mut log, mut since) = (Vec::new(), Vec::new());
        let (mut waited, mut is_due) = (0, false);
        for step in 0..6_000 {
            let client = random.below(CLIENTS as u64) as usize;
            if random.below(3) > 0 && pair.clients[client].1.len() < 3 {
                let mut command = command(&mut random);
                if with_tables && command.contains('~') {
                    // Which nodes there are depends on whether it has left memory.
                    command = command.replace('~', "=").split(" LIMIT").next().unwrap().to_owned();
                    command += if command.starts_with("XADD") { " * f 1" } else { "" };
                }
                pair.send(client, command);
            } else {
                pair.ours.go_on(NOW);
            }
            support::read_keys(&mut pair.ours, &tables);
            pair.follow();
            waited += usize::from(pair.clients.iter().any(|client| client.1.len() > 1));
            let effects = pair.ours.effects();
            log.extend_from_slice(effects.bytes());
            since.extend_from_slice(effects.bytes());
            effects.clear();
            assert_eq!(pair.ours.condition().broken, None);
            if with_tables && (is_due || random.below(30) == 0) {
                let is_changing = pair.ours.is_changing();
                is_due = is_changing;
                pair.ours.hold_tasks(is_changing);
                if !is_changing {
                    support::checkpoint(&mut pair.ours, &tables);
                    since.clear();
                }
            }
            if with_tables && random.below(100) == 0 {
                support::bring(&mut pair.ours, &tables);
            }
            if step % 1_000 == 999 {
                if step % 2_000 == 999 {
                    pair.ours.finish_tasks();
                }
                let mut turns = 0;
                while pair.clients.iter().any(|client| !client.1.is_empty()) {
                    turns += 1;
                    assert!(turns < 10_000, "{:?}", pair.clients);
                    pair.ours.hold_tasks(false);
                    pair.ours.go_on(NOW);
                    support::read_keys(&mut pair.ours, &tables);
                    pair.follow();
                }
                log.extend_from_slice(pair.ours.effects().bytes());
                since.extend_from_slice(pair.ours.effects().bytes());
                pair.ours.effects().clear();
                let expected = digest(&mut pair.model, &tables);
                assert_eq!(digest(&mut pair.ours, &tables), expected, "{round}, {step}");
                assert_eq!(*tables.0.begun.borrow(), [], "copies that are not whole, {round}, {step}");
                let mut again = plain();
                replay(&mut again, &log);
                assert_eq!(digest(&mut again, &tables), expected, "the log, {step}");
                if with_tables {
                    let left = tables.0.crash();
                    let mut after = stepping(Some(&left));
                    after.take_records(support::SEED, Box::new(left.clone()));
                    left.0.restore(&mut after.keyspace);
                    replay(&mut after, &since);
                    assert_eq!(digest(&mut after, &left), expected, "after a crash, {step}");
                }
            }
        }
        let (tasks, steps) = pair.ours.tasks_done();
        assert!(pair.compared > 500, "{}", pair.compared);
        assert!(tasks > 150 && steps > 2 * tasks && waited > 100, "{tasks} {steps} {waited}");
    }
}

/// A server whose keys are large enough to be worked on in steps, and two clients.
fn filled() -> (Server, SessionId, SessionId) {
    let mut server = stepping(None);
    let (one, other) = (connect(&mut server, 1), connect(&mut server, 2));
    for number in 0..20 {
        let commands = format!("ZADD z {number} m{number}\r\nSADD s m{number}\r\nRPUSH l e{}", number % 2);
        at_once(&mut server, one, &commands);
    }
    (server, one, other)
}

/// Has something done in one go.
fn at_once(server: &mut Server, id: SessionId, commands: &str) -> String {
    let from = std::mem::replace(&mut server.step_limits_mut().from, usize::MAX);
    let reply = ask(server, id, commands);
    server.step_limits_mut().from = from;
    reply
}

/// Goes on until there is nothing more to do. Returns in how many turns.
fn finish(server: &mut Server) -> usize {
    let mut turns = 0;
    while server.can_go_on() {
        server.go_on(NOW);
        turns += 1;
    }
    turns
}

fn effects(server: &mut Server) -> Vec<String> {
    let commands = commands_of(server.effects().bytes());
    server.effects().clear();
    let text =
        |words: &Vec<Vec<u8>>| words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
    commands.iter().map(text).filter(|line| !["SELECT 0", "MULTI", "EXEC"].contains(&line.as_str())).collect()
}

/// What SORT looks up is of one moment: it may not change before the end, and what another command is about to change is waited for.
#[test]
fn sort_holds_what_it_looks_up() {
    let (mut server, one, other) = filled();
    for number in 0..20 {
        at_once(&mut server, one, &format!("RPUSH n {number}\r\nSET w{number} {}", 100 - number));
    }
    let third = connect(&mut server, 3);
    send(&mut server, other, "SUNIONSTORE w3 s s");
    send(&mut server, one, "SORT n BY w* LIMIT 0 2 GET # GET w*");
    (0..6).for_each(|_| server.go_on(NOW));
    // What it has not come to may change.
    assert_eq!(ask(&mut server, third, "SET w19 1000"), "+OK\r\n");
    send(&mut server, third, "SET w0 0\r\nPING");
    assert_eq!(taken(&mut server, third), "");
    while taken(&mut server, other).is_empty() {
        assert_eq!((taken(&mut server, one), taken(&mut server, third)), Default::default());
        server.go_on(NOW);
    }
    while server.can_go_on() {
        server.go_on(NOW);
    }
    // A set has no weight.
    assert_eq!(taken(&mut server, one), "*4\r\n$1\r\n3\r\n$-1\r\n$2\r\n18\r\n$2\r\n82\r\n");
    assert_eq!(taken(&mut server, third), "+OK\r\n+PONG\r\n");
    assert_eq!(ask(&mut server, third, "SET w1 1\r\nGET w0"), "+OK\r\n$1\r\n0\r\n");
}

/// Many random elements: as many as there should be, and different if they should be.
#[test]
fn random_elements_in_steps() {
    let (mut server, one, _) = filled();
    for number in 0..20 {
        at_once(&mut server, one, &format!("HSET h m{number} {number}"));
    }
    for (command, lines, distinct) in [
        ("SRANDMEMBER s 15", 15, 15),
        ("SRANDMEMBER s 100", 20, 20),
        ("SRANDMEMBER s -100", 100, 20),
        ("HRANDFIELD h 15", 15, 15),
        ("HRANDFIELD h -100", 100, 20),
        ("ZRANDMEMBER z 15", 15, 15),
        ("ZRANDMEMBER z -100", 100, 20),
    ] {
        let before = server.tasks_done().0;
        send(&mut server, one, command);
        finish(&mut server);
        let reply = taken(&mut server, one);
        let mut elements: Vec<&str> = reply.lines().skip(2).step_by(2).collect();
        assert!(reply.starts_with(&format!("*{lines}\r\n")) && elements.len() == lines, "{command} {reply}");
        assert!(elements.iter().all(|element| element.starts_with('m')), "{command}");
        elements.sort_unstable();
        elements.dedup();
        assert!(elements.len() <= distinct && elements.len() > distinct - 5, "{command}");
        assert!(lines > distinct || elements.len() == distinct, "{command}");
        assert_eq!(server.tasks_done().0, before + 1, "{command}");
    }
}

/// What is about much of a stream, or long strings: it takes turns, others go on, and it comes to the same as in one go.
#[test]
fn streams_with_much_pending_and_long_strings_in_steps() {
    let (mut server, one, other) = filled();
    let mut text = String::new();
    for number in 0..30 {
        text += &format!("XADD x {}-{number} f v{number}\r\n", 1 + number / 3);
    }
    text += "XADD y 1-1 f v\r\nXDEL y 1-1\r\nXGROUP CREATE y g 0\r\n";
    for group in ["g", "h", "none"] {
        text += &format!("XGROUP CREATE x {group} 0\r\n");
    }
    for (group, consumer, count) in [("g", "a", 10), ("g", "b", 15), ("h", "a", 2), ("h", "c", 20)] {
        text += &format!("XREADGROUP GROUP {group} {consumer} COUNT {count} STREAMS x >\r\n");
    }
    text += "XGROUP CREATECONSUMER x g idle\r\nXGROUP CREATECONSUMER x none idle\r\n";
    for (number, len) in [(0, 1000), (1, 3000), (2, 100), (3, 5000)] {
        text += &format!("SETRANGE b{number} {} {}\r\n", len / 2, "\u{7f}z5".repeat(len / 3));
    }
    let (mut model, mut again) = (plain(), plain());
    let (client, last) = (connect(&mut model, 1), connect(&mut again, 1));
    at_once(&mut server, one, &text);
    ask(&mut model, client, &text);
    let raw = |server: &mut Server, id| std::mem::take(server.output(id).unwrap().0);
    for (command, turns) in [
        ("XINFO STREAM x FULL COUNT 0", 60),
        ("XINFO STREAM x FULL COUNT 3", 15),
        ("XINFO STREAM x FULL", 40),
        ("DUMP x", 40),
        ("DUMP y", 0),
        ("XINFO STREAM y FULL", 0),
    ] {
        let from = std::mem::replace(&mut server.step_limits_mut().from, usize::MAX);
        send(&mut server, one, command);
        server.step_limits_mut().from = from;
        let expected = raw(&mut server, one);
        assert!(expected.len() > 30, "{command}");
        send(&mut server, one, command);
        assert_eq!(raw(&mut server, one).is_empty(), turns > 0, "{command}");
        assert_eq!(ask(&mut server, other, "XLEN x\r\nSET free 1"), ":30\r\n+OK\r\n", "others go on");
        let took = finish(&mut server);
        assert!(took >= turns, "{command}: {took}");
        assert!(turns == 0 || raw(&mut server, one) == expected, "{command}");
    }
    for command in [
        "BITOP AND t b0 b1 none b3",
        "BITOP OR t b0 b1 b2 none b3",
        "BITOP XOR t b2 b1 b3 b3 b0",
        "BITOP NOT t b3",
        "BITOP AND t b3",
        "BITOP OR b1 b1 b3",
        "XCLAIM x g c 0 1-0 1-1 1-2 2-3 9-9 2-4 2-5 3-6 9-24 9-25 9-26 10-27 FORCE",
        "XCLAIM x h a 0 1-0 1-1 1-2 2-3 2-4 2-5 3-6 JUSTID LASTID 99-1 RETRYCOUNT 4",
    ] {
        let expected = ask(&mut model, client, command);
        let before = server.tasks_done();
        send(&mut server, one, command);
        assert_eq!(taken(&mut server, one), "", "{command}");
        finish(&mut server);
        assert_eq!(taken(&mut server, one), expected, "{command}");
        let done = server.tasks_done();
        assert!(done.0 == before.0 + 1 && done.1 > before.1 + 3, "{command}");
        for look in ["DEBUG DIGEST-VALUE t b1 x", "XINFO STREAM x FULL COUNT 0"] {
            assert_eq!(at_once(&mut server, one, look), ask(&mut model, client, look), "{command}");
        }
    }
    // What is in the log comes to the same.
    let log = server.effects().bytes().to_vec();
    replay(&mut again, &log);
    for look in ["DEBUG DIGEST-VALUE t b1 x", "XPENDING x g - + 100", "XPENDING x h - + 100"] {
        assert_eq!(ask(&mut again, last, look), ask(&mut model, client, look));
    }
    // Nothing is done if one of them is no string, or an option is wrong.
    let before = server.tasks_done().0;
    assert!(ask(&mut server, one, "BITOP OR t b0 b1 b3 z").starts_with("-WRONGTYPE"));
    assert!(
        ask(&mut server, one, "XCLAIM x g c 0 1-0 1-1 1-2 2-3 2-4 NONSENSE").starts_with("-ERR Unrecognized XCLAIM")
    );
    assert_eq!(server.tasks_done().0, before);
}

/// Commands whose words are keys hold them bit by bit: each waits for those that others have, and nobody sees half of one.
#[test]
fn many_keys_in_steps() {
    let (mut server, one, other) = filled();
    let third = connect(&mut server, 3);
    assert_eq!(ask(&mut server, one, "CONFIG SET notify-keyspace-events KA"), "+OK\r\n");
    send(&mut server, third, "PSUBSCRIBE *");
    taken(&mut server, third);
    let keys: Vec<String> = (0..20).map(|number| format!("k{number}")).collect();
    let all = keys.join(" ");
    let pairs = |value: &str| keys.iter().map(|key| format!("{key} {value}")).collect::<Vec<_>>().join(" ");
    let values = |value: &str| format!("*20\r\n{}", format!("${}\r\n{value}\r\n", value.len()).repeat(20));
    server.effects().clear();
    send(&mut server, one, &format!("MSET {} k0 last", pairs("first")));
    assert!(finish(&mut server) > 18);
    assert_eq!(taken(&mut server, one), "+OK\r\n");
    assert_eq!(taken(&mut server, third).matches("__keyspace@0__").count(), 21, "each is told");
    assert_eq!(effects(&mut server), [format!("MSET {} k0 last", pairs("first"))]);
    at_once(&mut server, one, "SET k0 first");
    server.effects().clear();

    // Two that write the same keys, in opposite order, with one that reads them before and one after.
    let mut clients: Vec<SessionId> = (10..14).map(|number| connect(&mut server, number)).collect();
    let mut back = keys.clone();
    back.reverse();
    let back: Vec<String> = back.iter().map(|key| format!("{key} second")).collect();
    send(&mut server, clients[0], &format!("MGET {all}"));
    send(&mut server, clients[1], &format!("MSET {}", back.join(" ")));
    send(&mut server, clients[2], &format!("MSET {}", pairs("third")));
    send(&mut server, clients[3], &format!("MGET {all}"));
    server.go_on(NOW);
    // Nobody has that one yet; it may be read and written.
    assert_eq!(ask(&mut server, other, "GET k10\r\nSET k10 early"), "$5\r\nfirst\r\n+OK\r\n");
    (0..45).for_each(|_| server.go_on(NOW));
    // The first has all keys, and shares them with those who read.
    assert_eq!(ask(&mut server, other, "GET k10"), "$5\r\nearly\r\n");
    send(&mut server, other, "SET k10 late\r\nPING");
    assert_eq!(taken(&mut server, other), "");
    finish(&mut server);
    let first = values("first").replacen("$5\r\nfirst\r\n", "@", 11).replace("@", "$5\r\nfirst\r\n");
    let mut lines: Vec<&str> = first.lines().collect();
    lines[1 + 2 * 10 + 1] = "early";
    assert_eq!(taken(&mut server, clients[0]), lines.join("\r\n") + "\r\n");
    assert_eq!((taken(&mut server, clients[1]), taken(&mut server, clients[2])), ("+OK\r\n".into(), "+OK\r\n".into()));
    let last = taken(&mut server, clients[3]);
    let of = |value: &str| last.lines().skip(2).step_by(2).filter(|line| *line == value).count();
    assert!(last.lines().count() == 41 && of("second").max(of("third")) >= 19, "{last}");
    assert_eq!(taken(&mut server, other), "+OK\r\n+PONG\r\n");

    // One that is brought to its end at once, by somebody who cannot wait, while another waits for its keys.
    send(&mut server, clients[0], &format!("DEL {all} none"));
    send(&mut server, clients[1], &format!("EXISTS {all}"));
    (0..26).for_each(|_| server.go_on(NOW));
    assert_eq!(ask(&mut server, one, "EVAL \"return redis.call('EXISTS', 'k19')\" 0"), ":0\r\n");
    finish(&mut server);
    assert_eq!(taken(&mut server, clients[0]), ":20\r\n");
    assert_eq!(taken(&mut server, clients[1]), ":0\r\n");
    // What is wrong is known before, and who goes lets go of what he holds.
    assert!(ask(&mut server, one, &format!("MSET {all} k0")).starts_with("-ERR wrong number of arguments"));
    send(&mut server, clients[0], &format!("MGET {all}"));
    (0..5).for_each(|_| server.go_on(NOW));
    server.disconnect(clients.swap_remove(0));
    send(&mut server, one, &format!("MSET {}", pairs("fourth")));
    finish(&mut server);
    assert_eq!(taken(&mut server, one), "+OK\r\n");
    assert_eq!(ask(&mut server, other, "GET k7\r\nSET k0 5"), "$6\r\nfourth\r\n+OK\r\n");
}

/// Commands of many words: each is one command to everybody, and what is wrong with a word is known before anything is changed.
#[test]
fn many_words_in_steps() {
    let (mut server, one, other) = filled();
    assert_eq!(ask(&mut server, one, "CONFIG SET notify-keyspace-events KA"), "+OK\r\n");
    send(&mut server, other, "PSUBSCRIBE *");
    taken(&mut server, other);
    effects(&mut server);
    for (command, reply, events, turns_min) in [
        ("HSET h a 1 b 2 c 3 d 4 a 5", ":4\r\n", &["hset"][..], 5),
        ("HMGET h a b x d", "*4\r\n$1\r\n5\r\n$1\r\n2\r\n$-1\r\n$1\r\n4\r\n", &[], 2),
        ("HDEL h a b c d e f", ":4\r\n", &["hdel", "del"], 3),
        ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command\r\n", &[], 0),
        ("HMSET h a 1 b 2 c 3", "+OK\r\n", &["hset"], 3),
        ("SADD new 1 2 3 2 1 4", ":4\r\n", &["sadd"], 3),
        ("SMISMEMBER new 1 5 2 6", "*4\r\n:1\r\n:0\r\n:1\r\n:0\r\n", &[], 2),
        ("SADD z 1 2 3", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", &[], 1),
        ("SREM new 1 2 3 5 6 7 4", ":4\r\n", &["srem", "del"], 4),
        ("ZADD new NX CH 1 a 2 b 3 c 4 d", ":4\r\n", &["zadd"], 8),
        ("ZADD new XX CH 1 a 3 b 3 c 7 d 1 e", ":2\r\n", &["zadd"], 10),
        ("ZADD new 1 x 2 y 3 z nan w", "-ERR value is not a valid float\r\n", &[], 4),
        ("ZADD new INCR 1 x 2 y", "-ERR INCR option supports a single increment-element pair\r\n", &[], 0),
        ("ZADD new 1 x 2", "-ERR syntax error\r\n", &[], 0),
        ("ZMSCORE new a x b c", "*4\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n$1\r\n3\r\n", &[], 2),
        ("ZREM new a b c", ":3\r\n", &["zrem"], 2),
        ("RPUSH list a b c d e", ":5\r\n", &["rpush"], 3),
        ("LPUSHX list x y z", ":8\r\n", &["lpush"], 2),
        ("RPUSHX none x y z", ":0\r\n", &[], 2),
        (
            "LPOP list 7",
            "*7\r\n$1\r\nz\r\n$1\r\ny\r\n$1\r\nx\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n",
            &["lpop"],
            4,
        ),
        (
            "ZPOPMAX z 3",
            "*6\r\n$3\r\nm19\r\n$2\r\n19\r\n$3\r\nm18\r\n$2\r\n18\r\n$3\r\nm17\r\n$2\r\n17\r\n",
            &["zpopmax"],
            2,
        ),
    ] {
        send(&mut server, one, command);
        let turns = finish(&mut server);
        assert_eq!(taken(&mut server, one), reply, "{command}");
        assert!(turns >= turns_min, "{command} {turns}");
        let told = taken(&mut server, other);
        let told: Vec<&str> = told.lines().skip(8).step_by(9).collect();
        assert_eq!(told, events, "{command}");
        let effects = effects(&mut server);
        assert_eq!(effects, if events.is_empty() { vec![] } else { vec![command] }, "{command}");
    }
}

/// Whoever may meet the key without naming it has the command come to its end first.
#[test]
fn what_cannot_wait_ends_the_command() {
    for (command, expected) in [
        ("EVAL \"return redis.call('ZCARD','z')\" 0", ":5\r\n"),
        ("EVAL \"redis.call('ZADD','z',1,'new') return redis.call('ZCARD','z')\" 0", ":6\r\n"),
        ("FLUSHALL", "+OK\r\n"),
        ("SWAPDB 0 1", "+OK\r\n"),
        ("CLIENT PAUSE 1000 WRITE", "+OK\r\n"),
        ("SORT l BY z* LIMIT 0 1", "*1\r\n$2\r\ne0\r\n"),
    ] {
        let (mut server, one, other) = filled();
        effects(&mut server);
        send(&mut server, one, "ZREMRANGEBYRANK z 0 14\r\nPING");
        server.go_on(NOW);
        assert!(server.is_changing(), "{command}");
        let mut reply = ask(&mut server, other, command);
        assert!(!server.is_changing(), "{command}");
        while reply.is_empty() {
            server.go_on(NOW);
            reply = taken(&mut server, other);
        }
        assert_eq!(reply, expected, "{command}");
        assert_eq!(effects(&mut server)[0], "ZREMRANGEBYRANK z 0 14", "{command}");
        server.go_on(NOW);
        assert_eq!(taken(&mut server, one), ":15\r\n+PONG\r\n", "{command}");
    }
}

/// What a command makes takes memory: without room it waits, if it has not changed anything; if nothing can make room, it fails.
#[test]
fn what_takes_memory_waits_for_room() {
    for (command, may_fail) in [
        ("SUNIONSTORE to s z0", true),
        ("ZUNIONSTORE to 1 z", true),
        ("ZRANGESTORE to z 0 -1", true),
        ("COPY z to", true),
        ("ZPOPMIN z 15", false),
        ("SUNION s s", false),
    ] {
        for is_full in [false, true] {
            let (mut server, one, other) = filled();
            let waits = !command.starts_with("SUNION ");
            send(&mut server, one, command);
            server.set_no_room(true);
            assert_eq!(finish(&mut server) == 0, waits, "{command}");
            assert_eq!(taken(&mut server, one).is_empty(), waits, "{command}");
            assert_eq!(ask(&mut server, other, "PING"), "+PONG\r\n");
            server.set_no_room(false);
            effects(&mut server);
            server.go_on(NOW);
            server.condition_mut().memory_full = is_full;
            finish(&mut server);
            if is_full && may_fail {
                let refused = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
                assert_eq!(taken(&mut server, one), refused, "{command}");
                assert_eq!(effects(&mut server), [""; 0], "{command}");
                assert_eq!(ask(&mut server, other, "EXISTS to"), ":0\r\n");
                server.condition_mut().memory_full = false;
                assert_eq!(at_once(&mut server, other, "SADD s new"), ":1\r\n", "the keys are free");
            } else if waits {
                assert!(!taken(&mut server, one).starts_with('-'), "{command}");
                assert_eq!(effects(&mut server), [command]);
            }
        }
    }
}

#[test]
fn others_wait_for_the_key_and_nobody_else_does() {
    let (mut server, one, other) = filled();
    send(&mut server, one, "ZREMRANGEBYRANK z 0 14");
    assert_eq!(ask(&mut server, other, "PING"), "+PONG\r\n");
    assert_eq!(ask(&mut server, other, "SCARD s"), ":20\r\n");
    for commands in ["ZCARD z\r\nPING", "MULTI\r\nZCARD z\r\nSCARD s\r\nEXEC", "EVAL \"return 1\" 1 z", "WATCH z"] {
        let third = connect(&mut server, 3);
        send(&mut server, third, commands);
        let reply = taken(&mut server, third);
        assert!(reply.is_empty() || reply.ends_with("+QUEUED\r\n"), "{commands} {reply}");
        server.disconnect(third);
    }
    send(&mut server, other, "ZCARD z\r\nPING");
    let mut turns = 0;
    while server.can_go_on() {
        assert_eq!(taken(&mut server, other), "");
        server.go_on(NOW);
        turns += 1;
    }
    assert!(turns > 5);
    assert_eq!((taken(&mut server, one), taken(&mut server, other)), (":15\r\n".into(), ":5\r\n+PONG\r\n".into()));
}

#[test]
fn a_client_that_goes_leaves_what_it_began_whole() {
    for killed in [false, true] {
        let (mut server, one, other) = filled();
        effects(&mut server);
        send(&mut server, one, "SPOP s 15\r\nSET never x");
        server.go_on(NOW);
        if killed {
            assert_eq!(ask(&mut server, other, &format!("CLIENT KILL ID {}", one.0)), ":1\r\n");
        } else {
            server.disconnect(one);
        }
        while server.can_go_on() {
            server.go_on(NOW);
        }
        assert_eq!(ask(&mut server, other, "SCARD s"), ":5\r\n");
        let effects = effects(&mut server);
        assert_eq!((effects.len(), effects[0].split(' ').count()), (1, 17), "{effects:?}");
    }
}

#[test]
fn a_busy_key_expires_when_it_is_free() {
    let (mut server, one, other) = filled();
    assert_eq!(ask(&mut server, one, &format!("PEXPIREAT z {}", NOW + 5)), ":1\r\n");
    effects(&mut server);
    send(&mut server, one, "ZREMRANGEBYRANK z 0 14");
    server.go_on(NOW);
    server.tick(NOW + 10);
    server.expire_if_due(0, b"z", NOW + 10).unwrap();
    assert_eq!(ask(&mut server, other, "EXISTS z2"), ":0\r\n");
    while server.can_go_on() {
        server.go_on(NOW + 10);
    }
    server.tick(NOW + 10);
    assert_eq!(taken(&mut server, one), ":15\r\n");
    assert_eq!(effects(&mut server), ["ZREMRANGEBYRANK z 0 14", "DEL z"]);
}

#[test]
fn those_who_wait_and_watch_are_told_at_the_end() {
    let (mut server, one, other) = filled();
    let third = connect(&mut server, 3);
    assert_eq!(ask(&mut server, other, "WATCH z\r\nMULTI\r\nPING"), "+OK\r\n+OK\r\n+QUEUED\r\n");
    send(&mut server, third, "HELLO 3\r\nCLIENT TRACKING ON\r\nZCARD z");
    taken(&mut server, third);
    send(&mut server, one, "CLIENT REPLY SKIP\r\nZREMRANGEBYRANK z 0 14\r\nZCARD z");
    for _ in 0..2 {
        server.go_on(NOW);
        server.sessions_with_output(&mut Vec::new());
        assert_eq!(taken(&mut server, third), "");
    }
    while server.can_go_on() {
        server.go_on(NOW);
    }
    server.sessions_with_output(&mut Vec::new());
    assert!(taken(&mut server, third).starts_with(">2\r\n$10\r\ninvalidate"));
    assert_eq!((taken(&mut server, one), ask(&mut server, other, "EXEC")), (":5\r\n".into(), "*-1\r\n".into()));
}

/// A disk that fails before anything has changed is the command's error; later, the store has to stop.
#[test]
fn a_disk_that_fails() {
    for has_begun in [false, true] {
        let tables = support::Shared::default();
        let mut server = stepping(Some(&tables));
        let id = connect(&mut server, 1);
        for number in 0..60 {
            at_once(&mut server, id, &format!("ZADD z {number} m{number}"));
        }
        support::checkpoint(&mut server, &tables);
        send(&mut server, id, "ZCARD z");
        support::read_keys(&mut server, &tables);
        taken(&mut server, id);
        send(&mut server, id, "ZREMRANGEBYRANK z 0 49");
        if has_begun {
            server.go_on(NOW);
        }
        tables.0.fails_after.set(Some(0));
        while server.can_go_on() && server.condition().broken.is_none() {
            server.go_on(NOW);
        }
        assert_eq!(server.condition().broken.is_some(), has_begun);
        assert!(taken(&mut server, id).starts_with("-ERR cannot read from disk"), "{has_begun}");
    }
}
