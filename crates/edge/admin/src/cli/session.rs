//! One conversation on the stats socket: who may say what, and how it is answered.

use std::{sync::Arc, time::Duration};

use haproxycfg::{
    model::{CliLevel, SeverityOutput},
    units::{Unit, time},
};
use logs::LogRing;

use super::{
    help,
    line::Line,
    reply::{Reply, Severity},
    table::{self, Run},
};
use crate::stats::control::Control;

/// What commands work with.
pub struct Context<'a> {
    /// The edge that runs.
    pub control: &'a dyn Control,
    /// The stats sockets: address and level.
    pub sockets: Vec<(String, CliLevel)>,
    /// Rings of log lines.
    pub rings: Vec<Arc<LogRing>>,
    /// The ring `buf0`, once there is something in it.
    pub buffer: Option<Arc<LogRing>>,
    /// What was said at the start.
    pub startup_logs: String,
    /// Files that the program was loaded from, with their places in memory.
    pub libraries: String,
    /// The time since the epoch.
    pub now: Duration,
    /// Seconds by which local time is ahead of UTC.
    pub offset: i32,
}

/// What a conversation has come to.
#[derive(Debug)]
pub struct Session {
    level: CliLevel,
    prompt: bool,
    expert: bool,
    experimental: bool,
    severity: SeverityOutput,
    /// Whether the answer to this command ends without the empty line; only masters ask for that.
    pub(super) no_empty_line: bool,
    /// `set timeout cli`.
    timeout: Option<Duration>,
}

impl Session {
    /// A conversation with someone of this level.
    #[must_use]
    pub fn new(level: CliLevel, severity: SeverityOutput) -> Self {
        Self { level, prompt: false, expert: false, experimental: false, severity, no_empty_line: false, timeout: None }
    }

    /// Whether it is a person who wants a prompt.
    #[must_use]
    pub fn interactive(&self) -> bool {
        self.prompt
    }

    /// The time to the next command, if it was changed.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Whether commands that are still tried out may be given.
    pub(super) fn is_experimental(&self) -> bool {
        self.experimental
    }

    pub(super) fn level(&self) -> CliLevel {
        self.level
    }

    /// Answers a command.
    pub(super) fn answer(&mut self, context: &Context<'_>, line: &Line) -> Reply {
        self.no_empty_line = false;
        let Some(command) = table::find(line) else { return help::unknown(line) };
        if self.level < command.level {
            return Reply::error("Permission denied");
        }
        match command.run {
            Run::With(run) => run(self, context, line),
            Run::Absent(reason) => Reply::error(format!("'{}' is not here: {reason}.", command.words.join(" "))),
        }
    }

    /// The text of an answer that has one.
    pub(super) fn render(&self, reply: &Reply) -> String {
        match reply {
            Reply::Text(text) => text.clone(),
            Reply::Said(severity, text) => self.said(*severity, text) + "\n",
            Reply::Unended(severity, text) => self.said(*severity, text),
            Reply::Done
            | Reply::Steered
            | Reply::Events(_)
            | Reply::Entries(_)
            | Reply::ShowDescriptors(_)
            | Reply::ShowSessions(_)
            | Reply::ShutSession(_)
            | Reply::SendSockets
            | Reply::Quit => String::new(),
        }
    }

    fn said(&self, severity: Severity, text: &str) -> String {
        match self.severity {
            SeverityOutput::None => text.to_owned(),
            SeverityOutput::Number => format!("[{}]: {text}", severity as u8),
            SeverityOutput::Name => format!("[{}]: {text}", severity.name()),
        }
    }

    /// What follows an answer, or a line of a payload.
    pub(super) fn prompt_text(&self, in_payload: bool) -> &'static str {
        match (self.prompt, in_payload) {
            (true, true) => "+ ",
            (true, false) => "\n> ",
            (false, true) => "",
            (false, false) if self.no_empty_line => "",
            (false, false) => "\n",
        }
    }
}

pub(super) fn prompt(session: &mut Session, _: &Context<'_>, _: &Line) -> Reply {
    session.prompt = !session.prompt;
    Reply::Done
}

pub(super) fn lower(session: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    session.no_empty_line = line.word(1) == "-";
    session.level = if line.word(0) == "user" { CliLevel::User } else { CliLevel::Operator };
    (session.expert, session.experimental) = (false, false);
    Reply::Done
}

pub(super) fn mode(session: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    session.no_empty_line = line.word(2) == "-";
    let mode = if line.word(0) == "expert-mode" { &mut session.expert } else { &mut session.experimental };
    if line.word(1).is_empty() {
        return Reply::info(format!("{} is {}", line.word(0), if *mode { "ON" } else { "OFF" }));
    }
    *mode = line.word(1) == "on";
    Reply::Done
}

pub(super) fn show_level(session: &mut Session, _: &Context<'_>, _: &Line) -> Reply {
    Reply::info(level_name(session.level))
}

pub(super) fn level_name(level: CliLevel) -> &'static str {
    match level {
        CliLevel::User => "user",
        CliLevel::Operator => "operator",
        CliLevel::Admin => "admin",
    }
}

pub(super) fn set_severity(session: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    match SeverityOutput::named(line.word(2)) {
        Some(severity) => session.severity = severity,
        None => return Reply::error("one of 'none', 'number', 'string' is a required argument"),
    }
    Reply::Done
}

pub(super) fn set_timeout(session: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    if line.word(2) != "cli" {
        return Reply::error("'set timeout' only supports 'cli'.");
    }
    if line.word(3).is_empty() {
        return Reply::error("Expects an integer value.");
    }
    match time(line.word(3), Unit::Second) {
        Ok(time) if !time.value.is_zero() && time.ignored_from.is_none() => {
            session.timeout = Some(time.value);
            Reply::Done
        }
        _ => Reply::Said(Severity::Error, "Invalid timeout value.".to_owned()),
    }
}
