//! Buckets of tokens, which fill up again over a period.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Parts that are locked apart.
const PARTS: usize = 16;
/// Buckets of a part at most. A key that finds no room is let through.
const BUCKETS_MAX: usize = 16_384;
/// Calls of a part between two searches for buckets that are full again.
const CALLS_BETWEEN_SWEEPS: u32 = 1_000;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    last_use: f64,
    period: f64,
    tokens: i64,
    capacity: i64,
    /// Until when nothing goes through, whatever there is.
    blocked_until: f64,
}

impl Bucket {
    fn new(capacity: i64, period: f64, now: f64) -> Self {
        Self { last_use: now, period, tokens: capacity, capacity, blocked_until: 0.0 }
    }

    /// What has come since the last token was taken.
    fn fill(&mut self, now: f64) {
        let passed = (now - self.last_use).max(0.0);
        let come = if self.period > 0.0 { passed / self.period * self.capacity as f64 } else { f64::MAX };
        let come = if come >= self.capacity as f64 { self.capacity } else { come as i64 };
        self.tokens = self.tokens.saturating_add(come).min(self.capacity);
    }

    fn is_blocked(&self, now: f64) -> bool {
        now < self.blocked_until
    }
}

#[derive(Debug, Default)]
struct BucketShard {
    buckets: HashMap<[u8; 32], Bucket>,
    calls: u32,
}

impl BucketShard {
    fn sweep(&mut self, now: f64) {
        self.buckets.retain(|_, bucket| now - bucket.last_use < bucket.period || bucket.is_blocked(now));
    }

    /// The bucket of a key, if it has one or there is room for it.
    fn bucket(&mut self, asked: &ThrottleCall) -> Option<&mut Bucket> {
        self.calls += 1;
        let is_full = self.buckets.len() >= BUCKETS_MAX && !self.buckets.contains_key(&asked.key);
        if self.calls >= CALLS_BETWEEN_SWEEPS {
            self.calls = 0;
            self.sweep(asked.now);
        }
        if is_full && self.buckets.len() >= BUCKETS_MAX {
            return None;
        }
        let new = || Bucket::new(asked.limit, asked.period, asked.now);
        Some(self.buckets.entry(asked.key).or_insert_with(new))
    }
}

/// What a call asks.
pub(crate) struct ThrottleCall {
    pub(crate) key: [u8; 32],
    pub(crate) limit: i64,
    pub(crate) period: f64,
    pub(crate) block: f64,
    pub(crate) now: f64,
}

/// All buckets, for all programs.
#[derive(Debug)]
pub(crate) struct Throttles([Mutex<BucketShard>; PARTS]);

impl Default for Throttles {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Throttles {
    fn part(&self, key: &[u8; 32]) -> MutexGuard<'_, BucketShard> {
        let [first, ..] = *key;
        #[expect(clippy::indexing_slicing, reason = "a remainder of their number")]
        self.0[usize::from(first) % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_denied(&self, asked: &ThrottleCall) -> bool {
        let mut part = self.part(&asked.key);
        let Some(bucket) = part.bucket(asked) else { return false };
        if bucket.is_blocked(asked.now) {
            return true;
        }
        bucket.fill(asked.now);
        if bucket.tokens > 0 {
            bucket.tokens -= 1;
            bucket.last_use = asked.now;
            return false;
        }
        if asked.block > 0.0 {
            bucket.blocked_until = asked.now + asked.block;
        }
        true
    }

    pub(crate) fn return_token(&self, asked: &ThrottleCall) {
        let mut part = self.part(&asked.key);
        if let Some(bucket) = part.bucket(asked) {
            bucket.fill(asked.now);
            bucket.last_use = asked.now;
            bucket.tokens = bucket.tokens.saturating_add(1).min(bucket.capacity);
        }
    }

    pub(crate) fn remaining(&self, asked: &ThrottleCall) -> i64 {
        let mut part = self.part(&asked.key);
        let Some(bucket) = part.bucket(asked) else { return asked.limit };
        if bucket.is_blocked(asked.now) {
            return 0;
        }
        let mut now = *bucket;
        now.fill(asked.now);
        now.tokens
    }

    pub(crate) fn blocked(&self, asked: &ThrottleCall) -> f64 {
        let part = self.part(&asked.key);
        part.buckets.get(&asked.key).map_or(0.0, |bucket| (bucket.blocked_until - asked.now).max(0.0))
    }

    pub(crate) fn remove(&self, asked: &ThrottleCall) {
        self.part(&asked.key).buckets.remove(&asked.key);
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS_MAX, ThrottleCall, Throttles};

    fn asked(key: u8, limit: i64, block: f64, now: f64) -> ThrottleCall {
        ThrottleCall { key: [key; 32], limit, period: 10.0, block, now }
    }

    #[test]
    fn tokens_come_back_over_the_period() {
        let throttles = Throttles::default();
        let denied = |now| throttles.is_denied(&asked(1, 2, 0.0, now));
        assert_eq!([100.0, 100.0, 100.0].map(denied), [false, false, true]);
        assert_eq!([104.0, 105.0, 105.0].map(denied), [true, false, true]);
        assert_eq!(throttles.remaining(&asked(1, 2, 0.0, 110.0)), 1);
        throttles.return_token(&asked(1, 2, 0.0, 105.0));
        assert!(!denied(105.0));
        assert!(!throttles.is_denied(&asked(2, 2, 0.0, 105.0)));
    }

    #[test]
    fn who_asks_too_much_is_blocked() {
        let throttles = Throttles::default();
        let asked = |now| asked(1, 1, 30.0, now);
        assert!(!throttles.is_denied(&asked(100.0)));
        assert_eq!(throttles.blocked(&asked(100.0)).to_bits(), 0.0_f64.to_bits());
        assert!(throttles.is_denied(&asked(101.0)));
        assert!(throttles.is_denied(&asked(120.0)));
        assert_eq!(throttles.remaining(&asked(120.0)), 0);
        assert_eq!(throttles.blocked(&asked(121.0)).to_bits(), 10.0_f64.to_bits());
        assert!(!throttles.is_denied(&asked(131.0)));
        throttles.remove(&asked(131.0));
        assert!(!throttles.is_denied(&asked(131.0)));
    }

    #[test]
    fn buckets_have_a_bound() {
        let throttles = Throttles::default();
        for number in 0..BUCKETS_MAX as u64 + 10 {
            let mut key = [0; 32];
            key[8..16].copy_from_slice(&number.to_ne_bytes());
            throttles.is_denied(&ThrottleCall { key, ..asked(0, 1, 0.0, 100.0) });
        }
        assert_eq!(throttles.part(&[0; 32]).buckets.len(), BUCKETS_MAX);
        throttles.part(&[0; 32]).sweep(200.0);
        assert!(throttles.part(&[0; 32]).buckets.is_empty());
    }
}
