//! Commands that change the cluster: a node hands them over to whoever passes them on to the cluster's agent, and the client waits for
//! what becomes of them.

use keyspace::Failure;

use crate::{
    Session, SessionId,
    cluster::Membership,
    host::Host,
    replication::{self, Role},
};

use super::{Request, Server, Shared};

/// A command for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRequest {
    /// Which one it is.
    pub number: u64,
    /// The node's name.
    pub node: String,
    /// The command behind `CLUSTER`, as the agent reads it.
    pub command: String,
    /// The agent's socket; empty if the node knows none.
    pub socket: String,
    /// The other node that it names (`MEET`).
    pub other: Option<(String, u16)>,
    /// What is set on the node (`CONFIG REWRITE`): names with values.
    pub settings: Option<Vec<(&'static str, String)>>,
}

/// What has become of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAnswer {
    /// It is done; this is the reply.
    Done(String),
    /// The node belongs to no cluster any more.
    Reset,
    /// It is not done, and why.
    Refused(String),
}

/// Sessions whose commands are on their way to the agent.
#[derive(Debug, Default)]
pub(super) struct AwaitedAgent {
    waiting: Vec<(u64, SessionId)>,
}

impl AwaitedAgent {
    /// Whether a session waits for the agent.
    pub(super) fn is_awaited_by(&self, session: SessionId) -> bool {
        self.waiting.iter().any(|(_, waiting)| *waiting == session)
    }
}

impl Shared {
    /// Where it runs. A node of a cluster goes on with the term that was kept there.
    pub fn set_host(&mut self, host: Box<dyn Host>) {
        if let Some(membership) = &mut self.cluster {
            membership.term = membership.term.max(host.kept_term());
        }
        self.host = host;
    }

    /// Whether this server is the node that somebody means who has come to its address.
    ///
    /// # Errors
    ///
    /// It is another one. What is not known is not refused.
    pub(crate) fn check_node(&self, meant: &[u8]) -> Result<(), Failure> {
        match self.host.node() {
            Some(node) if node.as_bytes() != meant => Err(Failure::owned(format!(
                "WRONGNODE this store is node {node}, and node {} is meant: the address leads to another machine than the one that is \
                 meant. Does the name service name the right one?",
                String::from_utf8_lossy(meant)
            ))),
            _ => Ok(()),
        }
    }

    /// Hands a command over. The session waits.
    pub(crate) fn ask_agent(&mut self, session: &mut Session, mut request: AgentRequest) {
        self.migrations.number += 1;
        request.number = self.migrations.number;
        session.block(&[b"CLUSTER"], Vec::new(), None, b"-ERR the cluster's agent has not answered yet\r\n".to_vec());
        if let Some(blocked) = &mut session.blocked {
            blocked.migration = request.number;
        }
        self.sessions.agent.waiting.push((request.number, session.id));
        self.outbox.push(Request::AskAgent(request));
    }

    /// Forgets the cluster. A replica becomes a master that has what it has.
    pub(crate) fn leave_cluster(&mut self) {
        if self.cluster.is_some() {
            self.cluster = Some(Box::<Membership>::default());
            // If it stays, an agent of another cluster that has a smaller term is refused, which says so.
            let _ = self.host.keep_term(0);
        }
        if self.replication.master().is_some() {
            self.replication.role = Role::Master;
            self.outbox.push(Request::Replication(replication::Request::Promote));
            self.settings.replicaof = crate::config::Master(None);
        }
        // That was the agent's: there are no replicas any more whose acknowledgements could be waited for.
        self.settings.replica_ack = crate::config::Settings::default().replica_ack;
        self.let_postponed_go();
    }
}

impl Server {
    /// Answers the client of a command that was handed over.
    pub fn finish_agent_request(&mut self, number: u64, answer: AgentAnswer) {
        let Some(place) = self.shared.sessions.agent.waiting.iter().position(|(waiting, _)| *waiting == number) else {
            return;
        };
        let (_, id) = self.shared.sessions.agent.waiting.swap_remove(place);
        if answer == AgentAnswer::Reset {
            self.shared.leave_cluster();
        }
        let Some(session) = self.shared.sessions.get_mut(id) else { return };
        let Some(blocked) = session.blocked.as_mut().filter(|blocked| blocked.migration == number) else { return };
        match answer {
            AgentAnswer::Done(reply) => blocked.on_timeout = format!("+{reply}\r\n").into_bytes(),
            AgentAnswer::Reset => blocked.on_timeout = b"+OK\r\n".to_vec(),
            AgentAnswer::Refused(reason) => {
                self.shared.end_blocking(id, Some(&reason.replace(['\r', '\n'], " ")));
                self.run_runnable();
                return;
            }
        }
        self.shared.end_blocking(id, None);
        self.run_runnable();
    }
}
