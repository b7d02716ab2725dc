//! The receiving half of a body: where its bytes come from, and which of them belong to it.

use std::{
    io,
    os::fd::BorrowedFd,
    task::{Context, Poll, ready},
};

use http::{BodyLength, BodyTracker, Limits, ParseError};
use net::PlainSocket;

use super::PumpFailure;
use crate::session::wire::Wire;

/// Where the bytes of a message's body come from. They are pulled: nothing comes before it is asked for.
pub trait Source {
    /// What has come and was not consumed.
    fn received(&self) -> &[u8];

    /// Forgets so many bytes at the front of what has come.
    fn consume(&mut self, count: usize);

    /// Gets more; ready with the number of bytes, 0 at the end. Pending, too, as long as there is no room for more.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>>;

    /// The socket from which the system may move bytes without the process seeing them; `None` where they must be copied.
    /// To be asked only while nothing that has come waits.
    fn plain_socket(&mut self) -> Option<PlainSocket<'_>>;

    /// What comes next as a stretch of a file, which the system may send without the process seeing it; `None` where it comes otherwise.
    /// Pending while it has to be loaded from a disk. To be asked only while nothing that has come waits.
    fn poll_file(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Option<FileSpan<'_>>>> {
        Poll::Ready(Ok(None))
    }

    /// So many bytes of that stretch have been sent.
    fn file_sent(&mut self, _count: u64) {}

    /// Whether trailers may stand behind a body whose length was announced: where messages are framed, as in HTTP/2.
    fn may_trail(&self) -> bool {
        false
    }

    /// Those trailers, as lines of HTTP/1, once it is known whether there are any: behind the last byte of the body.
    fn poll_trailers(&mut self, _: &mut Context<'_>) -> Poll<Vec<u8>> {
        Poll::Ready(Vec::new())
    }
}

/// A stretch of a file that is in memory.
#[derive(Clone, Copy, Debug)]
pub struct FileSpan<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// Its first byte.
    pub offset: u64,
    /// How many bytes it has; one at least.
    pub length: u64,
}

impl Source for Wire {
    #[inline]
    fn received(&self) -> &[u8] {
        self.received.bytes()
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.received.consume(count);
    }

    #[inline]
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Wire::poll_receive(self, context)
    }

    #[inline]
    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        self.rest();
        // What is received by copying is told of a reset.
        if self.was_reset() { None } else { self.stream.plain() }
    }
}

/// How much of a body has come from its source, and how much of that belongs to it.
#[derive(Debug)]
pub struct Intake {
    tracker: BodyTracker,
    /// Bytes at the front of what has come that belong to the body.
    approved: usize,
    received: u64,
    counted: u64,
    is_chunked: bool,
}

impl Intake {
    /// That of a body of this length.
    #[must_use]
    #[inline]
    pub fn new(length: BodyLength, limits: &Limits) -> Self {
        Self {
            tracker: BodyTracker::new(length, limits),
            approved: 0,
            received: 0,
            counted: 0,
            is_chunked: length == BodyLength::Chunked,
        }
    }

    /// Looks at what has come and was not looked at before.
    ///
    /// # Errors
    /// When a chunked body is malformed.
    #[inline]
    pub fn approve(&mut self, from: &impl Source) -> Result<(), ParseError> {
        let bytes = from.received();
        if self.approved < bytes.len() && !self.tracker.has_ended() {
            let tracked = self.tracker.track(bytes.get(self.approved..).unwrap_or_default())?;
            self.approved += tracked.belonging;
            self.received += tracked.belonging as u64;
            self.counted += tracked.data as u64 + u64::from(tracked.ended && self.is_chunked);
        }
        Ok(())
    }

    /// The bytes at hand that belong to the body, framing included.
    #[inline]
    pub fn bytes<'s>(&self, from: &'s impl Source) -> &'s [u8] {
        from.received().get(..self.approved).unwrap_or_default()
    }

    /// How many of them there are.
    #[must_use]
    #[inline]
    pub fn approved(&self) -> usize {
        self.approved
    }

    /// Takes so many of them out.
    #[inline]
    pub fn consume(&mut self, from: &mut impl Source, count: usize) {
        from.consume(count);
        self.approved -= count.min(self.approved);
    }

    /// Gets more of the body from its source; ready once something more is known, which is to be approved.
    #[inline]
    pub fn poll_more(&mut self, from: &mut impl Source, context: &mut Context<'_>) -> Poll<Result<(), PumpFailure>> {
        Poll::Ready(match ready!(from.poll_receive(context)) {
            Ok(0) if self.tracker.close() => Ok(()),
            Ok(0) => Err(PumpFailure::CutOff),
            Ok(_) => Ok(()),
            Err(error) => Err(PumpFailure::Receive(error)),
        })
    }

    /// Notes the end of the source; whether that is the end of the body.
    pub(super) fn close(&mut self) -> bool {
        self.tracker.close()
    }

    /// Notes bytes that went on without having been seen.
    pub(super) fn account(&mut self, count: u64) {
        self.tracker.account(count);
        self.received += count;
        self.counted += count;
    }

    /// How many bytes to come belong to the body for certain.
    #[inline]
    pub(super) fn unseen_max(&self) -> u64 {
        self.tracker.unseen_max()
    }

    /// Whether the whole body has come.
    #[must_use]
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.tracker.has_ended()
    }

    /// Bytes of the body that have come so far.
    #[must_use]
    #[inline]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Bytes of data that have come so far, as they are counted: without the framing of chunks, whose end counts as one.
    #[must_use]
    #[inline]
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Bytes of data that have come so far, without any framing.
    #[must_use]
    #[inline]
    pub fn data(&self) -> u64 {
        self.counted - u64::from(self.is_chunked && self.tracker.has_ended() && self.counted > 0)
    }

    /// The same, which is counted now.
    #[inline]
    pub fn take_counted(&mut self) -> u64 {
        std::mem::take(&mut self.counted)
    }
}
