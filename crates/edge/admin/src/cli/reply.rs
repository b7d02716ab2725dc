//! What a command is answered with.

use super::events::Events;
use super::{sessions::Sessions, tables::Entries};

/// How important an answer is, with syslog's numbers; shown on demand (`set severity-output`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something is wrong.
    Error = 3,
    /// Something is to be known.
    Warning = 4,
    /// Something has changed.
    Notice = 5,
    /// For information.
    Info = 6,
}

impl Severity {
    /// Syslog's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "err",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Info => "info",
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing to say.
    Done,
    /// Nothing to say, once every worker has done what it was told.
    Steered,
    /// Text as it is.
    Text(String),
    /// A sentence, without its line break.
    Said(Severity, String),
    /// A sentence that HAProxy leaves without its line break.
    Unended(Severity, String),
    /// Every session that is asked for.
    ShowSessions(Sessions),
    /// Entries of a stick table, or their removal.
    Entries(Entries),
    /// The lines of a ring.
    Events(Events),
    /// What is open, or what one number stands for.
    ShowDescriptors(Option<i32>),
    /// The end of a session.
    ShutSession(u64),
    /// The listening sockets, and then the end.
    SendSockets,
    /// The end.
    Quit,
}

impl Reply {
    /// Something is wrong.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self::Said(Severity::Error, text.into())
    }

    /// For information.
    #[must_use]
    pub fn info(text: impl Into<String>) -> Self {
        Self::Said(Severity::Info, text.into())
    }
}
