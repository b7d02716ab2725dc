//! What connections that carry several exchanges at a time have in common, whatever is spoken on them.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Waker},
};

use net::Stream;

use crate::{pool::ConnectionFacts, session::fetch::Codec};

/// A connection to a server that carries several exchanges, as the pool has it.
pub trait SharedConnection: std::fmt::Debug {
    /// What it has in common with others.
    fn carrier(&self) -> &Carrier;

    /// Whether it takes one more exchange.
    fn has_room(&self) -> bool;

    /// Gives memory back that a connection without exchanges does not need.
    fn rest(&self);

    /// A place on it for one more exchange.
    fn part(self: Rc<Self>) -> Codec;
}

/// Who uses a connection, and whether it goes on.
pub struct Carrier {
    /// What decides who may use it.
    pub facts: ConnectionFacts,
    /// Its socket.
    pub stream: Rc<Stream>,
    task: RefCell<Option<Waker>>,
    exchanges: Cell<usize>,
    requests: Cell<u32>,
    /// A response has come on it.
    is_proven: Cell<bool>,
    /// It takes no more exchanges, and ends when it carries none.
    is_leaving: Cell<bool>,
    /// Nothing goes any more.
    is_over: Cell<bool>,
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Carrier").field("exchanges", &self.exchanges).finish_non_exhaustive()
    }
}

impl Carrier {
    /// That of a connection that has just come to stand.
    pub fn new(facts: ConnectionFacts, stream: Rc<Stream>) -> Self {
        Self {
            facts,
            stream,
            task: RefCell::default(),
            exchanges: Cell::new(0),
            requests: Cell::new(0),
            is_proven: Cell::new(false),
            is_leaving: Cell::new(false),
            is_over: Cell::new(false),
        }
    }

    /// Notes who serves the socket.
    pub fn is_served_by(&self, context: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            *task = Some(context.waker().clone());
        }
    }

    /// Has the task look.
    pub fn wake_task(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// How many exchanges it carries.
    pub fn exchanges(&self) -> usize {
        self.exchanges.get()
    }

    /// One more exchange is to be carried.
    pub fn enter(&self) {
        self.exchanges.set(self.exchanges.get() + 1);
    }

    /// An exchange is over.
    pub fn exit(&self) {
        self.exchanges.set(self.exchanges.get().saturating_sub(1));
        if self.exchanges.get() == 0 {
            self.wake_task();
        }
    }

    /// How many requests it has carried.
    pub fn requests(&self) -> u32 {
        self.requests.get()
    }

    /// It carries one more request.
    pub fn note_request(&self) {
        self.requests.set(self.requests.get().saturating_add(1));
    }

    /// Whether a response has come on it.
    pub fn is_proven(&self) -> bool {
        self.is_proven.get()
    }

    /// A response has come.
    pub fn note_answer(&self) {
        self.is_proven.set(true);
    }

    /// Whether it takes no more exchanges.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.get() || self.is_over.get()
    }

    /// It takes no more exchanges, and ends when it carries none.
    pub fn leave(&self) {
        if !self.is_leaving.replace(true) {
            self.wake_task();
        }
    }

    /// Whether nothing goes any more.
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Nothing goes any more.
    pub fn note_end(&self) {
        self.is_over.set(true);
    }

    /// Whether it goes on with another request, as far as its server's line and its server's habits say.
    pub fn goes_on(&self) -> bool {
        if self.is_leaving() || self.facts.requests_max().is_some_and(|most| self.requests.get() >= most) {
            return false;
        }
        let reuse_max = self.facts.server.config.max_reuse;
        !u32::try_from(reuse_max).is_ok_and(|most| self.requests.get() > most)
    }
}
