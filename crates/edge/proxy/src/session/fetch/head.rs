//! Waiting for the head of a server's response while the request goes out.

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
    time::Instant,
};

use balance::{Failure, Observation};
use http::{Limits, ResponseParser};
use live::ShutCause;

use super::{Codec, Fetch, HttpRequester, ServerCodec as _, Upstream, observe};
use crate::{
    session::{
        body::{PumpFailure, Sink as _},
        ending::{Ending, Stage},
        size,
        transaction::Transaction,
        websocket,
    },
    worker::Worker,
};

/// How the wait for a response's head ended.
#[derive(Debug)]
pub enum HeadEnd {
    /// The head is there.
    Response,
    /// The server closed before it sent anything.
    Empty,
    /// The server has said that it has not begun with the request.
    NotProcessed,
    /// The server closed or failed in the middle of the head.
    Broken,
    /// What the server sent is no response.
    Junk,
    /// The server took too long.
    Timeout,
    /// It does not go to the server: the client gets an answer with this status.
    Refused(u16),
    /// The client left.
    ClientGone,
    /// The client left within its body.
    ClientCutOff,
    /// The client took too long with its body.
    ClientTimeout,
    /// The client's body is malformed.
    ClientMalformed,
    /// It was told to end, because its server went down or by an administrator.
    Killed {
        /// Which of these, for the log.
        cause: ShutCause,
        /// Whether the request had been received whole.
        asked: bool,
        /// Whether all sessions of its server were told to end.
        with_server: bool,
    },
}

impl HeadEnd {
    /// How a transaction ends for which this was the last attempt.
    #[must_use]
    pub fn ending(&self) -> Ending {
        match self {
            Self::Response => Ending::Completed,
            Self::Empty | Self::NotProcessed => Ending::NoResponse,
            Self::Broken => Ending::ServerFailed(Stage::Headers),
            Self::Junk => Ending::ResponseMalformed,
            Self::Timeout => Ending::ServerTimedOut(Stage::Headers),
            Self::Refused(_) => Ending::Refused(Stage::Request),
            Self::ClientGone => Ending::ClientLeft(Stage::Headers),
            Self::ClientCutOff => Ending::ClientLeft(Stage::Data),
            Self::ClientTimeout => Ending::ClientTimedOut(Stage::Headers),
            Self::ClientMalformed => Ending::RequestMalformed(Stage::Headers),
            Self::Killed { cause, asked, .. } => Ending::Shut(*cause, asked.then_some(Stage::Headers)),
        }
    }
}

impl HeadEnd {
    /// What it is to the retry policy; `None` where no other attempt is made, whatever the configuration says.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        match self {
            // NOTE: as in HAProxy, a server that goes down has not answered: another one may be asked. Only where
            // `retry-on` says so, though: nothing says that the request was not carried out.
            Self::Killed { asked: true, with_server: true, .. } => Some(Failure::BrokenResponse),
            Self::NotProcessed => Some(Failure::NotProcessed),
            _ => self.ending().failure(),
        }
    }
}

impl Fetch<'_, '_> {
    pub(super) async fn await_response(
        &mut self,
        transaction: &mut Transaction,
        upstream: &mut Upstream<'_>,
        requester: &mut impl HttpRequester,
    ) -> HeadEnd {
        let settings = self.attempts.proxy.settings();
        let server_limit = transaction.by_rules.server_timeout.get().or(settings.timeouts.server);
        let client_limit = requester.timeout();
        let (server, worker) = (&upstream.connection.server, self.attempts.worker);
        let limits = transaction.head_limits(settings, server);
        let shut_mark = server.shut_mark();
        let mut waiting = AwaitHead {
            requester,
            server: &mut upstream.connection.codec,
            sent: false,
            upload_failed: false,
            has_told: false,
            parser: ResponseParser::new(),
            limits,
            progress: None,
            worker,
            since: transaction.timeline.connected.unwrap_or_else(|| worker.now()),
        };
        let deadline = &mut *self.deadline;
        let end = poll_fn(|context| {
            let by_order = waiting.requester.poll_order(context);
            if let Some(cause) = by_order.or_else(|| server.shut_cause(shut_mark)) {
                let with_server = by_order.is_none();
                return Poll::Ready(HeadEnd::Killed { cause, asked: waiting.sent, with_server });
            }
            if let Poll::Ready(end) = waiting.poll(transaction, context) {
                return Poll::Ready(end);
            }
            // NOTE: as in HAProxy a server has to answer within its time even if the client still owes it the body. Only
            // without that limit is a slow client's own one what counts.
            let on_client = server_limit.is_none() && !waiting.sent && waiting.server.unsent_len() == 0;
            let limit = if on_client { client_limit } else { server_limit };
            // NOTE: who is kept waiting by a limit of bandwidth is not late.
            let limit = limit.filter(|_| !waiting.requester.is_paced());
            deadline.set(limit.map(|limit| waiting.since + limit));
            deadline
                .poll_at(waiting.worker.now(), context)
                .map(|()| if on_client { HeadEnd::ClientTimeout } else { HeadEnd::Timeout })
        })
        .await;
        upstream.connection.is_request_sent = waiting.sent;
        end
    }

    /// Counts a response that failed, and tells the server's health.
    pub(super) fn count_response_error(&self, transaction: &Transaction, upstream: &Upstream<'_>, end: &HeadEnd) {
        let (worker, backend) = (self.attempts.worker, self.attempts.proxy);
        let server = &upstream.connection.server;
        server.side.traffic.of(worker.index).response_errors.increment();
        if matches!(end, HeadEnd::Junk) {
            transaction.keep_invalid_response(backend, upstream);
        }
        backend.backend.traffic.of(worker.index).response_errors.increment();
        if server.config.observe.is_on() {
            let observation = match end {
                HeadEnd::Timeout => Observation::ReadTimeout,
                HeadEnd::Junk => Observation::ResponseHeaders,
                HeadEnd::Empty | HeadEnd::NotProcessed => Observation::BrokenPipe,
                _ => Observation::ReadError,
            };
            observe(worker, backend, server.index, observation);
        }
    }
}

/// The request going out and the response's head coming in.
struct AwaitHead<'a, R> {
    requester: &'a mut R,
    server: &'a mut Codec,
    sent: bool,
    upload_failed: bool,
    /// An interim response has come: others wait until this one is on its way.
    has_told: bool,
    parser: ResponseParser,
    limits: Limits,
    progress: Option<(u64, usize)>,
    worker: &'a Worker,
    since: Instant,
}

impl<R: HttpRequester> AwaitHead<'_, R> {
    fn poll(&mut self, transaction: &mut Transaction, context: &mut Context<'_>) -> Poll<HeadEnd> {
        if !self.sent
            && !self.upload_failed
            && let Poll::Ready(result) = self.requester.poll_body(self.server, context)
        {
            match result {
                Ok(()) => self.sent = true,
                // NOTE: the server may have answered already and then closed: its answer counts.
                Err(PumpFailure::Send(_)) => self.upload_failed = true,
                Err(PumpFailure::Malformed(_)) => return Poll::Ready(HeadEnd::ClientMalformed),
                Err(PumpFailure::CutOff | PumpFailure::Receive(_)) => return Poll::Ready(HeadEnd::ClientCutOff),
            }
        }
        if let Poll::Ready(end) = self.poll_head(transaction, context) {
            return Poll::Ready(end);
        }
        if self.sent
            && let Poll::Ready(end) = self.requester.poll_waiting(context)
        {
            return Poll::Ready(end);
        }
        let progress = (self.requester.body_received(), self.server.unsent_len());
        if self.progress != Some(progress) {
            // NOTE: the first look only notes where it stands: nothing has been waited for yet.
            if self.progress.replace(progress).is_some() {
                self.since = self.worker.now();
            }
        }
        Poll::Pending
    }

    fn poll_head(&mut self, transaction: &mut Transaction, context: &mut Context<'_>) -> Poll<HeadEnd> {
        loop {
            if self.has_told
                && let Err(end) = ready!(self.requester.poll_room_to_hear(context))
            {
                return Poll::Ready(end);
            }
            let (limits, response) = (&self.limits, &mut transaction.response);
            if let Err(end) = ready!(self.server.poll_head(&mut self.parser, limits, response, context)) {
                return Poll::Ready(end);
            }
            transaction.bytes_out += size::of_response(&transaction.response);
            let status = transaction.response.status();
            // A 101 that nobody asked for would make the client's next request part of a tunnel.
            let upgrades = || {
                let Transaction { asked, request, response, .. } = &*transaction;
                let is_agreed = !asked.makes_key || websocket::is_agreed(request, response);
                asked.wants_upgrade && http::switches_protocols(&response.headers) && is_agreed
            };
            if status == 101 && !upgrades() {
                return Poll::Ready(HeadEnd::Junk);
            }
            if !matches!(status, 100 | 102..=199) {
                return Poll::Ready(HeadEnd::Response);
            }
            if let Some(server) = &transaction.route.server {
                let traffic = server.side.traffic.of(transaction.worker);
                traffic.response(status).increment();
                traffic.requests.increment();
            }
            // NOTE: clients that predate interim responses do not hear of them.
            if transaction.asked.version == http::Version::Http11 {
                self.has_told = true;
                if let Err(end) = self.requester.hear_interim(&transaction.response, context) {
                    return Poll::Ready(end);
                }
            }
        }
    }
}
