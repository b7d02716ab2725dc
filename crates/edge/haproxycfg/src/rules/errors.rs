//! What replaces built-in pages: `errorfile`, `errorloc`, `http-error`, `errorfiles` and sections `http-errors`.

use std::{collections::BTreeMap, sync::Arc};

use sample::Places;

use super::{
    error_file::{self, STATUSES},
    reply,
    ruleset::Ruleset,
    words::{around, invalid_name_character, wrong},
};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{ErrorReply, HttpAction, Reply, ReplyBody},
    scope::{Scope, Section},
    table::{Group, Keyword, Sections},
};

/// Keywords about error pages.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Proxy, "errorfile", "<code> <file>", "4.2")
        .sections(Sections::ALL)
        .doc("Answers a status with the response in a file, as for a maintenance page.", "errorfile 503 /etc/haproxy/errors/503.http")
        .line(errorfile),
    Keyword::new(Group::Proxy, "errorfiles", "<name> [<code> ...]", "4.2")
        .sections(Sections::ALL)
        .doc("Takes pages from an 'http-errors' section.", "errorfiles site 500 503")
        .line(errorfiles),
    Keyword::new(Group::Proxy, "errorloc", "<code> <url>", "4.2")
        .sections(Sections::ALL)
        .doc("Answers a status by redirecting to a URL with 302.", "errorloc 503 http://status.example.com/")
        .line(errorloc),
    Keyword::new(Group::Proxy, "errorloc302", "<code> <url>", "4.2")
        .sections(Sections::ALL)
        .doc("As errorloc.", "errorloc302 503 http://status.example.com/")
        .line(errorloc),
    Keyword::new(Group::Proxy, "errorloc303", "<code> <url>", "4.2")
        .sections(Sections::ALL)
        .doc("Answers a status by redirecting to a URL with 303, which makes clients use GET.", "errorloc303 503 http://status.example.com/")
        .line(errorloc),
    Keyword::new(
        Group::Proxy,
        "http-error",
        "status <code> [content-type <type>] [ { default-errorfiles | errorfile <file> | errorfiles <name> | file <file> | \
         lf-file <file> | string <str> | lf-string <fmt> } ] [ hdr <name> <fmt> ]*",
        "4.2",
    )
    .sections(Sections::ALL)
    .doc("Answers a status with a response described here.", "http-error status 503 content-type text/plain string \"back soon\"")
    .line(http_error),
    Keyword::new(Group::HttpErrors, "errorfile", "<code> <file>", "3.8")
        .doc("A page of the section.", "errorfile 404 /etc/haproxy/errors/site1/404.http")
        .line(section_errorfile),
];

/// A line that replaces pages. They act in order, once all `http-errors` sections are known.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// The page of one status; none is the built-in one.
    Page(u16, Option<ErrorReply>),
    /// From a section: its name, and the statuses, or all that it has.
    Section { line: Line, word: usize, statuses: Vec<u16> },
}

/// An `http-errors` section.
#[derive(Debug)]
pub(super) struct ErrorSection {
    line: Line,
    pages: BTreeMap<u16, Arc<[u8]>>,
}

fn context(line: &Line, problem: Problem) -> Problem {
    let keyword = line.word(0);
    around(problem, |error| format!("{keyword} : {error}."))
}

/// The two arguments of `errorfile` and `errorloc`.
fn two(scope: &mut Scope<'_>, line: &Line, second: &str) -> Result<(), Problem> {
    let keyword = line.word(0);
    if line.word(1).is_empty() || line.word(2).is_empty() {
        return Err(wrong(format!("{keyword} : expects <status_code> and <{second}> as arguments."), line.len())
            .expected(format!("{keyword} <code> <{second}>")));
    }
    args::ignore_more(scope, line, 2, 0);
    Ok(())
}

fn errorfile(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    two(scope, line, "file")?;
    let status = error_file::status(scope, line, 1).map_err(|problem| context(line, problem))?;
    let response = error_file::load(scope, line, 2).map_err(|problem| context(line, problem))?;
    scope.proxy().rules.errors.push(Entry::Page(status, Some(ErrorReply::Raw(response))));
    Ok(())
}

fn errorloc(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    two(scope, line, "url")?;
    let code = error_file::status(scope, line, 1).map_err(|problem| context(line, problem))?;
    let location = line.word(2);
    if location.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(wrong(format!("{} : invalid error message: control characters in the URL", line.word(0)), 2)
            .expected("a URL"));
    }
    let status = if line.word(0) == "errorloc303" { 303 } else { 302 };
    let page = ErrorReply::Redirect { status, location: line.bytes(2).to_vec() };
    scope.proxy().rules.errors.push(Entry::Page(code, Some(page)));
    Ok(())
}

fn errorfiles(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() {
        return Err(wrong("errorfiles : expects <name> as argument.", 1).expected("the name of an http-errors section"));
    }
    let statuses = (2..line.len())
        .map(|index| error_file::status(scope, line, index))
        .collect::<Result<_, _>>()
        .map_err(|problem| context(line, problem))?;
    scope.proxy().rules.errors.push(Entry::Section { line: line.clone(), word: 1, statuses });
    Ok(())
}

fn http_error(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mut end = 1;
    let places = Places::REQUEST.union(Places::RESPONSE);
    let parsed = reply::parse(scope, line, &mut end, 0, places).map_err(|problem| context(line, problem))?;
    if parsed.status == 0 {
        return Err(wrong("http-error : expects at least a <status> as arguments.", 1).expected("status <code>"));
    }
    let Some(status) = error_file::handled(parsed.status) else {
        return Err(wrong(format!("http-error: status code '{}' not handled.", parsed.status), 1)
            .expected(error_file::statuses_text()));
    };
    let word = line.word(end);
    if !word.is_empty() {
        return Err(wrong(format!("http-error : unknown keyword '{word}'."), end)
            .expected("a source of the body, content-type or hdr"));
    }
    let entry = match (parsed.errorfiles, parsed.reply.body) {
        (Some(word), _) => Entry::Section { line: line.clone(), word, statuses: vec![status] },
        (None, ReplyBody::ErrorPage) => Entry::Page(status, None),
        (None, ReplyBody::Raw(response)) => Entry::Page(status, Some(ErrorReply::Raw(response))),
        (None, body) => {
            let reply = Reply { body, ..parsed.reply };
            Entry::Page(status, Some(ErrorReply::Reply(Box::new(reply))))
        }
    };
    scope.proxy().rules.errors.push(entry);
    Ok(())
}

/// Opens an `http-errors` section.
pub(crate) fn open_section(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1);
    if name.is_empty() {
        return Err(wrong("missing name for http-errors section.", 1).expected("http-errors <name>"));
    }
    if let Some(bad) = invalid_name_character(name) {
        let message = format!("character '{bad}' is not permitted in 'http-errors' name '{name}'.");
        return Err(wrong(message, 1).expected("letters, digits, '.', ':', '_' and '-'"));
    }
    args::no_more(line, 1)?;
    if let Some(known) = scope.state.rules.error_sections.get(name) {
        let (file, number) = (known.line.file().clone(), known.line.number());
        return Err(wrong(format!("http-errors section '{name}' already exists (declared at {file}:{number})."), 1)
            .expected("another name"));
    }
    let section = ErrorSection { line: line.clone(), pages: BTreeMap::new() };
    scope.state.rules.error_sections.insert(name.to_owned(), section);
    scope.state.rules.current_error_section = Some(name.to_owned());
    Ok(())
}

fn section_errorfile(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    two(scope, line, "file")?;
    let status = error_file::status(scope, line, 1).map_err(|problem| context(line, problem))?;
    let response = error_file::load(scope, line, 2).map_err(|problem| context(line, problem))?;
    let shared = &mut scope.state.rules;
    if let Some(section) = shared.current_error_section.as_ref().and_then(|name| shared.error_sections.get_mut(name)) {
        section.pages.insert(status, response);
    }
    Ok(())
}

/// The section that a word names.
fn section<'s>(scope: &'s Scope<'_>, line: &Line, word: usize) -> Result<&'s ErrorSection, Problem> {
    let name = line.word(word);
    let proxy = match scope.section {
        Section::Proxy(index) => scope.state.proxies.get(index).map(|draft| draft.proxy.name.clone()),
        _ => None,
    };
    let sections = &scope.state.rules.error_sections;
    sections.get(name).ok_or_else(|| {
        wrong(format!("proxy '{}': unknown http-errors section '{name}'.", proxy.unwrap_or_default()), word)
            .expected("the name of an http-errors section")
            .nearest(name, sections.keys().map(String::as_str))
    })
}

/// Puts pages into place, once all `http-errors` sections are known.
pub(super) fn finish(scope: &mut Scope<'_>) {
    let entries = std::mem::take(&mut scope.proxy().rules.errors);
    let mut replies = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Page(status, Some(page)) => {
                replies.insert(status, page);
            }
            Entry::Page(status, None) => {
                replies.remove(&status);
            }
            Entry::Section { line, word, statuses } => {
                if let Err(problem) = pages_of_section(scope, &line, word, &statuses, &mut replies) {
                    scope.alert(&line, problem);
                }
            }
        }
    }
    scope.proxy().proxy.error_replies = replies;
    finish_replies(scope);
}

fn pages_of_section(
    scope: &mut Scope<'_>,
    line: &Line,
    word: usize,
    statuses: &[u16],
    replies: &mut BTreeMap<u16, ErrorReply>,
) -> Result<(), Problem> {
    let pages = &section(scope, line, word)?.pages;
    let mut missing = Vec::new();
    let wanted = if statuses.is_empty() { STATUSES.as_slice() } else { statuses };
    for status in wanted {
        match pages.get(status) {
            Some(page) => {
                replies.insert(*status, ErrorReply::Raw(Arc::clone(page)));
            }
            None if statuses.is_empty() => {}
            None => missing.push(*status),
        }
    }
    let name = line.word(word);
    for status in missing {
        let proxy = scope.proxy().proxy.name.clone();
        let message = format!("proxy '{proxy}' : status '{status}' not declared in http-errors section '{name}'.");
        scope.warn(line, wrong(message, word));
    }
    Ok(())
}

/// Gives replies of rules the pages of the sections that they name.
fn finish_replies(scope: &mut Scope<'_>) {
    let waiting = std::mem::take(&mut scope.proxy().rules.replies);
    for super::WaitingReply { ruleset, position, line, word } in waiting {
        let status = reply_mut(scope, ruleset, position).and_then(|reply| reply.status).unwrap_or_default();
        match section(scope, &line, word).map(|section| section.pages.get(&status).cloned()) {
            Ok(Some(page)) => {
                if let Some(reply) = reply_mut(scope, ruleset, position) {
                    reply.body = ReplyBody::Raw(page);
                }
            }
            Ok(None) => {
                // As in HAProxy, not even the proxy's own page.
                if let Some(reply) = reply_mut(scope, ruleset, position) {
                    reply.body = ReplyBody::Empty;
                }
                let proxy = scope.proxy().proxy.name.clone();
                let name = line.word(word);
                let message = format!(
                    "Proxy '{proxy}': status '{status}' referenced by an http reply not declared in http-errors section '{name}'."
                );
                scope.warn(&line, wrong(message, word));
            }
            Err(problem) => scope.alert(&line, problem),
        }
    }
}

/// The reply of a rule.
fn reply_mut<'s>(scope: &'s mut Scope<'_>, ruleset: Ruleset, position: usize) -> Option<&'s mut Reply> {
    let proxy = &mut scope.proxy().proxy;
    let rules = match ruleset {
        Ruleset::HttpRequest => &mut proxy.http_request,
        Ruleset::HttpResponse => &mut proxy.http_response,
        _ => &mut proxy.http_after_response,
    };
    match &mut rules.get_mut(position)?.action {
        HttpAction::Deny(reply) | HttpAction::Tarpit(reply) | HttpAction::Return(reply) => Some(reply),
        _ => None,
    }
}
