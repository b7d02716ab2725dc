//! What memory takes beside what is allocated: free places between others, the allocator's own records, the program.
//!
//! `maxmemory` bounds what the machine holds of the process. What is counted is what was asked for, so the bound for that is
//! lower by what the rest takes. It is measured each second once memory is half full: after the allocator has given back what is free,
//! or whatever leaves memory would make it seem larger for a while, and more would leave for that. A thread does it: giving
//! back many pages takes milliseconds.
//!
//! Free places between others are not counted as long as the whole is within its bound: the next keys fill them. If they were, what
//! leaves memory would leave places behind that count, and more would leave for these.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use shard::MemoryGauge;

use crate::{allocator, host};
use keyspace::Millis;

/// What the process may take beside `maxmemory`: the program's own data, stacks, what the allocator keeps for each thread.
const BESIDE: u64 = 16 << 20;
/// The part of `maxmemory` that is taken for the rest at most.
const SHARE_MAX: u64 = 4;
/// The part of `maxmemory` that is given back at once when it has become free.
const FREED_SHARE: u64 = 16;
/// The part of `maxmemory` that is reckoned with at least, as what is given out is a little larger than what was asked for.
const SIZES_SHARE: u64 = 16;
/// The part of `maxmemory` by which what is used has grown when it is measured again at once.
const GROWN_SHARE: u64 = 32;
/// How often it is measured.
const EACH_MS: Millis = 1_000;

/// How much it is.
#[derive(Debug)]
pub struct Overhead {
    bytes: u64,
    measured: Arc<AtomicU64>,
    /// How much was used when it was measured.
    used_then: u64,
    /// The bound, for the thread that measures.
    known_bound: Arc<AtomicU64>,
    request: mpsc::SyncSender<()>,
    next: Millis,
    /// The most that was allocated since the allocator was last asked to give back what is free.
    highest: u64,
    /// How much memory is allocated.
    used: fn() -> usize,
}

impl Overhead {
    /// None so far. `used` says what is allocated.
    pub fn start(used: fn() -> usize) -> io::Result<Self> {
        let measured = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&measured);
        let known_bound = Arc::<AtomicU64>::default();
        let bound = Arc::clone(&known_bound);
        let (request, requests) = mpsc::sync_channel(1);
        thread::Builder::new().name("memory".into()).spawn(move || {
            while requests.recv().is_ok() {
                allocator::purge();
                let resident = host::resident_without_files().unwrap_or(0);
                let allocator = allocator::figures();
                let free = allocator.active.saturating_sub(allocator.allocated);
                let bytes = beside(resident, used() as u64, free, bound.load(Ordering::Relaxed));
                told.store(bytes, Ordering::Relaxed);
            }
        })?;
        Ok(Self { bytes: 0, measured, used_then: 0, known_bound, request, next: 0, highest: 0, used })
    }
}

impl MemoryGauge for Overhead {
    fn used(&self) -> u64 {
        (self.used)() as u64
    }

    /// Time goes on: it may be measured again.
    fn tick(&mut self, now: Millis, used: u64, bound: u64) {
        if bound == 0 || used < bound / 2 {
            self.bytes = 0;
            return;
        }
        let has_grown = used > self.used_then + bound / GROWN_SHARE;
        if !has_grown && now < self.next && self.next <= now + EACH_MS {
            return;
        }
        self.used_then = used;
        self.next = now + EACH_MS;
        self.known_bound.store(bound, Ordering::Relaxed);
        let followed = follow(self.bytes, self.measured.load(Ordering::Relaxed), used, bound);
        self.bytes = followed.max(bound / SIZES_SHARE);
        let _ = self.request.try_send(());
    }

    /// So much is allocated now. If much has become free since the most was, the allocator does not keep it for a second: what comes
    /// next may take other places, and the machine would hold both.
    fn note(&mut self, used: u64, bound: u64) {
        self.highest = self.highest.max(used);
        if bound > 0 && self.highest > bound / 2 && self.highest - used > bound / FREED_SHARE {
            self.highest = used;
            let _ = self.request.try_send(());
        }
    }

    /// What is left of a bound for what is allocated.
    fn of_bound(&self, bound: u64) -> u64 {
        bound - self.bytes.min(bound / SHARE_MAX)
    }
}

/// What memory takes beside what is used, of which `free` are places that can be used again. What the machine holds beyond the
/// bound counts in any case.
fn beside(resident: u64, used: u64, free: u64, bound: u64) -> u64 {
    let over = if bound > 0 { resident.saturating_sub(bound + BESIDE) } else { 0 };
    resident.saturating_sub(used + free + BESIDE).max(over)
}

/// What is reckoned with from now on: it grows with what is allocated, and shrinks more slowly than it grows.
fn follow(former: u64, measured: u64, used: u64, bound: u64) -> u64 {
    let times = (bound as f64 / used.max(1) as f64).clamp(1.0, 2.0);
    let expected = ((measured as f64 * times) as u64).min(bound / SHARE_MAX);
    if expected >= former { expected } else { former - (former - expected).div_ceil(4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn what_is_reckoned_with_follows_what_is_measured() {
        assert_eq!(follow(0, 10 * MB, 50 * MB, 100 * MB), 20 * MB, "as much again is to come");
        assert_eq!(follow(0, 10 * MB, 200 * MB, 100 * MB), 10 * MB);
        assert_eq!(follow(0, 90 * MB, 100 * MB, 100 * MB), 25 * MB, "never more than its share");
        assert_eq!(follow(20 * MB, 4 * MB, 100 * MB, 100 * MB), 16 * MB, "it shrinks bit by bit");
        let end = (0..100).fold(20 * MB, |former, _| follow(former, 0, 100 * MB, 100 * MB));
        assert_eq!(end, 0);
    }

    #[test]
    fn places_that_can_be_used_again_count_if_all_is_over_its_bound() {
        for (resident, used, free, expected) in [
            (100, 80, 0, 4),
            (100, 60, 20, 4),
            (100, 40, 40, 4),
            (116, 90, 5, 5),
            (120, 90, 5, 9),
            (120, 60, 40, 4),
            (10, 60, 40, 0),
        ] {
            assert_eq!(
                beside(resident * MB, used * MB, free * MB, 100 * MB),
                expected * MB,
                "{resident} {used} {free}"
            );
        }
        assert_eq!(beside(200 * MB, 100 * MB, 50 * MB, 0), 34 * MB, "there is no bound");
    }

    #[test]
    fn what_has_become_free_is_given_back_at_once_if_it_is_much() {
        let (request, requests) = mpsc::sync_channel(1);
        let mut overhead = Overhead {
            bytes: 0,
            measured: Arc::default(),
            used_then: 0,
            known_bound: Arc::default(),
            request,
            next: 0,
            highest: 0,
            used: || 0,
        };
        for (used, bound, is_much) in [
            (30, 100, false),
            (10, 100, false),
            (90, 100, false),
            (84, 100, false),
            (83, 100, true),
            (80, 100, false),
            (76, 100, true),
            (0, 0, false),
        ] {
            overhead.note(used * MB, bound * MB);
            assert_eq!(requests.try_recv().is_ok(), is_much, "{used}");
        }
    }

    #[test]
    fn a_small_part_of_the_bound_is_not_measured_at_all() {
        let mut overhead = Overhead::start(|| 0).unwrap();
        overhead.bytes = 10 * MB;
        assert_eq!(overhead.of_bound(100 * MB), 90 * MB);
        assert_eq!(overhead.of_bound(20 * MB), 15 * MB);
        overhead.tick(0, 10 * MB, 100 * MB);
        assert_eq!(overhead.of_bound(100 * MB), 100 * MB);
        assert_eq!(overhead.of_bound(0), 0);
    }
}
