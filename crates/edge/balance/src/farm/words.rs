//! The words of messages, which are HAProxy's.

use crate::ServerId;
use crate::event::{ConsoleLevel, Event, LogLevel, Message};
use crate::health::Check;
use crate::server::OperationalState;

use super::Farm;
use super::state::Cause;

impl<W> Farm<W> {
    /// The start of every message about a server.
    pub(super) fn subject(&self, id: ServerId, what: &str) -> String {
        let server = &self.pool.servers[id];
        let backup = if server.config.backup { "Backup " } else { "" };
        format!("{backup}Server {}/{}{what}", self.config.name, server.config.name)
    }

    pub(super) fn say(&mut self, level: LogLevel, text: String) {
        self.tell(level, None, text);
    }

    /// Says what is also worth a mail of that severity.
    pub(super) fn say_and_mail(&mut self, level: LogLevel, mail: LogLevel, text: String) {
        self.tell(level, Some(mail), text);
    }

    fn tell(&mut self, level: LogLevel, mail: Option<LogLevel>, mut text: String) {
        text.push('.');
        self.events.push_back(Event::Message(Message {
            level,
            mail,
            console_level: ConsoleLevel::Warning,
            console_text: text.clone(),
            text,
        }));
    }

    /// Adds the cause of a change, and where it leaves the backend.
    pub(super) fn append_status(
        &self,
        text: &mut String,
        id: ServerId,
        cause: &Cause,
        moved: Option<u32>,
        is_forced: bool,
    ) {
        let server = &self.pool.servers[id];
        match cause {
            Cause::Check(kind) => {
                if let Some(check) = server.check_of(*kind) {
                    append_check(text, check);
                }
            }
            Cause::Text(words) if !words.is_empty() => *text += &format!(", {words}"),
            Cause::Text(_) | Cause::None => {
                if let Some(track) = server.config.track.as_ref().filter(|_| !is_forced) {
                    *text += &format!(" via {track}");
                }
            }
        }
        let Some(moved) = moved else { return };
        let (active, backup) = (self.pool.active, self.pool.backup);
        let on_backup = if active == 0 && backup > 0 { " Running on backup." } else { "" };
        let queued = server.queued;
        *text += &if server.next.state == OperationalState::Stopped {
            format!(
                ". {active} active and {backup} backup servers left.{on_backup} {} sessions active, {moved} requeued, \
                 {queued} remaining in queue",
                server.served
            )
        } else {
            format!(
                ". {active} active and {backup} backup servers online.{on_backup} {moved} sessions requeued, {queued} \
                 total in queue"
            )
        };
    }

    /// The backend has lost its last server.
    pub(super) fn backend_went_down(&mut self, now_ms: u64) {
        self.last_change_ms = now_ms;
        self.counters.went_down += 1;
        let (kind, name) = (self.config.proxy_type.name(), &self.config.name);
        self.events.push_back(Event::Message(Message {
            level: LogLevel::Emergency,
            mail: None,
            console_level: ConsoleLevel::Alert,
            text: format!("{kind} {name} has no server available!"),
            console_text: format!("{kind} '{name}' has no server available!"),
        }));
    }
}

/// Adds what a check came to.
pub(super) fn append_check(text: &mut String, check: &Check) {
    *text += &format!(", reason: {}", check.status.description());
    if check.status.has_code() {
        // The code of a program that a signal ended is -1.
        *text += &format!(", code: {}", check.code.cast_signed());
    }
    if !check.info.is_empty() {
        *text += ", info: \"";
        for byte in check.info.bytes() {
            match byte {
                b'"' | b'<' | b'>' => *text += &format!("<{byte:02X}>"),
                b' '..=b'~' => text.push(char::from(byte)),
                _ => *text += &format!("<{byte:02X}>"),
            }
        }
        text.push('"');
    }
    if let Some(duration) = check.duration_ms {
        *text += &format!(", check duration: {duration}ms");
    }
}

/// Adds why a flag was set.
pub(super) fn append_flag_cause(text: &mut String, cause: &str) {
    if !cause.is_empty() {
        *text += &format!(" ({cause})");
    }
}
