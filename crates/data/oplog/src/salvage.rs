//! Giving up what comes behind a damage: the log is cut there, and can be opened again.

use std::path::{Path, PathBuf};

use crate::{
    LogError, Offset,
    disk::Disk,
    end_note,
    folder::{FoundSegment, find_segments},
    segment::{SegmentHeader, UNREADY_PREFIX},
    truncate::Copy,
};

/// A log that cannot be opened, and the offset up to which it is good, as the error says it.
#[derive(Debug)]
pub struct Damaged<D> {
    disk: D,
    folder: PathBuf,
    /// The segment that is cut, and those behind it.
    from: Vec<FoundSegment>,
    header: SegmentHeader,
    generation: u32,
    good_until: Offset,
}

impl<D: Disk> Damaged<D> {
    /// Looks at it; changes nothing.
    ///
    /// # Errors
    ///
    /// The disk's; nothing that is good begins before the offset.
    pub fn look(disk: D, folder: &Path, good_until: Offset) -> Result<Self, LogError> {
        let mut found = find_segments(&disk, folder)?;
        let removed = || LogError::Removed { asked: good_until, first: good_until };
        let is_before = |found: &FoundSegment| found.first_offset <= good_until.0 && found.header.is_ok();
        let place = found.iter().rposition(is_before).ok_or_else(removed)?;
        let headers = found.iter().filter_map(|found| found.header.ok());
        let generation = headers.map(|header| header.generation).max().unwrap_or(0).wrapping_add(1).max(1);
        let from = found.split_off(place);
        let header = from.first().and_then(|found| found.header.ok()).ok_or_else(removed)?;
        Ok(Self { disk, folder: folder.to_owned(), from, header, generation, good_until })
    }

    /// The files that have something behind the damage, or may have.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.from.iter().map(|found| found.path.as_path())
    }

    /// Cuts it. If that fails half way, it can be looked at and cut again.
    ///
    /// # Errors
    ///
    /// The disk's; or the log is damaged before the offset too.
    pub fn give_up_the_rest(self, segment_len: u64) -> Result<(), LogError> {
        // NOTE: the note of the end goes first, then the latest segment, each for good before the next, so that a crash leaves no gap.
        end_note::remove(&self.disk, &self.folder)?;
        let Some((cut, later)) = self.from.split_first() else { return Ok(()) };
        for found in later.iter().rev() {
            self.disk.remove(&found.path).map_err(LogError::io("remove", &found.path))?;
            self.disk.sync_folder(&self.folder).map_err(LogError::io("sync", &self.folder))?;
        }
        let unready = format!("{UNREADY_PREFIX}0");
        let copy = Copy { disk: &self.disk, folder: &self.folder, unready: &unready, len: segment_len };
        copy.make(&cut.path, &self.header, self.generation, self.good_until)?;
        Ok(())
    }
}
