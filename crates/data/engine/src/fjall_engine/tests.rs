use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use lsm_tree::AbstractTree as _;

use super::*;
use crate::Step;

fn small(folder: &Path) -> FjallEngine {
    let options = FjallOptions { memory_bytes_max: 8 << 20, page_cache: PageCache::Through, ..FjallOptions::default() };
    FjallEngine::open(folder, &options).unwrap()
}

fn put(engine: &FjallEngine, records: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
    let mut batch = Batch::new();
    records.into_iter().for_each(|(key, value)| batch.put(key, value));
    engine.write(&batch).unwrap();
}

#[test]
fn nobody_waits_for_the_list_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(small(folder.path()));
    put(&engine, [(b"file".to_vec(), b"1".to_vec())]);
    engine.sync().unwrap();
    put(&engine, [(b"buffer".to_vec(), b"2".to_vec())]);
    let list = engine.shared.tree.get_version_history_lock();
    let (done, is_done) = mpsc::channel();
    let reader = Arc::clone(&engine);
    let thread = std::thread::spawn(move || {
        let values = [&b"file"[..], b"buffer", b"none"].map(|key| reader.get(key).unwrap());
        let snapshot = reader.snapshot();
        let scanned = reader.scan(&Bounds::all(), Direction::Forward).count();
        done.send((values, snapshot.scan(&Bounds::all(), Direction::Backward).count(), scanned)).unwrap();
    });
    let (values, of_snapshot, scanned) = is_done.recv_timeout(Duration::from_secs(20)).unwrap();
    drop(list);
    thread.join().unwrap();
    assert_eq!(values.map(|value| value.map(|value| value.to_vec())), [Some(b"1".to_vec()), Some(b"2".to_vec()), None]);
    assert_eq!((of_snapshot, scanned), (2, 2));
}

/// Whatever becomes of buffers and files meanwhile.
#[test]
fn what_is_written_is_seen_at_once() {
    const ROUNDS: u64 = 300;
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(small(folder.path()));
    let (written, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    put(&engine, [(b"counter".to_vec(), 0_u64.to_be_bytes().to_vec())]);
    let readers: Vec<_> = [false, true]
        .into_iter()
        .map(|scans| {
            let (engine, written, is_over) = (Arc::clone(&engine), Arc::clone(&written), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let key = Bounds { from: Bound::Included(b"counter".as_slice().into()), ..Bounds::all() };
                while !is_over.load(Ordering::Acquire) {
                    let least = written.load(Ordering::Acquire);
                    let found = if scans {
                        engine.scan(&key, Direction::Forward).next().unwrap().unwrap().1
                    } else {
                        engine.get(b"counter").unwrap().unwrap()
                    };
                    let found = u64::from_be_bytes(found.as_ref().try_into().unwrap());
                    assert!(found >= least, "{found} where {least} was written");
                }
            })
        })
        .collect();
    for round in 1..=ROUNDS {
        let filler = (0..40_u64).map(|number| ((round * 40 + number).to_be_bytes().to_vec(), vec![7; 1_000]));
        put(&engine, filler.chain([(b"counter".to_vec(), round.to_be_bytes().to_vec())]));
        written.store(round, Ordering::Release);
        match round % 30 {
            10 => engine.sync().unwrap(),
            29 => engine.compact().unwrap(),
            _ => {}
        }
    }
    is_over.store(true, Ordering::Release);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// A record as somebody finds it who reads what the lookup asks for; how many pieces that were, and whether it could be done so.
fn found_in_steps(engine: &dyn Engine, key: &[u8]) -> (Option<Value>, usize, bool) {
    let mut lookup = engine.lookup(&Key::from(key), false).unwrap();
    let (mut pieces, mut read) = (0, None::<Vec<u8>>);
    loop {
        match lookup.step(read.as_deref()).unwrap() {
            Step::Found(value) => return (value, pieces, true),
            Step::Waits => return (engine.get(key).unwrap(), pieces, false),
            Step::Read(piece) => {
                let mut bytes = vec![0; piece.len];
                piece.file.read_exact_at(&mut bytes, piece.offset).unwrap();
                assert_eq!(piece.align, 1);
                read = Some(bytes);
                pieces += 1;
            }
        }
    }
}

/// Records in every place where one can be: buffers, files of every level, deleted and changed in a newer one.
fn records_everywhere(engine: &FjallEngine) {
    for round in 0..6_u32 {
        let step = 1 + usize::try_from(round).unwrap() * 3;
        let mut batch = Batch::new();
        for number in (0..30_000_u32).step_by(step) {
            let key = number.to_be_bytes();
            match (number + round) % 7 {
                0 => batch.delete(&key[..]),
                _ => batch.put(&key[..], [&key[..], &round.to_be_bytes(), &[b'x'; 300]].concat()),
            }
        }
        engine.write(&batch).unwrap();
        match round {
            0 | 1 => engine.compact().unwrap(),
            2..5 => engine.sync().unwrap(),
            _ => {}
        }
    }
}

#[test]
fn what_is_looked_up_in_steps_is_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let engine = small(folder.path());
    records_everywhere(&engine);
    let check = |engine: &FjallEngine| {
        let (mut pieces, mut waited) = (0, 0);
        for number in 0..30_050_u32 {
            let key = [&number.to_be_bytes()[..], b"x"].concat();
            for key in [&key[..4], &key[..]] {
                let (value, read, is_in_steps) = found_in_steps(engine, key);
                assert_eq!(value, engine.get(key).unwrap(), "{number}");
                pieces += read;
                waited += usize::from(!is_in_steps);
            }
        }
        (pieces, waited)
    };
    let (pieces, waited) = check(&engine);
    assert!(pieces > 100, "{pieces}");
    // Files of level 0 have an index that cannot be seen.
    assert!(waited < 60_000 / 2, "{waited}");
    engine.compact().unwrap();
    drop(engine);
    let engine = small(folder.path());
    let (pieces, waited) = check(&engine);
    assert!(pieces > 1_000 && waited == 0, "{pieces} {waited}");
}

#[test]
fn what_memory_says_of_records_is_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let engine = small(folder.path());
    records_everywhere(&engine);
    // How many records that are there, and how many that are not, memory knows of.
    let check = |engine: &FjallEngine| {
        let mut known = (0, 0);
        for number in 0..30_000_u32 {
            let (key, other) = (Key::from(number.to_be_bytes()), Key::from([&number.to_be_bytes()[..], b"x"].concat()));
            for key in [&key, &other] {
                let value = engine.get(key).unwrap();
                if let Some(cached) = engine.get_cached(key) {
                    assert_eq!(cached, value, "{number}");
                    known.0 += usize::from(value.is_some());
                    known.1 += usize::from(value.is_none());
                }
            }
        }
        known
    };
    let (_, absent) = check(&engine);
    assert!(absent > 25_000, "{absent}");
    engine.compact().unwrap();
    drop(engine);
    let engine = small(folder.path());
    let key = Key::from(1_u32.to_be_bytes());
    assert!(engine.get_cached(&key).is_none(), "nothing has been read yet");
    assert!(engine.get(&key).unwrap().is_some() && engine.get_cached(&key).is_some());
    let (present, absent) = check(&engine);
    assert!(present > 1_000 && absent > 25_000, "{present} {absent}");
}

#[test]
fn a_damaged_block_is_left_to_whoever_waits() {
    let folder = tempfile::tempdir().unwrap();
    let engine = small(folder.path());
    put(&engine, (0..20_000_u32).map(|number| (number.to_be_bytes().to_vec(), number.to_be_bytes().repeat(50))));
    engine.compact().unwrap();
    let mut lookup = engine.lookup(&Key::from(7_000_u32.to_be_bytes()), true).unwrap();
    let Step::Read(first) = lookup.step(None).unwrap() else { panic!("all is in memory") };
    let mut bytes = vec![0; first.len];
    first.file.read_exact_at(&mut bytes, first.offset).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    assert!(matches!(lookup.step(Some(&bytes)).unwrap(), Step::Waits));
}

/// A file that is open takes its place on the disk, deleted or not.
#[test]
fn no_file_that_was_merged_away_stays_open() {
    let folder = tempfile::tempdir().unwrap();
    let options = FjallOptions { memory_bytes_max: 8 << 20, page_cache: PageCache::Past, ..FjallOptions::default() };
    let engine = FjallEngine::open(folder.path(), &options).unwrap();
    let mut opened = Vec::new();
    for round in 0..3_u8 {
        put(&engine, (0..5_000_u32).map(|number| (number.to_be_bytes().to_vec(), vec![round; 400])));
        engine.compact().unwrap();
        let mut lookup = engine.lookup(&Key::from(7_u32.to_be_bytes()), false).unwrap();
        let Step::Read(piece) = lookup.step(None).unwrap() else { panic!("nothing has been read yet") };
        opened.push(Arc::downgrade(&piece.file));
    }
    let is_open: Vec<bool> = opened.iter().map(|file| file.upgrade().is_some()).collect();
    assert_eq!(is_open, [false, false, true]);
}

#[test]
fn what_a_lookup_reads_is_not_taken_for_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let engine = small(folder.path());
    for round in 0..2_u8 {
        put(&engine, (0..200_u32).map(|number| (number.to_be_bytes().to_vec(), vec![round; 1_000])));
        engine.sync().unwrap();
    }
    let tables = || std::fs::read_dir(folder.path().join("tree/tables")).unwrap().count();
    let view = engine.shared.views.current();
    engine.compact().unwrap();
    let half = folder.path().join("tree/tables/4711");
    std::fs::write(&half, "half").unwrap();
    assert!(tables() > 2, "what was merged is there for those who look at it");
    maintenance::delete_half_written(&engine.shared);
    let found = view.get(&7_u32.to_be_bytes()).unwrap().unwrap();
    assert!(*found == *vec![1; 1_000]);
    let before = tables();
    assert!(before > 2, "nothing is deleted that a lookup may have to open");
    drop(view);
    maintenance::delete_half_written(&engine.shared);
    assert!(!half.exists() && tables() < before);
}

/// A record that is much longer than a file is to be, between short ones: the tree's own strategy finds nothing to merge then.
#[test]
fn writes_go_on_however_long_a_record_is() {
    const LONG: usize = 40 << 20;
    let folder = tempfile::tempdir().unwrap();
    let engine = small(folder.path());
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        for round in 0..12_u8 {
            let short = [b"a", b"z"].map(|key| (key.to_vec(), vec![round; 100]));
            let short = short.into_iter().filter(|_| round > 0);
            put(&engine, short.chain([(b"b".to_vec(), vec![round; LONG])]));
            engine.sync().unwrap();
            done.send(round).unwrap();
        }
        engine
    });
    for round in 0..12 {
        let found = is_done.recv_timeout(Duration::from_secs(60));
        assert_eq!(found, Ok(round), "a write waits for a merge that nobody makes");
    }
    let engine = thread.join().unwrap();
    let value = engine.get(b"b").unwrap().unwrap();
    assert!(value.len() == LONG && value.iter().all(|byte| *byte == 11));
    assert_eq!(engine.get(b"z").unwrap().unwrap().to_vec(), vec![11; 100]);
}
