//! Accepting connections on a worker.
//!
//! A worker that owns its sockets (`reuseport`) accepts from them directly: tokio waits for the socket, `accept4` is
//! called until it says that nothing waits, at most `max_accept` times before other tasks get their turn. In the
//! other modes an acceptor thread accepts (see [`super::threads`]) and the worker takes connections from a channel.

use super::bind::{begin, refuse};
use super::guard::{ConnectionGuard, Count, InUse};
use super::spec::ListenSpec;
use super::table::Socket;
use super::threads::Registration;
use crate::log;
use crate::system::register;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::time::Sleep;

/// How long accepting rests when the process or the system is out of descriptors or memory.
pub(crate) const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// How many connections a stopping acceptor takes at most from a socket that will be closed.
pub(crate) const LAST_ACCEPTS_MAX: usize = 65_536;

/// A connection that has been accepted.
#[derive(Debug)]
pub struct Accepted {
    /// The connection, in non-blocking mode.
    pub stream: Stream,
    /// Who connected.
    pub peer: Peer,
    /// Counts the connection as the worker's: keep it as long as the connection.
    pub guard: ConnectionGuard,
}

/// A connection's socket, in non-blocking mode.
#[derive(Debug)]
pub enum Stream {
    /// TCP. `tokio::net::TcpStream::from_std` takes it.
    Tcp(std::net::TcpStream),
    /// Unix. `tokio::net::UnixStream::from_std` takes it.
    Unix(std::os::unix::net::UnixStream),
}

impl Stream {
    /// The address that was connected to, asked from the system; `None` for a unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Who connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Over TCP, from this address.
    Ip(SocketAddr),
    /// Over a unix socket: such clients have no address.
    Unix,
}

/// Why `accept` gave no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoConnection {
    /// Nothing waits.
    Empty,
    /// That one is gone; another may wait.
    Again,
    /// Out of descriptors or memory.
    Exhausted(Errno),
    /// The socket cannot be accepted from.
    Broken(Errno),
}

/// `accept4`, once.
pub(crate) fn accept_one(socket: impl AsFd) -> Result<(Stream, Peer), NoConnection> {
    match rustix::net::acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((stream, address)) => {
            let address = address
                .filter(|address| matches!(address.address_family(), AddressFamily::INET | AddressFamily::INET6));
            match address.and_then(|address| SocketAddr::try_from(address).ok()) {
                Some(address) => Ok((Stream::Tcp(stream.into()), Peer::Ip(address))),
                None => Ok((Stream::Unix(stream.into()), Peer::Unix)),
            }
        }
        Err(Errno::AGAIN) => Err(NoConnection::Empty),
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
            Err(NoConnection::Exhausted(error))
        }
        Err(error @ (Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::OPNOTSUPP | Errno::FAULT)) => {
            Err(NoConnection::Broken(error))
        }
        // ECONNABORTED, EINTR, EPERM (a firewall rule) and the network errors that Linux passes on from the
        // connection (accept(2)): they are about one connection.
        Err(_) => Err(NoConnection::Again),
    }
}

/// Says that accepting rests, at most once a second for the whole process.
pub(crate) fn log_exhausted(spec: &ListenSpec, error: Errno) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = basics::clock::since_1970().as_secs();
    // Nothing is lacking when the socket does not listen: it was suspended, and that will be heard of at once.
    if error == Errno::INVAL {
        return;
    }
    if LAST.swap(now, Ordering::Relaxed) != now {
        let reason = super::bind::plain(&io::Error::from(error));
        log::alert!("cannot accept connections on [{}] for now: {reason}. Please check 'ulimit-n'.", spec.address);
    }
}

/// One worker's share of a listener, on its way to the worker's thread, where [`Self::open`] makes it an
/// [`Acceptor`].
#[derive(Debug)]
pub struct AcceptorSeed {
    pub(crate) spec: Arc<ListenSpec>,
    pub(crate) max_accept: usize,
    pub(crate) source: SeedSource,
    pub(crate) in_use: InUse,
}

#[derive(Debug)]
pub(crate) enum SeedSource {
    Direct { sockets: Vec<Arc<Socket>>, count: Arc<Count> },
    Handed { connections: mpsc::Receiver<Accepted>, registration: Registration, sockets: Vec<Arc<Socket>> },
    Datagrams { sockets: Vec<Arc<Socket>>, count: Arc<Count> },
}

impl AcceptorSeed {
    /// What it listens on.
    pub fn spec(&self) -> &Arc<ListenSpec> {
        &self.spec
    }

    /// This worker's sockets of an address of [`Address::SharedDatagrams`](super::Address::SharedDatagrams).
    ///
    /// # Errors
    /// The seed itself, if it is one for connections.
    pub fn into_datagrams(self) -> Result<DatagramSeed, Self> {
        match self.source {
            SeedSource::Datagrams { sockets, count } => {
                Ok(DatagramSeed { spec: self.spec, sockets, count, in_use: self.in_use })
            }
            source => Err(Self { source, ..self }),
        }
    }

    /// Starts accepting. Must be called on the worker's thread, inside its runtime.
    pub fn open(self) -> io::Result<Acceptor> {
        let (source, sockets, registration) = match self.source {
            SeedSource::Direct { sockets: shared, count } => {
                let sockets = shared
                    .iter()
                    .map(|socket| {
                        begin(&self.spec, socket)?;
                        DirectSocket::new(Arc::clone(socket))
                    })
                    .collect::<io::Result<Vec<_>>>()?;
                let direct = Direct { sockets, count, next: 0, in_a_row: 0, rest: None, last_accepts: 0 };
                (Source::Direct(direct), shared, None)
            }
            SeedSource::Handed { connections, registration, sockets } => {
                (Source::Handed(connections), sockets, Some(registration))
            }
            SeedSource::Datagrams { .. } => return Err(io::ErrorKind::Unsupported.into()),
        };
        let control = Rc::new(Control {
            state: Cell::new(State::Running),
            waker: RefCell::new(None),
            spec: Arc::clone(&self.spec),
            sockets: RefCell::new(sockets),
            suspended: Cell::new(false),
            listens_anew: Cell::new(false),
            registration: RefCell::new(registration),
            in_use: RefCell::new(Some(self.in_use)),
        });
        Ok(Acceptor { spec: self.spec, max_accept: self.max_accept, control, source })
    }
}

/// One worker's sockets for datagrams. A load that listens on the same address brings the same sockets again: what is known of their
/// senders goes on.
#[derive(Debug)]
pub struct DatagramSeed {
    spec: Arc<ListenSpec>,
    sockets: Vec<Arc<Socket>>,
    count: Arc<Count>,
    in_use: InUse,
}

impl DatagramSeed {
    /// What it listens on.
    #[must_use]
    pub fn spec(&self) -> &Arc<ListenSpec> {
        &self.spec
    }

    /// The sockets, which do not block.
    #[must_use]
    pub fn sockets(&self) -> Vec<DatagramSocket> {
        self.sockets.iter().map(|socket| DatagramSocket(Arc::clone(socket))).collect()
    }

    /// What is to be held as long as this load is served.
    #[must_use]
    pub fn into_use(self) -> DatagramUse {
        DatagramUse { count: self.count, _in_use: self.in_use }
    }
}

/// A UDP socket of a worker.
#[derive(Clone, Debug)]
pub struct DatagramSocket(Arc<Socket>);

impl DatagramSocket {
    /// Whether it is the very same socket.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A descriptor of its own.
    ///
    /// # Errors
    /// When there is none left.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }
}

/// A load that a worker serves from its UDP sockets. Until the last of these is gone, the load before is in use.
#[derive(Debug)]
pub struct DatagramUse {
    count: Arc<Count>,
    _in_use: InUse,
}

impl DatagramUse {
    /// Counts a connection as the worker's.
    #[must_use]
    pub fn count(&self) -> ConnectionGuard {
        ConnectionGuard::new(&self.count)
    }
}

/// Accepts connections for one worker from one listener.
///
/// Ask [`Self::accept`] again and again until it gives `None`, which it does some time after
/// [`AcceptorHandle::stop`]. Dropping an acceptor that was not stopped may drop connections that were already
/// accepted for it; a stopped one gives them out first.
#[derive(Debug)]
pub struct Acceptor {
    spec: Arc<ListenSpec>,
    max_accept: usize,
    control: Rc<Control>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Direct(Direct),
    Handed(mpsc::Receiver<Accepted>),
}

#[derive(Debug)]
struct Direct {
    sockets: Vec<DirectSocket>,
    count: Arc<Count>,
    /// The socket to ask first, so that none starves.
    next: usize,
    /// Connections accepted without a break.
    in_a_row: usize,
    /// Accepting rests until then.
    rest: Option<Pin<Box<Sleep>>>,
    last_accepts: usize,
}

#[derive(Debug)]
struct DirectSocket {
    waiting: AsyncFd<OwnedFd>,
    socket: Arc<Socket>,
}

impl DirectSocket {
    /// A descriptor of its own: epoll knows a socket by descriptor, and the acceptor of the previous configuration may
    /// still wait for the same one.
    fn new(socket: Arc<Socket>) -> io::Result<Self> {
        let waiting = register(socket.try_clone()?, Interest::READABLE)?;
        Ok(Self { waiting, socket })
    }
}

/// `Running <-> Paused`, and from both to `Stopping`, then `Stopped`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Paused,
    Stopping,
    Stopped,
}

#[derive(Debug)]
struct Control {
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
    spec: Arc<ListenSpec>,
    sockets: RefCell<Vec<Arc<Socket>>>,
    /// Whether the sockets refuse connections.
    suspended: Cell<bool>,
    /// Whether they listen again since: what the runtime knows of their readiness is of the time before.
    listens_anew: Cell<bool>,
    /// With the acceptor thread, if one accepts.
    registration: RefCell<Option<Registration>>,
    /// Given up once this acceptor takes nothing any more that a later load could serve.
    in_use: RefCell<Option<InUse>>,
}

impl Control {
    fn set(&self, state: State) {
        self.state.set(state);
        // NOTE: here and not when the acceptor is asked next: its task may be waiting for something else.
        if let Some(registration) = self.registration.borrow_mut().as_mut() {
            match state {
                State::Running => registration.set_paused(false),
                State::Paused => registration.set_paused(true),
                State::Stopping | State::Stopped => registration.stop(),
            }
        }
        if matches!(state, State::Stopping | State::Stopped) {
            self.in_use.replace(None);
            self.sockets.borrow_mut().clear();
        }
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    fn wait(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }
}

/// Steers an [`Acceptor`] that a task is waiting on. Belongs to the same worker.
#[derive(Debug, Clone)]
pub struct AcceptorHandle {
    control: Rc<Control>,
}

impl AcceptorHandle {
    /// Stops taking connections from the kernel until [`Self::resume`]; they wait in its queue.
    pub fn pause(&self) {
        if self.control.state.get() == State::Running {
            self.control.set(State::Paused);
        }
    }

    /// Refuses connections until [`Self::resume`], those that wait in the kernel's queue included. Unix sockets cannot
    /// do that: there it is [`Self::pause`].
    pub fn suspend(&self) {
        self.pause();
        if self.control.state.get() != State::Paused || self.control.suspended.replace(true) {
            return;
        }
        for socket in self.control.sockets.borrow().iter() {
            // One that cannot go on listening unheard.
            let _ = refuse(socket);
        }
    }

    /// Goes on after [`Self::pause`] or [`Self::suspend`].
    ///
    /// # Errors
    /// The system's, when a socket does not listen any more.
    pub fn resume(&self) -> io::Result<()> {
        if self.control.state.get() != State::Paused {
            return Ok(());
        }
        if self.control.suspended.get() {
            for socket in self.control.sockets.borrow().iter() {
                begin(&self.control.spec, socket)?;
            }
            self.control.suspended.set(false);
            self.control.listens_anew.set(true);
        }
        self.control.set(State::Running);
        Ok(())
    }

    /// Ends accepting: [`Acceptor::accept`] gives what was taken already, and `None` then. If the service gives the
    /// address up altogether, what waits in the kernel is accepted too, as closing the socket would reset it.
    pub fn stop(&self) {
        if matches!(self.control.state.get(), State::Running | State::Paused) {
            self.control.set(State::Stopping);
        }
    }
}

impl Acceptor {
    /// What it listens on.
    pub fn spec(&self) -> &Arc<ListenSpec> {
        &self.spec
    }

    /// The means to pause and stop it from other tasks of the worker.
    pub fn handle(&self) -> AcceptorHandle {
        AcceptorHandle { control: Rc::clone(&self.control) }
    }

    /// The next connection; `None` once stopped.
    pub async fn accept(&mut self) -> Option<Accepted> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// The poll form of [`Self::accept`].
    pub fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Option<Accepted>> {
        self.control.wait(context);
        if self.control.listens_anew.take()
            && let Source::Direct(direct) = &mut self.source
        {
            direct.listen_anew();
        }
        let state = self.control.state.get();
        let result = match (&mut self.source, state) {
            (_, State::Stopped) => return Poll::Ready(None),
            (Source::Direct(_), State::Paused) => return Poll::Pending,
            (Source::Direct(direct), State::Running) => {
                ready!(direct.poll_accept(context, &self.spec, self.max_accept))
            }
            (Source::Direct(direct), State::Stopping) => direct.accept_last(),
            (Source::Handed(_), State::Paused) => return Poll::Pending,
            (Source::Handed(connections), _) => ready!(connections.poll_recv(context)),
        };
        if result.is_none() {
            self.control.set(State::Stopped);
        }
        Poll::Ready(result)
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        // Handles may live longer.
        self.control.set(State::Stopped);
    }
}

impl Direct {
    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
        spec: &ListenSpec,
        max_accept: usize,
    ) -> Poll<Option<Accepted>> {
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(context));
            self.rest = None;
        }
        if self.in_a_row >= max_accept {
            self.in_a_row = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let count = self.sockets.len();
        for turn in 0..count {
            let index = (self.next + turn) % count;
            let Some(socket) = self.sockets.get(index) else { continue };
            // Until this socket says that nothing waits and tokio has the task's waker.
            while let Poll::Ready(ready) = socket.waiting.poll_read_ready(context) {
                // An error here means that the runtime is shutting down.
                let Ok(mut ready) = ready else { return Poll::Pending };
                match accept_one(&socket.socket) {
                    Ok((stream, peer)) => {
                        self.in_a_row += 1;
                        self.next = index;
                        let guard = ConnectionGuard::new(&self.count);
                        return Poll::Ready(Some(Accepted { stream, peer, guard }));
                    }
                    Err(NoConnection::Empty) => ready.clear_ready(),
                    Err(NoConnection::Again) => {}
                    Err(NoConnection::Exhausted(error) | NoConnection::Broken(error)) => {
                        log_exhausted(spec, error);
                        let mut rest = Box::pin(tokio::time::sleep(EXHAUSTED_PAUSE));
                        // Registers the waker; a rest that is over at once is found over by the next call.
                        if rest.as_mut().poll(context).is_ready() {
                            context.waker().wake_by_ref();
                        }
                        self.rest = Some(rest);
                        return Poll::Pending;
                    }
                }
            }
        }
        self.next = (self.next + 1) % count.max(1);
        self.in_a_row = 0;
        Poll::Pending
    }

    /// Waits for the sockets as if for the first time: to the runtime, one that was suspended has ended for good.
    fn listen_anew(&mut self) {
        for place in &mut self.sockets {
            // Without a descriptor more, this one stays silent; a reload makes it anew.
            if let Ok(anew) = DirectSocket::new(Arc::clone(&place.socket)) {
                *place = anew;
            }
        }
    }

    /// What still waits in sockets that nobody will serve any more, then `None`.
    fn accept_last(&mut self) -> Option<Accepted> {
        while let Some(socket) = self.sockets.last() {
            if !socket.socket.is_retired() || self.last_accepts >= LAST_ACCEPTS_MAX {
                self.sockets.pop();
                continue;
            }
            match accept_one(&socket.socket) {
                Ok((stream, peer)) => {
                    self.last_accepts += 1;
                    return Some(Accepted { stream, peer, guard: ConnectionGuard::new(&self.count) });
                }
                Err(NoConnection::Again) => self.last_accepts += 1,
                Err(NoConnection::Empty | NoConnection::Exhausted(_) | NoConnection::Broken(_)) => {
                    self.sockets.pop();
                }
            }
        }
        None
    }
}

/// A point in time some way off, for waiting.
pub(crate) fn after(delay: Duration) -> Instant {
    Instant::now() + delay
}
