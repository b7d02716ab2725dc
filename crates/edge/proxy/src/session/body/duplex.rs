//! Both halves of a stream in one.

use std::{
    future::Future,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use super::{Sink, Source};
use crate::session::wire::Wire;

/// Ready with the failure of a connection.
pub type Failed = Pin<Box<dyn Future<Output = io::Error>>>;

/// A side that sends and is sent to: a client's of an exchange, a server's, either of a tunnel. Each half ends on its own.
pub trait Duplex: Source + Sink {
    /// Whether the other end has sent its last byte, or can send no more.
    fn has_ended(&self) -> bool;

    /// Whether nothing more can come before something is consumed of what has come.
    fn is_full(&self) -> bool;

    /// Gives memory back that nothing is in.
    fn rest(&mut self);

    /// Sends what waits, and tells the other end that no more comes; ready once that is on its way.
    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Waits until it has failed, as by a reset, though nobody receives or sends any more.
    fn failed(&self) -> Failed;

    /// Has the other end take what follows for a failure instead of an end: what it got is not all there was.
    fn break_off(&mut self);
}

impl Duplex for Wire {
    #[inline]
    fn has_ended(&self) -> bool {
        self.ended
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.received.has_block() && self.received.is_full()
    }

    #[inline]
    fn rest(&mut self) {
        Wire::rest(self);
    }

    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Wire::poll_flush(self, context))?;
        self.stream.poll_shut_write(context)
    }

    fn failed(&self) -> Failed {
        let stream = Rc::clone(&self.stream);
        Box::pin(async move { stream.failed().await })
    }

    fn break_off(&mut self) {
        self.stream.reset_on_close();
    }
}
