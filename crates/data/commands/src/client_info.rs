//! A client as a line of `CLIENT LIST`.

use std::fmt::Write as _;

use keyspace::{Millis, bytes::heap_bytes};

use crate::{Session, session::Close};

/// What a client's output holds before Redis, which these figures are read for, would begin to allocate for it.
const STATIC_OUTPUT: usize = 16 * 1024;
/// An argument from which so much has come is a large one.
const LARGE: usize = 32 * 1024;

/// The classes of clients that have limits of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientType {
    /// One that is nothing else.
    Normal,
    /// One that has sent MONITOR's like: replicas.
    Replica,
    /// One that listens.
    Pubsub,
    /// The master of a replica.
    Master,
}

impl ClientType {
    /// A type by its name.
    pub fn by_name(name: &[u8]) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_slice() {
            b"normal" => Self::Normal,
            b"slave" | b"replica" => Self::Replica,
            b"pubsub" => Self::Pubsub,
            b"master" => Self::Master,
            _ => return None,
        })
    }

    /// What a client is.
    pub fn of(session: &Session) -> Self {
        let is_replica = session.replica.as_ref().is_some_and(|replica| replica.is_attached);
        match (is_replica, session.is_subscriber()) {
            _ if session.is_master => Self::Master,
            (true, _) => Self::Replica,
            (false, true) => Self::Pubsub,
            (false, false) => Self::Normal,
        }
    }
}

/// What a buffer of that size counts for limits: nothing, as long as it fits into what a client has room for anyway. That comes and
/// goes with each command.
pub fn excess(buffer: usize) -> usize {
    if buffer > STATIC_OUTPUT { buffer } else { 0 }
}

/// Bytes of the commands that it has queued for a transaction.
fn transaction_bytes(session: &Session) -> usize {
    session.transaction.as_ref().map_or(0, |transaction| transaction.bytes)
}

/// The memory that a client takes.
pub fn memory(session: &Session) -> usize {
    size_of::<Session>()
        + excess(session.query.bytes.capacity().max(session.query.running))
        + excess(session.output.bytes.capacity())
        + session.unsent().saturating_sub(session.output.bytes.len())
        + transaction_bytes(session)
        + session.making
        + session.portions.as_ref().map_or(0, |portions| portions.changed_len())
        + session.watch.bytes
        + session.listening.bytes
        + session.blocked.as_ref().map_or(0, |blocked| blocked.bytes)
        + heap_bytes(&session.name)
        + excess(session.query.parser.memory_len())
        + session.tracking.as_ref().map_or(0, |tracking| tracking.prefix_bytes)
}

fn flags(session: &Session) -> String {
    let mut flags = String::new();
    let mut add = |letter: char, holds: bool| {
        if holds {
            flags.push(letter);
        }
    };
    add('O', session.listening.monitors);
    add('M', session.is_master);
    add('S', ClientType::of(session) == ClientType::Replica);
    add('P', session.is_subscriber());
    add('x', session.transaction.is_some());
    add('b', session.blocked.is_some() || session.postponed);
    if let Some(tracking) = &session.tracking {
        add('t', true);
        add('R', tracking.broken);
        add('B', tracking.broadcast);
    }
    add('d', session.watch.has_failed);
    add('c', session.close == Close::AfterOutput);
    add('A', session.close == Close::Now);
    add('e', session.no_evict);
    if flags.is_empty() { "N".into() } else { flags }
}

/// A client in one line, without its end. `argv_bytes` are those of the words of the command that it runs.
pub fn describe(session: &Session, now: Millis, argv_bytes: usize) -> String {
    let output = session.unsent();
    let excess = excess(output);
    // What stands before a large argument is none of the buffer any more in Redis.
    let before = session.query.parser.argument_at().filter(|at| session.query_len().saturating_sub(*at) >= LARGE);
    let query = (session.query_len() - before.unwrap_or(0)).max(session.query.running);
    let mut text = format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={}",
        session.id.0,
        session.connection.address,
        session.connection.local_address,
        session.connection.descriptor,
        String::from_utf8_lossy(&session.name),
        (now - session.connection.created).max(0) / 1000,
        (now - session.last_interaction).max(0) / 1000,
        flags(session),
        session.db,
        session.listening.channels.len(),
        session.listening.patterns.len(),
        session.listening.shard_channels.len(),
        session.transaction.as_ref().map_or(-1, |transaction| transaction.commands.len() as i64),
    );
    let _ = write!(
        text,
        " qbuf={query} qbuf-free={} argv-mem={argv_bytes} multi-mem={} rbs={} rbp={} obl={} oll={} omem={excess} \
         tot-mem={} events={} cmd={} user={} redir={} resp={}",
        session.query.bytes.capacity().saturating_sub(session.query_len()),
        transaction_bytes(session),
        session.output.bytes.capacity().min(STATIC_OUTPUT),
        output.min(STATIC_OUTPUT),
        output.min(STATIC_OUTPUT),
        excess.div_ceil(STATIC_OUTPUT),
        memory(session) + argv_bytes,
        if output > 0 { "rw" } else { "r" },
        session.last_command.map_or_else(|| "NULL".to_owned(), |name| name.full()),
        String::from_utf8_lossy(session.user_name()),
        session.tracking.as_ref().map_or(-1, |tracking| i64::try_from(tracking.redirect).unwrap_or(i64::MAX)),
        if session.protocol == resp::Protocol::Resp3 { 3 } else { 2 },
    );
    text
}
