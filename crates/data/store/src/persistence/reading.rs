//! What is read off the loop: keys and elements that commands wait for, and deadlines of keys that are not in memory.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use commands::{
    Millis, Server,
    server::{Wanted, Warmup},
};
use engine::{Answer, Bounds, Page, Request};

use crate::{
    messages,
    records::{DUE_MAX, SLOW, ShardTables},
};

use super::{Asked, Persistence};

/// How long elements are read off the loop after one has taken long: so many times as long as it took, within bounds. A disk that
/// somebody else keeps busy is slow for much longer than one that was asked for what no cache has.
const COLD_TIMES: u32 = 500;
/// The bounds, in milliseconds.
const COLD_MS: (Millis, Millis) = (1_000, 10_000);
/// Bytes of elements that are read together for a command.
const WARMED_BYTES_MAX: usize = 1 << 20;
/// How often the tables are asked for keys whose time has come.
const DUE_MS: Millis = 500;
/// Bytes of the deadlines that are looked at together.
const DUE_BYTES_MAX: usize = 1 << 20;

impl Persistence {
    /// Reads what commands need: from the unwritten part of the tables at once, from the engine off the loop. Returns whether
    /// clients can go on.
    pub fn load(&mut self, server: &mut Server, now: Millis) -> bool {
        let mut any = false;
        server.take_loads(&mut self.loads);
        for load in std::mem::take(&mut self.loads) {
            let name = self.tables.name(&load);
            if let Some(value) = self.tables.with(|tables| tables.get_in_memory(&name)) {
                server.loaded(&load, self.tables.loaded(&load, value));
                any = true;
                continue;
            }
            if !self.ask(Request::Get(name), Asked::Key(load.clone())) {
                // Too many wait already: the command reads it itself.
                server.loaded(&load, None);
                any = true;
            }
        }
        server.take_warmups(&mut self.warmups);
        for warmup in std::mem::take(&mut self.warmups) {
            let asked = Asked::Elements(warmup.session, Instant::now());
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
        self.readers.flush();
        if let Some(slowest) = self.tables.take_slowest() {
            self.cold_until = self.cold_until.max(now + cold_for(slowest));
        }
        // Before the answers are taken: for one that comes later the loop is woken again.
        self.is_told.store(false, Ordering::Release);
        while let Ok((asked, read)) = self.answers.try_recv() {
            self.outstanding -= 1;
            match (asked, read) {
                (Asked::Piece(gather), read) => {
                    // No client waits for it.
                    self.take_piece(server, &gather, read);
                    continue;
                }
                (Asked::Key(load), Answer::Get(Ok(value))) => server.loaded(&load, self.tables.loaded(&load, value)),
                (Asked::Key(load), _) => server.loaded(&load, None),
                (Asked::Elements(session, asked), _) => {
                    // Threads had to be woken as well.
                    let elapsed = asked.elapsed() / 5;
                    if elapsed > SLOW {
                        self.cold_until = self.cold_until.max(now + cold_for(elapsed));
                    }
                    server.warmed(session);
                }
                (Asked::Due(db), Answer::Scan(Ok(page))) => self.expire(server, db, &page, now),
                (Asked::Due(_), _) => {}
            }
            any = true;
        }
        server.keyspace.set_cold(now < self.cold_until);
        any
    }

    /// What brings elements into the cache that a command needs; nothing if they are in memory.
    fn request_of(&self, warmup: &Warmup) -> Option<Request> {
        match &warmup.what {
            Wanted::Named(names) => {
                let records = self.tables.cold_records(warmup.of, names);
                (!records.is_empty()).then_some(Request::GetAll(records))
            }
            Wanted::Some { from, backwards, count } => {
                let capture = Box::new(self.tables.capture_elements(warmup.of, from, *backwards, *count));
                Some(Request::Scan { capture, records_max: *count, bytes_max: WARMED_BYTES_MAX })
            }
        }
    }

    /// Has a reader's thread answer. Returns false if too many wait already.
    pub(super) fn ask(&mut self, request: Request, asked: Asked) -> bool {
        let (answer, waker, is_told) = (self.answer.clone(), Arc::clone(&self.waker), Arc::clone(&self.is_told));
        let done = move |read| {
            let _ = answer.send((asked, read));
            // The loop is woken once for all answers that it has not taken yet.
            if !is_told.swap(true, Ordering::AcqRel) {
                let _ = waker.wake();
            }
        };
        let taken = self.readers.submit(request, done).is_ok();
        self.outstanding += usize::from(taken);
        taken
    }

    /// Asks the tables for keys whose time has come: those that are not in memory expire too. A database at a time.
    pub(super) fn ask_for_due(&mut self, server: &Server, now: Millis) {
        let (at, db) = self.next_due;
        if now < at {
            return;
        }
        if let Some(database) = server.keyspace.database(db).filter(|database| !database.is_empty()) {
            self.ask_for_due_within(db, &ShardTables::due(database.disk(), now));
        }
        let next = (db + 1) % server.keyspace.len().max(1);
        self.next_due = (if next == 0 { now + DUE_MS } else { at }, next);
    }

    pub(super) fn expire(&mut self, server: &mut Server, db: usize, page: &Page, now: Millis) {
        for (name, value) in &page.records {
            if let Some(key) = self.tables.take_deadline(name, value)
                && let Err(failure) = server.expire_if_due(db, &key, now)
            {
                messages::warn(&format!("a key that may have expired cannot be read: {failure}"));
            }
        }
        // There may be more. They are not asked for from the beginning, where those that were just forgotten are still met.
        if let Some(rest) = &page.rest {
            self.ask_for_due_within(db, rest);
        }
    }

    pub(super) fn ask_for_due_within(&mut self, db: usize, bounds: &Bounds) {
        let capture = Box::new(self.tables.capture(bounds, DUE_MAX));
        self.ask(Request::Scan { capture, records_max: DUE_MAX, bytes_max: DUE_BYTES_MAX }, Asked::Due(db));
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
