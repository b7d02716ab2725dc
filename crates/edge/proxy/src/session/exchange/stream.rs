//! A client's side of one exchange, whatever its connection speaks.

use http::ResponseHead;

use crate::session::{body::Duplex, transaction::Transaction};

/// What an exchange knows of its client: the body of the request is pulled from it, and the answer is put there.
///
/// A connection hands one of them to each exchange that it yields. A connection of HTTP/1 has one exchange at a time and hands
/// out all of itself; one that has several at a time hands each a part. Bodies are framed as HTTP/1 frames them: what does not
/// know chunks makes them as a [`Source`](crate::session::body::Source), and takes them apart as a
/// [`Sink`](crate::session::body::Sink).
pub trait ClientStream: Duplex {
    /// Takes the client for one that can send no more: its connection has failed on that side.
    fn give_up_receiving(&mut self);

    /// Whether nobody reads what is answered, so that there is no use in going on.
    fn is_gone(&self) -> bool {
        false
    }

    /// Whether the end of the connection without an answer tells the client that its request can be sent again (RFC 9112 section
    /// 9.3.1), if that is not the first one on it. Otherwise the end of an exchange without an answer is only a failure.
    fn knows_to_retry(&self) -> bool {
        false
    }

    /// Puts an interim response (RFC 9110 section 15.2) behind what waits to be sent.
    fn write_interim(&mut self, head: &ResponseHead);

    /// Puts the head of the answer, which stands in the transaction, behind what waits to be sent; the number of its bytes. The
    /// connection goes on after this exchange if it `keeps`, as far as the exchange is concerned.
    fn write_head(&mut self, transaction: &mut Transaction, keeps: bool) -> usize;

    /// Puts a head behind what waits to be sent after which there are bytes both ways (101, or 2xx to CONNECT), until both halves
    /// have ended.
    fn write_tunnel_head(&mut self, head: &ResponseHead);

    /// The answer has been put here whole. One for which this is not said before the exchange is over has been cut off.
    fn end(&mut self);

    /// Nobody has begun with the request: has the end of the exchange without an answer tell the client that it may ask again, whatever
    /// it has asked; whether a client can be told so.
    fn refuse(&mut self) -> bool {
        false
    }

    /// Leaves the client without any answer, and without an end.
    fn vanish(&mut self);

    /// A rule wants the client's connection to end, with whatever else is on it.
    fn reject(&mut self) {}
}
