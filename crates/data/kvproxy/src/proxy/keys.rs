//! Which server a request belongs to.

use keyspace::slot::cluster_slot;

use super::{Pool, Proxy, requests::Request};

/// What a client hears when no server of the pool is alive, as twemproxy has it.
const NO_SERVER: &str = "ERR Connection refused (all servers of the pool are ejected)";

/// The same where servers are spread by slots, as Redis Cluster has it.
const NOT_SERVED: &str = "CLUSTERDOWN Hash slot not served";

/// The same while slots are about to get another server.
const NOT_NOW: &str = "CLUSTERDOWN The keys' slots are about to have another server, for longer than requests wait";

impl Proxy {
    /// The pool that a client came to.
    pub(super) fn pool_of(&self, index: usize) -> Option<&Pool> {
        self.pools.get(self.clients.get(index)?.pool)
    }

    /// The server of a key.
    #[inline]
    pub(super) fn server_of(&mut self, index: usize, key: &[u8]) -> Result<usize, String> {
        let pool = self.clients.get(index).and_then(|client| self.pools.get_mut(client.pool));
        let Some(pool) = pool else { return Err(NO_SERVER.to_owned()) };
        if let Some(slots) = &pool.slots {
            let slot = cluster_slot(key);
            let server = slots.owner(slot).ok_or_else(|| NOT_SERVED.to_owned());
            let is_barred = self.plain.is_active() && server.as_ref().is_ok_and(|server| self.is_barred(slot, *server));
            return if is_barred { Err(NOT_NOW.to_owned()) } else { server };
        }
        let server = pool.ring.server_of(key);
        if server.is_none() {
            pool.counts.forward_error += 1;
        }
        server.ok_or_else(|| NO_SERVER.to_owned())
    }

    /// The first server that is alive: it has what belongs to no key.
    pub(super) fn first_server(&self, index: usize) -> Result<usize, String> {
        self.pool_of(index).and_then(Pool::first).ok_or_else(|| NO_SERVER.to_owned())
    }

    /// The server of all keys of a request. Without a key it is the first server, unless `needs_key`.
    pub(super) fn server_of_all(
        &mut self,
        index: usize,
        request: Request<'_>,
        needs_key: bool,
    ) -> Result<usize, String> {
        let words: Vec<&[u8]> = request.words.iter().collect();
        let places = request.found.command.key_places_of(&words);
        let mut found: Option<(usize, &[u8])> = None;
        let mut server = None;
        for place in places {
            let key = words.get(place).copied().unwrap_or_default();
            let its = self.server_of(index, key)?;
            let together = self.pool_of(index).map_or(its, |pool| pool.together(key, its));
            server = Some(its);
            match found {
                Some((known, other)) if known != together => {
                    return Err(format!(
                        "CROSSSLOT Keys in request don't hash to the same slot: '{}' and '{}' are on different servers (a hash tag \
                         such as {{...}} in both keeps them together)",
                        shown(other),
                        shown(key)
                    ));
                }
                _ => found = Some((together, key)),
            }
        }
        match server {
            Some(server) => Ok(server),
            None if needs_key => {
                Err(format!("ERR '{}' without keys: no server can be told", request.found.full_name()))
            }
            None => self.first_server(index),
        }
    }

    pub(super) fn refuse_for_want_of_servers(&mut self, index: usize) {
        if let Some(pool) = self.clients.get(index).and_then(|client| self.pools.get_mut(client.pool)) {
            pool.counts.forward_error += 1;
        }
        self.refuse(index, NO_SERVER);
    }
}

/// A key as an error shows it.
fn shown(key: &[u8]) -> String {
    const LEN_MAX: usize = 64;
    key.get(..LEN_MAX).unwrap_or(key).escape_ascii().to_string()
}
