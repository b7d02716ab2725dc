//! Idle server connections of other workers: asked for when this one has none, so that a request need not open one while
//! others lie idle (`tune.idle-pool.shared`).
//!
//! Nobody reaches into another worker's pool. Whoever has none asks the others by a message; the first that has a suitable one
//! gives it away. Asking has a short time, after which a connection is opened as if there were none: workers that are busy
//! are not waited for.

use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Relaxed},
        },
    },
    time::Duration,
};

use live::LiveServer;
use net::{Stream, Target};
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::timeout,
};

use super::{descriptors::CloseIdleRequest, fetch::Codec, wire::Wire};
use crate::{
    pool::{Lent, Reuse, ServerConnection},
    worker::Worker,
};

/// How long other workers are waited for: about as long as opening a connection would take.
const PATIENCE: Duration = Duration::from_millis(2);

/// The other workers, as one of them reaches them.
pub trait OtherWorkers {
    /// Asks every worker but the one that asks for an idle connection; each calls [`IdleConnectionRequest::grant`].
    fn ask_idle(&self, plea: IdleConnectionRequest);

    /// Asks every worker but the one that asks to close idle connections; each calls [`CloseIdleRequest::carry_out`].
    fn close_idle(&self, request: CloseIdleRequest);
}

/// There are none.
#[cfg(test)]
impl OtherWorkers for () {
    fn ask_idle(&self, _plea: IdleConnectionRequest) {}

    fn close_idle(&self, _request: CloseIdleRequest) {}
}

/// A worker's request to the others for an idle connection to a server.
#[derive(Clone, Debug)]
pub struct IdleConnectionRequest {
    /// Who asks.
    pub from: usize,
    server: Arc<LiveServer>,
    reuse: Reuse,
    place: Option<Target>,
    is_granted: Arc<AtomicBool>,
    answer: UnboundedSender<Lent>,
}

impl IdleConnectionRequest {
    /// Gives a connection away if there is one in this worker's pool and no other worker was faster.
    pub fn grant(self, worker: &Worker) {
        let mut pool = worker.servers.borrow_mut();
        if self.is_granted.load(Relaxed) || self.answer.is_closed() {
            return;
        }
        let Some(connection) = pool.take(&self.server, self.reuse, (self.place.as_ref(), 0)) else { return };
        if self.is_granted.swap(true, AcqRel) {
            return pool.give(connection);
        }
        if let Some(lent) = connection.lend() {
            // Who asked may have lost patience: then the connection is closed.
            let _ = self.answer.send(lent);
        }
    }
}

/// A connection from another worker's pool.
pub async fn borrow(
    worker: &Worker,
    server: &Arc<LiveServer>,
    reuse: Reuse,
    place: Option<Target>,
) -> Option<Box<ServerConnection>> {
    let instance = worker.instance();
    if !instance.config.global.tune.idle_pool_shared {
        return None;
    }
    let (answer, mut answers) = unbounded_channel();
    worker.neighbours.others.ask_idle(IdleConnectionRequest {
        from: worker.index,
        server: Arc::clone(server),
        reuse,
        place,
        is_granted: Arc::default(),
        answer,
    });
    drop(instance);
    // Each worker drops its end when it has looked.
    let lent = timeout(PATIENCE, answers.recv()).await.ok()??;
    let stream = Stream::from_socket(lent.socket).ok()?;
    let wire = Wire::new(Rc::new(stream), worker.buffers.clone());
    let codec = match server.speaks_fastcgi() {
        true => Codec::fastcgi(wire, true, server, (false, &worker.log)),
        false => Codec::of(wire, true),
    };
    let mut connection = worker.servers.borrow_mut().open(codec, Arc::clone(server));
    (connection.epoch, connection.requests, connection.ends) = (lent.epoch, lent.requests, lent.ends);
    if connection.is_stale() {
        return None;
    }
    worker.traffic().borrowed.increment();
    Some(connection)
}
