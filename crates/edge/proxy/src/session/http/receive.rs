//! Receiving a request's head.

use std::{future::poll_fn, task::Poll};

use accelerator::log::CloseReason;
use http::{BodyLength, BodyTracker, HeaderId, ParseErrorKind, Parsed, RequestParser, Sender, request_body_length};

use super::Session;
use crate::session::{
    ending::{Ending, Stage},
    exchange::Next,
    size,
    transaction::{RequestStage, Transaction},
    varnish_log,
};

/// Why there is no request.
pub(super) enum Failure {
    /// The client closed.
    Closed,
    /// The connection failed.
    Reset,
    /// It took too long.
    Timeout,
    /// It is malformed: the status to answer with.
    Malformed(u16),
    /// It is larger than varnishd's parameters allow.
    Overflow,
    /// It is HTTP/2, which this connection goes on with.
    BeginsHttp2,
    /// It is HTTP/2, which varnishd does not speak unless it is told to.
    Http2,
}

/// What a connection of HTTP/2 begins with (RFC 9113 section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl Session {
    /// Receives the head; `Err` says why there is none.
    pub(super) async fn receive(&mut self, transaction: &mut Transaction) -> Result<BodyLength, Failure> {
        transaction.timeline.first_byte = Some(self.worker.now());
        let consumed = self.receive_head(transaction).await?;
        let length = request_body_length(&transaction.request);
        if length == BodyLength::Chunked && self.side.frontend.varnishd().is_none() {
            // What is wrong with chunks that came along makes it no request at all, as in HAProxy.
            let chunks = self.client.received.bytes().get(consumed..).unwrap_or_default();
            let tracked = BodyTracker::new(length, &self.limits()).track(chunks);
            tracked.map_err(|_| Failure::Malformed(400))?;
        }
        if self.side.frontend.varnishd().is_none() && http::has_unexpected_body(&transaction.request) {
            return Err(Failure::Malformed(413));
        }
        let expects = transaction.request.headers.first_known(HeaderId::Expect);
        if self.side.frontend.varnishd().is_some()
            && expects.is_some_and(|expects| !expects.eq_ignore_ascii_case(b"100-continue"))
        {
            return Err(Failure::Malformed(417));
        }
        if http::ConnectionOptions::of(&transaction.request.headers).other && self.may_reach_cache() {
            if accelerator::fields::names_end_to_end(&transaction.request.headers) {
                return Err(Failure::Malformed(400));
            }
            // NOTE: under varnishd's manager the program sees them, as in Varnish, and its machine removes them.
            if self.side.frontend.varnishd().is_none() {
                accelerator::fields::remove_named(&mut transaction.request.headers);
            }
        }
        self.client.received.consume(consumed);
        transaction.asked.head_bytes = consumed as u64;
        let request = &mut transaction.request;
        transaction.asked.wants_keep_alive = http::keep_alive(request.version(), &request.headers);
        // NOTE: a program of VCL sees what the client says of its connection, and takes it away from what goes on.
        if self.side.frontend.accelerator.is_none() {
            http::remove_persistence(&mut request.headers);
        }
        // NOTE: varnishd takes the target apart as Varnish does.
        match self.side.frontend.varnishd() {
            None => request.normalize_target(),
            Some(_) => request.drop_default_port(),
        }
        transaction.bytes_in += size::of_request(&transaction.request);
        self.exchange().begin(transaction);
        Ok(length)
    }

    /// Whether a cache may answer, as far as can be said before the rules have run.
    fn may_reach_cache(&self) -> bool {
        self.side.frontend.has_cache() || self.instance.proxies.iter().any(|proxy| proxy.has_cache())
    }

    /// Whether a client may begin with HTTP/2's preface although nothing has been agreed on.
    fn may_turn_to_http2(&self) -> bool {
        let settings = self.side.frontend.settings();
        let bind = settings.binds.get(self.side.listener);
        self.first && !settings.options.disable_h2_upgrade && bind.is_none_or(|bind| bind.protocol.is_none())
    }

    async fn receive_head(&mut self, transaction: &mut Transaction) -> Result<usize, Failure> {
        let timeouts = &self.side.frontend.settings().timeouts;
        let first_byte = transaction.timeline.first_byte.unwrap_or(self.idle_since);
        let began = match self.first {
            true => self.side.accepted,
            // NOTE: in Varnish a request has no more time than the silence before it.
            false if self.side.frontend.varnishd().is_some() => self.idle_since,
            false => first_byte,
        };
        let limit = timeouts.http_request.or(timeouts.client);
        let limit = self.connection_timeouts().map(|timeouts| timeouts.idle).or(limit);
        self.deadline.set(limit.map(|limit| began + limit));
        let (limits, mut parser) = (self.limits(), RequestParser::new());
        let request = &mut transaction.request;
        let is_varnishd = limits.as_varnish;
        let may_turn = self.may_turn_to_http2();
        let (client, deadline) = (&mut self.client, &mut self.deadline);
        poll_fn(|context| {
            loop {
                if is_varnishd && client.received.bytes().starts_with(HTTP2_PREFACE) {
                    return Poll::Ready(Err(Failure::Http2));
                }
                // NOTE: what may still become HTTP/2's preface is not refused before it is something else, as in Varnish.
                let may_be_http2 = is_varnishd && HTTP2_PREFACE.starts_with(client.received.bytes());
                if !client.received.is_empty() && !may_be_http2 {
                    match parser.parse(client.received.bytes(), &limits, request) {
                        Ok(Parsed::Complete { consumed }) => return Poll::Ready(Ok(consumed)),
                        Ok(Parsed::Incomplete) if client.received.is_full() => {
                            return Poll::Ready(Err(if is_varnishd {
                                Failure::Overflow
                            } else {
                                Failure::Malformed(400)
                            }));
                        }
                        Ok(Parsed::Incomplete) => {}
                        Err(error) if error.kind == ParseErrorKind::Http2Preface && may_turn => {
                            return Poll::Ready(Err(Failure::BeginsHttp2));
                        }
                        Err(error)
                            if is_varnishd
                                && matches!(
                                    error.kind,
                                    ParseErrorKind::HeadTooLarge | ParseErrorKind::TargetTooLong
                                ) =>
                        {
                            return Poll::Ready(Err(Failure::Overflow));
                        }
                        Err(error) => {
                            let status = match error.status(Sender::Client) {
                                505 => 505,
                                422 if !is_varnishd => 422,
                                _ => 400,
                            };
                            return Poll::Ready(Err(Failure::Malformed(status)));
                        }
                    }
                }
                match client.poll_receive(context) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(Failure::Closed)),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Failure::Reset)),
                    Poll::Pending => return deadline.poll(context).map(|()| Err(Failure::Timeout)),
                }
            }
        })
        .await
    }

    /// Counts something that came in a request's place.
    pub fn count_bad_request(&self, transaction: &mut Transaction) {
        transaction.asked.stage = RequestStage::Invalid;
        if transaction.log.level.get() != Some(None) {
            transaction.take_number();
        }
        transaction.count_tracked_request();
        self.side.count(self.worker.index, |traffic| &traffic.request_errors);
        self.side.frontend.frontend.traffic.of(self.worker.index).requests.increment();
    }

    /// Counts the end of a connection that brought no request. `option dontlognull` is silent about those that brought nothing.
    fn count_unreadable(&self, transaction: &mut Transaction, silent: bool) {
        if silent && self.side.frontend.settings().options.dontlognull {
            transaction.log.level.set(Some(None));
        }
        self.count_bad_request(transaction);
    }

    /// Answers by a status line and nothing else, as Varnish does where it has not understood the request.
    async fn answer_bare(&mut self, transaction: &mut Transaction, status: u16) -> Next {
        let line = format!("HTTP/1.1 {status} {}\r\n\r\n", http::reason_phrase(status));
        transaction.answered.status = status;
        transaction.log.varnish.head_sent(line.len());
        self.client.output.extend_from_slice(line.as_bytes());
        match self.exchange().flush().await {
            Ok(()) => Next::Linger,
            Err(_) => Next::Close,
        }
    }

    /// Not a word, as in Varnish: the client would not understand it.
    fn end_http2(&self, transaction: &mut Transaction) -> Next {
        varnish_log::closes(&self.side, CloseReason::ReqHttp20);
        transaction.end(Ending::RequestMalformed(Stage::Request));
        transaction.log.level.set(Some(None));
        self.count_bad_request(transaction);
        Next::Close
    }

    /// Tells the client, if need be, that there is no request.
    pub(super) async fn no_request(&mut self, transaction: &mut Transaction, failure: &Failure) -> Next {
        let options = &self.side.frontend.settings().options;
        let silent = self.client.received.is_empty();
        if silent && self.first {
            // Nothing came: all the time there was is that of the connection.
            transaction.timeline.first_byte = Some(self.side.accepted);
        }
        match failure {
            Failure::Timeout if silent => varnish_log::closes(&self.side, CloseReason::RxCloseIdle),
            Failure::Timeout => varnish_log::closes(&self.side, CloseReason::RxTimeout),
            Failure::Overflow => varnish_log::closes(&self.side, CloseReason::RxOverflow),
            _ => {}
        }
        match failure {
            // The end between two requests is how a kept connection ends.
            Failure::Closed | Failure::Reset if silent && !self.first => {
                transaction.log.level.set(Some(None));
                Next::Close
            }
            Failure::Timeout if silent && !self.first => {
                transaction.log.level.set(Some(None));
                Next::Close
            }
            Failure::Closed | Failure::Reset | Failure::Timeout if silent && options.http_ignore_probes => {
                transaction.end(Ending::ClientLeft(Stage::Request));
                transaction.log.level.set(Some(None));
                Next::Close
            }
            // NOTE: as Varnish has it, who sends no whole request is not answered.
            Failure::Closed | Failure::Reset | Failure::Timeout if self.side.frontend.varnishd().is_some() => {
                transaction.end(if matches!(failure, Failure::Timeout) {
                    Ending::ClientTimedOut(Stage::Request)
                } else {
                    Ending::ClientLeft(Stage::Request)
                });
                self.count_unreadable(transaction, silent);
                Next::Close
            }
            Failure::Overflow => {
                transaction.keep_invalid_request(self.client.received.bytes(), &self.limits());
                transaction.end(Ending::RequestMalformed(Stage::Request));
                self.count_bad_request(transaction);
                Next::Linger
            }
            Failure::Http2 | Failure::BeginsHttp2 => self.end_http2(transaction),
            Failure::Closed | Failure::Reset => {
                transaction.end(Ending::ClientLeft(Stage::Request));
                self.count_unreadable(transaction, silent);
                transaction.count_tracked_error();
                if matches!(failure, Failure::Reset) {
                    transaction.answered.status = 400;
                    return Next::Close;
                }
                // It may have ended only what it sends.
                self.exchange().answer_error(transaction, 400).await
            }
            Failure::Timeout => {
                transaction.end(Ending::ClientTimedOut(Stage::Request));
                self.count_unreadable(transaction, silent);
                self.exchange().answer_error(transaction, 408).await
            }
            Failure::Malformed(status) => {
                transaction.keep_invalid_request(self.client.received.bytes(), &self.limits());
                transaction.end(Ending::RequestMalformed(Stage::Request));
                self.count_bad_request(transaction);
                transaction.count_tracked_error();
                let (status, bytes) = (*status, self.client.received.bytes().to_vec());
                let next = match self.side.frontend.varnishd() {
                    Some(_) => self.answer_bare(transaction, status).await,
                    None => self.exchange().answer_error(transaction, status).await,
                };
                varnish_log::refused(&self.worker, transaction, &bytes, status);
                next
            }
        }
    }
}
