//! What a farm has to tell the outside.

use crate::{OperationalState, ServerId};

/// Severity of a message in the log, syslog's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `emerg`.
    Emergency,
    /// `alert`.
    Alert,
    /// `notice`.
    Notice,
    /// `info`.
    Information,
}

/// How HAProxy tags the same message on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleLevel {
    /// `[ALERT]`.
    Alert,
    /// `[WARNING]`.
    Warning,
}

/// One message about a server or the backend, worded as HAProxy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Severity in the log.
    pub level: LogLevel,
    /// Severity of the mail about it, if there is to be one; its text lacks the final period of `text`.
    pub mail: Option<LogLevel>,
    /// Severity on standard error.
    pub console_level: ConsoleLevel,
    /// The text for the log, without a newline.
    pub text: String,
    /// The text for standard error; it differs from `text` only in quoting.
    pub console_text: String,
}

/// Why sessions are to be shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownReason {
    /// Their server went down (`on-marked-down shutdown-sessions`): termination state `D`.
    Down,
    /// An active server is back and theirs is a backup (`on-marked-up shutdown-backup-sessions`): termination state `U`.
    Up,
}

/// Something that the owner of the farm must act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// To log and to print.
    Message(Message),
    /// A server changed between up, down, maintenance and so on. Followers (`track`) are to be told with `follow`.
    StateChanged {
        /// The server.
        server: ServerId,
        /// Its new operational state.
        state: OperationalState,
    },
    /// A check changed how close a server is to its next state. Followers are to be told, as they show it too.
    HealthChanged {
        /// The server.
        server: ServerId,
    },
    /// Close every session that runs on this server.
    ShutdownSessions {
        /// The server.
        server: ServerId,
        /// Why, for the termination state.
        reason: ShutdownReason,
    },
    /// Close the idle connections to this server: it entered maintenance.
    CloseIdle {
        /// The server.
        server: ServerId,
    },
    /// The next check of this server is due earlier than planned: see `Farm::check_due_ms`.
    CheckRescheduled {
        /// The server.
        server: ServerId,
    },
}
