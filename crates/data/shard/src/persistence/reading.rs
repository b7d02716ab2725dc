//! What is read off the loop: keys and elements that commands wait for, and deadlines of keys that are not in memory.

use std::{collections::VecDeque, time::Duration};

use commands::{
    Server,
    server::{Load, WantedElements, Warmup},
};
use engine::{Answer, Bounds, Page, Request};
use keyspace::{Database, Gather, Millis};
use oplog::disk::Disk;

use crate::{
    Persistence, ReadPurpose, Workers,
    records::{DUE_MAX, SLOW, ShardTables},
};

/// How long elements are read off the loop after one has taken long: so many times as long as it took, within bounds. A disk that
/// somebody else keeps busy is slow for much longer than one that was asked for what no cache has.
const COLD_TIMES: u32 = 500;
/// The bounds, in milliseconds.
const COLD_MS: (Millis, Millis) = (1_000, 10_000);
/// Bytes of elements that are read together for a command.
const WARMED_BYTES_MAX: usize = 1 << 20;
/// How often the tables are asked for keys whose time has come.
const DUE_MS: Millis = 500;
/// In each so many rounds databases are asked too that have no key that expires, as far as is known: tables of before these were counted
/// may have some, and deadlines of keys that are gone are to go.
const ALL_ROUNDS: u64 = 120;
/// Bytes of the deadlines that are looked at together.
const DUE_BYTES_MAX: usize = 1 << 20;

/// What is being read, and what is to be.
pub(crate) struct Reads {
    /// How many requests have not been answered yet.
    pub(crate) outstanding: usize,
    /// When the tables are asked again for keys whose time has come, and of which database.
    next_due: (Millis, usize),
    /// How often all databases were asked.
    due_rounds: u64,
    /// How many questions of that kind wait for their answer.
    asking_for_due: usize,
    loads: Vec<Load>,
    warmups: Vec<Warmup>,
    /// Whether collections come into memory.
    pub(crate) gathers: bool,
    /// Collections that are to come into memory, and how many are being read.
    pub(crate) gatherings: VecDeque<Gather>,
    pub(crate) gathering: usize,
    /// Until when elements are read off the loop first.
    cold_until: Millis,
}

impl Reads {
    pub(crate) fn new(now: Millis) -> Self {
        Self {
            outstanding: 0,
            next_due: (now, 0),
            due_rounds: 0,
            asking_for_due: 0,
            loads: Vec::new(),
            warmups: Vec::new(),
            gathers: true,
            gatherings: VecDeque::new(),
            gathering: 0,
            cold_until: 0,
        }
    }

    pub(crate) fn clock_was_set_back(&mut self, now: Millis) {
        self.next_due.0 = self.next_due.0.min(now);
        self.cold_until = 0;
    }
}

impl<D: Disk, W: Workers> Persistence<D, W> {
    /// A key that a command needs.
    pub(crate) fn want(&mut self, load: Load) {
        self.reads.loads.push(load);
    }

    /// Elements that one needs.
    pub(crate) fn want_elements(&mut self, warmup: Warmup) {
        self.reads.warmups.push(warmup);
    }

    /// Reads what commands need: from the unwritten part of the tables at once, from the engine off the loop. Returns whether
    /// clients can go on.
    pub fn load(&mut self, server: &mut Server, now: Millis) -> bool {
        let mut any = false;
        for load in std::mem::take(&mut self.reads.loads) {
            let name = self.tables.name(&load);
            if let Some(value) = self.tables.with(|tables| tables.get_in_memory(&name)) {
                server.loaded(&load, self.tables.loaded(&load, value));
                any = true;
                continue;
            }
            if !self.ask(Request::Get(name), ReadPurpose::Key(load.clone())) {
                // Too many wait already: the command reads it itself.
                server.loaded(&load, None);
                any = true;
            }
        }
        for warmup in std::mem::take(&mut self.reads.warmups) {
            let asked = ReadPurpose::Elements(warmup.session, self.world.elapsed());
            let is_asked = match self.request_of(&warmup) {
                Some(request) => self.ask(request, asked),
                None => false,
            };
            if !is_asked {
                server.warmed(warmup.session);
                any = true;
            }
        }
        self.begin_gathering(server);
        self.workers.begin_reads();
        if let Some(slowest) = self.tables.take_slowest() {
            self.reads.cold_until = self.reads.cold_until.max(now + cold_for(slowest));
        }
        // Before the answers are taken: for one that comes later the loop is woken again.
        self.workers.begin_answers();
        while let Some((asked, read)) = self.workers.poll_answer() {
            self.reads.outstanding -= 1;
            self.reads.asking_for_due -= usize::from(matches!(asked, ReadPurpose::Due(_)));
            match (asked, read) {
                (ReadPurpose::Piece(gather), read) => {
                    // No client waits for it.
                    self.take_piece(server, &gather, read);
                    continue;
                }
                (ReadPurpose::Key(load), Answer::Get(Ok(value))) => {
                    server.loaded(&load, self.tables.loaded(&load, value))
                }
                (ReadPurpose::Key(load), _) => server.loaded(&load, None),
                (ReadPurpose::Elements(session, asked), _) => {
                    // Threads had to be woken as well.
                    let elapsed = self.world.elapsed().saturating_sub(asked) / 5;
                    if elapsed > SLOW {
                        self.reads.cold_until = self.reads.cold_until.max(now + cold_for(elapsed));
                    }
                    server.warmed(session);
                }
                (ReadPurpose::Due(db), Answer::Scan(Ok(page))) => self.expire(server, db, &page, now),
                (ReadPurpose::Due(_), _) => {}
            }
            any = true;
        }
        server.keyspace.set_cold(now < self.reads.cold_until);
        any
    }

    /// What brings elements into the cache that a command needs; nothing if they are in memory.
    fn request_of(&self, warmup: &Warmup) -> Option<Request> {
        match &warmup.what {
            WantedElements::Named(names) => {
                let records = self.tables.cold_records(warmup.of, names);
                (!records.is_empty()).then_some(Request::GetAll(records))
            }
            WantedElements::Some { from, backwards, count } => {
                let capture = Box::new(self.tables.capture_elements(warmup.of, from, *backwards, *count));
                Some(Request::Scan { capture, records_max: *count, bytes_max: WARMED_BYTES_MAX })
            }
        }
    }

    /// Has a worker answer. Returns false if too many wait already.
    pub(crate) fn ask(&mut self, request: Request, purpose: ReadPurpose) -> bool {
        let is_taken = self.workers.read(request, purpose);
        self.reads.outstanding += usize::from(is_taken);
        is_taken
    }

    /// Asks the tables for keys whose time has come: those that are not in memory expire too. A database at a time.
    pub(crate) fn ask_for_due(&mut self, server: &Server, now: Millis) {
        let (at, db) = self.reads.next_due;
        // One at a time: where it takes long, more of them would take longer.
        if now < at || self.reads.asking_for_due > 0 || !server.expires_by_itself() {
            return;
        }
        let is_asked = |database: &&Database| {
            !database.is_empty() && (database.expires_len() > 0 || self.reads.due_rounds.is_multiple_of(ALL_ROUNDS))
        };
        if let Some(database) = server.keyspace.database(db).filter(is_asked) {
            self.ask_for_due_within(db, &ShardTables::due(database.disk(), now));
        }
        let next = (db + 1) % server.keyspace.len().max(1);
        self.reads.due_rounds += u64::from(next == 0);
        self.reads.next_due = (if next == 0 { now + DUE_MS } else { at }, next);
    }

    pub(crate) fn expire(&mut self, server: &mut Server, db: usize, page: &Page, now: Millis) {
        for (name, value) in &page.records {
            if let Some(key) = self.tables.take_deadline(name, value)
                && let Err(failure) = server.expire_if_due(db, &key, now)
            {
                self.world.warn(&format!("a key that may have expired cannot be read: {failure}"));
            }
        }
        // There may be more. They are not asked for from the beginning, where those that were just forgotten are still met.
        if let Some(rest) = &page.rest {
            self.ask_for_due_within(db, rest);
        }
    }

    pub(crate) fn ask_for_due_within(&mut self, db: usize, bounds: &Bounds) {
        let capture = Box::new(self.tables.capture(bounds, DUE_MAX));
        let request = Request::Scan { capture, records_max: DUE_MAX, bytes_max: DUE_BYTES_MAX };
        self.reads.asking_for_due += usize::from(self.ask(request, ReadPurpose::Due(db)));
    }
}

/// How long the disk counts as slow after a read that took so long.
fn cold_for(elapsed: Duration) -> Millis {
    Millis::try_from((elapsed * COLD_TIMES).as_millis()).unwrap_or(Millis::MAX).clamp(COLD_MS.0, COLD_MS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_a_read_the_longer_others_are_done_off_the_loop() {
        for (took, cold) in [(200, 1_000), (1_999, 1_000), (4_000, 2_000), (20_000, 10_000), (2_000_000, 10_000)] {
            assert_eq!(cold_for(Duration::from_micros(took)), cold, "{took}");
        }
    }
}
