//! The command line of the master (`-S`): what it answers itself, and which worker a command is for.
//!
//! `@1 show info` goes to the worker, `@!4711 show info` to the process of that number, also to one that drains, `@master
//! show proc` to the master itself; a prefix alone makes its process the one that all further commands are for. Workers are
//! asked with the level of whoever asks, as HAProxy does it: by commands before the command that have no answer.

use std::fmt::Write as _;

use haproxycfg::model::CliLevel;
use runtime::process::{Conversation, MasterStatus, Order, Step};

use super::{
    line::{Line, RawInput, Splitter},
    session::level_name,
};
use crate::stats::view::Product;

/// A process that takes commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Target {
    /// The master itself.
    #[default]
    Master,
    /// The worker process of this number.
    Worker(u32),
}

/// A command of the master, for its help.
pub(crate) struct Command {
    /// The words that it begins with.
    pub(crate) words: &'static [&'static str],
    usage: &'static str,
    doc: &'static str,
}

const fn command(words: &'static [&'static str], usage: &'static str, doc: &'static str) -> Command {
    Command { words, usage, doc }
}

/// What the master answers itself.
pub(super) const COMMANDS: &[Command] = &[
    command(&["@!<pid>"], "@!<pid>", "send a command to the process of this number"),
    command(&["@<relative pid>"], "@<relative pid>", "send a command to the current worker (1)"),
    command(&["@master"], "@master", "send a command to the master"),
    command(&["drain"], "drain", "end when all connections have"),
    command(&["operator"], "operator", "go down to the level operator"),
    command(&["reload"], "reload", "read the configuration again, and tell what came of it"),
    command(&["show", "cli", "level"], "show cli level", "tell your level"),
    command(&["show", "cli", "sockets"], "show cli sockets", "list the master's stats sockets: it has none"),
    command(&["show", "proc"], "show proc [debug]", "list the processes"),
    command(&["show", "version"], "show version", "tell the version"),
    command(&["status"], "status", "list the processes as JSON"),
    command(&["stop"], "stop", "end now"),
    command(&["upgrade"], "upgrade", "replace the program by the one on disk"),
    command(&["user"], "user", "go down to the level user"),
];

/// The words of every command.
pub fn words() -> impl Iterator<Item = &'static [&'static str]> {
    COMMANDS.iter().map(|command| command.words)
}

/// A conversation with a master.
#[derive(Debug)]
pub struct MasterConversation {
    splitter: Splitter,
    target: Target,
    level: CliLevel,
    prompt: bool,
    expert: bool,
    experimental: bool,
}

impl MasterConversation {
    /// A conversation with someone of this level.
    #[must_use]
    pub fn new(level: CliLevel) -> Self {
        Self {
            splitter: Splitter::default(),
            target: Target::Master,
            level,
            prompt: false,
            expert: false,
            experimental: false,
        }
    }

    /// What the prompt shows, if there is one.
    fn prompt_text(&self, status: &MasterStatus) -> String {
        match self.target {
            _ if !self.prompt => String::new(),
            Target::Master if status.last_reload_failed => "master[ReloadFailed]> ".to_owned(),
            Target::Master => "master> ".to_owned(),
            Target::Worker(pid) => format!("{pid}> "),
        }
    }

    fn answer(&mut self, status: &MasterStatus, text: &str, payload: Option<&str>) -> Step {
        let line = Line::new(text);
        let first = line.word(0);
        let (target, command) = match first.strip_prefix('@') {
            Some(prefix) => {
                let Some(target) = find(prefix, status) else {
                    return Step::End(format!("Can't find the target PID matching the prefix '{first}'\n"));
                };
                let rest = text.trim_start().split_once([' ', '\t']).map_or("", |(_, rest)| rest.trim());
                if rest.is_empty() {
                    self.target = target;
                    return Step::Say(self.prompt_text(status));
                }
                (target, rest)
            }
            None => (self.target, text.trim()),
        };
        let line = Line::new(command);
        match (target, line.word(0)) {
            // These are never the worker's.
            (_, "prompt") if first == "prompt" => {
                self.prompt = !self.prompt;
                Step::Say(self.prompt_text(status))
            }
            (_, "quit") if first == "quit" => Step::End(self.prompt_text(status)),
            (_, "expert-mode" | "experimental-mode" | "mcli-debug-mode" | "operator" | "user")
                if first == line.word(0) =>
            {
                self.own(status, &line)
            }
            (Target::Worker(pid), _) => {
                let payload = payload.map(|payload| format!("{payload}\n\n")).unwrap_or_default();
                let text = format!("{}{command}\n{payload}", self.preamble());
                Step::Relay { pid, text, then: self.prompt_text(status) }
            }
            (Target::Master, _) => self.own(status, &line),
        }
    }

    /// What makes a worker take who asks for who it is.
    fn preamble(&self) -> String {
        let level = match self.level {
            CliLevel::User => "user -;",
            CliLevel::Operator => "operator -;",
            CliLevel::Admin => "",
        };
        let expert = if self.expert { "expert-mode on -;" } else { "" };
        let experimental = if self.experimental { "experimental-mode on -;" } else { "" };
        format!("{expert}{experimental}{level}")
    }

    /// A command for the master.
    fn own(&mut self, status: &MasterStatus, line: &Line) -> Step {
        let said = match (line.word(0), line.word(1), line.word(2)) {
            ("help", ..) => help(line.rest(1)),
            // These change who asks, and are answered by nothing, not even an empty line.
            ("operator" | "user", ..) => {
                let level = if line.word(0) == "user" { CliLevel::User } else { CliLevel::Operator };
                if level > self.level {
                    return Step::End("Permission denied!\n".to_owned());
                }
                self.level = level;
                return Step::Say(self.prompt_text(status));
            }
            ("expert-mode" | "experimental-mode", wanted, _) if self.level == CliLevel::Admin => {
                let mode = if line.word(0) == "expert-mode" { &mut self.expert } else { &mut self.experimental };
                if !wanted.is_empty() {
                    *mode = wanted == "on";
                    return Step::Say(self.prompt_text(status));
                }
                format!("{} is {}\n", line.word(0), if *mode { "ON" } else { "OFF" })
            }
            ("mcli-debug-mode", ..) => {
                "mcli-debug-mode has no meaning here: the master only carries commands to workers (@1).\n".to_owned()
            }
            ("show", "cli", "level") => format!("{}\n", level_name(self.level)),
            ("show", "cli", "sockets") => String::new(),
            ("show", "proc", _) => status.table(&Product::default().version),
            ("show", "version", _) => format!("{}\n", Product::default().version),
            ("status", ..) => return Step::End(status.to_json()),
            ("expert-mode" | "experimental-mode", ..) => "Permission denied\n".to_owned(),
            (word, ..) => match Order::named(word) {
                Some(_) if self.level < CliLevel::Admin => "Permission denied\n".to_owned(),
                Some(order) => return Step::Order(order),
                None => unknown(line),
            },
        };
        Step::Say(format!("{said}\n{}", self.prompt_text(status)))
    }
}

impl Conversation for MasterConversation {
    fn feed(&mut self, bytes: &[u8]) {
        self.splitter.feed(bytes);
    }

    fn next(&mut self, status: &MasterStatus) -> Step {
        match self.splitter.next_raw() {
            RawInput::Command(text, payload) => self.answer(status, &text, payload.as_deref()),
            RawInput::Payload if self.prompt => Step::Say("+ ".to_owned()),
            RawInput::Payload => Step::Say(String::new()),
            RawInput::TooLong => Step::End(String::new()),
            // Other than on a stats socket, more may come without a prompt too: the end is the client's.
            RawInput::Incomplete => Step::Wait,
        }
    }
}

/// The process that a prefix means, the `@` left out.
fn find(prefix: &str, status: &MasterStatus) -> Option<Target> {
    match prefix {
        "" | "master" | "0" => Some(Target::Master),
        "1" => status.workers.first().map(|worker| Target::Worker(worker.pid)),
        _ => {
            let pid: u32 = prefix.strip_prefix('!')?.parse().ok()?;
            status.workers.iter().find(|worker| worker.pid == pid).map(|worker| Target::Worker(worker.pid))
        }
    }
}

fn help<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    list("The following commands are valid at this level:", &words)
}

fn unknown(line: &Line) -> String {
    let words: Vec<&str> = line.rest(0).collect();
    if words.is_empty() {
        return list("Unknown command. Please enter one of the following commands only:", &words);
    }
    list("Unknown command, but maybe one of the following ones is a better match:", &words)
}

/// The commands that begin with as many of the words as any.
fn list(heading: &str, words: &[&str]) -> String {
    let shared = |command: &Command| words.iter().zip(command.words).take_while(|(word, own)| word == own).count();
    let best = COMMANDS.iter().map(shared).max().unwrap_or(0);
    let mut out = format!("{heading}\n");
    let mut entry = |usage: &str, doc: &str| {
        let _ = writeln!(out, "  {usage:<40}: {doc}");
    };
    for command in COMMANDS.iter().filter(|command| shared(command) == best) {
        entry(command.usage, command.doc);
    }
    entry("help [<command>]", "list the commands, or those that match");
    entry("prompt", "begin or end a conversation with a prompt");
    entry("quit", "end the conversation");
    out
}

#[cfg(test)]
mod tests {
    use runtime::process::{WorkerState, WorkerStatus};

    use super::*;

    fn status() -> MasterStatus {
        let worker = |pid| WorkerStatus { pid, generation: 1, state: WorkerState::Serving, uptime_s: 1, reloads: 0 };
        MasterStatus { pid: 1, workers: vec![worker(20), worker(10)], ..MasterStatus::default() }
    }

    /// All that is to be done for some bytes, until more are needed or the end.
    fn steps(conversation: &mut MasterConversation, bytes: &str) -> Vec<Step> {
        conversation.feed(bytes.as_bytes());
        let mut steps = Vec::new();
        loop {
            let step = conversation.next(&status());
            let is_last = matches!(step, Step::Wait | Step::End(_) | Step::Order(_));
            steps.push(step);
            if is_last {
                return steps;
            }
        }
    }

    fn said(steps: &[Step]) -> String {
        let text = |step: &Step| match step {
            Step::Say(text) | Step::End(text) => text.clone(),
            Step::Relay { pid, text, then } => format!("[{pid}:{text}]{then}"),
            other => format!("{other:?}"),
        };
        steps.iter().map(text).collect()
    }

    #[test]
    fn commands_go_where_they_are_meant_to() {
        for (input, expected) in [
            ("@1 show info\n", "[20:show info\n]Wait"),
            ("@!10  show stat\n", "[10:show stat\n]Wait"),
            ("@1; show info; @master; show cli level\n", "[20:show info\n]admin\n\nWait"),
            ("@1 add map x <<\na b\nc d\n\n", "[20:add map x <<\na b\nc d\n\n]Wait"),
            ("@x show\n", "Can't find the target PID matching the prefix '@x'\n"),
            ("@2 show\n", "Can't find the target PID matching the prefix '@2'\n"),
            ("@!99 show\n", "Can't find the target PID matching the prefix '@!99'\n"),
            ("user; @1 show info\n", "[20:user -;show info\n]Wait"),
            ("@1; user; show info\n", "[20:user -;show info\n]Wait"),
            ("@1 user; @1 show info\n", "[20:user\n][20:show info\n]Wait"),
            ("user; operator; show cli level\n", "Permission denied!\n"),
            ("expert-mode on; @1 x\n", "[20:expert-mode on -;x\n]Wait"),
            ("expert-mode\n", "expert-mode is OFF\n\nWait"),
            ("reload\n", "Order(Reload)"),
            ("operator; reload\n", "Permission denied\n\nWait"),
            ("show cli sockets\n", "\nWait"),
            ("quit\n", ""),
        ] {
            assert_eq!(said(&steps(&mut MasterConversation::new(CliLevel::Admin), input)), expected, "{input}");
        }
        let operator = said(&steps(&mut MasterConversation::new(CliLevel::Operator), "@1 show info\n"));
        assert_eq!(operator, "[20:operator -;show info\n]Wait");
    }

    #[test]
    fn prompts_name_the_process() {
        let mut conversation = MasterConversation::new(CliLevel::Admin);
        for (input, expected) in [
            ("prompt\n", "master> Wait"),
            ("@1\n", "20> Wait"),
            ("show info\n", "[20:show info\n]20> Wait"),
            ("add map x <<\n", "+ Wait"),
            ("a b\n", "+ Wait"),
            ("\n", "[20:add map x <<\na b\n\n]20> Wait"),
            ("@\n", "master> Wait"),
            ("show cli level\n", "admin\n\nmaster> Wait"),
            ("quit\n", "master> "),
        ] {
            assert_eq!(said(&steps(&mut conversation, input)), expected, "{input}");
        }
        let failed = MasterStatus { last_reload_failed: true, ..status() };
        assert_eq!(conversation.prompt_text(&failed), "master[ReloadFailed]> ");
    }

    #[test]
    fn memory_is_bounded() {
        let mut conversation = MasterConversation::new(CliLevel::Admin);
        assert_eq!(steps(&mut conversation, &"x".repeat(20_000)), [Step::End(String::new())]);
    }
}
