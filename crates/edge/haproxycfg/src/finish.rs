//! What is done once all sections have been read: names are resolved, numbers given, and HAProxy's checks of the whole
//! configuration run.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use sample::ReferenceKind;

use crate::{
    diagnostics::{Diagnostic, Prefix, Problem, Severity},
    keywords::{acme, cache, fcgi_app, option, peers, program, resolvers},
    line::Line,
    missing,
    model::{
        BindAddress, CheckAction, CheckPort, CheckProtocol, Config, HttpReuse, InitAddr, LoadServerState, Mode, Proxy,
        ProxyIndex, ProxyKind, Server, ServerAddress, ServerIndex, ServerPort, ServerProtocol,
    },
    rules,
    scope::{NamedReference, Scope, Section},
};

/// HAProxy's word for a mode in messages.
#[must_use]
pub fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Tcp => "tcp",
        Mode::Http => "http",
    }
}

/// Resolves and checks everything.
pub fn finish(scope: &mut Scope<'_>) {
    number_proxies(scope);
    rules::finish_shared(scope);
    resolvers::make_default(scope);
    for index in 0..scope.state.proxies.len() {
        scope.section = Section::Proxy(index);
        number_servers(scope);
        find_resolvers(scope);
        // A proxy that is not started may refer to what is not there.
        if scope.proxy().proxy.disabled {
            continue;
        }
        resolve_default_backend(scope, index);
        rules::finish(scope);
        rules::finish_accelerator(scope);
        rules::finish_shared_cache(scope);
        resolve_tracks(scope, index);
        check_ports(scope);
        check_proxy(scope);
        check_cookies(scope);
        check_fast_open(scope);
        check_server_protocols(scope);
    }
    scope.section = Section::None;
    peers::finish(scope);
    acme::finish(scope);
    program::finish(scope);
    cache::finish(scope);
    fcgi_app::finish(scope);
    check_tracks(scope);
    check_references(scope);
    check_pattern_changes(scope);
    scope.state.patterns.finish();
}

/// What is to be spoken to a server and to its checks must be what the proxy and the kind of check can speak.
fn check_server_protocols(scope: &mut Scope<'_>) {
    let kind = scope.kind_word();
    let draft = scope.proxy();
    let mut problems = Vec::new();
    for (server, pending) in draft.proxy.servers.iter().zip(&draft.simple.servers) {
        let Some(line) = &pending.line else { continue };
        for (keyword, message) in unusable_protocols(kind, &draft.proxy, server) {
            problems.push((line.clone(), keyword, message));
        }
    }
    for (line, keyword, message) in problems {
        let word = (2..line.len()).find(|word| line.word(word - 1) == keyword).unwrap_or(1);
        let expected = "h1, h2, fcgi, scgi or uwsgi in HTTP mode and for HTTP checks, none otherwise";
        scope.alert(&line, Problem::new(message).prefix(Prefix::Nothing).at(word).expected(expected));
    }
}

/// What is wrong with `proto` and `check-proto` of a server, in HAProxy's words, with the keyword.
pub fn unusable_protocols(kind: &str, proxy: &Proxy, server: &Server) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let is_http = |protocol: ServerProtocol| protocol != ServerProtocol::None;
    if let Some(protocol) = server.protocol
        && is_http(protocol) != (proxy.mode == Mode::Http)
    {
        let message = format!(
            "{kind} '{}' : MUX protocol '{}' is not usable for server '{}' at [{}:{}].",
            proxy.name,
            protocol.word(),
            server.name,
            server.location.file,
            server.location.line
        );
        found.push(("proto", message));
    }
    let checks_http = proxy.check.protocol == CheckProtocol::Http;
    if let Some(protocol @ (ServerProtocol::Scgi | ServerProtocol::Uwsgi)) = server.protocol
        && server.check
        && server.check_protocol.is_none()
        && checks_http
    {
        let message = format!(
            "{kind} '{}' : HTTP checks do not speak '{}' with server '{}': without 'option httpchk' they connect, and \
             'check-proto h1' with 'port' asks a socket that speaks HTTP.",
            proxy.name,
            protocol.word(),
            server.name
        );
        found.push(("proto", message));
    }
    if server.check
        && let Some(protocol) = server.check_protocol
        && is_http(protocol) != checks_http
    {
        let message = format!(
            "config: {kind} '{}': server '{}' uses an incompatible MUX protocol for the selected check type",
            proxy.name, server.name
        );
        found.push(("check-proto", message));
    }
    found
}

/// What went with the first packet is lost when that is.
fn check_fast_open(scope: &mut Scope<'_>) {
    let proxy = &scope.proxy().proxy;
    if proxy.retry_on.covers_no_answer() {
        return;
    }
    let message = "server has tfo activated, the backend should be configured with at least 'conn-failure', \
                   'empty-response' and 'response-timeout' or we wouldn't be able to retry the connection on failure.";
    for _ in 0..proxy.servers.iter().filter(|server| server.tfo).count() {
        scope.whole(Severity::Warning, message);
    }
}

/// Servers with one cookie: a client does not come back to the one that it had.
fn check_cookies(scope: &mut Scope<'_>) {
    let mut seen = HashSet::new();
    let servers = std::mem::take(&mut scope.proxy().proxy.servers);
    for server in servers.iter().filter(|server| !server.backup) {
        if server.cookie.as_ref().is_some_and(|cookie| !seen.insert(cookie.as_slice())) {
            let message = format!(
                "'server {}' : same cookie value is set for a previous non-backup server in the same backend, it may \
                 break connection persistence",
                server.name
            );
            scope.diagnostics.push(Diagnostic {
                prefix: Prefix::Parsing,
                location: Some(server.location.clone()),
                ..Diagnostic::whole(Severity::Diagnostic, message)
            });
        }
    }
    scope.proxy().proxy.servers = servers;
}

/// Warns of rules that change a list of patterns that nothing uses: HAProxy runs them without any effect.
fn check_pattern_changes(scope: &mut Scope<'_>) {
    for (path, line, index) in std::mem::take(&mut scope.state.pattern_changes) {
        if scope.state.patterns.of_file(&path).is_none() {
            let message = format!("no map and no ACL uses the file '{path}', so this rule changes nothing.");
            let problem = scope
                .near(Problem::new(message).at(index), &path, || scope.state.patterns.paths().map(Arc::from).collect());
            scope.warn(&line, problem);
        }
    }
}

/// Gives each proxy without `id` the next free number; those that are disabled count, so that nothing is renumbered.
fn number_proxies(scope: &mut Scope<'_>) {
    let forced: HashSet<u32> =
        scope.state.proxies.iter().filter(|draft| draft.simple.is_id_forced).map(|draft| draft.proxy.id).collect();
    let stats_at = scope.state.simple.proxies_before_stats;
    let mut next = 1;
    for (place, draft) in scope.state.proxies.iter_mut().enumerate() {
        // The proxy of the stats socket stands between the others, and has number 0.
        if stats_at == Some(place) {
            next += 1;
        }
        draft.proxy.is_id_forced = draft.simple.is_id_forced;
        if !draft.simple.is_id_forced {
            while forced.contains(&next) {
                next += 1;
            }
            draft.proxy.id = next;
        }
        next += 1;
    }
}

/// Numbers servers like proxies, and refuses two of the same name unless their numbers were given.
fn number_servers(scope: &mut Scope<'_>) {
    let draft = scope.proxy();
    let pending = std::mem::take(&mut draft.simple.servers);
    let servers = &mut draft.proxy.servers;
    let forced: HashSet<u32> =
        servers.iter().zip(&pending).filter(|(_, pending)| pending.is_id_forced).map(|(server, _)| server.id).collect();
    let mut next = 1;
    let mut names: HashMap<Arc<str>, u32> = HashMap::new();
    let mut duplicates = Vec::new();
    for (server, pending) in servers.iter_mut().zip(&pending) {
        server.is_id_forced = pending.is_id_forced;
        if !pending.is_id_forced {
            if let Some(first) = names.get(&server.name) {
                duplicates.push((pending.line.clone(), Arc::clone(&server.name), *first));
            } else {
                names.insert(Arc::clone(&server.name), server.location.line);
            }
            while forced.contains(&next) {
                next += 1;
            }
            server.id = next;
        }
        next += 1;
        // A ceiling below the floor is a ceiling at the floor; without a floor the limit does not move.
        if server.minconn > server.maxconn {
            server.maxconn = server.minconn;
        } else if server.minconn == 0 {
            server.minconn = server.maxconn;
        }
    }
    draft.simple.servers = pending;
    let (kind, owner) = (scope.kind_word(), Arc::clone(&scope.proxy().proxy.name));
    if scope.proxy().proxy.disabled {
        return;
    }
    for (line, name, first) in duplicates {
        let Some(line) = line else { continue };
        let message = format!(
            "{kind} '{owner}', another server named '{name}' was already defined at line {first}, please use distinct \
             names."
        );
        scope.alert(&line, Problem::new(message).at(1));
    }
}

/// Finds the `resolvers` sections of servers, and gives those without `init-addr` HAProxy's: with resolvers a name that is
/// not known at the start may be known later.
fn find_resolvers(scope: &mut Scope<'_>) {
    let kind = scope.kind_word();
    let mut problems = Vec::new();
    for index in 0..scope.proxy().proxy.servers.len() {
        let pending = scope.proxy().simple.servers.get(index).cloned().unwrap_or_default();
        let found = pending.resolvers.as_deref().map(|name| resolvers::named(scope, name));
        let owner = Arc::clone(&scope.proxy().proxy.name);
        let Some(server) = scope.proxy().proxy.servers.get_mut(index) else { continue };
        server.resolvers = found.flatten();
        if server.init_addr.is_empty() {
            server.init_addr = vec![InitAddr::Last, InitAddr::Libc];
            if pending.resolvers.is_some() {
                server.init_addr.push(InitAddr::None);
            }
        }
        if let (Some(None), Some(name), Some(line)) = (found, pending.resolvers, pending.line) {
            let message =
                format!("{kind} '{owner}', server '{}': unable to find required resolvers '{name}'", server.name);
            problems.push((line, name, message));
        }
    }
    let known: Vec<Arc<str>> = scope.state.resolvers.iter().map(|section| Arc::clone(&section.name)).collect();
    for (line, name, message) in problems {
        let word = (1..line.len()).find(|word| line.word(word - 1) == "resolvers").unwrap_or(1);
        let problem = Problem::new(message).prefix(Prefix::Nothing).at(word);
        scope.alert(&line, problem.nearest(&name, known.iter().map(|name| &**name)));
    }
}

fn proxy_at<'a>(scope: &'a Scope<'_>, index: ProxyIndex) -> Option<&'a Proxy> {
    scope.state.proxies.get(usize::try_from(index.0).ok()?).map(|draft| &draft.proxy)
}

fn resolve_default_backend(scope: &mut Scope<'_>, index: usize) {
    let Some((name, line)) = scope.proxy().simple.default_backend.clone() else { return };
    let own = &scope.proxy().proxy;
    let (own_name, own_mode, own_kind, place) = (own.name.clone(), own.mode, own.kind, own.location.clone());
    let has_servers = !own.servers.is_empty();
    let whole = |message: String| Problem::new(message).prefix(Prefix::Nothing).at(1);
    let Some(target) = scope.backend_named(&name) else {
        let message = format!("Proxy '{own_name}': unable to find required default_backend: '{name}'");
        let problem = scope.near(whole(message), &name, || backend_names(scope));
        scope.alert(&line, problem);
        return;
    };
    if usize::try_from(target.0) == Ok(index) {
        let message = format!("Proxy '{own_name}': loop detected for default_backend: '{name}'.");
        scope.alert(&line, whole(message));
        return;
    }
    let Some(other) = proxy_at(scope, target) else { return };
    if other.mode != own_mode && !(own_mode == Mode::Tcp && other.mode == Mode::Http) {
        let message = format!(
            "{} {} '{own_name}' ({}:{}) tries to use incompatible {} {} '{}' ({}:{}) as its default backend (see \
             'mode').",
            mode_word(own_mode),
            own_kind.word(),
            place.file,
            place.line,
            mode_word(other.mode),
            other.kind.word(),
            other.name,
            other.location.file,
            other.location.line
        );
        scope.alert(&line, whole(message));
        return;
    }
    scope.proxy().proxy.default_backend = Some(target);
    if has_servers {
        let message = format!(
            "In proxy '{own_name}', the 'default_backend' rule always has precedence over the servers, which will \
             never be used."
        );
        scope.warn(&line, whole(message));
    }
}

fn backend_names(scope: &Scope<'_>) -> Vec<Arc<str>> {
    let backends = scope.state.proxies.iter().filter(|draft| draft.proxy.kind.has_backend());
    backends.map(|draft| Arc::clone(&draft.proxy.name)).collect()
}

/// `track` of servers, by the rules of HAProxy's `srv_apply_track`.
fn resolve_tracks(scope: &mut Scope<'_>, index: usize) {
    let own_name = Arc::clone(&scope.proxy().proxy.name);
    for server in 0..scope.proxy().simple.servers.len() {
        let pending = scope.proxy().simple.servers.get(server).cloned().unwrap_or_default();
        let (Some(track), Some(line)) = (pending.track, pending.line) else { continue };
        let server_name = scope.proxy().proxy.servers.get(server).map(|server| Arc::clone(&server.name));
        let server_name = server_name.unwrap_or_default();
        let problem = |message: String| {
            let word = (0..line.len()).find(|word| line.word(*word) == track).unwrap_or(1);
            Problem::new(format!("'server {own_name}/{server_name}' : {message}")).prefix(Prefix::Place).at(word)
        };
        let (backend, name) = match track.split_once('/') {
            Some((backend, name)) => (scope.backend_named(backend).ok_or(backend), name),
            None => (u32::try_from(index).map(ProxyIndex).map_err(|_| ""), &*track),
        };
        let backend = match backend {
            Ok(backend) => backend,
            Err(backend) => {
                scope.alert(&line, problem(format!("unable to find required proxy '{backend}' for tracking.")));
                continue;
            }
        };
        let Some(target) = scope.server_named(backend, name) else {
            scope.alert(&line, problem(format!("unable to find required server '{name}' for tracking.")));
            continue;
        };
        if let Some(server) = scope.proxy().proxy.servers.get_mut(server) {
            server.track = Some((backend, target));
        }
        scope.refer_to(backend, target);
    }
}

/// A tracked server must be checked or track another one, and no chain may come back to its beginning.
fn check_tracks(scope: &mut Scope<'_>) {
    let mut problems = Vec::new();
    let mut walk = TrackWalk::default();
    for (index, draft) in scope.state.proxies.iter().enumerate() {
        let own = ProxyIndex(u32::try_from(index).unwrap_or(u32::MAX));
        for (position, (server, pending)) in draft.proxy.servers.iter().zip(&draft.simple.servers).enumerate() {
            let (Some((backend, target)), Some(line)) = (server.track, &pending.line) else { continue };
            let Some(other) = proxy_at(scope, backend) else { continue };
            let Some(tracked) = usize::try_from(target.0).ok().and_then(|target| other.servers.get(target)) else {
                continue;
            };
            let name = format!("{}/{}", other.name, tracked.name);
            let node = (own, ServerIndex(u32::try_from(position).unwrap_or(u32::MAX)));
            let message = if !tracked.check && !tracked.agent_check && tracked.track.is_none() {
                format!("unable to use {name} for tracking as it does not have any check nor agent enabled.")
            } else if walk.is_in_loop(scope, node) {
                format!("unable to track {name} as it belongs to a tracking chain looping back to {name}.")
            } else if own != backend && draft.proxy.check.disable_on_404 != other.check.disable_on_404 {
                format!("unable to use {name} for tracking: disable-on-404 option inconsistency.")
            } else {
                continue;
            };
            problems.push((line.clone(), format!("'server {}/{}' : {message}", draft.proxy.name, server.name)));
        }
    }
    for (line, message) in problems {
        scope.alert(&line, Problem::new(message).prefix(Prefix::Place).at(1));
    }
}

type TrackNode = (ProxyIndex, ServerIndex);

/// Finds the servers that are on a loop of `track`, each server being visited once.
#[derive(Default)]
struct TrackWalk {
    known: HashMap<TrackNode, bool>,
}

impl TrackWalk {
    fn is_in_loop(&mut self, scope: &Scope<'_>, from: TrackNode) -> bool {
        let mut path: Vec<TrackNode> = Vec::new();
        let mut places: HashMap<TrackNode, usize> = HashMap::new();
        let mut next = Some(from);
        let mut loop_start = None;
        while let Some(node) = next.filter(|node| !self.known.contains_key(node)) {
            if let Some(place) = places.get(&node) {
                loop_start = Some(*place);
                break;
            }
            places.insert(node, path.len());
            path.push(node);
            let server = proxy_at(scope, node.0).zip(usize::try_from(node.1.0).ok());
            next = server.and_then(|(proxy, index)| proxy.servers.get(index)?.track);
        }
        for (place, node) in path.into_iter().enumerate() {
            self.known.insert(node, loop_start.is_some_and(|start| place >= start));
        }
        self.known.get(&from).copied().unwrap_or(false)
    }
}

/// A server that is checked needs a port for it: its own, `port`, or that of the first step.
fn check_ports(scope: &mut Scope<'_>) {
    let draft = scope.proxy();
    let proxy = &draft.proxy;
    if !proxy.kind.has_backend() {
        return;
    }
    let mut problems = Vec::new();
    for (server, pending) in proxy.servers.iter().zip(&draft.simple.servers) {
        if let (Some(message), Some(line)) = (missing_check_port(proxy, server), &pending.line) {
            problems.push((line.clone(), message));
        }
    }
    for (line, message) in problems {
        let problem = Problem::new(message).prefix(Prefix::Nothing).at(2);
        scope.alert(&line, problem.expected("a port in the address, or 'port <port>'"));
    }
}

/// What is wrong with a checked server that has no port to be checked at.
#[must_use]
pub fn missing_check_port(proxy: &Proxy, server: &Server) -> Option<String> {
    let has_port = matches!(server.port, ServerPort::Fixed(_)) || server.check_port.is_some();
    // An address that stands for that of the client's connection is not looked at.
    let is_inet = matches!(server.check_address.as_ref().unwrap_or(&server.address),
        ServerAddress::Ip(address) if !address.is_unspecified());
    if !server.check || !is_inet || has_port {
        return None;
    }
    let connections = proxy.check.steps.iter().filter_map(|step| match &step.action {
        CheckAction::Connect(connect) => Some(connect),
        _ => None,
    });
    // NOTE: as in HAProxy, a port that an expression gives is none.
    let have_ports: Vec<bool> = connections.map(|connect| matches!(connect.port, Some(CheckPort::Fixed(_)))).collect();
    let lacks = match have_ports.first() {
        None => "nor check port",
        Some(false) => "nor check port nor tcp_check rule 'connect' with port information",
        Some(true) if have_ports.iter().all(|has_port| *has_port) => return None,
        Some(true) => "nor check port, and a tcp_check rule 'connect' with no port information",
    };
    let kind = proxy.kind.word();
    Some(format!("config: {kind} '{}': server '{}' has neither service port {lacks}.", proxy.name, server.name))
}

/// HAProxy's checks of a proxy as a whole.
fn check_proxy(scope: &mut Scope<'_>) {
    let draft = scope.proxy();
    let is_balanced = draft.simple.is_balanced;
    let proxy = &mut draft.proxy;
    let (name, kind) = (Arc::clone(&proxy.name), proxy.kind.word());
    let mut warnings = Vec::new();
    let mut alerts = Vec::new();
    if proxy.kind.has_frontend() && proxy.binds.is_empty() {
        warnings.push(format!(
            "{kind} '{name}' has no 'bind' directive. Please declare it as a backend if this was intended."
        ));
    }
    if proxy.kind.has_backend() && is_balanced {
        if proxy.options.transparent {
            alerts.push(format!("{kind} '{name}' cannot use both transparent and balance mode."));
        } else if proxy.dispatch.take().is_some() {
            warnings.push(format!("dispatch address of {kind} '{name}' will be ignored in balance mode."));
        }
    }
    if proxy.dispatch.is_some() {
        proxy.options.transparent = false;
    }
    let timeouts = &mut proxy.timeouts;
    let lacks_server = timeouts.server.is_none() && (proxy.mode == Mode::Http || timeouts.tunnel.is_none());
    if (proxy.kind.has_frontend() && timeouts.client.is_none())
        || (proxy.kind.has_backend() && !proxy.servers.is_empty() && (timeouts.connect.is_none() || lacks_server))
    {
        warnings.push(missing::timeouts(kind, &name));
    }
    // Long ago these two were the timeout of connections.
    timeouts.tarpit = timeouts.tarpit.or(timeouts.connect);
    if proxy.kind.has_backend() {
        timeouts.queue = timeouts.queue.or(timeouts.connect);
    }
    if proxy.mode == Mode::Tcp {
        check_tcp(proxy, kind, &mut warnings, &mut alerts);
    }
    let loads_global = proxy.load_server_state == LoadServerState::Global;
    if loads_global && scope.state.global.server_state_file.is_none() {
        warnings.push(format!(
            "backend '{name}' configured to load server state file from global section 'server-state-file' directive. \
             Unfortunately, 'server-state-file' is not set!"
        ));
    }
    let line = scope.proxy().line.clone();
    for (severity, messages) in [(Severity::Alert, alerts), (Severity::Warning, warnings)] {
        for message in messages {
            push_about(scope, severity, line.as_ref(), message);
        }
    }
}

/// A message about a section as a whole: without a place as in HAProxy, though the section's line is shown.
fn push_about(scope: &mut Scope<'_>, severity: Severity, line: Option<&Line>, message: String) {
    scope.diagnostics.push(match line {
        Some(line) => Diagnostic::on_line(severity, line, Problem::new(message).prefix(Prefix::Nothing).at(1)),
        None => Diagnostic::whole(severity, message),
    });
}

fn check_tcp(proxy: &mut Proxy, kind: &str, warnings: &mut Vec<String>, alerts: &mut Vec<String>) {
    let name = Arc::clone(&proxy.name);
    for bind in proxy.binds.iter().filter(|bind| matches!(bind.address, BindAddress::Quic(_))) {
        let (place, written) = (&bind.location, bind.address.written());
        alerts.push(format!(
            "{kind} '{name}' : 'bind {written}' at [{}:{}] needs 'mode http', as HTTP/3 is spoken over QUIC.",
            place.file, place.line
        ));
    }
    for server in &mut proxy.servers {
        if server.redir.is_some() {
            alerts.push(format!("{kind} '{name}' : server cannot have cookie or redirect prefix in non-HTTP mode."));
        }
        if server.cookie.take().is_some() {
            warnings.push(format!(
                "{kind} '{name}' : ignoring cookie for server '{}' as HTTP mode is disabled.",
                server.name
            ));
        }
    }
    let upgrades =
        proxy.tcp_request_content.iter().any(|rule| matches!(rule.action, crate::model::TcpAction::SwitchModeHttp));
    if upgrades {
        return;
    }
    proxy.http_reuse = HttpReuse::Never;
    let mut ignored = Vec::new();
    if proxy.options.forwardfor.take().is_some() {
        ignored.push("forwardfor");
    }
    if proxy.options.originalto.take().is_some() {
        ignored.push("originalto");
    }
    for (option, is_on) in option::http_only(&mut proxy.options) {
        if std::mem::take(is_on) {
            ignored.push(option);
        }
    }
    warnings.extend(
        ignored
            .into_iter()
            .map(|option| format!("'option {option}' ignored for {kind} '{name}' as it requires HTTP mode.")),
    );
}

/// Names in expressions: frontends, backends, servers and user lists that they ask about.
fn check_references(scope: &mut Scope<'_>) {
    for NamedReference { reference, line, section } in std::mem::take(&mut scope.state.references) {
        scope.section = section;
        let is_used = match section {
            Section::Defaults(index) => {
                scope.state.simple.usage.get(index).is_some_and(|usage| usage.by_name || usage.by_place)
            }
            _ => !scope.proxy().proxy.disabled,
        };
        if !is_used {
            continue;
        }
        let own = Arc::clone(&scope.proxy().proxy.name);
        let name = if reference.name.is_empty() { &*own } else { reference.name.as_str() };
        let (is_known, what) = match reference.kind {
            ReferenceKind::Frontend => {
                (scope.frontend_named(name).is_some(), format!("unable to find frontend '{name}'"))
            }
            ReferenceKind::Backend => (scope.backend_named(name).is_some(), format!("unable to find backend '{name}'")),
            ReferenceKind::Server => {
                let (backend, server) = name.split_once('/').unwrap_or((&own, name));
                let backend_index = scope.backend_named(backend);
                let server_index = backend_index.and_then(|backend| scope.server_named(backend, server));
                if let (Some(backend), Some(server)) = (backend_index, server_index) {
                    scope.refer_to(backend, server);
                }
                let is_known = server_index.is_some();
                let message = match backend_index {
                    Some(_) => format!("unable to find server '{server}' in proxy '{backend}'"),
                    None => format!("unable to find proxy '{backend}'"),
                };
                (is_known, message)
            }
            ReferenceKind::Table if reference.name.is_empty() && matches!(section, Section::Defaults(_)) => {
                let message =
                    format!("table name must be set in arg {} of '{}'.", reference.position, reference.keyword);
                scope.alert(&line, Problem::new(message).at(0));
                continue;
            }
            ReferenceKind::Table => (scope.stick_table_named(name).is_some(), format!("unable to find table '{name}'")),
            ReferenceKind::UserList => {
                (scope.state.userlists.contains_key(name), format!("unable to find userlist '{name}'"))
            }
            ReferenceKind::Group => {
                let (list, group) = name.split_once('/').unwrap_or((name, ""));
                let is_known = scope.state.userlists.get(list).is_some_and(|list| list.groups.contains_key(group));
                (is_known, format!("failed to resolve group '{group}' in userlist '{list}'"))
            }
        };
        // In `defaults` an argument that was left empty means the section itself, which is no proxy and counts nothing.
        if is_known || (name == &*own && matches!(section, Section::Defaults(_))) {
            continue;
        }
        let message = format!("{what} referenced in arg {} of '{}'.", reference.position, reference.keyword);
        let word = (0..line.len()).find(|word| line.word(*word).contains(&reference.keyword)).unwrap_or(0);
        scope.alert(&line, Problem::new(message).at(word));
    }
    scope.section = Section::None;
}

impl Config {
    /// The `fullconn` of a backend: as configured, or a tenth of the connections of the frontends that lead to it, as
    /// HAProxy computes it. `maxconn` is that of the process, which frontends without their own have.
    #[must_use]
    pub fn fullconn(&self, backend: ProxyIndex, maxconn: u32) -> u32 {
        let Some(proxy) = usize::try_from(backend.0).ok().and_then(|index| self.proxies.get(index)) else { return 1 };
        if let Some(fullconn) = proxy.fullconn {
            return fullconn;
        }
        let mut total: u64 = 0;
        for (index, frontend) in self.proxies.iter().enumerate() {
            if frontend.disabled || !frontend.kind.has_frontend() {
                continue;
            }
            let is_own = frontend.kind == ProxyKind::Listen && u32::try_from(index) == Ok(backend.0);
            let leads_here = match frontend.default_backend {
                Some(target) => target == backend,
                None => is_own,
            } || frontend
                .use_backend
                .iter()
                .any(|rule| matches!(rule.target, crate::model::BackendTarget::Static(target) if target == backend));
            if leads_here {
                total += u64::from(frontend.maxconn.unwrap_or(maxconn));
            }
        }
        u32::try_from(total.div_ceil(10)).unwrap_or(u32::MAX).max(1)
    }

    /// Whether anything would listen: HAProxy does not start otherwise. The statistics socket counts.
    #[must_use]
    pub fn has_listener(&self) -> bool {
        !self.global.stats_sockets.is_empty()
            || self.peers.iter().any(|peers| !peers.disabled && peers.bind.is_some())
            || self.proxies.iter().any(|proxy| !proxy.disabled && !proxy.binds.is_empty())
    }
}
