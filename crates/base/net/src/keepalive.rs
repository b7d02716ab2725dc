//! Probes of TCP keep-alive.

use std::{io, time::Duration};

use socket2::Socket;

/// Probes of TCP keep-alive; what is not given is the system's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// Probes without an answer after which the connection is closed.
    pub count: Option<u32>,
    /// Time without data before the first probe.
    pub idle: Option<Duration>,
    /// Time between probes.
    pub interval: Option<Duration>,
}

/// Probes the other end as configured, as the system does where nothing is said.
///
/// # Errors
/// The system's.
pub fn set_keepalive(socket: &Socket, keepalive: Keepalive) -> io::Result<()> {
    socket.set_keepalive(true)?;
    let mut probes = socket2::TcpKeepalive::new();
    if let Some(count) = keepalive.count {
        probes = probes.with_retries(count);
    }
    if let Some(idle) = keepalive.idle {
        probes = probes.with_time(idle);
    }
    if let Some(interval) = keepalive.interval {
        probes = probes.with_interval(interval);
    }
    socket.set_tcp_keepalive(&probes)
}
