//! The log from an offset on.

use std::{
    collections::VecDeque,
    io,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use crate::{
    LogError, Offset, Options, Reason, ReplicationId,
    disk::{Disk, DiskFile},
    folder::{FoundSegment, find_segments},
    scan::{ScannedFrame, Scanner},
    segment::Segment,
    shared::Shared,
};

/// What was appended together, as far as the reader had asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The offset of the first byte.
    pub offset: Offset,
    /// When it was appended.
    pub time_ms: u64,
    /// Commands, one after the other.
    pub commands: &'a [u8],
}

impl Entry<'_> {
    /// The offset behind the last byte.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.offset + self.commands.len() as u64
    }
}

/// Follows a log, also one that grows. Each frame is checked before anything of it is shown. It may be in any thread.
#[derive(Debug)]
pub struct Reader<D: Disk> {
    shared: Arc<Shared<D>>,
    segment: Arc<Segment>,
    /// Where the next segment begins, if there is one.
    segment_end: Option<u64>,
    scanner: Scanner<D::File>,
    /// Nothing before it is shown.
    from: u64,
    /// Nobody says how far the log is written: what is not good at its end is its end.
    offline: bool,
    /// A frame that begins before `from` is shown whole.
    whole_frames: bool,
}

impl<D: Disk> Reader<D> {
    pub(crate) fn at_time(shared: Arc<Shared<D>>, time_ms: u64) -> Result<Self, LogError> {
        let from = segment_of_time(&shared, time_ms);
        Self::start(shared, from, from, false)
    }

    pub(crate) fn new(shared: Arc<Shared<D>>, from: Offset) -> Result<Self, LogError> {
        let first = Offset(shared.first());
        let end = Offset(shared.written.load(Ordering::Acquire));
        if from > end {
            return Err(LogError::Beyond { asked: from, end });
        }
        Self::start(shared, from, first, false)
    }

    /// Reads a log that may be in use elsewhere, and changes nothing in it. Without `from` it begins where the log does. What
    /// is not good at the end of the last segment is taken for the end.
    ///
    /// # Errors
    ///
    /// The disk's; there is no log, or it does not go back that far.
    pub fn open(disk: D, folder: &Path, from: Option<Offset>) -> Result<Self, LogError> {
        look_again(|| {
            let shared = Self::look(disk.clone(), folder)?;
            let first = Offset(shared.first());
            Self::start(shared, from.unwrap_or(first), first, true)
        })
    }

    /// As [`open`](Self::open), somewhere before the first entry that was appended after a time: entries that are older come
    /// first, but never more than a segment of them.
    ///
    /// # Errors
    ///
    /// The disk's; there is no log.
    pub fn open_at_time(disk: D, folder: &Path, time_ms: u64) -> Result<Self, LogError> {
        look_again(|| {
            let shared = Self::look(disk.clone(), folder)?;
            let from = segment_of_time(&shared, time_ms);
            Self::start(shared, from, from, true)
        })
    }

    /// Shows frames whole, also the one that the place is in the midst of: what was appended together begins with a command,
    /// and names its database.
    #[must_use]
    pub fn whole_frames(mut self) -> Self {
        self.whole_frames = true;
        self
    }

    /// The log of a folder as it is now.
    fn look(disk: D, folder: &Path) -> Result<Arc<Shared<D>>, LogError> {
        let mut segments = VecDeque::new();
        let found = find_segments(&disk, folder)?;
        let last = found.len().saturating_sub(1);
        for (index, FoundSegment { path, first_offset, header }) in found.into_iter().enumerate() {
            match header {
                Ok(header) => segments.push_back(Arc::new(Segment::new(folder, header))),
                Err(Reason::Header) if index == last && index > 0 => {}
                Err(reason) => return Err(LogError::corrupt(&path, 0, Offset(first_offset), reason)),
            }
        }
        let options = Options::new(ReplicationId::from_random([0; 20]), 0);
        let shared = Arc::new(Shared::new(disk, folder.to_owned(), options, segments));
        shared.written.store(u64::MAX, Ordering::Release);
        Ok(shared)
    }

    fn start(shared: Arc<Shared<D>>, from: Offset, first: Offset, offline: bool) -> Result<Self, LogError> {
        let segment = shared.segment_of(from.0).ok_or(LogError::Removed { asked: from, first })?;
        let file = shared.disk.open_to_read(&segment.path).map_err(LogError::io("open", &segment.path))?;
        let mut scanner = Scanner::new(file, &segment.header);
        scanner.go_to(segment.find(from.0));
        let mut reader =
            Self { shared, segment, segment_end: None, scanner, from: from.0, offline, whole_frames: false };
        let (_, after) = reader.shared.segment_after(&reader.segment);
        reader.segment_end = after.map(|after| after.first());
        Ok(reader)
    }

    /// What comes next; `None` if that is not written yet: it can be asked again then.
    ///
    /// # Errors
    ///
    /// The disk's; the log is damaged, or what comes next is not kept any more.
    #[expect(clippy::should_implement_trait, reason = "what it gives is lent")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, LogError> {
        let mut fresh = false;
        let header = loop {
            let (offset, written) = (self.scanner.offset(), self.shared.written.load(Ordering::Acquire));
            if offset >= written {
                return Ok(None);
            }
            if self.segment_end == Some(offset) {
                if !self.advance()? {
                    return Ok(None);
                }
                continue;
            }
            self.scanner.expect(written - offset);
            match self.scanner.next().map_err(LogError::io("read", &self.segment.path))? {
                ScannedFrame::Frame(header) if header.end() > self.from => break header,
                ScannedFrame::Frame(_) => fresh = false,
                // It may have been read before it was written.
                ScannedFrame::Bad(_) if !fresh => {
                    self.scanner.refresh();
                    fresh = true;
                }
                ScannedFrame::Bad(reason) => {
                    if !self.is_segment_over(reason)? {
                        return Ok(None);
                    }
                }
            }
        };
        let skipped = if self.whole_frames { 0 } else { self.from.saturating_sub(header.offset) };
        self.from = header.end();
        let commands = self.scanner.commands();
        let commands = usize::try_from(skipped).ok().and_then(|skipped| commands.get(skipped..)).unwrap_or_default();
        Ok(Some(Entry { offset: Offset(header.offset + skipped), time_ms: header.time_ms, commands }))
    }

    /// The history that the place belongs to.
    #[must_use]
    pub fn replication_id(&self) -> ReplicationId {
        self.segment.header.replication_id
    }

    /// The segment and the byte in it where the next frame is looked for.
    #[must_use]
    pub fn place(&self) -> (&Path, u64) {
        (&self.segment.path, self.scanner.position())
    }

    /// There is no good frame here. `true` if the next segment goes on with this offset.
    fn is_segment_over(&mut self, reason: Reason) -> Result<bool, LogError> {
        let offset = Offset(self.scanner.offset());
        let (is_kept, after) = self.shared.segment_after(&self.segment);
        if !is_kept {
            return Err(LogError::Removed { asked: offset, first: Offset(self.shared.first()) });
        }
        match after {
            Some(after) if after.first() == offset.0 => {
                self.segment_end = Some(offset.0);
                Ok(true)
            }
            None if self.offline && reason != Reason::Version => Ok(false),
            _ => Err(LogError::corrupt(&self.segment.path, self.scanner.position(), offset, reason)),
        }
    }

    /// Goes to the next segment. `false` if there is none yet.
    fn advance(&mut self) -> Result<bool, LogError> {
        let (is_kept, after) = self.shared.segment_after(&self.segment);
        let segment = match after {
            Some(after) => after,
            None if is_kept => return Ok(false),
            None => {
                // The one at hand was given up meanwhile; the next one may still be there.
                let offset = Offset(self.scanner.offset());
                let removed = || LogError::Removed { asked: offset, first: Offset(self.shared.first()) };
                let next = self.shared.segment_of(offset.0).ok_or_else(removed)?;
                if next.first() != offset.0 {
                    return Err(removed());
                }
                next
            }
        };
        let file = self.shared.disk.open_to_read(&segment.path).map_err(LogError::io("open", &segment.path))?;
        self.scanner = Scanner::new(file, &segment.header);
        self.segment_end = self.shared.segment_after(&segment).1.map(|after| after.first());
        self.segment = segment;
        Ok(true)
    }
}

impl<D: Disk> Reader<D> {
    /// Bytes in the file at hand.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub fn segment_len(&self) -> Result<u64, LogError> {
        self.scanner.file().len().map_err(LogError::io("read", &self.segment.path))
    }
}

/// Opens a log that somebody else may serve: the oldest segments may be removed between the look at the folder and their opening,
/// and then the folder is looked at again.
fn look_again<R>(open: impl Fn() -> Result<R, LogError>) -> Result<R, LogError> {
    const AGAIN_MAX: usize = 20;
    for _ in 0..AGAIN_MAX {
        match open() {
            Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
    }
    open()
}

/// Where the last segment begins that was begun at a time or before it; where the log begins if there is none.
fn segment_of_time<D: Disk>(shared: &Shared<D>, time_ms: u64) -> Offset {
    let lists = shared.lists();
    let behind = lists.segments.partition_point(|segment| segment.header.created_ms <= time_ms);
    let segment = lists.segments.get(behind.saturating_sub(1));
    Offset(segment.map_or(0, |segment| segment.first()))
}
