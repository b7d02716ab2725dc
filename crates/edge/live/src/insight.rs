//! What a proxy's cache did lately that its operator may wonder about: requests that it did not answer and whose answers it did not
//! keep, each with the reason.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Requests that are remembered.
const RECENT_MAX: usize = 50;
/// Bytes of a method and of a target that are remembered.
const TEXT_BYTES_MAX: usize = 200;

/// A request that a cache neither answered nor stored the answer of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncached {
    /// When it was over, since 1970.
    pub at: Duration,
    /// Its method and its target, cut if they are long.
    pub request: String,
    /// What the client was sent.
    pub status: u16,
    /// Why.
    pub why: String,
}

/// What a proxy remembers.
#[derive(Debug, Default)]
pub struct CacheInsight {
    recent: Mutex<VecDeque<Uncached>>,
}

impl CacheInsight {
    /// Remembers a request.
    pub fn remember(&self, at: Duration, (method, target): (&[u8], &[u8]), status: u16, why: String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes.get(..TEXT_BYTES_MAX).unwrap_or(bytes)).into_owned();
        let request = format!("{} {}", text(method), text(target));
        let mut recent = self.lock();
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(Uncached { at, request, status, why });
    }

    /// What is remembered, the latest first.
    #[must_use]
    pub fn recent(&self) -> Vec<Uncached> {
        self.lock().iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Uncached>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered_and_long_ones_cut() {
        let insight = CacheInsight::default();
        for number in 0..60 {
            let target = format!("/{number}");
            insight.remember(Duration::from_secs(number), (b"GET", target.as_bytes()), 200, "pass".to_owned());
        }
        let recent = insight.recent();
        assert_eq!((recent.len(), &*recent[0].request, &*recent[49].request), (50, "GET /59", "GET /10"));
        insight.remember(Duration::ZERO, (b"GET", &[b'x'; 1_000]), 200, String::new());
        assert_eq!(insight.recent()[0].request.len(), 204);
    }
}
