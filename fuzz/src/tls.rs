//! What TLS promises whatever comes: a first flight is judged the same however it is cut, and after a handshake nobody reads what the
//! other end has not written.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    sync::{Arc, OnceLock},
    time::Duration,
};

use tls::{
    Acceptor, Channel, ClientOptions, Connection, Connector, Entry, Failure, Progress, ServerOptions,
    ServerVerification, Sessions, temporary,
};

/// Bytes of a first flight that are looked at.
const FLIGHT_MAX: usize = 3_000;

/// Bytes that one end has on its way at most.
const UNREAD_MAX: usize = 100_000;

fn acceptor() -> &'static Arc<Acceptor> {
    static ACCEPTOR: OnceLock<Arc<Acceptor>> = OnceLock::new();
    ACCEPTOR.get_or_init(|| {
        let identity = temporary(&["localhost".to_owned()], &[]).unwrap();
        let entry = Entry {
            name: Arc::from("made"),
            identity,
            options: Arc::new(ServerOptions::default()),
            filters: Vec::new(),
            line: None,
        };
        Arc::new(Acceptor::new(&[entry], false, &Sessions::new(100, Duration::from_secs(300))).unwrap())
    })
}

fn connector() -> &'static Connector {
    static CONNECTOR: OnceLock<Connector> = OnceLock::new();
    CONNECTOR.get_or_init(|| {
        let options = ClientOptions { verification: ServerVerification::None, ..ClientOptions::default() };
        Connector::new(&options).unwrap()
    })
}

/// An end of a line: what has come, of which so much is read at a time, and what is sent.
struct End {
    incoming: VecDeque<u8>,
    cut: usize,
    outgoing: Vec<u8>,
}

impl End {
    fn new(cut: usize) -> Self {
        Self { incoming: VecDeque::new(), cut, outgoing: Vec::new() }
    }
}

impl Read for End {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.incoming.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = room.len().min(self.cut);
        self.incoming.read(&mut room[..most])
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes are what a client begins with.
pub fn hello(data: &[u8]) {
    let data = &data[..data.len().min(FLIGHT_MAX)];
    let whole = judge(data, usize::MAX);
    for cut in [1, 7] {
        assert_eq!(whole, judge(data, cut));
    }
}

/// What becomes of a handshake that begins so.
fn judge(data: &[u8], cut: usize) -> Option<String> {
    let mut channel = Channel::new(Connection::server(Arc::clone(acceptor())), &[]);
    let mut end = End::new(cut);
    end.incoming.extend(data);
    let judged = match channel.handshake(&mut end) {
        Ok(Progress::AwaitsRead) => None,
        Ok(other) => panic!("{other:?}"),
        // The first letters of a method tell HTTP.
        Err(Failure::PlainHttp | Failure::NotTls) => Some("no TLS".to_owned()),
        Err(failure) => Some(failure.to_string()),
    };
    assert!(end.outgoing.len() < 20_000, "an answer is no larger than a certificate and what goes with it");
    judged
}

/// Both ends of a connection, and what was written to the one and the other.
struct Pair {
    channels: [Channel; 2],
    ends: [End; 2],
    written: [Vec<u8>; 2],
    read: [Vec<u8>; 2],
    has_failed: [bool; 2],
    has_closed: [bool; 2],
    /// What was on its way to this end has been changed.
    is_tampered: [bool; 2],
}

impl Pair {
    fn new(cut: usize) -> Self {
        let client = Connection::client(connector(), Some("localhost"), None).unwrap();
        let server = Connection::server(Arc::clone(acceptor()));
        let mut pair = Self {
            channels: [client, server].map(|connection| Channel::new(connection, &[])),
            ends: [End::new(cut), End::new(cut)],
            written: Default::default(),
            read: Default::default(),
            has_failed: [false; 2],
            has_closed: [false; 2],
            is_tampered: [false; 2],
        };
        while pair.channels.iter().any(Channel::is_handshaking) {
            for side in [0, 1] {
                pair.channels[side].handshake(&mut pair.ends[side]).unwrap();
                pair.carry(side, usize::MAX);
            }
        }
        pair
    }

    /// Moves so many bytes to the other end.
    fn carry(&mut self, from: usize, most: usize) {
        let count = self.ends[from].outgoing.len().min(most);
        let moved: Vec<u8> = self.ends[from].outgoing.drain(..count).collect();
        self.ends[1 - from].incoming.extend(moved);
    }

    fn write(&mut self, side: usize, count: usize) {
        if self.has_failed[side] || self.has_closed[side] || self.ends[side].outgoing.len() > UNREAD_MAX {
            return;
        }
        let from = self.written[side].len();
        let bytes: Vec<u8> = (from..from + count).map(|at| (at * 31 + side) as u8).collect();
        let (first, second) = bytes.split_at(count / 3);
        match self.channels[side].write(&mut self.ends[side], first, second) {
            Ok(count) => self.written[side].extend_from_slice(&bytes[..count]),
            Err(_) => self.has_failed[side] = true,
        }
    }

    fn read(&mut self, side: usize) {
        let mut room = [0; 5_000];
        for _ in 0..100 {
            if self.has_failed[side] {
                return;
            }
            match self.channels[side].read(&mut self.ends[side], &mut room) {
                Ok(0) => {
                    assert!(
                        self.has_closed[1 - side] && self.read[side] == self.written[1 - side],
                        "an end is no other's"
                    );
                    return;
                }
                Ok(count) => self.read[side].extend_from_slice(&room[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    assert!(self.is_tampered[side] || self.is_tampered[1 - side], "nothing was changed");
                    self.has_failed[side] = true;
                }
            }
        }
        assert!(self.written[1 - side].starts_with(&self.read[side]), "what was read was written");
    }
}

/// The bytes are what two ends do after a handshake, and what becomes of their records on the way.
pub fn records(data: &[u8]) {
    let Some((&cut, mut data)) = data.split_first() else { return };
    let mut pair = Pair::new(if cut == 0 { usize::MAX } else { usize::from(cut) });
    while let [what, much, rest @ ..] = data {
        data = rest;
        let (side, much) = (usize::from(what & 1), usize::from(*much));
        match (what >> 1) % 8 {
            0 | 1 => pair.write(side, much),
            2 => pair.write(side, much * 257),
            3 | 4 => {
                pair.carry(side, 1 + much * much);
                pair.read(1 - side);
            }
            5 if !pair.has_failed[side] => {
                let _ = pair.channels[side].close(&mut pair.ends[side]);
                pair.has_closed[side] = true;
            }
            6 => {
                let waiting = &mut pair.ends[side].outgoing;
                if !waiting.is_empty() {
                    let at = much * 7 % waiting.len();
                    waiting[at] ^= 1 << (much % 8);
                    pair.is_tampered[1 - side] = true;
                }
            }
            7 => {
                let (said, behind) = data.split_at(data.len().min(much % 40));
                data = behind;
                pair.is_tampered[1 - side] |= !said.is_empty();
                pair.ends[side].outgoing.extend_from_slice(said);
            }
            _ => {}
        }
    }
    // What is on its way arrives, and is all there is if nobody has changed it.
    for _ in 0..3 {
        for side in [0, 1] {
            pair.carry(side, usize::MAX);
            pair.read(1 - side);
        }
    }
    for side in [0, 1] {
        if pair.is_tampered == [false; 2] && !pair.has_failed[side] {
            assert_eq!(pair.read[side].len(), pair.written[1 - side].len());
        }
    }
}
