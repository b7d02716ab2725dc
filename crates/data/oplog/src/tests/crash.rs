//! A crash at every point, and damage at every byte.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::disk::{Crash, DiskFile};

/// What was promised after so many steps of the disk.
struct Promise {
    steps: usize,
    /// Synced: has to survive anything.
    durable: u64,
    /// Handed to the system: has to survive the end of the process.
    written: u64,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Append,
    Write,
    Sync,
    Maintain,
    Rotate,
    Retain,
}

/// Does all of it, with a promise after each action.
fn run(log: &mut Log<MemoryDisk>, disk: &MemoryDisk, actions: &[Action], mut number: u64) -> Vec<Promise> {
    let (mut syncer, mut maintainer) = (log.syncer(), log.maintainer());
    let mut promises = Vec::new();
    for action in actions {
        match action {
            Action::Append => {
                log.append(&piece(number), 1_000 + number).unwrap();
                number += 1;
            }
            Action::Write => drop(log.write().unwrap()),
            Action::Sync => drop(syncer.sync().unwrap()),
            Action::Maintain => maintainer.run().unwrap(),
            Action::Rotate => log.rotate(2_000 + number).unwrap(),
            Action::Retain => drop(log.retain(log.durable(), 3_000)),
        }
        promises.push(Promise { steps: disk.steps(), durable: log.durable().0, written: log.written().0 });
    }
    promises
}

/// Opens what a crash has left, and sees whether it is what may be left; then goes on writing, and opens it once more.
fn check(image: &MemoryDisk, options: &Options, least: u64, what: &str) {
    let (mut log, recovered) =
        Log::open(image.clone(), folder(), options.clone(), 9_000).unwrap_or_else(|error| panic!("{what}: {error}"));
    let all = pieces(200);
    let end = usize::try_from(recovered.end.0).unwrap();
    assert!(recovered.end.0 >= least, "{what}: {} of {least} bytes", recovered.end);
    assert!(boundaries(200).contains(&recovered.end.0), "{what}: half a piece at {end}");
    let first = recovered.first;
    let start = usize::try_from(first.0).unwrap();
    assert_eq!(read(&log, first).unwrap_or_else(|error| panic!("{what}: {error}")).0, all[start..end], "{what}");
    // Other bytes than before, and of lengths that would fit what may lie behind.
    let more = |len: usize| vec![b'#'; len];
    let mut expected = all[start..end].to_vec();
    for number in 0..6 {
        let bytes = more(piece(number).len());
        log.append(&bytes, 9_001).unwrap();
        expected.extend(bytes);
        log.write().unwrap();
    }
    drop(log);
    let (log, recovered) =
        Log::open(image.clone(), folder(), options.clone(), 9_000).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(recovered.end.0, first.0 + expected.len() as u64, "{what}");
    assert_eq!(read(&log, first).unwrap_or_else(|error| panic!("{what}: {error}")).0, expected, "{what}");
}

fn check_all(disk: &MemoryDisk, options: &Options, promises: &[Promise], seeds: u64) {
    let mut before = Promise { steps: promises[0].steps, durable: promises[0].durable, written: promises[0].written };
    for promise in promises {
        for steps in before.steps..=promise.steps {
            // Until the action is over, what was promised before counts.
            let last = if steps == promise.steps { promise } else { &before };
            check(&disk.crash(steps, Crash::Process), options, last.written, &format!("process gone after {steps}"));
            check(&disk.crash(steps, Crash::Nothing), options, last.durable, &format!("all lost after {steps}"));
            let len = disk.write_len(steps);
            // Over all writes, each place within a frame has its turn.
            for torn in (steps % 31..len.min(260)).step_by(31).chain(len.saturating_sub(1)..len) {
                let what = format!("torn after {steps} at {torn}");
                check(&disk.crash(steps, Crash::Torn(torn)), options, before.durable, &what);
            }
            for seed in 0..seeds {
                let what = format!("some lost after {steps}, seed {seed}");
                check(&disk.crash(steps, Crash::Some(seed)), options, last.durable, &what);
            }
        }
        before = Promise { ..*promise };
    }
}

#[test]
fn a_crash_anywhere_loses_nothing_that_was_synced() {
    use Action::*;
    let always: Vec<Action> = [Append, Append, Write, Sync].repeat(9);
    let sometimes: Vec<Action> = [&[Append, Write].repeat(7)[..], &[Sync, Maintain]].concat().repeat(3);
    let never: Vec<Action> = [Append, Write].repeat(24);
    let turning: Vec<Action> = [Append, Write, Sync, Rotate, Append, Append, Write, Retain, Maintain].repeat(4);
    let turning_early: Vec<Action> = [Append, Write, Sync, Rotate, Retain, Maintain, Append, Write].repeat(4);
    for actions in [always, sometimes, never, turning, turning_early] {
        let disk = MemoryDisk::new();
        let options = Options { retention_bytes: Some(0), ..small() };
        let (mut log, _) = open(&disk, options.clone());
        let promises = run(&mut log, &disk, &actions, 0);
        check_all(&disk, &options, &promises, 3);
    }
}

#[test]
fn the_first_crash_may_come_before_the_log_is_made() {
    let disk = MemoryDisk::new();
    drop(open(&disk, small()));
    for steps in 0..=disk.steps() {
        for crash in [Crash::Process, Crash::Nothing, Crash::Torn(0), Crash::Torn(9), Crash::Some(1), Crash::Some(2)] {
            check(&disk.crash(steps, crash), &small(), 0, &format!("{crash:?} after {steps}"));
        }
    }
}

/// Opens what every crash leaves that comes after `steps` of the disk; what is there are the first of `frames`.
fn check_frames(disk: &MemoryDisk, mut steps: usize, frames: &[Vec<u8>]) {
    let all = frames.concat();
    let ends: Vec<u64> = std::iter::once(0)
        .chain(frames.iter().scan(0, |end, frame| {
            *end += frame.len() as u64;
            Some(*end)
        }))
        .collect();
    while steps <= disk.steps() {
        let some = (0..60).map(Crash::Some);
        let torn = [0, 60, 500, 1_000].map(Crash::Torn);
        for crash in [Crash::Process, Crash::Nothing].into_iter().chain(torn).chain(some) {
            let image = disk.crash(steps, crash);
            let (log, recovered) = Log::open(image, folder(), small(), 9_000)
                .unwrap_or_else(|error| panic!("{crash:?} after {steps}: {error}"));
            let end = usize::try_from(recovered.end.0).unwrap();
            assert!(ends.contains(&recovered.end.0), "{crash:?} after {steps}: half a frame at {end}");
            assert_eq!(read(&log, Offset(0)).unwrap().0, all[..end], "{crash:?} after {steps}");
        }
        steps += 1;
    }
}

#[test]
fn a_first_frame_longer_than_a_segment_leaves_a_log_whatever_a_crash_does() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    let steps = disk.steps();
    let frames = [vec![b'l'; 5_000], vec![b's'; 10]];
    for frame in &frames {
        log.append(frame, 1).unwrap();
        log.write().unwrap();
    }
    check_frames(&disk, steps, &frames);
}

#[test]
fn another_history_of_an_empty_log_leaves_a_log_whatever_a_crash_does() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    let steps = disk.steps();
    log.set_replication_id(id(0xcd), 1).unwrap();
    log.append(b"first", 1).unwrap();
    log.write().unwrap();
    check_frames(&disk, steps, &[b"first".to_vec()]);
}

#[test]
fn frames_behind_a_lost_one_never_come_back() {
    // Of three frames that were not synced, the second is lost. What is written in its place has its very length.
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    let place = |number: usize| 128 + number * (40 + 10);
    for fill in [b"aaaaaaaaaa", b"bbbbbbbbbb", b"cccccccccc"] {
        log.append(fill, 1).unwrap();
        log.write().unwrap();
    }
    drop(log);
    let path = folder().join("00000000000000000000.oplog");
    disk.flip(&path, place(1) + 45, 1);
    let (mut log, recovered) = open(&disk, small());
    let cut = recovered.cut.unwrap();
    assert_eq!((cut.offset, cut.position, cut.frames_lost), (Offset(10), place(1) as u64, true));
    assert_eq!(cut.reason, Reason::Checksum);
    log.append(b"xxxxxxxxxx", 2).unwrap();
    log.write().unwrap();
    drop(log);
    let (log, recovered) = open(&disk, small());
    assert_eq!(recovered.cut, None);
    assert_eq!(read(&log, Offset(0)).unwrap().0, b"aaaaaaaaaaxxxxxxxxxx");
}

#[test]
fn a_turned_bit_is_found_wherever_it_is() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    let mut syncer = log.syncer();
    for number in 0..14 {
        log.append(&piece(number), number).unwrap();
        log.write().unwrap();
        syncer.sync().unwrap();
    }
    let all = pieces(14);
    let synced_before_last = boundaries(14)[13];
    let segments = log.segments();
    let last = segments.last().unwrap().path.clone();
    assert!(segments.len() > 2);
    drop(log);
    for segment in &segments {
        let bytes = disk.contents(&segment.path).unwrap();
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap();
        for position in 0..=used {
            let damaged = disk.copy();
            damaged.flip(&segment.path, position, 1 << (position % 8));
            let outcome = Log::open(damaged.clone(), folder(), small(), 1).and_then(|(log, recovered)| {
                let bytes = read(&log, Offset(0))?.0;
                Ok((bytes, recovered))
            });
            match outcome {
                Ok((bytes, recovered)) => {
                    // The last frame of all may have been torn by a crash, for all that can be known.
                    assert_eq!(segment.path, last, "byte {position} of {segment:?}");
                    assert_eq!(recovered.end.0, synced_before_last, "byte {position}");
                    assert_eq!(bytes, all[..bytes.len()]);
                }
                Err(LogError::Corrupt(damage)) => {
                    assert_eq!(damage.segment, segment.path, "byte {position}: {damage}");
                    assert!(damage.position <= position as u64, "byte {position}: {damage}");
                    assert!(damage.offset >= segment.first_offset && damage.offset.0 < all.len() as u64);
                }
                Err(error) => panic!("byte {position} of {segment:?}: {error}"),
            }
        }
    }
}

#[test]
fn damage_is_named_and_left_alone() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    let mut syncer = log.syncer();
    for number in 0..3 {
        log.append(&piece(number), number).unwrap();
        log.write().unwrap();
        syncer.sync().unwrap();
    }
    let path = folder().join("00000000000000000000.oplog");
    disk.flip(&path, 170, 4);
    let before = disk.contents(&path).unwrap();
    let error = Log::open(disk.clone(), folder(), small(), 1).unwrap_err().to_string();
    assert_eq!(
        error,
        "the log is damaged in log/00000000000000000000.oplog at byte 128, offset 0: a frame's checksum does not match. \
         Put the log's files back as they were, or restore a backup; or, to give up all that came later, start the store with \
         --until 0"
    );
    assert_eq!(disk.contents(&path).unwrap(), before);
}

#[test]
fn a_missing_segment_is_damage() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    let mut syncer = log.syncer();
    for number in 0..40 {
        log.append(&piece(number), number).unwrap();
        log.write().unwrap();
        syncer.sync().unwrap();
    }
    let segments = log.segments();
    disk.remove(&segments[2].path).unwrap();
    drop(log);
    let (log, _) = open(&disk, small());
    let error = read(&log, Offset(0)).unwrap_err();
    assert!(matches!(error, LogError::Corrupt(damage) if damage.segment == segments[1].path));
}

#[test]
fn a_frame_in_another_place_is_damage() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    for fill in [b"aaaaaaaaaa", b"bbbbbbbbbb", b"cccccccccc"] {
        log.append(fill, 1).unwrap();
        log.write().unwrap();
    }
    // The second frame is written where the third has to be, as a disk might that loses its way.
    let path = folder().join("00000000000000000000.oplog");
    let bytes = disk.contents(&path).unwrap();
    disk.open(&path).unwrap().write_all_at(&bytes[178..228], 228).unwrap();
    let error = read(&log, Offset(0)).unwrap_err();
    assert!(matches!(error, LogError::Corrupt(damage) if damage.reason == Reason::Offset && damage.position == 228));
}

#[test]
fn what_a_segment_was_before_never_comes_back() {
    // Frames of a page each, so that no page of the second life covers more of the first than its own frames.
    let disk = MemoryDisk::new();
    let options = Options { segment_len: 4 * 4_096, ..small() };
    let (mut log, _) = open(&disk, options.clone());
    let mut maintainer = log.maintainer();
    let piece = |number: u8| vec![number; if number.is_multiple_of(4) { 4_096 - 128 - 40 } else { 4_096 - 40 }];
    for number in 0..8 {
        log.append(&piece(number), 1).unwrap();
        log.write().unwrap();
    }
    log.syncer().sync().unwrap();
    assert_eq!(log.retain(Offset(0), 1), 0);
    let old = log.segments()[0].path.clone();
    // It becomes a spare as it is, and the log begins anew where that began.
    let bytes = disk.contents(&old).unwrap();
    log.restart(id(3), Offset(0), 2).unwrap();
    maintainer.run().unwrap();
    let spare = disk.paths().into_iter().find(|path| path.to_string_lossy().contains("spare-")).unwrap();
    disk.open(&spare).unwrap().write_all_at(&bytes, 0).unwrap();
    log.restart(id(4), Offset(0), 2).unwrap();
    log.append(&piece(0), 3).unwrap();
    log.write().unwrap();
    let now = disk.contents(&old).unwrap();
    assert_eq!(now[4_096..], bytes[4_096..], "what follows is good but for its generation");
    drop(log);
    let (log, recovered) = open(&disk, options);
    assert_eq!((recovered.end.0, recovered.cut), (piece(0).len() as u64, None));
    assert_eq!(read(&log, Offset(0)).unwrap().0, piece(0));
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => Just(Action::Append),
        6 => Just(Action::Write),
        3 => Just(Action::Sync),
        1 => Just(Action::Maintain),
        1 => Just(Action::Rotate),
        1 => Just(Action::Retain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn crashes_of_crashes(
        first in vec(action(), 1..40),
        second in vec(action(), 1..40),
        cut in 0.0..1.0_f64,
        seeds: (u64, u64),
    ) {
        let options = Options { retention_bytes: Some(300), ..small() };
        let disk = MemoryDisk::new();
        let (mut log, _) = open(&disk, options.clone());
        run(&mut log, &disk, &first, 0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share")]
        let steps = (disk.steps() as f64 * cut) as usize;
        let disk = disk.crash(steps, Crash::Some(seeds.0));
        let (mut log, recovered) = open(&disk, options.clone());
        let number = boundaries(200).iter().position(|&at| at == recovered.end.0).unwrap() as u64;
        let promises = run(&mut log, &disk, &second, number);
        for promise in promises.iter().step_by(3) {
            let image = disk.crash(promise.steps, Crash::Some(seeds.1));
            check(&image, &options, promise.durable, &format!("after {}", promise.steps));
        }
    }
}
