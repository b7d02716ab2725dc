//! The settings.

use keyspace::MaxmemoryPolicy;
use keyspace::{Bytes, changes::EventClass};

use super::{
    Change, Setting, State,
    choices::{
        AclPubsub, Allowed, CopyVersion, EndpointType, Fsync, LogLevel, OomScoreAdjust, PropagationError, ReplicaLoad,
        SanitizeDump, Supervised, SyslogFacility, TablesEngine, TablesRead, TlsClients,
    },
    clients::{ClientsMemory, OutputLimits},
    kinds::{Events, Flag, Hertz, Integer, Kind as _, Memory, Password, Text},
    lists::{FileName, Master, NoDefragmentation, Octal, OomScores, Percentiles, SavePoints, ShutdownOnSignal},
    renames::Renames,
};

type Count = Integer<0, { i64::MAX }>;
/// The least of what commands need.
const ONE_MB: u64 = 1024 * 1024;
type Signed = Integer<{ i32::MIN as i64 }, { i32::MAX as i64 }>;

macro_rules! settings {
    ($($name:literal $(| $alias:literal)?, $field:ident: $kind:ty = $default:expr, $mutable:ident, $state:expr, $doc:literal;)*) => {
        /// What a store is set to.
        #[derive(Debug, Clone)]
        pub struct Settings {
            $(#[doc = $doc] pub $field: $kind,)*
            /// The `user` lines of the file: a name and rules each.
            pub users: Vec<Vec<Bytes>>,
            /// Commands that have other names.
            pub renames: Renames,
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($field: $default,)* users: Vec::new(), renames: Renames::default() }
            }
        }

        /// All settings.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            alias: settings!(@alias $($alias)?),
            change: settings!(@ $mutable),
            state: $state,
            doc: $doc,
            text: |settings| settings.$field.text(),
            bytes: |settings| settings.$field.to_bytes(),
            set: |settings, words| {
                settings.$field.update(words)
            },
        },)*];
    };
    (@alias) => { None };
    (@alias $alias:literal) => { Some($alias) };
    (@ mutable) => { Change::Free };
    (@ protected) => { Change::Protected };
    (@ fixed) => { Change::AtStart };
}

use State::{Missing, Supported, WithoutEffect};

const NO_FORK: State = WithoutEffect("the store never forks: it writes the log and the tables while commands run");
const NO_FILE: State = WithoutEffect("the log and the tables have names and formats of their own");
const NO_CRASH_LOG: State = WithoutEffect("a crash is reported on stderr, and the process ends");
const NO_JEMALLOC: State = WithoutEffect("the allocator's thread is always there");
const NO_DEFRAG: State = WithoutEffect("the store does not move values; the allocator gives free pages back by itself");
const NO_TITLE: State = WithoutEffect("the process keeps its name");
const ALWAYS_READ_ONLY: State =
    Missing("a replica's log is the same as its master's, so only the master may write to it");
const OLD_COPY: State =
    WithoutEffect("a replica makes a copy beside its old data, and serves the old data until the copy is complete");
const ONE_LOG: State = WithoutEffect("a replica follows its master's log exactly, and ends the link if it cannot");
const FROM_LOG: State =
    WithoutEffect("a thread for each replica sends it the tables and the log as they are on the disk");
const NO_BUS: State = WithoutEffect("nodes do not talk to each other: `tidegate cluster` looks after all nodes");
const NO_DH: State = WithoutEffect("keys are exchanged by elliptic curves alone (ECDHE), which need no parameters");
const LAZY: State = WithoutEffect("removing takes no longer than unlinking");
const NO_LISTPACK: State =
    WithoutEffect("small values are not listpacks here; only OBJECT ENCODING follows this setting");

settings! {
    "bind", bind: Text = Text("127.0.0.1".into()), mutable, Supported, "The addresses to listen on.";
    "port", port: Integer<0, 65535> = Integer(6379), mutable, Supported, "The TCP port; 0 for none.";
    "databases", databases: Integer<1, 128> = Integer(16), fixed, Supported, "How many numbered databases there are.";
    "dir", dir: Text = Text(String::new()), protected, Supported, "The folder of the data.";
    "requirepass", requirepass: Password = Password(Bytes::new()), mutable, Supported, "The password of the user `default`.";
    "aclfile", aclfile: Text = Text(String::new()), fixed, Supported, "The file of users, instead of `user` lines.";
    "acl-pubsub-default", acl_pubsub_default: AclPubsub = AclPubsub::ResetChannels, mutable, Supported, "The channels that new users may use.";
    "acllog-max-len", acllog_max_len: Count = Integer(128), mutable, Supported, "How many entries ACL LOG keeps.";
    "client-output-buffer-limit", client_output_buffer_limit: OutputLimits = OutputLimits::DEFAULT, mutable, Supported, "How much output a client may leave unread before the store closes it, by the client's class.";
    "client-unread-max", client_unread_max: Memory = Memory(1024 * 1024), mutable, Supported, "How many bytes of replies a client may leave unread, in addition to as many bytes as its commands have. Above that, the store runs no more of its commands until the client has read half of them. While memory is short, the limit is 64 kB; a client may always leave 16 kB unread. 0: no limit. This limit does not delay clients that `client-output-buffer-limit` or `maxmemory-clients` closes.";
    "client-query-buffer-limit", client_query_buffer_limit: Memory<ONE_MB> = Memory(1024 * 1024 * 1024), mutable, Supported, "How many bytes of a client the store takes before it has run them: the longest command, with the data behind it.";
    "maxmemory-clients", maxmemory_clients: ClientsMemory = ClientsMemory::Bytes(0), mutable, Supported, "How much memory all clients together may take, in bytes or in percent of `maxmemory`; 0: no limit.";
    "tracking-table-max-keys", tracking_table_max_keys: Count = Integer(1_000_000), mutable, Supported, "How many keys the store remembers for caches of clients; 0: no limit.";
    "maxclients", maxclients: Integer<1, 4_294_967_295> = Integer(10_000), mutable, Supported, "How many clients may be connected at a time.";
    "timeout", timeout: Integer<0, 2_147_483_647> = Integer(0), mutable, Supported, "After how many seconds the store disconnects a silent client; 0: never.";
    "tcp-keepalive", tcp_keepalive: Integer<0, 2_147_483_647> = Integer(300), mutable, Supported, "Seconds between probes of silent connections; 0: none.";
    "proto-max-bulk-len", proto_max_bulk_len: Memory<ONE_MB> = Memory(512 * 1024 * 1024), mutable, Supported, "The longest argument, and the longest string.";
    "maxmemory", maxmemory: Memory<0, { u64::MAX }> = Memory(0), mutable, Supported, "How much memory the store may take, in bytes; 0: no limit.";
    "maxmemory-policy", maxmemory_policy: MaxmemoryPolicy = MaxmemoryPolicy::NoEviction, mutable, Supported, "Which keys leave when memory is full.";
    "maxmemory-samples", maxmemory_samples: Integer<1, 2_147_483_647> = Integer(5), mutable, Supported, "From how many keys the store chooses the one that leaves.";
    "appendonly", appendonly: Flag = Flag(true), mutable, WithoutEffect("the store keeps a log whenever it has a folder"), "Whether the store keeps a log.";
    "appendfsync", appendfsync: Fsync = Fsync::EverySecond, mutable, Supported, "When the store makes the log durable: `always`: before each reply; `everysec`: each second; `no`: the same as `everysec`.";
    "page-address", page_address: Text = Text(String::new()), fixed, Supported, "The address of the store's page and of its metrics for Prometheus (HTTP), as HOST:PORT (`127.0.0.1:8379`); without it, there is no page. Users log in with their name and password, and need the right to run INFO.";
    "log-retention-size", log_retention_size: Memory = Memory(1024 * 1024 * 1024), mutable, Supported, "How many bytes of the log the store keeps; 0: no limit. It always keeps the part that the tables still need.";
    "log-segment-size", log_segment_size: Memory = Memory(64 * 1024 * 1024), fixed, Supported, "The size of the log's files in bytes. The store removes the log file by file. At least 64kb.";
    "log-retention-seconds", log_retention_seconds: Integer<0, 4_294_967_295> = Integer(0), mutable, Supported, "For how many seconds the store keeps the log; 0: no limit. It always keeps the part that the tables still need.";
    "tables-size-max", tables_size_max: Memory = Memory(0), mutable, Supported, "How many bytes of the disk the tables may take when `maxmemory-policy` evicts keys; 0: no limit. With a limit, keys that leave memory stay in the tables, and the policy chooses keys to remove when the tables are too large.";
    "tables-behind-max", tables_behind_max: Memory = Memory(1024 * 1024 * 1024), mutable, Supported, "How many bytes of changes the tables may be behind, in the log or in memory. From half of it on, the store slows clients down to the speed of the disk; 0: no limit.";
    "tables-engine", tables_engine: TablesEngine = TablesEngine::Fjall, fixed, Supported, "The engine that keeps the tables on the disk. `rocksdb` is only in builds with the cargo feature of that name.";
    "tables-read", tables_read: TablesRead = TablesRead::Auto, fixed, Supported, "How the store reads keys that are not in memory. `cached`: io_uring through the page cache, many reads at once; `direct`: io_uring past the page cache; `auto`: `direct` where the page cache has no room for half of the tables, else `cached`; `threads`: each thread waits for one read. Where the kernel lacks or forbids io_uring the store uses `threads`.";
    "save", save: SavePoints = SavePoints::default(), mutable, NO_FORK, "When the store takes snapshots.";
    "rdbcompression", rdbcompression: Flag = Flag(true), mutable, NO_FORK, "Whether snapshots are compressed.";
    "rdbchecksum", rdbchecksum: Flag = Flag(true), fixed, NO_FORK, "Whether snapshots have a checksum.";
    "stop-writes-on-bgsave-error", stop_writes_on_bgsave_error: Flag = Flag(true), mutable, NO_FORK, "Whether a failed snapshot stops writes.";
    "auto-aof-rewrite-percentage", auto_aof_rewrite_percentage: Integer<0, 2_147_483_647> = Integer(100), mutable, NO_FORK, "How much the log may grow before it is rewritten, in percent.";
    "auto-aof-rewrite-min-size", auto_aof_rewrite_min_size: Memory = Memory(64 * 1024 * 1024), mutable, NO_FORK, "The smallest log that is rewritten, in bytes.";
    "no-appendfsync-on-rewrite", no_appendfsync_on_rewrite: Flag = Flag(false), mutable, NO_FORK, "Whether the store skips fsync while it rewrites the log.";
    "aof-use-rdb-preamble", aof_use_rdb_preamble: Flag = Flag(true), mutable, NO_FORK, "Whether the rewritten log begins with a snapshot.";
    "hash-max-listpack-entries" | "hash-max-ziplist-entries", hash_max_listpack_entries: Count = Integer(512), mutable, Supported, "The most fields of a small hash.";
    "hash-max-listpack-value" | "hash-max-ziplist-value", hash_max_listpack_value: Memory = Memory(64), mutable, Supported, "The longest field or value of a small hash, in bytes.";
    "set-max-intset-entries", set_max_intset_entries: Count = Integer(512), mutable, Supported, "The most members of a set of integers that the store keeps as a sorted array.";
    "zset-max-listpack-entries" | "zset-max-ziplist-entries", zset_max_listpack_entries: Count = Integer(128), mutable, Supported, "The most members of a small sorted set.";
    "zset-max-listpack-value" | "zset-max-ziplist-value", zset_max_listpack_value: Memory = Memory(64), mutable, Supported, "The longest member of a small sorted set, in bytes.";
    "list-max-listpack-size" | "list-max-ziplist-size", list_max_listpack_size: Signed = Integer(-2), mutable, Supported, "The size of a list's node: the most elements, or -1 to -5 for 4 kB to 64 kB.";
    "list-compress-depth", list_compress_depth: Integer<0, 2_147_483_647> = Integer(0), mutable, NO_LISTPACK, "How many nodes at both ends of a list stay uncompressed.";
    "stream-node-max-bytes", stream_node_max_bytes: Memory = Memory(4096), mutable, Supported, "The most bytes of a stream's node.";
    "stream-node-max-entries", stream_node_max_entries: Count = Integer(100), mutable, Supported, "The most entries of a stream's node: `MAXLEN ~` rounds to nodes.";
    "collection-max-whole-entries", collection_max_whole_entries: Count = Integer(8192), mutable, Supported, "The most elements of a collection that is one record on the disk. With more, each element is a record of its own: the store writes only changed elements, and the collection may be larger than memory.";
    "collection-max-whole-bytes", collection_max_whole_bytes: Memory = Memory(1024 * 1024), mutable, Supported, "The most bytes of a collection that is one record, counted when the store writes it to the tables.";
    "queue-message-max", queue_message_max: Memory<0, { 512 * 1024 * 1024 }> = Memory(64 * 1024 * 1024), mutable, Supported, "The longest body of a message of a queue, and about the longest reply of QUEUE RESERVE and QUEUE PEEK.";
    "hll-sparse-max-bytes", hll_sparse_max_bytes: Memory = Memory(3000), mutable, Supported, "The longest sparse HyperLogLog, in bytes.";
    "notify-keyspace-events", notify_keyspace_events: Events = Events(EventClass::empty()), mutable, Supported, "The classes of keyspace events that the store publishes.";
    "slowlog-log-slower-than", slowlog_log_slower_than: Integer<{ -1 }, { i64::MAX }> = Integer(10_000), mutable, Supported, "How many microseconds a command must take to appear in SLOWLOG; -1: no command appears.";
    "slowlog-max-len", slowlog_max_len: Count = Integer(128), mutable, Supported, "How many slow commands SLOWLOG keeps.";
    "latency-monitor-threshold", latency_monitor_threshold: Count = Integer(0), mutable, Supported, "How many milliseconds an event must take for LATENCY to keep it; 0: LATENCY keeps none.";
    "busy-reply-threshold" | "lua-time-limit", lua_time_limit: Count = Integer(5000), mutable, Supported, "After how many milliseconds a script counts as busy: then the store answers other clients with BUSY, and they may end the script; 0: never.";
    "hz", hz: Hertz = Hertz(10), mutable, WithoutEffect("the store does each task when it is due"), "How often background work is done each second.";
    "dynamic-hz", dynamic_hz: Flag = Flag(true), mutable, WithoutEffect("the store does each task when it is due"), "Whether `hz` follows the number of clients.";
    "activerehashing", activerehashing: Flag = Flag(true), mutable, WithoutEffect("tables grow piece by piece as they are used"), "Whether tables are rehashed in the background.";
    "lazyfree-lazy-user-del", lazyfree_lazy_user_del: Flag = Flag(false), mutable, LAZY, "Whether DEL is UNLINK.";
    "lazyfree-lazy-user-flush", lazyfree_lazy_user_flush: Flag = Flag(false), mutable, LAZY, "Whether FLUSHALL is FLUSHALL ASYNC.";
    "lazyfree-lazy-eviction", lazyfree_lazy_eviction: Flag = Flag(false), mutable, LAZY, "Whether the store frees evicted keys in the background.";
    "lazyfree-lazy-expire", lazyfree_lazy_expire: Flag = Flag(false), mutable, LAZY, "Whether the store frees expired keys in the background.";
    "lazyfree-lazy-server-del", lazyfree_lazy_server_del: Flag = Flag(false), mutable, LAZY, "Whether the store frees overwritten values in the background.";
    "protected-mode", protected_mode: Flag = Flag(true), mutable, Supported, "Whether the store refuses clients of other machines while no password is set.";
    "unixsocket", unixsocket: Text = Text(String::new()), fixed, Supported, "The path of a unix socket to listen on.";
    "unixsocketperm", unixsocketperm: Octal = Octal(0), fixed, Supported, "The permissions of the unix socket, octal; 0: those that the process gives new files.";
    "tcp-backlog", tcp_backlog: Integer<0, 2_147_483_647> = Integer(511), fixed, Supported, "How many connections may wait to be accepted.";
    "daemonize", daemonize: Flag = Flag(false), fixed, Supported, "Whether the process goes to the background once it serves. Under a supervisor it never does.";
    "supervised", supervised: Supervised = Supervised::No, fixed, Supported, "The supervisor that the process tells when it serves and when it ends: systemd (Type=notify), upstart (expect stop), auto (as the environment says), no.";
    "pidfile", pidfile: Text = Text(String::new()), fixed, Supported, "The file for the process number. In the background, the default is /var/run/redis.pid.";
    "logfile", logfile: Text = Text(String::new()), fixed, Supported, "The file for messages; the store opens it anew for each. Without a file, messages go to stdout.";
    "always-show-logo", always_show_logo: Flag = Flag(false), fixed, WithoutEffect("there is no logo"), "Whether a logo is shown.";
    "loglevel", loglevel: LogLevel = LogLevel::Notice, mutable, Supported, "Which messages the store logs: debug, verbose, notice or warning.";
    "latency-tracking-info-percentiles", latency_tracking_info_percentiles: Percentiles = Percentiles(vec![50.0, 99.0, 99.9]), mutable, Supported, "The percentiles of commands' times that INFO shows.";
    "latency-tracking", latency_tracking: Flag = Flag(true), mutable, Supported, "Whether the store keeps the times of commands, for each command.";
    "enable-debug-command", enable_debug_command: Allowed = Allowed::No, fixed, Supported, "Who may use DEBUG: nobody, everybody, or clients of this machine.";
    "enable-protected-configs", enable_protected_configs: Allowed = Allowed::No, fixed, Supported, "Who may change settings that are protected.";
    "shutdown-timeout", shutdown_timeout: Integer<0, 2_147_483_647> = Integer(10), mutable, WithoutEffect("replicas go on from the log when the store is back"), "How many seconds SHUTDOWN waits for replicas.";
    "shutdown-on-sigint", shutdown_on_sigint: ShutdownOnSignal = ShutdownOnSignal(String::new()), mutable, Supported, "What SIGINT does, in the words of SHUTDOWN. With nosave, the store leaves the tables as they are, and the next start runs the log.";
    "shutdown-on-sigterm", shutdown_on_sigterm: ShutdownOnSignal = ShutdownOnSignal(String::new()), mutable, Supported, "What SIGTERM does, in the words of SHUTDOWN. With nosave, the store leaves the tables as they are, and the next start runs the log.";
    "oom-score-adj", oom_score_adj: OomScoreAdjust = OomScoreAdjust::No, mutable, Supported, "Whether the store tells the kernel's OOM killer how readily to kill the process (`oom-score-adj-values`).";
    "oom-score-adj-values", oom_score_adj_values: OomScores = OomScores([0, 200, 800]), mutable, Supported, "The score for the OOM killer, as a master, as a replica, and as a child. Only the first one counts.";
    "syslog-ident", syslog_ident: Text = Text("redis".into()), fixed, Supported, "The name of the program in messages to syslog.";
    "syslog-facility", syslog_facility: SyslogFacility = SyslogFacility::Local0, fixed, Supported, "The facility of messages to syslog.";
    "syslog-enabled", syslog_enabled: Flag = Flag(false), fixed, Supported, "Whether the store also sends messages to syslog (/dev/log).";
    "dbfilename", dbfilename: FileName = FileName("dump.rdb".into()), protected, NO_FILE, "The file of snapshots.";
    "appendfilename", appendfilename: FileName = FileName("appendonly.aof".into()), fixed, NO_FILE, "The name of the log's files.";
    "appenddirname", appenddirname: FileName = FileName("appendonlydir".into()), fixed, NO_FILE, "The folder of the log.";
    "rdb-del-sync-files", rdb_del_sync_files: Flag = Flag(false), mutable, NO_FILE, "Whether snapshots for replicas are removed.";
    "aof-rewrite-incremental-fsync", aof_rewrite_incremental_fsync: Flag = Flag(true), mutable, NO_FORK, "Whether the rewritten log is synced piece by piece.";
    "rdb-save-incremental-fsync", rdb_save_incremental_fsync: Flag = Flag(true), mutable, NO_FORK, "Whether snapshots are synced piece by piece.";
    "aof-load-truncated", aof_load_truncated: Flag = Flag(true), mutable, WithoutEffect("a start always cuts off an incomplete end of the log, and logs that"), "Whether a start accepts a log with a truncated end.";
    "aof-timestamp-enabled", aof_timestamp_enabled: Flag = Flag(false), mutable, WithoutEffect("each entry of the log always has its time"), "Whether the log has timestamps.";
    "aof-disable-auto-gc", aof_disable_auto_gc: Flag = Flag(false), mutable, NO_FILE, "Whether old files of the log stay.";
    "rdb-key-save-delay", rdb_key_save_delay: Integer<{ i32::MIN as i64 }, 2_147_483_647> = Integer(0), mutable, NO_FORK, "Microseconds to wait for each key of a snapshot, for tests.";
    "key-load-delay", key_load_delay: Integer<{ i32::MIN as i64 }, 2_147_483_647> = Integer(0), mutable, WithoutEffect("the store reads keys when it needs them"), "Microseconds to wait for each key that is loaded, for tests.";
    "loading-process-events-interval-bytes", loading_process_events_interval_bytes: Integer<1024, 2_147_483_647> = Integer(2097152), mutable, WithoutEffect("the store reads keys when it needs them"), "How often the store serves clients while it loads data, in bytes of data.";
    "sanitize-dump-payload", sanitize_dump_payload: SanitizeDump = SanitizeDump::No, mutable, WithoutEffect("RESTORE always checks the whole payload"), "Whether RESTORE checks its payload.";
    "io-threads" | "shards", io_threads: Integer<1, 128> = Integer(1), fixed, Supported, "How many threads serve clients. One thread runs all commands; the others read and write sockets. With 2, the first thread also has half of the sockets, except those of clients that send pipelines. `shards` is another name: keys are not divided, and transactions and scripts are atomic with any number.";
    "io-threads-do-reads", io_threads_do_reads: Flag = Flag(false), fixed, WithoutEffect("these threads always read"), "Whether the threads of `io-threads` also read.";
    "server_cpulist", server_cpulist: Text = Text(String::new()), fixed, WithoutEffect("taskset and systemd's CPUAffinity bind the process"), "The cores of the main thread.";
    "bio_cpulist", bio_cpulist: Text = Text(String::new()), fixed, WithoutEffect("taskset and systemd's CPUAffinity bind the process"), "The cores of background threads.";
    "aof_rewrite_cpulist", aof_rewrite_cpulist: Text = Text(String::new()), fixed, WithoutEffect("taskset and systemd's CPUAffinity bind the process"), "The cores of the process that rewrites the log.";
    "bgsave_cpulist", bgsave_cpulist: Text = Text(String::new()), fixed, WithoutEffect("taskset and systemd's CPUAffinity bind the process"), "The cores of the process that takes snapshots.";
    "set-proc-title", set_proc_title: Flag = Flag(true), fixed, NO_TITLE, "Whether the process has a title in ps.";
    "proc-title-template", proc_title_template: Text = Text("{title} {listen-addr} {server-mode}".into()), mutable, NO_TITLE, "The template of the process' title.";
    "disable-thp", disable_thp: Flag = Flag(true), fixed, Supported, "Whether the store switches off the kernel's transparent huge pages for its process. With huge pages, memory that the store gives back in small pages comes back in large ones.";
    "crash-log-enabled", crash_log_enabled: Flag = Flag(true), mutable, NO_CRASH_LOG, "Whether a crash is reported in the log.";
    "crash-memcheck-enabled", crash_memcheck_enabled: Flag = Flag(true), mutable, NO_CRASH_LOG, "Whether a crash tests the memory.";
    "use-exit-on-panic", use_exit_on_panic: Flag = Flag(false), mutable, NO_CRASH_LOG, "Whether a panic is an exit.";
    "ignore-warnings", ignore_warnings: Text = Text(String::new()), mutable, WithoutEffect("there are no such warnings"), "Warnings about the kernel that the store does not print.";
    "watchdog-period", watchdog_period: Integer<0, 2_147_483_647> = Integer(0), mutable, WithoutEffect("LATENCY reports slow events"), "After how many milliseconds of one turn the watchdog reports the loop, for tests.";
    "jemalloc-bg-thread", jemalloc_bg_thread: Flag = Flag(true), mutable, NO_JEMALLOC, "Whether jemalloc has a thread.";
    "activedefrag", activedefrag: NoDefragmentation = NoDefragmentation, mutable, NO_DEFRAG, "Whether memory is defragmented.";
    "active-defrag-ignore-bytes", active_defrag_ignore_bytes: Memory<1> = Memory(104857600), mutable, NO_DEFRAG, "How many bytes must be wasted before defragmentation begins.";
    "active-defrag-cycle-min", active_defrag_cycle_min: Integer<1, 99> = Integer(1), mutable, NO_DEFRAG, "The least share of CPU for defragmentation, in percent.";
    "active-defrag-cycle-max", active_defrag_cycle_max: Integer<1, 99> = Integer(25), mutable, NO_DEFRAG, "The largest share of CPU for defragmentation, in percent.";
    "active-defrag-threshold-lower", active_defrag_threshold_lower: Integer<0, 1000> = Integer(10), mutable, NO_DEFRAG, "The least fragmentation at which defragmentation begins, in percent.";
    "active-defrag-threshold-upper", active_defrag_threshold_upper: Integer<0, 1000> = Integer(100), mutable, NO_DEFRAG, "The fragmentation at which defragmentation takes its largest share of CPU, in percent.";
    "active-defrag-max-scan-fields", active_defrag_max_scan_fields: Integer<1, { i64::MAX }> = Integer(1000), mutable, NO_DEFRAG, "The most fields that defragmentation looks at in one go.";
    "socket-mark-id", socket_mark_id: Integer<0, 4294967295> = Integer(0), fixed, Supported, "The mark (SO_MARK) of the listening sockets, and so of clients' connections. It needs the capability CAP_NET_ADMIN. 0: no mark.";
    "bind-source-addr", bind_source_addr: Text = Text(String::new()), mutable, Missing("the kernel chooses the address of connections to a master"), "The local address of connections to other servers.";
    "enable-module-command", enable_module_command: Allowed = Allowed::No, fixed, WithoutEffect("there are no modules"), "Who may use MODULE.";
    "lfu-log-factor", lfu_log_factor: Integer<0, 2_147_483_647> = Integer(10), mutable, WithoutEffect("the counter of uses grows as it does with 10"), "How slowly the counter of uses grows.";
    "lfu-decay-time", lfu_decay_time: Integer<0, 2_147_483_647> = Integer(1), mutable, WithoutEffect("the counter of uses falls by one a minute"), "After how many minutes the counter of uses falls.";
    "maxmemory-eviction-tenacity", maxmemory_eviction_tenacity: Integer<0, 100> = Integer(10), mutable, WithoutEffect("the store removes as much as it needs"), "How much effort eviction makes.";
    "active-expire-effort", active_expire_effort: Integer<1, 10> = Integer(1), mutable, WithoutEffect("the store removes keys when their time comes"), "How much effort the store makes to remove expired keys.";
    "repl-disable-tcp-nodelay", repl_disable_tcp_nodelay: Flag = Flag(false), mutable, FROM_LOG, "Whether packets to replicas may wait.";
    "repl-diskless-sync", repl_diskless_sync: Flag = Flag(true), mutable, FROM_LOG, "Whether replicas get snapshots without a file.";
    "repl-diskless-sync-delay", repl_diskless_sync_delay: Integer<0, 2_147_483_647> = Integer(5), mutable, FROM_LOG, "How many seconds a diskless copy waits for more replicas.";
    "repl-diskless-sync-max-replicas", repl_diskless_sync_max_replicas: Integer<0, 2_147_483_647> = Integer(0), mutable, FROM_LOG, "How many replicas end that wait (`repl-diskless-sync-delay`).";
    "repl-diskless-load", repl_diskless_load: ReplicaLoad = ReplicaLoad::Disabled, mutable, OLD_COPY, "Whether a replica takes snapshots without a file.";
    "repl-timeout", repl_timeout: Integer<1, 2_147_483_647> = Integer(60), mutable, Supported, "After how many seconds a master or a replica gives up a silent peer.";
    "repl-ping-replica-period" | "repl-ping-slave-period", repl_ping_replica_period: Integer<1, 2_147_483_647> = Integer(10), mutable, Supported, "How many seconds lie between a master's pings to its replicas.";
    "repl-backlog-size", repl_backlog_size: Memory<1> = Memory(1048576), mutable, FROM_LOG, "How many bytes of the past a master keeps for replicas.";
    "repl-backlog-ttl", repl_backlog_ttl: Integer<0, { i64::MAX }> = Integer(3600), mutable, FROM_LOG, "How many seconds a master without replicas keeps the backlog.";
    "replica-lazy-flush" | "slave-lazy-flush", replica_lazy_flush: Flag = Flag(false), mutable, OLD_COPY, "Whether a replica frees its data in the background.";
    "replica-forward", replica_forward: Flag = Flag(false), mutable, Supported, "Whether a replica sends its clients' commands on keys to its master and passes the answers back, while its link to the master is up. It logs in with `masteruser` and `masterauth`, and checks clients' permissions itself. It does not send commands that block, transactions with WATCH, and reads with CLIENT TRACKING.";
    "replica-forward-timeout", replica_forward_timeout: Integer<0, { i64::MAX }> = Integer(5000), mutable, Supported, "With `replica-forward`: how many milliseconds commands wait for a link to the master that is down. After that, the replica refuses writes and answers reads itself.";
    "replica-serve-stale-data" | "slave-serve-stale-data", replica_serve_stale_data: Flag = Flag(true), mutable, Supported, "Whether a replica without a link to its master answers.";
    "replica-read-only" | "slave-read-only", replica_read_only: Flag = Flag(true), mutable, ALWAYS_READ_ONLY, "Whether a replica refuses writes.";
    "replica-ignore-maxmemory" | "slave-ignore-maxmemory", replica_ignore_maxmemory: Flag = Flag(true), mutable, ONE_LOG, "Whether only the master evicts.";
    "replica-ignore-disk-write-errors", replica_ignore_disk_write_errors: Flag = Flag(false), mutable, ONE_LOG, "Whether a replica goes on when it cannot write to its disk.";
    "replica-announced", replica_announced: Flag = Flag(true), mutable, Supported, "Whether the master tells Sentinel about this replica.";
    "replica-priority" | "slave-priority", replica_priority: Integer<0, 2_147_483_647> = Integer(100), mutable, Supported, "Which replica Sentinel prefers.";
    "replica-announce-ip" | "slave-announce-ip", replica_announce_ip: Text = Text(String::new()), mutable, Supported, "The address that a replica gives to its master.";
    "replica-announce-port" | "slave-announce-port", replica_announce_port: Integer<0, 65535> = Integer(0), mutable, Supported, "The port that a replica gives to its master; 0: its own.";
    "replicaof" | "slaveof", replicaof: Master = Master(None), fixed, Supported, "The master of this replica.";
    "masteruser", masteruser: Text = Text(String::new()), mutable, Supported, "The ACL user by which this replica logs in to its master.";
    "masterauth", masterauth: Text = Text(String::new()), mutable, Supported, "The password by which this replica logs in to its master.";
    "min-replicas-to-write" | "min-slaves-to-write", min_replicas_to_write: Integer<0, 2_147_483_647> = Integer(0), mutable, Supported, "The store refuses writes while fewer replicas than this are connected and were heard of within `min-replicas-max-lag` seconds.";
    "min-replicas-max-lag" | "min-slaves-max-lag", min_replicas_max_lag: Integer<0, 2_147_483_647> = Integer(10), mutable, Supported, "How many seconds ago the store must have heard of a replica for it to count for `min-replicas-to-write`.";
    "replica-ack", replica_ack: Integer<0, 2_147_483_647> = Integer(0), mutable, Supported, "How many replicas must have a write, as safe as their own `appendfsync` says, before its client gets the answer. A read that shows such a write waits too. With fewer replicas connected, the store refuses writes (`NOREPLICAS`).";
    "replica-set-aside-data", replica_set_aside_data: Flag = Flag(true), mutable, Supported, "What a replica does with its data when its master has none of the same history, as when the master comes back with an empty folder. `yes`: the replica keeps the data in the folder `set-aside-data-TIME`, with log and tables; remove that by hand. `no`: the replica removes the data, as Redis does.";
    "replica-log-size-max", replica_log_size_max: Memory = Memory(16 * 1024 * 1024 * 1024), mutable, Supported, "How many bytes of the log the store keeps beyond `log-retention-size` for a replica that is connected and behind, or for a follower of the log with a name; 0: no limit. The store gives up a replica that is further behind, which then needs a copy when it comes back.";
    "replica-rdb-version", replica_rdb_version: CopyVersion = CopyVersion::Ten, mutable, Supported, "The RDB version of copies for replicas. Redis 7 and Valkey read 10. Redis 6.2 reads 9, which has no functions. Replicas do not say which version they read.";
    "propagation-error-behavior", propagation_error_behavior: PropagationError = PropagationError::Ignore, mutable, ONE_LOG, "What a replica does with a command of its master that it cannot run.";
    "cluster-enabled", cluster_enabled: Flag = Flag(false), fixed, Supported, "Whether the store is a node of a cluster. A node serves the slots that the agent gives it.";
    "cluster-agent-socket", cluster_agent_socket: Text = Text(String::new()), fixed, Supported, "The socket of the agent that looks after this node. The node passes commands that change the cluster (`CLUSTER MEET` and the like) on to it. `tidegate cluster up` sets it.";
    "cluster-wait-for-agent", cluster_wait_for_agent: Flag = Flag(false), fixed, Supported, "Whether a node of a cluster that is a replica follows its master only once an agent has told it of the cluster. An agent that waits for `tidegate cluster rescue` sets it for the nodes that it starts: nothing is copied before it is known who has what.";
    "cluster-proxy", cluster_proxy: Flag = Flag(false), mutable, Supported, "Whether a node of a cluster serves clients that know nothing of clusters: it passes commands for other nodes on to these, as a proxy does, instead of answering MOVED. Clients that have asked for the slots (CLUSTER SLOTS, SHARDS, NODES, LINKS), READONLY, READWRITE or ASKING still get MOVED. The node logs in to other nodes with `masteruser` and `masterauth`.";
    "cluster-settings-told", cluster_settings_told: Text = Text(String::new()), mutable, Supported, "Which of the settings that the cluster keeps (`tidegate cluster config`) this node was told last. The agent sets it.";
    "cluster-config-file", cluster_config_file: Text = Text("nodes.conf".into()), fixed, NO_BUS, "The cluster's file of nodes.";
    "cluster-node-timeout", cluster_node_timeout: Integer<0, { i64::MAX }> = Integer(15000), mutable, NO_BUS, "After how many milliseconds of silence a node counts as dead.";
    "cluster-port", cluster_port: Integer<0, 65535> = Integer(0), fixed, NO_BUS, "The port of the cluster's bus.";
    "cluster-replica-validity-factor" | "cluster-slave-validity-factor", cluster_replica_validity_factor: Integer<0, 2_147_483_647> = Integer(10), mutable, NO_BUS, "How old a replica's data may be for a failover.";
    "cluster-migration-barrier", cluster_migration_barrier: Integer<0, 2_147_483_647> = Integer(1), mutable, NO_BUS, "How many replicas a master keeps.";
    "cluster-allow-replica-migration", cluster_allow_replica_migration: Flag = Flag(true), mutable, NO_BUS, "Whether replicas move to masters without any.";
    "cluster-require-full-coverage", cluster_require_full_coverage: Flag = Flag(true), mutable, NO_BUS, "Whether all slots must be served.";
    "cluster-replica-no-failover" | "cluster-slave-no-failover", cluster_replica_no_failover: Flag = Flag(false), mutable, NO_BUS, "Whether a replica never becomes a master by itself.";
    "cluster-allow-reads-when-down", cluster_allow_reads_when_down: Flag = Flag(false), mutable, NO_BUS, "Whether nodes answer reads while the cluster is down.";
    "cluster-allow-pubsubshard-when-down", cluster_allow_pubsubshard_when_down: Flag = Flag(true), mutable, NO_BUS, "Whether nodes carry sharded channels while the cluster is down.";
    "cluster-link-sendbuf-limit", cluster_link_sendbuf_limit: Memory<0, { u64::MAX }> = Memory(0), mutable, NO_BUS, "How many bytes may wait to be sent to another node.";
    "cluster-announce-ip", cluster_announce_ip: Text = Text(String::new()), mutable, NO_BUS, "The address that a node gives to others.";
    "cluster-announce-port", cluster_announce_port: Integer<0, 65535> = Integer(0), mutable, NO_BUS, "The port that a node gives to others.";
    "cluster-announce-tls-port", cluster_announce_tls_port: Integer<0, 65535> = Integer(0), mutable, NO_BUS, "The TLS port that a node gives to others.";
    "cluster-announce-bus-port", cluster_announce_bus_port: Integer<0, 65535> = Integer(0), mutable, NO_BUS, "The port of the bus that a node gives to others.";
    "cluster-announce-hostname", cluster_announce_hostname: Text = Text(String::new()), mutable, NO_BUS, "The host name that a node gives to others.";
    "cluster-preferred-endpoint-type", cluster_preferred_endpoint_type: EndpointType = EndpointType::Ip, mutable, NO_BUS, "What redirections name: an address, a host name or nothing.";
    "tls-port", tls_port: Integer<0, 65535> = Integer(0), mutable, Supported, "The port where clients speak TLS; 0: none. It may be beside `port` or, with `port 0`, in its place. A node of a cluster has none.";
    "tls-cert-file", tls_cert_file: Text = Text(String::new()), mutable, Supported, "The PEM file with the certificate that the store shows, and those of its issuers behind it. `CONFIG SET` reads certificates and keys anew, also under the same name; connections that are open stay as they are.";
    "tls-key-file", tls_key_file: Text = Text(String::new()), mutable, Supported, "The PEM file with the key of `tls-cert-file`.";
    "tls-key-file-pass", tls_key_file_pass: Text = Text(String::new()), mutable, Supported, "The password of `tls-key-file`, if that is encrypted (PKCS #8 with AES, as `openssl genpkey -aes256` writes it).";
    "tls-client-cert-file", tls_client_cert_file: Text = Text(String::new()), mutable, Supported, "The certificate that the store shows to its master, if it is another one than `tls-cert-file`. It counts together with `tls-client-key-file`.";
    "tls-client-key-file", tls_client_key_file: Text = Text(String::new()), mutable, Supported, "The key of `tls-client-cert-file`.";
    "tls-client-key-file-pass", tls_client_key_file_pass: Text = Text(String::new()), mutable, Supported, "The password of `tls-client-key-file`, if that is encrypted.";
    "tls-dh-params-file", tls_dh_params_file: Text = Text(String::new()), mutable, NO_DH, "Parameters for Diffie-Hellman's exchange of keys with old clients.";
    "tls-ca-cert-file", tls_ca_cert_file: Text = Text(String::new()), mutable, Supported, "The PEM file with the authorities that certificates of clients, and of the master, are verified by.";
    "tls-ca-cert-dir", tls_ca_cert_dir: Text = Text(String::new()), mutable, Supported, "A folder of authorities, each in a file that is named by its hash, as `openssl rehash` makes them. It may be beside `tls-ca-cert-file`.";
    "tls-protocols", tls_protocols: Text = Text(String::new()), mutable, Supported, "The versions of TLS, of `TLSv1.2` and `TLSv1.3`; both if nothing is said. There is no TLS 1.0 and 1.1: these words are warned of beside others, and refused alone.";
    "tls-ciphers", tls_ciphers: Text = Text(String::new()), mutable, Supported, "The ciphers of TLS 1.2, by OpenSSL's names and words. There are those with ECDHE and AES-GCM or ChaCha20.";
    "tls-ciphersuites", tls_ciphersuites: Text = Text(String::new()), mutable, Supported, "The cipher suites of TLS 1.3.";
    "tls-cluster", tls_cluster: Flag = Flag(false), mutable, Supported, "Whether `MIGRATE` speaks TLS with the other server. A node of a cluster refuses it: what nodes, agents and proxies say to each other has no TLS.";
    "tls-replication", tls_replication: Flag = Flag(false), mutable, Supported, "Whether a replica speaks TLS with its master. The master's certificate must be of an authority of `tls-ca-cert-file` or `tls-ca-cert-dir`; its name is not looked at, as in Redis.";
    "tls-auth-clients", tls_auth_clients: TlsClients = TlsClients::Yes, mutable, Supported, "Whether clients must show a certificate of an authority of `tls-ca-cert-file` or `tls-ca-cert-dir`.";
    "tls-prefer-server-ciphers", tls_prefer_server_ciphers: Flag = Flag(false), mutable, Supported, "Whether the store's order of ciphers counts, and not the client's.";
    "tls-session-caching", tls_session_caching: Flag = Flag(true), mutable, Supported, "Whether clients that come again need no whole handshake.";
    "tls-session-cache-size", tls_session_cache_size: Integer<0, 2_147_483_647> = Integer(20480), mutable, Supported, "How many sessions the store remembers for clients of TLS 1.2 that take no tickets; 0: as many as come within `tls-session-cache-timeout`, at most a million.";
    "tls-session-cache-timeout", tls_session_cache_timeout: Integer<0, 2_147_483_647> = Integer(300), mutable, Supported, "For how many seconds a session can be resumed.";
}
