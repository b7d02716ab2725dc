//! What is set of a queue.

use crate::codec::{Malformed, Reader, put_number};

/// What becomes of a message for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// It is refused, and its publisher is told when to try again.
    #[default]
    Reject,
    /// Messages that wait make room: of the least urgent ones, those that would be given first.
    DropOldest,
    /// Its publisher waits.
    Block,
}

/// How safe a message is when its publisher is told so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// As safe as the store's settings make everything.
    #[default]
    Store,
    /// On the disk of the machine, synced.
    Synced,
    /// And so many replicas have it.
    Replicas(u32),
}

/// What is set of a queue. 0 stands for no bound, and for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How many messages it has at most, without dead ones.
    pub messages_max: u64,
    /// How many bytes these have at most.
    pub bytes_max: u64,
    /// What becomes of more.
    pub overflow: Overflow,
    /// How many dead messages it keeps; older ones go.
    pub dead_max: u64,
    /// A message that comes back after so many deliveries is dead.
    pub attempts_max: u32,
    /// For how long a message is reserved if nobody says.
    pub timeout_ms: u64,
    /// For how long a message is delayed if nobody says.
    pub delay_ms: u64,
    /// After how long a message expires if nobody says.
    pub expire_ms: u64,
    /// For how long a de-duplication id is known.
    pub window_ms: u64,
    /// How safe a message is when its publisher is told so.
    pub durability: Durability,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            messages_max: 0,
            bytes_max: 0,
            overflow: Overflow::default(),
            dead_max: 0,
            attempts_max: 20,
            timeout_ms: 60_000,
            delay_ms: 0,
            expire_ms: 0,
            window_ms: 300_000,
            durability: Durability::default(),
        }
    }
}

impl Settings {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.messages_max,
            self.bytes_max,
            match self.overflow {
                Overflow::Reject => 0,
                Overflow::DropOldest => 1,
                Overflow::Block => 2,
            },
            self.dead_max,
            u64::from(self.attempts_max),
            self.timeout_ms,
            self.delay_ms,
            self.expire_ms,
            self.window_ms,
            match self.durability {
                Durability::Store => 0,
                Durability::Synced => 1,
                Durability::Replicas(count) => 2 + u64::from(count),
            },
        ] {
            put_number(out, number);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            messages_max: reader.number()?,
            bytes_max: reader.number()?,
            overflow: match reader.number()? {
                0 => Overflow::Reject,
                1 => Overflow::DropOldest,
                2 => Overflow::Block,
                _ => return Err(Malformed("what becomes of too many messages")),
            },
            dead_max: reader.number()?,
            attempts_max: reader.number_32()?,
            timeout_ms: reader.number()?,
            delay_ms: reader.number()?,
            expire_ms: reader.number()?,
            window_ms: reader.number()?,
            durability: match reader.number()? {
                0 => Durability::Store,
                1 => Durability::Synced,
                more => Durability::Replicas(u32::try_from(more - 2).map_err(|_| Malformed("durability"))?),
            },
        })
    }
}
