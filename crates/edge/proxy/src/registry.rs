//! The connections of a worker, so that something outside a connection's own task can list and end them.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::{Context, Waker},
    time::Instant,
};

use live::{LiveProxy, LiveServer, ring::Ring};
use slab::Slab;

/// A backend, and the server in it once there is one.
pub type Upstream = (Arc<LiveProxy>, Option<Arc<LiveServer>>);

/// What the rest of the worker knows of a connection.
#[derive(Debug)]
pub struct Handle {
    /// Number in the process, as `show sess` and `shutdown session` name it.
    pub id: u64,
    /// When it was accepted.
    pub since: Instant,
    /// The client's address.
    pub source: Cell<Option<SocketAddr>>,
    /// The version of HTTP that the client speaks, if it speaks any; 3 is over QUIC.
    pub http_version: Cell<u8>,
    /// Whether it speaks it over TLS, or over QUIC.
    pub is_secure: Cell<bool>,
    /// The frontend.
    pub frontend: RefCell<Arc<LiveProxy>>,
    /// Backend and server of the current request, or of the one before: clients mostly go where they went before.
    upstream: RefCell<Option<Upstream>>,
    reached: Cell<Reached>,
    /// Requests so far.
    pub requests: Cell<u64>,
    /// Whether a request of it counts as one in flight.
    is_in_flight: Cell<bool>,
    worker: usize,
    order: Cell<Order>,
    waker: RefCell<Option<Waker>>,
}

/// How much of [`Handle::upstream`] is true of the current request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Nothing,
    Frontend,
    Backend,
    Server,
}

/// What a connection was told to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// To go on.
    #[default]
    Continue,
    /// To end when the request in flight has been answered: at once when idle.
    Finish,
    /// To end now.
    Abort,
}

impl Handle {
    /// What it was told.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order.get()
    }

    /// Makes the task that polls this be woken when it is told something.
    pub fn listen(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }

    /// Forgets the task that listened: it ends, and nothing may hold on to its memory.
    pub fn forget_listener(&self) {
        self.waker.replace(None);
    }

    /// Backend and server of the current request.
    #[must_use]
    pub fn upstream(&self) -> Option<Upstream> {
        let upstream = self.upstream.borrow();
        let (proxy, server) = upstream.as_ref()?;
        match self.reached.get() {
            Reached::Nothing | Reached::Frontend => None,
            Reached::Backend => Some((Arc::clone(proxy), None)),
            Reached::Server => Some((Arc::clone(proxy), server.clone())),
        }
    }

    /// Whether the current request is at the server with this key.
    #[must_use]
    pub fn is_at(&self, server_key: u64) -> bool {
        self.reached.get() == Reached::Server
            && matches!(&*self.upstream.borrow(), Some((_, Some(server))) if server.key == server_key)
    }

    /// Notes what the client speaks.
    pub fn speaks(&self, http_version: u8, is_secure: bool) {
        self.http_version.set(http_version);
        self.is_secure.set(is_secure);
    }

    /// Notes that the current request waits for a server of `proxy`.
    pub fn enters(&self, proxy: &Arc<LiveProxy>) {
        let mut upstream = self.upstream.borrow_mut();
        if !matches!(&*upstream, Some((known, _)) if Arc::ptr_eq(known, proxy)) {
            *upstream = Some((Arc::clone(proxy), None));
        }
        self.reached.set(Reached::Backend);
    }

    /// Notes that the current request goes to `server` of `proxy`.
    pub fn goes_to(&self, proxy: &Arc<LiveProxy>, server: &Arc<LiveServer>) {
        self.enters(proxy);
        if let Some((_, place)) = &mut *self.upstream.borrow_mut()
            && !matches!(place, Some(known) if Arc::ptr_eq(known, server))
        {
            *place = Some(Arc::clone(server));
        }
        self.reached.set(Reached::Server);
    }

    /// Notes that a request has begun.
    pub fn begins(&self) {
        self.requests.set(self.requests.get() + 1);
        self.reached.set(Reached::Frontend);
        if !self.is_in_flight.replace(true) {
            self.frontend.borrow().frontend.traffic.of(self.worker).in_flight.increment();
        }
    }

    /// Notes that there is no request.
    pub fn rests(&self) {
        self.reached.set(Reached::Nothing);
        if self.is_in_flight.replace(false) {
            self.frontend.borrow().frontend.traffic.of(self.worker).in_flight.decrement();
        }
    }

    /// Whether no request has begun that has not ended.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.reached.get() == Reached::Nothing
    }

    /// Ends the connection when the request in flight has been answered.
    pub fn finish(&self) {
        self.tell(Order::Finish);
    }

    fn tell(&self, order: Order) {
        if order > self.order.get() {
            self.order.set(order);
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// All connections of a worker.
#[derive(Debug, Default)]
pub struct Registry {
    handles: RefCell<Slab<Rc<Handle>>>,
    worker: usize,
    ring: Option<Rc<Ring>>,
}

/// Keeps a connection in the registry as long as it lives.
#[derive(Debug)]
pub struct Registered {
    registry: Rc<Registry>,
    slot: usize,
    /// Whether the ring is told of its end, as of its beginning.
    is_recorded: bool,
    /// What was registered.
    pub handle: Rc<Handle>,
}

impl Registry {
    /// The registry of a worker that records in a ring whoever comes and goes.
    #[must_use]
    pub fn new(worker: usize, ring: Option<Rc<Ring>>) -> Self {
        Self { worker, ring, ..Self::default() }
    }

    /// Registers a connection.
    #[must_use]
    pub fn register(
        self: &Rc<Self>,
        id: u64,
        since: Instant,
        source: Option<SocketAddr>,
        frontend: Arc<LiveProxy>,
        listener: usize,
    ) -> Registered {
        if let Some(ring) = &self.ring {
            ring.session_begins(id, source, &frontend, listener);
        }
        let mut registered = self.register_stream(id, since, source, frontend);
        registered.is_recorded = true;
        registered
    }

    /// Registers an exchange of a connection that has several at a time, and is registered itself.
    #[must_use]
    pub fn register_stream(
        self: &Rc<Self>,
        id: u64,
        since: Instant,
        source: Option<SocketAddr>,
        frontend: Arc<LiveProxy>,
    ) -> Registered {
        let handle = Rc::new(Handle {
            id,
            since,
            source: Cell::new(source),
            http_version: Cell::new(1),
            is_secure: Cell::new(false),
            frontend: RefCell::new(frontend),
            upstream: RefCell::new(None),
            reached: Cell::new(Reached::Nothing),
            requests: Cell::new(0),
            is_in_flight: Cell::new(false),
            worker: self.worker,
            order: Cell::new(Order::Continue),
            waker: RefCell::new(None),
        });
        let slot = self.handles.borrow_mut().insert(Rc::clone(&handle));
        Registered { registry: Rc::clone(self), slot, is_recorded: false, handle }
    }

    /// Number of connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.handles.borrow().len()
    }

    /// Every connection.
    #[must_use]
    pub fn handles(&self) -> Vec<Rc<Handle>> {
        self.handles.borrow().iter().map(|(_, handle)| Rc::clone(handle)).collect()
    }

    /// Tells the connections for which `whom` holds; their number.
    pub fn tell(&self, order: Order, whom: impl Fn(&Handle) -> bool) -> usize {
        let chosen: Vec<_> = self.handles().into_iter().filter(|handle| whom(handle)).collect();
        for handle in &chosen {
            handle.tell(order);
        }
        chosen.len()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(ring) = self.registry.ring.as_ref().filter(|_| self.is_recorded) {
            let reason = match self.handle.order() {
                Order::Continue => "closed",
                Order::Finish => "drained",
                Order::Abort => "killed",
            };
            ring.session_ends(self.handle.id, reason, self.handle.since.elapsed());
        }
        // A request that is broken off does not come to its end.
        self.handle.rests();
        self.registry.handles.borrow_mut().try_remove(self.slot);
    }
}
