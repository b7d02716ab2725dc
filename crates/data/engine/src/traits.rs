//! What an engine is.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::{Batch, Bounds, Direction, Key, LogOffset, Result, Value};

/// Records in order, one after another. Ends after the first error.
pub type Scan = Box<dyn Iterator<Item = Result<(Key, Value)>> + Send>;

/// What can be read: an engine, or a snapshot of one.
pub trait Records: Send + Sync {
    /// The value of a record.
    fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// The records within bounds. Nothing is read before it is asked for; what is seen is one state of the engine.
    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan;

    /// Up to which offset of the log the records are true; `None` in an engine that was never told.
    fn applied(&self) -> Result<Option<LogOffset>>;
}

/// A part of a file that a [`Lookup`] wants to have read.
pub struct Piece {
    /// The file.
    pub file: Arc<File>,
    /// Where the part begins.
    pub offset: u64,
    /// How long it is, in bytes.
    pub len: usize,
    /// What the beginning and the length of the read have to be multiples of, and the page that they are read to, in bytes; 1 if it
    /// does not matter.
    pub align: u32,
}

impl Piece {
    /// Where the read has to begin, how long it has to be, and where in it the piece is.
    pub fn span(&self) -> (u64, usize, Range<usize>) {
        let align = u64::from(self.align.max(1));
        let from = self.offset - self.offset % align;
        let skip = (self.offset - from) as usize;
        let len = (skip + self.len).next_multiple_of(align as usize);
        (from, len, skip..skip + self.len)
    }
}

/// What a [`Lookup`] has come to.
pub enum Step {
    /// The record's value, or that there is none.
    Found(Option<Value>),
    /// It goes on with the bytes of this piece.
    Read(Piece),
    /// It cannot be done in steps: [`Records::get`] has the answer, and may wait for a disk.
    Waits,
}

/// A record being looked up by somebody who waits for nothing: what has to be read, the caller reads.
pub trait Lookup: Send {
    /// Goes on, with the bytes of the piece that the last step asked for; the first step has none.
    fn step(&mut self, read: Option<&[u8]>) -> Result<Step>;
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

    /// Looks a record up in steps that wait for no disk. `None` in an engine that has no files or does not show them. What stands
    /// beside the record is kept in the engine's cache if `keeps` says that it is likely to be wanted too.
    fn lookup(&self, key: &Key, keeps: bool) -> Option<Box<dyn Lookup>> {
        let _ = (key, keeps);
        None
    }

    /// What memory has of a record: its value, or that there is none. `None` if a disk has to be asked.
    fn get_cached(&self, key: &Key) -> Option<Option<Value>> {
        let _ = key;
        None
    }

    /// The records as they are now, whatever is written later. Old versions are kept on disk for as long as it lives.
    fn snapshot(&self) -> Arc<dyn Records>;

    /// Returns once all that was written is on the disk.
    fn sync(&self) -> Result<()>;

    /// The offset that a crash at this moment would leave, or an earlier one: the log is needed from there. It moves by
    /// itself as data flows, and up to [`applied`](Records::applied) by [`sync`](Self::sync), which costs small files if it is
    /// done for little: each few dozen megabytes of log is about right.
    fn durable(&self) -> Option<LogOffset>;

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

    /// Whether it is making files of records at this moment: meanwhile it takes memory for some of the largest ones.
    fn is_making_files(&self) -> bool {
        false
    }

    /// How much memory the next files may take to be made, if records are so long that this is much.
    fn bytes_to_make_files(&self) -> u64 {
        0
    }

    /// How much memory the engine takes, in bytes: write buffers, cache, what it keeps of its files.
    fn memory_bytes(&self) -> u64;
}
