//! Rules that look at responses: `http-response` and `http-after-response`, what they wait for, and what they refuse.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use haproxycfg::model::Proxy;
use http::BodyLength;
use live::LiveProxy;

use super::{ClientStream, Exchange, Next, decide::Buffered, peeked::Peeked};
use crate::session::{
    body::BodyPump,
    ending::{Ending, Stage},
    fetch::AnswerBody,
    rules::{self, Phase, Verdict},
    transaction::Transaction,
};

impl<C: ClientStream> Exchange<'_, C> {
    /// Runs `http-response` rules: the backend's first, then the frontend's. `Some` when they have answered. The body of
    /// what a service made, which has no source, is there already.
    pub(super) async fn response_rules(
        &mut self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        mut source: Option<Source<'_, '_>>,
    ) -> Option<Next> {
        if self.instance.config.asks_response_body
            && let Some(Source { body, length, .. }) = &source
        {
            let limits = transaction.response_limits(backend.settings());
            tell(Peeked::at(body.received(), *length, &limits), transaction);
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
                        if let Some(Source { body, up, length }) = &mut source {
                            let wanted = WantedBody { length: *length, time, at_least };
                            let end = self.buffer_response(transaction, backend, body, up, &wanted).await;
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
            if !matches!(verdict, Verdict::Continue | Verdict::Allow)
                && let Some(next) = self.execute_response(transaction, backend, verdict).await
            {
                return Some(next);
            }
        }
        None
    }

    /// Carries out what `http-response` rules came to. `Some` when they have answered.
    async fn execute_response(
        &mut self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        verdict: Verdict<'_>,
    ) -> Option<Next> {
        match verdict {
            Verdict::Continue
            | Verdict::Allow
            | Verdict::WaitForBody { .. }
            | Verdict::Resolve { .. }
            | Verdict::EarlyHints { .. } => None,
            Verdict::RewriteFailed => Some(self.internal_error(transaction, Stage::Headers).await),
            Verdict::Deny(reply) => {
                transaction.count_denied_response(backend);
                transaction.end(Ending::Refused(Stage::Headers));
                Some(self.answer_reply(transaction, reply, 502).await)
            }
            Verdict::Return(reply) => {
                transaction.end(Ending::AnsweredHere(Stage::Headers));
                Some(self.answer_reply(transaction, reply, 200).await)
            }
            Verdict::Redirect(redirect) => {
                let location = rules::location(transaction, redirect)?;
                transaction.end(Ending::AnsweredHere(Stage::Headers));
                Some(self.answer_location(transaction, redirect, &location).await)
            }
            Verdict::SilentDrop => {
                transaction.count_denied_request();
                self.client.vanish();
                transaction.end(Ending::Refused(Stage::Request));
                transaction.answered.status = transaction.response.status();
                Some(Next::Close)
            }
            Verdict::Reject | Verdict::Tarpit(_) | Verdict::Auth(_) | Verdict::Malformed | Verdict::UseService(_) => {
                transaction.end(Ending::Refused(Stage::Headers));
                Some(Next::Close)
            }
        }
    }

    /// Tells the client that the body which a rule waited for did not come, or that it makes no sense.
    async fn answer_unbuffered(
        &mut self,
        transaction: &mut Transaction,
        source: Option<&mut Source<'_, '_>>,
        end: Buffered,
    ) -> Next {
        let status = if end == Buffered::TimedOut {
            transaction.end(Ending::ServerTimedOut(Stage::Request));
            504
        } else {
            transaction.count_upstream(|traffic| &traffic.response_errors);
            transaction.end(Ending::ResponseMalformed);
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
        if let Some(Source { body, up, length }) = source {
            self.settle_body(transaction, up);
            let dropped = Peeked::at(body.received(), *length, &self.limits());
            transaction.bytes_out += dropped.bytes.len() as u64;
        }
    }

    /// Waits until as much of the response's body as a rule wants is there. The request goes on meanwhile.
    async fn buffer_response(
        &mut self,
        transaction: &mut Transaction,
        backend: &LiveProxy,
        body: &mut AnswerBody<'_>,
        up: &mut BodyPump,
        wanted: &WantedBody,
    ) -> Buffered {
        if wanted.length.is_empty() {
            return Buffered::Enough;
        }
        let limits = transaction.response_limits(backend.settings());
        self.deadline.set(self.worker.now().checked_add(wanted.time));
        let (client, deadline) = (&mut *self.client, &mut *self.deadline);
        let mut uploading = body.owes_upload();
        poll_fn(|context| {
            loop {
                if uploading && body.poll_upload(up, client, context).is_ready() {
                    uploading = false;
                }
                let peeked = Peeked::at(body.received(), wanted.length, &limits);
                if peeked.is_malformed {
                    return Poll::Ready(Buffered::Malformed);
                }
                let enough = peeked.complete
                    || body.is_stalled()
                    || (wanted.at_least > 0 && peeked.bytes.len() >= wanted.at_least);
                if enough {
                    tell(peeked, transaction);
                    return Poll::Ready(Buffered::Enough);
                }
                match body.poll_receive(context) {
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
                && !transaction.asked.is_invalid()
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
    pub(super) async fn internal_error(&mut self, transaction: &mut Transaction, stage: Stage) -> Next {
        transaction.end(Ending::RuleFailed(stage));
        transaction.count_internal_error();
        if stage == Stage::Headers {
            transaction.timeline.response = None;
        }
        self.answer_error(transaction, 500).await
    }
}

/// Where the body of a response that rules look at comes from, while the request's goes on.
pub(super) struct Source<'s, 'u> {
    pub(super) body: &'s mut AnswerBody<'u>,
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
    transaction.answered.body.bytes = peeked.bytes;
    transaction.answered.body.complete = peeked.complete;
    transaction.answered.body.announced = peeked.announced;
}
