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

Commands of the stats socket (`stats socket` in `global`), those of HAProxy 2.6, and with `@1` before them of the master's
socket (`-S`). Made of the table that finds the commands (`tidegate reference`).

A connection ends when its commands have been answered; `prompt` keeps it open. Several commands on a line stand between
semicolons; `<<` at the end of one says that lines follow, up to an empty one. Levels are `user`, `operator` and `admin`: a
socket has that of its line (`level`), and a conversation can go down with `operator` and `user`.

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
    for (usage, doc) in [
        ("expert-mode [on\\|off]", "allow commands for experts"),
        ("experimental-mode [on\\|off]", "allow commands that are tried out"),
        ("help [<command>]", "list the commands, or those that match"),
        ("prompt", "begin or end a conversation with a prompt"),
        ("quit", "end the conversation"),
    ] {
        let level = if usage.starts_with("exp") { "admin" } else { "user" };
        let _ = writeln!(out, "| `{usage}` | {level} | {doc} |");
    }
    out.push_str("\n## Not here\n\nThese are known and answered with the reason.\n\n| command | why |\n|---|---|\n");
    for command in commands.iter().filter(|command| !command.supported()) {
        let reason = command.absent().unwrap_or("not done yet");
        let _ = writeln!(out, "| `{}` | {} |", command.words.join(" "), escaped(reason));
    }
    let supported = commands.iter().filter(|command| command.supported()).count();
    (out, (commands.len(), supported))
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
}
