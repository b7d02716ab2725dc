//! Tables of 1,024 slots become tables of 16,384: what stands in front of a key changes.
//!
//! Elements of collections stay where they are: the key's record says where that is. Each batch moves some keys as a whole, and one
//! that stands at its place already is left there, so a start that was interrupted goes on.

use std::ops::Bound;

use engine::{
    Batch, Direction, Engine, Key,
    record::{self, Header, Kind, RecordKey},
};
use keyspace::slot::{SLOTS, cluster_slot};

/// The name of the record that says how many slots there are.
const NAME: &[u8] = b"slots";
/// How many there were when nothing said so.
const FORMER: u16 = 1024;
/// Keys that are moved at once.
const STEP: usize = 1000;

/// The record that says how many slots there are, and what it says of tables by this program.
pub(super) fn marker() -> (Key, [u8; 4]) {
    (record::meta(0, 0, NAME), (SLOTS as u32).to_be_bytes())
}

/// Moves the keys of tables that are older. Returns how many that were.
pub(super) fn renumber(engine: &dyn Engine) -> Result<u64, engine::Error> {
    let (name, slots) = marker();
    let Some(applied) = engine.applied()? else { return Ok(0) };
    if engine.get(&name)?.is_some_and(|said| *said == slots) {
        return Ok(0);
    }
    let mut moved = 0;
    for slot in 0..FORMER {
        let mut bounds = record::range::kind(slot, Kind::Key);
        loop {
            let records: Vec<_> = engine.scan(&bounds, Direction::Forward).take(STEP).collect::<Result<_, _>>()?;
            let Some((last, _)) = records.last() else { break };
            bounds.from = Bound::Excluded(last.clone());
            let mut batch = Batch::new();
            batch.set_applied(applied);
            let before = moved;
            for (former, value) in records {
                if let Some(name) = moved_name(&former, &value, slot)? {
                    batch.delete(former);
                    batch.put(name, value);
                    moved += 1;
                }
            }
            if moved > before {
                engine.write(&batch)?;
            }
        }
    }
    let mut batch = Batch::new();
    batch.set_applied(applied);
    batch.put(name, slots.to_vec());
    engine.write(&batch)?;
    engine.sync()?;
    Ok(moved)
}

/// The name of a key's record in its slot; nothing if it has that already.
fn moved_name(name: &Key, value: &[u8], slot: u16) -> Result<Option<Key>, engine::Error> {
    let damaged = |reason: record::NotARecord| {
        let place = engine::DamagePlace::At(name.to_vec());
        engine::Error::Damaged { place, file: None, source: Box::new(reason) }
    };
    let RecordKey::Key { key, .. } = record::decode(name).map_err(damaged)? else { return Ok(None) };
    let (header, _) = Header::decode(value).map_err(damaged)?;
    let own = cluster_slot(header.key.unwrap_or(key.bytes()));
    let behind = name.get(2..).unwrap_or_default();
    Ok((own != slot).then(|| Key::from([&own.to_be_bytes(), behind].concat())))
}

#[cfg(test)]
mod tests {
    use engine::{MemoryEngine, Records as _};

    use super::*;

    #[test]
    fn keys_of_older_tables_are_found_in_their_slots() {
        let engine = MemoryEngine::new();
        let mut batch = Batch::new();
        batch.set_applied(engine::LogOffset(7));
        let header = super::super::encode(b"", keyspace::Stored::Whole(vec![0, 1, b'x']), None);
        let keys: Vec<String> = (0..5000).map(|number| format!("key:{number}")).collect();
        for key in &keys {
            batch.put(record::key(3, cluster_slot(key.as_bytes()) % FORMER, 2, key.as_bytes()), header.clone());
        }
        engine.write(&batch).unwrap();
        assert!(renumber(&engine).unwrap() > 4000);
        for key in &keys {
            let name = record::key(3, cluster_slot(key.as_bytes()), 2, key.as_bytes());
            assert_eq!(*engine.get(&name).unwrap().unwrap(), *header, "{key}");
        }
        assert_eq!(engine.scan(&engine::Bounds::all(), Direction::Forward).count(), keys.len() + 1);
        assert_eq!((renumber(&engine).unwrap(), engine.applied().unwrap()), (0, Some(engine::LogOffset(7))));
    }

    #[test]
    fn new_tables_have_nothing_to_be_moved() {
        let engine = MemoryEngine::new();
        assert_eq!(renumber(&engine).unwrap(), 0);
        assert_eq!(engine.get(&marker().0).unwrap(), None);
    }
}
