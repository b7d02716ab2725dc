//! `log-forward` sections: lines come in over UDP and TCP and go to the section's targets.

use std::{
    cell::RefCell,
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};

use haproxycfg::model::{BindAddress, LogForward};
use tokio::{
    io::AsyncReadExt as _,
    sync::Semaphore,
    task::{JoinHandle, spawn_local},
    time::timeout,
};

use super::{
    message::{Framed, Message, framed},
    output::Outputs,
    sender::LogSender,
    targets::{Identity, LogTargets},
};

/// Most bytes of a line.
const LINE_BYTES_MAX: usize = 65_536;
/// Bytes read from a stream at a time.
const READ_LEN: usize = 16 * 1024;
/// Lines that are taken before others get their turn.
const LINES_AT_ONCE: usize = 64;
/// Connections that may wait to be accepted, unless `backlog` says otherwise.
const BACKLOG: u32 = 1_024;

/// A socket that lines come in through.
#[derive(Debug)]
enum Socket {
    Datagrams(UdpSocket),
    Streams(TcpListener),
}

/// Sockets of all sections: kept over reloads, as lines in their queues would be lost otherwise.
#[derive(Debug, Default)]
pub struct Receivers {
    sockets: Vec<(SocketAddr, Socket)>,
    tasks: Vec<JoinHandle<()>>,
}

impl Receivers {
    /// Opens what these sections need and is not open yet, and closes what they do not need.
    ///
    /// # Errors
    /// When an address cannot be bound; nothing has changed then.
    pub fn open(&mut self, sections: &[LogForward]) -> Result<(), String> {
        let mut opened = Vec::new();
        let wanted: Vec<(SocketAddr, bool, Option<u32>, &str)> = sections.iter().flat_map(addresses).collect();
        for (address, is_stream, backlog, section) in &wanted {
            let is_open = |(known, socket): &(SocketAddr, Socket)| {
                known == address && matches!(socket, Socket::Streams(_)) == *is_stream
            };
            if !self.sockets.iter().any(is_open) && !opened.iter().any(is_open) {
                let socket = bind(*address, *is_stream, backlog.unwrap_or(BACKLOG)).map_err(|error| {
                    format!("Starting log-forward {section}: cannot bind socket ({error}) [{address}]")
                })?;
                opened.push((*address, socket));
            }
        }
        self.sockets.extend(opened);
        self.sockets.retain(|(known, socket)| {
            wanted.iter().any(|(address, is_stream, _, _)| {
                known == address && matches!(socket, Socket::Streams(_)) == *is_stream
            })
        });
        Ok(())
    }

    /// Receives for these sections from now on.
    pub fn start(&mut self, sections: &[LogForward], identity: &Identity, outputs: &Arc<Outputs>) {
        self.stop();
        for section in sections {
            let forward = Rc::new(Forward {
                targets: LogTargets::new(&section.logs, None, identity, outputs),
                sender: RefCell::new(LogSender::new(Arc::clone(outputs))),
                silence_max: section.timeout_client,
            });
            let places = Arc::new(Semaphore::new(section.maxconn.max(1) as usize));
            for (address, is_stream, _, _) in addresses(section) {
                for (known, socket) in &self.sockets {
                    let task = match socket {
                        Socket::Datagrams(socket) if !is_stream && *known == address => socket
                            .try_clone()
                            .and_then(tokio::net::UdpSocket::from_std)
                            .map(|socket| spawn_local(datagrams(socket, Rc::clone(&forward)))),
                        Socket::Streams(socket) if is_stream && *known == address => socket
                            .try_clone()
                            .and_then(tokio::net::TcpListener::from_std)
                            .map(|socket| spawn_local(streams(socket, Rc::clone(&forward), Arc::clone(&places)))),
                        _ => continue,
                    };
                    self.tasks.extend(task.ok());
                }
            }
        }
    }

    /// Receives no more.
    pub fn stop(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
        }
    }
}

fn addresses(section: &LogForward) -> impl Iterator<Item = (SocketAddr, bool, Option<u32>, &str)> {
    let streams = section.binds.iter().filter_map(|bind| match bind.address {
        BindAddress::Inet(address) => Some((address, true)),
        _ => None,
    });
    let datagrams = section.datagram_binds.iter().map(|address| (*address, false));
    streams.chain(datagrams).map(|(address, is_stream)| (address, is_stream, section.backlog, &*section.name))
}

/// NOTE: with `SO_REUSEPORT`, so that the process that takes this one's place can bind while this one still drains.
fn bind(address: SocketAddr, is_stream: bool, backlog: u32) -> io::Result<Socket> {
    use socket2::{Domain, Socket as Raw, Type};
    let kind = if is_stream { Type::STREAM } else { Type::DGRAM };
    let socket = Raw::new(Domain::for_address(address), kind.nonblocking().cloexec(), None)?;
    if is_stream {
        socket.set_reuse_address(true)?;
    }
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    if !is_stream {
        return Ok(Socket::Datagrams(socket.into()));
    }
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(Socket::Streams(socket.into()))
}

/// Where the lines of a section go.
#[derive(Debug)]
struct Forward {
    targets: LogTargets,
    sender: RefCell<LogSender>,
    silence_max: Option<Duration>,
}

impl Forward {
    fn take(&self, line: &[u8]) {
        self.sender.borrow_mut().queue_message(&self.targets, &Message::parse(line), SystemTime::now());
    }

    fn flush(&self) {
        self.sender.borrow_mut().flush();
    }
}

async fn datagrams(socket: tokio::net::UdpSocket, forward: Rc<Forward>) {
    let mut line = vec![0; LINE_BYTES_MAX];
    loop {
        if socket.readable().await.is_err() {
            return;
        }
        for _ in 0..LINES_AT_ONCE {
            match socket.try_recv(&mut line) {
                Ok(count) => forward.take(line.get(..count).unwrap_or_default()),
                // An error is about a datagram, as an ICMP message that came back: the next one may be fine.
                Err(_) => break,
            }
        }
        forward.flush();
        tokio::task::yield_now().await;
    }
}

async fn streams(socket: tokio::net::TcpListener, forward: Rc<Forward>, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match socket.accept().await {
            Ok((stream, _)) => {
                let forward = Rc::clone(&forward);
                drop(spawn_local(async move {
                    lines(stream, &forward).await;
                    drop(place);
                }));
            }
            // Out of descriptors, most likely.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Takes lines until the stream ends, is malformed or falls silent.
async fn lines(mut stream: tokio::net::TcpStream, forward: &Forward) {
    let mut bytes = Vec::new();
    loop {
        let mut done = 0;
        loop {
            let rest = bytes.get(done..).unwrap_or_default();
            match framed(rest, LINE_BYTES_MAX) {
                Framed::Line { start, end, next } => {
                    forward.take(rest.get(start..end).unwrap_or_default());
                    done += next;
                }
                Framed::Incomplete => break,
                Framed::Malformed => return forward.flush(),
            }
        }
        forward.flush();
        bytes.drain(..done);
        bytes.reserve(READ_LEN);
        let read = stream.read_buf(&mut bytes);
        let read = match forward.silence_max {
            None => read.await,
            Some(limit) => timeout(limit, read).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        };
        if !read.is_ok_and(|count| count > 0) {
            return;
        }
    }
}
