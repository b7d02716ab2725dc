//! A replica's end of the link.
//!
//! ```text
//! Connecting -> Greeting -> Introducing -> Asking --+CONTINUE--------------------------> Streaming
//!                                            |                                              ^
//!                                            +--+FULLRESYNC--> Receiving --> Loading -------+
//! ```
//!
//! Whoever has the socket gives what comes and what time it is ([`Link::handle_connected`], [`Link::handle_bytes`],
//! [`Link::handle_time`]), takes what is to be sent ([`Link::poll_transmit`]) and what is to be done ([`Link::poll_event`]), in this
//! order. It stops reading while [`Link::wants_bytes`] says so: what is not taken is held here. An error ends the link; a new one
//! begins with a new connection.

mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use oplog::{Offset, ReplicationId};

use crate::{
    cut::{CutError, Cutter, PIECE_LEN, Piece},
    parting::begun_of,
};

use self::snapshot::Receiving;

/// The longest line of the handshake.
const LINE_LEN_MAX: usize = 8192;
/// So much of the stream is held while nobody takes it.
const HELD_MAX: usize = 2 * PIECE_LEN;
/// So much of a snapshot is.
const SNAPSHOT_HELD_MAX: usize = 1 << 20;
/// How often a replica says how far it is, in milliseconds.
const ACK_MS: i64 = 1000;
/// For so long it waits for what has come to be applied: a master that pings once a second would hear of the ping before, each time, and
/// one that hands over (`FAILOVER`) waits until it hears of the last.
const ACK_LATE_MS: i64 = 200;

/// What a replica says of itself, and how patient it is.
#[derive(Debug, Clone, Default)]
pub struct LinkOptions {
    /// The user that it is to its master; nobody: `default`.
    pub user: Option<Vec<u8>>,
    /// The password.
    pub password: Option<Vec<u8>>,
    /// The port that it is reached at.
    pub port: u16,
    /// The address, if it is another one than the connection's.
    pub address: Option<String>,
    /// The other end is a replica of this one that has all of its log: it is asked to be the master.
    pub hands_over: bool,
    /// Of all keys those of these slots are wanted alone. A master that does not know of that gives all.
    pub slots: Option<(u16, u16)>,
    /// The master is to be this node of a cluster.
    pub node: Option<String>,
    /// After so many milliseconds without a byte the master is given up.
    pub timeout_ms: i64,
}

/// Where a replica's own log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The history that it tells.
    pub history: ReplicationId,
    /// Its end.
    pub offset: Offset,
}

/// Where a link is, as `ROLE` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkState {
    /// It is to be connected.
    #[default]
    Connect,
    /// It is being connected.
    Connecting,
    /// It says who it is.
    Handshake,
    /// It is given all keys.
    Sync,
    /// It is given the log.
    Connected,
}

impl LinkState {
    /// Redis' word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Connecting => "connecting",
            Self::Handshake => "handshake",
            Self::Sync => "sync",
            Self::Connected => "connected",
        }
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// What is there is a part of the master's log, which goes on under this history; and all that it tells, if it says so.
    Continued(ReplicationId, Option<Vec<(ReplicationId, Offset)>>),
    /// All keys follow, as of this place; and the same.
    FullCopy(Position, Option<Vec<(ReplicationId, Offset)>>),
    /// A part of the snapshot.
    Snapshot(Vec<u8>),
    /// The snapshot has come to its end. Nothing of the stream is given before [`Link::loaded`].
    SnapshotEnd,
    /// A part of the stream.
    Piece(Piece),
}

/// Why a link ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The master has said nothing for too long.
    #[error("the master has said nothing for {0} s (repl-timeout)")]
    Silent(i64),
    /// The master does not take who the replica says it is.
    #[error("the master refuses '{command}': {reason}")]
    Refused {
        /// What was sent.
        command: &'static str,
        /// What it says.
        reason: String,
    },
    /// The master does not take the password.
    #[error("Unable to AUTH to MASTER: {0}")]
    Unauthenticated(String),
    /// The master cannot be followed now.
    #[error("the master cannot be followed now: {0}")]
    NotNow(String),
    /// What came is no answer.
    #[error("the master answers '{command}' with what is no answer: {line}")]
    NoAnswer {
        /// What was sent.
        command: &'static str,
        /// What came.
        line: String,
    },
    /// What came instead of a snapshot is none.
    #[error("the master sends no snapshot: {0}")]
    NoSnapshot(String),
    /// What came is no stream of commands.
    #[error(transparent)]
    Stream(#[from] CutError),
}

/// What the handshake is waiting for the answers to.
const PORT: &str = "REPLCONF listening-port";
const ADDRESS: &str = "REPLCONF ip-address";
const CAPABILITIES: &str = "REPLCONF capa";
const SLOTS: &str = "REPLCONF tidegate-slots";
const NODE: &str = "REPLCONF tidegate-node";
const EAGER: &str = "REPLCONF tidegate-acks";
const AUTH: &str = "AUTH";

#[derive(Debug)]
enum State {
    Connecting,
    Greeting,
    /// Waits for the answers to these.
    Introducing(VecDeque<&'static str>),
    Asking,
    Receiving(Receiving),
    Loading(Position),
    Streaming,
}

/// A replica's link to its master.
#[derive(Debug)]
pub struct Link {
    options: LinkOptions,
    /// Where the own log ends.
    position: Position,
    state: State,
    /// What came and was not understood yet, as long as lines come.
    received: Vec<u8>,
    cutter: Cutter,
    transmit: Vec<u8>,
    events: VecDeque<Event>,
    /// Bytes of the events.
    held_snapshot: usize,
    /// When something came last.
    heard: i64,
    /// When it was said last how far this is, or that it goes on.
    told: i64,
    /// The master wants to know as soon as the stream is applied up to there.
    ack_asked: Option<Offset>,
    /// The master wants to know each time that something has become durable.
    is_eager: bool,
    /// Up to where the stream is applied, and durable.
    progress: (Offset, Offset),
    /// Up to where it has come.
    taken: Offset,
    told_progress: (Offset, Offset),
}

impl Link {
    /// One that is being connected since now.
    #[must_use]
    pub fn new(options: LinkOptions, position: Position, now: i64) -> Self {
        Self {
            options,
            position,
            state: State::Connecting,
            received: Vec::new(),
            cutter: Cutter::new(position.offset),
            transmit: Vec::new(),
            events: VecDeque::new(),
            held_snapshot: 0,
            heard: now,
            told: now,
            ack_asked: None,
            is_eager: false,
            progress: (position.offset, position.offset),
            taken: position.offset,
            told_progress: (position.offset, position.offset),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn state(&self) -> LinkState {
        match &self.state {
            State::Connecting => LinkState::Connecting,
            State::Greeting | State::Introducing(_) | State::Asking => LinkState::Handshake,
            State::Receiving(_) | State::Loading(_) => LinkState::Sync,
            State::Streaming => LinkState::Connected,
        }
    }

    /// When something came last.
    #[must_use]
    pub fn heard(&self) -> i64 {
        self.heard
    }

    /// How many bytes of the snapshot are known to come, and how many have; nothing while none comes.
    #[must_use]
    pub fn snapshot_progress(&self) -> Option<(Option<u64>, u64)> {
        match &self.state {
            State::Receiving(receiving) => Some(receiving.progress()),
            _ => None,
        }
    }

    /// Whether more is to be read: not while what has come is not taken.
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        match self.state {
            State::Loading(_) => self.cutter.held_len() < HELD_MAX,
            State::Streaming => self.events.is_empty(),
            _ => self.held_snapshot < SNAPSHOT_HELD_MAX,
        }
    }

    /// The connection is there.
    pub fn handle_connected(&mut self, now: i64) {
        self.heard = now;
        self.state = State::Greeting;
        resp::encode_command(&mut self.transmit, &["PING"]);
    }

    /// Takes what has come.
    ///
    /// # Errors
    ///
    /// The master cannot be followed.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: i64) -> Result<(), LinkError> {
        self.heard = now;
        match &mut self.state {
            State::Streaming | State::Loading(_) => self.cutter.push(bytes),
            _ => self.received.extend_from_slice(bytes),
        }
        self.go_on()
    }

    /// Does what is due.
    ///
    /// # Errors
    ///
    /// The master was silent for too long.
    pub fn handle_time(&mut self, now: i64) -> Result<(), LinkError> {
        if matches!(self.state, State::Loading(_)) {
            // It is read from no more while it has much for us: that it is silent is no news.
            self.heard = now;
        }
        if now.saturating_sub(self.heard) > self.options.timeout_ms {
            return Err(LinkError::Silent(self.options.timeout_ms / 1000));
        }
        let is_due = self.is_ack_due(now);
        match self.state {
            State::Streaming if is_due => {
                let is_late = now.saturating_sub(self.told) >= ACK_MS + ACK_LATE_MS || now < self.told;
                if is_late || self.progress.0 >= self.taken {
                    self.acknowledge(now);
                }
            }
            // A master that hears nothing at all gives its replica up.
            State::Receiving(_) | State::Loading(_) if is_due => {
                self.told = now;
                self.transmit.push(b'\n');
            }
            _ => {}
        }
        Ok(())
    }

    fn is_ack_due(&self, now: i64) -> bool {
        now.saturating_sub(self.told) >= ACK_MS || now < self.told
    }

    /// Up to where the stream is applied by now, and durable.
    pub fn handle_progress(&mut self, applied: Offset, durable: Offset, now: i64) {
        self.progress = (applied, durable);
        if !matches!(self.state, State::Streaming) {
            return;
        }
        let is_answer = self.ack_asked.is_some_and(|asked| applied >= asked);
        if is_answer {
            self.ack_asked = None;
        }
        let is_due = applied >= self.taken && self.is_ack_due(now);
        if is_answer || is_due || self.is_eager && self.progress != self.told_progress {
            self.acknowledge(now);
        }
    }

    /// All keys of the snapshot are there: the stream goes on.
    ///
    /// # Errors
    ///
    /// What has come of it is no stream.
    pub fn loaded(&mut self, now: i64) -> Result<(), LinkError> {
        if let State::Loading(position) = self.state {
            self.state = State::Streaming;
            self.progress = (position.offset, position.offset);
            self.taken = position.offset;
            self.acknowledge(now);
        }
        self.go_on()
    }

    /// What is to be sent.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        (!self.transmit.is_empty()).then(|| std::mem::take(&mut self.transmit))
    }

    /// What is to be done next.
    ///
    /// # Errors
    ///
    /// What has come is no stream.
    pub fn poll_event(&mut self) -> Result<Option<Event>, LinkError> {
        if self.events.is_empty() {
            self.go_on()?;
        }
        let event = self.events.pop_front();
        if let Some(Event::Snapshot(bytes)) = &event {
            self.held_snapshot -= bytes.len();
        }
        Ok(event)
    }

    fn acknowledge(&mut self, now: i64) {
        let (applied, durable) = self.progress;
        let (applied, durable) = (applied.to_string(), durable.to_string());
        resp::encode_command(&mut self.transmit, &["REPLCONF", "ACK", &applied, "FACK", &durable]);
        self.told = now;
        self.told_progress = self.progress;
    }

    /// Understands what has come, as far as it goes.
    fn go_on(&mut self) -> Result<(), LinkError> {
        loop {
            match &mut self.state {
                State::Connecting | State::Loading(_) => return Ok(()),
                State::Streaming => return self.cut(),
                State::Receiving(receiving) => {
                    let (bytes, is_end) = receiving.take(&mut self.received)?;
                    if !bytes.is_empty() {
                        self.held_snapshot += bytes.len();
                        self.events.push_back(Event::Snapshot(bytes));
                    }
                    if !is_end {
                        return Ok(());
                    }
                    self.position = receiving.position;
                    self.state = State::Loading(self.position);
                    self.cutter = Cutter::new(self.position.offset);
                    self.cutter.push(&std::mem::take(&mut self.received));
                    self.events.push_back(Event::SnapshotEnd);
                }
                State::Greeting | State::Introducing(_) | State::Asking => {
                    let Some(line) = self.take_line()? else { return Ok(()) };
                    // Masters that are busy send empty lines to say that they are there.
                    if !line.is_empty() {
                        self.handle_line(&line)?;
                    }
                }
            }
        }
    }

    fn cut(&mut self) -> Result<(), LinkError> {
        if let Some(Event::Piece(_)) = self.events.back() {
            return Ok(());
        }
        if let Some(piece) = self.cutter.next_piece()? {
            if piece.asks_for_ack {
                self.ack_asked = Some(piece.end());
            }
            self.taken = piece.end();
            self.events.push_back(Event::Piece(piece));
        }
        Ok(())
    }

    fn take_line(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        let Some(end) = self.received.iter().take(LINE_LEN_MAX).position(|byte| *byte == b'\n') else {
            let line = String::from_utf8_lossy(self.received.get(..80).unwrap_or_default()).into_owned();
            let is_over = self.received.len() >= LINE_LEN_MAX;
            return if is_over { Err(LinkError::NoAnswer { command: self.command(), line }) } else { Ok(None) };
        };
        let mut line: Vec<u8> = self.received.drain(..=end).collect();
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }

    /// What a line is the answer to.
    fn command(&self) -> &'static str {
        match &self.state {
            State::Greeting => "PING",
            State::Introducing(awaited) => awaited.front().copied().unwrap_or(AUTH),
            _ => "PSYNC",
        }
    }

    fn handle_line(&mut self, line: &[u8]) -> Result<(), LinkError> {
        let text = String::from_utf8_lossy(line).into_owned();
        let error = line.strip_prefix(b"-").map(|reason| String::from_utf8_lossy(reason).into_owned());
        match &mut self.state {
            State::Greeting => match error {
                // It wants to know who this is first.
                Some(reason) if is_about_rights(&reason) => self.introduce(),
                Some(reason) => return Err(refused("PING", reason)),
                None if line.starts_with(b"+") => self.introduce(),
                None => return Err(LinkError::NoAnswer { command: "PING", line: text }),
            },
            State::Introducing(awaited) => {
                let Some(command) = awaited.pop_front() else { return Ok(()) };
                match error {
                    Some(reason) if command == AUTH => return Err(LinkError::Unauthenticated(reason)),
                    Some(reason) if command == NODE && !resp::is_unknown(reason.as_bytes()) => {
                        return Err(refused(NODE, reason));
                    }
                    // What it does not know of us it does without.
                    Some(_) => {}
                    None if line.starts_with(b"+") => self.is_eager |= command == EAGER,
                    None => return Err(LinkError::NoAnswer { command, line: text }),
                }
                if matches!(&self.state, State::Introducing(awaited) if awaited.is_empty()) {
                    self.ask();
                }
            }
            State::Asking => match error {
                // It has been asked before, and the answer was lost.
                Some(reason) if self.options.hands_over && reason.contains("can't be sent to a master") => {
                    self.options.hands_over = false;
                    self.ask();
                }
                Some(reason) => return Err(refused("PSYNC", reason)),
                None => self.handle_answer(&text)?,
            },
            _ => {}
        }
        Ok(())
    }

    fn introduce(&mut self) {
        let mut awaited = VecDeque::new();
        let out = &mut self.transmit;
        if let Some(password) = &self.options.password {
            let words = [Some(b"AUTH".as_slice()), self.options.user.as_deref(), Some(password)];
            resp::encode_command(out, &words.into_iter().flatten().collect::<Vec<_>>());
            awaited.push_back(AUTH);
        }
        if let Some(node) = &self.options.node {
            resp::encode_command(out, &["REPLCONF", "tidegate-node", node]);
            awaited.push_back(NODE);
        }
        resp::encode_command(out, &["REPLCONF", "listening-port", &self.options.port.to_string()]);
        awaited.push_back(PORT);
        if let Some(address) = &self.options.address {
            resp::encode_command(out, &["REPLCONF", "ip-address", address]);
            awaited.push_back(ADDRESS);
        }
        resp::encode_command(out, &["REPLCONF", "capa", "eof", "capa", "psync2", "capa", "tidegate-queues"]);
        awaited.push_back(CAPABILITIES);
        if let Some((first, last)) = self.options.slots {
            resp::encode_command(out, &["REPLCONF", "tidegate-slots", &format!("{first}-{last}")]);
            awaited.push_back(SLOTS);
        }
        resp::encode_command(out, &["REPLCONF", "tidegate-acks", "yes"]);
        awaited.push_back(EAGER);
        self.state = State::Introducing(awaited);
    }

    fn ask(&mut self) {
        let (history, next) = (self.position.history.to_string(), self.position.offset.0.saturating_add(1).to_string());
        let words = ["PSYNC", &history, &next, "FAILOVER"];
        let len = if self.options.hands_over { 4 } else { 3 };
        resp::encode_command(&mut self.transmit, words.get(..len).unwrap_or(&words));
        self.state = State::Asking;
    }

    fn handle_answer(&mut self, text: &str) -> Result<(), LinkError> {
        let no_answer = || LinkError::NoAnswer { command: "PSYNC", line: text.to_owned() };
        let mut words = text.split_ascii_whitespace();
        let id = |word: Option<&str>| word.and_then(|word| ReplicationId::parse(word.as_bytes()));
        match words.next() {
            Some("+CONTINUE") => {
                let history = match words.next() {
                    None => self.position.history,
                    word => id(word).ok_or_else(no_answer)?,
                };
                self.position.history = history;
                self.state = State::Streaming;
                self.cutter.push(&std::mem::take(&mut self.received));
                self.events.push_back(Event::Continued(history, words.next().and_then(begun_of)));
            }
            Some("+FULLRESYNC") => {
                let history = id(words.next()).ok_or_else(no_answer)?;
                let offset = words.next().and_then(|word| word.parse().ok()).ok_or_else(no_answer)?;
                let position = Position { history, offset: Offset(offset) };
                self.state = State::Receiving(Receiving::new(position));
                self.events.push_back(Event::FullCopy(position, words.next().and_then(begun_of)));
            }
            _ => return Err(no_answer()),
        }
        Ok(())
    }
}

/// Whether an error says that it has to be said first who one is.
fn is_about_rights(reason: &str) -> bool {
    ["NOAUTH", "NOPERM", "ERR operation not permitted"].iter().any(|prefix| reason.starts_with(prefix))
}

/// A refusal, which may be over in a while.
fn refused(command: &'static str, reason: String) -> LinkError {
    let is_passing = ["NOMASTERLINK", "LOADING", "BUSY", "MASTERDOWN"].iter().any(|prefix| reason.starts_with(prefix));
    if is_passing { LinkError::NotNow(reason) } else { LinkError::Refused { command, reason } }
}
