//! Collections of many elements in all their forms: random commands on a server that has few whole collections, with checkpoints
//! that are taken bit by bit, collections that leave memory and come back piece by piece, and crashes; and on one that has all of
//! them in memory. The replies are the same.
//!
//! `SEED=7 COUNT=100 cargo test -p commands --test native` runs more of it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::{collections::VecDeque, rc::Rc};

use commands::{
    Server, Session, SessionId,
    config::{Allowed, Integer, Memory, Settings},
};
use keyspace::{Gather, Records, random::Random};
use resp::{Limits, Progress, RequestParser};

const NOW: i64 = 1_700_000_000_000;

/// A server with a client.
struct Peer {
    server: Server,
    client: SessionId,
}

impl Peer {
    fn new(settings: &Settings, tables: Option<&support::Shared>) -> Self {
        let records = tables.map(|tables| Box::new(tables.clone()) as Box<dyn Records>);
        let mut server = Server::new(settings.clone(), support::SEED, 7, NOW, records, Rc::new(|| 0));
        if let Some(tables) = tables {
            tables.0.restore(&mut server.keyspace);
        }
        server.tick(NOW);
        let client = server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), NOW);
        Self { server, client }
    }

    fn ask(&mut self, command: &str, tables: Option<&support::Shared>) -> String {
        self.server.input(self.client).unwrap().extend_from_slice(format!("{command}\r\n").as_bytes());
        self.server.run(self.client, NOW);
        if let Some(tables) = tables {
            support::answer_loads(&mut self.server, tables);
        }
        assert_eq!(self.server.condition().broken, None);
        let reply = std::mem::take(self.server.output(self.client).unwrap().0);
        String::from_utf8(reply).unwrap()
    }
}

/// A collection that comes into memory, how far it is, and a piece that was read and is not handed in yet.
struct Coming {
    gather: Gather,
    behind: Vec<u8>,
    piece: Option<(Vec<(keyspace::Bytes, keyspace::Bytes)>, bool)>,
}

/// What happened how often, so that a test that tests nothing is noticed.
#[derive(Debug, Default)]
struct Seen {
    checkpoints: usize,
    crashes: usize,
    evicted: usize,
    came: usize,
}

struct World {
    settings: Settings,
    tables: support::Shared,
    ours: Peer,
    model: Peer,
    random: Random,
    /// Effects since the last checkpoint, and how many of them are in front of the one that is being taken.
    log: Vec<u8>,
    marked: Option<usize>,
    taken: Vec<keyspace::Taken>,
    coming: VecDeque<Coming>,
    db: usize,
    history: Vec<String>,
    seen: Seen,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let shares = [0, 8 * 2_000, 8 * 40_000];
        let settings = Settings {
            enable_debug_command: Allowed::Yes,
            collection_max_whole_entries: Integer(6),
            list_max_listpack_size: Integer(4),
            maxmemory: Memory(shares.get(random.below(3) as usize).copied().unwrap_or(0)),
            ..Settings::default()
        };
        let tables = support::Shared::default();
        Self {
            ours: Peer::new(&settings, Some(&tables)),
            model: Peer::new(&settings, None),
            settings,
            tables,
            random,
            log: Vec::new(),
            marked: None,
            taken: Vec::new(),
            coming: VecDeque::new(),
            db: 0,
            history: Vec::new(),
            seen: Seen::default(),
        }
    }

    fn number(&mut self, below: u64) -> u64 {
        self.random.below(below)
    }

    fn names(&mut self, names: u64) -> String {
        let count = if self.number(10) == 0 { 80 } else { 1 + self.number(3) };
        (0..count).map(|_| format!(" m{}", self.number(names))).collect()
    }

    fn score(&mut self) -> String {
        match self.number(8) {
            0 | 1 => "0".into(),
            2 => format!("-{}", 1 + self.number(30)),
            _ => format!("{}.5", self.number(100)),
        }
    }

    fn command(&mut self) -> String {
        let kind = self.number(4);
        let key = format!("{}{}", ["h", "s", "z", "l"].get(kind as usize).unwrap(), self.number(2));
        let other = format!("{}{}", ["h", "s", "z", "l"].get(kind as usize).unwrap(), self.number(3));
        let name = self.number(600);
        match self.number(60) {
            0 => return format!("DEL {key}"),
            1 => return format!("RENAME {key} {other}"),
            2 => return format!("COPY {key} {other} REPLACE"),
            3 => return format!("MOVE {key} {}", 1 - self.db),
            4 if self.number(6) == 0 => return "SWAPDB 0 1".into(),
            4 if self.number(6) == 0 => return "FLUSHDB".into(),
            5 => return format!("COPY {key} {other} DB {} REPLACE", 1 - self.db),
            6 => return format!("PERSIST {key}"),
            7 => return format!("PEXPIRE {key} 100000"),
            8 => return format!("TYPE {key}"),
            _ => {}
        }
        match (kind, self.number(12)) {
            (0, 0..5) => {
                let pairs: String =
                    self.names(600).split(' ').skip(1).map(|name| format!(" {name} v{}", self.number(99))).collect();
                format!("HSET {key}{pairs}")
            }
            (0, 5..7) => format!("HDEL {key}{}", self.names(600)),
            (0, 7) => format!("HINCRBY {key} n{} 3", name % 5),
            (0, 8) => format!("HGETALL {key}"),
            (0, 9) => format!("HMGET {key}{}", self.names(600)),
            (0, 10) => format!("HSTRLEN {key} m{name}"),
            (0, _) => format!("HLEN {key}"),
            (1, 0..5) => format!("SADD {key}{}", self.names(600)),
            (1, 5..7) => format!("SREM {key}{}", self.names(600)),
            (1, 7) => format!("SMEMBERS {key}"),
            (1, 8) => format!("SMOVE {key} {other} m{name}"),
            (1, 9) => format!("SINTERCARD 2 {key} {other}"),
            (1, 10) => format!("SUNIONSTORE s2 {key} {other}"),
            (1, _) => format!("SISMEMBER {key} m{name}"),
            (2, 0..5) => {
                let members: String =
                    self.names(2000).split(' ').skip(1).map(|name| format!(" {} {name}", self.score())).collect();
                format!("ZADD {key}{members}")
            }
            (2, 5) => format!("ZREM {key}{}", self.names(2000)),
            (2, 6) => format!("ZINCRBY {key} 2 m{name}"),
            (2, 7) => format!("ZRANK {key} m{name}"),
            (2, 8) => format!("ZRANGE {key} {} {} WITHSCORES", name, name + 9),
            (2, 9) => format!("ZPOPMIN {key} {}", name % 9),
            (2, 10) => format!("ZREMRANGEBYRANK {key} {} {}", name, name + 30),
            (2, _) => format!("ZRANGE {key} -50 (40 BYSCORE REV LIMIT 2 9").replace("-50 (40", "(40 -50"),
            (_, 0..3) => format!("RPUSH {key}{}", self.names(600)),
            (_, 3) => format!("LPUSH {key}{}", self.names(600)),
            (_, 4) => format!("LPOP {key} {}", name % 9),
            (_, 5) => format!("RPOP {key}"),
            (_, 6) => format!("LSET {key} {} x{name}", name % 40),
            (_, 7) => format!("LINSERT {key} BEFORE m{} y{name}", name % 60),
            (_, 8) => format!("LREM {key} {} m{}", self.number(3), name % 60),
            (_, 9) => format!("LRANGE {key} {} {}", name, name + 20),
            (_, 10) => format!("LMOVE {key} {other} LEFT RIGHT"),
            _ => format!("LINDEX {key} {}", name % 90),
        }
    }

    /// Runs a command on both.
    fn both(&mut self, command: &str) {
        self.history.push(command.to_owned());
        let mut ours = self.ours.ask(command, Some(&self.tables));
        let mut expected = self.model.ask(command, None);
        if command.starts_with("HGETALL") || command.starts_with("SMEMBERS") {
            for reply in [&mut ours, &mut expected] {
                let mut lines: Vec<&str> = reply.lines().collect();
                lines.sort_unstable();
                *reply = lines.join("\n");
            }
        }
        if ours != expected {
            let len = self.history.len();
            let last = self.history.get(len.saturating_sub(120)..).unwrap();
            let same = ours.lines().zip(expected.lines()).take_while(|(ours, expected)| ours == expected).count();
            let from_there = |reply: &str| reply.lines().skip(same).take(9).collect::<Vec<_>>().join(" ");
            let (ours, expected) = (from_there(&ours), from_there(&expected));
            panic!("{command}\nline {same}\nours: {ours}\nexpected: {expected}\n{}", last.join("\n"));
        }
        let effects = self.ours.server.effects();
        self.log.extend_from_slice(effects.bytes());
        effects.clear();
        self.model.server.effects().clear();
    }

    fn begin_checkpoint(&mut self) {
        if self.marked.is_none() {
            self.history.push("# a checkpoint begins".into());
            self.marked = Some(self.log.len());
            self.ours.server.keyspace.begin_checkpoint();
            self.tables.0.mark(self.ours.server.keyspace.layout());
        }
    }

    fn take(&mut self, at_most: usize) {
        let Some(marked) = self.marked else { return };
        let is_done = self.ours.server.keyspace.take(at_most, &mut self.taken);
        self.history.push(format!("# {at_most} are taken"));
        self.tables.0.put(std::mem::take(&mut self.taken));
        if is_done {
            self.history.push("# it is taken".into());
            self.tables.0.write();
            self.log.drain(..marked);
            self.marked = None;
            self.seen.checkpoints += 1;
        }
    }

    /// The process ends and starts again.
    fn crash(&mut self) {
        self.history.push("# a crash".into());
        self.seen.crashes += 1;
        self.tables = self.tables.0.crash();
        self.ours = Peer::new(&self.settings, Some(&self.tables));
        self.marked = None;
        self.taken.clear();
        self.coming.clear();
        let mut session = Session::new(SessionId(0), 0);
        session.internal = true;
        session.replaying = true;
        let mut parser = RequestParser::new();
        let log = self.log.clone();
        let mut rest = log.as_slice();
        while !rest.is_empty()
            && let Progress::Complete { consumed } = parser.parse(rest, &Limits::default()).unwrap()
        {
            let words: Vec<&[u8]> = parser.arguments(rest).iter().collect();
            self.ours.server.replay(&mut session, &words).unwrap();
            rest = rest.get(consumed..).unwrap();
        }
        self.ours.server.effects().clear();
        let select = format!("SELECT {}", self.db);
        self.ours.ask(&select, Some(&self.tables));
    }

    /// Something happens to collections that come into memory.
    fn gather(&mut self) {
        let mut begun = Vec::new();
        self.ours.server.keyspace.take_gatherings(&mut begun);
        self.coming.extend(begun.into_iter().map(|gather| Coming { gather, behind: Vec::new(), piece: None }));
        let Some(mut coming) = self.coming.pop_front() else { return };
        match coming.piece.take() {
            None => {
                let at_most = if self.number(2) == 0 { 1 + self.number(5) } else { 300 } as usize;
                coming.piece = Some(self.tables.0.piece(coming.gather.of, &coming.behind, at_most));
                self.coming.push_back(coming);
            }
            Some((piece, has_more)) => {
                if let Some((last, _)) = piece.last() {
                    coming.behind = last.to_vec();
                }
                let goes_on = self.ours.server.keyspace.gathered(&coming.gather, Some(&piece), !has_more);
                let key = String::from_utf8_lossy(&coming.gather.key);
                self.history.push(format!("# {} of {key} come, more: {goes_on}", piece.len()));
                if goes_on {
                    self.coming.push_back(coming);
                } else if !has_more {
                    self.seen.came += 1;
                }
            }
        }
    }

    fn evict(&mut self) {
        let mut random = Random::new(self.number(1 << 40));
        if self.ours.server.keyspace.evict_clean(&mut random, 3) {
            self.history.push("# something leaves memory".into());
            self.seen.evicted += 1;
        }
    }

    /// All that the collections have, whatever their order in memory.
    fn compare(&mut self) {
        for db in [1 - self.db, self.db] {
            self.both(&format!("SELECT {db}"));
            for key in ["h0", "h1", "h2", "s0", "s1", "s2", "z0", "z1", "z2", "l0", "l1", "l2"] {
                if key.starts_with('z') {
                    self.both(&format!("ZRANGE {key} 0 -1 WITHSCORES"));
                }
                self.both(&format!("DEBUG DIGEST-VALUE {key}"));
                self.both(&format!("PEXPIRETIME {key}"));
            }
            for key in ["z0", "z1", "z2"] {
                for score in [-20, 0, 10, 50, 90] {
                    self.both(&format!("ZCOUNT {key} -inf {score}"));
                }
                self.both(&format!("ZCARD {key}"));
            }
        }
    }

    fn run(&mut self, steps: usize) {
        for step in 0..steps {
            match self.number(100) {
                0..2 => self.begin_checkpoint(),
                2..20 => {
                    let at_most = if self.number(3) == 0 { 300 } else { 1 + self.number(20) };
                    self.take(at_most as usize);
                }
                20..40 => self.gather(),
                40..43 => self.evict(),
                43 if self.number(6) == 0 => self.crash(),
                44 if self.number(4) == 0 => {
                    self.db = 1 - self.db;
                    let select = format!("SELECT {}", self.db);
                    self.both(&select);
                }
                45 if self.number(3) == 0 => {
                    self.ours.server.tick(NOW);
                }
                _ => {
                    let command = self.command();
                    self.both(&command);
                }
            }
            if step % 1000 == 999 {
                self.compare();
            }
        }
        self.begin_checkpoint();
        while self.marked.is_some() {
            self.take(1000);
        }
        self.begin_checkpoint();
        while self.marked.is_some() {
            self.take(1000);
        }
        self.ours.server.keyspace.forget_clean();
        self.compare();
        self.crash();
        self.compare();
    }
}

#[test]
fn collections_are_what_they_are_in_memory_whatever_their_form() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SEED").unwrap_or(1);
    let mut all = Seen::default();
    for seed in first..first + number("COUNT").unwrap_or(6) {
        eprintln!("SEED={seed}");
        let mut world = World::new(seed);
        world.run(4_000);
        let Seen { checkpoints, crashes, evicted, came } = world.seen;
        all.checkpoints += checkpoints;
        all.crashes += crashes;
        all.evicted += evicted;
        all.came += came;
    }
    let Seen { checkpoints, crashes, evicted, came } = all;
    assert!(checkpoints > 20 && crashes > 5 && evicted > 50 && came > 20, "{all:?}");
}
