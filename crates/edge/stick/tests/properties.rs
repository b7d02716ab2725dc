//! A table against a plain map that does the same, whatever is done to both.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test that fails may panic")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use stick::{DataType, Definition, Handle, KeyType, Layout, Reading, Removal, ServerKey, Table};

const EXPIRE_MS: u64 = 50;

#[derive(Clone, Debug)]
enum Step {
    Use(u8),
    Track(u8),
    Release(usize),
    Remove(u8),
    Wait(u8),
    Purge,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..20_u8).prop_map(Step::Use),
        2 => (0..20_u8).prop_map(Step::Track),
        2 => (0..8_usize).prop_map(Step::Release),
        1 => (0..20_u8).prop_map(Step::Remove),
        2 => (0..40_u8).prop_map(Step::Wait),
        1 => Just(Step::Purge),
    ]
}

#[derive(Clone, Copy, Debug, Default)]
struct Model {
    count: i64,
    references: u32,
    expire: u64,
}

proptest! {
    #[test]
    fn a_table_is_a_map(steps in prop::collection::vec(step(), 0..200)) {
        let mut layout = Layout::default();
        layout.store(DataType::Gpc0, None, None).unwrap();
        let definition = Definition {
            name: "t".into(), key: KeyType::String, key_len: 8, size: 1_000, expire_ms: EXPIRE_MS as u32, nopurge: false,
            server_key: ServerKey::Name, layout,
        };
        let table = Table::new(definition, 5);
        let mut model: BTreeMap<Vec<u8>, Model> = BTreeMap::new();
        let mut tracked: Vec<(Vec<u8>, Handle)> = Vec::new();
        let mut now = 0;
        let name = |number: u8| format!("key{number}").into_bytes();
        for step in steps {
            let is_over = |entry: &Model, now: u64| entry.references == 0 && entry.expire <= now;
            match step {
                Step::Use(number) => {
                    let key = name(number);
                    if model.get(&key).is_some_and(|entry| is_over(entry, now)) {
                        model.remove(&key);
                    }
                    table.find_or_make(&key, now, |entry| entry.count(DataType::Gpc0, DataType::Gpc0Rate, 1)).unwrap();
                    let entry = model.entry(key).or_default();
                    entry.count += 1;
                    entry.expire = now + EXPIRE_MS;
                }
                Step::Track(number) => {
                    let key = name(number);
                    if model.get(&key).is_some_and(|entry| is_over(entry, now)) {
                        model.remove(&key);
                    }
                    let (handle, ()) = table.track(&key, now, |entry| entry.start()).unwrap();
                    let entry = model.entry(key.clone()).or_default();
                    entry.references += 1;
                    entry.expire = now + EXPIRE_MS;
                    tracked.push((key, handle));
                }
                Step::Release(place) if place < tracked.len() => {
                    let (key, handle) = tracked.swap_remove(place);
                    table.release(handle, now, |_| {});
                    let entry = model.get_mut(&key).unwrap();
                    entry.references -= 1;
                    if is_over(entry, now) {
                        model.remove(&key);
                    }
                }
                Step::Release(_) => {}
                Step::Remove(number) => {
                    let key = name(number);
                    let expected = match model.get(&key) {
                        Some(entry) if is_over(entry, now) => Removal::Absent,
                        Some(entry) if entry.references > 0 => Removal::InUse,
                        Some(_) => Removal::Removed,
                        None => Removal::Absent,
                    };
                    prop_assert_eq!(table.remove(&key, now, |_| false), expected);
                    if expected != Removal::InUse {
                        model.remove(&key);
                    }
                }
                Step::Wait(time) => now += u64::from(time),
                Step::Purge => {
                    table.purge(now);
                    model.retain(|_, entry| !is_over(entry, now));
                    prop_assert_eq!(table.len() as usize, model.len());
                }
            }
            for number in 0..20 {
                let key = name(number);
                let expected = model.get(&key).filter(|entry| !is_over(entry, now));
                // NOTE: looking removes what is over, from the table alone.
                let found = table.find(&key, now, |entry| (entry.read(DataType::Gpc0, 0), entry.references()));
                let expected = expected.map(|entry| (Some(Reading::Number(entry.count)), entry.references));
                prop_assert_eq!(found, expected);
            }
            model.retain(|_, entry| !is_over(entry, now));
        }
    }
}
