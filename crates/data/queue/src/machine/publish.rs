//! Publishing.

use crate::{
    message::{Message, MessageId, NewMessage},
    names,
    records::Records,
    settings::Overflow,
    state::{Place, State},
};

use super::Queue;

/// What became of a message that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Its id; of a duplicate, the id of the first one.
    pub id: MessageId,
    /// Whether it had been published before.
    pub is_duplicate: bool,
}

/// There is no room. Nothing was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// Whether there may be room later.
    pub may_fit: bool,
    /// After how many milliseconds it is likely to be there, at the rate at which messages went lately.
    pub retry_in_ms: u64,
}

impl<R: Records> Queue<'_, R> {
    /// Publishes messages, all of them or none.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn publish(&mut self, messages: &[NewMessage<'_>]) -> Result<Vec<Published>, Full> {
        let (mut count, mut bytes) = (0, 0);
        for (place, message) in messages.iter().enumerate() {
            let before = messages.get(..place).unwrap_or_default();
            let is_twice = message.id.is_some() && before.iter().any(|before| before.id == message.id);
            if !is_twice && message.id.and_then(|id| self.known(id)).is_none() {
                count += 1;
                bytes += message.size();
            }
        }
        if count > 0 {
            self.make_room(count, bytes)?;
        }
        Ok(messages.iter().map(|message| self.publish_one(message)).collect())
    }

    /// The message that had an id before.
    fn known(&self, id: &[u8]) -> Option<MessageId> {
        let known = self.records.get(&names::deduplication(id))?;
        let (until, first) = known.split_first_chunk()?;
        let is_known = u64::from_be_bytes(*until) > self.now;
        Some(MessageId(u64::from_be_bytes(first.try_into().ok()?))).filter(|_| is_known)
    }

    fn publish_one(&mut self, message: &NewMessage<'_>) -> Published {
        if let Some(id) = message.id.and_then(|id| self.known(id)) {
            self.header.statistics.totals.duplicates += 1;
            self.has_changed = true;
            return Published { id, is_duplicate: true };
        }
        let settings = self.header.settings;
        let expire_ms = message.expire_ms.unwrap_or(settings.expire_ms);
        let expires = if expire_ms == 0 { 0 } else { self.now.saturating_add(expire_ms) };
        let due = self.now.saturating_add(message.delay_ms.unwrap_or(settings.delay_ms));
        let id = self.add(message, (self.now, expires, due));
        if let Some(name) = message.id.filter(|_| settings.window_ms > 0) {
            let until = self.now.saturating_add(settings.window_ms);
            self.put(&names::deduplication(name), &[until.to_be_bytes(), id.0.to_be_bytes()].concat());
            self.put(&names::forget(until, name), &until.to_be_bytes());
            self.header.due.forget = self.header.due.forget.min(until);
        }
        Published { id, is_duplicate: false }
    }

    /// Adds messages that another queue had, as of the time when that got them. There must be room.
    pub fn take_in(&mut self, message: &Message<'_>) -> MessageId {
        self.add(&message.as_new(), (message.published, message.expires, self.now))
    }

    fn add(&mut self, message: &NewMessage<'_>, (published, expires, due): (u64, u64, u64)) -> MessageId {
        let id = self.header.new_id();
        let body = message.encode(published, expires);
        self.put(&names::of_message(names::BODY, id), &body);
        if expires > 0 {
            self.put(&names::at_time(names::EXPIRY, expires, id), b"");
            self.header.due.expiry = self.header.due.expiry.min(expires);
        }
        let state = State {
            place: Place::Ready,
            is_fresh: true,
            published,
            priority: message.priority,
            size: message.size(),
            expires,
            group: message.group.unwrap_or_default().to_vec(),
            attempts: 0,
            reservation: 0,
            first: 0,
            last: 0,
            consumer: Vec::new(),
            reason: Vec::new(),
        };
        self.header.counts.bytes += state.size;
        self.header.statistics.totals.published += 1;
        self.header.statistics.rates.came(self.now, 1);
        self.make_available(id, state, due);
        id
    }

    /// Makes sure that there is room for messages.
    ///
    /// # Errors
    ///
    /// There is none, and there is not to be made any.
    pub fn make_room(&mut self, count: u64, bytes: u64) -> Result<(), Full> {
        if self.header.has_room(count, bytes) {
            return Ok(());
        }
        // Some may have expired by now.
        self.come_due();
        let settings = self.header.settings;
        let fits = |bound: u64, needed: u64| bound == 0 || needed <= bound;
        let may_fit = fits(settings.messages_max, count) && fits(settings.bytes_max, bytes);
        let drops = settings.overflow == Overflow::DropOldest && may_fit;
        let mut has_dropped = false;
        while !self.header.has_room(count, bytes) {
            if drops && self.drop_oldest().is_some() {
                has_dropped = true;
            } else if has_dropped {
                // NOTE: what was dropped is gone: the new messages take its place, beside those that consumers hold.
                break;
            } else {
                return Err(Full { may_fit, retry_in_ms: self.retry_in_ms(count, bytes) });
            }
        }
        Ok(())
    }

    /// When there is likely to be room, at the rate at which messages went in the last minute.
    fn retry_in_ms(&self, count: u64, bytes: u64) -> u64 {
        const UNKNOWN_MS: u64 = 1_000;
        const LEAST_MS: u64 = 10;
        const MOST_MS: u64 = 60_000;
        let (settings, live) = (&self.header.settings, self.header.live());
        let over =
            |bound: u64, is: u64, more: u64| if bound == 0 { 0 } else { is.saturating_add(more).saturating_sub(bound) };
        let mean = (self.header.counts.bytes / live.max(1)).max(1);
        let too_many = over(settings.messages_max, live, count)
            .max(over(settings.bytes_max, self.header.counts.bytes, bytes).div_ceil(mean));
        match self.header.statistics.rates.per_1000_s(self.now).1 {
            0 => UNKNOWN_MS,
            rate => (too_many.saturating_mul(1_000_000) / rate).clamp(LEAST_MS, MOST_MS),
        }
    }

    /// Removes a message that waits, if there is one: of the least urgent ready ones the first, else the delayed one whose time comes
    /// first.
    fn drop_oldest(&mut self) -> Option<()> {
        let of_lane = self.header.lanes.each().next_back().and_then(|(priority, class, lane)| {
            let from = names::ready(priority, class, MessageId(lane.from));
            let to = names::ready(priority, class, MessageId(u64::MAX));
            self.first(&from, std::ops::Bound::Included(&to))
        });
        let found = of_lane.or_else(|| {
            let from = self.header.due.delayed;
            self.first(&names::time(names::DELAYED, from), std::ops::Bound::Excluded(&[names::DELAYED + 1]))
        });
        let id = names::message(&found?.0)?;
        let state = self.state(id)?;
        self.displace(id, &state);
        self.erase(id, &state);
        self.header.statistics.totals.dropped += 1;
        Some(())
    }
}
