//! What an engine is.

use std::sync::Arc;

use crate::{Batch, Bounds, Direction, Key, Result, Value};

/// An offset of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(pub u64);

/// Records in order, one after another. Ends after the first error.
pub type Scan = Box<dyn Iterator<Item = Result<(Key, Value)>> + Send>;

/// What can be read: an engine, or a snapshot of one.
pub trait Records: Send + Sync {
    /// The value of a record.
    fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// The records within bounds. Nothing is read before it is asked for; what is seen is one state of the engine.
    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan;

    /// Up to which offset of the log the records are true; `None` in an engine that was never told.
    fn applied(&self) -> Result<Option<Offset>>;
}

/// Where records lie. Every call may be made from any thread and may wait for a disk.
pub trait Engine: Records + 'static {
    /// Makes all changes of a batch and its offset, or none of them. Scans and snapshots see them at once; a single
    /// [`get`](Records::get) may see one while the others are still on their way.
    ///
    /// IMPORTANT: the log must be durable up to the batch's offset before, or a crash could leave records that the log has not.
    ///
    /// They outlive the process after [`sync`](Self::sync) has returned. Before that, what a crash leaves is the state after
    /// some batch between the last sync and the last write, with that batch's offset.
    fn write(&self, batch: &Batch) -> Result<()>;

    /// The records as they are now, whatever is written later. Old versions are kept on disk for as long as it lives.
    fn snapshot(&self) -> Arc<dyn Records>;

    /// Returns once all that was written is on the disk.
    fn sync(&self) -> Result<()>;

    /// The offset that a crash at this moment would leave, or an earlier one: the log is needed from there. It moves by
    /// itself as data flows, and up to [`applied`](Records::applied) by [`sync`](Self::sync), which costs small files if it is
    /// done for little: each few dozen megabytes of log is about right.
    fn durable(&self) -> Option<Offset>;

    /// Gives back at once what the records within bounds take, as far as that is cheap: whole files that hold nothing else.
    ///
    /// Which records are gone afterwards is open, and of those that were changed an older value may come to light. So it is
    /// for records alone that nobody reads any more and that are removed after it ([`remove_range`](crate::remove_range)
    /// does both). Snapshots go on to see them.
    fn drop_files(&self, bounds: &Bounds) -> Result<()> {
        let _ = bounds;
        Ok(())
    }

    /// Gives back all the space that deleted records take. Reads and writes everything there is.
    fn compact(&self) -> Result<()>;

    /// How much of the disk the engine takes, in bytes.
    fn disk_bytes(&self) -> u64;

    /// How much memory the engine takes, in bytes: write buffers, cache, what it keeps of its files.
    fn memory_bytes(&self) -> u64;
}
