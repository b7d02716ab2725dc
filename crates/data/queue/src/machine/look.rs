//! Looking without changing anything.

use std::ops::Bound;

use crate::{
    limits::COUNTED_MAX,
    message::{Message, MessageId},
    names,
    records::Records,
    state::State,
};

use super::{Queue, end_of};

/// Messages in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Ready ones, in the order in which they are given.
    Ready,
    /// Delayed ones, in the order in which their times come.
    Delayed,
    /// Reserved ones, in the order in which their reservations end.
    Reserved,
    /// Dead ones, in the order in which they were published.
    Dead,
    /// All, in the order in which they were published.
    All,
}

/// A message that was looked at.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its id.
    pub id: MessageId,
    /// What has changed of it.
    pub state: State,
    /// Its record, of which [`Message::decode`] makes a message.
    pub record: Vec<u8>,
}

/// A queue's figures at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// How many messages may be given.
    pub ready: u64,
    /// How many wait for a time.
    pub delayed: u64,
    /// How many somebody has.
    pub reserved: u64,
    /// How many are behind others of their groups.
    pub behind: u64,
    /// How many are dead.
    pub dead: u64,
    /// For how long the oldest ready message has been here; nothing if there is none.
    pub oldest_ms: Option<u64>,
}

impl<R: Records> Queue<'_, R> {
    /// The ids of messages in a state, from one on.
    pub fn ids_of(&self, look: Look, from: Option<MessageId>, count: usize) -> Vec<MessageId> {
        let due = &self.header.due;
        let begin = match (look, from) {
            (Look::Ready, _) => vec![names::READY],
            (Look::Delayed, _) => names::time(names::DELAYED, due.delayed),
            (Look::Reserved, _) => names::time(names::RESERVED, due.reserved),
            (Look::Dead, from) => names::of_message(names::DEAD, from.unwrap_or(MessageId(due.dead))),
            (Look::All, from) => names::of_message(names::BODY, from.unwrap_or(MessageId(0))),
        };
        let mut ids = Vec::new();
        if look == Look::Ready {
            // Lane by lane: what was removed before where a lane begins is passed.
            for (priority, class, lane) in self.header.lanes.each() {
                let to = names::ready(priority, class, MessageId(u64::MAX));
                let some = self.some(
                    &names::ready(priority, class, MessageId(lane.from)),
                    Bound::Included(&to),
                    count - ids.len(),
                );
                ids.extend(some.iter().filter_map(|(name, _)| names::message(name)));
                if ids.len() >= count {
                    return ids;
                }
            }
            if ids.len() as u64 == self.header.ready() {
                return ids;
            }
            ids.clear();
        }
        let letter = begin.first().copied().unwrap_or_default();
        ids.extend(
            self.some(&begin, Bound::Excluded(&end_of(letter)), count)
                .iter()
                .filter_map(|(name, _)| names::message(name)),
        );
        ids
    }

    /// A message.
    pub fn look(&self, id: MessageId) -> Option<Seen> {
        let record = self.records.get(&names::of_message(names::BODY, id))?.to_vec();
        let state = match self.records.get(&names::of_message(names::STATE, id)) {
            Some(bytes) => self.understood(State::decode(&bytes))?,
            None => State::fresh(&self.understood(Message::decode(&record))?),
        };
        Some(Seen { id, state, record })
    }

    /// How many messages are in which state. Those that are due count as what they become, up to [`COUNTED_MAX`] of each kind.
    pub fn figures(&self) -> Figures {
        let counts = &self.header.counts;
        let delayed = self.count_due(names::DELAYED, self.header.due.delayed).min(counts.delayed);
        let reserved = self.count_due(names::RESERVED, self.header.due.reserved).min(counts.reserved);
        let oldest = self.header.lanes.each().filter_map(|(priority, class, lane)| {
            let to = names::ready(priority, class, MessageId(u64::MAX));
            let first = self.first(&names::ready(priority, class, MessageId(lane.from)), Bound::Included(&to))?;
            names::message(&first.0)
        });
        let oldest = oldest.min().and_then(|id| self.state(id)).map(|state| self.now.saturating_sub(state.published));
        Figures {
            ready: self.header.ready() + delayed + reserved,
            delayed: counts.delayed - delayed,
            reserved: counts.reserved - reserved,
            behind: counts.behind,
            dead: counts.dead,
            oldest_ms: oldest,
        }
    }

    fn count_due(&self, letter: u8, from: u64) -> u64 {
        let mut count = 0;
        if from <= self.now {
            let (from, to) = (names::time(letter, from), names::at_time(letter, self.now, MessageId(u64::MAX)));
            self.records.scan(Bound::Included(&from), Bound::Included(&to), &mut |_, _| {
                count += 1;
                count < COUNTED_MAX
            });
        }
        count as u64
    }
}
