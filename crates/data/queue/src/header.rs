//! What a queue has besides the records of its messages.

use crate::{
    codec::{Malformed, Reader, put_number},
    lanes::Lanes,
    message::MessageId,
    settings::Settings,
    statistics::Statistics,
};

/// Bits of an id below the time at which its queue was made.
const ID_BITS: u32 = 20;
/// Nobody comes so far.
const ID_MAX: u64 = u64::MAX >> 1;
/// The form of a header.
const VERSION: u8 = 1;

/// How many messages are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// They wait for a time.
    pub delayed: u64,
    /// Somebody has them.
    pub reserved: u64,
    /// They are behind others of their group, or the group has some that are reserved.
    pub behind: u64,
    /// Nobody is given them.
    pub dead: u64,
    /// The bytes of those that are not dead.
    pub bytes: u64,
    /// And of those that are.
    pub dead_bytes: u64,
}

/// Nothing is due before these times: there may be something at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub delayed: u64,
    pub reserved: u64,
    pub expiry: u64,
    pub forget: u64,
    /// No dead message is before this one.
    pub dead: u64,
}

impl Default for Due {
    fn default() -> Self {
        Self { delayed: u64::MAX, reserved: u64::MAX, expiry: u64::MAX, forget: u64::MAX, dead: u64::MAX }
    }
}

/// What a queue has besides the records of its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// When it was made.
    pub created: u64,
    /// What the next message is named.
    pub(crate) next: u64,
    /// What is set.
    pub settings: Settings,
    /// Until when nothing is given; `u64::MAX` for ever, 0 if it is.
    pub paused_until: u64,
    /// How many messages it has.
    pub counts: Counts,
    pub(crate) due: Due,
    /// The ready ones.
    pub(crate) lanes: Lanes,
    /// What it counts.
    pub statistics: Statistics,
}

impl Header {
    /// That of a queue that is made now.
    pub fn new(now: u64, settings: Settings) -> Self {
        Self {
            created: now,
            // So the ids of a queue that had the key before are no ids of this one, nor its receipts.
            next: (now << ID_BITS).clamp(1, ID_MAX),
            settings,
            paused_until: 0,
            counts: Counts::default(),
            due: Due::default(),
            lanes: Lanes::default(),
            statistics: Statistics::default(),
        }
    }

    /// How many messages are ready.
    pub fn ready(&self) -> u64 {
        self.lanes.total()
    }

    /// How many messages there are, without dead ones.
    pub fn live(&self) -> u64 {
        self.ready() + self.counts.delayed + self.counts.reserved + self.counts.behind
    }

    /// How many messages there are.
    pub fn len(&self) -> u64 {
        self.live() + self.counts.dead
    }

    /// Whether there are none. Such a queue stays.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing is given at this time.
    pub fn is_paused(&self, now: u64) -> bool {
        self.paused_until > now
    }

    /// Whether a consumer that asks now may find something. It may not, if the answer is yes.
    pub fn may_give(&self, now: u64) -> bool {
        !self.is_paused(now) && (self.ready() > 0 || self.due.delayed <= now || self.due.reserved <= now)
    }

    /// No message becomes ready by itself before this time, which is later than now; nothing if none does at all.
    pub fn next_due(&self, now: u64) -> Option<u64> {
        let next = [
            (self.counts.delayed > 0).then_some(self.due.delayed),
            (self.counts.reserved > 0).then_some(self.due.reserved),
            (self.ready() > 0).then_some(0),
        ];
        let next = next.into_iter().flatten().min()?;
        Some(next.max(self.paused_until).max(now.saturating_add(1))).filter(|next| *next < u64::MAX)
    }

    /// Whether there is room for so many messages of so many bytes more.
    pub fn has_room(&self, messages: u64, bytes: u64) -> bool {
        let fits = |bound: u64, is: u64, more: u64| bound == 0 || is.saturating_add(more) <= bound;
        fits(self.settings.messages_max, self.live(), messages)
            && fits(self.settings.bytes_max, self.counts.bytes, bytes)
    }

    /// The id that the next message gets.
    pub(crate) fn new_id(&mut self) -> MessageId {
        let id = MessageId(self.next);
        self.next += 1;
        id
    }

    /// It has no messages any more.
    pub(crate) fn clear(&mut self) {
        self.counts = Counts::default();
        self.due = Due::default();
        self.lanes = Lanes::default();
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for number in [
            self.created,
            self.next,
            self.paused_until,
            self.counts.delayed,
            self.counts.reserved,
            self.counts.behind,
            self.counts.dead,
            self.counts.bytes,
            self.counts.dead_bytes,
            self.due.delayed,
            self.due.reserved,
            self.due.expiry,
            self.due.forget,
            self.due.dead,
        ] {
            put_number(&mut out, number);
        }
        self.settings.encode(&mut out);
        self.lanes.encode(&mut out);
        self.statistics.encode(&mut out);
        out
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// It is damaged, or of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        if reader.byte()? != VERSION {
            return Err(Malformed("it is of a later version"));
        }
        let (created, next, paused_until) = (reader.number()?, reader.number()?, reader.number()?);
        if next > ID_MAX {
            return Err(Malformed("the next id"));
        }
        let counts = Counts {
            delayed: reader.count()?,
            reserved: reader.count()?,
            behind: reader.count()?,
            dead: reader.count()?,
            bytes: reader.count()?,
            dead_bytes: reader.count()?,
        };
        let due = Due {
            delayed: reader.number()?,
            reserved: reader.number()?,
            expiry: reader.number()?,
            forget: reader.number()?,
            dead: reader.number()?,
        };
        let settings = Settings::decode(&mut reader)?;
        let lanes = Lanes::decode(&mut reader)?;
        let statistics = Statistics::decode(&mut reader)?;
        reader.end()?;
        Ok(Self { created, next, settings, paused_until, counts, due, lanes, statistics })
    }
}
