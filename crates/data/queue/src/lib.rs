//! A queue: work that waits, is given to one consumer at a time, and is never lost.
//!
//! [`Queue`] is the mechanism, over [`Records`] in order: it knows neither who asks nor where records are, reads no clock and opens
//! nothing. Each message has a record of what never changes, and, once it was given or delayed, one of what does; other records say
//! in which order messages are given, when something is due, which ids are known. So a queue takes no memory for messages that
//! wait. [`Header`] has what there is besides: figures, settings, statistics, all of it bounded.

mod codec;
mod header;
mod lanes;
pub mod limits;
mod machine;
mod message;
mod names;
mod records;
mod settings;
mod state;
mod statistics;

#[cfg(test)]
mod tests;

pub use codec::{Malformed, Reader, put_number, put_string};
pub use header::{Counts, Header};
pub use machine::{Delivery, Done, Figures, Filter, Full, Look, Published, Queue, Redriven, Reservation, Seen, Stale};
pub use message::{Message, MessageId, NewMessage, Receipt, Unfit};
pub use records::Records;
pub use settings::{Durability, Overflow, Settings};
pub use state::{Place, State};
pub use statistics::{Consumer, Rates, Statistics, Totals, Waits};

/// Reads bytes as each kind of record, for those who test that none is trusted.
pub fn decode_anything(bytes: &[u8]) {
    let _ = Header::decode(bytes);
    let _ = Message::decode(bytes);
    let _ = State::decode(bytes);
    machine::decode_group(bytes);
}
