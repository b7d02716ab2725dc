//! What a word of the language means, for people who ask.

use std::fmt::Write as _;

use super::{
    actions_of, listed,
    modules::{self, State},
    version_note,
};
use crate::{
    action::Action,
    modules::{classes, functions},
    subroutine::{Subroutine, Subroutines},
    types::Type,
    variables::{Access, Message, StorageVariable, Variable, Version},
    words::{FIELDS, WORDS},
};

/// All that a word means in VCL; nothing if it is no word of it.
#[must_use]
pub fn explain(word: &str) -> Option<String> {
    let words: Vec<&str> = word.split_ascii_whitespace().collect();
    let word = match words.as_slice() {
        [word] => *word,
        // `return (pass)`, `sub vcl_recv`, `import std`, `backend .host`
        ["return" | "sub" | "import" | "set" | "unset" | "call" | "new" | "backend" | "probe", word] => *word,
        _ => return None,
    };
    let word = word.trim_matches(['(', ')', ';', '"']);
    let word = word.split('(').next().unwrap_or(word);
    let mut text = String::new();
    explain_words(&mut text, word);
    explain_variables(&mut text, word);
    explain_subroutines(&mut text, word);
    explain_modules(&mut text, word);
    explain_fields(&mut text, word);
    (!text.is_empty()).then_some(text)
}

/// All names that [`explain`] knows.
#[must_use]
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = Variable::ALL.iter().map(|variable| variable.name().to_owned()).collect();
    names.extend(Message::ALL.iter().map(|message| format!("{}.http", message.name())));
    names.extend(Subroutine::ALL.iter().map(|subroutine| subroutine.name().to_owned()));
    names.extend(Action::ALL.iter().map(|action| action.name().to_owned()));
    names.extend(WORDS.iter().map(|word| word.name.to_owned()));
    names.extend(FIELDS.iter().map(|field| format!(".{}", field.name)));
    names.extend(modules::names().into_iter().map(str::to_owned));
    names.extend(functions().iter().map(|function| format!("{}.{}", function.module, function.name)));
    for class in classes() {
        names.push(class.name.to_owned());
        names.extend(class.methods.iter().map(|method| format!("{}.{}", class.name, method.name)));
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn explain_words(text: &mut String, word: &str) {
    for one in WORDS.iter().filter(|one| one.name == word) {
        let _ = writeln!(text, "{} (a {} of VCL)\n    {}", one.usage, one.kind.name(), one.doc);
        if one.places != Subroutines::ALL && one.places != Subroutines::NONE {
            let _ = writeln!(text, "    in: {}", listed(one.places));
        }
        version_line(text, Version(0), one.until);
        text.push('\n');
    }
}

fn explain_variables(text: &mut String, word: &str) {
    for variable in Variable::of_name(word) {
        let of = variable.definition();
        let _ = writeln!(text, "{word} (a variable of VCL)\n    {}\n    type: {}", of.doc, of.kind);
        access(text, of.access);
        version_line(text, of.since, of.until);
        if let Some(limit) = variable.limit() {
            let _ = writeln!(text, "    {limit}");
        }
        text.push('\n');
    }
    let mut parts = word.split('.');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let is_header = second.is_some_and(|second| second == "http" || second == "*") || second.is_none();
    for message in Message::ALL.iter().filter(|message| message.name() == first && is_header) {
        let name = third.filter(|name| !name.is_empty()).unwrap_or("NAME");
        let _ = writeln!(text, "{first}.http.{name} (a field of a message in VCL)\n    {}", message.doc());
        let _ = writeln!(text, "    type: {}", Type::Header);
        access(text, message.headers());
        text.push('\n');
    }
    if first == "storage" {
        for (name, kind, doc) in
            StorageVariable::ALL.iter().filter(|(name, ..)| third.is_none_or(|third| third == *name))
        {
            let storage = second.unwrap_or("NAME");
            let _ = writeln!(text, "storage.{storage}.{name} (a variable of VCL)\n    {doc}\n    type: {kind}");
            access(text, StorageVariable::ACCESS);
            text.push('\n');
        }
    }
}

fn access(text: &mut String, access: Access) {
    for (verb, places) in [("read", access.read), ("set", access.write), ("unset", access.unset)] {
        let shown = match places {
            Subroutines::NONE => continue,
            Subroutines::ALL => "all subroutines".to_owned(),
            Subroutines::BOTH => "all subroutines but vcl_init and vcl_fini".to_owned(),
            places => listed(places),
        };
        let _ = writeln!(text, "    {verb} in: {shown}");
    }
}

fn version_line(text: &mut String, since: Version, until: Version) {
    if let Some(note) = version_note(since, until) {
        let _ = writeln!(text, "    {note}");
    }
}

/// `vcl_hash` alone is a subroutine, `hash` is one and an action.
fn explain_subroutines(text: &mut String, word: &str) {
    for subroutine in Subroutine::ALL {
        let name = subroutine.name();
        if name == word || name.strip_prefix("vcl_") == Some(word) {
            let _ = writeln!(text, "{name} (a subroutine of VCL)\n    {}", subroutine.doc());
            let actions = actions_of(*subroutine);
            let _ = writeln!(text, "    return: {}\n", actions.join(", "));
        }
    }
    for action in Action::ALL.iter().filter(|action| action.name() == word) {
        let _ = writeln!(text, "return ({word}) (an action of VCL)\n    {}", action.doc());
        let _ = writeln!(text, "    in: {}\n", listed(action.places()));
    }
}

/// A module, a function or class of one, a method; with or without the name of the module.
fn explain_modules(text: &mut String, word: &str) {
    if modules::names().contains(&word) {
        let _ = writeln!(text, "import {word}; (a module of VCL)");
        let of_it = functions().iter().filter(|function| function.module == word);
        let functions: Vec<&str> = of_it.map(|function| function.name).collect();
        let prefix = format!("{word}.");
        let classes: Vec<&str> = classes().iter().filter_map(|class| class.name.strip_prefix(&prefix)).collect();
        for (what, names) in [("functions", functions), ("classes", classes)] {
            if !names.is_empty() {
                let _ = writeln!(text, "    {what}: {}", names.join(", "));
            }
        }
        text.push('\n');
    }
    for function in functions() {
        let full = format!("{}.{}", function.module, function.name);
        if full == word || function.name == word {
            let _ = writeln!(text, "{} (a function of VCL's module {})", modules::function(function), function.module);
            callable(text, &full, function.places);
        }
    }
    for class in classes() {
        let bare = class.name.split('.').nth(1);
        if class.name == word || bare == Some(word) {
            let _ = writeln!(text, "{} (a class of VCL's module {})", modules::class(class), module_of(class.name));
            for method in class.methods {
                let _ = writeln!(text, "    {}", modules::method(method));
            }
            callable(text, class.name, Subroutine::Init.alone());
        }
        for method in class.methods {
            let full = format!("{}.{}", class.name, method.name);
            if full == word || method.name == word {
                let _ = writeln!(text, "{} (a method of {})", modules::method(method), class.name);
                callable(text, &full, method.places);
            }
        }
    }
}

fn module_of(class: &str) -> &str {
    class.split('.').next().unwrap_or(class)
}

fn callable(text: &mut String, name: &str, places: Subroutines) {
    if places != Subroutines::ALL {
        let _ = writeln!(text, "    in: {}", listed(places));
    }
    match modules::state_of(name) {
        State::Whole => {}
        State::But(what) => {
            let _ = writeln!(text, "    here: {what}");
        }
        State::Missing => {
            let _ = writeln!(text, "    not there: a program that calls it compiles, and fails when it is called");
        }
    }
    text.push('\n');
}

fn explain_fields(text: &mut String, word: &str) {
    let name = word.trim_start_matches('.');
    for field in FIELDS.iter().filter(|field| field.name == name) {
        let _ = writeln!(text, ".{name} = {}; (a field of a {} of VCL)\n    {}", field.example, field.of, field.doc);
        let _ = writeln!(text, "    default: {}\n", field.default);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_all_kinds_are_explained() {
        for (word, expected) in [
            ("beresp.ttl", "beresp.ttl (a variable of VCL)"),
            ("beresp.ttl", "set in: vcl_backend_response, vcl_backend_error"),
            ("obj.ttl", "read in: vcl_hit, vcl_deliver"),
            ("req.http.Cookie", "req.http.Cookie (a field of a message in VCL)"),
            ("unset req.http.Cookie;", "unset in: vcl_recv"),
            ("resp.http", "read in: vcl_deliver, vcl_synth"),
            ("vcl_recv", "return: fail, hash, pass, pipe, purge, restart, synth, vcl"),
            ("hash", "vcl_hash (a subroutine of VCL)"),
            ("hash", "return (hash) (an action of VCL)"),
            ("hash", "new x = directors.hash()"),
            ("return (restart)", "in: vcl_recv, vcl_pass, vcl_purge, vcl_miss, vcl_hit, vcl_deliver, vcl_synth"),
            ("std", "functions: random"),
            ("std.querysort", "STRING std.querysort(STRING)"),
            ("querysort", "a function of VCL's module std"),
            ("set_ip_tos", "in: vcl_recv"),
            ("directors.round_robin", "VOID x.add_backend(BACKEND)"),
            ("vtc.vsl", "not there"),
            ("std.syslog", "here: goes to /dev/log"),
            ("hash_data", "in: vcl_hash\n"),
            ("synthetic", "in: vcl_synth, vcl_backend_error"),
            ("regsub", "regsub(text, pattern, replacement) (a function of VCL)"),
            ("purge", "up to VCL 3"),
            (".first_byte_timeout", "default: parameter first_byte_timeout"),
            ("probe", "probe name {"),
            ("req.proto", "from VCL 4.1 on"),
            ("sess.send_timeout", "no effect yet"),
            ("storage.s0.free_space", "type: BYTES"),
        ] {
            let text = explain(word).unwrap_or_default();
            assert!(text.contains(expected), "{word}: {text}");
        }
        for word in ["", "show stat", "vcl_nothing", "req.nothing", "nothing of that kind"] {
            assert_eq!(explain(word), None, "{word}");
        }
    }

    #[test]
    fn every_name_is_explained() {
        for name in names() {
            assert!(explain(&name).is_some(), "{name}");
        }
    }
}
