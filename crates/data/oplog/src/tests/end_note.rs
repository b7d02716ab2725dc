//! What is noted of a log's end, and what it finds missing.

use super::*;
use crate::disk::Crash;

const NOTE: &str = "end";

/// A log of several segments, all of it durable, of a process that is gone.
fn made() -> (MemoryDisk, Vec<SegmentInfo>, u64) {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    let mut syncer = log.syncer();
    for number in 0..20 {
        log.append(&piece(number), number).unwrap();
        log.write().unwrap();
        syncer.sync().unwrap();
    }
    let segments = log.segments();
    assert!(segments.len() > 2);
    (disk, segments, log.end().0)
}

fn refused(disk: &MemoryDisk) -> Corruption {
    let before: Vec<_> = disk.paths().into_iter().map(|path| (disk.contents(&path), path)).collect();
    let error = Log::open(disk.clone(), folder(), small(), 1).unwrap_err();
    let after: Vec<_> = disk.paths().into_iter().map(|path| (disk.contents(&path), path)).collect();
    assert_eq!(before, after, "nothing is changed");
    match error {
        LogError::Corrupt(damage) => *damage,
        error => panic!("{error}"),
    }
}

#[test]
fn layout_of_the_note() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk, small());
    log.append(b"commands", 1).unwrap();
    log.write().unwrap();
    log.syncer().sync().unwrap();
    let bytes = disk.contents(&folder().join(NOTE)).unwrap();
    assert_eq!(bytes.len(), 1_024);
    let place = |number: u8, durable: u8| {
        let mut expected = b"TIDEOEND\x01\0\0\0\x4d\0\0\0".to_vec();
        for word in [number, 0, durable] {
            expected.extend([word, 0, 0, 0, 0, 0, 0, 0]);
        }
        expected.resize(60, 0);
        let sum = crc32c::crc32c(&expected);
        expected.extend(sum.to_le_bytes());
        expected
    };
    assert_eq!(bytes[..64], place(1, 0));
    assert_eq!(bytes[512..576], place(2, 8));
    assert!(bytes[64..512].iter().chain(&bytes[576..]).all(|byte| *byte == 0));
}

#[test]
fn a_newest_segment_that_is_gone_is_damage() {
    let (disk, segments, end) = made();
    let newest = segments.last().unwrap();
    let gone = disk.copy();
    gone.remove(&newest.path).unwrap();
    let damage = refused(&gone);
    assert_eq!((&damage.segment, damage.offset, damage.reason), (&newest.path, newest.first_offset, Reason::Gone));
    // Two of them.
    gone.remove(&segments[segments.len() - 2].path).unwrap();
    let damage = refused(&gone);
    assert_eq!((&damage.segment, damage.offset), (&newest.path, segments[segments.len() - 2].first_offset));
    // All of them.
    segments.iter().rev().skip(2).for_each(|segment| gone.remove(&segment.path).unwrap());
    let error = Log::open(gone, folder(), small(), 1).unwrap_err();
    assert!(matches!(error, LogError::NoSegments { durable, .. } if durable == end), "{error}");
    // An empty one, and one of zeros.
    for len in [0, 1_024] {
        let emptied = disk.copy();
        drop(emptied.create(&newest.path).unwrap());
        emptied.open(&newest.path).unwrap().preallocate(len).unwrap();
        let damage = refused(&emptied);
        assert_eq!((&damage.segment, damage.reason), (&newest.path, Reason::Header));
    }
}

#[test]
fn an_end_that_is_gone_is_damage_wherever_it_was_cut() {
    let (disk, segments, end) = made();
    let newest = segments.last().unwrap();
    let bytes = disk.contents(&newest.path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    for len in 128..=used {
        let cut = disk.copy();
        let file = cut.create(&newest.path).unwrap();
        file.write_all_at(&bytes[..len], 0).unwrap();
        let damage = refused(&cut);
        assert_eq!((&damage.segment, damage.reason), (&newest.path, Reason::Short { durable: end }), "{len}");
        // What came later is given up, and the log goes on.
        let good_until = damage.offset;
        let damaged = Damaged::look(cut.clone(), folder(), good_until).unwrap();
        assert_eq!(damaged.files().collect::<Vec<_>>(), [&newest.path]);
        damaged.give_up_the_rest(1_024).unwrap();
        let (mut log, recovered) = open(&cut, small());
        assert_eq!((recovered.end, recovered.cut), (good_until, None), "{len}");
        log.append(b"more", 1).unwrap();
        log.write().unwrap();
        log.syncer().sync().unwrap();
        drop(log);
        assert_eq!(open(&cut, small()).1.end, Offset(good_until.0 + 4));
    }
}

#[test]
fn all_behind_a_damage_is_given_up() {
    let (disk, segments, _) = made();
    let damaged_at = &segments[1];
    disk.flip(&damaged_at.path, 140, 1);
    for steps in 0.. {
        let image = disk.copy();
        let damaged = Damaged::look(image.clone(), folder(), damaged_at.first_offset).unwrap();
        assert_eq!(damaged.files().count(), segments.len() - 1);
        let before = image.steps();
        damaged.give_up_the_rest(1_024).unwrap();
        let done = image.steps() - before;
        // A crash on the way leaves a log that is damaged still, or whole; it can be done again.
        let crashed = image.crash(before + steps.min(done), Crash::Some(steps as u64));
        let whole = match Log::open(crashed.clone(), folder(), small(), 1) {
            Ok((_, recovered)) => recovered.end >= damaged_at.first_offset,
            Err(_) => {
                Damaged::look(crashed.clone(), folder(), damaged_at.first_offset)
                    .unwrap()
                    .give_up_the_rest(1_024)
                    .unwrap();
                open(&crashed, small()).1.end == damaged_at.first_offset
            }
        };
        assert!(whole, "after {steps}");
        if steps > done {
            break;
        }
    }
}

#[test]
fn a_log_of_before_there_was_a_note_is_read() {
    let (disk, _, end) = made();
    disk.remove(&folder().join(NOTE)).unwrap();
    let (_, recovered) = open(&disk, small());
    assert_eq!((recovered.end.0, recovered.cut), (end, None));
    assert!(disk.contents(&folder().join(NOTE)).is_some());
}

#[test]
fn a_note_that_cannot_be_read_is_an_error() {
    let (disk, _, end) = made();
    let path = folder().join(NOTE);
    for place in [0, 512] {
        let torn = disk.copy();
        torn.flip(&path, place + 20, 1);
        assert_eq!(open(&torn, small()).1.end.0, end, "the other place is whole");
    }
    let mut errors = Vec::new();
    for harm in [
        (|disk: &MemoryDisk, path: &Path| drop(disk.create(path).unwrap())) as fn(&MemoryDisk, &Path),
        |disk, path| [0, 512].iter().for_each(|place| disk.flip(path, place + 20, 1)),
        |disk, path| {
            let other = MemoryDisk::new();
            drop(open(&other, Options { salt: 78, ..small() }));
            let bytes = other.contents(path).unwrap();
            disk.open(path).unwrap().write_all_at(&bytes, 0).unwrap();
            disk.flip(path, 512, 1);
        },
    ] {
        let harmed = disk.copy();
        harm(&harmed, &path);
        let error = Log::open(harmed, folder(), small(), 1).unwrap_err();
        assert!(matches!(&error, LogError::EndNote { path: named, .. } if *named == path), "{error}");
        errors.push(error.to_string());
    }
    assert!(errors[0].contains("is damaged") && errors[2].contains("is of another log"), "{errors:?}");
}

#[test]
fn a_log_that_is_cut_on_purpose_has_its_end_noted_anew() {
    let (disk, segments, _) = made();
    let (mut log, _) = open(&disk, small());
    let until = segments[1].first_offset;
    log.truncate_after(until).unwrap();
    drop(log);
    let (mut log, recovered) = open(&disk, small());
    assert_eq!((recovered.end, recovered.cut), (until, None));
    log.restart(id(3), Offset(7), 2).unwrap();
    drop(log);
    assert_eq!(open(&disk, small()).1.end, Offset(7));
}

#[test]
fn a_place_that_is_torn_is_made_whole_before_the_other_one_can_be() {
    let (disk, _, end) = made();
    for position in [40, 552, 40] {
        disk.flip(&folder().join(NOTE), position, 1);
        let (log, _) = open(&disk, small());
        assert_eq!(log.end().0, end, "{position}");
    }
}
