//! A log's folder in which anything may stand.

use std::path::Path;

use oplog::{
    Log, LogError, Offset, Options, ReplicationId,
    disk::{Disk, DiskFile, MemoryDisk},
};

const FOLDER: &str = "log";

fn options() -> Options {
    let id = ReplicationId::from_random([7; 20]);
    Options { segment_len: 512, retention_bytes: None, ..Options::new(id, 9) }
}

/// A log of several segments, and what is in it.
fn log() -> (MemoryDisk, Vec<u8>) {
    let disk = MemoryDisk::new();
    let (mut log, _) = Log::open(disk.clone(), Path::new(FOLDER), options(), 1).unwrap();
    let mut all = Vec::new();
    for number in 0..12_u8 {
        let piece = vec![number; 10 + usize::from(number) * 13];
        log.append(&piece, u64::from(number)).unwrap();
        log.write().unwrap();
        if number % 3 == 0 {
            log.syncer().sync().unwrap();
        }
        all.extend(piece);
    }
    (disk, all)
}

/// What is read of it, up to an error.
fn read(disk: &MemoryDisk) -> Result<Vec<u8>, LogError> {
    let (mut log, recovered) = Log::open(disk.clone(), Path::new(FOLDER), options(), 1)?;
    let mut reader = log.read(recovered.first)?;
    let mut bytes = Vec::new();
    while let Some(entry) = reader.next()? {
        bytes.extend_from_slice(entry.commands);
    }
    assert_eq!(bytes.len() as u64, recovered.end.0 - recovered.first.0);
    log.append(b"more", 2)?;
    log.write()?;
    Ok(bytes)
}

/// Writes pieces of `data` over the files of a log: place, length, bytes. What comes out is the beginning of what was in it,
/// or an error.
pub fn damaged(data: &[u8]) {
    let (disk, all) = log();
    let paths = disk.paths();
    let mut rest = data;
    while let Some((&[file, len, high, low], behind)) = rest.split_first_chunk() {
        let position = u64::from(u16::from_be_bytes([high, low]) % 512);
        let (bytes, behind) = behind.split_at(usize::from(len % 48).min(behind.len()));
        let path = &paths[usize::from(file) % paths.len()];
        disk.open(path).unwrap().write_all_at(bytes, position).unwrap();
        rest = behind;
    }
    if let Ok(bytes) = read(&disk) {
        assert_eq!(bytes, all[..bytes.len()]);
    }
}

/// Frames out of bytes that are no log at all, or the rest of one: the first segment's content from a place on.
pub fn anything(data: &[u8]) {
    let Some((&keep, data)) = data.split_first() else { return };
    let (whole, _) = log();
    let path = Path::new(FOLDER).join("00000000000000000000.oplog");
    let disk = MemoryDisk::new();
    let file = disk.create(&path).unwrap();
    let bytes = whole.contents(&path).unwrap();
    let kept = &bytes[..usize::from(keep) * 2];
    file.write_all_at(&[kept, data].concat(), 0).unwrap();
    let _ = read(&disk);
    if let Ok(mut reader) = oplog::Reader::open(disk, Path::new(FOLDER), Some(Offset(3))) {
        while let Ok(Some(_)) = reader.next() {}
    }
}
