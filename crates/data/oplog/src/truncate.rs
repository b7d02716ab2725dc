//! Cutting a log, and beginning anew. Both are done while nobody else uses it: no sync is under way, and nobody reads.
//!
//! If one of them fails half way, the log is not written any more. Opened again, it is what it was before, or a part of it
//! that is whole.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use crate::{
    Log, LogError, Offset, ReplicationId,
    disk::{Disk, DiskFile},
    end_note::{self, EndNote},
    frame::FrameHeader,
    log::Active,
    recover::{begin_segment_durably, known_end},
    scan::{ScannedFrame, Scanner},
    segment::{self, Segment, SegmentHeader, UNREADY_PREFIX},
    shared::SegmentFile,
};

impl<D: Disk> Log<D> {
    /// Removes what comes behind an offset, which has to be between two commands: what was appended together before is
    /// parted if it lies across. What was appended and not written is written first.
    ///
    /// # Errors
    ///
    /// The disk's; the offset is behind the end, or not kept any more.
    pub fn truncate_after(&mut self, offset: Offset) -> Result<(), LogError> {
        self.write()?;
        if offset > self.end() {
            return Err(LogError::Beyond { asked: offset, end: self.end() });
        }
        if offset == self.end() {
            return Ok(());
        }
        let target = self.shared.segment_of(offset.0);
        let target = target.ok_or(LogError::Removed { asked: offset, first: self.first() })?;
        self.all_or_failed(|log| {
            log.remove_segments(|segment| segment.first() > target.first())?;
            log.active = log.copy_until(&target, offset)?;
            Ok(offset)
        })
    }

    /// Removes everything, and begins anew at an offset, with another history.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub fn restart(&mut self, replication_id: ReplicationId, offset: Offset, now_ms: u64) -> Result<(), LogError> {
        self.shared.check()?;
        self.discard();
        let header = SegmentHeader {
            first_offset: offset.0,
            created_ms: now_ms,
            generation: self.active.file.segment.header.generation.wrapping_add(1).max(1),
            replication_id,
            former_id: None,
            ..self.active.file.segment.header
        };
        self.all_or_failed(|log| {
            log.remove_segments(|_| true)?;
            log.shared.lists().unsynced.clear();
            log.active = begin_segment_durably(&log.shared, header)?;
            Ok(offset)
        })
    }

    fn all_or_failed(&mut self, run: impl FnOnce(&mut Self) -> Result<Offset, LogError>) -> Result<(), LogError> {
        // NOTE: the note of the end goes first: it must never promise what was given up.
        self.shared.set_end_note(None);
        let result = end_note::remove(&self.shared.disk, &self.shared.folder).and_then(|()| run(self));
        let result = result.and_then(|Offset(end)| {
            let known = known_end(&self.active, end);
            self.shared.set_end_note(Some(EndNote::create(&self.shared.disk, &self.shared.folder, known)?));
            Ok(Offset(end))
        });
        match result {
            Ok(Offset(end)) => {
                self.set_end(end);
                self.shared.written.store(end, Ordering::Release);
                self.shared.durable.store(end, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                self.shared.failed.store(true, Ordering::Release);
                Err(error)
            }
        }
    }

    /// NOTE: the latest first, each for good before the next, so that a crash leaves no gap.
    fn remove_segments(&mut self, which: impl Fn(&Segment) -> bool) -> Result<(), LogError> {
        let folder = &self.shared.folder;
        loop {
            let last = self.shared.lists().segments.back().filter(|last| which(last)).map(Arc::clone);
            let Some(last) = last else { return Ok(()) };
            self.shared.disk.remove(&last.path).map_err(LogError::io("remove", &last.path))?;
            self.shared.disk.sync_folder(folder).map_err(LogError::io("sync", folder))?;
            self.shared.lists().segments.pop_back();
        }
    }

    /// A copy of a segment up to an offset takes the place of the segment. The copy has a generation of its own, so frames
    /// that were cut off cannot come back.
    fn copy_until(&self, source: &Arc<Segment>, until: Offset) -> Result<Active<D::File>, LogError> {
        let generation = self.active.file.segment.header.generation.wrapping_add(1).max(1);
        let unready = format!("{UNREADY_PREFIX}{}", self.shared.new_number());
        let copy = Copy {
            disk: &self.shared.disk,
            folder: &self.shared.folder,
            unready: &unready,
            len: self.shared.options.segment_len,
        };
        let (file, header, position) = copy.make(&source.path, &source.header, generation, until)?;
        let len = file.len().map_err(LogError::io("open", &source.path))?;
        let segment = Arc::new(Segment::new(&self.shared.folder, header));
        let file = Arc::new(SegmentFile { segment: Arc::clone(&segment), file });
        let mut lists = self.shared.lists();
        lists.segments.pop_back();
        lists.segments.push_back(segment);
        lists.unsynced = vec![Arc::clone(&file)];
        drop(lists);
        Ok(Active { file, position, len, paged: position })
    }
}

/// Where a shorter copy of a segment is made.
pub(crate) struct Copy<'a, D> {
    pub(crate) disk: &'a D,
    pub(crate) folder: &'a Path,
    /// The name that it has until it is whole.
    pub(crate) unready: &'a str,
    /// How long the file becomes.
    pub(crate) len: u64,
}

impl<D: Disk> Copy<'_, D> {
    /// Puts a copy of a segment up to an offset in the place of the segment, durably. Returns it with the place where it ends.
    pub(crate) fn make(
        &self,
        source: &Path,
        source_header: &SegmentHeader,
        generation: u32,
        until: Offset,
    ) -> Result<(D::File, SegmentHeader, u64), LogError> {
        let disk = self.disk;
        let header = SegmentHeader { generation, ..*source_header };
        let path = self.folder.join(self.unready);
        let from = disk.open_to_read(source).map_err(LogError::io("open", source))?;
        let mut scanner = Scanner::new(from, source_header);
        let file = disk.create(&path).map_err(LogError::io("create", &path))?;
        let write = |bytes: &[u8], position| file.write_all_at(bytes, position).map_err(LogError::io("write", &path));
        file.preallocate(self.len).map_err(LogError::io("make room for", &path))?;
        write(&header.encode(), 0)?;
        let mut position = segment::HEADER_LEN as u64;
        while scanner.offset() < until.0 {
            let (bad_at, offset) = (scanner.position(), scanner.offset());
            match scanner.next().map_err(LogError::io("read", source))? {
                ScannedFrame::Bad(reason) => return Err(LogError::corrupt(source, bad_at, Offset(offset), reason)),
                ScannedFrame::Frame(frame) => {
                    let kept = usize::try_from(until.0 - frame.offset).unwrap_or(usize::MAX);
                    let commands = scanner.commands();
                    let commands = commands.get(..kept).unwrap_or(commands);
                    let len = u32::try_from(commands.len()).unwrap_or(u32::MAX);
                    let head = FrameHeader { len, generation, ..frame }.encode(header.salt, commands);
                    write(&head, position)?;
                    write(commands, position + head.len() as u64)?;
                    position += (head.len() + commands.len()) as u64;
                }
            }
        }
        file.sync().map_err(LogError::io("sync", &path))?;
        disk.rename(&path, source).map_err(LogError::io("rename", &path))?;
        disk.sync_folder(self.folder).map_err(LogError::io("sync", self.folder))?;
        Ok((file, header, position))
    }
}
