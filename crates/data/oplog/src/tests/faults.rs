//! A disk that refuses.

use std::io::ErrorKind;

use super::*;
use crate::disk::{FailingDisk, Faults};

fn failing() -> (FailingDisk<MemoryDisk>, MemoryDisk) {
    let memory = MemoryDisk::new();
    (FailingDisk::new(memory.clone()), memory)
}

#[test]
fn a_write_that_failed_is_done_again_without_a_hole() {
    for after in 0..40 {
        for write_len_max in [None, Some(1), Some(7)] {
            let (disk, memory) = failing();
            let (mut log, _) = open(&disk, small());
            let mut failures = 0;
            for number in 0..30 {
                if number == 3 {
                    let write = Some((after, ErrorKind::Other));
                    disk.set(Faults { write, write_len_max, ..Faults::default() });
                }
                log.append(&piece(number), number).unwrap();
                let before = log.written();
                while let Err(error) = log.write() {
                    assert!(!error.is_full(), "{error}");
                    assert!(log.written() >= before);
                    failures += 1;
                    // More may come meanwhile.
                }
            }
            assert!(failures <= 1, "the fault is over after one");
            assert_eq!(read(&log, Offset(0)).unwrap(), (pieces(30), boundaries(30).split_off(1)));
            drop(log);
            let (log, recovered) = open(&memory, small());
            assert_eq!(recovered.cut, None);
            assert_eq!(read(&log, Offset(0)).unwrap().0, pieces(30));
        }
    }
}

#[test]
fn operations_that_failed_are_done_again() {
    for after in 0..30 {
        let (disk, memory) = failing();
        let (mut log, _) = open(&disk, small());
        let mut maintainer = log.maintainer();
        disk.set(Faults { operation: Some((after, ErrorKind::PermissionDenied)), ..Faults::default() });
        for number in 0..30 {
            log.append(&piece(number), number).unwrap();
            if log.write().is_err() {
                log.append(b"", number).unwrap();
                log.write().unwrap();
            }
            if maintainer.run().is_err() {
                maintainer.run().unwrap();
            }
        }
        assert_eq!(read(&log, Offset(0)).unwrap().0, pieces(30), "after {after}");
        drop(log);
        let (_, recovered) = open(&memory, small());
        assert_eq!((recovered.end.0, recovered.cut), (pieces(30).len() as u64, None), "after {after}");
    }
}

#[test]
fn a_full_disk_refuses_until_there_is_room() {
    for room in [0, 100, 1_500, 2_049, 4_000] {
        let (disk, memory) = failing();
        let (mut log, _) = open(&disk, small());
        let (mut syncer, mut maintainer) = (log.syncer(), log.maintainer());
        disk.set(Faults { room: Some(room), ..Faults::default() });
        let mut number = 0;
        let full = loop {
            log.append(&piece(number), number).unwrap();
            number += 1;
            if let Err(error) = maintainer.run() {
                assert!(error.is_full(), "{error}");
            }
            if let Err(error) = log.write() {
                break error;
            }
        };
        assert!(full.is_full(), "{full}");
        let written = log.written();
        assert_eq!(read(&log, Offset(0)).unwrap().0, pieces(number)[..usize::try_from(written.0).unwrap()]);
        syncer.sync().unwrap();
        for _ in 0..5 {
            log.append(&piece(number), number).unwrap();
            number += 1;
            assert!(log.write().unwrap_err().is_full());
        }
        assert!(log.unwritten_len() > 0);
        let (_, recovered) = open(&memory.copy(), small());
        assert!(recovered.end >= log.durable(), "what was synced is there all the same");
        disk.set(Faults::default());
        log.write().unwrap();
        maintainer.run().unwrap();
        assert_eq!(syncer.sync().unwrap(), log.end());
        assert_eq!(read(&log, Offset(0)).unwrap().0, pieces(number));
        drop(log);
        let (_, recovered) = open(&memory, small());
        assert_eq!((recovered.end.0, recovered.cut), (pieces(number).len() as u64, None));
    }
}

#[test]
fn after_a_sync_that_failed_nothing_is_believed() {
    let (disk, memory) = failing();
    let (mut log, _) = open(&disk, small());
    let mut syncer = log.syncer();
    log.append(&piece(0), 0).unwrap();
    log.write().unwrap();
    syncer.sync().unwrap();
    log.append(&piece(1), 1).unwrap();
    log.write().unwrap();
    disk.set(Faults { sync: Some((0, ErrorKind::Other)), ..Faults::default() });
    assert!(matches!(syncer.sync(), Err(LogError::Io { action: "sync", .. })));
    assert_eq!(log.durable().0, piece(0).len() as u64);
    for _ in 0..2 {
        assert!(matches!(syncer.sync(), Err(LogError::SyncFailed)), "not tried again");
        assert!(matches!(log.write(), Err(LogError::SyncFailed)));
    }
    drop(log);
    open(&memory, small());
}

#[test]
fn cutting_is_all_or_a_whole_part() {
    let until = boundaries(40)[17];
    for after in 0..40 {
        let (disk, memory) = failing();
        let (mut log, _) = open(&disk, small());
        for number in 0..40 {
            log.append(&piece(number), number).unwrap();
            log.write().unwrap();
        }
        log.syncer().sync().unwrap();
        let synced = memory.steps();
        disk.set(Faults { operation: Some((after, ErrorKind::Other)), ..Faults::default() });
        let result = log.truncate_after(Offset(until));
        if result.is_err() {
            assert!(matches!(log.write(), Err(LogError::SyncFailed)));
        }
        drop(log);
        for steps in (synced..=memory.steps()).step_by(2) {
            let image = memory.crash(steps, crate::disk::Crash::Some(after));
            let (log, recovered) = open(&image, small());
            assert!(
                recovered.end.0 >= until && boundaries(40).contains(&recovered.end.0),
                "after {after}, {steps} steps"
            );
            assert_eq!(read(&log, Offset(0)).unwrap().0, pieces(40)[..usize::try_from(recovered.end.0).unwrap()]);
        }
    }
}
