//! What a start finds.

use std::{io, sync::Arc};

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
    /// A cache has run without it.
    #[error(
        "a cache has run without these files since they were used: bans and purges may be missing, so the cache starts empty"
    )]
    Behind,
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

/// What a journal says.
#[derive(Debug, Default)]
struct Replay<'b> {
    /// By numbers, then in the journal's order.
    events: Vec<(u64, Event<'b>)>,
    bans: Vec<(u64, f64, Vec<&'b str>)>,
}

#[derive(Clone, Copy, Debug)]
enum Event<'b> {
    Put(&'b [u8]),
    Remove,
    Lifetime(f64, f64, f64),
}

impl<'b> Replay<'b> {
    fn of(bytes: &'b [u8]) -> (Self, End) {
        let mut replay = Self::default();
        let end = records::read(bytes, |record| replay.take(record));
        // NOTE: stable. A journal is nearly in this order, which makes it quick.
        replay.events.sort_by_key(|(number, _)| *number);
        (replay, end)
    }

    fn take(&mut self, record: Record<'b>) {
        match record {
            Record::Put { number, contents } => self.events.push((number, Event::Put(contents))),
            Record::Remove { number } => self.events.push((number, Event::Remove)),
            Record::Lifetime { number, ttl, grace, keep } => {
                self.events.push((number, Event::Lifetime(ttl, grace, keep)));
            }
            Record::Ban { number, time, words } => self.bans.push((number, time, words)),
        }
    }

    fn bans(&self) -> Option<Vec<StoredBan>> {
        let ban =
            |(number, time, words): &(u64, f64, Vec<&str>)| Some((*number, *time, Expression::of_words(words).ok()?));
        self.bans.iter().map(ban).collect()
    }

    fn newest_number(&self) -> u64 {
        self.events.last().map_or(0, |(number, _)| *number)
    }

    /// The objects that are there, the oldest first.
    fn objects(&self) -> impl Iterator<Item = Candidate<'b>> {
        self.events.chunk_by(|one, next| one.0 == next.0).filter_map(|events| {
            let (mut contents, mut times) = (None, None);
            for (_, event) in events {
                match event {
                    Event::Put(bytes) => (contents, times) = (Some(*bytes), None),
                    Event::Remove => (contents, times) = (None, None),
                    Event::Lifetime(ttl, grace, keep) => times = Some((*ttl, *grace, *keep)),
                }
            }
            Some(Candidate { number: events.first()?.0, contents: contents?, times })
        })
    }
}

/// An object of a journal.
#[derive(Clone, Copy, Debug)]
struct Candidate<'b> {
    number: u64,
    contents: &'b [u8],
    times: Option<(f64, f64, f64)>,
}

impl Candidate<'_> {
    fn read(&self) -> Option<StoredObject> {
        let mut stored = records::read_put(self.contents)?;
        if let Some((ttl, grace, keep)) = self.times {
            stored.lifetime = Lifetime { origin: stored.lifetime.origin, ttl, grace, keep };
        }
        Some(stored)
    }

    fn record_bytes(&self) -> u32 {
        u32::try_from(self.contents.len() + records::FRAME_BYTES + 9).unwrap_or(u32::MAX)
    }
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
        let is_behind = disk.files.are_behind();
        let empty_because = match (end, bans) {
            _ if is_behind => Some(StartedEmpty::Behind),
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
                    cache.number_from(replay.newest_number());
                    cache.expect(candidates.len());
                    let storage = Arc::new(Self::on_disk(name, &disk));
                    for candidate in candidates {
                        storage.recover(cache, &disk, candidate, &mut recovered);
                    }
                    return Ok((storage, recovered));
                }
                Some(StartedEmpty::OtherBans)
            }
        };
        disk.begin_empty()?;
        if is_behind {
            disk.files.catch_up()?;
        }
        cache.bans().join_anew(&disk);
        let storage = Arc::new(Self::on_disk(name, &disk));
        Ok((storage, Recovered { started_empty: empty_because, ..Recovered::default() }))
    }

    fn recover(
        self: &Arc<Self>,
        cache: &Arc<Cache>,
        disk: &Arc<Disk>,
        candidate: Candidate<'_>,
        recovered: &mut Recovered,
    ) {
        let Some(stored) = candidate.read() else { return };
        let digest = stored.digest();
        let body = Body::stored_in(stored.chunks);
        let share = DiskShare::recovered(disk, stored.head, stored.extents, candidate.record_bytes());
        let mark = cache.bans().mark_at(stored.ban);
        match Object::recovered(cache, self, (stored.lifetime, stored.tags), (body, share), mark) {
            Ok(object) => {
                disk.journal().live_bytes += u64::from(candidate.record_bytes());
                cache.put_recovered(digest, stored.variant, &object, candidate.number);
                recovered.objects += 1;
            }
            Err(_) => recovered.dropped += 1,
        }
    }
}

/// The objects that can be there. The rest of the data file is free.
fn candidates<'b>(replay: &Replay<'b>, disk: &Disk, now: Time, recovered: &mut Recovered) -> Vec<Candidate<'b>> {
    let mut candidates = Vec::with_capacity(replay.events.len());
    let mut taken: Vec<(Extent, usize)> = Vec::with_capacity(replay.events.len() * 2);
    for candidate in replay.objects() {
        let Some(stored) = candidate.read().filter(|stored| fits(stored, disk.size)) else {
            recovered.dropped += 1;
            continue;
        };
        if stored.lifetime.ends() <= now {
            recovered.expired += 1;
            continue;
        }
        taken.extend(stored.extents.iter().map(|extent| (*extent, candidates.len())));
        candidates.push(candidate);
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
