//! The note of a log's end: up to where it was known to be durable, kept apart from the segments.
//!
//! Frames say it too, but a segment that is gone has taken its frames along, and what they said of the segment before is gone with
//! them. So the syncer notes here, after each sync, up to where the log is durable and which segment is the newest one. It does not
//! sync the note, but when a segment has been begun: what the note says is true whenever it reaches the disk, and an older note
//! promises less.
//!
//! Two places are written in turns, so that one is whole whatever a crash does to the other. A place that a crash has torn is made whole
//! at the next start, durably: otherwise a second crash may tear the other one before this one has reached the disk again.

use std::path::{Path, PathBuf};

use crate::{
    LogError,
    disk::{Disk, DiskFile},
    frame::{put, u32_at, u64_at},
    segment::UNREADY_PREFIX,
};

/// The file's name.
pub(crate) const NAME: &str = "end";
const MAGIC: &[u8; 8] = b"TIDEOEND";
const VERSION: u32 = 1;
/// Bytes of a place.
const LEN: usize = 64;
const CRC_AT: usize = LEN - 4;
/// Where the second place is: in another sector.
const SECOND_AT: u64 = 512;
const FILE_LEN: usize = 1_024;

/// What is known of a log's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownEnd {
    /// That of the log.
    pub(crate) salt: u32,
    /// Where the newest segment begins that is durable.
    pub(crate) segment: u64,
    /// Up to where the log is durable.
    pub(crate) durable: u64,
}

impl KnownEnd {
    fn encode(&self, number: u64) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 12, &self.salt.to_le_bytes());
        put(&mut bytes, 16, &number.to_le_bytes());
        put(&mut bytes, 24, &self.segment.to_le_bytes());
        put(&mut bytes, 32, &self.durable.to_le_bytes());
        let crc = crc32c::crc32c(bytes.get(..CRC_AT).unwrap_or_default());
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        bytes
    }

    /// What stands in a place, and its number; `None` if nothing does.
    fn decode(bytes: &[u8], path: &Path) -> Result<Option<(u64, Self)>, LogError> {
        let is_whole = bytes.starts_with(MAGIC)
            && bytes.len() == LEN
            && crc32c::crc32c(bytes.get(..CRC_AT).unwrap_or_default()) == u32_at(bytes, CRC_AT);
        if !is_whole {
            return Ok(None);
        }
        if u32_at(bytes, 8) != VERSION {
            return Err(LogError::EndNote {
                path: path.to_owned(),
                reason: "was written by a newer version of the program",
            });
        }
        let end = Self { salt: u32_at(bytes, 12), segment: u64_at(bytes, 24), durable: u64_at(bytes, 32) };
        Ok(Some((u64_at(bytes, 16), end)))
    }
}

/// The file.
#[derive(Debug)]
pub(crate) struct EndNote<F> {
    path: PathBuf,
    file: F,
    /// Of what was written last.
    number: u64,
    end: KnownEnd,
}

impl<F: DiskFile> EndNote<F> {
    /// Makes it, durably.
    pub(crate) fn create<D: Disk<File = F>>(disk: &D, folder: &Path, end: KnownEnd) -> Result<Self, LogError> {
        let path = folder.join(NAME);
        let unready = folder.join(format!("{UNREADY_PREFIX}{NAME}"));
        let file = disk.create(&unready).map_err(LogError::io("create", &unready))?;
        // Both places from the beginning: one of them may be torn before the other one has reached the disk again.
        let mut bytes = [0; FILE_LEN];
        put(&mut bytes, 0, &end.encode(1));
        put(&mut bytes, SECOND_AT as usize, &end.encode(0));
        file.write_all_at(&bytes, 0).map_err(LogError::io("write", &unready))?;
        file.sync().map_err(LogError::io("sync", &unready))?;
        disk.rename(&unready, &path).map_err(LogError::io("rename", &unready))?;
        disk.sync_folder(folder).map_err(LogError::io("sync", folder))?;
        Ok(Self { path, file, number: 1, end })
    }

    /// Opens it; `None` if there is none: the log is of a version before there was one, or is being made or cut.
    pub(crate) fn open<D: Disk<File = F>>(disk: &D, folder: &Path) -> Result<Option<Self>, LogError> {
        let path = folder.join(NAME);
        let names = disk.list(folder).map_err(LogError::io("list", folder))?;
        if !names.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let file = disk.open(&path).map_err(LogError::io("open", &path))?;
        let mut newest: Option<(u64, KnownEnd)> = None;
        let mut torn = None;
        for position in [0, SECOND_AT] {
            let mut bytes = [0; LEN];
            file.read_full_at(&mut bytes, position).map_err(LogError::io("read", &path))?;
            let found = KnownEnd::decode(&bytes, &path)?;
            torn = torn.or(found.is_none().then_some(position));
            newest = [newest, found].into_iter().flatten().max_by_key(|(number, _)| *number);
        }
        let Some((number, end)) = newest else {
            return Err(LogError::EndNote { path, reason: "is damaged" });
        };
        if let Some(position) = torn {
            let before = end.encode(number.saturating_sub(1));
            file.write_all_at(&before, position).map_err(LogError::io("write", &path))?;
            file.sync().map_err(LogError::io("sync", &path))?;
        }
        Ok(Some(Self { path, file, number, end }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn end(&self) -> KnownEnd {
        self.end
    }

    /// Notes how far the log is durable. A segment that is new is noted durably.
    pub(crate) fn record(&mut self, end: KnownEnd) -> Result<(), LogError> {
        if end == self.end {
            return Ok(());
        }
        let number = self.number + 1;
        let position = if number.is_multiple_of(2) { SECOND_AT } else { 0 };
        self.file.write_all_at(&end.encode(number), position).map_err(LogError::io("write", &self.path))?;
        if end.segment != self.end.segment {
            self.file.sync().map_err(LogError::io("sync", &self.path))?;
        }
        (self.number, self.end) = (number, end);
        Ok(())
    }
}

/// Removes the note for good: the log is about to become shorter.
pub(crate) fn remove<D: Disk>(disk: &D, folder: &Path) -> Result<(), LogError> {
    let names = disk.list(folder).map_err(LogError::io("list", folder))?;
    if names.iter().any(|name| name == NAME) {
        let path = folder.join(NAME);
        disk.remove(&path).map_err(LogError::io("remove", &path))?;
        disk.sync_folder(folder).map_err(LogError::io("sync", folder))?;
    }
    Ok(())
}
