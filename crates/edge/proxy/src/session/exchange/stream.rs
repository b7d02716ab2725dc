//! A client's side of one exchange, whatever its connection speaks.

use std::rc::Rc;

use http::ResponseHead;
use net::{Buffer, Stream};

use crate::session::{
    body::{Sink, Source},
    transaction::Transaction,
};

/// What an exchange knows of its client: the body of the request is pulled from it, and the answer is put there.
///
/// A connection hands one of them to each exchange that it yields. A connection of HTTP/1 has one exchange at a time and hands
/// out all of itself; one that has several at a time hands each a part. Bodies are framed as HTTP/1 frames them: what does not
/// know chunks makes them as a [`Source`], and takes them apart as a [`Sink`].
pub trait ClientStream: Source + Sink {
    /// Whether the client has sent its last byte, or can send no more.
    fn has_ended(&self) -> bool;

    /// Takes the client for one that can send no more: its connection has failed on that side.
    fn give_up_receiving(&mut self);

    /// Whether nothing more can come before something is consumed of what has come.
    fn is_full(&self) -> bool;

    /// Gives memory back that nothing is in.
    fn rest(&mut self);

    /// Puts an interim response (RFC 9110 section 15.2) behind what waits to be sent.
    fn write_interim(&mut self, head: &ResponseHead);

    /// Puts the head of the answer, which stands in the transaction, behind what waits to be sent; the number of its bytes. The
    /// connection goes on after this exchange if it `keeps`, as far as the exchange is concerned.
    fn write_head(&mut self, transaction: &mut Transaction, keeps: bool) -> usize;

    /// The answer has been put here whole. One for which this is not said before the exchange is over has been cut off.
    fn end(&mut self);

    /// Leaves the client without any answer, and without an end.
    fn vanish(&mut self);

    /// The whole connection with what has come on it, for bytes both ways; `None` where it is not this exchange's alone.
    fn take_whole(&mut self) -> Option<(Rc<Stream>, Buffer)>;
}
