//! A shard that follows another one's log, in simulation: crashes of both, restarts, promotions. The follower always has the very state
//! that its master had where its log ends, and what clients were promised to be on a replica is there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod simulated;

use commands::config::Fsync;
use oplog::{Entry, Offset, ReplicationId};
use shard::{
    follow::{FollowError, Piece, Role},
    release::Acknowledged,
};
use simulated::{BEGIN, Disks, Machine, Turn, check, grammar::Generator, some_time};

const TURNS: usize = 60;
const FSYNC: Fsync = Fsync::Always;

/// A master and a follower, each with the disks that it lies on.
struct Pair {
    master: Machine,
    follower: Machine,
    seed: u64,
    /// Whether replies of the master wait for the follower.
    is_promised: bool,
    /// All turns of the master's lives that a crash has not taken back.
    turns: Vec<Turn>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut master = Machine::start(Disks::new(), seed, BEGIN, FSYNC);
        let mut follower = Machine::start(Disks::new(), seed ^ 0xf0, BEGIN, FSYNC);
        follower.shard.follow(BEGIN).unwrap();
        let history = master.persistence().replication_id();
        follower.shard.adopt_history(history, Offset(0), BEGIN).unwrap();
        let is_promised = seed % 2 == 1;
        master.persistence().wait_for_replicas(usize::from(is_promised), 0);
        master.persistence().set_acknowledged(acknowledged(is_promised, Offset(0)));
        master.settle();
        let turns = master.turns.clone();
        Self { master, follower, seed, is_promised, turns }
    }

    /// Hands the follower some of what is durable on its master.
    fn ship(&mut self, pieces_max: usize) {
        let (from, durable) = (self.follower.end(), self.master.durable());
        let log = self.master.persistence().log();
        let mut reader = log.read(from).unwrap();
        for _ in 0..pieces_max {
            let Some(entry) = reader.next().unwrap().filter(|entry| entry.end() <= durable) else { break };
            let entry = Entry { ..entry };
            let history = self.follower.shard.persistence().unwrap().replication_id();
            self.follower.shard.apply(&Piece { history, entry }).unwrap();
        }
    }

    /// A turn of both.
    fn turn(&mut self, generator: &mut Generator) {
        let by = some_time(&mut generator.random);
        self.master.begin_turn(by);
        self.master.run_some(generator);
        self.master.end_turn();
        self.turns.push(self.master.turns.last().cloned().unwrap());
        self.master.work(generator.random.one_in(4));
        self.follower.begin_turn(by);
        let pieces = if generator.random.one_in(2) { 0 } else { generator.random.below(4) };
        self.ship(pieces);
        self.follower.end_turn();
        self.follower.work(generator.random.one_in(4));
        let durable = self.follower.durable();
        self.master.persistence().set_acknowledged(acknowledged(self.is_promised, durable));
        self.master.begin_turn(0);
        if self.is_promised {
            let acknowledged = self.master.acknowledged();
            assert!(acknowledged <= Some(durable), "seed {}: {acknowledged:?} is answered, {durable} there", self.seed);
        }
        self.compare();
    }

    /// The follower has the state that its master had where its log ends.
    fn compare(&mut self) {
        let (end, seed) = (self.follower.end(), self.seed);
        let Some(turn) = self.turns.iter().rev().find(|turn| turn.end == end) else {
            assert_eq!(end, Offset(0), "seed {seed}: no turn of the master ended at {end}");
            return;
        };
        // What has expired since on the follower is not shown, and not gone: both are looked at as of then.
        let expected = turn.state.clone();
        let now = turn.now;
        let found = self.follower.state_at(now);
        if found != expected {
            let differs = found.lines().zip(expected.lines()).find(|(left, right)| left != right);
            panic!("seed {seed}, at {end}: follower and master differ: {differs:#?}");
        }
    }

    /// The follower goes on from what a crash has left of it.
    fn crash_follower(&mut self) {
        let (acknowledged, now) = (self.follower.durable(), self.follower.now());
        let steps = self.follower.disks.log.steps();
        let (image, _, how) = self.follower.crash_somewhere(steps);
        self.follower = Machine::start(image, self.seed ^ 0xf0, now, FSYNC);
        let (_, offset) = self.follower.shard.follow(now).unwrap();
        assert!(offset >= acknowledged, "{how}: {offset} is left, and {acknowledged} was acknowledged");
        self.compare();
    }

    /// The master goes on from what a crash has left of it.
    fn crash_master(&mut self) {
        let (durable, now, steps) = (self.master.durable(), self.master.now(), self.master.disks.log.steps());
        let (image, _, how) = self.master.crash_somewhere(steps);
        self.master = Machine::start(image, self.seed, now, FSYNC);
        let durable_there = self.follower.durable();
        self.master.persistence().wait_for_replicas(usize::from(self.is_promised), 0);
        let acknowledged = acknowledged(self.is_promised, durable_there);
        self.master.persistence().set_acknowledged(acknowledged);
        let end = self.master.end();
        assert!(end >= durable, "{how}");
        self.turns.retain(|turn| turn.end <= end);
        self.master.settle();
        self.turns.append(&mut self.master.turns.clone());
    }
}

/// A follower has the log up to an offset, which counts if clients were promised that.
fn acknowledged(is_promised: bool, offset: Offset) -> Vec<Acknowledged> {
    is_promised.then_some(Acknowledged { replicas: 1, offset }).into_iter().collect()
}

fn history(number: u8) -> ReplicationId {
    ReplicationId::from_random([number; 20])
}

fn simulate(seed: u64) {
    let mut generator = Generator::new(seed);
    let mut pair = Pair::new(seed);
    for _ in 0..TURNS {
        pair.turn(&mut generator);
        if generator.random.one_in(12) {
            pair.crash_follower();
        }
        if generator.random.one_in(15) {
            pair.crash_master();
        }
    }
    while pair.follower.end() < pair.master.durable() {
        pair.ship(usize::MAX);
        pair.follower.end_turn();
    }
    pair.compare();
    // The master is lost, and the follower crashes: what is left serves, and has all that clients had replies of.
    for _ in 0..10 {
        pair.turn(&mut generator);
    }
    let promised = pair.master.acknowledged().filter(|_| pair.is_promised);
    pair.crash_follower();
    let Pair { mut follower, .. } = pair;
    assert!(Some(follower.end()) >= promised, "seed {seed}: {promised:?} was promised, {} is there", follower.end());
    let (now, end) = (follower.now(), follower.end());
    follower.shard.promote(history(9), now).unwrap();
    assert!(matches!(follower.shard.role(), Role::Master));
    assert_eq!(follower.persistence().histories().last(), Some(&(history(9), end)), "seed {seed}");
    // It is a shard like any other from now on.
    follower.settle();
    let begun = follower.disks.log.steps();
    follower.live(&mut generator, TURNS / 2);
    let (image, steps, how) = follower.crash_somewhere(begun);
    let told = format!("seed {seed}, promoted: {how}");
    let mut again = check(image, (&follower.turns, steps), seed ^ 0xf0, FSYNC, &told);
    assert_eq!(again.persistence().replication_id(), history(9));
}

#[test]
fn a_follower_has_its_masters_state_whatever_crashes() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SEED").unwrap_or(1);
    for seed in first..first + number("COUNT").unwrap_or(2) {
        simulate(seed);
    }
}

/// What a piece would have changed must not be there.
fn refused(follower: &mut Machine, piece: &Piece<'_>) -> FollowError {
    let (state, end) = (follower.state(), follower.end());
    let error = follower.shard.apply(piece).unwrap_err();
    assert_eq!((follower.state(), follower.end()), (state, end), "{error}");
    error
}

fn encoded(commands: &[&[&str]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|words| resp::encode_command(&mut bytes, words));
    bytes
}

#[test]
fn a_piece_is_applied_whole_or_not_at_all() {
    let mut follower = Machine::start(Disks::new(), 1, BEGIN, FSYNC);
    let id = follower.persistence().replication_id();
    fn piece_of(history: ReplicationId, offset: u64, commands: &[u8]) -> Piece<'_> {
        Piece { history, entry: Entry { offset: Offset(offset), time_ms: 1, commands } }
    }
    let first = encoded(&[&["SELECT", "0"], &["SET", "a", "1"]]);
    assert!(matches!(refused(&mut follower, &piece_of(id, 0, &first)), FollowError::NotFollowing));
    follower.shard.follow(BEGIN).unwrap();
    follower.shard.apply(&piece_of(id, 0, &first)).unwrap();
    let end = first.len() as u64;
    assert_eq!(follower.end(), Offset(end));
    // Once more it changes nothing.
    follower.shard.apply(&piece_of(id, 0, &first)).unwrap();
    assert_eq!(follower.run(&["GET", "a"]), b"$1\r\n1\r\n");

    let more = encoded(&[&["SELECT", "0"], &["INCR", "a"], &["SET", "b", "2"]]);
    assert!(matches!(refused(&mut follower, &piece_of(id, end + 1, &more)), FollowError::Gap { .. }));
    let other = Piece { history: history(3), ..piece_of(id, end, &more) };
    assert!(matches!(refused(&mut follower, &other), FollowError::OtherHistory { .. }));
    for cut in 1..more.len() {
        if !more[cut..].starts_with(b"*") {
            assert!(
                matches!(refused(&mut follower, &piece_of(id, end, &more[..cut])), FollowError::Damaged { .. }),
                "{cut}"
            );
        }
    }
    for open in [
        encoded(&[&["SELECT", "0"], &["MULTI"], &["INCR", "a"]]),
        encoded(&[&["SELECT", "0"], &["INCR", "a"], &["EXEC"]]),
        encoded(&[&["MULTI"], &["MULTI"], &["INCR", "a"], &["EXEC"]]),
        encoded(&[&["SELECT", "0"], &["INCR", "a"], &["SHUTDOWN", "NOSAVE"]]),
        encoded(&[&["INCR", "a"], &["CONFIG", "SET", "appendfsync", "no"]]),
        encoded(&[&["INCR", "a"], &["BLPOP", "none", "0"]]),
        encoded(&[&["INCR", "a"], &["EVAL", "while true do end", "0"]]),
        encoded(&[&["INCR", "a"], &["DISCARD"]]),
        encoded(&[&["INCR", "a"], &["NOSUCH"]]),
    ] {
        assert!(matches!(refused(&mut follower, &piece_of(id, end, &open)), FollowError::Damaged { .. }));
    }
    let whole = encoded(&[&["MULTI"], &["SELECT", "0"], &["INCR", "a"], &["SET", "b", "2"], &["EXEC"]]);
    follower.shard.apply(&piece_of(id, end, &whole)).unwrap();
    assert_eq!(follower.run(&["MGET", "a", "b"]), b"*2\r\n$1\r\n2\r\n$1\r\n2\r\n");
}

#[test]
fn nothing_changes_on_a_follower_but_by_its_masters_log() {
    let mut follower = Machine::start(Disks::new(), 1, BEGIN, FSYNC);
    let id = follower.persistence().replication_id();
    follower.shard.follow(BEGIN).unwrap();
    let at = (BEGIN + 500).to_string();
    let first = encoded(&[&["SELECT", "0"], &["SET", "a", "1", "PXAT", &at], &["SET", "b", "2"]]);
    let entry = Entry { offset: Offset(0), time_ms: 1, commands: &first };
    follower.shard.apply(&Piece { history: id, entry }).unwrap();
    follower.begin_turn(0);
    follower.end_turn();
    assert!(follower.run(&["SET", "b", "3"]).starts_with(b"-READONLY"));
    assert!(follower.run(&["EVAL", "return redis.call('set', 'b', '3')", "0"]).starts_with(b"-"));
    assert_eq!(follower.run(&["GET", "a"]), b"$1\r\n1\r\n");
    // Its time comes: it is not shown, and stays until the master says that it is gone.
    follower.begin_turn(1_000);
    assert_eq!(follower.run(&["GET", "a"]), b"$-1\r\n");
    follower.end_turn();
    let end = follower.end();
    assert_eq!((end.0, follower.run(&["DBSIZE"])), (first.len() as u64, b":2\r\n".to_vec()));
    let second = encoded(&[&["SELECT", "0"], &["DEL", "a"]]);
    follower.shard.apply(&Piece { history: id, entry: Entry { offset: end, time_ms: 2, commands: &second } }).unwrap();
    assert_eq!(follower.run(&["DBSIZE"]), b":1\r\n");
    // Clients write again after a promotion, and keys expire.
    let now = follower.now();
    follower.shard.promote(history(5), now).unwrap();
    assert_eq!(follower.run(&["SET", "b", "3", "PX", "10"]), b"+OK\r\n");
    follower.end_turn();
    follower.begin_turn(1_000);
    follower.end_turn();
    assert_eq!(follower.run(&["DBSIZE"]), b":0\r\n");
    assert!(follower.shard.promote(history(6), now).is_err());
}
