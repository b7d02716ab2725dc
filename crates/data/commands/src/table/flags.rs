//! What a command is like, and its categories.

use bitflags::bitflags;

bitflags! {
    /// What a command is like, in Redis' names.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Flags: u64 {
        /// May change keys.
        const WRITE = 1;
        /// Only reads keys.
        const READONLY = 1 << 1;
        /// Refused when memory is full.
        const DENYOOM = 1 << 2;
        /// For administrators.
        const ADMIN = 1 << 3;
        /// Publishes or subscribes.
        const PUBSUB = 1 << 4;
        /// Not in scripts.
        const NOSCRIPT = 1 << 5;
        /// May wait for keys.
        const BLOCKING = 1 << 6;
        /// Allowed while data is being loaded.
        const LOADING = 1 << 7;
        /// Allowed on a replica with old data.
        const STALE = 1 << 8;
        /// Not shown by MONITOR.
        const SKIP_MONITOR = 1 << 9;
        /// Not kept by SLOWLOG.
        const SKIP_SLOWLOG = 1 << 10;
        /// Time does not grow with the data.
        const FAST = 1 << 11;
        /// Allowed before AUTH.
        const NO_AUTH = 1 << 12;
        /// Allowed while a script has run too long.
        const ALLOW_BUSY = 1 << 13;
        /// Not in transactions.
        const NO_MULTI = 1 << 14;
        /// Its keys can only be found by its own rule.
        const MOVABLE_KEYS = 1 << 15;
        /// May be propagated although it changes no key.
        const MAY_REPLICATE = 1 << 16;
        /// Has no mandatory keys.
        const NO_MANDATORY_KEYS = 1 << 17;
        /// For Sentinel, or for those who are debugging.
        const ONLY_DEBUG = 1 << 18;
        /// Not while a replica that serves its old data takes new ones.
        const NO_ASYNC_LOADING = 1 << 19;
        /// Runs a script, which calls other commands: only the server can do that.
        const RUNS_SCRIPT = 1 << 24;
        /// Its script is named by a digest. This and what follows are not Redis' flags: they say how the server runs a command.
        const BY_DIGEST = 1 << 25;
        /// What it runs is a function of a library.
        const CALLS_FUNCTION = 1 << 26;
        /// Runs the commands of a transaction: only the server can do that.
        const RUNS_TRANSACTION = 1 << 27;
        /// Runs at once where a transaction is being queued.
        const NOT_QUEUED = 1 << 28;
        /// Allowed to a client of RESP 2 that listens.
        const WHILE_LISTENING = 1 << 29;
        /// What it says is pushed, and no reply: `CLIENT REPLY OFF` leaves it alone.
        const PUSHES = 1 << 30;
        /// May meet any key without naming it.
        const MEETS_ALL_KEYS = 1 << 31;
        /// Does so if it has patterns.
        const MEETS_ALL_BY_PATTERNS = 1 << 32;
        /// `CLIENT CACHING` is about what comes behind it: of a container, behind all of its subcommands.
        const KEEPS_CACHING = 1 << 33;
        /// Its reply tells of no key, and of nothing that a client wrote: it needs not wait until that is safe.
        const TELLS_NO_KEYS = 1 << 34;
        /// A log has it although it may wait: there it never does.
        const IN_LOGS = 1 << 35;
    }
}

bitflags! {
    /// Categories of ACLs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Categories: u32 {
        /// `@keyspace`
        const KEYSPACE = 1;
        /// `@read`
        const READ = 1 << 1;
        /// `@write`
        const WRITE = 1 << 2;
        /// `@set`
        const SET = 1 << 3;
        /// `@sortedset`
        const SORTED_SET = 1 << 4;
        /// `@list`
        const LIST = 1 << 5;
        /// `@hash`
        const HASH = 1 << 6;
        /// `@string`
        const STRING = 1 << 7;
        /// `@bitmap`
        const BITMAP = 1 << 8;
        /// `@hyperloglog`
        const HYPERLOGLOG = 1 << 9;
        /// `@geo`
        const GEO = 1 << 10;
        /// `@stream`
        const STREAM = 1 << 11;
        /// `@pubsub`
        const PUBSUB = 1 << 12;
        /// `@admin`
        const ADMIN = 1 << 13;
        /// `@fast`
        const FAST = 1 << 14;
        /// `@slow`
        const SLOW = 1 << 15;
        /// `@blocking`
        const BLOCKING = 1 << 16;
        /// `@dangerous`
        const DANGEROUS = 1 << 17;
        /// `@connection`
        const CONNECTION = 1 << 18;
        /// `@transaction`
        const TRANSACTION = 1 << 19;
        /// `@scripting`
        const SCRIPTING = 1 << 20;
        /// `@queue`, which Redis does not have.
        const QUEUE = 1 << 21;
    }
}
