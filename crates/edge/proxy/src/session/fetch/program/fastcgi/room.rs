//! What is known of how much an application takes.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use haproxycfg::model::{FcgiApp, HttpReuse};
use live::{LiveProxy, LiveServer};

/// Counts connections whose application has not said anything: see [`LiveServer::unanswered`].
#[derive(Debug)]
pub struct Unanswered(Arc<LiveServer>);

impl Unanswered {
    pub fn new(server: &Arc<LiveServer>) -> Self {
        server.unanswered.increment();
        Self(Arc::clone(server))
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.decrement();
    }
}

/// How many requests a connection to a server of this proxy carries at a time.
pub fn requests_at_a_time(proxy: &LiveProxy, app: &FcgiApp, server: &LiveServer) -> usize {
    // Connections that are not shared carry one client's requests, which come one after the other.
    let is_shared = proxy.settings().http_reuse != HttpReuse::Never && server.config.send_proxy.is_none();
    if !is_shared || !app.keeps_connection {
        return 1;
    }
    match server.fcgi_requests_max.load(Relaxed) {
        // NOTE: as long as the application has not said otherwise, one at a time is what each of them can do.
        0 if app.asks_values || !app.is_multiplexed => 1,
        0 => app.requests_max,
        said => said as usize,
    }
}
