//! Sending a request to a server and receiving the head of its response, with retries.

use std::{future::poll_fn, rc::Rc, sync::Arc, task::Poll};

use balance::{FailedAttempt, Failure};
use haproxycfg::model::ConnectionMode;
use http::{BodyLength, BodyTracker, Method, response_body_length};

use super::{Next, Session, decide::Decision, head::HeadEnd, limits, respond::adjust_case};
use crate::{
    live::LiveProxy,
    net::Deadline,
    session::{
        body::BodyPump,
        ending::{Ending, Stage},
        fetch::{Attempts, Upstream, Wanted, Watch},
        filter,
        rules::add_address,
        size,
        tcp::{self, TcpVerdict},
        transaction::Transaction,
    },
};

/// Bodies up to this many bytes are sent behind their head from one buffer.
const COPY_MAX: usize = 4_096;

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

    async fn forward(&mut self, transaction: &mut Transaction, body: BodyLength, wanted: Wanted) -> Next {
        let Some(backend) = transaction.route.backend.clone() else { return Next::Close };
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
            transaction.end(Ending::RequestMalformed(Stage::Request));
            return Box::pin(self.answer_error(transaction, 400)).await;
        }
        self.prepare(transaction, &backend);
        let worker = Rc::clone(&self.worker);
        let mut attempts = Attempts::new(&worker, &backend, wanted, true);
        attempts.kept = std::mem::take(&mut self.kept);
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
            let reached = attempts.reach(transaction, &mut watch).await;
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
                HeadEnd::Response => Some(Failure::Status(transaction.response.status())),
                _ => end.ending().failure(),
            };
            let Some(failure) = failure else {
                return Box::pin(self.give_up(transaction, &mut pump, &end, false)).await;
            };
            let attempt = FailedAttempt {
                failure,
                failed_before: attempts.failed(),
                can_resend: replay.is_some() && !transaction.by_rules.l7_retry_disabled.get(),
                reused_connection: upstream.reused,
                is_idempotent: method.is_idempotent(),
            };
            let sends_again = backend.retry.sends_again(&attempt);
            if matches!(end, HeadEnd::Response) && !sends_again {
                return self.respond(transaction, &backend, upstream, pump, method).await;
            }
            if sends_again {
                // As in HAProxy this counts as a retry wherever it goes.
                transaction.bytes_out = 0;
                let worker = self.worker.index;
                backend.backend.traffic.of(worker).retries.increment();
                upstream.connection.server.side.traffic.of(worker).retries.increment();
            }
            if backend.retry.counts_as_error(&attempt) {
                self.count_response_error(transaction, &upstream, &end);
            }
            let Upstream { connection, slot, reused } = upstream;
            drop(connection);
            let mut watch = Watch {
                client: &mut self.client,
                abort_on_close: backend.settings().options.abortonclose,
                is_tcp: false,
                handle: &self.registered.handle,
            };
            match Box::pin(attempts.after_failure(transaction, attempt, slot, &mut watch)).await {
                Ok(true) => {}
                Ok(false) => return Box::pin(self.give_up(transaction, &mut pump, &end, reused)).await,
                Err(unreachable) => {
                    self.settle_body(transaction, &mut pump);
                    return Box::pin(self.answer_unreachable(transaction, &unreachable)).await;
                }
            }
            transaction.route.resent = true;
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
        let client = &transaction.client;
        let headers = &mut transaction.request.headers;
        let (front, back) = (&front.options, &back.options);
        add_address(headers, front.forwardfor.as_ref(), back.forwardfor.as_ref(), || client.source.get());
        add_address(headers, front.originalto.as_ref(), back.originalto.as_ref(), || client.destination());
        let upgrade = http::wants_upgrade(&transaction.request);
        transaction.asked.wants_upgrade = upgrade;
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
            && transaction.route.server.is_some()
        {
            let server = &upstream.connection.server.config.name;
            transaction.request.headers.set(name.as_bytes(), server.as_bytes());
        }
        let mode = connection_mode(self.side.frontend.settings().connection_mode, settings.connection_mode);
        let closes = transaction.by_rules.closes.server
            || mode != ConnectionMode::KeepAlive && !settings.options.http_pretend_keepalive;
        let closes = closes && !transaction.asked.wants_upgrade;
        let connection: &[(&[u8], &[u8])] = match (closes, transaction.asked.version) {
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
        if transaction.route.resent {
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
                Some(HeadEnd::Response) => transaction.answered.has_head = true,
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
                    transaction.end(Ending::Refused(Stage::Request));
                } else {
                    self.count_denied_response(transaction, backend);
                    transaction.end(Ending::Refused(Stage::Data));
                }
                if transaction.answered.has_head {
                    transaction.answered.status = transaction.response.status();
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
            transaction.asked.is_over = true;
        }
    }
}

/// The stricter of what frontend and backend say about keeping the server's connection. The client's is the frontend's alone.
#[must_use]
pub(super) fn connection_mode(front: ConnectionMode, back: ConnectionMode) -> ConnectionMode {
    match (front, back) {
        (ConnectionMode::Close, _) | (_, ConnectionMode::Close) => ConnectionMode::Close,
        (ConnectionMode::ServerClose, _) | (_, ConnectionMode::ServerClose) => ConnectionMode::ServerClose,
        _ => ConnectionMode::KeepAlive,
    }
}
