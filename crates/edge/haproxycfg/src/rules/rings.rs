//! `ring` and `log-forward` sections.

use std::{sync::Arc, time::Duration};

use super::{
    logs,
    words::{invalid_name_character, lenient_integer, wrong},
};
use crate::{
    address::{self, Accepts, Host, Port},
    args,
    diagnostics::Problem,
    keywords::{bind, server},
    line::{Line, Modifier},
    model::{Bind, BindAddress, LogDestination, LogForward, LogLineFormat, LogTarget, Ring, Server},
    scope::{Scope, Section},
    table::{Group, Keyword},
    units::Unit,
};

/// Bytes of a ring, and of its longest line, unless its section says otherwise.
const SIZE_DEFAULT: usize = 16_384;
/// Most bytes of a ring.
const SIZE_MAX: i64 = 1 << 32;
/// Connections of a `log-forward` section unless it says otherwise.
const MAXCONN_DEFAULT: u32 = 10;
/// What the names of rings begin with that `log` lines imply.
const IMPLIED: &str = "ring#";

const fn line(group: Group, name: &'static str, arguments: &'static str) -> Keyword {
    let chapter = if matches!(group, Group::Ring) { "3.9" } else { "3.10" };
    Keyword::new(group, name, arguments, chapter)
}

/// Sections and their lines.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Section, "ring", "<name>", "3.9")
        .doc("A ring of log lines in memory, to be shown or sent over TCP.", "ring lines")
        .line(ring),
    Keyword::new(Group::Section, "log-forward", "<name>", "3.10")
        .doc("Receives log lines and sends them on.", "log-forward syslog")
        .line(log_forward),
    line(Group::Ring, "description", "<text>")
        .doc("Text about the ring, for 'show events'.", "description \"access log\"")
        .line(description),
    line(Group::Ring, "format", "<format>").doc("The format of the ring's lines.", "format rfc3164").line(format),
    line(Group::Ring, "maxlen", "<length>")
        .doc("The length of the longest line, in bytes.", "maxlen 1200")
        .line(number),
    line(Group::Ring, "server", "<name> <address> [<param>...]")
        .doc("A syslog server that gets all lines over TCP.", "server log1 192.0.2.1:514 log-proto octet-count")
        .line(ring_server),
    line(Group::Ring, "size", "<size>").doc("The size of the ring, in bytes.", "size 32764").line(number),
    line(Group::Ring, "timeout", "{ connect | server } <time>")
        .doc("How long connecting and sending may take.", "timeout connect 5s")
        .line(timeout),
    line(Group::LogForward, "backlog", "<number>").doc("How many connections may wait.", "backlog 100").line(count),
    line(Group::LogForward, "bind", "<address> [<param>...]")
        .doc("An address for lines over TCP.", "bind 127.0.0.1:1514")
        .line(stream_bind),
    line(Group::LogForward, "dgram-bind", "<address> [<param>...]")
        .doc("An address for lines over UDP.", "dgram-bind 127.0.0.1:1514")
        .line(datagram_bind),
    line(Group::LogForward, "log", "{ global | <address> [<param>...] <facility> [<level> [<minlevel>]] }")
        .doc("A target for lines.", "log ring@lines local0")
        .negatable()
        .line(forward_log),
    line(Group::LogForward, "maxconn", "<number>")
        .doc("How many TCP connections the section has at a time.", "maxconn 100")
        .line(count),
    line(Group::LogForward, "timeout", "client <time>")
        .doc("How long a client may be silent.", "timeout client 1m")
        .line(timeout),
];

/// A use of a ring by a `log` line, to be looked up when all are known.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) line: Line,
    pub(super) name: String,
    /// The section that the line stands in.
    pub(super) place: String,
}

fn ring(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1);
    if name.is_empty() {
        return Err(wrong("missing ring name.", 1).expected("a name"));
    }
    if let Some(character) = invalid_name_character(name) {
        return Err(wrong(format!("invalid ring name '{name}' (character '{character}' is not permitted)."), 1));
    }
    if matches!(name, "buf0" | "stdout" | "stderr") || scope.state.rings.iter().any(|ring| &*ring.name == name) {
        return Err(wrong(format!("sink named '{name}' already exists."), 1));
    }
    scope.state.rings.push(new_ring(name, name.to_owned(), LogLineFormat::Raw));
    scope.section = Section::Other(Group::Ring);
    Ok(())
}

fn new_ring(name: &str, description: String, format: LogLineFormat) -> Ring {
    Ring {
        name: name.into(),
        description,
        format,
        maxlen: SIZE_DEFAULT,
        size: SIZE_DEFAULT,
        servers: Vec::new(),
        timeout_connect: None,
        timeout_server: None,
    }
}

/// The ring that a `log` line with a stream address implies.
pub(super) fn implied(scope: &mut Scope<'_>, line: &Line, server: Server, target: &mut LogTarget) {
    let count = scope.state.rings.iter().filter(|ring| ring.name.starts_with(IMPLIED)).count() + 1;
    let description = format!("created from logserver declared into '{}' at line {}", line.file(), line.number());
    let format = match target.format {
        LogLineFormat::Unspecified => LogLineFormat::Raw,
        format => format,
    };
    let name = format!("{IMPLIED}{count}");
    let mut ring = new_ring(&name, description, format);
    ring.servers.push(server);
    scope.state.rings.push(ring);
    target.destination = LogDestination::Ring(name);
}

fn current<'s>(scope: &'s mut Scope<'_>) -> Option<&'s mut Ring> {
    scope.state.rings.last_mut()
}

fn description(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() {
        return Err(wrong("missing ring description text.", 1).expected("a text in quotes"));
    }
    args::ignore_more(scope, line, 1, 0);
    if let Some(ring) = current(scope) {
        line.word(1).clone_into(&mut ring.description);
    }
    Ok(())
}

fn format(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::ignore_more(scope, line, 1, 0);
    let format = logs::format_named(line.word(1)).ok_or_else(|| {
        wrong(format!("unknown format '{}'.", line.word(1)), 1).nearest(line.word(1), logs::format_names())
    })?;
    if let Some(ring) = current(scope) {
        ring.format = format;
    }
    Ok(())
}

/// `size` and `maxlen`.
fn number(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::ignore_more(scope, line, 1, 0);
    let value = lenient_integer(scope, line, 1);
    let bytes = usize::try_from(value).ok().filter(|_| (1..=SIZE_MAX).contains(&value)).ok_or_else(|| {
        wrong(format!("invalid size '{}' for new sink buffer.", line.word(1)), 1).expected("a number of bytes")
    })?;
    let is_size = line.word(0) == "size";
    if is_size && bytes < SIZE_DEFAULT {
        let name = current(scope).map(|ring| ring.name.to_string()).unwrap_or_default();
        let message = format!(
            "ignoring new size '{bytes}' that is smaller than current size '{SIZE_DEFAULT}' for ring '{name}'."
        );
        return Err(wrong(message, 1).expected(format!("at least {SIZE_DEFAULT} bytes")));
    }
    if let Some(ring) = current(scope) {
        *(if is_size { &mut ring.size } else { &mut ring.maxlen }) = bytes;
    }
    Ok(())
}

fn ring_server(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    // It is read as one of a proxy that does not exist.
    let before = scope.proxy().proxy.servers.len();
    let outcome = server::server(scope, line);
    let draft = scope.proxy();
    let servers = draft.proxy.servers.split_off(before.min(draft.proxy.servers.len()));
    draft.simple.servers.clear();
    outcome?;
    if let Some(ring) = current(scope) {
        ring.servers.extend(servers);
    }
    Ok(())
}

fn time(scope: &mut Scope<'_>, line: &Line) -> Result<Option<Duration>, Problem> {
    if line.word(2).is_empty() {
        let message = format!("'{} {}' expects <time> as argument.", line.word(0), line.word(1));
        return Err(wrong(message, 2).expected("a time, as in 5s"));
    }
    args::ignore_more(scope, line, 1, 1);
    args::time(scope, line, 2, Unit::Millisecond).map(|time| Some(time).filter(|time| !time.is_zero()))
}

/// `timeout` of both sections.
fn timeout(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let is_ring = scope.section == Section::Other(Group::Ring);
    let known: &[&str] = if is_ring { &["connect", "server"] } else { &["client"] };
    if !known.contains(&line.word(1)) {
        let section = if is_ring { "ring" } else { "log-forward" };
        let message = format!("unknown keyword 'timeout {}' in {section} section.", line.word(1));
        return Err(wrong(message, 1).nearest(line.word(1), known.iter().copied()));
    }
    let time = time(scope, line)?;
    match line.word(1) {
        "connect" => current(scope).into_iter().for_each(|ring| ring.timeout_connect = time),
        "server" => current(scope).into_iter().for_each(|ring| ring.timeout_server = time),
        _ => forward(scope).into_iter().for_each(|forward| forward.timeout_client = time),
    }
    Ok(())
}

fn log_forward(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1);
    if name.is_empty() {
        return Err(wrong("missing name for log-forward section.", 1).expected("a name"));
    }
    args::no_more(line, 1)?;
    if let Some(character) = invalid_name_character(name) {
        let message = format!("character '{character}' is not permitted in 'log-forward' name '{name}'.");
        return Err(wrong(message, 1));
    }
    if let Some(other) = scope.state.log_forwards.iter().find(|other| &*other.name == name) {
        let place = &other.location;
        let message = format!(
            "log-forward section '{name}' has the same name as another log-forward section declared at {}:{}.",
            place.file, place.line
        );
        return Err(wrong(message, 1));
    }
    scope.state.log_forwards.push(LogForward {
        name: name.into(),
        location: line.location(),
        maxconn: MAXCONN_DEFAULT,
        ..LogForward::default()
    });
    scope.section = Section::Other(Group::LogForward);
    Ok(())
}

fn forward<'s>(scope: &'s mut Scope<'_>) -> Option<&'s mut LogForward> {
    scope.state.log_forwards.last_mut()
}

/// `maxconn` and `backlog`.
fn count(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let value = args::lenient(scope, line, 1, 0..=u32::MAX)?;
    let is_maxconn = line.word(0) == "maxconn";
    if let Some(forward) = forward(scope) {
        if is_maxconn {
            forward.maxconn = value;
        } else {
            forward.backlog = Some(value);
        }
    }
    Ok(())
}

fn stream_bind(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let parsed = bind::parse(scope, line, 1)?;
    if let Some(other) = parsed.binds.iter().find(|bind| !is_inet(bind)) {
        let message = format!("'bind {}' : only TCP addresses receive log lines here.", line.word(1));
        let _ = other;
        return Err(wrong(message, 1).expected("an address and port, as in 127.0.0.1:1514"));
    }
    if parsed.binds.iter().any(|bind| bind.maxconn.is_some()) {
        scope.warn(line, wrong("'maxconn' has no effect here: the section has a 'maxconn' of its own.", 2));
    }
    if let Some(forward) = forward(scope) {
        forward.binds.extend(parsed.binds);
    }
    Ok(())
}

fn is_inet(bind: &Bind) -> bool {
    matches!(bind.address, BindAddress::Inet(_))
}

fn datagram_bind(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let text = args::required(line, 1, "an address and port.")?;
    let refuse = |message: String| {
        wrong(format!("'dgram-bind {text}' : {message}"), 1).expected("an address and port, as in 127.0.0.1:1514")
    };
    let mut addresses = Vec::new();
    for text in text.split(',').filter(|text| !text.is_empty()) {
        let bare = text.strip_prefix("dgram+").unwrap_or(text);
        let bare = ["udp@", "udp4@", "udp6@"].iter().find_map(|prefix| bare.strip_prefix(prefix)).unwrap_or(bare);
        let parsed = scope.address(bare, Accepts::BIND).map_err(&refuse)?;
        let (Host::Ip(ip), Port::Range(low @ 1.., high)) = (&parsed.host, &parsed.port) else {
            return Err(refuse("missing port number or address".to_owned()));
        };
        bind::count_listeners(scope, usize::from(high - low) + 1).map_err(&refuse)?;
        addresses.extend((*low..=*high).map(|port| BindAddress::Inet((*ip, port).into())));
    }
    let mut draft = bind::BindDraft::default();
    draft.bind.location = line.location();
    draft.count = addresses.len();
    bind::words(scope, line, 2, &mut draft)?;
    let settings = &draft.bind;
    let without_effect = [
        ("accept-proxy", settings.accept_proxy),
        ("accept-netscaler-cip", settings.netscaler_magic.is_some()),
        ("maxconn", settings.maxconn.is_some()),
        ("backlog", settings.backlog.is_some()),
        ("tfo", settings.tfo),
        ("defer-accept", settings.defer_accept),
        ("mss", settings.mss.is_some()),
        ("tcp-ut", settings.tcp_user_timeout.is_some()),
    ];
    for (name, _) in without_effect.iter().filter(|(_, is_there)| *is_there) {
        scope.warn(line, wrong(format!("'{name}' has no effect on datagrams."), 2));
    }
    if let Some(forward) = forward(scope) {
        forward.datagram_binds.extend(addresses.into_iter().map(|address| Bind { address, ..draft.bind.clone() }));
    }
    Ok(())
}

fn forward_log(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.modifier() == Modifier::No {
        forward(scope).into_iter().for_each(|forward| forward.logs.clear());
        return Ok(());
    }
    let targets = if line.word(1) == "global" && line.word(2).is_empty() {
        scope.state.global.logs.clone()
    } else {
        vec![logs::target(scope, line)?]
    };
    if let Some(forward) = forward(scope) {
        forward.logs.extend(targets);
    }
    Ok(())
}

/// Where a server of an implied ring is.
pub(super) fn stream_server(line: &Line, index: usize, address: &str) -> Result<Server, Problem> {
    let parsed = address::parse(address, Accepts::SERVER, &Default::default())
        .map_err(|message| wrong(message, index).expected("an address and port, as in tcp@192.0.2.1:514"))?;
    let port = match parsed.port {
        Port::Range(port, _) if port > 0 => crate::model::ServerPort::Fixed(port),
        _ => crate::model::ServerPort::Fixed(logs::PORT_DEFAULT),
    };
    let mut server = match parsed.host {
        Host::Ip(ip) => Server::at(crate::model::ServerAddress::Ip(ip), port),
        Host::Unix(path) => Server::at(crate::model::ServerAddress::Unix(path), port),
        Host::Abstract(name) => Server::at(crate::model::ServerAddress::Abstract(name), port),
        Host::Name(name, _) => {
            let mut server = Server::at(crate::model::ServerAddress::Unresolved, port);
            server.fqdn = Some(name);
            server
        }
        Host::Descriptor(_) => return Err(wrong(format!("'{}' is no address of a server", line.word(index)), index)),
    };
    server.name = Arc::from(line.word(index));
    Ok(server)
}

/// Every ring that is used must be there.
pub(super) fn finish(scope: &mut Scope<'_>) {
    for Reference { line, name, place } in std::mem::take(&mut scope.state.rules.ring_references) {
        if scope.state.rings.iter().any(|ring| *ring.name == name) {
            continue;
        }
        let known: Vec<String> = scope.state.rings.iter().map(|ring| ring.name.to_string()).collect();
        let message = format!("{place} '{}' at line {} uses unknown ring named '{name}'.", line.file(), line.number());
        scope.alert(&line, wrong(message, 1).nearest(&name, known.iter().map(String::as_str)));
    }
    let mut warnings = Vec::new();
    for ring in &mut scope.state.rings {
        if ring.maxlen > ring.size {
            warnings.push(format!(
                "ring '{}' event max length '{}' exceeds size, forced to size '{}'.",
                ring.name, ring.maxlen, ring.size
            ));
            ring.maxlen = ring.size;
        }
        let is_implied = ring.name.starts_with(IMPLIED);
        let lacks_timeout = ring.timeout_connect.is_none() || ring.timeout_server.is_none();
        if lacks_timeout && !is_implied && !ring.servers.is_empty() {
            warnings.push(crate::missing::timeouts("backend", &ring.name));
        }
    }
    for message in warnings {
        scope.whole(crate::diagnostics::Severity::Warning, message);
    }
}
