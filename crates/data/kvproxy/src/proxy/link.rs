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
    /// What is spoken on it: that of the clients whose requests it has, since replies go on as they are.
    pub protocol: Protocol,
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
    pub kept: VecDeque<Kept>,
    /// Bytes that have been sent since it was opened.
    pub sent_ever: u64,
}

/// A request that is not answered.
#[derive(Debug, Default)]
pub struct Kept {
    /// The request.
    pub bytes: Vec<u8>,
    /// How many bytes of the connection end with it.
    pub end: u64,
    /// When it was first asked, in milliseconds.
    pub since: u64,
    /// How often it was sent since it last waited.
    pub tries: u32,
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
            protocol: Protocol::Resp2,
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
            sent_ever: 0,
        }
    }

    /// The same that keeps requests, or does not.
    pub fn keeping(self, keeps: bool) -> Self {
        Self { keeps, ..self }
    }

    /// The same that speaks a protocol.
    pub fn speaking(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
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
        std::mem::take(&mut self.waiting)
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Since when somebody waits for it, in milliseconds.
    pub fn waits_since(&self) -> Option<u64> {
        match (self.state, self.waiting.iter().find(|waiting| matches!(waiting, Waiting::Answer { .. }))) {
            (LinkState::Opening, _) => Some(self.opened_at),
            (_, Some(Waiting::Answer { since, .. })) => Some(*since),
            _ => None,
        }
    }
}
