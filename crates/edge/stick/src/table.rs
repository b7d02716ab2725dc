//! A table: shards, the count of entries, and what callers do with entries.

use std::sync::{
    Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};

use twox_hash::XxHash3_64;

use crate::{
    definition::Definition,
    dictionary::Dictionary,
    entry::Entry,
    shard::{Oldest, Shard},
    updates::{Learned, Update, Updates, Values},
};

/// Most shards of a table.
const SHARDS_MAX: u32 = 64;
/// A table gets another shard for each so many entries that it may have.
const ENTRIES_PER_SHARD: u32 = 1_024;
/// Entries that are removed or read under one lock.
const PURGE_BATCH: usize = 128;
/// How often room is made for one entry while other workers take it away again.
const ROOM_ATTEMPTS: usize = 4;

/// A shard alone on its cache lines.
#[derive(Debug)]
#[repr(align(64))]
struct Slot(Mutex<Shard>);

/// Where a tracked entry is. It stays there as long as the reference is held that came with this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    shard: u32,
    place: u32,
}

impl Handle {
    /// A number that no other entry of the table has at the same time.
    #[must_use]
    pub fn number(self) -> u64 {
        u64::from(self.shard) << 32 | u64::from(self.place)
    }
}

/// What came of removing an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// There is none of that key.
    Absent,
    /// It is tracked, and stays.
    InUse,
    /// It is gone.
    Removed,
}

/// The keys of a table at one moment, in their order.
#[derive(Debug, Default)]
pub struct Snapshot {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    order: Vec<u32>,
    next: usize,
}

impl Snapshot {
    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn key(&self, place: u32) -> &[u8] {
        let place = place as usize;
        let start = place.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(place).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or_default()
    }

    fn sort(&mut self) {
        let mut order: Vec<u32> = (0..self.ends.len() as u32).collect();
        order.sort_unstable_by(|one, other| self.key(*one).cmp(self.key(*other)));
        self.order = order;
    }

    /// The next key.
    pub fn next_key(&mut self) -> Option<&[u8]> {
        let place = *self.order.get(self.next)?;
        self.next += 1;
        Some(self.key(place))
    }
}

/// A stick table.
#[derive(Debug)]
pub struct Table {
    definition: Definition,
    seed: u64,
    slots: Box<[Slot]>,
    current: AtomicU32,
    dictionary: Dictionary,
    followed: AtomicBool,
    update: AtomicU64,
    committed: AtomicU64,
    notify: OnceLock<Notify>,
}

/// Called when there is an update that was not there before.
struct Notify(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Notify {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Notify")
    }
}

impl Table {
    /// An empty table. The seed makes its hash unpredictable to those who choose keys.
    #[must_use]
    pub fn new(definition: Definition, seed: u64) -> Self {
        let shards = (definition.size / ENTRIES_PER_SHARD).clamp(1, SHARDS_MAX).next_power_of_two();
        let slots = (0..shards).map(|_| Slot(Mutex::new(Shard::new(&definition)))).collect();
        Self {
            definition,
            seed,
            slots,
            current: AtomicU32::new(0),
            dictionary: Dictionary::default(),
            followed: AtomicBool::new(false),
            update: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            notify: OnceLock::new(),
        }
    }

    /// What it is.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Entries that it has, expired ones among them that nobody came across yet.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.current.load(Relaxed)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn hash(&self, key: &[u8]) -> u64 {
        XxHash3_64::oneshot_with_seed(self.seed, key)
    }

    fn shard_of(&self, hash: u64) -> u32 {
        // The index of a shard uses the lowest and the highest bits.
        ((hash >> 32) as u32) & (self.slots.len() as u32 - 1)
    }

    fn shard(&self, shard: u32) -> Option<MutexGuard<'_, Shard>> {
        self.slots.get(shard as usize).map(|slot| slot.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts one entry more, unless the table is full.
    fn reserve(&self) -> bool {
        let size = self.definition.size;
        self.current.fetch_update(Relaxed, Relaxed, |current| (current < size).then_some(current + 1)).is_ok()
    }

    fn forget(&self, count: u32) {
        self.current.fetch_sub(count, Relaxed);
    }

    /// Removes an entry if its time is over.
    fn drop_if_over(&self, shard: &mut Shard, hash: u64, place: u32, now: u64) -> bool {
        let over = shard.is_over(&self.definition, place, now);
        if over {
            shard.remove(&self.definition, &self.dictionary, hash, place);
            self.forget(1);
        }
        over
    }

    fn find_live(&self, shard: &mut Shard, hash: u64, key: &[u8], now: u64) -> Option<u32> {
        let place = shard.find(hash, key)?;
        (!self.drop_if_over(shard, hash, place, now)).then_some(place)
    }

    /// Works on the entry at a place and notes that it changed, if it did.
    fn work<R>(
        &self,
        shard: &mut Shard,
        place: u32,
        now: u64,
        work: impl FnOnce(&mut Entry<'_>) -> R,
    ) -> Option<(R, bool)> {
        let (result, changed) = shard.with(&self.definition, &self.dictionary, place, now, work)?;
        let tell = changed && self.followed.load(Relaxed);
        if tell {
            let committed = self.committed.load(Relaxed);
            shard.note_update(place, committed, || self.next_update());
        }
        Some((result, tell))
    }

    fn tell(&self, tell: bool) {
        if tell && let Some(notify) = self.notify.get() {
            (notify.0)();
        }
    }

    /// Works on the entry of a key, if there is one.
    pub fn find<R>(&self, key: &[u8], now: u64, work: impl FnOnce(&mut Entry<'_>) -> R) -> Option<R> {
        let hash = self.hash(key);
        let mut shard = self.shard(self.shard_of(hash))?;
        let place = self.find_live(&mut shard, hash, key, now)?;
        let (result, tell) = self.work(&mut shard, place, now, work)?;
        drop(shard);
        self.tell(tell);
        Some(result)
    }

    /// Works on the entry of a key, which is made if there is none; nothing when there is no room for it.
    pub fn find_or_make<R>(&self, key: &[u8], now: u64, work: impl FnOnce(&mut Entry<'_>) -> R) -> Option<R> {
        self.make(key, now, false, work).map(|(_, result)| result)
    }

    /// Takes a reference to the entry of a key, which is made if there is none, and works on it; nothing when there is no
    /// room for it. The reference has to be given back ([`Table::release`]).
    pub fn track<R>(&self, key: &[u8], now: u64, work: impl FnOnce(&mut Entry<'_>) -> R) -> Option<(Handle, R)> {
        self.make(key, now, true, work)
    }

    fn make<R>(
        &self,
        key: &[u8],
        now: u64,
        track: bool,
        work: impl FnOnce(&mut Entry<'_>) -> R,
    ) -> Option<(Handle, R)> {
        let hash = self.hash(key);
        let number = self.shard_of(hash);
        let mut shard = self.shard(number)?;
        let mut place = self.find_live(&mut shard, hash, key, now);
        for _ in 0..ROOM_ATTEMPTS {
            if place.is_some() {
                break;
            }
            if self.reserve() {
                let expire = now + u64::from(self.definition.expire_ms);
                place = Some(shard.insert(&self.definition, hash, key, expire, |key| self.hash(key)));
                break;
            }
            // NOTE: room is made without the lock of this shard: no two shards are ever locked together.
            drop(shard);
            if self.definition.nopurge || self.make_room() == 0 {
                return None;
            }
            shard = self.shard(number)?;
            place = self.find_live(&mut shard, hash, key, now);
        }
        let place = place?;
        if track {
            shard.acquire(place);
        }
        let (result, tell) = self.work(&mut shard, place, now, work)?;
        drop(shard);
        self.tell(tell);
        Some((Handle { shard: number, place }, result))
    }

    /// Works on a tracked entry.
    pub fn with<R>(&self, handle: Handle, now: u64, work: impl FnOnce(&mut Entry<'_>) -> R) -> Option<R> {
        let mut shard = self.shard(handle.shard)?;
        let (result, tell) = self.work(&mut shard, handle.place, now, work)?;
        drop(shard);
        self.tell(tell);
        Some(result)
    }

    /// Works on the entry of another table's tracked key, if there is one.
    pub fn with_key_of<R>(
        &self,
        other: &Table,
        handle: Handle,
        now: u64,
        work: impl FnOnce(&mut Entry<'_>) -> R,
    ) -> Option<R> {
        let key: Box<[u8]> = other.shard(handle.shard)?.key(handle.place).into();
        self.find(&key, now, work)
    }

    /// Works on a tracked entry for the last time and gives the reference back.
    pub fn release(&self, handle: Handle, now: u64, work: impl FnOnce(&mut Entry<'_>)) {
        let Some(mut shard) = self.shard(handle.shard) else { return };
        let tell = self.work(&mut shard, handle.place, now, work).is_some_and(|((), tell)| tell);
        shard.release(handle.place);
        if shard.is_over(&self.definition, handle.place, now) {
            let hash = self.hash(shard.key(handle.place));
            self.drop_if_over(&mut shard, hash, handle.place, now);
        }
        drop(shard);
        self.tell(tell);
    }

    /// Takes the entry of a key out unless it is tracked or `keep` says otherwise.
    pub fn remove(&self, key: &[u8], now: u64, keep: impl FnOnce(&mut Entry<'_>) -> bool) -> Removal {
        let hash = self.hash(key);
        let Some(mut shard) = self.shard(self.shard_of(hash)) else { return Removal::Absent };
        let Some(place) = self.find_live(&mut shard, hash, key, now) else { return Removal::Absent };
        let keeps = shard.with(&self.definition, &self.dictionary, place, now, keep).is_none_or(|(keeps, _)| keeps);
        if keeps || shard.references(place) > 0 {
            return Removal::InUse;
        }
        shard.remove(&self.definition, &self.dictionary, hash, place);
        self.forget(1);
        Removal::Removed
    }

    /// Makes room: takes the oldest out that nobody tracks, as many at once as HAProxy does. How many that were.
    fn make_room(&self) -> u32 {
        let wanted = (self.definition.size >> 8) + 1;
        // No more than every other one that is looked at may be in use.
        let mut looks = wanted.saturating_mul(2);
        let mut removed = 0;
        let mut cursors = vec![(0, 0); self.slots.len()];
        let mut heads: Vec<Option<u64>> =
            (0..self.slots.len() as u32).map(|shard| self.shard(shard)?.due_from((0, 0))).collect();
        while removed < wanted && looks > 0 {
            let oldest = heads.iter().enumerate().filter_map(|(place, due)| due.map(|due| (due, place))).min();
            let Some((_, place)) = oldest else { break };
            let (Some(cursor), Some(head)) = (cursors.get_mut(place), heads.get_mut(place)) else { break };
            let Some(mut shard) = self.shard(place as u32) else { break };
            let found = shard.take_oldest(&self.definition, &self.dictionary, cursor, u64::MAX, |key| self.hash(key));
            *head = match found {
                Oldest::None => None,
                Oldest::Removed | Oldest::Moved => shard.due_from(*cursor),
            };
            drop(shard);
            looks -= 1;
            if found == Oldest::Removed {
                removed += 1;
                self.forget(1);
            }
        }
        removed
    }

    /// Removes what has expired; when to come again.
    pub fn purge(&self, now: u64) -> Option<u64> {
        if self.definition.expire_ms == 0 {
            return None;
        }
        let mut next: Option<u64> = None;
        for number in 0..self.slots.len() as u32 {
            let mut cursor = (0, 0);
            loop {
                let Some(mut shard) = self.shard(number) else { break };
                let mut found = Oldest::Moved;
                for _ in 0..PURGE_BATCH {
                    found =
                        shard.take_oldest(&self.definition, &self.dictionary, &mut cursor, now, |key| self.hash(key));
                    match found {
                        Oldest::Removed => self.forget(1),
                        Oldest::Moved => {}
                        Oldest::None => break,
                    }
                }
                if found == Oldest::None {
                    next = [next, shard.due_from(cursor)].into_iter().flatten().min();
                    break;
                }
            }
        }
        next
    }

    /// The keys that it has now, in the order of their bytes.
    #[must_use]
    pub fn keys(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for number in 0..self.slots.len() as u32 {
            let Some(shard) = self.shard(number) else { continue };
            for place in shard.places() {
                snapshot.bytes.extend_from_slice(shard.key(place));
                snapshot.ends.push(snapshot.bytes.len());
            }
        }
        snapshot.sort();
        snapshot
    }

    /// Shows every entry: its key, milliseconds until it expires, and what it holds. What comes or goes meanwhile may be
    /// missing. No lock is held for long, and none while `work` runs.
    pub fn entries(&self, now: u64, mut work: impl FnMut(&[u8], u64, Values)) {
        for number in 0..self.slots.len() as u32 {
            let keys: Vec<Box<[u8]>> = match self.shard(number) {
                Some(shard) => shard.places().map(|place| shard.key(place).into()).collect(),
                None => continue,
            };
            for batch in keys.chunks(PURGE_BATCH) {
                let Some(mut shard) = self.shard(number) else { continue };
                let mut read = |key: &[u8]| {
                    let place = self.find_live(&mut shard, self.hash(key), key, now)?;
                    let work = |entry: &mut Entry<'_>| (entry.remaining_ms(), entry.stored());
                    shard.with(&self.definition, &self.dictionary, place, now, work).map(|(found, _)| found)
                };
                let found: Vec<Option<(u64, Values)>> = batch.iter().map(|key| read(key)).collect();
                drop(shard);
                for (key, found) in batch.iter().zip(found) {
                    if let Some((remaining_ms, values)) = found {
                        work(key, remaining_ms, values);
                    }
                }
            }
        }
    }

    /// Where the entry of a key is at the moment.
    #[must_use]
    pub fn handle(&self, key: &[u8]) -> Option<Handle> {
        let hash = self.hash(key);
        let number = self.shard_of(hash);
        let place = self.shard(number)?.find(hash, key)?;
        Some(Handle { shard: number, place })
    }

    /// Counts changes from now on, for those who tell peers; what is there already counts as changed now. `notify` is
    /// called, by the worker that made it and after its lock was given back, when there is a change to tell of; it must not
    /// block.
    pub fn follow(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _ = self.notify.set(Notify(Box::new(notify)));
        if self.followed.swap(true, Relaxed) {
            return;
        }
        for number in 0..self.slots.len() as u32 {
            let Some(mut shard) = self.shard(number) else { continue };
            let places: Vec<u32> = shard.places().collect();
            for place in places {
                shard.note_update(place, u64::MAX, || self.next_update());
            }
        }
    }

    /// The number of one more change. Only while the lock of its shard is held.
    fn next_update(&self) -> u64 {
        self.update.fetch_add(1, AcqRel) + 1
    }

    /// The last change.
    #[must_use]
    pub fn last_update(&self) -> u64 {
        self.update.load(Acquire)
    }

    /// The last change that anyone was told of ([`Table::updates_after`]).
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.committed.load(Relaxed)
    }

    /// The changes after `id`, in order, some `limit` of them at most. What changes again afterwards gets a new number,
    /// as someone has been told.
    #[must_use]
    pub fn updates_after(&self, id: u64, limit: usize, now: u64) -> Updates {
        // Numbers are given under the lock of a shard. So whatever has one up to this is found below, when that lock is
        // taken, and no later one is passed over.
        let mut upto = self.last_update();
        // Changes spread evenly over shards, so twice their share is most often enough of each.
        let share = (limit * 2 / self.slots.len().max(1)).max(4);
        let mut places: Vec<(u64, u32, u32)> = Vec::new();
        for number in 0..self.slots.len() as u32 {
            let Some(shard) = self.shard(number) else { continue };
            let before = places.len();
            places.extend(shard.updates.range(id + 1..).take(share).map(|(id, place)| (*id, number, *place)));
            if places.len() - before == share
                && let Some((last, ..)) = places.last()
            {
                // There may be more of this shard behind it.
                upto = upto.min(*last);
            }
        }
        places.retain(|(id, ..)| *id <= upto);
        places.sort_unstable();
        if places.len() > limit {
            places.truncate(limit);
            upto = places.last().map_or(upto, |(id, ..)| *id);
        }
        // NOTE: before values are read. Whoever changes one after that finds it committed, under the same lock.
        self.committed.fetch_max(upto, AcqRel);
        let read = |(id, number, place): (u64, u32, u32)| {
            let mut shard = self.shard(number)?;
            // It may have changed again since, and then comes later.
            if shard.updates.get(&id) != Some(&place) {
                return None;
            }
            let key = shard.key(place).into();
            let learned = shard.is_learned(place);
            let values = shard
                .with(&self.definition, &self.dictionary, place, now, |entry| (entry.remaining_ms(), entry.stored()));
            let ((remaining_ms, values), _) = values?;
            Some(Update { id, learned, key, remaining_ms, values })
        };
        Updates { changes: places.into_iter().filter_map(read).collect(), upto }
    }

    /// Takes over what a peer tells of an entry, which is made if there is none; whether there was room for it.
    pub fn learn(&self, learned: &Learned<'_>, now: u64) -> bool {
        let expire_ms = u64::from(self.definition.expire_ms);
        let made = self.make(learned.key, now, false, |entry| {
            entry.take(learned.values);
            *entry.expire = now + learned.remaining_ms.map_or(expire_ms, |remaining| remaining.min(expire_ms));
        });
        let Some((handle, ())) = made else { return false };
        if self.followed.load(Relaxed)
            && let Some(mut shard) = self.shard(handle.shard)
        {
            shard.note_learned(handle.place, || self.next_update());
        }
        true
    }
}
