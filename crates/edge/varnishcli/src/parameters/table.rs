//! All parameters of varnishd 7.1: the one table of names, kinds, units, bounds, defaults, meanings, and what they do here.

use telemetry::vsl::VslTag;

use super::{Bit, Effect, Flag, Kind, Specification};

const POOLS: &str = "NB: This has no effect in Tidegate: a worker thread serves any number of connections, there are no pools of threads.";
const MEMORY: &str = "NB: This has no effect in Tidegate: memory is taken as it is needed, within the bounds of heads and of the storages.";
const COMPILER: &str = "NB: This has no effect in Tidegate: VCL is not compiled by way of C.";
const MODULES: &str = "NB: This has no effect in Tidegate: its modules are built in.";
const HTTP2: &str = "NB: This has no effect in Tidegate yet: it does not speak HTTP/2.";
const WAITING: &str =
    "NB: This has no effect in Tidegate: waiting takes no thread, and all who wait for an object go on at once.";
const PATTERNS: &str =
    "NB: This has no effect in Tidegate: regular expressions are matched in bounded time by other means.";
const PROCESS: &str = "NB: This has no effect in Tidegate: its processes and memory are looked after otherwise.";
const INLINE_C: &str = "NB: Tidegate does not run C: VCL is not compiled by way of it.";

fn debug_bits() -> Vec<Bit> {
    vec![
        "req_state",
        "workspace",
        "waitinglist",
        "syncvsl",
        "hashedge",
        "vclrel",
        "lurker",
        "esi_chop",
        "flush_head",
        "vtc_mode",
        "witness",
        "vsm_keep",
        "slow_acceptor",
        "h2_nocheck",
        "vmod_so_keep",
        "processors",
        "protocol",
        "vcl_keep",
        "lck",
    ]
}

fn experimental_bits() -> Vec<Bit> {
    vec!["drop_pools"]
}

fn feature_bits() -> Vec<Bit> {
    vec![
        "http2",
        "short_panic",
        "no_coredump",
        "https_scheme",
        "http_date_postel",
        "esi_ignore_https",
        "esi_disable_xml_check",
        "esi_ignore_other_elements",
        "esi_remove_bom",
        "esi_include_onerror",
        "wait_silo",
        "validate_headers",
        "busy_stats_rate",
    ]
}

fn tags() -> Vec<Bit> {
    VslTag::ALL.iter().map(|tag| tag.name()).collect()
}

macro_rules! parameters {
    ($($name:ident {
        kind: $kind:expr, units: $units:literal, default: $default:literal,
        bounds: ($least:expr, $most:expr), flags: $flags:expr, effect: $effect:expr,
        doc: $doc:literal
    })*) => {
        /// The parameters.
        #[expect(non_camel_case_types, reason = "the names are Varnish's, as users write them")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Param {
            $(#[doc = $doc] $name,)*
        }

        impl Param {
            /// The name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }

        /// In the order of the names.
        pub(super) const ALL: &[Specification] = &[$(Specification {
            name: stringify!($name),
            kind: $kind,
            units: $units,
            minimum: $least,
            maximum: $most,
            default: $default,
            doc: $doc,
            flags: $flags,
            effect: $effect,
        }),*];
    };
}

parameters! {
    accept_filter {
        kind: Kind::Boolean, units: "", default: "off",
        bounds: (None, None), flags: &[], effect: Effect::Unavailable,
        doc: "Whether the kernel hands over a connection only when a request has come."
    }
    acceptor_sleep_decay {
        kind: Kind::Double, units: "", default: "0.9",
        bounds: (Some("0"), Some("1")), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "When connections cannot be accepted for want of files or memory, the pause between attempts grows. Each success multiplies it by this."
    }
    acceptor_sleep_incr {
        kind: Kind::Timeout, units: "seconds", default: "0.000",
        bounds: (Some("0.000"), Some("1.000")), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "How much longer the pause between attempts to accept becomes with each failure."
    }
    acceptor_sleep_max {
        kind: Kind::Timeout, units: "seconds", default: "0.050",
        bounds: (Some("0.000"), Some("10.000")), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "The longest pause between attempts to accept."
    }
    auto_restart {
        kind: Kind::Boolean, units: "bool", default: "on",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Whether a worker that dies is started again."
    }
    backend_idle_timeout {
        kind: Kind::Timeout, units: "seconds", default: "60.000",
        bounds: (Some("1.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "How long a connection to a backend is kept without use."
    }
    backend_local_error_holddown {
        kind: Kind::Timeout, units: "seconds", default: "10.000",
        bounds: (Some("0.000"), None), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "How long a backend is not tried again after a connection failed for want of an address, a port or a permission here."
    }
    backend_remote_error_holddown {
        kind: Kind::Timeout, units: "seconds", default: "0.250",
        bounds: (Some("0.000"), None), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "How long a backend is not tried again after it refused a connection or could not be reached."
    }
    ban_cutoff {
        kind: Kind::Unsigned, units: "bans", default: "0",
        bounds: (Some("0"), None), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "Objects that wait for so many bans are removed as if one of them had matched, so that the list stays short. 0 for never."
    }
    ban_dups {
        kind: Kind::Boolean, units: "bool", default: "on",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Whether a new ban takes the place of older equal ones."
    }
    ban_lurker_age {
        kind: Kind::Timeout, units: "seconds", default: "60.000",
        bounds: (Some("0.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "How old a ban is before the lurker tests objects against it."
    }
    ban_lurker_batch {
        kind: Kind::Unsigned, units: "", default: "1000",
        bounds: (Some("1"), None), flags: &[], effect: Effect::Honoured,
        doc: "How many tests the lurker makes before it sleeps."
    }
    ban_lurker_holdoff {
        kind: Kind::Timeout, units: "seconds", default: "0.010",
        bounds: (Some("0.000"), None), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "How long the lurker waits when a request needs what it works on."
    }
    ban_lurker_sleep {
        kind: Kind::Timeout, units: "seconds", default: "0.010",
        bounds: (Some("0.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "How long the lurker sleeps between its batches. 0 switches it off."
    }
    between_bytes_timeout {
        kind: Kind::Timeout, units: "seconds", default: "60.000",
        bounds: (Some("0.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "How long a fetch waits for more of a response. A backend and a request may have their own in VCL."
    }
    cc_command {
        kind: Kind::Text, units: "", default: "none",
        bounds: (None, None), flags: &[Flag::MustReload, Flag::BuildOptions], effect: Effect::Without(COMPILER),
        doc: "The command that compiles C."
    }
    cc_warnings {
        kind: Kind::Text, units: "", default: "none",
        bounds: (None, None), flags: &[Flag::MustReload, Flag::BuildOptions], effect: Effect::Without(COMPILER),
        doc: "Warnings of the compiler of C."
    }
    cli_limit {
        kind: Kind::Bytes, units: "bytes", default: "48k",
        bounds: (Some("128b"), Some("99999999b")), flags: &[], effect: Effect::Honoured,
        doc: "Bytes of a reply of the management protocol. A longer one is cut and has the status 201."
    }
    cli_timeout {
        kind: Kind::Timeout, units: "seconds", default: "60.000",
        bounds: (Some("0.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "How long the managing process waits for the worker's answer."
    }
    clock_skew {
        kind: Kind::Unsigned, units: "seconds", default: "10",
        bounds: (Some("0"), None), flags: &[], effect: Effect::Honoured,
        doc: "How many seconds a backend's clock may differ before its Date is not believed."
    }
    clock_step {
        kind: Kind::Timeout, units: "seconds", default: "1.000",
        bounds: (Some("0.000"), None), flags: &[], effect: Effect::Without(PROCESS),
        doc: "How far the clock may jump before the worker ends."
    }
    connect_timeout {
        kind: Kind::Timeout, units: "seconds", default: "3.500",
        bounds: (Some("0.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "How long a connection to a backend may take. A backend and a request may have their own in VCL."
    }
    critbit_cooloff {
        kind: Kind::Timeout, units: "seconds", default: "180.000",
        bounds: (Some("60.000"), Some("254.000")), flags: &[Flag::Wizard], effect: Effect::Without(MEMORY),
        doc: "How long keys that are gone are kept for those who may still look at them."
    }
    debug {
        kind: Kind::Bits { names: debug_bits, what: "debug bit", sign: '+' }, units: "", default: "none",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "What developers want to see: names with + or - before them, none for nothing."
    }
    default_grace {
        kind: Kind::Timeout, units: "seconds", default: "10.000",
        bounds: (Some("0.000"), None), flags: &[Flag::ObjSticky], effect: Effect::Honoured,
        doc: "How long an object is served after its TTL while a new one is fetched."
    }
    default_keep {
        kind: Kind::Timeout, units: "seconds", default: "0.000",
        bounds: (Some("0.000"), None), flags: &[Flag::ObjSticky], effect: Effect::Honoured,
        doc: "How long an object is kept after its TTL and grace, to ask the backend whether it changed."
    }
    default_ttl {
        kind: Kind::Timeout, units: "seconds", default: "120.000",
        bounds: (Some("0.000"), None), flags: &[Flag::ObjSticky], effect: Effect::Honoured,
        doc: "How long an object is fresh if neither the backend nor VCL says so."
    }
    experimental {
        kind: Kind::Bits { names: experimental_bits, what: "experimental bit", sign: '+' }, units: "", default: "none",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "What is being tried out: names with + or - before them, none for nothing."
    }
    feature {
        kind: Kind::Bits { names: feature_bits, what: "feature bit", sign: '+' }, units: "", default: "+validate_headers",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Small things that can be switched: names with + or - before them, none for nothing, default for the default."
    }
    fetch_chunksize {
        kind: Kind::Bytes, units: "bytes", default: "16k",
        bounds: (Some("4k"), None), flags: &[Flag::Experimental], effect: Effect::Without(MEMORY),
        doc: "How much storage a fetch asks for at once while it does not know how much will come."
    }
    fetch_maxchunksize {
        kind: Kind::Bytes, units: "bytes", default: "0.25G",
        bounds: (Some("64k"), None), flags: &[Flag::Experimental], effect: Effect::Without(MEMORY),
        doc: "The largest piece of storage."
    }
    first_byte_timeout {
        kind: Kind::Timeout, units: "seconds", default: "60.000",
        bounds: (Some("0.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "How long a fetch waits for a response to begin. A backend and a request may have their own in VCL."
    }
    gzip_buffer {
        kind: Kind::Bytes, units: "bytes", default: "32k",
        bounds: (Some("2k"), None), flags: &[Flag::Experimental], effect: Effect::Without(MEMORY),
        doc: "Bytes of the buffer between compression and storage."
    }
    gzip_level {
        kind: Kind::Unsigned, units: "", default: "6",
        bounds: (Some("0"), Some("9")), flags: &[], effect: Effect::Honoured,
        doc: "How hard to compress: 0 not at all, 1 quickly, 9 as small as possible."
    }
    gzip_memlevel {
        kind: Kind::Unsigned, units: "", default: "8",
        bounds: (Some("1"), Some("9")), flags: &[], effect: Effect::Honoured,
        doc: "How much memory compression takes, from 1 to 9."
    }
    h2_header_table_size {
        kind: Kind::Bytes, units: "bytes", default: "4k",
        bounds: (Some("0b"), None), flags: &[], effect: Effect::Without(HTTP2),
        doc: "HTTP/2: bytes of the table of header fields that clients are told."
    }
    h2_initial_window_size {
        kind: Kind::Bytes, units: "bytes", default: "65535b",
        bounds: (Some("65535b"), Some("2147483647b")), flags: &[], effect: Effect::Without(HTTP2),
        doc: "HTTP/2: bytes that a client may send on a stream before it is told to go on."
    }
    h2_max_concurrent_streams {
        kind: Kind::Unsigned, units: "streams", default: "100",
        bounds: (Some("0"), None), flags: &[], effect: Effect::Without(HTTP2),
        doc: "HTTP/2: requests at once on a connection."
    }
    h2_max_frame_size {
        kind: Kind::Bytes, units: "bytes", default: "16k",
        bounds: (Some("16k"), Some("16777215b")), flags: &[], effect: Effect::Without(HTTP2),
        doc: "HTTP/2: bytes of a frame that clients are told."
    }
    h2_max_header_list_size {
        kind: Kind::Bytes, units: "bytes", default: "2147483647b",
        bounds: (Some("0b"), None), flags: &[], effect: Effect::Without(HTTP2),
        doc: "HTTP/2: bytes of a request's header fields."
    }
    h2_rx_window_increment {
        kind: Kind::Bytes, units: "bytes", default: "1M",
        bounds: (Some("1M"), Some("1G")), flags: &[Flag::Wizard], effect: Effect::Without(HTTP2),
        doc: "HTTP/2: how much the window of a connection is opened at once."
    }
    h2_rx_window_low_water {
        kind: Kind::Bytes, units: "bytes", default: "10M",
        bounds: (Some("65535b"), Some("1G")), flags: &[Flag::Wizard], effect: Effect::Without(HTTP2),
        doc: "HTTP/2: below how much the window of a connection is opened again."
    }
    h2_rxbuf_storage {
        kind: Kind::Text, units: "", default: "Transient",
        bounds: (None, None), flags: &[Flag::MustRestart], effect: Effect::Without(HTTP2),
        doc: "HTTP/2: the storage for bodies of requests."
    }
    http1_iovs {
        kind: Kind::Unsigned, units: "struct iovec (=16 bytes)", default: "64",
        bounds: (Some("5"), Some("1024")), flags: &[Flag::Wizard], effect: Effect::Without(MEMORY),
        doc: "Pieces that are written at once."
    }
    http_gzip_support {
        kind: Kind::Boolean, units: "bool", default: "on",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Whether bodies are fetched and kept compressed, and decompressed for clients that want that."
    }
    http_max_hdr {
        kind: Kind::Unsigned, units: "header lines", default: "64",
        bounds: (Some("32"), Some("65535")), flags: &[], effect: Effect::Honoured,
        doc: "Header fields of a message."
    }
    http_range_support {
        kind: Kind::Boolean, units: "bool", default: "on",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Whether requests for parts of an object get them."
    }
    http_req_hdr_len {
        kind: Kind::Bytes, units: "bytes", default: "8k",
        bounds: (Some("40b"), None), flags: &[], effect: Effect::Honoured,
        doc: "Bytes of a header field of a request."
    }
    http_req_size {
        kind: Kind::Bytes, units: "bytes", default: "32k",
        bounds: (Some("0.25k"), None), flags: &[], effect: Effect::Honoured,
        doc: "Bytes of a request's head."
    }
    http_resp_hdr_len {
        kind: Kind::Bytes, units: "bytes", default: "8k",
        bounds: (Some("40b"), None), flags: &[], effect: Effect::Honoured,
        doc: "Bytes of a header field of a backend's response."
    }
    http_resp_size {
        kind: Kind::Bytes, units: "bytes", default: "32k",
        bounds: (Some("0.25k"), None), flags: &[], effect: Effect::Honoured,
        doc: "Bytes of the head of a backend's response."
    }
    idle_send_timeout {
        kind: Kind::Timeout, units: "seconds", default: "60.000",
        bounds: (Some("0.000"), None), flags: &[Flag::DelayedEffect], effect: Effect::Honoured,
        doc: "How long sending to a client may rest."
    }
    listen_depth {
        kind: Kind::Unsigned, units: "connections", default: "1024",
        bounds: (Some("0"), None), flags: &[Flag::MustRestart], effect: Effect::Honoured,
        doc: "Connections that wait in the kernel until they are accepted."
    }
    lru_interval {
        kind: Kind::Timeout, units: "seconds", default: "2.000",
        bounds: (Some("0.000"), None), flags: &[Flag::Experimental], effect: Effect::Without(MEMORY),
        doc: "How long after its last use an object counts as used again."
    }
    max_esi_depth {
        kind: Kind::Unsigned, units: "levels", default: "5",
        bounds: (Some("0"), None), flags: &[], effect: Effect::Honoured,
        doc: "How deep documents may include each other."
    }
    max_restarts {
        kind: Kind::Unsigned, units: "restarts", default: "4",
        bounds: (Some("0"), None), flags: &[], effect: Effect::Honoured,
        doc: "How often a request may begin again."
    }
    max_retries {
        kind: Kind::Unsigned, units: "retries", default: "4",
        bounds: (Some("0"), None), flags: &[], effect: Effect::Honoured,
        doc: "How often a fetch may begin again."
    }
    max_vcl {
        kind: Kind::Unsigned, units: "", default: "100",
        bounds: (Some("0"), None), flags: &[], effect: Effect::Honoured,
        doc: "VCLs that may be loaded before something is said; see max_vcl_handling."
    }
    max_vcl_handling {
        kind: Kind::Unsigned, units: "", default: "1",
        bounds: (Some("0"), Some("2")), flags: &[], effect: Effect::Honoured,
        doc: "What happens to a VCL beyond max_vcl: 0 it is loaded, 1 with a warning, 2 it is refused."
    }
    nuke_limit {
        kind: Kind::Unsigned, units: "allocations", default: "50",
        bounds: (Some("0"), None), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "Objects that may be removed to make room for one."
    }
    pcre2_depth_limit {
        kind: Kind::Unsigned, units: "", default: "20",
        bounds: (Some("1"), None), flags: &[], effect: Effect::Without(PATTERNS),
        doc: "How deep a regular expression may go into itself."
    }
    pcre2_jit_compilation {
        kind: Kind::Boolean, units: "bool", default: "on",
        bounds: (None, None), flags: &[], effect: Effect::Without(PATTERNS),
        doc: "Whether regular expressions are compiled to machine code."
    }
    pcre2_match_limit {
        kind: Kind::Unsigned, units: "", default: "10000",
        bounds: (Some("1"), None), flags: &[], effect: Effect::Without(PATTERNS),
        doc: "How many steps matching a regular expression may take."
    }
    ping_interval {
        kind: Kind::Unsigned, units: "seconds", default: "3",
        bounds: (Some("0"), None), flags: &[Flag::MustRestart], effect: Effect::Honoured,
        doc: "How often the managing process asks the worker whether it lives. 0 for never."
    }
    pipe_sess_max {
        kind: Kind::Unsigned, units: "connections", default: "0",
        bounds: (Some("0"), None), flags: &[], effect: Effect::Honoured,
        doc: "Pipes at once. 0 for any number."
    }
    pipe_timeout {
        kind: Kind::Timeout, units: "seconds", default: "60.000",
        bounds: (Some("0.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "How long a pipe may be silent."
    }
    pool_req {
        kind: Kind::Pool, units: "", default: "10,100,10",
        bounds: (None, None), flags: &[], effect: Effect::Without(MEMORY),
        doc: "Memory for requests that is kept: least and most pieces, and for how many seconds."
    }
    pool_sess {
        kind: Kind::Pool, units: "", default: "10,100,10",
        bounds: (None, None), flags: &[], effect: Effect::Without(MEMORY),
        doc: "Memory for sessions that is kept: least and most pieces, and for how many seconds."
    }
    pool_vbo {
        kind: Kind::Pool, units: "", default: "10,100,10",
        bounds: (None, None), flags: &[], effect: Effect::Without(MEMORY),
        doc: "Memory for fetches that is kept: least and most pieces, and for how many seconds."
    }
    prefer_ipv6 {
        kind: Kind::Boolean, units: "bool", default: "off",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Whether a backend with both kinds of addresses is reached by IPv6."
    }
    rush_exponent {
        kind: Kind::Unsigned, units: "requests per request", default: "3",
        bounds: (Some("2"), None), flags: &[Flag::Experimental], effect: Effect::Without(WAITING),
        doc: "How many waiting requests go on for each one that went on, once their object is there."
    }
    send_timeout {
        kind: Kind::Timeout, units: "seconds", default: "600.000",
        bounds: (Some("0.000"), None), flags: &[Flag::DelayedEffect], effect: Effect::Honoured,
        doc: "How long sending a response may take in all."
    }
    shortlived {
        kind: Kind::Timeout, units: "seconds", default: "10.000",
        bounds: (Some("0.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "Objects with a shorter life than this go to the storage Transient."
    }
    sigsegv_handler {
        kind: Kind::Boolean, units: "bool", default: "on",
        bounds: (None, None), flags: &[Flag::MustRestart], effect: Effect::Without(PROCESS),
        doc: "Whether a fault of memory is told with the place where it was."
    }
    syslog_cli_traffic {
        kind: Kind::Boolean, units: "bool", default: "on",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Whether commands of the management protocol go to syslog."
    }
    tcp_fastopen {
        kind: Kind::Boolean, units: "bool", default: "off",
        bounds: (None, None), flags: &[Flag::MustRestart], effect: Effect::Honoured,
        doc: "Whether clients may send a request with the first packet."
    }
    tcp_keepalive_intvl {
        kind: Kind::Timeout, units: "seconds", default: "75.000",
        bounds: (Some("1.000"), Some("100.000")), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "Seconds between signs of life on a silent connection."
    }
    tcp_keepalive_probes {
        kind: Kind::Unsigned, units: "probes", default: "9",
        bounds: (Some("1"), Some("100")), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "Signs of life without an answer after which a connection is given up."
    }
    tcp_keepalive_time {
        kind: Kind::Timeout, units: "seconds", default: "7200.000",
        bounds: (Some("1.000"), Some("7200.000")), flags: &[Flag::Experimental], effect: Effect::Honoured,
        doc: "Seconds of silence before the first sign of life."
    }
    thread_pool_add_delay {
        kind: Kind::Timeout, units: "seconds", default: "0.000",
        bounds: (Some("0.000"), None), flags: &[Flag::Experimental], effect: Effect::Without(POOLS),
        doc: "How long to wait between starts of threads."
    }
    thread_pool_destroy_delay {
        kind: Kind::Timeout, units: "seconds", default: "1.000",
        bounds: (Some("0.010"), None), flags: &[Flag::DelayedEffect, Flag::Experimental], effect: Effect::Without(POOLS),
        doc: "How long to wait between ends of threads."
    }
    thread_pool_fail_delay {
        kind: Kind::Timeout, units: "seconds", default: "0.200",
        bounds: (Some("0.010"), None), flags: &[Flag::Experimental], effect: Effect::Without(POOLS),
        doc: "How long to wait after a thread could not be started."
    }
    thread_pool_max {
        kind: Kind::Unsigned, units: "threads", default: "5000",
        bounds: (None, None), flags: &[Flag::DelayedEffect], effect: Effect::Without(POOLS),
        doc: "Threads of a pool at most."
    }
    thread_pool_min {
        kind: Kind::Unsigned, units: "threads", default: "100",
        bounds: (Some("5"), None), flags: &[Flag::DelayedEffect], effect: Effect::Without(POOLS),
        doc: "Threads of a pool at least."
    }
    thread_pool_reserve {
        kind: Kind::Unsigned, units: "threads", default: "0",
        bounds: (None, None), flags: &[Flag::DelayedEffect], effect: Effect::Without(POOLS),
        doc: "Threads of a pool that are kept for what others wait for. 0 for 5% of thread_pool_min."
    }
    thread_pool_stack {
        kind: Kind::Bytes, units: "bytes", default: "80k",
        bounds: (Some("16k"), None), flags: &[Flag::DelayedEffect], effect: Effect::Without(POOLS),
        doc: "Bytes of a thread's stack."
    }
    thread_pool_timeout {
        kind: Kind::Timeout, units: "seconds", default: "300.000",
        bounds: (Some("10.000"), None), flags: &[Flag::DelayedEffect, Flag::Experimental], effect: Effect::Without(POOLS),
        doc: "How long a thread beyond the least number waits for work."
    }
    thread_pool_watchdog {
        kind: Kind::Timeout, units: "seconds", default: "60.000",
        bounds: (Some("0.100"), None), flags: &[Flag::Experimental], effect: Effect::Without(POOLS),
        doc: "How long a pool may stand still before the worker is ended."
    }
    thread_pools {
        kind: Kind::Unsigned, units: "pools", default: "2",
        bounds: (Some("1"), Some("32")), flags: &[Flag::DelayedEffect, Flag::Experimental], effect: Effect::Without(POOLS),
        doc: "Pools of threads."
    }
    thread_queue_limit {
        kind: Kind::Unsigned, units: "requests", default: "20",
        bounds: (Some("0"), None), flags: &[Flag::Experimental], effect: Effect::Without(POOLS),
        doc: "Requests of a pool that may wait for a thread."
    }
    thread_stats_rate {
        kind: Kind::Unsigned, units: "requests", default: "10",
        bounds: (Some("0"), None), flags: &[Flag::Experimental], effect: Effect::Without(POOLS),
        doc: "After how many requests a thread adds up what it has counted."
    }
    timeout_idle {
        kind: Kind::Timeout, units: "seconds", default: "5.000",
        bounds: (Some("0.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "How long a client's connection is kept without a request."
    }
    timeout_linger {
        kind: Kind::Timeout, units: "seconds", default: "0.050",
        bounds: (Some("0.000"), None), flags: &[Flag::Experimental], effect: Effect::Without(WAITING),
        doc: "How long a thread waits for the next request of a connection itself."
    }
    vary_notice {
        kind: Kind::Unsigned, units: "variants", default: "10",
        bounds: (Some("1"), None), flags: &[], effect: Effect::Honoured,
        doc: "From how many variants of an object on the log has a notice."
    }
    vcc_allow_inline_c {
        kind: Kind::Boolean, units: "bool", default: "off",
        bounds: (None, None), flags: &[], effect: Effect::Refused(INLINE_C),
        doc: "Whether C is allowed in VCL."
    }
    vcc_err_unref {
        kind: Kind::Boolean, units: "bool", default: "on",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Whether what VCL declares and does not use is an error."
    }
    vcc_unsafe_path {
        kind: Kind::Boolean, units: "bool", default: "on",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Whether VCL may name files by their path, outside of vcl_path."
    }
    vcl_cooldown {
        kind: Kind::Timeout, units: "seconds", default: "600.000",
        bounds: (Some("1.000"), None), flags: &[], effect: Effect::Honoured,
        doc: "How long a VCL that is not used any more stays warm."
    }
    vcl_path {
        kind: Kind::Text, units: "", default: "/etc/varnish:/usr/share/varnish/vcl",
        bounds: (None, None), flags: &[Flag::BuildOptions], effect: Effect::Honoured,
        doc: "Where VCL files are looked for: folders with colons between them."
    }
    vmod_path {
        kind: Kind::Text, units: "", default: "none",
        bounds: (None, None), flags: &[Flag::BuildOptions], effect: Effect::Without(MODULES),
        doc: "Where modules are looked for: folders with colons between them."
    }
    vsl_buffer {
        kind: Kind::Bytes, units: "bytes", default: "16k",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Bytes that a transaction logs before they are written."
    }
    vsl_mask {
        kind: Kind::Bits { names: tags, what: "VSL tag", sign: '-' }, units: "", default: "-Debug,-ObjProtocol,-ObjStatus,-ObjReason,-ObjHeader,-VCL_trace,-ExpKill,-WorkThread,-Hash,-VfpAcct,-H2RxHdr,-H2RxBody,-H2TxHdr,-H2TxBody,-VdpAcct",
        bounds: (None, None), flags: &[], effect: Effect::Honoured,
        doc: "Records that are not logged: names of tags with - before them (+ logs them again), default for the default."
    }
    vsl_reclen {
        kind: Kind::Bytes, units: "bytes", default: "255b",
        bounds: (Some("16b"), None), flags: &[], effect: Effect::Honoured,
        doc: "Bytes of a record of the log; what is longer is cut."
    }
    vsl_space {
        kind: Kind::Bytes, units: "bytes", default: "80M",
        bounds: (Some("1M"), Some("4G")), flags: &[Flag::MustRestart], effect: Effect::Honoured,
        doc: "Bytes of the log."
    }
    vsm_free_cooldown {
        kind: Kind::Timeout, units: "seconds", default: "60.000",
        bounds: (Some("10.000"), Some("600.000")), flags: &[], effect: Effect::Without(PROCESS),
        doc: "How long published memory that is gone stays for those who read it."
    }
    workspace_backend {
        kind: Kind::Bytes, units: "bytes", default: "96k",
        bounds: (Some("1k"), None), flags: &[Flag::DelayedEffect], effect: Effect::Without(MEMORY),
        doc: "Bytes for the headers and variables of a fetch."
    }
    workspace_client {
        kind: Kind::Bytes, units: "bytes", default: "96k",
        bounds: (Some("9k"), None), flags: &[Flag::DelayedEffect], effect: Effect::Without(MEMORY),
        doc: "Bytes for the headers and variables of a request."
    }
    workspace_session {
        kind: Kind::Bytes, units: "bytes", default: "0.75k",
        bounds: (Some("384b"), None), flags: &[Flag::DelayedEffect], effect: Effect::Without(MEMORY),
        doc: "Bytes for a session."
    }
    workspace_thread {
        kind: Kind::Bytes, units: "bytes", default: "2k",
        bounds: (Some("0.25k"), Some("8k")), flags: &[Flag::DelayedEffect], effect: Effect::Without(MEMORY),
        doc: "Bytes for a thread's own needs."
    }
}
