//! Events per second from counters that only grow.
//!
//! The request path counts and nothing else. Whoever asks for a rate takes the difference to the total at the beginning of
//! the current second and adds the part of the second before that still lies within one second, as HAProxy's frequency
//! counters do. The statistics' sampler asks once a second, so that a total is noted at each beginning.

use std::sync::{Mutex, PoisonError};

/// A total as it was when the current second began, and what came in the second before.
#[derive(Debug, Default)]
pub struct RateWindow(Mutex<Window>);

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    second: u64,
    total: u64,
    previous: u64,
    most: u64,
}

impl RateWindow {
    /// Events in the last second, `total` having been counted up to `now_ms`.
    pub fn rate(&self, total: u64, now_ms: u64) -> u64 {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        window.roll(total, now_ms);
        let current = total.saturating_sub(window.total);
        let left = 1_000 - now_ms % 1_000;
        current + window.previous * left / 1_000
    }

    /// Events in a second at most, as far as anyone looked.
    pub fn most(&self, total: u64, now_ms: u64) -> u64 {
        let rate = self.rate(total, now_ms);
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        window.most = window.most.max(rate);
        window.most
    }

    /// Forgets the greatest rate.
    pub fn reset_most(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).most = 0;
    }
}

impl Window {
    fn roll(&mut self, total: u64, now_ms: u64) {
        let second = now_ms / 1_000;
        if second == self.second {
            return;
        }
        // After a gap nobody knows in which of the seconds the events came; they are spread evenly.
        let came = total.saturating_sub(self.total);
        self.previous = came / (second - self.second).max(1);
        self.most = self.most.max(self.previous);
        self.second = second;
        self.total = total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slides_over_the_second() {
        let window = RateWindow::default();
        assert_eq!(window.rate(0, 1_000), 0);
        assert_eq!(window.rate(10, 1_999), 10);
        assert_eq!(window.rate(10, 2_000), 10, "all of the second before still counts");
        assert_eq!(window.rate(10, 2_500), 5);
        assert_eq!(window.rate(20, 2_500), 15);
        assert_eq!(window.rate(20, 9_000), 1, "ten events spread over the seconds since");
        assert_eq!(window.most(20, 9_000), 10);
    }
}
