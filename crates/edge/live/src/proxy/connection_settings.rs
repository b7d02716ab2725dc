//! Parameters of varnishd that are about connections and the heads on them: they act on what begins after they were set.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use accelerator::settings::{NotSet, bytes, duration};
use http::{Limits, Sender};

/// Lines of a head that Varnish counts for the first one (`http_max_hdr`).
const FIRST_LINE_FIELDS: u64 = 5;

/// The parameters, as varnishd names them; times in milliseconds.
#[derive(Debug)]
pub struct ConnectionSettings {
    http_req_size: AtomicU64,
    http_req_hdr_len: AtomicU64,
    http_resp_size: AtomicU64,
    http_resp_hdr_len: AtomicU64,
    http_max_hdr: AtomicU64,
    timeout_idle: AtomicU64,
    timeout_linger: AtomicU64,
    send_timeout: AtomicU64,
    idle_send_timeout: AtomicU64,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            http_req_size: AtomicU64::new(32 << 10),
            http_req_hdr_len: AtomicU64::new(8 << 10),
            http_resp_size: AtomicU64::new(32 << 10),
            http_resp_hdr_len: AtomicU64::new(8 << 10),
            http_max_hdr: AtomicU64::new(64),
            timeout_idle: AtomicU64::new(5_000),
            timeout_linger: AtomicU64::new(50),
            send_timeout: AtomicU64::new(600_000),
            idle_send_timeout: AtomicU64::new(60_000),
        }
    }
}

/// How long a client's connection may be silent, where neither its program nor its client says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionTimeouts {
    /// `timeout_idle`: without a request.
    pub idle: Duration,
    /// `timeout_linger`: in its task, before somebody else watches it.
    pub linger: Duration,
    /// `send_timeout`: while one response goes out.
    pub send: Duration,
    /// `idle_send_timeout`: while the client takes nothing of a response.
    pub idle_send: Duration,
}

impl ConnectionSettings {
    /// Sets one; `None` if it is not among them.
    #[must_use]
    pub fn set(&self, name: &str, value: &str) -> Option<Result<(), NotSet>> {
        let size = || bytes(value).map(|bytes| bytes as u64);
        let milliseconds = || duration(value).and_then(|time| Duration::try_from_secs_f64(time).ok());
        let milliseconds = || milliseconds().and_then(|time| u64::try_from(time.as_millis()).ok());
        let (parameter, parsed) = match name {
            "http_req_size" => (&self.http_req_size, size()),
            "http_req_hdr_len" => (&self.http_req_hdr_len, size()),
            "http_resp_size" => (&self.http_resp_size, size()),
            "http_resp_hdr_len" => (&self.http_resp_hdr_len, size()),
            "http_max_hdr" => (&self.http_max_hdr, value.parse().ok()),
            "timeout_idle" => (&self.timeout_idle, milliseconds()),
            "timeout_linger" => (&self.timeout_linger, milliseconds()),
            "send_timeout" => (&self.send_timeout, milliseconds()),
            "idle_send_timeout" => (&self.idle_send_timeout, milliseconds()),
            _ => return None,
        };
        Some(parsed.map(|value| parameter.store(value, Relaxed)).ok_or(NotSet::Invalid))
    }

    /// What the heads of this side may be.
    #[must_use]
    pub fn relax(&self, limits: Limits, from: Sender) -> Limits {
        let (head, line) = match from {
            Sender::Client => (&self.http_req_size, &self.http_req_hdr_len),
            Sender::Server => (&self.http_resp_size, &self.http_resp_hdr_len),
        };
        let size = |value: &AtomicU64| usize::try_from(value.load(Relaxed)).unwrap_or(usize::MAX);
        let head_bytes_max = limits.head_bytes_max.min(size(head));
        // NOTE: who counts the first line as one of them, as the parser does, has one more.
        let fields = self.http_max_hdr.load(Relaxed).saturating_sub(FIRST_LINE_FIELDS) + 1;
        Limits {
            head_bytes_max,
            target_bytes_max: head_bytes_max,
            line_bytes_max: size(line),
            headers_max: usize::try_from(fields).unwrap_or(usize::MAX),
            as_varnish: true,
            ..limits
        }
    }

    /// How long a connection may be silent.
    #[must_use]
    pub fn timeouts(&self) -> ConnectionTimeouts {
        let time = |value: &AtomicU64| Duration::from_millis(value.load(Relaxed));
        ConnectionTimeouts {
            idle: time(&self.timeout_idle),
            linger: time(&self.timeout_linger),
            send: time(&self.send_timeout),
            idle_send: time(&self.idle_send_timeout),
        }
    }
}
