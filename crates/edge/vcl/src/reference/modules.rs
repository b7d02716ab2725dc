//! The page of docs/reference about modules, from their tables.

use std::fmt::Write as _;

use super::{Page, short};
use crate::{
    modules::{Absent, Class, Function, Method, Parameter, classes, functions},
    types::Type,
};

/// What is there of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// All.
    Whole,
    /// All but this.
    But(&'static str),
    /// Nothing: a program that calls it fails with a message that says so.
    Missing,
}

/// Functions that are not whole, by their full names or those of all that begin so.
const STATES: &[(&str, State)] = &[
    ("std.cache_req_body", State::But("says whether the body fits; a retry of a request with a body still fails")),
    ("std.late_100_continue", State::But("100 is always said when the body is wanted")),
    ("std.ip", State::But("names are looked up in vcl_init alone; later they are the fallback")),
    ("std.syslog", State::But("goes to /dev/log and never waits for it")),
    ("header.regsub", State::But("names of fields are tried as `Set-Cookie: ` and as `set-cookie: `")),
    ("directors.shard.debug", State::But("does nothing")),
    ("vtc.panic", State::But("fails the program, not the worker")),
    ("vtc.workspace", State::Missing),
    ("vtc.vsl", State::Missing),
];

/// How far a function or a method is there, by its full name.
pub(super) fn state_of(name: &str) -> State {
    STATES.iter().find(|(start, _)| name.starts_with(start)).map_or(State::Whole, |(_, state)| *state)
}

/// `STRING s, [DURATION fallback], INT length = 0`
fn parameters(of: &[Parameter]) -> String {
    let shown = |parameter: &Parameter| {
        let kind = match parameter.kind {
            Type::Enum => format!("ENUM {{{}}}", parameter.words.join(", ")),
            kind => kind.to_string(),
        };
        let name = if parameter.name.is_empty() { String::new() } else { format!(" {}", parameter.name) };
        let value = match parameter.absent {
            Absent::Needed => return format!("{kind}{name}"),
            Absent::Unknown => return format!("[{kind}{name}]"),
            Absent::Bool(value) => value.to_string(),
            Absent::Int(value) => value.to_string(),
            Absent::Real(value) => value.to_string(),
            Absent::Duration(value) => format!("{value}s"),
            Absent::String(value) => format!("\"{value}\""),
            Absent::Word(value) => value.to_owned(),
        };
        format!("{kind}{name} = {value}")
    };
    of.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// `STRING std.querysort(STRING)`
pub(super) fn function(of: &Function) -> String {
    format!("{} {}.{}({})", of.returns, of.module, of.name, parameters(of.parameters))
}

/// `new x = directors.hash()`
pub(super) fn class(of: &Class) -> String {
    format!("new x = {}({})", of.name, parameters(of.parameters))
}

/// `BACKEND x.backend()`
pub(super) fn method(of: &Method) -> String {
    format!("{} x.{}({})", of.returns, of.name, parameters(of.parameters))
}

/// The names of all modules.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let mut modules: Vec<&str> = functions().iter().map(|function| function.module).collect();
    modules.dedup();
    modules
}

/// The page of the modules.
pub(super) fn page() -> Page {
    let mut text = String::from(
        "# Modules of VCL\n\nThese modules can be imported: those of Varnish 7.1, and `header`, `xkey` and `vsthrottle` of \
         varnish-modules. This page comes from the tables of the compiler. A program with a missing function compiles; a call of the function \
         fails with a message.\n",
    );
    let (mut total, mut supported) = (0, 0);
    let mut row = |text: &mut String, name: &str, signature: String, place: &str| {
        let state = state_of(name);
        total += 1;
        supported += usize::from(state != State::Missing);
        let state = match state {
            State::Whole => "yes".to_owned(),
            State::But(what) => format!("yes: {what}"),
            State::Missing => "no".to_owned(),
        };
        let _ = writeln!(text, "| `{signature}` | {place} | {state} |");
    };
    for module in names() {
        let _ = write!(text, "\n## {module}\n\n| Function or method | Where | Supported |\n|---|---|---|\n");
        for one in functions().iter().filter(|function| function.module == module) {
            row(&mut text, &format!("{module}.{}", one.name), function(one), &short(one.places));
        }
        for of in classes().iter().filter(|class| class.name.split('.').next() == Some(module)) {
            row(&mut text, of.name, class(of), "vcl_init");
            for one in of.methods {
                row(&mut text, &format!("{}.{}", of.name, one.name), method(one), &short(one.places));
            }
        }
    }
    Page { name: "vcl-modules.md", title: "Modules of VCL", text, total, supported }
}

#[cfg(test)]
mod tests {
    use super::{STATES, classes, functions};

    #[test]
    fn what_is_not_whole_is_there() {
        let functions = functions().iter().map(|function| format!("{}.{}", function.module, function.name));
        let methods = classes()
            .iter()
            .flat_map(|class| class.methods.iter().map(|method| format!("{}.{}", class.name, method.name)));
        let names: Vec<String> = functions.chain(methods).collect();
        for (start, _) in STATES {
            assert!(names.iter().any(|name| name.starts_with(start)), "{start}");
        }
    }
}
