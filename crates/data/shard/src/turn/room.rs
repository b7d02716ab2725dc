//! What a shard does to have memory, and the disk, stay within their bounds.

use std::time::Duration;

use oplog::disk::Disk;

use crate::{
    Persistence, Shard, Workers,
    disk_bound::{self, DiskBound, Step},
    long_queries::LongQueries,
    pace::LogAllowance,
};
use keyspace::{Database, MaxmemoryPolicy, Millis};

/// Memory is short when less than this part of `maxmemory` is left.
const SHORT_SHARE: u64 = 8;
/// The same where keys that leave memory are gone: all others stay there, and nothing is read from the tables.
const SHORT_SHARE_OF_POLICY: u64 = 16;
/// There, the part of `maxmemory` that records on their way to files and those that are still to be made may take before clients are
/// slowed down, and from where on they wait: what such records leave behind when they are gone are holes, which no key fills.
const UNWRITTEN_SHARES: (u64, u64) = (16, 8);
/// So much more memory, taken within a turn, has room made before its end.
const ROOM_STEP: u64 = 1 << 20;
/// For how long memory is a little over its bound before clients are closed for what they do not read.
const OVER_MS: Millis = 500;
/// The part of `maxmemory` that is kept for files that are to be made, at most.
const FILES_SHARE: u64 = 2;
/// Pieces of what is gone that are freed between two looks at what is used.
const FREE_PIECES: usize = 16;
/// For how long a turn frees what is gone before keys leave for it, and for how long while memory is over its bound.
const FREE_TIME: Duration = Duration::from_millis(2);
const FREE_TIME_OVER: Duration = Duration::from_millis(20);
/// How often a policy is asked again that has found no key that goes.
const MISSES_MAX: usize = 8;
/// Keys that leave memory in one turn at most.
const EVICT_MAX: usize = 10_000;
/// Keys that go in one turn at most because the disk is full: each is looked for in the tables.
const EVICT_FROM_DISK_MAX: usize = 64;
/// Among how many keys the one that leaves memory is chosen at least. To be read again costs fifty times what it takes to look at
/// five more, and with Zipf's law and a fifteenth of the keys in memory 22.8% are read again instead of 23.6%; twenty make 22.6% of it.
const SAMPLES_MIN: usize = 10;
/// Keys that are brought into memory in one turn, if all are to be there.
const BRING_MAX: usize = 32;

/// How much memory the process has allocated, and what of a bound is for that.
pub trait MemoryGauge {
    /// Bytes that are allocated.
    fn used(&self) -> u64;

    /// What is left of a bound on the process' memory for what is allocated.
    fn of_bound(&self, bound: u64) -> u64;

    /// So much was allocated when room was made: if it was much more before, free memory may be given back.
    fn note(&mut self, used: u64, bound: u64);

    /// Time goes on: what memory takes besides may be measured again.
    fn tick(&mut self, now: Millis, used: u64, bound: u64);
}

/// What keeps memory and disk within their bounds.
pub(crate) struct Room {
    pub(crate) memory: Box<dyn MemoryGauge>,
    disk_bound: DiskBound,
    /// There is more to be done in a millisecond: keys to be removed from the disk, or to be brought into memory.
    pub(crate) is_moving: bool,
    /// How fast clients may go on when memory is over its bound.
    pub(crate) pace: LogAllowance,
    /// Whether the tables are so far behind that commands that write wait.
    pub(crate) has_no_room: bool,
    /// From how much allocated memory on it is short, as far as is known in this turn.
    pub(crate) short_from: u64,
    /// From how much on room is made before the turn ends; nothing if there is no bound.
    make_room_from: Option<u64>,
    /// When room was made last, no key was left that may leave memory.
    has_none_to_evict: bool,
    /// Since when memory is over its bound.
    pub(crate) over_since: Option<Millis>,
    /// Clients whose long queries are read while memory is short.
    pub(crate) long_queries: LongQueries,
}

impl Room {
    /// Without any shortage so far.
    pub(crate) fn new(memory: Box<dyn MemoryGauge>, now: Millis) -> Self {
        Self {
            memory,
            disk_bound: DiskBound::default(),
            is_moving: false,
            pace: LogAllowance::new(now),
            has_no_room: false,
            short_from: u64::MAX,
            make_room_from: None,
            has_none_to_evict: false,
            over_since: None,
            long_queries: LongQueries::default(),
        }
    }
}

impl<D: Disk, W: Workers> Shard<D, W> {
    /// Measures how much memory is used, each now and then.
    pub fn measure_memory(&mut self, now: Millis) {
        let used = self.room.memory.used();
        let peak = &mut self.server.statistics_mut().peak_memory;
        *peak = used.max(*peak);
        self.room.memory.tick(now, used, self.server.settings().maxmemory.0);
    }

    /// Says how fast clients that had to wait may go on now.
    pub fn refresh_pace(&mut self, now: Millis) {
        self.set_pace(now, self.room.memory.used(), self.owed());
    }

    /// Makes room while memory is short: removes keys as the policy says; without a policy they leave memory and stay in the
    /// tables. If that is not enough, because too much is not in the tables yet, clients go at their pace.
    #[inline]
    pub(crate) fn make_room(&mut self, now: Millis, may_close_clients: bool) {
        let (short, bound) = self.memory_bounds();
        let mut used = self.room.memory.used();
        let peak = &mut self.server.statistics_mut().peak_memory;
        *peak = used.max(*peak);
        let lets_go = self.lets_go();
        if bound > 0 && used > short {
            self.server.evict_clients();
            used = self.room.memory.used();
        }
        let owed = self.owed();
        // Keys make way for long queries that are being read, but not all of them.
        let enough =
            if bound > 0 { short - self.room.long_queries.promised(&mut self.server, now).min(short / 2) } else { 0 };
        // What goes by itself needs the room that is left for it, and no key's.
        let enough = enough + self.passing(lets_go).min(bound - short);
        let mut is_freeing = false;
        if bound > 0 && used + owed > enough {
            is_freeing = self.free_what_is_gone(enough.saturating_sub(owed), bound);
            used = self.room.memory.used();
        }
        self.room.has_none_to_evict = false;
        if bound > 0 && used + owed > enough && !is_freeing {
            let samples = self.server.settings().maxmemory_samples.0.unsigned_abs() as usize;
            // What is to be told of keys that went is gone when this turn is over.
            let (mut to_tell, mut misses) = (0, 0);
            for _ in 0..EVICT_MAX {
                let (server, memory) = (&mut self.server, &self.room.memory);
                let has_gone = match lets_go {
                    false => server.evict_clean(samples.max(SAMPLES_MIN)),
                    true => {
                        let took = match server.evict_absent(samples) {
                            true => Some(0),
                            false => server.evict(&|| memory.used() as usize),
                        };
                        to_tell += took.unwrap_or(0) as u64;
                        took.is_some()
                    }
                };
                if !has_gone && lets_go && misses < MISSES_MAX {
                    // The one that was chosen was gone already.
                    misses += 1;
                    continue;
                }
                if !has_gone {
                    if let Some(persistence) = &mut self.persistence {
                        persistence.press();
                    }
                    // What neither leaves nor will be written is what clients have not read.
                    let is_behind = self.persistence.as_ref().is_some_and(|persistence| persistence.is_behind(server));
                    let at_least = if is_behind { bound / 4 } else { 0 };
                    let has_waited =
                        self.room.over_since.is_some_and(|since| now - since > OVER_MS) || used > bound + bound / 2;
                    if used <= bound
                        || !may_close_clients
                        || !has_waited
                        || !server.relieve(at_least, used.saturating_sub(bound))
                    {
                        self.room.has_none_to_evict = used > bound;
                        break;
                    }
                }
                used = self.room.memory.used().saturating_sub(to_tell);
                if used + owed <= enough {
                    break;
                }
            }
            self.server.tell_evicted();
        }
        self.room.memory.note(used, bound);
        self.room.over_since = if bound > 0 && used > bound { self.room.over_since.or(Some(now)) } else { None };
        let room = if bound > 0 {
            usize::try_from(short.saturating_sub(used + owed)).unwrap_or(usize::MAX)
        } else {
            usize::MAX
        };
        self.server.keyspace.set_room(room);
        self.set_pace(now, used, owed);
    }

    /// What of the memory that is used is neither keys nor there to stay, while keys that leave memory are gone: records on their way to
    /// files, and what clients have not read yet. It is bounded by itself.
    fn passing(&self, lets_go: bool) -> u64 {
        match &self.persistence {
            Some(persistence) if lets_go => persistence.unwritten() + self.server.unread_bytes() as u64,
            _ => 0,
        }
    }

    /// Frees what no key holds any more, for a while, until so much is used at most. Returns whether there is more of it.
    fn free_what_is_gone(&mut self, enough: u64, bound: u64) -> bool {
        let begin = self.world.elapsed();
        let time = if self.room.memory.used() > bound { FREE_TIME_OVER } else { FREE_TIME };
        let graveyard = &mut self.server.keyspace.graveyard;
        while !graveyard.is_empty() && self.room.memory.used() > enough {
            if self.world.elapsed().saturating_sub(begin) >= time {
                return true;
            }
            graveyard.free(FREE_PIECES);
        }
        false
    }

    /// The same in the middle of a turn, if clients' commands have taken much: what goes then does not become a reply any more.
    #[inline]
    pub(crate) fn make_room_early(&mut self, now: Millis) {
        if self.room.make_room_from.is_some_and(|from| self.room.memory.used() > from) {
            self.make_room(now, false);
        }
    }

    /// What memory will take besides for what has changed already. A policy removes what memory has no room for, and that is a
    /// change too: more would go for it.
    #[inline]
    pub(crate) fn owed(&self) -> u64 {
        match &self.persistence {
            Some(persistence) if !self.lets_go() => {
                let of_files = persistence.bytes_to_make_files().min(self.memory_bounds().1 / FILES_SHARE);
                persistence.owed(&self.server) + of_files
            }
            _ => 0,
        }
    }

    /// Whether keys that leave memory are gone, as `maxmemory-policy` says. Without tables they are in any case; those of a follower are
    /// not, as nothing is that its master has.
    #[inline]
    fn lets_go(&self) -> bool {
        if self.role.is_follower() {
            return false;
        }
        let settings = self.server.settings();
        let by_policy = settings.maxmemory_policy != MaxmemoryPolicy::NoEviction && settings.tables_size_max.0 == 0;
        self.persistence.is_none() || by_policy
    }

    /// What a store with a policy does besides: while memory is what is bounded, it has all keys there, or some could never be
    /// chosen; while the disk is, keys go from there.
    #[inline]
    pub(crate) fn move_keys(&mut self, now: Millis) {
        self.room.is_moving = false;
        // What leaves a follower for good is what has left its master.
        let Some(persistence) = self.persistence.as_mut().filter(|_| !self.role.is_follower()) else { return };
        let server = &mut self.server;
        if server.settings().maxmemory_policy == MaxmemoryPolicy::NoEviction {
            return;
        }
        if server.settings().tables_size_max.0 == 0 {
            if server.keyspace.is_partial() {
                let (short, bound) = self.memory_bounds();
                let is_short = bound > 0 && self.room.memory.used() > short;
                self.room.is_moving = !is_short && self.server.bring_keys(BRING_MAX);
            }
            return;
        }
        let bound = server.settings().tables_size_max.0;
        let keys = (0..server.keyspace.len()).filter_map(|db| server.keyspace.database(db)).map(Database::len).sum();
        let figures = persistence.figures();
        let tables =
            disk_bound::Tables { keys, end: figures.log.1, applied: figures.applied, merges: persistence.merges() };
        match self.room.disk_bound.tick(now, bound, tables, || persistence.disk_bytes()) {
            Step::Nothing => {}
            Step::Remove(count) => {
                self.room.is_moving = (0..count.min(EVICT_FROM_DISK_MAX)).all(|_| server.evict_from_disk());
                server.tell_evicted();
            }
            Step::Write => persistence.press(),
            Step::Merge => persistence.merge(),
        }
    }

    /// From where on memory is short, and its bound. With tables the room between them is for what they do not have yet.
    #[inline]
    pub(crate) fn memory_bounds(&self) -> (u64, u64) {
        let settings = self.server.settings();
        let bound = settings.maxmemory.0;
        let can_give = self.persistence.is_some() || settings.maxmemory_policy != MaxmemoryPolicy::NoEviction;
        // Refusing commands would make nothing smaller but what is allocated.
        let bound = if can_give { self.room.memory.of_bound(bound) } else { bound };
        let share = if self.lets_go() { SHORT_SHARE_OF_POLICY } else { SHORT_SHARE };
        (if self.persistence.is_some() { bound - bound / share } else { bound }, bound)
    }

    /// Slows clients down while the tables are behind. What else may fill memory, time does not mend: then commands that need
    /// more are refused.
    #[inline]
    pub(crate) fn set_pace(&mut self, now: Millis, used: u64, owed: u64) {
        let (short, bound) = self.memory_bounds();
        let is_short = bound > 0 && used + owed > short;
        self.room.short_from = if bound > 0 { short.saturating_sub(owed) } else { u64::MAX };
        self.room.make_room_from = (bound > 0).then_some(self.room.short_from.max(used + ROOM_STEP));
        // A policy makes room at once, and tables that cannot be written make none.
        let persistence = self.persistence.as_ref().filter(|persistence| !persistence.has_failed());
        let is_behind =
            is_short && !self.lets_go() && persistence.is_some_and(|persistence| persistence.is_behind(&self.server));
        // All keys have gone, and records on their way to files take what there is: that will end.
        let waits_for_files = used > bound
            && self.room.has_none_to_evict
            && self.lets_go()
            && persistence.is_some_and(|persistence| persistence.is_behind(&self.server));
        let in_memory = match persistence {
            _ if waits_for_files => Some(0.0),
            _ if is_behind => LogAllowance::left(used + owed, short, bound),
            Some(persistence) if bound > 0 && self.lets_go() => {
                let records = persistence.unwritten() + persistence.owed(&self.server);
                LogAllowance::left(records, bound / UNWRITTEN_SHARES.0, bound / UNWRITTEN_SHARES.1)
            }
            _ => None,
        };
        let behind_max = self.server.settings().tables_behind_max.0;
        let in_log =
            persistence.and_then(|persistence| LogAllowance::left(persistence.behind(), behind_max / 2, behind_max));
        let left = match (in_memory, in_log) {
            (Some(memory), Some(log)) => Some(memory.min(log)),
            (memory, log) => memory.or(log),
        };
        self.room.has_no_room = left.is_some_and(|left| left <= 0.0);
        self.server.condition_mut().memory_short = is_short;
        // Who only reads goes on.
        self.server.set_no_room(self.room.has_no_room);
        self.room.pace.refill(now, left.filter(|_| !self.room.has_no_room));
        // What is gone makes room by itself, and more keys go at the end of the turn.
        let is_freeing = !self.server.keyspace.graveyard.is_empty() || self.lets_go() && !self.room.has_none_to_evict;
        self.server.condition_mut().memory_full =
            bound > 0 && used > bound && !is_behind && !waits_for_files && !is_freeing || self.is_too_far_behind();
    }

    /// Whether the tables cannot be written, and have so much to take already that nothing more may come.
    fn is_too_far_behind(&self) -> bool {
        let behind_max = self.server.settings().tables_behind_max.0;
        let has_failed =
            |persistence: &&Persistence<D, W>| persistence.has_failed() && persistence.behind() > behind_max;
        behind_max > 0 && self.persistence.as_ref().filter(has_failed).is_some()
    }
}
