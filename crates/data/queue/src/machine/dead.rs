//! What a person does: dead messages that live again, messages that are removed or taken to another queue.

use std::ops::Bound;

use crate::{
    message::MessageId,
    names,
    records::Records,
    state::{Place, State},
};

use super::{Delivery, Queue, end_of, look::Look};

/// Which dead messages are meant.
#[derive(Debug, Clone, Copy)]
pub struct Filter<'a> {
    /// Those that died of this; all if nothing is said.
    pub reason: Option<&'a [u8]>,
    /// From this one on.
    pub from: MessageId,
    /// So many at most.
    pub count: usize,
}

/// How far a redrive has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redriven {
    /// How many messages live again.
    pub count: u64,
    /// The message to go on from; nothing if all were seen.
    pub next: Option<MessageId>,
}

/// How many dead messages are looked at in one go.
const SEEN_MAX: usize = 10_000;

impl<R: Records> Queue<'_, R> {
    /// Has dead messages live again.
    pub fn redrive(&mut self, filter: &Filter<'_>) -> Redriven {
        let from = names::of_message(names::DEAD, filter.from.max(MessageId(self.header.due.dead)));
        let found = self.some(&from, Bound::Excluded(&end_of(names::DEAD)), SEEN_MAX + 1);
        let mut redriven = Redriven { count: 0, next: None };
        for (seen, id) in found.iter().filter_map(|(name, _)| names::message(name)).enumerate() {
            if redriven.count == filter.count as u64 || seen == SEEN_MAX {
                redriven.next = Some(id);
                break;
            }
            let Some(state) = self.state(id) else { break };
            if filter.reason.is_none_or(|reason| reason == state.reason) {
                self.revive(id, state);
                redriven.count += 1;
            }
        }
        if self.header.counts.dead == 0 {
            self.header.due.dead = u64::MAX;
        }
        redriven
    }

    /// Has a dead message live again. Returns whether there was one.
    pub fn redrive_one(&mut self, id: MessageId) -> bool {
        let state = self.state(id).filter(|state| matches!(state.place, Place::Dead { .. }));
        state.map(|state| self.revive(id, state)).is_some()
    }

    fn revive(&mut self, id: MessageId, mut state: State) {
        self.displace(id, &state);
        state.attempts = 0;
        self.header.statistics.totals.redriven += 1;
        self.make_available(id, state, 0);
    }

    /// Removes a message wherever it is. Returns whether there was one.
    pub fn remove(&mut self, id: MessageId) -> bool {
        let Some(state) = self.state(id) else { return false };
        self.displace(id, &state);
        self.erase(id, &state);
        self.header.statistics.totals.removed += 1;
        true
    }

    /// Removes some of the messages in a state. Returns how many.
    pub fn purge(&mut self, look: Look, count: usize) -> u64 {
        let ids = self.ids_of(look, None, count);
        ids.into_iter().filter(|id| self.remove(*id)).count() as u64
    }

    /// Looks for messages that are to go to another queue: whoever gets them then [removes](Self::remove) them here.
    pub fn find_to_move(&self, ids: &[MessageId], bytes_max: u64) -> Vec<Delivery> {
        let mut left = bytes_max;
        let mut found: Vec<Delivery> = Vec::new();
        for id in ids {
            // One that is named twice is moved once.
            if found.iter().any(|one| one.receipt.id == *id) {
                continue;
            }
            let Some(state) = self.state(*id) else { continue };
            let Some(record) = self.records.get(&names::of_message(names::BODY, *id)) else { continue };
            if state.size > left && !found.is_empty() {
                break;
            }
            left = left.saturating_sub(state.size);
            found.push(Delivery { receipt: state.receipt(*id), state, record: record.to_vec() });
        }
        found
    }

    /// Removes the oldest dead message.
    pub(super) fn drop_dead(&mut self) {
        let from = names::of_message(names::DEAD, MessageId(self.header.due.dead));
        let found = self.first(&from, Bound::Excluded(&end_of(names::DEAD)));
        let Some(id) = found.and_then(|(name, _)| names::message(&name)) else { return };
        let Some(state) = self.state(id) else { return };
        self.header.due.dead = id.0;
        self.displace(id, &state);
        self.erase(id, &state);
        self.header.statistics.totals.dropped += 1;
    }
}
