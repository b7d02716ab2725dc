//! Which states of the tree somebody is looking at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsm_tree::SeqNo;

/// Instants that are in use. The tree keeps what the oldest one sees.
pub(super) struct Snapshots(Mutex<State>);

struct State {
    /// Everything below is complete: what a new instant sees.
    published: SeqNo,
    /// How many use an instant.
    used: BTreeMap<SeqNo, usize>,
}

/// An instant in use: records written later are not seen at it.
pub(super) struct Instant {
    seqno: SeqNo,
    snapshots: Arc<Snapshots>,
}

impl Snapshots {
    pub(super) fn new(published: SeqNo) -> Self {
        Self(Mutex::new(State { published, used: BTreeMap::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that all records below are complete.
    pub(super) fn publish(&self, seqno: SeqNo) {
        let mut state = self.state();
        state.published = state.published.max(seqno);
    }

    /// The oldest instant that is in use or may come.
    pub(super) fn oldest(&self) -> SeqNo {
        let state = self.state();
        state.used.keys().next().copied().unwrap_or(state.published)
    }

    /// The instant of now.
    pub(super) fn open(snapshots: &Arc<Self>) -> Instant {
        // Taken under the same lock as `oldest`, so nothing that it sees goes in between.
        let mut state = snapshots.state();
        let seqno = state.published;
        *state.used.entry(seqno).or_default() += 1;
        Instant { seqno, snapshots: Arc::clone(snapshots) }
    }
}

impl Instant {
    pub(super) fn seqno(&self) -> SeqNo {
        self.seqno
    }
}

impl Clone for Instant {
    fn clone(&self) -> Self {
        *self.snapshots.state().used.entry(self.seqno).or_default() += 1;
        Self { seqno: self.seqno, snapshots: Arc::clone(&self.snapshots) }
    }
}

impl Drop for Instant {
    fn drop(&mut self) {
        let mut state = self.snapshots.state();
        if let Some(count) = state.used.get_mut(&self.seqno) {
            *count -= 1;
            if *count == 0 {
                state.used.remove(&self.seqno);
            }
        }
    }
}
