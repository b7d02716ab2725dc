//! `tune.*` of the global section.

/// `tune.*`.
#[derive(Clone, Debug)]
pub struct Tune {
    /// `tune.bufsize`: bytes.
    pub bufsize: usize,
    /// `tune.maxrewrite`: bytes.
    pub maxrewrite: usize,
    /// `tune.http.maxhdr`: fields.
    pub http_maxhdr: usize,
    /// `tune.http.logurilen`: bytes. Of the 1,024 that it is unless it says otherwise, one is for an end.
    pub http_logurilen: usize,
    /// `tune.http.cookielen`: bytes.
    pub http_cookielen: usize,
    /// `tune.log-file.bufsize`: bytes that may wait for a file of logs.
    pub log_file_bufsize: usize,
    /// `tune.maxaccept`: connections a wake-up.
    pub maxaccept: u32,
    /// `tune.pipesize`: bytes; 0 is the system's.
    pub pipesize: usize,
    /// `tune.rcvbuf.client`, `.server`, `tune.sndbuf.client`, `.server`: bytes; 0 is the system's.
    pub rcvbuf_client: usize,
    /// See above.
    pub rcvbuf_server: usize,
    /// See above.
    pub sndbuf_client: usize,
    /// See above.
    pub sndbuf_server: usize,
    /// `tune.h2.*`.
    pub h2: TuneHttp2,
    /// `tune.quic.*`.
    pub quic: TuneQuic,
    /// `tune.vars.*-max-size`: bytes; 0 is no limit. Order: global, proc, sess, txn, reqres.
    pub vars_max_size: [usize; 5],
    /// `maxcomprate`: bytes a second; 0 is no limit.
    pub compression_rate_max: u64,
    /// `maxcompcpuusage`: percent.
    pub compression_cpu_max: u32,
    /// `maxzlibmem`: bytes; 0 is no limit.
    pub compression_memory_max: u64,
    /// Tidegate's: `tune.stick-table.handover`, bytes of stick tables that the next worker process gets; 0: none.
    pub stick_handover_max: u64,
    /// `tune.idle-pool.shared`: workers may use each other's idle connections to servers.
    pub idle_pool_shared: bool,
    /// `tune.pool-low-fd-ratio`: percent of the descriptors above which no more connections to servers are kept idle.
    pub pool_low_fd_percent: u8,
    /// `tune.pool-high-fd-ratio`: percent of the descriptors above which a new connection to a server takes the place of an idle one.
    pub pool_high_fd_percent: u8,
    /// `tune.peers.max-updates-at-once`: changes of a table that are told to a peer in a row.
    pub peers_updates_max: usize,
    /// Tidegate's: `tune.ring.size`, bytes of the transaction ring of each worker; 0 turns it off.
    pub ring_size: usize,
    /// Tidegate's: `tune.external-checks`, programs of checks that run at a time.
    pub external_checks_max: u32,
    /// Tidegate's: `tune.disk-threads`, threads that wait for disks.
    pub disk_threads: usize,
    /// Tidegate's: `tune.plugin-threads`, threads that run plugins.
    pub plugin_threads: usize,
    /// Tidegate's: `tune.plugin-queue`, requests that wait for one of these.
    pub plugin_queue: usize,
    /// Tidegate's: `tune.splice.min`, body bytes from which splice is used; 0 turns it off.
    pub splice_min: u64,
}

/// `tune.h2.*`.
#[derive(Clone, Copy, Debug)]
pub struct TuneHttp2 {
    /// `tune.h2.header-table-size`: bytes.
    pub header_table_size: u32,
    /// `tune.h2.initial-window-size`: bytes.
    pub initial_window_size: u32,
    /// `tune.h2.max-concurrent-streams`.
    pub max_concurrent_streams: u32,
    /// `tune.h2.max-frame-size`: bytes.
    pub max_frame_size: u32,
    /// `h2-workaround-bogus-websocket-clients`.
    pub is_without_websockets: bool,
}

/// `tune.quic.frontend.*` and `tune.quic.retry-threshold`.
#[derive(Clone, Copy, Debug)]
pub struct TuneQuic {
    /// `tune.quic.frontend.conn-tx-buffers.limit`: buffers that wait on a connection until they are acknowledged.
    pub send_buffers_max: u32,
    /// `tune.quic.frontend.max-idle-timeout`.
    pub idle_timeout: std::time::Duration,
    /// `tune.quic.frontend.max-streams-bidi`.
    pub streams_max: u32,
    /// `tune.quic.retry-threshold`: handshakes.
    pub retry_threshold: u32,
}

impl Default for TuneQuic {
    fn default() -> Self {
        Self {
            send_buffers_max: 30,
            idle_timeout: std::time::Duration::from_secs(30),
            streams_max: 100,
            retry_threshold: 100,
        }
    }
}

impl Default for TuneHttp2 {
    fn default() -> Self {
        Self {
            header_table_size: 4_096,
            initial_window_size: 65_535,
            max_concurrent_streams: 100,
            max_frame_size: 16_384,
            is_without_websockets: false,
        }
    }
}

impl Default for Tune {
    fn default() -> Self {
        Self {
            bufsize: 16_384,
            maxrewrite: 1_024,
            http_maxhdr: 101,
            external_checks_max: 100,
            http_logurilen: 1_023,
            http_cookielen: 63,
            log_file_bufsize: 4 << 20,
            maxaccept: 64,
            pipesize: 0,
            rcvbuf_client: 0,
            rcvbuf_server: 0,
            sndbuf_client: 0,
            sndbuf_server: 0,
            h2: TuneHttp2::default(),
            quic: TuneQuic::default(),
            vars_max_size: [0; 5],
            compression_rate_max: 0,
            compression_cpu_max: 100,
            compression_memory_max: 0,
            stick_handover_max: 64 * 1024 * 1024,
            idle_pool_shared: true,
            pool_low_fd_percent: 20,
            pool_high_fd_percent: 25,
            peers_updates_max: 200,
            ring_size: 256 * 1024,
            disk_threads: 16,
            plugin_threads: 16,
            plugin_queue: 1_024,
            splice_min: 65_536,
        }
    }
}
