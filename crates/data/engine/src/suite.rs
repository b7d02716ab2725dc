//! What every engine has to do, for each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{
    Batch, Bounds, Direction, Engine, Error, FjallEngine, FjallOptions, KEY_LEN_MAX, Key, LogOffset, MemoryEngine,
    Records, Value, remove_range,
};

/// An engine and what has to live as long.
struct Subject {
    engine: Arc<dyn Engine>,
    _folder: Option<tempfile::TempDir>,
}

fn subjects() -> Vec<(&'static str, Subject)> {
    // In memory if it can be: nothing here is about power failures.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let fjall = FjallEngine::open(folder.path(), &small()).unwrap();
    vec![
        ("memory", Subject { engine: Arc::new(MemoryEngine::new()), _folder: None }),
        ("fjall", Subject { engine: Arc::new(fjall), _folder: Some(folder) }),
        #[cfg(feature = "rocksdb")]
        rocksdb(),
    ]
}

#[cfg(feature = "rocksdb")]
fn rocksdb() -> (&'static str, Subject) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let options = crate::RocksOptions { memory_bytes_max: 16 << 20, ..crate::RocksOptions::default() };
    let engine = crate::RocksEngine::open(folder.path(), &options).unwrap();
    ("rocksdb", Subject { engine: Arc::new(engine), _folder: Some(folder) })
}

/// What a process that dies leaves: what was synced, and its offset.
#[cfg(feature = "rocksdb")]
#[test]
fn what_was_synced_is_there_when_rocksdb_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let open = || crate::RocksEngine::open(folder.path(), &crate::RocksOptions::default());
    let engine = open().unwrap();
    engine.write(&batch(&[("a", Some("1")), ("b", Some("2"))], Some(5))).unwrap();
    engine.sync().unwrap();
    engine.write(&batch(&[("a", Some("3"))], Some(6))).unwrap();
    assert!(matches!(open(), Err(Error::Io(_))), "two at a time");
    // Dropping a database flushes nothing without a journal, which is what a kill does.
    drop(engine);
    let engine = open().unwrap();
    let applied = engine.applied().unwrap().unwrap();
    let value = engine.get(b"a").unwrap().unwrap();
    assert!(matches!((applied.0, value.as_ref()), (5, b"1") | (6, b"3")), "{applied:?} {value:?}");
    assert_eq!(engine.durable(), Some(applied));
    assert_eq!(engine.get(b"b").unwrap(), Some(Value::from("2")));
}

/// The log may be cut there, so it has to follow without anybody asking.
#[cfg(feature = "rocksdb")]
#[test]
fn what_was_written_to_rocksdb_comes_to_be_durable_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let options = crate::RocksOptions { memory_bytes_max: 1 << 20, ..crate::RocksOptions::default() };
    let engine = crate::RocksEngine::open(folder.path(), &options).unwrap();
    let value = "x".repeat(100_000);
    let mut offset = 0;
    while engine.durable().is_none_or(|durable| durable < LogOffset(20)) {
        offset += 1;
        assert!(offset < 5_000, "nothing is durable");
        engine.write(&batch(&[("a", Some(&value))], Some(offset))).unwrap();
    }
}

pub(crate) fn small() -> FjallOptions {
    FjallOptions { memory_bytes_max: 16 << 20, ..FjallOptions::default() }
}

pub(crate) fn all(records: &dyn Records, bounds: &Bounds, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    records
        .scan(bounds, direction)
        .map(|record| record.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

fn batch(changes: &[(&str, Option<&str>)], applied: Option<u64>) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in changes {
        match value {
            Some(value) => batch.put(*key, *value),
            None => batch.delete(*key),
        }
    }
    if let Some(applied) = applied {
        batch.set_applied(LogOffset(applied));
    }
    batch
}

#[test]
fn an_engine_gives_back_what_it_was_given() {
    for (name, subject) in subjects() {
        let engine = &subject.engine;
        assert_eq!(engine.applied().unwrap(), None, "{name}");
        engine.write(&batch(&[("a", Some("1")), ("b", Some("2")), ("c", Some(""))], Some(7))).unwrap();
        engine.write(&batch(&[("a", Some("3")), ("b", None), ("d", None)], None)).unwrap();
        assert_eq!(engine.get(b"a").unwrap(), Some(Value::from("3")), "{name}");
        assert_eq!(engine.get(b"b").unwrap(), None, "{name}");
        assert_eq!(engine.get(b"c").unwrap(), Some(Value::from("")), "{name}");
        assert_eq!(engine.applied().unwrap(), Some(LogOffset(7)), "{name}: a batch without an offset leaves it");
        let expected = [(b"a".to_vec(), b"3".to_vec()), (b"c".to_vec(), b"".to_vec())];
        assert_eq!(all(&**engine, &Bounds::all(), Direction::Forward), expected, "{name}");
        let backward: Vec<_> = expected.into_iter().rev().collect();
        assert_eq!(all(&**engine, &Bounds::all(), Direction::Backward), backward, "{name}");
    }
}

#[test]
fn a_snapshot_stays_as_it_was() {
    for (name, subject) in subjects() {
        let engine = &subject.engine;
        engine.write(&batch(&[("a", Some("1")), ("b", Some("2"))], Some(1))).unwrap();
        let snapshot = engine.snapshot();
        let scan = engine.scan(&Bounds::all(), Direction::Forward);
        engine.write(&batch(&[("a", None), ("b", Some("3")), ("c", Some("4"))], Some(2))).unwrap();
        engine.compact().unwrap();
        assert_eq!(snapshot.get(b"a").unwrap(), Some(Value::from("1")), "{name}");
        assert_eq!(snapshot.applied().unwrap(), Some(LogOffset(1)), "{name}");
        let expected = [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())];
        assert_eq!(all(&*snapshot, &Bounds::all(), Direction::Forward), expected, "{name}");
        assert_eq!(scan.count(), 2, "{name}: a scan is of one state");
        assert_eq!(engine.get(b"c").unwrap(), Some(Value::from("4")), "{name}");
    }
}

#[test]
fn what_is_synced_is_durable() {
    for (name, subject) in subjects() {
        let engine = &subject.engine;
        assert_eq!(engine.durable(), None, "{name}");
        engine.write(&batch(&[("a", Some("1"))], Some(5))).unwrap();
        assert!(engine.durable() <= engine.applied().unwrap(), "{name}");
        engine.sync().unwrap();
        assert_eq!(engine.durable(), Some(LogOffset(5)), "{name}");
        engine.write(&batch(&[("a", Some("2"))], None)).unwrap();
        engine.sync().unwrap();
        assert_eq!(engine.durable(), Some(LogOffset(5)), "{name}: a batch without an offset leaves it");
    }
}

#[test]
fn what_does_not_fit_is_refused_as_a_whole() {
    for (name, subject) in subjects() {
        for key in [Vec::new(), vec![b'k'; KEY_LEN_MAX + 1], b"\xff\xff".to_vec(), b"\xff\xffa".to_vec()] {
            let mut batch = batch(&[("a", Some("1"))], Some(1));
            batch.put(key.clone(), "x");
            let error = subject.engine.write(&batch).unwrap_err();
            assert!(matches!(error, Error::Unfit(_)), "{name}: {error}");
            assert_eq!(subject.engine.get(b"a").unwrap(), None, "{name}");
            assert_eq!(subject.engine.applied().unwrap(), None, "{name}");
        }
        let mut longest = Batch::new();
        longest.put(vec![b'k'; KEY_LEN_MAX], vec![1; 1 << 20]);
        longest.put(vec![0], vec![]);
        longest.put(b"\xff\xfe\xff".to_vec(), vec![]);
        subject.engine.write(&longest).unwrap();
        assert_eq!(all(&*subject.engine, &Bounds::all(), Direction::Forward).len(), 3, "{name}");
    }
}

#[test]
fn a_removal_goes_by_steps_and_takes_the_orphan_with_its_last() {
    for (name, subject) in subjects() {
        let engine = &*subject.engine;
        let mut records = Batch::new();
        for number in 0..25_u8 {
            records.put([b'e', number], "x");
        }
        records.put("f", "stays");
        records.put("o", "orphan");
        engine.write(&records).unwrap();
        let bounds = Bounds::prefix(b"e");
        let orphan = [Key::from("o")];
        for (is_first, records, is_done) in [(true, 10, false), (false, 10, false), (false, 5, true)] {
            assert!(engine.get(b"o").unwrap().is_some(), "{name}");
            let removed = remove_range(engine, &bounds, is_first, 10, &orphan).unwrap();
            assert_eq!((removed.records, removed.is_done), (records, is_done), "{name}");
        }
        assert_eq!(all(engine, &Bounds::all(), Direction::Forward), [(b"f".to_vec(), b"stays".to_vec())], "{name}");
    }
}

/// A step of the model test.
#[derive(Debug, Clone)]
enum Step {
    Write(Vec<(u8, Option<u8>)>),
    Flush,
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => vec((any::<u8>(), any::<Option<u8>>()), 0..20).prop_map(Step::Write),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
    ]
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let bound = || {
        prop_oneof![
            Just(std::ops::Bound::Unbounded),
            any::<u8>().prop_map(|key| std::ops::Bound::Included(Key::from([key]))),
            any::<u8>().prop_map(|key| std::ops::Bound::Excluded(Key::from([key]))),
        ]
    };
    (bound(), bound()).prop_map(|(from, to)| Bounds { from, to })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn an_engine_is_an_ordered_map(steps in vec(step(), 1..30), ranges in vec(bounds(), 1..8)) {
        for (name, subject) in subjects() {
            let engine = &*subject.engine;
            let mut model = BTreeMap::new();
            for step in &steps {
                match step {
                    Step::Write(changes) => {
                        let mut batch = Batch::new();
                        for (key, value) in changes {
                            match value {
                                Some(value) => {
                                    batch.put([*key], vec![*value; 30]);
                                    model.insert(vec![*key], vec![*value; 30]);
                                }
                                None => {
                                    batch.delete([*key]);
                                    model.remove(&vec![*key]);
                                }
                            }
                        }
                        engine.write(&batch).unwrap();
                    }
                    Step::Flush => engine.sync().unwrap(),
                    Step::Compact => engine.compact().unwrap(),
                }
            }
            for bounds in &ranges {
                let mut expected: Vec<_> = model.iter().filter(|(key, _)| bounds.contains(key))
                    .map(|(key, value)| (key.clone(), value.clone())).collect();
                prop_assert_eq!(&all(engine, bounds, Direction::Forward), &expected, "{} {:?}", name, bounds);
                expected.reverse();
                prop_assert_eq!(&all(engine, bounds, Direction::Backward), &expected, "{} {:?}", name, bounds);
            }
            for key in 0..=u8::MAX {
                prop_assert_eq!(engine.get(&[key]).unwrap().map(|value| value.to_vec()), model.get(&vec![key]).cloned());
            }
        }
    }
}
