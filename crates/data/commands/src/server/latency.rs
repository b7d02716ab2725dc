//! Events that took longer than `latency-monitor-threshold`.

use std::collections::{BTreeMap, VecDeque};

use keyspace::Millis;

/// Samples of an event that are kept.
const SAMPLES_MAX: usize = 160;

/// What is kept of an event.
#[derive(Debug, Clone, Default)]
pub struct Event {
    /// When, in seconds since 1970, and how long, in milliseconds; one for each second, the oldest first.
    pub samples: VecDeque<(Millis, u64)>,
    /// The longest of all, in milliseconds.
    pub longest: u64,
}

/// Events by name.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    events: BTreeMap<&'static str, Event>,
}

impl LatencyMonitor {
    /// Keeps a sample. Of those of one second the longest stays.
    pub fn add(&mut self, event: &'static str, now: Millis, ms: u64) {
        let second = now / 1000;
        let event = self.events.entry(event).or_default();
        event.longest = event.longest.max(ms);
        match event.samples.back_mut() {
            Some((last, longest)) if *last == second => *longest = (*longest).max(ms),
            _ => {
                if event.samples.len() == SAMPLES_MAX {
                    event.samples.pop_front();
                }
                event.samples.push_back((second, ms));
            }
        }
    }

    /// An event by its name.
    pub fn event(&self, name: &[u8]) -> Option<&Event> {
        self.events.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, event)| event)
    }

    /// All of them by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &Event)> {
        self.events.iter().map(|(name, event)| (*name, event))
    }

    /// Forgets an event. Returns whether there was one.
    pub fn forget(&mut self, name: &[u8]) -> bool {
        let before = self.events.len();
        self.events.retain(|known, _| known.as_bytes() != name);
        self.events.len() < before
    }

    /// Forgets all of them; returns how many there were.
    pub fn clear(&mut self) -> usize {
        let count = self.events.len();
        self.events.clear();
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_sample_and_old_ones_go() {
        let mut monitor = LatencyMonitor::default();
        for (now, ms) in [(1000, 5), (1999, 9), (1100, 7), (2000, 3)] {
            monitor.add("command", now, ms);
        }
        let event = monitor.event(b"command").unwrap();
        assert_eq!((event.samples.iter().copied().collect::<Vec<_>>(), event.longest), (vec![(1, 9), (2, 3)], 9));
        for second in 3..1000 {
            monitor.add("command", second * 1000, 1);
        }
        assert_eq!(monitor.event(b"command").unwrap().samples.len(), SAMPLES_MAX);
        assert!(!monitor.forget(b"fork"));
        assert!(monitor.forget(b"command"));
        assert_eq!(monitor.clear(), 0);
    }
}
