//! What a shard's loop sees of its records: changes in memory above an engine.
//!
//! ```text
//!   put, delete          -> dirty      changes behind the mark
//!   put_marked ...       -> marked     changes up to the mark, still being collected
//!   freeze               -> frozen     a batch that the writer's thread is writing
//!                           engine
//! ```
//!
//! A read looks from top to bottom, and the first that knows the key answers.
//!
//! # Why there is a mark
//!
//! A batch carries an offset of the log, and its records must be what the log says up to there, neither more nor less: after
//! a crash the log is replayed from that offset, and most commands must not be applied twice. But a loop that has many dirty
//! keys cannot make records of all of them in one tick. So it sets a mark at the end of a tick ([`Tables::mark`]), goes on,
//! and hands in what the keys held at the mark over the next ticks ([`Tables::put_marked`]), a key that is about to change
//! before it changes. What is written by element meanwhile ([`Tables::put`]) already belongs behind the mark.
//!
//! # One batch at a time
//!
//! While a batch is being written, [`Tables::freeze`] gives none: changes pile up in memory, at most one per record, and the
//! caller bounds them by [`Tables::overlay_bytes`]. A batch that could not be written stays frozen and readable, and is
//! written again; nothing that failed is ever dropped.
//!
//! # All records at once
//!
//! FLUSHALL of many gigabytes is done at once too: [`Tables::clear`] forgets what is in memory and looks no longer into the
//! engine, whose records the writer's thread removes meanwhile ([`Job::Remove`](crate::Job::Remove), step by step). What is
//! written in the meantime waits in memory until [`Tables::cleared`].
//!
//! # Costs
//!
//! Layers are B-trees: a scan may come at any time and needs order, and so does the engine when the batch is written.
//! `cargo run --profile quick -p engine --example measure` says what that takes. On two cores that eighteen other threads
//! wanted as well, in CPU time: 1.0 us to put a record into an overlay of 200,000 at random, 1.0 to 1.5 to get one out, 1.6
//! with a million.

use std::sync::Arc;

use crate::merge::{Layer, Merge};
use crate::{Batch, Bounds, Capture, Direction, Engine, Key, LogOffset, Result, Value};

/// Records of one shard. Belongs to the shard's thread; the engine below is shared.
pub struct Tables {
    dirty: Batch,
    /// Collected up to the mark, if one is set.
    marked: Option<Batch>,
    frozen: Option<Arc<Batch>>,
    engine: Arc<dyn Engine>,
    /// Whether the engine, and what is being written to it, is about to be removed.
    is_void_below: bool,
}

impl Tables {
    /// Nothing but what the engine has.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { dirty: Batch::new(), marked: None, frozen: None, engine, is_void_below: false }
    }

    /// The engine below, which lacks what has not been written yet.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Layers of memory, newest first.
    fn layers(&self) -> impl Iterator<Item = &Batch> {
        let frozen = self.frozen.as_deref().filter(|_| !self.is_void_below);
        [Some(&self.dirty), self.marked.as_ref(), frozen].into_iter().flatten()
    }

    /// The value of a record. May wait for a disk: see [`get_in_memory`](Self::get_in_memory).
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.get_in_memory(key) {
            Some(change) => Ok(change),
            None => self.engine.get(key),
        }
    }

    /// What memory knows of a record: its value, that it is deleted, or nothing, and then the engine has the answer
    /// ([`Readers`](crate::Readers) fetches it without waiting).
    pub fn get_in_memory(&self, key: &[u8]) -> Option<Option<Value>> {
        let change = self.layers().find_map(|layer| layer.get(key)).cloned();
        change.or(self.is_void_below.then_some(None))
    }

    /// The same, with what the engine knows without asking a disk.
    pub fn get_at_once(&self, key: &Key) -> Option<Option<Value>> {
        self.get_in_memory(key).or_else(|| self.engine.get_cached(key))
    }

    /// The records within bounds, in order, one after another. May wait for a disk: see [`capture`](Self::capture).
    pub fn scan(&self, bounds: &Bounds, direction: Direction) -> TablesScan<'_> {
        let layers = self.layers().filter(|layer| !layer.is_empty());
        let layers = layers.map(|layer| Layer::Borrowed(layer.range(bounds, direction)));
        let below = (!self.is_void_below).then(|| self.engine.scan(bounds, direction));
        TablesScan(Merge::new(layers, below, direction))
    }

    /// A scan that another thread can make: the changes in memory within bounds, at most `changes_max` of them, and a
    /// snapshot of the engine. If there are more changes, the capture ends at the last one that it holds.
    pub fn capture(&self, bounds: &Bounds, direction: Direction, changes_max: usize) -> Capture {
        let layers = self.layers().filter(|layer| !layer.is_empty());
        let layers = layers.map(|layer| Layer::Borrowed(layer.range(bounds, direction)));
        let mut merge = Merge::new(layers, None, direction);
        let below = (!self.is_void_below).then(|| self.engine.snapshot());
        Capture::new(&mut merge, below, bounds.clone(), direction, changes_max)
    }

    /// Sets a record, behind the mark if there is one.
    pub fn put(&mut self, key: impl Into<Key>, value: impl Into<Value>) {
        self.dirty.change(key.into(), Some(value.into()));
    }

    /// Deletes a record, behind the mark if there is one.
    pub fn delete(&mut self, key: impl Into<Key>) {
        self.dirty.change(key.into(), None);
    }

    /// Says that all changes so far are true up to this offset of the log. Those that still belong before it come by
    /// [`put_marked`](Self::put_marked) and [`delete_marked`](Self::delete_marked). Returns whether the mark was set: it is
    /// not while one is set.
    pub fn mark(&mut self, applied: LogOffset) -> bool {
        if self.marked.is_some() {
            return false;
        }
        let mut batch = std::mem::take(&mut self.dirty);
        batch.set_applied(applied);
        self.marked = Some(batch);
        true
    }

    /// The offset of the mark, if one is set.
    pub fn mark_offset(&self) -> Option<LogOffset> {
        self.marked.as_ref().and_then(Batch::applied)
    }

    /// Sets a record before the mark. Without a mark it is like [`put`](Self::put). A change behind the mark still hides it.
    pub fn put_marked(&mut self, key: impl Into<Key>, value: impl Into<Value>) {
        self.marked_or_dirty().change(key.into(), Some(value.into()));
    }

    /// Deletes a record before the mark. Without a mark it is like [`delete`](Self::delete).
    pub fn delete_marked(&mut self, key: impl Into<Key>) {
        self.marked_or_dirty().change(key.into(), None);
    }

    fn marked_or_dirty(&mut self) -> &mut Batch {
        self.marked.as_mut().unwrap_or(&mut self.dirty)
    }

    /// Closes the mark: what was collected up to it becomes the batch to write. `None` if no mark is set, or while another
    /// batch is being written or everything removed: then everything stays as it is, and the mark stays open.
    pub fn freeze_marked(&mut self) -> Option<Arc<Batch>> {
        if self.frozen.is_some() || self.is_void_below {
            return None;
        }
        let batch = Arc::new(self.marked.take()?);
        self.frozen = Some(Arc::clone(&batch));
        Some(batch)
    }

    /// Makes a batch of all changes so far, which are true up to this offset: [`mark`](Self::mark) and
    /// [`freeze_marked`](Self::freeze_marked) in one. `None` while another batch is being
    /// written or collected, or a removal of everything is under way.
    pub fn freeze(&mut self, applied: LogOffset) -> Option<Arc<Batch>> {
        if self.frozen.is_some() || self.marked.is_some() || self.is_void_below {
            return None;
        }
        self.mark(applied);
        self.freeze_marked()
    }

    /// The batch that is being written, for another try after a failure.
    pub fn frozen(&self) -> Option<&Arc<Batch>> {
        self.frozen.as_ref()
    }

    /// Says that the engine has the frozen batch now, so memory can let go of it. Returns its offset.
    pub fn written(&mut self) -> Option<LogOffset> {
        self.frozen.take().and_then(|batch| batch.applied())
    }

    /// Forgets all records. The caller has those of the engine removed, after the batch that is being written if there is
    /// one, and then calls [`cleared`](Self::cleared). A mark that was set is gone with its changes.
    ///
    /// IMPORTANT: as with a batch, the log must be durable up to the command before the engine's records are removed.
    pub fn clear(&mut self) {
        self.dirty = Batch::new();
        self.marked = None;
        self.is_void_below = true;
    }

    /// Says that the engine has no records any more, so that batches may be written to it again.
    pub fn cleared(&mut self) {
        self.is_void_below = false;
    }

    /// Whether [`clear`](Self::clear) waits for [`cleared`](Self::cleared).
    pub fn is_clearing(&self) -> bool {
        self.is_void_below
    }

    /// How much memory unwritten changes take, about.
    pub fn overlay_bytes(&self) -> usize {
        self.layers().map(Batch::bytes).sum()
    }

    /// How much of that changes behind the mark take, or all that are not being written if there is none.
    pub fn dirty_bytes(&self) -> usize {
        self.dirty.bytes()
    }

    /// How much of that changes up to the mark take, about.
    pub fn marked_bytes(&self) -> usize {
        self.marked.as_ref().map_or(0, Batch::bytes)
    }

    /// How many unwritten changes there are.
    pub fn overlay_len(&self) -> usize {
        self.layers().map(Batch::len).sum()
    }
}

/// Records of [`Tables`] in order. Ends after the first error.
pub struct TablesScan<'a>(Merge<'a>);

impl Iterator for TablesScan<'_> {
    type Item = Result<(Key, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

#[cfg(test)]
mod tests;
