//! Plugins: answerers in this process, each request's on a thread of their kind, behind a pair of sockets.
//!
//! ```text
//!  Fetch::run ─▶ start ─▶ Wire, as to a server of HTTP/1 ◀─ pair of sockets ─▶ a thread: plugin::serve
//! ```
//!
//! So the bounds of memory, the timeouts and the ends of a server's connection are a plugin's too. If the client leaves, the socket is closed, which the plugin hears of when
//! it reads or writes. A thread cannot be ended: after `timeout server` the client has its 504, and the thread goes on until the plugin is done.

use std::{os::unix::net::UnixStream, rc::Rc, sync::Arc};

use haproxycfg::model::PluginCall;
use live::LiveProxy;
use net::{Socket, Stream};

use crate::{
    session::{
        fetch::{HeadEnd, Unfetched, Unreachable},
        transaction::Transaction,
        wire::Wire,
    },
    worker::Worker,
};

/// What the log calls a plugin that answers.
pub const NAME: &str = "<PLUGIN>";

/// Gives a thread of plugins one end of a connection; the other end is where the request goes.
pub fn start(
    worker: &Worker,
    transaction: &Transaction,
    backend: &LiveProxy,
    call: &Arc<PluginCall>,
) -> Result<Wire, Unfetched> {
    let refused = |error| Unfetched::Unreachable(Unreachable::Refused(error));
    let (near, far) = UnixStream::pair().map_err(refused)?;
    near.set_nonblocking(true).map_err(refused)?;
    let near = Stream::from_socket(Socket::Unix(near)).map_err(refused)?;
    let process = &backend.process;
    let limits = transaction.response_limits(backend.settings());
    let tune = &transaction.instance.config.global.tune;
    // Others will be done soon: 503 with `Retry-After`.
    process
        .plugins
        .serve(call, far, limits, tune)
        .map_err(|_| Unfetched::NoResponse { end: HeadEnd::Refused(503), reused: false })?;
    Ok(Wire::new(Rc::new(near), worker.buffers.clone()))
}
