//! What is known of one peer.

use std::sync::Arc;

use crate::{
    cache::{ReceiveCache, SendCache},
    hello::Status,
    section::ConnectionId,
    table::RemoteTable,
};

/// A lesson: everything that a table holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lesson {
    /// Changes up to this one were sent.
    pub(crate) at: u64,
    /// Those up to this one belong to it.
    pub(crate) end: u64,
}

/// How far a peer is with a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    /// The last change that was sent to it.
    pub(crate) last_pushed: u64,
    /// The last one that it has acknowledged.
    pub(crate) acked: u64,
    /// The number of the last change that came from it.
    pub(crate) last_get: u32,
    /// The last one of these that was acknowledged.
    pub(crate) last_acked: u32,
    /// The lesson that it is given.
    pub(crate) lesson: Option<Lesson>,
    /// Its own definition of the table.
    pub(crate) remote: Option<Arc<RemoteTable>>,
}

impl Cursor {
    /// A new connection goes on from what was acknowledged.
    pub(crate) fn restart(&mut self) {
        (self.last_get, self.last_acked) = (0, 0);
        self.last_pushed = self.acked;
        self.lesson = None;
        self.remote = None;
    }
}

/// The table that updates of a peer are about.
#[derive(Clone, Debug)]
pub(crate) struct Receiving {
    /// Which one it is here, if it is shared.
    pub(crate) table: Option<usize>,
    /// What it is there.
    pub(crate) remote: Arc<RemoteTable>,
}

/// A peer.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own, and shown as a flag by 'show peers'")]
pub(crate) struct Peer {
    pub(crate) name: Arc<str>,
    pub(crate) is_local: bool,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) status: Status,
    /// When to connect again, or to give the connection up unless it lives.
    pub(crate) reconnect: Option<u64>,
    /// When to say that this process lives.
    pub(crate) heartbeat: Option<u64>,
    pub(crate) heartbeat_is_due: bool,
    pub(crate) last_handshake: Option<u64>,
    /// A message came since `reconnect` was set.
    pub(crate) is_alive: bool,
    /// It speaks the version before.
    pub(crate) is_old: bool,
    /// It gets a lesson, until it confirms that.
    pub(crate) is_taught: bool,
    /// The end of the lesson was told.
    pub(crate) lesson_is_over: bool,
    /// The new process has learned all that this one knew.
    pub(crate) has_learned_all: bool,
    /// This process learns from it.
    pub(crate) teaches: bool,
    /// It has taught and was not up to date itself.
    pub(crate) is_behind: bool,
    /// Ends of lessons that are to be confirmed.
    pub(crate) confirm: u32,
    pub(crate) cursors: Vec<Cursor>,
    /// The table that updates to it are about.
    pub(crate) sending: Option<usize>,
    pub(crate) receiving: Option<Receiving>,
    pub(crate) sent_words: SendCache,
    pub(crate) received_words: ReceiveCache,
    pub(crate) heartbeats_sent: u32,
    pub(crate) heartbeats_received: u32,
    pub(crate) silences: u32,
    pub(crate) connections: u32,
    pub(crate) protocol_errors: u32,
    pub(crate) collisions: u32,
}

impl Peer {
    pub(crate) fn new(name: Arc<str>, is_local: bool, tables: usize) -> Self {
        Self {
            name,
            is_local,
            connection: None,
            status: Status::None,
            reconnect: None,
            heartbeat: None,
            heartbeat_is_due: false,
            last_handshake: None,
            is_alive: false,
            is_old: false,
            is_taught: false,
            lesson_is_over: false,
            has_learned_all: false,
            teaches: false,
            is_behind: false,
            confirm: 0,
            cursors: vec![Cursor::default(); tables],
            sending: None,
            receiving: None,
            sent_words: SendCache::default(),
            received_words: ReceiveCache::default(),
            heartbeats_sent: 0,
            heartbeats_received: 0,
            silences: 0,
            connections: 0,
            protocol_errors: 0,
            collisions: 0,
        }
    }

    /// Nothing of the connection's state outlives it.
    pub(crate) fn restart(&mut self) {
        self.confirm = 0;
        (self.is_taught, self.lesson_is_over) = (false, false);
        (self.teaches, self.is_behind) = (false, false);
        self.heartbeat_is_due = false;
        (self.sending, self.receiving) = (None, None);
        self.sent_words = SendCache::default();
        self.received_words = ReceiveCache::default();
        self.cursors.iter_mut().for_each(Cursor::restart);
    }
}
