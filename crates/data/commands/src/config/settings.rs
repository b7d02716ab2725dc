//! The settings.

use crate::{Bytes, changes::EventClass};

use super::{
    Setting, State,
    clients::{ClientsMemory, OutputLimits},
    kinds::{AclPubsub, Events, Flag, Fsync, Integer, Kind as _, MaxmemoryPolicy, Memory, Text},
};

type Count = Integer<0, { i64::MAX }>;
type Signed = Integer<{ i32::MIN as i64 }, { i32::MAX as i64 }>;

macro_rules! settings {
    ($($name:literal $(| $alias:literal)?, $field:ident: $kind:ty = $default:expr, $mutable:ident, $state:expr, $doc:literal;)*) => {
        /// What a store is set to.
        #[derive(Debug, Clone)]
        pub struct Settings {
            $(#[doc = $doc] pub $field: $kind,)*
            /// The `user` lines of the file: a name and rules each.
            pub users: Vec<Vec<Bytes>>,
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($field: $default,)* users: Vec::new() }
            }
        }

        /// All settings.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            alias: settings!(@alias $($alias)?),
            mutable: settings!(@ $mutable),
            state: $state,
            doc: $doc,
            text: |settings| settings.$field.text(),
            set: |settings, words| {
                settings.$field.update(words)
            },
        },)*];
    };
    (@alias) => { None };
    (@alias $alias:literal) => { Some($alias) };
    (@ mutable) => { true };
    (@ fixed) => { false };
}

use State::{Missing, Supported, WithoutEffect};

const NO_FORK: State = WithoutEffect("nothing is forked: the log and the tables are written while commands run");
const NO_LISTPACK: State = WithoutEffect("small values are no listpacks here; OBJECT ENCODING goes by it");

settings! {
    "bind", bind: Text = Text("127.0.0.1".into()), fixed, Supported, "The addresses to listen on.";
    "port", port: Integer<0, 65535> = Integer(6379), fixed, Supported, "The TCP port; 0 for none.";
    "databases", databases: Integer<1, 128> = Integer(16), fixed, Supported, "How many numbered databases there are.";
    "dir", dir: Text = Text(String::new()), fixed, Supported, "The folder of the data.";
    "requirepass", requirepass: Text = Text(String::new()), mutable, Supported, "The password of the user `default`.";
    "aclfile", aclfile: Text = Text(String::new()), fixed, Supported, "The file of users, instead of `user` lines.";
    "acl-pubsub-default", acl_pubsub_default: AclPubsub = AclPubsub::ResetChannels, mutable, Supported, "The channels that new users may use.";
    "acllog-max-len", acllog_max_len: Count = Integer(128), mutable, Supported, "How many entries ACL LOG keeps.";
    "client-output-buffer-limit", client_output_buffer_limit: OutputLimits = OutputLimits::DEFAULT, mutable, Supported, "How much output a client may leave unread before it is closed, by its class.";
    "client-query-buffer-limit", client_query_buffer_limit: Memory = Memory(1024 * 1024 * 1024), mutable, Supported, "The longest command, with all that follows it.";
    "maxmemory-clients", maxmemory_clients: ClientsMemory = ClientsMemory::Bytes(0), mutable, Supported, "What all clients may take of memory, in bytes or in percent of `maxmemory`; 0: no bound.";
    "tracking-table-max-keys", tracking_table_max_keys: Count = Integer(1_000_000), mutable, Supported, "How many keys are remembered for caches of clients; 0: no bound.";
    "maxclients", maxclients: Integer<1, 4_294_967_295> = Integer(10_000), mutable, Supported, "How many clients may be connected.";
    "timeout", timeout: Integer<0, 2_147_483_647> = Integer(0), mutable, Supported, "Seconds after which a silent client is disconnected; 0: never.";
    "tcp-keepalive", tcp_keepalive: Integer<0, 2_147_483_647> = Integer(300), mutable, Supported, "Seconds between probes of silent connections; 0: none.";
    "proto-max-bulk-len", proto_max_bulk_len: Memory = Memory(512 * 1024 * 1024), mutable, Supported, "The longest argument, and the longest string.";
    "maxmemory", maxmemory: Memory = Memory(0), mutable, Supported, "What the store may take of memory; 0: no bound.";
    "maxmemory-policy", maxmemory_policy: MaxmemoryPolicy = MaxmemoryPolicy::NoEviction, mutable, Supported, "What goes when memory is full.";
    "maxmemory-samples", maxmemory_samples: Integer<1, 2_147_483_647> = Integer(5), mutable, Supported, "Among how many keys the one to go is chosen.";
    "appendonly", appendonly: Flag = Flag(true), mutable, WithoutEffect("there is always a log when there is a folder for it"), "Whether there is a log.";
    "appendfsync", appendfsync: Fsync = Fsync::EverySecond, mutable, Supported, "When the log is made durable.";
    "log-retention-size", log_retention_size: Memory = Memory(1024 * 1024 * 1024), mutable, Supported, "How much of the log is kept, in bytes; 0: no bound. What the tables still need is kept in any case.";
    "log-segment-size", log_segment_size: Memory = Memory(64 * 1024 * 1024), fixed, Supported, "The size of the log's files: what is not kept any more goes file by file. At least 64kb.";
    "log-retention-seconds", log_retention_seconds: Integer<0, 4_294_967_295> = Integer(0), mutable, Supported, "For how long the log is kept; 0: no bound. What the tables still need is kept in any case.";
    "save", save: Text = Text(String::new()), mutable, NO_FORK, "When snapshots are taken.";
    "rdbcompression", rdbcompression: Flag = Flag(true), mutable, NO_FORK, "Whether snapshots are compressed.";
    "rdbchecksum", rdbchecksum: Flag = Flag(true), mutable, NO_FORK, "Whether snapshots have a checksum.";
    "stop-writes-on-bgsave-error", stop_writes_on_bgsave_error: Flag = Flag(true), mutable, NO_FORK, "Whether a failed snapshot stops writes.";
    "auto-aof-rewrite-percentage", auto_aof_rewrite_percentage: Count = Integer(100), mutable, NO_FORK, "By how much the log may grow before it is rewritten.";
    "auto-aof-rewrite-min-size", auto_aof_rewrite_min_size: Memory = Memory(64 * 1024 * 1024), mutable, NO_FORK, "From which size on the log is rewritten.";
    "no-appendfsync-on-rewrite", no_appendfsync_on_rewrite: Flag = Flag(false), mutable, NO_FORK, "Whether there is no fsync while the log is rewritten.";
    "aof-use-rdb-preamble", aof_use_rdb_preamble: Flag = Flag(true), mutable, NO_FORK, "Whether the rewritten log begins with a snapshot.";
    "hash-max-listpack-entries" | "hash-max-ziplist-entries", hash_max_listpack_entries: Count = Integer(512), mutable, Supported, "The most fields of a small hash.";
    "hash-max-listpack-value" | "hash-max-ziplist-value", hash_max_listpack_value: Memory = Memory(64), mutable, Supported, "The longest field or value of such a hash.";
    "set-max-intset-entries", set_max_intset_entries: Count = Integer(512), mutable, Supported, "The most members of a set of integers that is a sorted array.";
    "zset-max-listpack-entries" | "zset-max-ziplist-entries", zset_max_listpack_entries: Count = Integer(128), mutable, Supported, "The most members of a small sorted set.";
    "zset-max-listpack-value" | "zset-max-ziplist-value", zset_max_listpack_value: Memory = Memory(64), mutable, Supported, "The longest member of such a sorted set.";
    "list-max-listpack-size" | "list-max-ziplist-size", list_max_listpack_size: Signed = Integer(-2), mutable, Supported, "How much goes into one node of a list.";
    "list-compress-depth", list_compress_depth: Count = Integer(0), mutable, NO_LISTPACK, "How many nodes at a list's ends are not compressed.";
    "stream-node-max-bytes", stream_node_max_bytes: Memory = Memory(4096), mutable, Supported, "How many bytes go into one node of a stream.";
    "stream-node-max-entries", stream_node_max_entries: Count = Integer(100), mutable, Supported, "How many entries go into one node of a stream: what `MAXLEN ~` rounds to.";
    "collection-max-whole-entries", collection_max_whole_entries: Count = Integer(8192), mutable, Supported, "The most elements of a collection that is kept whole, in memory and as one record; with more, each element is a record of its own and the collection may be larger than memory.";
    "collection-max-whole-bytes", collection_max_whole_bytes: Memory = Memory(1024 * 1024), mutable, Supported, "The most bytes of a collection that is kept whole, counted when it is written to the tables.";
    "hll-sparse-max-bytes", hll_sparse_max_bytes: Memory = Memory(3000), mutable, Supported, "The longest sparse HyperLogLog.";
    "notify-keyspace-events", notify_keyspace_events: Events = Events(EventClass::empty()), mutable, Supported, "The classes of keyspace events that are published.";
    "slowlog-log-slower-than", slowlog_log_slower_than: Integer<{ -1 }, { i64::MAX }> = Integer(10_000), mutable, WithoutEffect("SLOWLOG is not there yet"), "Microseconds from which on a command is kept; -1: none.";
    "slowlog-max-len", slowlog_max_len: Count = Integer(128), mutable, WithoutEffect("SLOWLOG is not there yet"), "How many slow commands are kept.";
    "latency-monitor-threshold", latency_monitor_threshold: Count = Integer(0), mutable, WithoutEffect("LATENCY is not there yet"), "Milliseconds from which on an event is kept; 0: none.";
    "lua-time-limit" | "busy-reply-threshold", lua_time_limit: Count = Integer(5000), mutable, Supported, "Milliseconds after which a script that has written nothing is stopped; 0: never.";
    "hz", hz: Integer<1, 500> = Integer(10), mutable, WithoutEffect("what is due is done when it is due"), "How often background work is done each second.";
    "dynamic-hz", dynamic_hz: Flag = Flag(true), mutable, WithoutEffect("what is due is done when it is due"), "Whether that follows the number of clients.";
    "activerehashing", activerehashing: Flag = Flag(true), mutable, WithoutEffect("tables grow piece by piece as they are used"), "Whether tables are rehashed in the background.";
    "lazyfree-lazy-user-del", lazyfree_lazy_user_del: Flag = Flag(false), mutable, WithoutEffect("removing takes no longer than unlinking"), "Whether DEL is UNLINK.";
    "lazyfree-lazy-user-flush", lazyfree_lazy_user_flush: Flag = Flag(false), mutable, WithoutEffect("removing takes no longer than unlinking"), "Whether FLUSHALL is FLUSHALL ASYNC.";
    "lazyfree-lazy-eviction", lazyfree_lazy_eviction: Flag = Flag(false), mutable, WithoutEffect("removing takes no longer than unlinking"), "Whether evicted keys are freed in the background.";
    "lazyfree-lazy-expire", lazyfree_lazy_expire: Flag = Flag(false), mutable, WithoutEffect("removing takes no longer than unlinking"), "Whether expired keys are freed in the background.";
    "protected-mode", protected_mode: Flag = Flag(true), mutable, Supported, "Whether clients of other machines are refused while there is no password.";
    "unixsocket", unixsocket: Text = Text(String::new()), fixed, Missing("the store listens on TCP alone"), "The path of a unix socket to listen on.";
    "unixsocketperm", unixsocketperm: Text = Text("0".into()), fixed, Missing("the store listens on TCP alone"), "Its permissions, octal; 0: those of the process.";
    "tcp-backlog", tcp_backlog: Integer<0, 2_147_483_647> = Integer(511), fixed, WithoutEffect("1024 connections may wait, or what the kernel allows"), "How many connections may wait to be accepted.";
    "daemonize", daemonize: Flag = Flag(false), fixed, WithoutEffect("the program stays in the foreground, where systemd and containers want it"), "Whether it goes to the background.";
    "supervised", supervised: Text = Text("no".into()), fixed, WithoutEffect("nobody is told when the store is ready"), "Who supervises the process.";
    "pidfile", pidfile: Text = Text(String::new()), fixed, Missing("no file is written; systemd and containers know the number"), "A file for the process' number.";
    "logfile", logfile: Text = Text(String::new()), fixed, WithoutEffect("messages go to stderr"), "Where messages go.";
    "always-show-logo", always_show_logo: Flag = Flag(false), fixed, WithoutEffect("there is no logo"), "Whether a logo is shown.";
    "loglevel", loglevel: Text = Text("notice".into()), mutable, WithoutEffect("there are few messages, all of them worth reading"), "How much is logged.";
}
