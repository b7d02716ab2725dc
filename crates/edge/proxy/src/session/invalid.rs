//! Keeping invalid messages for `show errors`.

use std::sync::atomic::Ordering::Relaxed;

use http::{Limits, ParseError};
use live::{
    LiveProxy, LiveServer,
    capture::{self, Capture, Named},
};

use super::{
    body::{Duplex as _, Source as _},
    context::wall_clock,
    fetch::Upstream,
    transaction::Transaction,
};

fn named(proxy: &LiveProxy) -> Named {
    let settings = proxy.settings();
    (settings.name.to_string(), settings.id)
}

impl Transaction {
    /// Keeps what the client sent instead of a request.
    pub(super) fn keep_invalid_request(&self, bytes: &[u8], limits: &Limits) {
        let wrong = capture::wrong_request(bytes, limits);
        let capture = self.capture(bytes, wrong, None);
        self.client.frontend.invalid_request.keep(capture);
    }

    /// Keeps what a server sent instead of a response.
    pub(super) fn keep_invalid_response(&self, backend: &LiveProxy, upstream: &Upstream<'_>) {
        let bytes = upstream.connection.codec.received();
        let wrong = capture::wrong_response(bytes, &self.head_limits(backend.settings(), &upstream.connection.server));
        // What is wrong only for this request has been consumed.
        if wrong.is_none() && !upstream.connection.codec.is_full() {
            return;
        }
        let capture = self.capture(bytes, wrong, Some(&upstream.connection.server));
        backend.invalid_response.keep(capture);
    }

    fn capture(&self, bytes: &[u8], wrong: Option<ParseError>, server: Option<&LiveServer>) -> Capture {
        Capture {
            at: wall_clock(),
            event: self.instance.process.captures.fetch_add(1, Relaxed),
            is_response: server.is_some(),
            frontend: named(&self.client.frontend),
            backend: self.route.backend.as_deref().map(named),
            server: server.map(|server| (server.config.name.to_string(), server.config.id)),
            source: self.source.get(),
            position: wrong.as_ref().map_or(bytes.len() as u64, |wrong| wrong.offset),
            reason: wrong.map_or("the head does not fit into a buffer", |wrong| wrong.kind.text()),
            bytes: bytes.to_vec(),
            room: self.instance.config.global.tune.bufsize,
        }
    }
}
