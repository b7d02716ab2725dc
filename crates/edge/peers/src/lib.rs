//! HAProxy's peers protocol, version 2.1: stick tables kept in step between processes.
//!
//! A [`Section`] is the state of a `peers` section: who the peers are, what each was told of each table, what it still has
//! to hear, and from whom this process learns what it does not know yet. It has no socket and no clock: whoever drives it
//! opens connections, hands over bytes and asks for bytes to send ([`Section`] tells the contract).
//!
//! # Nothing is queued
//!
//! A table numbers its changes, and of each table a peer has one cursor: the last change that it was sent. What comes after
//! is read from the table when there is room to send it, so a slow peer costs nothing, and an entry that changes a thousand
//! times meanwhile is sent once. The peer acknowledges what it got; after a reconnection, sending goes on from there.
//!
//! # Who learns what
//!
//! A process that starts knows nothing. If another process of the same name ends for its sake, it waits for that one to
//! come and teach (five seconds); otherwise it asks one of the other peers for all that it knows. Then it is up to date,
//! and gets changes alone. See [`section`](Section) for the states.

mod cache;
mod hello;
mod message;
mod section;
mod table;
mod update;
mod varint;
mod view;

#[cfg(test)]
mod tests;

pub use hello::{Hello, Status, parse_hello, parse_status};
pub use message::{Control, Frame, FrameError, frame};
pub use section::{Action, ConnectionId, Section, SectionConfig, SharedTable, Transmit};
pub use view::{CursorView, PeerView, SectionView};
