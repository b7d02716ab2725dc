//! States of the tree that somebody looks at.
//!
//! A snapshot holds on to the very buffers and files that the tree has at that moment, so whatever happens to the tree later
//! need not mind it: buffers are flushed and let go, merges drop what is overwritten. What a snapshot costs is these files on
//! the disk, and at most the buffers of that moment in memory, however long it lives.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsm_tree::{InternalValue, SeqNo, Tree};

use super::views::{View, Views};
use crate::{Bounds, Direction};

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
    view: Arc<View>,
    seqno: SeqNo,
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
    pub(super) fn open(&self, views: &Views) -> Instant {
        // IMPORTANT: number and files are taken under one lock. A merge that drops what this number sees begins after a higher
        // one is published, so it is not in these files yet.
        let published = self.published();
        let seqno = *published;
        let view = views.current();
        drop(published);
        Instant { view, seqno, _live: Arc::clone(&self.live) }
    }
}

impl Instant {
    /// All of a tree that nobody writes to, whose numbers are below one.
    pub(super) fn of(tree: &Tree, seqno: SeqNo) -> Self {
        Self { view: Arc::new(View::of(tree, &VecDeque::new(), None)), seqno, _live: Arc::default() }
    }

    /// The records within bounds.
    pub(super) fn range(&self, bounds: &Bounds) -> Range {
        self.view.range(bounds, self.seqno)
    }

    /// The file in which reading records within bounds met damage.
    pub(super) fn damaged_file(&self, bounds: &Bounds, direction: Direction) -> Option<PathBuf> {
        self.view.damaged_file(bounds, direction)
    }
}
