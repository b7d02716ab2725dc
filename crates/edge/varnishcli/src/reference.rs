//! The pages of docs/reference about varnishadm's commands and varnishd's parameters, and what `tidegate explain` says of them.

use std::fmt::Write as _;

use crate::{
    Effect, Parameters, Specification,
    command::{self, Command},
    parameters::{Flag, specifications},
};

/// A page of docs/reference.
#[derive(Debug)]
pub struct Page {
    /// The file's name.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// Its text.
    pub text: String,
    /// Names on it.
    pub total: usize,
    /// How many of them are supported.
    pub supported: usize,
}

/// All pages.
#[must_use]
pub fn pages() -> [Page; 2] {
    [parameters_page(), commands_page()]
}

fn parameters_page() -> Page {
    let mut text = String::from(
        "# Parameters of varnishd\n\nThese are set by `varnishd -p NAME=VALUE` and by `varnishadm param.set NAME VALUE`. They are those of \
         Varnish 7.1. This page comes from the table of the parameters; `varnishadm param.show NAME` says the same, with the value.\n\n\
         | Parameter | Default | Range | What it is | Here |\n|---|---|---|---|---|\n",
    );
    let (mut total, mut supported) = (0, 0);
    for one in specifications() {
        let default = if one.default.is_empty() { "none".to_owned() } else { with_unit(one.default, one) };
        let (range, notes) = (range(one).unwrap_or_default(), notes(one).join(" "));
        let doc = format!("{} {notes}", one.doc).trim().replace('\n', " ").replace('|', "\\|");
        let state = match one.effect {
            Effect::Honoured => "yes".to_owned(),
            effect => state(effect).unwrap_or_default().replace('|', "\\|"),
        };
        let _ = writeln!(text, "| `{}` | {} | {range} | {doc} | {state} |", one.name, default.replace('|', "\\|"));
        total += 1;
        supported += usize::from(one.effect == Effect::Honoured);
    }
    Page { name: "varnishd-parameters.md", title: "Parameters of varnishd", text, total, supported }
}

fn commands_page() -> Page {
    let mut text = String::from(
        "# Commands of varnishadm\n\nThese commands go to varnishd by `varnishadm COMMAND`, by its port (`-T`), or from a file (`-I`). They are \
         those of Varnish 7.1. This page comes from the table of the commands; `varnishadm help COMMAND` says the same.\n\n\
         | Command | What it does |\n|---|---|\n",
    );
    let shown = || command::ALL.iter().filter(|command| !command.is_debug);
    for one in shown() {
        let _ = writeln!(text, "| `{}` | {} |", one.syntax.replace('|', "\\|"), one.help);
    }
    text.push_str("\n## For developers\n\n| Command | What it does |\n|---|---|\n");
    for one in command::ALL.iter().filter(|command| command.is_debug) {
        let _ = writeln!(text, "| `{}` | {} |", one.syntax.replace('|', "\\|"), one.help);
    }
    let total = shown().count();
    Page { name: "varnishadm.md", title: "Commands of varnishadm", text, total, supported: total }
}

/// What a word means as a command of varnishadm or as a parameter of varnishd; nothing if it is neither.
#[must_use]
pub fn explain(words: &str) -> Option<String> {
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let (command, name) = match words.as_slice() {
        [word] => (*word, *word),
        // `param.show default_ttl`, `-p default_ttl=3600`
        ["param.show" | "param.set" | "param.reset" | "-p", name, ..] => ("", name.split('=').next().unwrap_or(name)),
        [word, ..] if word.contains('.') => (*word, ""),
        _ => return None,
    };
    let mut text = String::new();
    if let Some(found) = Command::named(command) {
        let _ = writeln!(text, "{} (a command of varnishadm)\n    {}", found.syntax, found.help);
        for (note, is_so) in [
            ("it answers in JSON with -j", found.has_json),
            ("it needs a running worker", found.is_for_worker),
            ("it is for developers", found.is_debug),
        ] {
            if is_so {
                let _ = writeln!(text, "    {note}");
            }
        }
    }
    if let Some(one) = specifications().iter().find(|one| one.name == name) {
        explain_parameter(&mut text, one);
    }
    (!text.is_empty()).then_some(text)
}

fn explain_parameter(text: &mut String, one: &Specification) {
    let _ = writeln!(text, "{} (a parameter of varnishd)\n    {}", one.name, one.doc.replace('\n', "\n    "));
    let default = if one.default.is_empty() { "none".to_owned() } else { with_unit(one.default, one) };
    let _ = writeln!(text, "    default: {default}");
    if let Some(range) = range(one) {
        let _ = writeln!(text, "    range: {range}");
    }
    for note in notes(one) {
        let _ = writeln!(text, "    {note}");
    }
    if let Some(state) = state(one.effect) {
        let _ = writeln!(text, "    here: {state}");
    }
}

fn with_unit(value: &str, one: &Specification) -> String {
    if one.units.is_empty() || one.units == "bool" { value.to_owned() } else { format!("{value} {}", one.units) }
}

fn range(one: &Specification) -> Option<String> {
    match (one.minimum, one.maximum) {
        (None, None) => None,
        (Some(least), None) => Some(format!("from {least} on")),
        (None, Some(most)) => Some(format!("up to {most}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
    }
}

/// What `param.show` says besides, without its `NB:`.
fn bare(note: &str) -> &str {
    note.trim_start_matches("NB: ")
}

fn notes(one: &Specification) -> Vec<&'static str> {
    one.flags.iter().filter_map(|flag: &Flag| flag.note()).map(bare).collect()
}

fn state(effect: Effect) -> Option<String> {
    match effect {
        Effect::Honoured => None,
        Effect::Without(why) => Some(bare(why).to_owned()),
        Effect::Refused(why) => Some(format!("it cannot be changed. {}", bare(why))),
        Effect::Unavailable => Some("this platform does not have it, in Varnish either".to_owned()),
    }
}

/// All names that [`explain`] knows.
#[must_use]
pub fn names() -> Vec<String> {
    let commands = command::ALL.iter().map(|command| command.name);
    commands.chain(Parameters::names()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_parameters_are_explained() {
        for (word, expected) in [
            ("default_ttl", "default_ttl (a parameter of varnishd)"),
            ("default_ttl", "default: 120.000 seconds"),
            ("default_ttl", "range: from 0.000 on"),
            ("-p default_ttl=60", "An object keeps the value"),
            ("param.show thread_pool_min", "here: This has no effect in Tidegate"),
            ("vcl.load", "vcl.load <configname> <filename> [auto|cold|warm] (a command of varnishadm)"),
            ("backend.list -p", "it answers in JSON"),
            ("ban", "it needs a running worker"),
            ("vcl_path", "vcl_path (a parameter of varnishd)"),
        ] {
            let text = explain(word).unwrap_or_default();
            assert!(text.contains(expected), "{word}: {text}");
        }
        for word in ["", "show stat", "nothing", "param.show nothing"] {
            assert_eq!(explain(word), None, "{word}");
        }
        for name in names() {
            assert!(explain(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn rows_have_as_many_cells_as_their_heads() {
        for page in pages() {
            let mut columns = 0;
            for line in page.text.lines().filter(|line| line.starts_with('|')) {
                let cells = line.replace("\\|", "").matches('|').count();
                columns = if line.starts_with("|---") { cells } else { columns };
                assert!(line.starts_with("| Param") || line.starts_with("| Command") || cells == columns, "{line}");
            }
            assert!(page.total > 20 && page.supported <= page.total);
        }
    }
}
