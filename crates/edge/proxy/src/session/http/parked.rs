//! What a client connection in HTTP mode remembers while it is parked.

use std::{
    cell::{Cell, OnceCell, RefCell},
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use accelerator::log::SessionLog;
use live::Instance;
use net::{Deadline, Socket, Stream};
use sample::StreamVariables;

use super::{ConnectionGuards, Session};
use crate::{
    registry::{Order, Registered},
    session::{
        pinned::PinnedConnections,
        protocol::Protocol,
        transaction::{ClientSide, ConnectionExtras},
        wire::Wire,
    },
    worker::Worker,
};

/// An idle connection without a task. What of a [`Session`] is not here is made anew.
pub struct Parked {
    /// When its idle time is over.
    pub until: Option<Instant>,
    socket: Socket,
    worker: Rc<Worker>,
    instance: Arc<Instance>,
    registered: Registered,
    held: ConnectionGuards,
    kept: PinnedConnections,
    unusual: Option<Box<ParkedExtras>>,
    session_log: Option<Rc<SessionLog>>,
    idle_since: Instant,
    accepted_at: Duration,
    listener: u32,
    first: bool,
    nolinger: bool,
}

/// Fields that most parked connections do not need: addresses that were changed, variables of the session, tracked entries.
struct ParkedExtras {
    source: Option<SocketAddr>,
    original_source: Option<SocketAddr>,
    changed_destination: Option<SocketAddr>,
    original_destination: OnceCell<Option<SocketAddr>>,
    received_proxy: bool,
    more: OnceCell<Rc<ConnectionExtras>>,
    variables: StreamVariables,
    idle_wish: Option<Duration>,
}

impl Session {
    /// Whether nothing is left of the last request that would be lost.
    pub fn can_be_parked(&self) -> bool {
        let streams = if self.held.not_to_linger.is_some() { 3 } else { 2 };
        self.side.protocol == Protocol::Http1
            && Rc::strong_count(&self.side) == 1
            && Rc::strong_count(&self.client.stream) == streams
            && self.client.received.is_empty()
            && self.client.is_flushed()
    }
}

impl Parked {
    /// Takes from a session that [`Session::can_be_parked`] what is to be remembered. `None` when it cannot: then it is over.
    pub fn new(session: Box<Session>, until: Option<Instant>) -> Option<Self> {
        let Session {
            worker,
            instance,
            side,
            client,
            registered,
            deadline: _,
            first,
            stays_awake: _,
            begins_http2: _,
            idle_since,
            idle_wish,
            kept,
            mut held,
        } = *session;
        drop(client);
        let nolinger = held.not_to_linger.take().is_some();
        let ClientSide {
            source,
            original_source,
            changed_destination,
            original_destination,
            received_proxy,
            more,
            protocol: _,
            stream,
            handshaken: _,
            variables,
            frontend,
            listener,
            accepted: _,
            accepted_at,
            id: _,
            session_log,
        } = Rc::try_unwrap(side).ok()?;
        let (source, changed_destination, variables) =
            (source.into_inner(), changed_destination.into_inner(), variables.into_inner());
        let is_usual = source == registered.handle.source.get()
            && source == original_source
            && changed_destination.is_none()
            && !received_proxy
            && more.get().is_none()
            && idle_wish.is_none()
            && !variables.has_session_variables();
        let unusual = (!is_usual).then(|| {
            Box::new(ParkedExtras {
                source,
                original_source,
                changed_destination,
                original_destination,
                received_proxy,
                more,
                variables,
                idle_wish,
            })
        });
        registered.handle.frontend.replace(frontend);
        registered.handle.forget_listener();
        Some(Self {
            until,
            socket: Rc::try_unwrap(stream?).ok()?.into_socket().ok()?,
            worker,
            instance,
            registered,
            held,
            kept,
            unusual,
            session_log: session_log.into_inner().flatten(),
            idle_since,
            accepted_at,
            listener: u32::try_from(listener).ok()?,
            first,
            nolinger,
        })
    }

    /// The connection's socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether it was told to end.
    pub fn was_told(&self) -> bool {
        self.registered.handle.order() != Order::Continue
    }

    /// Makes a session of it again, to be given a task.
    ///
    /// # Errors
    /// When the runtime cannot watch the socket.
    pub fn wake(self) -> io::Result<Box<Session>> {
        let Self {
            until: _,
            socket,
            worker,
            instance,
            registered,
            mut held,
            kept,
            unusual,
            session_log,
            idle_since,
            accepted_at,
            listener,
            first,
            nolinger,
        } = self;
        let stream = Rc::new(Stream::from_socket(socket)?);
        held.not_to_linger = nolinger.then(|| Rc::clone(&stream));
        let client = Wire::new(Rc::clone(&stream), worker.buffers.clone());
        let handle = &registered.handle;
        let frontend = Arc::clone(&handle.frontend.borrow());
        let ParkedExtras {
            source,
            original_source,
            changed_destination,
            original_destination,
            received_proxy,
            more,
            variables,
            idle_wish,
        } = unusual.map_or_else(
            || ParkedExtras {
                source: handle.source.get(),
                original_source: handle.source.get(),
                changed_destination: None,
                original_destination: OnceCell::new(),
                received_proxy: false,
                more: OnceCell::new(),
                variables: instance.stream_variables(),
                idle_wish: None,
            },
            |unusual| *unusual,
        );
        let side = Rc::new(ClientSide {
            source: Cell::new(source),
            original_source,
            changed_destination: Cell::new(changed_destination),
            original_destination,
            received_proxy,
            more,
            // Only connections of HTTP/1 are parked.
            protocol: Protocol::Http1,
            stream: Some(stream),
            handshaken: None,
            variables: RefCell::new(variables),
            frontend,
            listener: listener as usize,
            accepted: handle.since,
            accepted_at,
            id: handle.id,
            session_log: session_log.map_or_else(OnceCell::new, |log| OnceCell::from(Some(log))),
        });
        let (deadline, stays_awake) = (Deadline::default(), false);
        Ok(Box::new(Session {
            worker,
            instance,
            side,
            client,
            registered,
            deadline,
            first,
            stays_awake,
            begins_http2: false,
            idle_since,
            idle_wish,
            kept,
            held,
        }))
    }
}
