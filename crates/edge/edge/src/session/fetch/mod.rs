//! Getting what a server has to say: choosing one, waiting for a slot, taking an idle connection or opening a new one, and
//! trying again after a failure.

mod attempts;
mod open;
mod queue;
mod reuse;
mod watch;

use std::io;

use balance::{Forced, ServerId};
use haproxycfg::model::ServerIndex;

pub use self::{attempts::Attempts, queue::Slot, watch::Watch};
use crate::{live::LiveProxy, pool::ServerConnection, worker::Worker};

/// A connection to a server and the right to use it.
pub struct Upstream<'a> {
    /// The connection.
    pub connection: Box<ServerConnection>,
    /// The right.
    pub slot: Option<Slot<'a>>,
    /// Whether the connection had served requests before.
    pub reused: bool,
}

/// Why there is no connection to a server.
#[derive(Debug)]
pub enum Unreachable {
    /// No server is up.
    NoServer,
    /// The queues are full.
    QueueFull,
    /// It waited too long in a queue.
    QueueTimeout,
    /// The client left meanwhile.
    ClientGone,
    /// The client's connection failed meanwhile, in TCP mode.
    ClientFailed,
    /// It was told to end.
    Killed,
    /// The last attempt failed.
    Refused(io::Error),
    /// The last attempt took too long.
    ConnectTimeout,
    /// The request has not the source address that it is to come from (`usesrc hdr_ip`).
    NoSource,
    /// The client is to ask the server itself (`redir`).
    Elsewhere,
}

/// What is asked of the balancer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The hash key.
    pub key: Option<u32>,
    /// The server that persistence or `use-server` names.
    pub forced: Option<Forced>,
    /// Not this one, if there is another.
    pub avoid: Option<ServerId>,
}

/// Tells the health of a server what traffic has shown.
pub fn observe(worker: &Worker, proxy: &LiveProxy, server: ServerIndex, observation: balance::Observation) {
    proxy.with_farm(|farm| farm.observe(ServerId::new(server.0 as usize), observation, worker.now_ms()));
}
