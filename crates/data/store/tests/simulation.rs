//! The shard that serves, without sockets, threads or clock: random commands from a seed, log and tables on disks in memory,
//! checkpoints, and crashes at the log's writes and syncs. Whatever is left makes the very state that the shard had after some turn, and
//! no turn is lost that was synced, or that clients had replies of which promised that. Nothing here depends on anything but the seed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod simulated;

use std::time::Duration;

use commands::{
    SessionId,
    config::Fsync,
    server::{Answer, Caller},
};
use oplog::disk::Crash;
use simulated::{BEGIN, Disks, Machine, check, grammar::Generator};

/// How often a shard is crashed and goes on from what was left.
const LIVES: usize = 4;
const TURNS: usize = 40;
/// Turns of the life that is crashed at every step.
const TURNS_EVERYWHERE: usize = 12;
const SEED_EVERYWHERE: u64 = 11;
/// Crashes that are looked at in each life.
const CRASHES: usize = 6;

fn simulate(seed: u64, fsync: Fsync) -> u64 {
    let mut generator = Generator::new(seed);
    let mut machine = Machine::start(Disks::new(), seed, BEGIN, fsync);
    let (mut checkpoints, mut gave) = (0, false);
    for life in 0..LIVES {
        machine.settle();
        let begun = machine.disks.log.steps();
        machine.live(&mut generator, TURNS);
        checkpoints += machine.persistence().figures().checkpoints;
        gave |= machine.queues.gave();
        let mut left = None;
        for crash in 0..CRASHES {
            let (image, steps, how) = machine.crash_somewhere(begun);
            let told = format!("seed {seed}, {fsync:?}, life {life}, crash {crash}: {how}");
            let again = check(image.copy(), (&machine.turns, steps), seed, fsync, &told);
            left = Some((image, again.shard.server.now()));
        }
        if let Some((image, at)) = left {
            let now = machine.now().max(at);
            machine = Machine::start(image, seed, now, fsync);
        }
    }
    assert!(gave, "queues are among what was done");
    checkpoints
}

/// The same with the tables that serve, which end in order or by a crash of the process or of the machine, and go on from what is in their
/// folder. Their threads make files and merge them when they like, so a seed does not say everything.
fn simulate_with_tables_in_a_folder(seed: u64, fsync: Fsync) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let mut generator = Generator::new(seed);
    let mut machine = Machine::start(Disks::with_tables_in(folder.path()), seed, BEGIN, fsync);
    let mut checkpoints = 0;
    for life in 0..LIVES {
        machine.settle();
        machine.live(&mut generator, TURNS);
        checkpoints += machine.persistence().figures().checkpoints;
        let (now, turns, log, tables) =
            (machine.now(), machine.turns.clone(), machine.disks.log.clone(), machine.disks.tables.clone());
        let (log, steps, how) = match generator.random.below(3) {
            0 => {
                machine.shard.close().unwrap();
                (log.copy(), log.steps(), "end")
            }
            kind => {
                let crash = if kind == 1 { Crash::Process } else { Crash::Nothing };
                // The engine ends with the machine, and leaves its folder to the next one.
                drop(machine);
                (log.crash(log.steps(), crash), log.steps(), if kind == 1 { "kill" } else { "power failure" })
            }
        };
        let told = format!("seed {seed}, {fsync:?}, tables in a folder, life {life}: {how}");
        machine = check(Disks { log, tables }, (&turns, steps), seed, fsync, &told);
        machine.world.advance(Duration::from_millis((now - BEGIN).unsigned_abs()));
    }
    checkpoints
}

/// A crash at each step of the disk, and of each kind: all that is left by them is the state after a turn.
fn crash_everywhere(seed: u64, fsync: Fsync) {
    let mut machine = Machine::start(Disks::new(), seed, BEGIN, fsync);
    machine.settle();
    let begun = machine.disks.log.steps();
    machine.live(&mut Generator::new(seed), TURNS_EVERYWHERE);
    for steps in begun..=machine.disks.log.steps() {
        let len = machine.disks.log.write_len(steps);
        let mut kinds = vec![Crash::Process, Crash::Nothing, Crash::Some(seed), Crash::Some(seed ^ steps as u64)];
        kinds.extend([0, 1, len / 2, len.saturating_sub(1)].map(Crash::Torn));
        kinds.dedup();
        for kind in kinds {
            let told = format!("seed {seed}, {fsync:?}, crash after {steps} steps, {kind:?}");
            check(machine.crash(steps, kind), (&machine.turns, steps), seed, fsync, &told);
        }
    }
}

#[test]
fn a_crash_at_every_step_leaves_the_state_after_a_turn() {
    crash_everywhere(SEED_EVERYWHERE, Fsync::Always);
    crash_everywhere(SEED_EVERYWHERE + 1, Fsync::EverySecond);
}

#[test]
fn what_a_crash_leaves_is_the_state_after_a_turn() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SEED").unwrap_or(1);
    let mut checkpoints = 0;
    for seed in first..first + number("COUNT").unwrap_or(3) {
        for fsync in [Fsync::Always, Fsync::EverySecond] {
            checkpoints += simulate(seed, fsync) + simulate_with_tables_in_a_folder(seed, fsync);
        }
    }
    assert!(checkpoints > 0, "tables are written too");
}

#[test]
fn a_caller_within_the_process_is_told_what_clients_may_be_told() {
    let mut machine = Machine::start(Disks::new(), 1, BEGIN, Fsync::Always);
    machine.settle();
    let now = machine.now();
    let mut admit = || {
        let caller =
            Caller { name: "gateway".into(), user: b"default".to_vec(), db: 0, protocol: resp::Protocol::Resp2 };
        machine.shard.server.admit(caller, now).unwrap()
    };
    let (waiting, other) = (admit(), admit());
    let ask = |machine: &mut Machine, caller: SessionId, words: &[&str]| {
        let now = machine.now();
        machine.shard.server.ask(caller, words, None, now);
        assert_eq!(machine.shard.answer(caller), None, "its turn is not over: {words:?}");
    };
    // Turns until a reply is there, which is not before the log is durable up to where it ended when the command had run.
    let answer = |machine: &mut Machine, caller: SessionId| {
        machine.end_turn();
        let end = machine.end();
        for _ in 0..100 {
            let reply = machine.shard.answer(caller);
            assert!(reply.is_none() || machine.durable() >= end, "{reply:?}");
            if let Some(Answer::Reply(reply)) = reply {
                return String::from_utf8(reply).unwrap();
            }
            machine.work(false);
            machine.begin_turn(1);
            machine.end_turn();
        }
        panic!("it is not answered");
    };
    machine.begin_turn(1);
    ask(&mut machine, waiting, &["BLPOP", "queue", "0"]);
    machine.end_turn();
    assert_eq!(machine.shard.answer(waiting), None, "nobody has served it");
    machine.begin_turn(1);
    ask(&mut machine, other, &["RPUSH", "queue", "job"]);
    assert_eq!(machine.shard.answer(waiting), None);
    assert_eq!(answer(&mut machine, other), ":1\r\n");
    assert_eq!(machine.shard.answer(waiting), Some(Answer::Reply(b"*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n".to_vec())));
    for (words, reply) in [
        (&["MULTI"][..], "+OK\r\n"),
        (&["SET", "a", "1"], "+QUEUED\r\n"),
        (&["INCR", "a"], "+QUEUED\r\n"),
        (&["EXEC"], "*2\r\n+OK\r\n:2\r\n"),
    ] {
        machine.begin_turn(1);
        ask(&mut machine, other, words);
        assert_eq!(answer(&mut machine, other), reply, "{words:?}");
    }
}
