//! `timeout` lines.

use std::time::Duration;

/// `timeout` lines; `None` is never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeouts {
    /// `timeout client`.
    pub client: Option<Duration>,
    /// `timeout client-fin`.
    pub client_fin: Option<Duration>,
    /// `timeout connect`.
    pub connect: Option<Duration>,
    /// `timeout http-keep-alive`.
    pub http_keep_alive: Option<Duration>,
    /// `timeout http-request`.
    pub http_request: Option<Duration>,
    /// `timeout queue`.
    pub queue: Option<Duration>,
    /// `timeout server`.
    pub server: Option<Duration>,
    /// `timeout server-fin`.
    pub server_fin: Option<Duration>,
    /// `timeout tarpit`.
    pub tarpit: Option<Duration>,
    /// `timeout tunnel`.
    pub tunnel: Option<Duration>,
    /// `timeout check`.
    pub check: Option<Duration>,
}
