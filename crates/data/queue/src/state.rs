//! What changes of a message.

use crate::{
    Message, Receipt,
    codec::{Malformed, Reader, put_number, put_string},
    limits::{CONSUMER_LEN_MAX, GROUP_LEN_MAX, REASON_LEN_MAX},
    message::MessageId,
};

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It can be given; or it is behind others of its group.
    Ready,
    /// It waits for a time.
    Delayed {
        /// When it may be given.
        due: u64,
    },
    /// Somebody has it.
    Reserved {
        /// Until when.
        until: u64,
    },
    /// Nobody is given it.
    Dead {
        /// Since when.
        since: u64,
    },
}

/// What changes of a message, and what of the rest is needed for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Where it is.
    pub place: Place,
    /// It was never given, and waits for no time: it has no record of this.
    pub(crate) is_fresh: bool,
    /// When it was published.
    pub published: u64,
    /// The lower, the more urgent.
    pub priority: u32,
    /// The bytes that count for the queue's bound.
    pub size: u64,
    /// When it expires; 0 if it does not.
    pub expires: u64,
    /// Its group; empty if it has none.
    pub group: Vec<u8>,
    /// How often it was given since it was published or redriven.
    pub attempts: u32,
    /// The number of its last reservation.
    pub reservation: u32,
    /// When it was given first; 0 if never.
    pub first: u64,
    /// When it was given last; 0 if never.
    pub last: u64,
    /// Who has it, or had it last, if that was said.
    pub consumer: Vec<u8>,
    /// Why it came back, or is dead.
    pub reason: Vec<u8>,
}

impl State {
    /// That of a message that was never given.
    pub(crate) fn fresh(message: &Message<'_>) -> Self {
        Self {
            place: Place::Ready,
            is_fresh: true,
            published: message.published,
            priority: message.priority,
            size: message.size(),
            expires: message.expires,
            group: message.group.unwrap_or_default().to_vec(),
            attempts: 0,
            reservation: 0,
            first: 0,
            last: 0,
            consumer: Vec::new(),
            reason: Vec::new(),
        }
    }

    /// The last receipt that was given.
    pub fn receipt(&self, id: MessageId) -> Receipt {
        Receipt { id, number: self.reservation }
    }

    /// Whether nobody wants it any more.
    pub(crate) fn has_expired(&self, now: u64) -> bool {
        self.expires > 0 && self.expires <= now
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48 + self.group.len() + self.consumer.len() + self.reason.len());
        let (letter, at) = match self.place {
            Place::Ready => (0, 0),
            Place::Delayed { due } => (1, due),
            Place::Reserved { until } => (2, until),
            Place::Dead { since } => (3, since),
        };
        out.push(letter);
        for number in [
            at,
            self.published,
            u64::from(self.priority),
            self.size,
            self.expires,
            u64::from(self.attempts),
            u64::from(self.reservation),
            self.first,
            self.last,
        ] {
            put_number(&mut out, number);
        }
        [&self.group, &self.consumer, &self.reason].into_iter().for_each(|string| put_string(&mut out, string));
        out
    }

    /// Reads its record.
    ///
    /// # Errors
    ///
    /// The record is damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let letter = reader.byte()?;
        let at = reader.number()?;
        let place = match letter {
            0 => Place::Ready,
            1 => Place::Delayed { due: at },
            2 => Place::Reserved { until: at },
            3 => Place::Dead { since: at },
            _ => return Err(Malformed("the state of a message")),
        };
        let state = Self {
            place,
            is_fresh: false,
            published: reader.number()?,
            priority: reader.number_32()?,
            size: reader.count()?,
            expires: reader.number()?,
            attempts: reader.number_32()?,
            reservation: reader.number_32()?,
            first: reader.number()?,
            last: reader.number()?,
            group: reader.string(GROUP_LEN_MAX)?.to_vec(),
            consumer: reader.string(CONSUMER_LEN_MAX)?.to_vec(),
            reason: reader.string(REASON_LEN_MAX)?.to_vec(),
        };
        reader.end()?;
        Ok(state)
    }
}
