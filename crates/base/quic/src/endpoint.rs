//! The connections of a socket, as far as they are found by datagrams.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    task::{Context, Waker},
    time::Instant,
};

use bytes::BytesMut;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointConfig, EndpointEvent, Incoming, Transmit,
};
use tls::Acceptor;

use crate::{
    connection::Connection,
    ids::{Ids, Origin},
    settings::{Keys, Terms},
    socket::{Datagram, UdpSocket},
};

/// The version of RFC 9000, the only one that is spoken.
const VERSION_1: u32 = 1;

/// What waits for the task of a connection.
#[derive(Default)]
pub struct Inbox {
    events: RefCell<Vec<ConnectionEvent>>,
    waker: RefCell<Option<Waker>>,
}

impl Inbox {
    fn put(&self, event: ConnectionEvent) {
        self.events.borrow_mut().push(event);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub fn take(&self) -> Vec<ConnectionEvent> {
        self.events.take()
    }

    /// Has the task be woken with the next event.
    pub fn listen(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !self.events.borrow().is_empty() {
            context.waker().wake_by_ref();
        } else if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }
}

/// The connections of one worker on one socket.
pub struct Endpoint {
    /// The socket.
    pub socket: UdpSocket,
    origin: Origin,
    machine: RefCell<quinn_proto::Endpoint>,
    inboxes: RefCell<HashMap<ConnectionHandle, Rc<Inbox>>>,
    /// Where packets are made that belong to no connection.
    output: RefCell<Vec<u8>>,
    handshaking: Cell<usize>,
}

impl Endpoint {
    /// None yet.
    #[must_use]
    pub fn new(socket: UdpSocket, origin: Origin, terms: &Terms, keys: &Keys) -> Rc<Self> {
        let mut config = EndpointConfig::new(Arc::clone(&keys.resets));
        config.cid_generator(move || Box::new(Ids(origin))).supported_versions(vec![VERSION_1]);
        // NOTE: what protects first packets is the same for all certificates. Each connection is accepted under what holds then.
        let first = terms.config(Arc::new(Acceptor::of_nobody()));
        let machine = quinn_proto::Endpoint::new(Arc::new(config), Some(first), !socket.may_fragment(), None);
        Rc::new(Self {
            socket,
            origin,
            machine: RefCell::new(machine),
            inboxes: RefCell::default(),
            output: RefCell::default(),
            handshaking: Cell::new(0),
        })
    }

    /// Who serves its connections.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// How many connections there are.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.inboxes.borrow().len()
    }

    /// How many of them have not shaken hands.
    #[must_use]
    pub fn handshaking(&self) -> usize {
        self.handshaking.get()
    }

    /// Gives a datagram to the connection that it is for. If it is to begin one, that is to be decided about.
    #[must_use]
    pub fn handle(self: &Rc<Self>, datagram: Datagram<'_>, now: Instant) -> Option<Arrival> {
        let mut output = self.output.take();
        output.clear();
        let bytes = BytesMut::from(datagram.bytes);
        let event =
            self.machine.borrow_mut().handle(now, datagram.from, datagram.to, datagram.ecn(), bytes, &mut output);
        let mut arrival = None;
        match event {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(inbox) = self.inboxes.borrow().get(&handle) {
                    inbox.put(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                arrival = Some(Arrival { endpoint: Rc::clone(self), incoming: Some(incoming) });
            }
            Some(DatagramEvent::Response(transmit)) => self.answer(&transmit, &output),
        }
        self.output.replace(output);
        arrival
    }

    /// Sends what belongs to no connection; what cannot go at once does not.
    fn answer(&self, transmit: &Transmit, output: &[u8]) {
        if let Some(bytes) = output.get(..transmit.size) {
            self.socket.send(transmit, bytes, Waker::noop());
        }
    }

    pub(crate) fn tell(&self, handle: ConnectionHandle, event: EndpointEvent) -> Option<ConnectionEvent> {
        if event.is_drained() {
            self.inboxes.borrow_mut().remove(&handle);
        }
        self.machine.borrow_mut().handle_event(handle, event)
    }

    pub(crate) fn has_shaken_hands(&self) {
        self.handshaking.set(self.handshaking.get().saturating_sub(1));
    }
}

/// A client that wants to begin a connection. One about which nothing is decided is ignored: it will ask again.
pub struct Arrival {
    endpoint: Rc<Endpoint>,
    incoming: Option<Incoming>,
}

impl Arrival {
    /// The client's address, which may be a lie as long as it is not [proven](Self::is_proven).
    #[must_use]
    pub fn from(&self) -> Option<SocketAddr> {
        self.incoming.as_ref().map(Incoming::remote_address)
    }

    /// The address of this machine that it speaks with.
    #[must_use]
    pub fn to(&self) -> Option<IpAddr> {
        self.incoming.as_ref().and_then(Incoming::local_ip)
    }

    /// Whether the client has shown that it gets what is sent to its address.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.incoming.as_ref().is_some_and(Incoming::remote_address_validated)
    }

    /// Begins the connection.
    #[must_use]
    pub fn accept(mut self, terms: &Terms, acceptor: Arc<Acceptor>, now: Instant) -> Option<Connection> {
        let incoming = self.incoming.take()?;
        let mut output = Vec::new();
        let config = terms.config(acceptor);
        let accepted = self.endpoint.machine.borrow_mut().accept(incoming, now, &mut output, Some(config));
        match accepted {
            Ok((handle, machine)) => {
                let inbox = Rc::<Inbox>::default();
                self.endpoint.inboxes.borrow_mut().insert(handle, Rc::clone(&inbox));
                self.endpoint.handshaking.set(self.endpoint.handshaking.get() + 1);
                Some(Connection::new(Rc::clone(&self.endpoint), handle, machine, inbox))
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.endpoint.answer(&transmit, &output);
                }
                None
            }
        }
    }

    /// Has the client prove its address. One that has tried that already is refused.
    pub fn retry(mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        let mut output = Vec::new();
        let mut machine = self.endpoint.machine.borrow_mut();
        let transmit = match machine.retry(incoming, &mut output) {
            Ok(transmit) => transmit,
            Err(error) => machine.refuse(error.into_incoming(), &mut output),
        };
        drop(machine);
        self.endpoint.answer(&transmit, &output);
    }

    /// Tells the client that it is not served.
    pub fn refuse(mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        let mut output = Vec::new();
        let transmit = self.endpoint.machine.borrow_mut().refuse(incoming, &mut output);
        self.endpoint.answer(&transmit, &output);
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take() {
            self.endpoint.machine.borrow_mut().ignore(incoming);
        }
    }
}
