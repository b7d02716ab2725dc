//! What clients are promised of replicas: so many of them have what a client is told of (`replica-ack`, `CLIENT REPLICA-ACK`).

use std::collections::BTreeMap;

use oplog::Offset;
use shard::release::Acknowledged;

/// For each number of replicas that somebody is promised, up to where as many have had the log, or it was promised to nobody. It never
/// goes back when a replica goes.
#[derive(Debug, Default)]
pub struct Promises(BTreeMap<usize, Offset>);

impl Promises {
    /// Whether nobody is promised anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These numbers are promised from now on, where the log ends.
    pub fn follow(&mut self, asked: &[usize], end: Offset) {
        // What was answered before was promised to nobody, unless somebody else was promised something: that still waits.
        let begins = self.0.values().min().copied().unwrap_or(end);
        self.0.retain(|replicas, _| asked.contains(replicas));
        for replicas in asked.iter().filter(|replicas| **replicas > 0) {
            self.0.entry(*replicas).or_insert(begins);
        }
    }

    /// Replicas have the log up to there, those first that have the most; it ends at `end`.
    pub fn note_acknowledged(&mut self, offsets: &[Offset], end: Offset) {
        for (replicas, kept) in &mut self.0 {
            let acknowledged = replicas.checked_sub(1).and_then(|place| offsets.get(place));
            *kept = acknowledged.map_or(*kept, |offset| (*kept).max((*offset).min(end)));
        }
    }

    /// Up to where each promise is kept.
    pub fn kept(&self) -> Vec<Acknowledged> {
        self.0.iter().map(|(replicas, offset)| Acknowledged { replicas: *replicas, offset: *offset }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(promises: &Promises) -> Vec<(usize, u64)> {
        promises.kept().into_iter().map(|kept| (kept.replicas, kept.offset.0)).collect()
    }

    #[test]
    fn a_promise_is_kept_as_far_as_so_many_have_the_log() {
        let mut promises = Promises::default();
        promises.follow(&[1, 0], Offset(10));
        assert_eq!(kept(&promises), [(1, 10)], "what was before was promised to nobody");
        promises.note_acknowledged(&[], Offset(20));
        assert_eq!(kept(&promises), [(1, 10)]);
        promises.follow(&[1, 2], Offset(20));
        assert_eq!(
            kept(&promises),
            [(1, 10), (2, 10)],
            "what waits for one replica does not go out when two are wanted"
        );
        promises.note_acknowledged(&[Offset(30), Offset(15)], Offset(25));
        assert_eq!(kept(&promises), [(1, 25), (2, 15)], "a replica of another history may be ahead");
        promises.note_acknowledged(&[Offset(5)], Offset(25));
        assert_eq!(kept(&promises), [(1, 25), (2, 15)], "a replica that goes takes nothing back");
        promises.follow(&[0], Offset(30));
        assert!(promises.is_empty());
    }
}
