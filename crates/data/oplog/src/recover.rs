//! What is left of a log after a crash, and whether only a crash can have done that.
//!
//! Segments are synced in order, the folder after them, and a frame says in `durable` up to where the log was known to be
//! synced when it was written. From that follows:
//!
//! - A segment with a frame that knows the beginning of that segment to be durable has whole segments before it. The last
//!   such one is the *anchor*; what is before it is not looked at when a log is opened.
//! - From the anchor on, frames are good up to some offset E. Whatever is good behind it, in the same segment or in later
//!   ones, was not synced, unless one of these frames knows more than E to be durable. Then something synced is gone: the log
//!   is damaged, and is not touched.
//! - Otherwise the log ends at E. Segments behind it are removed. If there are good frames behind E in the last segment, it
//!   is not written any more, since these could come to life when something of the right length is written before them: a
//!   new segment begins at E.
//! - All that the note of the log's end says must be there, whatever the frames say: see `end_note`.
//!
//! What was found good is synced before anything else happens: it may be in memory alone, if only the process had died.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use crate::{
    Log, LogError, Offset, Options, Reason,
    disk::{Disk, DiskFile},
    end_note::{EndNote, KnownEnd},
    folder::{FoundSegment, find_segments},
    frame,
    log::{Active, begin_segment},
    scan::{ScannedFrame, Scanner, durable_claim, durable_claim_of_unknown},
    segment::{self, HEADER_LEN, SPARE_PREFIX, Segment, SegmentHeader, UNREADY_PREFIX},
    shared::{SegmentFile, Shared},
};

/// What was there when a log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// There was none: it was made.
    pub created: bool,
    /// Where it begins.
    pub first: Offset,
    /// Where it ends. All of it is durable.
    pub end: Offset,
    /// When its last entry was appended; `None` if that is not known without reading older segments.
    pub last_time_ms: Option<u64>,
    /// What was cut off.
    pub cut: Option<Cut>,
}

/// What a crash has left behind the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The last segment that is part of the log.
    pub segment: PathBuf,
    /// The byte in it where the log ends.
    pub position: u64,
    /// The offset that it ends at.
    pub offset: Offset,
    /// What is wrong with what follows.
    pub reason: Reason,
    /// Good frames that came after something lost.
    pub frames_lost: bool,
    /// Later segments, which were removed.
    pub segments_removed: usize,
}

impl<D: Disk> Log<D> {
    /// Opens the log in a folder, or makes one. What a crash has torn at the end is cut off.
    ///
    /// # Errors
    ///
    /// The disk's; or the log is damaged where no crash can have damaged it.
    pub fn open(disk: D, folder: &Path, options: Options, now_ms: u64) -> Result<(Self, Recovered), LogError> {
        disk.create_folder(folder).map_err(LogError::io("create", folder))?;
        let found = find_segments(&disk, folder)?;
        let note = EndNote::open(&disk, folder)?;
        match (found.is_empty(), note) {
            (false, note) => Recovery { disk, folder, found }.run(note, options, now_ms),
            (true, None) => create(disk, folder, options, now_ms),
            (true, Some(note)) => Err(LogError::NoSegments { folder: folder.to_owned(), durable: note.end().durable }),
        }
    }
}

fn create<D: Disk>(disk: D, folder: &Path, options: Options, now_ms: u64) -> Result<(Log<D>, Recovered), LogError> {
    let header = SegmentHeader {
        first_offset: options.first_offset.0,
        created_ms: now_ms,
        generation: 1,
        salt: options.salt,
        replication_id: options.replication_id,
        former_id: None,
    };
    let shared = Arc::new(Shared::new(disk, folder.to_owned(), options, VecDeque::new()));
    adopt_spares(&shared)?;
    let active = begin_segment_durably(&shared, header)?;
    let end = Offset(header.first_offset);
    shared.written.store(end.0, Ordering::Release);
    shared.durable.store(end.0, Ordering::Release);
    shared.set_end_note(Some(EndNote::create(&shared.disk, folder, known_end(&active, end.0))?));
    let recovered = Recovered { created: true, first: end, end, last_time_ms: None, cut: None };
    Ok((Log::new(shared, active, end.0), recovered))
}

/// What is known of the end once all that the active segment has is durable.
pub(crate) fn known_end<F>(active: &Active<F>, durable: u64) -> KnownEnd {
    let header = active.file.segment.header;
    KnownEnd { salt: header.salt, segment: header.first_offset, durable }
}

/// A segment whose header is durable before it has its name.
pub(crate) fn begin_segment_durably<D: Disk>(
    shared: &Arc<Shared<D>>,
    header: SegmentHeader,
) -> Result<Active<D::File>, LogError> {
    let active = begin_segment(shared, header, 0, true)?;
    shared.disk.sync_folder(&shared.folder).map_err(LogError::io("sync", &shared.folder))?;
    shared.lists().folder_changed = false;
    Ok(active)
}

/// Removes what was being made when the process ended, and takes over spares.
fn adopt_spares<D: Disk>(shared: &Shared<D>) -> Result<(), LogError> {
    let names = shared.disk.list(&shared.folder).map_err(LogError::io("list", &shared.folder))?;
    let mut lists = shared.lists();
    for name in names {
        let path = shared.folder.join(&name);
        let number = |prefix| name.strip_prefix(prefix).and_then(|number: &str| number.parse::<u64>().ok());
        let is_good_spare = match (number(SPARE_PREFIX), number(UNREADY_PREFIX)) {
            (Some(number), _) => {
                lists.next_number = lists.next_number.max(number);
                let len = shared.disk.open(&path).and_then(|file| file.len()).map_err(LogError::io("open", &path))?;
                len == shared.options.segment_len && lists.spares.len() < shared.options.spare_segments
            }
            (None, Some(_)) => false,
            (None, None) => continue,
        };
        if is_good_spare {
            lists.spares.push(path);
        } else {
            shared.disk.remove(&path).map_err(LogError::io("remove", &path))?;
        }
    }
    Ok(())
}

struct Recovery<'a, D> {
    disk: D,
    folder: &'a Path,
    found: Vec<FoundSegment>,
}

/// Where the good part of a log ends.
struct End {
    /// In which of the segments.
    index: usize,
    position: u64,
    offset: u64,
    reason: Reason,
    last_time_ms: Option<u64>,
}

impl<D: Disk> Recovery<'_, D> {
    fn run(
        self,
        note: Option<EndNote<D::File>>,
        options: Options,
        now_ms: u64,
    ) -> Result<(Log<D>, Recovered), LogError> {
        for FoundSegment { path, first_offset, header } in &self.found {
            if *header == Err(Reason::Version) {
                return Err(LogError::corrupt(path, 0, Offset(*first_offset), Reason::Version));
            }
        }
        let anchor = self.anchor()?;
        let end = self.end(anchor)?;
        let frames_lost = self.check_nothing_durable_is_lost(&end)?;
        if let Some(note) = &note {
            self.check_known_end(note, &end)?;
        }
        let looks_torn = self.looks_torn(&end)?;
        let removed = self.remove_behind(&end)?;
        let generation_max =
            self.found.iter().filter_map(|found| found.header.ok()).map(|header| header.generation).max();

        let mut segments = VecDeque::new();
        let mut last = None;
        for (index, found) in self.found.iter().enumerate().take(end.index + 1) {
            let header = self.header(index)?;
            let segment = Arc::new(Segment::new(self.folder, header));
            segments.push_back(Arc::clone(&segment));
            if index >= anchor {
                let file = self.disk.open(&found.path).map_err(LogError::io("open", &found.path))?;
                file.sync().map_err(LogError::io("sync", &found.path))?;
                last = Some(Arc::new(SegmentFile { segment, file }));
            }
        }
        self.disk.sync_folder(self.folder).map_err(LogError::io("sync", self.folder))?;
        let Some(last) = last else { return Err(self.damage(&end)) };

        let first = segments.front().map_or(0, |segment| segment.first());
        let path = last.segment.path.clone();
        let shared = Arc::new(Shared::new(self.disk, self.folder.to_owned(), options, segments));
        shared.written.store(end.offset, Ordering::Release);
        shared.durable.store(end.offset, Ordering::Release);
        adopt_spares(&shared)?;
        let active = if frames_lost {
            let header = SegmentHeader {
                first_offset: end.offset,
                created_ms: now_ms,
                generation: generation_max.unwrap_or(0).wrapping_add(1),
                former_id: None,
                ..last.segment.header
            };
            begin_segment_durably(&shared, header)?
        } else {
            let len = last.file.len().map_err(LogError::io("open", &path))?;
            shared.lists().unsynced.push(Arc::clone(&last));
            Active { file: last, position: end.position, len, paged: end.position }
        };
        let known = known_end(&active, end.offset);
        let note = match note {
            Some(mut note) => note.record(known).map(|()| note),
            None => EndNote::create(&shared.disk, self.folder, known),
        };
        shared.set_end_note(Some(note?));
        let cut = (frames_lost || removed > 0 || looks_torn).then_some(Cut {
            segment: path,
            position: end.position,
            offset: Offset(end.offset),
            reason: end.reason,
            frames_lost,
            segments_removed: removed,
        });
        let recovered = Recovered {
            created: false,
            first: Offset(first),
            end: Offset(end.offset),
            last_time_ms: end.last_time_ms,
            cut,
        };
        Ok((Log::new(shared, active, end.offset), recovered))
    }

    /// Removes the segments behind the end. Returns how many that were.
    fn remove_behind(&self, end: &End) -> Result<usize, LogError> {
        for later in self.found.iter().skip(end.index + 1).rev() {
            // NOTE: the latest first, each for good before the next, so that a crash leaves no gap.
            self.disk.remove(&later.path).map_err(LogError::io("remove", &later.path))?;
            self.disk.sync_folder(self.folder).map_err(LogError::io("sync", self.folder))?;
        }
        Ok(self.found.len() - (end.index + 1))
    }

    fn found(&self, index: usize) -> Result<&FoundSegment, LogError> {
        let missing = || LogError::corrupt(self.folder, 0, Offset(0), Reason::Missing);
        self.found.get(index).ok_or_else(missing)
    }

    fn header(&self, index: usize) -> Result<SegmentHeader, LogError> {
        let found = self.found(index)?;
        found.header.map_err(|reason| LogError::corrupt(&found.path, 0, Offset(found.first_offset), reason))
    }

    fn scanner(&self, index: usize) -> Result<Scanner<D::File>, LogError> {
        let header = self.header(index)?;
        let path = &self.found(index)?.path;
        let file = self.disk.open_to_read(path).map_err(LogError::io("open", path))?;
        Ok(Scanner::new(file, &header))
    }

    /// The last segment with a frame that knows the segment's beginning to be durable, or else the first one.
    fn anchor(&self) -> Result<usize, LogError> {
        for index in (1..self.found.len()).rev() {
            let found = self.found(index)?;
            if found.header.is_err() {
                continue;
            }
            let mut scanner = self.scanner(index)?;
            while let ScannedFrame::Frame(frame) = scanner.next().map_err(LogError::io("read", &found.path))? {
                if frame.durable >= found.first_offset {
                    return Ok(index);
                }
            }
        }
        Ok(0)
    }

    /// Where good frames end, from the anchor on.
    fn end(&self, anchor: usize) -> Result<End, LogError> {
        let mut index = anchor;
        let mut last_time_ms = None;
        loop {
            let mut scanner = self.scanner(index)?;
            let path = &self.found(index)?.path;
            let next = self.found.get(index + 1);
            let reason = loop {
                if next.is_some_and(|next| next.first_offset <= scanner.offset()) {
                    break None;
                }
                match scanner.next().map_err(LogError::io("read", path))? {
                    ScannedFrame::Frame(frame) => last_time_ms = Some(frame.time_ms),
                    ScannedFrame::Bad(reason) => break Some(reason),
                }
            };
            let (position, offset) = (scanner.position(), scanner.offset());
            let end = |reason| End { index, position, offset, reason, last_time_ms };
            match (reason, next) {
                (None, Some(next)) if next.first_offset != offset => return Err(self.damage(&end(Reason::Offset))),
                (None, Some(next)) if next.header.is_ok() => index += 1,
                (None, _) => return Ok(end(Reason::Header)),
                (Some(Reason::Version), _) => return Err(self.damage(&end(Reason::Version))),
                (Some(reason), _) => return Ok(end(reason)),
            }
        }
    }

    fn damage(&self, end: &End) -> LogError {
        let path = self.found.get(end.index).map_or(self.folder, |found| &found.path);
        LogError::corrupt(path, end.position, Offset(end.offset), end.reason)
    }

    /// Whether all is there that was noted to be durable.
    fn check_known_end(&self, note: &EndNote<D::File>, end: &End) -> Result<(), LogError> {
        let known = note.end();
        if self.header(end.index)?.salt != known.salt {
            return Err(LogError::EndNote { path: note.path().to_owned(), reason: "is of another log" });
        }
        let newest = self.found.iter().find(|found| found.first_offset == known.segment);
        match newest.map(|found| found.header) {
            Some(Ok(_)) if end.offset < known.durable => {
                Err(self.damage(&End { reason: Reason::Short { durable: known.durable }, ..*end }))
            }
            Some(Ok(_)) => Ok(()),
            missing_or_bad => {
                let reason = missing_or_bad.and_then(Result::err).unwrap_or(Reason::Gone);
                let path = self.folder.join(segment::name(known.segment));
                Err(LogError::corrupt(&path, 0, Offset(end.offset), reason))
            }
        }
    }

    /// Looks for good frames behind the end; whether there are some in the last segment that is kept.
    fn check_nothing_durable_is_lost(&self, end: &End) -> Result<bool, LogError> {
        let mut frames_lost = false;
        let known = self.header(end.index)?;
        for (index, found) in self.found.iter().enumerate().skip(end.index) {
            let file = self.disk.open_to_read(&found.path).map_err(LogError::io("open", &found.path))?;
            let position = if index == end.index { end.position } else { HEADER_LEN as u64 };
            let claim = match &found.header {
                Ok(header) => durable_claim(&file, header, position, end.offset),
                Err(_) => durable_claim_of_unknown(&file, &known, position, end.offset),
            };
            let claim = claim.map_err(LogError::io("read", &found.path))?;
            if claim.durable > end.offset {
                return Err(self.damage(end));
            }
            frames_lost |= claim.any && index == end.index;
        }
        Ok(frames_lost)
    }

    /// Whether something begins at the end of the log that is not what an earlier life of the file has left.
    fn looks_torn(&self, end: &End) -> Result<bool, LogError> {
        let path = &self.found(end.index)?.path;
        let file = self.disk.open_to_read(path).map_err(LogError::io("open", path))?;
        let mut bytes = [0; frame::HEADER_LEN];
        let read = file.read_full_at(&mut bytes, end.position).map_err(LogError::io("read", path))?;
        let generation = self.header(end.index)?.generation;
        Ok(read == bytes.len() && frame::FrameHeader::decode(&bytes).generation == generation)
    }
}
