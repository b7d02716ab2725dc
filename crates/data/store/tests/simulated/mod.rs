//! A shard in a simulated world: the code that serves, on a disk and tables in memory, with workers that do their jobs when a seed says
//! so. Nothing here depends on anything but the seed.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

#[path = "../model/grammar.rs"]
pub mod grammar;
mod queues;
#[path = "../model/random.rs"]
pub mod random;

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use commands::{
    SessionId,
    config::{Allowed, Fsync, Settings},
};
use engine::{Engine, FjallEngine, FjallOptions, MemoryEngine};
use grammar::Generator;
use keyspace::Millis;
use oplog::{
    Log, Offset, Options, ReplicationId,
    disk::{Crash, MemoryDisk},
};
use random::Random;
use resp::{Limits, Progress, RequestParser};
use shard::{
    Opened, Persistence, ShardOptions, World as _, applied_of_log,
    simulated::{AmpleMemory, SimulatedWorkers, SimulatedWorld},
};

pub const BEGIN: Millis = 1_700_000_000_000;
const FOLDER: &str = "/log";
/// How often what a command waits for is read before it is said that it is never answered.
const LOADS_MAX: usize = 1_000;
/// What tables in a folder may take of memory: little, so that they become many files.
const TABLES_BYTES: u64 = 8 << 20;

pub type Shard = shard::Shard<MemoryDisk, SimulatedWorkers<MemoryDisk>>;

/// What lies on the disks of a machine.
#[derive(Clone)]
pub struct Disks {
    pub log: MemoryDisk,
    pub tables: TablesHome,
}

/// Where tables lie.
#[derive(Clone)]
pub enum TablesHome {
    /// In memory, with all that a crash may leave of them.
    Memory(Arc<MemoryEngine>),
    /// In a folder, in the engine that serves. A crash leaves what it has synced.
    Folder(PathBuf),
}

impl TablesHome {
    fn open(&self) -> Arc<dyn Engine> {
        match self {
            Self::Memory(engine) => Arc::clone(engine) as Arc<dyn Engine>,
            Self::Folder(folder) => {
                let options = FjallOptions { memory_bytes_max: TABLES_BYTES, ..FjallOptions::default() };
                Arc::new(FjallEngine::open(folder, &options).unwrap())
            }
        }
    }

    /// What a crash leaves: all that was synced, and so many of the batches that were written since.
    fn crash(&self, unsynced: usize) -> Self {
        match self {
            Self::Memory(engine) => Self::Memory(Arc::new(engine.crash(unsynced))),
            Self::Folder(folder) => Self::Folder(folder.clone()),
        }
    }

    fn unsynced(&self) -> usize {
        match self {
            Self::Memory(engine) => engine.unsynced(),
            Self::Folder(_) => 0,
        }
    }
}

impl Disks {
    pub fn new() -> Self {
        Self { log: MemoryDisk::new(), tables: TablesHome::Memory(Arc::new(MemoryEngine::with_crash_images())) }
    }

    /// With tables in a folder.
    pub fn with_tables_in(folder: &Path) -> Self {
        Self { log: MemoryDisk::new(), tables: TablesHome::Folder(folder.to_owned()) }
    }

    /// The same again: what is done to it changes nothing here.
    pub fn copy(&self) -> Self {
        Self { log: self.log.copy(), tables: self.tables.crash(usize::MAX) }
    }
}

/// What was so after a turn.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Where the log ended.
    pub end: Offset,
    pub state: String,
    pub now: Millis,
    /// Steps of the disk when clients knew what was done in it; none while they do not.
    pub acknowledged_at: Option<usize>,
    /// Steps of the disk when its end was synced; none while it is not.
    pub synced_at: Option<usize>,
}

/// A shard with a client, and what crashes could find.
pub struct Machine {
    pub shard: Shard,
    pub disks: Disks,
    pub world: Rc<SimulatedWorld>,
    client: SessionId,
    pub turns: Vec<Turn>,
    /// What a crash may leave of the tables, from a number of steps of the disk on.
    tables_left: Vec<(usize, TablesHome)>,
    /// Whether keys leave memory. A slot that has all its keys there behaves otherwise than one that has not.
    forgets: bool,
    random: Random,
    pub queues: queues::Queues,
}

fn options(id: u8) -> Options {
    Options { segment_len: 40_000, ..Options::new(ReplicationId::from_random([id; 20]), 5) }
}

impl Machine {
    /// One that goes on from what is on its disks.
    pub fn start(disks: Disks, seed: u64, now: Millis, fsync: Fsync) -> Self {
        let world = SimulatedWorld::new(now);
        let mut random = Random(seed ^ disks.log.steps() as u64);
        let mut settings = Settings { enable_debug_command: Allowed::Yes, appendfsync: fsync, ..Settings::default() };
        // In half of the lives nearly every collection goes by element.
        settings.collection_max_whole_entries.0 = *random.pick(&[3, 8192]);
        let engine = disks.tables.open();
        let opened = Log::open(disks.log.clone(), Path::new(FOLDER), options(7), now.unsigned_abs());
        let (log, recovered) = opened.unwrap();
        let applied = applied_of_log(&log, &*engine).unwrap();
        let workers = SimulatedWorkers::new(&log, Arc::clone(&engine));
        let opened = Opened { log, last_time_ms: recovered.last_time_ms, applied };
        let around = (workers, Rc::clone(&world) as Rc<dyn shard::World>);
        let persistence = Persistence::new(opened, engine, seed, &settings, around).unwrap();
        let options = ShardOptions {
            settings,
            key_seed: seed,
            seed,
            stopwatch: Rc::new(|| 0),
            memory: Box::new(AmpleMemory),
            world: Rc::clone(&world) as Rc<dyn shard::World>,
        };
        let (mut shard, _) = Shard::recovered(persistence, options).unwrap();
        let client = shard.server.connect(String::new(), String::new(), now);
        let tables_left = vec![(0, disks.tables.crash(0))];
        // Checkpoints take many turns, as those of many keys do.
        world.set_step(Duration::from_micros(*random.pick(&[0, 300, 1_500])));
        shard.persistence_mut().unwrap().set_take_max(*random.pick(&[1, 2, 64]));
        let forgets = random.one_in(2);
        Self {
            shard,
            disks,
            world,
            client,
            turns: Vec::new(),
            tables_left,
            forgets,
            random,
            queues: queues::Queues::default(),
        }
    }

    pub fn now(&self) -> Millis {
        self.world.now()
    }

    pub fn persistence(&mut self) -> &mut Persistence<MemoryDisk, SimulatedWorkers<MemoryDisk>> {
        self.shard.persistence_mut().unwrap()
    }

    pub fn end(&mut self) -> Offset {
        self.persistence().log().end()
    }

    pub fn durable(&mut self) -> Offset {
        self.persistence().log().durable()
    }

    /// The last offset that clients had replies of.
    pub fn acknowledged(&self) -> Option<Offset> {
        self.turns.iter().rev().find(|turn| turn.acknowledged_at.is_some()).map(|turn| turn.end)
    }

    /// Runs a command of the client.
    pub fn run<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        self.run_at(self.now(), words)
    }

    fn run_at<W: AsRef<[u8]>>(&mut self, now: Millis, words: &[W]) -> Vec<u8> {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, words);
        self.shard.server.input(self.client).unwrap().extend_from_slice(&bytes);
        self.shard.run(self.client, now);
        for _ in 0..LOADS_MAX {
            let output = std::mem::take(self.shard.server.output(self.client).unwrap().0);
            if !output.is_empty() {
                return output;
            }
            self.persistence().workers_mut().do_reads_of_commands();
            self.shard.load(now);
            // What makes some steps a turn makes all of them in this one.
            self.shard.server.finish_tasks();
        }
        let told: Vec<String> = words.iter().map(|word| word.as_ref().escape_ascii().to_string()).collect();
        panic!("it is not answered: {told:?}")
    }

    /// Runs some commands at random.
    pub fn run_some(&mut self, generator: &mut Generator) {
        for _ in 0..1 + generator.random.below(6) {
            let (_, mut words) = generator.command();
            // The clock does not go on for clients that wait; those that write more than the rest are of no interest.
            if words[0].starts_with(b"BL") || words[0].starts_with(b"BR") || words[0].starts_with(b"BZ") {
                continue;
            }
            if generator.random.one_in(15) {
                words = vec![b"SPOP".to_vec(), format!("e{}", generator.random.below(6)).into_bytes(), b"2".to_vec()];
            }
            if generator.random.one_in(8) {
                // The same few are gone and there again all the time.
                let key = format!("s{{t0}}{}", generator.random.below(6)).into_bytes();
                words = if generator.random.one_in(2) {
                    vec![b"DEL".to_vec(), key]
                } else {
                    vec![b"SET".to_vec(), key, generator.random.next().to_string().into_bytes()]
                };
            }
            if generator.random.one_in(100) {
                const WAYS: &[&[&str]] = &[&["FLUSHDB"], &["FLUSHALL"], &["SWAPDB", "0", "1"], &["SWAPDB", "2", "0"]];
                words = generator.random.pick(WAYS).iter().map(|word| word.as_bytes().to_vec()).collect();
            }
            if generator.random.one_in(10) {
                words =
                    vec![b"PEXPIRE".to_vec(), format!("s{}", generator.random.below(6)).into_bytes(), b"900".to_vec()];
            }
            if generator.random.one_in(3) {
                words = self.queues.command(&mut generator.random);
            }
            let transaction = generator.random.one_in(8);
            if transaction {
                self.run(&["MULTI"]);
            }
            let reply = self.run(&words);
            self.queues.note(&reply);
            if transaction {
                self.run(&["INCR", "s0"]);
                self.run(&["EXEC"]);
            }
        }
    }

    /// Memory seems short now and then: a checkpoint begins, and some or all of what the tables have leaves memory.
    fn press(&mut self, random: &mut Random) {
        if random.one_in(6) {
            self.persistence().press();
        }
        if !self.forgets {
            return;
        }
        let keyspace = &mut self.shard.server.keyspace;
        if random.one_in(20) {
            keyspace.forget_clean();
        }
        if random.one_in(3) {
            keyspace.evict_clean(&mut keyspace::random::Random::new(random.next()), 5);
        }
    }

    /// Time goes on, and a turn begins: replies go out that have waited for long enough.
    pub fn begin_turn(&mut self, by: Millis) {
        self.world.advance(Duration::from_millis(by.unsigned_abs()));
        let now = self.now();
        self.shard.begin_turn(now);
        self.note_acknowledged();
    }

    fn note_acknowledged(&mut self) {
        let released = self.shard.take_released();
        self.shard.note_released(released.len());
        let (safe, durable, steps) = (self.persistence().safe(), self.durable(), self.disks.log.steps());
        for turn in &mut self.turns {
            if turn.end <= safe {
                turn.acknowledged_at = turn.acknowledged_at.or(Some(steps));
            }
            if turn.end <= durable {
                turn.synced_at = turn.synced_at.or(Some(steps));
            }
        }
    }

    /// Some of what workers were asked for is done.
    pub fn work(&mut self, syncs: bool) {
        for _ in 0..self.random.below(3) {
            let is_done = self.persistence().workers_mut().do_job();
            if is_done {
                self.keep_tables();
            }
        }
        let (reads, prepares) = (self.random.below(30), self.random.one_in(4));
        let workers = self.persistence().workers_mut();
        for _ in 0..reads {
            workers.do_read();
        }
        if prepares {
            workers.do_maintenance();
        }
        workers.do_sync();
        if syncs {
            workers.sync_now();
        }
    }

    /// A crash from now on may leave the tables as they are now: what was synced, and some of what was written since.
    fn keep_tables(&mut self) {
        let unsynced = self.disks.tables.unsynced();
        let left = self.disks.tables.crash(self.random.below(unsynced + 1));
        self.tables_left.push((self.disks.log.steps(), left));
    }

    /// Ends a turn, and notes what is so then.
    pub fn end_turn(&mut self) {
        let now = self.now();
        if self.shard.is_tick(now) {
            self.shard.tick(now);
        }
        self.look_at_keys();
        self.shard.plan_tick(now);
        while self.shard.poll_request().is_some() {}
        self.shard.fulfil_requests(now).unwrap();
        let turn_end = self.shard.end_turn(now, true).unwrap();
        if let Some(offset) = turn_end.wait_for {
            self.shard.hold_ready(offset);
        }
        self.shard.ready.clear();
        let never_taken = self.shard.server.keyspace.never_taken();
        assert!(never_taken.is_none(), "no checkpoint will take {never_taken:?}, which has changed");
        let (end, state) = (self.end(), self.state());
        self.turns.push(Turn { end, state, now, acknowledged_at: None, synced_at: None });
    }

    /// What was found is there for good, and what was due by now has gone.
    pub fn settle(&mut self) {
        self.begin_turn(0);
        // The first segment of the log has a frame, which is not one that is too long for it.
        self.run(&["SET", "first", "1"]);
        self.end_turn();
        self.turns.clear();
        self.end_turn();
        self.persistence().workers_mut().sync_now();
        self.begin_turn(0);
    }

    /// Turns of a life.
    pub fn live(&mut self, generator: &mut Generator, turns_max: usize) {
        for _ in 0..turns_max {
            self.begin_turn(some_time(&mut generator.random));
            self.run_some(generator);
            self.press(&mut generator.random);
            let syncs = generator.random.one_in(3);
            self.end_turn();
            self.work(syncs);
            self.note_acknowledged();
        }
    }

    /// Has keys go whose time has come and that are not in memory: looking at them later would be a change.
    fn look_at_keys(&mut self) {
        // It comes to keys that others do not show any more, too.
        self.run(&["DEBUG", "DIGEST"]);
        for db in 0..3 {
            self.run(&["SELECT", &db.to_string()]);
            for key in self.keys(self.now()) {
                self.run(&[b"EXISTS".as_slice(), &key]);
            }
        }
        self.run(&["SELECT", "0"]);
    }

    /// All that the log has to make again.
    pub fn state(&mut self) -> String {
        self.state_at(self.now())
    }

    /// The same as of a time.
    pub fn state_at(&mut self, now: Millis) -> String {
        let mut state = String::from_utf8_lossy(&self.run_at(now, &["DEBUG", "DIGEST"])).into_owned();
        for db in 0..3 {
            self.run_at(now, &["SELECT", &db.to_string()]);
            for key in self.keys(now) {
                let key = key.as_slice();
                for words in [
                    &[b"TYPE".as_slice(), key][..],
                    &[b"PEXPIRETIME", key],
                    &[b"XRANGE", key, b"-", b"+"],
                    &[b"XINFO", b"GROUPS", key],
                    &[b"QUEUE", b"STAT", key],
                    &[b"QUEUE", b"PEEK", key, b"STATE", b"all", b"COUNT", b"1000"],
                ] {
                    let reply = self.run_at(now, words);
                    if !reply.starts_with(b"-") {
                        let name = key.get(..40).unwrap_or(key).escape_ascii();
                        state += &format!("{db} {name} {}\n", reply.escape_ascii());
                    }
                }
            }
        }
        self.run_at(now, &["SELECT", "0"]);
        assert!(self.shard.server.has_no_effects(), "looking at it changes nothing");
        state
    }

    fn keys(&mut self, now: Millis) -> Vec<Vec<u8>> {
        let reply = self.run_at(now, &["KEYS", "*"]);
        // An array of bulk strings has the form of a request.
        let mut parser = RequestParser::new();
        let mut keys: Vec<Vec<u8>> = match parser.parse(&reply, &Limits::default()).unwrap() {
            Progress::Complete { .. } => parser.arguments(&reply).iter().map(<[u8]>::to_vec).collect(),
            _ => Vec::new(),
        };
        keys.sort();
        keys
    }

    /// What a crash leaves after so many steps of the log's disk.
    pub fn crash(&self, steps: usize, crash: Crash) -> Disks {
        let left = self.tables_left.iter().rev().find(|(from, _)| *from <= steps);
        let tables = left.map(|(_, tables)| tables.crash(0)).unwrap();
        Disks { log: self.disks.log.crash(steps, crash), tables }
    }

    /// One of the crashes there may be, from some step on.
    pub fn crash_somewhere(&mut self, from: usize) -> (Disks, usize, String) {
        let steps = from + self.random.below(self.disks.log.steps() - from + 1);
        let crash = match self.random.below(4) {
            0 => Crash::Process,
            1 => Crash::Nothing,
            2 => Crash::Torn(self.random.below(self.disks.log.write_len(steps).max(1))),
            _ => Crash::Some(self.random.next()),
        };
        (self.crash(steps, crash), steps, format!("crash after {steps} steps, {crash:?}"))
    }
}

/// How long it is to the next turn.
pub fn some_time(random: &mut Random) -> Millis {
    match random.below(20) {
        0 => 2_000_000,
        1..4 => 700,
        _ => random.below(3) as Millis,
    }
}

/// A machine that goes on from what a crash has left has the state after some turn, and not after one that is before what clients know
/// or what was synced.
pub fn check(left: Disks, (turns, steps): (&[Turn], usize), seed: u64, fsync: Fsync, told: &str) -> Machine {
    let mut machine = Machine::start(left, seed, BEGIN, fsync);
    let end = machine.end();
    // Turns without effects end where the one before them did; keys may have expired in between, of which the log says so.
    let turn = turns.iter().find(|turn| turn.end == end);
    let turn = turn.unwrap_or_else(|| panic!("{told}: no turn ended at {end}"));
    let is_safe = |at: Option<usize>| at.is_some_and(|at| at <= steps);
    let is_promised = |turn: &&Turn| is_safe(turn.synced_at) || fsync == Fsync::Always && is_safe(turn.acknowledged_at);
    let safe = turns.iter().filter(is_promised).map(|turn| turn.end).max();
    assert!(Some(end) >= safe, "{told}: the log ends at {end}, but {safe:?} was safe");
    let state = machine.state_at(turn.now);
    if state != turn.state {
        let differs = state.lines().zip(turn.state.lines()).find(|(left, right)| left != right);
        panic!("{told}: what is there and what was there differ: {differs:#?}");
    }
    machine
}
