//! What the scenarios are made of: the program under test, scripted clients and servers over raw sockets, real peers and
//! a log server. Everything listens on a loopback address of this test process alone, so tests run beside each other.
//! Everything is ended by its process number when dropped.

#![allow(dead_code, unused_imports, reason = "each scenario file uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod beside;
pub mod cluster;
mod dns;
mod edge;
mod fastcgi_app;
mod fpm;
pub mod hosts;
pub mod http3;
mod line;
mod log;
mod network;
mod origin;
pub mod pebble;
mod peer;
mod redis;
mod replicas;
mod scene;
mod scripted_master;
mod site;
mod store;
mod tls;
mod uwsgi;
mod varnish_instance;
mod wire;

use std::{
    io::{self, ErrorKind, Read},
    net::SocketAddr,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::Child,
    sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

pub use self::{
    beside::{Case, differences},
    dns::{NameServer, Oracle, answer as dns_answer},
    edge::{Edge, descendants, resident_kilobytes, signal_process},
    fastcgi_app::{FastCgiApp, OnQuestion},
    fpm::Fpm,
    line::Line,
    log::LogServer,
    network::Network,
    origin::{Origin, ok},
    peer::{Peer, nginx, nginx_at, nginx_with, python},
    redis::Redis,
    replicas::{LONG, StoppedProcess, assert_same, field, follow, wait_for_link},
    scene::{Scene, beside_haproxy, server_and_end},
    scripted_master::ScriptedMaster,
    site::{Site, Varnish},
    store::{RedisClient, Store},
    tls::{Authority, ClientSettings, SecureWire, Wanted},
    uwsgi::Uwsgi,
    varnish_instance::{VarnishInstance, is_installed, tool_at},
    wire::{Answer, Wire},
};

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The loopback address of this test process.
pub fn host() -> String {
    let pid = std::process::id();
    format!("127.{}.{}.{}", 64 + (pid >> 16) % 64, (pid >> 8) & 0xff, 1 + (pid & 0xff) % 254)
}

/// An address nobody listens on.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    loop {
        let address: SocketAddr = format!("{}:{}", host(), NEXT.fetch_add(1, Relaxed)).parse().unwrap();
        if is_free(&address) {
            return address;
        }
    }
}

/// NOTE: without listening. A process that is just being started holds our descriptors for a moment, and a listening one
/// would keep the address from whom it is for.
fn is_free(address: &SocketAddr) -> bool {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, address).is_ok()
}

/// A folder of its own for a test, removed when dropped.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-scenario-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits for a condition.
#[track_caller]
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_within(PATIENCE, what, condition);
}

/// The same, for what may take longer than anything else.
#[track_caller]
pub fn wait_within(patience: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < patience, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Reads once. A child's end wakes any thread of this process, and a read that has a timeout is interrupted by that, although
/// nobody handles the signal.
pub fn read_once(stream: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Waits for the end of a process: its exit code, or 128 and the signal.
#[track_caller]
pub fn wait_end(child: &mut Child) -> i32 {
    let mut status = None;
    wait_until("the program ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    let status = status.unwrap();
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Bytes that repeat late, different for each seed.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Whether a TCP socket listens there.
pub fn listens(address: SocketAddr) -> bool {
    let SocketAddr::V4(address) = address else { return false };
    let wanted = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&wanted) && fields.nth(1) == Some("0A")
    })
}
