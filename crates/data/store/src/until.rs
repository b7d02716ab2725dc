//! Starting at a point of the past (`--until`).
//!
//! The tables have to be at the point or before it: they cannot go back. The log is run up to the point, and what comes later
//! is moved aside, into a folder beside the log, before anything is cut: it can be shown, and run again, from there. From the
//! point on the log tells another history, so it gets another id.
//!
//! A log that is damaged, or whose end is missing, does not open. If the point is the very one that the error names, up to which
//! it is good, it is cut there in the same way.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use oplog::{Damaged, Log, LogError, Offset, ReplicationId, disk::RealDisk};

use shard::{
    ShardError,
    effects::{Effect, Effects, is_named},
};

use crate::{
    StoreError,
    point::{Point, time_text},
};

/// Cuts the log at a point. `applied` is what the tables have. Returns where the later log went, if there was one.
pub fn cut(
    log: &mut Log<RealDisk>,
    applied: Offset,
    point: Point,
    folder: &Path,
    new_id: ReplicationId,
    now_ms: u64,
) -> Result<Option<PathBuf>, StoreError> {
    let offset = find(log, point)?;
    let aside = folder.join(format!("log-after-{offset}"));
    if offset == log.end() {
        return Ok(None);
    }
    if aside.exists() && has_other_history(log, offset) {
        return Err(StoreError::CutBefore { point, aside });
    }
    if applied > offset {
        return Err(StoreError::TablesBeyond { point, offset: offset.0, applied: applied.0 });
    }
    let segments = log.segments();
    let begin = segments.iter().rposition(|segment| segment.first_offset <= offset).unwrap_or(0);
    set_aside(segments.iter().skip(begin).map(|segment| segment.path.as_path()), &aside)?;
    log.truncate_after(offset)?;
    log.set_replication_id(new_id, now_ms)?;
    log.syncer().sync()?;
    Ok(Some(aside))
}

/// Gives up what comes behind the damage of a log that does not open, if that is where it is to go back to. Returns where the rest
/// of the log went.
pub fn give_up_damaged(
    error: LogError,
    applied: Offset,
    point: Option<Point>,
    folder: &Path,
    segment_len: u64,
) -> Result<PathBuf, StoreError> {
    let good_until = match (&error, point) {
        (LogError::Corrupt(damage), Some(Point::Offset(offset))) if damage.offset == offset => offset,
        _ => return Err(error.into()),
    };
    if applied > good_until {
        let point = Point::Offset(good_until);
        return Err(StoreError::TablesBeyond { point, offset: good_until.0, applied: applied.0 });
    }
    let damaged = Damaged::look(RealDisk, &folder.join("log"), good_until)?;
    let aside = folder.join(format!("log-after-{good_until}"));
    set_aside(damaged.files(), &aside)?;
    damaged.give_up_the_rest(segment_len)?;
    Ok(aside)
}

/// Whether another history begins at an offset: the log was cut there.
fn has_other_history(log: &Log<RealDisk>, offset: Offset) -> bool {
    let segments = log.segments();
    segments.windows(2).any(|pair| {
        matches!(pair, [before, after] if after.first_offset == offset && after.replication_id != before.replication_id)
    })
}

/// The offset of a point: between two commands, and not within a transaction.
fn find(log: &Log<RealDisk>, point: Point) -> Result<Offset, StoreError> {
    match point {
        Point::Time(time_ms) => {
            let mut reader = log.read_at_time(time_ms)?;
            let first = log.first();
            while let Some(entry) = reader.next()? {
                if entry.time_ms <= time_ms {
                    continue;
                }
                if entry.offset == first && first > Offset(0) {
                    return Err(StoreError::BeforeLog {
                        point,
                        first: format!("{first}, {}", time_text(entry.time_ms)),
                    });
                }
                return Ok(entry.offset);
            }
            Ok(log.end())
        }
        Point::Offset(offset) => {
            if offset < log.first() {
                return Err(StoreError::BeforeLog { point, first: log.first().to_string() });
            }
            if offset == log.end() {
                return Ok(offset);
            }
            check_boundary(log, offset)?;
            Ok(offset)
        }
    }
}

/// Whether a command or a transaction begins at an offset.
fn check_boundary(log: &Log<RealDisk>, offset: Offset) -> Result<(), StoreError> {
    let mut reader = log.read(offset)?.whole_frames();
    let entry = match reader.next() {
        // What is good ends there.
        Err(LogError::Corrupt(damage)) if damage.offset == offset => return Ok(()),
        other => other?,
    };
    let Some(entry) = entry else { return Ok(()) };
    let mut before = entry.offset;
    let mut after = None;
    let mut in_transaction = false;
    let broken = |offset: Offset, reason| StoreError::Shard(ShardError::Replay { offset: offset.0, reason });
    let take = |effect: Effect<'_>| {
        if !in_transaction {
            if effect.offset <= offset {
                before = effect.offset;
            } else {
                after = after.or(Some(effect.offset));
            }
        }
        in_transaction = is_named(effect.words, "MULTI") || in_transaction && !is_named(effect.words, "EXEC");
        Ok(())
    };
    Effects::default().each(&entry, take, broken)?;
    if before == offset {
        return Ok(());
    }
    Err(StoreError::NoBoundary { offset: offset.0, before: before.0, after: after.unwrap_or(entry.end()).0 })
}

/// Copies segments into a folder, which has its name when all of it is there.
fn set_aside<'a>(segments: impl Iterator<Item = &'a Path>, aside: &Path) -> Result<(), StoreError> {
    let failed = |source: io::Error| StoreError::Folder { path: aside.to_owned(), source };
    let unready = aside.with_extension("new");
    for left in [&unready, &aside.to_owned()] {
        // Of an attempt that did not come to its end: the log still has it.
        if left.exists() {
            fs::remove_dir_all(left).map_err(failed)?;
        }
    }
    fs::create_dir_all(&unready).map_err(failed)?;
    for segment in segments {
        let Some(name) = segment.file_name() else { continue };
        let copy = unready.join(name);
        fs::copy(segment, &copy).map_err(failed)?;
        fs::File::open(&copy).and_then(|file| file.sync_all()).map_err(failed)?;
    }
    sync_folder(&unready).map_err(failed)?;
    fs::rename(&unready, aside).map_err(failed)?;
    sync_folder(aside.parent().unwrap_or(aside)).map_err(failed)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}
