//! For whom a server is asked.
//!
//! A fetch knows no client. What it has to know of whoever waits for it is a [`Requester`]: a client's connection mostly,
//! [`Nobody`] where something is fetched that no client waits for.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::ResponseHead;
use live::{LiveProxy, LiveServer, ShutCause};

use super::{HeadEnd, Unreachable};
use crate::session::body::{PumpFailure, Sink};

/// For whom a server is reached. It may leave while something is waited for.
pub trait Requester {
    /// Ready when the wait for a server is to end because of it.
    fn poll_leaving(&mut self, context: &mut Context<'_>) -> Poll<Unreachable>;

    /// Whether a client waits for it. What is asked for nobody can always be asked again, so it may go on any idle connection.
    fn is_client(&self) -> bool {
        true
    }

    /// Whether it has sent something that nobody has taken yet.
    fn has_spoken(&mut self) -> bool;

    /// Notes where it is led, for those who look at connections from outside.
    fn goes_to(&self, proxy: &Arc<LiveProxy>, server: &Arc<LiveServer>);
}

/// A requester of HTTP: it has the body of the request, and may hear of interim responses.
pub trait HttpRequester: Requester {
    /// Why it was told to end, if it was; otherwise the task is woken then.
    fn poll_order(&self, context: &Context<'_>) -> Option<ShutCause>;

    /// Whether all of the body is there to be sent again.
    fn can_resend(&self) -> bool;

    /// Whether all is there that has been sent of the body, so that it can be sent again to a server that has not begun with it.
    fn can_go_elsewhere(&self) -> bool {
        self.can_resend()
    }

    /// Puts what there is of the body behind the head, where that saves a system call; all of it if it is sent again.
    fn begin_body(&mut self, to: &mut impl Sink, is_resent: bool);

    /// Moves the body; ready once all of it has been sent.
    fn poll_body(&mut self, to: &mut impl Sink, context: &mut Context<'_>) -> Poll<Result<(), PumpFailure>>;

    /// Whether the body comes while it is sent: what has not been sent when the response comes is moved by whoever delivers that.
    fn streams_body(&self) -> bool;

    /// Bytes of the body that have come so far: it is not silent as long as they grow.
    fn body_received(&self) -> u64;

    /// Whether the body waits for a limit of bandwidth.
    fn is_paced(&self) -> bool;

    /// Ready when the wait for a response is to end because of it. Asked once the request has been sent.
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<HeadEnd>;

    /// Hears of an interim response (RFC 9110 section 15.2).
    ///
    /// # Errors
    /// When it has left.
    fn hear_interim(&mut self, head: &ResponseHead, context: &mut Context<'_>) -> Result<(), HeadEnd>;

    /// Ready once there is room for one more of them.
    ///
    /// # Errors
    /// When it has left.
    fn poll_room_to_hear(&mut self, context: &mut Context<'_>) -> Poll<Result<(), HeadEnd>>;

    /// How long it may owe the body.
    fn timeout(&self) -> Option<Duration>;
}

/// What is done with interim responses.
pub type HearInterim = Box<dyn FnMut(&ResponseHead)>;

/// No client waits for what is fetched.
#[derive(Default)]
pub struct Nobody {
    /// The body of the request, framed as its head says.
    pub body: Vec<u8>,
    /// Hears of interim responses.
    pub interim: Option<HearInterim>,
}

impl Requester for Nobody {
    fn poll_leaving(&mut self, _: &mut Context<'_>) -> Poll<Unreachable> {
        Poll::Pending
    }

    fn is_client(&self) -> bool {
        false
    }

    fn has_spoken(&mut self) -> bool {
        true
    }

    fn goes_to(&self, _: &Arc<LiveProxy>, _: &Arc<LiveServer>) {}
}

impl HttpRequester for Nobody {
    fn poll_order(&self, _: &Context<'_>) -> Option<ShutCause> {
        None
    }

    fn can_resend(&self) -> bool {
        true
    }

    fn begin_body(&mut self, to: &mut impl Sink, _: bool) {
        to.waiting().extend_from_slice(&self.body);
    }

    fn poll_body(&mut self, to: &mut impl Sink, context: &mut Context<'_>) -> Poll<Result<(), PumpFailure>> {
        to.poll_flush(context).map_err(PumpFailure::Send)
    }

    fn streams_body(&self) -> bool {
        false
    }

    fn body_received(&self) -> u64 {
        0
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn poll_waiting(&mut self, _: &mut Context<'_>) -> Poll<HeadEnd> {
        Poll::Pending
    }

    fn hear_interim(&mut self, head: &ResponseHead, _: &mut Context<'_>) -> Result<(), HeadEnd> {
        if let Some(interim) = &mut self.interim {
            interim(head);
        }
        Ok(())
    }

    fn poll_room_to_hear(&mut self, _: &mut Context<'_>) -> Poll<Result<(), HeadEnd>> {
        Poll::Ready(Ok(()))
    }

    fn timeout(&self) -> Option<Duration> {
        None
    }
}
