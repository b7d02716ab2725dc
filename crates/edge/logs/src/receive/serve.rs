//! The thread of logs at work.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use ::http::{netscaler, proxy_protocol};
use net::Stream;
use tokio::{
    net::UdpSocket,
    sync::{Notify, mpsc::UnboundedReceiver},
    task::{JoinHandle, spawn_local, yield_now},
    time::timeout,
};

use super::{Arrival, ConnectionSlot, Door, Forward, Header, Order, Section};
use crate::{
    message::{Framed, Message, framed},
    output::Outputs,
    rings::Forwarders,
    sender::LogSender,
};

/// Bytes read from a stream at a time.
const READ_LEN: usize = 16 * 1024;
/// Datagrams that are taken before others get their turn.
const DATAGRAMS_AT_ONCE: usize = 64;
/// Datagrams that are still taken when no more are wanted: those that waited.
const DATAGRAMS_AT_LAST: usize = 10_000;

/// What all tasks of the thread share.
#[derive(Debug)]
struct Hall {
    sender: RefCell<LogSender>,
    /// Read into, and empty between reads: connections that say nothing hold no memory.
    input: RefCell<Vec<u8>>,
    received: Arc<AtomicU64>,
    connections: Cell<usize>,
    ended: Notify,
}

/// A section; another load may change where its lines go.
#[derive(Debug)]
struct LiveSection {
    door: Arc<Door>,
    forward: RefCell<Rc<Forward>>,
}

impl LiveSection {
    fn forward(&self) -> Rc<Forward> {
        Rc::clone(&self.forward.borrow())
    }
}

/// Serves until it is told to finish.
pub(super) async fn run(mut orders: UnboundedReceiver<Order>, outputs: Arc<Outputs>, received: Arc<AtomicU64>) {
    let hall = Rc::new(Hall {
        sender: RefCell::new(LogSender::new(outputs)),
        input: RefCell::new(Vec::new()),
        received,
        connections: Cell::new(0),
        ended: Notify::new(),
    });
    let mut sections: Vec<Rc<LiveSection>> = Vec::new();
    let mut readers: Vec<Reader> = Vec::new();
    let mut forwarders = Forwarders::default();
    while let Some(order) = orders.recv().await {
        match order {
            Order::Follow(wanted, rings) => {
                forwarders.follow(rings);
                // NOTE: what waits in their sockets waits for the next ones.
                readers.drain(..).for_each(Reader::stop);
                let old = std::mem::take(&mut sections);
                for Section { door, forward, datagrams } in wanted {
                    let forward = Rc::new(forward);
                    let known = old.iter().find(|section| Arc::ptr_eq(&section.door, &door));
                    let section = match known {
                        Some(section) => {
                            *section.forward.borrow_mut() = forward;
                            Rc::clone(section)
                        }
                        None => Rc::new(LiveSection { door, forward: RefCell::new(forward) }),
                    };
                    readers.extend(datagrams.into_iter().filter_map(|socket| Reader::start(socket, &section, &hall)));
                    sections.push(section);
                }
            }
            Order::Arrive(Arrival { socket, header, place }) => {
                // The section of one that came too late is gone.
                let section = sections.iter().find(|section| Arc::ptr_eq(&section.door, &place.0)).cloned();
                if let (Some(section), Ok(stream)) = (section, Stream::from_socket(socket)) {
                    hall.connections.set(hall.connections.get() + 1);
                    drop(spawn_local(converse(stream, header, section, place, Rc::clone(&hall))));
                }
            }
            Order::Retire => {
                for reader in readers.drain(..) {
                    reader.take_last(&hall);
                    reader.stop();
                }
            }
            Order::Finish(done) => {
                while hall.connections.get() > 0 {
                    hall.ended.notified().await;
                }
                hall.flush();
                forwarders.finish().await;
                // Whoever asked may have given up.
                let _ = done.send(());
                return;
            }
        }
    }
}

impl Hall {
    fn take(&self, line: &[u8], forward: &Forward, now: SystemTime) {
        self.received.fetch_add(1, Relaxed);
        self.sender.borrow_mut().queue_message(&forward.targets, &Message::parse(line), now);
    }

    fn flush(&self) {
        self.sender.borrow_mut().flush();
    }

    /// Takes datagrams that are there; false when there are no more.
    fn take_datagrams(&self, socket: &UdpSocket, forward: &Forward, most: usize) -> bool {
        let now = SystemTime::now();
        let mut input = self.input.borrow_mut();
        // Longer ones lose their ends, as in HAProxy.
        input.resize(forward.line_bytes_max, 0);
        let mut is_more = true;
        for _ in 0..most {
            match socket.try_recv(&mut input) {
                Ok(count) => self.take(input.get(..count).unwrap_or_default(), forward, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    is_more = false;
                    break;
                }
                // It is about a datagram, as an ICMP message that came back: the next one may be fine.
                Err(_) => {}
            }
        }
        self.flush();
        is_more
    }
}

/// Reads the datagrams of a socket.
#[derive(Debug)]
struct Reader {
    socket: Rc<UdpSocket>,
    section: Rc<LiveSection>,
    task: JoinHandle<()>,
}

impl Reader {
    fn start(socket: std::net::UdpSocket, section: &Rc<LiveSection>, hall: &Rc<Hall>) -> Option<Self> {
        let socket = Rc::new(UdpSocket::from_std(socket).ok()?);
        let task = spawn_local(datagrams(Rc::clone(&socket), Rc::clone(section), Rc::clone(hall)));
        Some(Self { socket, section: Rc::clone(section), task })
    }

    fn take_last(&self, hall: &Hall) {
        hall.take_datagrams(&self.socket, &self.section.forward(), DATAGRAMS_AT_LAST);
    }

    fn stop(self) {
        self.task.abort();
    }
}

async fn datagrams(socket: Rc<UdpSocket>, section: Rc<LiveSection>, hall: Rc<Hall>) {
    while socket.readable().await.is_ok() {
        hall.take_datagrams(&socket, &section.forward(), DATAGRAMS_AT_ONCE);
        yield_now().await;
    }
}

/// Takes the lines of a connection until it ends, is malformed or falls silent.
async fn converse(stream: Stream, header: Header, section: Rc<LiveSection>, place: ConnectionSlot, hall: Rc<Hall>) {
    lines(&stream, header, &section, &hall).await;
    hall.connections.set(hall.connections.get() - 1);
    hall.ended.notify_one();
    drop(place);
}

async fn lines(stream: &Stream, mut header: Header, section: &LiveSection, hall: &Hall) {
    let mut bytes = Vec::new();
    loop {
        let forward = section.forward();
        if !read(stream, &mut bytes, forward.silence_max, hall).await {
            return;
        }
        let taken = take_lines(&mut bytes, &mut header, &section.forward(), hall);
        hall.flush();
        if !taken {
            return;
        }
        yield_now().await;
    }
}

/// Reads what is there; false at the end.
async fn read(stream: &Stream, bytes: &mut Vec<u8>, silence_max: Option<Duration>, hall: &Hall) -> bool {
    loop {
        let is_ready = match silence_max {
            None => stream.readable().await,
            Some(limit) => {
                timeout(limit, stream.readable()).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
        };
        if is_ready.is_err() {
            return false;
        }
        let mut input = hall.input.borrow_mut();
        input.resize(READ_LEN, 0);
        match stream.try_read(&mut input) {
            Ok(count) => {
                bytes.extend_from_slice(input.get(..count).unwrap_or_default());
                return count > 0;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
}

/// Takes the whole lines that `bytes` begin with; false when they are none.
fn take_lines(bytes: &mut Vec<u8>, header: &mut Header, forward: &Forward, hall: &Hall) -> bool {
    let mut done = match header_len(*header, bytes) {
        HeaderLen::Whole(length) => length,
        HeaderLen::Incomplete => return true,
        HeaderLen::Wrong => return false,
    };
    *header = Header::None;
    let now = SystemTime::now();
    loop {
        let rest = bytes.get(done..).unwrap_or_default();
        match framed(rest, forward.line_bytes_max) {
            Framed::Line { start, end, next } => {
                hall.take(rest.get(start..end).unwrap_or_default(), forward, now);
                done += next;
            }
            Framed::Incomplete if done == bytes.len() => {
                *bytes = Vec::new();
                return true;
            }
            Framed::Incomplete => {
                bytes.drain(..done);
                return true;
            }
            Framed::Malformed => return false,
        }
    }
}

enum HeaderLen {
    Whole(usize),
    Incomplete,
    Wrong,
}

/// Whom a header speaks of is nobody's business here.
fn header_len(header: Header, bytes: &[u8]) -> HeaderLen {
    match header {
        Header::None => HeaderLen::Whole(0),
        Header::Proxy => match proxy_protocol::decode(bytes) {
            Ok(proxy_protocol::Decoded::Complete { consumed, .. }) => HeaderLen::Whole(consumed),
            Ok(proxy_protocol::Decoded::Incomplete) => HeaderLen::Incomplete,
            Err(_) => HeaderLen::Wrong,
        },
        Header::Netscaler(magic) => match netscaler::decode(bytes, magic) {
            Ok(netscaler::Decoded::Complete { consumed, .. }) => HeaderLen::Whole(consumed),
            Ok(netscaler::Decoded::Incomplete) => HeaderLen::Incomplete,
            Err(_) => HeaderLen::Wrong,
        },
    }
}
