//! A shard without sockets, threads or clock: random commands from a seed, a log on a disk in memory, and crashes at its
//! writes and syncs. Whatever is left makes the very state that the shard had after some turn, and no turn that was synced is
//! lost. Nothing here depends on anything but the seed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "model/grammar.rs"]
#[allow(dead_code, reason = "how replies are compared is of no use here")]
mod grammar;
#[path = "model/random.rs"]
mod random;

use std::{path::Path, rc::Rc};

use commands::{
    Millis, Server, Session, SessionId,
    config::{Allowed, Settings},
};
use grammar::Generator;
use oplog::{
    Log, Offset, Options, ReplicationId,
    disk::{Crash, MemoryDisk},
};
use random::Random;
use resp::{Limits, Progress, RequestParser};

const FOLDER: &str = "/log";
const BEGIN: Millis = 1_700_000_000_000;
/// How often a shard is crashed and goes on from what was left.
const LIVES: usize = 4;
const TURNS: usize = 40;
/// Turns of the life that is crashed at every step.
const TURNS_EVERYWHERE: usize = 12;
const SEED_EVERYWHERE: u64 = 11;
/// Crashes that are looked at in each life.
const CRASHES: usize = 6;

fn options() -> Options {
    Options { segment_len: 40_000, ..Options::new(ReplicationId::from_random([7; 20]), 5) }
}

/// A server with a client.
struct Shard {
    server: Server,
    client: SessionId,
}

impl Shard {
    fn new(seed: u64, now: Millis) -> Self {
        let settings = Settings { enable_debug_command: Allowed::Yes, ..Settings::default() };
        let mut server = Server::new(settings, seed, seed, now, None, Rc::new(|| 0));
        let client = server.connect(String::new(), String::new(), now);
        Self { server, client }
    }

    fn run<W: AsRef<[u8]>>(&mut self, words: &[W], now: Millis) -> Vec<u8> {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, words);
        self.server.input(self.client).unwrap().extend_from_slice(&bytes);
        self.server.run(self.client, now);
        std::mem::take(self.server.output(self.client).unwrap().0)
    }

    /// All that the log has to make again.
    fn state(&mut self, now: Millis) -> String {
        let mut state = String::from_utf8_lossy(&self.run(&["DEBUG", "DIGEST"], now)).into_owned();
        for db in 0..3 {
            self.run(&["SELECT", &db.to_string()], now);
            for key in self.keys(now) {
                let key = key.as_slice();
                for words in [
                    &[b"TYPE".as_slice(), key][..],
                    &[b"PEXPIRETIME", key],
                    &[b"XRANGE", key, b"-", b"+"],
                    &[b"XINFO", b"GROUPS", key],
                ] {
                    let reply = self.run(words, now);
                    if !reply.starts_with(b"-") {
                        let name = key.get(..40).unwrap_or(key).escape_ascii();
                        state += &format!("{db} {name} {}\n", reply.escape_ascii());
                    }
                }
            }
        }
        self.run(&["SELECT", "0"], now);
        assert!(self.server.effects().is_empty(), "looking at it changes nothing");
        state
    }

    fn keys(&mut self, now: Millis) -> Vec<Vec<u8>> {
        let reply = self.run(&["KEYS", "*"], now);
        // An array of bulk strings has the form of a request.
        let mut parser = RequestParser::new();
        let mut keys: Vec<Vec<u8>> = match parser.parse(&reply, &Limits::default()).unwrap() {
            Progress::Complete { .. } => parser.arguments(&reply).iter().map(<[u8]>::to_vec).collect(),
            _ => Vec::new(),
        };
        keys.sort();
        keys
    }

    /// Runs a log from its beginning.
    fn replay(&mut self, log: &Log<MemoryDisk>) {
        let mut session = Session::new(SessionId(0), 0);
        session.internal = true;
        session.replaying = true;
        let mut reader = log.read(Offset(0)).unwrap();
        let mut parser = RequestParser::new();
        while let Some(entry) = reader.next().unwrap() {
            let mut rest = entry.commands;
            while let Progress::Complete { consumed } = parser.parse(rest, &Limits::default()).unwrap() {
                let words: Vec<&[u8]> = parser.arguments(rest).iter().collect();
                if let Err(error) = self.server.replay(&mut session, &words) {
                    let words: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
                    panic!("{error}: {}", words.join(" "));
                }
                rest = &rest[consumed..];
                if rest.is_empty() {
                    break;
                }
            }
        }
    }
}

/// What was so after a turn.
struct Turn {
    /// Where the log ended.
    end: Offset,
    state: String,
    now: Millis,
    /// Steps of the disk when its end was synced; none while it is not.
    synced_at: Option<usize>,
}

/// What is due is done, and what took effect goes to the log.
fn commit(shard: &mut Shard, log: &mut Log<MemoryDisk>, now: Millis) {
    shard.server.tick(now);
    let effects = shard.server.effects();
    if !effects.is_empty() {
        log.append(effects.bytes(), now.unsigned_abs()).unwrap();
        effects.clear();
    }
    log.write().unwrap();
}

/// Runs a life on a disk, and returns what crashes could find.
fn live(
    shard: &mut Shard,
    disk: &MemoryDisk,
    generator: &mut Generator,
    now: &mut Millis,
    turns_max: usize,
) -> Vec<Turn> {
    let (mut log, _) = Log::open(disk.clone(), Path::new(FOLDER), options(), now.unsigned_abs()).unwrap();
    let mut syncer = log.syncer();
    // What was found is there for good, and what was due by now has gone.
    commit(shard, &mut log, *now);
    syncer.sync().unwrap();
    let state = shard.state(*now);
    let mut turns = vec![Turn { end: log.end(), state, now: *now, synced_at: Some(disk.steps()) }];
    for _ in 0..turns_max {
        *now += match generator.random.below(20) {
            0 => 2_000_000,
            1..4 => 700,
            _ => generator.random.below(3) as Millis,
        };
        for _ in 0..1 + generator.random.below(6) {
            let (_, mut words) = generator.command();
            // The clock does not go on for clients that wait; those that write more than the rest are of no interest.
            if words[0].starts_with(b"BL") || words[0].starts_with(b"BR") || words[0].starts_with(b"BZ") {
                continue;
            }
            if generator.random.one_in(15) {
                words = vec![b"SPOP".to_vec(), format!("e{}", generator.random.below(6)).into_bytes(), b"2".to_vec()];
            }
            if generator.random.one_in(10) {
                words =
                    vec![b"PEXPIRE".to_vec(), format!("s{}", generator.random.below(6)).into_bytes(), b"900".to_vec()];
            }
            let transaction = generator.random.one_in(8);
            if transaction {
                shard.run(&["MULTI"], *now);
            }
            shard.run(&words, *now);
            if transaction {
                shard.run(&["INCR", "s0"], *now);
                shard.run(&["EXEC"], *now);
            }
        }
        commit(shard, &mut log, *now);
        turns.push(Turn { end: log.end(), state: shard.state(*now), now: *now, synced_at: None });
        if generator.random.one_in(3) {
            syncer.sync().unwrap();
            let steps = disk.steps();
            turns.iter_mut().for_each(|turn| turn.synced_at = turn.synced_at.or(Some(steps)));
        }
    }
    turns
}

/// What is left after a crash is the state after some turn, and not before the last one that was synced.
fn check(left: &MemoryDisk, turns: &[Turn], steps: usize, seed: u64, told: &str) -> (Shard, Millis) {
    let opened = Log::open(left.clone(), Path::new(FOLDER), options(), 1);
    let (log, _) = opened.unwrap_or_else(|error| panic!("{told}: {error}"));
    // Turns without effects end where the one before them did; keys may have expired in between, of which the log says so.
    let turn = turns.iter().find(|turn| turn.end == log.end());
    let turn = turn.unwrap_or_else(|| panic!("{told}: no turn ended at {}", log.end()));
    let safe = turns.iter().filter(|turn| turn.synced_at.is_some_and(|at| at <= steps)).map(|turn| turn.end).max();
    assert!(Some(log.end()) >= safe, "{told}: the log ends at {}, but {safe:?} was synced", log.end());
    let mut shard = Shard::new(seed, turn.now);
    shard.replay(&log);
    let state = shard.state(turn.now);
    if state != turn.state {
        let differs = state.lines().zip(turn.state.lines()).find(|(left, right)| left != right);
        panic!("{told}: replayed and original differ: {differs:#?}");
    }
    (shard, turn.now)
}

fn simulate(seed: u64) {
    let mut generator = Generator::new(seed);
    let mut random = Random(seed ^ 0xc4a5);
    let mut disk = MemoryDisk::new();
    let mut now = BEGIN;
    let mut shard = Shard::new(seed, now);
    for life in 0..LIVES {
        let turns = live(&mut shard, &disk, &mut generator, &mut now, TURNS);
        let begun = turns[0].synced_at.unwrap();
        let mut left = None;
        for crash in 0..CRASHES {
            let steps = begun + random.below(disk.steps() - begun + 1);
            let kind = match random.below(4) {
                0 => Crash::Process,
                1 => Crash::Nothing,
                2 => Crash::Torn(random.below(disk.write_len(steps).max(1))),
                _ => Crash::Some(random.next()),
            };
            let told = format!("seed {seed}, life {life}, crash {crash} after {steps} steps, {kind:?}");
            let image = disk.crash(steps, kind);
            let (again, at) = check(&image.copy(), &turns, steps, seed, &told);
            left = Some((image, again, at));
        }
        if let Some((image, again, at)) = left {
            (disk, shard, now) = (image, again, now.max(at));
        }
    }
}

/// A crash at each step of the disk, and of each kind: all that is left by them is the state after a turn.
fn crash_everywhere(seed: u64) {
    let disk = MemoryDisk::new();
    let mut now = BEGIN;
    let turns = live(&mut Shard::new(seed, now), &disk, &mut Generator::new(seed), &mut now, TURNS_EVERYWHERE);
    for steps in turns[0].synced_at.unwrap()..=disk.steps() {
        let len = disk.write_len(steps);
        let mut kinds = vec![Crash::Process, Crash::Nothing, Crash::Some(seed), Crash::Some(seed ^ steps as u64)];
        kinds.extend([0, 1, len / 2, len.saturating_sub(1)].map(Crash::Torn));
        kinds.dedup();
        for kind in kinds {
            let told = format!("seed {seed}, crash after {steps} steps, {kind:?}");
            check(&disk.crash(steps, kind), &turns, steps, seed, &told);
        }
    }
}

#[test]
fn a_crash_at_every_step_leaves_the_state_after_a_turn() {
    crash_everywhere(SEED_EVERYWHERE);
}

#[test]
fn what_a_crash_leaves_is_the_state_after_a_turn() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SEED").unwrap_or(1);
    for seed in first..first + number("COUNT").unwrap_or(1) {
        simulate(seed);
    }
}
