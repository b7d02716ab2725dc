//! MONITOR: clients that are shown every command that runs.

use std::borrow::Cow;

use crate::{Session, table::Flags};

use super::{FoundCommand, Server, Shared, sessions::Sessions};

/// What stands in the place of a secret.
const REDACTED: &[u8] = b"(redacted)";

/// A command's words without its secrets, as logs may show them.
pub(crate) fn redacted<'a>(found: FoundCommand, words: &[&'a [u8]]) -> Vec<Cow<'a, [u8]>> {
    let mut shown: Vec<Cow<'a, [u8]>> = words.iter().map(|word| Cow::Borrowed(*word)).collect();
    let mut places = Vec::new();
    if let Some(secrets) = found.command.secrets {
        secrets(words, &mut places);
    }
    for place in places {
        if let Some(word) = shown.get_mut(place) {
            *word = Cow::Borrowed(REDACTED);
        }
    }
    shown
}

/// Appends bytes between double quotes, with those escaped that cannot be printed.
pub(crate) fn quote(text: &mut Vec<u8>, bytes: &[u8]) {
    text.push(b'"');
    for byte in bytes {
        match byte {
            b'\\' | b'"' => text.extend_from_slice(&[b'\\', *byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            7 => text.extend_from_slice(b"\\a"),
            8 => text.extend_from_slice(b"\\b"),
            b' '..=b'~' => text.push(*byte),
            _ => text.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    text.push(b'"');
}

impl Sessions {
    /// Whether somebody wants to know of all words of a command.
    pub(super) fn sees_words(&self) -> bool {
        !self.observers.monitors.is_empty() || self.observers.tracking.is_some()
    }
}

impl Shared {
    /// Shows a session all commands from now on.
    pub(crate) fn monitor(&mut self, session: &mut Session) {
        if !session.listening.monitors {
            session.listening.monitors = true;
            self.sessions.observers.monitors.push(session.id);
            self.sessions.refresh_rights(session);
            self.refresh_onlookers();
        }
    }

    /// Shows it none any more.
    pub(crate) fn end_monitoring(&mut self, session: &mut Session) {
        if session.listening.monitors {
            session.listening.monitors = false;
            self.sessions.observers.monitors.retain(|id| *id != session.id);
            self.sessions.refresh_rights(session);
            self.refresh_onlookers();
        }
    }

    /// Looks again whether there is anything to be done around commands but to run them.
    pub(super) fn refresh_onlookers(&mut self) {
        self.sessions.observers.any = self.is_looked_on() || !self.tasks.is_empty();
    }

    /// The same but for commands that are under way.
    pub(super) fn is_looked_on(&self) -> bool {
        self.sessions.sees_words()
            || self.sessions.postponing.is_on()
            || self.cluster.as_ref().is_some_and(|membership| !membership.pauses.is_empty())
    }
}

impl Server {
    /// Shows a command to those who want to see all.
    pub(super) fn show(&mut self, session: &Session, output: &mut Vec<u8>, words: &[&[u8]], found: FoundCommand) {
        // What administrators do is not shown: it may say too much.
        let is_script = is_script(found);
        let hidden = found.command.flags.intersects(Flags::SKIP_MONITOR | Flags::ADMIN);
        if self.shared.sessions.observers.monitors.is_empty() || hidden && !is_script {
            return;
        }
        let now_us = self.shared.host.time_us().unwrap_or(self.now.unsigned_abs() * 1000);
        let mut line = format!("+{}.{:06} [{} ", now_us / 1_000_000, now_us % 1_000_000, session.db).into_bytes();
        line.extend_from_slice(if session.internal { b"lua" } else { session.connection.address.as_bytes() });
        line.push(b']');
        for word in redacted(found, words) {
            line.push(b' ');
            quote(&mut line, &word);
        }
        line.extend_from_slice(b"\r\n");
        for id in self.shared.sessions.observers.monitors.clone() {
            if id == session.id {
                output.extend_from_slice(&line);
            } else {
                self.shared.send(id, &line);
            }
        }
    }
}

/// Whether a command runs a script: it is shown before what the script calls.
pub(super) fn is_script(found: FoundCommand) -> bool {
    found.command.flags.contains(Flags::RUNS_SCRIPT)
}
