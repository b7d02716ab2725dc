//! How long objects live.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::Time;

/// How long an object lives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lifetime {
    /// When the response was made, as far as its age tells.
    pub origin: Time,
    /// Seconds from then on that it is fresh.
    pub ttl: f64,
    /// Seconds after those that it may answer while it is fetched again.
    pub grace: f64,
    /// Seconds after those that it is kept to be validated.
    pub keep: f64,
}

impl Lifetime {
    /// When it is no longer fresh.
    #[must_use]
    pub fn fresh_until(&self) -> Time {
        self.origin + self.ttl
    }

    /// When it is removed.
    #[must_use]
    pub fn ends(&self) -> Time {
        self.origin + self.ttl.max(0.0) + self.grace.max(0.0) + self.keep.max(0.0)
    }
}

/// A lifetime as an object has it. It changes under the lock of the object's part of the index alone; who reads meanwhile has some times
/// of before and some of after, each of which somebody has wanted.
///
/// NOTE: grace and keep are of seven digits, as in Varnish, where all three are.
#[derive(Debug)]
pub(super) struct Times {
    origin: Time,
    ttl: AtomicU64,
    grace: AtomicU32,
    keep: AtomicU32,
}

impl Times {
    pub(super) fn new(lifetime: Lifetime) -> Self {
        let times = Self {
            origin: lifetime.origin,
            ttl: AtomicU64::default(),
            grace: AtomicU32::default(),
            keep: AtomicU32::default(),
        };
        times.set(lifetime);
        times
    }

    pub(super) fn lifetime(&self) -> Lifetime {
        let short = |time: &AtomicU32| f64::from(f32::from_bits(time.load(Relaxed)));
        Lifetime { origin: self.origin, ttl: self.ttl(), grace: short(&self.grace), keep: short(&self.keep) }
    }

    fn ttl(&self) -> f64 {
        f64::from_bits(self.ttl.load(Relaxed))
    }

    pub(super) fn fresh_until(&self) -> Time {
        self.origin + self.ttl()
    }

    pub(super) fn origin(&self) -> Time {
        self.origin
    }

    /// NOTE: the origin stays.
    pub(super) fn set(&self, lifetime: Lifetime) {
        #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
        let short = |time: f64| (time as f32).to_bits();
        self.ttl.store(lifetime.ttl.to_bits(), Relaxed);
        self.grace.store(short(lifetime.grace), Relaxed);
        self.keep.store(short(lifetime.keep), Relaxed);
    }
}
