//! Which backend and which server: `use_backend`, `use-server`, `force-persist` and `ignore-persist`.

use std::sync::Arc;

use sample::{Condition, LogFormatOptions, Place, Places};

use super::words::{around, is_condition, wrong};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{BackendTarget, Mode, PersistRule, ProxyIndex, ServerTarget, UseBackend, UseServer},
    scope::{Scope, Section},
    table::{Group, Keyword, Sections},
};

/// Keywords that choose backends and servers.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Proxy, "use_backend", "<backend> [ { if | unless } <condition> ]", "4.2")
        .sections(Sections::FRONTEND)
        .doc(
            "Sends requests to a backend if a condition holds; the backend's name may be a log-format string.",
            "use_backend static if { path_beg /static }",
        )
        .line(use_backend),
    Keyword::new(Group::Proxy, "use-server", "<server> { if | unless } <condition>", "4.2")
        .sections(Sections::BACKEND)
        .doc(
            "Sends requests to a server if a condition holds; the server's name may be a log-format string.",
            "use-server blue if { req.cook(color) blue }",
        )
        .line(use_server),
    Keyword::new(Group::Proxy, "force-persist", "{ if | unless } <condition>", "4.2")
        .sections(Sections::BACKEND)
        .doc("Keeps clients on a server that is down, if a condition holds.", "force-persist if { src 10.0.0.0/8 }")
        .line(persist),
    Keyword::new(Group::Proxy, "ignore-persist", "{ if | unless } <condition>", "4.2")
        .sections(Sections::BACKEND)
        .doc("Ignores persistence if a condition holds.", "ignore-persist if { path_end .png }")
        .line(persist),
];

/// A `use_backend` or `use-server` line until its target is known.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    line: Line,
    condition: Option<Condition>,
}

fn use_backend(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::required(line, 1, "a backend name.")?;
    let word = line.word(2);
    if !word.is_empty() && !is_condition(word) {
        let message = format!("unexpected keyword '{word}' after switching rule, only 'if' and 'unless' are allowed.");
        return Err(wrong(message, 2).expected("'if' or 'unless' followed by a condition"));
    }
    let condition = scope.condition(line, 2, Places::only(Place::UseBackend)).map_err(|problem| {
        around(problem, |error| format!("error detected while parsing switching rule : {error}."))
    })?;
    let rules = &mut scope.proxy().rules;
    rules.use_backend.push(Waiting { line: line.clone(), condition });
    rules.own.use_backend = true;
    Ok(())
}

/// A condition must stand at `index`.
pub(super) fn required_condition(
    scope: &mut Scope<'_>,
    line: &Line,
    index: usize,
    places: Places,
    context: impl FnOnce(&str) -> String,
) -> Result<Condition, Problem> {
    let keyword = line.texts_from(0).take(if index == 1 || line.word(0) == "use-server" { 1 } else { 2 });
    let keyword = keyword.collect::<Vec<_>>().join(" ");
    let missing = || {
        wrong(format!("'{keyword}' requires either 'if' or 'unless' followed by a condition."), index)
            .expected("'if' or 'unless' followed by a condition")
    };
    if !is_condition(line.word(index)) {
        return Err(missing());
    }
    let condition = scope.condition(line, index, places).map_err(|problem| around(problem, context))?;
    condition.ok_or_else(missing)
}

fn use_server(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::required(line, 1, "a server name.")?;
    let condition = required_condition(scope, line, 2, Places::only(Place::UseServer), |error| {
        format!("error detected while parsing switching rule : {error}.")
    })?;
    let rules = &mut scope.proxy().rules;
    rules.use_server.push(Waiting { line: line.clone(), condition: Some(condition) });
    rules.own.use_server = true;
    Ok(())
}

fn persist(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let keyword = line.word(0);
    let condition = required_condition(scope, line, 1, Places::only(Place::BackendRequestContent), |error| {
        format!("error detected while parsing a '{keyword}' rule : {error}.")
    })?;
    let force = keyword == "force-persist";
    scope.proxy().proxy.persist_rules.push(PersistRule { force, condition: Some(condition) });
    Ok(())
}

/// HAProxy's word for a mode.
fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Tcp => "tcp",
        Mode::Http => "http",
    }
}

/// Finds the targets, once all sections are known.
pub(super) fn finish(scope: &mut Scope<'_>) {
    let waiting = std::mem::take(&mut scope.proxy().rules.use_backend);
    for Waiting { line, condition } in waiting {
        match backend_target(scope, &line) {
            Ok(target) => {
                let written = line.joined_from(1).into();
                scope.proxy().proxy.use_backend.push(UseBackend { target, condition, written });
            }
            Err(problem) => scope.alert(&line, problem),
        }
    }
    let waiting = std::mem::take(&mut scope.proxy().rules.use_server);
    for Waiting { line, condition } in waiting {
        match server_target(scope, &line) {
            Ok(target) => scope.proxy().proxy.use_server.push(UseServer { target, condition }),
            Err(problem) => scope.alert(&line, problem),
        }
    }
}

/// The index of the proxy that is being finished.
fn this(scope: &Scope<'_>) -> ProxyIndex {
    match scope.section {
        Section::Proxy(index) => ProxyIndex(u32::try_from(index).unwrap_or(u32::MAX)),
        _ => ProxyIndex(u32::MAX),
    }
}

fn backend_target(scope: &mut Scope<'_>, line: &Line) -> Result<BackendTarget, Problem> {
    let name = line.word(1);
    // As in HAProxy, any `%` makes the name a format, be it only an escaped one.
    if name.contains('%') {
        let format = scope
            .log_format_with(
                line,
                1,
                line.bytes(1),
                Places::only(Place::FrontendRequestHeaders),
                LogFormatOptions::PLAIN,
            )
            .map_err(|problem| {
                around(problem, |error| format!("failed to parse use_backend rule '{name}' : {error}."))
            })?;
        return Ok(BackendTarget::Dynamic(format));
    }
    let own = this(scope);
    let draft = scope.proxy();
    let (proxy, mode) = (draft.proxy.name.clone(), draft.proxy.mode);
    let kind = scope.kind_word();
    let Some(index) = scope.backend_named(name) else {
        let backends = || scope.state.proxies.iter().filter(|draft| draft.proxy.kind.has_backend());
        let names = || backends().map(|draft| Arc::clone(&draft.proxy.name)).collect();
        let problem = wrong(format!("Proxy '{proxy}': unable to find required use_backend: '{name}'."), 1)
            .expected("the name of a backend or listen section");
        return Err(scope.near(problem, name, names));
    };
    if index == own {
        return Err(wrong(format!("Proxy '{proxy}': loop detected for use_backend: '{name}'."), 1)
            .expected("another section than this one"));
    }
    let target = usize::try_from(index.0).ok().and_then(|index| scope.state.proxies.get(index));
    if let Some(target) = target
        && target.proxy.mode != mode
        && !(mode == Mode::Tcp && target.proxy.mode == Mode::Http)
    {
        let message = format!(
            "{} {kind} '{proxy}' tries to use incompatible {} {} '{name}' ({}:{}) in a 'use_backend' rule (see 'mode').",
            mode_word(mode),
            mode_word(target.proxy.mode),
            if target.proxy.kind.has_frontend() { "proxy" } else { "backend" },
            target.proxy.location.file,
            target.proxy.location.line,
        );
        return Err(wrong(message, 1).expected(format!("a backend with 'mode {}'", mode_word(mode))));
    }
    Ok(BackendTarget::Static(index))
}

fn server_target(scope: &mut Scope<'_>, line: &Line) -> Result<ServerTarget, Problem> {
    let name = line.word(1);
    if name.contains('%') {
        let places = Places::only(Place::FrontendRequestHeaders).union(Places::only(Place::BackendRequestHeaders));
        let format =
            scope.log_format_with(line, 1, line.bytes(1), places, LogFormatOptions::PLAIN).map_err(|problem| {
                around(problem, |error| format!("use-server rule failed to parse log-format '{name}' : {error}."))
            })?;
        return Ok(ServerTarget::Dynamic(format));
    }
    let own = this(scope);
    if let Some(index) = scope.server_named(own, name) {
        scope.refer_to(own, index);
        return Ok(ServerTarget::Static(index));
    }
    let kind = scope.kind_word();
    let proxy = Arc::clone(&scope.proxy().proxy.name);
    let message = format!("{kind} '{proxy}' : unable to find server '{name}' referenced in a 'use-server' rule.");
    let problem = wrong(message, 1).expected("the name of a server of this section");
    let draft = usize::try_from(own.0).ok().and_then(|own| scope.state.proxies.get(own));
    let servers = || draft.into_iter().flat_map(|draft| &draft.proxy.servers);
    Err(scope.near(problem, name, || servers().map(|server| Arc::clone(&server.name)).collect()))
}
