//! What clients are promised of replicas: so many of them have what a client is told of (`replica-ack`, `CLIENT REPLICA-ACK`).

use std::collections::BTreeMap;

use oplog::Offset;

/// For each number of replicas that somebody is promised, up to where as many have had the log, or it was promised to nobody. It never
/// goes back when a replica goes.
#[derive(Debug, Default)]
pub struct Promises(BTreeMap<usize, Offset>);

impl Promises {
    /// Whether nobody is promised anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These numbers are promised from now on, where the log ends.
    pub fn follow(&mut self, wanted: &[usize], end: Offset) {
        // What was answered before was promised to nobody, unless somebody else was promised something: that still waits.
        let begins = self.0.values().min().copied().unwrap_or(end);
        self.0.retain(|replicas, _| wanted.contains(replicas));
        for replicas in wanted.iter().filter(|replicas| **replicas > 0) {
            self.0.entry(*replicas).or_insert(begins);
        }
    }

    /// Replicas have the log up to there, those first that have the most; it ends at `end`.
    pub fn handle_acknowledged(&mut self, offsets: &[Offset], end: Offset) {
        for (replicas, kept) in &mut self.0 {
            let acknowledged = replicas.checked_sub(1).and_then(|place| offsets.get(place));
            *kept = acknowledged.map_or(*kept, |offset| (*kept).max((*offset).min(end)));
        }
    }

    /// Up to where the promise of each number is kept.
    pub fn kept(&self) -> impl Iterator<Item = (usize, Offset)> {
        self.0.iter().map(|(replicas, offset)| (*replicas, *offset))
    }
}

/// A replica, as far as it counts for a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    /// Its host.
    pub host: &'a str,
    /// The port that it serves at.
    pub port: u16,
    /// It is given the log; if not, it is given a copy first, and counts for nothing.
    pub is_online: bool,
    /// What it has applied.
    pub applied: Offset,
}

/// Up to where replicas have the log that are given it, those first that have the most. In a cluster only those count that the agent has
/// named (`counted`), `wanted` of them; of more of them than that, the others may be anybody.
#[must_use]
pub fn acknowledged(replicas: &[Standing<'_>], counted: Option<&[(String, u16)]>, wanted: usize) -> Vec<Offset> {
    let sorted = |mut offsets: Vec<Offset>| {
        offsets.sort_unstable_by(|left, right| right.cmp(left));
        offsets
    };
    let all = sorted(replicas.iter().filter(|replica| replica.is_online).map(|replica| replica.applied).collect());
    let Some((counted, place)) = counted.zip(wanted.checked_sub(1)) else { return all };
    let of = |(host, port): &(String, u16)| {
        // One that has come anew is where it says now, whatever it had before: that connection is not over yet.
        let last = replicas.iter().rfind(|replica| *replica.host == **host && replica.port == *port);
        last.filter(|replica| replica.is_online).map(|replica| replica.applied)
    };
    let named = sorted(counted.iter().filter_map(of).collect());
    // Fewer than are wanted are no promise of anybody's.
    let Some(bound) = named.get(place) else { return Vec::new() };
    let bounded = |(number, offset): (usize, Offset)| if number < place { offset } else { offset.min(*bound) };
    all.into_iter().enumerate().map(bounded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(promises: &Promises) -> Vec<(usize, u64)> {
        promises.kept().map(|(replicas, offset)| (replicas, offset.0)).collect()
    }

    #[test]
    fn a_promise_is_kept_as_far_as_so_many_have_the_log() {
        let mut promises = Promises::default();
        promises.follow(&[1, 0], Offset(10));
        assert_eq!(kept(&promises), [(1, 10)], "what was before was promised to nobody");
        promises.handle_acknowledged(&[], Offset(20));
        assert_eq!(kept(&promises), [(1, 10)]);
        promises.follow(&[1, 2], Offset(20));
        assert_eq!(
            kept(&promises),
            [(1, 10), (2, 10)],
            "what waits for one replica does not go out when two are wanted"
        );
        promises.handle_acknowledged(&[Offset(30), Offset(15)], Offset(25));
        assert_eq!(kept(&promises), [(1, 25), (2, 15)], "a replica of another history may be ahead");
        promises.handle_acknowledged(&[Offset(5)], Offset(25));
        assert_eq!(kept(&promises), [(1, 25), (2, 15)], "a replica that goes takes nothing back");
        promises.follow(&[0], Offset(30));
        assert!(promises.is_empty());
    }

    fn replica(host: &str, applied: u64) -> Standing<'_> {
        Standing { host, port: 7, is_online: true, applied: Offset(applied) }
    }

    fn told(replicas: &[Standing<'_>], names: Option<&str>, wanted: usize) -> Vec<u64> {
        let members = names.map(|names| names.chars().map(|name| (name.to_string(), 7)).collect::<Vec<_>>());
        acknowledged(replicas, members.as_deref(), wanted).into_iter().map(|offset| offset.0).collect()
    }

    #[test]
    fn those_count_that_were_named() {
        let three = [replica("a", 10), replica("b", 30), replica("c", 20)];
        for (names, wanted, expected) in [
            (None, 1, &[30, 20, 10][..]),
            (Some(""), 0, &[30, 20, 10]),
            (Some("abc"), 1, &[30, 20, 10]),
            (Some("a"), 1, &[10, 10, 10]),
            (Some("ac"), 1, &[20, 20, 10]),
            (Some("ac"), 2, &[30, 10, 10]),
            // Nobody is named, or somebody who is not there.
            (Some(""), 1, &[]),
            (Some("d"), 1, &[]),
            (Some("ad"), 2, &[]),
        ] {
            assert_eq!(told(&three, names, wanted), expected, "{names:?} {wanted}");
        }
    }

    #[test]
    fn one_that_comes_anew_counts_once_and_by_what_it_says_now() {
        let copying = Standing { is_online: false, ..replica("a", 0) };
        assert_eq!(told(&[replica("a", 50), replica("a", 20)], Some("a"), 1), [20, 20]);
        assert_eq!(told(&[replica("a", 50), copying], Some("a"), 1), [0; 0]);
        assert_eq!(told(&[replica("a", 50), replica("a", 40)], Some("ab"), 2), [0; 0]);
        assert_eq!(told(&[replica("b", 50), copying], Some("ab"), 1), [50]);
    }
}
