//! The thread that follows the master: one for each connection. It ends with the connection, and the loop begins another one.

use std::{
    io::{self, BufRead, Read, Write as _},
    net::{SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

use commands::{config::Settings, replication::CopyProgress};
use keyspace::Millis;
use mio::Waker;
use oplog::{Offset, ReplicationId};
use replication::{
    cut::Piece,
    parting::{Histories, Parting},
    replica::{Event, Link, LinkError, LinkOptions, LinkState, Position},
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    fd::{AsRawFd as _, OwnedFd},
};
use shard::chain;

use crate::{
    clock, messages,
    secure::{Outgoing, Peer},
};

use super::{
    ask,
    copy::{self, Copied},
    histories::Begun,
};

/// How long is waited at most for something to come.
const TURN: Duration = Duration::from_millis(200);
/// Bytes of one read.
const READ_LEN: usize = 256 << 10;
/// So many things wait for the loop at most.
const EVENTS_MAX: usize = 4;

/// What the thread has for the loop.
pub enum FromLink {
    /// What is there is a part of the master's log, which has this history; and all that it tells, if it says so.
    Continued(ReplicationId, Option<Vec<Begun>>),
    /// All keys are there.
    Copied(Box<Copied>),
    /// A part of the master's log.
    Piece(Piece),
    /// The link is down.
    Ended {
        /// Why.
        reason: String,
        /// The master does not want this replica.
        is_refusal: bool,
        /// The master has lost what is here from an offset on, up to the other one.
        lost: Option<(Offset, Offset)>,
    },
}

/// How the link is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    pub state: LinkState,
    pub heard: Millis,
    pub copy: Option<CopyProgress>,
    /// The connection: the master's address, the own one, and the socket's number.
    pub socket: Option<(SocketAddr, SocketAddr, i32)>,
}

/// What both have.
struct Shared {
    applied: AtomicU64,
    durable: AtomicU64,
    is_installed: AtomicBool,
    is_over: AtomicBool,
    /// Wakes the thread.
    wake: OwnedFd,
    report: Mutex<Report>,
}

impl Shared {
    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// What the thread is to do.
pub struct Task {
    pub address: (String, u16),
    /// How TLS is spoken with the master, if it is.
    pub peer: Option<Peer>,
    pub options: LinkOptions,
    pub position: Position,
    /// The histories that the own log tells.
    pub histories: Histories,
    /// What is here was the master's: one that lacks some of it is not copied.
    pub is_bound: bool,
    pub settings: Settings,
    /// The store's folder.
    pub root: PathBuf,
    pub waker: Arc<Waker>,
}

/// The thread, as the loop sees it. It ends when this goes.
pub struct LinkThread {
    shared: Arc<Shared>,
    events: mpsc::Receiver<FromLink>,
}

impl LinkThread {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// The system has no thread.
    pub fn start(task: Task) -> io::Result<Self> {
        let offset = task.position.offset.0;
        let shared = Arc::new(Shared {
            applied: AtomicU64::new(offset),
            durable: AtomicU64::new(offset),
            is_installed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            report: Mutex::new(Report { state: LinkState::Connecting, ..Report::default() }),
        });
        let (to_loop, events) = mpsc::sync_channel(EVENTS_MAX);
        let own = Arc::clone(&shared);
        thread::Builder::new().name("replica-link".into()).spawn(move || {
            let waker = Arc::clone(&task.waker);
            if let Err(Ended { reason: Some(reason), is_refusal, lost }) = run(task, &own, &to_loop) {
                let _ = to_loop.send(FromLink::Ended { reason, is_refusal, lost });
            }
            let _ = waker.wake();
        })?;
        Ok(Self { shared, events })
    }

    /// The next thing that has come.
    pub fn event(&self) -> Option<FromLink> {
        let event = self.events.try_recv().ok()?;
        // There is room for the next one.
        self.shared.wake();
        Some(event)
    }

    /// How it is.
    pub fn report(&self) -> Report {
        *self.shared.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the master's log is applied, as safe as this store promises, and durable.
    pub fn tell_progress(&self, applied: Offset, durable: Offset) {
        let former = self.shared.applied.swap(applied.0, Ordering::AcqRel);
        if self.shared.durable.swap(durable.0, Ordering::AcqRel) != durable.0 || former != applied.0 {
            self.shared.wake();
        }
    }

    /// The copy is what the store has by now: the log goes on.
    pub fn installed(&self, offset: Offset) {
        self.tell_progress(offset, offset);
        self.shared.is_installed.store(true, Ordering::Release);
        self.shared.wake();
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.wake();
    }
}

/// Why the thread ends; without a reason because it is to.
pub struct Ended {
    reason: Option<String>,
    is_refusal: bool,
    lost: Option<(Offset, Offset)>,
}

impl Ended {
    fn because(reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), is_refusal: false, lost: None }
    }

    fn as_wanted() -> Self {
        Self { reason: None, is_refusal: false, lost: None }
    }

    /// The master lacks what is here, behind an offset.
    fn lost((until, end): (Offset, Offset)) -> Self {
        let reason = format!(
            "the master has lost a part of its log: it lacks what this store has of it from offset {until} to {end}. It is not copied"
        );
        Self { lost: Some((until, end)), ..Self::because(reason) }
    }
}

impl From<LinkError> for Ended {
    fn from(error: LinkError) -> Self {
        let is_refusal =
            matches!(error, LinkError::Refused { .. } | LinkError::Unauthenticated(_) | LinkError::NoAnswer { .. });
        Self { reason: Some(chain(&error)), is_refusal, lost: None }
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::because(error.to_string())
    }
}

fn run(task: Task, shared: &Arc<Shared>, to_loop: &SyncSender<FromLink>) -> Result<(), Ended> {
    let now = clock::now();
    let timeout = Duration::from_millis(task.options.timeout_ms.unsigned_abs());
    let mut link = Link::new(task.options.clone(), task.position, now);
    let stream = connect(&task.address, timeout, task.peer.as_ref())?;
    let socket = stream.socket();
    socket.set_nonblocking(true)?;
    link.handle_connected(clock::now());
    let number = socket.as_raw_fd();
    let addresses = socket.peer_addr().ok().zip(socket.local_addr().ok());
    let driver = Driver {
        socket: addresses.map(|(peer, own)| (peer, own, number)),
        stream,
        link,
        shared,
        to_loop,
        task: &task,
        pending: None,
        unsent: Vec::new(),
        room: vec![0; READ_LEN],
    };
    driver.run()
}

fn connect((host, port): &(String, u16), timeout: Duration, peer: Option<&Peer>) -> io::Result<Outgoing> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host.as_str(), *port).to_socket_addrs()? {
        match Outgoing::connect(&address, timeout, peer) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The link with its socket.
struct Driver<'a> {
    stream: Outgoing,
    link: Link,
    shared: &'a Arc<Shared>,
    to_loop: &'a SyncSender<FromLink>,
    task: &'a Task,
    /// What the loop has had no room for yet.
    pending: Option<FromLink>,
    unsent: Vec<u8>,
    room: Vec<u8>,
    socket: Option<(SocketAddr, SocketAddr, i32)>,
}

impl Driver<'_> {
    fn run(mut self) -> Result<(), Ended> {
        loop {
            self.give_pending()?;
            while self.pending.is_none() {
                match self.link.poll_event()? {
                    None => break,
                    Some(Event::Continued(history, all)) => self.pending = Some(FromLink::Continued(history, all)),
                    Some(Event::Piece(piece)) => self.pending = Some(FromLink::Piece(piece)),
                    Some(Event::FullCopy(position, all)) => self.copy(position, all)?,
                    // They come while a copy is made, and there alone.
                    Some(Event::Snapshot(_) | Event::SnapshotEnd) => {}
                }
                self.give_pending()?;
            }
            self.turn()?;
        }
    }

    /// Makes a copy of what comes, has the loop take it over, and goes on with the log.
    fn copy(&mut self, position: Position, histories: Option<Vec<Begun>>) -> Result<(), Ended> {
        let (root, settings) = (self.task.root.clone(), self.task.settings.clone());
        let parted = self.parted(position)?;
        let mut incoming = Incoming { driver: self, bytes: Vec::new(), at: 0, is_end: false, ended: None };
        let copied = copy::make(&root, &settings, position, &mut incoming);
        if let Some(ended) = incoming.ended.take() {
            return Err(ended);
        }
        let mut copied =
            copied.map_err(|error| Ended::because(format!("the copy cannot be made: {}", chain(&error))))?;
        (copied.parted, copied.histories) = (parted, histories.unwrap_or_default());
        self.pending = Some(FromLink::Copied(Box::new(copied)));
        while !self.shared.is_installed.swap(false, Ordering::AcqRel) {
            self.give_pending()?;
            self.turn()?;
        }
        Ok(self.link.loaded(clock::now())?)
    }

    /// Where the own log has parted from the master's, if it goes on behind that.
    fn parted(&self, position: Position) -> Result<Parting, Ended> {
        let own = &self.task.histories;
        let theirs = match ask::histories(self.stream.socket(), self.task.peer.as_ref(), &self.task.options) {
            // What it has written since may be as long as what it has lost.
            Ok(theirs) => theirs.no_later_than(position.offset, own),
            // It is asked again.
            Err(reason) if self.task.is_bound => {
                return Err(Ended::because(format!("the master was asked which histories its log tells: {reason}")));
            }
            Err(reason) => {
                messages::warn(&format!("the master was asked which histories its log tells: {reason}"));
                return Ok(Parting::Unrelated);
            }
        };
        match Parting::between(own, &theirs) {
            Parting::At(until) if self.task.is_bound => Err(Ended::lost((until, own.end))),
            Parting::Unrelated if self.task.is_bound && own.end > Offset(0) => Err(Ended::lost((Offset(0), own.end))),
            parting => Ok(parting),
        }
    }

    fn give_pending(&mut self) -> Result<(), Ended> {
        let Some(event) = self.pending.take() else { return Ok(()) };
        match self.to_loop.try_send(event) {
            Ok(()) => {
                let _ = self.task.waker.wake();
                Ok(())
            }
            Err(TrySendError::Full(event)) => {
                self.pending = Some(event);
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => Err(Ended::as_wanted()),
        }
    }

    /// Sends what there is, and reads what comes.
    fn turn(&mut self) -> Result<(), Ended> {
        if self.shared.is_over.load(Ordering::Acquire) {
            return Err(Ended::as_wanted());
        }
        let now = clock::now();
        let applied = Offset(self.shared.applied.load(Ordering::Acquire));
        let durable = Offset(self.shared.durable.load(Ordering::Acquire));
        self.link.handle_progress(applied, durable, now);
        self.link.handle_time(now)?;
        self.send()?;
        self.tell();
        let reads = self.link.wants_bytes() && self.pending.is_none();
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, reads);
        wanted.set(PollFlags::OUT, !self.unsent.is_empty());
        let mut ready = [PollFd::new(&self.stream, wanted), PollFd::new(&self.shared.wake, PollFlags::IN)];
        // What came with a record that was not read whole is told by nobody.
        let is_there = reads && self.stream.may_read();
        let patience = Timespec { tv_sec: 0, tv_nsec: if is_there { 0 } else { TURN.subsec_nanos().into() } };
        match poll(&mut ready, Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let [stream, wake] = &ready;
        let (has_come, is_woken) = (!stream.revents().is_empty() || is_there, !wake.revents().is_empty());
        if is_woken {
            let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        }
        if has_come && reads { self.read() } else { Ok(()) }
    }

    fn read(&mut self) -> Result<(), Ended> {
        match self.stream.read(&mut self.room) {
            Ok(0) => Err(Ended::because("the master has closed the connection")),
            Ok(len) => Ok(self.link.handle_bytes(self.room.get(..len).unwrap_or_default(), clock::now())?),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self) -> Result<(), Ended> {
        if let Some(bytes) = self.link.poll_transmit() {
            self.unsent.extend_from_slice(&bytes);
        }
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return Err(Ended::because("the master takes nothing")),
                Ok(len) => drop(self.unsent.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn tell(&self) {
        let copy = self.link.snapshot_progress().map(|(total, read)| CopyProgress { total, read });
        let state = self.link.state();
        let is_loading = state == LinkState::Sync && copy.is_none();
        let copy = copy.or(is_loading.then(CopyProgress::default));
        let report = Report { state, heard: self.link.heard(), copy, socket: self.socket };
        let former = std::mem::replace(&mut *self.shared.report.lock().unwrap_or_else(PoisonError::into_inner), report);
        if former.state != report.state {
            let _ = self.task.waker.wake();
        }
    }
}

/// A snapshot, as it comes.
struct Incoming<'a, 'b> {
    driver: &'a mut Driver<'b>,
    bytes: Vec<u8>,
    at: usize,
    is_end: bool,
    /// Why nothing more comes.
    ended: Option<Ended>,
}

impl Incoming<'_, '_> {
    fn wait(&mut self) -> Result<(), Ended> {
        while self.at >= self.bytes.len() && !self.is_end {
            match self.driver.link.poll_event()? {
                Some(Event::Snapshot(bytes)) => (self.bytes, self.at) = (bytes, 0),
                Some(Event::SnapshotEnd) => self.is_end = true,
                Some(_) => {}
                None => self.driver.turn()?,
            }
        }
        Ok(())
    }
}

impl Read for Incoming<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut bytes = self.fill_buf()?;
        let len = bytes.read(into)?;
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for Incoming<'_, '_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if let Err(ended) = self.wait() {
            self.ended = Some(ended);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(self.bytes.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
    }
}
