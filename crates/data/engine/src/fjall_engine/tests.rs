use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use lsm_tree::AbstractTree as _;

use super::*;

fn small(folder: &Path) -> FjallEngine {
    let options = FjallOptions { memory_bytes_max: 8 << 20, ..FjallOptions::default() };
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
