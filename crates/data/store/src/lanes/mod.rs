//! Threads that read and write the clients' sockets (`io-threads`), for a shard whose loop is then free to run commands.
//!
//! ```text
//! lane 0: epoll, read, write --\  mailboxes  /-> the shard's loop: parse, run, log
//! lane 1: epoll, read, write --/             \-> accepts clients, and gives them to lanes in turn
//! ```
//!
//! With two threads, one lane and the loop, the loop has half of the clients itself: to hand a command over and its reply back costs
//! half as much as the socket calls that the other thread saves, and both would sleep and be woken for it. A client that sends
//! pipelines is given to the lane: of what it costs, running its commands is most.
//!
//! Of what a GET costs, the socket calls are six parts of seven or more, and running it is the rest. So lanes share the sockets,
//! and not the keys: all commands run on one thread as they do without lanes, and every transaction, script and order of
//! replies is what it is there.
//!
//! The loop owns the sessions and decides; a lane knows sockets by the numbers of their sessions, which are never given twice,
//! so what is on its way for a client that has gone reaches nobody else. What is not sent stays in the session's output, where
//! limits see it: a lane holds little of a client ([`PART`]) and takes no more before that is written.

mod lane;
mod mailbox;

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use commands::{Server, SessionId, session::Close};
use mio::{Poll, Waker};
use rustc_hash::FxHashMap;

use crate::{StoreError, connection::Holds, listener::Stream};

use self::{
    lane::Lane,
    mailbox::{Alarm, Batch, Mailbox},
};

/// The most of a client's output that is given to its lane at once, but for an eighth of it if that is more.
const PART: usize = 256 * 1024;
/// How many more than twice the fewest clients of a lane another one may have.
const UNEVEN_MAX: usize = 64;
/// What one lane is given at once.
const OUTBOX_MAX: usize = 1024 * 1024;

/// What a lane tells.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// The client has sent so many bytes.
    Input(usize),
    /// The client's socket took no more.
    Blocked,
    /// All that the lane had of the client's output has been written.
    Drained,
    /// The client sends no more, and all it sent has been read.
    Ended,
    /// The connection is broken, or all that the client was to get before being closed is written.
    Gone,
}

/// What a lane is told.
#[derive(Debug)]
enum Order {
    /// A new client.
    Open(Stream),
    /// What is to be sent next is not to be sent later than then: the client is closed instead.
    Until(Instant),
    /// So many bytes are to be sent; `report` when they are.
    Output { len: usize, report: bool },
    /// The client is to be closed now.
    Close,
    /// Its socket is for somebody else.
    Release,
    /// It is to be closed when it has been sent all that was given.
    CloseAfterOutput,
    /// It is to be closed if it has not agreed on TLS yet.
    EndHandshake,
    /// No more is to be read of it.
    Stop,
    /// It may be read again.
    Go,
    /// The thread is to end.
    End,
}

/// What joins a lane and the loop.
#[derive(Debug)]
struct Link {
    to_lane: Mailbox<Order>,
    to_executor: Mailbox<Told>,
    lane: Alarm,
    executor: Arc<Alarm>,
    /// The lane's thread has ended.
    ended: AtomicBool,
    /// Sockets that are for somebody else.
    released: Mutex<Vec<(SessionId, Stream)>>,
}

impl Link {
    fn release(&self, session: SessionId, stream: Stream) {
        self.released.lock().unwrap_or_else(PoisonError::into_inner).push((session, stream));
    }

    /// The lane wants to sleep: whether it may.
    fn lane_may_sleep(&self) -> bool {
        self.lane.set();
        !self.to_lane.is_full()
    }
}

/// Tells the loop that a lane's thread ends, however it does.
struct Farewell(Arc<Link>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        let _ = self.0.executor.ring();
    }
}

/// A lane, as the loop sees it.
#[derive(Debug)]
struct Handle {
    link: Arc<Link>,
    thread: Option<thread::JoinHandle<()>>,
    /// What it told, as far as it has not been looked at.
    inbox: Batch<Told>,
    /// What it is to be told at the end of the turn.
    outbox: Batch<Order>,
    clients: usize,
    /// Clients with output for which there was no room.
    waiting: Vec<SessionId>,
}

/// A client of a lane, as the loop sees it.
#[derive(Debug, Default)]
pub struct Remote {
    lane: usize,
    /// Its lane has output of it that is not written yet.
    blocked: bool,
    /// Its lane was told not to read it.
    stopped: bool,
    /// Its lane was told to close it.
    closing: bool,
    /// Its replies wait until the log is safe; what it sends meanwhile is not run.
    pub holds: Holds,
    /// It has sent something while it was held.
    pub pending: bool,
    /// It sends no more: it is closed when the replies have been sent.
    ended: bool,
    /// It was answered while a script is busy.
    pub answered: bool,
}

/// What is to be done about a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It has sent something, which is in its input.
    Input,
    /// It can be sent more.
    Writable,
}

/// All lanes of a shard.
#[derive(Debug)]
pub struct Lanes {
    lanes: Vec<Handle>,
    remotes: FxHashMap<SessionId, Remote>,
    executor: Arc<Alarm>,
    /// The lane whose inbox is looked at.
    current: usize,
    /// The lane that the next client goes to.
    next_lane: usize,
    /// What came of the client whose script is busy: its session is where it runs.
    aside: Vec<(SessionId, Told, Vec<u8>)>,
}

impl Lanes {
    /// Starts so many threads. `waker` wakes the loop.
    pub fn start(count: usize, waker: &Arc<Waker>) -> Result<Self, StoreError> {
        let executor = Arc::new(Alarm::new(Arc::clone(waker)));
        let mut lanes = Self {
            lanes: Vec::with_capacity(count),
            remotes: FxHashMap::default(),
            executor: Arc::clone(&executor),
            current: 0,
            next_lane: 0,
            aside: Vec::new(),
        };
        for number in 0..count {
            let poll = Poll::new()?;
            let link = Arc::new(Link {
                to_lane: Mailbox::default(),
                to_executor: Mailbox::default(),
                lane: Alarm::new(Arc::new(Waker::new(poll.registry(), lane::WAKER)?)),
                executor: Arc::clone(&executor),
                ended: AtomicBool::new(false),
                released: Mutex::default(),
            });
            let (farewell, lane) = (Farewell(Arc::clone(&link)), Lane::new(poll, Arc::clone(&link)));
            let thread = thread::Builder::new().name(format!("io-{number}")).spawn(move || {
                let _farewell = farewell;
                if let Err(error) = lane.run() {
                    crate::messages::warn(&format!("a thread of the sockets ends: {error}"));
                }
            })?;
            lanes.lanes.push(Handle {
                link,
                thread: Some(thread),
                inbox: Batch::default(),
                outbox: Batch::default(),
                clients: 0,
                waiting: Vec::new(),
            });
        }
        Ok(lanes)
    }

    /// How many clients there are.
    pub fn len(&self) -> usize {
        self.remotes.len()
    }

    /// A client, if it is one of a lane.
    pub fn remote(&mut self, session: SessionId) -> Option<&mut Remote> {
        self.remotes.get_mut(&session)
    }

    /// All clients.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.remotes.keys().copied().collect()
    }

    /// Whether the next new client is for a lane, if the loop has so many itself.
    pub fn takes_next(&self, own: usize) -> bool {
        self.lanes.len() > 1 || own > self.remotes.len()
    }

    /// Gives a new client to the lane whose turn it is. Turns spread clients that come together, also while those from before
    /// them go; a lane that others have left behind is passed over.
    pub fn open(&mut self, session: SessionId, stream: Stream) {
        let fewest = self.lanes.iter().map(|lane| lane.clients).min().unwrap_or(0);
        let count = self.lanes.len();
        let mut turns = (0..count).map(|step| (self.next_lane + step) % count.max(1));
        let has_room =
            |number: &usize| self.lanes.get(*number).is_some_and(|lane| lane.clients <= 2 * fewest + UNEVEN_MAX);
        let number = turns.find(has_room).unwrap_or(0);
        self.next_lane = number + 1;
        let Some(lane) = self.lanes.get_mut(number) else { return };
        lane.clients += 1;
        lane.outbox.push(session, Order::Open(stream), b"");
        self.remotes.insert(session, Remote { lane: number, ..Remote::default() });
    }

    /// The loop wants to sleep: whether it may. [`collect`](Self::collect) says that it does not sleep any more.
    pub fn may_sleep(&self) -> bool {
        self.executor.set();
        // What there was no room for has to be tried again when there is.
        let waits_in_vain = |lane: &Handle| !lane.outbox.is_empty() && !lane.link.to_lane.is_full();
        self.lanes.iter().all(|lane| !lane.link.to_executor.is_full() && !waits_in_vain(lane))
    }

    /// Whether there is something of what was taken.
    pub fn has_inbox(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.inbox.is_empty())
    }

    /// No script is busy any more.
    pub fn forget_answered(&mut self) {
        self.remotes.values_mut().for_each(|remote| remote.answered = false);
    }

    /// Takes what lanes have left.
    ///
    /// # Errors
    ///
    /// A lane's thread has ended.
    pub fn collect(&mut self) -> Result<(), StoreError> {
        self.executor.unset();
        self.current = 0;
        for lane in &mut self.lanes {
            if lane.link.ended.load(Ordering::SeqCst) {
                return Err(StoreError::Lane);
            }
            if lane.inbox.is_empty() {
                lane.link.to_executor.take(&mut lane.inbox);
            }
        }
        Ok(())
    }

    /// The next thing that has to be done for a client; what it sent is put into its input before.
    pub fn next(&mut self, server: &mut Server) -> Option<(SessionId, Event)> {
        while let Some(lane) = self.lanes.get_mut(self.current) {
            let Some((session, told)) = lane.inbox.next() else {
                // All of it has been run, or will be before its clients may send more.
                self.current += 1;
                continue;
            };
            if let Told::Input(len) = told {
                let bytes = lane.inbox.take(len);
                let statistics = server.statistics_mut();
                statistics.reads += 1;
                statistics.threaded_reads += 1;
                statistics.input_bytes += len as u64;
                match server.input(session) {
                    Some(input) => input.extend_from_slice(bytes),
                    None => {
                        // One that was closed meanwhile has sent it in vain.
                        if self.remotes.contains_key(&session) {
                            self.aside.push((session, told, bytes.to_vec()));
                        }
                        continue;
                    }
                }
                return Some((session, Event::Input));
            }
            let Some(remote) = self.remotes.get_mut(&session) else { continue };
            match told {
                Told::Input(_) => {}
                Told::Blocked => remote.blocked = true,
                Told::Drained => {
                    remote.blocked = false;
                    return Some((session, Event::Writable));
                }
                Told::Ended => {
                    remote.ended = true;
                    return Some((session, Event::Writable));
                }
                Told::Gone if server.input(session).is_none() => self.aside.push((session, told, Vec::new())),
                Told::Gone => self.close(session, server),
            }
        }
        None
    }

    /// Gives a client's output to its lane, as far as there is room.
    pub fn send(&mut self, session: SessionId, server: &mut Server) {
        let Some(remote) = self.remotes.get_mut(&session) else { return };
        let lease_left = server.lease_left(session);
        let Some((output, close)) = server.output(session) else { return };
        // Another node may serve when the lease is over: whoever asked is not to be told what has become of it.
        if close == Close::Now || lease_left.is_some_and(|left| left.is_zero()) {
            return self.close(session, server);
        }
        let Some(lane) = self.lanes.get_mut(remote.lane) else { return };
        let len = output.len();
        let mut sent = 0;
        if len > 0 && !remote.blocked {
            if lane.outbox.bytes_len() >= OUTBOX_MAX {
                lane.waiting.push(session);
                return;
            }
            sent = if len <= PART { len } else { PART.max(len / 8) };
            let report = sent < len;
            let bytes = output.get(..sent).unwrap_or_default();
            if let Some(left) = lease_left {
                lane.outbox.push(session, Order::Until(Instant::now() + left), b"");
            }
            lane.outbox.push(session, Order::Output { len: sent, report }, bytes);
            if report {
                remote.blocked = true;
                output.drain(..sent);
            } else {
                output.clear();
            }
        }
        let is_last = close == Close::AfterOutput && output.is_empty() || remote.ended && !server.owes_replies(session);
        if is_last && !std::mem::replace(&mut remote.closing, true) {
            lane.outbox.push(session, Order::CloseAfterOutput, b"");
        }
        if sent > 0 {
            let statistics = server.statistics_mut();
            statistics.writes += 1;
            statistics.threaded_writes += 1;
            statistics.output_bytes += sent as u64;
        }
    }

    /// Closes a client and ends its session.
    pub fn close(&mut self, session: SessionId, server: &mut Server) {
        let Some(remote) = self.remotes.remove(&session) else { return };
        if let Some(lane) = self.lanes.get_mut(remote.lane) {
            lane.clients -= 1;
            lane.outbox.push(session, Order::Close, b"");
        }
        server.disconnect(session);
    }

    /// Has a client closed that has not agreed on TLS yet.
    pub fn end_handshake(&mut self, session: SessionId) {
        let lane = self.remotes.get(&session).and_then(|remote| self.lanes.get_mut(remote.lane));
        if let Some(lane) = lane {
            lane.outbox.push(session, Order::EndHandshake, b"");
        }
    }

    /// Has a lane give a client's socket back, whose session stays; [`take_released`](Self::take_released) has it in a while. Whether
    /// it is one of a lane.
    pub fn release(&mut self, session: SessionId) -> bool {
        let Some(remote) = self.remotes.remove(&session) else { return false };
        if let Some(lane) = self.lanes.get_mut(remote.lane) {
            lane.clients -= 1;
            lane.outbox.push(session, Order::Release, b"");
        }
        true
    }

    /// The sockets that lanes have given back.
    pub fn take_released(&mut self) -> Vec<(SessionId, Stream)> {
        let released =
            |lane: &Handle| std::mem::take(&mut *lane.link.released.lock().unwrap_or_else(PoisonError::into_inner));
        self.lanes.iter().flat_map(released).collect()
    }

    /// No more is to be read of a client whose input cannot be run now.
    pub fn stop(&mut self, session: SessionId) {
        let Some(remote) = self.remotes.get_mut(&session) else { return };
        if let Some(lane) = self.lanes.get_mut(remote.lane).filter(|_| !remote.stopped) {
            remote.stopped = true;
            lane.outbox.push(session, Order::Stop, b"");
        }
    }

    /// What was to be run has been: more may be read.
    pub fn go(&mut self, session: SessionId) {
        let Some(remote) = self.remotes.get_mut(&session) else { return };
        if let Some(lane) = self.lanes.get_mut(remote.lane).filter(|_| remote.stopped) {
            remote.stopped = false;
            lane.outbox.push(session, Order::Go, b"");
        }
    }

    /// The script that was busy has ended: gives its client what came of it meanwhile. Returns the sessions to be run.
    pub fn take_aside(&mut self, server: &mut Server, sessions: &mut Vec<SessionId>) {
        for (session, told, bytes) in std::mem::take(&mut self.aside) {
            if told == Told::Gone {
                self.close(session, server);
            } else if let Some(input) = server.input(session) {
                input.extend_from_slice(&bytes);
                sessions.push(session);
            }
        }
    }

    /// Gives the lanes what was sent in this turn.
    pub fn hand_over(&mut self, server: &mut Server) -> io::Result<()> {
        for number in 0..self.lanes.len() {
            while let Some(lane) = self.lanes.get_mut(number) {
                let is_run = lane.inbox.is_empty() && lane.outbox.number < lane.inbox.number;
                if lane.outbox.is_empty() && !is_run {
                    break;
                }
                if is_run {
                    lane.outbox.number = lane.inbox.number;
                }
                let number_run = lane.outbox.number;
                if !lane.link.to_lane.leave(&mut lane.outbox, OUTBOX_MAX) {
                    break;
                }
                lane.outbox.number = number_run;
                lane.link.lane.ring()?;
                if lane.waiting.is_empty() {
                    break;
                }
                for session in std::mem::take(&mut lane.waiting) {
                    // Others of its replies may have come to wait for the log since: it is sent all of them then.
                    if self.remotes.get(&session).is_some_and(|remote| !remote.holds.any()) {
                        self.send(session, server);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            lane.outbox.push(SessionId(0), Order::End, b"");
            lane.link.to_lane.leave(&mut lane.outbox, usize::MAX);
            let _ = lane.link.lane.ring();
        }
        for lane in &mut self.lanes {
            if let Some(thread) = lane.thread.take() {
                // One that panicked has been heard of.
                let _ = thread.join();
            }
        }
    }
}
