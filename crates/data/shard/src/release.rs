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

/// How far the log is in each place that keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnds<'a> {
    /// In files of this machine.
    pub written: Offset,
    /// Durably.
    pub durable: Offset,
    /// Up to where each replica has acknowledged it, in any order.
    pub acknowledged: &'a [Offset],
}

/// Up to which offset replies may go out.
#[must_use]
pub fn released_up_to(promise: Promise, ends: &LogEnds<'_>) -> Offset {
    let here = if promise.is_durable { ends.durable } else { ends.written };
    match promise.replicas {
        0 => here,
        // What the machine itself may still lose is not released, whoever else has it.
        count => here.min(acknowledged_by(count, ends.acknowledged)),
    }
}

/// Up to where so many replicas have the log; its beginning if there are not that many.
fn acknowledged_by(count: usize, acknowledged: &[Offset]) -> Offset {
    let has_enough = |offset: &&Offset| acknowledged.iter().filter(|other| *other >= offset).count() >= count;
    acknowledged.iter().filter(has_enough).max().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_go_out_when_what_they_tell_of_is_as_safe_as_was_promised() {
        for (is_durable, replicas, written, durable, acknowledged, expected) in [
            (false, 0, 90, 50, &[][..], 90),
            (true, 0, 90, 50, &[], 50),
            (true, 0, 90, 50, &[10, 20], 50),
            (false, 1, 90, 50, &[], 0),
            (false, 1, 90, 50, &[70], 70),
            (true, 1, 90, 50, &[70], 50),
            (true, 1, 90, 50, &[30], 30),
            (false, 1, 90, 50, &[30, 70, 20], 70),
            (false, 2, 90, 50, &[30, 70, 20], 30),
            (false, 3, 90, 50, &[30, 70, 20], 20),
            (false, 4, 90, 50, &[30, 70, 20], 0),
            (false, 2, 90, 50, &[70, 70], 70),
            // A replica of another history may be ahead of the log.
            (false, 1, 90, 50, &[120], 90),
        ] {
            let acknowledged: Vec<_> = acknowledged.iter().copied().map(Offset).collect();
            let ends = LogEnds { written: Offset(written), durable: Offset(durable), acknowledged: &acknowledged };
            let promise = Promise { is_durable, replicas };
            assert_eq!(released_up_to(promise, &ends), Offset(expected), "{promise:?} {ends:?}");
        }
    }
}
