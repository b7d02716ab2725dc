//! Delivering an answer to the client: rules, head, body or tunnel.

use std::sync::Arc;

use haproxycfg::model::{ConnectionMode, Proxy};
use http::{BodyLength, Method};
use live::LiveProxy;
use sample::{Context, Direction};

use super::{ClientStream, Exchange, Next, response_rules::Source, transfer::Transfer};
use crate::session::{
    body::BodyPump,
    caching,
    ending::{Ending, Stage},
    fetch::{Answer, AnswerBody, connection_mode},
    filter::{self, Compression, Stages},
    logging, persistence, size,
    transaction::Transaction,
};

/// How an answer is sent, once nothing changes its head any more.
struct Framed {
    /// How long the body is that is sent, as it comes.
    length: BodyLength,
    /// Whether there is a body that the client does not get.
    hides: bool,
    /// Whether chunks are taken apart.
    decode: bool,
    /// Whether the client's connection goes on.
    client_keeps: bool,
}

impl<C: ClientStream> Exchange<'_, C> {
    /// Delivers an answer that was fetched or stored, wherever it comes from.
    pub async fn deliver(
        &mut self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        answer: Answer<'_>,
        up: &mut BodyPump,
    ) -> Next {
        // A server that has answered cannot refuse any more.
        up.forget_kept();
        let Answer { method, length, mut body } = answer;
        let status = transaction.response.status();
        let frontend = &self.side.frontend;
        capture_response(transaction, frontend.settings());
        let filtered = filter::has_filters(frontend, backend);
        if filtered {
            filter::judge(self.worker, transaction, backend, length);
        }
        // NOTE: what is rare is boxed, here and elsewhere, so that every request need not have room for it.
        if !(backend.settings().http_response.is_empty() && frontend.settings().http_response.is_empty()) {
            let source = Some(Source { body: &mut body, up: &mut *up, length });
            if let Some(next) = Box::pin(self.response_rules(transaction, backend, source)).await {
                return next;
            }
        }
        if !persistence::finish_response(self.worker, transaction, frontend.settings(), backend) {
            transaction.count_denied_response(backend);
            transaction.end(Ending::Refused(Stage::Headers));
            self.settle_body(transaction, up);
            return Box::pin(self.answer_error(transaction, 502)).await;
        }
        let mut body = match body {
            AnswerBody::Server { upstream, .. } if http::begins_tunnel(status, method) => {
                return Box::pin(self.tunnel(transaction, backend, upstream)).await;
            }
            body => body,
        };
        let Some(framed) = self.frame(transaction, backend, method, length, up) else {
            self.settle_body(transaction, up);
            return Box::pin(self.internal_error(transaction, Stage::Headers)).await;
        };
        let stages = if filtered { self.filter_response(transaction, backend, framed.length) } else { None };
        self.write_head(transaction, framed.client_keeps);
        self.log_early(transaction, body.received().len());
        let limits = transaction.response_limits(backend.settings());
        let mut stages = stages;
        if let Some(storing) = caching::begin(transaction, framed.length, &limits) {
            stages.get_or_insert_default().store(storing);
        }
        let mut down = BodyPump::new(framed.length, &limits, framed.decode);
        let tune = &self.instance.config.global.tune;
        if let Some(stages) = stages {
            down.stage(stages);
        }
        if framed.length != BodyLength::None {
            down.splice_from(tune.splice_min, tune.pipesize);
        }
        let transfer = self.transfer(transaction, backend, &mut body, up, &mut down).await;
        if up.spliced + down.spliced > 0 {
            self.count_spliced(backend, up, &down);
        }
        let data = (up.data(), down.data());
        transaction.bytes_out += down.counted();
        transaction.bytes_in += up.take_counted();
        let given = match &body {
            _ if framed.length == BodyLength::None => 0,
            AnswerBody::Object(object) => {
                transaction.log.varnish.gunzipped(object.gunzipped());
                object.given()
            }
            _ => data.1,
        };
        transaction.note_bodies(data.0, given);
        match transfer {
            Transfer::Done => {
                self.client.end();
                self.delivered(transaction, backend, body, up, &framed)
            }
            failed => self.broken_transfer(transaction, backend, body.server(), &failed),
        }
    }

    /// Makes the head say what the client gets and runs the last rules; `None` when one of them failed.
    fn frame(
        &self,
        transaction: &mut Transaction,
        backend: &LiveProxy,
        method: Method,
        length: BodyLength,
        up: &BodyPump,
    ) -> Option<Framed> {
        let (front, back) = (self.side.frontend.settings(), backend.settings());
        let decode = length == BodyLength::Chunked && transaction.asked.version == http::Version::Http10;
        let client_keeps = length != BodyLength::UntilClose
            && !decode
            && !transaction.response.is_in_doubt()
            && self.client_may_go_on(transaction, up.is_received());
        http::remove_hop_by_hop(&mut transaction.response.headers, false);
        let mut shown = show_length(transaction, method, length, decode);
        if !self.after_response(transaction, back) {
            return None;
        }
        if !(front.http_after_response.is_empty() && back.http_after_response.is_empty()) {
            shown = show_length(transaction, method, length, decode);
        }
        // A body that the client is not to get stays on the server's connection, which ends with it.
        let hides = shown == BodyLength::None && !length.is_empty();
        let client_keeps = client_keeps && lets_client_go_on(transaction);
        if hides && let BodyLength::Exact(hidden) = length {
            // As in HAProxy it counts all the same.
            transaction.bytes_out += hidden;
        }
        Some(Framed { length: if hides { BodyLength::None } else { length }, hides, decode, client_keeps })
    }

    /// Whether the client's connection may go on after an answer, before anything is known of that.
    #[inline]
    pub(super) fn client_may_go_on(&self, transaction: &Transaction, whole_request: bool) -> bool {
        transaction.asked.wants_keep_alive
            && self.side.frontend.settings().connection_mode != ConnectionMode::Close
            && whole_request
            && !self.is_leaving()
    }

    /// What the client's connection does after an answer that has been delivered whole.
    #[inline]
    pub(super) fn after_answer(&self, keeps: bool, whole_request: bool) -> Next {
        // Bytes that nobody will read would turn the close into a reset.
        match (keeps, whole_request && self.client.received().is_empty()) {
            (true, _) => Next::KeepAlive,
            (false, true) => Next::Close,
            (false, false) => Next::Linger,
        }
    }

    /// What becomes of both connections when an answer has been delivered whole.
    fn delivered(
        &mut self,
        transaction: &Transaction,
        backend: &LiveProxy,
        body: AnswerBody<'_>,
        up: &mut BodyPump,
        framed: &Framed,
    ) -> Next {
        let mode = connection_mode(self.side.frontend.settings().connection_mode, backend.settings().connection_mode);
        let whole_request = up.is_received() && up.approved() == 0;
        if up.is_received() {
            // NOTE: what of the body nobody has taken must not be read as the next request.
            up.discard(&mut *self.client);
        }
        let may_keep = !framed.hides
            && mode == ConnectionMode::KeepAlive
            && !transaction.by_rules.closes.server
            && framed.length != BodyLength::UntilClose;
        if may_keep && let Some(upstream) = body.into_reusable() {
            self.keep(upstream, backend);
        }
        self.after_answer(framed.client_keeps, whole_request)
    }

    /// Shows the response to the filters of its stream; what they put its body through.
    fn filter_response(
        &self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        length: BodyLength,
    ) -> Option<Box<Stages>> {
        let mut stages = transaction.stages(self.worker, backend, false);
        if let Some(compression) = Compression::begin(self.worker, transaction, backend) {
            let limits = transaction.response_limits(backend.settings());
            let chunked = (length == BodyLength::Chunked).then_some(&limits);
            stages.get_or_insert_default().compress(compression, chunked);
        }
        filter::tell(transaction, backend, filter::Point::Response);
        stages.filter(|_| length != BodyLength::None)
    }

    pub(super) fn log_early(&self, transaction: &mut Transaction, body: usize) {
        if self.side.frontend.settings().options.logasap {
            let bytes = size::of_response(&transaction.response) + body as u64;
            logging::log_early(self.worker, transaction, transaction.timeline.response, bytes);
        }
    }

    /// Puts the response's head behind what the client is to be sent.
    pub(super) fn write_head(&mut self, transaction: &mut Transaction, keeps: bool) {
        transaction.answered.status = transaction.response.status();
        let written = self.client.write_head(transaction, keeps);
        transaction.log.varnish.head_written(&transaction.response, keeps, written);
    }
}

/// Whether the client's connection may go on after this answer, as far as its status and the rules say so.
#[inline]
pub(super) fn lets_client_go_on(transaction: &Transaction) -> bool {
    !transaction.by_rules.closes.client && !matches!(transaction.response.status(), 100..=199)
}

/// Whether a response of this status has no body, whatever was asked (RFC 9110 section 6.4.1).
#[inline]
pub(super) fn has_no_body(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// Makes the response's fields say how long its body is for the client, whatever rules made of them and of the status;
/// tells what of a body of `length` the client gets.
fn show_length(transaction: &mut Transaction, method: Method, length: BodyLength, decode: bool) -> BodyLength {
    let status = transaction.response.status();
    let expects_none = transaction.is_head() || has_no_body(status);
    let shown = match length {
        _ if expects_none => BodyLength::None,
        // The server was asked with HEAD, or its status had no body.
        BodyLength::None => BodyLength::Exact(0),
        BodyLength::Chunked if decode => BodyLength::UntilClose,
        length => length,
    };
    if !expects_none && shown == length && length == http::response_body_length(&transaction.response, method) {
        http::enforce_response_framing(&mut transaction.response, method);
    } else if !expects_none || matches!(status, 100..=199 | 204) {
        http::enforce_framing(&mut transaction.response.headers, shown);
    }
    // NOTE: what the fields say of a body that is not sent (HEAD, 304) is how long it would be.
    shown
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
