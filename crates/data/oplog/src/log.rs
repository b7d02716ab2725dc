//! The log, as the shard's thread has it.

use std::sync::{Arc, atomic::Ordering};

use crate::{
    LogError, Maintainer, Offset, Reader, ReplicationId, SegmentInfo, Syncer,
    disk::{Disk, DiskFile},
    frame::{FrameHeader, HEADER_LEN, put},
    segment::{self, Mark, Segment, SegmentHeader, UNREADY_PREFIX},
    shared::{BRIDGE_LEN_MIN, SegmentFile, Shared},
};

/// The size of a page. A write that comes to a page first fills it, so that no page of a spare has to be read from the disk.
const PAGE_LEN: u64 = 4_096;
/// Pieces from so many bytes on have room made for them.
const EXACT_FROM: usize = 1 << 20;

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Up to where the log is in files.
    pub end: Offset,
    /// Bytes that went there.
    pub bytes: u64,
    /// Segments that were begun.
    pub rotations: u32,
}

/// A log, for the one thread that writes it.
///
/// [`append`](Self::append) puts commands into memory, [`write`](Self::write) hands them to the system, and the
/// [`Syncer`]'s sync makes them durable. A write that fails can be tried again at any time: it goes to the same place, and
/// nothing that was appended is lost or out of order.
#[derive(Debug)]
pub struct Log<D: Disk> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) active: Active<D::File>,
    /// Frames that are not written yet. The last one may be open: its header is still to come.
    buffer: Vec<u8>,
    /// The frames in it that are closed.
    frames: Vec<BufferedFrame>,
    open: Option<OpenFrame>,
    /// The offset behind all that was appended.
    end: u64,
    /// How many bytes of the stream are kept, and how old they may be, in milliseconds.
    retention: (Option<u64>, Option<u64>),
}

/// The segment that is written to.
#[derive(Debug)]
pub(crate) struct Active<F> {
    pub(crate) file: Arc<SegmentFile<F>>,
    /// Where the next frame goes.
    pub(crate) position: u64,
    /// The length of the file.
    pub(crate) len: u64,
    /// Up to where its pages are in memory, since this log has written them.
    pub(crate) paged: u64,
}

#[derive(Clone, Copy, Debug)]
struct BufferedFrame {
    /// Where it ends in the buffer.
    end: usize,
    /// Its first offset.
    offset: u64,
}

#[derive(Clone, Copy, Debug)]
struct OpenFrame {
    start: usize,
    offset: u64,
    time_ms: u64,
}

impl<D: Disk> Log<D> {
    pub(crate) fn new(shared: Arc<Shared<D>>, active: Active<D::File>, end: u64) -> Self {
        let retention = (shared.options.retention_bytes, shared.options.retention_ms);
        Self { shared, active, buffer: Vec::new(), frames: Vec::new(), open: None, end, retention }
    }

    /// What is appended next is in a frame of this time, whatever was appended before and is not written yet.
    pub fn begin_frame_of(&mut self, time_ms: u64) {
        if self.open.is_some_and(|open| open.time_ms != time_ms) {
            self.close();
        }
    }

    /// Appends whole commands. They are not torn apart: after a crash all of them are there, or none.
    ///
    /// # Errors
    ///
    /// They are more than a frame may have; nothing was appended then.
    #[inline]
    pub fn append(&mut self, commands: &[u8], now_ms: u64) -> Result<(), LogError> {
        self.append_parts(std::iter::once(commands), now_ms)
    }

    /// The same with commands in several parts, which need not be whole.
    ///
    /// # Errors
    ///
    /// As of [`append`](Self::append).
    #[inline]
    pub fn append_parts<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
        now_ms: u64,
    ) -> Result<(), LogError> {
        let len = parts.clone().map(<[u8]>::len).sum::<usize>();
        if len > self.shared.options.frame_len_max() {
            return Err(LogError::TooLong { len });
        }
        self.append_with(now_ms, |buffer| {
            if len > EXACT_FROM && len > buffer.len() {
                // Growing as ever would take up to twice of it.
                buffer.reserve_exact(len + PAGE_LEN as usize);
            }
            parts.for_each(|part| buffer.extend_from_slice(part));
        })
    }

    /// Appends what `write` appends to the buffer, as [`append`](Self::append) does.
    ///
    /// # Errors
    ///
    /// It is more than a frame may have; nothing was appended then.
    #[inline]
    pub fn append_with(&mut self, now_ms: u64, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), LogError> {
        let (target, max) = (self.shared.options.frame_len_target, self.shared.options.frame_len_max());
        if self.open.is_some_and(|open| self.buffer.len() - open.start - HEADER_LEN >= target) {
            self.close();
        }
        if self.open.is_none() {
            self.open = Some(OpenFrame { start: self.buffer.len(), offset: self.end, time_ms: now_ms });
            self.buffer.extend_from_slice(&[0; HEADER_LEN]);
        }
        let before = self.buffer.len();
        write(&mut self.buffer);
        let len = self.buffer.len().saturating_sub(before);
        self.end += len as u64;
        if self.open.is_some_and(|open| self.buffer.len() - open.start - HEADER_LEN > max) {
            return self.split(before, len, now_ms);
        }
        Ok(())
    }

    /// The last piece has made the open frame too long: it gets one of its own.
    #[cold]
    fn split(&mut self, before: usize, len: usize, now_ms: u64) -> Result<(), LogError> {
        let commands = self.buffer.split_off(before);
        self.end -= len as u64;
        if len > self.shared.options.frame_len_max() {
            if self.open.is_some_and(|open| open.start + HEADER_LEN == before) {
                self.open = None;
                self.buffer.truncate(before - HEADER_LEN);
            }
            return Err(LogError::TooLong { len });
        }
        self.close();
        self.append(&commands, now_ms)
    }

    /// Gives the open frame its header.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let Some((header, commands)) =
            self.buffer.get_mut(open.start..).and_then(|frame| frame.split_at_mut_checked(HEADER_LEN))
        else {
            return;
        };
        let fields = FrameHeader {
            crc: 0,
            len: u32::try_from(commands.len()).unwrap_or(u32::MAX),
            offset: open.offset,
            time_ms: open.time_ms,
            durable: self.shared.durable.load(Ordering::Relaxed),
            // Of the segment that it goes to, which is not known yet.
            generation: 0,
            flags: 0,
        };
        put(header, 0, &fields.encode(0, b""));
        self.frames.push(BufferedFrame { end: self.buffer.len(), offset: open.offset });
    }

    /// Hands what was appended to the system. If it fails, it can be called again.
    ///
    /// # Errors
    ///
    /// The disk's; [`LogError::is_full`] if there is no room.
    pub fn write(&mut self) -> Result<Written, LogError> {
        self.shared.check()?;
        self.close();
        let mut outcome = Written { end: self.written(), bytes: 0, rotations: 0 };
        let (mut start, mut first) = (0, 0);
        let result = loop {
            let Some(frame) = self.frames.get(first).copied() else { break Ok(()) };
            let room = usize::try_from(self.active.len.saturating_sub(self.active.position)).unwrap_or(usize::MAX);
            let fit = self.frames.get(first..).unwrap_or_default().partition_point(|frame| frame.end - start <= room);
            if fit == 0 {
                let len = (segment::HEADER_LEN + frame.end - start) as u64;
                match self.make_room(frame.offset, len) {
                    Ok(rotations) => outcome.rotations += rotations,
                    Err(error) => break Err(error),
                }
                continue;
            }
            let last = first + fit;
            match self.write_run(start, first, last) {
                Err(error) => break Err(error),
                Ok(bytes) => outcome.bytes += bytes,
            }
            start += usize::try_from(self.run_len(start, last)).unwrap_or(0);
            first = last;
        };
        self.forget(start, first);
        result?;
        outcome.end = self.written();
        Ok(outcome)
    }

    fn run_len(&self, start: usize, last: usize) -> u64 {
        let end = last.checked_sub(1).and_then(|last| self.frames.get(last)).map_or(start, |frame| frame.end);
        (end - start) as u64
    }

    /// Writes the frames from `first` to `last`, which begin at `start` in the buffer, to the active segment.
    fn write_run(&mut self, start: usize, first: usize, last: usize) -> Result<u64, LogError> {
        let header = self.active.file.segment.header;
        let mut frame_start = start;
        let mut written = self.shared.written.load(Ordering::Relaxed);
        self.active.file.segment.mark(Mark { offset: written, position: self.active.position });
        for frame in self.frames.get(first..last).unwrap_or_default() {
            if let Some((head, commands)) = self
                .buffer
                .get_mut(frame_start..frame.end)
                .and_then(|bytes| bytes.split_first_chunk_mut::<HEADER_LEN>())
            {
                let fields = FrameHeader { generation: header.generation, ..FrameHeader::decode(head) };
                *head = fields.encode(header.salt, commands);
                written = fields.end();
            }
            frame_start = frame.end;
        }
        let len = frame_start - start;
        let end = self.active.position + len as u64;
        // Fills up the last page, if nothing of it was written yet; what follows in the buffer waits aside.
        let padded = if end > self.active.paged { end.next_multiple_of(PAGE_LEN).min(self.active.len) } else { end };
        let padding = usize::try_from(padded.saturating_sub(end)).unwrap_or(0);
        let aside = self.buffer.split_off(frame_start);
        self.buffer.resize(frame_start + padding, 0);
        let bytes = self.buffer.get(start..).unwrap_or_default();
        let result = self.active.file.file.write_all_at(bytes, self.active.position);
        self.buffer.truncate(frame_start);
        self.buffer.extend_from_slice(&aside);
        result.map_err(LogError::io("write", &self.active.file.segment.path))?;
        self.active.position = end;
        self.active.paged = self.active.paged.max(padded);
        self.shared.written.store(written, Ordering::Release);
        Ok(len as u64)
    }

    /// Takes what was written out of the buffer.
    fn forget(&mut self, start: usize, first: usize) {
        self.buffer.drain(..start);
        self.frames.drain(..first);
        for frame in &mut self.frames {
            frame.end -= start;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > self.shared.options.buffer_kept {
            self.buffer.shrink_to(self.shared.options.buffer_kept);
        }
    }

    /// Begins a segment, once all that was appended is written. What comes after it stands in another file.
    ///
    /// # Errors
    ///
    /// The disk's, as for [`write`](Self::write).
    pub fn rotate(&mut self, now_ms: u64) -> Result<(), LogError> {
        self.write()?;
        if self.is_empty() {
            return Ok(());
        }
        let header = SegmentHeader { created_ms: now_ms, ..self.next_header(self.end) };
        self.begin_segment(header, 0)
    }

    /// Forgets what was appended and not written.
    pub(crate) fn discard(&mut self) {
        self.buffer.clear();
        self.frames.clear();
        self.open = None;
        self.end = self.written().0;
    }

    /// From here on, the log tells another history: the next segment has another id.
    ///
    /// # Errors
    ///
    /// The disk's, as for [`write`](Self::write).
    pub fn set_replication_id(&mut self, replication_id: ReplicationId, now_ms: u64) -> Result<(), LogError> {
        self.write()?;
        let next = self.next_header(self.end);
        // An empty segment makes way for the next one, and nobody would know which history it told.
        let former_id = next.former_id.or(self.is_empty().then_some(next.replication_id));
        let header = SegmentHeader { replication_id, created_ms: now_ms, former_id, ..next };
        self.begin_segment(header, 0)
    }

    fn next_header(&self, first_offset: u64) -> SegmentHeader {
        let before = self.active.file.segment.header;
        // The time of the first frame that goes there: no clock is at hand, and none is needed.
        let first = self.frames.iter().position(|frame| frame.offset == first_offset);
        let start = first.map(|first| {
            first.checked_sub(1).and_then(|before| self.frames.get(before)).map_or(0, |before| before.end)
        });
        let frame = start.and_then(|start| self.buffer.get(start..)?.first_chunk()).map(FrameHeader::decode);
        SegmentHeader {
            first_offset,
            created_ms: frame.map_or(before.created_ms, |frame| frame.time_ms),
            generation: before.generation.wrapping_add(1).max(1),
            former_id: before.former_id.filter(|_| before.first_offset == first_offset),
            ..before
        }
    }

    /// Makes room for a frame: in a new segment, or in the active one, if that has no frame yet and is too short. Returns how many
    /// segments have been begun.
    fn make_room(&mut self, first_offset: u64, len: u64) -> Result<u32, LogError> {
        if !self.is_empty() {
            self.begin_segment(self.next_header(first_offset), len)?;
            return Ok(1);
        }
        let SegmentFile { segment, file } = &*self.active.file;
        file.preallocate(len).map_err(LogError::io("make room for", &segment.path))?;
        self.active.len = file.len().map_err(LogError::io("open", &segment.path))?;
        Ok(0)
    }

    /// Whether the active segment has no frame yet.
    fn is_empty(&self) -> bool {
        self.active.position == segment::HEADER_LEN as u64
    }

    fn begin_segment(&mut self, header: SegmentHeader, len_min: u64) -> Result<(), LogError> {
        // IMPORTANT: an empty segment has the name of the one that takes its place, and its header may be all that is durable of the
        // log. So that one's header has to be durable before it has the name.
        let durably = self.is_empty();
        self.active = begin_segment(&self.shared, header, len_min, durably)?;
        Ok(())
    }

    /// Behind all that was appended.
    #[must_use]
    pub fn end(&self) -> Offset {
        Offset(self.end)
    }

    pub(crate) fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// Up to where it is in files.
    #[must_use]
    pub fn written(&self) -> Offset {
        Offset(self.shared.written.load(Ordering::Acquire))
    }

    /// Up to where it is durable.
    #[must_use]
    pub fn durable(&self) -> Offset {
        Offset(self.shared.durable.load(Ordering::Acquire))
    }

    /// Where it begins.
    #[must_use]
    pub fn first(&self) -> Offset {
        Offset(self.shared.first())
    }

    /// Bytes of memory that wait to be written.
    #[must_use]
    pub fn unwritten_len(&self) -> usize {
        self.buffer.len()
    }

    /// Which history it tells at its end.
    #[must_use]
    pub fn replication_id(&self) -> ReplicationId {
        self.active.file.segment.header.replication_id
    }

    /// Its segments, the oldest first.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.shared.lists().segments.iter().map(|segment| segment.info()).collect()
    }

    /// Follows the log from an offset on, up to what is written.
    ///
    /// # Errors
    ///
    /// The offset is behind the end, or not kept any more.
    pub fn read(&self, from: Offset) -> Result<Reader<D>, LogError> {
        Reader::new(Arc::clone(&self.shared), from)
    }

    /// The same, somewhere before the first entry that was appended after a time: entries that are older come first, but
    /// never more than a segment of them.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub fn read_at_time(&self, time_ms: u64) -> Result<Reader<D>, LogError> {
        Reader::at_time(Arc::clone(&self.shared), time_ms)
    }

    /// What syncs it. There is to be one.
    #[must_use]
    pub fn syncer(&self) -> Syncer<D> {
        Syncer { shared: Arc::clone(&self.shared) }
    }

    /// What prepares and removes segments. There is to be one.
    #[must_use]
    pub fn maintainer(&self) -> Maintainer<D> {
        Maintainer::new(Arc::clone(&self.shared))
    }

    /// How much of the log is kept from now on, as [`Options`](crate::Options) has it.
    pub fn set_retention(&mut self, bytes: Option<u64>, age_ms: Option<u64>) {
        self.retention = (bytes, age_ms);
    }

    /// Gives up what retention does not ask for; how many segments that are. Nothing from `floor` on is given up, nothing
    /// that is not durable, and never the last segment. The [`Maintainer`] removes the files.
    pub fn retain(&mut self, floor: Offset, now_ms: u64) -> usize {
        let (bytes_max, age_max_ms) = self.retention;
        let floor = floor.0.min(self.durable().0);
        let end = self.written().0;
        let mut lists = self.shared.lists();
        let mut given_up = 0;
        while let Some(next) = lists.segments.get(1) {
            let too_many = bytes_max.is_some_and(|bytes| end - next.first() >= bytes);
            let too_old = age_max_ms.is_some_and(|age| now_ms.saturating_sub(next.header.created_ms) >= age);
            // NOTE: not at `floor` itself: of the next one something has to be durable, so that its header is.
            if next.first() >= floor || !(too_many || too_old) {
                break;
            }
            let Some(segment) = lists.segments.pop_front() else { break };
            lists.garbage.push_back(segment);
            given_up += 1;
        }
        given_up
    }
}

/// Makes a segment of a spare, or of a new file if there is none, and puts it at the end of the list.
///
/// A new file has nothing in it, so each sync would take a commit of the file system's journal as well, up to its end. So it is a short
/// one, filled at once, to last until a spare has been prepared; each further one is twice as long.
///
/// NOTE: nothing is synced here unless `durably` is asked for, since nothing may make the shard's thread wait. The next sync
/// takes this file and the folder with it; a crash before that leaves a file without a good header, which `recover` knows.
pub(crate) fn begin_segment<D: Disk>(
    shared: &Shared<D>,
    header: SegmentHeader,
    len_min: u64,
    durably: bool,
) -> Result<Active<D::File>, LogError> {
    shared.check()?;
    let segment = Arc::new(Segment::new(&shared.folder, header));
    let segment_len = shared.options.segment_len;
    let (spare, bridge_len) = {
        let mut lists = shared.lists();
        let spare = if len_min <= segment_len { lists.spares.pop() } else { None };
        let bridge_len = lists.bridge_len.min(segment_len);
        lists.bridge_len = if spare.is_some() { BRIDGE_LEN_MIN } else { bridge_len.saturating_mul(2) };
        (spare, bridge_len)
    };
    // A page at least is written, for the same reason as in `write_run`.
    let (path, file, len, filled) = match spare {
        Some(path) => {
            let file = shared.disk.open(&path).map_err(LogError::io("open", &path))?;
            (path, file, segment_len, PAGE_LEN)
        }
        None => {
            let path = shared.folder.join(format!("{UNREADY_PREFIX}{}", shared.new_number()));
            let file = shared.disk.create(&path).map_err(LogError::io("create", &path))?;
            (path, file, bridge_len.max(len_min), if bridge_len <= BRIDGE_LEN_MIN { bridge_len } else { PAGE_LEN })
        }
    };
    let prepare = || {
        if file.len().map_err(LogError::io("open", &path))? < len {
            file.preallocate(len).map_err(LogError::io("make room for", &path))?;
        }
        let mut beginning = header.encode().to_vec();
        beginning.resize(usize::try_from(filled.min(len)).unwrap_or(beginning.len()), 0);
        file.write_all_at(&beginning, 0).map_err(LogError::io("write", &path))?;
        if durably {
            file.sync().map_err(LogError::io("sync", &path))?;
        }
        shared.disk.rename(&path, &segment.path).map_err(LogError::io("rename", &path))?;
        file.len().map_err(LogError::io("open", &segment.path))
    };
    let len = prepare().inspect_err(|_| {
        // Whatever it was, it is of no use; if it cannot be removed, the next start does.
        let _ = shared.disk.remove(&path);
    })?;
    let file = Arc::new(SegmentFile { segment: Arc::clone(&segment), file });
    let mut lists = shared.lists();
    // A segment without a frame has the same name as its successor, and is replaced by it.
    while lists.segments.back().is_some_and(|last| last.first() >= segment.first()) {
        lists.segments.pop_back();
    }
    lists.segments.push_back(segment);
    lists.unsynced.push(Arc::clone(&file));
    lists.folder_changed = true;
    drop(lists);
    Ok(Active { file, position: segment::HEADER_LEN as u64, len, paged: PAGE_LEN.min(len) })
}
