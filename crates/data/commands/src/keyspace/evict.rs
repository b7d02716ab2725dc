//! Keys leave memory.

use crate::{Bytes, hash_index::Hashed as _, random::Random, slot::SLOTS};

use super::Keyspace;

/// How many keys are looked at for one that goes, besides `maxmemory-samples`: slots may be empty.
const TRIES: usize = 64;

impl Keyspace {
    /// Has a key leave memory that the tables have as it is: of some that are drawn, the one not used for longest. Returns
    /// whether there was one.
    pub fn evict_clean(&mut self, random: &mut Random, samples: usize) -> bool {
        if self.records.is_none() {
            return false;
        }
        let clock = self.lru_clock;
        let mut oldest: Option<(u32, usize, usize, Bytes)> = None;
        let mut seen = 0;
        for _ in 0..TRIES {
            if seen >= samples {
                break;
            }
            let db = random.below(self.databases.len().max(1) as u64) as usize;
            let slot = random.below(SLOTS as u64) as usize;
            let table =
                self.databases.get(db).filter(|database| database.len > 0).and_then(|database| database.slot(slot));
            let Some(entry) = table.and_then(|table| table.index.random(random.draw())) else { continue };
            if entry.dirty != 0 {
                continue;
            }
            seen += 1;
            // What is known not to be there is of the least use.
            let age = if entry.value.is_some() { clock.wrapping_sub(entry.touched) } else { u32::MAX };
            if oldest.as_ref().is_none_or(|(least, ..)| age > *least) {
                oldest = Some((age, db, slot, Bytes::from_slice(entry.name())));
            }
        }
        let Some((_, db, slot, key)) = oldest else { return false };
        self.drop_clean(db, slot, &key);
        true
    }

    fn drop_clean(&mut self, db: usize, slot: usize, key: &[u8]) {
        let Some(database) = self.databases.get_mut(db) else { return };
        let Some(table) = database.slot_mut(slot) else { return };
        let Some(entry) = table.index.remove(key) else { return };
        table.complete = false;
        if entry.value.is_none() {
            table.absent -= 1;
        }
        if entry.expire_at != super::NEVER {
            database.expiring.remove(&(entry.expire_at, entry.key));
        }
        self.partial = true;
        self.evicted_to_tables += 1;
    }
}
