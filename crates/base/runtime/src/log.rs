//! Where the messages of this crate go: standard error in HAProxy's form, unless a role sets its own sink.

use std::fmt;
use std::io::Write as _;
use std::sync::OnceLock;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Expected: a worker started, a reload went well.
    Notice,
    /// Unexpected, but the service goes on.
    Warning,
    /// Something was lost or refused.
    Alert,
}

impl Level {
    /// HAProxy's word for it, as printed between brackets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
            Self::Alert => "ALERT",
        }
    }
}

type Sink = Box<dyn Fn(Level, &str) + Send + Sync>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sends messages to `sink` from now on. Only the first call has an effect; returns whether this was it.
pub fn set_sink(sink: impl Fn(Level, &str) + Send + Sync + 'static) -> bool {
    SINK.set(Box::new(sink)).is_ok()
}

/// Writes one message.
pub fn write(level: Level, message: fmt::Arguments<'_>) {
    let text = message.to_string();
    if let Some(sink) = SINK.get() {
        sink(level, &text);
    } else {
        print(level, &text);
    }
}

static SHOWN: OnceLock<u32> = OnceLock::new();

/// The process number that messages name: this process' own, or its master's in a process that only checks a
/// configuration for one, which users never hear of.
pub fn process_number() -> u32 {
    *SHOWN.get_or_init(std::process::id)
}

/// Has messages name the process that started this one.
pub(crate) fn name_parent() {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    let _ = SHOWN.set(parent.unwrap_or_else(std::process::id));
}

/// Prints a message on standard error as HAProxy does: `[NOTICE]   (123) : text`.
pub fn print(level: Level, text: &str) {
    let head = format!("[{}]", level.name());
    // In one piece: other processes of the service write there too, and lines would end up within lines.
    let line = format!("{head:<10} ({}) : {text}\n", process_number());
    // A message that standard error does not take is lost: there is nowhere left to report it.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

macro_rules! notice {
    ($($word:tt)*) => { $crate::log::write($crate::log::Level::Notice, format_args!($($word)*)) };
}
macro_rules! warning {
    ($($word:tt)*) => { $crate::log::write($crate::log::Level::Warning, format_args!($($word)*)) };
}
macro_rules! alert {
    ($($word:tt)*) => { $crate::log::write($crate::log::Level::Alert, format_args!($($word)*)) };
}
pub(crate) use {alert, notice, warning};
