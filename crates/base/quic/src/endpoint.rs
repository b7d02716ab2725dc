//! The connections of a socket, as far as they are found by datagrams.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
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
    ids::{Ids, Origin},
    settings::{Keys, Terms},
    socket::{Datagram, UdpSocket},
};

/// The version of RFC 9000, the only one that is spoken.
const VERSION_1: u32 = 1;

/// How many connections an endpoint remembers that were dropped without a word. It forgets the oldest ones beyond that: their datagrams
/// are then answered by a stateless reset, as those of any unknown connection.
const ABANDONED_MAX: usize = 4_096;

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
    /// Connections that were left without a word, and until when what comes for them is known.
    abandoned: RefCell<VecDeque<(Instant, ConnectionHandle)>>,
}

impl Endpoint {
    /// None yet.
    #[must_use]
    pub fn new(socket: UdpSocket, origin: Origin, terms: &Terms, keys: &Keys) -> Rc<Self> {
        let mut config = EndpointConfig::new(Arc::clone(&keys.resets));
        let knows_others = keys.are_shared;
        config.cid_generator(move || Box::new(Ids { origin, knows_others })).supported_versions(vec![VERSION_1]);
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
            abandoned: RefCell::default(),
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
    pub(crate) fn handle(&self, datagram: Datagram<'_>, now: Instant) -> Option<Incoming> {
        self.forget_abandoned(now);
        let mut output = self.output.take();
        output.clear();
        let bytes = BytesMut::from(datagram.bytes);
        let event =
            self.machine.borrow_mut().handle(now, datagram.from, datagram.to, datagram.ecn(), bytes, &mut output);
        let mut begins = None;
        match event {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(inbox) = self.inboxes.borrow().get(&handle) {
                    inbox.put(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                begins = Some(incoming);
            }
            Some(DatagramEvent::Response(transmit)) => self.answer(&transmit, &output),
        }
        self.output.replace(output);
        begins
    }

    /// Sends what belongs to no connection; what cannot go at once does not.
    pub(crate) fn answer(&self, transmit: &Transmit, output: &[u8]) {
        if let Some(bytes) = output.get(..transmit.size) {
            self.socket.send(transmit, bytes, Waker::noop());
        }
    }

    /// The machine that knows all connections, for a moment.
    pub(crate) fn with_machine<T>(&self, work: impl FnOnce(&mut quinn_proto::Endpoint) -> T) -> T {
        work(&mut self.machine.borrow_mut())
    }

    /// Takes a connection in that has begun; what comes for it.
    pub(crate) fn begins(&self, handle: ConnectionHandle) -> Rc<Inbox> {
        let inbox = Rc::<Inbox>::default();
        self.inboxes.borrow_mut().insert(handle, Rc::clone(&inbox));
        self.handshaking.set(self.handshaking.get() + 1);
        inbox
    }

    pub(crate) fn tell(&self, handle: ConnectionHandle, event: EndpointEvent) -> Option<ConnectionEvent> {
        if event.is_drained() {
            self.inboxes.borrow_mut().remove(&handle);
        }
        self.machine.borrow_mut().handle_event(handle, event)
    }

    /// Has what comes for a connection until then lead to nothing.
    pub(crate) fn abandon(&self, handle: ConnectionHandle, until: Instant) {
        self.inboxes.borrow_mut().remove(&handle);
        self.abandoned.borrow_mut().push_back((until, handle));
    }

    fn forget_abandoned(&self, now: Instant) {
        let mut abandoned = self.abandoned.borrow_mut();
        while let Some(&(until, handle)) = abandoned.front()
            && (until <= now || abandoned.len() > ABANDONED_MAX)
        {
            abandoned.pop_front();
            self.machine.borrow_mut().handle_event(handle, EndpointEvent::drained());
        }
    }

    pub(crate) fn has_shaken_hands(&self) {
        self.handshaking.set(self.handshaking.get().saturating_sub(1));
    }
}
