//! The segments in a log's folder.

use std::path::{Path, PathBuf};

use crate::{
    LogError, Reason,
    disk::{Disk, DiskFile},
    segment::{HEADER_LEN, SegmentHeader, parse_name},
};

/// A file with a segment's name.
#[derive(Debug)]
pub(crate) struct FoundSegment {
    pub(crate) path: PathBuf,
    pub(crate) first_offset: u64,
    /// What its header says, or what is wrong with it.
    pub(crate) header: Result<SegmentHeader, Reason>,
}

/// The segments in a folder, the oldest first.
pub(crate) fn find_segments<D: Disk>(disk: &D, folder: &Path) -> Result<Vec<FoundSegment>, LogError> {
    let names = disk.list(folder).map_err(LogError::io("list", folder))?;
    let mut offsets: Vec<(u64, String)> =
        names.into_iter().filter_map(|name| Some((parse_name(&name)?, name))).collect();
    offsets.sort_unstable();
    let mut found = Vec::with_capacity(offsets.len());
    let mut generation = 0;
    for (first_offset, name) in offsets {
        let path = folder.join(name);
        let file = disk.open_to_read(&path).map_err(LogError::io("open", &path))?;
        let mut bytes = [0; HEADER_LEN];
        let read = file.read_full_at(&mut bytes, 0).map_err(LogError::io("read", &path))?;
        let header = if read < HEADER_LEN { Err(Reason::Header) } else { SegmentHeader::decode(&bytes) };
        // What an earlier life of the file has left is a good header of another segment.
        let header = header.and_then(|header| {
            let is_its_own = header.first_offset == first_offset && header.generation > generation;
            if is_its_own { Ok(header) } else { Err(Reason::Header) }
        });
        if let Ok(header) = &header {
            generation = header.generation;
        }
        found.push(FoundSegment { path, first_offset, header });
    }
    Ok(found)
}
