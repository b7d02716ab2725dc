//! `ring` and `log-forward` sections.

use std::{sync::Arc, time::Duration};

use super::{Bind, Location, LogLineFormat, LogTarget, Server};

/// A ring of log lines in memory.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Its name; those that a `log` line with a stream address implies are called `ring#1` and so on.
    pub name: Arc<str>,
    /// `description`, or its name.
    pub description: String,
    /// `format` of its lines.
    pub format: LogLineFormat,
    /// `maxlen`: bytes of a line.
    pub maxlen: usize,
    /// `size`: bytes in all.
    pub size: usize,
    /// `server` lines: each gets all lines over TCP.
    pub servers: Vec<Server>,
    /// `timeout connect`.
    pub timeout_connect: Option<Duration>,
    /// `timeout server`.
    pub timeout_server: Option<Duration>,
}

/// A section that receives log lines and sends them on.
#[derive(Clone, Debug, Default)]
pub struct LogForward {
    /// Its name.
    pub name: Arc<str>,
    /// Where it begins.
    pub location: Location,
    /// `bind` lines: TCP.
    pub binds: Vec<Bind>,
    /// `dgram-bind` lines: UDP; of their settings, those that concern the socket.
    pub datagram_binds: Vec<Bind>,
    /// `log` lines, `log global` resolved.
    pub logs: Vec<LogTarget>,
    /// `maxconn`: TCP connections.
    pub maxconn: u32,
    /// `backlog`.
    pub backlog: Option<u32>,
    /// `timeout client`.
    pub timeout_client: Option<Duration>,
}
