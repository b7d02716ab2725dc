//! The page of the reference that says which commands there are.

use std::fmt::Write as _;

use super::{
    session::level_name,
    table::{COMMANDS, Command},
};

/// The name of the page.
pub const PAGE: &str = "runtime-api.md";

const HEAD: &str = "\
# Runtime API

These are the commands of the stats socket (`stats socket` in `global`), which are HAProxy 2.6's. With `@1` before them, the master's socket
(`-S`) takes them too. `tidegate reference` makes this page from the table of the commands.

The socket closes a connection after the answers to its commands; `prompt` keeps it open. Semicolons divide several commands on a line. `<<` at
the end of a command says that lines follow, up to an empty one. Levels are `user`, `operator` and `admin`: a socket has the level of its
line (`level`), and a connection can lower it with `operator` and `user`.

| command | level | what it does |
|---|---|---|
";

/// The page, in the order of the alphabet, and how many commands there are in HAProxy and here.
#[must_use]
pub fn reference() -> (String, (usize, usize)) {
    let mut out = HEAD.to_owned();
    let mut commands: Vec<&Command> = COMMANDS.iter().collect();
    commands.sort_by_key(|command| command.words);
    let escaped = |text: &str| text.replace('|', "\\|");
    for command in commands.iter().filter(|command| command.supported() && !command.usage.is_empty()) {
        let level = level_name(command.level);
        let _ = writeln!(out, "| `{}` | {level} | {} |", escaped(command.usage), escaped(command.doc));
    }
    for (usage, doc) in OF_THE_SESSION {
        let level = if usage.starts_with("exp") { "admin" } else { "user" };
        let _ = writeln!(out, "| `{}` | {level} | {doc} |", escaped(usage));
    }
    out.push_str("\n## Not here\n\nThese are known and answered with the reason.\n\n| command | why |\n|---|---|\n");
    for command in commands.iter().filter(|command| !command.supported()) {
        let reason = command.absent().unwrap_or("not done yet");
        let _ = writeln!(out, "| `{}` | {} |", command.words.join(" "), escaped(reason));
    }
    let supported = commands.iter().filter(|command| command.supported()).count();
    (out, (commands.len(), supported))
}

/// Commands of a session that no table has, with how they are written and what they do.
const OF_THE_SESSION: [(&str, &str); 5] = [
    ("expert-mode [on|off]", "allow commands for experts"),
    ("experimental-mode [on|off]", "allow commands that are tried out"),
    ("help [<command>]", "list the commands, or those that match"),
    ("prompt", "begin or end a conversation with a prompt"),
    ("quit", "end the conversation"),
];

/// What words mean as a command of the stats socket, or as the beginning of several; nothing if they are neither.
#[must_use]
pub fn explain(words: &str) -> Option<String> {
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let (first, others) = words.split_first()?;
    // A word alone is a command where it is a whole one, and the beginning of several where a keyword cannot be meant.
    let begins = |command: &&Command| {
        let common = command.words.len().min(words.len());
        command.words.get(..common) == words.get(..common)
            && (!others.is_empty() || command.words.len() == 1 || *first == "show")
    };
    let mut found: Vec<&Command> = COMMANDS.iter().filter(|command| !command.words.is_empty()).filter(begins).collect();
    if found.iter().any(|command| command.words.len() <= words.len()) {
        found.retain(|command| command.words.len() <= words.len());
    }
    found.sort_by_key(|command| command.words);
    let mut text = String::new();
    for command in found.iter().filter(|command| !command.usage.is_empty() || !command.supported()) {
        let usage = if command.usage.is_empty() { command.words.join(" ") } else { command.usage.to_owned() };
        let _ = writeln!(text, "{usage} (a command of the stats socket)");
        match command.absent() {
            None => {
                let _ = writeln!(text, "    {}\n    level: {}", command.doc, level_name(command.level));
            }
            Some(reason) => {
                let _ = writeln!(text, "    not there: {reason}");
            }
        }
    }
    for (usage, doc) in OF_THE_SESSION.iter().filter(|(usage, _)| usage.split(' ').next() == Some(*first)) {
        let _ = writeln!(text, "{usage} (a command of the stats socket)\n    {doc}");
    }
    (!text.is_empty()).then_some(text)
}

/// All commands by the words that they begin with.
#[must_use]
pub fn names() -> Vec<String> {
    COMMANDS.iter().filter(|command| !command.usage.is_empty()).map(|command| command.words.join(" ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_on_the_page() {
        let (page, _) = reference();
        for command in COMMANDS.iter().filter(|command| !command.usage.is_empty() || !command.supported()) {
            assert!(page.contains(&command.words.join(" ")), "{:?}", command.words);
        }
        for line in page.lines().filter(|line| line.starts_with("| `")) {
            let cells = line.replace("\\|", "").matches('|').count();
            assert!(cells == 3 || cells == 4, "{line}");
        }
    }

    #[test]
    fn commands_are_explained() {
        assert!(explain("show stat").unwrap().starts_with("show stat ["));
        assert_eq!(explain("show stat").unwrap().matches("a command of").count(), 1);
        assert!(explain("show servers").unwrap().contains("show servers state"));
        assert!(explain("show").unwrap().contains("show info"));
        assert!(explain("set weight app/s1 50").unwrap().starts_with("set weight"));
        assert!(explain("httpclient").unwrap().contains("not there: it tests HAProxy's own HTTP client"));
        assert!(explain("prompt").unwrap().starts_with("prompt"));
        for words in ["server", "", "show nothing of that kind", "maxconn"] {
            assert_eq!(explain(words), None, "{words}");
        }
    }
}
