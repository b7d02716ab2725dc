//! Keywords of `defaults`, `frontend`, `backend` and `listen` that are not rules.

use std::{collections::HashMap, sync::Arc, time::Duration};

use balance::RetryOn;

use crate::{
    address::Accepts,
    args,
    diagnostics::Problem,
    keywords::server,
    line::Line,
    model::{HttpReuse, LoadServerState, Location, Mode, TcpKeepalive, Timeouts},
    scope::{Scope, Section, ServerDraft},
    table::Group,
    units::Unit,
};

/// Most sessions that a server gets from one connection of a client, as in HAProxy.
pub const SESSION_SERVERS_DEFAULT: u32 = 5;

/// How often a connection is tried again.
pub const RETRIES_DEFAULT: u32 = 3;

/// What is kept of a proxy until all names are known.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// `default-server`.
    pub default_server: ServerDraft,
    /// Beside each server what is pending of it.
    pub servers: Vec<server::Pending>,
    /// `default_backend`, with its line.
    pub default_backend: Option<(String, Line)>,
    /// `balance` was given, in the section or its defaults.
    pub is_balanced: bool,
    /// `id` was given.
    pub is_id_forced: bool,
    /// Numbers that were given to listening sockets, and where.
    pub bind_ids: HashMap<u32, Location>,
    /// Numbers that were given to servers, where, and their names.
    pub server_ids: HashMap<u32, (Location, Arc<str>)>,
    /// The timeouts as the section got them from its defaults.
    pub inherited_timeouts: Timeouts,
    /// The rate limit as the section got it from its defaults.
    pub inherited_rate_limit: u32,
}

/// `mode`.
pub fn mode(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    scope.proxy().proxy.mode = match line.word(1) {
        "tcp" => Mode::Tcp,
        "http" => Mode::Http,
        "health" => {
            let message = "'mode health' doesn't exist anymore. Please use 'http-request return status 200' instead.";
            return Err(Problem::new(message).at(1));
        }
        word => {
            let message = format!("unknown proxy mode '{word}'.");
            return Err(Problem::new(message).at(1).expected("'http' or 'tcp'"));
        }
    };
    Ok(())
}

/// `id`.
pub fn id(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let number = args::lenient(scope, line, 1, 1..=i32::MAX.unsigned_abs()).map_err(|problem| {
        let message = if line.word(1).is_empty() { problem.message } else { "custom id has to be > 0.".to_owned() };
        Problem::new(message).at(1)
    })?;
    let other = scope.state.simple.proxy_ids.get(&number).and_then(|index| scope.state.proxies.get(*index));
    if let Some(other) = other {
        let (name, place) = (other.proxy.name.clone(), other.proxy.location.clone());
        let kind = other.proxy.kind.word();
        let own = scope.kind_word();
        let own_name = scope.proxy().proxy.name.clone();
        let message = format!(
            "{own} {own_name} reuses same custom id as {kind} {name} (declared at {}:{}).",
            place.file, place.line
        );
        return Err(Problem::new(message).at(1));
    }
    if let Section::Proxy(index) = scope.section {
        scope.state.simple.proxy_ids.insert(number, index);
    }
    let draft = scope.proxy();
    draft.proxy.id = number;
    draft.simple.is_id_forced = true;
    Ok(())
}

/// `description`.
pub fn description(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::required(line, 1, "a string argument.")?;
    scope.proxy().proxy.description = Some(line.joined_from(1));
    Ok(())
}

/// `disabled` and `enabled`.
pub fn disabled(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 0)?;
    scope.proxy().proxy.disabled = line.word(0) == "disabled";
    Ok(())
}

/// `bind-process`.
pub fn bind_process(_: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    for (index, word) in line.texts_from(1).enumerate() {
        args::number_set(word, 1).map_err(|message| Problem::new(format!("bind-process : {message}")).at(index + 1))?;
    }
    Ok(())
}

/// `maxconn`, `backlog`, `fullconn`: 0 is as if it had not been said.
pub fn connections(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let number = args::lenient(scope, line, 1, 0..=i32::MAX.unsigned_abs())?;
    args::no_more(line, 1)?;
    let proxy = &mut scope.proxy().proxy;
    let field = match line.word(0) {
        "maxconn" => &mut proxy.maxconn,
        "backlog" => &mut proxy.backlog,
        _ => &mut proxy.fullconn,
    };
    *field = Some(number).filter(|number| *number > 0);
    Ok(())
}

/// `retries`.
pub fn retries(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() {
        let message = "'retries' expects an integer argument (dispatch counts for one).";
        return Err(Problem::new(message).at(1));
    }
    scope.proxy().proxy.retries = args::lenient(scope, line, 1, 0..=i32::MAX.unsigned_abs())?;
    args::no_more(line, 1)
}

/// `max-session-srv-conns`.
pub fn max_session_srv_conns(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let number = args::lenient(scope, line, 1, 0..=i32::MAX.unsigned_abs())?;
    scope.proxy().proxy.max_session_srv_conns = number;
    Ok(())
}

/// `max-keep-alive-queue`.
pub fn max_keep_alive_queue(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let number: i32 = args::integer(line, 1, -1..=i32::MAX)?;
    scope.proxy().proxy.max_keep_alive_queue = u32::try_from(number).ok();
    Ok(())
}

/// `rate-limit sessions`.
pub fn rate_limit(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1) != "sessions" {
        let message = format!("'rate-limit' only supports 'sessions' (got '{}')", line.word(1));
        return Err(Problem::new(message).at(1));
    }
    if line.word(2).is_empty() {
        let message = "'rate-limit sessions' expects expects an integer value (in sessions/second)";
        return Err(Problem::new(message).at(2));
    }
    let number = args::integer(line, 2, 0..=u32::MAX)?;
    let is_overwritten = {
        let draft = scope.proxy();
        draft.proxy.rate_limit_sessions != draft.simple.inherited_rate_limit
    };
    if is_overwritten && !scope.in_defaults() {
        let message = "overwriting rate-limit sessions which was already specified";
        scope.warn(line, Problem::new(message).at(0));
    }
    scope.proxy().proxy.rate_limit_sessions = number;
    Ok(())
}

/// `timeout`.
pub fn timeout(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    scope.dispatch(line, 1, Group::Timeout)
}

/// `timeout X`.
pub fn timeout_of(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1).to_owned();
    set_timeout(scope, line, &name, 2)
}

/// `contimeout`, `clitimeout`, `srvtimeout`, which HAProxy no longer has.
pub fn old_timeout(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = match line.word(0) {
        "contimeout" => "connect",
        "clitimeout" => "client",
        _ => "server",
    };
    set_timeout(scope, line, name, 1)
}

fn set_timeout(scope: &mut Scope<'_>, line: &Line, name: &str, index: usize) -> Result<(), Problem> {
    let text = line.word(index);
    if text.is_empty() {
        let message = format!("'timeout {name}' expects an integer value (in milliseconds)");
        return Err(Problem::new(message).at(index).expected("a time, as 5s"));
    }
    let value = args::time_of(scope, line, index, text, &format!("timeout {name}"), Unit::Millisecond)?;
    if !line.word(index + 1).is_empty() {
        let message =
            format!("'timeout {name}' : unexpected extra argument '{}' after value '{text}'.", line.word(index + 1));
        return Err(Problem::new(message).at(index + 1));
    }
    let draft = scope.proxy();
    let inherited = slot(&mut draft.simple.inherited_timeouts, name).copied();
    let Some(timeout) = slot(&mut draft.proxy.timeouts, name) else { return Ok(()) };
    let is_overwritten = Some(*timeout) != inherited;
    // 0 is never, as is a timeout that was not given.
    *timeout = Some(value).filter(|value| !value.is_zero());
    if is_overwritten && !scope.in_defaults() {
        let message = format!("overwriting 'timeout {name}' which was already specified");
        scope.warn(line, Problem::new(message).at(0));
    }
    Ok(())
}

fn slot<'a>(timeouts: &'a mut Timeouts, name: &str) -> Option<&'a mut Option<Duration>> {
    Some(match name {
        "client" => &mut timeouts.client,
        "client-fin" => &mut timeouts.client_fin,
        "connect" => &mut timeouts.connect,
        "http-keep-alive" => &mut timeouts.http_keep_alive,
        "http-request" => &mut timeouts.http_request,
        "queue" => &mut timeouts.queue,
        "server" => &mut timeouts.server,
        "server-fin" => &mut timeouts.server_fin,
        "tarpit" => &mut timeouts.tarpit,
        "tunnel" => &mut timeouts.tunnel,
        "check" => &mut timeouts.check,
        _ => return None,
    })
}

/// `default_backend`.
pub fn default_backend(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = args::required(line, 1, "a backend name.")?.to_owned();
    scope.proxy().simple.default_backend = Some((name, line.clone()));
    args::no_more(line, 1)
}

/// `http-reuse`.
pub fn http_reuse(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    scope.proxy().proxy.http_reuse = match line.word(1) {
        "never" => HttpReuse::Never,
        "safe" => HttpReuse::Safe,
        "aggressive" => HttpReuse::Aggressive,
        "always" => HttpReuse::Always,
        word => {
            let message = "'http-reuse' only supports 'never', 'safe', 'aggressive', 'always'.";
            return Err(Problem::new(message).at(1).nearest(word, ["never", "safe", "aggressive", "always"]));
        }
    };
    args::no_more(line, 1)
}

/// `retry-on`.
pub fn retry_on(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() {
        let message = "'retry-on' needs at least one keyword to specify when to retry";
        return Err(Problem::new(message).at(1));
    }
    let mut retry_on = RetryOn::NONE;
    for (index, word) in line.texts_from(1).enumerate() {
        let at = index + 1;
        if word == "none" && line.len() != 2 {
            return Err(Problem::new("'retry-on' 'none' keyworld only usable alone").at(at));
        }
        retry_on = retry_on.with_word(word).ok_or_else(|| {
            Problem::new(format!("'retry-on': unknown keyword '{word}'")).at(at).nearest(word, RetryOn::WORDS)
        })?;
    }
    scope.proxy().proxy.retry_on = retry_on;
    Ok(())
}

/// `dispatch`.
pub fn dispatch(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let accepts = Accepts { port_mandatory: true, ..Accepts::SOURCE };
    let problem = |message: String| Problem::new(format!("'dispatch' : {message}")).at(1);
    let parsed = scope.address(line.word(1), accepts).map_err(problem)?;
    let socket = parsed.socket().ok_or_else(|| problem(format!("'{}' is not an IP address", line.word(1))))?;
    args::no_more(line, 1)?;
    scope.proxy().proxy.dispatch = Some(socket);
    Ok(())
}

/// `transparent`, the old word for `option transparent`.
pub fn transparent(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    scope.proxy().proxy.options.transparent = true;
    args::no_more(line, 0)
}

/// `load-server-state-from-file`.
pub fn load_server_state(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    scope.proxy().proxy.load_server_state = match line.word(1) {
        "global" => LoadServerState::Global,
        "local" => LoadServerState::Local,
        "none" => LoadServerState::None,
        word => {
            let message = format!("'load-server-state-from-file' expects 'global', 'local' or 'none'. Got '{word}'");
            return Err(Problem::new(message).at(1));
        }
    };
    Ok(())
}

/// `server-state-file-name`.
pub fn server_state_file_name(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let proxy = &mut scope.proxy().proxy;
    proxy.server_state_file_name = Some(match line.word(1) {
        "" | "use-backend-name" => proxy.name.to_string(),
        name => name.to_owned(),
    });
    Ok(())
}

/// `clitcpka-cnt` and its siblings.
pub fn keepalive(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let keyword = line.word(0);
    args::required(line, 1, "an integer value")?;
    let is_count = keyword.ends_with("-cnt");
    let count = if is_count { Some(args::integer(line, 1, 0..=i32::MAX.unsigned_abs())?) } else { None };
    let time = if is_count { None } else { Some(args::time_of(scope, line, 1, line.word(1), keyword, Unit::Second)?) };
    let proxy = &mut scope.proxy().proxy;
    let keepalive: &mut TcpKeepalive =
        if keyword.starts_with("cli") { &mut proxy.client_keepalive } else { &mut proxy.server_keepalive };
    if is_count {
        keepalive.count = count;
    } else if keyword.ends_with("-idle") {
        keepalive.idle = time;
    } else {
        keepalive.interval = time;
    }
    Ok(())
}
