//! What connections of clients have in common that carry several exchanges at a time: HTTP/2 and HTTP/3.
//!
//! One task serves such a connection. It has the machine of its protocol, which it shares with the exchanges ([`Shared`]), and polls
//! those of them for which something has happened ([`Slots`]). A [`Stream`] is a client's side of one of them.

mod exchange;
mod requests;
mod shared;
mod slots;
mod stream;

use http::{PseudoFields, ResponseHead};

pub use self::{
    exchange::serve,
    requests::{begin, log_unreadable},
    shared::{Begun, Shared},
    slots::Slots,
    stream::Stream,
};
use super::outgoing::Framer;

/// Why a stream is let go of whose answer is not whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// Something went wrong.
    #[default]
    Failed,
    /// Nobody has begun with the request: it may be sent again.
    NotBegun,
}

/// The protocol of a connection that carries several exchanges at a time, as their streams know it.
pub trait Machine: Framer + Sized + 'static {
    /// How logs call it.
    const VERSION: &'static [u8];

    /// Where a stream stands: small numbers, which are used again.
    fn slot(key: Self::Key) -> usize;

    /// Whether the client gets nothing any more of what is sent on a stream.
    fn is_reset(&self, key: Self::Key) -> bool;

    /// So many bytes of a body have been consumed: the client may send as many more.
    fn consumed(&mut self, key: Self::Key, count: usize);

    /// Has what the transport holds back of a body come to `shared`, as far as there is room for so many bytes.
    fn receive(shared: &Shared<Self>, key: Self::Key, room: usize);

    /// Lets go of a stream.
    fn release(&mut self, key: Self::Key, why: Release);

    /// Whether there is room for what nobody waits for to be sent.
    fn has_room(&self) -> bool;

    /// Puts a head behind what waits to be sent; the number of its bytes.
    fn send_head(&mut self, key: Self::Key, head: &ResponseHead) -> usize;

    /// The pseudo-fields of the request that has come last.
    fn pseudo_fields(&self) -> &PseudoFields;

    /// Gives memory back that a connection without streams does not need.
    fn rest(&mut self);
}
