//! What a log does while nothing goes wrong; crashes and faults have files of their own.

mod crash;
mod end_note;
mod faults;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    disk::{Disk, DiskFile as _, FailingDisk, Faults, MemoryDisk, RealDisk},
    *,
};

const FOLDER: &str = "log";

fn id(digit: u8) -> ReplicationId {
    ReplicationId::from_random([digit; 20])
}

/// Segments so small that a few frames fill one.
fn small() -> Options {
    Options { segment_len: 1_024, retention_bytes: None, ..Options::new(id(0xab), 77) }
}

fn folder() -> &'static Path {
    Path::new(FOLDER)
}

fn open<D: Disk>(disk: &D, options: Options) -> (Log<D>, Recovered) {
    Log::open(disk.clone(), folder(), options, 1_000).unwrap()
}

/// The piece that is appended as number `number`: its length varies, and so do its bytes.
fn piece(number: u64) -> Vec<u8> {
    let len = 5 + number * 37 % 150;
    (0..len).map(|at| b'a' + u8::try_from((number + at) % 26).unwrap()).collect()
}

fn pieces(count: u64) -> Vec<u8> {
    (0..count).flat_map(piece).collect()
}

/// Everything from `from` on, and how it was cut into entries.
fn read<D: Disk>(log: &Log<D>, from: Offset) -> Result<(Vec<u8>, Vec<u64>), LogError> {
    let mut reader = log.read(from)?;
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    let mut expected = from;
    while let Some(entry) = reader.next()? {
        assert_eq!(entry.offset, expected, "no gap");
        expected = entry.end();
        bytes.extend_from_slice(entry.commands);
        ends.push(entry.end().0);
    }
    Ok((bytes, ends))
}

/// The offsets between pieces.
fn boundaries(count: u64) -> Vec<u64> {
    let mut at = 0;
    let ends = (0..count).map(|number| {
        at += piece(number).len() as u64;
        at
    });
    std::iter::once(0).chain(ends).collect()
}

#[test]
fn what_is_appended_is_read() {
    let disk = MemoryDisk::new();
    let (mut log, recovered) = open(&disk, small());
    assert!(recovered.created);
    assert_eq!((recovered.end, recovered.cut), (Offset(0), None));
    let mut syncer = log.syncer();
    assert_eq!(log.replication_id(), id(0xab));
    for number in 0..40 {
        let end = log.end();
        log.append(&piece(number), 5_000 + number).unwrap();
        assert_eq!(log.end(), end + piece(number).len() as u64);
        assert_eq!(log.written(), end, "not before it is written");
        let written = log.write().unwrap();
        assert_eq!(written.end, log.end());
        assert_eq!(log.unwritten_len(), 0);
        assert!(syncer.is_behind());
        assert_eq!(syncer.sync().unwrap(), log.end());
        assert_eq!((log.durable(), syncer.is_behind()), (log.end(), false));
    }
    assert!(log.segments().len() > 3, "{:?}", log.segments());
    assert_eq!(read(&log, Offset(0)).unwrap(), (pieces(40), boundaries(40).split_off(1)));
    let end = log.end();
    drop(log);

    let (mut log, recovered) = open(&disk, small());
    assert_eq!((recovered.created, recovered.end, recovered.cut), (false, end, None));
    assert_eq!(recovered.last_time_ms, Some(5_039));
    assert_eq!(log.durable(), end);
    log.append(&piece(40), 6_000).unwrap();
    log.write().unwrap();
    assert_eq!(read(&log, Offset(0)).unwrap().0, pieces(41));
}

#[test]
fn ticks_become_frames_and_long_ticks_several() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, Options { frame_len_target: 100, segment_len: 4_096, ..small() });
    for number in 0..3 {
        log.append_with(1, |buffer| buffer.extend_from_slice(&[b'0' + number; 30])).unwrap();
    }
    log.write().unwrap();
    assert_eq!(read(&log, Offset(0)).unwrap().1, [90], "one tick, one frame");
    for _ in 0..5 {
        log.append(&[b'x'; 60], 2).unwrap();
    }
    assert_eq!(log.write().unwrap().rotations, 0);
    assert_eq!(read(&log, Offset(90)).unwrap().1, [210, 330, 390]);
    assert_eq!(log.write().unwrap().bytes, 0, "nothing more");
    log.append(&[], 3).unwrap();
    log.write().unwrap();
    assert_eq!(log.end(), Offset(390));
    assert_eq!(read(&log, Offset(330)).unwrap().1, [390], "an empty tick does no harm");
}

#[test]
fn pieces_too_long_for_a_frame_are_refused() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, Options { frame_len_max: 100, segment_len: 4_096, ..small() });
    for _ in 0..2 {
        assert!(matches!(log.append(&[b'x'; 101], 1), Err(LogError::TooLong { len: 101 })));
        let refused = log.append_with(1, |buffer| buffer.extend_from_slice(&[b'x'; 101]));
        assert!(matches!(refused, Err(LogError::TooLong { len: 101 })));
        let end = log.end();
        log.append(&[b'a'; 60], 1).unwrap();
        log.append(&[b'b'; 60], 1).unwrap();
        assert_eq!(log.end(), end + 120);
        let refused = log.append_with(1, |buffer| buffer.extend_from_slice(&[b'x'; 101]));
        assert!(matches!(refused, Err(LogError::TooLong { .. })));
        assert_eq!(log.end(), end + 120);
    }
    log.write().unwrap();
    let (bytes, ends) = read(&log, Offset(0)).unwrap();
    assert_eq!(ends, [60, 120, 180, 240], "each has its frame");
    assert_eq!(bytes, [[b'a'; 60], [b'b'; 60]].concat().repeat(2));
}

#[test]
fn reading_begins_close_to_the_offset_in_a_large_segment() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, Options { segment_len: 4 * 1024 * 1024, ..small() });
    log.maintainer().run().unwrap();
    log.append(b"a", 1).unwrap();
    log.rotate(1).unwrap();
    let base = log.end().0;
    let mut all = Vec::new();
    for number in 0..30 {
        let piece = vec![number; 100_000];
        log.append(&piece, 1).unwrap();
        log.write().unwrap();
        all.extend(piece);
    }
    for from in (0..all.len()).step_by(70_001).chain([all.len()]) {
        let offset = Offset(base + from as u64);
        let (_, position) = log.read(offset).unwrap().place();
        assert!(from as u64 + 128 + 31 * 40 - position < 500_000, "{position} is far from {from}");
        assert_eq!(read(&log, offset).unwrap().0, all[from..]);
    }
}

#[test]
fn segments_that_nothing_is_prepared_for_are_short_until_something_is() {
    const MEBIBYTE: usize = 1 << 20;
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, Options { segment_len: 8 << 20, spare_segments: 1, ..small() });
    let len_of_last = |log: &Log<MemoryDisk>| {
        let last = log.segments().pop().unwrap().first_offset.0;
        disk.open(&folder().join(format!("{last:020}.oplog"))).unwrap().len().unwrap()
    };
    let append = |log: &mut Log<MemoryDisk>, bytes: usize| {
        for _ in 0..bytes / 1_000 {
            log.append(&[b'x'; 1_000], 1).unwrap();
            log.write().unwrap();
        }
    };
    assert_eq!(len_of_last(&log), 1 << 20);
    append(&mut log, MEBIBYTE);
    assert_eq!(len_of_last(&log), 2 << 20);
    append(&mut log, 2 * MEBIBYTE);
    assert_eq!(len_of_last(&log), 4 << 20);

    let mut maintainer = log.maintainer();
    maintainer.run().unwrap();
    append(&mut log, 4 * MEBIBYTE);
    assert_eq!(len_of_last(&log), 8 << 20, "the one that was prepared");
    append(&mut log, 8 * MEBIBYTE);
    assert_eq!(len_of_last(&log), 1 << 20, "from the beginning");
    append(&mut log, 40 * MEBIBYTE);
    assert_eq!(len_of_last(&log), 8 << 20, "never longer than others");
    assert!(read(&log, Offset(0)).unwrap().0.iter().all(|byte| *byte == b'x'));
    drop(log);
    let (log, recovered) = open(&disk, Options { segment_len: 8 << 20, ..small() });
    assert_eq!((recovered.cut, log.end().0 / 100_000), (None, 576));
}

#[test]
fn a_piece_longer_than_a_segment_has_one_of_its_own() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    let long = vec![b'l'; 5_000];
    log.append(&long, 1).unwrap();
    log.write().unwrap();
    assert_eq!(log.segments().len(), 1, "an empty segment makes way");
    log.append(b"short", 2).unwrap();
    log.append(&long, 2).unwrap();
    log.write().unwrap();
    log.append(b"end", 3).unwrap();
    log.write().unwrap();
    let all = [&long[..], b"short", &long, b"end"].concat();
    assert_eq!(read(&log, Offset(0)).unwrap().0, all);
    drop(log);
    let (log, recovered) = open(&disk, small());
    assert_eq!((recovered.end.0, recovered.cut), (all.len() as u64, None));
    assert_eq!(read(&log, Offset(0)).unwrap().0, all);
}

#[test]
fn reading_begins_at_any_offset_and_follows() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    for number in 0..20 {
        log.append(&piece(number), number).unwrap();
        log.write().unwrap();
    }
    let all = pieces(20);
    for from in 0..=all.len() {
        assert_eq!(read(&log, Offset(from as u64)).unwrap().0, all[from..], "from {from}");
    }
    let end = log.end();
    assert!(matches!(log.read(end + 1), Err(LogError::Beyond { end: found, .. }) if found == end));

    let mut reader = log.read(end).unwrap();
    assert_eq!(reader.next().unwrap(), None);
    for number in 20..60 {
        log.append(&piece(number), number).unwrap();
        assert_eq!(reader.next().unwrap(), None, "what is not written is not there");
        log.write().unwrap();
        let entry = reader.next().unwrap().unwrap();
        assert_eq!((entry.commands, entry.time_ms), (&piece(number)[..], number));
        assert_eq!(reader.next().unwrap(), None);
    }
    let offline: Vec<_> = {
        let mut reader = Reader::open(disk.clone(), folder(), None).unwrap();
        let mut bytes = Vec::new();
        while let Some(entry) = reader.next().unwrap() {
            bytes.extend_from_slice(entry.commands);
        }
        bytes
    };
    assert_eq!(offline, pieces(60));
}

#[test]
fn a_segment_that_is_removed_while_a_log_is_opened_has_it_looked_for_again() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    log.append(b"once", 1).unwrap();
    log.write().unwrap();
    let failing = FailingDisk::new(disk);
    for before in 0..2 {
        failing.set(Faults { operation: Some((before, std::io::ErrorKind::NotFound)), ..Faults::default() });
        let mut reader = Reader::open(failing.clone(), folder(), None).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().commands, b"once");
    }
    // A log that is not there is not waited for.
    assert!(Reader::open(failing, Path::new("nowhere"), None).is_err());
}

#[test]
fn histories_have_segments_of_their_own() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    log.append(b"one", 1).unwrap();
    log.set_replication_id(id(2), 2).unwrap();
    log.append(b"two", 3).unwrap();
    log.rotate(4).unwrap();
    log.rotate(5).unwrap();
    log.append(b"three", 6).unwrap();
    log.write().unwrap();
    let found: Vec<_> = log.segments().iter().map(|segment| (segment.first_offset.0, segment.replication_id)).collect();
    assert_eq!(found, [(0, id(0xab)), (3, id(2)), (6, id(2))]);
    drop(log);
    let (log, _) = open(&disk, small());
    assert_eq!(log.replication_id(), id(2));
    assert_eq!(read(&log, Offset(0)).unwrap().0, b"onetwothree");
}

#[test]
fn retention_gives_up_whole_segments() {
    let disk = MemoryDisk::new();
    let options = Options { retention_bytes: Some(2_000), retention_ms: Some(10_000), ..small() };
    let (mut log, _) = open(&disk, options);
    let (mut syncer, mut maintainer) = (log.syncer(), log.maintainer());
    for number in 0..60 {
        log.append(&piece(number), 1_000 + number).unwrap();
        log.write().unwrap();
    }
    assert_eq!(log.retain(Offset(u64::MAX), 2_000), 0, "nothing is durable");
    syncer.sync().unwrap();
    assert_eq!(log.retain(Offset(0), 1_000_000), 0, "nothing below the floor");
    let all = log.segments();
    let middle = all[2].first_offset;
    assert_eq!(log.retain(middle + 1, 2_000), 2);
    assert_eq!(log.first(), middle);
    assert!(matches!(log.read(Offset(0)), Err(LogError::Removed { first, .. }) if first == middle));

    let mut reader = log.read(middle).unwrap();
    reader.next().unwrap();
    log.retain(Offset(u64::MAX), 2_000);
    let kept = log.end().0 - log.first().0;
    assert!((2_000..3_100).contains(&kept), "{kept} bytes");
    assert!(matches!(log.read(middle), Err(LogError::Removed { .. })));
    let files = disk.paths().len();
    assert!(maintainer.is_needed());
    maintainer.run().unwrap();
    assert!(!maintainer.is_needed());
    assert!(disk.paths().len() < files, "files go");
    assert!(disk.paths().iter().any(|path| path.to_string_lossy().contains("spare-")));
    let error = loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the log has not ended"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LogError::Removed { .. }), "{error}");

    log.retain(Offset(u64::MAX), 1_000_000);
    assert_eq!(log.segments().len(), 1, "old ones go, the last one stays");
    maintainer.run().unwrap();
    let first = log.first();
    // What is written now goes to what were segments before.
    for number in 60..120 {
        log.append(&piece(number), 2_000_000).unwrap();
        log.write().unwrap();
        syncer.sync().unwrap();
        log.retain(first, 2_000_000);
        maintainer.run().unwrap();
    }
    let expected = pieces(120)[usize::try_from(first.0).unwrap()..].to_vec();
    assert_eq!(read(&log, first).unwrap().0, expected);
    drop(log);
    let (log, recovered) = open(&disk, small());
    assert_eq!((recovered.first, recovered.cut), (first, None));
    assert_eq!(read(&log, first).unwrap().0, expected);
}

#[test]
fn a_reader_keeps_the_segment_that_it_is_in() {
    // Larger than what a reader has in memory.
    let disk = MemoryDisk::new();
    let options = Options { retention_bytes: Some(0), segment_len: 1 << 20, spare_segments: 1, ..small() };
    let (mut log, _) = open(&disk, options);
    let (mut syncer, mut maintainer) = (log.syncer(), log.maintainer());
    let piece = |number: u8| vec![number; 20_000];
    for number in 0..60 {
        log.append(&piece(number), 1).unwrap();
        log.write().unwrap();
    }
    syncer.sync().unwrap();
    let mut reader = log.read(Offset(0)).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().commands, piece(0));
    let second = log.segments()[1].first_offset;
    assert_eq!(log.retain(second + 1, 1), 1);
    maintainer.run().unwrap();
    for number in 60..150 {
        log.append(&piece(number), 1).unwrap();
        log.write().unwrap();
    }
    for number in 1..150 {
        assert_eq!(reader.next().unwrap().unwrap().commands, piece(number), "though its file is gone");
    }
}

#[test]
fn a_log_is_cut_between_any_two_commands() {
    for until in [0, 1, 7, 300, 1_000, 1_500, 2_999] {
        let disk = MemoryDisk::new();
        let (mut log, _) = open(&disk, small());
        for number in 0..40 {
            log.append(&piece(number), number).unwrap();
            log.write().unwrap();
        }
        let all = pieces(40);
        log.truncate_after(Offset(until)).unwrap();
        assert_eq!((log.end(), log.durable()), (Offset(until), Offset(until)));
        let mut expected = all[..usize::try_from(until).unwrap()].to_vec();
        assert_eq!(read(&log, Offset(0)).unwrap().0, expected);
        // What comes now has other bytes, but ends where what was cut ended.
        log.append(&vec![b'#'; all.len() - expected.len()], 99).unwrap();
        log.write().unwrap();
        expected.resize(all.len(), b'#');
        drop(log);
        let (mut log, recovered) = open(&disk, small());
        assert_eq!(recovered.cut, None);
        assert_eq!(read(&log, Offset(0)).unwrap().0, expected);
        assert!(matches!(log.truncate_after(log.end() + 1), Err(LogError::Beyond { .. })));
    }
}

#[test]
fn a_log_begins_anew() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    for number in 0..40 {
        log.append(&piece(number), number).unwrap();
        log.write().unwrap();
    }
    log.append(b"never", 9).unwrap();
    log.restart(id(9), Offset(500), 7).unwrap();
    assert_eq!((log.first(), log.end(), log.replication_id()), (Offset(500), Offset(500), id(9)));
    log.append(b"new", 8).unwrap();
    log.write().unwrap();
    drop(log);
    let (log, recovered) = open(&disk, small());
    assert_eq!((recovered.first, recovered.end), (Offset(500), Offset(503)));
    assert_eq!(read(&log, Offset(500)).unwrap().0, b"new");
    assert!(matches!(log.read(Offset(499)), Err(LogError::Removed { .. })));
}

/// Pins the format: see docs/formats/oplog.md.
#[test]
fn layout_of_version_1() {
    let disk = MemoryDisk::new();
    let options = Options { first_offset: Offset(0x0102_0304), ..small() };
    let (mut log, _) = Log::open(disk.clone(), folder(), options, 0x1122).unwrap();
    log.append(b"PING\r\n", 0x3344).unwrap();
    log.write().unwrap();
    log.syncer().sync().unwrap();
    log.append(b"x", 0x5566).unwrap();
    log.write().unwrap();
    let bytes = disk.contents(&folder().join("00000000000016909060.oplog")).unwrap();
    assert_eq!(bytes.len(), 1_024);
    let mut expected = Vec::new();
    expected.extend(b"TIDEOLOG");
    expected.extend([1, 0, 0, 0, 128, 0, 0, 0]);
    expected.extend([4, 3, 2, 1, 0, 0, 0, 0]);
    expected.extend([0x22, 0x11, 0, 0, 0, 0, 0, 0]);
    expected.extend([1, 0, 0, 0, 77, 0, 0, 0]);
    expected.extend(b"abababababababababababababababababababab");
    expected.resize(124, 0);
    expected.extend(crc32c::crc32c(&expected).to_le_bytes());
    let frame = |len: u8, offset: u8, time: [u8; 2], durable: u8, commands: &[u8]| {
        let mut rest = vec![len, 0, 0, 0, offset, 3, 2, 1, 0, 0, 0, 0, time[0], time[1], 0, 0, 0, 0, 0, 0];
        rest.extend([durable, 3, 2, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        rest.extend(commands);
        [&crc32c::crc32c_append(77, &rest).to_le_bytes()[..], &rest].concat()
    };
    expected.extend(frame(6, 4, [0x44, 0x33], 4, b"PING\r\n"));
    expected.extend(frame(1, 10, [0x66, 0x55], 10, b"x"));
    expected.resize(1_024, 0);
    assert_eq!(bytes, expected);
}

struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-oplog-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Tells the other threads of a test when this one fails: they would wait for ever.
struct StopOthers<'a>(&'a AtomicBool);

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn threads_share_a_log_on_a_real_disk() {
    let folder = TemporaryFolder::new("threads");
    let options = || Options { segment_len: 16 * 1024, retention_bytes: None, ..Options::new(id(1), 5) };
    let (mut log, _) = Log::open(RealDisk, &folder.0, options(), 1).unwrap();
    let (mut syncer, mut maintainer) = (log.syncer(), log.maintainer());
    let mut reader = log.read(Offset(0)).unwrap();
    let all = pieces(1_000);
    let end = Offset(all.len() as u64);
    let failed = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopOthers(failed);
        scope.spawn(move || {
            while syncer.sync().unwrap() < end && !failed.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        });
        let follower = scope.spawn(move || {
            let mut bytes = Vec::new();
            while bytes.len() < usize::try_from(end.0).unwrap() && !failed.load(Ordering::Relaxed) {
                match reader.next().unwrap() {
                    Some(entry) => bytes.extend_from_slice(entry.commands),
                    None => std::thread::yield_now(),
                }
            }
            bytes
        });
        for number in 0..1_000 {
            log.append(&piece(number), number).unwrap();
            log.write().unwrap();
            if number % 50 == 0 {
                maintainer.run().unwrap();
            }
        }
        assert_eq!(follower.join().unwrap(), all);
    });
    assert_eq!(log.durable(), end);
    drop(log);
    let (log, recovered) = Log::open(RealDisk, &folder.0, options(), 1).unwrap();
    assert_eq!((recovered.end, recovered.cut), (end, None));
    assert_eq!(read(&log, Offset(0)).unwrap().0, all);
}

#[test]
fn what_is_written_is_synced_though_two_have_synced_at_the_same_time() {
    let folder = TemporaryFolder::new("two-syncers");
    for round in 0..20 {
        let path = folder.0.join(round.to_string());
        let (mut log, _) = Log::open(RealDisk, &path, small(), 1_000).unwrap();
        // Two segments have something that is not synced.
        for number in 0..2 {
            log.append(&piece(number), 1_000).unwrap();
            log.rotate(1_000).unwrap();
        }
        let (mut one, mut other) = (log.syncer(), log.syncer());
        let together = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                one.sync().unwrap();
            });
            together.wait();
            other.sync().unwrap();
        });
        let unsynced = log.shared.lists().unsynced.iter().map(|file| file.segment.first()).collect::<Vec<_>>();
        assert_eq!(unsynced, [log.end().0], "round {round}: the one that is written to is synced the next time");
    }
}
