//! A connection to a server: what is to be sent by it, and who waits for which of its replies.

use std::collections::VecDeque;

use resp::Protocol;

use crate::frame::FrameScanner;

/// A connection to a server, open or not.
#[derive(Debug)]
pub struct Link {
    /// The pool of its server.
    pub pool: usize,
    /// The server, by its place in the pool.
    pub server: usize,
    /// Which requests it is for.
    pub kind: LinkKind,
    /// How far it is.
    pub state: LinkState,
    /// The client that has it for itself, by place and number.
    pub owner: Option<(usize, u64)>,
    /// What is to be sent.
    pub output: Vec<u8>,
    /// How much of that is sent.
    pub sent: usize,
    /// What has come of a reply that is not whole.
    pub input: Vec<u8>,
    /// Finds the ends of replies.
    pub scanner: FrameScanner,
    /// Who waits, in the order of the requests.
    pub waiting: VecDeque<Waiting>,
    /// How many replies have been taken off since it is there.
    pub taken: u64,
    /// When its opening began, in milliseconds.
    pub opened_at: u64,
    /// It stands among those that have something to be sent.
    pub is_dirty: bool,
    /// Clients, by place and number, that wait until the server has taken most of what is to be sent.
    pub throttled: Vec<(usize, u64)>,
    /// Requests are kept until they are answered: a server may send them elsewhere.
    pub keeps: bool,
    /// The requests of those who wait for an answer, in their order.
    pub kept: VecDeque<UnansweredRequest>,
    /// Bytes of these.
    pub kept_bytes: usize,
    /// Bytes that have been sent since it was opened.
    pub sent_ever: u64,
}

/// What requests that share a connection have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkKind {
    /// What is spoken: replies go on to clients as they are.
    pub protocol: Protocol,
    /// The database that was chosen.
    pub db: u32,
    /// The server is asked as a replica, for reads.
    pub reads_replica: bool,
}

impl Default for LinkKind {
    fn default() -> Self {
        Self { protocol: Protocol::Resp2, db: 0, reads_replica: false }
    }
}

/// A request that is not answered.
#[derive(Debug, Default)]
pub struct UnansweredRequest {
    /// The request.
    pub bytes: Vec<u8>,
    /// How many bytes of the connection end with it.
    pub end: u64,
    /// When it was first asked, in milliseconds.
    pub since: u64,
    /// How often it was sent since it last waited.
    pub tries: u32,
    /// When a server has last refused to let it wait.
    pub refused_at: Option<u64>,
}

/// Bytes that wait to be sent to a server before clients that send it more are held up.
pub const OUTPUT_MAX: usize = 16 * 1024 * 1024;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It is opened when something is to be sent.
    Closed,
    /// It is being opened.
    Opening,
    /// It stands.
    Open,
}

/// What becomes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It has to be no error, and is nobody's.
    Swallow,
    /// The same, of a server that is asked to speak the newer protocol: older ones do not know it.
    Hello,
    /// It is nobody's.
    Ignore,
    /// It says whether requests may have keys of several slots.
    Probe,
    /// It says whether a server may be read from as a replica, and how far away it is.
    Role {
        /// When it was asked for, in microseconds.
        since: u64,
    },
    /// It says that a server whose breaker is open answers again.
    Revival {
        /// When it was asked for, in milliseconds.
        since: u64,
    },
    /// It is part of an answer.
    Answer {
        /// The client's place.
        client: usize,
        /// The client's number.
        id: u64,
        /// The request's number.
        request: u64,
        /// Which part of it.
        part: u32,
        /// When it was asked for, in milliseconds.
        since: u64,
    },
}

impl Link {
    /// One that is not open.
    pub fn new(pool: usize, server: usize, owner: Option<(usize, u64)>) -> Self {
        Self {
            pool,
            server,
            kind: LinkKind::default(),
            state: LinkState::Closed,
            owner,
            output: Vec::new(),
            sent: 0,
            input: Vec::new(),
            scanner: FrameScanner::default(),
            waiting: VecDeque::new(),
            taken: 0,
            opened_at: 0,
            is_dirty: false,
            throttled: Vec::new(),
            keeps: false,
            kept: VecDeque::new(),
            kept_bytes: 0,
            sent_ever: 0,
        }
    }

    /// The same that keeps requests, or does not.
    pub fn keeping(self, keeps: bool) -> Self {
        Self { keeps, ..self }
    }

    /// The same for requests of a kind.
    pub fn of_kind(self, kind: LinkKind) -> Self {
        Self { kind, ..self }
    }

    /// Of what waited to be sent, so much is left.
    #[inline]
    pub fn has_sent(&mut self, before: usize) {
        self.sent_ever += (before - self.unsent()) as u64;
    }

    /// Forgets everything of a connection that is gone, and gives those who waited.
    pub fn reset(&mut self) -> VecDeque<Waiting> {
        self.state = LinkState::Closed;
        self.output.clear();
        self.sent = 0;
        self.input = Vec::new();
        self.scanner = FrameScanner::default();
        self.sent_ever = 0;
        self.taken += self.waiting.len() as u64;
        self.kept_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Since when somebody waits for it, in milliseconds.
    pub fn waits_since(&self) -> Option<u64> {
        if self.state == LinkState::Opening {
            return Some(self.opened_at);
        }
        self.waiting.iter().find_map(|waiting| match waiting {
            Waiting::Answer { since, .. } | Waiting::Revival { since } => Some(*since),
            Waiting::Role { since } => Some(*since / 1000),
            _ => None,
        })
    }
}
