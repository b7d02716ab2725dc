//! When a reply may go out: the one place that decides it.
//!
//! A reply tells of what commands before it have done, its own and those of other clients. So it waits until the log is safe up to
//! where it ended when the command had run. How safe that has to be is a promise to clients ([`Promise`]); how safe it is now
//! stands in [`LogEnds`]. Everybody who holds or sends replies asks [`released_up_to`].

use oplog::Offset;

/// What a client may rely on once it has a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promise {
    /// What was written outlives the machine, and not only the process: the log is synced (`appendfsync always`).
    pub is_durable: bool,
    /// It outlives this machine: so many replicas have it.
    pub replicas: usize,
}

/// Up to where so many replicas have the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// How many.
    pub replicas: usize,
    /// Up to where.
    pub offset: Offset,
}

/// How far the log is in each place that keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnds<'a> {
    /// In files of this machine.
    pub written: Offset,
    /// Durably.
    pub durable: Offset,
    /// On replicas: for each number of them that somebody was promised, in any order.
    pub acknowledged: &'a [Acknowledged],
}

/// Up to which offset replies may go out.
#[must_use]
pub fn released_up_to(promise: Promise, ends: &LogEnds<'_>) -> Offset {
    let here = if promise.is_durable { ends.durable } else { ends.written };
    // What the machine itself may still lose is not released, whoever else has it. Of more replicas than anybody was promised
    // nothing is known: who was promised them has gone, or was promised less.
    let known = ends.acknowledged.iter().filter(|known| known.replicas <= promise.replicas);
    known.map(|known| known.offset).min().map_or(here, |there| here.min(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_go_out_when_what_they_tell_of_is_as_safe_as_was_promised() {
        for (is_durable, replicas, written, durable, acknowledged, expected) in [
            (false, 0, 90, 50, &[][..], 90),
            (true, 0, 90, 50, &[], 50),
            (true, 0, 90, 50, &[(1, 20)], 50),
            (false, 1, 90, 50, &[(1, 0)], 0),
            (false, 1, 90, 50, &[(1, 70)], 70),
            (true, 1, 90, 50, &[(1, 70)], 50),
            (true, 1, 90, 50, &[(1, 30)], 30),
            (false, 1, 90, 50, &[(2, 30), (1, 70)], 70),
            (false, 2, 90, 50, &[(2, 30), (1, 70)], 30),
            // A promise of two is one of one as well.
            (false, 2, 90, 50, &[(2, 80), (1, 70)], 70),
            (false, 3, 90, 50, &[(2, 30), (1, 70)], 30),
            // A replica of another history may be ahead of the log.
            (false, 1, 90, 50, &[(1, 120)], 90),
        ] {
            let acknowledged: Vec<_> = acknowledged
                .iter()
                .map(|(replicas, at)| Acknowledged { replicas: *replicas, offset: Offset(*at) })
                .collect();
            let ends = LogEnds { written: Offset(written), durable: Offset(durable), acknowledged: &acknowledged };
            let promise = Promise { is_durable, replicas };
            assert_eq!(released_up_to(promise, &ends), Offset(expected), "{promise:?} {ends:?}");
        }
    }
}
