//! What is done to a queue. [`Queue`] brings together its header, its records, and a time; each method is one command.
//!
//! ```text
//!              push
//!                |      due                        redrive
//!   delayed <----+---------------> ready <-------------------- dead
//!      ^                           |   ^                        ^
//!      | release with delay        |   | release, time-out      | bury, or the last attempt came back
//!      +------------ reserved <----+   |                        |
//!                    |   |  reserve    |                        |
//!                    |   +-------------+------------------------+
//!                    v
//!                  deleted
//! ```
//!
//! A message of a group is *behind* as long as another one of its group is before it, or reserved. Everything that is decided depends
//! on header, records, arguments and the time that is given: so whoever does the same to the same queue comes to the same queue.
//! What is due is done in bounded steps by commands that change the queue; which message may be given, or has a valid receipt, does not depend
//! on how far that has come.

mod dead;
mod due;
mod groups;
mod look;
mod publish;
mod receipts;
mod reserve;

use std::ops::Bound;

use crate::{
    codec::Malformed,
    header::Header,
    lanes::{FRESH, RETURNED},
    limits::{REASON_LEN_MAX, cut},
    message::{Message, MessageId},
    names,
    records::Records,
    state::{Place, State},
};

pub use dead::{Filter, Redriven};
pub(crate) use groups::decode_group;
pub use look::{Figures, Look, Seen};
pub use publish::{Full, Published};
pub use receipts::{Done, Stale};
pub use reserve::{Delivery, Reservation};

/// A queue at a time.
#[derive(Debug)]
pub struct Queue<'a, R> {
    header: &'a mut Header,
    records: &'a mut R,
    now: u64,
    has_changed: bool,
}

/// A name and what it has.
type Found = (Vec<u8>, Vec<u8>);

impl<'a, R: Records> Queue<'a, R> {
    /// A queue, with the time of what is done to it in milliseconds since 1970.
    pub fn new(header: &'a mut Header, records: &'a mut R, now: u64) -> Self {
        Self { header, records, now, has_changed: false }
    }

    /// Whether anything was changed.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        self.header
    }

    /// Changes what is set.
    pub fn configure(&mut self, settings: crate::Settings) {
        self.header.settings = settings;
        self.has_changed = true;
    }

    /// Gives nothing until a time.
    pub fn pause(&mut self, until: u64) {
        self.header.paused_until = until;
        self.has_changed = true;
    }

    /// It has no messages any more: whoever has its records removes them.
    pub fn clear(&mut self) -> u64 {
        let count = self.header.len();
        self.header.statistics.totals.removed += count;
        self.header.clear();
        self.header.statistics.forget_consumers();
        self.has_changed = true;
        count
    }

    fn put(&mut self, name: &[u8], value: &[u8]) {
        self.has_changed = true;
        self.records.put(name, value);
    }

    fn delete(&mut self, name: &[u8]) {
        self.has_changed = true;
        self.records.delete(name);
    }

    fn understood<T>(&self, read: Result<T, Malformed>) -> Option<T> {
        read.map_err(|reason| self.records.fail(reason)).ok()
    }

    /// What changes of a message.
    fn state(&self, id: MessageId) -> Option<State> {
        if let Some(bytes) = self.records.get(&names::of_message(names::STATE, id)) {
            return self.understood(State::decode(&bytes));
        }
        let body = self.records.get(&names::of_message(names::BODY, id))?;
        self.understood(Message::decode(&body)).map(|message| State::fresh(&message))
    }

    fn put_state(&mut self, id: MessageId, state: &mut State) {
        state.is_fresh = false;
        let bytes = state.encode();
        self.put(&names::of_message(names::STATE, id), &bytes);
    }

    /// The first record of a letter from a name on.
    fn first(&self, from: &[u8], to: Bound<&[u8]>) -> Option<Found> {
        self.some(from, to, 1).pop()
    }

    /// The first records from a name on.
    fn some(&self, from: &[u8], to: Bound<&[u8]>, count: usize) -> Vec<Found> {
        let mut found = Vec::new();
        if count > 0 {
            self.records.scan(Bound::Included(from), to, &mut |name, value| {
                found.push((name.to_vec(), value.to_vec()));
                found.len() < count
            });
        }
        found
    }

    fn enter_ready(&mut self, id: MessageId, priority: u32, class: u8) {
        self.put(&names::ready(priority, class, id), b"");
        self.header.lanes.add(priority, class, id);
    }

    fn leave_ready(&mut self, id: MessageId, priority: u32, class: u8) {
        self.delete(&names::ready(priority, class, id));
        self.header.lanes.remove(priority, class, id);
    }

    fn enter_delayed(&mut self, id: MessageId, due: u64) {
        self.put(&names::at_time(names::DELAYED, due, id), b"");
        self.header.counts.delayed += 1;
        self.header.due.delayed = self.header.due.delayed.min(due);
    }

    fn leave_delayed(&mut self, id: MessageId, due: u64) {
        self.delete(&names::at_time(names::DELAYED, due, id));
        lower(&mut self.header.counts.delayed, 1);
    }

    /// A message that is nowhere becomes one that is given when its time has come.
    fn make_available(&mut self, id: MessageId, mut state: State, due: u64) {
        if state.has_expired(self.now) {
            self.header.statistics.totals.expired += 1;
            self.erase(id, &state);
            return;
        }
        let is_delayed = due > self.now;
        state.place = if is_delayed { Place::Delayed { due } } else { Place::Ready };
        if is_delayed || !state.is_fresh {
            self.put_state(id, &mut state);
        }
        if !state.group.is_empty() {
            self.join_group(id, &state, due);
        } else if is_delayed {
            self.enter_delayed(id, due);
        } else {
            self.enter_ready(id, state.priority, class(&state));
        }
    }

    /// Takes a message from where it is; it is nowhere then.
    fn displace(&mut self, id: MessageId, state: &State) {
        match state.place {
            Place::Reserved { until } => {
                self.delete(&names::at_time(names::RESERVED, until, id));
                lower(&mut self.header.counts.reserved, 1);
                self.leave_reserved_of_group(&state.group);
            }
            Place::Dead { .. } => {
                self.delete(&names::of_message(names::DEAD, id));
                lower(&mut self.header.counts.dead, 1);
                lower(&mut self.header.counts.dead_bytes, state.size);
                self.header.counts.bytes += state.size;
            }
            Place::Ready | Place::Delayed { .. } if !state.group.is_empty() => self.leave_group(id, &state.group),
            Place::Ready => self.leave_ready(id, state.priority, class(state)),
            Place::Delayed { due } => self.leave_delayed(id, due),
        }
    }

    /// Removes a message that is nowhere, and is not counted as dead.
    fn erase(&mut self, id: MessageId, state: &State) {
        self.delete(&names::of_message(names::BODY, id));
        if !state.is_fresh {
            self.delete(&names::of_message(names::STATE, id));
        }
        if state.expires > 0 {
            self.delete(&names::at_time(names::EXPIRY, state.expires, id));
        }
        lower(&mut self.header.counts.bytes, state.size);
    }

    /// A message that is nowhere dies. Its group goes on.
    fn die(&mut self, id: MessageId, mut state: State, reason: &[u8]) {
        state.place = Place::Dead { since: self.now };
        state.reason = cut(reason, REASON_LEN_MAX).to_vec();
        self.put_state(id, &mut state);
        self.put(&names::of_message(names::DEAD, id), b"");
        let counts = &mut self.header.counts;
        counts.dead += 1;
        lower(&mut counts.bytes, state.size);
        counts.dead_bytes += state.size;
        self.header.due.dead = self.header.due.dead.min(id.0);
        self.header.statistics.totals.died += 1;
        self.header.statistics.count_reason(&state.reason);
        if self.header.settings.dead_max > 0 && self.header.counts.dead > self.header.settings.dead_max {
            self.drop_dead();
        }
    }

    /// A message that is nowhere comes back: it is given again, unless that was the last attempt.
    fn come_back(&mut self, id: MessageId, mut state: State, due: u64, reason: &[u8]) {
        let attempts_max = self.header.settings.attempts_max;
        if attempts_max > 0 && state.attempts >= attempts_max {
            return self.die(id, state, reason);
        }
        state.reason = cut(reason, REASON_LEN_MAX).to_vec();
        self.make_available(id, state, due);
    }
}

/// Where a message stands among the ready ones of its priority.
fn class(state: &State) -> u8 {
    if state.is_fresh { FRESH } else { RETURNED }
}

/// Lowers a count. Damaged records may have led to one that is too low.
fn lower(count: &mut u64, by: u64) {
    *count = count.saturating_sub(by);
}

/// Behind all records of a letter.
fn end_of(letter: u8) -> [u8; 1] {
    [letter + 1]
}
