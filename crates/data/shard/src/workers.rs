//! What a shard asks to be done elsewhere, because it waits for a disk.
//!
//! The store has a thread for each kind; a simulation does the jobs itself, when its seed says so. Requests are handed over without
//! waiting, and what became of them is polled. Whoever has an outcome wakes the shard's loop.

use std::time::Duration;

use commands::{SessionId, server::Load};
use engine::{Answer, Job, Report, Request};
use keyspace::Gather;
use oplog::Offset;

/// Why something is read from the tables.
#[derive(Debug)]
pub enum ReadPurpose {
    /// A key, for a command that waits.
    Key(Load),
    /// Elements, for a command that waits; and when it was asked, by [`World::elapsed`](crate::World::elapsed).
    Elements(SessionId, Duration),
    /// Keys of a database whose time has come.
    Due(usize),
    /// A piece of a collection that comes into memory.
    Piece(Gather),
}

/// Why the log is to be synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncRequest {
    /// Something was written that is to be durable.
    Written,
    /// The same, and by all clients that were released by the sync up to there: nobody is to be waited for.
    AllWritten(Offset),
}

/// Those who wait for disks in a shard's place.
pub trait Workers {
    /// Queues a job for whoever writes the tables; gives it back if too many wait. They are done in order.
    ///
    /// # Errors
    ///
    /// The job, if too many wait.
    fn write_tables(&mut self, job: Job) -> Result<(), Job>;

    /// What became of the next job.
    fn poll_report(&mut self) -> Option<Report>;

    /// The same, waiting until there is something; nothing if the writer has ended.
    fn wait_for_report(&mut self) -> Option<Report>;

    /// Has records read from the engine. False if too many requests wait already.
    fn read(&mut self, request: Request, purpose: ReadPurpose) -> bool;

    /// Has everything begun that was asked for by [`read`](Self::read).
    fn begin_reads(&mut self);

    /// The answers so far are about to be taken: for one that comes later, the loop is woken again.
    fn begin_answers(&mut self);

    /// The next answer.
    fn poll_answer(&mut self) -> Option<(ReadPurpose, Answer)>;

    /// Waits a little, as no answer has come.
    fn wait_for_answers(&mut self);

    /// Whether single records are read by io_uring.
    fn reads_by_ring(&self) -> bool;

    /// Asks for a sync of the log. One that begins after the request covers all that was written before it, so a request may get lost
    /// where others wait already.
    fn sync_log(&mut self, request: SyncRequest);

    /// Why a sync of the log has failed, if one has: what has reached the disk, nobody knows then.
    fn poll_sync_failure(&mut self) -> Option<String>;

    /// Asks for segments of the log to be prepared, and given up ones to be removed.
    fn maintain_log(&mut self);

    /// Ends, when all that was asked for is done.
    fn end(self);
}
