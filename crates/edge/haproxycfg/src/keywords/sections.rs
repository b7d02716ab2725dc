//! What opens a section.

use std::sync::Arc;

use sample::AclSet;

use crate::{
    args,
    diagnostics::Problem,
    keywords::{
        bind,
        proxy::{Pending, RETRIES_DEFAULT, SESSION_SERVERS_DEFAULT},
    },
    lexer::is_name_character,
    line::Line,
    model::{Balance, LoadServerState, ProxyKind, TcpKeepalive},
    rules,
    scope::{ProxyDraft, Scope, Section},
    table::Group,
};

/// Most proxies of a configuration.
pub const PROXIES_MAX: usize = 100_000;

/// How a `defaults` section has been used so far, which limits how else it may be used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// By `from`.
    pub by_name: bool,
    /// By standing before a proxy.
    pub by_place: bool,
}

/// `global`.
pub fn global(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    scope.section = Section::Global;
    args::no_more(line, 0)
}

/// `defaults`.
pub fn defaults(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    // `defaults from x` has no name; with one more word, `from` is its name.
    let is_anonymous = line.word(1) == "from" && !line.word(2).is_empty() && line.word(3).is_empty();
    let (name, from) = if is_anonymous { ("", 1) } else { (line.word(1), 2) };
    let inherited = if line.word(from) == "from" {
        Some(referenced_defaults(scope, line, from + 1, name, "defaults")?)
    } else {
        None
    };
    let extra = if inherited.is_some() { from + 2 } else { 1 + usize::from(!name.is_empty()) };
    if !line.word(extra).is_empty() {
        let message = format!("'defaults' ignores unexpected argument '{}'.", line.word(extra));
        scope.warn(line, Problem::new(message).at(extra));
    }
    let mut draft = match inherited {
        Some(index) => inherit(scope, index),
        None => fresh(scope),
    };
    draft.proxy.name = name.into();
    draft.proxy.location = line.location();
    draft.line = Some(line.clone());
    draft.proxy.kind = ProxyKind::Listen;
    scope.section = Section::Defaults(scope.state.defaults.len());
    let place = scope.state.defaults.len();
    scope.state.defaults_by_name.entry(Arc::clone(&draft.proxy.name)).or_default().push(place);
    scope.state.defaults.push(draft);
    scope.state.simple.usage.push(Usage::default());
    Ok(())
}

/// `frontend`, `backend` and `listen`.
pub fn proxy(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let keyword = line.word(0);
    let kind = match keyword {
        "frontend" => ProxyKind::Frontend,
        "backend" => ProxyKind::Backend,
        _ => ProxyKind::Listen,
    };
    let name = line.word(1);
    if name.is_empty() {
        return Err(Problem::new(format!("'{keyword}' expects an <id> argument")).at(1).expected("a name"));
    }
    if scope.state.proxies.len() >= PROXIES_MAX {
        return Err(Problem::new(format!("too many proxies (maximum is {PROXIES_MAX}).")).at(0));
    }
    if let Some(character) = name.chars().find(|character| !is_name_character(*character)) {
        let message = format!("character '{character}' is not permitted in '{keyword}' name '{name}'.");
        let offset = name.find(character).unwrap_or(0);
        scope.alert(line, Problem::new(message).within(line, 1, offset..offset + character.len_utf8()));
    }
    refuse_duplicate(scope, line, kind);
    let is_referenced = line.word(2) == "from" && !line.word(3).is_empty();
    let defaults = if is_referenced {
        args::no_more(line, 3)?;
        Some(referenced_defaults(scope, line, 3, name, kind.word())?)
    } else {
        let last = scope.state.defaults.len().checked_sub(1);
        if let Some(usage) = last.and_then(|last| scope.state.simple.usage.get_mut(last)) {
            usage.by_place = true;
        }
        last
    };
    let mut draft = match defaults {
        Some(index) => {
            warn_of_mixed_usage(scope, line, index);
            inherit(scope, index)
        }
        None => fresh(scope),
    };
    draft.proxy.name = name.into();
    draft.proxy.kind = kind;
    draft.proxy.location = line.location();
    draft.line = Some(line.clone());
    forget_other_side(&mut draft);
    let index = scope.state.proxies.len();
    let by_name = scope.state.names.entry(Arc::clone(&draft.proxy.name)).or_default();
    by_name.push(u32::try_from(index).unwrap_or(u32::MAX));
    scope.state.proxies.push(draft);
    scope.section = Section::Proxy(index);
    if !is_referenced && !line.word(2).is_empty() {
        return old_addresses(scope, line);
    }
    Ok(())
}

/// Addresses after the name, as HAProxy had them before `bind`.
fn old_addresses(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let message = "please use the 'bind' keyword for listening addresses.";
    if !scope.has_frontend() {
        return args::no_more(line, 1);
    }
    args::no_more(line, 2)?;
    let parsed = bind::parse(scope, line, 2).map_err(|problem| Problem::new(message).at(problem.word.unwrap_or(2)))?;
    let warning = "an address on this line is deprecated: ".to_owned() + message;
    scope.warn(line, Problem::new(warning).at(2));
    scope.proxy().proxy.binds.extend(parsed.binds);
    Ok(())
}

/// A proxy with HAProxy's defaults.
fn fresh(scope: &Scope<'_>) -> ProxyDraft {
    let mut draft = ProxyDraft::default();
    draft.proxy.retries = RETRIES_DEFAULT;
    draft.proxy.max_session_srv_conns = SESSION_SERVERS_DEFAULT;
    draft.proxy.maxconn = scope.state.simple.proxy_maxconn;
    draft
}

/// A proxy with what it inherits from a `defaults` section.
fn inherit(scope: &Scope<'_>, index: usize) -> ProxyDraft {
    let Some(defaults) = scope.state.defaults.get(index) else { return fresh(scope) };
    let mut draft = defaults.clone();
    draft.acls = AclSet::default();
    let Pending { default_server, default_backend, is_balanced, .. } = draft.simple;
    draft.simple = Pending {
        default_server,
        default_backend,
        is_balanced,
        inherited_timeouts: draft.proxy.timeouts,
        inherited_rate_limit: draft.proxy.rate_limit_sessions,
        ..Pending::default()
    };
    rules::inherit(&mut draft, defaults);
    draft
}

/// Resets what only the side that a section does not have would use.
fn forget_other_side(draft: &mut ProxyDraft) {
    let proxy = &mut draft.proxy;
    if !proxy.kind.has_frontend() {
        proxy.maxconn = None;
        proxy.backlog = None;
        proxy.rate_limit_sessions = 0;
        proxy.max_session_srv_conns = SESSION_SERVERS_DEFAULT;
        proxy.client_keepalive = TcpKeepalive::default();
        proxy.timeouts.client = None;
        proxy.timeouts.client_fin = None;
        draft.simple.default_backend = None;
    }
    if !proxy.kind.has_backend() {
        proxy.balance = Balance::default();
        proxy.fullconn = None;
        proxy.source = None;
        proxy.load_server_state = LoadServerState::default();
        proxy.server_keepalive = TcpKeepalive::default();
        let timeouts = &mut proxy.timeouts;
        for timeout in [
            &mut timeouts.connect,
            &mut timeouts.server,
            &mut timeouts.server_fin,
            &mut timeouts.check,
            &mut timeouts.queue,
            &mut timeouts.tunnel,
        ] {
            *timeout = None;
        }
        draft.simple.is_balanced = false;
    }
    draft.simple.inherited_timeouts = proxy.timeouts;
    draft.simple.inherited_rate_limit = proxy.rate_limit_sessions;
}

/// Two frontends or two backends may not have the same name. (A frontend and a backend may.)
fn refuse_duplicate(scope: &mut Scope<'_>, line: &Line, kind: ProxyKind) {
    let name = line.word(1);
    let same = if kind.has_frontend() { scope.frontend_named(name) } else { scope.backend_named(name) };
    let other = same.and_then(|index| scope.state.proxies.get(usize::try_from(index.0).ok()?));
    let message = other.map(|other| {
        let place = &other.proxy.location;
        format!(
            "{} '{name}' has the same name as {} '{name}' declared at {}:{}.",
            kind.word(),
            other.proxy.kind.word(),
            place.file,
            place.line
        )
    });
    if let Some(message) = message {
        scope.alert(line, Problem::new(message).at(1));
    }
}

/// The `defaults` section that the word at `index` names.
fn referenced_defaults(
    scope: &mut Scope<'_>,
    line: &Line,
    index: usize,
    name: &str,
    kind: &str,
) -> Result<usize, Problem> {
    let wanted = line.word(index);
    let places = scope.state.defaults_by_name.get(wanted).map(Vec::as_slice).unwrap_or_default();
    let mut found = places.iter().filter_map(|place| Some((*place, scope.state.defaults.get(*place)?)));
    let (first, second) = (found.next(), found.next());
    let Some((position, first)) = first else {
        let known: Vec<String> = scope.state.defaults.iter().map(|draft| draft.proxy.name.to_string()).collect();
        let message = format!("defaults section '{wanted}' not found for {kind} '{name}'.");
        return Err(Problem::new(message).at(index).nearest(wanted, known.iter().map(String::as_str)));
    };
    let place = &first.proxy.location;
    let ambiguous = second.map(|(_, second)| {
        let other = &second.proxy.location;
        format!(
            "ambiguous defaults section name '{wanted}' referenced by {kind} '{name}' exists at least at {}:{} and \
             {}:{}.",
            place.file, place.line, other.file, other.line
        )
    });
    let invalid = wanted.chars().find(|character| !is_name_character(*character)).map(|character| {
        format!(
            "character '{character}' is not permitted in defaults section name '{wanted}' when designated by its name \
             (section found at {}:{}).",
            place.file, place.line
        )
    });
    for message in [ambiguous, invalid].into_iter().flatten() {
        scope.alert(line, Problem::new(message).at(index));
    }
    if let Some(usage) = scope.state.simple.usage.get_mut(position) {
        usage.by_name = true;
    }
    Ok(position)
}

fn warn_of_mixed_usage(scope: &mut Scope<'_>, line: &Line, index: usize) {
    let is_mixed = scope.state.simple.usage.get(index).is_some_and(|usage| usage.by_name && usage.by_place);
    let Some(defaults) = scope.state.defaults.get(index).filter(|_| is_mixed) else { return };
    let place = &defaults.proxy.location;
    let message = format!(
        "defaults section '{}' (declared at {}:{}) is explicitly referenced by another proxy and implicitly used here. \
         To avoid any ambiguity don't mix both usage. Add a last defaults section not explicitly used or always use \
         explicit references.",
        defaults.proxy.name, place.file, place.line
    );
    scope.warn(line, Problem::new(message).at(0));
}

/// `userlist`.
pub fn userlist(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    rules::open_userlist(scope, line)?;
    scope.section = Section::Other(Group::Userlist);
    Ok(())
}

/// `mailers`.
pub fn mailers(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    rules::open_mailers(scope, line)?;
    scope.section = Section::Other(Group::Mailers);
    Ok(())
}

/// `http-errors`.
pub fn http_errors(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    rules::open_http_errors(scope, line)?;
    scope.section = Section::Other(Group::HttpErrors);
    Ok(())
}
