//! `help`, and what is said to a command that nobody knows.

use basics::nearest;
use std::fmt::Write as _;

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
    table::{COMMANDS, Command},
};

/// Commands that are proposed for one that does not exist.
const PROPOSALS_MAX: usize = 8;

pub(super) fn help(_: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    let words: Vec<&str> = line.rest(1).collect();
    let matching = by_prefix(&words);
    Reply::Text(list("The following commands are valid at this level:", matching))
}

/// The answer to a line that is no command: those that come nearest, or all of them.
pub(super) fn unknown(line: &Line) -> Reply {
    let words: Vec<&str> = line.rest(0).collect();
    if words.is_empty() {
        return Reply::Text(list("Unknown command. Please enter one of the following commands only:", by_prefix(&[])));
    }
    let heading = "Unknown command, but maybe one of the following ones is a better match:";
    let mut proposals = by_prefix(&words);
    let known = prefix_len(&words);
    let wrong = words.get(known..).unwrap_or_default().join(" ");
    if !wrong.is_empty() {
        let distance = |command: &&Command| {
            let rest = command.words.get(known..).unwrap_or_default().join(" ");
            edit_distance(&rest, &wrong)
        };
        let near = |command: &&Command| {
            let letters = command.words.iter().skip(known).map(|word| word.len() + 1).sum::<usize>();
            distance(command) < letters.max(wrong.len())
        };
        let best = proposals.iter().filter(|command| near(command)).map(distance).min();
        if let Some(best) = best {
            proposals.retain(|command| near(command) && distance(command) <= best * 3 / 2);
            proposals.sort_by_key(distance);
            proposals.truncate(PROPOSALS_MAX);
        }
    }
    Reply::Text(list(heading, proposals))
}

/// How many of the first words some command begins with.
fn prefix_len(words: &[&str]) -> usize {
    let shared = |command: &Command| words.iter().zip(command.words).take_while(|(word, own)| word == own).count();
    listed().map(shared).max().unwrap_or(0)
}

/// The commands that begin with as many of the first words as any.
fn by_prefix(words: &[&str]) -> Vec<&'static Command> {
    let known = prefix_len(words);
    let shares = |command: &&Command| words.iter().take(known).eq(command.words.iter().take(known));
    listed().filter(shares).collect()
}

fn listed() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(|command| !command.usage.is_empty())
}

fn list(heading: &str, mut commands: Vec<&Command>) -> String {
    commands.sort_by_key(|command| command.usage);
    let mut out = format!("{heading}\n");
    let mut entry = |usage: &str, doc: &str| {
        let _ = writeln!(out, "  {usage:<40}: {doc}");
    };
    for command in commands {
        entry(command.usage, command.doc);
    }
    entry("help [<command>]", "list the commands, or those that match");
    entry("prompt", "begin or end a conversation with a prompt");
    entry("quit", "end the conversation");
    out
}

/// How far two texts are from each other. What is compared is short; who sends kilobytes has no use for a proposal.
fn edit_distance(left: &str, right: &str) -> usize {
    let start = |text: &str| text.chars().take(64).collect::<String>();
    nearest::distance(&start(left), &start(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance() {
        for (left, right, expected) in
            [("", "", 0), ("stat", "stats", 1), ("info", "inof", 2), ("kitten", "sitting", 3)]
        {
            assert_eq!(edit_distance(left, right), expected, "{left} {right}");
        }
    }

    fn text(reply: Reply) -> String {
        let Reply::Text(text) = reply else { panic!("{reply:?}") };
        text
    }

    #[test]
    fn proposals() {
        let near = text(unknown(&Line::new("show inof")));
        assert!(near.starts_with("Unknown command, but maybe"), "{near}");
        assert!(near.contains("\n  show info [desc|json|typed|float]*      : "), "{near}");
        assert!(!near.contains("\n  set "));
        assert!(near.ends_with("  quit                                    : end the conversation\n"));
        assert!(text(unknown(&Line::new("shwo stat"))).contains("\n  show stat "));
        assert!(!near.contains("\n  show errors "), "only what comes near: {near}");
        let all = text(unknown(&Line::new("")));
        assert!(
            all.starts_with("Unknown command. Please enter one of the following commands only:\n  abort ssl ca-file")
        );
    }
}
