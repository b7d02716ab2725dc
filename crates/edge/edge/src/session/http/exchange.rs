//! Sending a request to a server and receiving the head of its response, with retries.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use balance::{Failure, Observation};
use haproxycfg::model::ConnectionMode;
use http::{BodyLength, BodyTracker, Limits, Method, Parsed, ResponseParser, response_body_length};

use super::{Next, Session, decide::Decision, limits, respond::adjust_case};
use crate::{
    live::LiveProxy,
    net::Deadline,
    registry::{Handle, Order},
    session::{
        body::{BodyPump, PumpFailure},
        filter, size,
        tcp::{self, TcpVerdict},
        transaction::Transaction,
        upstream::{Attempts, Unreachable, Upstream, Wanted, Watch, after_failure, observe, reach, retry_or_give_up},
        wire::Wire,
    },
    worker::Worker,
};

/// Bodies up to this many bytes are sent behind their head from one buffer.
const COPY_MAX: usize = 4_096;

/// How the wait for a response's head ended.
#[derive(Debug)]
enum HeadEnd {
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

/// Counts a request in its backend as long as it lives.
pub struct InBackend<'a>(&'a LiveProxy);

impl<'a> InBackend<'a> {
    /// Counts it in.
    #[must_use]
    pub fn enter(proxy: &'a LiveProxy) -> Self {
        proxy.backend.sessions.increment();
        Self(proxy)
    }
}

impl Drop for InBackend<'_> {
    fn drop(&mut self) {
        self.0.backend.sessions.decrement();
    }
}

impl Session {
    /// A request from its first byte to the end of its response.
    pub(super) async fn run(&mut self, transaction: &mut Transaction) -> Next {
        let body = match self.receive(transaction).await {
            Ok(body) => body,
            Err(failure) => return Box::pin(self.no_request(transaction, &failure)).await,
        };
        match self.decide(transaction, body).await {
            Decision::Done(next) => next,
            Decision::Forward(wanted) => self.forward(transaction, body, wanted).await,
        }
    }

    async fn forward(&mut self, transaction: &mut Transaction, body: BodyLength, mut wanted: Wanted) -> Next {
        let Some(backend) = transaction.backend.clone() else { return Next::Close };
        let _counted = InBackend::enter(&backend);
        let method = transaction.request.method_kind();
        let mut pump = BodyPump::new(body, &self.limits(), false);
        if !body.is_empty() {
            let tune = &self.instance.config.global.tune;
            pump.splice_from(tune.splice_min, tune.pipesize);
        }
        if filter::has_filters(&self.side.frontend, &backend) {
            self.filter_request(transaction, &backend, &mut pump);
        }
        if pump.approve(&self.client).is_err() {
            transaction.terminate(b'P', b'R');
            return Box::pin(self.answer_error(transaction, 400)).await;
        }
        self.prepare(transaction, &backend);
        let mut attempts = Attempts { kept: std::mem::take(&mut self.kept), ..Attempts::default() };
        // What must be sent again with the head if this attempt fails; `None` once that is impossible.
        let replay = pump
            .is_received()
            .then(|| self.client.received.bytes().get(..pump.approved()).unwrap_or_default().to_vec());
        loop {
            let mut watch = Watch {
                client: &mut self.client,
                abort_on_close: backend.settings().options.abortonclose,
                is_tcp: false,
                handle: &self.registered.handle,
            };
            let reached =
                reach(&self.worker, transaction, &backend, &mut wanted, &mut attempts, &mut watch, true).await;
            // No other attempt takes one of these.
            self.kept = std::mem::take(&mut attempts.kept);
            let mut upstream = match reached {
                Ok(upstream) => upstream,
                Err(unreachable) => {
                    self.settle_body(transaction, &mut pump);
                    return Box::pin(self.answer_unreachable(transaction, &unreachable)).await;
                }
            };
            self.write_request(transaction, &backend, &mut upstream, &mut pump, replay.as_deref());
            let end = if backend.settings().tcp_response_content.is_empty() {
                self.await_response(transaction, &backend, &mut upstream, &mut pump).await
            } else {
                match Box::pin(self.inspect_response(transaction, &backend, &mut upstream, &mut pump)).await {
                    Ok(end) => end,
                    Err(next) => return next,
                }
            };
            let end = match end {
                HeadEnd::Response if self.body_is_malformed(transaction, &backend, &upstream, method) => {
                    transaction.bytes_out -= size::of_response(&transaction.response);
                    HeadEnd::Junk
                }
                end => end,
            };
            let failure = match end {
                HeadEnd::Response => {
                    let status = Failure::Status(transaction.response.status());
                    let again = backend.retry.retry_on.contains(status)
                        && replay.is_some()
                        && !transaction.l7_retry_disabled.get()
                        && attempts.failed < backend.retry.retries;
                    if !again {
                        return self.respond(transaction, &backend, upstream, pump, method).await;
                    }
                    status
                }
                HeadEnd::Empty => Failure::EmptyResponse,
                HeadEnd::Broken => Failure::EmptyResponse,
                HeadEnd::Junk => Failure::JunkResponse,
                HeadEnd::Timeout => Failure::ResponseTimeout,
                HeadEnd::ClientGone
                | HeadEnd::ClientCutOff
                | HeadEnd::ClientTimeout
                | HeadEnd::ClientMalformed
                | HeadEnd::Killed { .. } => {
                    return Box::pin(self.give_up(transaction, &mut pump, &end, false)).await;
                }
            };
            let may_resend = replay.is_some() && !transaction.l7_retry_disabled.get();
            if may_resend && backend.retry.retry_on.contains(failure) && attempts.failed < backend.retry.retries {
                // As in HAProxy this counts as a retry wherever it goes, and as an error only if it made no sense.
                transaction.bytes_out = 0;
                let worker = self.worker.index;
                backend.backend.traffic.of(worker).retries.increment();
                upstream.connection.server.side.traffic.of(worker).retries.increment();
            }
            if !may_resend
                || !backend.retry.retry_on.contains(failure)
                || attempts.failed >= backend.retry.retries
                || matches!(end, HeadEnd::Junk)
            {
                self.count_response_error(transaction, &upstream, &end);
            }
            let stale = upstream.reused && matches!(end, HeadEnd::Empty) && method.is_idempotent();
            let Upstream { connection, slot, reused } = upstream;
            drop(connection);
            let Some(slot) = slot else {
                // Without a choice of servers there is only the same place again.
                if may_resend && stale && attempts.failed == 0 && !attempts.fresh {
                    attempts.fresh = true;
                    transaction.resent = true;
                    continue;
                }
                if may_resend && backend.retry.retry_on.contains(failure) && attempts.failed < backend.retry.retries {
                    attempts.failed += 1;
                    transaction.retries += 1;
                    transaction.resent = true;
                    continue;
                }
                return Box::pin(self.give_up(transaction, &mut pump, &end, reused)).await;
            };
            if may_resend && stale && attempts.failed == 0 {
                // A kept connection that its server closed at the same moment: nobody's fault (RFC 9110 section 9.2.2).
                attempts.slot = Some(slot);
                attempts.failed = 0;
                attempts.fresh = true;
            } else {
                if !may_resend || !backend.retry.retry_on.contains(failure) {
                    drop(slot);
                    return Box::pin(self.give_up(transaction, &mut pump, &end, reused)).await;
                }
                let retry = after_failure(&self.worker, &backend, &slot, &wanted, attempts.failed, failure, reused);
                let mut watch = Watch {
                    client: &mut self.client,
                    abort_on_close: backend.settings().options.abortonclose,
                    is_tcp: false,
                    handle: &self.registered.handle,
                };
                let given_up = Box::pin(retry_or_give_up(
                    &self.worker,
                    transaction,
                    &backend,
                    retry,
                    slot,
                    &mut wanted,
                    &mut attempts,
                    &mut watch,
                    Unreachable::NoServer,
                ))
                .await;
                match given_up {
                    Ok(()) => {}
                    Err(Unreachable::NoServer) => {
                        return Box::pin(self.give_up(transaction, &mut pump, &end, reused)).await;
                    }
                    Err(other) => {
                        self.settle_body(transaction, &mut pump);
                        return Box::pin(self.answer_unreachable(transaction, &other)).await;
                    }
                }
            }
            transaction.resent = true;
        }
    }

    /// Shows the request to the filters of its stream.
    fn filter_request(&self, transaction: &mut Transaction, backend: &LiveProxy, pump: &mut BodyPump) {
        filter::choose(transaction, backend);
        filter::tell(transaction, backend, filter::Point::Request);
        if let Some(stages) = transaction.stages(&self.worker, backend, true) {
            pump.stage(stages);
        }
    }

    /// Everything that is added to or taken from a request whatever server it goes to.
    fn prepare(&self, transaction: &mut Transaction, backend: &LiveProxy) {
        let (front, back) = (self.side.frontend.settings(), backend.settings());
        if let Some(name) = &front.unique_id_header
            && let Some(id) = sample::Context::unique_id(transaction).map(|id| id.to_vec())
        {
            transaction.request.headers.add(name.as_bytes(), &id);
        }
        let forwardfor = back.options.forwardfor.as_ref().or(front.options.forwardfor.as_ref());
        if let Some(option) = forwardfor
            && !(option.if_none && transaction.request.headers.contains(option.header.as_bytes()))
            && let Some(source) = transaction.client.source.get()
            && let Some(text) =
                crate::session::rules::forwarded_address(Some(sample::Address::Inet(source)), option.except)
        {
            transaction.request.headers.add(option.header.as_bytes(), text.as_bytes());
        }
        let originalto = back.options.originalto.as_ref().or(front.options.originalto.as_ref());
        if let Some(option) = originalto
            && !(option.if_none && transaction.request.headers.contains(option.header.as_bytes()))
            && let Some(destination) = transaction.destination()
            && let Some(text) =
                crate::session::rules::forwarded_address(Some(sample::Address::Inet(destination)), option.except)
        {
            transaction.request.headers.add(option.header.as_bytes(), text.as_bytes());
        }
        let upgrade = http::wants_upgrade(&transaction.request);
        transaction.wants_upgrade = upgrade;
        http::remove_hop_by_hop(&mut transaction.request.headers, upgrade);
        http::enforce_request_framing(&mut transaction.request);
        // NOTE: a request of HTTP/1.0 stays one. It may lack a Host, without which one of HTTP/1.1 is refused.
    }

    /// Puts the request behind what the server's wire has to send.
    fn write_request(
        &mut self,
        transaction: &mut Transaction,
        backend: &LiveProxy,
        upstream: &mut Upstream<'_>,
        pump: &mut BodyPump,
        replay: Option<&[u8]>,
    ) {
        let settings = backend.settings();
        if let Some(name) = &settings.http_send_name_header
            && transaction.server.is_some()
        {
            let server = &upstream.connection.server.config.name;
            transaction.request.headers.set(name.as_bytes(), server.as_bytes());
        }
        let closes = connection_mode(self.side.frontend.settings().connection_mode, settings.connection_mode)
            != ConnectionMode::KeepAlive
            && !settings.options.http_pretend_keepalive
            && !transaction.wants_upgrade;
        let connection: &[(&[u8], &[u8])] = match (closes, transaction.client_version) {
            (true, http::Version::Http11) => &[(b"connection", b"close")],
            (false, http::Version::Http10) => &[(b"connection", b"keep-alive")],
            _ => &[],
        };
        let wire = &mut upstream.connection.wire;
        self.worker.heads.lend_output(&mut wire.output);
        let adjust = &self.instance.config.global.h1_case_adjust;
        if !adjust.is_empty() && settings.options.h1_case_adjust_bogus_server {
            adjust_case(&mut transaction.request.headers, adjust);
        }
        transaction.request.write_with(&mut wire.output, connection);
        upstream.connection.requests += 1;
        if transaction.resent {
            pump.discard(&mut self.client);
            wire.output.extend_from_slice(replay.unwrap_or_default());
        } else {
            pump.append_small(&mut self.client, wire, COPY_MAX);
        }
    }

    /// Waits for the response like [`Session::await_response`], with the `tcp-response content` rules on the way: they
    /// run when the server is connected and, what they ask about not being there yet, once more when it is or when
    /// `tcp-response inspect-delay` is over.
    async fn inspect_response(
        &mut self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        upstream: &mut Upstream<'_>,
        pump: &mut BodyPump,
    ) -> Result<HeadEnd, Next> {
        let settings = backend.settings();
        let rules = &settings.tcp_response_content;
        let verdict = match settings.tcp_response_inspect_delay {
            None => Some(tcp::response_rules(transaction, rules)),
            Some(_) => tcp::partial_response_rules(transaction, rules),
        };
        let mut head = None;
        let verdict = if let Some(verdict) = verdict {
            verdict
        } else {
            let mut delay = Deadline::default();
            delay.set(settings.tcp_response_inspect_delay.map(|delay| self.worker.now() + delay));
            head = {
                let mut response = std::pin::pin!(self.await_response(transaction, backend, upstream, pump));
                poll_fn(|context| match response.as_mut().poll(context) {
                    Poll::Ready(end) => Poll::Ready(Some(end)),
                    Poll::Pending => delay.poll(context).map(|()| None),
                })
                .await
            };
            match head {
                Some(HeadEnd::Response) => transaction.has_response = true,
                Some(end) => return Ok(end),
                None => {}
            }
            tcp::response_rules(transaction, rules)
        };
        match verdict {
            TcpVerdict::Accept
            | TcpVerdict::ExpectProxy
            | TcpVerdict::ExpectNetscaler
            | TcpVerdict::Resolve(_)
            | TcpVerdict::SwitchToHttp => {}
            TcpVerdict::Close => upstream.connection.wire.stream.shut_both(),
            TcpVerdict::Reject | TcpVerdict::Drop => {
                if verdict == TcpVerdict::Drop {
                    crate::session::silent_drop(&self.client.stream);
                    transaction.terminate(b'P', b'R');
                } else {
                    self.count_denied_response(transaction, backend);
                    transaction.terminate(b'P', b'D');
                }
                if transaction.has_response {
                    transaction.status = transaction.response.status();
                    transaction.bytes_out += upstream.connection.wire.received.bytes().len() as u64;
                }
                return Err(Next::Close);
            }
        }
        match head {
            Some(end) => Ok(end),
            None => Ok(self.await_response(transaction, backend, upstream, pump).await),
        }
    }

    async fn await_response(
        &mut self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        upstream: &mut Upstream<'_>,
        pump: &mut BodyPump,
    ) -> HeadEnd {
        let settings = backend.settings();
        let server_limit = transaction.server_timeout.get().or(settings.timeouts.server);
        let client_limit = self.side.frontend.settings().timeouts.client;
        let limits = limits(&self.instance, settings.options.accept_invalid_http_response);
        let (server, worker) = (&upstream.connection.server, &self.worker);
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

    /// Whether what came of the body together with the response's head makes no sense. As in HAProxy the response counts as
    /// malformed then, and the client gets another one.
    fn body_is_malformed(
        &self,
        transaction: &Transaction,
        backend: &LiveProxy,
        upstream: &Upstream<'_>,
        method: Method,
    ) -> bool {
        let (response, received) = (&transaction.response, &upstream.connection.wire.received);
        if received.is_empty() || !response.headers.contains_known(http::HeaderId::TransferEncoding) {
            return false;
        }
        let limits = limits(&self.instance, backend.settings().options.accept_invalid_http_response);
        let length = response_body_length(response, method);
        length == BodyLength::Chunked && BodyTracker::new(length, &limits).track(received.bytes()).is_err()
    }

    fn count_response_error(&self, transaction: &Transaction, upstream: &Upstream<'_>, end: &HeadEnd) {
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

    /// Ends an exchange that brought no response.
    async fn give_up(
        &mut self,
        transaction: &mut Transaction,
        pump: &mut BodyPump,
        end: &HeadEnd,
        reused: bool,
    ) -> Next {
        self.settle_body(transaction, pump);
        self.answer_head_end(transaction, end, reused).await
    }

    /// Counts what has come of a request's body whose way to a server is over, and notes whether that was all of it.
    pub(super) fn settle_body(&mut self, transaction: &mut Transaction, pump: &mut BodyPump) {
        transaction.bytes_in += std::mem::take(&mut pump.counted);
        if pump.is_received() {
            pump.discard(&mut self.client);
            transaction.request_is_over = true;
        }
    }

    /// Tells the client that there is no response.
    async fn answer_head_end(&mut self, transaction: &mut Transaction, end: &HeadEnd, reused: bool) -> Next {
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

/// The stricter of what frontend and backend say about keeping connections.
#[must_use]
pub(super) fn connection_mode(front: ConnectionMode, back: ConnectionMode) -> ConnectionMode {
    match (front, back) {
        (ConnectionMode::Close, _) | (_, ConnectionMode::Close) => ConnectionMode::Close,
        (ConnectionMode::ServerClose, _) | (_, ConnectionMode::ServerClose) => ConnectionMode::ServerClose,
        _ => ConnectionMode::KeepAlive,
    }
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
                        if status >= 200 || status == 101 {
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
