//! A node of a cluster that serves plain clients: what it has not itself goes to the nodes that have it (`cluster-proxy`).
//!
//! A command whose keys are here runs here. What is refused because its keys are elsewhere is passed on, and so is what is about the
//! keys of all nodes. The session waits for the answer. Clients of Redis Cluster are sent elsewhere as ever.

use keyspace::Failure;
use resp::encode_command;

use crate::{
    Session,
    cluster::{Membership, Peer, Redirect, Standing},
    table::Flags,
};

use super::{FoundCommand, Request, Server, Shared, sessions::Forwards};

/// A command that is passed on to other nodes: not an answer to anybody.
pub(super) const PASSED_ON: Failure = Failure::text("TRYAGAIN the command goes to another node");
/// Keys are watched here, and those of the transaction are elsewhere.
const WATCHED_HERE: Failure =
    Failure::text("CROSSSLOT Keys in request don't hash to the same slot: keys of another node are watched");

/// A command of the transaction was refused.
const PREVIOUS_ERRORS: Failure = Failure::text("ERR previous errors");

/// Commands that are about the keys, the scripts or the listeners of all nodes.
fn is_of_all_nodes(found: FoundCommand) -> bool {
    let container = found.container.map_or("", |container| container.name);
    matches!(
        (container, found.command.name),
        ("", "SCAN" | "KEYS" | "DBSIZE" | "RANDOMKEY" | "FLUSHALL" | "FLUSHDB" | "PUBLISH")
            | ("SCRIPT", "LOAD" | "FLUSH" | "EXISTS")
            | ("FUNCTION", "LOAD" | "DELETE" | "FLUSH" | "RESTORE")
    )
}

/// Commands of several keys that proxies take apart.
fn is_taken_apart(found: FoundCommand) -> bool {
    matches!(found.command.name, "MGET" | "MSET" | "DEL" | "UNLINK" | "EXISTS" | "TOUCH") && found.container.is_none()
}

/// Whether only a client of Redis Cluster says that.
fn is_of_cluster_clients(found: FoundCommand) -> bool {
    match found.container {
        Some(container) => {
            container.name == "CLUSTER" && matches!(found.command.name, "SLOTS" | "SHARDS" | "NODES" | "LINKS")
        }
        None => found.command.group == "cluster" && matches!(found.command.name, "READONLY" | "READWRITE" | "ASKING"),
    }
}

impl Shared {
    /// Whether a session is that of a client which knows nothing of clusters, and is to be served as such.
    #[inline]
    fn is_plain(&self, session: &Session) -> bool {
        let standing = &session.standing;
        self.settings.cluster_proxy.0
            && standing.peer == Peer::Client
            && standing.term.is_none()
            && !standing.knows_clusters
    }

    /// Notes what a command says of its client.
    #[inline]
    pub(super) fn note_cluster_client(&self, session: &mut Session, found: FoundCommand) {
        if self.settings.cluster_proxy.0 && !session.standing.knows_clusters {
            session.standing.knows_clusters = is_of_cluster_clients(found);
        }
    }

    /// What a session's commands are looked at with: a plain client may have keys of several slots where proxies may.
    #[inline]
    pub(super) fn standing_for(&self, session: &Session, found: FoundCommand) -> Standing {
        let is_taken_apart = self.is_plain(session) && is_taken_apart(found);
        Standing { peer: if is_taken_apart { Peer::Proxy } else { session.standing.peer }, ..session.standing }
    }

    /// Whether a command of a plain client is passed on wherever its keys are.
    #[inline]
    pub(super) fn is_passed_on(&self, session: &Session, found: FoundCommand) -> bool {
        if !self.is_plain(session) {
            return false;
        }
        // A connection to another node is the session's own: it is in the middle of something there.
        if session.standing.is_bound {
            return !matches!(found.command.name, "QUIT" | "RESET");
        }
        session.transaction.is_none() && is_of_all_nodes(found) && self.has_other_masters()
    }

    /// Hands a message on to the cluster's other masters: whoever listens at any node hears it, as in Redis Cluster. Returns whether it
    /// comes back to this node, which is a replica, by its master.
    pub(crate) fn hands_on(&mut self, session: &Session, channel: &[u8], text: &[u8]) -> bool {
        let is_of_client = session.standing.peer == Peer::Client && !session.is_master && !session.replaying;
        if !is_of_client || !self.has_other_masters() {
            return false;
        }
        let mut command = Vec::new();
        encode_command(&mut command, &[b"PUBLISH".as_slice(), channel, text]);
        self.outbox.push(Request::TellMasters(command));
        let topology = self.cluster.as_ref().and_then(|membership| membership.topology.as_ref());
        topology.is_some_and(|topology| topology.myself.is_some_and(|place| topology.master_of(place) != place))
    }

    fn has_other_masters(&self) -> bool {
        let topology = self.cluster.as_ref().and_then(|membership| membership.topology.as_ref());
        topology.is_some_and(|topology| {
            let with_slots = topology.nodes.iter().enumerate().filter(|(_, node)| !node.slots.is_empty());
            with_slots.into_iter().any(|(place, _)| topology.myself != Some(place))
        })
    }

    /// What a client gets instead of an answer to a command that this node does not run: for a plain one it is passed on.
    #[cold]
    pub(super) fn turned_away(&self, session: &Session, found: FoundCommand, redirect: &Redirect) -> Failure {
        let may_be_elsewhere = matches!(redirect, Redirect::Moved { .. } | Redirect::CrossSlot | Redirect::Down);
        if !self.is_plain(session) || !may_be_elsewhere {
            return redirect.failure();
        }
        let runs_transaction = found.command.flags.contains(Flags::RUNS_TRANSACTION);
        if session.transaction.as_deref().is_some_and(|transaction| transaction.refused) && runs_transaction {
            return PREVIOUS_ERRORS;
        }
        if !session.watch.keys.is_empty() && (runs_transaction || found.command.name == "WATCH") {
            return WATCHED_HERE;
        }
        PASSED_ON
    }

    /// Nothing is passed on for a session any more.
    pub(crate) fn forget_passed_on(&mut self, session: &mut Session) {
        if std::mem::take(&mut session.standing.has_passed_on) {
            self.outbox.push(Request::LeaveNodes(session.id));
        }
        session.standing.is_bound = false;
    }
}

impl Forwards {
    /// Whether a session waits for the answer of another node.
    pub(super) fn is_passed_on_for(&self, session: &Session) -> bool {
        let number = session.blocked.as_ref().map(|blocked| blocked.migration);
        session.standing.has_passed_on && self.waiting.iter().any(|(waiting, _)| Some(*waiting) == number)
    }
}

impl Server {
    /// What other nodes have answered, and whether the session's next commands have to go there too.
    pub fn finish_passed_on(&mut self, number: u64, answer: Vec<u8>, is_bound: bool) {
        let waiting = self.shared.sessions.forwards.waiting.iter().find(|(waiting, _)| *waiting == number);
        if let Some(session) = waiting.copied().and_then(|(_, id)| self.shared.sessions.get_mut(id)) {
            session.standing.is_bound = is_bound;
        }
        self.finish_forward(number, Ok(answer));
    }

    /// The cluster that this node knows, and since which change.
    #[must_use]
    pub fn known_cluster(&self) -> Option<&Membership> {
        self.shared.cluster.as_deref()
    }
}
