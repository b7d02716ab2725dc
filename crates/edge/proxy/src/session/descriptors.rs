//! Idle connections to servers hold descriptors that others may need more.
//!
//! From `tune.pool-low-fd-ratio` on nothing more is kept idle, above `tune.pool-high-fd-ratio` one that is idle is closed for each that
//! is opened to the same server, as in HAProxy. Where there is no descriptor left for a connection, all that are idle give way.

use std::{io, sync::atomic::Ordering::Relaxed, time::Duration};

use live::LiveServer;
use rustix::io::Errno;
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::timeout,
};

use crate::worker::Worker;

/// How long the other workers are waited for when there is no descriptor left.
const PATIENCE: Duration = Duration::from_millis(50);

/// A worker's request to the others to close idle connections to servers.
#[derive(Clone, Debug)]
pub struct CloseIdleRequest {
    /// Who asks.
    pub from: usize,
    which: IdleConnections,
    /// Told how many were closed. Each worker drops its end when it has looked.
    closed: UnboundedSender<usize>,
}

/// Which idle connections are to be closed.
#[derive(Clone, Copy, Debug)]
enum IdleConnections {
    /// One to the server with this key.
    OneTo(u64),
    /// All of them.
    All,
}

impl CloseIdleRequest {
    /// Closes those of this worker.
    pub fn carry_out(self, worker: &Worker) {
        let mut pool = worker.servers.borrow_mut();
        let closed = match self.which {
            IdleConnections::OneTo(key) => usize::from(pool.close_idle_to(key)),
            IdleConnections::All => pool.close_idle(),
        };
        if closed > 0 {
            // Who asked may have lost patience.
            let _ = self.closed.send(closed);
        }
    }
}

/// Whether connections to servers may be kept idle.
#[must_use]
#[inline]
pub fn may_keep_idle(worker: &Worker) -> bool {
    in_use(worker) < worker.idle_marks().low
}

/// Descriptors of connections.
fn in_use(worker: &Worker) -> u64 {
    let process = &worker.shared.process;
    process.connections.value() + process.server_connections.load(Relaxed)
}

/// Closes an idle connection to a server to which one is opened, if many descriptors are in use: here, or else in another worker.
pub fn make_room(worker: &Worker, server: &LiveServer) {
    if server.idle.value() == 0 || in_use(worker) <= worker.idle_marks().high {
        return;
    }
    if !worker.servers.borrow_mut().close_idle_to(server.key) {
        let (closed, _) = unbounded_channel();
        let which = IdleConnections::OneTo(server.key);
        worker.neighbours.others.close_idle(CloseIdleRequest { from: worker.index, which, closed });
    }
}

/// Whether a connection could not be opened for want of descriptors.
#[must_use]
pub fn are_lacking(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Closes all idle connections to servers, of all workers; whether there were any.
pub async fn free(worker: &Worker) -> bool {
    let mut freed = worker.servers.borrow_mut().close_idle();
    let (closed, mut reports) = unbounded_channel();
    worker.neighbours.others.close_idle(CloseIdleRequest { from: worker.index, which: IdleConnections::All, closed });
    // A busy worker is not waited for if there is some room already.
    let patience = if freed > 0 { Duration::ZERO } else { PATIENCE };
    let waiting = timeout(patience, async {
        while let Some(closed) = reports.recv().await {
            freed += closed;
        }
    });
    let _ = waiting.await;
    freed > 0
}
