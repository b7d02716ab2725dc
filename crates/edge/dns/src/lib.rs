//! Addresses of servers by DNS: messages, and what HAProxy's `resolvers` sections do with them.
//!
//! Sans-io: no socket, no clock, no random source. [`Section`] is the machine of a `resolvers` section: it says what to send
//! ([`Section::poll_transmit`]) and when to come back ([`Section::poll_timeout`]), is given what came
//! ([`Section::handle_response`], [`Section::handle_timeout`]), and tells [`Servers`] what follows for servers. Times are
//! milliseconds of any clock that does not go back.
//!
//! The messages are the few that this needs: one question of class IN with an EDNS0 record (RFC 6891), and answers with A,
//! AAAA, CNAME and SRV records (RFC 1035, 3596, 2782). Whatever else is in an answer is stepped over.

mod choice;
mod name;
mod query;
mod records;
mod response;
mod section;
mod types;

pub use choice::{Network, Options};
pub use name::{LABEL_BYTES_MAX, NAME_BYTES_MAX, Name};
pub use query::{Kind, encode_query};
pub use response::{Answer, Fault, Record, decode_response};
pub use section::Section;
pub use types::{Asked, Counters, Hold, ServerKey, Servers, Settings, Transmit, Updater, WaiterKey};

#[cfg(test)]
mod tests;
