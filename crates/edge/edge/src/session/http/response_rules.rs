//! Rules that look at responses: `http-response` and `http-after-response`, what they wait for, and what they refuse.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use haproxycfg::model::Proxy;
use http::BodyLength;

use super::{
    Next, Session,
    decide::{Buffered, Peeked},
    limits,
};
use crate::{
    live::LiveProxy,
    session::{
        body::BodyPump,
        rules::{self, Phase, Verdict},
        transaction::Transaction,
        upstream::Upstream,
    },
};

impl Session {
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
                            let end = self.buffer_response(transaction, backend, upstream, up, &wanted).await;
                            if end != Buffered::Enough {
                                let next = self.answer_unbuffered(transaction, source.as_mut(), end);
                                return Some(Box::pin(next).await);
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

    /// Tells the client that the body which a rule waited for did not come, or that it makes no sense.
    async fn answer_unbuffered(
        &mut self,
        transaction: &mut Transaction,
        source: Option<&mut Source<'_, '_>>,
        end: Buffered,
    ) -> Next {
        let status = if end == Buffered::TimedOut {
            transaction.terminate(b's', b'R');
            504
        } else {
            transaction.count_upstream(|traffic| &traffic.response_errors);
            transaction.terminate(b'P', b'H');
            502
        };
        transaction.count_tracked_failure();
        self.drop_response(transaction, source);
        self.answer_error(transaction, status).await
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

    /// Waits until as much of the response's body as a rule wants is there. The request goes on meanwhile.
    async fn buffer_response(
        &mut self,
        transaction: &mut Transaction,
        backend: &LiveProxy,
        upstream: &mut Upstream<'_>,
        up: &mut BodyPump,
        wanted: &WantedBody,
    ) -> Buffered {
        if wanted.length.is_empty() {
            return Buffered::Enough;
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
                if peeked.is_malformed {
                    return Poll::Ready(Buffered::Malformed);
                }
                let enough = peeked.complete
                    || wire.ended
                    || (wire.received.has_block() && wire.received.is_full())
                    || (wanted.at_least > 0 && peeked.bytes.len() >= wanted.at_least);
                if enough {
                    tell(peeked, transaction);
                    return Poll::Ready(Buffered::Enough);
                }
                match wire.poll_receive(context) {
                    // What is wrong with the connection shows when the body is sent.
                    Poll::Ready(Err(_)) => return Poll::Ready(Buffered::Enough),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Pending => return deadline.poll(context).map(|()| Buffered::TimedOut),
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
}

/// Where the body of a response that rules look at comes from, while the request's goes on.
pub(super) struct Source<'s, 'u> {
    pub(super) upstream: &'s mut Upstream<'u>,
    pub(super) up: &'s mut BodyPump,
    pub(super) length: BodyLength,
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
