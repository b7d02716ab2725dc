use super::*;
use crate::{FailingEngine, Failure, MemoryEngine};
use std::sync::Arc;

fn filled(records: u32) -> MemoryEngine {
    let engine = MemoryEngine::new();
    let mut batch = Batch::new();
    for number in 0..records {
        batch.put(number.to_be_bytes(), vec![number as u8; number as usize % 300]);
    }
    batch.set_applied(Offset(77));
    engine.write(&batch).unwrap();
    engine
}

fn backed_up(engine: &dyn Engine) -> Vec<u8> {
    let mut file = Vec::new();
    let written = backup(&*engine.snapshot(), 1_700_000_000_000, &mut file).unwrap();
    assert_eq!(written, summary(engine).unwrap());
    file
}

#[test]
fn what_is_restored_is_what_was_backed_up() {
    for records in [0, 1, 5_000] {
        let engine = filled(records);
        let file = backed_up(&engine);
        let restored = MemoryEngine::new();
        let (head, read) = restore(&mut file.as_slice(), &restored).unwrap();
        assert_eq!(head, BackupHead { created_ms: 1_700_000_000_000, applied: Some(Offset(77)) });
        assert_eq!(read, summary(&engine).unwrap());
        assert_eq!(summary(&restored).unwrap(), read);
        assert_eq!((read.records, restored.applied().unwrap()), (u64::from(records), Some(Offset(77))));
        assert!(matches!(restore(&mut file.as_slice(), &restored), Err(Error::Unfit(_))), "only into an empty one");
    }
}

#[test]
fn an_engine_without_an_offset_stays_without() {
    let file = backed_up(&MemoryEngine::new());
    let restored = MemoryEngine::new();
    assert_eq!(restore(&mut file.as_slice(), &restored).unwrap().0.applied, None);
    assert_eq!(restored.applied().unwrap(), None);
}

#[test]
fn digests_of_parts_add_up() {
    let whole = summary(&filled(10)).unwrap();
    let parts = [MemoryEngine::new(), MemoryEngine::new()];
    for record in filled(10).scan(&Bounds::all(), Direction::Backward) {
        let (key, value) = record.unwrap();
        let mut batch = Batch::new();
        batch.put(key.clone(), value);
        parts[usize::from(key[3] % 2)].write(&batch).unwrap();
    }
    let [first, second] = parts.map(|part| summary(&part).unwrap());
    assert_eq!(first.and(second), whole);
    assert_ne!(first.digest, second.digest);
}

#[test]
fn damage_is_found_wherever_it_is() {
    let file = backed_up(&filled(20));
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        let result = restore(&mut damaged.as_slice(), &MemoryEngine::new());
        assert!(matches!(result, Err(Error::Backup(_))), "byte {at}: {result:?}");
        let result = restore(&mut &file[..at], &MemoryEngine::new());
        assert!(matches!(result, Err(Error::Backup("it is cut off"))), "first {at} bytes: {result:?}");
    }
    let longer = [file.as_slice(), b"x"].concat();
    assert!(matches!(restore(&mut longer.as_slice(), &MemoryEngine::new()), Err(Error::Backup(_))));
}

#[test]
fn a_failing_engine_fails_a_backup() {
    let engine = FailingEngine::new(Arc::new(filled(5)));
    engine.fail(Failure::Read, 1);
    assert!(matches!(backup(&engine, 0, &mut Vec::new()), Err(Error::Io(_))));
    engine.fail(Failure::Full, 1);
    let empty = FailingEngine::new(Arc::new(MemoryEngine::new()));
    empty.fail(Failure::Full, 1);
    assert!(restore(&mut backed_up(&filled(5)).as_slice(), &empty).unwrap_err().is_full());
}

/// Backups of today must be read by all later versions.
#[test]
fn the_format_is_the_one_that_is_written_down() {
    let engine = MemoryEngine::new();
    let mut batch = Batch::new();
    batch.put("key", "value");
    batch.set_applied(Offset(5));
    engine.write(&batch).unwrap();
    let mut file = Vec::new();
    backup(&engine, 1, &mut file).unwrap();
    let hex: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = [
        "54494445424b5550",
        "01000000",
        "01000000",
        "0100000000000000",
        "0500000000000000",
        "2bdfa8b593162b9e",
        "1000000000000000",
        "03000000",
        "05000000",
        "6b6579",
        "76616c7565",
        "716b411a1ce2ed92",
        "ffffffffffffffff",
        "0100000000000000",
        "0800000000000000",
        "eb3e6e3bd62afaf45864f2deee02bca0",
        "ffbcf362b45a8493",
    ];
    assert_eq!(hex, expected.concat());
}
