//! What the words of the language mean, out of the compiler's tables: the pages of docs/reference, and what `tidegate explain` says.

mod explain;
mod modules;

use std::fmt::Write as _;

use crate::{
    action::Action,
    subroutine::{Subroutine, Subroutines},
    types::Type,
    variables::{Access, Message, StorageVariable, Variable, Version},
    words::{FIELDS, Kind, WORDS},
};

pub use explain::{explain, names};
pub use modules::names as module_names;

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
pub fn pages() -> Vec<Page> {
    vec![language(), modules::page()]
}

const HEAD: &str = "\
# VCL

The words of VCL 4.0 and 4.1 as Varnish 7.1 has them, and what VCL 3 has besides. This page comes from the tables of the compiler; `tidegate
explain beresp.ttl` says the same of one word.

*Client side* are vcl_recv, vcl_pipe, vcl_pass, vcl_hash, vcl_purge, vcl_miss, vcl_hit, vcl_deliver and vcl_synth; *backend side* are
vcl_backend_fetch, vcl_backend_response and vcl_backend_error; *requests* are all of these; *everywhere* is vcl_init and vcl_fini too.
";

fn language() -> Page {
    let mut text = HEAD.to_owned();
    let mut total = 0;
    text.push_str("\n## Subroutines\n\n| Subroutine | When it runs | What it may return |\n|---|---|---|\n");
    for subroutine in Subroutine::ALL {
        let returns = actions_of(*subroutine);
        let _ = writeln!(text, "| `{subroutine}` | {} | {} |", subroutine.doc(), returns.join(", "));
        total += 1;
    }
    text.push_str("\n## Actions\n\n`return (action);`\n\n| Action | What happens |\n|---|---|\n");
    for action in Action::ALL {
        let _ = writeln!(text, "| `{}` | {} |", action.name(), action.doc());
        total += 1;
    }
    text.push_str(
        "\n## Variables\n\n| Variable | Type | Read | Set | Unset | What it is |\n|---|---|---|---|---|---|\n",
    );
    for variable in Variable::ALL {
        let of = variable.definition();
        let notes = [version_note(of.since, of.until), variable.limit().map(str::to_owned)];
        let notes: String = notes.into_iter().flatten().map(|note| format!(" ({note})")).collect();
        row(&mut text, of.name, of.kind, of.access, &format!("{}{notes}", of.doc));
        total += 1;
    }
    for message in Message::ALL {
        row(&mut text, &format!("{}.http.NAME", message.name()), Type::Header, message.headers(), message.doc());
        total += 1;
    }
    for (name, kind, doc) in StorageVariable::ALL {
        row(&mut text, &format!("storage.NAME.{name}"), *kind, StorageVariable::ACCESS, doc);
        total += 1;
    }
    text.push_str("\n## Declarations, statements and functions\n\n| Word | Where | What it does |\n|---|---|---|\n");
    for word in WORDS {
        let place = if word.kind == Kind::Declaration { "top of a text".to_owned() } else { short(word.places) };
        let note = version_note(Version(0), word.until).map(|note| format!(" ({note})")).unwrap_or_default();
        let _ = writeln!(text, "| `{}` | {place} | {}{note} |", word.usage, word.doc);
        total += 1;
    }
    text.push_str("\n## Fields of backends and probes\n\n| Field | Default | What it says |\n|---|---|---|\n");
    for field in FIELDS {
        let written = format!("{}: .{} = {};", field.of, field.name, field.example);
        let _ = writeln!(text, "| `{written}` | {} | {} |", field.default, field.doc);
        total += 1;
    }
    Page { name: "vcl.md", title: "VCL", text, total, supported: total }
}

fn row(text: &mut String, name: &str, kind: Type, access: Access, doc: &str) {
    let Access { read, write, unset } = access;
    let _ = writeln!(text, "| `{name}` | {kind} | {} | {} | {} | {doc} |", short(read), short(write), short(unset));
}

/// What may be returned there.
fn actions_of(subroutine: Subroutine) -> Vec<&'static str> {
    Action::ALL.iter().filter(|action| action.places().contains(subroutine)).map(|action| action.name()).collect()
}

/// Which versions have something, unless all do.
fn version_note(since: Version, until: Version) -> Option<String> {
    let shown = |version: Version| match version {
        Version::V3 => "3".to_owned(),
        Version(number) => format!("{}.{}", number / 10, number % 10),
    };
    match (since > Version::V3, until < Version(99)) {
        (false, false) => None,
        (true, _) => Some(format!("from VCL {} on", shown(since))),
        (false, true) => Some(format!("up to VCL {}", shown(until))),
    }
}

/// Where something may be used, as tables say it.
fn short(places: Subroutines) -> String {
    match places {
        Subroutines::NONE => String::new(),
        Subroutines::CLIENT => "client side".to_owned(),
        Subroutines::BACKEND => "backend side".to_owned(),
        Subroutines::BOTH => "requests".to_owned(),
        Subroutines::ALL => "everywhere".to_owned(),
        _ if places.and(Subroutines::BACKEND) == Subroutines::BACKEND => {
            format!("{}, backend side", listed(places.and(Subroutines::CLIENT)))
        }
        _ => listed(places),
    }
}

/// The names of these subroutines.
fn listed(places: Subroutines) -> String {
    let names = Subroutine::ALL.iter().filter(|place| places.contains(**place)).map(|place| place.name());
    names.collect::<Vec<_>>().join(", ")
}
