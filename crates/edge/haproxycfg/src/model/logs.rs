//! `log` lines.

use std::net::SocketAddr;

/// A `log` line.
#[derive(Clone, Debug)]
pub struct LogTarget {
    /// Where to.
    pub destination: LogDestination,
    /// `len`: bytes a line.
    pub len: usize,
    /// `format`.
    pub format: LogLineFormat,
    /// `sample <range>:<size>`: which of how many.
    pub sample: Option<(Vec<(u32, u32)>, u32)>,
    /// Facility, 0 to 23.
    pub facility: u8,
    /// Least important level that is sent, 0 (emerg) to 7 (debug).
    pub level: u8,
    /// Levels more important than this one are sent as this.
    pub minlevel: u8,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDestination {
    /// Syslog over UDP.
    Udp(SocketAddr),
    /// Syslog over UDP to a host that is looked up at start.
    UdpHost {
        /// Its name.
        host: String,
        /// Its port.
        port: u16,
    },
    /// Syslog over a unix datagram socket.
    Unix(String),
    /// Syslog over an abstract unix datagram socket.
    Abstract(String),
    /// `stdout`, `stderr`, `fd@N`.
    Descriptor(i32),
    /// `file@/path`.
    File(String),
    /// `ring@name`.
    Ring(String),
}

/// `format` of a `log` line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLineFormat {
    /// No `format`: as HAProxy does, `rfc3164` with `log-send-hostname` and `local` without.
    #[default]
    Unspecified,
    /// `local`.
    Local,
    /// `rfc3164`.
    Rfc3164,
    /// `rfc5424`.
    Rfc5424,
    /// `priority`.
    Priority,
    /// `short`.
    Short,
    /// `timed`.
    Timed,
    /// `iso`.
    Iso,
    /// `raw`.
    Raw,
}
