//! The engine on a real disk: killed processes, full disks, flipped bits, space that comes back.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Batch, Bounds, Direction, Engine, Error, FjallEngine, FjallOptions, LogOffset, Records, remove_range};

/// A folder in memory if there is one, for tests that open a small engine many times: syncs cost nothing there.
fn small_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Small buffers, so that files are made and merged all the time.
fn small() -> FjallOptions {
    FjallOptions { memory_bytes_max: 8 << 20, ..FjallOptions::default() }
}

fn open(folder: &Path) -> FjallEngine {
    FjallEngine::open(folder, &small()).unwrap()
}

/// Bytes that LZ4 cannot make smaller.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

const KILLED_FOLDER: &str = "TIDEGATE_TEST_KILLED_FOLDER";
const KEYS: u64 = 40;

/// Not a test of its own: the process that is killed.
#[test]
#[ignore = "run by a_killed_process_leaves_whole_batches"]
fn write_until_killed() {
    let Some(folder) = std::env::var_os(KILLED_FOLDER) else { return };
    let engine = open(Path::new(&folder));
    let first = engine.applied().unwrap().map_or(0, |LogOffset(offset)| offset + 1);
    for number in first.. {
        let mut batch = Batch::new();
        for key in 0..KEYS {
            batch.put(key.to_be_bytes(), noise(number, 2_000 + (number * key % 100) as usize));
        }
        batch.put((KEYS + number % 7).to_be_bytes(), number.to_be_bytes());
        batch.delete((KEYS + (number + 1) % 7).to_be_bytes());
        batch.set_applied(LogOffset(number));
        engine.write(&batch).unwrap();
        if number % 64 == 0 {
            engine.sync().unwrap();
            println!("synced {number}");
        }
    }
}

#[test]
fn a_killed_process_leaves_whole_batches() {
    let folder = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 0..3_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "write_until_killed", "--ignored", "--nocapture"])
            .env(KILLED_FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut synced = 0;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while synced < before + 60 + round * 70 {
            let line = lines.next().unwrap().unwrap();
            if let Some((_, number)) = line.split_once("synced ") {
                synced = number.parse().unwrap();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // It may have synced once more before it was killed.
        synced = lines
            .map_while(Result::ok)
            .filter_map(|line| line.split_once("synced ")?.1.parse().ok())
            .last()
            .unwrap_or(synced);

        let engine = open(folder.path());
        let LogOffset(applied) = engine.applied().unwrap().unwrap();
        assert!(applied >= synced, "what was synced is there: {applied} of {synced}");
        assert_eq!(engine.durable(), Some(LogOffset(applied)));
        let found: BTreeMap<Vec<u8>, Vec<u8>> = engine
            .scan(&Bounds::all(), Direction::Forward)
            .map(|record| record.unwrap())
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        let mut expected = BTreeMap::new();
        for key in 0..KEYS {
            expected.insert(key.to_be_bytes().to_vec(), noise(applied, 2_000 + (applied * key % 100) as usize));
        }
        for number in applied.saturating_sub(5)..=applied {
            expected.insert((KEYS + number % 7).to_be_bytes().to_vec(), number.to_be_bytes().to_vec());
        }
        assert!(found == expected, "all of batch {applied} and nothing of the next");
        before = applied;
    }
}

/// A file system of a few megabytes, which goes away in the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` without the right to mount.
    fn mount(at: &Path, size: &str) -> Option<Self> {
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_refuses_writes_goes_on_reading_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path(), "24m") else {
        eprintln!("skipped: no right to mount");
        return;
    };
    let path = disk.0.join("records");
    let engine = open(&path);
    let ballast = disk.0.join("ballast");
    std::fs::write(&ballast, noise(0, 12 << 20)).unwrap();
    let mut written = 0_u64;
    let write = |engine: &FjallEngine, number: u64| {
        let mut batch = Batch::new();
        batch.put(number.to_be_bytes(), noise(number, 100_000));
        batch.set_applied(LogOffset(number));
        engine.write(&batch)
    };
    // A merge that fails gives back what it had taken, so there may be room for a little more after the first errors.
    let mut failures = 0;
    while failures < 8 {
        match write(&engine, written) {
            Ok(()) => (written, failures) = (written + 1, 0),
            Err(error) => {
                assert!(error.is_full() && error.is_transient(), "{error:?}");
                failures += 1;
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        assert!(written < 1_000, "the disk never got full");
    }
    let check = |engine: &FjallEngine, count: u64| {
        for number in 0..count {
            let value = engine.get(&number.to_be_bytes()).unwrap();
            assert!(value.is_some_and(|value| *value == noise(number, 100_000)), "record {number}");
        }
        assert_eq!(
            engine.scan(&Bounds::all(), Direction::Forward).inspect(|record| assert!(record.is_ok())).count() as u64,
            count
        );
        assert_eq!(engine.applied().unwrap(), Some(LogOffset(count - 1)));
    };
    check(&engine, written);

    std::fs::remove_file(&ballast).unwrap();
    // A merge that is under way takes as much again of the disk, so a write or a sync may be refused once more.
    let until = Instant::now() + Duration::from_secs(30);
    let when_there_is_room = |call: &dyn Fn() -> engine::Result<()>| {
        while let Err(error) = call() {
            assert!(error.is_full() && Instant::now() < until, "{error:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    when_there_is_room(&|| write(&engine, written));
    written += 1;
    when_there_is_room(&|| engine.sync());
    check(&engine, written);
    drop(engine);
    check(&open(&path), written);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn a_flipped_bit_is_found_and_never_served() {
    let folder = small_folder();
    let value =
        |number: u64| [noise(number, 60).as_slice(), b" and what can be compressed: aaaaaaaaaaaaaaaaaa"].concat();
    {
        let engine = open(folder.path());
        let mut batch = Batch::new();
        for number in 0..RECORDS {
            batch.put(number.to_be_bytes(), value(number));
        }
        batch.set_applied(LogOffset(3));
        engine.write(&batch).unwrap();
        engine.compact().unwrap();
    }
    let sound: Vec<(PathBuf, Vec<u8>)> =
        files(folder.path()).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    let (mut refused, mut named, mut unharmed) = (0, 0, 0);
    // A file at a time; the usual number takes a few seconds.
    let flips = std::env::var("TIDEGATE_TEST_FLIPS").ok().and_then(|flips| flips.parse().ok()).unwrap_or(24);
    for (path, bytes) in &sound {
        for at in (0..bytes.len()).step_by((bytes.len() / flips).max(1)) {
            // What an engine has merged since is put back.
            for path in files(folder.path()) {
                std::fs::remove_file(path).unwrap();
            }
            for (path, bytes) in &sound {
                std::fs::write(path, bytes).unwrap();
            }
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(path, &damaged).unwrap();
            let place = format!("byte {at} of {}", path.display());
            match FjallEngine::open(folder.path(), &small()) {
                Err(Error::Damaged { .. } | Error::Engine(_) | Error::Io(_)) => refused += 1,
                Err(error) => panic!("{place}: {error:?}"),
                Ok(engine) if harms(&engine, &place, value) => named += 1,
                Ok(_) => unharmed += 1,
            }
        }
    }
    assert!(refused > 0 && named > 20, "{refused} refused, {named} named, {unharmed} unharmed");
}

const RECORDS: u64 = 1_000;

/// Reads everything, and whether damage was found. What is served must be right.
fn harms(engine: &FjallEngine, damage: &str, value: fn(u64) -> Vec<u8>) -> bool {
    let mut is_harmed = false;
    for number in 0..RECORDS {
        let key = number.to_be_bytes();
        match engine.get(&key) {
            Ok(found) => assert!(found.is_some_and(|found| *found == value(number)), "{damage}"),
            Err(Error::Damaged { place, .. }) => {
                assert_eq!(place, engine::DamagePlace::At(key.to_vec()));
                is_harmed = true;
            }
            Err(error) => panic!("{damage}: {error:?}"),
        }
    }
    let mut count = 0;
    for record in engine.scan(&Bounds::all(), Direction::Forward) {
        match record {
            Ok((key, found)) => {
                assert!(*key == u64::to_be_bytes(count) && *found == value(count), "{damage}");
                count += 1;
            }
            Err(error) => {
                assert!(matches!(error, Error::Damaged { .. }), "{damage}: {error:?}");
                return true;
            }
        }
    }
    assert_eq!(count, RECORDS, "{damage}: nothing is left out");
    is_harmed
}

#[test]
fn removed_records_give_their_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let element = |number: u64| engine::record::element(5, 0, 1, &number.to_be_bytes());
    let (count, len) = (10_000_u64, 4_000);
    for first in (0..count).step_by(500) {
        let mut batch = Batch::new();
        for number in first..first + 500 {
            // In any order, as fields of a hash come.
            let scattered = number * 7_919 % count;
            batch.put(element(scattered), noise(scattered, len));
        }
        engine.write(&batch).unwrap();
    }
    let mut rest = Batch::new();
    for slot in [4, 6] {
        rest.put(engine::record::key(1, slot, 0, b"stays"), "here");
    }
    engine.write(&rest).unwrap();
    engine.sync().unwrap();
    let full = engine.disk_bytes();
    assert!(full >= count * len as u64, "{full}");
    let snapshot = engine.snapshot();
    let bounds = engine::record::range::elements(5, 0, 1);
    let mut steps = 0;
    while !remove_range(&engine, &bounds, steps == 0, 1_000, &[]).unwrap().is_done {
        steps += 1;
        assert!(steps <= count / 1_000 + 1);
    }
    assert_eq!(engine.scan(&Bounds::all(), Direction::Forward).count(), 2);
    assert_eq!(
        snapshot.scan(&bounds, Direction::Forward).inspect(|record| assert!(record.is_ok())).count() as u64,
        count
    );
    drop(snapshot);
    engine.compact().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while engine.disk_bytes() > full / 50 {
        assert!(Instant::now() < until, "{} of {full} bytes are still there", engine.disk_bytes());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A file of nothing but deletions is within the bounds too; what they delete may be in a file that is not.
#[test]
fn what_was_removed_stays_so_although_files_are_made_in_between() {
    const COUNT: u64 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let mut batch = Batch::new();
    for number in 0..COUNT {
        batch.put(engine::record::element(5, 0, 1, &number.to_be_bytes()), "x");
    }
    for slot in [4, 6] {
        batch.put(engine::record::key(1, slot, 0, b"stays"), "here");
    }
    engine.write(&batch).unwrap();
    engine.sync().unwrap();
    let bounds = engine::record::range::elements(5, 0, 1);
    let mut steps = 0;
    while !remove_range(&engine, &bounds, steps == 0, 500, &[]).unwrap().is_done {
        engine.sync().unwrap();
        steps += 1;
        assert!(steps <= COUNT / 500);
    }
    assert_eq!(engine.scan(&Bounds::all(), Direction::Forward).count(), 2);
}

#[test]
fn snapshots_are_whole_while_files_are_made_and_merged() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(open(folder.path()));
    let write = |number: u64| {
        let mut batch = Batch::new();
        for key in 0..50_u64 {
            batch.put((key * 31 % 50).to_be_bytes(), noise(number, 3_000));
        }
        batch.set_applied(LogOffset(number));
        engine.write(&batch).unwrap();
    };
    write(0);
    let first = engine.snapshot();
    let check = |snapshot: &dyn Records| {
        let LogOffset(number) = snapshot.applied().unwrap().unwrap();
        let expected = noise(number, 3_000);
        let mut count = 0;
        for record in snapshot.scan(&Bounds::all(), Direction::Backward) {
            assert!(*record.unwrap().1 == expected);
            count += 1;
        }
        assert_eq!(count, 50);
        assert!(snapshot.get(&7_u64.to_be_bytes()).unwrap().is_some_and(|value| *value == expected));
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..200).for_each(write));
        while !writer.is_finished() {
            check(&*engine.snapshot());
        }
    });
    engine.compact().unwrap();
    check(&*first);
    assert_eq!(first.applied().unwrap(), Some(LogOffset(0)));
}

#[test]
fn a_merge_of_a_damaged_file_says_so() {
    let folder = small_folder();
    let fill = |engine: &FjallEngine, from: u64| {
        let mut batch = Batch::new();
        for number in from..from + 500 {
            batch.put(number.to_be_bytes(), noise(number, 500));
        }
        engine.write(&batch).unwrap();
        engine.sync().unwrap();
    };
    fill(&open(folder.path()), 0);
    let table = files(folder.path()).into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes.get_mut(middle).map(|byte| *byte ^= 1).unwrap();
    std::fs::write(&table, bytes).unwrap();
    let engine = open(folder.path());
    fill(&engine, 500);
    assert!(matches!(engine.compact(), Err(Error::Damaged { .. })));
    assert!(engine.get(&999_u64.to_be_bytes()).unwrap().is_some(), "what is sound is still served");
    assert!((0..500_u64).any(|number| engine.get(&number.to_be_bytes()).is_err()), "and what is not is refused");
}

#[test]
fn a_folder_belongs_to_one() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    assert!(matches!(FjallEngine::open(folder.path(), &small()), Err(Error::Io(_))));
    drop(engine);
    open(folder.path());
}

#[test]
fn memory_stays_within_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let options = FjallOptions { memory_bytes_max: 16 << 20, ..FjallOptions::default() };
    let engine = FjallEngine::open(folder.path(), &options).unwrap();
    for number in 0..400_u64 {
        let mut batch = Batch::new();
        for key in 0..100 {
            batch.put((number * 100 + key).to_be_bytes(), noise(key, 1_000));
        }
        engine.write(&batch).unwrap();
        let _ = engine.get(&(number * 37 % 40_000).to_be_bytes()).unwrap();
        let memory = engine.memory_bytes();
        assert!(memory <= options.memory_bytes_max, "{memory} after {number}");
    }
    assert!(engine.scan(&Bounds::all(), Direction::Forward).all(|record| record.is_ok()));
    let memory = engine.memory_bytes();
    assert!(memory <= options.memory_bytes_max, "{memory} in the end");
}
