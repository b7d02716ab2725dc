//! One connection, driven by a task of its own.

use std::{net::SocketAddr, rc::Rc, sync::Arc, task::Context, time::Instant};

use quinn_proto::{
    ConnectionError, ConnectionHandle, Dir, EndpointEvent, FinishError, ReadError, StreamEvent, StreamId, Transmit,
    WriteError,
};
use tls::Handshaken;

use crate::{
    endpoint::{Endpoint, Inbox},
    settings::code,
};

/// How often packets are made in a row before others get their turn.
const TRANSMITS_MAX: usize = 64;

/// Something that has happened on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Client and server have shaken hands.
    Connected,
    /// It is over.
    Lost(Lost),
    /// The client has begun a stream.
    Opened(u64),
    /// A stream may be read from.
    Readable(u64),
    /// A stream may be written to.
    Writable(u64),
    /// The client does not want what is sent on a stream.
    Stopped {
        /// Which.
        stream: u64,
        /// Why.
        code: u64,
    },
    /// The client allows to begin more streams.
    Available,
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The client has closed it.
    Closed,
    /// The client has been silent for too long.
    TimedOut,
    /// One side has broken the protocol, or they could not agree.
    Failed,
}

impl Lost {
    fn of(reason: &ConnectionError) -> Self {
        match reason {
            ConnectionError::ConnectionClosed(_)
            | ConnectionError::ApplicationClosed(_)
            | ConnectionError::Reset
            | ConnectionError::LocallyClosed => Self::Closed,
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::TransportError(_) | ConnectionError::VersionMismatch | ConnectionError::CidsExhausted => {
                Self::Failed
            }
        }
    }
}

/// What reading has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// So many bytes were read, and these are the last.
    End(usize),
    /// So many bytes were read; 0 if nothing is there now.
    More(usize),
    /// The client has given the stream up with this code.
    Reset(u64),
    /// The stream is not to be read from.
    Closed,
}

/// A client's connection.
pub struct Connection {
    endpoint: Rc<Endpoint>,
    handle: ConnectionHandle,
    machine: quinn_proto::Connection,
    inbox: Rc<Inbox>,
    /// What could not be sent.
    unsent: Option<Transmit>,
    output: Vec<u8>,
    is_handshaking: bool,
    is_drained: bool,
}

fn id(stream: u64) -> StreamId {
    StreamId::from(code(stream))
}

fn number(stream: StreamId) -> u64 {
    quinn_proto::VarInt::from(stream).into_inner()
}

impl Connection {
    pub(crate) fn new(
        endpoint: Rc<Endpoint>,
        handle: ConnectionHandle,
        machine: quinn_proto::Connection,
        inbox: Rc<Inbox>,
    ) -> Self {
        Self {
            endpoint,
            handle,
            machine,
            inbox,
            unsent: None,
            output: Vec::new(),
            is_handshaking: true,
            is_drained: false,
        }
    }

    /// Where the client is now.
    #[must_use]
    pub fn from(&self) -> SocketAddr {
        self.machine.remote_address()
    }

    /// What the handshake has agreed on, once it is done.
    #[must_use]
    pub fn handshaken(&self) -> Option<Arc<Handshaken>> {
        tls::quic::handshaken(self.machine.crypto_session())
    }

    /// Takes in what has come, and what the time brings with it; whether anything has come.
    pub fn take_input(&mut self, now: Instant) -> bool {
        let events = self.inbox.take();
        let has_come = !events.is_empty();
        for event in events {
            self.machine.handle_event(event);
        }
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.machine.handle_timeout(now);
        }
        has_come
    }

    /// Has the task be woken when something comes.
    pub fn listen(&self, context: &Context<'_>) {
        self.inbox.listen(context);
    }

    /// When [`Connection::take_input`] is to be called at the latest.
    #[must_use]
    pub fn timeout(&mut self) -> Option<Instant> {
        self.machine.poll_timeout()
    }

    /// What has become of the handshake. Streams that the client has begun meanwhile stay for [`Connection::poll_event`].
    pub fn poll_handshake(&mut self) -> Option<Result<(), Lost>> {
        loop {
            match self.machine.poll()? {
                quinn_proto::Event::Connected => {
                    self.has_shaken_hands();
                    return Some(Ok(()));
                }
                quinn_proto::Event::ConnectionLost { reason } => return Some(Err(Lost::of(&reason))),
                // NOTE: whatever is said of a stream here, it is read from its beginning when it is accepted.
                _ => {}
            }
        }
    }

    /// What has happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        for direction in [Dir::Bi, Dir::Uni] {
            if let Some(stream) = self.machine.streams().accept(direction) {
                return Some(Event::Opened(number(stream)));
            }
        }
        loop {
            return Some(match self.machine.poll()? {
                quinn_proto::Event::Connected => {
                    self.has_shaken_hands();
                    Event::Connected
                }
                quinn_proto::Event::ConnectionLost { reason } => Event::Lost(Lost::of(&reason)),
                quinn_proto::Event::Stream(StreamEvent::Opened { dir }) => match self.machine.streams().accept(dir) {
                    Some(stream) => Event::Opened(number(stream)),
                    None => continue,
                },
                quinn_proto::Event::Stream(StreamEvent::Readable { id }) => Event::Readable(number(id)),
                quinn_proto::Event::Stream(StreamEvent::Writable { id }) => Event::Writable(number(id)),
                quinn_proto::Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    Event::Stopped { stream: number(id), code: error_code.into_inner() }
                }
                quinn_proto::Event::Stream(StreamEvent::Available { .. }) => Event::Available,
                quinn_proto::Event::Stream(StreamEvent::Finished { .. })
                | quinn_proto::Event::HandshakeDataReady
                | quinn_proto::Event::DatagramReceived
                | quinn_proto::Event::DatagramsUnblocked => continue,
            });
        }
    }

    fn has_shaken_hands(&mut self) {
        if std::mem::take(&mut self.is_handshaking) {
            self.endpoint.has_shaken_hands();
        }
    }

    /// Sends what there is to send, as far as that may go now. The task is woken when more may.
    pub fn flush(&mut self, now: Instant, context: &mut Context<'_>) {
        for _ in 0..TRANSMITS_MAX {
            if let Some(transmit) = &self.unsent {
                let bytes = self.output.get(..transmit.size).unwrap_or_default();
                if !self.endpoint.socket.send(transmit, bytes, context.waker()) {
                    return;
                }
            }
            self.talk_to_endpoint();
            self.output.clear();
            self.unsent = self.machine.poll_transmit(now, self.endpoint.socket.segments_max(), &mut self.output);
            if self.unsent.is_none() {
                self.talk_to_endpoint();
                return;
            }
        }
        context.waker().wake_by_ref();
    }

    fn talk_to_endpoint(&mut self) {
        while let Some(event) = self.machine.poll_endpoint_events() {
            self.is_drained |= event.is_drained();
            if let Some(answer) = self.endpoint.tell(self.handle, event) {
                self.machine.handle_event(answer);
            }
        }
    }

    /// Whether nothing is left of it.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// Whether either side has closed it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.machine.is_closed()
    }

    /// How many streams there are whose sending half is not over: until it was acknowledged to its end.
    #[must_use]
    pub fn open_streams(&mut self) -> usize {
        self.machine.streams().send_streams()
    }

    /// The code with which the client has given up a stream. Nothing is left to be read of it then.
    pub fn received_reset(&mut self, stream: u64) -> Option<u64> {
        self.machine.recv_stream(id(stream)).received_reset().ok()?.map(quinn_proto::VarInt::into_inner)
    }

    /// Reads a stream into `into`, `most` bytes at most.
    pub fn read(&mut self, stream: u64, most: usize, into: &mut Vec<u8>) -> ReadOutcome {
        let mut half = self.machine.recv_stream(id(stream));
        let Ok(mut chunks) = half.read(true) else { return ReadOutcome::Closed };
        let mut count = 0;
        let outcome = loop {
            // NOTE: asked once more when there is no room, the library would give nothing rather than tell of an end.
            if count >= most {
                break ReadOutcome::More(count);
            }
            match chunks.next(most - count) {
                Ok(Some(chunk)) => {
                    into.extend_from_slice(&chunk.bytes);
                    count += chunk.bytes.len();
                }
                Ok(None) => break ReadOutcome::End(count),
                Err(ReadError::Blocked) => break ReadOutcome::More(count),
                Err(ReadError::Reset(code)) => break ReadOutcome::Reset(code.into_inner()),
            }
        };
        // What there is to be sent about it goes with the next flush.
        let _ = chunks.finalize();
        outcome
    }

    /// Writes to a stream; how much of it was taken.
    pub fn write(&mut self, stream: u64, bytes: &[u8]) -> usize {
        let mut half = self.machine.send_stream(id(stream));
        let mut written = 0;
        // NOTE: until it says that it is blocked: it tells of room only to those who were told that there is none.
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match half.write(rest) {
                Ok(count) => written += count,
                Err(WriteError::Blocked | WriteError::Stopped(_) | WriteError::ClosedStream) => break,
            }
        }
        written
    }

    /// Nothing follows what was written to a stream.
    pub fn finish(&mut self, stream: u64) {
        match self.machine.send_stream(id(stream)).finish() {
            // One that the client has stopped has ended.
            Ok(()) | Err(FinishError::Stopped(_) | FinishError::ClosedStream) => {}
        }
    }

    /// Gives up what this end sends on a stream.
    pub fn reset(&mut self, stream: u64, why: u64) {
        let _ = self.machine.send_stream(id(stream)).reset(code(why));
    }

    /// Does not want what the client sends on a stream.
    pub fn stop(&mut self, stream: u64, why: u64) {
        let _ = self.machine.recv_stream(id(stream)).stop(code(why));
    }

    /// How soon a stream gets its turn: those with a higher number first.
    pub fn set_priority(&mut self, stream: u64, priority: i32) {
        let _ = self.machine.send_stream(id(stream)).set_priority(priority);
    }

    /// Begins a stream in one direction, if the client allows another one.
    pub fn open(&mut self) -> Option<u64> {
        self.machine.streams().open(Dir::Uni).map(number)
    }

    /// Drops the connection without telling the client. Until then the endpoint ignores what the client still sends.
    pub fn abandon(mut self, until: Instant) {
        // NOTE: the endpoint has forgotten one that is drained, and may have given its number to another one.
        if !std::mem::replace(&mut self.is_drained, true) {
            self.endpoint.abandon(self.handle, until);
        }
    }

    /// Closes the connection.
    pub fn close(&mut self, now: Instant, why: u64, reason: &str) {
        self.machine.close(now, code(why), bytes::Bytes::copy_from_slice(reason.as_bytes()));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.has_shaken_hands();
        if !self.is_drained {
            self.endpoint.tell(self.handle, EndpointEvent::drained());
        }
    }
}
