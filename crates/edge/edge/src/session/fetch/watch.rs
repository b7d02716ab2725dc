//! Watching the client while something else is waited for.

use std::task::{Context, Poll, Waker};

use super::Unreachable;
use crate::{
    registry::{Handle, Order},
    session::wire::Wire,
};

/// Watches the client while something else is waited for.
pub struct Watch<'a> {
    /// The client.
    pub client: &'a mut Wire,
    /// Whether a closed client ends the wait (`option abortonclose`).
    pub abort_on_close: bool,
    /// In TCP mode a client that closes without having sent anything leaves even without that option.
    pub is_tcp: bool,
    /// Who may end it.
    pub handle: &'a Handle,
}

impl Watch<'_> {
    /// Whether the client has sent something that nobody has taken yet.
    pub(super) fn client_has_spoken(&mut self) -> bool {
        if self.client.received.is_empty() && !self.client.ended {
            // What is wrong with the connection shows when it is used.
            let _ = self.client.poll_receive(&mut Context::from_waker(Waker::noop()));
        }
        !self.client.received.is_empty()
    }

    /// Ready when the wait is to end because of the client.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Unreachable> {
        self.handle.listen(context);
        if self.handle.order() == Order::Abort {
            return Poll::Ready(Unreachable::Killed);
        }
        while !self.client.ended {
            match self.client.poll_receive(context) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) if self.is_tcp => return Poll::Ready(Unreachable::ClientFailed),
                Poll::Ready(Err(_)) => self.client.ended = true,
                Poll::Pending => return Poll::Pending,
            }
        }
        let leaves = self.abort_on_close || self.is_tcp && self.client.received.is_empty();
        if leaves { Poll::Ready(Unreachable::ClientGone) } else { Poll::Pending }
    }
}
