//! What is counted of a transaction besides its end.

use std::sync::Arc;

use live::{LiveProxy, counters::Traffic};

use super::{size, transaction::Transaction};

impl Transaction {
    /// Counts a fetch whose response is stored, unless a client's request stands for it, which counts itself. `is_elsewhere` if its
    /// backend is another one than that whose requests the cache answers.
    pub(super) fn count_fetched(&self, status: u16, body: u64, is_elsewhere: bool) {
        if !self.client.is_nobody() {
            return;
        }
        let (bytes_in, bytes_out) = (size::of_request(&self.request), self.bytes_out + body);
        let count = |traffic: &Traffic| {
            traffic.bytes_in.add(bytes_in);
            traffic.bytes_out.add(bytes_out);
            traffic.balanced.increment();
        };
        if let Some(server) = &self.route.server {
            count(server.side.traffic.of(self.worker));
        }
        if let Some(backend) = self.route.backend.as_ref().filter(|_| is_elsewhere) {
            let traffic = backend.backend.traffic.of(self.worker);
            count(traffic);
            traffic.requests.increment();
            traffic.response(status).increment();
        }
    }

    /// Counts a request that a rule denied.
    pub(super) fn count_denied_request(&self) {
        self.client.count(self.worker, |traffic| &traffic.denied_requests);
        if let Some(backend) = &self.route.backend {
            backend.backend.traffic.of(self.worker).denied_requests.increment();
        }
    }

    /// Counts a request that a frontend answers in place of a server, before it has another backend.
    pub(super) fn count_intercepted(&self) {
        let frontend = &self.client.frontend;
        if self.route.backend.as_ref().is_none_or(|backend| Arc::ptr_eq(backend, frontend)) {
            frontend.frontend.traffic.of(self.worker).intercepted.increment();
        }
    }

    /// Counts a response that a rule denied.
    pub(super) fn count_denied_response(&self, backend: &LiveProxy) {
        backend.backend.traffic.of(self.worker).denied_responses.increment();
        self.client.count(self.worker, |traffic| &traffic.denied_responses);
        if let Some(server) = &self.route.server {
            server.side.traffic.of(self.worker).denied_responses.increment();
        }
    }

    /// Counts a transfer that the client gave up.
    pub(super) fn count_client_abort(&self) {
        self.client.frontend.frontend.traffic.of(self.worker).client_aborts.increment();
        self.count_upstream(|traffic| &traffic.client_aborts);
    }

    /// Counts something that went wrong here.
    pub(super) fn count_internal_error(&self) {
        let frontend = &self.client.frontend;
        frontend.frontend.traffic.of(self.worker).internal_errors.increment();
        if let Some(listener) = frontend.listeners.get(self.client.listener) {
            listener.side.traffic.of(self.worker).internal_errors.increment();
        }
        self.count_upstream(|traffic| &traffic.internal_errors);
    }
}
