//! The thread of a move: the source's copy and log in, commands for the target out.

use std::{
    io::{self, BufReader, Read, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, PoisonError,
        atomic::Ordering,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use oplog::{Offset, ReplicationId};
use replication::{
    cut::Piece,
    replica::{Event, Link, LinkError, LinkOptions, Position},
};
use resp::{Limits, Progress, RequestParser};

use super::{Filter, FilterError, Move, Phase, Shared, filter::Passed};
use crate::{
    clock,
    import::{
        Problem,
        rdb::{self, Entry},
        source::Source,
        target::Target,
    },
};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long is waited for something to come.
const TURN: Duration = Duration::from_millis(20);
/// A source that says nothing for so long has gone, in milliseconds.
const SILENCE_MS: i64 = 60_000;
/// Bytes of one read.
const READ_LEN: usize = 256 << 10;
/// Pieces of the copy that wait to be understood.
const PIECES_MAX: usize = 16;
/// Keys that the target removes at once.
const REMOVED_AT_ONCE: &str = "1000";

/// Why a move ends.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The connection to the source.
    #[error("the source {0}: {1}")]
    Source(SocketAddr, io::Error),
    /// The connection to the target.
    #[error("the target {0}: {1}")]
    Target(SocketAddr, io::Error),
    /// The source cannot be followed.
    #[error("the source {0}: {1}")]
    Link(SocketAddr, LinkError),
    /// Its copy is not right.
    #[error("the source's copy: {0}")]
    Copy(Problem),
    /// The target does not take something.
    #[error("the target refuses {0}")]
    Refused(String),
    /// A command is about more than the slots.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A thread.
    #[error("{0}")]
    System(String),
}

/// Moves until it is stopped.
pub(super) fn run(task: &Move, shared: &Arc<Shared>) -> Result<(), MoveError> {
    let of_source = |error| MoveError::Source(task.source, error);
    let of_link = |error| MoveError::Link(task.source, error);
    let mut target = Some(open(task)?);
    let filter = Filter::new(&task.slots);
    let mut stream = TcpStream::connect_timeout(&task.source, CONNECT).map_err(of_source)?;
    stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(TURN))).map_err(of_source)?;
    let login = task.source_login.clone();
    let (user, password) = login.map_or((None, None), |login| (login.user, Some(login.password)));
    let (user, password) = (user.map(String::into_bytes), password.map(String::into_bytes));
    let options = LinkOptions { user, password, timeout_ms: SILENCE_MS, ..LinkOptions::default() };
    // A history that nobody has: all keys are wanted.
    let history = ReplicationId::parse(&[b'0'; 40]).ok_or_else(|| MoveError::System("no name for a history".into()))?;
    let mut link = Link::new(options, Position { history, offset: Offset(0) }, clock::now());
    link.handle_connected(clock::now());
    let mut loading: Option<Loading> = None;
    let mut buffer = vec![0; READ_LEN];
    while !shared.stops.load(Ordering::Relaxed) {
        if let Some(bytes) = link.poll_transmit() {
            stream.write_all(&bytes).map_err(of_source)?;
        }
        while let Some(event) = link.poll_event().map_err(of_link)? {
            match event {
                Event::Continued(_) => return Err(MoveError::System("the source sends no copy".into())),
                Event::FullCopy(position) => {
                    shared.applied.store(position.offset.0, Ordering::Release);
                    let target = target.take().ok_or_else(|| MoveError::System("a second copy".into()))?;
                    loading = Some(Loading::start(target, task.clone(), Arc::clone(shared))?);
                }
                Event::Snapshot(bytes) => {
                    shared.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    if let Some(loading) = &loading {
                        loading.give(bytes);
                    }
                }
                Event::SnapshotEnd => {
                    if let Some(loading) = &mut loading {
                        loading.end();
                    }
                }
                Event::Piece(piece) => {
                    let Some(target) = &mut target else { continue };
                    shared.bytes.fetch_add(piece.bytes.len() as u64, Ordering::Relaxed);
                    apply((task, &filter), target, &piece)?;
                    shared.applied.store(piece.end().0, Ordering::Release);
                }
            }
        }
        if let Some(loaded) = loading.take_if(|loading| loading.thread.is_finished()) {
            target = Some(loaded.finish()?);
            link.loaded(clock::now()).map_err(of_link)?;
            *shared.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Following;
        }
        if link.wants_bytes() {
            match stream.read(&mut buffer) {
                Ok(0) => return Err(of_source(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    link.handle_bytes(buffer.get(..count).unwrap_or_default(), clock::now()).map_err(of_link)?;
                }
                Err(error) if is_early(&error) => {}
                Err(error) => return Err(of_source(error)),
            }
        } else if loading.is_some() {
            thread::sleep(TURN);
        }
        link.handle_time(clock::now()).map_err(of_link)?;
    }
    Ok(())
}

fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// The target, with nothing of the slots: what a move that failed has left there is removed.
fn open(task: &Move) -> Result<Target, MoveError> {
    let of_target = |error| MoveError::Target(task.target, error);
    let login = task.target_login.as_ref();
    let login = login.map(|login| (login.user.as_deref(), login.password.as_str()));
    let mut target = Target::connect_as(&task.target.to_string(), login).map_err(of_target)?;
    if task.target_is_plain {
        empty(task, &mut target)?;
        return Ok(target);
    }
    target.ask(&["CLUSTER", "CONNECTION", "MOVER"]).map_err(of_target)?.map_err(|reason| {
        MoveError::Refused(format!("what moves slots ({reason}): is it a store with `cluster-enabled yes`?"))
    })?;
    if let Some(term) = task.term {
        let term = target.ask(&["CLUSTER", "CONNECTION", "AGENT", &term.to_string()]).map_err(of_target)?;
        term.map_err(MoveError::Refused)?;
    }
    empty(task, &mut target)?;
    Ok(target)
}

fn empty(task: &Move, target: &mut Target) -> Result<(), MoveError> {
    let of_target = |error| MoveError::Target(task.target, error);
    if task.target_is_plain {
        return empty_plain(task, target);
    }
    for (first, last) in &task.slots {
        let (first, last) = (first.to_string(), last.to_string());
        loop {
            let removed = target.ask(&["CLUSTER", "DELKEYSINSLOT", &first, &last, REMOVED_AT_ONCE]);
            let removed = removed.map_err(of_target)?.map_err(MoveError::Refused)?;
            if removed == resp::Value::Integer(0) {
                break;
            }
        }
    }
    Ok(())
}

/// Removes the keys of the slots from a Redis, which cannot be asked for them by slot.
fn empty_plain(task: &Move, target: &mut Target) -> Result<(), MoveError> {
    let of_target = |error| MoveError::Target(task.target, error);
    let filter = Filter::new(&task.slots);
    let mut cursor = b"0".to_vec();
    loop {
        let words: [&[u8]; 4] = [b"SCAN", &cursor, b"COUNT", REMOVED_AT_ONCE.as_bytes()];
        let reply = target.ask(&words).map_err(of_target)?.map_err(MoveError::Refused)?;
        let Some([next, keys]) = reply.as_slice() else {
            return Err(MoveError::Refused("SCAN: its reply has not two parts".into()));
        };
        for key in keys.as_slice().unwrap_or_default().iter().filter_map(resp::Value::as_bytes) {
            if filter.has(key) {
                target.send(&[b"UNLINK", key]).map_err(of_target)?;
            }
        }
        cursor = next.as_bytes().unwrap_or(b"0").to_vec();
        if cursor == b"0" {
            target.finish().map_err(of_target)?;
            return check(target);
        }
    }
}

/// Does at the target what a piece of the source's log says of the slots.
fn apply((task, filter): (&Move, &Filter), target: &mut Target, piece: &Piece) -> Result<(), MoveError> {
    let of_target = |error| MoveError::Target(task.target, error);
    let mut parser = RequestParser::new();
    let mut rest = piece.bytes.as_slice();
    while !rest.is_empty() {
        let consumed = match parser.parse(rest, &Limits::default()) {
            Ok(Progress::Complete { consumed }) => {
                let words: Vec<&[u8]> = parser.arguments(rest).iter().collect();
                match filter.pass(&words)? {
                    Passed::Nothing => {}
                    Passed::Words(words) => target.send(&words).map_err(of_target)?,
                    Passed::Emptied => {
                        target.finish().map_err(of_target)?;
                        empty(task, target)?;
                    }
                }
                consumed
            }
            Ok(Progress::Empty { consumed }) => consumed,
            _ => return Err(MoveError::System("the source's log ends in the middle of a command".into())),
        };
        rest = rest.get(consumed..).unwrap_or_default();
    }
    target.finish().map_err(of_target)?;
    check(target)
}

fn check(target: &Target) -> Result<(), MoveError> {
    match target.reasons.first() {
        Some(reason) => Err(MoveError::Refused(reason.clone())),
        None => Ok(()),
    }
}

/// The thread that understands the copy, and gives the target its part.
struct Loading {
    pieces: Option<SyncSender<Vec<u8>>>,
    thread: JoinHandle<Result<Target, MoveError>>,
}

impl Loading {
    fn start(target: Target, task: Move, shared: Arc<Shared>) -> Result<Self, MoveError> {
        let (pieces, come) = sync_channel(PIECES_MAX);
        let load = move || load(target, &task, &shared, Pieces { come, piece: Vec::new(), at: 0 });
        let thread = thread::Builder::new().name("slots-copy".into()).spawn(load);
        let thread = thread.map_err(|error| MoveError::System(error.to_string()))?;
        Ok(Self { pieces: Some(pieces), thread })
    }

    /// A part of the copy. Of a thread that has ended the reason is heard later.
    fn give(&self, bytes: Vec<u8>) {
        if let Some(pieces) = &self.pieces {
            let _ = pieces.send(bytes);
        }
    }

    fn end(&mut self) {
        self.pieces = None;
    }

    fn finish(self) -> Result<Target, MoveError> {
        drop(self.pieces);
        self.thread.join().unwrap_or_else(|_| Err(MoveError::System("the copy's thread has panicked".into())))
    }
}

fn load(mut target: Target, task: &Move, shared: &Shared, pieces: Pieces) -> Result<Target, MoveError> {
    let filter = Filter::new(&task.slots);
    let of_target = |error| MoveError::Target(task.target, error);
    let mut source = Source::new(BufReader::with_capacity(READ_LEN, pieces));
    rdb::begin(&mut source).map_err(MoveError::Copy)?;
    let mut database = 0;
    while let Some(entry) = rdb::next(&mut source).map_err(MoveError::Copy)? {
        match entry {
            Entry::Database(number) => database = number,
            Entry::StreamDatabase(_) | Entry::Library(_) => {}
            Entry::Key { name, expires, payload } if filter.has(&name) => {
                if database != 0 {
                    return Err(FilterError::Database(database.to_string()).into());
                }
                let at = expires.unwrap_or(0).to_string();
                let mut words: Vec<&[u8]> = vec![b"RESTORE", &name, at.as_bytes(), &payload, b"REPLACE"];
                words.extend(expires.map(|_| b"ABSTTL".as_slice()));
                target.send(&words).map_err(of_target)?;
                shared.keys.fetch_add(1, Ordering::Relaxed);
            }
            Entry::Key { .. } => {}
        }
    }
    target.finish().map_err(of_target)?;
    check(&target)?;
    Ok(target)
}

/// The parts of the copy, as a file is read.
struct Pieces {
    come: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at >= self.piece.len() {
            let Ok(piece) = self.come.recv() else { return Ok(0) };
            (self.piece, self.at) = (piece, 0);
        }
        let rest = self.piece.get(self.at..).unwrap_or_default();
        let count = rest.len().min(into.len());
        for (to, from) in into.iter_mut().zip(rest) {
            *to = *from;
        }
        self.at += count;
        Ok(count)
    }
}
