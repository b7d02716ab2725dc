//! The words of a `server` line, but for those about its name.

use std::{sync::Arc, time::Duration};

use balance::{Observe, OnError, probe::WINDOW_MAX};

use super::{WEIGHT_MAX, argument};
use crate::{
    address::{Accepts, Host, Port},
    args,
    diagnostics::{Prefix, Problem},
    keywords::source,
    line::Line,
    model::{Location, Namespace, SendProxy, ServerAddress, ServerProtocol, WebSocketProtocol},
    scope::{Scope, ServerDraft},
    units::Unit,
};

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

/// Words that are on or off.
pub fn flag(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let server = &mut draft.server;
    match line.word(*index) {
        "accept-legacy-http-response" => server.accept_legacy_http_response = true,
        "no-accept-legacy-http-response" => server.accept_legacy_http_response = false,
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
        "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn" => {
            server.send_proxy = Some(SendProxy::V2);
            server.proxy_options.tls = true;
            server.proxy_options.certificate_name |= line.word(*index).ends_with("-cn");
        }
        "no-send-proxy-v2-ssl" | "no-send-proxy-v2-ssl-cn" => {
            server.send_proxy = server.send_proxy.filter(|version| *version != SendProxy::V2);
            server.proxy_options.tls = false;
        }
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
        "window" => draft.server.window = Some(args::lenient(scope, line, at, 1..=WINDOW_MAX)?),
        "threshold" => draft.server.threshold = Some(args::lenient(scope, line, at, 1..=WINDOW_MAX)?),
        "initial" => draft.server.initial = Some(args::lenient(scope, line, at, 0..=WINDOW_MAX)?),
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

/// `proto`, `check-proto`.
pub fn protocol(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let word = *index;
    let keyword = line.word(word);
    let protocol = match argument(line, index, "a protocol as argument.")? {
        "h1" => ServerProtocol::Http1,
        "h2" => ServerProtocol::Http2,
        "none" => ServerProtocol::None,
        "fcgi" => ServerProtocol::Fcgi,
        "scgi" if keyword == "proto" => ServerProtocol::Scgi,
        "uwsgi" if keyword == "proto" => ServerProtocol::Uwsgi,
        value => {
            let problem = Problem::new(format!("'{keyword}' :  unknown MUX protocol '{value}'")).at(word + 1);
            return Err(problem.nearest(value, ["h1", "h2", "fcgi", "scgi", "uwsgi", "none"]));
        }
    };
    if keyword == "check-proto" {
        draft.server.check_protocol = Some(protocol);
        return Ok(());
    }
    draft.server.protocol = Some(protocol);
    Ok(())
}

/// `ws`.
pub fn websocket(_: &mut Scope<'_>, line: &Line, index: &mut usize, draft: &mut ServerDraft) -> Result<(), Problem> {
    let word = *index;
    draft.server.websocket = match argument(line, index, "a protocol as argument.")? {
        "auto" => WebSocketProtocol::Auto,
        "h1" => WebSocketProtocol::Http1,
        "h2" => WebSocketProtocol::Http2,
        value => {
            let problem = Problem::new(format!("'ws' has to be 'auto', 'h1' or 'h2', got '{value}'")).at(word + 1);
            return Err(problem.nearest(value, ["auto", "h1", "h2"]));
        }
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
            "ssl" => {}
            "cert-cn" => options.certificate_name = true,
            "cert-key" => options.certificate_key = true,
            "cert-sig" => options.certificate_signature = true,
            "ssl-cipher" => options.cipher = true,
            _ => {
                let known =
                    ["authority", "crc32c", "unique-id", "ssl", "cert-cn", "cert-key", "cert-sig", "ssl-cipher"];
                let message = format!("'{text}' : proxy v2 option not implemented");
                return Err(Problem::new(message).at(at).nearest(text, known));
            }
        }
        options.tls |= !matches!(text, "authority" | "crc32c" | "unique-id");
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
