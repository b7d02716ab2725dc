//! Keeping invalid messages for `show errors`.

use std::sync::atomic::Ordering::Relaxed;

use http::ParseError;

use super::{Session, head_limits};
use crate::{
    capture::{self, Capture, Named},
    live::{LiveProxy, LiveServer},
    session::{context::wall_clock, transaction::Transaction, upstream::Upstream},
};

fn named(proxy: &LiveProxy) -> Named {
    let settings = proxy.settings();
    (settings.name.to_string(), settings.id)
}

impl Session {
    /// Keeps what the client sent instead of a request.
    pub(super) fn capture_request(&self, transaction: &Transaction) {
        let bytes = self.client.received.bytes();
        let wrong = capture::wrong_request(bytes, &self.limits());
        let capture = self.capture(transaction, bytes, wrong, None);
        self.side.frontend.invalid_request.keep(capture);
    }

    /// Keeps what a server sent instead of a response.
    pub(super) fn capture_response(&self, transaction: &Transaction, upstream: &Upstream<'_>) {
        let Some(backend) = &transaction.backend else { return };
        let bytes = upstream.connection.wire.received.bytes();
        let limits = head_limits(&self.instance, backend.settings(), &upstream.connection.server);
        let wrong = capture::wrong_response(bytes, &limits);
        // What is wrong only for this request has been consumed.
        if wrong.is_none() && !upstream.connection.wire.received.is_full() {
            return;
        }
        let capture = self.capture(transaction, bytes, wrong, Some(&upstream.connection.server));
        backend.invalid_response.keep(capture);
    }

    fn capture(
        &self,
        transaction: &Transaction,
        bytes: &[u8],
        wrong: Option<ParseError>,
        server: Option<&LiveServer>,
    ) -> Capture {
        Capture {
            at: wall_clock(),
            event: self.instance.process.captures.fetch_add(1, Relaxed),
            is_response: server.is_some(),
            frontend: named(&self.side.frontend),
            backend: transaction.backend.as_deref().map(named),
            server: server.map(|server| (server.config.name.to_string(), server.config.id)),
            source: self.side.source.get(),
            position: wrong.as_ref().map_or(bytes.len() as u64, |wrong| wrong.offset),
            reason: wrong.map_or("the head does not fit into a buffer", |wrong| wrong.kind.text()),
            bytes: bytes.to_vec(),
            room: self.instance.config.global.tune.bufsize,
        }
    }
}
