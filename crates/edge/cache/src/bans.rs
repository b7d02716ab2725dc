//! Bans: objects that are removed by what they are, as soon as they are found or the lurker comes to them.
//!
//! A ban is a list of tests ([`Expression`]); it is about objects that were there when it was made. Each object notes the newest ban
//! that it has passed, so a lookup tests newer ones only. The lurker does the same for objects that nobody asks for; it cannot test
//! what a ban says of requests.

mod expression;
mod lurker;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    fmt::Write,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use http::Headers;
use rustc_hash::FxHashMap;

pub use expression::{Expression, Refused};
pub use lurker::{Lurker, LurkerSettings};

use crate::{Time, object::Object, storage::disk::Disk};

/// An object and, where one asks for it, a request.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// URL and fields of the request.
    pub request: Option<(&'s [u8], &'s Headers)>,
    /// The object.
    pub object: &'s Arc<Object>,
    /// When it is asked for.
    pub now: Time,
}

/// The newest ban that an object has passed.
#[derive(Debug)]
pub(crate) struct Mark {
    number: AtomicU64,
    list: Arc<Inner>,
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.list.leave(self.number.load(Relaxed));
    }
}

/// What bans count; the names of varnishstat.
#[derive(Debug, Default)]
pub struct BanCounters {
    /// `bans_added`.
    pub added: AtomicU64,
    /// `bans_deleted`.
    pub deleted: AtomicU64,
    /// `bans_tested`: objects tested by lookups.
    pub tested: AtomicU64,
    /// `bans_tests_tested`: tests of those.
    pub tests: AtomicU64,
    /// `bans_obj_killed`: objects that lookups removed.
    pub objects_killed: AtomicU64,
    /// `bans_lurker_tested`.
    pub lurker_tested: AtomicU64,
    /// `bans_lurker_tests_tested`.
    pub lurker_tests: AtomicU64,
    /// `bans_lurker_obj_killed`.
    pub lurker_killed: AtomicU64,
    /// `bans_dups`: bans that a newer one says again.
    pub duplicates: AtomicU64,
}

/// A ban.
#[derive(Debug)]
pub struct Ban {
    number: u64,
    time: Time,
    expression: Expression,
    is_completed: AtomicBool,
    /// Objects that stand here.
    objects: AtomicU64,
}

/// All bans, the newest last.
#[derive(Debug)]
pub struct BanList {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Their numbers follow one another.
    bans: RwLock<VecDeque<Arc<Ban>>>,
    newest: AtomicU64,
    /// The newest ban that says each thing, by [`Expression::saying`].
    sayings: Mutex<FxHashMap<u64, u64>>,
    /// Disk tiers that note every ban.
    journals: RwLock<Vec<Arc<Disk>>>,
    counters: BanCounters,
}

impl Default for BanList {
    fn default() -> Self {
        Self::starting_at(0.0)
    }
}

impl BanList {
    /// A list whose first entry, which bans nothing, is of this time: the age of the oldest objects.
    #[must_use]
    pub fn starting_at(time: Time) -> Self {
        let first = Ban {
            number: 1,
            time,
            expression: Expression::default(),
            is_completed: AtomicBool::new(true),
            objects: AtomicU64::new(0),
        };
        let bans = RwLock::new(VecDeque::from([Arc::new(first)]));
        // NOTE: it counts, as in Varnish.
        let counters = BanCounters { added: AtomicU64::new(1), ..BanCounters::default() };
        let inner =
            Inner { bans, newest: AtomicU64::new(1), sayings: Mutex::default(), journals: RwLock::default(), counters };
        Self { inner: Arc::new(inner) }
    }

    /// What it counts.
    #[must_use]
    pub fn counters(&self) -> &BanCounters {
        &self.inner.counters
    }

    /// Adds a ban; older ones that say the same are done with (`ban_dups`).
    pub fn add(&self, expression: Expression, now: Time) {
        let mut bans = self.inner.bans.write().unwrap_or_else(PoisonError::into_inner);
        let number = self.inner.newest.load(Relaxed) + 1;
        let before = self.inner.sayings().insert(expression.saying(), number);
        let before = before.and_then(|before| Inner::at(&bans, before)).filter(|ban| !ban.is_completed());
        if let Some(ban) = before.filter(|ban| ban.expression.says_the_same(&expression)) {
            ban.is_completed.store(true, Relaxed);
            self.inner.counters.duplicates.fetch_add(1, Relaxed);
        }
        // NOTE: before any object can have passed it.
        for journal in self.inner.journals.read().unwrap_or_else(PoisonError::into_inner).iter() {
            journal.note_ban(number, now, &expression.words());
        }
        bans.push_back(Arc::new(Ban::new(number, now, expression)));
        self.inner.counters.added.fetch_add(1, Relaxed);
        self.inner.newest.store(number, Relaxed);
    }

    /// A mark for an object that is new: no ban is about it.
    pub(crate) fn newest(&self) -> Mark {
        let bans = self.inner.read();
        let number = self.inner.newest.load(Relaxed);
        self.inner.enter(&bans, number);
        drop(bans);
        Mark { number: AtomicU64::new(number), list: Arc::clone(&self.inner) }
    }

    /// Whether a ban is about an object; one that passes all of them is tested by newer ones alone from now on.
    pub(crate) fn is_banned(&self, subject: &Subject<'_>) -> bool {
        let mark = &subject.object.ban_mark;
        let passed = mark.number.load(Relaxed);
        if passed == self.inner.newest.load(Relaxed) {
            return false;
        }
        let bans = self.inner.read();
        let newest = self.inner.newest.load(Relaxed);
        let mut tests = 0;
        let is_banned = bans
            .iter()
            .rev()
            .take_while(|ban| ban.number > passed)
            .filter(|ban| !ban.is_completed())
            .any(|ban| ban.expression.matches(subject, ban.time, &mut tests));
        self.inner.counters.tested.fetch_add(1, Relaxed);
        self.inner.counters.tests.fetch_add(tests, Relaxed);
        if is_banned {
            self.inner.counters.objects_killed.fetch_add(1, Relaxed);
        } else {
            self.inner.move_to(&bans, mark, newest);
        }
        is_banned
    }

    /// Drops the oldest bans that no object stands at.
    pub fn drop_unused(&self) {
        let mut bans = self.inner.bans.write().unwrap_or_else(PoisonError::into_inner);
        while bans.len() > 1 && bans.front().is_some_and(|oldest| oldest.objects.load(Relaxed) == 0) {
            if let Some(oldest) = bans.pop_front() {
                let (mut sayings, saying) = (self.inner.sayings(), oldest.expression.saying());
                if sayings.get(&saying) == Some(&oldest.number) {
                    sayings.remove(&saying);
                }
            }
            self.inner.counters.deleted.fetch_add(1, Relaxed);
        }
    }

    /// All of them, the newest first.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Ban>> {
        self.inner.read().iter().rev().cloned().collect()
    }

    /// What `ban.list` says.
    #[must_use]
    pub fn list(&self) -> String {
        let mut text = "Present bans:\n".to_owned();
        for ban in self.all() {
            let state = if ban.is_completed() { "C" } else { "-" };
            let _ = writeln!(text, "{:10.6} {:5} {state}  {}", ban.time, ban.objects(), ban.expression);
        }
        text
    }
}

/// A ban as a journal has it.
pub(crate) type StoredBan = (u64, Time, Expression);

impl BanList {
    /// Takes the bans over that a disk tier has noted, and has it note those that come. `false` if they are not those that the list
    /// has: then its objects cannot be tested.
    pub(crate) fn join(&self, disk: &Arc<Disk>, stored: Vec<StoredBan>) -> bool {
        let mut bans = self.inner.bans.write().unwrap_or_else(PoisonError::into_inner);
        let follows = stored.windows(2).all(|pair| matches!(pair, [one, next] if one.0.checked_add(1) == Some(next.0)));
        let newest = self.inner.newest.load(Relaxed);
        let last = stored.last().map_or(1, |ban| ban.0);
        let agrees = |(number, time, expression): &StoredBan| {
            bans.front().is_some_and(|oldest| *number < oldest.number)
                || Inner::at(&bans, *number).is_some_and(|ban| {
                    ban.time.to_bits() == time.to_bits() && ban.expression.words() == expression.words()
                })
        };
        if newest == 1 && follows && stored.first().is_none_or(|first| first.0 > 1 && first.0 < u64::MAX / 2) {
            if let (Some(first), Some(oldest)) = (stored.first(), bans.front_mut()) {
                // The entry that bans nothing stands before the first one; objects that are there already are older than all.
                let (number, objects) = (first.0 - 1, oldest.objects.load(Relaxed));
                let entry = Ban::new(number, oldest.time, Expression::default());
                entry.is_completed.store(true, Relaxed);
                entry.objects.store(objects, Relaxed);
                *oldest = Arc::new(entry);
            }
            self.inner.sayings().extend(stored.iter().map(|(number, _, expression)| (expression.saying(), *number)));
            bans.extend(
                stored.into_iter().map(|(number, time, expression)| Arc::new(Ban::new(number, time, expression))),
            );
            self.inner.newest.store(last, Relaxed);
        } else if follows && last <= newest && stored.iter().all(agrees) {
            bans.iter()
                .filter(|ban| ban.number > last)
                .for_each(|ban| disk.note_ban(ban.number, ban.time, &ban.expression.words()));
        } else {
            return false;
        }
        self.inner.journals.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(disk));
        true
    }

    /// Has a disk tier that knows no ban note all of them.
    pub(crate) fn join_anew(&self, disk: &Arc<Disk>) {
        let bans = self.inner.bans.write().unwrap_or_else(PoisonError::into_inner);
        for ban in bans.iter().filter(|ban| ban.number > 1) {
            disk.note_ban(ban.number, ban.time, &ban.expression.words());
        }
        self.inner.journals.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(disk));
    }

    /// Calls `note` with all bans, the oldest first, while none can be added.
    pub(crate) fn with_all(&self, note: impl FnOnce(&mut dyn Iterator<Item = &Ban>)) {
        let bans = self.inner.read();
        note(&mut bans.iter().map(|ban| &**ban).filter(|ban| !ban.expression.is_empty()));
    }

    /// A mark for an object that has passed bans up to this one.
    pub(crate) fn mark_at(&self, number: u64) -> Mark {
        let bans = self.inner.read();
        let oldest = bans.front().map_or(1, |ban| ban.number);
        let number = number.clamp(oldest, self.inner.newest.load(Relaxed).max(oldest));
        self.inner.enter(&bans, number);
        drop(bans);
        Mark { number: AtomicU64::new(number), list: Arc::clone(&self.inner) }
    }
}

impl Mark {
    /// Moves it to where another one stands, if that is before it.
    pub(crate) fn move_back(&self, other: &Self) {
        let number = other.number();
        if number < self.number() {
            self.list.move_to(&self.list.read(), self, number);
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    pub(crate) fn has_passed(&self, ban: u64) -> bool {
        self.number() >= ban
    }
}

impl Ban {
    fn new(number: u64, time: Time, expression: Expression) -> Self {
        Self { number, time, expression, is_completed: AtomicBool::new(false), objects: AtomicU64::new(0) }
    }

    /// Its place among all bans that there ever were.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// When it was made.
    #[must_use]
    pub fn time(&self) -> Time {
        self.time
    }

    /// What it tests.
    #[must_use]
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Whether there is nothing left that it could remove.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.is_completed.load(Relaxed)
    }

    /// Objects for which it is the newest that they have passed.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.objects.load(Relaxed)
    }
}

impl Inner {
    fn read(&self) -> RwLockReadGuard<'_, VecDeque<Arc<Ban>>> {
        self.bans.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn sayings(&self) -> MutexGuard<'_, FxHashMap<u64, u64>> {
        self.sayings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(bans: &VecDeque<Arc<Ban>>, number: u64) -> Option<&Arc<Ban>> {
        let oldest = bans.front()?.number;
        bans.get(usize::try_from(number.checked_sub(oldest)?).ok()?)
    }

    fn enter(&self, bans: &VecDeque<Arc<Ban>>, number: u64) {
        if let Some(ban) = Self::at(bans, number) {
            ban.objects.fetch_add(1, Relaxed);
        }
    }

    fn leave(&self, number: u64) {
        if let Some(ban) = Self::at(&self.read(), number) {
            ban.objects.fetch_sub(1, Relaxed);
        }
    }

    fn move_to(&self, bans: &VecDeque<Arc<Ban>>, mark: &Mark, number: u64) {
        // NOTE: bans are dropped under the writers' lock alone, so what is left is still in the list.
        self.enter(bans, number);
        let left = mark.number.swap(number, Relaxed);
        if let Some(ban) = Self::at(bans, left) {
            ban.objects.fetch_sub(1, Relaxed);
        }
    }
}
