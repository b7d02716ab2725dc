//! What is counted for proxies, servers and listeners: the numbers behind the statistics page, its CSV and the socket.

mod side;
mod sources;

use std::sync::OnceLock;

use telemetry::{Counter, Histogram, SlidingAverage, WorkerGauge};

pub use self::{
    side::SideCounters,
    sources::{SOURCES_MAX, Sources},
};

/// Counted by each worker for each side of a proxy, each server and each listener. Names follow HAProxy's CSV columns.
#[derive(Debug, Default)]
pub struct Traffic {
    /// `conn_tot`: connections accepted (frontend, listener).
    pub connections: Counter,
    /// `stot`: sessions.
    pub sessions: Counter,
    /// `lbtot`: times chosen by balancing (backend, server).
    pub balanced: Counter,
    /// `bin`: bytes from clients.
    pub bytes_in: Counter,
    /// `bout`: bytes to clients.
    pub bytes_out: Counter,
    /// `dreq`: requests denied.
    pub denied_requests: Counter,
    /// `dresp`: responses denied.
    pub denied_responses: Counter,
    /// `dcon`: connections denied.
    pub denied_connections: Counter,
    /// `dses`: sessions denied.
    pub denied_sessions: Counter,
    /// `ereq`: request errors.
    pub request_errors: Counter,
    /// `econ`: connection errors.
    pub connection_errors: Counter,
    /// `eresp`: response errors.
    pub response_errors: Counter,
    /// `wretr`: connection retries.
    pub retries: Counter,
    /// `wredis`: redispatches.
    pub redispatches: Counter,
    /// `wrew`: failed header rewrites.
    pub failed_rewrites: Counter,
    /// `eint`: internal errors.
    pub internal_errors: Counter,
    /// `cli_abrt`: transfers aborted by the client.
    pub client_aborts: Counter,
    /// `srv_abrt`: transfers aborted by the server.
    pub server_aborts: Counter,
    /// `req_tot`: HTTP requests.
    pub requests: Counter,
    /// `hrsp_1xx` to `hrsp_5xx`, then `hrsp_other`.
    pub responses: [Counter; 6],
    /// `connect`: connections opened to servers.
    pub connects: Counter,
    /// `reuse`: requests sent on a connection that stood.
    pub reuses: Counter,
    /// `h1_spliced_bytes_in` of a frontend: bytes of clients that went through a pipe.
    pub spliced_in: Counter,
    /// `h1_spliced_bytes_out` of a frontend: bytes to clients that did.
    pub spliced_out: Counter,
    /// `intercepted`: requests that the edge answered itself.
    pub intercepted: Counter,
    /// `qtime`: milliseconds in queues.
    pub queue_time: SlidingAverage,
    /// `ctime`: milliseconds to connect.
    pub connect_time: SlidingAverage,
    /// `rtime`: milliseconds to the response's head.
    pub response_time: SlidingAverage,
    /// `ttime`: milliseconds of the whole session.
    pub total_time: SlidingAverage,
    /// What compression did, where there is any.
    pub compression: OnceLock<Box<CompressionTraffic>>,
    /// What caches did, where there are any.
    pub cache: OnceLock<Box<CacheTraffic>>,
    /// What of all this the statistics page asked for itself, where there is one.
    pub page: OnceLock<Box<PageTraffic>>,
    /// The frontends that sent the requests (backend).
    pub sources: OnceLock<Box<Sources>>,
    /// Microseconds of whole requests, for quantiles; those of the statistics page are left out.
    pub latency: OnceLock<Box<Histogram>>,
    /// Idle connections to the server that the worker keeps.
    pub idle: WorkerGauge,
    /// `h1_open_streams` of a frontend: requests that have begun and not ended.
    pub in_flight: WorkerGauge,
}

/// What a cache did for a frontend or backend.
#[derive(Debug, Default)]
pub struct CacheTraffic {
    /// `cache_lookups`: requests that were looked up.
    pub lookups: Counter,
    /// `cache_hits`: those that were answered.
    pub hits: Counter,
    /// Bytes that clients got of them.
    pub saved: Counter,
}

/// What compression did for a frontend or backend.
#[derive(Debug, Default)]
pub struct CompressionTraffic {
    /// `comp_in`: bytes given to it.
    pub taken: Counter,
    /// `comp_out`: bytes that it made of them.
    pub made: Counter,
    /// `comp_byp`: bytes passed on as they were, for want of time.
    pub bypassed: Counter,
    /// `comp_rsp`: responses.
    pub responses: Counter,
}

/// What the statistics page asked for itself: its curves show what others do.
#[derive(Debug, Default)]
pub struct PageTraffic {
    /// Requests.
    pub requests: Counter,
    /// Responses by the classes of [`Traffic::responses`].
    pub responses: [Counter; 6],
}

impl PageTraffic {
    /// The counter of a status' class.
    pub fn response(&self, status: u16) -> &Counter {
        of_class(&self.responses, status)
    }
}

fn of_class(responses: &[Counter; 6], status: u16) -> &Counter {
    let [one, two, three, four, five, other] = responses;
    match status / 100 {
        1 => one,
        2 => two,
        3 => three,
        4 => four,
        5 => five,
        _ => other,
    }
}

impl Traffic {
    /// The counter of a status' class.
    pub fn response(&self, status: u16) -> &Counter {
        of_class(&self.responses, status)
    }
}

/// Counted by each worker for the whole process.
#[derive(Debug, Default)]
pub struct ProcessTraffic {
    /// `CumConns`.
    pub connections: Counter,
    /// `CumReq`.
    pub requests: Counter,
    /// `TotalBytesOut`.
    pub bytes_out: Counter,
    /// Those of them that the statistics page asked for itself.
    pub page_bytes_out: Counter,
    /// `TotalSplicedBytesOut`.
    pub bytes_spliced: Counter,
    /// `CompressBpsIn`.
    pub compression_in: Counter,
    /// `CompressBpsOut`.
    pub compression_out: Counter,
    /// Connections accepted by this worker that are open now; only this worker writes it.
    pub open: Counter,
    /// Clients that were accepted where TLS is spoken: `SslRate`.
    pub tls_accepted: Counter,
    /// Clients that have begun to speak TLS.
    pub tls_clients: Counter,
    /// Those of them whose handshake made a new key: `SslFrontendKeyRate`.
    pub tls_client_keys: Counter,
    /// Connections to servers over which TLS was spoken.
    pub tls_servers: Counter,
    /// Those of them whose handshake made a new key: `SslBackendKeyRate`.
    pub tls_server_keys: Counter,
    /// Idle server connections that it was lent by other workers.
    pub borrowed: Counter,
    /// Nanoseconds that the worker was busy, from the runtime.
    pub busy: Counter,
}
