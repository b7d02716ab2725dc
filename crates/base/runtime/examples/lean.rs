//! Load for a proxy: its clients and its origins, in one thread. `bench/run.py` uses it where messages are small.
//!
//! `lean PORT CONNECTIONS SECONDS [ORIGIN...]` (ports of this machine) keeps one request under way on each of its connections to
//! PORT, and answers what the proxy asks of the ORIGINs. It prints a line of JSON: requests, requests a second, microseconds of
//! p50 and p99, and how many connections ended or were answered with something else.
//!
//! Two programs on the load's core (wrk and nginx) take turns of milliseconds there once it is full, which was most of the p99 of
//! whatever was measured, and they fill it before some proxies fill theirs. Here a message is one call to receive and one to send.

#![allow(clippy::indexing_slicing, reason = "a tool for benchmarks: it may stop")]

use std::{
    env,
    error::Error,
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

const USAGE: &str = "lean PORT CONNECTIONS SECONDS [ORIGIN...]";
const BUFFER: usize = 16 * 1024;
const EVENTS_MAX: usize = 256;
/// Listeners have numbers from here on in epoll, sockets from 0.
const LISTENERS: u64 = 1 << 32;
/// How often the end is looked for.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Longer ones count as this long.
const LATENCY_MAX: Duration = Duration::from_secs(2);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
/// With the fields that a web server sends.
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: lean/1.0.0\r\nDate: Sun, 22 Nov 2026 12:00:00 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\nhello from 0\n";

struct Socket {
    stream: TcpStream,
    /// When a client asked last; an origin has none.
    asked: Option<Instant>,
    /// What has come of a message of which not everything has.
    part: Vec<u8>,
}

struct Load {
    epoll: OwnedFd,
    sockets: Vec<Option<Socket>>,
    /// Of answers, by their microseconds.
    latencies: Vec<u32>,
    failed: usize,
}

impl Load {
    fn add(&mut self, stream: TcpStream, asked: Option<Instant>) -> Result<(), Box<dyn Error>> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &stream, EventData::new_u64(self.sockets.len() as u64), flags)?;
        self.sockets.push(Some(Socket { stream, asked, part: Vec::new() }));
        Ok(())
    }

    /// Receives once: as the buffer has more room than a message is long, the socket is empty then.
    fn receive(&mut self, number: usize, buffer: &mut [u8]) {
        let Some(Some(socket)) = self.sockets.get_mut(number) else { return };
        let length = match recv(&socket.stream, &mut *buffer, RecvFlags::empty()) {
            Ok((length, _)) => length,
            Err(Errno::AGAIN) => return,
            Err(_) => 0,
        };
        let mut bytes = buffer.get(..length).unwrap_or_default();
        if !socket.part.is_empty() {
            socket.part.extend_from_slice(bytes);
            bytes = &socket.part;
        }
        let is_client = socket.asked.is_some();
        let is_whole = if is_client { is_response(bytes) } else { bytes.ends_with(b"\r\n\r\n") };
        if length == 0 || (is_client && !bytes.starts_with(b"HTTP/1.1 200")) {
            // A proxy may end a connection to an origin; to a client it may not.
            self.failed += usize::from(is_client);
            self.sockets[number] = None;
            return;
        }
        if !is_whole {
            if socket.part.is_empty() {
                socket.part = bytes.to_vec();
            }
            return;
        }
        socket.part.clear();
        if let Some(asked) = &mut socket.asked {
            let now = Instant::now();
            let latency = now.duration_since(*asked).min(LATENCY_MAX).as_micros() as usize;
            *asked = now;
            self.latencies[latency] += 1;
        }
        // A socket that has gone is closed when its own end is received.
        let _ = send(&socket.stream, if is_client { REQUEST } else { RESPONSE }, SendFlags::NOSIGNAL);
    }

    /// Microseconds that this share of all answers took at most.
    fn percentile(&self, share: f64) -> usize {
        let total: u64 = self.latencies.iter().map(|count| u64::from(*count)).sum();
        let mut left = (total as f64 * share) as u64;
        let mut found = self.latencies.iter().enumerate();
        found
            .find_map(|(micros, count)| {
                let is_there = u64::from(*count) > left;
                left = left.saturating_sub(u64::from(*count));
                is_there.then_some(micros)
            })
            .unwrap_or_default()
    }
}

/// Whether a response is there to its end, which its `Content-Length` tells.
fn is_response(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let length = bytes[..end].split(|byte| *byte == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked(b"content-length:".len())?;
        name.eq_ignore_ascii_case(b"content-length:")
            .then(|| str::from_utf8(value).ok()?.trim().parse::<usize>().ok())?
    });
    length == Some(bytes.len() - end - 4)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [port, connections, seconds, origins @ ..] = words.as_slice() else { return Err(USAGE.into()) };
    let (port, connections, seconds): (u16, usize, f64) = (port.parse()?, connections.parse()?, seconds.parse()?);
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut listeners = Vec::new();
    for origin in origins {
        let listener = TcpListener::bind(("127.0.0.1", origin.parse()?))?;
        listener.set_nonblocking(true)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENERS + listeners.len() as u64), EventFlags::IN)?;
        listeners.push(listener);
    }
    let latencies = vec![0; LATENCY_MAX.as_micros() as usize + 1];
    let mut load = Load { epoll, sockets: Vec::new(), latencies, failed: 0 };
    let began = Instant::now();
    for _ in 0..connections {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        send(&stream, REQUEST, SendFlags::NOSIGNAL)?;
        load.add(stream, Some(Instant::now()))?;
    }
    let end = began + Duration::from_secs_f64(seconds);
    let mut buffer = vec![0; BUFFER];
    let mut events = Vec::with_capacity(EVENTS_MAX);
    while Instant::now() < end {
        events.clear();
        if epoll::wait(&load.epoll, spare_capacity(&mut events), Some(&TICK)) == Err(Errno::INTR) {
            continue;
        }
        for event in &events {
            let number = event.data.u64();
            match number.checked_sub(LISTENERS).and_then(|number| listeners.get(number as usize)) {
                Some(listener) => {
                    while let Ok((stream, _)) = listener.accept() {
                        load.add(stream, None)?;
                    }
                }
                None => load.receive(number as usize, &mut buffer),
            }
        }
    }
    let requests: u64 = load.latencies.iter().map(|count| u64::from(*count)).sum();
    println!(
        r#"{{"requests":{requests},"throughput":{:.1},"p50_us":{},"p99_us":{},"failed":{}}}"#,
        requests as f64 / began.elapsed().as_secs_f64(),
        load.percentile(0.5),
        load.percentile(0.99),
        load.failed,
    );
    Ok(())
}
