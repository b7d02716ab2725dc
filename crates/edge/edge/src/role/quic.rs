//! A worker's listeners of QUIC: sockets whose connections live on whatever is loaded.
//!
//! A socket stays with the worker as long as it has connections, or a configuration that listens on it. Each load says what new
//! connections of a socket are served under; a socket that no load names any more begins none.

use std::{
    cell::{Cell, RefCell},
    fmt,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker},
    time::Duration,
};

use haproxycfg::model::{Global, ProxyIndex};
use live::{Instance, ListenerOrder, LiveProxy};
use net::Deadline;
use proxy::{
    Worker,
    session::{
        Counted,
        h3::{self, ONE_WAY_STREAMS, Offer},
    },
};
use quic::{
    Arrival, Courier, Datagram, Endpoint, Keys, Letter, Mailbox, Origin, PostOffice, Settings, Terms, UdpSocket,
};
use runtime::{DatagramSeed, DatagramSocket, DatagramUse};
use tokio::{sync::mpsc, task::spawn_local};

use super::{accept::is_crowded, listeners::Owner};

/// Bytes of a request's body that wait to be read.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Bytes of all bodies of a connection that wait to be read.
const WINDOW: u32 = 1024 * 1024;

/// How often datagrams are received before others get their turn.
const RECEIVES_MAX: usize = 16;

/// How soon a socket that nobody listens on is closed when its last connection is over.
const LAST_LOOK_TIME: Duration = Duration::from_secs(1);

/// What all workers of a process share about QUIC.
pub struct QuicShared {
    office: PostOffice,
    /// The number of this process in the ids of its connections.
    process: u32,
    /// Keys that no other process knows.
    keys: OnceLock<Keys>,
    /// Takes datagrams to other processes.
    courier: OnceLock<Courier>,
}

impl Default for QuicShared {
    fn default() -> Self {
        let mut number = [0; 4];
        let process = match rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty()) {
            Ok(4) => u32::from_ne_bytes(number),
            _ => std::process::id(),
        };
        Self { office: PostOffice::default(), process, keys: OnceLock::new(), courier: OnceLock::new() }
    }
}

impl QuicShared {
    /// Begins to take what other processes get for this one, and to send them what is theirs. To be called in the runtime of the control
    /// thread, and only once.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn open_mail(self: &Arc<Self>) -> std::io::Result<()> {
        let mailbox = Mailbox::open(self.process)?;
        let courier = Courier::new()?;
        let _ = self.courier.set(courier);
        let shared = Arc::clone(self);
        spawn_local(async move {
            if let Err(error) = mailbox.deliver(&shared.office).await {
                runtime::log::write(
                    runtime::log::Level::Warning,
                    format_args!("QUIC connections cannot be taken over from other processes any more: {error}"),
                );
            }
        });
        Ok(())
    }

    /// Whether that has been done.
    pub fn has_mail(&self) -> bool {
        self.courier.get().is_some()
    }

    /// Those of `cluster-secret`, or else the process' own.
    fn keys(&self, global: &Global) -> std::io::Result<Keys> {
        if let Some(secret) = &global.cluster_secret {
            return Ok(Keys::shared(secret.as_bytes()));
        }
        match self.keys.get() {
            Some(keys) => Ok(keys.clone()),
            None => {
                let keys = Keys::random()?;
                Ok(self.keys.get_or_init(|| keys).clone())
            }
        }
    }
}

/// An address cannot be received on.
#[derive(Debug)]
pub struct CannotReceive {
    address: String,
    error: std::io::Error,
}

impl fmt::Display for CannotReceive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot receive on {}: {}", self.address, self.error)
    }
}

/// What new connections of a socket are served under.
pub struct Serving {
    instance: Arc<Instance>,
    frontend: Arc<LiveProxy>,
    proxy: ProxyIndex,
    bind: usize,
    terms: Terms,
    held: Rc<DatagramUse>,
}

/// A socket, and what it is to be served under.
pub struct Prepared {
    listener: Rc<Listener>,
    serving: Serving,
}

/// The listeners of a worker.
pub struct QuicListeners {
    shared: Arc<QuicShared>,
    listeners: Vec<Rc<Listener>>,
}

impl QuicListeners {
    /// None yet.
    pub fn new(shared: Arc<QuicShared>) -> Self {
        Self { shared, listeners: Vec::new() }
    }

    /// Finds or opens what a load listens on. Nothing changes for clients before [`Self::serve`].
    pub fn prepare(
        &self,
        worker: &Rc<Worker>,
        instance: &Arc<Instance>,
        seeds: Vec<DatagramSeed>,
    ) -> Result<Vec<Prepared>, CannotReceive> {
        let mut prepared = Vec::new();
        for seed in seeds {
            let name = seed.spec().name.clone();
            let Some(Owner::Proxy { proxy, bind }) = Owner::of(&name) else { continue };
            let Some(frontend) = instance.proxy(proxy).cloned() else { continue };
            let wrong = |error| CannotReceive { address: seed.spec().address.to_string(), error };
            let global = &instance.config.global;
            let keys = self.shared.keys(global).map_err(wrong)?;
            let terms = Terms::new(&settings(global), &keys);
            let sockets = seed.sockets();
            let mut listeners = Vec::with_capacity(sockets.len());
            for socket in sockets {
                let known = self.listeners.iter().find(|listener| listener.socket.is(&socket));
                listeners.push(match known {
                    Some(listener) => Rc::clone(listener),
                    None => Listener::open(worker, &self.shared, socket, (&terms, &keys)).map_err(wrong)?,
                });
            }
            let held = Rc::new(seed.into_use());
            prepared.extend(listeners.into_iter().map(|listener| {
                let (instance, frontend) = (Arc::clone(instance), Arc::clone(&frontend));
                let (terms, held) = (terms.clone(), Rc::clone(&held));
                Prepared { listener, serving: Serving { instance, frontend, proxy, bind, terms, held } }
            }));
        }
        Ok(prepared)
    }

    /// Serves new connections as was prepared, and none on other sockets.
    pub fn serve(&mut self, prepared: Vec<Prepared>) {
        let former = std::mem::take(&mut self.listeners);
        for Prepared { listener, serving } in prepared {
            listener.serving.replace(Some(serving));
            listener.is_paused.set(false);
            self.listeners.push(listener);
        }
        for listener in former {
            let is_served = self.listeners.iter().any(|other| Rc::ptr_eq(other, &listener));
            if !is_served {
                listener.serving.replace(None);
                // It may be listened on again while it has connections.
                if listener.endpoint.connections() > 0 {
                    self.listeners.push(listener);
                }
            }
        }
    }

    /// Has the listeners of some frontends begin connections or not.
    pub fn steer(&self, order: ListenerOrder, whose: impl Fn(ProxyIndex) -> bool) {
        for listener in &self.listeners {
            let mut serving = listener.serving.borrow_mut();
            if !serving.as_ref().is_some_and(|serving| whose(serving.proxy)) {
                continue;
            }
            match order {
                ListenerOrder::Suspend => listener.is_paused.set(true),
                ListenerOrder::Resume => listener.is_paused.set(false),
                ListenerOrder::Stop => *serving = None,
            }
        }
    }

    /// Begins no connections any more. What comes to the sockets is taken by another process if that `is_replaced`.
    pub fn stop(&self, is_replaced: bool) {
        for listener in &self.listeners {
            listener.is_stopping.set(true);
            listener.is_replaced.set(is_replaced);
            if let Some(waker) = listener.waker.take() {
                waker.wake();
            }
        }
    }
}

fn settings(global: &Global) -> Settings {
    let tune = &global.tune;
    Settings {
        idle_timeout: (!tune.quic.idle_timeout.is_zero()).then_some(tune.quic.idle_timeout),
        streams_max: tune.quic.streams_max,
        one_way_streams_max: ONE_WAY_STREAMS,
        stream_window: STREAM_WINDOW,
        window: WINDOW,
        send_window: u64::from(tune.quic.send_buffers_max).saturating_mul(tune.bufsize as u64),
    }
}

/// One socket of a worker.
struct Listener {
    socket: DatagramSocket,
    endpoint: Rc<Endpoint>,
    serving: RefCell<Option<Serving>>,
    is_paused: Cell<bool>,
    /// The process ends when its connections have ended.
    is_stopping: Cell<bool>,
    /// Another process takes what comes to the socket.
    is_replaced: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    shared: Arc<QuicShared>,
    worker: Rc<Worker>,
}

impl Listener {
    fn open(
        worker: &Rc<Worker>,
        shared: &Arc<QuicShared>,
        socket: DatagramSocket,
        (terms, keys): (&Terms, &Keys),
    ) -> std::io::Result<Rc<Self>> {
        let udp = UdpSocket::new(socket.try_clone()?)?;
        let address = udp.address();
        let Some((number, letters)) = shared.office.open(address) else {
            return Err(std::io::Error::other("this process has as many QUIC sockets as it can tell apart"));
        };
        let endpoint = Endpoint::new(udp, Origin { process: shared.process, endpoint: number }, terms, keys);
        let listener = Rc::new(Self {
            socket,
            endpoint,
            serving: RefCell::default(),
            is_paused: Cell::new(false),
            is_stopping: Cell::new(false),
            is_replaced: Cell::new(false),
            waker: RefCell::default(),
            shared: Arc::clone(shared),
            worker: Rc::clone(worker),
        });
        let receiving = Rc::clone(&listener);
        spawn_local(worker.clocked(async move {
            let (mut letters, mut deadline) = (letters, Deadline::default());
            std::future::poll_fn(|context| receiving.poll(&mut letters, &mut deadline, context)).await;
        }));
        Ok(listener)
    }

    fn address(&self) -> SocketAddr {
        self.endpoint.socket.address()
    }

    /// Takes what comes; ready when nothing will that anybody waits for.
    fn poll(
        &self,
        letters: &mut mpsc::Receiver<Letter>,
        deadline: &mut Deadline,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let mut begun = Vec::new();
        while let Poll::Ready(Some(letter)) = letters.poll_recv(context) {
            self.handle(letter.datagram(), &mut begun);
        }
        self.waker.replace(Some(context.waker().clone()));
        let mut is_waiting = self.is_replaced.get();
        if is_waiting {
            self.endpoint.socket.poll_senders(context);
        }
        for _ in 0..if is_waiting { 0 } else { RECEIVES_MAX } {
            let received = self.endpoint.socket.poll_receive(context, |datagram| self.sort(datagram, &mut begun));
            match received {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    runtime::log::write(
                        runtime::log::Level::Alert,
                        format_args!("cannot receive on [{}]: {error}", self.address()),
                    );
                    return Poll::Ready(());
                }
                Poll::Pending => {
                    is_waiting = true;
                    break;
                }
            }
        }
        for arrival in begun {
            self.begin(arrival);
        }
        if !is_waiting {
            context.waker().wake_by_ref();
        }
        let is_over = (self.serving.borrow().is_none() || self.is_stopping.get()) && self.endpoint.connections() == 0;
        if is_over && deadline.at().is_some_and(|at| at <= self.worker.now()) {
            return Poll::Ready(());
        }
        deadline.set(Some(self.worker.now() + LAST_LOOK_TIME));
        if deadline.poll(context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Gives a datagram to whoever serves its connection.
    fn sort(&self, datagram: Datagram<'_>, begun: &mut Vec<Arrival>) {
        let here = self.endpoint.origin();
        match Origin::of_datagram(datagram.bytes) {
            Some(origin) if origin == here => self.handle(datagram, begun),
            Some(origin) if origin.process == here.process => {
                // One that nobody takes is lost, as any may be on its way.
                self.shared.office.hand_on(self.address(), origin.endpoint, &datagram);
            }
            Some(origin) => {
                let courier = self.shared.courier.get();
                if !courier.is_some_and(|courier| courier.send(origin.process, self.address(), &datagram)) {
                    self.handle(datagram, begun);
                }
            }
            None => self.handle(datagram, begun),
        }
    }

    fn handle(&self, datagram: Datagram<'_>, begun: &mut Vec<Arrival>) {
        begun.extend(Arrival::receive(&self.endpoint, datagram, self.worker.now()));
    }

    /// Begins a connection, if one may be begun.
    fn begin(&self, arrival: Arrival) {
        let serving = self.serving.borrow();
        // NOTE: a client that gets no answer asks again, as one whose connection waits in the queue of a socket.
        let Some(serving) = serving.as_ref().filter(|_| !self.is_paused.get()) else { return };
        // NOTE: one that has been told to prove its address by this process can do that here alone.
        if self.is_stopping.get() && !arrival.is_proven() {
            return;
        }
        let Serving { instance, frontend, bind, terms, held, .. } = serving;
        let Some(settings) = frontend.settings().binds.get(*bind) else { return };
        let crowd = usize::try_from(instance.config.global.tune.quic.retry_threshold).unwrap_or(usize::MAX);
        if !arrival.is_proven() && (settings.quic_force_retry || self.endpoint.handshaking() >= crowd) {
            return arrival.retry();
        }
        if is_crowded(frontend, *bind, u64::from(settings.maxconn.unwrap_or(0))) {
            return;
        }
        let Some(tls) = frontend.listeners.get(*bind).and_then(|listener| listener.tls.as_ref()) else { return };
        let offer = Offer {
            arrival,
            terms: terms.clone(),
            acceptor: tls.now(),
            port: self.address().port(),
            counted: Counted::enter(&self.worker, frontend, *bind),
            guard: held.count(),
            running: self.worker.count_running(),
        };
        if let Some(serving) = h3::begin(&self.worker, instance, frontend, *bind, offer) {
            spawn_local(serving);
        }
    }
}
