//! `server` and `default-server` lines.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use balance::{Observe, OnError};

use crate::{
    address::{self, Accepts, Family, Host, Port},
    args,
    diagnostics::{Prefix, Problem},
    finish,
    keywords::source,
    line::Line,
    model::{
        InitAddr, Location, Namespace, ProxyOptions, ResolveOptions, SendProxy, Server, ServerAddress, ServerPort,
    },
    parser::is_name_character,
    scope::{Scope, ServerDraft},
    table::{Group, Parse},
    units::Unit,
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
        if let Some(message) = finish::missing_agent_port(&draft.server) {
            return Err(Problem::new(message).expected("'agent-port <port>'"));
        }
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

/// `log-proto`.
pub fn log_proto(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let word = argument(line, index, "legacy or octet-count")?;
    draft.server.octet_count = match word {
        "legacy" => false,
        "octet-count" => true,
        _ => {
            let message = format!("'log-proto' expects one of 'legacy' or 'octet-count' but got '{word}'");
            return Err(Problem::new(message).at(*index - 1).nearest(word, ["legacy", "octet-count"]));
        }
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

/// Words that are on or off.
pub fn flag(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let server = &mut draft.server;
    match line.word(*index) {
        "backup" => server.backup = true,
        "no-backup" => server.backup = false,
        "disabled" => server.disabled = true,
        "enabled" => server.disabled = false,
        "check" => server.check = true,
        "no-check" => server.check = false,
        "agent-check" => server.agent_check = true,
        "no-agent-check" => server.agent_check = false,
        "check-send-proxy" => server.check_send_proxy = true,
        "no-check-send-proxy" => server.check_send_proxy = false,
        // With both, HAProxy writes version 2.
        "send-proxy" => {
            server.send_proxy = server.send_proxy.or(Some(SendProxy::V1));
        }
        "send-proxy-v2" => server.send_proxy = Some(SendProxy::V2),
        "no-send-proxy" => server.send_proxy = server.send_proxy.filter(|version| *version != SendProxy::V1),
        "no-send-proxy-v2" => server.send_proxy = server.send_proxy.filter(|version| *version != SendProxy::V2),
        "tfo" => server.tfo = true,
        "no-tfo" => server.tfo = false,
        "check-via-socks4" => server.check_via_socks4 = true,
        "stick" => server.non_stick = false,
        "non-stick" => server.non_stick = true,
        // What `no-ssl` and its like turn off is not there.
        _ => {}
    }
    *index += 1;
    Ok(())
}

/// Words with a whole number.
pub fn number(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let word = *index;
    argument(line, index, "an integer argument.")?;
    let at = word + 1;
    let keyword = line.word(word);
    let wrong = |message: String| move |problem: Problem| Problem { message, ..problem };
    let most = i32::MAX.unsigned_abs();
    match keyword {
        "weight" => {
            let (name, value) = (&draft.server.name, line.word(at));
            let name = if draft.pending.is_default { "default-server" } else { name };
            let message = format!("weight of server {name} is not within 0 and {WEIGHT_MAX} ({value}).");
            draft.server.weight = args::lenient(scope, line, at, 0..=WEIGHT_MAX).map_err(wrong(message))?;
        }
        "maxconn" => draft.server.maxconn = args::lenient(scope, line, at, 0..=most)?,
        "minconn" => draft.server.minconn = args::lenient(scope, line, at, 0..=most)?,
        "maxqueue" => draft.server.maxqueue = args::lenient(scope, line, at, 0..=most)?,
        "rise" | "fall" | "error-limit" => {
            let message = format!("'{keyword}' has to be > 0.");
            let value = args::lenient(scope, line, at, 1..=most).map_err(wrong(message))?;
            match keyword {
                "rise" => draft.server.rise = value,
                "fall" => draft.server.fall = value,
                _ => draft.server.error_limit = value,
            }
        }
        "port" => {
            let port = args::lenient(scope, line, at, 0..=u16::MAX)?;
            draft.server.check_port = Some(port).filter(|port| *port > 0);
        }
        "agent-port" => {
            let port = args::lenient(scope, line, at, 0..=u16::MAX)?;
            draft.server.agent_port = Some(port).filter(|port| *port > 0);
        }
        "pool-max-conn" => {
            let message = format!("'{keyword}' must be >= -1");
            draft.server.pool_max_conn = args::lenient(scope, line, at, -1..=i32::MAX).map_err(wrong(message))?;
        }
        "pool-low-conn" => draft.server.pool_low_conn = args::lenient(scope, line, at, 0..=most)?,
        _ => draft.server.max_reuse = args::lenient(scope, line, at, -1..=i32::MAX)?,
    }
    Ok(())
}

/// `id`.
pub fn id(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let word = *index;
    if draft.pending.is_default {
        // HAProxy says so and goes on without it.
        *index += 2;
        let message = "'id' option is not accepted in default-server sections";
        scope.warn(line, Problem::new(message).at(word).prefix(Prefix::Place));
        return Ok(());
    }
    if line.word(word + 1).is_empty() {
        return Err(Problem::new("'id' : expects an integer argument").at(word));
    }
    *index += 2;
    let number = args::lenient(scope, line, word + 1, 1..=i32::MAX.unsigned_abs())
        .map_err(|problem| Problem { message: "'id' : custom id has to be > 0".to_owned(), ..problem })?;
    let used = &mut scope.proxy().simple.server_ids;
    if let Some((Location { file, line: at }, name)) = used.get(&number) {
        let message = format!("'id' : custom id {number} already used at {file}:{at} ('server {name}')");
        return Err(Problem::new(message).at(word + 1));
    }
    used.insert(number, (line.location(), Arc::clone(&draft.server.name)));
    draft.server.id = number;
    draft.pending.is_id_forced = true;
    Ok(())
}

/// Words with a time.
pub fn time(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let word = *index;
    let text = argument(line, index, "a delay as argument.")?;
    let keyword = line.word(word);
    let value = args::time_of(scope, line, word + 1, text, keyword, Unit::Millisecond)?;
    let server = &mut draft.server;
    if matches!(keyword, "inter" | "fastinter" | "downinter" | "agent-inter") && value.is_zero() {
        let name = if draft.pending.is_default { "default-server" } else { &server.name };
        let message = format!("invalid value 0 for argument '{keyword}' of server {name}.");
        return Err(Problem::new(message).at(word + 1));
    }
    match keyword {
        "inter" => server.inter = value,
        "agent-inter" => server.agent_inter = value,
        "fastinter" => server.fastinter = Some(value),
        "downinter" => server.downinter = Some(value),
        // HAProxy keeps whole seconds, rounded up.
        "slowstart" => server.slowstart = Duration::from_secs(value.as_millis().div_ceil(1000).try_into().unwrap_or(0)),
        "tcp-ut" => server.tcp_user_timeout = Some(value),
        _ => server.pool_purge_delay = value,
    }
    Ok(())
}

/// `cookie`, `redir`, `track`, `agent-send`.
pub fn text(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    match line.word(*index) {
        "cookie" => {
            argument(line, index, "<value> as argument.")?;
            draft.server.cookie = Some(line.bytes(*index - 1).to_vec());
        }
        "agent-send" => {
            argument(line, index, "a string as argument.")?;
            draft.server.agent_send = line.bytes(*index - 1).to_vec();
        }
        "redir" => {
            argument(line, index, "<prefix> as argument.")?;
            draft.server.redir = Some(line.bytes(*index - 1).to_vec());
        }
        _ => draft.pending.track = Some(argument(line, index, "[<proxy>/]<server> as argument.")?.to_owned()),
    }
    Ok(())
}

/// `addr`.
pub fn addr(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let word = *index;
    let text = argument(line, index, "<ipv4|ipv6> as argument.")?;
    let problem = |message: String| Problem::new(format!("'addr' : {message}")).at(word + 1);
    let parsed = scope.address(text, Accepts::SOURCE).map_err(problem)?;
    if let Port::Range(port @ 1.., _) = parsed.port {
        // `port` says more.
        draft.server.check_port.get_or_insert(port);
    }
    draft.server.check_address = Some(match parsed.host {
        Host::Ip(ip) => ServerAddress::Ip(ip),
        Host::Unix(path) => ServerAddress::Unix(path),
        Host::Abstract(name) => ServerAddress::Abstract(name),
        Host::Name(..) | Host::Descriptor(_) => return Err(problem(format!("invalid address: '{text}'"))),
    });
    Ok(())
}

/// `agent-addr`.
pub fn agent_addr(
    scope: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    draft: &mut ServerDraft,
) -> Result<(), Problem> {
    let word = *index;
    let text = argument(line, index, "an address as argument.")?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| scope.host(bare, None)).ok_or_else(|| {
        let message = format!("parsing agent-addr failed. Check if '{text}' is correct address.");
        Problem::new(message).at(word + 1).expected("an IPv4 or IPv6 address, or a name that has one")
    })?;
    draft.server.agent_address = Some(address);
    Ok(())
}

/// `observe`.
pub fn observe(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let word = *index;
    let value = argument(line, index, "<mode> as argument.")?;
    draft.server.observe = match value {
        "none" => Observe::None,
        "layer4" => Observe::Layer4,
        "layer7" if scope.proxy().proxy.mode != crate::model::Mode::Http => {
            // HAProxy says so and goes on without it.
            let message = "'layer7' can only be used in http proxies.";
            scope.warn(line, Problem::new(message).at(word + 1).prefix(Prefix::Place));
            draft.server.observe
        }
        "layer7" => Observe::Layer7,
        _ => {
            let message = format!("'observe' expects one of 'none', 'layer4', 'layer7' but got '{value}'");
            return Err(Problem::new(message).at(word + 1).nearest(value, ["none", "layer4", "layer7"]));
        }
    };
    Ok(())
}

/// `on-error`, `on-marked-down`, `on-marked-up`.
pub fn on(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let word = *index;
    let keyword = line.word(word);
    let value = line.word(word + 1);
    *index += 2;
    let wrong = |expected: &str, known: &[&'static str]| {
        let message = format!("'{keyword}' expects {expected} but got '{value}'");
        Err(Problem::new(message).at(word + 1).nearest(value, known.iter().copied()))
    };
    let server = &mut draft.server;
    match (keyword, value) {
        ("on-error", "fastinter") => server.on_error = OnError::Fastinter,
        ("on-error", "fail-check") => server.on_error = OnError::FailCheck,
        ("on-error", "sudden-death") => server.on_error = OnError::SuddenDeath,
        ("on-error", "mark-down") => server.on_error = OnError::MarkDown,
        ("on-error", _) => {
            let known = ["fastinter", "fail-check", "sudden-death", "mark-down"];
            return wrong("one of 'fastinter', 'fail-check', 'sudden-death' or 'mark-down'", &known);
        }
        ("on-marked-down", "shutdown-sessions") => server.on_marked_down_shutdown_sessions = true,
        ("on-marked-down", _) => return wrong("'shutdown-sessions'", &["shutdown-sessions"]),
        (_, "shutdown-backup-sessions") => server.on_marked_up_shutdown_backup_sessions = true,
        _ => return wrong("'shutdown-backup-sessions'", &["shutdown-backup-sessions"]),
    }
    Ok(())
}

/// `init-addr`.
pub fn init_addr(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let at = *index + 1;
    *index += 2;
    let mut methods: Vec<InitAddr> = Vec::new();
    for text in line.word(at).split(',').filter(|text| !text.is_empty()) {
        let method = match text {
            "libc" => InitAddr::Libc,
            "last" => InitAddr::Last,
            "none" => InitAddr::None,
            _ => match text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
                Ok(ip) => InitAddr::Ip(ip),
                Err(_) => {
                    let message = format!(
                        "'init-addr' : unknown init-addr method '{text}', supported methods are 'libc', 'last', 'none'."
                    );
                    return Err(Problem::new(message).at(at).nearest(text, ["libc", "last", "none"]));
                }
            },
        };
        if matches!(method, InitAddr::Ip(_)) && methods.iter().any(|method| matches!(method, InitAddr::Ip(_))) {
            let message = format!("'init-addr' : initial address already specified, cannot add '{text}'.");
            return Err(Problem::new(message).at(at));
        }
        methods.push(method);
    }
    draft.server.init_addr = methods;
    Ok(())
}

/// `proto`, `check-proto`, `ws`: HTTP/1 only.
pub fn protocol(_: &mut Scope<'_>, line: &Line, index: &mut usize, _: &mut ServerDraft) -> Result<(), Problem> {
    let word = *index;
    let keyword = line.word(word);
    match argument(line, index, "a protocol as argument.")? {
        "h1" => Ok(()),
        "none" if keyword != "ws" => Ok(()),
        "auto" if keyword == "ws" => Ok(()),
        "h2" => Err(Problem::new(format!("'{keyword} h2' is not supported yet: comes with HTTP/2.")).at(word + 1)),
        "fcgi" if keyword != "ws" => {
            Err(Problem::new(format!("'{keyword} fcgi' is not supported yet: comes with fcgi-app.")).at(word + 1))
        }
        value if keyword == "ws" => {
            Err(Problem::new(format!("'ws' has to be 'auto', 'h1' or 'h2', got '{value}'")).at(word + 1))
        }
        value => Err(Problem::new(format!("'{keyword}' :  unknown MUX protocol '{value}'")).at(word + 1)),
    }
}

/// `resolve-prefer`.
pub fn resolve_prefer(
    _: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    draft: &mut ServerDraft,
) -> Result<(), Problem> {
    let at = *index + 1;
    *index += 2;
    draft.server.prefer_ipv4 = match line.word(at) {
        "ipv4" => true,
        "ipv6" => false,
        _ => return Err(Problem::new("'resolve-prefer' expects either ipv4 or ipv6 as argument.").at(at)),
    };
    Ok(())
}

/// `source`.
pub fn source(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    draft.server.source = Some(source::parse(scope, line, index, true)?);
    Ok(())
}

/// `usesrc` without `source` before it.
pub fn usesrc(_: &mut Scope<'_>, _: &Line, index: &mut usize, _: &mut ServerDraft) -> Result<(), Problem> {
    Err(Problem::new("'usesrc' only allowed after a 'source' statement.").at(*index))
}

/// `resolvers`. The section may come later.
pub fn resolvers(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    draft.pending.resolvers = Some(argument(line, index, "<id> as argument.")?.to_owned());
    Ok(())
}

/// Most networks of `resolve-net`, as in HAProxy.
const NETWORKS_MAX: usize = 5;

/// `resolve-net`.
pub fn resolve_net(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let at = *index + 1;
    let text = argument(line, index, "a list of networks.")?;
    let networks = &mut draft.server.resolve.networks;
    for text in text.split(',').filter(|text| !text.is_empty()) {
        if networks.len() >= NETWORKS_MAX {
            return Err(Problem::new(format!("'resolve-net' exceed {NETWORKS_MAX} networks.")).at(at));
        }
        let problem = || Problem::new(format!("'resolve-net' invalid network '{text}'.")).at(at);
        networks.push(network(text).ok_or_else(|| problem().expected("a network as 10.0.0.0/8 or 2001:db8::/32"))?);
    }
    Ok(())
}

/// A network: an address with a length, or in IPv4 a mask.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, mask) = text.split_once('/').map_or((text, None), |(address, mask)| (address, Some(mask)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match mask {
        None => most,
        Some(mask) if address.is_ipv4() && mask.contains('.') => {
            let mask = mask.parse::<Ipv4Addr>().ok()?.to_bits();
            // A mask that is none leaves a hole.
            u8::try_from(mask.leading_ones()).ok().filter(|_| mask.leading_ones() == mask.count_ones())?
        }
        Some(mask) => mask.parse().ok().filter(|bits| *bits <= most)?,
    };
    Some((address, bits))
}

/// `resolve-opts`.
pub fn resolve_opts(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let at = *index + 1;
    *index += 2;
    for text in line.word(at).split(',').filter(|text| !text.is_empty()) {
        match text {
            "allow-dup-ip" => draft.server.resolve.allow_duplicates = true,
            "prevent-dup-ip" => draft.server.resolve.allow_duplicates = false,
            "ignore-weight" => draft.server.resolve.ignore_weight = true,
            _ => {
                let message = format!(
                    "'resolve-opts' : unknown resolve-opts option '{text}', supported methods are 'allow-dup-ip', \
                     'ignore-weight', and 'prevent-dup-ip'."
                );
                let known = ["allow-dup-ip", "ignore-weight", "prevent-dup-ip"];
                return Err(Problem::new(message).at(at).nearest(text, known));
            }
        }
    }
    Ok(())
}

/// `proxy-v2-options`.
pub fn proxy_options(
    _: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    draft: &mut ServerDraft,
) -> Result<(), Problem> {
    let at = *index + 1;
    *index += 2;
    let options = &mut draft.server.proxy_options;
    for text in line.word(at).split(',') {
        match text {
            "authority" => options.authority = true,
            "crc32c" => options.crc32c = true,
            "unique-id" => options.unique_id = true,
            "ssl" | "cert-cn" | "cert-key" | "cert-sig" | "ssl-cipher" => options.tls = true,
            _ => {
                let known =
                    ["authority", "crc32c", "unique-id", "ssl", "cert-cn", "cert-key", "cert-sig", "ssl-cipher"];
                let message = format!("'{text}' : proxy v2 option not implemented");
                return Err(Problem::new(message).at(at).nearest(text, known));
            }
        }
    }
    Ok(())
}

/// `socks4`.
pub fn socks4(scope: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let at = *index + 1;
    let text = argument(line, index, "<addr>:<port> as argument.")?;
    let problem = |message: String| Problem::new(format!("'socks4 {text}' : {message}")).at(at);
    let accepts = Accepts { port_mandatory: true, ..Accepts::SOURCE };
    let parsed = scope.address(text, accepts).map_err(problem)?;
    let address = parsed.socket().ok_or_else(|| problem(format!("invalid address: '{text}'")))?;
    draft.server.socks4 = Some(address);
    Ok(())
}

/// `namespace`.
pub fn namespace(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    draft.server.namespace = Some(match argument(line, index, "<name> as argument")? {
        "*" => Namespace::FromProxyHeader,
        name => Namespace::Named(name.into()),
    });
    Ok(())
}
