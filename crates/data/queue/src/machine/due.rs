//! What is due: reservations that have run out, delays that are over, messages that nobody wants any more, ids that are forgotten.

use std::ops::Bound;

use crate::{
    lanes::RETURNED,
    limits::{DUE_ROUNDS, DUE_STEPS},
    message::MessageId,
    names,
    records::Records,
    state::Place,
    state::State,
};

use super::{Found, Queue};

impl<R: Records> Queue<'_, R> {
    /// Does some of what is due. Returns how much it was.
    pub fn come_due(&mut self) -> usize {
        self.time_out(DUE_STEPS) + self.end_delays(DUE_STEPS) + self.expire(DUE_STEPS) + self.forget_ids(DUE_STEPS)
    }

    /// Has some messages be ready, if there are any that may be.
    pub fn find_ready(&mut self) {
        for _ in 0..DUE_ROUNDS {
            if self.come_due() == 0 || self.header.ready() > 0 {
                break;
            }
        }
    }

    /// Records of a letter up to now, from the time on that nothing is due before. Also returns what that time is when they are gone.
    ///
    /// What was removed leaves marks in the tables for a while, each of which is passed once or twice: a look never begins before the
    /// time where the last one ended, and does not go far beyond now.
    fn due(&self, letter: u8, from: u64, count: usize) -> (Vec<Found>, u64) {
        const LOOK_AHEAD_MS: u64 = 5_000;
        if from > self.now {
            return (Vec::new(), from);
        }
        let (begin, end) = (names::time(letter, from), names::time(letter, self.now.saturating_add(LOOK_AHEAD_MS)));
        let (mut found, mut next) = (Vec::new(), self.now.saturating_add(LOOK_AHEAD_MS));
        self.records.scan(Bound::Included(&begin), Bound::Excluded(&end), &mut |name, value| {
            let Some(at) = names::split_any_time(name) else { return false };
            if at > self.now || found.len() == count {
                next = at;
                return false;
            }
            found.push((name.to_vec(), value.to_vec()));
            true
        });
        (found, next)
    }

    fn time_out(&mut self, count: usize) -> usize {
        let (found, next) = self.due(names::RESERVED, self.header.due.reserved, count);
        self.header.due.reserved = next;
        for (name, _) in &found {
            let Some((_, id)) = names::split_time(name) else { continue };
            let Some(state) = self.state(id) else { break };
            self.header.statistics.totals.timed_out += 1;
            self.take_back(id, state, 0, b"its time ran out");
        }
        if self.header.counts.reserved == 0 {
            self.header.due.reserved = u64::MAX;
        }
        found.len()
    }

    fn end_delays(&mut self, count: usize) -> usize {
        let (found, next) = self.due(names::DELAYED, self.header.due.delayed, count);
        self.header.due.delayed = next;
        for (name, _) in &found {
            let Some((due, id)) = names::split_time(name) else { continue };
            let Some(mut state) = self.state(id) else { break };
            self.leave_delayed(id, due);
            state.place = Place::Ready;
            self.put_state(id, &mut state);
            self.enter_ready(id, state.priority, RETURNED);
            if !state.group.is_empty() {
                self.head_is_due(id, &state.group);
            }
        }
        if self.header.counts.delayed == 0 {
            self.header.due.delayed = u64::MAX;
        }
        found.len()
    }

    fn expire(&mut self, count: usize) -> usize {
        let (found, next) = self.due(names::EXPIRY, self.header.due.expiry, count);
        self.header.due.expiry = next;
        for (name, _) in &found {
            let Some((_, id)) = names::split_time(name) else { continue };
            self.delete(name);
            let Some(state) = self.state(id) else { break };
            // One that somebody has expires when it comes back.
            if matches!(state.place, Place::Ready | Place::Delayed { .. }) {
                self.drop_expired(id, &state);
            }
        }
        found.len()
    }

    /// Removes a message that nobody wants any more.
    pub(super) fn drop_expired(&mut self, id: MessageId, state: &State) {
        self.displace(id, state);
        self.erase(id, state);
        self.header.statistics.totals.expired += 1;
    }

    fn forget_ids(&mut self, count: usize) -> usize {
        let (found, next) = self.due(names::FORGET, self.header.due.forget, count);
        self.header.due.forget = next;
        for (name, value) in &found {
            self.delete(name);
            // Its id may have come again since, and is known for longer.
            let Some(id) = name.get(1 + size_of::<u64>()..) else { continue };
            let record = names::deduplication(id);
            if self.records.get(&record).is_some_and(|known| known.get(..8) == value.get(..8)) {
                self.delete(&record);
            }
        }
        found.len()
    }
}
