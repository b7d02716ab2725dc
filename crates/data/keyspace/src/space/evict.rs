//! Keys leave memory.

use crate::{
    Bytes, Failure, Millis, Value,
    hash_index::{self, CURSOR_BITS, Hashed as _},
    random::Random,
    slot::{self, SLOTS},
};

use super::{Entry, Keys, Keyspace, MaxmemoryPolicy, NEVER, Walked};

/// How many keys are looked at for one that goes, besides `maxmemory-samples`: slots may be empty.
const TRIES: usize = 64;
/// How many keys of the tables are looked at at least.
const WALKED_LEAST: usize = 16;

/// How many keys are looked at together, of those that are drawn.
const NEIGHBOURS: usize = 4;

impl Keyspace {
    /// Has a key leave memory that the tables have as it is: of some that are drawn, the one that was used least. Returns
    /// whether there was one.
    pub fn evict_clean(&mut self, random: &mut Random, samples: usize) -> bool {
        self.evict_of(random, samples, |_| true)
    }

    /// The same for what is known not to be there: that leaves no key behind in the tables. Once all keys are in memory, nothing
    /// of the kind is kept.
    pub fn evict_absent(&mut self, random: &mut Random, samples: usize) -> bool {
        let absent = |database: &super::Database| database.absent_len() > 0;
        self.is_partial()
            && self.databases.iter().any(absent)
            && self.evict_of(random, samples, |entry| entry.value.is_none())
    }

    fn evict_of(&mut self, random: &mut Random, samples: usize, may_go: impl Fn(&Entry) -> bool) -> bool {
        if self.records.is_none() {
            return false;
        }
        let mut oldest: Option<(u32, usize, usize, Bytes)> = None;
        let mut seen = 0;
        let occupied = self.databases.iter().filter(|database| database.len > 0).count();
        for _ in 0..TRIES {
            if seen >= samples {
                break;
            }
            let chosen = random.below(occupied.max(1) as u64) as usize;
            let mut databases = self.databases.iter().enumerate().filter(|(_, database)| database.len > 0);
            let Some((db, database)) = databases.nth(chosen) else { return false };
            let Some(slot) = database.random_slot(random) else { continue };
            let Some(table) = database.slot(slot) else { continue };
            for entry in table.index.random_neighbours(random.draw(), NEIGHBOURS) {
                if entry.dirty != 0 || entry.value.as_ref().is_some_and(Value::is_unsettled) || !may_go(entry) {
                    continue;
                }
                seen += 1;
                // What is known not to be there is of the least use.
                let age = if entry.value.is_some() { self.usage.coldness(entry.touched) } else { u32::MAX };
                if oldest.as_ref().is_none_or(|(least, ..)| age > *least) {
                    oldest = Some((age, db, slot, Bytes::from_slice(entry.name())));
                }
            }
        }
        let Some((_, db, slot, key)) = oldest else { return false };
        if !self.let_go(db, slot, &key) {
            self.drop_clean(db, slot, &key);
        }
        true
    }

    /// The key that a policy lets go first, of some that are drawn.
    pub fn least_worth_keeping(
        &self,
        policy: MaxmemoryPolicy,
        random: &mut Random,
        samples: usize,
    ) -> Option<(usize, Bytes)> {
        if policy == MaxmemoryPolicy::VolatileTtl {
            let first = |(db, database): (usize, &super::Database)| {
                database.expiring.first().map(|(at, key)| (*at, db, key.clone()))
            };
            return self.databases.iter().enumerate().filter_map(first).min().map(|(_, db, key)| (db, key));
        }
        let by_chance = matches!(policy, MaxmemoryPolicy::AllkeysRandom | MaxmemoryPolicy::VolatileRandom);
        let mut least: Option<(u32, usize, Bytes)> = None;
        let mut seen = 0;
        let occupied: Vec<usize> =
            (0..self.databases.len()).filter(|db| self.databases.get(*db).is_some_and(|one| one.len > 0)).collect();
        for _ in 0..TRIES * samples.max(1) {
            let db = *occupied.get(random.below(occupied.len().max(1) as u64) as usize)?;
            let table = self.databases.get(db).and_then(|database| database.slot(database.random_slot(random)?));
            let entry = table.and_then(|table| table.index.random(random.draw())).filter(|entry| entry.value.is_some());
            let Some(entry) = entry else { continue };
            if policy.is_volatile() && entry.expire_at == NEVER {
                continue;
            }
            seen += 1;
            let idleness = if by_chance { 0 } else { self.usage.idleness(entry.touched) };
            if least.as_ref().is_none_or(|(most, ..)| idleness > *most) {
                least = Some((idleness, db, entry.key.clone()));
            }
            if seen >= samples || by_chance {
                break;
            }
        }
        // Few keys leave most slots empty.
        let any = || {
            let mut one_of = |db: usize| Some((db, self.databases.get(db)?.random(random)?.key.clone()));
            occupied.iter().find_map(|db| one_of(*db)).filter(|_| !policy.is_volatile())
        };
        // Few keys that expire among many that do not: the next one to expire is as good as any.
        let any_volatile = || {
            let first = |(db, database): (usize, &super::Database)| Some((db, database.expiring.first()?.1.clone()));
            self.databases.iter().enumerate().find_map(first).filter(|_| policy.is_volatile())
        };
        least.map(|(_, db, key)| (db, key)).or_else(any).or_else(any_volatile)
    }

    /// Has a key leave memory that the tables have as it is: one that was not there before somebody looked at it.
    pub(crate) fn forget(&mut self, db: usize, key: &[u8]) {
        let slot = slot::slot(key);
        let entry = self.databases.get(db).and_then(|database| database.slot(slot)?.index.get(key));
        let may_go = |entry: &Entry| entry.dirty == 0 && !entry.value.as_ref().is_some_and(Value::is_unsettled);
        if self.records.is_some() && entry.is_some_and(may_go) && !self.busy.has(key) {
            self.drop_clean(db, slot, key);
        }
    }

    /// Has all keys leave memory that the tables have as they are.
    pub fn forget_clean(&mut self) {
        if self.records.is_none() {
            return;
        }
        for db in 0..self.databases.len() {
            let next = |space: &Self, from| space.databases.get(db).map_or(SLOTS, |database| database.next_slot(from));
            let mut slot = next(self, 0);
            while slot < SLOTS {
                let table = self.databases.get(db).and_then(|database| database.slot(slot));
                let is_clean =
                    |entry: &&Entry| entry.dirty == 0 && !entry.value.as_ref().is_some_and(Value::is_unsettled);
                let clean = table.into_iter().flat_map(|table| table.index.iter()).filter(is_clean);
                for key in clean.map(|entry| entry.key.clone()).collect::<Vec<_>>() {
                    self.drop_clean(db, slot, &key);
                }
                slot = next(self, slot + 1);
            }
        }
    }

    /// Leaves the elements of a collection to their records, if it has records. Returns whether it has.
    fn let_go(&mut self, db: usize, slot: usize, key: &[u8]) -> bool {
        let table = self.databases.get_mut(db).and_then(|database| database.slot_mut(slot));
        let value = table.and_then(|table| table.index.get_mut(key)).and_then(|entry| entry.value.as_mut());
        let Some(former) = value.and_then(Value::let_go) else { return false };
        self.graveyard.bury(former);
        self.evicted_to_tables += 1;
        true
    }

    fn drop_clean(&mut self, db: usize, slot: usize, key: &[u8]) {
        let Some(database) = self.databases.get_mut(db) else { return };
        let disk = database.disk;
        let hash = hash_index::hash(key, self.seed);
        let Some(entry) = database.remove_hashed(slot, hash, key) else { return };
        self.partial |= entry.value.is_some();
        self.reading.leaves(disk, &entry.key);
        if entry.value.is_none() {
            if let Some(table) = database.slot_mut(slot) {
                table.absent -= 1;
            }
            database.absent -= 1;
        } else {
            // Of what is not there nothing would be lost.
            database.slot_leaves(slot);
        }
        if entry.expire_at != super::NEVER {
            database.expiring.remove(&(entry.expire_at, entry.key));
        }
        if let Some(mut value) = entry.value {
            self.stop_gathering(&mut value);
            self.graveyard.bury(value);
        }
        self.evicted_to_tables += 1;
    }
}

impl Keys<'_> {
    /// The key that a policy lets go first for the sake of the disk, of some that are drawn, in memory or not.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn least_worth_its_place(
        &mut self,
        policy: MaxmemoryPolicy,
        random: &mut Random,
        samples: usize,
    ) -> Result<Option<Bytes>, Failure> {
        let bits = (SLOTS as u64).trailing_zeros() + CURSOR_BITS;
        let mut found = Vec::new();
        // They stand together, so more cost little; and those that may go may stand behind many that may not.
        self.walk(random.draw() >> (64 - bits), samples.max(WALKED_LEAST), &mut found)?;
        found.retain(|walked| !policy.is_volatile() || walked.expire_at != NEVER);
        let worth = |walked: &Walked| match policy {
            MaxmemoryPolicy::VolatileTtl => walked.expire_at,
            _ => {
                let entry =
                    self.space.databases.get(self.db).and_then(|database| database.slot(slot::slot(&walked.key)));
                let entry = entry.and_then(|table| table.index.get_hashed(walked.hash, &walked.key));
                entry.map_or(0, |entry| Millis::from(u32::MAX - self.space.usage.idleness(entry.touched)))
            }
        };
        if matches!(policy, MaxmemoryPolicy::AllkeysRandom | MaxmemoryPolicy::VolatileRandom) {
            let index = random.below(found.len().max(1) as u64) as usize;
            return Ok(found.into_iter().nth(index).map(|walked| walked.key));
        }
        Ok(found.into_iter().min_by_key(worth).map(|walked| walked.key))
    }
}
