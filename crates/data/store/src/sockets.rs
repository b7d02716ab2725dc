//! A shard's sockets, and how other clients are served while a script is busy.

use std::{cell::Cell, collections::VecDeque, io, rc::Rc, time::Duration};

use commands::{Server, SessionId, session::Close};
use keyspace::Millis;
use mio::{Events, Interest, Poll, Token, net::TcpStream};
use rustc_hash::{FxHashMap, FxHashSet};
use slab::Slab;

use crate::{
    clock,
    connection::{Connection, Holds, ReadOutcome},
    lanes::{Event as LaneEvent, Lanes},
    listener::{Listener, Place, Stream},
    messages,
    secure::CurrentSecurity,
    signals::Signals,
};

/// Tokens from here on are listeners.
pub const FIRST_LISTENER: usize = usize::MAX / 2;
/// Another thread has something for the loop.
pub const WAKER: Token = Token(usize::MAX - 1);
/// A signal has come.
pub const SIGNALS: Token = Token(usize::MAX - 2);
/// Bytes of one read.
const READ_LEN: usize = 64 * 1024;
/// How often one client is read from while a script is busy, before others are and the script goes on.
const READS_WHILE_BUSY: usize = 4;
/// Events of one look while a script is busy.
const BUSY_EVENTS_MAX: usize = 128;

/// How long a client may take to agree on TLS.
const HANDSHAKE_MS: Millis = 10_000;

/// Why a client is not let in, and what it is told.
enum Refusal {
    /// There are as many as there may be.
    TooMany(&'static str),
    /// It is not of this machine, and there is no password.
    Protected(&'static str),
}

/// All sockets of a shard.
pub struct Sockets {
    pub poll: Poll,
    /// By the number in their tokens; closed ones leave their place empty.
    listeners: Vec<Option<Listener>>,
    /// What clients speak TLS with.
    security: CurrentSecurity,
    /// When handshakes are to be done, the first one first.
    handshakes: VecDeque<(Millis, SessionId)>,
    pub signals: Signals,
    /// Connections that the loop itself reads and writes.
    pub connections: Slab<Connection>,
    /// Threads that have other connections, if there are any.
    pub lanes: Option<Box<Lanes>>,
    /// The connections of sessions.
    pub tokens: FxHashMap<SessionId, usize>,
    /// Where reads go first.
    pub scratch: Vec<u8>,
    /// Connections that are answered while a script is busy: what they have to be sent is all from that time.
    answered: FxHashSet<usize>,
    /// Connections that sent something then and cannot be answered before the script ends.
    later: Vec<usize>,
    /// The same for sessions of lanes.
    later_remote: Vec<SessionId>,
    /// Sessions that could be sent more then, and have nothing that may be sent before the script ends.
    writable: Vec<SessionId>,
    /// All have been looked at since the script is busy.
    looked_at: bool,
    /// What was done before the command in run needs not wait for the log: its replies can be sent while it runs.
    is_settled: Rc<Cell<bool>>,
}

impl Sockets {
    /// Those of a shard without clients.
    pub fn new(
        poll: Poll,
        (mut listeners, security): (Vec<Listener>, CurrentSecurity),
        signals: Signals,
        lanes: Option<Box<Lanes>>,
        is_settled: Rc<Cell<bool>>,
    ) -> io::Result<Self> {
        for (index, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener, Token(FIRST_LISTENER + index), Interest::READABLE)?;
        }
        Ok(Self {
            poll,
            listeners: listeners.into_iter().map(Some).collect(),
            security,
            handshakes: VecDeque::new(),
            signals,
            connections: Slab::new(),
            lanes,
            tokens: FxHashMap::default(),
            scratch: vec![0; READ_LEN],
            answered: FxHashSet::default(),
            later: Vec::new(),
            later_remote: Vec::new(),
            writable: Vec::new(),
            looked_at: false,
            is_settled,
        })
    }

    /// What a session's replies wait for.
    pub fn holds(&mut self, session: SessionId) -> Option<&mut Holds> {
        match self.tokens.get(&session) {
            Some(token) => self.connections.get_mut(*token).map(|connection| &mut connection.holds),
            None => self.lanes.as_mut().and_then(|lanes| lanes.remote(session)).map(|remote| &mut remote.holds),
        }
    }

    /// Takes over new listeners and closes those whose addresses are not wanted any more.
    pub fn listen_elsewhere(&mut self, opened: Vec<Listener>, wanted: &[Place]) -> io::Result<()> {
        for listener in &mut self.listeners {
            let Some(place) = listener.as_ref().and_then(Listener::place) else { continue };
            match wanted.iter().find(|wanted| wanted.address == place.address) {
                Some(wanted) => {
                    if let Some(listener) = listener {
                        listener.speak(wanted.transport);
                    }
                }
                None => {
                    if let Some(mut closed) = listener.take() {
                        let _ = self.poll.registry().deregister(&mut closed);
                    }
                }
            }
        }
        for mut listener in opened {
            let place = self.listeners.iter().position(Option::is_none).unwrap_or(self.listeners.len());
            self.poll.registry().register(&mut listener, Token(FIRST_LISTENER + place), Interest::READABLE)?;
            match self.listeners.get_mut(place) {
                Some(empty) => *empty = Some(listener),
                None => self.listeners.push(Some(listener)),
            }
        }
        Ok(())
    }

    /// Lets new clients in.
    pub fn accept(&mut self, index: usize, server: &mut Server, now: Millis) {
        while let Some(Some(listener)) = self.listeners.get(index) {
            match listener.accept(&self.security) {
                Ok(accepted) => {
                    let mut stream = accepted.stream;
                    if let Some(refusal) = self.refusal(server, accepted.is_local) {
                        server.statistics_mut().refused_connections += 1;
                        match (&mut stream, refusal) {
                            // It can be told so once TLS is agreed on; one too many is not even let come so far, as in Redis.
                            (Stream::Secure(client), Refusal::Protected(text)) => client.refuse(text),
                            (Stream::Secure(_), Refusal::TooMany(_)) => continue,
                            (_, Refusal::Protected(text) | Refusal::TooMany(text)) => {
                                // What does not fit into the socket's buffer is of no use to anybody.
                                let _ = io::Write::write(&mut stream, text.as_bytes());
                                continue;
                            }
                        }
                    }
                    if let Some(stream) = stream.tcp() {
                        keep_alive(server, stream);
                    }
                    let is_secure = matches!(stream, Stream::Secure(_));
                    let own = self.connections.len();
                    if let Some(lanes) = self.lanes.as_mut().filter(|lanes| lanes.takes_next(own)) {
                        let session = server.connect(accepted.address, accepted.local_address, now);
                        server.set_descriptor(session, stream.descriptor());
                        lanes.open(session, stream);
                        self.await_handshake(is_secure, session, now);
                        continue;
                    }
                    let entry = self.connections.vacant_entry();
                    let token = Token(entry.key());
                    let both = Interest::READABLE | Interest::WRITABLE;
                    if self.poll.registry().register(&mut stream, token, both).is_err() {
                        continue;
                    }
                    let session = server.connect(accepted.address, accepted.local_address, now);
                    server.set_descriptor(session, stream.descriptor());
                    self.tokens.insert(session, token.0);
                    entry.insert(Connection::new(stream, session));
                    self.await_handshake(is_secure, session, now);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn await_handshake(&mut self, is_secure: bool, session: SessionId, now: Millis) {
        if is_secure {
            self.handshakes.push_back((now + HANDSHAKE_MS, session));
        }
    }

    /// Closes clients that have not agreed on TLS in time.
    pub fn end_late_handshakes(&mut self, server: &mut Server, now: Millis) {
        while let Some((_, session)) = self.handshakes.pop_front_if(|(due, _)| *due <= now) {
            match self.tokens.get(&session).copied() {
                Some(token) => {
                    let connection = self.connections.get_mut(token);
                    if connection.is_some_and(|connection| connection.stream().gives_up_handshake()) {
                        self.close(token, server);
                    }
                }
                None => {
                    if let Some(lanes) = &mut self.lanes {
                        lanes.end_handshake(session);
                    }
                }
            }
        }
    }

    /// Gives a client of the loop to a lane, if there are some and nothing is on its way to it. Whether it is one of a lane now.
    pub fn give_to_lane(&mut self, token: usize, server: &mut Server) -> bool {
        let (Some(lanes), Some(connection)) = (&mut self.lanes, self.connections.get(token)) else { return false };
        let session = connection.session;
        if !connection.is_movable() || server.output(session).is_none_or(|(output, _)| !output.is_empty()) {
            return false;
        }
        let mut stream = self.connections.remove(token).into_stream();
        // What it has sent is told to the lane when it begins to watch the socket.
        let _ = self.poll.registry().deregister(&mut stream);
        self.tokens.remove(&session);
        lanes.open(session, stream);
        true
    }

    /// Takes the socket of a client away, whose session stays: somebody else serves it from now on. One of a lane comes later, by
    /// [`take_released`](Self::take_released).
    pub fn take_stream(&mut self, session: SessionId) -> Option<Stream> {
        let Some(token) = self.tokens.remove(&session) else {
            self.lanes.as_mut()?.release(session);
            return None;
        };
        let mut stream = self.connections.try_remove(token)?.into_stream();
        let _ = self.poll.registry().deregister(&mut stream);
        self.answered.remove(&token);
        Some(stream)
    }

    /// The sockets of lanes that were taken away.
    pub fn take_released(&mut self) -> Vec<(SessionId, Stream)> {
        self.lanes.as_mut().map(|lanes| lanes.take_released()).unwrap_or_default()
    }

    /// Why a client is not let in.
    fn refusal(&self, server: &Server, is_local: bool) -> Option<Refusal> {
        let settings = server.settings();
        let count = self.connections.len() + self.lanes.as_ref().map_or(0, |lanes| lanes.len());
        if count as i64 >= settings.maxclients.0 {
            return Some(Refusal::TooMany("-ERR max number of clients reached\r\n"));
        }
        let is_open = server.lets_anybody_in() && settings.protected_mode.0;
        (is_open && !is_local).then_some(Refusal::Protected(
            "-DENIED Tidegate is running in protected mode because protected mode is enabled and no password is set for the \
             default user. In this mode connections are only accepted from the loopback interface. Set a password \
             (requirepass), or send CONFIG SET protected-mode no from the loopback interface.\r\n",
        ))
    }

    /// Sends what there is to send to a session's client.
    pub fn send(&mut self, session: SessionId, server: &mut Server) {
        let Some(token) = self.tokens.get(&session).copied() else {
            if let Some(lanes) = &mut self.lanes {
                lanes.send(session, server);
            }
            return;
        };
        // Another node may serve by now: whoever asked is not to be told what has become of it.
        if server.lease_left(session).is_some_and(|left| left.is_zero()) {
            return self.close(token, server);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        let Some((output, close)) = server.output(session) else { return };
        let before = output.len();
        let alive = close != Close::Now && (connection.write_blocked || connection.write(output));
        let (sent, is_empty) = (before - output.len(), output.is_empty());
        if sent > 0 {
            let statistics = server.statistics_mut();
            statistics.writes += 1;
            statistics.output_bytes += sent as u64;
        }
        let is_read = connection.is_read;
        if !alive || close == Close::AfterOutput && is_empty || is_read && !server.owes_replies(session) {
            self.close(token, server);
        }
    }

    /// The client has sent all it will: the connection is closed once the replies to that have been sent.
    pub fn end(&mut self, token: usize, server: &mut Server) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.is_read = true;
        if !server.owes_replies(connection.session) {
            self.close(token, server);
        }
    }

    /// Closes a session's connection, whoever reads and writes it, and ends the session.
    pub fn close_session(&mut self, session: SessionId, server: &mut Server) {
        match self.tokens.get(&session).copied() {
            Some(token) => self.close(token, server),
            None => {
                if let Some(lanes) = &mut self.lanes {
                    lanes.close(session, server);
                }
            }
        }
    }

    /// Closes a connection and ends its session.
    pub fn close(&mut self, token: usize, server: &mut Server) {
        let Some(mut connection) = self.connections.try_remove(token) else { return };
        let _ = self.poll.registry().deregister(connection.stream());
        self.tokens.remove(&connection.session);
        self.answered.remove(&token);
        server.disconnect(connection.session);
    }

    /// Reads and answers clients that have sent something, without waiting for any: a script is busy. It has the keys, so
    /// nearly every command is refused, none changes anything, and nothing that is answered has to wait for the log. Clients
    /// that have other replies to come which do, or whose script it is, are left alone until it ends.
    pub fn serve_while_busy(&mut self, server: &mut Server) {
        let mut events = Events::with_capacity(BUSY_EVENTS_MAX);
        if self.poll.poll(&mut events, Some(Duration::ZERO)).is_err() {
            return;
        }
        let now = clock::now();
        if !std::mem::replace(&mut self.looked_at, true) {
            // What became ready in the turn that the script runs in was told to the loop, and is not told again.
            (0..self.listeners.len()).for_each(|index| self.accept(index, server, now));
            let tokens: Vec<usize> = self.connections.iter().map(|(token, _)| token).collect();
            if self.is_settled.get() {
                tokens.iter().for_each(|token| self.send_before_busy(*token, server));
            }
            tokens.into_iter().for_each(|token| self.serve_one_while_busy(token, server, now));
            self.look_at_lanes(server);
        }
        self.serve_lanes_while_busy(server, now);
        for event in &events {
            match event.token() {
                WAKER => {}
                SIGNALS => {
                    if self.signals.received().is_some() {
                        messages::warn("a script is busy: the store ends without it, and without a checkpoint");
                        server.shutdown_mut().without_checkpoint = true;
                        server.shutdown_mut().is_asked = true;
                    }
                }
                Token(token) if token >= FIRST_LISTENER => self.accept(token - FIRST_LISTENER, server, now),
                Token(token) => {
                    let Some(connection) = self.connections.get_mut(token) else { continue };
                    connection.sends_no_more |= event.is_read_closed();
                    if event.is_writable() {
                        connection.write_blocked = false;
                        let session = connection.session;
                        if self.answered.contains(&token) {
                            self.send(session, server);
                        } else {
                            self.writable.push(session);
                        }
                    }
                    let goes_on =
                        event.is_writable() && self.connections.get_mut(token).is_some_and(Connection::has_unsent);
                    if event.is_readable() || event.is_read_closed() || goes_on {
                        self.serve_one_while_busy(token, server, now);
                    }
                }
            }
        }
    }

    /// Sends a client the replies of the turn that the script runs in.
    fn send_before_busy(&mut self, token: usize, server: &mut Server) {
        let Some(connection) = self.connections.get(token).filter(|connection| !connection.holds.any()) else { return };
        let session = connection.session;
        if server.output(session).is_some_and(|(output, _)| !output.is_empty()) {
            self.answered.insert(token);
            self.send(session, server);
        }
    }

    fn serve_one_while_busy(&mut self, token: usize, server: &mut Server, now: Millis) {
        for _ in 0..READS_WHILE_BUSY {
            let Some(connection) = self.connections.get_mut(token) else { return };
            let session = connection.session;
            let has_more_to_come = match server.output(session) {
                Some((output, _)) => !output.is_empty(),
                None => true,
            };
            if connection.holds.any() || has_more_to_come && !self.answered.contains(&token) {
                self.later.push(token);
                return;
            }
            let Some(input) = server.input(session) else { return };
            let outcome = connection.read(&mut self.scratch, input);
            let has_ended = connection.sends_no_more;
            if outcome == ReadOutcome::Closed {
                self.end(token, server);
                return;
            }
            self.answered.insert(token);
            server.run(session, now);
            self.send(session, server);
            if outcome == ReadOutcome::Drained && !has_ended {
                return;
            }
        }
        self.later.push(token);
    }

    /// Has clients of lanes get the replies of the turn that the script runs in. What the script's own client sends waits.
    fn look_at_lanes(&mut self, server: &mut Server) {
        let Some(lanes) = &mut self.lanes else { return };
        if let Some(running) = &server.scripting().running {
            lanes.stop(running.session);
            self.later_remote.push(running.session);
        }
        for session in lanes.sessions() {
            let Some(remote) = lanes.remote(session).filter(|remote| self.is_settled.get() && !remote.holds.any())
            else {
                continue;
            };
            if server.output(session).is_some_and(|(output, _)| !output.is_empty()) {
                remote.answered = true;
                lanes.send(session, server);
            }
        }
    }

    /// The same for clients of lanes.
    fn serve_lanes_while_busy(&mut self, server: &mut Server, now: Millis) {
        let Some(lanes) = &mut self.lanes else { return };
        loop {
            while let Some((session, event)) = lanes.next(server) {
                let has_more_to_come = server.output(session).is_none_or(|(output, _)| !output.is_empty());
                let Some(remote) = lanes.remote(session) else { continue };
                let may_be_answered = !remote.holds.any() && (remote.answered || !has_more_to_come);
                match event {
                    LaneEvent::Input if may_be_answered => {
                        remote.answered = true;
                        server.run(session, now);
                        lanes.send(session, server);
                    }
                    LaneEvent::Input => {
                        lanes.stop(session);
                        self.later_remote.push(session);
                    }
                    LaneEvent::Writable if may_be_answered => lanes.send(session, server),
                    LaneEvent::Writable => self.writable.push(session),
                }
            }
            // What ended is told to the loop when the script has ended.
            let _ = lanes.hand_over(server);
            if lanes.collect().is_err() || !lanes.has_inbox() {
                return;
            }
        }
    }

    /// The script has ended: gives the sessions that have to be read now, and those that may be sent more.
    #[inline]
    pub fn take_later(&mut self, server: &mut Server, sessions: &mut Vec<SessionId>, writable: &mut Vec<SessionId>) {
        if !std::mem::take(&mut self.looked_at) {
            return;
        }
        self.answered.clear();
        writable.append(&mut self.writable);
        if let Some(lanes) = &mut self.lanes {
            lanes.take_aside(server, sessions);
            lanes.forget_answered();
            // Those that are held are marked as such when they are to be run.
            sessions.append(&mut self.later_remote);
        }
        for token in self.later.drain(..) {
            match self.connections.get_mut(token) {
                Some(connection) if connection.holds.any() => connection.read_pending = true,
                Some(connection) => sessions.push(connection.session),
                None => {}
            }
        }
    }
}

/// Has the kernel probe a connection that is silent (`tcp-keepalive`).
fn keep_alive(server: &Server, stream: &TcpStream) {
    let seconds = server.settings().tcp_keepalive.0.unsigned_abs();
    if seconds == 0 {
        return;
    }
    use rustix::net::sockopt;
    // The kernel may know no such option: then nothing is probed, and nothing else is lost.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(seconds));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs((seconds / 3).max(1)));
    let _ = sockopt::set_tcp_keepcnt(stream, 3);
}
