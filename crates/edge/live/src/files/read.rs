//! Reading files and folders.

use std::{
    io::IoSliceMut,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, fstat, statat},
    io::{Errno, ReadWriteFlags, pread, preadv2},
};
use web::{Entry, EntryKind, PathRules};

use super::{
    Facts, LiveFolder,
    beneath::{OpenAs, Patience},
};

/// Bytes that are read or looked for at a time.
pub const READ_BYTES_MAX: usize = 1 << 20;
/// Of so many bytes one is looked for: what the kernel reads ahead it has in memory together.
const LOOK_EVERY: u64 = 128 << 10;

/// Reads at `offset` until `room` is full, the file ends, or a disk would have to be waited for; how many bytes that were.
///
/// # Errors
/// The system's; `AGAIN` where a disk would have to be waited for before there is any byte.
pub fn read_at(file: BorrowedFd<'_>, room: &mut [u8], offset: u64, patience: Patience) -> Result<usize, Errno> {
    let mut count = 0;
    while let Some(rest) = room.get_mut(count..).filter(|rest| !rest.is_empty()) {
        let at = offset + count as u64;
        let read = match patience {
            Patience::Disk => pread(file, rest, at),
            Patience::None => {
                match preadv2(file, &mut [IoSliceMut::new(rest)], at, ReadWriteFlags::NOWAIT) {
                    // The file system cannot promise it.
                    Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Err(Errno::AGAIN),
                    read => read,
                }
            }
        };
        match read {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if count > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Whether the bytes from `start` to `end` are in memory, as far as some of them tell.
#[must_use]
pub fn is_in_memory(file: BorrowedFd<'_>, start: u64, end: u64) -> bool {
    let mut byte = [0];
    let last = end.saturating_sub(1);
    let mut at = start;
    while at < last {
        if read_at(file, &mut byte, at, Patience::None) != Ok(1) {
            return false;
        }
        at += LOOK_EVERY;
    }
    end <= start || read_at(file, &mut byte, last, Patience::None) == Ok(1)
}

/// Has the kernel read the bytes from `start` to `end` into memory, and waits for them.
///
/// # Errors
/// The system's.
pub fn load(file: BorrowedFd<'_>, start: u64, end: u64) -> Result<(), Errno> {
    let mut room = vec![0; usize::try_from(end - start.min(end)).unwrap_or(READ_BYTES_MAX).min(64 << 10)];
    let mut at = start;
    while at < end {
        match read_at(file, &mut room, at, Patience::Disk)? {
            0 => return Ok(()),
            count => at += count as u64,
        }
    }
    Ok(())
}

/// What is in a folder.
#[derive(Debug, Default)]
pub struct ListedFolder {
    /// Its entries, in no order.
    pub entries: Vec<Entry>,
    /// There are more.
    pub is_cut: bool,
}

/// Reads what is in a folder, no more than `most` entries. Links that lead nowhere, or where they must not lead, are left out.
///
/// # Errors
/// The system's.
pub fn list(folder: &LiveFolder, name: &[u8], rules: PathRules, most: usize) -> Result<ListedFolder, Errno> {
    let descriptor = folder.open(name, OpenAs::Folder, Patience::Disk)?;
    let mut listed = ListedFolder::default();
    let is_top = name == b".";
    for entry in Dir::read_from(&descriptor)? {
        let entry = entry?;
        let own = entry.file_name();
        let bytes = own.to_bytes();
        let is_hidden = bytes.starts_with(b".") && !rules.hidden && !(is_top && bytes == b".well-known");
        if matches!(bytes, b"." | b"..") || is_hidden {
            continue;
        }
        if listed.entries.len() >= most {
            listed.is_cut = true;
            break;
        }
        let stat = match statat(descriptor.as_fd(), own, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                let way = if is_top { bytes.to_vec() } else { [name, b"/", bytes].concat() };
                let Ok(target) = folder.open(&way, OpenAs::Look, Patience::Disk) else { continue };
                fstat(&target)?
            }
            Ok(stat) => stat,
            // It has gone meanwhile.
            Err(_) => continue,
        };
        let facts = Facts::from(&stat);
        let kind = match facts.kind {
            FileType::Directory => EntryKind::Folder,
            FileType::RegularFile => EntryKind::File,
            _ => EntryKind::Other,
        };
        listed.entries.push(Entry { name: bytes.into(), kind, length: facts.length, modified: facts.modified.0 });
    }
    Ok(listed)
}
