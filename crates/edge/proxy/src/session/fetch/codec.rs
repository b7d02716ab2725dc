//! How a server's connection carries a request and its answer.

use std::{
    io,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Limits, Parsed, RequestHead, ResponseHead, ResponseParser};
use live::LiveServer;
use logs::WorkerLog;
use net::{PlainSocket, Stream};

use super::{
    HeadEnd, multiplexed,
    program::{ProgramRequest, cgi::Cgi, fastcgi, fastcgi::FastCgi, gateway::GatewayConnection},
};
use crate::session::{
    body::{Duplex, Failed, Sink, Source},
    protocol::Protocol,
    wire::Wire,
};

/// The head of a request on its way to a server.
#[derive(Clone, Debug)]
pub struct OutgoingHead<'a> {
    /// The head.
    pub head: &'a RequestHead,
    /// More fields, behind its own.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// Whether it was asked for by `https`.
    pub is_secure: bool,
    /// The request as a FastCGI application is told of it, or the status of the answer that it gets instead.
    pub program: Option<Result<ProgramRequest, u16>>,
}

/// One exchange's part of a connection to a server: the request is put there, and the body of the answer is pulled from it. Bodies
/// are framed as HTTP/1 frames them.
pub trait ServerCodec: Duplex {
    /// Puts a request's head behind what waits to be sent.
    fn write_request(&mut self, request: &OutgoingHead<'_>);

    /// Gets the next head of the answer: of an interim response, or of the one that counts.
    ///
    /// # Errors
    /// Why there is none.
    fn poll_head(
        &mut self,
        parser: &mut ResponseParser,
        limits: &Limits,
        head: &mut ResponseHead,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HeadEnd>>;

    /// Whether nothing is left of an exchange, and the server goes on.
    fn is_clean(&self) -> bool;

    /// Whether the server has ended it meanwhile, or sent what nobody has asked for.
    fn is_stale(&self) -> bool;

    /// Takes leave of the task that used it, and of the memory that the exchange needed.
    fn leave(&mut self);

    /// Ends both directions; what has been received can still be read.
    fn shut(&self);
}

impl ServerCodec for Wire {
    #[inline]
    fn write_request(&mut self, request: &OutgoingHead<'_>) {
        request.head.write_with(&mut self.output, request.fields);
    }

    fn poll_head(
        &mut self,
        parser: &mut ResponseParser,
        limits: &Limits,
        head: &mut ResponseHead,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HeadEnd>> {
        loop {
            if !self.received.is_empty() {
                match parser.parse(self.received.bytes(), limits, head) {
                    Ok(Parsed::Complete { consumed }) => {
                        self.received.consume(consumed);
                        return Poll::Ready(Ok(()));
                    }
                    Ok(Parsed::Incomplete) if self.received.is_full() => return Poll::Ready(Err(HeadEnd::Junk)),
                    Ok(Parsed::Incomplete) => {}
                    Err(_) => return Poll::Ready(Err(HeadEnd::Junk)),
                }
            }
            match self.poll_receive(context) {
                Poll::Ready(Ok(0) | Err(_)) => {
                    let end = if self.received.is_empty() { HeadEnd::Empty } else { HeadEnd::Broken };
                    return Poll::Ready(Err(end));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    #[inline]
    fn is_clean(&self) -> bool {
        self.is_flushed() && self.received.is_empty() && !self.ended
    }

    #[inline]
    fn is_stale(&self) -> bool {
        // The runtime refuses to try what cannot get anywhere as far as it knows.
        let mut byte = [0];
        !matches!(self.stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    #[inline]
    fn leave(&mut self) {
        Wire::leave(self);
    }

    fn shut(&self) {
        self.stream.shut_both();
    }
}

/// What the connections to servers speak.
#[derive(Debug)]
pub enum Codec {
    /// HTTP/1, or bytes that are no HTTP at all.
    Http1(Wire),
    /// HTTP/2: a part of a connection.
    Http2(multiplexed::Stream),
    /// FastCGI, one request at a time.
    FastCgi(Box<FastCgi>),
    /// FastCGI: a part of a connection.
    FastCgiShared(Box<fastcgi::Stream>),
    /// SCGI or uwsgi, for one request.
    Gateway(Box<GatewayConnection>),
    /// The pipes of a program that answers one request.
    Cgi(Box<Cgi>),
    /// What servers of tests speak.
    #[cfg(test)]
    Framed(super::framed::Framed),
}

macro_rules! each {
    ($self:expr, $codec:ident => $body:expr) => {
        match $self {
            Codec::Http1($codec) => $body,
            Codec::Http2($codec) => $body,
            Codec::FastCgi(boxed) => {
                let $codec = &mut **boxed;
                $body
            }
            Codec::FastCgiShared(boxed) => {
                let $codec = &mut **boxed;
                $body
            }
            Codec::Gateway(boxed) => {
                let $codec = &mut **boxed;
                $body
            }
            Codec::Cgi(boxed) => {
                let $codec = &mut **boxed;
                $body
            }
            #[cfg(test)]
            Codec::Framed($codec) => $body,
        }
    };
}

macro_rules! each_ref {
    ($self:expr, $codec:ident => $body:expr) => {
        match $self {
            Codec::Http1($codec) => $body,
            Codec::Http2($codec) => $body,
            Codec::FastCgi(boxed) => {
                let $codec = &**boxed;
                $body
            }
            Codec::FastCgiShared(boxed) => {
                let $codec = &**boxed;
                $body
            }
            Codec::Gateway(boxed) => {
                let $codec = &**boxed;
                $body
            }
            Codec::Cgi(boxed) => {
                let $codec = &**boxed;
                $body
            }
            #[cfg(test)]
            Codec::Framed($codec) => $body,
        }
    };
}

impl Codec {
    /// That of a connection which was just opened: its sides may have agreed on one. In TCP mode it is nobody's business what they
    /// speak.
    #[must_use]
    pub fn of(wire: Wire, is_http: bool) -> Self {
        match wire.stream.protocol().filter(|_| is_http) {
            #[cfg(test)]
            Some(super::framed::NAME) => Self::Framed(super::framed::Framed::new(wire)),
            _ => Self::Http1(wire),
        }
    }

    /// FastCGI on a connection, on which nothing has been asked if it is fresh.
    #[must_use]
    pub fn fastcgi(
        wire: Wire,
        keeps_connection: bool,
        server: &Arc<LiveServer>,
        (is_fresh, log): (bool, &WorkerLog),
    ) -> Self {
        let settings = ::fastcgi::Settings { keeps_connection, requests_max: 1 };
        Self::FastCgi(Box::new(FastCgi::new(wire, settings, server, is_fresh, log)))
    }

    /// Which HTTP that is.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Http1(_) | Self::FastCgi(_) | Self::FastCgiShared(_) | Self::Gateway(_) | Self::Cgi(_) => {
                Protocol::Http1
            }
            Self::Http2(_) => Protocol::Http2,
            #[cfg(test)]
            Self::Framed(_) => Protocol::Http1,
        }
    }

    /// Whether it is a part of a connection that carries several exchanges.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Http2(_) | Self::FastCgiShared(_))
    }

    /// Whether it knows by itself where an answer ends.
    #[must_use]
    pub fn ends_answers(&self) -> bool {
        matches!(self, Self::FastCgi(_) | Self::FastCgiShared(_) | Self::Gateway(_) | Self::Cgi(_))
    }

    /// The stream on which it comes; none where it is no stream.
    #[must_use]
    pub fn stream(&self) -> Option<&Rc<Stream>> {
        match self {
            Self::Http1(wire) => Some(&wire.stream),
            Self::Http2(stream) => Some(&stream.connection().carrier.stream),
            Self::FastCgiShared(stream) => Some(&stream.connection().carrier.stream),
            Self::FastCgi(connection) => Some(connection.stream()),
            Self::Gateway(connection) => Some(connection.stream()),
            Self::Cgi(_) => None,
            #[cfg(test)]
            Self::Framed(framed) => Some(framed.stream()),
        }
    }
}

impl Source for Codec {
    #[inline]
    fn received(&self) -> &[u8] {
        each_ref!(self, codec => codec.received())
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        each!(self, codec => codec.consume(count));
    }

    #[inline]
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        each!(self, codec => codec.poll_receive(context))
    }

    #[inline]
    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        each!(self, codec => Source::plain_socket(codec))
    }

    #[inline]
    fn may_trail(&self) -> bool {
        each_ref!(self, codec => codec.may_trail())
    }

    fn poll_trailers(&mut self, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        each!(self, codec => codec.poll_trailers(context))
    }
}

impl Sink for Codec {
    #[inline]
    fn waiting(&mut self) -> &mut Vec<u8> {
        each!(self, codec => codec.waiting())
    }

    #[inline]
    fn unsent_len(&self) -> usize {
        each_ref!(self, codec => codec.unsent_len())
    }

    #[inline]
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, codec => codec.poll_flush(context))
    }

    #[inline]
    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        each!(self, codec => codec.poll_send(bytes, context))
    }

    #[inline]
    fn plain_socket(&self) -> Option<PlainSocket<'_>> {
        each_ref!(self, codec => Sink::plain_socket(codec))
    }

    #[inline]
    fn await_trailers(&mut self) -> bool {
        each!(self, codec => codec.await_trailers())
    }

    fn put_trailers(&mut self, lines: &[u8]) {
        each!(self, codec => codec.put_trailers(lines));
    }

    #[inline]
    fn may_refuse(&self) -> bool {
        each_ref!(self, codec => codec.may_refuse())
    }

    fn note_failure(&mut self, error: io::Error) -> io::Error {
        each!(self, codec => Sink::note_failure(codec, error))
    }
}

impl Duplex for Codec {
    #[inline]
    fn has_ended(&self) -> bool {
        each_ref!(self, codec => codec.has_ended())
    }

    #[inline]
    fn is_full(&self) -> bool {
        each_ref!(self, codec => codec.is_full())
    }

    #[inline]
    fn rest(&mut self) {
        each!(self, codec => Duplex::rest(codec));
    }

    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, codec => codec.poll_shut(context))
    }

    fn failed(&self) -> Failed {
        each_ref!(self, codec => codec.failed())
    }

    fn break_off(&mut self) {
        each!(self, codec => codec.break_off());
    }
}

impl ServerCodec for Codec {
    #[inline]
    fn write_request(&mut self, request: &OutgoingHead<'_>) {
        each!(self, codec => codec.write_request(request));
    }

    #[inline]
    fn poll_head(
        &mut self,
        parser: &mut ResponseParser,
        limits: &Limits,
        head: &mut ResponseHead,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HeadEnd>> {
        each!(self, codec => codec.poll_head(parser, limits, head, context))
    }

    #[inline]
    fn is_clean(&self) -> bool {
        each_ref!(self, codec => codec.is_clean())
    }

    #[inline]
    fn is_stale(&self) -> bool {
        each_ref!(self, codec => codec.is_stale())
    }

    #[inline]
    fn leave(&mut self) {
        each!(self, codec => codec.leave());
    }

    fn shut(&self) {
        each_ref!(self, codec => codec.shut());
    }
}
