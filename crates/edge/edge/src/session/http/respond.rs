//! Passing a server's response on to the client: rules, head, body or tunnel.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use haproxycfg::model::{ConnectionMode, Proxy};
use http::{BodyLength, Headers, Method, response_body_length};
use sample::{Context, Direction};

use super::{Next, Session, exchange::connection_mode, limits, response_rules::Source, transfer::Transfer};
use crate::{
    live::LiveProxy,
    session::{
        body::BodyPump,
        filter::{self, Compression, Stages},
        logging, persistence, size,
        transaction::Transaction,
        upstream::{Upstream, observe},
    },
    stick,
};

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
        let in_doubt = transaction.response.is_in_doubt();
        let server_keeps = !in_doubt && http::keep_alive(transaction.response.version(), &transaction.response.headers);
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
            && frontend.settings().connection_mode != ConnectionMode::Close
            && length != BodyLength::UntilClose
            && !decode
            && !in_doubt
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
        let client_keeps =
            client_keeps && !transaction.closed_by_rules.client && !matches!(transaction.response.status(), 100..=199);
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
                    && !transaction.closed_by_rules.server
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

    pub(super) fn log_early(&self, transaction: &mut Transaction, body: usize) {
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

fn capture_response(transaction: &mut Transaction, settings: &Proxy) {
    for (slot, capture) in settings.response_captures.iter().enumerate() {
        let Some(name) = &capture.name else { continue };
        let value = transaction.response.headers.last(name.as_bytes()).map(<[u8]>::to_vec);
        if let Some(value) = value {
            transaction.set_capture(Direction::Response, slot, &value);
        }
    }
}
