//! What a connection and its streams have in common.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use http::{BodyLength, RequestHead};
use live::Instance;

use super::Machine;
use crate::{
    session::{incoming::Incoming, transaction::ClientSide},
    worker::Worker,
};

/// A request that has come.
pub struct Begun<K> {
    /// Its stream.
    pub key: K,
    /// Its head.
    pub head: RequestHead,
    /// How its body ends.
    pub body: BodyLength,
    /// Scheme and authority, as they stand in front of a path.
    pub prefix: Vec<u8>,
    /// It is a CONNECT that is to begin a protocol (RFC 8441), and looks like the Upgrade that asks for it in HTTP/1.
    pub begins_protocol: bool,
    /// The configuration that it runs under.
    pub instance: Arc<Instance>,
    /// The client's connection under that one.
    pub side: Rc<ClientSide>,
}

/// What a connection shares with the exchanges on it.
pub struct Shared<M: Machine> {
    /// The worker.
    pub worker: Rc<Worker>,
    /// The protocol.
    pub machine: RefCell<M>,
    /// How much of a body is received before something of it is consumed.
    pub buffer_bytes: usize,
    /// Requests that wait for their exchanges to be polled.
    begun: RefCell<Vec<Begun<M::Key>>>,
    /// Memory of a head that can be used again.
    spare_head: RefCell<RequestHead>,
    incoming: RefCell<Vec<Incoming>>,
    /// Exchanges that are not over.
    running: Cell<usize>,
    is_gone: Cell<bool>,
    has_ended: Cell<bool>,
    vanishes: Cell<bool>,
    is_rejected: Cell<bool>,
}

impl<M: Machine> std::fmt::Debug for Shared<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("running", &self.running).finish_non_exhaustive()
    }
}

impl<M: Machine> Shared<M> {
    /// What streams of this machine share.
    pub fn new(worker: Rc<Worker>, machine: M) -> Self {
        let buffer_bytes = worker.buffers.size();
        Self {
            worker,
            machine: RefCell::new(machine),
            buffer_bytes,
            begun: RefCell::default(),
            spare_head: RefCell::default(),
            incoming: RefCell::default(),
            running: Cell::new(0),
            is_gone: Cell::new(false),
            has_ended: Cell::new(false),
            vanishes: Cell::new(false),
            is_rejected: Cell::new(false),
        }
    }

    /// Memory for the next head.
    pub fn take_head(&self) -> RequestHead {
        self.spare_head.take()
    }

    /// Gives memory of a head back.
    pub fn give_head(&self, head: RequestHead) {
        self.spare_head.replace(head);
    }

    /// A request waits to be taken by the exchange of its place. Several may: one with a body waits until more of what has come is read.
    pub fn begins(&self, begun: Begun<M::Key>) {
        let place = M::slot(begun.key);
        let mut incoming = self.incoming.borrow_mut();
        if incoming.len() <= place {
            incoming.resize_with(place + 1, Incoming::default);
        }
        if let Some(incoming) = incoming.get_mut(place) {
            incoming.begin(begun.body == BodyLength::Chunked);
        }
        self.begun.borrow_mut().push(begun);
        self.running.set(self.running.get() + 1);
    }

    /// The request that waits in this place.
    pub fn take_begun(&self, place: usize) -> Option<Begun<M::Key>> {
        let mut waiting = self.begun.borrow_mut();
        let at = waiting.iter().position(|begun| M::slot(begun.key) == place)?;
        Some(waiting.swap_remove(at))
    }

    /// An exchange is over.
    pub fn is_done(&self) {
        self.running.set(self.running.get() - 1);
    }

    /// How many exchanges are not over.
    pub fn running(&self) -> usize {
        self.running.get()
    }

    /// A piece of a body has come; it may be the last one, behind which trailers may stand.
    pub fn receives(&self, key: M::Key, data: &[u8], end: Option<&[u8]>) {
        let mut all = self.incoming.borrow_mut();
        let Some(incoming) = all.get_mut(M::slot(key)) else { return };
        incoming.receive(data, end);
    }

    /// Whether the client has sent its last byte on a stream.
    pub fn has_body_ended(&self, key: M::Key) -> bool {
        self.incoming.borrow().get(M::slot(key)).is_some_and(Incoming::has_ended)
    }

    /// Moves what has come of a body behind `into`; how many bytes these were, and how many of them data.
    pub fn take_body(&self, key: M::Key, into: &mut Vec<u8>) -> (usize, usize) {
        let mut all = self.incoming.borrow_mut();
        let Some(incoming) = all.get_mut(M::slot(key)) else { return (0, 0) };
        incoming.take(into)
    }

    /// Whether trailers may stand behind a body whose length was announced.
    pub fn may_trail(&self, key: M::Key) -> bool {
        self.incoming.borrow().get(M::slot(key)).is_some_and(Incoming::may_trail)
    }

    /// Those trailers, once the end has come.
    pub fn take_trailers(&self, key: M::Key) -> Option<Vec<u8>> {
        self.incoming.borrow_mut().get_mut(M::slot(key)).and_then(Incoming::take_trailers)
    }

    /// How much of a body may come before somebody asks for it.
    pub fn room(&self, key: M::Key) -> usize {
        let all = self.incoming.borrow();
        self.buffer_bytes.saturating_sub(all.get(M::slot(key)).map_or(0, Incoming::len))
    }

    /// Drops what nobody has asked for of a body.
    pub fn forget(&self, key: M::Key) {
        if let Some(incoming) = self.incoming.borrow_mut().get_mut(M::slot(key)) {
            *incoming = Incoming::default();
        }
    }

    /// Whether nobody reads what is answered on a stream.
    pub fn is_gone(&self, key: M::Key) -> bool {
        self.is_gone.get() || self.machine.borrow().is_reset(key)
    }

    /// Nobody reads anything any more.
    pub fn goes(&self) {
        self.is_gone.set(true);
    }

    /// Whether nobody reads anything any more.
    pub fn has_gone(&self) -> bool {
        self.is_gone.get()
    }

    /// Whether the client has sent its last byte.
    pub fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// The client has sent its last byte.
    pub fn ends(&self) {
        self.has_ended.set(true);
    }

    /// The client is to be left without a word.
    pub fn vanish(&self) {
        self.vanishes.set(true);
        self.goes();
    }

    /// A rule does not want the client any more.
    pub fn reject(&self) {
        self.is_rejected.set(true);
    }

    /// Whether a rule does not want the client any more; that is said once.
    pub fn take_rejection(&self) -> bool {
        self.is_rejected.take()
    }

    /// Whether the client is to be left without a word.
    pub fn vanishes(&self) -> bool {
        self.vanishes.get()
    }

    /// Gives memory back that a connection without streams does not need.
    pub fn rest(&self) {
        self.incoming.take();
        self.spare_head.take();
        self.machine.borrow_mut().rest();
    }
}
