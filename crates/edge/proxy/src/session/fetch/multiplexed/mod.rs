//! HTTP/2 with servers: one connection carries several exchanges at a time, of whatever clients.
//!
//! ```text
//!  exchange ──▶ Stream (a codec) ──puts, pulls──▶ Shared: machine, what has come ◀──▶ serve: the task with the socket
//!                 ▲                                                                       │
//!                 └───────────────────────────── wakes ───────────────────────────────────┘
//! ```
//!
//! One task for each connection owns its socket: it receives, gives the machine what comes, wakes the exchanges that something has
//! come for, and sends what all of them have put there since its last turn, in one call. A worker's connection is used by this worker
//! alone. The pool has it as long as it takes more exchanges; it is idle when it carries none.

mod carrier;
mod shared;
mod stream;
mod task;
#[cfg(test)]
pub(in crate::session) mod tests;

use std::rc::Rc;

use h2::Settings;
use haproxycfg::model::Tune;
use http::Limits;

pub use self::{
    carrier::{Carrier, SharedConnection},
    shared::Shared,
    stream::Stream,
};
use crate::{
    pool::{ConnectionFacts, ServerConnection},
    session::wire::Wire,
    worker::Worker,
};

/// What is said of itself to servers.
fn settings(tune: &Tune) -> Settings {
    let settings = Settings {
        header_table_size: tune.h2.header_table_size,
        // Without any, no body would ever come.
        stream_window: tune.h2.initial_window_size.max(1),
        streams_max: tune.h2.max_concurrent_streams,
        frame_bytes_max: tune.h2.max_frame_size,
        ..Settings::default()
    };
    // NOTE: room for all streams: one whose client is slow must not take the others' place.
    let connection_window = settings.stream_window.saturating_mul(settings.streams_max.saturating_add(1));
    Settings { connection_window: connection_window.min(h2::WINDOW_MAX), ..settings }
}

/// Begins HTTP/2 on a connection that stands, for one exchange and, unless it is private, for others.
pub fn begin(worker: &Rc<Worker>, wire: Wire, limits: Limits, facts: ConnectionFacts) -> Box<ServerConnection> {
    let settings = settings(&worker.instance().config.global.tune);
    let shared = Rc::new(Shared::new(worker.buffers.size(), &wire, (settings, limits), facts));
    let offered: Rc<dyn SharedConnection> = shared.clone();
    let connection = ServerConnection::of_shared(&offered);
    worker.servers.borrow_mut().offer(&offered);
    tokio::task::spawn_local(worker.clocked(task::serve(Rc::clone(worker), shared, wire)));
    connection
}
