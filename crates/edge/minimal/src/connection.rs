//! One client: the bytes that it has sent, and those that it is still to get.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    os::fd::OwnedFd,
    time::Instant,
};

use http::{
    HeaderId, Limits, Parsed, RequestHead, RequestParser, ResponseHead, http_date, keep_alive, request_body_length,
};
use rustix::{fs::sendfile, io::Errno};
use web::range::Piece;

use crate::site::{Payload, Site, has_body, now, refuse};

/// Bytes of a head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of a file that one client gets before others have their turn.
const TURN_BYTES: u64 = 1 << 20;

/// Bytes that a client may send after its last answer.
const UNREAD_BYTES_MAX: usize = 1 << 20;
/// Requests of one client that are answered before others have their turn.
const TURN_REQUESTS: usize = 16;

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// To send more.
    Read,
    /// To receive more.
    Write,
    /// Nothing: it is over.
    End,
}

/// A client's connection.
pub struct Connection {
    /// Its socket.
    pub socket: TcpStream,
    /// When it last got something, or a request was whole: who sends a head byte by byte moves nothing.
    pub moved: Instant,
    received: Vec<u8>,
    parser: RequestParser,
    output: Vec<u8>,
    sent: usize,
    file: Option<(OwnedFd, VecDeque<Piece>)>,
    goes_on: bool,
    /// The last answer has been sent; how many bytes of the client are still taken.
    unread: Option<usize>,
}

/// What all connections use in turn.
pub struct Workspace {
    limits: Limits,
    request: RequestHead,
    response: ResponseHead,
    room: Box<[u8]>,
}

impl Workspace {
    /// One.
    pub fn new() -> Self {
        let limits = Limits { head_bytes_max: HEAD_BYTES_MAX, ..Limits::default() };
        Self {
            limits,
            request: RequestHead::default(),
            response: ResponseHead::default(),
            room: vec![0; HEAD_BYTES_MAX].into(),
        }
    }
}

impl Connection {
    /// One that has sent nothing. It has no memory before it does.
    pub fn new(socket: TcpStream, now: Instant) -> Self {
        Self {
            socket,
            moved: now,
            received: Vec::new(),
            parser: RequestParser::new(),
            output: Vec::new(),
            sent: 0,
            file: None,
            goes_on: true,
            unread: None,
        }
    }

    /// Goes on as far as the socket lets it.
    pub fn turn(&mut self, site: &Site, space: &mut Workspace, at: Instant) -> Wants {
        for _ in 0..TURN_REQUESTS {
            if self.is_sending() {
                match self.send(at) {
                    Wants::Read => {}
                    other => return other,
                }
            }
            if self.unread.is_some() {
                return self.linger(&mut space.room);
            }
            match self.receive(site, space) {
                Wants::Write => self.moved = at,
                other => return other,
            }
        }
        // It goes on when others have had their turn: there is room to send.
        Wants::Write
    }

    fn is_sending(&self) -> bool {
        self.sent < self.output.len() || self.file.is_some()
    }

    /// Receives, and answers if a head is whole.
    fn receive(&mut self, site: &Site, space: &mut Workspace) -> Wants {
        loop {
            if !self.received.is_empty() {
                match self.parser.parse(&self.received, &space.limits, &mut space.request) {
                    Ok(Parsed::Complete { consumed }) => {
                        self.received.drain(..consumed);
                        if self.received.is_empty() {
                            self.received = Vec::new();
                        }
                        self.answer(site, space);
                        return Wants::Write;
                    }
                    Ok(Parsed::Incomplete) if self.received.len() < HEAD_BYTES_MAX => {}
                    _ => {
                        self.goes_on = false;
                        space.response.clear();
                        let payload = refuse(&mut space.response, 400);
                        self.write(&mut space.response, payload, true);
                        return Wants::Write;
                    }
                }
            }
            match self.socket.read(&mut space.room) {
                Ok(0) => return Wants::End,
                Ok(count) => self.received.extend_from_slice(space.room.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Wants::Read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Wants::End,
            }
        }
    }

    fn answer(&mut self, site: &Site, space: &mut Workspace) {
        space.response.clear();
        let request = &space.request;
        // What it sends behind its head is nothing that we read: the connection ends.
        self.goes_on = keep_alive(request.version(), &request.headers)
            && request.version() == http::Version::Http11
            && request_body_length(request).is_empty();
        let payload = site.answer(request, &mut space.response);
        self.write(&mut space.response, payload, has_body(request));
    }

    fn write(&mut self, response: &mut ResponseHead, payload: Payload, has_body: bool) {
        response.headers.add_known(HeaderId::Date, &http_date(now().cast_unsigned()));
        if !self.goes_on {
            response.headers.add_known(HeaderId::Connection, b"close");
        }
        response.write_to(&mut self.output);
        match payload {
            Payload::Bytes(bytes) if has_body => self.output.extend_from_slice(&bytes),
            Payload::File(file, pieces) => self.file = Some((file, pieces)),
            Payload::Bytes(_) | Payload::None => {}
        }
    }

    /// Sends as far as the socket takes it.
    fn send(&mut self, at: Instant) -> Wants {
        let mut turn = TURN_BYTES;
        loop {
            while let Some(rest) = self.output.get(self.sent..).filter(|rest| !rest.is_empty()) {
                // More is to come: the head goes with the file's first bytes.
                match self.socket.write(rest) {
                    Ok(count) => {
                        self.sent += count;
                        self.moved = at;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Wants::Write,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return Wants::End,
                }
            }
            self.output.clear();
            self.sent = 0;
            let Some((file, pieces)) = &mut self.file else { break };
            match pieces.front_mut() {
                None => self.file = None,
                Some(Piece::Text(text)) => {
                    self.output = std::mem::take(text);
                    pieces.pop_front();
                }
                Some(Piece::File(span)) if span.is_empty() => drop(pieces.pop_front()),
                Some(Piece::File(_)) if turn == 0 => return Wants::Write,
                Some(Piece::File(span)) => {
                    let most = usize::try_from(span.len().min(turn)).unwrap_or(usize::MAX);
                    match sendfile(&self.socket, &*file, Some(&mut span.start), most) {
                        // The file has become shorter: what was announced cannot be sent.
                        Ok(0) => return Wants::End,
                        Ok(count) => {
                            turn = turn.saturating_sub(count as u64);
                            self.moved = at;
                        }
                        Err(Errno::AGAIN) => return Wants::Write,
                        Err(Errno::INTR) => {}
                        Err(_) => return Wants::End,
                    }
                }
            }
        }
        // An idle connection has no memory.
        self.output = Vec::new();
        if !self.goes_on && self.unread.is_none() {
            self.unread = Some(UNREAD_BYTES_MAX);
            let _ = self.socket.shutdown(Shutdown::Write);
        }
        Wants::Read
    }

    /// Takes what the client still sends after its last answer, and drops it: were the socket closed before, the system would tell the client
    /// of a reset, and the answer could be lost.
    fn linger(&mut self, room: &mut [u8]) -> Wants {
        while let Some(left) = self.unread.filter(|left| *left > 0) {
            match self.socket.read(room) {
                Ok(0) => return Wants::End,
                Ok(count) => self.unread = Some(left.saturating_sub(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Wants::Read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Wants::End,
            }
        }
        Wants::End
    }
}
