//! Reserving.

use std::ops::Bound;

use crate::{
    lanes::{FRESH, First},
    limits::{CONSUMER_LEN_MAX, cut},
    message::{Message, MessageId, Receipt},
    names,
    records::Records,
    state::{Place, State},
};

use super::{Queue, end_of};

/// What a consumer asks for.
#[derive(Debug, Clone, Copy)]
pub struct Reservation<'a> {
    /// So many messages at most.
    pub count: usize,
    /// So many bytes at most; but one message is given however long it is.
    pub bytes: u64,
    /// For how long; the queue says if this does not.
    pub timeout_ms: Option<u64>,
    /// Who asks; empty if that is not said.
    pub consumer: &'a [u8],
}

/// A message that was given.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// What it is to be deleted with.
    pub receipt: Receipt,
    /// What has changed of it.
    pub state: State,
    /// Its record, of which [`Message::decode`] makes a message.
    pub record: Vec<u8>,
}

/// How many messages that nobody wants any more a reservation removes.
const EXPIRED_MAX: usize = 1_000;

/// What a reservation has still room for.
struct Room {
    count: usize,
    bytes: u64,
    expired: usize,
}

impl<R: Records> Queue<'_, R> {
    /// Reserves messages.
    pub fn reserve(&mut self, reservation: &Reservation<'_>) -> Vec<Delivery> {
        self.find_ready();
        let mut given = Vec::new();
        if self.header.is_paused(self.now) {
            return given;
        }
        let mut room = Room { count: reservation.count, bytes: reservation.bytes, expired: EXPIRED_MAX };
        while room.count > 0 && room.expired > 0 && !self.records.has_failed() {
            let Some((priority, class, id)) = self.first_ready() else { break };
            let Some((state, record)) = self.whole(id, class) else { break };
            if state.has_expired(self.now) {
                self.drop_expired(id, &state);
                room.expired -= 1;
                continue;
            }
            if state.size > room.bytes && !given.is_empty() {
                break;
            }
            if state.group.is_empty() {
                self.leave_ready(id, priority, class);
                given.push(self.give(id, state, record, (reservation, &mut room)));
            } else {
                self.reserve_group(id, (state, record), (reservation, &mut room), &mut given);
            }
        }
        self.count_given(reservation, &given);
        given
    }

    /// The first message that is ready.
    fn first_ready(&mut self) -> Option<(u32, u8, MessageId)> {
        let from = match self.header.lanes.first() {
            First::Nothing => return None,
            First::In(priority, class, id) => {
                let name = names::ready(priority, class, id);
                // Mostly messages leave in the order in which they came, and it is this one.
                if self.records.get(&name).is_some() {
                    return Some((priority, class, id));
                }
                name
            }
            First::Anywhere => vec![names::READY],
        };
        let (name, _) = self.first(&from, Bound::Excluded(&end_of(names::READY)))?;
        let (priority, class, id) = names::split_ready(&name)?;
        self.header.lanes.pass(priority, class, id);
        Some((priority, class, id))
    }

    /// All of a message.
    fn whole(&self, id: MessageId, class: u8) -> Option<(State, Vec<u8>)> {
        let record = self.records.get(&names::of_message(names::BODY, id))?;
        let state = match self.records.get(&names::of_message(names::STATE, id)).filter(|_| class != FRESH) {
            Some(bytes) => self.understood(State::decode(&bytes))?,
            None => State::fresh(&self.understood(Message::decode(&record))?),
        };
        Some((state, record.to_vec()))
    }

    /// Gives the head of a group, and what may be given behind it.
    fn reserve_group(
        &mut self,
        id: MessageId,
        head: (State, Vec<u8>),
        (reservation, room): (&Reservation<'_>, &mut Room),
        given: &mut Vec<Delivery>,
    ) {
        let group = head.0.group.clone();
        let mut next = Some((id, head));
        while let Some((id, (state, record))) = next.take() {
            self.reserve_of_group(id, &group);
            given.push(self.give(id, state, record, (reservation, &mut *room)));
            next = self
                .next_of_group(&group)
                .filter(|_| room.count > 0)
                .and_then(|id| Some((id, self.whole_of_group(id)?)))
                .filter(|(_, (state, _))| state.size <= room.bytes && !state.has_expired(self.now));
        }
    }

    /// All of a message that is behind others.
    fn whole_of_group(&self, id: MessageId) -> Option<(State, Vec<u8>)> {
        self.whole(id, crate::lanes::RETURNED)
    }

    fn give(
        &mut self,
        id: MessageId,
        mut state: State,
        record: Vec<u8>,
        (reservation, room): (&Reservation<'_>, &mut Room),
    ) -> Delivery {
        let timeout_ms = reservation.timeout_ms.unwrap_or(self.header.settings.timeout_ms);
        let until = self.now.saturating_add(timeout_ms);
        if state.attempts == 0 {
            self.header.statistics.waits.record(self.now.saturating_sub(state.published));
        }
        state.place = Place::Reserved { until };
        state.attempts = state.attempts.saturating_add(1);
        state.reservation = state.reservation.saturating_add(1);
        state.first = if state.first == 0 { self.now } else { state.first };
        state.last = self.now;
        state.consumer = cut(reservation.consumer, CONSUMER_LEN_MAX).to_vec();
        self.put_state(id, &mut state);
        self.enter_reserved(id, until);
        room.count -= 1;
        room.bytes = room.bytes.saturating_sub(state.size);
        Delivery { receipt: state.receipt(id), state, record }
    }

    pub(super) fn enter_reserved(&mut self, id: MessageId, until: u64) {
        self.put(&names::at_time(names::RESERVED, until, id), b"");
        self.header.counts.reserved += 1;
        self.header.due.reserved = self.header.due.reserved.min(until);
    }

    fn count_given(&mut self, reservation: &Reservation<'_>, given: &[Delivery]) {
        if given.is_empty() {
            return;
        }
        let count = given.len() as u64;
        self.header.statistics.totals.delivered += count;
        let now = self.now;
        if let Some(consumer) = self.header.statistics.consumer(reservation.consumer) {
            consumer.seen = now;
            consumer.delivered += count;
        }
    }
}
