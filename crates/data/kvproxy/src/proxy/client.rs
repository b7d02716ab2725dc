//! A client: what of its requests has come, and what it is still to be sent, in the order in which it asked.

use std::collections::VecDeque;

use resp::{Protocol, RequestParser};

use super::{
    link::LinkKind,
    merge::Gathering,
    own::{Own, Purpose},
    scan::Walk,
};

/// Replies that a client may wait for before no more of its requests are read.
const WAITING_MAX: usize = 4_096;
/// Bytes that a client may leave unread before no more of its requests are read.
const OUTPUT_MAX: usize = 1024 * 1024;

/// A connection that requests come by.
#[derive(Debug)]
pub struct Client {
    /// Its number, which no other has or had.
    pub id: u64,
    /// The pool that it came to.
    pub pool: usize,
    /// Reads its requests.
    pub parser: RequestParser,
    /// What has come of a request that is not whole, or that must wait.
    pub input: Vec<u8>,
    /// What is to be sent.
    pub output: Vec<u8>,
    /// How much of that is sent.
    pub sent: usize,
    /// Requests that are not answered, the oldest first.
    pub pending: VecDeque<Pending>,
    /// The number of the oldest of them.
    pub first: u64,
    /// It is to be closed once everything has been sent.
    pub is_closing: bool,
    /// It has given the password, or needs none.
    pub is_authenticated: bool,
    /// What it speaks.
    pub protocol: Protocol,
    /// The database that it has chosen.
    pub db: u32,
    /// `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// Nothing more is run until all requests before are answered.
    pub holds: bool,
    /// Of its requests that are tried again, one was answered: the others need not follow one by one.
    pub retries_all: bool,
    /// A server takes its requests too slowly: nothing more is run until it has taken most of them.
    pub is_throttled: bool,
    /// A connection to a server that it has for itself, if it has one.
    pub own: Option<Box<Own>>,
    /// It stands among those that have something to be sent.
    pub is_dirty: bool,
}

/// A request that is not answered.
#[derive(Debug)]
pub enum Pending {
    /// The reply of a server is the answer.
    One,
    /// That to `SCAN`.
    Scan(Walk),
    /// That to `SELECT`: the database is this one if it is no error.
    Select(u32),
    /// Replies are missing.
    Many(Box<Gathering>),
    /// The answer is there; one before it is not.
    Done(Vec<u8>),
}

impl Client {
    /// A client that has just come.
    pub fn new(id: u64, pool: usize, is_authenticated: bool) -> Self {
        Self {
            id,
            pool,
            parser: RequestParser::new(),
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            pending: VecDeque::new(),
            first: 0,
            is_closing: false,
            is_authenticated,
            protocol: Protocol::Resp2,
            db: 0,
            name: Vec::new(),
            holds: false,
            retries_all: false,
            is_throttled: false,
            own: None,
            is_dirty: false,
        }
    }

    /// What `CLIENT LIST` says of it.
    #[must_use]
    pub fn described(&self) -> String {
        let flags = if self.may_wait() { "b" } else { "N" };
        let resp = if self.protocol == Protocol::Resp3 { 3 } else { 2 };
        format!(
            "id={} name={} flags={flags} db={} qbuf={} obl={} resp={resp}\n",
            self.id,
            String::from_utf8_lossy(&self.name),
            self.db,
            self.input.len(),
            self.output.len() - self.sent,
        )
    }

    /// Which connections its requests go over.
    #[inline]
    #[must_use]
    pub fn link_kind(&self) -> LinkKind {
        LinkKind { protocol: self.protocol, db: self.db, reads_replica: false }
    }

    /// Whether no more is to be read from it for now.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.pending.len() >= WAITING_MAX
            || self.output.len() - self.sent >= OUTPUT_MAX
            || self.is_held()
            || self.is_closing
    }

    /// Whether none of its requests is to be run for now.
    #[inline]
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.holds || self.is_throttled
    }

    /// Puts a request behind the others, and says its number.
    #[inline]
    pub fn wait(&mut self, pending: Pending) -> u64 {
        self.pending.push_back(pending);
        self.first + self.pending.len() as u64 - 1
    }

    /// Has a place for an answer that is made here: behind those that are there, or behind the requests that wait.
    pub fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.pending.is_empty() {
            write(&mut self.output);
        } else {
            let mut reply = Vec::new();
            write(&mut reply);
            self.wait(Pending::Done(reply));
        }
    }

    /// Moves answers that are there to what is to be sent, up to the first that is missing.
    pub fn settle(&mut self) {
        while let Some(Pending::Done(_)) = self.pending.front() {
            if let Some(Pending::Done(reply)) = self.pending.pop_front() {
                self.output.extend_from_slice(&reply);
                self.first += 1;
            }
        }
    }

    /// Whether it may wait for as long as it likes, so that its end is to be looked for.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        let purpose = self.own.as_ref().map(|own| own.purpose);
        matches!(purpose, Some(Purpose::OneReply { may_wait: true } | Purpose::Listening { .. }))
    }

    /// Whether it waits for nothing.
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }
}
