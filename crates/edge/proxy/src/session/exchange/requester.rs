//! A client's stream as what a fetch knows of it.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::ResponseHead;
use live::{LiveProxy, LiveServer, ShutCause};

use super::stream::ClientStream;
use crate::{
    registry::{Handle, Order},
    session::{
        body::{BodyPump, PumpFailure, Sink},
        fetch::{HeadEnd, HttpRequester, Requester, Unreachable},
    },
};

/// Bodies up to this many bytes are sent behind their head from one buffer.
const COPY_MAX: usize = 4_096;

/// Bytes that wait for a client before no further interim response is taken of its server.
const INTERIM_MAX: usize = 4_096;

/// A client that waits for a server.
pub struct WaitingClient<'c, C> {
    /// Its stream.
    pub stream: &'c mut C,
    /// Whether a closed client ends the wait (`option abortonclose`).
    pub abort_on_close: bool,
    /// In TCP mode a client that closes without having sent anything leaves even without that option.
    pub is_tcp: bool,
    /// Who may end it.
    pub handle: &'c Handle,
}

impl<C: ClientStream> Requester for WaitingClient<'_, C> {
    #[inline]
    fn poll_leaving(&mut self, context: &mut Context<'_>) -> Poll<Unreachable> {
        self.handle.listen(context);
        if self.handle.order() == Order::Abort {
            return Poll::Ready(Unreachable::Killed);
        }
        while !self.stream.has_ended() {
            match self.stream.poll_receive(context) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) if self.is_tcp => return Poll::Ready(Unreachable::ClientFailed),
                Poll::Ready(Err(_)) => self.stream.give_up_receiving(),
                Poll::Pending => return Poll::Pending,
            }
        }
        let leaves = self.abort_on_close || self.stream.is_gone() || self.is_tcp && self.stream.received().is_empty();
        if leaves { Poll::Ready(Unreachable::ClientGone) } else { Poll::Pending }
    }

    #[inline]
    fn has_spoken(&mut self) -> bool {
        if self.stream.received().is_empty() && !self.stream.has_ended() {
            // What is wrong with the connection shows when it is used.
            let _ = self.stream.poll_receive(&mut Context::from_waker(Waker::noop()));
        }
        !self.stream.received().is_empty()
    }

    #[inline]
    fn goes_to(&self, proxy: &Arc<LiveProxy>, server: &Arc<LiveServer>) {
        self.handle.goes_to(proxy, server);
    }
}

/// A client that waits for the answer to a request.
pub struct WaitingRequest<'c, C> {
    client: WaitingClient<'c, C>,
    body: &'c mut BodyPump,
    /// What must be sent again with the head if an attempt fails; `None` where that is impossible.
    replay: Option<Vec<u8>>,
    timeout: Option<Duration>,
}

impl<'c, C: ClientStream> WaitingRequest<'c, C> {
    /// One whose body `body` moves, as far as it was received looked at; `timeout` is how long the client may be silent.
    #[inline]
    pub fn new(client: WaitingClient<'c, C>, body: &'c mut BodyPump, timeout: Option<Duration>) -> Self {
        let replay = match (body.is_received(), body.approved()) {
            (false, _) => None,
            // Nearly always.
            (true, 0) => Some(Vec::new()),
            (true, count) => Some(client.stream.received().get(..count).unwrap_or_default().to_vec()),
        };
        Self { client, body, replay, timeout }
    }
}

impl<C: ClientStream> Requester for WaitingRequest<'_, C> {
    #[inline]
    fn poll_leaving(&mut self, context: &mut Context<'_>) -> Poll<Unreachable> {
        self.client.poll_leaving(context)
    }

    #[inline]
    fn has_spoken(&mut self) -> bool {
        self.client.has_spoken()
    }

    #[inline]
    fn goes_to(&self, proxy: &Arc<LiveProxy>, server: &Arc<LiveServer>) {
        self.client.goes_to(proxy, server);
    }
}

impl<C: ClientStream> HttpRequester for WaitingRequest<'_, C> {
    #[inline]
    fn poll_order(&self, context: &Context<'_>) -> Option<ShutCause> {
        self.client.handle.listen(context);
        (self.client.handle.order() == Order::Abort).then_some(ShutCause::Administrator)
    }

    #[inline]
    fn can_resend(&self) -> bool {
        self.replay.is_some()
    }

    #[inline]
    fn can_go_elsewhere(&self) -> bool {
        self.can_resend() || self.body.kept().is_some()
    }

    #[inline]
    fn begin_body(&mut self, to: &mut impl Sink, is_resent: bool) {
        if is_resent && self.replay.is_none() {
            self.body.begin_again(self.client.stream, to);
            to.waiting().extend_from_slice(self.body.kept().unwrap_or_default());
        } else if is_resent {
            self.body.discard(self.client.stream);
            self.body.begin_again(self.client.stream, to);
            to.waiting().extend_from_slice(self.replay.as_deref().unwrap_or_default());
        } else {
            if self.replay.is_none() && to.may_refuse() {
                self.body.keep();
            }
            self.body.append_small(self.client.stream, to, COPY_MAX);
        }
    }

    #[inline]
    fn poll_body(&mut self, to: &mut impl Sink, context: &mut Context<'_>) -> Poll<Result<(), PumpFailure>> {
        let polled = self.body.poll(self.client.stream, to, context);
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.client.stream.rest();
        }
        polled
    }

    #[inline]
    fn streams_body(&self) -> bool {
        true
    }

    #[inline]
    fn body_received(&self) -> u64 {
        self.body.received()
    }

    #[inline]
    fn is_paced(&self) -> bool {
        self.body.is_paced()
    }

    #[inline]
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<HeadEnd> {
        let client = &mut self.client;
        if client.stream.is_gone() {
            return Poll::Ready(HeadEnd::ClientCutOff);
        }
        if client.stream.has_ended() {
            return Poll::Pending;
        }
        match client.stream.poll_receive(context) {
            Poll::Ready(Ok(0)) if client.abort_on_close => return Poll::Ready(HeadEnd::ClientGone),
            Poll::Ready(Err(_)) if client.abort_on_close => return Poll::Ready(HeadEnd::ClientCutOff),
            // NOTE: as in HAProxy, what was asked is done although nobody waits for it any more.
            Poll::Ready(Err(_)) => client.stream.give_up_receiving(),
            // A pipelined request waits in the buffer for its turn.
            Poll::Ready(Ok(_)) => context.waker().wake_by_ref(),
            Poll::Pending => {}
        }
        Poll::Pending
    }

    fn hear_interim(&mut self, head: &ResponseHead, context: &mut Context<'_>) -> Result<(), HeadEnd> {
        let stream = &mut *self.client.stream;
        stream.write_interim(head);
        match stream.poll_flush(context) {
            Poll::Ready(Err(_)) => Err(HeadEnd::ClientGone),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    fn poll_room_to_hear(&mut self, context: &mut Context<'_>) -> Poll<Result<(), HeadEnd>> {
        let stream = &mut *self.client.stream;
        if stream.unsent_len() < INTERIM_MAX {
            return Poll::Ready(Ok(()));
        }
        let flushed = stream.poll_flush(context);
        match flushed {
            Poll::Ready(Err(_)) => Poll::Ready(Err(HeadEnd::ClientGone)),
            Poll::Pending if stream.unsent_len() >= INTERIM_MAX => Poll::Pending,
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(())),
        }
    }

    #[inline]
    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}
