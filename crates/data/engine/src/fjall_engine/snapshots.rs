//! States of the tree that somebody looks at.
//!
//! A snapshot holds on to the very buffers and files that the tree has at that moment, so whatever happens to the tree later
//! need not mind it: buffers are flushed and let go, merges drop what is overwritten. What a snapshot costs is these files on
//! the disk, and at most the buffers of that moment in memory, however long it lives.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsm_tree::{AbstractTree as _, InternalValue, SeqNo, Tree};

use crate::{Bounds, Key};

/// Records of the tree as it keeps them.
pub(super) type Range = Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<InternalValue>> + Send>;

/// What is complete, and whether somebody looks at an old state.
pub(super) struct Snapshots {
    /// Everything of a lower number is complete: what a new snapshot sees.
    published: Mutex<SeqNo>,
    /// A copy for everybody who looks.
    live: Arc<()>,
}

/// A state of the tree.
#[derive(Clone)]
pub(super) struct Instant {
    range: Arc<dyn Fn(&Bounds) -> Range + Send + Sync>,
    _live: Arc<()>,
}

impl Snapshots {
    pub(super) fn new(published: SeqNo) -> Self {
        Self { published: Mutex::new(published), live: Arc::new(()) }
    }

    fn published(&self) -> MutexGuard<'_, SeqNo> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that everything of a lower number is complete.
    pub(super) fn publish(&self, seqno: SeqNo) {
        let mut published = self.published();
        *published = seqno.max(*published);
    }

    /// Of what is older than this, merges need to keep the last value alone.
    pub(super) fn watermark(&self) -> SeqNo {
        *self.published()
    }

    /// Whether somebody looks at what may be an old state.
    pub(super) fn is_any_live(&self) -> bool {
        Arc::strong_count(&self.live) > 1
    }

    /// The state of now.
    pub(super) fn open(&self, tree: &Tree) -> Instant {
        // IMPORTANT: number and files are taken under one lock. A merge that drops what this number sees begins after a higher
        // one is published, so it is not in these files yet.
        let published = self.published();
        let seqno = *published;
        let version = tree.get_version_history_lock().latest_version();
        drop(published);
        let range = move |bounds: &Bounds| -> Range {
            let keys = (bounds.from.clone(), bounds.to.clone());
            Box::new(Tree::create_internal_range::<Key, _>(version.clone(), &keys, seqno, None))
        };
        Instant { range: Arc::new(range), _live: Arc::clone(&self.live) }
    }
}

impl Instant {
    /// The records within bounds, which are not empty.
    pub(super) fn range(&self, bounds: &Bounds) -> Range {
        (self.range)(bounds)
    }
}
