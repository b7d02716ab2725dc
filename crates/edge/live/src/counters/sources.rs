//! Which frontends a backend's requests come from.
//!
//! A backend has few frontends, so each worker keeps a short list for each backend: a request compares an address or two
//! and adds one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use telemetry::Counter;

use super::SideCounters;

/// Frontends of a backend that are told apart. Those beyond are counted nowhere, so a picture of the flow lacks them.
pub const SOURCES_MAX: usize = 16;

/// Requests (sessions in TCP mode) by frontend; written by one worker.
#[derive(Debug, Default)]
pub struct Sources([Source; SOURCES_MAX]);

#[derive(Debug, Default)]
struct Source {
    /// [`Sources::key`] of the frontend, 0 for none.
    frontend: AtomicUsize,
    requests: Counter,
}

impl Sources {
    /// What a frontend is known by: the address of its numbers, which reloads carry over. When it is gone another one may
    /// get the same address and goes on counting there; readers only use differences.
    #[must_use]
    pub fn key(frontend: &Arc<SideCounters>) -> usize {
        Arc::as_ptr(frontend).addr()
    }

    /// Counts a request of a frontend.
    #[inline]
    pub fn count(&self, frontend: &Arc<SideCounters>) {
        let key = Self::key(frontend);
        for source in &self.0 {
            let known = source.frontend.load(Relaxed);
            if known == key {
                return source.requests.increment();
            }
            if known == 0 {
                source.frontend.store(key, Relaxed);
                return source.requests.increment();
            }
        }
    }

    /// Keys of frontends with their requests so far.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        let known = self.0.iter().map(|source| (source.frontend.load(Relaxed), source.requests.value()));
        known.take_while(|(key, _)| *key != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frontends_are_told_apart() {
        let sides: Vec<_> = (0..SOURCES_MAX + 2).map(|_| Arc::new(SideCounters::new(1))).collect();
        let sources = Sources::default();
        for (times, side) in sides.iter().enumerate() {
            for _ in 0..=times {
                sources.count(side);
            }
        }
        sources.count(&sides[0]);
        let counted: Vec<_> = sources.iter().collect();
        assert_eq!(counted.len(), SOURCES_MAX, "those beyond have no place");
        assert_eq!(counted[0], (Sources::key(&sides[0]), 2));
        assert_eq!(counted[3], (Sources::key(&sides[3]), 4));
    }
}
