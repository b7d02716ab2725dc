//! The least that a server on epoll can do: what it costs is what the kernel costs, and no proxy or store in its place can cost
//! less. `bench/run.py` and `bench/store.py` run it beside the others (`--floor PATH`), so that a figure that is aimed at can be
//! held against what is there to be had.
//!
//! `floor relay PORT ORIGIN...` gives each client a connection to one of the origins (ports of this machine) in turn, and sends on
//! what comes from either side. `floor http PORT` and `floor resp PORT` send the same answer to whatever they receive.
//!
//! One thread; each socket is registered once, edge-triggered. A message takes one call to receive and one to send: nothing is
//! parsed, counted, timed or logged. What a full socket does not take is lost, so this is for small messages alone.

use std::{
    env,
    error::Error,
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
};

use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    net::{RecvFlags, SendFlags, recv, send},
};

const BUFFER: usize = 16 * 1024;
const EVENTS_MAX: usize = 256;
const LISTENER: u64 = u64::MAX;
const HTTP: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\ncontent-type: text/plain\r\n\r\nhello from the edge\n";
const RESP: &[u8] = b"$3\r\nxxx\r\n";

/// Where what a socket receives goes.
enum Target {
    Socket(usize),
    Answer(&'static [u8]),
}

struct Server {
    epoll: OwnedFd,
    /// By the number of their sockets in epoll.
    sockets: Vec<Option<(TcpStream, Target)>>,
    origins: Vec<u16>,
    answer: &'static [u8],
    clients: usize,
}

impl Server {
    fn add(&mut self, stream: TcpStream, target: Target) -> Result<(), Box<dyn Error>> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &stream, EventData::new_u64(self.sockets.len() as u64), flags)?;
        self.sockets.push(Some((stream, target)));
        Ok(())
    }

    fn accept(&mut self, client: TcpStream) -> Result<(), Box<dyn Error>> {
        let number = self.sockets.len();
        let Some(origin) = self.origins.get(self.clients % self.origins.len().max(1)) else {
            return self.add(client, Target::Answer(self.answer));
        };
        // Who only looks whether something listens here may come before the origin does.
        let Ok(server) = TcpStream::connect(("127.0.0.1", *origin)) else { return Ok(()) };
        self.clients += 1;
        self.add(client, Target::Socket(number + 1))?;
        self.add(server, Target::Socket(number))
    }

    /// Receives once: as the buffer has more room than a message is long, the socket is empty then.
    fn receive(&mut self, number: usize, buffer: &mut [u8]) {
        let Some(Some((stream, target))) = self.sockets.get(number) else { return };
        let length = match recv(stream, &mut *buffer, RecvFlags::empty()) {
            Ok((length, _)) => length,
            Err(rustix::io::Errno::AGAIN) => return,
            Err(_) => 0,
        };
        let bytes = match target {
            Target::Answer(answer) if length > 0 => Some((stream, *answer)),
            Target::Answer(_) => None,
            Target::Socket(other) => match self.sockets.get(*other) {
                Some(Some((other, _))) => {
                    buffer.get(..length).filter(|bytes| !bytes.is_empty()).map(|bytes| (other, bytes))
                }
                _ => None,
            },
        };
        match bytes {
            // A client that has gone is closed when its own end is received.
            Some((to, bytes)) => drop(send(to, bytes, SendFlags::NOSIGNAL)),
            None => self.close(number),
        }
    }

    fn close(&mut self, number: usize) {
        let closed = self.sockets.get_mut(number).and_then(Option::take);
        if let Some((_, Target::Socket(other))) = closed
            && let Some(other) = self.sockets.get_mut(other)
        {
            *other = None;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "floor relay PORT ORIGIN... | floor http PORT | floor resp PORT";
    let words: Vec<String> = env::args().skip(1).collect();
    let [mode, port, origins @ ..] = words.as_slice() else { return Err(usage.into()) };
    let answer = match (mode.as_str(), origins) {
        ("relay", [_, ..]) => HTTP,
        ("http", []) => HTTP,
        ("resp", []) => RESP,
        _ => return Err(usage.into()),
    };
    let origins = origins.iter().map(|port| port.parse()).collect::<Result<Vec<u16>, _>>()?;
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?))?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut server = Server { epoll, sockets: Vec::new(), origins, answer, clients: 0 };
    let mut buffer = vec![0; BUFFER];
    let mut events = Vec::with_capacity(EVENTS_MAX);
    loop {
        events.clear();
        if epoll::wait(&server.epoll, spare_capacity(&mut events), None) == Err(rustix::io::Errno::INTR) {
            continue;
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => {
                    while let Ok((client, _)) = listener.accept() {
                        server.accept(client)?;
                    }
                }
                number => server.receive(number as usize, &mut buffer),
            }
        }
    }
}
