//! The conversation: lines in, answers out, whoever types them.

use std::{
    cell::RefCell,
    io::{self, IsTerminal as _, Write as _},
    rc::Rc,
};

use super::{
    answer::Verdict,
    completion::OF_THE_SHELL,
    error::CtlError,
    lines::Lines,
    rooms::{Kind, Rest, Rooms, Usage},
    words::{WORDS, Word},
};
use crate::{explain_command, style::width_of_output};

/// What is asked while the lines of a payload are typed.
const REST_PROMPT: &str = "... ";

/// Carries out lines until there are no more. Somebody who types is told of an error and goes on; a script ends at a room that does not answer.
///
/// # Errors
/// Lines cannot be read, or a room does not answer a script.
pub fn hold(rooms: &Rc<RefCell<Rooms>>, lines: &mut dyn Lines) -> Result<Verdict, CtlError> {
    let (mut verdict, mut has_left) = (Verdict::Fine, false);
    loop {
        let prompt = format!("{}> ", rooms.borrow().current.name());
        let Some(line) = lines.next(&prompt)? else {
            has_left = true;
            break;
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if matches!(line, "quit" | "exit" | "q") {
            break;
        }
        let command = whole(&rooms.borrow(), line.to_owned(), lines)?;
        let told = carry_out(&mut rooms.borrow_mut(), &command);
        verdict = verdict.and(match told {
            Ok(told) => told,
            Err(error @ CtlError::Refused(_)) => {
                eprintln!("{error}");
                Verdict::Refused
            }
            Err(error) if lines.is_terminal() => {
                eprintln!("{error}");
                Verdict::Refused
            }
            Err(error) => return Err(error),
        });
    }
    if has_left && lines.is_terminal() {
        println!();
    }
    // Whoever types has seen what was refused.
    Ok(if lines.is_terminal() { Verdict::Fine } else { verdict })
}

/// A line, and those that belong to it.
fn whole(rooms: &Rooms, line: String, lines: &mut dyn Lines) -> Result<String, CtlError> {
    let (kind, command) = rooms.addressed(&line);
    let rest = rooms.rest_of(kind, command, lines.is_terminal());
    let mut text = line.clone();
    match rest {
        Rest::None => return Ok(line),
        Rest::UntilEmpty => {
            if !text.ends_with("<<") {
                text.push_str(" <<");
            }
            while let Some(next) = lines.next(REST_PROMPT)?.filter(|next| !next.trim().is_empty()) {
                text.push('\n');
                text.push_str(&next);
            }
            text.push('\n');
        }
        Rest::UntilWord(word) => {
            while let Some(next) = lines.next(REST_PROMPT)? {
                text.push('\n');
                text.push_str(&next);
                if next.trim_end().ends_with(&word) {
                    break;
                }
            }
        }
    }
    Ok(text)
}

/// Carries out what one line says.
///
/// # Errors
/// Who should do it does not answer.
pub fn carry_out(rooms: &mut Rooms, line: &str) -> Result<Verdict, CtlError> {
    let line = line.trim();
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match first {
        "help" => {
            let text = help(rooms, rest.trim());
            io::stdout().write_all(text.as_bytes()).map_err(CtlError::Output)?;
            return Ok(Verdict::Fine);
        }
        "explain" => {
            let (text, verdict) = match explain_command::explain(rest.trim()) {
                Ok(text) => (text, Verdict::Fine),
                Err(text) => (text, Verdict::Refused),
            };
            writeln!(io::stdout(), "{}", text.trim_end()).map_err(CtlError::Output)?;
            return Ok(verdict);
        }
        _ => {}
    }
    let (kind, command) = rooms.addressed(line);
    if command.is_empty() {
        rooms.current = kind;
        return Ok(Verdict::Fine);
    }
    match Word::of_line(command) {
        Some(word) => {
            let text = rooms.room(kind).tell(word)?;
            io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()).map_err(CtlError::Output)?;
            Ok(Verdict::Fine)
        }
        None => rooms.room(kind).send(command),
    }
}

/// What can be asked, or what there is to know about words.
fn help(rooms: &mut Rooms, words: &str) -> String {
    let width = width_of_output();
    if !words.is_empty() {
        return help_on(rooms, words, width);
    }
    let mut out = String::from("Plain words:\n");
    let mut list = |heading: &str, entries: &[Usage]| {
        out.push_str(heading);
        for entry in entries {
            out.push_str(&entry_lines(entry, width));
        }
    };
    list("", &WORDS.map(|(_, name, doc)| Usage::new(name, doc)));
    let of_rooms = Kind::ALL.map(|(_, name, doc)| Usage::new(format!("{name} [<command>]"), doc));
    list("\nWhose commands follow, or whose one command it is:\n", &of_rooms);
    list("\nOf this shell:\n", &OF_THE_SHELL.map(|(text, doc)| Usage::new(text, doc)));
    let current = rooms.current;
    let mut usages: Vec<Usage> =
        rooms.room(current).usages().into_iter().filter(|usage| !usage.doc.is_empty()).collect();
    usages.sort_by(|one, other| one.text.cmp(&other.text));
    if usages.is_empty() {
        out.push_str(&format!("\nEvery command of the {}, as its own clients write them.\n", current.name()));
    } else {
        list(&format!("\nCommands of the {}:\n", current.name()), &usages);
    }
    out
}

fn help_on(rooms: &mut Rooms, words: &str, width: usize) -> String {
    let mut out = String::new();
    if let Some((_, name, doc)) = WORDS.iter().find(|(_, name, _)| *name == words) {
        out.push_str(&entry_lines(&Usage::new(*name, *doc), width));
    }
    let of_shell = OF_THE_SHELL.iter().filter(|(text, _)| text.split(' ').next() == Some(words));
    out.extend(of_shell.map(|(text, doc)| entry_lines(&Usage::new(*text, *doc), width)));
    if let Some((_, name, doc)) = Kind::ALL.iter().find(|(_, name, _)| *name == words) {
        out.push_str(&entry_lines(&Usage::new(format!("{name} [<command>]"), *doc), width));
    }
    let (kind, command) = rooms.addressed(words);
    let usages = rooms.room(kind).usages();
    let begins = |usage: &&Usage| {
        let rest = usage.text.strip_prefix(command);
        !command.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '.']))
    };
    let found: Vec<&Usage> = usages.iter().filter(|usage| !usage.doc.is_empty()).filter(begins).collect();
    out.extend(found.iter().map(|usage| entry_lines(usage, width)));
    if out.is_empty() {
        let explained = explain_command::explain(words);
        out = explained.unwrap_or_else(|unknown| unknown);
        out = format!("{}\n", out.trim_end());
    }
    out
}

/// A command and what it does, within the terminal's width: behind it where both have room, else below it.
fn entry_lines(entry: &Usage, width: usize) -> String {
    const COLUMN: usize = 30;
    let Usage { text, doc } = entry;
    let mut out = format!("  {text}");
    if text.len() + 4 > COLUMN {
        out.push_str(&format!("\n{:COLUMN$}", ""));
    } else {
        out.push_str(&" ".repeat(COLUMN - 2 - text.len()));
    }
    let mut at = COLUMN;
    for word in doc.split(' ') {
        if at + word.len() > width && at > COLUMN {
            out = format!("{}\n{:COLUMN$}", out.trim_end(), "");
            at = COLUMN;
        }
        out.push_str(word);
        out.push(' ');
        at += word.len() + 1;
    }
    format!("{}\n", out.trim_end())
}

/// What somebody who has come is told.
pub fn greet(rooms: &Rooms) {
    if io::stdout().is_terminal() {
        println!("Commands for the {}; `help` lists them, Tab completes, `quit` or Ctrl-D ends.", rooms.current.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fit_in_80_columns() {
        let entry = Usage::new("show x", "a b ".repeat(30));
        let lines = entry_lines(&entry, 80);
        assert!(lines.lines().all(|line| line.len() <= 80) && lines.lines().count() > 2, "{lines}");
        let long = entry_lines(&Usage::new("set rate-limit connections global <value>", "do"), 80);
        assert_eq!(long, format!("  set rate-limit connections global <value>\n{:30}do\n", ""));
    }
}
