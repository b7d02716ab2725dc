//! `kill -9` of a process that stores objects in real files: all that it said was done is done.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "disk/support.rs"]
mod support;

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use cache::{
    bans::Expression,
    index::{Cache, Digest},
    storage::disk::{Compaction, RealFiles, StartedEmpty},
};
use support::{NOW, Place};

const SIZE: u64 = 8 << 20;
const FOLDER: &str = "TIDEGATE_CACHE_TEST_FOLDER";

fn open(path: &Path) -> Place {
    Place::of(Cache::new(), Box::new(RealFiles::open(path, SIZE).unwrap()), SIZE, NOW)
}

/// Not a test by itself: the process that is killed. It says what is done, line by line.
#[test]
fn child_that_is_killed() {
    let Some(path) = std::env::var_os(FOLDER) else { return };
    let place = open(Path::new(&path));
    let mut out = std::io::stdout().lock();
    for round in 0_usize.. {
        let key = u8::try_from(round * 7 % 50).unwrap();
        let length = 1 + round * 997 % 60_000;
        place.put(key, length, &[]);
        writeln!(out, "put {key} {length}").unwrap();
        if round % 5 == 0 {
            place.cache.purge(Digest(support::digest(key)));
            writeln!(out, "gone {key}").unwrap();
        }
        if round % 11 == 0 {
            let key = (key + 1) % 50;
            place.cache.bans().add(Expression::parse(&format!("obj.http.key == {key}")).unwrap(), NOW);
            writeln!(out, "gone {key}").unwrap();
        }
        if round % 100 == 99 {
            let mut compaction = Compaction::begin(place.disk(), &place.cache).unwrap();
            while !compaction.step(&place.cache).unwrap() {}
        }
        out.flush().unwrap();
    }
}

#[test]
fn what_was_done_before_kill_9_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let mut expected = [None; 50];
    for (round, lines_read) in [37, 150, 420, 1, 260].into_iter().enumerate() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_is_killed", "--nocapture", "--test-threads=1"])
            .env(FOLDER, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut apply = |line: &str| {
            let mut words = line.split(' ').skip_while(|word| !["put", "gone"].contains(word));
            let (word, key) = (words.next(), words.next().and_then(|key| key.parse::<usize>().ok()));
            if let (Some(word), Some(key)) = (word, key) {
                expected[key] = if word == "put" { words.next().unwrap().parse::<usize>().ok() } else { None };
            }
        };
        lines.by_ref().take(lines_read).for_each(|line| apply(&line));
        child.kill().unwrap();
        child.wait().unwrap();
        // It went on until the signal came.
        lines.for_each(|line| apply(&line));

        let place = open(&path);
        assert_eq!((place.recovered.started_empty, place.recovered.dropped), (None, 0), "round {round}");
        let found: Vec<Option<usize>> = (0..50).map(|key| place.find(key, NOW)).collect();
        // What it was doing when it was killed may be done or not: one step, which is about one or two keys.
        let differing = found.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
        assert!(differing <= 2, "round {round}: {found:?}, not {expected:?}");
        assert!(found.iter().flatten().count() > 3 || lines_read < 10);
        expected.iter_mut().zip(found).for_each(|(expected, found)| *expected = found);
    }
}

#[test]
fn files_are_for_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let place = open(&path);
    place.put(1, 10, &[]);
    place.disk().sync().unwrap();
    let refused = RealFiles::open(&path, SIZE).unwrap_err();
    assert!(refused.to_string().contains("another process uses this file"), "{refused}");
    drop(place);
    // Whoever was refused has perhaps heard of a purge.
    let place = open(&path);
    assert_eq!((place.find(1, NOW), place.recovered.started_empty), (None, Some(StartedEmpty::Behind)));
    place.put(1, 20, &[]);
    drop(place);
    assert_eq!(open(&path).find(1, NOW), Some(20));
    let nowhere = RealFiles::open(&folder.path().join("no/cache"), SIZE).unwrap_err();
    assert!(nowhere.to_string().contains("no/cache"), "{nowhere}");
}
