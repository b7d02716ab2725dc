use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::{Error, FailingEngine, Failure, MemoryEngine, Records as _, remove_range};

#[derive(Debug, Clone)]
enum Step {
    Change(u8, Option<u8>),
    /// What a key held at the mark, handed in after it was set.
    Late(u8),
    Mark,
    Freeze,
    FreezeMarked,
    WriteFails,
    Write,
    Crash,
    Clear,
    Cleared,
    Check(Bounds),
}

fn bounds() -> impl Strategy<Value = Bounds> {
    use std::ops::Bound;
    let bound = || {
        prop_oneof![
            Just(Bound::Unbounded),
            any::<u8>().prop_map(|key| Bound::Included(Key::from([key]))),
            any::<u8>().prop_map(|key| Bound::Excluded(Key::from([key]))),
        ]
    };
    (bound(), bound()).prop_map(|(from, to)| Bounds { from, to })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0..40_u8, any::<Option<u8>>()).prop_map(|(key, value)| Step::Change(key, value)),
        5 => (0..40_u8).prop_map(Step::Late),
        3 => Just(Step::Mark),
        4 => Just(Step::Freeze),
        4 => Just(Step::FreezeMarked),
        3 => Just(Step::WriteFails),
        5 => Just(Step::Write),
        1 => Just(Step::Crash),
        1 => Just(Step::Clear),
        3 => Just(Step::Cleared),
        6 => bounds().prop_map(Step::Check),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn pairs(found: impl Iterator<Item = Result<(Key, Value)>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    found.map(|record| record.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn paged(tables: &Tables, bounds: &Bounds, direction: Direction, size: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut rest = Some(bounds.clone());
    while let Some(bounds) = rest.take() {
        let page = tables.capture(&bounds, direction, size).run(size, usize::MAX).unwrap();
        assert!(page.records.len() <= size);
        found.extend(pairs(page.records.into_iter().map(Ok)));
        rest = page.rest;
    }
    found
}

fn check(tables: &Tables, model: &Model, bounds: &Bounds) {
    for direction in [Direction::Forward, Direction::Backward] {
        let mut expected: Vec<_> = model
            .iter()
            .filter(|(key, _)| bounds.contains(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if direction == Direction::Backward {
            expected.reverse();
        }
        assert_eq!(pairs(tables.scan(bounds, direction)), expected, "{bounds:?} {direction:?}");
        for size in [1, 3, 100] {
            assert_eq!(paged(tables, bounds, direction, size), expected, "{bounds:?} {direction:?} by {size}");
        }
    }
    for key in 0..40 {
        assert_eq!(tables.get(&[key]).unwrap().map(|value| value.to_vec()), model.get(&vec![key]).cloned());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Offsets are the numbers of changes, so after a crash the engine must be exactly what the model was at its offset.
    #[test]
    fn tables_are_an_ordered_map_and_batches_are_true_at_their_offsets(steps in vec(step(), 1..200)) {
        let disk = Arc::new(MemoryEngine::with_crash_images());
        let engine = Arc::new(FailingEngine::new(Arc::clone(&disk) as Arc<dyn Engine>));
        let mut tables = Tables::new(Arc::clone(&engine) as Arc<dyn Engine>);
        let mut history: Vec<Model> = vec![Model::new()];
        // Where everything was cleared, and where that was when the engine had been emptied.
        let (mut clear_at, mut emptied_at) = (0, 0);
        for step in steps {
            let now = history.last().unwrap().clone();
            match step {
                Step::Change(key, value) => {
                    let mut next = now;
                    match value {
                        Some(value) => {
                            tables.put([key], [value, value]);
                            next.insert(vec![key], vec![value, value]);
                        }
                        None => {
                            tables.delete([key]);
                            next.remove(&vec![key]);
                        }
                    }
                    history.push(next);
                }
                Step::Late(key) => {
                    if let Some(LogOffset(at)) = tables.mark_offset() {
                        match history[at as usize].get(&vec![key]) {
                            Some(value) => tables.put_marked([key], value.clone()),
                            None => tables.delete_marked([key]),
                        }
                    }
                }
                Step::Mark => {
                    let was_marked = tables.mark_offset().is_some();
                    assert_eq!(tables.mark(LogOffset(history.len() as u64 - 1)), !was_marked);
                }
                Step::Freeze => {
                    let may = tables.frozen().is_none() && tables.mark_offset().is_none() && !tables.is_clearing();
                    assert_eq!(tables.freeze(LogOffset(history.len() as u64 - 1)).is_some(), may);
                }
                Step::FreezeMarked => {
                    let may = tables.frozen().is_none() && tables.mark_offset().is_some() && !tables.is_clearing();
                    assert_eq!(tables.freeze_marked().is_some(), may);
                }
                Step::WriteFails => {
                    if let Some(batch) = tables.frozen() {
                        engine.fail(Failure::Full, 1);
                        let error = engine.write(batch).unwrap_err();
                        assert!(error.is_full() && error.is_transient());
                    }
                }
                Step::Write => {
                    if let Some(batch) = tables.frozen().cloned() {
                        engine.write(&batch).unwrap();
                        assert_eq!(tables.written(), batch.applied());
                        disk.sync().unwrap();
                    }
                }
                Step::Crash => {
                    let left = disk.crash(0);
                    let LogOffset(at) = left.applied().unwrap().unwrap_or_default();
                    if (at as usize) < emptied_at {
                        // Emptied ahead of the offset: the log makes the rest of the way to the clearing, and it is empty there.
                        check(&Tables::new(Arc::new(left)), &Model::new(), &Bounds::all());
                        continue;
                    }
                    check(&Tables::new(Arc::new(left)), &history[at as usize], &Bounds::all());
                }
                Step::Clear => {
                    tables.clear();
                    clear_at = history.len();
                    history.push(Model::new());
                }
                Step::Cleared => {
                    // In the order of the writer's jobs: the frozen batch, then the removal.
                    if tables.is_clearing() {
                        if let Some(batch) = tables.frozen().cloned() {
                            engine.write(&batch).unwrap();
                            tables.written();
                        }
                        while !remove_range(&*engine, &Bounds::all(), true, 3, &[]).unwrap().is_done {}
                        disk.sync().unwrap();
                        emptied_at = clear_at;
                        tables.cleared();
                    }
                }
                Step::Check(bounds) => check(&tables, &now, &bounds),
            }
        }
        check(&tables, history.last().unwrap(), &Bounds::all());
    }
}

#[test]
fn memory_is_counted_and_given_back() {
    let mut tables = Tables::new(Arc::new(MemoryEngine::new()));
    assert_eq!((tables.overlay_bytes(), tables.overlay_len()), (0, 0));
    tables.put("key", "value");
    let one = tables.overlay_bytes();
    assert!(one > 8);
    tables.put("key", "value");
    assert_eq!(tables.overlay_bytes(), one, "the same record again");
    tables.put("key", "longer value");
    assert_eq!(tables.overlay_bytes(), one + 7);
    tables.delete("key");
    assert_eq!(tables.overlay_bytes(), one - 5);
    let batch = tables.freeze(LogOffset(1)).unwrap();
    tables.put("other", "value");
    assert_eq!(tables.overlay_len(), 2);
    tables.engine().write(&batch).unwrap();
    assert_eq!(tables.written(), Some(LogOffset(1)));
    assert_eq!(tables.overlay_len(), 1);
}

#[test]
fn memory_answers_without_the_engine() {
    let engine = Arc::new(FailingEngine::new(Arc::new(MemoryEngine::new())));
    let mut tables = Tables::new(Arc::clone(&engine) as Arc<dyn Engine>);
    engine.fail(Failure::Read, u64::MAX);
    tables.put("a", "1");
    tables.delete("b");
    assert_eq!(tables.get(b"a").unwrap(), Some(Value::from("1")));
    assert_eq!(tables.get(b"b").unwrap(), None);
    assert_eq!(tables.get_in_memory(b"c"), None);
    assert!(matches!(tables.get(b"c"), Err(Error::Io(_))));
    let found: Vec<_> = tables.scan(&Bounds::all(), Direction::Forward).collect();
    assert!(
        matches!(found.as_slice(), [Err(Error::Io(_))]),
        "an error ends a scan, and nothing is left out in silence"
    );
}
