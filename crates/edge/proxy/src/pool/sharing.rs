//! Connections that carry several exchanges at a time, as the pool has them.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use haproxycfg::model::ServerProtocol;
use live::LiveServer;
use net::Target;

use super::{ConnectionFacts, Idle, Need, Reuse, ServerConnection, ServerPool, idle_limit};
use crate::session::fetch::multiplexed::SharedConnection;

/// Exchanges that wait for one connection to come to stand.
const JOINED_MAX: usize = 100;

/// A connection that is being opened, and for which others wait that can use it too.
#[derive(Debug)]
pub struct Opening {
    greeting: u64,
    joined: Cell<usize>,
    is_over: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Opening {
    /// Ready when it stands, or does not come to stand.
    pub fn poll_over(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_over.get() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// Whoever opens a connection that others wait for: when this is dropped, they look.
#[derive(Debug)]
pub struct OpeningGuard(Rc<Opening>);

impl Drop for OpeningGuard {
    fn drop(&mut self) {
        self.0.is_over.set(true);
        self.0.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

/// How often in a row a server has to leave after the same number of requests until that is what it is expected to do.
const EXPECTED_AFTER: u32 = 2;

impl ServerPool {
    /// A connection to `server` is to be opened that others will be able to use, as far as is known.
    pub fn begin_opening(&mut self, server: &LiveServer, greeting: u64) -> Option<OpeningGuard> {
        let idle = self.by_server.entry(server.key).or_default();
        let is_said = matches!(server.config.protocol, Some(ServerProtocol::Http2 | ServerProtocol::Fcgi));
        if !is_said && !idle.need.carries_several.get() {
            return None;
        }
        let opening =
            Opening { greeting, joined: Cell::new(0), is_over: Cell::new(false), waiting: RefCell::default() };
        let opening = Rc::new(opening);
        idle.opening = Some(Rc::clone(&opening));
        Some(OpeningGuard(opening))
    }

    /// A connection that is being opened, and may be waited for.
    pub fn join_opening(&mut self, server: &LiveServer, greeting: u64) -> Option<Rc<Opening>> {
        let idle = self.by_server.get_mut(&server.key)?;
        let opening = idle.opening.as_ref().filter(|opening| !opening.is_over.get() && opening.greeting == greeting)?;
        let most = idle.need.requests_max().map_or(JOINED_MAX, |most| JOINED_MAX.min(most as usize - 1));
        if opening.joined.get() >= most {
            return None;
        }
        opening.joined.set(opening.joined.get() + 1);
        Some(Rc::clone(opening))
    }

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
    pub fn offer(&mut self, shared: &Rc<dyn SharedConnection>) {
        let facts = &shared.carrier().facts;
        facts.counted.need.carries_several.set(true);
        if !facts.private {
            self.by_server.entry(facts.server.key).or_default().shared.push(Rc::clone(shared));
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
        let is_allowed = |shared: &dyn SharedConnection| match reuse {
            Some(Reuse::Any) => true,
            Some(Reuse::Proven) => shared.carrier().is_proven(),
            None => shared.carrier().is_proven() && shared.carrier().exchanges() > 0,
        };
        let is_suitable = |shared: &&Rc<dyn SharedConnection>| {
            let facts = &shared.carrier().facts;
            facts.greeting == greeting
                && shared.has_room()
                && is_allowed(&***shared)
                && facts.is_current()
                && place.is_none_or(|place| facts.leads_to(place))
        };
        // NOTE: the oldest that has room, so that those which are not needed become idle.
        idle.shared.iter().find(is_suitable).map(ServerConnection::of_shared)
    }

    /// A connection carries no exchange any more; whether it is kept.
    pub fn rests(&mut self, shared: &dyn SharedConnection) -> bool {
        let facts = &shared.carrier().facts;
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
    pub fn forget(&mut self, ended: &dyn SharedConnection) {
        let ended = ended.carrier();
        if let Some(idle) = self.by_server.get_mut(&ended.facts.server.key) {
            idle.shared.retain(|shared| !std::ptr::eq(shared.carrier(), ended));
        }
    }
}

impl ConnectionFacts {
    /// Whether the server is still where it was.
    fn is_current(&self) -> bool {
        self.epoch == self.server.target_epoch.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The server has left after so many requests.
    pub fn server_left_after(&self, requests: u32) {
        let left_after = &self.counted.need.left_after;
        let (before, times) = left_after.get();
        left_after.set(if before == requests { (requests, times.saturating_add(1)) } else { (requests, 1) });
    }

    /// How many requests it is expected to carry before the server leaves, where it leaves after so many each time.
    #[must_use]
    pub fn requests_max(&self) -> Option<u32> {
        self.counted.need.requests_max()
    }

    fn leads_to(&self, place: &Target) -> bool {
        let Target::Inet(wanted) = place else { return true };
        self.ends.1 == Some(*wanted)
    }
}

impl Need {
    /// How many requests a connection is expected to carry before the server leaves, where it leaves after so many each time: more
    /// would be left behind.
    fn requests_max(&self) -> Option<u32> {
        let (requests, times) = self.left_after.get();
        (times >= EXPECTED_AFTER && requests > 0).then_some(requests)
    }
}

impl Idle {
    /// How many idle connections there are.
    pub(super) fn count(&self) -> usize {
        self.connections.len()
            + self.shared.iter().filter(|shared| shared.carrier().facts.counted.is_idle.get()).count()
    }

    /// Closes the oldest idle connection; whether there was one.
    pub(super) fn close_one(&mut self) -> bool {
        if self.connections.pop_front().is_some() {
            return true;
        }
        let Some(at) = self.shared.iter().position(|shared| shared.carrier().facts.counted.is_idle.get()) else {
            return false;
        };
        self.shared.remove(at).carrier().leave();
        true
    }

    /// Lets go of connections to where the server is not any more.
    pub(super) fn drop_stale_shared(&mut self) {
        self.shared.retain(|shared| {
            let is_current = shared.carrier().facts.is_current();
            if !is_current {
                shared.carrier().leave();
            }
            is_current
        });
    }

    /// The server, as far as there are connections.
    pub(super) fn server(&self) -> Option<Arc<LiveServer>> {
        let of_one = self.connections.front().map(|connection| &connection.server);
        of_one.or_else(|| self.shared.first().map(|shared| &shared.carrier().facts.server)).map(Arc::clone)
    }
}
