//! Facts of an exchange that only log lines tell.

use std::time::Duration;

/// What a log line says beyond what expressions can ask for. Times are in milliseconds from the moment the connection was
/// accepted (or the previous response ended), -1 where it did not come to that.
#[derive(Clone, Copy, Debug)]
pub struct LogFields<'a> {
    /// When the connection was accepted, or the request could start: since the Unix epoch.
    pub accept_date: Duration,
    /// Until the handshakes were over.
    pub handshake_ms: i64,
    /// Idle time after the handshakes, before the first byte of the request; not counted from the start.
    pub idle_ms: i64,
    /// Until the request's head was complete.
    pub request_ms: i64,
    /// Until the request left the queues.
    pub queue_ms: i64,
    /// Until the server's connection was there.
    pub connect_ms: i64,
    /// Until the response's head was complete.
    pub data_ms: i64,
    /// Until the end.
    pub close_ms: i64,
    /// The status sent to the client; 0 is none.
    pub status: u16,
    /// Whether there was a session that could have had a status.
    pub session: bool,
    /// Bytes sent to the client.
    pub bytes_out: u64,
    /// Bytes of the body among them, without its framing.
    pub body_bytes_out: u64,
    /// Bytes received from the client.
    pub bytes_in: u64,
    /// The cookie captured in the request.
    pub client_cookie: Option<&'a [u8]>,
    /// The cookie captured in the response.
    pub server_cookie: Option<&'a [u8]>,
    /// How it ended: what ended it, in which phase, the persistence cookie of the client, what was done to the server's.
    pub termination: [u8; 4],
    /// Connections of the process.
    pub active_connections: u32,
    /// Connections of the frontend.
    pub frontend_connections: u32,
    /// Connections of the backend.
    pub backend_connections: u32,
    /// Connections of the server.
    pub server_connections: u32,
    /// Attempts to connect after the first.
    pub retries: u32,
    /// Whether another server was taken than the first.
    pub redispatched: bool,
    /// Requests before this one in the server's queue.
    pub server_queue: u32,
    /// Requests before this one in the backend's queue.
    pub backend_queue: u32,
    /// Number of the request (or connection) in the process.
    pub request_counter: u64,
    /// Number of the log line of the frontend.
    pub log_counter: u64,
    /// Name of the server, or of what answered in place of one; none is written `<NOSRV>`.
    pub server: Option<&'a str>,
    /// How many headers of the request the frontend captures.
    pub request_captures: usize,
    /// How many headers of the response the frontend captures.
    pub response_captures: usize,
    /// Whether the line is written before the end (`option logasap`).
    pub partial: bool,
    /// The TLS cipher of the client's connection.
    pub cipher: Option<&'a str>,
    /// The TLS version of the client's connection.
    pub tls_version: Option<&'a str>,
}

impl Default for LogFields<'_> {
    fn default() -> Self {
        LogFields {
            accept_date: Duration::ZERO,
            handshake_ms: 0,
            idle_ms: 0,
            request_ms: -1,
            queue_ms: -1,
            connect_ms: -1,
            data_ms: -1,
            close_ms: 0,
            status: 0,
            session: true,
            bytes_out: 0,
            body_bytes_out: 0,
            bytes_in: 0,
            client_cookie: None,
            server_cookie: None,
            termination: *b"----",
            active_connections: 0,
            frontend_connections: 0,
            backend_connections: 0,
            server_connections: 0,
            retries: 0,
            redispatched: false,
            server_queue: 0,
            backend_queue: 0,
            request_counter: 0,
            log_counter: 0,
            server: None,
            request_captures: 0,
            response_captures: 0,
            partial: false,
            cipher: None,
            tls_version: None,
        }
    }
}
