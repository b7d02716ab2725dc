//! Connections that carry several exchanges at a time, as the pool has them.

use std::{net::SocketAddr, rc::Rc, sync::Arc};

use live::LiveServer;
use net::Target;

use super::{ConnectionFacts, Idle, Reuse, ServerConnection, ServerPool, idle_limit};
use crate::session::fetch::multiplexed::Shared;

impl ServerPool {
    /// What is to be known of a connection that was just opened and is to carry several exchanges.
    #[must_use]
    pub fn facts(
        &mut self,
        server: Arc<LiveServer>,
        (private, greeting): (bool, u64),
        ends: (Option<SocketAddr>, Option<SocketAddr>),
    ) -> ConnectionFacts {
        let epoch = server.target_epoch.load(std::sync::atomic::Ordering::Relaxed);
        let counted = self.count(&server);
        ConnectionFacts { server, epoch, private, greeting, ends, counted }
    }

    /// Lets others use a connection, unless it is private.
    pub fn offer(&mut self, shared: &Rc<Shared>) {
        if !shared.facts.private {
            self.by_server.entry(shared.facts.server.key).or_default().shared.push(Rc::clone(shared));
        }
    }

    /// A part of a connection to `server` that has room. As in HAProxy, one that is in use and has brought a response already
    /// serves any request; of others `reuse` says which may be used.
    pub fn share(
        &mut self,
        server: &LiveServer,
        reuse: Option<Reuse>,
        (place, greeting): (Option<&Target>, u64),
    ) -> Option<Box<ServerConnection>> {
        let idle = self.by_server.get(&server.key)?;
        let is_allowed = |shared: &Shared| match reuse {
            Some(Reuse::Any) => true,
            Some(Reuse::Proven) => shared.is_proven(),
            None => shared.is_proven() && shared.exchanges() > 0,
        };
        let is_suitable = |shared: &&Rc<Shared>| {
            let facts = &shared.facts;
            facts.greeting == greeting
                && shared.has_room()
                && is_allowed(shared)
                && facts.is_current()
                && place.is_none_or(|place| facts.leads_to(place))
        };
        // NOTE: the oldest that has room, so that those which are not needed become idle.
        idle.shared.iter().find(is_suitable).map(ServerConnection::of_shared)
    }

    /// A connection carries no exchange any more; whether it is kept.
    pub fn rests(&mut self, shared: &Rc<Shared>) -> bool {
        let facts = &shared.facts;
        if facts.private {
            return false;
        }
        if facts.counted.is_idle.get() {
            return true;
        }
        let settings = &facts.server.config;
        let Some(limit) = idle_limit(settings) else { return false };
        if settings.pool_purge_delay.is_zero() || !facts.is_current() || !shared.has_room() {
            return false;
        }
        if !facts.server.idle.increment_below(limit) {
            return false;
        }
        facts.counted.becomes_idle();
        shared.rest();
        true
    }

    /// A connection has ended.
    pub fn forget(&mut self, ended: &Rc<Shared>) {
        if let Some(idle) = self.by_server.get_mut(&ended.facts.server.key) {
            idle.shared.retain(|shared| !Rc::ptr_eq(shared, ended));
        }
    }
}

impl ConnectionFacts {
    /// Whether the server is still where it was.
    fn is_current(&self) -> bool {
        self.epoch == self.server.target_epoch.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn leads_to(&self, place: &Target) -> bool {
        let Target::Inet(wanted) = place else { return true };
        self.ends.1 == Some(*wanted)
    }
}

impl Idle {
    /// How many idle connections there are.
    pub(super) fn count(&self) -> usize {
        self.connections.len() + self.shared.iter().filter(|shared| shared.facts.counted.is_idle.get()).count()
    }

    /// Closes the oldest idle connection; whether there was one.
    pub(super) fn close_one(&mut self) -> bool {
        if self.connections.pop_front().is_some() {
            return true;
        }
        let Some(at) = self.shared.iter().position(|shared| shared.facts.counted.is_idle.get()) else { return false };
        self.shared.remove(at).leave();
        true
    }

    /// Lets go of connections to where the server is not any more.
    pub(super) fn drop_stale_shared(&mut self) {
        self.shared.retain(|shared| {
            let is_current = shared.facts.is_current();
            if !is_current {
                shared.leave();
            }
            is_current
        });
    }

    /// The server, as far as there are connections.
    pub(super) fn server(&self) -> Option<Arc<LiveServer>> {
        let of_one = self.connections.front().map(|connection| &connection.server);
        of_one.or_else(|| self.shared.first().map(|shared| &shared.facts.server)).map(Arc::clone)
    }
}
