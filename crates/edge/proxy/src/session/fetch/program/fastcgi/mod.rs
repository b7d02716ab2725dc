//! FastCGI with servers.
//!
//! Most applications answer one request at a time on a connection (PHP-FPM): [`FastCgi`] is such a connection. Where an application
//! takes several, [`Stream`] is one exchange's part of a connection that a task of its own serves:
//!
//! ```text
//!  exchange ──▶ Stream (a codec) ──records──▶ Shared: client, what has come ◀──▶ serve: the task with the socket
//! ```
//!
//! FastCGI has no windows: an application cannot be told to send less of one answer. So what has come of an answer and was not taken is
//! bounded, and a connection on which one is at that bound is read no further, and gets no more requests. An answer of which nothing is
//! taken for too long, while others wait, is given up (`option mpxs-wait`).

mod exchange;
mod room;
mod shared;
mod single;
mod stream;
mod task;
mod values;

use std::rc::Rc;

use fastcgi::Settings;
use haproxycfg::model::FcgiApp;
use live::{LiveProxy, LiveServer};

use self::room::Unanswered;
pub use self::{
    room::requests_at_a_time,
    shared::{Bounds, Shared},
    single::FastCgi,
    stream::Stream,
    values::ask,
};
use crate::{
    pool::{ConnectionFacts, ServerConnection},
    session::{fetch::multiplexed::SharedConnection, wire::Wire},
    worker::Worker,
};

/// What a connection that carries several requests may take, and how many these are; nothing if it carries one.
pub fn several(proxy: &LiveProxy, app: &FcgiApp, server: &LiveServer) -> Option<(Bounds, usize)> {
    let requests_max = requests_at_a_time(proxy, app, server);
    (requests_max > 1).then(|| (Bounds::of(app, proxy.settings().timeouts.server), requests_max))
}

/// Begins FastCGI on a connection that stands, for so many requests at a time.
pub fn begin(
    worker: &Rc<Worker>,
    wire: Wire,
    (bounds, requests_max): (Bounds, usize),
    facts: ConnectionFacts,
) -> Box<ServerConnection> {
    let settings = Settings { keeps_connection: true, requests_max };
    let shared = Rc::new(Shared::new(&wire, settings, bounds, facts, &worker.log));
    let offered: Rc<dyn SharedConnection> = shared.clone();
    let connection = ServerConnection::of_shared(&offered);
    worker.servers.borrow_mut().offer(&offered);
    tokio::task::spawn_local(worker.clocked(task::serve(Rc::clone(worker), shared, wire)));
    connection
}
