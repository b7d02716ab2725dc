//! The thread that gives a replica the log, and all keys before if it needs them. It reads files, and asks the loop for nothing.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering},
    },
    thread,
};

use commands::{
    replication::{Replica, ReplicaState},
    session::ReplicaTraits,
};
use engine::Records;
use keyspace::Millis;
use mio::Waker;
use oplog::{Offset, Reader, ReplicationId, disk::RealDisk};
use replication::{
    master::{Acknowledged, Patience, Upstream, UpstreamError, WhyFull},
    replica::Position,
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    fd::OwnedFd,
};
use shard::chain;

use crate::{
    StoreError, clock,
    export::{RdbOptions, write_rdb},
    listener::Stream,
    messages,
};

/// How long is waited at most for something to happen.
const TURN_NS: i64 = 200_000_000;
/// So many bytes of the log are gathered before they are sent.
const PIECE_LEN: usize = 256 << 10;
/// How long a mark is that a snapshot ends with.
const MARK_LEN: usize = 40;

/// What is said of a replica that goes when it has the copy.
const REFUSED: &str = "a replica has gone without taking the copy that it got: its log says why. If it is older than Redis 7, set \
                       replica-rdb-version to 9";

/// What a replica is given first.
pub enum Start {
    /// The log from where it is.
    Continue {
        history: ReplicationId,
        /// All histories that the log tells, as the answer has them behind the one: nothing for who does not expect it.
        told: String,
        from: Offset,
        reader: Box<Reader<RealDisk>>,
    },
    /// All keys.
    Full {
        position: Position,
        /// The same.
        told: String,
        why: WhyFull,
        tables: Arc<dyn Records>,
        options: RdbOptions,
        reader: Box<Reader<RealDisk>>,
        traits: ReplicaTraits,
        /// It has asked with `SYNC`, and knows no offsets.
        is_old: bool,
    },
}

/// What thread and loop have both.
struct Shared {
    state: AtomicU8,
    applied: AtomicU64,
    /// What is durable there; `u64::MAX` if it does not say so.
    durable: AtomicU64,
    /// When it was heard of last.
    heard: AtomicI64,
    /// What of the log it has been sent.
    position: AtomicU64,
    timeout_ms: AtomicI64,
    is_over: AtomicBool,
    has_ended: AtomicBool,
    /// The thread waits for the log to go on.
    is_asleep: AtomicBool,
    is_ack_wanted: AtomicBool,
    /// Wakes the thread.
    wake: OwnedFd,
    waker: Arc<Waker>,
}

impl Shared {
    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// The thread, as the loop sees it. It ends when this goes.
pub struct FeedThread {
    shared: Arc<Shared>,
}

impl FeedThread {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// The system has no thread.
    pub fn start(
        stream: Stream,
        start: Start,
        root: PathBuf,
        (timeout_ms, waker): (i64, Arc<Waker>),
    ) -> io::Result<Self> {
        let position = match &start {
            Start::Continue { from, .. } => *from,
            Start::Full { position, .. } => position.offset,
        };
        let shared = Arc::new(Shared {
            state: AtomicU8::new(ReplicaState::WaitForCopy as u8),
            applied: AtomicU64::new(0),
            durable: AtomicU64::new(u64::MAX),
            heard: AtomicI64::new(clock::now()),
            position: AtomicU64::new(position.0),
            timeout_ms: AtomicI64::new(timeout_ms),
            is_over: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            is_asleep: AtomicBool::new(false),
            is_ack_wanted: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            waker,
        });
        let own = Arc::clone(&shared);
        thread::Builder::new().name("replica-feed".into()).spawn(move || {
            let patience = Patience::new(timeout_ms, clock::now());
            let mut feed = Feed {
                stream,
                shared: own,
                patience,
                upstream: Upstream::default(),
                is_blocked: false,
                is_silent_on_copy: false,
            };
            match feed.run(start, &root) {
                Err(Ended(Some(reason))) => messages::warn(&format!("a replica is given up: {reason}")),
                _ if feed.is_silent_on_copy && !feed.shared.is_over.load(Ordering::Acquire) => {
                    messages::warn(REFUSED);
                }
                _ => {}
            }
            feed.shared.has_ended.store(true, Ordering::Release);
            let _ = feed.shared.waker.wake();
        })?;
        Ok(Self { shared })
    }

    /// Whether the replica has gone.
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended.load(Ordering::Acquire)
    }

    /// How far it is.
    pub fn report(&self, replica: &mut Replica, _: Millis) {
        replica.state = match self.shared.state.load(Ordering::Acquire) {
            state if state == ReplicaState::Online as u8 => ReplicaState::Online,
            state if state == ReplicaState::Copying as u8 => ReplicaState::Copying,
            _ => ReplicaState::WaitForCopy,
        };
        replica.applied = self.shared.applied.load(Ordering::Acquire);
        replica.durable = match self.shared.durable.load(Ordering::Acquire) {
            u64::MAX => replica.applied,
            durable => durable,
        };
        replica.heard = self.shared.heard.load(Ordering::Acquire);
    }

    /// What it has been sent of the log.
    pub fn position(&self) -> Offset {
        Offset(self.shared.position.load(Ordering::Acquire))
    }

    /// The log is in files up to there.
    pub fn tell_written(&self, written: Offset) {
        if self.shared.is_asleep.load(Ordering::Acquire)
            && written > self.position()
            && self.shared.is_asleep.swap(false, Ordering::AcqRel)
        {
            self.shared.wake();
        }
    }

    /// The setting may have changed.
    pub fn set_timeout(&self, timeout_ms: i64) {
        self.shared.timeout_ms.store(timeout_ms, Ordering::Relaxed);
    }

    /// Whether the loop is to be woken for acknowledgements.
    pub fn set_ack_wanted(&self, is_wanted: bool) {
        self.shared.is_ack_wanted.store(is_wanted, Ordering::Release);
    }
}

impl Drop for FeedThread {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.wake();
    }
}

/// Why the thread ends; without a reason because it is to, or because the replica has closed the connection.
struct Ended(Option<String>);

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        Self((!matches!(error.kind(), BrokenPipe | ConnectionReset)).then(|| error.to_string()))
    }
}

impl From<UpstreamError> for Ended {
    fn from(error: UpstreamError) -> Self {
        Self(Some(error.to_string()))
    }
}

impl From<oplog::LogError> for Ended {
    fn from(error: oplog::LogError) -> Self {
        Self(Some(chain(&error)))
    }
}

struct Feed {
    stream: Stream,
    shared: Arc<Shared>,
    patience: Patience,
    upstream: Upstream,
    /// The socket has taken no more.
    is_blocked: bool,
    /// It has been sent all keys, and has said nothing since.
    is_silent_on_copy: bool,
}

impl Feed {
    fn run(&mut self, start: Start, root: &std::path::Path) -> Result<(), Ended> {
        let reader = match start {
            Start::Continue { history, told, reader, .. } => {
                self.send(format!("+CONTINUE {history}{told}\r\n").as_bytes())?;
                reader
            }
            Start::Full { position, told, tables, options, reader, traits, is_old, .. } => {
                if !is_old {
                    let line = format!("+FULLRESYNC {} {}{told}\r\n", position.history, position.offset);
                    self.send(line.as_bytes())?;
                }
                self.set_state(ReplicaState::Copying);
                if traits.takes_mark {
                    self.copy_with_mark(&tables, &options)?;
                } else {
                    self.copy_with_length(&tables, &options, root)?;
                }
                drop(tables);
                if traits.copy_only {
                    return self.wait_for_end();
                }
                self.is_silent_on_copy = true;
                if traits.takes_mark {
                    // A replica knows the mark by its being the last that has come.
                    self.wait_for_words()?;
                }
                reader
            }
        };
        self.set_state(ReplicaState::Online);
        self.patience.expect_words(clock::now());
        self.follow(*reader)
    }

    fn set_state(&self, state: ReplicaState) {
        self.shared.state.store(state as u8, Ordering::Release);
        let _ = self.shared.waker.wake();
    }

    /// Sends all keys, and a mark behind them.
    fn copy_with_mark(&mut self, tables: &Arc<dyn Records>, options: &RdbOptions) -> Result<(), Ended> {
        let mut random = [0; MARK_LEN / 2];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(io::Error::from)?;
        let mark = ReplicationId::from_random(random);
        self.send(format!("$EOF:{mark}\r\n").as_bytes())?;
        let mut sink = Sink { feed: self, ended: None };
        let written = write_rdb(tables, options, &mut sink);
        if let Some(ended) = sink.ended.take() {
            return Err(ended);
        }
        written.map_err(|error| Ended(Some(chain(&error))))?;
        self.send(mark.as_bytes())
    }

    /// The same for a replica that wants to know the length before: by a file.
    fn copy_with_length(
        &mut self,
        tables: &Arc<dyn Records>,
        options: &RdbOptions,
        root: &std::path::Path,
    ) -> Result<(), Ended> {
        let mut file = unnamed_file(root)?;
        let mut sink = Patient { feed: self, file: io::BufWriter::new(&mut file), told: clock::now() };
        write_rdb(tables, options, &mut sink).map_err(|error: StoreError| Ended(Some(chain(&error))))?;
        sink.file.flush()?;
        drop(sink);
        let len = file.stream_position()?;
        file.rewind()?;
        self.send(format!("${len}\r\n").as_bytes())?;
        let mut piece = vec![0; PIECE_LEN];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(()),
                len => self.send(piece.get(..len).unwrap_or_default())?,
            }
        }
    }

    /// Waits until the replica says that it has taken the copy.
    fn wait_for_words(&mut self) -> Result<(), Ended> {
        loop {
            // It may take long to load what it has got.
            self.patience.handle_sent(clock::now());
            if self.wait(false)?.is_some() {
                return Ok(());
            }
        }
    }

    /// Waits until the replica goes.
    fn wait_for_end(&mut self) -> Result<(), Ended> {
        loop {
            self.patience.handle_sent(clock::now());
            self.wait(false)?;
        }
    }

    /// Sends the log as it goes on.
    fn follow(&mut self, mut reader: Reader<RealDisk>) -> Result<(), Ended> {
        let mut piece = Vec::new();
        loop {
            piece.clear();
            let mut end = None;
            while piece.len() < PIECE_LEN
                && let Some(entry) = reader.next()?
            {
                end = Some(entry.end());
                if piece.is_empty() && entry.commands.len() >= PIECE_LEN {
                    self.send(entry.commands)?;
                    break;
                }
                piece.extend_from_slice(entry.commands);
            }
            if let Some(end) = end {
                self.send(&piece)?;
                self.shared.position.store(end.0, Ordering::Release);
                self.hear()?;
                self.check()?;
                continue;
            }
            self.patience.handle_sent(clock::now());
            // IMPORTANT: said before the log is looked at again, or what is written in between would be told to nobody.
            if !self.shared.is_asleep.swap(true, Ordering::AcqRel) {
                continue;
            }
            self.wait(true)?;
            self.shared.is_asleep.store(false, Ordering::Release);
        }
    }

    fn check(&mut self) -> Result<(), Ended> {
        if self.shared.is_over.load(Ordering::Acquire) {
            return Err(Ended(None));
        }
        self.patience.set_timeout(self.shared.timeout_ms.load(Ordering::Relaxed));
        Ok(self.patience.check(clock::now())?)
    }

    /// Waits for words of the replica, for the loop, or for room in the socket. Returns the last acknowledgement that has come.
    fn wait(&mut self, _: bool) -> Result<Option<Acknowledged>, Ended> {
        self.check()?;
        let mut wanted = PollFlags::IN;
        wanted.set(PollFlags::OUT, self.is_blocked);
        let mut ready = [PollFd::new(&self.stream, wanted), PollFd::new(&self.shared.wake, PollFlags::IN)];
        let patience = Timespec { tv_sec: 0, tv_nsec: TURN_NS };
        match poll(&mut ready, Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let [stream, wake] = &ready;
        let (has_come, is_woken) = (stream.revents(), !wake.revents().is_empty());
        if is_woken {
            let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        }
        if has_come.contains(PollFlags::OUT) {
            self.is_blocked = false;
        }
        if has_come.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) { self.hear() } else { Ok(None) }
    }

    /// Takes what the replica has said.
    fn hear(&mut self) -> Result<Option<Acknowledged>, Ended> {
        let mut bytes = [0; 4096];
        let mut last = None;
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Ended(None)),
                Ok(len) => {
                    let now = clock::now();
                    self.patience.handle_heard(now);
                    self.shared.heard.store(now, Ordering::Release);
                    let acknowledged = self.upstream.handle_bytes(bytes.get(..len).unwrap_or_default())?;
                    last = acknowledged.or(last);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(Acknowledged { applied, durable }) = last {
            self.is_silent_on_copy = false;
            self.shared.applied.store(applied.0, Ordering::Release);
            self.shared.durable.store(durable.map_or(u64::MAX, |durable| durable.0), Ordering::Release);
            if self.shared.is_ack_wanted.load(Ordering::Acquire) {
                let _ = self.shared.waker.wake();
            }
        }
        Ok(last)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(Ended(None)),
                Ok(len) => {
                    rest = rest.get(len..).unwrap_or_default();
                    self.patience.handle_sent(clock::now());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    self.wait(false)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// A file that goes when nobody has it open any more.
fn unnamed_file(root: &std::path::Path) -> io::Result<File> {
    let path = root.join(format!("copy-{}-{}.rdb", std::process::id(), clock::now()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// The replica as a sink of a snapshot.
struct Sink<'a> {
    feed: &'a mut Feed,
    ended: Option<Ended>,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.feed.send(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(ended) => {
                self.ended = Some(ended);
                Err(io::ErrorKind::ConnectionAborted.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that a snapshot goes to while the replica is told that it comes.
struct Patient<'a> {
    feed: &'a mut Feed,
    file: io::BufWriter<&'a mut File>,
    told: Millis,
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = clock::now();
        if now - self.told >= 1000 {
            self.told = now;
            self.feed.send(b"\n").map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted))?;
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
