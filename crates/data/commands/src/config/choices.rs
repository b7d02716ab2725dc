//! Settings that are one of a few words.

use keyspace::MaxmemoryPolicy;

use super::kinds::Choice;

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$word_doc])* $variant,)*
        }

        impl Choice for $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)*];
        }
    )*};
}

choices! {
    /// `appendfsync`: when the log is made durable.
    Fsync {
        /// Each second.
        EverySecond = "everysec",
        /// Before a reply is sent.
        Always = "always",
        /// When the kernel likes.
        No = "no",
    }
    /// `replica-rdb-version`: the version of copies for replicas.
    CopyVersion {
        /// Redis 7 and Valkey.
        Ten = "10",
        /// Redis 6.2 too. It has no functions.
        Nine = "9",
    }
    /// `tables-engine`: what keeps the tables on the disk.
    TablesEngine {
        /// Written in Rust, and part of every build.
        Fjall = "fjall",
        /// In C++, and part of builds with the cargo feature `rocksdb`.
        Rocksdb = "rocksdb",
    }
    /// `tables-read`: how keys are read that are not in memory.
    TablesRead {
        /// Many at once by one thread, past the machine's page cache where that is small beside the tables.
        Auto = "auto",
        /// Likewise, through the page cache.
        Cached = "cached",
        /// Likewise, past it.
        Direct = "direct",
        /// Each by a thread that waits for it, through the page cache.
        Threads = "threads",
    }
    /// `acl-pubsub-default`: the channels of new users.
    AclPubsub {
        /// All.
        AllChannels = "allchannels",
        /// None.
        ResetChannels = "resetchannels",
    }
    /// `enable-debug-command` and its like: who may.
    Allowed {
        /// Nobody.
        No = "no",
        /// Everybody.
        Yes = "yes",
        /// Clients of the same machine.
        Local = "local",
    }
    /// `loglevel`.
    LogLevel {
        /// All.
        Debug = "debug",
        /// Nearly all.
        Verbose = "verbose",
        /// What one wants to know.
        Notice = "notice",
        /// What one must know.
        Warning = "warning",
    }
    /// `supervised`.
    Supervised {
        /// By upstart.
        Upstart = "upstart",
        /// By systemd.
        Systemd = "systemd",
        /// By whoever says so in the environment.
        Auto = "auto",
        /// By nobody.
        No = "no",
    }
    /// `syslog-facility`.
    SyslogFacility {
        /// `user`
        User = "user",
        /// `local0`
        Local0 = "local0",
        /// `local1`
        Local1 = "local1",
        /// `local2`
        Local2 = "local2",
        /// `local3`
        Local3 = "local3",
        /// `local4`
        Local4 = "local4",
        /// `local5`
        Local5 = "local5",
        /// `local6`
        Local6 = "local6",
        /// `local7`
        Local7 = "local7",
    }
    /// `oom-score-adj`.
    OomScoreAdjust {
        /// Left as it is.
        No = "no",
        /// Relative to what it was at the start.
        Relative = "relative",
        /// The same by another name, which `CONFIG GET` does not use.
        Yes = "yes",
        /// As it is given.
        Absolute = "absolute",
    }
    /// `sanitize-dump-payload`.
    SanitizeDump {
        /// Never.
        No = "no",
        /// Always.
        Yes = "yes",
        /// For clients.
        Clients = "clients",
    }
    /// `repl-diskless-load`.
    ReplicaLoad {
        /// Never.
        Disabled = "disabled",
        /// When there is no data.
        OnEmpty = "on-empty-db",
        /// With the old data beside.
        Swap = "swapdb",
    }
    /// `propagation-error-behavior`.
    PropagationError {
        /// Goes on.
        Ignore = "ignore",
        /// Ends.
        Panic = "panic",
        /// A replica ends.
        PanicOnReplicas = "panic-on-replicas",
    }
    /// `cluster-preferred-endpoint-type`.
    EndpointType {
        /// The address.
        Ip = "ip",
        /// The name.
        Hostname = "hostname",
        /// Neither.
        Unknown = "unknown-endpoint",
    }
    /// `tls-auth-clients`.
    TlsClients {
        /// They need no certificate.
        No = "no",
        /// They need one.
        Yes = "yes",
        /// They may have one.
        Optional = "optional",
    }
}

impl Choice for MaxmemoryPolicy {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("volatile-lru", Self::VolatileLru),
        ("volatile-lfu", Self::VolatileLfu),
        ("volatile-random", Self::VolatileRandom),
        ("volatile-ttl", Self::VolatileTtl),
        ("allkeys-lru", Self::AllkeysLru),
        ("allkeys-lfu", Self::AllkeysLfu),
        ("allkeys-random", Self::AllkeysRandom),
        ("noeviction", Self::NoEviction),
    ];
}
