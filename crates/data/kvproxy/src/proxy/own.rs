//! Connections to servers that a client has for itself: while it waits, within a transaction, and while it listens.

/// A client's own connection, and what it is for.
#[derive(Debug)]
pub struct Own {
    /// The connection; none before a server is known, and after it failed.
    pub link: Option<usize>,
    /// Its server.
    pub server: Option<usize>,
    /// What it is for.
    pub purpose: Purpose,
    /// The slots of the keys that a transaction is about.
    pub slots: Vec<u16>,
}

/// What a client's own connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `WATCH` was given.
    Watching {
        /// The connection is lost, so a transaction cannot succeed.
        is_lost: bool,
    },
    /// `MULTI` was given.
    Transaction {
        /// The server has been told.
        is_begun: bool,
        /// A command was refused, so it cannot be executed.
        is_refused: bool,
        /// Keys were watched by a connection that is lost.
        is_lost: bool,
    },
    /// A command that waits, or the end of a transaction: over with its reply.
    OneReply {
        /// It may take as long as it likes.
        may_wait: bool,
    },
    /// Messages come.
    Listening {
        /// Marks that were sent and have not come back: behind each all that was asked before it is done.
        marks: u32,
        /// How many channels and patterns there are.
        channels: u64,
    },
}

/// What is sent behind commands that subscribe and unsubscribe. What it brings back says that they are done.
pub const MARK: &[u8] = b"*2\r\n$4\r\nPING\r\n$14\r\ntidegate:proxy\r\n";

/// Whether a reply is that to the mark: one form while something is subscribed to, another one else.
pub fn is_mark(reply: &[u8]) -> bool {
    matches!(reply, b"*2\r\n$4\r\npong\r\n$14\r\ntidegate:proxy\r\n" | b"$14\r\ntidegate:proxy\r\n")
}

/// How many channels there are after what this message confirms; `None` if it confirms nothing.
pub fn confirmed(reply: &[u8]) -> Option<u64> {
    let parts = crate::frame::elements(reply)?;
    let kind = crate::frame::bulk(parts.first()?)?;
    let confirms = kind.ends_with(b"subscribe");
    confirms.then(|| crate::frame::integer(parts.get(2)?).map(i64::unsigned_abs)).flatten()
}
