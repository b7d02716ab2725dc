//! What commands ask of whoever runs the server: all of it in one queue, in the order in which it was asked for.

use std::collections::VecDeque;

use crate::{SessionId, replication};

use super::{AgentRequest, Forward, Load, Migration, Server, Warmup};

/// What whoever runs the server is asked to do. What has an answer has a number or a session by which that is told.
#[derive(Debug)]
pub enum Request {
    /// A checkpoint, done before anybody is answered.
    Save,
    /// A checkpoint, when there is time.
    Checkpoint,
    /// Everything is to be closed and opened again from the disk, before anybody is answered (`DEBUG RELOAD`).
    Reload,
    /// The process has opened other addresses to listen on.
    Listen,
    /// Settings have changed that the process may follow.
    FollowSettings,
    /// A shutdown that waits is not to be.
    AbortShutdown,
    /// A key is to be read from the tables: [`Server::loaded`].
    Load(Load),
    /// Elements are to be read from them, so that they are in the tables' cache: [`Server::warmed`].
    Warm(Warmup),
    /// Keys are to be sent to another server: [`Server::finish_migration`].
    Migrate(Migration),
    /// A command is to be passed on to the cluster's agent: [`Server::finish_agent_request`].
    AskAgent(AgentRequest),
    /// A command is to be run by the master: [`Server::finish_forward`].
    AskMaster(Forward),
    /// A command is to be run by other nodes of the cluster: [`Server::finish_passed_on`].
    AskNodes(Forward),
    /// The cluster's other masters are to have a message, as a command.
    TellMasters(Vec<u8>),
    /// Nothing is to be run by other nodes for a session any more.
    LeaveNodes(SessionId),
    /// Something about a master or a replica.
    Replication(replication::Request),
}

/// What was asked for and not taken yet.
#[derive(Debug, Default)]
pub struct Outbox(VecDeque<Request>);

impl Outbox {
    /// Asks for something.
    pub fn push(&mut self, request: Request) {
        self.0.push_back(request);
    }

    /// Whether a checkpoint is asked for that may come when there is time.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.0.iter().any(|request| matches!(request, Request::Checkpoint))
    }

    /// What was asked for, for tests.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.0.iter()
    }
}

impl Server {
    /// What is asked for next of whoever runs this.
    #[inline]
    pub fn poll_request(&mut self) -> Option<Request> {
        self.shared.outbox.0.pop_front()
    }
}
