//! Answers that are made here: replies of rules, redirects, error pages.

use std::sync::Arc;

use haproxycfg::model::{Proxy, Redirect, Reply, ReplyBody};
use http::{BodyLength, HeaderId, Headers, ResponseHead, Version};
use live::LiveProxy;

use super::{
    ClientStream, Exchange, Next,
    deliver::{has_no_body, lets_client_go_on},
    peeked::Peeked,
    transfer::{COPY_MAX, Transfer},
};
use crate::session::{
    body::BodyPump,
    ending::{Ending, Stage},
    fetch::{AnswerBody, HeadEnd, StoredBody, Unreachable},
    reply, size,
    transaction::Transaction,
};

impl<C: ClientStream> Exchange<'_, C> {
    /// Delivers a response that was made here, and whose head stands in the transaction.
    // NOTE: no `async fn` of its own, which would hold the future of the other one.
    #[inline]
    fn deliver_made<'s>(
        &'s mut self,
        transaction: &'s mut Transaction,
        body: &'s Arc<[u8]>,
    ) -> impl Future<Output = Next> {
        self.begin_answer(transaction);
        self.deliver_begun(transaction, body)
    }

    /// From here on there is a response, and its variables.
    pub(super) fn begin_answer(&self, transaction: &mut Transaction) {
        transaction.variables.get_mut().start_response();
        transaction.answered.has_head = true;
    }

    /// Delivers a response that was made here and has begun. Unlike what is fetched it passes neither `http-response` rules nor
    /// filters: who made it has seen to that.
    pub(super) async fn deliver_begun(&mut self, transaction: &mut Transaction, body: &Arc<[u8]>) -> Next {
        let backend = transaction.route.backend.clone().unwrap_or_else(|| Arc::clone(&self.side.frontend));
        if transaction.route.server.is_none() && transaction.asked.is_complete() {
            self.count_unread_body(transaction);
        }
        let whole_request = self.request_is_drained(transaction);
        let mut page = None;
        let keeps = self.frame_made(transaction, backend.settings(), (body, &mut page), whole_request);
        let body = page.as_ref().unwrap_or(body);
        self.write_head(transaction, keeps);
        let hides = transaction.is_head() || has_no_body(transaction.response.status());
        if !hides && body.len() > COPY_MAX {
            let transfer = Box::pin(self.transfer_made(transaction, &backend, body)).await;
            if let Some(next) = self.broken_off(transaction, &transfer) {
                return next;
            }
        } else {
            // NOTE: nearly always: it is sent behind its head at once.
            if !hides {
                self.client.waiting().extend_from_slice(body);
            }
            if self.flush().await.is_err() {
                transaction.end(Ending::ClientLeft(Stage::Request));
                return Next::Close;
            }
        }
        self.client.end();
        self.after_answer(keeps, whole_request)
    }

    /// Moves a large body that was made here.
    async fn transfer_made(
        &mut self,
        transaction: &Transaction,
        backend: &Arc<LiveProxy>,
        body: &Arc<[u8]>,
    ) -> Transfer {
        let length = BodyLength::Exact(body.len() as u64);
        let (mut up, mut down) =
            (BodyPump::new(BodyLength::None, &self.limits(), false), BodyPump::new(length, &self.limits(), false));
        let mut body = AnswerBody::Stored(StoredBody::new(Arc::clone(body)));
        self.transfer(transaction, backend, &mut body, &mut up, &mut down).await
    }

    /// What follows when the client did not get all of what was made here.
    fn broken_off(&self, transaction: &mut Transaction, transfer: &Transfer) -> Option<Next> {
        match transfer {
            Transfer::Done => return None,
            Transfer::Killed(cause) => transaction.end(Ending::Shut(*cause, Some(Stage::Data))),
            _ => transaction.end(Ending::ClientLeft(Stage::Request)),
        }
        Some(Next::Close)
    }

    /// Makes the head of what was made here say what the client gets, and runs the last rules; whether the client's connection goes
    /// on. When one of them fails an error page takes its place.
    fn frame_made(
        &self,
        transaction: &mut Transaction,
        backend: &Proxy,
        (body, page): (&[u8], &mut Option<Arc<[u8]>>),
        whole_request: bool,
    ) -> bool {
        let frontend = self.side.frontend.settings();
        let has_length = transaction.response.status() != 204;
        let headers = &mut transaction.response.headers;
        // An error file that does not say how long it is ends with the connection.
        let is_open_ended = has_length && !headers.contains_known(HeaderId::ContentLength);
        let closing = http::ConnectionOptions::of(headers).close || is_open_ended;
        let keeps = !closing
            && transaction.asked.is_complete()
            && !transaction.asked.is_invalid()
            && self.client_may_go_on(transaction, whole_request);
        if !self.after_response(transaction, backend) {
            if transaction.response.status() != 500 {
                transaction.count_internal_error();
            }
            *page = Some(reply::error_page(transaction, 500));
        }
        let bytes = page.as_deref().unwrap_or(body).len() as u64;
        let status = transaction.response.status();
        let has_rules = !(backend.http_after_response.is_empty() && frontend.http_after_response.is_empty());
        if has_rules && !has_no_body(status) {
            let length = if is_open_ended { BodyLength::UntilClose } else { BodyLength::Exact(bytes) };
            http::enforce_framing(&mut transaction.response.headers, length);
        }
        // What answers something that is no request counts nothing.
        if !transaction.asked.is_invalid() {
            transaction.bytes_out += size::of_reply(&transaction.response);
            // As in HAProxy a body counts although nobody gets it.
            transaction.bytes_out += if transaction.is_head() { 0 } else { bytes };
            transaction.answered.body_bytes = if transaction.is_head() || has_no_body(status) { 0 } else { bytes };
        }
        if matches!(status, 100..=199 | 204) {
            // RFC 9110 section 8.6: it has none.
            transaction.response.headers.remove_known(HeaderId::ContentLength);
        }
        // Only what answers no request says it in a place of its own.
        if transaction.asked.is_complete() {
            transaction.response.headers.remove_known(HeaderId::Connection);
        }
        keeps && lets_client_go_on(transaction)
    }

    /// Counts what has come of a body that no server gets.
    pub(super) fn count_unread_body(&self, transaction: &mut Transaction) {
        let body = http::request_body_length(&transaction.request);
        if !body.is_empty() {
            let come = Peeked::at(self.client.received(), body, &self.limits());
            transaction.bytes_in += come.bytes.len() as u64;
        }
    }

    /// Whether the request's body is over, those parts of it being dropped that were received.
    fn request_is_drained(&mut self, transaction: &Transaction) -> bool {
        if !transaction.asked.is_complete() || transaction.asked.is_invalid() || transaction.asked.is_over {
            return true;
        }
        let mut pump = BodyPump::new(http::request_body_length(&transaction.request), &self.limits(), false);
        // What was sent to a server already is gone from the buffer, so this only recognises bodies that wait whole.
        let known = transaction.route.server.is_none() && pump.approve(&*self.client).is_ok() && pump.is_received();
        if known {
            pump.discard(&mut *self.client);
        }
        known || http::request_body_length(&transaction.request).is_empty()
    }

    /// Answers with the error page of a status.
    pub async fn answer_error(&mut self, transaction: &mut Transaction, status: u16) -> Next {
        if reply::is_silent(transaction, status) {
            transaction.answered.status = status;
            return Next::Close;
        }
        let body = reply::error_page(transaction, status);
        self.answer_instead_of(transaction, &body, status).await
    }

    /// Answers with what stands for a page of `status`: that is what is logged and counted, whatever it looks like.
    async fn answer_instead_of(&mut self, transaction: &mut Transaction, body: &Arc<[u8]>, status: u16) -> Next {
        let shown = transaction.response.status();
        let next = self.deliver_made(transaction, body).await;
        if transaction.answered.status == shown {
            transaction.answered.status = status;
        }
        next
    }

    /// Answers with a configured reply.
    pub(super) async fn answer_reply(&mut self, transaction: &mut Transaction, reply: &Reply, status: u16) -> Next {
        let status = reply.status.unwrap_or(status);
        let silent = match &reply.body {
            ReplyBody::ErrorPage => reply::is_silent(transaction, status),
            ReplyBody::Raw(bytes) => bytes.is_empty(),
            _ => false,
        };
        if silent {
            transaction.answered.status = status;
            return Next::Close;
        }
        let body = reply::build(transaction, reply, status);
        self.answer_instead_of(transaction, &body, status).await
    }

    /// Answers with a redirect.
    pub(super) async fn answer_location(
        &mut self,
        transaction: &mut Transaction,
        redirect: &Redirect,
        location: &[u8],
    ) -> Next {
        reply::redirect(transaction, redirect.code, location, redirect.set_cookie.as_deref());
        self.deliver_made(transaction, &Arc::default()).await
    }

    /// Demands credentials.
    pub(super) async fn answer_unauthorized(&mut self, transaction: &mut Transaction, realm: &[u8]) -> Next {
        transaction.count_tracked_error();
        let body = reply::unauthorized(transaction, realm);
        self.deliver_made(transaction, &body).await
    }

    /// Answers a probe of `monitor-uri`.
    pub(super) async fn answer_monitor(&mut self, transaction: &mut Transaction) -> Next {
        let frontend = Arc::clone(&self.side.frontend);
        let fails = frontend
            .settings()
            .monitor_fail
            .iter()
            .any(|condition| condition.holds(transaction, sample::Options::REQUEST));
        transaction.count_intercepted();
        transaction.end(Ending::AnsweredHere(Stage::Request));
        transaction.log.level.set(Some(None));
        self.answer_error(transaction, if fails { 503 } else { 200 }).await
    }

    /// Shows an authority the proof that it looks for (http-01).
    pub(super) async fn answer_challenge(&mut self, transaction: &mut Transaction, page: &str) -> Next {
        transaction.count_intercepted();
        transaction.end(Ending::AnsweredHere(Stage::Request));
        let body = reply::plain_text(transaction, page);
        self.deliver_made(transaction, &body).await
    }

    /// Says why there is no server.
    pub(super) async fn answer_unreachable(&mut self, transaction: &mut Transaction, why: &Unreachable) -> Next {
        transaction.end_unreachable(why);
        match why {
            Unreachable::ClientGone => {
                transaction.count_client_abort();
                Next::Close
            }
            Unreachable::Killed | Unreachable::ClientFailed => Next::Close,
            Unreachable::Elsewhere => {
                let server = transaction.route.server.as_ref();
                let prefix = server.and_then(|server| server.config.redir.as_deref()).unwrap_or_default();
                let prefix = if prefix == b"/" { b"" } else { prefix };
                let location = [prefix, transaction.request.path_and_query()].concat();
                reply::server_redirect(transaction, &location);
                self.deliver_made(transaction, &Arc::default()).await
            }
            Unreachable::NoSource => self.answer_error(transaction, 500).await,
            _ => self.answer_error(transaction, 503).await,
        }
    }

    /// Tells the client that there is no response.
    pub(super) async fn answer_head_end(&mut self, transaction: &mut Transaction, end: &HeadEnd, reused: bool) -> Next {
        transaction.end(end.ending());
        match end {
            HeadEnd::Response => Next::Close,
            // A client that reused its own connection knows to try again; a new one must be told.
            HeadEnd::Empty if reused && transaction.asked.is_follower && self.client.knows_to_retry() => Next::Close,
            HeadEnd::NotProcessed if self.client.refuse() => {
                transaction.count_tracked_failure();
                Next::Close
            }
            HeadEnd::Empty | HeadEnd::NotProcessed | HeadEnd::Broken | HeadEnd::Junk => {
                transaction.count_tracked_failure();
                self.answer_error(transaction, 502).await
            }
            HeadEnd::Refused(503) => {
                // Programs are busy: others will be done soon.
                let body = reply::error_page(transaction, 503);
                transaction.response.headers.set(b"retry-after", b"1");
                self.answer_instead_of(transaction, &body, 503).await
            }
            HeadEnd::Refused(status) => {
                transaction.count_tracked_error();
                self.answer_error(transaction, *status).await
            }
            HeadEnd::Timeout => {
                transaction.count_tracked_failure();
                self.answer_error(transaction, 504).await
            }
            HeadEnd::ClientCutOff => {
                transaction.count_client_abort();
                Next::Close
            }
            HeadEnd::ClientGone => {
                transaction.count_client_abort();
                // It may have ended only what it sends.
                transaction.asked.wants_keep_alive = false;
                self.answer_error(transaction, 400).await
            }
            HeadEnd::ClientTimeout => {
                transaction.count_client_abort();
                self.answer_error(transaction, 408).await
            }
            HeadEnd::ClientMalformed => {
                self.side.count(self.worker.index, |traffic| &traffic.request_errors);
                self.answer_error(transaction, 400).await
            }
            HeadEnd::Killed { asked: true, .. } => {
                transaction.count_upstream(|traffic| &traffic.response_errors);
                self.answer_error(transaction, 502).await
            }
            HeadEnd::Killed { asked: false, .. } => Next::Close,
        }
    }

    /// Sends 103 with these fields to a client that understands it.
    pub(super) async fn send_early_hints(&mut self, headers: &Headers) {
        if headers.is_empty() {
            return;
        }
        let mut head = ResponseHead::new();
        head.start(Version::Http11, 103);
        for (name, value) in headers.iter() {
            head.headers.add(name, value);
        }
        self.client.write_interim(&head);
        let _ = self.flush().await;
    }

    /// Asks the client for the body that it has announced, and with which it waits for that.
    pub(super) fn write_continue(&mut self) {
        let mut head = ResponseHead::new();
        head.start(Version::Http11, 100);
        self.client.write_interim(&head);
    }
}
