//! `server` and `default-server` lines.

mod resolution;
mod settings;

use std::{sync::Arc, time::Duration};

use balance::{Observe, OnError};

use crate::{
    address::{self, Accepts, Family, Host, Port},
    diagnostics::{Prefix, Problem},
    keywords::tls::{self, TlsWords},
    lexer::is_name_character,
    line::Line,
    missing,
    model::{Location, ProxyOptions, ResolveOptions, Server, ServerAddress, ServerPort, WebSocketProtocol},
    scope::{Scope, ServerDraft},
    table::{Group, Parse},
};

pub use resolution::{init_addr, resolve_net, resolve_opts, resolve_prefer, resolvers};
pub use settings::{
    addr, agent_addr, flag, id, log_proto, namespace, number, observe, on, protocol, proxy_options, socks4, source,
    text, time, usesrc, websocket,
};

/// Largest weight.
pub const WEIGHT_MAX: u32 = 256;

/// Most servers of a configuration.
pub const SERVERS_MAX: usize = 100_000;

/// What is kept of a server until all names are known.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// `track`: a server, or backend and server.
    pub track: Option<String>,
    /// `resolvers`: the name of a section.
    pub resolvers: Option<String>,
    /// `id` was given.
    pub is_id_forced: bool,
    /// It is `default-server`.
    pub is_default: bool,
    /// The line.
    pub line: Option<Line>,
    /// Words about TLS.
    pub tls: TlsWords,
}

impl Default for ServerDraft {
    /// HAProxy's defaults.
    fn default() -> Self {
        let server = Server {
            location: Location::default(),
            name: Arc::default(),
            id: 0,
            fqdn: None,
            service: None,
            service_host: None,
            resolvers: None,
            resolve: ResolveOptions::default(),
            address: ServerAddress::Unresolved,
            port: ServerPort::Same,
            weight: 1,
            backup: false,
            disabled: false,
            maxconn: 0,
            minconn: 0,
            maxqueue: 0,
            slowstart: Duration::ZERO,
            cookie: None,
            redir: None,
            check: false,
            inter: Duration::from_secs(2),
            fastinter: None,
            downinter: None,
            rise: 2,
            fall: 3,
            window: None,
            threshold: None,
            initial: None,
            check_port: None,
            check_address: None,
            check_send_proxy: false,
            agent_check: false,
            agent_inter: Duration::from_secs(2),
            agent_port: None,
            agent_address: None,
            agent_send: Vec::new(),
            observe: Observe::None,
            on_error: OnError::default(),
            error_limit: 10,
            on_marked_down_shutdown_sessions: false,
            on_marked_up_shutdown_backup_sessions: false,
            send_proxy: None,
            proxy_options: ProxyOptions::default(),
            socks4: None,
            check_via_socks4: false,
            namespace: None,
            source: None,
            pool_max_conn: -1,
            pool_purge_delay: Duration::from_secs(5),
            pool_low_conn: 0,
            max_reuse: -1,
            init_addr: Vec::new(),
            prefer_ipv4: false,
            tcp_user_timeout: None,
            tfo: false,
            non_stick: false,
            track: None,
            is_referenced: false,
            is_id_forced: false,
            octet_count: false,
            accept_legacy_http_response: false,
            tls: None,
            protocol: None,
            check_protocol: None,
            websocket: WebSocketProtocol::default(),
        };
        Self { server, pending: Pending::default() }
    }
}

impl Server {
    /// A server at an address of which nothing else is known: where `dispatch` and `option transparent` lead.
    #[must_use]
    pub fn at(address: ServerAddress, port: ServerPort) -> Self {
        Self { address, port, ..ServerDraft::default().server }
    }
}

/// `server`. A server whose line is wrong is declared all the same, so that other lines may refer to it.
pub fn server(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let place = |problem: Problem| problem.prefix(Prefix::Place);
    let (name, address) = (line.word(1), line.word(2));
    if address.is_empty() {
        let message = "'server' expects <name> and <addr>[:<port>] as arguments.";
        let expected = "a name and an address, as 'server web1 192.0.2.1:80 check'";
        return Err(place(Problem::new(message).at(line.len()).expected(expected)));
    }
    if let Some(character) = name.chars().find(|character| !is_name_character(*character)) {
        let message = format!("character '{character}' is not permitted in server name '{name}'.");
        let offset = name.find(character).unwrap_or(0);
        return Err(place(Problem::new(message).within(line, 1, offset..offset + character.len_utf8())));
    }
    add(scope, line, 2, &[name.to_owned()])
}

/// `server-template`.
pub fn template(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let place = |problem: Problem| problem.prefix(Prefix::Place);
    let (prefix, range) = (line.word(1), line.word(2));
    if line.word(3).is_empty() {
        let message = "'server-template' expects <prefix> <nb | range> <addr>[:<port>] as arguments.";
        let expected = "as in 'server-template web 1-3 web.example.com:80 check'";
        return Err(place(Problem::new(message).at(line.len()).expected(expected)));
    }
    if let Some(character) = prefix.chars().find(|character| !is_name_character(*character)) {
        let message = format!("character '{character}' is not permitted in server-template prefix '{prefix}'.");
        return Err(place(Problem::new(message).at(1)));
    }
    let (low, high) = match range.split_once('-') {
        Some((low, high)) => (leading_number(low), leading_number(high)),
        None => (1, leading_number(range)),
    };
    if high < low {
        let message = format!("Wrong server-template number or range arg '{range}'.");
        return Err(place(Problem::new(message).at(2).expected("a number, or two as in 1-3")));
    }
    let numbers = (low..=high).take(SERVERS_MAX + 1);
    let names: Vec<String> = numbers.map(|number| format!("{prefix}{number}")).collect();
    add(scope, line, 3, &names)
}

/// The number that a text begins with, or 0.
fn leading_number(text: &str) -> u32 {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Adds servers of these names, with the address at `index` and the words after it.
fn add(scope: &mut Scope<'_>, line: &Line, index: usize, names: &[String]) -> Result<(), Problem> {
    let Some(name) = names.first() else { return Ok(()) };
    if scope.state.simple.servers + names.len() > SERVERS_MAX {
        let message = format!("too many servers (maximum is {SERVERS_MAX} in all).");
        return Err(Problem::new(message).at(0).prefix(Prefix::Place));
    }
    scope.state.simple.servers += names.len();
    let mut draft = scope.proxy().simple.default_server.clone();
    draft.pending.is_default = false;
    draft.pending.line = Some(line.clone());
    draft.server.name = name.as_str().into();
    draft.server.location = line.location();
    let outcome = set_address(scope, line, index, &mut draft).and_then(|()| words(scope, line, index + 1, &mut draft));
    let outcome = outcome.and_then(|()| {
        if draft.server.check && draft.pending.track.is_some() {
            return Err(Problem::new("unable to enable checks and tracking at the same time!"));
        }
        if let Some(message) = missing::agent_port(&draft.server) {
            return Err(Problem::new(message).expected("'agent-port <port>'"));
        }
        warn_of_protocols_without_tls(scope, line, index, &draft);
        draft.server.tls = tls::server::finish(scope, &draft)?;
        Ok(())
    });
    if outcome.is_err() {
        // What it tracks is not worth a further message.
        draft.pending.track = None;
    }
    let proxy = scope.proxy();
    let owner = Arc::clone(&proxy.proxy.name);
    for name in names {
        // Only the first one has the number of the line.
        let is_first = name == names.first().unwrap_or(name);
        let is_id_forced = draft.pending.is_id_forced && is_first;
        proxy.simple.servers.push(Pending { is_id_forced, ..draft.pending.clone() });
        proxy.proxy.servers.push(Server { name: name.as_str().into(), ..draft.server.clone() });
    }
    outcome.map_err(|problem| named(problem, &format!("server {owner}/{}", line.word(1))))
}

/// HAProxy is silent about `alpn` on a line where nothing negotiates it. `address` is the place of the address.
fn warn_of_protocols_without_tls(scope: &mut Scope<'_>, line: &Line, address: usize, draft: &ServerDraft) {
    let tls = &draft.pending.tls;
    let Some(protocols) = tls.protocols.as_ref().filter(|_| !tls.is_on && !tls.of_server.check) else { return };
    let Some(at) = (address + 1..line.len()).find(|at| matches!(line.word(*at), "alpn" | "npn")) else { return };
    let word = line.word(at);
    let message = format!("'{word}' has no effect: protocols are negotiated in TLS, and the line has no 'ssl'.");
    let speaks_h2 = protocols.iter().any(|protocol| protocol == b"h2");
    let instead = if speaks_h2 { ", or 'proto h2' for HTTP/2 without TLS" } else { "" };
    scope.warn(line, Problem::new(message).at(at).expected(format!("'ssl alpn {}'{instead}", line.word(at + 1))));
}

/// `default-server`.
pub fn default_server(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mut draft = scope.proxy().simple.default_server.clone();
    draft.pending.is_default = true;
    let outcome = words(scope, line, 1, &mut draft);
    scope.proxy().simple.default_server = draft;
    outcome.map_err(|problem| problem.prefix(Prefix::Place))
}

/// The problem as one of the server.
fn named(problem: Problem, server: &str) -> Problem {
    let message = format!("'{server}' : {}", problem.message);
    Problem { message, ..problem }.prefix(Prefix::Place)
}

/// Reads the words of a line from one on.
pub(crate) fn words(scope: &mut Scope<'_>, line: &Line, from: usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let mut index = from;
    while !line.word(index).is_empty() {
        let word = index;
        let keyword = scope.lookup(line, word, Group::Server)?;
        match keyword.parse {
            Parse::Server(parser) => parser(scope, line, &mut index, draft).map_err(|problem| {
                let word = problem.word.unwrap_or(word);
                problem.at(word)
            })?,
            _ => index += 1 + keyword.arguments.split_ascii_whitespace().count(),
        }
    }
    Ok(())
}

pub(crate) fn set_address(
    scope: &mut Scope<'_>,
    line: &Line,
    index: usize,
    draft: &mut ServerDraft,
) -> Result<(), Problem> {
    let parsed = address::parse(line.word(index), Accepts::SERVER, &scope.state.global.environment)
        .map_err(|message| Problem::new(message).at(index))?;
    draft.server.port = match parsed.port {
        Port::None | Port::Range(0, _) => ServerPort::Same,
        Port::Range(port, _) => ServerPort::Fixed(port),
        Port::Offset(offset) => ServerPort::Offset(offset),
    };
    draft.server.address = match parsed.host {
        Host::Ip(ip) => ServerAddress::Ip(ip),
        Host::Unix(path) => ServerAddress::Unix(path),
        Host::Abstract(name) => ServerAddress::Abstract(name),
        Host::Name(name, _) if name.starts_with('_') => {
            // The port comes with the record.
            draft.server.port = ServerPort::Fixed(0);
            draft.server.service = Some(name);
            ServerAddress::Unresolved
        }
        Host::Name(name, family) => {
            draft.server.fqdn = Some(name);
            draft.server.prefer_ipv4 |= family == Some(Family::V4);
            ServerAddress::Unresolved
        }
        Host::Descriptor(_) => ServerAddress::Unresolved,
    };
    Ok(())
}

/// The argument of the word at `index`; moves the index past both.
fn argument<'a>(line: &'a Line, index: &mut usize, what: &str) -> Result<&'a str, Problem> {
    let word = *index;
    *index += 2;
    match line.word(word + 1) {
        "" => Err(Problem::new(format!("'{}' expects {what}", line.word(word))).at(word)),
        value => Ok(value),
    }
}
