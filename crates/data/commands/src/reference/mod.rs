//! The reference: what the tables of commands and settings say, as pages and for one word. Names of Redis 7.0 that are not in
//! the tables are listed too, each with its reason.

mod absent;
mod pages;

use std::fmt::Write as _;

use crate::{
    config::{self, Change, Setting, State},
    groups,
    server::Command,
    syntax,
    table::Flags,
};

pub use pages::{Page, pages};

/// The names of Redis 7.0's commands; a subcommand's behind that of its container.
const REDIS_COMMANDS: &str = include_str!("redis-commands.txt");
/// The names that a redis.conf of 7.0 may have.
#[cfg(test)]
const REDIS_SETTINGS: &str = include_str!("redis-settings.txt");

/// A command or a subcommand with its whole name.
struct Named {
    name: String,
    command: &'static Command,
    /// Why it is refused, or a part of what Redis does.
    missing: Option<&'static str>,
}

impl Named {
    /// The words behind its name.
    fn usage(&self) -> String {
        syntax::usage(&syntax::arguments(self.command.syntax).unwrap_or_default())
    }
}

/// All commands by name, subcommands behind their containers.
fn commands() -> Vec<Named> {
    let mut all = Vec::new();
    for command in groups::all() {
        all.push(Named { name: command.name.to_owned(), command, missing: command.missing });
        all.extend(command.subcommands.iter().map(|one| Named {
            name: format!("{} {}", command.name, one.name),
            command: one,
            missing: one.missing,
        }));
    }
    all.sort_by(|left, right| left.name.cmp(&right.name));
    all
}

/// Names of Redis' that are not in the table, with the reasons.
fn absent_commands() -> Vec<(String, &'static str)> {
    let known = commands();
    let is_known = |name: &str| known.iter().any(|one| one.name == name);
    let missing = |name: &str| known.iter().find(|one| one.name == name).and_then(|one| one.missing);
    REDIS_COMMANDS
        .lines()
        .map(|line| line.replace('|', " "))
        .filter(|name| !is_known(name))
        .map(|name| {
            let container = name.split(' ').next().unwrap_or_default();
            let reason = missing(container).or_else(|| absent::reason(&name));
            (name, reason.unwrap_or(absent::UNEXPLAINED))
        })
        .collect()
}

/// All names that [`explain`] knows: commands, settings, and Redis' names that are not there.
#[must_use]
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = commands().into_iter().map(|command| command.name).collect();
    names.extend(config::SETTINGS.iter().map(|setting| setting.name.to_owned()));
    names.extend(config::DIRECTIVES.iter().map(|(name, ..)| (*name).to_owned()));
    names.extend(absent_commands().into_iter().map(|(name, _)| name));
    names
}

/// What a word means as a command or a setting of the store; nothing if it is neither.
pub fn explain(word: &str) -> Option<String> {
    let wanted = word.split_ascii_whitespace().collect::<Vec<_>>().join(" ").replace('|', " ");
    let mut text = String::new();
    if let Some(found) = commands().iter().find(|one| one.name.eq_ignore_ascii_case(&wanted)) {
        explain_command(&mut text, found);
    }
    if let Some(setting) = config::find(wanted.as_bytes()) {
        explain_setting(&mut text, setting);
    }
    for (name, reason, doc) in config::DIRECTIVES {
        if name.eq_ignore_ascii_case(&wanted) {
            let _ = writeln!(text, "{name} (a line of redis.conf)\n    {doc}");
            if let Some(reason) = reason {
                let _ = writeln!(text, "    not there: {reason}");
            }
        }
    }
    if let Some((name, reason)) = absent_commands().iter().find(|(name, _)| name.eq_ignore_ascii_case(&wanted)) {
        let _ = writeln!(text, "{name} (a command of Redis)\n    not there: {reason}");
    }
    (!text.is_empty()).then_some(text)
}

fn explain_command(text: &mut String, found: &Named) {
    let command = found.command;
    let _ = writeln!(text, "{} (a command of the store)\n    {}", found.name, command.summary);
    let usage = found.usage();
    if !usage.is_empty() {
        let _ = writeln!(text, "    words: {usage}");
    }
    if !command.complexity.is_empty() {
        let _ = writeln!(text, "    time: {}", command.complexity);
    }
    let _ = writeln!(text, "    in Redis since: {}", command.since);
    if command.flags.contains(Flags::WRITE) {
        let _ = writeln!(text, "    it changes keys, and stands in the log");
    }
    if let Some(reason) = found.missing {
        let _ = writeln!(text, "    not there: {reason}");
    }
    let names: Vec<_> = command.subcommands.iter().map(|one| one.name).collect();
    if !names.is_empty() {
        let _ = writeln!(text, "    subcommands: {}", names.join(", "));
    }
}

fn explain_setting(text: &mut String, setting: &Setting) {
    let default = (setting.text)(&config::Settings::default());
    let _ = writeln!(text, "{} (a setting of the store)\n    {}", setting.name, setting.doc);
    if let Some(alias) = setting.alias {
        let _ = writeln!(text, "    also: {alias}");
    }
    let _ = writeln!(text, "    default: {}", if default.is_empty() { "none" } else { &default });
    let when = match setting.change {
        Change::Free => "at the start, and by CONFIG SET",
        Change::Protected => "at the start, and by CONFIG SET where enable-protected-configs lets it",
        Change::AtStart => "at the start",
    };
    let _ = writeln!(text, "    set: {when}");
    match setting.state {
        State::Supported => {}
        State::WithoutEffect(reason) => {
            let _ = writeln!(text, "    without effect: {reason}");
        }
        State::Missing(reason) => {
            let _ = writeln!(text, "    not there: {reason}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_redis_is_in_a_table_or_has_a_reason() {
        let mut unexplained = absent_commands();
        unexplained.retain(|(_, reason)| *reason == absent::UNEXPLAINED);
        assert_eq!(unexplained, [], "these are neither in the table of commands nor in reference/absent.rs");
        for name in REDIS_SETTINGS.lines() {
            let directive = config::DIRECTIVES.iter().any(|(known, ..)| *known == name);
            assert!(directive || config::find(name.as_bytes()).is_some(), "redis.conf's {name} is not known");
        }
    }

    #[test]
    fn every_command_says_what_it_does_and_each_stands_once() {
        let all = commands();
        for one in &all {
            assert!(!one.command.summary.is_empty(), "{} has no summary", one.name);
            assert!(!one.command.since.is_empty(), "{} does not say since when", one.name);
        }
        for pair in all.windows(2) {
            assert_ne!(pair[0].name, pair[1].name);
        }
    }

    #[test]
    fn words_are_explained_from_the_tables() {
        let text = explain("hset").unwrap();
        assert!(text.starts_with("HSET (a command of the store)\n") && text.contains("it changes keys"), "{text}");
        assert!(text.contains("\n    words: key field value [field value ...]\n"), "{text}");
        let text = explain("config|get").unwrap();
        assert!(text.starts_with("CONFIG GET (a command of the store)\n"), "{text}");
        let text = explain("maxmemory-policy").unwrap();
        assert!(text.contains("default: noeviction"), "{text}");
        let text = explain("slaveof").unwrap();
        assert!(text.contains("REPLICAOF") || text.contains("not there: replication comes with the cluster"), "{text}");
        assert!(explain("cluster meet").unwrap().contains("ip port [cluster-bus-port]"));
        assert!(explain("loadmodule").unwrap().contains("not there: "));
        assert_eq!(explain("frontend"), None);
        for name in names() {
            assert!(explain(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn pages_have_every_name() {
        let pages = pages();
        let page = |name: &str| pages.iter().find(|page| page.name == name).unwrap().text.clone();
        let text = page("redis-commands.md");
        for line in REDIS_COMMANDS.lines() {
            assert!(text.contains(&format!("| `{}` |", line.replace('|', " "))), "{line}");
        }
        let text = page("redis-settings.md");
        for name in REDIS_SETTINGS.lines() {
            assert!(text.contains(&format!("`{name}`")), "{name}");
        }
        assert!(pages.iter().all(|page| page.supported <= page.total && page.supported > 50));
    }
}
