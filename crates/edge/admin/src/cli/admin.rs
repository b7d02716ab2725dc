//! Commands that change something.

use std::net::IpAddr;

use super::{
    line::Line,
    reply::{Reply, Severity},
    session::{Context, Session},
    show::leading_number,
};
use crate::stats::control::{
    FrontendChange, Health, PortChange, ProcessChange, ProxyName, ServerChange, ServerRef, find_proxy, find_server,
};

pub(super) fn clear_counters(session: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let all = line.word(2) == "all";
    if all && session.level() < haproxycfg::model::CliLevel::Admin {
        return Reply::error("Permission denied");
    }
    context.control.clear_counters(all);
    Reply::Done
}

/// The server that `backend/server` names.
fn server(context: &Context<'_>, name: &str) -> Result<ServerRef, Reply> {
    let parts = name.split_once('/').filter(|(backend, server)| !backend.is_empty() && !server.is_empty());
    let (backend, server) = parts.ok_or_else(|| Reply::error("Require 'backend/server'."))?;
    let proxy = find_proxy(context.control, backend, |proxy| proxy.backend);
    let proxy = proxy.ok_or_else(|| Reply::error("No such backend."))?;
    let server = find_server(context.control, proxy.index, server).ok_or_else(|| Reply::error("No such server."))?;
    if proxy.stopped { Err(Reply::error("Proxy is disabled.")) } else { Ok(server) }
}

/// Who moved a server, as HAProxy says it.
const BY: &str = "by 'stats socket command'";

/// Changes a server; what there is to say about it is a warning, as in HAProxy.
fn change(context: &Context<'_>, name: &str, change: ServerChange) -> Reply {
    let server = match server(context, name) {
        Ok(server) => server,
        Err(reply) => return reply,
    };
    match context.control.change_server(server, change) {
        Ok(None) => Reply::Done,
        Ok(Some(said)) => Reply::Said(Severity::Warning, format!("{said} {BY}")),
        // HAProxy's sentences without a full stop have no line break either.
        Err(refusal) if !refusal.0.ends_with('.') => unended(refusal.0),
        Err(refusal) => Reply::error(refusal.to_string()),
    }
}

pub(super) fn disable_server(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(2), ServerChange::Maintain)
}

pub(super) fn enable_server(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(2), ServerChange::Ready)
}

pub(super) fn disable_health(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(2), ServerChange::Checks(false))
}

pub(super) fn enable_health(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(2), ServerChange::Checks(true))
}

pub(super) fn disable_agent(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(2), ServerChange::AgentChecks(false))
}

pub(super) fn enable_agent(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(2), ServerChange::AgentChecks(true))
}

/// The two parts of `backend/server`, split at the first slash; HAProxy ends these answers without a line break.
fn parts(name: &str) -> Result<(&str, &str), Reply> {
    let unended = |text: &str| Reply::Unended(Severity::Error, text.to_owned());
    // The first letter is never looked at, so that an empty backend is one of no name.
    match name.split_once('/').filter(|(_, server)| !server.is_empty()) {
        Some((backend, server)) => Ok((backend, server)),
        None => Err(unended("Require 'backend/server'.")),
    }
}

fn unended(text: impl Into<String>) -> Reply {
    Reply::Unended(Severity::Error, text.into())
}

pub(super) fn add_server(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let (backend, name) = match parts(line.word(2)) {
        Ok(parts) => parts,
        Err(reply) => return reply,
    };
    let Some(proxy) = find_proxy(context.control, backend, |proxy| proxy.backend) else {
        return unended("No such backend.");
    };
    if !context.control.is_dynamic(proxy.index) {
        return unended("Backend must use a dynamic load balancing to support dynamic servers.");
    }
    let words: Vec<&str> = line.rest(3).collect();
    match context.control.add_server(proxy.index, name, &words) {
        Ok(()) => Reply::info("New server registered."),
        Err(refusal) => Reply::error(refusal.to_string()),
    }
}

pub(super) fn del_server(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let (backend, name) = match parts(line.word(2)) {
        Ok(parts) => parts,
        Err(reply) => return reply,
    };
    let Some(proxy) = find_proxy(context.control, backend, |proxy| proxy.backend) else {
        return unended("No such backend.");
    };
    let Some(server) = find_server(context.control, proxy.index, name) else { return unended("No such server.") };
    match context.control.remove_server(server) {
        Ok(()) => Reply::Unended(Severity::Info, "Server deleted.".to_owned()),
        Err(refusal) => unended(refusal.to_string()),
    }
}

pub(super) fn shutdown_sessions(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(3), ServerChange::ShutSessions)
}

pub(super) fn get_weight(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    match server(context, line.word(2)) {
        Ok(server) => {
            let (now, initial) = context.control.weight(server);
            Reply::Text(format!("{now} (initial {initial})\n"))
        }
        Err(reply) => reply,
    }
}

pub(super) fn set_weight(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(2), ServerChange::Weight(line.word(3).to_owned()))
}

pub(super) fn set_maxconn_server(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    if let Err(reply) = server(context, line.word(3)) {
        return reply;
    }
    let text = line.word(4);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let problem = match digits {
        _ if text.is_empty() => "Require <maxconn>.",
        0 => "maxconn string empty or preceded by garbage",
        all if all < text.len() => "Trailing garbage in maxconn string",
        _ => match text.parse() {
            Ok(limit) => return change(context, line.word(3), ServerChange::MaxConn(limit)),
            Err(_) => "Value out of range.",
        },
    };
    if text.is_empty() { Reply::error(problem) } else { unended(problem) }
}

const SERVER_USAGE: &str = "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | \
    check-addr | check-port | fqdn | health | ssl | state | weight";

pub(super) fn set_server(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let (name, value) = (line.word(2), line.word(4));
    if let Err(reply) = server(context, name) {
        return reply;
    }
    let wanted = match line.word(3) {
        "weight" => ServerChange::Weight(value.to_owned()),
        "state" => match value {
            "ready" => ServerChange::Ready,
            "drain" => ServerChange::Drain,
            "maint" => ServerChange::Maintain,
            _ => return Reply::error("'set server <srv> state' expects 'ready', 'drain' and 'maint'."),
        },
        "health" => match value {
            "up" => ServerChange::Health(Health::Up),
            "stopping" => ServerChange::Health(Health::Stopping),
            "down" => ServerChange::Health(Health::Down),
            _ => return Reply::error("'set server <srv> health' expects 'up', 'stopping', or 'down'."),
        },
        "agent" | "agent-addr" | "agent-port" | "agent-send" => {
            let is_asked = server(context, name).is_ok_and(|server| context.control.asks_agent(server));
            match agent(line, is_asked) {
                Ok(change) => change,
                Err(reply) => return reply,
            }
        }
        "addr" => match address(line) {
            Ok(change) => change,
            Err(reply) => return reply,
        },
        "check-addr" | "check-port" => match check_address(line) {
            Ok(change) => change,
            Err(reply) => return reply,
        },
        "fqdn" if value.is_empty() => return Reply::error("set server <b>/<s> fqdn requires a FQDN."),
        "fqdn" => ServerChange::HostName(value.to_owned()),
        "ssl" => {
            let text = "'set server <srv> ssl' cannot be set.  default-server should define ssl settings";
            return Reply::Said(Severity::Notice, text.to_owned());
        }
        _ => return Reply::error(SERVER_USAGE),
    };
    match (&wanted, change(context, name, wanted.clone())) {
        (ServerChange::CheckAddress { .. }, Reply::Said(_, text)) => Reply::Unended(Severity::Warning, text),
        (_, reply) => reply,
    }
}

/// `addr <address> [port <port>]`.
fn address(line: &Line) -> Result<ServerChange, Reply> {
    let text = line.word(4);
    if text.is_empty() {
        return Err(Reply::error("set server <b>/<s> addr requires an address and optionally a port."));
    }
    let Ok(ip) = text.parse() else {
        return Err(Reply::Said(Severity::Warning, format!("Invalid addr '{text}' {BY}")));
    };
    Ok(ServerChange::Address { ip: Some(ip), port: (line.word(5) == "port").then(|| port(line.word(6))) })
}

fn port(text: &str) -> PortChange {
    let relative = text.starts_with(['+', '-']);
    let read = if relative { text.parse().map(PortChange::Offset) } else { text.parse().map(PortChange::Fixed) };
    read.unwrap_or_else(|_| PortChange::Unreadable(text.to_owned()))
}

/// `agent up|down`, `agent-send <text>`, `agent-addr <address> [port <port>]` and `agent-port <port>`.
fn agent(line: &Line, is_asked: bool) -> Result<ServerChange, Reply> {
    const NO_AGENT: &str = "agent checks are not enabled on this server";
    let (what, value) = (line.word(3), line.word(4));
    if matches!(what, "agent-addr" | "agent-port") {
        needs_place(what, value)?;
        if !is_asked {
            return Err(Reply::Unended(Severity::Warning, NO_AGENT.to_owned()));
        }
        let (ip, port) = place(line)?;
        return Ok(ServerChange::AgentAddress { ip, port });
    }
    match (what, value) {
        _ if !is_asked => Err(Reply::error(format!("{NO_AGENT}."))),
        ("agent", "up") => Ok(ServerChange::Agent(true)),
        ("agent", "down") => Ok(ServerChange::Agent(false)),
        ("agent", _) => Err(Reply::error("'set server <srv> agent' expects 'up' or 'down'.")),
        _ => Ok(ServerChange::AgentSend(value.to_owned())),
    }
}

/// `check-addr <address> [port <port>]` and `check-port <port>`.
fn check_address(line: &Line) -> Result<ServerChange, Reply> {
    needs_place(line.word(3), line.word(4))?;
    let (ip, port) = place(line)?;
    Ok(ServerChange::CheckAddress { ip, port })
}

fn needs_place(what: &str, value: &str) -> Result<(), Reply> {
    let needs = if what.ends_with("-port") { "a port" } else { "an address and optionally a port" };
    if value.is_empty() { Err(Reply::error(format!("set server <b>/<s> {what} requires {needs}."))) } else { Ok(()) }
}

/// The address and port behind `check-addr`, `check-port` and their like for agents.
fn place(line: &Line) -> Result<(Option<IpAddr>, Option<u16>), Reply> {
    let (what, value) = (line.word(3), line.word(4));
    let only_port = what.ends_with("-port");
    let warning = |text: String| Reply::Unended(Severity::Warning, text);
    let read_port = |text: &str| {
        let number: i64 = text.parse().map_err(|_| warning("provided port is not an integer".to_owned()))?;
        u16::try_from(number).map_err(|_| warning("provided port is invalid".to_owned()))
    };
    if only_port {
        return Ok((None, Some(read_port(value)?)));
    }
    let ip: IpAddr = value.parse().map_err(|_| warning(format!("invalid addr '{value}'")))?;
    let port = (line.word(5) == "port").then(|| read_port(line.word(6))).transpose()?;
    Ok((Some(ip), port))
}

fn frontend(context: &Context<'_>, name: &str) -> Result<ProxyName, Reply> {
    if name.is_empty() {
        return Err(Reply::error("A frontend name is expected."));
    }
    let found = find_proxy(context.control, name, |proxy| proxy.frontend);
    found.ok_or_else(|| Reply::error("No such frontend."))
}

/// Changes a frontend: what is said when it was shut down before, and when it was like that already.
fn change_frontend(
    context: &Context<'_>,
    name: &str,
    change: FrontendChange,
    stopped: Option<Reply>,
    unchanged: Option<&str>,
) -> Reply {
    let proxy = match frontend(context, name) {
        Ok(proxy) => proxy,
        Err(reply) => return reply,
    };
    if let Some(reply) = stopped.filter(|_| proxy.stopped) {
        return reply;
    }
    let steers = !matches!(change, FrontendChange::MaxConn(_));
    match context.control.change_frontend(proxy.index, change) {
        Ok(true) if steers => Reply::Steered,
        Ok(true) => Reply::Done,
        Ok(false) => unchanged.map_or(Reply::Done, |text| Reply::Said(Severity::Notice, text.to_owned())),
        Err(refusal) => Reply::error(refusal.to_string()),
    }
}

pub(super) fn disable_frontend(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let stopped = Reply::Said(Severity::Notice, "Frontend was previously shut down, cannot disable.".to_owned());
    let unchanged = Some("All sockets are already disabled.");
    change_frontend(context, line.word(2), FrontendChange::Pause, Some(stopped), unchanged)
}

pub(super) fn enable_frontend(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let stopped = Reply::error("Frontend was previously shut down, cannot enable.");
    let unchanged = Some("All sockets are already enabled.");
    change_frontend(context, line.word(2), FrontendChange::Resume, Some(stopped), unchanged)
}

pub(super) fn shutdown_frontend(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let already = "Frontend was already shut down.";
    let stopped = Reply::Said(Severity::Notice, already.to_owned());
    change_frontend(context, line.word(2), FrontendChange::Stop, Some(stopped), Some(already))
}

pub(super) fn set_maxconn_frontend(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    if let Err(reply) = frontend(context, line.word(3)) {
        return reply;
    }
    if line.word(4).is_empty() {
        return Reply::error("Integer value expected.");
    }
    let Ok(limit) = u32::try_from(leading_number(line.word(4))) else { return Reply::error("Value out of range.") };
    change_frontend(context, line.word(3), FrontendChange::MaxConn(limit), None, None)
}

fn change_process(context: &Context<'_>, change: ProcessChange) -> Reply {
    match context.control.change_process(change) {
        Ok(()) => Reply::Done,
        Err(refusal) => Reply::error(refusal.to_string()),
    }
}

pub(super) fn set_maxconn_global(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    if line.word(3).is_empty() {
        return Reply::error("Expects an integer value.");
    }
    // As in HAProxy, a negative number is as many as there may be.
    let wanted = leading_number(line.word(3)).max(0);
    change_process(context, ProcessChange::MaxConn(u32::try_from(wanted).unwrap_or(u32::MAX)))
}

const RATE_USAGE: &str = "'set rate-limit' only supports :\n   \
    - 'connections global' to set the per-process maximum connection rate\n   \
    - 'sessions global' to set the per-process maximum session rate\n   \
    - 'ssl-sessions global' to set the per-process maximum SSL session rate\n   \
    - 'http-compression global' to set the per-process maximum compression speed in kB/s";

pub(super) fn set_rate_limit(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let change: fn(u32) -> ProcessChange = match (line.word(2), line.word(3)) {
        ("connections", "global") => ProcessChange::ConnectionRate,
        ("sessions", "global") => ProcessChange::SessionRate,
        ("ssl-sessions", "global") => ProcessChange::TlsRate,
        ("http-compression", "global") => ProcessChange::CompressionRate,
        _ => return Reply::error(RATE_USAGE),
    };
    if line.word(4).is_empty() {
        return Reply::error("Expects an integer value.");
    }
    match u32::try_from(leading_number(line.word(4))) {
        Ok(limit) => change_process(context, change(limit)),
        Err(_) => Reply::error("Value out of range."),
    }
}
