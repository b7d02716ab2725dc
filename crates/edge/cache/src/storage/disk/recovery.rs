//! What a start finds.

use std::{io, sync::Arc};

use rustc_hash::FxHashMap;

use super::{
    Disk, DiskShare, Extent, Files, StoredChunk, empty,
    records::{self, End, Record, StoredObject},
    space::Space,
};
use crate::{
    Time,
    bans::{Expression, StoredBan},
    body::Body,
    index::Cache,
    object::{Lifetime, Object},
    storage::{CHUNK_BYTES_MAX, Stevedore},
};

/// Longest head that is read.
const HEAD_BYTES_MAX: u32 = 4 << 20;

/// Why a tier that had files starts empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartedEmpty {
    /// Its journal is damaged.
    #[error("the cache's journal is damaged at byte {0}: it may lack a ban or a purge, so the cache starts empty")]
    Damaged(usize),
    /// Its bans are not those of the other tiers.
    #[error(
        "the cache's journal has other bans than its other storages: its objects cannot be tested, so it starts empty"
    )]
    OtherBans,
}

/// What a tier had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Objects that are in the index again.
    pub objects: usize,
    /// Those whose time was over.
    pub expired: usize,
    /// Those whose records do not fit the data file, or that had no room.
    pub dropped: usize,
    /// Bans that hold again.
    pub bans: usize,
    /// Why there is nothing, if there was something.
    pub started_empty: Option<StartedEmpty>,
}

/// What a journal says in the end.
#[derive(Debug, Default)]
struct Replay<'b> {
    objects: FxHashMap<u64, &'b [u8]>,
    lifetimes: FxHashMap<u64, (f64, f64, f64)>,
    bans: Vec<(u64, f64, Vec<&'b str>)>,
    newest_number: u64,
}

impl<'b> Replay<'b> {
    fn of(bytes: &'b [u8]) -> (Self, End) {
        let mut replay = Self::default();
        // NOTE: most journals are of objects that are there; a record of one is rarely shorter.
        replay.objects.reserve(bytes.len() / 256);
        let end = records::read(bytes, |record| replay.take(record));
        (replay, end)
    }

    fn take(&mut self, record: Record<'b>) {
        match record {
            Record::Put { number, contents } => {
                self.newest_number = self.newest_number.max(number);
                self.objects.insert(number, contents);
            }
            Record::Remove { number } => {
                self.objects.remove(&number);
                self.lifetimes.remove(&number);
            }
            Record::Lifetime { number, ttl, grace, keep } => {
                self.lifetimes.insert(number, (ttl, grace, keep));
            }
            Record::Ban { number, time, words } => self.bans.push((number, time, words)),
        }
    }

    fn bans(&self) -> Option<Vec<StoredBan>> {
        let ban =
            |(number, time, words): &(u64, f64, Vec<&str>)| Some((*number, *time, Expression::of_words(words).ok()?));
        self.bans.iter().map(ban).collect()
    }
}

/// An object of a journal, checked against the data file's size.
struct Candidate {
    number: u64,
    stored: StoredObject,
    record_bytes: u32,
}

impl Stevedore {
    /// Objects in files (`-s NAME=file,PATH,SIZE`), with those that are there already: they are in the index when this returns, with
    /// the bans that hold for them. To be called before the cache is in use.
    ///
    /// # Errors
    /// The system's.
    pub fn file(
        name: &str,
        files: Box<dyn Files>,
        size: u64,
        cache: &Arc<Cache>,
        now: Time,
    ) -> io::Result<(Arc<Self>, Recovered)> {
        let disk = empty(files, size);
        let bytes = disk.files.read_journal()?;
        let (replay, end) = Replay::of(&bytes);
        let bans = replay.bans();
        let ban_count = replay.bans.len();
        let empty_because = match (end, bans) {
            (End::Damaged { at }, _) => Some(StartedEmpty::Damaged(at)),
            (_, None) => Some(StartedEmpty::OtherBans),
            (End::Whole { length: 0 }, _) => None,
            (End::Whole { length }, Some(bans)) => {
                if length < bytes.len() {
                    disk.files.cut_journal(length as u64)?;
                }
                disk.journal().bytes = length as u64;
                if cache.bans().join(&disk, bans) {
                    let mut recovered = Recovered { bans: ban_count, ..Recovered::default() };
                    let candidates = candidates(&replay, &disk, now, &mut recovered);
                    cache.number_from(replay.newest_number);
                    let storage = Arc::new(Self::on_disk(name, &disk));
                    for candidate in candidates {
                        storage.recover(cache, candidate, &mut recovered);
                    }
                    return Ok((storage, recovered));
                }
                Some(StartedEmpty::OtherBans)
            }
        };
        disk.begin_empty()?;
        cache.bans().join_anew(&disk);
        let storage = Arc::new(Self::on_disk(name, &disk));
        Ok((storage, Recovered { started_empty: empty_because, ..Recovered::default() }))
    }

    fn recover(self: &Arc<Self>, cache: &Arc<Cache>, candidate: Candidate, recovered: &mut Recovered) {
        let Candidate { number, stored, record_bytes } = candidate;
        let Some(disk) = self.disk() else { return };
        let (digest, variant) = (stored.digest(), stored.variant.clone());
        let body = Body::stored_in(disk, stored.chunks);
        let share = DiskShare::recovered(disk, stored.head, stored.extents, record_bytes);
        disk.journal().live_bytes += u64::from(record_bytes);
        let mark = cache.bans().mark_at(stored.ban);
        let made = Object::recovered(cache, self, (stored.lifetime, stored.tags), (body, share), mark);
        match made {
            Ok(object) => {
                cache.put_recovered(digest, variant, &object, number);
                recovered.objects += 1;
            }
            Err(_) => recovered.dropped += 1,
        }
    }
}

/// The objects that are there, the oldest first. The rest of the data file is free.
fn candidates(replay: &Replay<'_>, disk: &Disk, now: Time, recovered: &mut Recovered) -> Vec<Candidate> {
    let mut candidates = Vec::with_capacity(replay.objects.len());
    for (number, contents) in &replay.objects {
        let Some(mut stored) = records::read_put(contents).filter(|stored| fits(stored, disk.size)) else {
            recovered.dropped += 1;
            continue;
        };
        if let Some((ttl, grace, keep)) = replay.lifetimes.get(number) {
            stored.lifetime = Lifetime { origin: stored.lifetime.origin, ttl: *ttl, grace: *grace, keep: *keep };
        }
        if stored.lifetime.ends() <= now {
            recovered.expired += 1;
            continue;
        }
        let record_bytes = u32::try_from(contents.len() + records::FRAME_BYTES + 9).unwrap_or(u32::MAX);
        candidates.push(Candidate { number: *number, stored, record_bytes });
    }
    candidates.sort_unstable_by_key(|candidate| candidate.number);
    let mut taken: Vec<(Extent, usize)> = Vec::with_capacity(candidates.len() * 2);
    for (place, candidate) in candidates.iter().enumerate() {
        taken.extend(candidate.stored.extents.iter().map(|extent| (*extent, place)));
    }
    taken.sort_unstable();
    let mut overlaps = vec![false; candidates.len()];
    let mut last: Option<(Extent, usize)> = None;
    for (extent, place) in &taken {
        match last {
            // NOTE: no journal that this program has written says so; checksums could not tell which of both is true.
            Some((before, other)) if extent.at < before.end() => {
                [other, *place].iter().for_each(|place| overlaps.get_mut(*place).into_iter().for_each(|is| *is = true));
                last = Some(if extent.end() > before.end() { (*extent, *place) } else { (before, other) });
            }
            _ => last = Some((*extent, *place)),
        }
    }
    taken.retain(|(_, place)| overlaps.get(*place) == Some(&false));
    *disk.space() = Space::without(disk.size, taken.iter().map(|(extent, _)| *extent));
    recovered.dropped += overlaps.iter().filter(|overlaps| **overlaps).count();
    let mut overlaps = overlaps.into_iter();
    candidates.retain(|_| overlaps.next() == Some(false));
    candidates
}

/// Whether all pieces lie in the object's extents, in their order and the head last, and those in the file.
fn fits(stored: &StoredObject, size: u64) -> bool {
    let mut extents = stored.extents.iter().peekable();
    let mut lies = |chunk: &StoredChunk| {
        while let Some(extent) = extents.peek() {
            if extent.at <= chunk.at && chunk.end() <= extent.end() {
                return true;
            }
            extents.next();
        }
        false
    };
    stored.extents.iter().all(|extent| extent.is_valid(size))
        && stored.head.length <= HEAD_BYTES_MAX
        && stored.chunks.iter().all(|chunk| chunk.length as usize <= CHUNK_BYTES_MAX && lies(chunk))
        && lies(&stored.head)
}
