//! Where the body of an answer comes from.
//!
//! Whoever delivers an answer pulls its body from here and does not know what stands behind: a server's connection, or bytes
//! that are kept.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{BodyLength, Method, ParseError};
use live::{LiveServer, ShutCause};
use net::PlainSocket;

use super::{FileBody, Upstream, object_body::ObjectBody, page_body::PageBody};
use crate::session::body::{BodyPump, Duplex as _, PumpFailure, Sink, Source};

/// A response whose head stands in the transaction.
pub struct Answer<'a> {
    /// The method of the request that it answers.
    pub method: Method,
    /// How long its body is.
    pub length: BodyLength,
    /// The body.
    pub body: AnswerBody<'a>,
}

/// Where the body of an answer comes from.
pub enum AnswerBody<'a> {
    /// A server's connection, to which the rest of the request's body goes meanwhile.
    Server {
        /// The connection.
        upstream: Upstream<'a>,
        /// Whether the server goes on with it.
        keeps: bool,
        /// Whether what the client has still to send of its body goes there.
        takes_body: bool,
    },
    /// Bytes that are kept.
    Stored(StoredBody),
    /// A file, or parts of it.
    File(Box<FileBody<'a>>),
    /// An object of the cache.
    Object(Box<ObjectBody>),
    /// A page of the cache, with what it includes.
    Page(Box<PageBody>),
}

/// A body that is kept in memory, framed as the head says.
#[derive(Clone, Debug)]
pub struct StoredBody {
    bytes: Arc<[u8]>,
    consumed: usize,
    end: usize,
}

impl StoredBody {
    /// All of it is to be delivered.
    #[must_use]
    pub fn new(bytes: Arc<[u8]>) -> Self {
        let end = bytes.len();
        Self { bytes, consumed: 0, end }
    }

    /// A part of it is to be delivered.
    #[must_use]
    pub fn part(bytes: Arc<[u8]>, part: std::ops::Range<u64>) -> Self {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let (consumed, end) = (place(part.start), place(part.end));
        Self { bytes, consumed, end }
    }
}

impl Source for StoredBody {
    #[inline]
    fn received(&self) -> &[u8] {
        self.bytes.get(self.consumed..self.end).unwrap_or_default()
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.consumed += count;
    }

    #[inline]
    fn poll_receive(&mut self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // All there is has been there from the beginning.
        Poll::Ready(Ok(0))
    }

    #[inline]
    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl<'a> AnswerBody<'a> {
    /// What of it has come and was not consumed.
    #[must_use]
    #[inline]
    pub fn received(&self) -> &[u8] {
        match self {
            Self::Server { upstream, .. } => upstream.connection.codec.received(),
            Self::Stored(stored) => stored.received(),
            Self::File(file) => file.received(),
            Self::Object(object) => object.received(),
            Self::Page(page) => page.received(),
        }
    }

    /// Whether no more can come before what has come is consumed.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        match self {
            Self::Server { upstream, .. } => {
                let codec = &upstream.connection.codec;
                codec.has_ended() || codec.is_full()
            }
            Self::Stored(_) => true,
            Self::File(file) => !file.received().is_empty(),
            Self::Object(object) => !object.received().is_empty(),
            Self::Page(page) => !page.received().is_empty(),
        }
    }

    /// Gets more of it.
    #[inline]
    pub fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self {
            Self::Server { upstream, .. } => upstream.connection.codec.poll_receive(context),
            Self::Stored(stored) => stored.poll_receive(context),
            Self::File(file) => file.poll_receive(context),
            Self::Object(object) => object.poll_receive(context),
            Self::Page(page) => page.poll_receive(context),
        }
    }

    /// Puts what has come of it behind what `to` has to send, if it is little.
    ///
    /// # Errors
    /// When a chunked body is malformed.
    #[inline]
    pub fn begin(&mut self, pump: &mut BodyPump, to: &mut impl Sink, most: usize) -> Result<(), ParseError> {
        match self {
            Self::Server { upstream, .. } => {
                let codec = &mut upstream.connection.codec;
                pump.approve(codec)?;
                pump.append_small(codec, to, most);
            }
            Self::Stored(stored) => {
                pump.approve(stored)?;
                pump.append_small(stored, to, most);
            }
            Self::File(file) => {
                pump.approve(&**file)?;
                pump.append_small(&mut **file, to, most);
            }
            Self::Object(object) => {
                // What has come already goes with the head.
                if let Poll::Ready(Err(_)) = object.poll_receive(&mut Context::from_waker(std::task::Waker::noop())) {
                    return Ok(());
                }
                pump.approve(&**object)?;
                pump.append_small(&mut **object, to, most);
            }
            Self::Page(_) => {}
        }
        Ok(())
    }

    /// Moves what can be moved of it; ready once all has been sent.
    #[inline]
    pub fn poll_to(
        &mut self,
        pump: &mut BodyPump,
        to: &mut impl Sink,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PumpFailure>> {
        match self {
            Self::Server { upstream, .. } => pump.poll(&mut upstream.connection.codec, to, context),
            Self::Stored(stored) => pump.poll(stored, to, context),
            Self::File(file) => pump.poll(&mut **file, to, context),
            Self::Object(object) => pump.poll(&mut **object, to, context),
            Self::Page(page) => pump.poll(&mut **page, to, context),
        }
    }

    /// Whether a part of the request is still to be sent to where this comes from.
    #[must_use]
    #[inline]
    pub fn owes_upload(&self) -> bool {
        match self {
            Self::Server { upstream, .. } => !upstream.connection.is_request_sent,
            Self::Stored(_) | Self::File(_) | Self::Object(_) | Self::Page(_) => false,
        }
    }

    /// Moves the rest of the request on to where this comes from; ready once that is over. What the client sends of a body that this
    /// request goes without stays where it is.
    #[inline]
    pub fn poll_upload(
        &mut self,
        up: &mut BodyPump,
        client: &mut impl Source,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PumpFailure>> {
        match self {
            Self::Server { upstream, takes_body, .. } => {
                let connection = &mut *upstream.connection;
                let sent = ready!(match takes_body {
                    true => up.poll(client, &mut connection.codec, context),
                    false => connection.codec.poll_flush(context).map_err(PumpFailure::Send),
                });
                connection.is_request_sent |= sent.is_ok();
                Poll::Ready(sent)
            }
            // Nobody wants it.
            Self::Stored(_) | Self::File(_) | Self::Object(_) | Self::Page(_) => Poll::Ready(Ok(())),
        }
    }

    /// The server it comes from, if it comes from one.
    #[must_use]
    #[inline]
    pub fn server(&self) -> Option<&Arc<LiveServer>> {
        match self {
            Self::Server { upstream, .. } => Some(&upstream.connection.server),
            Self::Stored(_) | Self::File(_) | Self::Object(_) | Self::Page(_) => None,
        }
    }

    /// Whether it may be waited for as for a server's: what comes of a cache is as late as its own fetch may be.
    #[must_use]
    #[inline]
    pub fn may_be_late(&self) -> bool {
        matches!(self, Self::Server { .. } | Self::File(_))
    }

    /// What [`AnswerBody::shut_cause`] compares with.
    #[must_use]
    #[inline]
    pub fn shut_mark(&self) -> u64 {
        self.server().map_or(0, |server| server.shut_mark())
    }

    /// Why it has been ordered to end since the mark was taken, if it has.
    #[must_use]
    #[inline]
    pub fn shut_cause(&self, mark: u64) -> Option<ShutCause> {
        self.server().and_then(|server| server.shut_cause(mark))
    }

    /// Lets others have the place at the server: all of it has come.
    #[inline]
    pub fn free_place(&mut self) {
        match self {
            Self::Server { upstream, .. } => upstream.slot = None,
            Self::Stored(_) | Self::File(_) | Self::Object(_) | Self::Page(_) => {}
        }
    }

    /// The server's connection ends with this body.
    pub fn close_behind(&mut self) {
        if let Self::Server { keeps, .. } = self {
            *keeps = false;
        }
    }

    /// The connection, if it can serve another request: the server goes on with it, and nothing is left on it.
    #[must_use]
    #[inline]
    pub fn into_reusable(self) -> Option<Upstream<'a>> {
        match self {
            Self::Server { upstream, keeps: true, .. } if upstream.connection.is_clean() => Some(upstream),
            Self::Server { .. } | Self::Stored(_) | Self::File(_) | Self::Object(_) | Self::Page(_) => None,
        }
    }
}
