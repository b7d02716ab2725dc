//! Passing a server's response on to the client: rules, head, body or tunnel.

use std::{collections::BTreeMap, future::poll_fn, rc::Rc, sync::Arc, task::Poll, time::Duration};

use haproxycfg::model::{ConnectionMode, HttpReuse, Proxy};
use http::{BodyLength, Headers, Method, response_body_length};
use sample::{Context, Direction};

use super::{Next, Session, decide::Peeked, exchange::connection_mode, limits};
use crate::{
    live::LiveProxy,
    pool::ServerConnection,
    registry::Order,
    session::{
        body::{BodyPump, PumpFailure},
        filter::{self, Compression, Stages},
        logging, persistence,
        rules::{self, Phase, Verdict},
        size,
        transaction::Transaction,
        upstream::{Upstream, observe},
    },
    stick,
    tunnel::{self, TunnelSetup, TunnelTimeouts},
};

/// Bodies up to this many bytes are sent behind their head from one buffer.
const COPY_MAX: usize = 4_096;

/// How the transfer of a response ended.
enum Transfer {
    /// Whole.
    Done,
    /// The server failed.
    Server(PumpFailure),
    /// The client failed.
    Client,
    /// The server was too slow.
    ServerTimeout,
    /// The client was too slow.
    ClientTimeout,
    /// It was told to end.
    Killed(u8),
}

impl Session {
    /// Passes a server's response on.
    pub(super) async fn respond(
        &mut self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        mut upstream: Upstream<'_>,
        mut up: BodyPump,
        method: Method,
    ) -> Next {
        transaction.has_response = true;
        let received = self.worker.now();
        transaction.timeline.response = Some(received);
        self.side.variables.borrow_mut().start_response();
        let status = transaction.response.status();
        self.count_server_response(backend, &upstream, status);
        if transaction.has_tables {
            transaction.count_tracked_status(status);
            stick::store(transaction, backend);
        }
        let length = response_body_length(&transaction.response, method);
        let server_keeps = http::keep_alive(transaction.response.version(), &transaction.response.headers);
        http::remove_persistence(&mut transaction.response.headers);
        let side = Rc::clone(&self.side);
        let frontend = &side.frontend;
        capture_response(transaction, frontend.settings());
        let filtered = filter::has_filters(frontend, backend);
        if filtered {
            filter::judge(&self.worker, transaction, backend, length);
        }
        // NOTE: what is rare is boxed, here and elsewhere, so that every request need not have room for it.
        if !(backend.settings().http_response.is_empty() && frontend.settings().http_response.is_empty()) {
            let source = Some(Source { upstream: &mut upstream, up: &mut up, length });
            if let Some(next) = Box::pin(self.response_rules(transaction, backend, source)).await {
                return next;
            }
        }
        if !persistence::finish_response(&self.worker, transaction, frontend.settings(), backend) {
            self.count_denied_response(transaction, backend);
            transaction.terminate(b'P', b'H');
            self.settle_body(transaction, &mut up);
            return Box::pin(self.answer_error(transaction, 502)).await;
        }
        if http::begins_tunnel(status, method) {
            return Box::pin(self.tunnel(transaction, backend, upstream)).await;
        }
        let mode = connection_mode(frontend.settings().connection_mode, backend.settings().connection_mode);
        let decode = length == BodyLength::Chunked && transaction.client_version == http::Version::Http10;
        let client_keeps = transaction.wants_keep_alive
            && mode != ConnectionMode::Close
            && length != BodyLength::UntilClose
            && !decode
            && up.is_received()
            && !self.is_leaving();
        http::remove_hop_by_hop(&mut transaction.response.headers, false);
        let mut shown = frame(transaction, method, length, decode);
        if !self.after_response(transaction, backend.settings()) {
            self.settle_body(transaction, &mut up);
            return Box::pin(self.internal_error(transaction, b'H')).await;
        }
        if !(frontend.settings().http_after_response.is_empty() && backend.settings().http_after_response.is_empty()) {
            shown = frame(transaction, method, length, decode);
        }
        // A body that the client is not to get stays on the server's connection, which ends with it.
        let hides = shown == BodyLength::None && !length.is_empty();
        let client_keeps = client_keeps && !matches!(transaction.response.status(), 100..=199);
        if hides && let BodyLength::Exact(hidden) = length {
            // As in HAProxy it counts all the same.
            transaction.bytes_out += hidden;
        }
        let length = if hides { BodyLength::None } else { length };
        let stages = if filtered { self.filter_response(transaction, backend, length) } else { None };
        self.write_head(transaction, client_keeps);
        self.log_early(transaction, upstream.connection.wire.received.bytes().len());
        let server_limits = limits(&self.instance, backend.settings().options.accept_invalid_http_response);
        let mut down = BodyPump::new(length, &server_limits, decode);
        let tune = &self.instance.config.global.tune;
        if let Some(stages) = stages {
            down.stage(stages);
        }
        if length != BodyLength::None {
            down.splice_from(tune.splice_min, tune.pipesize);
        }
        let transfer = self.transfer(transaction, backend, &mut upstream, &mut up, &mut down).await;
        if up.spliced + down.spliced > 0 {
            self.count_spliced(backend, &up, &down);
        }
        transaction.bytes_out += down.counted;
        transaction.bytes_in += std::mem::take(&mut up.counted);
        match transfer {
            Transfer::Done => {
                let whole_request = up.is_received() && up.approved() == 0;
                let server_keeps = server_keeps
                    && whole_request
                    && !hides
                    && mode == ConnectionMode::KeepAlive
                    && length != BodyLength::UntilClose
                    && upstream.connection.wire.received.is_empty();
                if server_keeps {
                    self.keep(upstream, backend);
                }
                if client_keeps {
                    Next::KeepAlive
                } else if whole_request {
                    self.end_of_answer()
                } else {
                    Next::Linger
                }
            }
            failed => self.broken_transfer(transaction, backend, &upstream, &failed),
        }
    }

    fn count_spliced(&self, backend: &LiveProxy, up: &BodyPump, down: &BodyPump) {
        let worker = self.worker.index;
        self.worker.traffic().bytes_spliced.add(up.spliced + down.spliced);
        for traffic in [self.side.frontend.frontend.traffic.of(worker), backend.backend.traffic.of(worker)] {
            traffic.spliced_in.add(up.spliced);
            traffic.spliced_out.add(down.spliced);
        }
    }

    /// Shows the response to the filters of its stream; what they put its body through.
    fn filter_response(
        &self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        length: BodyLength,
    ) -> Option<Box<Stages>> {
        let mut stages = transaction.stages(&self.worker, backend, false);
        if let Some(compression) = Compression::begin(&self.worker, transaction, backend) {
            let limits = limits(&self.instance, backend.settings().options.accept_invalid_http_response);
            let chunked = (length == BodyLength::Chunked).then_some(&limits);
            stages.get_or_insert_default().compress(compression, chunked);
        }
        filter::tell(transaction, backend, filter::Point::Response);
        stages.filter(|_| length != BodyLength::None)
    }

    pub(super) fn end_of_answer(&self) -> Next {
        // Bytes that nobody will read would turn the close into a reset.
        if self.client.received.is_empty() { Next::Close } else { Next::Linger }
    }

    fn count_server_response(&self, backend: &LiveProxy, upstream: &Upstream<'_>, status: u16) {
        let worker = self.worker.index;
        let server = &upstream.connection.server;
        let now = self.worker.now_ms();
        server.last_session_ms.store(now, std::sync::atomic::Ordering::Relaxed);
        backend.last_session_ms.store(now, std::sync::atomic::Ordering::Relaxed);
        server.side.traffic.of(worker).response(status).increment();
        server.side.traffic.of(worker).requests.increment();
        if server.config.observe.is_on() {
            let good = matches!(status, 100..=499 | 501 | 505);
            let seen = if good { balance::Observation::ResponseOk } else { balance::Observation::ResponseStatus };
            observe(&self.worker, backend, server.index, seen);
        }
    }

    pub(in crate::session) fn count_denied_response(&self, transaction: &Transaction, backend: &LiveProxy) {
        let worker = self.worker.index;
        backend.backend.traffic.of(worker).denied_responses.increment();
        self.side.count(worker, |traffic| &traffic.denied_responses);
        if let Some(server) = &transaction.server {
            server.side.traffic.of(worker).denied_responses.increment();
        }
    }

    /// Runs `http-response` rules: the backend's first, then the frontend's. `Some` when they have answered. The body of
    /// what a service made, which has no source, is there already.
    pub(super) async fn response_rules(
        &mut self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        mut source: Option<Source<'_, '_>>,
    ) -> Option<Next> {
        if self.instance.config.asks_response_body
            && let Some(Source { upstream, length, .. }) = &source
        {
            let limits = limits(&self.instance, backend.settings().options.accept_invalid_http_response);
            tell(Peeked::at(upstream.connection.wire.received.bytes(), *length, &limits), transaction);
        }
        let frontend = Arc::clone(&self.side.frontend);
        let both = [backend, &frontend];
        let sets = if Arc::ptr_eq(backend, &frontend) { both.get(..1) } else { both.get(..) };
        for proxy in sets.unwrap_or_default() {
            let settings = proxy.settings();
            if settings.http_response.is_empty() {
                continue;
            }
            let mut start = 0;
            let verdict = loop {
                match rules::run(transaction, &settings.http_response, start, Phase::Response) {
                    Verdict::WaitForBody { time, at_least, resume } => {
                        if let Some(Source { upstream, up, length }) = &mut source {
                            let wanted = WantedBody { length: *length, time, at_least };
                            if !self.buffer_response(transaction, backend, upstream, up, &wanted).await {
                                transaction.terminate(b's', b'R');
                                transaction.count_tracked_failure();
                                self.drop_response(transaction, source.as_mut());
                                return Some(self.answer_error(transaction, 504).await);
                            }
                        }
                        start = resume;
                    }
                    verdict => break verdict,
                }
            };
            let goes_on = match &verdict {
                Verdict::Continue | Verdict::Allow => true,
                Verdict::Redirect(redirect) => rules::location(transaction, redirect).is_none(),
                _ => false,
            };
            if !goes_on {
                self.drop_response(transaction, source.as_mut());
            }
            match verdict {
                Verdict::Continue
                | Verdict::Allow
                | Verdict::WaitForBody { .. }
                | Verdict::Resolve { .. }
                | Verdict::EarlyHints { .. } => {}
                Verdict::RewriteFailed => return Some(self.internal_error(transaction, b'H').await),
                Verdict::Deny(reply) => {
                    self.count_denied_response(transaction, backend);
                    transaction.terminate(b'P', b'H');
                    return Some(self.answer_reply(transaction, reply, 502).await);
                }
                Verdict::Return(reply) => {
                    transaction.terminate(b'L', b'H');
                    return Some(self.answer_reply(transaction, reply, 200).await);
                }
                Verdict::Redirect(redirect) => {
                    if let Some(location) = rules::location(transaction, redirect) {
                        transaction.terminate(b'L', b'H');
                        return Some(self.answer_location(transaction, redirect, &location).await);
                    }
                }
                Verdict::SilentDrop => {
                    self.count_denied_request(transaction);
                    crate::session::silent_drop(&self.client.stream);
                    transaction.terminate(b'P', b'R');
                    transaction.status = transaction.response.status();
                    return Some(Next::Close);
                }
                Verdict::Reject
                | Verdict::Tarpit(_)
                | Verdict::Auth(_)
                | Verdict::Malformed
                | Verdict::PrometheusExporter => {
                    transaction.terminate(b'P', b'H');
                    return Some(Next::Close);
                }
            }
        }
        None
    }

    /// Takes note of a response that goes nowhere: what the server sent counts, though nobody sees it; the time that it took
    /// does not.
    fn drop_response(&mut self, transaction: &mut Transaction, source: Option<&mut Source<'_, '_>>) {
        transaction.timeline.response = None;
        if let Some(Source { upstream, up, length }) = source {
            self.settle_body(transaction, up);
            let body = Peeked::at(upstream.connection.wire.received.bytes(), *length, &self.limits());
            transaction.bytes_out += body.bytes.len() as u64;
        }
    }

    /// Waits until as much of the response's body as a rule wants is there; false when it takes too long. The request
    /// goes on meanwhile.
    async fn buffer_response(
        &mut self,
        transaction: &mut Transaction,
        backend: &LiveProxy,
        upstream: &mut Upstream<'_>,
        up: &mut BodyPump,
        wanted: &WantedBody,
    ) -> bool {
        if wanted.length.is_empty() {
            return true;
        }
        let limits = limits(&self.instance, backend.settings().options.accept_invalid_http_response);
        self.deadline.set(self.worker.now().checked_add(wanted.time));
        let (client, deadline) = (&mut self.client, &mut self.deadline);
        let wire = &mut upstream.connection.wire;
        let mut uploading = !(up.is_received() && up.approved() == 0);
        poll_fn(|context| {
            loop {
                if uploading && up.poll(client, wire, context).is_ready() {
                    uploading = false;
                }
                let peeked = Peeked::at(wire.received.bytes(), wanted.length, &limits);
                // NOTE: what is malformed is found to be so when it is passed on.
                let enough = peeked.complete
                    || peeked.is_malformed
                    || wire.ended
                    || (wire.received.has_block() && wire.received.is_full())
                    || (wanted.at_least > 0 && peeked.bytes.len() >= wanted.at_least);
                if enough {
                    tell(peeked, transaction);
                    return Poll::Ready(true);
                }
                match wire.poll_receive(context) {
                    // What is wrong with the connection shows when the body is sent.
                    Poll::Ready(Err(_)) => return Poll::Ready(true),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Pending => return deadline.poll(context).map(|()| false),
                }
            }
        })
        .await
    }

    /// Runs the `http-after-response` rules; false when one of them failed.
    pub(super) fn after_response(&self, transaction: &mut Transaction, backend: &Proxy) -> bool {
        let frontend = self.side.frontend.settings();
        for rules in [&backend.http_after_response, &frontend.http_after_response] {
            // What was no request has no rules.
            if !rules.is_empty()
                && !transaction.bad_request
                && matches!(rules::run(transaction, rules, 0, Phase::Response), Verdict::RewriteFailed)
            {
                return false;
            }
            if std::ptr::eq(backend, frontend) {
                break;
            }
        }
        true
    }

    /// Answers that something went wrong here, with a page that no rule changes any more.
    pub(super) async fn internal_error(&mut self, transaction: &mut Transaction, phase: u8) -> Next {
        transaction.terminate(b'P', phase);
        self.count_internal_error(transaction);
        if phase == b'H' {
            transaction.timeline.response = None;
        }
        self.answer_error(transaction, 500).await
    }

    pub(super) fn count_internal_error(&self, transaction: &Transaction) {
        let worker = self.worker.index;
        let frontend = &self.side.frontend;
        frontend.frontend.traffic.of(worker).internal_errors.increment();
        if let Some(listener) = frontend.listeners.get(self.side.listener) {
            listener.side.traffic.of(worker).internal_errors.increment();
        }
        if let Some(backend) = &transaction.backend {
            backend.backend.traffic.of(worker).internal_errors.increment();
        }
        if let Some(server) = &transaction.server {
            server.side.traffic.of(worker).internal_errors.increment();
        }
    }

    fn log_early(&self, transaction: &mut Transaction, body: usize) {
        if self.side.frontend.settings().options.logasap {
            let bytes = size::of_response(&transaction.response) + body as u64;
            logging::log_early(&self.worker, transaction, transaction.timeline.response, bytes);
        }
    }

    /// Puts the response's head behind what the client is to be sent.
    pub(super) fn write_head(&mut self, transaction: &mut Transaction, keeps: bool) {
        transaction.status = transaction.response.status();
        // An old server's response stays one of its version, which closes unless it says otherwise.
        let response_is_old = transaction.response.version() == http::Version::Http10;
        let connection: &[(&[u8], &[u8])] = match keeps {
            true if response_is_old || transaction.client_version == http::Version::Http10 => {
                &[(b"connection", b"keep-alive")]
            }
            true => &[],
            // A page that is made here may say it already, in its own place.
            false if response_is_old || transaction.response.headers.contains_known(http::HeaderId::Connection) => &[],
            false => &[(b"connection", b"close")],
        };
        let adjust = &self.instance.config.global.h1_case_adjust;
        if !adjust.is_empty() && self.side.frontend.settings().options.h1_case_adjust_bogus_client {
            for (name, value) in connection {
                transaction.response.headers.add(name, value);
            }
            adjust_case(&mut transaction.response.headers, adjust);
            return transaction.response.write_to(&mut self.client.output);
        }
        transaction.response.write_with(&mut self.client.output, connection);
    }

    async fn transfer(
        &mut self,
        transaction: &Transaction,
        backend: &Arc<LiveProxy>,
        upstream: &mut Upstream<'_>,
        up: &mut BodyPump,
        down: &mut BodyPump,
    ) -> Transfer {
        let server_limit = transaction.server_timeout.get().or(backend.settings().timeouts.server);
        let client_limit = self.side.frontend.settings().timeouts.client;
        let ServerConnection { server, wire, .. } = &mut *upstream.connection;
        let shut_mark = server.shut_mark();
        let (handle, worker) = (&self.registered.handle, &self.worker);
        if let Err(error) = down.approve(wire) {
            return Transfer::Server(PumpFailure::Malformed(error));
        }
        down.append_small(wire, &mut self.client, COPY_MAX);
        let (client, deadline) = (&mut self.client, &mut self.deadline);
        let abort_on_close = backend.settings().options.abortonclose;
        let mut progress = None;
        let mut since = transaction.timeline.response.unwrap_or_else(|| worker.now());
        let mut uploading = !(up.is_received() && up.approved() == 0);
        // NOTE: before the client can read its answer, or its next request, on another worker, would be balanced as if
        // this one were still running.
        if down.is_received() && !uploading {
            upstream.slot = None;
        }
        poll_fn(|context| {
            handle.listen(context);
            if handle.order() == Order::Abort {
                return Poll::Ready(Transfer::Killed(b'K'));
            }
            if let Some(cause) = server.shut_cause(shut_mark) {
                return Poll::Ready(Transfer::Killed(cause));
            }
            if let Poll::Ready(result) = down.poll(wire, client, context) {
                return Poll::Ready(match result {
                    Ok(()) => Transfer::Done,
                    Err(PumpFailure::Send(_)) => Transfer::Client,
                    Err(failure) => Transfer::Server(failure),
                });
            }
            if uploading && let Poll::Ready(sent) = up.poll(client, wire, context) {
                if matches!(sent, Err(PumpFailure::CutOff | PumpFailure::Receive(_))) {
                    return Poll::Ready(Transfer::Client);
                }
                // A server that takes no more may still answer: the response decides from here on.
                uploading = false;
            }
            if abort_on_close && !uploading && !client.ended {
                match client.poll_receive(context) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Transfer::Client),
                    // A pipelined request waits in the buffer for its turn.
                    Poll::Ready(Ok(_)) => context.waker().wake_by_ref(),
                    Poll::Pending => {}
                }
            }
            // A client that takes a part of what is held is not stuck.
            let held = down.held() + client.unsent().len();
            let moved = (down.received, up.received, held);
            if progress != Some(moved) && progress.replace(moved).is_some() {
                since = worker.now();
            }
            let on_client = held > 0;
            let limit = if on_client { client_limit } else { server_limit };
            // NOTE: who is kept waiting by a limit of bandwidth is not late.
            let limit = limit.filter(|_| !down.is_paced());
            deadline.set(limit.map(|limit| since + limit));
            deadline
                .poll_at(worker.now(), context)
                .map(|()| if on_client { Transfer::ClientTimeout } else { Transfer::ServerTimeout })
        })
        .await
    }

    fn broken_transfer(
        &mut self,
        transaction: &mut Transaction,
        backend: &LiveProxy,
        upstream: &Upstream<'_>,
        how: &Transfer,
    ) -> Next {
        let worker = self.worker.index;
        let server_traffic = upstream.connection.server.side.traffic.of(worker);
        match how {
            Transfer::Done => {}
            Transfer::Server(failure) => {
                transaction.terminate(b'S', b'D');
                server_traffic.response_errors.increment();
                backend.backend.traffic.of(worker).response_errors.increment();
                if matches!(failure, PumpFailure::Malformed(_)) {
                    transaction.count_tracked_failure();
                } else {
                    server_traffic.server_aborts.increment();
                    backend.backend.traffic.of(worker).server_aborts.increment();
                    self.side.frontend.frontend.traffic.of(worker).server_aborts.increment();
                }
            }
            Transfer::ServerTimeout => {
                transaction.terminate(b's', b'D');
                server_traffic.server_aborts.increment();
                backend.backend.traffic.of(worker).server_aborts.increment();
            }
            Transfer::Client => {
                transaction.terminate(b'C', b'D');
                self.count_client_abort(transaction);
            }
            Transfer::ClientTimeout => {
                transaction.terminate(b'c', b'D');
                self.count_client_abort(transaction);
            }
            Transfer::Killed(cause) => transaction.terminate(*cause, b'D'),
        }
        Next::Close
    }

    /// Keeps a server's connection for another request.
    fn keep(&mut self, upstream: Upstream<'_>, backend: &LiveProxy) {
        let Upstream { mut connection, slot, .. } = upstream;
        drop(slot);
        connection.wire.leave();
        self.worker.heads.reclaim_output(&mut connection.wire.output);
        let max_reuse = connection.server.config.max_reuse;
        if u32::try_from(max_reuse).is_ok_and(|most| connection.requests > most) {
            return;
        }
        if connection.private || backend.settings().http_reuse == HttpReuse::Never {
            self.kept.put(connection, self.side.frontend.settings().max_session_srv_conns);
        } else {
            self.worker.servers.borrow_mut().give(connection);
        }
    }

    /// Bytes both ways after a 101 or a CONNECT.
    async fn tunnel(&mut self, transaction: &mut Transaction, backend: &LiveProxy, upstream: Upstream<'_>) -> Next {
        let frontend = Arc::clone(&self.side.frontend);
        let (front, back) = (&frontend.settings().timeouts, &backend.settings().timeouts);
        let hop = transaction.response.status() == 101;
        if !hop {
            http::remove_hop_by_hop(&mut transaction.response.headers, false);
        }
        transaction.status = transaction.response.status();
        transaction.response.write_to(&mut self.client.output);
        self.log_early(transaction, 0);
        if self.flush().await.is_err() {
            transaction.terminate(b'C', b'D');
            return Next::Close;
        }
        let server = Arc::clone(&upstream.connection.server);
        let both = transaction.tunnel_timeout.get().or(back.tunnel);
        let setup = TunnelSetup {
            pool: &self.worker.buffers,
            timeouts: TunnelTimeouts {
                client: both.or(front.client),
                server: both.or(back.server),
                client_fin: front.client_fin,
                server_fin: back.server_fin,
            },
            splice_min: self.instance.config.global.tune.splice_min,
            pipe_size: self.instance.config.global.tune.pipesize,
            independent: (
                frontend.settings().options.independent_streams,
                backend.settings().options.independent_streams,
            ),
            handle: &self.registered.handle,
            server: &server,
            stages: filter::tunnel_stages(transaction, &self.worker, backend),
        };
        let Upstream { mut connection, slot, .. } = upstream;
        let from_client = std::mem::take(&mut self.client.received);
        let from_server = std::mem::take(&mut connection.wire.received);
        let report = tunnel::run(&self.client.stream, from_client, &connection.wire.stream, from_server, setup).await;
        drop(slot);
        transaction.bytes_in += report.bytes_up;
        transaction.bytes_out += report.bytes_down;
        self.worker.traffic().bytes_spliced.add(report.bytes_spliced);
        transaction.end_tunnel(&report.end);
        Next::Close
    }

    /// Sends what waits for the client, within `timeout client`.
    pub(super) async fn flush(&mut self) -> Result<(), ()> {
        let limit = self.side.frontend.settings().timeouts.client;
        self.deadline.set(limit.map(|limit| self.worker.now() + limit));
        let (client, deadline) = (&mut self.client, &mut self.deadline);
        poll_fn(|context| match client.poll_flush(context) {
            Poll::Ready(result) => Poll::Ready(result.map_err(|_| ())),
            Poll::Pending => deadline.poll(context).map(|()| Err(())),
        })
        .await
    }
}

/// Makes the response's fields say how long its body is for the client, whatever rules made of them and of the status;
/// tells what of a body of `length` the client gets.
fn frame(transaction: &mut Transaction, method: Method, length: BodyLength, decode: bool) -> BodyLength {
    let status = transaction.response.status();
    let expects_none = transaction.is_head() || matches!(status, 100..=199 | 204 | 304);
    let shown = match length {
        _ if expects_none => BodyLength::None,
        // The server was asked with HEAD, or its status had no body.
        BodyLength::None => BodyLength::Exact(0),
        BodyLength::Chunked if decode => BodyLength::UntilClose,
        length => length,
    };
    if !expects_none && shown == length {
        http::enforce_response_framing(&mut transaction.response, method);
    } else if !expects_none || matches!(status, 100..=199 | 204) {
        http::enforce_framing(&mut transaction.response.headers, shown);
    }
    // NOTE: what the fields say of a body that is not sent (HEAD, 304) is how long it would be.
    shown
}

/// Gives names the case that `h1-case-adjust` wants, for peers that do not know that it means nothing.
pub(super) fn adjust_case(headers: &mut Headers, names: &BTreeMap<String, String>) {
    for (name, wanted) in names {
        headers.rename(name.as_bytes(), wanted.as_bytes());
    }
}

/// Where the body of a response that rules look at comes from, while the request's goes on.
pub(super) struct Source<'s, 'u> {
    upstream: &'s mut Upstream<'u>,
    up: &'s mut BodyPump,
    length: BodyLength,
}

/// How much of a response's body a rule waits for.
struct WantedBody {
    length: BodyLength,
    time: Duration,
    at_least: usize,
}

fn tell(peeked: Peeked, transaction: &mut Transaction) {
    transaction.response_body = peeked.bytes;
    transaction.response_body_complete = peeked.complete;
    transaction.response_announced = peeked.announced;
}

fn capture_response(transaction: &mut Transaction, settings: &Proxy) {
    for (slot, capture) in settings.response_captures.iter().enumerate() {
        let Some(name) = &capture.name else { continue };
        let value = transaction.response.headers.last(name.as_bytes()).map(<[u8]>::to_vec);
        if let Some(value) = value {
            transaction.set_capture(Direction::Response, slot, &value);
        }
    }
}
