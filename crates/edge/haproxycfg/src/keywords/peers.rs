//! `peers` sections.

use std::sync::Arc;

use crate::{
    args,
    diagnostics::{Prefix, Problem, Severity},
    keywords::{
        bind::{self, BindDraft},
        server,
    },
    lexer::is_name_character,
    line::{Line, Modifier},
    model::{AcceptMode, Bind, Location, Peer, Peers, Server},
    rules,
    scope::{ProxyDraft, Scope, Section, ServerDraft},
    table::Group,
};

/// Most peers of a configuration.
pub const PEERS_MAX: usize = 10_000;

/// What is kept of a section while it is read.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// Words of `bind` and `default-bind`.
    words: Bind,
    /// There was a `bind` line.
    has_bind_line: bool,
    /// There was a `peer` line.
    has_peer_line: bool,
    /// Where the lines of the local peer were last.
    local_line: Location,
}

/// Opens a section.
pub fn section(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1);
    if name.is_empty() {
        return Err(Problem::new("missing name for peers section.").at(1).expected("a name"));
    }
    args::no_more(line, 1)?;
    if let Some(character) = name.chars().find(|character| !is_name_character(*character)) {
        let message = format!("character '{character}' is not permitted in 'peers' name '{name}'.");
        let offset = name.find(character).unwrap_or(0);
        return Err(Problem::new(message).within(line, 1, offset..offset + character.len_utf8()));
    }
    if let Some(other) = scope.peers_named(name) {
        let place = &other.location;
        let message = format!(
            "peers section '{name}' has the same name as another peers section declared at {}:{}.",
            place.file, place.line
        );
        scope.alert(line, Problem::new(message).at(1));
    }
    scope.state.peers.push(Peers {
        name: name.into(),
        location: line.location(),
        disabled: false,
        bind: None,
        peers: Vec::new(),
        logs: Vec::new(),
        is_complete: false,
    });
    scope.state.peers_draft = Pending::default();
    // Its 'default-server' is its own.
    scope.outside = ProxyDraft::default();
    scope.section = Section::Other(Group::Peers);
    Ok(())
}

/// The section that is being read; its lines are dispatched only while there is one.
fn current<'a>(scope: &'a mut Scope<'_>) -> Option<&'a mut Peers> {
    scope.state.peers.last_mut()
}

fn complete(scope: &mut Scope<'_>) {
    if let Some(peers) = current(scope) {
        peers.is_complete = true;
    }
}

/// `bind`, `default-bind`.
pub fn bind(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    complete(scope);
    let mut draft = BindDraft { bind: scope.state.peers_draft.words.clone(), count: 1, ..BindDraft::default() };
    if line.word(0) == "default-bind" {
        let outcome = bind::words(scope, line, 1, &mut draft);
        apply_words(scope, draft.bind);
        return outcome;
    }
    if scope.state.peers_draft.has_peer_line {
        return Err(Problem::new("mixing \"peer\" and \"bind\" line is forbidden").at(0));
    }
    refuse_second(scope)?;
    let address = bind::single(scope, line, 1)?;
    let outcome = bind::words(scope, line, 2, &mut draft);
    scope.state.peers_draft.has_bind_line = true;
    scope.state.peers_draft.local_line = line.location();
    listen(scope, Bind { address, location: line.location(), ..draft.bind.clone() });
    apply_words(scope, draft.bind);
    outcome
}

/// Words hold for the one address, whether it was there before them or comes after.
fn apply_words(scope: &mut Scope<'_>, words: Bind) {
    if let Some(bind) = current(scope).and_then(|peers| peers.bind.as_mut()) {
        *bind = Bind {
            address: bind.address.clone(),
            location: bind.location.clone(),
            accept: AcceptMode::Dispatch,
            ..words.clone()
        };
    }
    scope.state.peers_draft.words = words;
}

fn listen(scope: &mut Scope<'_>, bind: Bind) {
    if let Some(peers) = current(scope) {
        // Peers come rarely: one socket, in the hands of whichever worker is free.
        peers.bind = Some(Bind { accept: AcceptMode::Dispatch, ..bind });
    }
}

fn refuse_second(scope: &mut Scope<'_>) -> Result<(), Problem> {
    let Some(bind) = current(scope).and_then(|peers| peers.bind.as_ref()) else { return Ok(()) };
    let message = format!(
        "One listener per \"peers\" section is authorized but another is already configured at [{}:{}].",
        bind.location.file, bind.location.line
    );
    Err(Problem::new(message).at(0))
}

/// `default-server`.
pub fn default_server(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    complete(scope);
    server::default_server(scope, line)
}

/// `disabled`, `enabled`.
pub fn switch(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let disabled = line.word(0) == "disabled";
    if let Some(peers) = current(scope) {
        peers.disabled = disabled;
    }
    Ok(())
}

/// `log`.
pub fn log(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    complete(scope);
    let target = rules::peers_log(scope, line)?;
    if let Some(peers) = current(scope) {
        if line.modifier() == Modifier::No {
            peers.logs.clear();
        }
        peers.logs.extend(target);
    }
    Ok(())
}

/// `peer`, `server`.
pub fn peer(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let is_peer = line.word(0) == "peer";
    let name = line.word(1);
    let is_local = scope.state.global.localpeer.as_deref() == Some(name);
    if is_peer {
        if scope.state.peers_draft.has_bind_line {
            return Err(Problem::new("mixing \"peer\" and \"bind\" line is forbidden").at(0));
        }
        scope.state.peers_draft.has_peer_line = true;
    }
    let is_second = is_local && current(scope).is_some_and(|peers| peers.peers.iter().any(|peer| peer.is_local));
    if is_second {
        let place = &scope.state.peers_draft.local_line;
        let message = format!(
            "'{} {name}' : local peer name already referenced at {}:{}. {name}",
            line.word(0),
            place.file,
            place.line
        );
        return Err(Problem::new(message).at(1));
    }
    if scope.state.peers.iter().map(|peers| peers.peers.len()).sum::<usize>() >= PEERS_MAX {
        return Err(Problem::new(format!("too many peers (maximum is {PEERS_MAX} in all).")).at(0));
    }
    complete(scope);
    // The local peer of a `server` line has its address on the `bind` line.
    let has_address = is_peer || !is_local;
    let server = read_server(scope, line, has_address)?;
    if is_local {
        scope.state.peers_draft.local_line = line.location();
    }
    if is_local && is_peer {
        refuse_second(scope)?;
        let address = bind::single(scope, line, 2)?;
        let words = scope.state.peers_draft.words.clone();
        listen(scope, Bind { address, location: line.location(), ..words });
    }
    if let Some(peers) = current(scope) {
        peers.peers.push(Peer { name: name.into(), is_local, server });
    }
    Ok(())
}

fn read_server(scope: &mut Scope<'_>, line: &Line, has_address: bool) -> Result<Server, Problem> {
    let (keyword, name) = (line.word(0), line.word(1));
    if name.is_empty() || (has_address && line.word(2).is_empty()) {
        let message = format!("'{keyword}' expects <name> and <addr>[:<port>] as arguments.");
        let expected = "a name and an address, as 'peer front1 192.0.2.1:1024'";
        return Err(Problem::new(message).prefix(Prefix::Place).at(line.len()).expected(expected));
    }
    if let Some(character) = name.chars().find(|character| !is_name_character(*character)) {
        let message = format!("character '{character}' is not permitted in server name '{name}'.");
        let offset = name.find(character).unwrap_or(0);
        let problem = Problem::new(message).within(line, 1, offset..offset + character.len_utf8());
        return Err(problem.prefix(Prefix::Place));
    }
    let section = current(scope).map(|peers| Arc::clone(&peers.name)).unwrap_or_default();
    let named = |problem: Problem| {
        let message = format!("'server {section}/{name}' : {}", problem.message);
        Problem { message, ..problem }.prefix(Prefix::Place)
    };
    let mut draft: ServerDraft = scope.proxy().simple.default_server.clone();
    draft.pending.is_default = false;
    draft.server.name = name.into();
    draft.server.location = line.location();
    let mut from = 2;
    if has_address {
        server::set_address(scope, line, 2, &mut draft).map_err(named)?;
        from = 3;
    }
    server::words(scope, line, from, &mut draft).map_err(named)?;
    if draft.server.service.is_some() || draft.server.namespace.is_some() {
        let message = format!("'{keyword} {name}' : peers have neither service names nor namespaces.");
        return Err(Problem::new(message).at(2).expected("an address, as 192.0.2.1:1024"));
    }
    warn_of_words(scope, line, &mut draft.server);
    Ok(draft.server)
}

/// Peers are servers of a special kind, for which much has no meaning.
fn warn_of_words(scope: &mut Scope<'_>, line: &Line, server: &mut Server) {
    let (keyword, name) = (line.word(0), line.word(1));
    // What is not said is looked up at the start, too.
    let init_addr = std::mem::replace(&mut server.init_addr, ServerDraft::default().server.init_addr);
    if server.check || server.resolvers.take().is_some() || init_addr != server.init_addr {
        let message = format!("'{keyword} {name}' : init_addr, resolvers, check and agent are ignored for peers.");
        scope.warn(line, Problem::new(message).at(0));
    }
    if server.send_proxy.is_some() {
        let message = format!("'{keyword} {name}' : no PROXY header is sent to peers.");
        scope.warn(line, Problem::new(message).at(0));
    }
}

/// `table`.
pub fn table(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    complete(scope);
    let Some(name) = current(scope).map(|peers| Arc::clone(&peers.name)) else { return Ok(()) };
    rules::peers_table(scope, line, &name)
}

/// Takes sections out in which this one has no place: it would neither listen nor know its own name.
pub fn finish(scope: &mut Scope<'_>) {
    let local = scope.state.global.localpeer.clone().unwrap_or_default();
    let is_complete = |peers: &Peers| peers.disabled || peers.peers.iter().any(|peer| peer.is_local);
    let incomplete: Vec<_> = scope.state.peers.iter().filter(|peers| !is_complete(peers)).collect();
    let messages: Vec<String> = incomplete
        .iter()
        .map(|peers| format!("Removing incomplete section 'peers {}' (no peer named '{local}').", peers.name))
        .collect();
    for message in messages {
        scope.whole(Severity::Warning, message);
    }
    scope.state.peers.retain(is_complete);
}
