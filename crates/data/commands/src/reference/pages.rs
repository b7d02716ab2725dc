//! Pages of the reference, in Markdown.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::config::{self, Change, SETTINGS, Settings, State};

use super::{absent_commands, commands};

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// The file's name.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// Its text.
    pub text: String,
    /// How many names it has.
    pub total: usize,
    /// How many of them do here what they do in Redis.
    pub supported: usize,
}

/// All pages.
pub fn pages() -> Vec<Page> {
    vec![commands_page(), settings_page()]
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The groups with their titles, in the manual's order.
const GROUPS: &[(&str, &str)] = &[
    ("string", "Strings"),
    ("bitmap", "Bitmaps"),
    ("hash", "Hashes"),
    ("list", "Lists"),
    ("set", "Sets"),
    ("sorted-set", "Sorted sets"),
    ("stream", "Streams"),
    ("queue", "Queues"),
    ("hyperloglog", "HyperLogLogs"),
    ("geo", "Geo"),
    ("generic", "Keys"),
    ("pubsub", "Channels"),
    ("transactions", "Transactions"),
    ("scripting", "Scripts and functions"),
    ("connection", "Connections"),
    ("server", "Server"),
    ("cluster", "Cluster"),
    ("sentinel", "Sentinel"),
];

fn commands_page() -> Page {
    let all = commands();
    let absent = absent_commands();
    let mut rows: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    let mut supported = 0;
    for one in &all {
        let state = match one.missing {
            Some(reason) => format!("**not there**: {reason}"),
            None => {
                supported += 1;
                one.command.summary.to_owned()
            }
        };
        let usage = one.usage();
        let words = if usage.is_empty() { usage } else { format!("`{}`", cell(&usage)) };
        let row = format!("| `{}` | {words} | {} | {} |", one.name, one.command.since, cell(&state));
        rows.entry(one.command.group).or_default().push((one.name.clone(), row));
    }
    for (name, reason) in &absent {
        let container = name.split(' ').next().unwrap_or_default();
        let group = all.iter().find(|one| one.name == container).map_or("server", |one| one.command.group);
        let row = format!("| `{name}` | | | **not there**: {} |", cell(reason));
        rows.entry(group).or_default().push((name.clone(), row));
    }
    let total = all.len() + absent.len();
    let mut text = format!(
        "# Commands of the store\n\nThis page lists every command of Redis 7.0, and Tidegate's own. `tidegate reference` makes it from \
         the table that runs them; `tidegate explain HSET` and `COMMAND DOCS` show the same. The store has {supported} of {total}; it \
         answers the others with an error.\n"
    );
    let title_of = |group: &str| GROUPS.iter().find(|(known, _)| *known == group).map_or("Others", |(_, title)| title);
    let place_of = |group: &str| GROUPS.iter().position(|(known, _)| *known == group);
    let mut groups: Vec<_> = rows.into_iter().collect();
    groups.sort_by_key(|(group, _)| place_of(group).unwrap_or(usize::MAX));
    for (group, mut rows) in groups {
        rows.sort();
        let _ = write!(text, "\n## {}\n\n| command | words | since | |\n|---|---|---|---|\n", title_of(group));
        rows.iter().for_each(|(_, row)| {
            let _ = writeln!(text, "{row}");
        });
    }
    Page { name: "redis-commands.md", title: "Commands of the store", text, total, supported }
}

fn settings_page() -> Page {
    let defaults = Settings::default();
    let mut sorted: Vec<_> = SETTINGS.iter().collect();
    sorted.sort_by_key(|setting| setting.name);
    let total = sorted.len() + config::DIRECTIVES.len();
    let supported = sorted.iter().filter(|setting| setting.state == State::Supported).count()
        + config::DIRECTIVES.iter().filter(|(_, reason, _)| reason.is_none()).count();
    let mut text = format!(
        "# Settings of the store\n\nThis page lists every name that a redis.conf of Redis 7.0 may have, and Tidegate's own. Set them as lines \
         of a file (`tidegate store FILE`), as words of the command line (`--name value`) or, where the table says so, with `CONFIG SET`. \
         `tidegate reference` makes this page from the table that reads them; `tidegate explain maxmemory` shows the same. {supported} of \
         {total} do what they do in Redis.\n\nThe store accepts a setting without effect, and logs it at the start unless it has its \
         default. A setting that is not there is an error unless it has its default.\n\n| setting | default | set | |\n|---|---|---|---|\n"
    );
    for setting in sorted {
        let when = match setting.change {
            Change::Free => "any time",
            Change::Protected => "any time, protected",
            Change::AtStart => "at the start",
        };
        let default = (setting.text)(&defaults);
        let default = if default.is_empty() { String::new() } else { format!("`{}`", cell(&default)) };
        let alias = setting.alias.map_or_else(String::new, |alias| format!(", also `{alias}`"));
        let state = match setting.state {
            State::Supported => String::new(),
            State::WithoutEffect(reason) => format!(" **Without effect**: {reason}."),
            State::Missing(reason) => format!(" **Not there**: {reason}."),
        };
        let doc = cell(&format!("{}{state}", setting.doc));
        let _ = writeln!(text, "| `{}`{alias} | {default} | {when} | {doc} |", setting.name);
    }
    text += "\n## Other lines of a file\n\n| line | |\n|---|---|\n";
    for (name, reason, doc) in config::DIRECTIVES {
        let state = reason.map_or_else(String::new, |reason| format!(" **Not there**: {reason}."));
        let _ = writeln!(text, "| `{name}` | {} |", cell(&format!("{doc}{state}")));
    }
    Page { name: "redis-settings.md", title: "Settings of the store", text, total, supported }
}
