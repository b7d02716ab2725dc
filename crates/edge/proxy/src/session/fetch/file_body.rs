//! The body of a file, or parts of it with text between them, as a source for a client.
//!
//! Where the client's socket is plain, the system sends it (`sendfile`) without the process seeing it. That would wait for a disk where
//! bytes are not in memory, so they are looked for before, and loaded by a disk thread if they are not there.

use std::{
    collections::VecDeque,
    future::Future as _,
    io,
    os::fd::{AsFd as _, BorrowedFd},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use live::files::{
    Content, Descriptor, DiskThreads, Facts, OpenFile, Patience, READ_BYTES_MAX, STRETCH_BYTES, is_in_memory, load,
    read_at,
};
use net::PlainSocket;
use tokio::sync::oneshot;
use web::{Span, range::Piece};

use crate::{
    session::body::{FileSpan, Source},
    worker::Worker,
};

/// Bytes that are read at a time where they pass through the process.
const CHUNK_BYTES: usize = 64 << 10;

/// What a disk thread does for a body.
enum Wait {
    /// It reads the next bytes.
    Read(oneshot::Receiver<io::Result<Vec<u8>>>),
    /// It has the system load the bytes up to there.
    Load(u64, oneshot::Receiver<io::Result<()>>),
}

/// A body of a file that is not sent from memory as a whole.
pub struct FileBody<'a> {
    worker: &'a Rc<Worker>,
    threads: &'a Arc<DiskThreads>,
    file: OpenFile,
    /// What follows.
    pieces: VecDeque<Piece>,
    /// Bytes that are not consumed before the rest: text between parts, or what was read.
    bytes: Vec<u8>,
    consumed: usize,
    /// What comes of the file then.
    span: Span,
    /// Up to where the file was seen to be in memory.
    loaded: u64,
    /// When the file was last seen to be the same one.
    checked: Instant,
    wait: Option<Wait>,
}

impl<'a> FileBody<'a> {
    /// The pieces of a file that has just been looked at, in order.
    #[must_use]
    pub fn new(
        worker: &'a Rc<Worker>,
        threads: &'a Arc<DiskThreads>,
        file: OpenFile,
        pieces: impl IntoIterator<Item = Piece>,
    ) -> Self {
        let mut body = Self {
            worker,
            threads,
            file,
            pieces: pieces.into_iter().collect(),
            bytes: Vec::new(),
            consumed: 0,
            span: Span { start: 0, end: 0 },
            loaded: 0,
            checked: worker.now(),
            wait: None,
        };
        body.go_on();
        body
    }

    /// Begins with the next piece once one is over.
    fn go_on(&mut self) {
        while self.received().is_empty() && self.span.is_empty() {
            match self.pieces.pop_front() {
                Some(Piece::Text(text)) => (self.bytes, self.consumed) = (text, 0),
                Some(Piece::File(span)) => (self.span, self.loaded) = (span, span.start),
                None => return,
            }
        }
    }

    /// Why nothing more can come of the file: it is another one by now.
    fn check(&mut self) -> io::Result<()> {
        let Content::Descriptor(descriptor) = &self.file.content else { return Ok(()) };
        let now = Facts::from(&rustix::fs::fstat(descriptor.as_fd())?);
        if self.file.facts.still_holds(&now) {
            self.checked = self.worker.now();
            Ok(())
        } else {
            Err(io::Error::other("the file has changed while it was sent"))
        }
    }

    /// Reads what comes next, or has it read.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Content::Descriptor(descriptor) = &self.file.content else { return Poll::Ready(Ok(0)) };
        let bytes = match &mut self.wait {
            Some(Wait::Read(answer)) => {
                let bytes = ready!(Pin::new(answer).poll(context)).map_err(|_| io::ErrorKind::Interrupted)?;
                self.wait = None;
                bytes?
            }
            _ => {
                let most = self.span.len().min(CHUNK_BYTES as u64);
                let mut bytes = std::mem::take(&mut self.bytes);
                bytes.resize(usize::try_from(most).unwrap_or(CHUNK_BYTES), 0);
                match read_at(descriptor.as_fd(), &mut bytes, self.span.start, Patience::None) {
                    Ok(count) => {
                        bytes.truncate(count);
                        bytes
                    }
                    Err(rustix::io::Errno::AGAIN) => {
                        let (descriptor, start) = (Arc::clone(descriptor), self.span.start);
                        let most = self.span.len().min(READ_BYTES_MAX as u64 / 4);
                        let read = move || {
                            let mut bytes = vec![0; usize::try_from(most).unwrap_or(READ_BYTES_MAX)];
                            let count = read_at(descriptor.as_fd(), &mut bytes, start, Patience::Disk)?;
                            bytes.truncate(count);
                            Ok(bytes)
                        };
                        let answer = self.threads.run(self.file.facts.device, read).map_err(io::Error::other)?;
                        self.wait = Some(Wait::Read(answer));
                        return self.poll_read(context);
                    }
                    Err(error) => return Poll::Ready(Err(error.into())),
                }
            }
        };
        // A part of what the head has promised is not there any more.
        if bytes.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.check()?;
        self.span.start += bytes.len() as u64;
        (self.bytes, self.consumed) = (bytes, 0);
        Poll::Ready(Ok(self.bytes.len()))
    }

    /// Whether these bytes, all or some of a stretch, are in memory. Where one is asked for all the time, nobody looks each time.
    fn is_in_memory(&self, descriptor: &Descriptor, start: u64, end: u64) -> bool {
        let (stretch, now_ms) = (start / STRETCH_BYTES, self.worker.now_ms());
        if descriptor.was_in_memory(stretch, now_ms) {
            return true;
        }
        let is_there = is_in_memory(descriptor.as_fd(), start, end);
        let is_all = start == stretch * STRETCH_BYTES && end == (start + STRETCH_BYTES).min(self.file.facts.length);
        if is_there && is_all {
            descriptor.note_in_memory(stretch, now_ms);
        }
        is_there
    }

    /// Sees to it that some of what comes next is in memory: half a stretch, or as much as there is without waiting.
    fn poll_load(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let enough = self.span.end.min(self.span.start + STRETCH_BYTES / 2);
        // NOTE: within one turn of a task the worker's clock stands.
        if self.wait.is_none()
            && self.checked != self.worker.now()
            && matches!(self.file.content, Content::Descriptor(_))
        {
            self.check()?;
        }
        while self.loaded < enough {
            if let Some(Wait::Load(end, answer)) = &mut self.wait {
                let end = *end;
                let loaded = ready!(Pin::new(answer).poll(context)).map_err(|_| io::ErrorKind::Interrupted)?;
                self.wait = None;
                loaded?;
                self.loaded = end;
                self.check()?;
                break;
            }
            let Content::Descriptor(descriptor) = &self.file.content else { return Poll::Ready(Ok(())) };
            let descriptor = Arc::clone(descriptor);
            let start = self.loaded.max(self.span.start);
            let end = self.span.end.min((start / STRETCH_BYTES + 1) * STRETCH_BYTES);
            if self.is_in_memory(&descriptor, start, end) {
                self.loaded = end;
                continue;
            }
            // What is there goes first.
            if self.loaded > self.span.start {
                break;
            }
            let loads = move || Ok(load(descriptor.as_fd(), start, end)?);
            let answer = self.threads.run(self.file.facts.device, loads).map_err(io::Error::other)?;
            self.wait = Some(Wait::Load(end, answer));
        }
        Poll::Ready(Ok(()))
    }
}

impl Source for FileBody<'_> {
    fn received(&self) -> &[u8] {
        match (self.bytes.get(self.consumed..), &self.file.content) {
            (Some(rest), _) if !rest.is_empty() => rest,
            (_, Content::Memory(bytes)) => {
                let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                bytes.get(place(self.span.start)..place(self.span.end)).unwrap_or_default()
            }
            _ => &[],
        }
    }

    fn consume(&mut self, count: usize) {
        if self.consumed < self.bytes.len() {
            self.consumed += count;
        } else {
            self.span.start = self.span.end.min(self.span.start + count as u64);
        }
        self.go_on();
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.received().is_empty() {
            return Poll::Pending;
        }
        if self.span.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll_read(context)
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }

    fn poll_file(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<FileSpan<'_>>>> {
        let is_next = self.received().is_empty()
            && !self.span.is_empty()
            && matches!(self.file.content, Content::Descriptor(_))
            && !matches!(self.wait, Some(Wait::Read(_)));
        if !is_next {
            return Poll::Ready(Ok(None));
        }
        ready!(self.poll_load(context))?;
        let Content::Descriptor(descriptor) = &self.file.content else { return Poll::Ready(Ok(None)) };
        let file: BorrowedFd<'_> = descriptor.as_fd();
        let length = self.span.end.min(self.loaded) - self.span.start;
        Poll::Ready(Ok(Some(FileSpan { file, offset: self.span.start, length })))
    }

    fn file_sent(&mut self, count: u64) {
        self.span.start = self.span.end.min(self.span.start + count);
        self.go_on();
    }
}
