//! `-dK`: the words that are known, class by class, in HAProxy's form. Tools compare such lists from version to version.
//!
//! Only words that do something are listed, so that a difference to HAProxy's list is a word that is missing here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use admin::cli::{COMMANDS, master};
use haproxycfg::{
    keywords::option::http_only,
    model::Options,
    table::{self, Group, Keyword, Sections, Support},
};
use sample::{MatchMethod, PLACES, State, acl_keywords, converters, fetches};

/// A class: its name, what the help says of it, the heading of its list, and what writes that.
type Class = (&'static str, &'static str, &'static str, fn(&mut String));

const CLASSES: [Class; 7] = [
    ("acl", "ACL keywords", "ACL keywords", acl),
    ("cfg", "configuration keywords", "configuration keywords", configuration),
    ("cli", "CLI keywords", "CLI keywords", commands),
    ("cnv", "sample converter keywords", "sample converter functions", sample_converters),
    ("flt", "filter names", "filter names", filters),
    ("smp", "sample fetch functions", "sample fetch functions", sample_fetches),
    ("svc", "service names", "service names", services),
];

/// Names of filters and what they are called in statistics and traces.
pub const FILTERS: [(&str, &str); 4] =
    [("bwlim-in", "BWLIM"), ("bwlim-out", "BWLIM"), ("compression", "COMP"), ("trace", "TRACE")];

/// Names of services of `http-request use-service`.
pub const SERVICES: [&str; 1] = ["prometheus-exporter"];

/// The lists of classes that are separated by commas. As in HAProxy, an unknown class is empty.
#[must_use]
pub fn dump(classes: &str) -> String {
    let mut out = String::new();
    let mut all = false;
    for class in classes.split(',') {
        if class == "help" {
            out.push_str("# List of supported keyword classes:\nall: list all keywords\n");
            for (name, what, ..) in CLASSES {
                let _ = writeln!(out, "{name}: {what}");
            }
            continue;
        }
        all |= class == "all";
        for (name, _, heading, list) in CLASSES {
            if all || class == name {
                let _ = writeln!(out, "# List of registered {heading}:");
                list(&mut out);
            }
        }
    }
    out
}

/// Writes lines in the order of their names.
fn sorted(out: &mut String, mut lines: Vec<(&str, String)>) {
    lines.sort();
    for (_, line) in lines {
        out.push_str(&line);
        out.push('\n');
    }
}

fn acl(out: &mut String) {
    let line = |word: &'static sample::AclKeyword| {
        // How HAProxy calls what has no word for `-m`.
        let method = match word.method {
            MatchMethod::Group | MatchMethod::Method => MatchMethod::Str,
            MatchMethod::Version => MatchMethod::Int,
            method => method,
        };
        (word.name, format!("{} = {} -m {}", word.name, word.fetch, method.name()))
    };
    sorted(out, acl_keywords().map(line).collect());
}

fn is_known(keyword: &Keyword) -> bool {
    !matches!(keyword.support, Support::NotYet(_) | Support::Removed(_))
}

/// The words of a group as lines, without the star of those that stand for many.
fn group(out: &mut String, group: Group, render: fn(&Keyword) -> String) {
    let words = table::all().filter(|keyword| keyword.group == group && is_known(keyword));
    sorted(out, words.map(|keyword| (keyword.name, render(keyword))).collect());
}

/// The word, and whether an argument follows it.
fn with_arguments(keyword: &Keyword) -> String {
    let arguments = keyword.arguments;
    let is_optional = arguments.is_empty() || (arguments.starts_with('[') && arguments.ends_with(']'));
    let mark = match keyword.name {
        // HAProxy's number for what reads its words itself, and for what is only read so.
        "source" => " +-1",
        "usesrc" => "",
        _ if is_optional => "",
        _ => " +1",
    };
    format!("{}{mark}", keyword.name)
}

fn plain(keyword: &Keyword) -> String {
    format!("\t{}", keyword.name)
}

fn option(keyword: &Keyword) -> String {
    let side = |side, name| if keyword.sections.intersects(side) { name } else { "" };
    let (front, back) = (side(Sections::FRONTEND, "FE "), side(Sections::BACKEND, "BE "));
    let mut options = Options::default();
    let mut needs_http = http_only(&mut options).into_iter().map(|(name, _)| name);
    // HAProxy refuses these two elsewhere.
    let is_listed = needs_http.any(|name| name == keyword.name) && !keyword.name.starts_with("h1-case-adjust");
    format!("\toption {} [ {front}{back}{}]", keyword.name, if is_listed { "HTTP " } else { "" })
}

fn action(keyword: &Keyword) -> String {
    format!("\t{} {}", keyword.group.prefix(), keyword.name.replace("(*", "*"))
}

fn configuration(out: &mut String) {
    out.push_str("global\n");
    group(out, Group::Global, plain);
    out.push_str("listen\n");
    group(out, Group::Proxy, plain);
    group(out, Group::Bind, |keyword| format!("\tbind <addr> {}", with_arguments(keyword)));
    group(out, Group::Server, |keyword| format!("\tserver <name> <addr> {}", with_arguments(keyword)));
    group(out, Group::Option, option);
    for actions in [
        Group::TcpRequestConnection,
        Group::TcpRequestSession,
        Group::TcpRequestContent,
        Group::TcpResponseContent,
        Group::HttpRequest,
        Group::HttpResponse,
        Group::HttpAfterResponse,
    ] {
        group(out, actions, action);
    }
    for (section, lines) in [("userlist", Group::Userlist), ("peers", Group::Peers)] {
        let _ = writeln!(out, "{section}");
        group(out, lines, plain);
    }
}

/// Commands that both the master and the worker take without a table of theirs.
const CONVERSATION: [&str; 3] = ["help", "prompt", "quit"];

fn commands(out: &mut String) {
    const MASTER: &str = "[MASTER] ";
    const WORKER: &str = "[WORKER] ";
    let mut sides: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let workers =
        COMMANDS.iter().filter(|command| command.supported()).map(|command| (command.words.join(" "), WORKER));
    let masters = master::words().map(|words| (words.join(" "), MASTER));
    let both = CONVERSATION.iter().flat_map(|word| [MASTER, WORKER].map(|side| ((*word).to_owned(), side)));
    for (words, side) in workers.chain(masters).chain(both) {
        sides.entry(words).or_default().insert(side);
    }
    for (words, sides) in sides {
        let _ = writeln!(out, "{words} {}", sides.into_iter().collect::<String>());
    }
}

fn sample_converters(out: &mut String) {
    let mut lines = Vec::new();
    for converter in converters().filter(|converter| converter.state == State::Supported) {
        for name in std::iter::once(converter.name).chain(converter.aliases.iter().copied()) {
            let signature = converter.signature().replacen(converter.name, name, 1);
            lines.push((name, format!("{signature}: {} => {}", converter.output.name(), converter.input.name())));
        }
    }
    sorted(out, lines);
}

/// The heading of the matrix: a line that leads from each column to its name.
fn matrix(out: &mut String) {
    let count = PLACES.len();
    for (row, place) in PLACES.iter().enumerate() {
        let margin = " ".repeat(count + 1 - row);
        let _ = writeln!(out, "#{margin}{}_.{} {}", "/ ".repeat(row), "-".repeat(count - row), place.name());
    }
    let _ = writeln!(out, "# {} ", "/ ".repeat(count));
    let _ = writeln!(out, "#{} ", " |".repeat(count));
}

fn sample_fetches(out: &mut String) {
    matrix(out);
    let mut lines = Vec::new();
    for fetch in fetches().filter(|fetch| fetch.state == State::Supported) {
        let places = fetch.places();
        let marks: String = PLACES.iter().map(|place| if places.contains(*place) { "Y " } else { ". " }).collect();
        for name in std::iter::once(fetch.name).chain(fetch.aliases.iter().copied()) {
            let signature = fetch.signature().replacen(fetch.name, name, 1);
            lines.push((name, format!("[ {marks}] {signature}: {}", fetch.output.name())));
        }
    }
    sorted(out, lines);
}

fn filters(out: &mut String) {
    for (name, tag) in FILTERS {
        let _ = writeln!(out, "{name} [{tag}]");
    }
}

fn services(out: &mut String) {
    for name in SERVICES {
        let _ = writeln!(out, "{name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_listed_in_haproxys_form() {
        for (class, line) in [
            ("help", "cnv: sample converter keywords"),
            ("acl", "hdr_beg = req.hdr -m beg"),
            ("cfg", "\tbind <addr> accept-proxy"),
            ("cfg", "\tserver <name> <addr> weight +1"),
            ("cfg", "\tserver <name> <addr> source +-1"),
            ("cfg", "\toption abortonclose [ BE ]"),
            ("cfg", "\toption http-buffer-request [ FE BE HTTP ]"),
            ("cfg", "\thttp-request set-var*"),
            ("cli", "show cli level [MASTER] [WORKER] "),
            ("cnv", "bytes(integer[,integer]): bin => bin"),
            ("flt", "compression [COMP]"),
            ("smp", "[ . . . . . . . . . . . Y Y Y Y Y Y Y Y Y . . ] bc_err: sint"),
            ("svc", "prometheus-exporter"),
            ("none,all", "# List of registered CLI keywords:"),
        ] {
            assert!(dump(class).lines().any(|found| found == line), "{class}: {line}");
        }
        assert_eq!((dump(""), dump("nothing")), (String::new(), String::new()));
    }
}
