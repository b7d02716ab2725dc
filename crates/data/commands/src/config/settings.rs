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

const NO_FORK: State = WithoutEffect("nothing is forked: the log and the tables are written while commands run");
const NO_FILE: State = WithoutEffect("the log and the tables have names and formats of their own");
const NO_CRASH_LOG: State = WithoutEffect("a crash is told on stderr, and the process ends");
const NO_JEMALLOC: State = WithoutEffect("the allocator's thread is always there");
const NO_DEFRAG: State = WithoutEffect("values are not moved: free pages are given back by themselves");
const NO_TITLE: State = WithoutEffect("the process keeps its name");
const ALWAYS_READ_ONLY: State = Missing("the log of a replica is its master's, so nobody else writes to it");
const OLD_COPY: State = WithoutEffect("a copy is made beside the old data, which is served until all of it is there");
const ONE_LOG: State = WithoutEffect("a replica has what its master's log says, and ends the link where it cannot");
const FROM_LOG: State =
    WithoutEffect("replicas are given the tables and the log as they are on the disk, each by a thread of its own");
const NO_BUS: State = WithoutEffect("nodes do not talk to each other: `tidegate cluster` looks after all of them");
const TLS: State = Missing("TLS is not there yet; a proxy in front may speak it");
const LAZY: State = WithoutEffect("removing takes no longer than unlinking");
const NO_LISTPACK: State = WithoutEffect("small values are no listpacks here; OBJECT ENCODING goes by it");

settings! {
    "bind", bind: Text = Text("127.0.0.1".into()), mutable, Supported, "The addresses to listen on.";
    "port", port: Integer<0, 65535> = Integer(6379), mutable, Supported, "The TCP port; 0 for none.";
    "databases", databases: Integer<1, 128> = Integer(16), fixed, Supported, "How many numbered databases there are.";
    "dir", dir: Text = Text(String::new()), protected, Supported, "The folder of the data.";
    "requirepass", requirepass: Password = Password(Bytes::new()), mutable, Supported, "The password of the user `default`.";
    "aclfile", aclfile: Text = Text(String::new()), fixed, Supported, "The file of users, instead of `user` lines.";
    "acl-pubsub-default", acl_pubsub_default: AclPubsub = AclPubsub::ResetChannels, mutable, Supported, "The channels that new users may use.";
    "acllog-max-len", acllog_max_len: Count = Integer(128), mutable, Supported, "How many entries ACL LOG keeps.";
    "client-output-buffer-limit", client_output_buffer_limit: OutputLimits = OutputLimits::DEFAULT, mutable, Supported, "How much output a client may leave unread before it is closed, by its class.";
    "client-unread-max", client_unread_max: Memory = Memory(1024 * 1024), mutable, Supported, "How many bytes of replies a client may leave unread, in addition to as many bytes as its commands have. Above that the store runs no more of its commands until the client has read half of them. While memory is short the limit is 64 kB; 16 kB may be left unread in any case. 0: no limit. Clients that `client-output-buffer-limit` or `maxmemory-clients` closes are not held up by this.";
    "client-query-buffer-limit", client_query_buffer_limit: Memory<ONE_MB> = Memory(1024 * 1024 * 1024), mutable, Supported, "The longest command, with all that follows it.";
    "maxmemory-clients", maxmemory_clients: ClientsMemory = ClientsMemory::Bytes(0), mutable, Supported, "What all clients may take of memory, in bytes or in percent of `maxmemory`; 0: no bound.";
    "tracking-table-max-keys", tracking_table_max_keys: Count = Integer(1_000_000), mutable, Supported, "How many keys are remembered for caches of clients; 0: no bound.";
    "maxclients", maxclients: Integer<1, 4_294_967_295> = Integer(10_000), mutable, Supported, "How many clients may be connected.";
    "timeout", timeout: Integer<0, 2_147_483_647> = Integer(0), mutable, Supported, "Seconds after which a silent client is disconnected; 0: never.";
    "tcp-keepalive", tcp_keepalive: Integer<0, 2_147_483_647> = Integer(300), mutable, Supported, "Seconds between probes of silent connections; 0: none.";
    "proto-max-bulk-len", proto_max_bulk_len: Memory<ONE_MB> = Memory(512 * 1024 * 1024), mutable, Supported, "The longest argument, and the longest string.";
    "maxmemory", maxmemory: Memory<0, { u64::MAX }> = Memory(0), mutable, Supported, "What the store may take of memory; 0: no bound.";
    "maxmemory-policy", maxmemory_policy: MaxmemoryPolicy = MaxmemoryPolicy::NoEviction, mutable, Supported, "What goes when memory is full.";
    "maxmemory-samples", maxmemory_samples: Integer<1, 2_147_483_647> = Integer(5), mutable, Supported, "Among how many keys the one to go is chosen.";
    "appendonly", appendonly: Flag = Flag(true), mutable, WithoutEffect("there is always a log when there is a folder for it"), "Whether there is a log.";
    "appendfsync", appendfsync: Fsync = Fsync::EverySecond, mutable, Supported, "When the log is made durable.";
    "page-address", page_address: Text = Text(String::new()), fixed, Supported, "Where the store's page and its metrics for Prometheus are served by HTTP, as HOST:PORT (`127.0.0.1:8379`); without it nowhere. Users log in with their name and password, and need the right to run INFO.";
    "log-retention-size", log_retention_size: Memory = Memory(1024 * 1024 * 1024), mutable, Supported, "How much of the log is kept, in bytes; 0: no bound. What the tables still need is kept in any case.";
    "log-segment-size", log_segment_size: Memory = Memory(64 * 1024 * 1024), fixed, Supported, "The size of the log's files: what is not kept any more goes file by file. At least 64kb.";
    "log-retention-seconds", log_retention_seconds: Integer<0, 4_294_967_295> = Integer(0), mutable, Supported, "For how long the log is kept; 0: no bound. What the tables still need is kept in any case.";
    "tables-size-max", tables_size_max: Memory = Memory(0), mutable, Supported, "What the tables may take of the disk when `maxmemory-policy` lets keys go; 0: no bound. With a bound, keys that leave memory stay in the tables, and the policy says which go when these are too large.";
    "tables-behind-max", tables_behind_max: Memory = Memory(1024 * 1024 * 1024), mutable, Supported, "How many bytes of changes the tables may be behind, in the log or in memory. From half of it on clients are slowed down to what the disk takes; 0: no bound.";
    "tables-engine", tables_engine: TablesEngine = TablesEngine::Fjall, fixed, Supported, "What keeps the tables on the disk. `rocksdb` is there in builds with the cargo feature of that name.";
    "tables-read", tables_read: TablesRead = TablesRead::Auto, fixed, Supported, "How the store reads keys that are not in memory. `cached`: io_uring through the page cache, many reads at once; `direct`: io_uring past the page cache; `auto`: `direct` where the page cache has no room for half of the tables, else `cached`; `threads`: each thread waits for one read. Where the kernel lacks or forbids io_uring the store uses `threads`.";
    "save", save: SavePoints = SavePoints::default(), mutable, NO_FORK, "When snapshots are taken.";
    "rdbcompression", rdbcompression: Flag = Flag(true), mutable, NO_FORK, "Whether snapshots are compressed.";
    "rdbchecksum", rdbchecksum: Flag = Flag(true), fixed, NO_FORK, "Whether snapshots have a checksum.";
    "stop-writes-on-bgsave-error", stop_writes_on_bgsave_error: Flag = Flag(true), mutable, NO_FORK, "Whether a failed snapshot stops writes.";
    "auto-aof-rewrite-percentage", auto_aof_rewrite_percentage: Integer<0, 2_147_483_647> = Integer(100), mutable, NO_FORK, "By how much the log may grow before it is rewritten.";
    "auto-aof-rewrite-min-size", auto_aof_rewrite_min_size: Memory = Memory(64 * 1024 * 1024), mutable, NO_FORK, "From which size on the log is rewritten.";
    "no-appendfsync-on-rewrite", no_appendfsync_on_rewrite: Flag = Flag(false), mutable, NO_FORK, "Whether there is no fsync while the log is rewritten.";
    "aof-use-rdb-preamble", aof_use_rdb_preamble: Flag = Flag(true), mutable, NO_FORK, "Whether the rewritten log begins with a snapshot.";
    "hash-max-listpack-entries" | "hash-max-ziplist-entries", hash_max_listpack_entries: Count = Integer(512), mutable, Supported, "The most fields of a small hash.";
    "hash-max-listpack-value" | "hash-max-ziplist-value", hash_max_listpack_value: Memory = Memory(64), mutable, Supported, "The longest field or value of such a hash.";
    "set-max-intset-entries", set_max_intset_entries: Count = Integer(512), mutable, Supported, "The most members of a set of integers that is a sorted array.";
    "zset-max-listpack-entries" | "zset-max-ziplist-entries", zset_max_listpack_entries: Count = Integer(128), mutable, Supported, "The most members of a small sorted set.";
    "zset-max-listpack-value" | "zset-max-ziplist-value", zset_max_listpack_value: Memory = Memory(64), mutable, Supported, "The longest member of such a sorted set.";
    "list-max-listpack-size" | "list-max-ziplist-size", list_max_listpack_size: Signed = Integer(-2), mutable, Supported, "How much goes into one node of a list.";
    "list-compress-depth", list_compress_depth: Integer<0, 2_147_483_647> = Integer(0), mutable, NO_LISTPACK, "How many nodes at a list's ends are not compressed.";
    "stream-node-max-bytes", stream_node_max_bytes: Memory = Memory(4096), mutable, Supported, "How many bytes go into one node of a stream.";
    "stream-node-max-entries", stream_node_max_entries: Count = Integer(100), mutable, Supported, "How many entries go into one node of a stream: what `MAXLEN ~` rounds to.";
    "collection-max-whole-entries", collection_max_whole_entries: Count = Integer(8192), mutable, Supported, "The most elements of a collection that is one record on the disk; with more, each element is a record of its own: what changed is what is written, and the collection may be larger than memory.";
    "collection-max-whole-bytes", collection_max_whole_bytes: Memory = Memory(1024 * 1024), mutable, Supported, "The most bytes of a collection that is one record, counted when it is written to the tables.";
    "hll-sparse-max-bytes", hll_sparse_max_bytes: Memory = Memory(3000), mutable, Supported, "The longest sparse HyperLogLog.";
    "notify-keyspace-events", notify_keyspace_events: Events = Events(EventClass::empty()), mutable, Supported, "The classes of keyspace events that are published.";
    "slowlog-log-slower-than", slowlog_log_slower_than: Integer<{ -1 }, { i64::MAX }> = Integer(10_000), mutable, Supported, "Microseconds from which on a command is kept; -1: none.";
    "slowlog-max-len", slowlog_max_len: Count = Integer(128), mutable, Supported, "How many slow commands are kept.";
    "latency-monitor-threshold", latency_monitor_threshold: Count = Integer(0), mutable, Supported, "Milliseconds from which on an event is kept; 0: none.";
    "busy-reply-threshold" | "lua-time-limit", lua_time_limit: Count = Integer(5000), mutable, Supported, "Milliseconds after which other clients are told that a script is busy, and may end it; 0: they wait.";
    "hz", hz: Hertz = Hertz(10), mutable, WithoutEffect("what is due is done when it is due"), "How often background work is done each second.";
    "dynamic-hz", dynamic_hz: Flag = Flag(true), mutable, WithoutEffect("what is due is done when it is due"), "Whether that follows the number of clients.";
    "activerehashing", activerehashing: Flag = Flag(true), mutable, WithoutEffect("tables grow piece by piece as they are used"), "Whether tables are rehashed in the background.";
    "lazyfree-lazy-user-del", lazyfree_lazy_user_del: Flag = Flag(false), mutable, LAZY, "Whether DEL is UNLINK.";
    "lazyfree-lazy-user-flush", lazyfree_lazy_user_flush: Flag = Flag(false), mutable, LAZY, "Whether FLUSHALL is FLUSHALL ASYNC.";
    "lazyfree-lazy-eviction", lazyfree_lazy_eviction: Flag = Flag(false), mutable, LAZY, "Whether evicted keys are freed in the background.";
    "lazyfree-lazy-expire", lazyfree_lazy_expire: Flag = Flag(false), mutable, LAZY, "Whether expired keys are freed in the background.";
    "lazyfree-lazy-server-del", lazyfree_lazy_server_del: Flag = Flag(false), mutable, LAZY, "Whether what a command overwrites is freed in the background.";
    "protected-mode", protected_mode: Flag = Flag(true), mutable, Supported, "Whether clients of other machines are refused while there is no password.";
    "unixsocket", unixsocket: Text = Text(String::new()), fixed, Supported, "The path of a unix socket to listen on.";
    "unixsocketperm", unixsocketperm: Octal = Octal(0), fixed, Supported, "Its permissions, octal; 0: those of the process.";
    "tcp-backlog", tcp_backlog: Integer<0, 2_147_483_647> = Integer(511), fixed, Supported, "How many connections may wait to be accepted.";
    "daemonize", daemonize: Flag = Flag(false), fixed, Supported, "Whether it goes to the background once it serves; not when somebody supervises it.";
    "supervised", supervised: Supervised = Supervised::No, fixed, Supported, "Who supervises the process and is told when it serves and ends: systemd (Type=notify), upstart (expect stop), auto (as the environment says), no.";
    "pidfile", pidfile: Text = Text(String::new()), fixed, Supported, "A file for the process' number; in the background /var/run/redis.pid if none is said.";
    "logfile", logfile: Text = Text(String::new()), fixed, Supported, "A file for messages, opened anew for each; without one they go to stdout.";
    "always-show-logo", always_show_logo: Flag = Flag(false), fixed, WithoutEffect("there is no logo"), "Whether a logo is shown.";
    "loglevel", loglevel: LogLevel = LogLevel::Notice, mutable, Supported, "How much is told: debug, verbose, notice or warning.";
    "latency-tracking-info-percentiles", latency_tracking_info_percentiles: Percentiles = Percentiles(vec![50.0, 99.0, 99.9]), mutable, Supported, "The percentiles of commands' times that INFO shows.";
    "latency-tracking", latency_tracking: Flag = Flag(true), mutable, Supported, "Whether commands' times are kept by command.";
    "enable-debug-command", enable_debug_command: Allowed = Allowed::No, fixed, Supported, "Who may use DEBUG: nobody, everybody, or clients of this machine.";
    "enable-protected-configs", enable_protected_configs: Allowed = Allowed::No, fixed, Supported, "Who may change settings that are protected.";
    "shutdown-timeout", shutdown_timeout: Integer<0, 2_147_483_647> = Integer(10), mutable, WithoutEffect("replicas go on from the log when the store is there again"), "Seconds that SHUTDOWN waits for replicas.";
    "shutdown-on-sigint", shutdown_on_sigint: ShutdownOnSignal = ShutdownOnSignal(String::new()), mutable, Supported, "What SIGINT does, by the words of SHUTDOWN: with nosave the tables are left as they are, and the next start runs the log.";
    "shutdown-on-sigterm", shutdown_on_sigterm: ShutdownOnSignal = ShutdownOnSignal(String::new()), mutable, Supported, "What SIGTERM does, by the words of SHUTDOWN: with nosave the tables are left as they are, and the next start runs the log.";
    "oom-score-adj", oom_score_adj: OomScoreAdjust = OomScoreAdjust::No, mutable, Supported, "Whether the kernel's OOM killer is told how willing the process is to go.";
    "oom-score-adj-values", oom_score_adj_values: OomScores = OomScores([0, 200, 800]), mutable, Supported, "How willing: as a master, as a replica, as a child; the first one counts.";
    "syslog-ident", syslog_ident: Text = Text("redis".into()), fixed, Supported, "The name of the program in messages to syslog.";
    "syslog-facility", syslog_facility: SyslogFacility = SyslogFacility::Local0, fixed, Supported, "Their facility.";
    "syslog-enabled", syslog_enabled: Flag = Flag(false), fixed, Supported, "Whether messages go to syslog (/dev/log) too.";
    "dbfilename", dbfilename: FileName = FileName("dump.rdb".into()), protected, NO_FILE, "The file of snapshots.";
    "appendfilename", appendfilename: FileName = FileName("appendonly.aof".into()), fixed, NO_FILE, "The name of the log's files.";
    "appenddirname", appenddirname: FileName = FileName("appendonlydir".into()), fixed, NO_FILE, "The folder of the log.";
    "rdb-del-sync-files", rdb_del_sync_files: Flag = Flag(false), mutable, NO_FILE, "Whether snapshots for replicas are removed.";
    "aof-rewrite-incremental-fsync", aof_rewrite_incremental_fsync: Flag = Flag(true), mutable, NO_FORK, "Whether the rewritten log is synced piece by piece.";
    "rdb-save-incremental-fsync", rdb_save_incremental_fsync: Flag = Flag(true), mutable, NO_FORK, "Whether snapshots are synced piece by piece.";
    "aof-load-truncated", aof_load_truncated: Flag = Flag(true), mutable, WithoutEffect("what a crash left incomplete at the log's end is always cut off, and told"), "Whether a log that is cut off is loaded.";
    "aof-timestamp-enabled", aof_timestamp_enabled: Flag = Flag(false), mutable, WithoutEffect("the log always has the time of what is in it"), "Whether the log has times.";
    "aof-disable-auto-gc", aof_disable_auto_gc: Flag = Flag(false), mutable, NO_FILE, "Whether old files of the log stay.";
    "rdb-key-save-delay", rdb_key_save_delay: Integer<{ i32::MIN as i64 }, 2_147_483_647> = Integer(0), mutable, NO_FORK, "Microseconds to wait for each key of a snapshot, for tests.";
    "key-load-delay", key_load_delay: Integer<{ i32::MIN as i64 }, 2_147_483_647> = Integer(0), mutable, WithoutEffect("keys are read when they are needed"), "Microseconds to wait for each key that is loaded, for tests.";
    "loading-process-events-interval-bytes", loading_process_events_interval_bytes: Integer<1024, 2_147_483_647> = Integer(2097152), mutable, WithoutEffect("keys are read when they are needed"), "How often clients are served while data is loaded.";
    "sanitize-dump-payload", sanitize_dump_payload: SanitizeDump = SanitizeDump::No, mutable, WithoutEffect("what RESTORE takes is always checked whole"), "Whether what RESTORE takes is checked.";
    "io-threads" | "shards", io_threads: Integer<1, 128> = Integer(1), fixed, Supported, "How many threads serve clients. One thread runs all commands; the others read and write sockets. With 2, the first thread also has half of the sockets, except those of clients that send pipelines. `shards` is another name: keys are not divided, and transactions and scripts are atomic with any number.";
    "io-threads-do-reads", io_threads_do_reads: Flag = Flag(false), fixed, WithoutEffect("they always do"), "Whether they read.";
    "server_cpulist", server_cpulist: Text = Text(String::new()), fixed, WithoutEffect("taskset and systemd's CPUAffinity bind the process"), "The cores of the main thread.";
    "bio_cpulist", bio_cpulist: Text = Text(String::new()), fixed, WithoutEffect("taskset and systemd's CPUAffinity bind the process"), "The cores of background threads.";
    "aof_rewrite_cpulist", aof_rewrite_cpulist: Text = Text(String::new()), fixed, WithoutEffect("taskset and systemd's CPUAffinity bind the process"), "The cores of whoever rewrites the log.";
    "bgsave_cpulist", bgsave_cpulist: Text = Text(String::new()), fixed, WithoutEffect("taskset and systemd's CPUAffinity bind the process"), "The cores of whoever takes snapshots.";
    "set-proc-title", set_proc_title: Flag = Flag(true), fixed, NO_TITLE, "Whether the process has a title in ps.";
    "proc-title-template", proc_title_template: Text = Text("{title} {listen-addr} {server-mode}".into()), mutable, NO_TITLE, "That title.";
    "disable-thp", disable_thp: Flag = Flag(true), fixed, Supported, "Whether the kernel's transparent huge pages are switched off for the process: what is given back in small pages would come back as large ones.";
    "crash-log-enabled", crash_log_enabled: Flag = Flag(true), mutable, NO_CRASH_LOG, "Whether a crash is reported in the log.";
    "crash-memcheck-enabled", crash_memcheck_enabled: Flag = Flag(true), mutable, NO_CRASH_LOG, "Whether memory is tested then.";
    "use-exit-on-panic", use_exit_on_panic: Flag = Flag(false), mutable, NO_CRASH_LOG, "Whether a panic is an exit.";
    "ignore-warnings", ignore_warnings: Text = Text(String::new()), mutable, WithoutEffect("there are no such warnings"), "Warnings about the kernel that are not given.";
    "watchdog-period", watchdog_period: Integer<0, 2_147_483_647> = Integer(0), mutable, WithoutEffect("LATENCY tells what took long"), "How long the loop may take, for tests.";
    "jemalloc-bg-thread", jemalloc_bg_thread: Flag = Flag(true), mutable, NO_JEMALLOC, "Whether jemalloc has a thread.";
    "activedefrag", activedefrag: NoDefragmentation = NoDefragmentation, mutable, NO_DEFRAG, "Whether memory is defragmented.";
    "active-defrag-ignore-bytes", active_defrag_ignore_bytes: Memory<1> = Memory(104857600), mutable, NO_DEFRAG, "From which waste on.";
    "active-defrag-cycle-min", active_defrag_cycle_min: Integer<1, 99> = Integer(1), mutable, NO_DEFRAG, "The least share of time.";
    "active-defrag-cycle-max", active_defrag_cycle_max: Integer<1, 99> = Integer(25), mutable, NO_DEFRAG, "The most.";
    "active-defrag-threshold-lower", active_defrag_threshold_lower: Integer<0, 1000> = Integer(10), mutable, NO_DEFRAG, "From which fragmentation on.";
    "active-defrag-threshold-upper", active_defrag_threshold_upper: Integer<0, 1000> = Integer(100), mutable, NO_DEFRAG, "With which the most is done.";
    "active-defrag-max-scan-fields", active_defrag_max_scan_fields: Integer<1, { i64::MAX }> = Integer(1000), mutable, NO_DEFRAG, "The most fields looked at in one go.";
    "socket-mark-id", socket_mark_id: Integer<0, 4294967295> = Integer(0), fixed, Supported, "The mark (SO_MARK) of the sockets that are listened on, and so of clients' connections; it needs the capability CAP_NET_ADMIN. 0: none.";
    "bind-source-addr", bind_source_addr: Text = Text(String::new()), mutable, Missing("there are no connections to other servers yet"), "The address that connections to other servers come from.";
    "enable-module-command", enable_module_command: Allowed = Allowed::No, fixed, WithoutEffect("there are no modules"), "Who may use MODULE.";
    "lfu-log-factor", lfu_log_factor: Integer<0, 2_147_483_647> = Integer(10), mutable, WithoutEffect("the counter of uses grows as it does with 10"), "How slowly the counter of uses grows.";
    "lfu-decay-time", lfu_decay_time: Integer<0, 2_147_483_647> = Integer(1), mutable, WithoutEffect("the counter of uses falls by one a minute"), "Minutes after which it falls.";
    "maxmemory-eviction-tenacity", maxmemory_eviction_tenacity: Integer<0, 100> = Integer(10), mutable, WithoutEffect("as much is removed as is needed"), "How hard eviction tries.";
    "active-expire-effort", active_expire_effort: Integer<1, 10> = Integer(1), mutable, WithoutEffect("keys are removed when their time comes"), "How hard the expiry of keys tries.";
    "repl-disable-tcp-nodelay", repl_disable_tcp_nodelay: Flag = Flag(false), mutable, FROM_LOG, "Whether packets to replicas may wait.";
    "repl-diskless-sync", repl_diskless_sync: Flag = Flag(true), mutable, FROM_LOG, "Whether replicas get snapshots without a file.";
    "repl-diskless-sync-delay", repl_diskless_sync_delay: Integer<0, 2_147_483_647> = Integer(5), mutable, FROM_LOG, "Seconds to wait for more replicas then.";
    "repl-diskless-sync-max-replicas", repl_diskless_sync_max_replicas: Integer<0, 2_147_483_647> = Integer(0), mutable, FROM_LOG, "How many end that waiting.";
    "repl-diskless-load", repl_diskless_load: ReplicaLoad = ReplicaLoad::Disabled, mutable, OLD_COPY, "Whether a replica takes snapshots without a file.";
    "repl-timeout", repl_timeout: Integer<1, 2_147_483_647> = Integer(60), mutable, Supported, "Seconds after which a silent peer is given up.";
    "repl-ping-replica-period" | "repl-ping-slave-period", repl_ping_replica_period: Integer<1, 2_147_483_647> = Integer(10), mutable, Supported, "Seconds between pings to replicas.";
    "repl-backlog-size", repl_backlog_size: Memory<1> = Memory(1048576), mutable, FROM_LOG, "How much of the past is kept for replicas.";
    "repl-backlog-ttl", repl_backlog_ttl: Integer<0, { i64::MAX }> = Integer(3600), mutable, FROM_LOG, "Seconds for which it is kept without any.";
    "replica-lazy-flush" | "slave-lazy-flush", replica_lazy_flush: Flag = Flag(false), mutable, OLD_COPY, "Whether a replica frees its data in the background.";
    "replica-forward", replica_forward: Flag = Flag(false), mutable, Supported, "Whether a replica sends its clients' commands on keys to its master, and the answers back, while its link to the master is up. The master is told `masteruser` and `masterauth`; what a client may do is looked at here. Commands that wait for keys, transactions with WATCH, and reads with CLIENT TRACKING are not sent.";
    "replica-forward-timeout", replica_forward_timeout: Integer<0, { i64::MAX }> = Integer(5000), mutable, Supported, "How many milliseconds commands that go to the master (`replica-forward`) wait for a link to it that is down. Then writes are refused, and reads answered here.";
    "replica-serve-stale-data" | "slave-serve-stale-data", replica_serve_stale_data: Flag = Flag(true), mutable, Supported, "Whether a replica without its master answers.";
    "replica-read-only" | "slave-read-only", replica_read_only: Flag = Flag(true), mutable, ALWAYS_READ_ONLY, "Whether a replica refuses writes.";
    "replica-ignore-maxmemory" | "slave-ignore-maxmemory", replica_ignore_maxmemory: Flag = Flag(true), mutable, ONE_LOG, "Whether only the master evicts.";
    "replica-ignore-disk-write-errors", replica_ignore_disk_write_errors: Flag = Flag(false), mutable, ONE_LOG, "Whether a replica goes on without a disk.";
    "replica-announced", replica_announced: Flag = Flag(true), mutable, Supported, "Whether Sentinel is told of it.";
    "replica-priority" | "slave-priority", replica_priority: Integer<0, 2_147_483_647> = Integer(100), mutable, Supported, "Which replica Sentinel prefers.";
    "replica-announce-ip" | "slave-announce-ip", replica_announce_ip: Text = Text(String::new()), mutable, Supported, "The address that a replica gives.";
    "replica-announce-port" | "slave-announce-port", replica_announce_port: Integer<0, 65535> = Integer(0), mutable, Supported, "The port.";
    "replicaof" | "slaveof", replicaof: Master = Master(None), fixed, Supported, "The master that this is a replica of.";
    "masteruser", masteruser: Text = Text(String::new()), mutable, Supported, "The ACL user by which this replica logs in to its master.";
    "masterauth", masterauth: Text = Text(String::new()), mutable, Supported, "Its password.";
    "min-replicas-to-write" | "min-slaves-to-write", min_replicas_to_write: Integer<0, 2_147_483_647> = Integer(0), mutable, Supported, "Refuse writes while fewer replicas than this are connected and heard of within `min-replicas-max-lag` seconds.";
    "min-replicas-max-lag" | "min-slaves-max-lag", min_replicas_max_lag: Integer<0, 2_147_483_647> = Integer(10), mutable, Supported, "How many seconds ago a replica was heard of at most, to count for `min-replicas-to-write`.";
    "replica-ack", replica_ack: Integer<0, 2_147_483_647> = Integer(0), mutable, Supported, "How many replicas must have a write, as safe as their own `appendfsync` says, before its client gets the answer. A read that shows such a write waits too. With fewer replicas connected, writes are refused (`NOREPLICAS`).";
    "replica-set-aside-data", replica_set_aside_data: Flag = Flag(true), mutable, Supported, "What a replica does with its data when its master has none of their history, as when the master comes back with an empty folder. `yes`: the replica keeps them in the folder `set-aside-data-TIME`, with log and tables; remove that by hand. `no`: they are gone, as in Redis.";
    "replica-log-size-max", replica_log_size_max: Memory = Memory(16 * 1024 * 1024 * 1024), mutable, Supported, "How much of the log is kept beyond `log-retention-size` for a replica that is connected and behind, or for one who follows the log by a name, in bytes; 0: no bound. A replica that is further behind is given up, and needs a copy when it comes again.";
    "replica-rdb-version", replica_rdb_version: CopyVersion = CopyVersion::Ten, mutable, Supported, "The RDB version of copies for replicas. Redis 7 and Valkey read 10, Redis 6.2 reads 9, which has no functions. Replicas do not say what they read.";
    "propagation-error-behavior", propagation_error_behavior: PropagationError = PropagationError::Ignore, mutable, ONE_LOG, "What becomes of a replica that cannot run what it is sent.";
    "cluster-enabled", cluster_enabled: Flag = Flag(false), fixed, Supported, "Whether this is a node of a cluster, which serves the slots that it is told.";
    "cluster-agent-socket", cluster_agent_socket: Text = Text(String::new()), fixed, Supported, "The socket of the agent that looks after this node: commands that change the cluster (`CLUSTER MEET` and the like) are passed on to it. `tidegate cluster up` sets it.";
    "cluster-proxy", cluster_proxy: Flag = Flag(false), mutable, Supported, "Whether a node of a cluster serves clients that know nothing of clusters: commands for other nodes are passed on to these, as by a proxy, instead of being answered MOVED. Clients that have asked for the slots (CLUSTER SLOTS, SHARDS, NODES), READONLY, READWRITE or ASKING are sent elsewhere all the same. Other nodes are told `masteruser` and `masterauth`.";
    "cluster-config-file", cluster_config_file: Text = Text("nodes.conf".into()), fixed, NO_BUS, "Its file of nodes.";
    "cluster-node-timeout", cluster_node_timeout: Integer<0, { i64::MAX }> = Integer(15000), mutable, NO_BUS, "Milliseconds after which a node is thought dead.";
    "cluster-port", cluster_port: Integer<0, 65535> = Integer(0), fixed, NO_BUS, "The port of the cluster's bus.";
    "cluster-replica-validity-factor" | "cluster-slave-validity-factor", cluster_replica_validity_factor: Integer<0, 2_147_483_647> = Integer(10), mutable, NO_BUS, "How old a replica's data may be for a failover.";
    "cluster-migration-barrier", cluster_migration_barrier: Integer<0, 2_147_483_647> = Integer(1), mutable, NO_BUS, "How many replicas a master keeps.";
    "cluster-allow-replica-migration", cluster_allow_replica_migration: Flag = Flag(true), mutable, NO_BUS, "Whether replicas move to masters without any.";
    "cluster-require-full-coverage", cluster_require_full_coverage: Flag = Flag(true), mutable, NO_BUS, "Whether all slots must be served.";
    "cluster-replica-no-failover" | "cluster-slave-no-failover", cluster_replica_no_failover: Flag = Flag(false), mutable, NO_BUS, "Whether a replica stays one.";
    "cluster-allow-reads-when-down", cluster_allow_reads_when_down: Flag = Flag(false), mutable, NO_BUS, "Whether a broken cluster is read.";
    "cluster-allow-pubsubshard-when-down", cluster_allow_pubsubshard_when_down: Flag = Flag(true), mutable, NO_BUS, "Whether it carries sharded channels.";
    "cluster-link-sendbuf-limit", cluster_link_sendbuf_limit: Memory<0, { u64::MAX }> = Memory(0), mutable, NO_BUS, "What may wait to be sent to a node.";
    "cluster-announce-ip", cluster_announce_ip: Text = Text(String::new()), mutable, NO_BUS, "The address that the node gives.";
    "cluster-announce-port", cluster_announce_port: Integer<0, 65535> = Integer(0), mutable, NO_BUS, "The port.";
    "cluster-announce-tls-port", cluster_announce_tls_port: Integer<0, 65535> = Integer(0), mutable, NO_BUS, "The port with TLS.";
    "cluster-announce-bus-port", cluster_announce_bus_port: Integer<0, 65535> = Integer(0), mutable, NO_BUS, "The port of the bus.";
    "cluster-announce-hostname", cluster_announce_hostname: Text = Text(String::new()), mutable, NO_BUS, "The name of the host.";
    "cluster-preferred-endpoint-type", cluster_preferred_endpoint_type: EndpointType = EndpointType::Ip, mutable, NO_BUS, "What clients are sent to.";
    "tls-port", tls_port: Integer<0, 65535> = Integer(0), mutable, TLS, "The port with TLS.";
    "tls-cert-file", tls_cert_file: Text = Text(String::new()), mutable, TLS, "The certificate.";
    "tls-key-file", tls_key_file: Text = Text(String::new()), mutable, TLS, "Its key.";
    "tls-key-file-pass", tls_key_file_pass: Text = Text(String::new()), mutable, TLS, "The key's password.";
    "tls-client-cert-file", tls_client_cert_file: Text = Text(String::new()), mutable, TLS, "The certificate to other servers.";
    "tls-client-key-file", tls_client_key_file: Text = Text(String::new()), mutable, TLS, "Its key.";
    "tls-client-key-file-pass", tls_client_key_file_pass: Text = Text(String::new()), mutable, TLS, "The key's password.";
    "tls-dh-params-file", tls_dh_params_file: Text = Text(String::new()), mutable, TLS, "Parameters of Diffie and Hellman.";
    "tls-ca-cert-file", tls_ca_cert_file: Text = Text(String::new()), mutable, TLS, "The certificates of authorities.";
    "tls-ca-cert-dir", tls_ca_cert_dir: Text = Text(String::new()), mutable, TLS, "A folder of these.";
    "tls-protocols", tls_protocols: Text = Text(String::new()), mutable, TLS, "The versions.";
    "tls-ciphers", tls_ciphers: Text = Text(String::new()), mutable, TLS, "The ciphers.";
    "tls-ciphersuites", tls_ciphersuites: Text = Text(String::new()), mutable, TLS, "The ciphers of TLS 1.3.";
    "tls-cluster", tls_cluster: Flag = Flag(false), mutable, TLS, "Whether the cluster's bus has TLS.";
    "tls-replication", tls_replication: Flag = Flag(false), mutable, TLS, "Whether replication has TLS.";
    "tls-auth-clients", tls_auth_clients: TlsClients = TlsClients::Yes, mutable, TLS, "Whether clients need a certificate.";
    "tls-prefer-server-ciphers", tls_prefer_server_ciphers: Flag = Flag(false), mutable, TLS, "Whose order of ciphers counts.";
    "tls-session-caching", tls_session_caching: Flag = Flag(true), mutable, TLS, "Whether sessions are resumed.";
    "tls-session-cache-size", tls_session_cache_size: Integer<0, 2_147_483_647> = Integer(20480), mutable, TLS, "How many.";
    "tls-session-cache-timeout", tls_session_cache_timeout: Integer<0, 2_147_483_647> = Integer(300), mutable, TLS, "For how many seconds.";
}
