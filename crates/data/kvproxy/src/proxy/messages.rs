//! Messages (`PUBLISH`) of a program that has the proxy within it, for all masters but itself.

use commands::cluster::Topology;

use super::{Proxy, client::Pending, merge::Gathering, reads::Destination};
use crate::route::Merge;

/// The only pool of such a proxy.
const POOL: usize = 0;
/// Messages that may wait for a master that does not answer. What comes then is dropped, as Redis drops a link whose buffer is full.
const MESSAGES_MAX: usize = 100_000;

impl Proxy {
    /// Takes over which server is the program itself.
    pub fn set_myself(&mut self, topology: &Topology) {
        let own = topology.myself.and_then(|place| topology.nodes.get(place));
        let own = own.map(|node| (node.host.clone(), node.port));
        self.myself = own.and_then(|(host, port)| self.server_at(POOL, &host, port));
    }

    /// Sends a message to all masters that have slots, but not to the program itself.
    pub fn publish_to_others(&mut self, index: usize, command: &[u8]) {
        let Some(pool) = self.pools.get(POOL) else { return };
        let others = pool.with_keys().into_iter().filter(|server| Some(*server) != self.myself);
        let others: Vec<Destination> = others.map(Destination::from).collect();
        let Some(client) = self.clients.get_mut(index) else { return };
        if others.is_empty() || client.pending.len() >= MESSAGES_MAX {
            return;
        }
        client.is_authenticated = true;
        let id = client.id;
        let number = client.wait(Pending::Many(Box::new(Gathering::new(Merge::Sum, others.len(), Vec::new()))));
        for (part, server) in (0..).zip(others) {
            self.forward_part(POOL, server, command, (index, id, number, part));
        }
    }
}
