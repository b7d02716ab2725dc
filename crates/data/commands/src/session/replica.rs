//! What is known of a connection that is a replica's, and of one that waits for replicas.

/// What a connection has said with `REPLCONF`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplicaTraits {
    /// The port that it serves at.
    pub port: u16,
    /// Its address, if it is another one than the connection's.
    pub address: String,
    /// It can load a snapshot whose length nobody knows before.
    pub takes_mark: bool,
    /// It has queues: it is a store.
    pub takes_queues: bool,
    /// It wants all keys and nothing behind.
    pub copy_only: bool,
    /// It wants functions alone.
    pub functions_only: bool,
    /// It wants keys of these slots alone.
    pub slots: Option<(u16, u16)>,
    /// It says how far it is whenever that changes.
    pub is_eager: bool,
    /// It is being given the log by now.
    pub is_attached: bool,
}

/// What a client waits for with `WAIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwaitedReplicas {
    /// So many replicas are to have what was written.
    pub replicas: u64,
    /// The log here is to be durable up to there as well, and replicas have to have it durably (`WAITAOF`).
    pub local: Option<bool>,
    /// Where the log ended when it began to wait; nothing before the end of that turn.
    pub offset: Option<u64>,
}

/// What an agent has said of a master, and what follows from it: what a replica has that is bound to its master was that master's. So if the
/// master lacks some of it, the master has lost it, and is not copied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bond {
    /// The epoch since which it is the master.
    pub since: u64,
    /// Which node of the cluster it is. Whoever answers at its address must be that one.
    pub node: Option<String>,
    /// The replica keeps what it has. It does from the first time that it has all that the master has.
    pub is_bound: bool,
    /// The master was not copied, as it lacks what this server has from an offset on, up to the second one.
    pub refusal: Option<(u64, u64)>,
}
