//! The state of a `peers` section.
//!
//! ```text
//!            process starts
//!                  |
//!      is another one ending for it?
//!        yes |              | no
//!            v              |
//!   waits for its lesson    |        a lesson that is broken off or partial is asked for again,
//!   (up to five seconds)    |        of the same process or of another peer
//!     |          | none     |
//!     |          v          v
//!     |      asks one of the other peers for a lesson <---+
//!     |          |                    |   | partial, broken off
//!     |          | none in 5 s        |   +----------------+
//!     v          v                    v lesson
//!            up to date: gets changes alone
//! ```

mod peer;
mod receive;
mod send;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use stick::Table;

pub(crate) use self::peer::{Lesson, Peer, Receiving};
use crate::{hello, hello::Status, message};

/// A lesson is waited for so long, and a peer is asked for it so long.
const RESYNC_MS: u64 = 5_000;
/// A connection is tried again after so long, and given up when nothing came for so long.
const RECONNECT_MS: u64 = 5_000;
/// How often a peer is told that this process lives.
const HEARTBEAT_MS: u64 = 3_000;
/// A greeting has to come within this time.
const HANDSHAKE_MS: u64 = 5_000;
/// Least time before a connection is opened that was closed from here, to which up to [`RETRY_SPREAD_MS`] are added:
/// otherwise both sides would do the same at the same time again.
const RETRY_MS: u64 = 50;
const RETRY_SPREAD_MS: u64 = 2_000;
/// How soon the new process is tried again when it has no time yet.
const SUCCESSOR_RETRY_MS: u64 = 100;
/// The new process has to answer within this time.
const SUCCESSOR_MS: u64 = 10_000;
/// Of two connections that are opened at the same time, one is refused within this time.
const TIE_MS: u64 = 1_000;
/// Connections that came in and have not been greeted: so many a peer.
const STRANGERS_PER_PEER: usize = 3;

/// What HAProxy shows of the past of a section, as bits of `flags` in `show peers`.
pub(crate) mod notes {
    pub(crate) const LOCAL_TIMEOUT: u32 = 0x10;
    pub(crate) const REMOTE_TIMEOUT: u32 = 0x20;
    pub(crate) const LOCAL_ABORT: u32 = 0x40;
    pub(crate) const REMOTE_ABORT: u32 = 0x80;
    pub(crate) const LOCAL_FINISHED: u32 = 0x100;
    pub(crate) const REMOTE_FINISHED: u32 = 0x200;
    pub(crate) const LOCAL_PARTIAL: u32 = 0x400;
    pub(crate) const REMOTE_PARTIAL: u32 = 0x800;
    pub(crate) const LOCAL_ASSIGNED: u32 = 0x1000;
    pub(crate) const REMOTE_ASSIGNED: u32 = 0x2000;
    pub(crate) const REQUESTED: u32 = 0x4000;
}

/// A connection of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A table that is shared.
#[derive(Clone, Debug)]
pub struct SharedTable {
    /// The name that peers know it by.
    pub name: Arc<str>,
    /// The table.
    pub table: Arc<Table>,
}

/// What a section is made of.
#[derive(Clone, Debug)]
pub struct SectionConfig {
    /// The name of this process.
    pub local: Arc<str>,
    /// All peers by name, this one among them.
    pub peers: Vec<Arc<str>>,
    /// The tables.
    pub tables: Vec<SharedTable>,
    /// Longest message that is taken and sent.
    pub message_len_max: usize,
    /// Most changes of a table that a peer is told of in a row, before other tables get their turn.
    pub updates_max: usize,
    /// The number of this process, which peers are told.
    pub process: u32,
    /// Whether another process of the same name ends for the sake of this one, and will teach it.
    pub has_predecessor: bool,
    /// Seed of random times.
    pub seed: u64,
}

/// What whoever drives a section is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection to a peer ([`SectionConfig::peers`]).
    Connect {
        /// The connection.
        connection: ConnectionId,
        /// To whom.
        peer: usize,
    },
    /// Close a connection.
    Close(ConnectionId),
}

/// What there was to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// All that there is for now is in the buffer.
    All,
    /// There is more: ask again when the buffer has been sent.
    More,
    /// The connection ends once the buffer has been sent.
    Last,
}

/// From whom this process learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// From the process before.
    Local,
    /// From another peer.
    Remote,
    /// It is up to date.
    Finished,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is being opened.
    Opening,
    /// Its greeting was sent, and the status is waited for.
    Greeted,
    /// It came in, and its greeting is waited for.
    Stranger,
    /// Messages go both ways.
    Established,
    /// What is in `output` is the last.
    Ending,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) progress: Progress,
    pub(crate) peer: Option<usize>,
    pub(crate) input: Vec<u8>,
    pub(crate) output: Vec<u8>,
    pub(crate) deadline: Option<u64>,
}

/// A `peers` section.
///
/// Whoever drives it calls `handle_*` with what happened and then asks, in any order and until there is nothing more:
/// [`Section::poll_action`] for connections to open and close, [`Section::poll_transmit`] of each connection for bytes, and
/// [`Section::poll_timeout`] for the time at which [`Section::handle_timeout`] is due. After a change of a table, each
/// connection is to be asked for bytes.
#[derive(Debug)]
pub struct Section {
    pub(crate) config: SectionConfig,
    pub(crate) peers: Vec<Peer>,
    pub(crate) stage: Stage,
    /// The peer that teaches, and whether it was asked to.
    pub(crate) teacher: Option<(usize, bool)>,
    pub(crate) notes: u32,
    pub(crate) resync_timeout: Option<u64>,
    pub(crate) calls: u32,
    pub(crate) connections: HashMap<ConnectionId, Connection>,
    actions: VecDeque<Action>,
    next_connection: u64,
    random: u64,
    /// Since when it hands over to another process.
    pub(crate) stopping: Option<u64>,
}

impl Section {
    /// A section that begins now. [`Section::handle_timeout`] is due at once.
    #[must_use]
    pub fn new(config: SectionConfig) -> Self {
        let tables = config.tables.len();
        let peer = |name: &Arc<str>| Peer::new(Arc::clone(name), *name == config.local, tables);
        Self {
            peers: config.peers.iter().map(peer).collect(),
            stage: Stage::Local,
            teacher: None,
            notes: 0,
            resync_timeout: None,
            calls: 0,
            connections: HashMap::new(),
            actions: VecDeque::new(),
            next_connection: 0,
            random: config.seed | 1,
            stopping: None,
            config,
        }
    }

    /// What it is made of.
    #[must_use]
    pub fn config(&self) -> &SectionConfig {
        &self.config
    }

    /// How many peers there are connections with, opened or being opened, and how many of them have greeted each other.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let active = self.peers.iter().filter(|peer| peer.connection.is_some()).count();
        let established = |connection: &&Connection| connection.progress == Progress::Established;
        (active, self.connections.values().filter(established).count())
    }

    /// What to do next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Section::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let learns = self.stopping.is_none() && self.stage != Stage::Finished && self.teacher.is_none();
        let resync = self.resync_timeout.filter(|_| learns);
        let of_peer = |peer: &Peer| {
            let connection = peer.connection.and_then(|id| self.connections.get(&id));
            match connection.map(|connection| connection.progress) {
                None if peer.is_local && (self.stopping.is_none() || peer.has_learned_all) => None,
                None if !peer.is_local && self.stopping.is_some() => None,
                None => peer.reconnect,
                Some(Progress::Established) if !peer.is_local => {
                    [peer.reconnect, peer.heartbeat].into_iter().flatten().min()
                }
                Some(_) => None,
            }
        };
        let peers = self.peers.iter().filter_map(of_peer);
        let deadlines = self.connections.values().filter_map(|connection| connection.deadline);
        let stop = self.stopping.map(|since| since + SUCCESSOR_MS).filter(|_| !self.is_over());
        peers.chain(deadlines).chain(resync).chain(stop).min()
    }

    /// A connection came in. Nothing if there are too many of them.
    pub fn handle_accepted(&mut self, now: u64) -> Option<ConnectionId> {
        let strangers = self.connections.values().filter(|connection| connection.peer.is_none()).count();
        if strangers >= STRANGERS_PER_PEER * self.peers.len() {
            return None;
        }
        Some(self.add_connection(Progress::Stranger, None, now))
    }

    fn add_connection(&mut self, progress: Progress, peer: Option<usize>, now: u64) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let deadline = Some(now + HANDSHAKE_MS);
        self.connections.insert(id, Connection { progress, peer, input: Vec::new(), output: Vec::new(), deadline });
        id
    }

    /// A connection that was to be opened stands.
    pub fn handle_connected(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(peer) = connection.peer.and_then(|peer| self.peers.get_mut(peer)) else { return };
        connection.progress = Progress::Greeted;
        peer.status = Status::Connected;
        let hello =
            hello::Hello { to: peer.name.to_string(), from: self.config.local.to_string(), is_old: peer.is_old };
        connection.output = hello.lines(self.config.process);
    }

    /// A connection has ended, or could not be opened.
    pub fn handle_closed(&mut self, id: ConnectionId, now: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let Some(index) = connection.peer else { return };
        let Some(peer) = self.peers.get_mut(index) else { return };
        if peer.connection != Some(id) {
            return;
        }
        peer.connection = None;
        peer.is_alive = false;
        peer.heartbeat = None;
        if peer.teaches {
            self.teacher = None;
            self.notes |= if peer.is_local { notes::LOCAL_ABORT } else { notes::REMOTE_ABORT };
            self.resync_timeout = Some(now + RESYNC_MS);
        }
        peer.restart();
        if self.stopping.is_some() {
            // Who is not there at all will not be there soon.
            let pause = if peer.status == Status::Connecting { 0 } else { SUCCESSOR_RETRY_MS };
            peer.reconnect = Some(now + pause);
        } else {
            peer.reconnect.get_or_insert(now + RECONNECT_MS);
        }
    }

    /// Ends a connection from here.
    pub(crate) fn close(&mut self, id: ConnectionId, now: u64) {
        if self.connections.contains_key(&id) {
            self.handle_closed(id, now);
            self.actions.push_back(Action::Close(id));
        }
    }

    /// Ends a connection once these bytes have been sent.
    pub(crate) fn end_with(&mut self, id: ConnectionId, last: &[u8], now: u64) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        connection.output.extend_from_slice(last);
        let ending = Connection {
            progress: Progress::Ending,
            peer: None,
            input: Vec::new(),
            output: std::mem::take(&mut connection.output),
            deadline: Some(now + HANDSHAKE_MS),
        };
        // For the peer it is over already.
        self.connections.insert(id, connection);
        self.handle_closed(id, now);
        self.connections.insert(id, ending);
    }

    fn connect(&mut self, index: usize, now: u64) {
        let id = self.add_connection(Progress::Opening, Some(index), now);
        if let Some(peer) = self.peers.get_mut(index) {
            peer.connections += 1;
            peer.reconnect = Some(now + RECONNECT_MS);
            peer.heartbeat = None;
            peer.status = Status::Connecting;
            peer.last_handshake = Some(now);
            peer.connection = Some(id);
            self.actions.push_back(Action::Connect { connection: id, peer: index });
        }
    }

    /// Whether a peer has been greeted a moment ago and has not answered, so that it is about to.
    pub(crate) fn is_being_greeted(&self, id: ConnectionId, now: u64) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            let since = connection.deadline.map(|deadline| deadline.saturating_sub(HANDSHAKE_MS));
            connection.progress == Progress::Greeted && since.is_some_and(|since| now < since + TIE_MS)
        })
    }

    pub(crate) fn random_retry(&mut self, now: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        now + RETRY_MS + self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) % RETRY_SPREAD_MS
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: u64) {
        self.calls = self.calls.wrapping_add(1);
        let late = |connection: &Connection| connection.deadline.is_some_and(|deadline| deadline <= now);
        let late: Vec<_> =
            self.connections.iter().filter(|(_, connection)| late(connection)).map(|(id, _)| *id).collect();
        for id in late {
            self.close(id, now);
        }
        if self.stopping.is_some() {
            self.look_for_successor(now);
            return;
        }
        let timeout = *self.resync_timeout.get_or_insert(now + RESYNC_MS);
        if self.stage == Stage::Local && self.teacher.is_none() && (!self.config.has_predecessor || timeout <= now) {
            self.stage = Stage::Remote;
            self.notes |= notes::LOCAL_TIMEOUT;
            self.resync_timeout = Some(now + RESYNC_MS);
        }
        for index in 0..self.peers.len() {
            self.look_at_peer(index, now);
        }
        let is_late = self.resync_timeout.is_some_and(|timeout| timeout <= now);
        if self.stage == Stage::Remote && self.teacher.is_none() && is_late {
            self.stage = Stage::Finished;
            self.notes |= notes::REMOTE_TIMEOUT;
        }
    }

    fn look_at_peer(&mut self, index: usize, now: u64) {
        let Some(peer) = self.peers.get_mut(index).filter(|peer| !peer.is_local) else { return };
        let is_due = |time: Option<u64>| time.is_some_and(|time| time <= now);
        let Some(id) = peer.connection else {
            if peer.status == Status::None || peer.reconnect.is_none_or(|time| time <= now) {
                self.connect(index, now);
            }
            return;
        };
        if peer.status != Status::Success {
            return;
        }
        if self.stage == Stage::Remote && self.teacher.is_none() && !peer.is_behind {
            peer.teaches = true;
            self.teacher = Some((index, false));
            self.notes |= notes::REMOTE_ASSIGNED;
        }
        if is_due(peer.reconnect) {
            if peer.is_alive {
                peer.is_alive = false;
                peer.reconnect = Some(now + RECONNECT_MS);
            } else {
                peer.silences += 1;
                self.close(id, now);
                let retry = self.random_retry(now);
                if let Some(peer) = self.peers.get_mut(index) {
                    peer.reconnect = Some(retry);
                }
                return;
            }
        }
        if is_due(peer.heartbeat) {
            peer.heartbeat = Some(now + HEARTBEAT_MS);
            peer.heartbeat_is_due = true;
        }
    }

    /// This process ends. If another one serves in its place, that is taught all that this one knows: call until
    /// [`Section::is_over`].
    pub fn handle_stop(&mut self, now: u64) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(now);
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            self.close(id, now);
        }
        for peer in &mut self.peers {
            (peer.status, peer.reconnect) = (Status::None, None);
        }
        self.look_for_successor(now);
    }

    fn look_for_successor(&mut self, now: u64) {
        let Some(index) = self.peers.iter().position(|peer| peer.is_local) else { return };
        if self.is_over() {
            return;
        }
        let Some(peer) = self.peers.get_mut(index) else { return };
        if peer.status == Status::Success && peer.connection.is_some() {
            // Its time begins anew when the connection breaks.
            self.stopping = Some(now);
            return;
        }
        let is_late = self.stopping.is_some_and(|since| since + SUCCESSOR_MS <= now);
        let is_refused = !matches!(peer.status, Status::None | Status::Success | Status::Connected | Status::TryAgain);
        match peer.connection {
            // Nobody listens, or it knows nothing of this process: there is no successor.
            None if is_refused || is_late => peer.has_learned_all = true,
            None if peer.reconnect.is_none_or(|time| time <= now) => self.connect(index, now),
            None => {}
            Some(id) if is_late => {
                peer.has_learned_all = true;
                self.close(id, now);
            }
            Some(_) => {}
        }
    }

    /// Whether a process that ends has nothing more to tell.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stopping.is_some() && self.peers.iter().all(|peer| !peer.is_local || peer.has_learned_all)
    }

    /// Both sides have greeted each other.
    pub(crate) fn establish(&mut self, id: ConnectionId, index: usize, accepted: bool, now: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.progress = Progress::Established;
            connection.deadline = None;
            connection.peer = Some(index);
        }
        let Some(peer) = self.peers.get_mut(index) else { return };
        peer.connection = Some(id);
        peer.restart();
        peer.status = Status::Success;
        peer.last_handshake = Some(now);
        peer.heartbeat = Some(now + HEARTBEAT_MS);
        if !accepted || peer.reconnect.is_none_or(|time| time <= now) {
            // NOTE: after a collision the other side may have closed this very connection; then the one that was closed
            // here is to be tried again soon.
            peer.reconnect = Some(now + RECONNECT_MS);
        }
        match (peer.is_local, accepted) {
            // The process before comes of its own will.
            (true, true) if self.stage == Stage::Local && self.teacher.is_none() => {
                peer.teaches = true;
                self.teacher = Some((index, true));
                self.notes |= notes::LOCAL_ASSIGNED;
            }
            (true, true) => {}
            (true, false) => self.begin_lesson(index),
            (false, _) if self.stage == Stage::Remote && self.teacher.is_none() => {
                peer.teaches = true;
                self.teacher = Some((index, false));
                self.notes |= notes::REMOTE_ASSIGNED;
            }
            (false, _) => {}
        }
    }

    /// Begins to tell a peer everything.
    pub(crate) fn begin_lesson(&mut self, index: usize) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        (peer.is_taught, peer.lesson_is_over) = (true, false);
        for (cursor, shared) in peer.cursors.iter_mut().zip(&self.config.tables) {
            cursor.lesson = Some(Lesson { at: 0, end: shared.table.last_update() });
        }
    }

    /// The lesson of a peer is over, and whether it knew all.
    pub(crate) fn finish_learning(&mut self, index: usize, knew_all: bool, now: u64) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        peer.confirm += 1;
        if !std::mem::take(&mut peer.teaches) {
            return;
        }
        self.teacher = None;
        if knew_all {
            self.stage = Stage::Finished;
            self.notes |= if peer.is_local { notes::LOCAL_FINISHED } else { notes::REMOTE_FINISHED };
        } else {
            self.notes |= if peer.is_local { notes::LOCAL_PARTIAL } else { notes::REMOTE_PARTIAL };
            peer.is_behind = true;
            self.resync_timeout = Some(now + RESYNC_MS);
        }
    }

    /// How much input a connection keeps at most.
    pub(crate) fn input_len_max(&self) -> usize {
        (self.config.message_len_max + message::HEAD_LEN_MAX).max(hello::LEN_MAX)
    }
}
