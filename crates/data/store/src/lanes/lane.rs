//! A lane: a thread that reads and writes the sockets of its clients, and runs nothing.
//!
//! ```text
//! wait -> orders of the executor (replies are written) -> read clients that are ready -> leave what came for the executor
//! ```
//!
//! A client is not read again before what it sent has been run. So a client has one read at most on its way, its commands stay
//! in order, and one that is not to be served for a while (its replies wait for the log, memory is short) has to wait too.

use std::{
    io::{self, Read as _, Write as _},
    sync::Arc,
    time::Instant,
};

use commands::SessionId;
use mio::{Events, Interest, Poll, Token, event::Event};
use rustc_hash::FxHashMap;

use crate::listener::Stream;

use super::{Link, Order, Told, mailbox::Batch};

/// Events of one turn.
const EVENTS_MAX: usize = 1024;
/// Bytes of one read, and so of what a client can have on its way.
const READ_LEN: usize = 64 * 1024;
/// Bytes of all clients that are on their way: none is read beyond that.
const ON_THEIR_WAY_MAX: usize = 4 * 1024 * 1024;
/// The executor has left something.
pub(super) const WAKER: Token = Token(usize::MAX - 1);

/// A client of a lane.
#[derive(Debug)]
struct Client {
    stream: Stream,
    /// Bytes that the socket did not take.
    pending: Vec<u8>,
    /// The socket took no more: it will be reported writable.
    blocked: bool,
    /// The executor counts on being told when all is written.
    report: bool,
    /// It is to be closed once all is written.
    close_after: bool,
    /// It stands in the list of those to be read later.
    listed: bool,
    /// The executor does not want more of it.
    stopped: bool,
    /// It sends no more than what is there. The kernel tells that once, maybe together with the last bytes.
    sends_no_more: bool,
    /// All it sent was read, and the executor knows.
    is_read: bool,
    /// It has gone, and the executor knows.
    gone: bool,
    /// The number of the batch that has what it sent last.
    batch: u64,
}

/// The thread's state.
#[derive(Debug)]
pub struct Lane {
    poll: Poll,
    link: Arc<Link>,
    clients: FxHashMap<SessionId, Client>,
    scratch: Vec<u8>,
    orders: Batch<Order>,
    told: Batch<Told>,
    /// Clients that may have sent more, and must not be read yet.
    later: Vec<SessionId>,
    /// Some of them may be read by now.
    look_again: bool,
    /// The number of the batch that was left last.
    left: u64,
    /// The number of the batch that was run last.
    run: u64,
    /// Bytes that were left since all had been run.
    on_their_way: usize,
}

impl Lane {
    pub(super) fn new(poll: Poll, link: Arc<Link>) -> Self {
        Self {
            poll,
            link,
            clients: FxHashMap::default(),
            scratch: vec![0; READ_LEN],
            orders: Batch::default(),
            told: Batch::default(),
            later: Vec::new(),
            look_again: false,
            left: 0,
            run: 0,
            on_their_way: 0,
        }
    }

    /// Serves until the executor says that it is the end.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            let wait = if self.link.lane_may_sleep() { None } else { Some(std::time::Duration::ZERO) };
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            self.link.lane.unset();
            if !self.follow_orders()? {
                return Ok(());
            }
            for event in &events {
                self.handle(event);
            }
            self.read_later();
            self.leave()?;
        }
    }

    fn handle(&mut self, event: &Event) {
        if event.token() == WAKER {
            return;
        }
        let session = SessionId(event.token().0 as u64);
        let Some(client) = self.clients.get_mut(&session) else { return };
        if event.is_writable() && std::mem::take(&mut client.blocked) {
            write_pending(session, client, &mut self.told);
        }
        let goes_on = event.is_writable() && client.stream.has_unsent();
        if event.is_readable() || event.is_read_closed() || goes_on {
            client.sends_no_more |= event.is_read_closed();
            self.read(session);
        }
    }

    /// Reads once from a client, if it may be read.
    fn read(&mut self, session: SessionId) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        if client.gone || client.is_read || client.listed {
            return;
        }
        if client.stopped || client.batch > self.run || self.on_their_way >= ON_THEIR_WAY_MAX {
            client.listed = true;
            self.later.push(session);
            return;
        }
        loop {
            match client.stream.read(&mut self.scratch) {
                Ok(0) => {
                    client.is_read = true;
                    return self.told.push(session, Told::Ended, b"");
                }
                Ok(len) => {
                    let is_first = client.batch == 0;
                    if is_first && client.stream.is_strange(self.scratch.get(..len).unwrap_or_default()) {
                        return end(session, client, &mut self.told);
                    }
                    self.told.push(session, Told::Input(len), self.scratch.get(..len).unwrap_or_default());
                    self.on_their_way += len;
                    client.batch = self.left + 1;
                    // One that does not fill the buffer has taken all there was, and the next event is waited for.
                    if len == self.scratch.len() || client.sends_no_more || client.stream.may_read() {
                        client.listed = true;
                        self.later.push(session);
                    }
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if client.sends_no_more {
                        // A part of a record came with the end, which is still to be met.
                        client.listed = true;
                        self.later.push(session);
                        self.look_again = true;
                    }
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return end(session, client, &mut self.told),
            }
        }
    }

    /// Reads those that had to wait, as far as they may be read now.
    fn read_later(&mut self) {
        if !std::mem::take(&mut self.look_again) {
            return;
        }
        for session in std::mem::take(&mut self.later) {
            if let Some(client) = self.clients.get_mut(&session) {
                client.listed = false;
                self.read(session);
            }
        }
    }

    /// Leaves what came for the executor.
    fn leave(&mut self) -> io::Result<()> {
        if self.told.is_empty() {
            return Ok(());
        }
        self.left += 1;
        self.told.number = self.left;
        // What is there is bounded by what may be on its way.
        self.link.to_executor.leave(&mut self.told, usize::MAX);
        self.link.executor.ring()
    }

    /// Does what the executor wants. Returns false if that is to end.
    fn follow_orders(&mut self) -> io::Result<bool> {
        let Some(wants_room) = self.link.to_lane.take(&mut self.orders) else { return Ok(true) };
        if wants_room {
            self.link.executor.ring()?;
        }
        if self.orders.number > self.run {
            self.run = self.orders.number;
            self.look_again = true;
            if self.run == self.left {
                self.on_their_way = 0;
            }
        }
        let mut send_until: Option<Instant> = None;
        while let Some((session, order)) = self.orders.next() {
            match order {
                Order::Open(stream) => self.open(session, stream),
                Order::Until(until) => send_until = Some(until),
                Order::Output { len, report } => {
                    let bytes = self.orders.take(len);
                    let is_late = send_until.take().is_some_and(|until| Instant::now() >= until);
                    if let Some(client) = self.clients.get_mut(&session) {
                        if is_late {
                            end(session, client, &mut self.told);
                        } else {
                            write(session, client, bytes, report, &mut self.told);
                        }
                    }
                }
                Order::Release => {
                    if let Some(mut client) = self.clients.remove(&session) {
                        let _ = self.poll.registry().deregister(&mut client.stream);
                        self.link.release(session, client.stream);
                        self.link.executor.ring()?;
                    }
                }
                Order::Close => {
                    if let Some(mut client) = self.clients.remove(&session) {
                        let _ = self.poll.registry().deregister(&mut client.stream);
                    }
                }
                Order::CloseAfterOutput => {
                    if let Some(client) = self.clients.get_mut(&session) {
                        client.close_after = true;
                        if client.pending.is_empty() {
                            end(session, client, &mut self.told);
                        }
                    }
                }
                Order::EndHandshake => {
                    if let Some(client) = self.clients.get_mut(&session)
                        && client.stream.gives_up_handshake()
                    {
                        end(session, client, &mut self.told);
                    }
                }
                Order::Stop => {
                    if let Some(client) = self.clients.get_mut(&session) {
                        client.stopped = true;
                    }
                }
                Order::Go => {
                    if let Some(client) = self.clients.get_mut(&session) {
                        client.stopped = false;
                        self.look_again = true;
                    }
                }
                Order::End => return Ok(false),
            }
        }
        Ok(true)
    }

    fn open(&mut self, session: SessionId, mut stream: Stream) {
        let both = Interest::READABLE | Interest::WRITABLE;
        let Ok(token) = usize::try_from(session.0) else { return };
        if self.poll.registry().register(&mut stream, Token(token), both).is_err() {
            self.told.push(session, Told::Gone, b"");
            return;
        }
        let client = Client {
            stream,
            pending: Vec::new(),
            blocked: false,
            report: false,
            close_after: false,
            listed: false,
            stopped: false,
            sends_no_more: false,
            is_read: false,
            gone: false,
            batch: 0,
        };
        self.clients.insert(session, client);
    }
}

/// Tells the executor that a client has gone, once. Its socket stays until the executor has it closed.
fn end(session: SessionId, client: &mut Client, told: &mut Batch<Told>) {
    if !std::mem::replace(&mut client.gone, true) {
        client.pending = Vec::new();
        told.push(session, Told::Gone, b"");
    }
}

/// Writes a reply, and keeps what the socket does not take.
fn write(session: SessionId, client: &mut Client, bytes: &[u8], report: bool, told: &mut Batch<Told>) {
    if client.gone {
        return;
    }
    client.report |= report;
    if !client.pending.is_empty() {
        client.pending.extend_from_slice(bytes);
        return;
    }
    match write_some(client, bytes) {
        None => end(session, client, told),
        Some(sent) if sent == bytes.len() => {
            if std::mem::take(&mut client.report) {
                told.push(session, Told::Drained, b"");
            }
        }
        Some(sent) => {
            client.pending.extend_from_slice(bytes.get(sent..).unwrap_or_default());
            if !std::mem::replace(&mut client.report, true) {
                told.push(session, Told::Blocked, b"");
            }
        }
    }
}

/// Writes what had to wait.
fn write_pending(session: SessionId, client: &mut Client, told: &mut Batch<Told>) {
    if client.pending.is_empty() {
        return;
    }
    let mut pending = std::mem::take(&mut client.pending);
    let Some(sent) = write_some(client, &pending) else { return end(session, client, told) };
    if sent < pending.len() {
        pending.drain(..sent);
        client.pending = pending;
        return;
    }
    if std::mem::take(&mut client.report) {
        told.push(session, Told::Drained, b"");
    }
    if client.close_after {
        end(session, client, told);
    }
}

/// Writes as much as the socket takes; nothing if the connection is broken.
fn write_some(client: &mut Client, bytes: &[u8]) -> Option<usize> {
    let mut sent = 0;
    while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
        match client.stream.write(rest) {
            Ok(0) => return None,
            Ok(len) => sent += len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                client.blocked = true;
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(sent)
}
