//! Waiting for the head of a server's response while the request goes out, and what becomes of a request that gets none.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use balance::Observation;
use http::{Limits, Parsed, ResponseParser};

use super::{Next, Session, head_limits};
use crate::{
    live::LiveProxy,
    registry::{Handle, Order},
    session::{
        body::{BodyPump, PumpFailure},
        size,
        transaction::Transaction,
        upstream::{Upstream, observe},
        wire::Wire,
    },
    worker::Worker,
};

/// How the wait for a response's head ended.
#[derive(Debug)]
pub(super) enum HeadEnd {
    /// The head is there.
    Response,
    /// The server closed before it sent anything.
    Empty,
    /// The server closed or failed in the middle of the head.
    Broken,
    /// What the server sent is no response.
    Junk,
    /// The server took too long.
    Timeout,
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
        cause: u8,
        /// Whether the request had been received whole.
        asked: bool,
    },
}

impl Session {
    pub(super) async fn await_response(
        &mut self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        upstream: &mut Upstream<'_>,
        pump: &mut BodyPump,
    ) -> HeadEnd {
        let settings = backend.settings();
        let server_limit = transaction.server_timeout.get().or(settings.timeouts.server);
        let client_limit = self.side.frontend.settings().timeouts.client;
        let (server, worker) = (&upstream.connection.server, &self.worker);
        let limits = head_limits(&self.instance, settings, server);
        let shut_mark = server.shut_mark();
        let handle = &self.registered.handle;
        let abort_on_close = settings.options.abortonclose;
        let mut waiting = AwaitHead {
            client: &mut self.client,
            server: &mut upstream.connection.wire,
            pump,
            sent: false,
            upload_failed: false,
            parser: ResponseParser::new(),
            limits,
            abort_on_close,
            progress: None,
            worker,
            since: transaction.timeline.connected.unwrap_or_else(|| worker.now()),
        };
        let deadline = &mut self.deadline;
        poll_fn(|context| {
            if let Some(cause) = killed(handle, context).or_else(|| server.shut_cause(shut_mark)) {
                return Poll::Ready(HeadEnd::Killed { cause, asked: waiting.sent });
            }
            if let Poll::Ready(end) = waiting.poll(transaction, context) {
                return Poll::Ready(end);
            }
            // NOTE: as in HAProxy a server has to answer within its time even if the client still owes it the body. Only
            // without that limit is a slow client's own one what counts.
            let on_client = server_limit.is_none() && !waiting.sent && waiting.server.is_flushed();
            let limit = if on_client { client_limit } else { server_limit };
            // NOTE: who is kept waiting by a limit of bandwidth is not late.
            let limit = limit.filter(|_| !waiting.pump.is_paced());
            deadline.set(limit.map(|limit| waiting.since + limit));
            deadline
                .poll_at(waiting.worker.now(), context)
                .map(|()| if on_client { HeadEnd::ClientTimeout } else { HeadEnd::Timeout })
        })
        .await
    }

    pub(super) fn count_response_error(&self, transaction: &Transaction, upstream: &Upstream<'_>, end: &HeadEnd) {
        let worker = self.worker.index;
        let server = &upstream.connection.server;
        server.side.traffic.of(worker).response_errors.increment();
        if matches!(end, HeadEnd::Junk) {
            self.capture_response(transaction, upstream);
        }
        if let Some(backend) = &transaction.backend {
            backend.backend.traffic.of(worker).response_errors.increment();
            if server.config.observe.is_on() {
                let observation = match end {
                    HeadEnd::Timeout => Observation::ReadTimeout,
                    HeadEnd::Junk => Observation::ResponseHeaders,
                    HeadEnd::Empty => Observation::BrokenPipe,
                    _ => Observation::ReadError,
                };
                observe(&self.worker, backend, server.index, observation);
            }
        }
    }

    /// Tells the client that there is no response.
    pub(super) async fn answer_head_end(&mut self, transaction: &mut Transaction, end: &HeadEnd, reused: bool) -> Next {
        match end {
            HeadEnd::Response => Next::Close,
            HeadEnd::Empty | HeadEnd::Broken => {
                transaction.terminate(b'S', b'H');
                // A client that reused its own connection knows to try again; a new one must be told.
                if reused && !self.first && matches!(end, HeadEnd::Empty) {
                    return Next::Close;
                }
                transaction.count_tracked_failure();
                self.answer_error(transaction, 502).await
            }
            HeadEnd::Junk => {
                transaction.terminate(b'P', b'H');
                transaction.count_tracked_failure();
                self.answer_error(transaction, 502).await
            }
            HeadEnd::Timeout => {
                transaction.terminate(b's', b'H');
                transaction.count_tracked_failure();
                self.answer_error(transaction, 504).await
            }
            HeadEnd::ClientCutOff => {
                transaction.terminate(b'C', b'D');
                self.count_client_abort(transaction);
                Next::Close
            }
            HeadEnd::ClientGone => {
                transaction.terminate(b'C', b'H');
                self.count_client_abort(transaction);
                // It may have ended only what it sends.
                transaction.wants_keep_alive = false;
                self.answer_error(transaction, 400).await
            }
            HeadEnd::ClientTimeout => {
                transaction.terminate(b'c', b'H');
                self.count_client_abort(transaction);
                self.answer_error(transaction, 408).await
            }
            HeadEnd::ClientMalformed => {
                transaction.terminate(b'P', b'H');
                self.side.count(self.worker.index, |traffic| &traffic.request_errors);
                self.answer_error(transaction, 400).await
            }
            HeadEnd::Killed { cause, asked: true } => {
                transaction.count_upstream(|traffic| &traffic.response_errors);
                transaction.terminate(*cause, b'H');
                self.answer_error(transaction, 502).await
            }
            HeadEnd::Killed { cause, asked: false } => {
                transaction.terminate(*cause, b'-');
                Next::Close
            }
        }
    }

    /// Counts a transfer that the client gave up.
    pub(super) fn count_client_abort(&self, transaction: &Transaction) {
        let worker = self.worker.index;
        self.side.frontend.frontend.traffic.of(worker).client_aborts.increment();
        if let Some(backend) = &transaction.backend {
            backend.backend.traffic.of(worker).client_aborts.increment();
        }
        if let Some(server) = &transaction.server {
            server.side.traffic.of(worker).client_aborts.increment();
        }
    }
}

fn killed(handle: &Handle, context: &Context<'_>) -> Option<u8> {
    handle.listen(context);
    (handle.order() == Order::Abort).then_some(b'K')
}

/// The request going out and the response's head coming in.
struct AwaitHead<'a> {
    client: &'a mut Wire,
    server: &'a mut Wire,
    pump: &'a mut BodyPump,
    sent: bool,
    upload_failed: bool,
    parser: ResponseParser,
    limits: Limits,
    abort_on_close: bool,
    progress: Option<(u64, usize)>,
    worker: &'a Worker,
    since: Instant,
}

impl AwaitHead<'_> {
    fn poll(&mut self, transaction: &mut Transaction, context: &mut Context<'_>) -> Poll<HeadEnd> {
        if !self.sent
            && !self.upload_failed
            && let Poll::Ready(result) = self.pump.poll(self.client, self.server, context)
        {
            match result {
                Ok(()) => {
                    self.sent = true;
                    self.client.rest();
                }
                // NOTE: the server may have answered already and then closed: its answer counts.
                Err(PumpFailure::Send(_)) => self.upload_failed = true,
                Err(PumpFailure::Malformed(_)) => return Poll::Ready(HeadEnd::ClientMalformed),
                Err(PumpFailure::CutOff | PumpFailure::Receive(_)) => return Poll::Ready(HeadEnd::ClientCutOff),
            }
        }
        if let Poll::Ready(end) = self.poll_head(transaction, context) {
            return Poll::Ready(end);
        }
        if self.sent && !self.client.ended {
            match self.client.poll_receive(context) {
                Poll::Ready(Ok(0)) if self.abort_on_close => return Poll::Ready(HeadEnd::ClientGone),
                Poll::Ready(Err(_)) if self.abort_on_close => return Poll::Ready(HeadEnd::ClientCutOff),
                // NOTE: as in HAProxy, what was asked is done although nobody waits for it any more.
                Poll::Ready(Err(_)) => self.client.ended = true,
                // A pipelined request waits in the buffer for its turn.
                Poll::Ready(Ok(_)) => context.waker().wake_by_ref(),
                Poll::Pending => {}
            }
        }
        let progress = (self.pump.received, self.server.unsent().len());
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
            if !self.server.received.is_empty() {
                match self.parser.parse(self.server.received.bytes(), &self.limits, &mut transaction.response) {
                    Ok(Parsed::Complete { consumed }) => {
                        self.server.received.consume(consumed);
                        transaction.bytes_out += size::of_response(&transaction.response);
                        let status = transaction.response.status();
                        // A 101 that nobody asked for would make the client's next request part of a tunnel.
                        let upgrades = || {
                            transaction.wants_upgrade
                                && http::ConnectionOptions::of(&transaction.response.headers).upgrade
                        };
                        if status == 101 && !upgrades() {
                            return Poll::Ready(HeadEnd::Junk);
                        }
                        if !matches!(status, 100 | 102..=199) {
                            return Poll::Ready(HeadEnd::Response);
                        }
                        if let Some(server) = &transaction.server {
                            let traffic = server.side.traffic.of(transaction.worker);
                            traffic.response(status).increment();
                            traffic.requests.increment();
                        }
                        // RFC 9110 section 15.2: interim responses go through, but not to clients that predate them.
                        if transaction.client_version == http::Version::Http11 {
                            transaction.response.write_to(&mut self.client.output);
                            if let Poll::Ready(Err(_)) = self.client.poll_flush(context) {
                                return Poll::Ready(HeadEnd::ClientGone);
                            }
                        }
                        continue;
                    }
                    Ok(Parsed::Incomplete) if self.server.received.is_full() => return Poll::Ready(HeadEnd::Junk),
                    Ok(Parsed::Incomplete) => {}
                    Err(_) => return Poll::Ready(HeadEnd::Junk),
                }
            }
            match self.server.poll_receive(context) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => {
                    let end = if self.server.received.is_empty() { HeadEnd::Empty } else { HeadEnd::Broken };
                    return Poll::Ready(end);
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
