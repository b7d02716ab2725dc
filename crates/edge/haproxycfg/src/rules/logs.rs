//! `log` lines: where logs go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{
    rings,
    words::{around, leading_integer, lenient_integer, wrong},
};
use crate::{
    address, args,
    diagnostics::Problem,
    line::{Line, Modifier},
    model::{LogDestination, LogLineFormat, LogTarget},
    scope::{Scope, Section},
    table::{Group, Keyword, Sections},
};

/// Levels, the most important first.
pub(super) const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Facilities by number.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "auth2", "ftp", "ntp", "audit",
    "alert", "cron2", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

const FORMATS: [(&str, LogLineFormat); 8] = [
    ("local", LogLineFormat::Local),
    ("rfc3164", LogLineFormat::Rfc3164),
    ("rfc5424", LogLineFormat::Rfc5424),
    ("priority", LogLineFormat::Priority),
    ("short", LogLineFormat::Short),
    ("timed", LogLineFormat::Timed),
    ("iso", LogLineFormat::Iso),
    ("raw", LogLineFormat::Raw),
];

/// Bytes of a line unless `len` says otherwise.
const LEN_DEFAULT: usize = 1024;
/// The same in files, which have room for whole lines.
const FILE_LEN_DEFAULT: usize = 65_535;
pub(super) const PORT_DEFAULT: u16 = 514;
/// What fits into the address of a unix socket, less what HAProxy keeps for temporary names.
const PATH_LEN_MAX: usize = 97;
const ABSTRACT_NAME_LEN_MAX: usize = 107;
/// Most ranges of a `sample`.
const RANGES_MAX: usize = 1000;

const ARGUMENTS: &str = "<address> [len <length>] [format <format>] [sample <ranges>:<sample_size>] <facility> \
                         [<level> [<minlevel>]]";
const DOC: &str = "Where logs go: a syslog server, a socket, a file (file@/path), or standard output.";

/// Keywords about destinations of logs.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(
        Group::Proxy,
        "log",
        concat!(
            "{ global | <address> [len <length>] [format <format>] ",
            "[sample <ranges>:<sample_size>] <facility> [<level> [<minlevel>]] }"
        ),
        "4.2",
    )
    .sections(Sections::ALL)
    .doc(
        "A target for logs: those of 'global', a syslog server, a socket, a file (file@/path), or standard output.",
        "log 127.0.0.1:514 local0 notice",
    )
    .negatable()
    .line(proxy_log),
    Keyword::new(Group::Proxy, "log-tag", "<string>", "4.2")
        .sections(Sections::ALL)
        .doc("The program's name in lines of the log.", "log-tag edge")
        .line(proxy_log_tag),
    Keyword::new(Group::Global, "log", ARGUMENTS, "3.1").doc(DOC, "log /dev/log local0").negatable().line(global_log),
    Keyword::new(Group::Global, "log-tag", "<string>", "3.1")
        .doc("The program's name in lines of the log.", "log-tag edge")
        .line(global_log_tag),
    Keyword::new(Group::Global, "log-send-hostname", "[<string>]", "3.1")
        .doc("The host's name in lines of the log: its own, or this one.", "log-send-hostname edge-1")
        .line(log_send_hostname),
];

/// The number of a level.
pub(super) fn level(word: &str) -> Option<u8> {
    LEVELS.iter().position(|level| *level == word).and_then(|level| u8::try_from(level).ok())
}

fn proxy_log(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let context = |problem| around(problem, |error| format!("log : {error}"));
    if line.modifier() == Modifier::No {
        no_arguments(line)?;
        let draft = scope.proxy();
        draft.proxy.logs.clear();
        draft.rules.global_logs = 0;
        return Ok(());
    }
    if line.word(1) == "global" && line.word(2).is_empty() {
        // Those of `global` that the section has already are not taken twice.
        let known = scope.proxy().rules.global_logs;
        let targets: Vec<LogTarget> = scope.state.global.logs.iter().skip(known).cloned().collect();
        let draft = scope.proxy();
        draft.rules.global_logs = known + targets.len();
        draft.proxy.logs.extend(targets);
        return Ok(());
    }
    let target = target(scope, line).map_err(context)?;
    scope.proxy().proxy.logs.push(target);
    Ok(())
}

fn global_log(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.modifier() == Modifier::No {
        no_arguments(line)?;
        scope.state.global.logs.clear();
        return Ok(());
    }
    if line.word(1) == "global" && line.word(2).is_empty() {
        return Err(wrong("log : 'global' is not supported for a global syslog server", 1).expected(ARGUMENTS));
    }
    let target = target(scope, line).map_err(|problem| around(problem, |error| format!("log : {error}")))?;
    scope.state.global.logs.push(target);
    Ok(())
}

/// `log` of a `peers` section: the target, or none for `no log` and `log global`.
pub(crate) fn peers_log(scope: &mut Scope<'_>, line: &Line) -> Result<Option<LogTarget>, Problem> {
    if line.modifier() == Modifier::No {
        return no_arguments(line).map(|()| None);
    }
    if line.word(1) == "global" && line.word(2).is_empty() {
        return Ok(None);
    }
    target(scope, line).map(Some).map_err(|problem| around(problem, |error| format!("log : {error}")))
}

/// `log-stderr` of an `fcgi-app` section.
pub(crate) fn fcgi_logs(scope: &mut Scope<'_>, line: &Line) -> Result<Vec<LogTarget>, Problem> {
    if line.word(1) == "global" && line.word(2).is_empty() {
        return Ok(scope.state.global.logs.clone());
    }
    let target = target(scope, line).map_err(|problem| around(problem, |error| format!("log-stderr : {error}")))?;
    Ok(vec![target])
}

fn no_arguments(line: &Line) -> Result<(), Problem> {
    match line.word(1) {
        "" => Ok(()),
        _ => Err(wrong("log : 'no log' does not expect arguments", 1)),
    }
}

pub(super) fn target(scope: &mut Scope<'_>, line: &Line) -> Result<LogTarget, Problem> {
    if line.word(1).is_empty() || line.word(2).is_empty() {
        let or_global = if scope.section == Section::Global { "" } else { "or global" };
        return Err(
            wrong(format!("expects <address> and <facility> {or_global} as arguments"), line.len()).expected(ARGUMENTS)
        );
    }
    let stream = stream_address(line.word(1)).map(|address| rings::stream_server(line, 1, address)).transpose()?;
    let mut target = LogTarget {
        // What goes over a stream goes through a ring.
        destination: if stream.is_some() { LogDestination::Ring(String::new()) } else { destination(scope, line, 1)? },
        len: LEN_DEFAULT,
        format: LogLineFormat::default(),
        sample: None,
        facility: 0,
        level: 7,
        minlevel: 0,
    };
    if let LogDestination::File(_) = target.destination {
        target.len = FILE_LEN_DEFAULT;
        target.format = LogLineFormat::Raw;
    }
    let mut index = 2;
    if line.word(index) == "len" {
        let len = lenient_integer(scope, line, index + 1);
        target.len = usize::try_from(len).ok().filter(|len| (80..=65_535).contains(len)).ok_or_else(|| {
            wrong(format!("invalid log length '{}', must be between 80 and 65535", line.word(index + 1)), index + 1)
                .expected("80 to 65535 bytes")
        })?;
        index += 2;
    }
    if line.word(index) == "format" {
        let word = line.word(index + 1);
        let names = FORMATS.map(|(name, _)| name);
        let found = FORMATS.iter().find(|(name, _)| *name == word).map(|(_, format)| *format);
        target.format = found.ok_or_else(|| {
            wrong(format!("unknown log format '{word}'"), index + 1)
                .expected(format!("one of {}", names.join(", ")))
                .nearest(word, names)
        })?;
        index += 2;
    }
    if line.word(index) == "sample" {
        target.sample = Some(sample(line, index + 1)?);
        index += 2;
    }
    target.facility = facility(line, index)?;
    if !line.word(index + 1).is_empty() {
        target.level = optional_level(line, index + 1, "unknown optional log level")?;
    }
    if !line.word(index + 2).is_empty() {
        target.minlevel = optional_level(line, index + 2, "unknown optional minimum log level")?;
    }
    if !line.word(index + 3).is_empty() {
        let word = line.word(index + 3);
        return Err(wrong(format!("cannot handle unexpected argument '{word}'"), index + 3).expected(ARGUMENTS));
    }
    if scope.section == Section::Other(Group::Peers) {
        // Nothing is logged of peers, so nothing has to be there that takes it.
    } else if let Some(server) = stream {
        rings::implied(scope, line, server, &mut target);
    } else if let LogDestination::Ring(name) = &target.destination {
        let place = match scope.section {
            Section::Global => "global log server declared in file".to_owned(),
            Section::Other(Group::FcgiApp) => {
                format!("log server declared in fcgi-app section '{}' in file", scope.section_name)
            }
            Section::Other(_) => format!("log server declared in log-forward section '{}' in file", scope.section_name),
            _ => format!("log server declared in proxy section '{}' in file", scope.section_name),
        };
        let reference = rings::Reference { line: line.clone(), name: name.clone(), place };
        scope.state.rules.ring_references.push(reference);
    }
    Ok(target)
}

/// The address behind a word that names a stream.
fn stream_address(word: &str) -> Option<&str> {
    let bare = word.strip_prefix("stream+");
    let rest = bare.unwrap_or(word);
    let named = [("tcp@", ""), ("tcp4@", "ipv4@"), ("tcp6@", "ipv6@"), ("uxst@", "unix@")];
    match named.iter().find_map(|(prefix, _)| rest.strip_prefix(prefix)) {
        Some(address) => Some(address),
        None => bare,
    }
}

/// The format of this name.
pub(super) fn format_named(word: &str) -> Option<LogLineFormat> {
    FORMATS.iter().find(|(name, _)| *name == word).map(|(_, format)| *format)
}

/// Names of formats.
pub(super) fn format_names() -> [&'static str; 8] {
    FORMATS.map(|(name, _)| name)
}

fn facility(line: &Line, index: usize) -> Result<u8, Problem> {
    let word = line.word(index);
    let found = FACILITIES.iter().position(|facility| *facility == word).and_then(|number| u8::try_from(number).ok());
    found.ok_or_else(|| {
        wrong(format!("unknown log facility '{word}'"), index)
            .expected("a facility, as in local0")
            .nearest(word, FACILITIES)
    })
}

fn optional_level(line: &Line, index: usize, message: &str) -> Result<u8, Problem> {
    let word = line.word(index);
    level(word).ok_or_else(|| {
        wrong(format!("{message} '{word}'"), index)
            .expected(format!("one of {}", LEVELS.join(", ")))
            .nearest(word, LEVELS)
    })
}

/// `<ranges>:<sample_size>`: which of how many lines are sent.
fn sample(line: &Line, index: usize) -> Result<(Vec<(u32, u32)>, u32), Problem> {
    let word = line.word(index);
    let refuse = |message: String| Err(wrong(message, index).expected("ranges and a size, as in 1,3-5:8"));
    let Some((ranges_text, size_text)) = word.split_once(':') else { return refuse("Missing sample size".to_owned()) };
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for part in ranges_text.split(',').take(RANGES_MAX) {
        if part.is_empty() {
            continue;
        }
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = match (low.parse::<u32>(), high.parse::<u32>()) {
            (Ok(low), Ok(high)) if low > 0 && (high > low || !part.contains('-')) => (low, high),
            _ => return refuse(format!("wrong sample range '{part}'")),
        };
        if ranges.iter().any(|known| low <= known.1 && known.0 <= high) {
            return refuse("ranges are overlapping".to_owned());
        }
        ranges.push((low, high));
    }
    let Some(most) = ranges.iter().map(|range| range.1).max() else {
        return refuse("no sampling ranges given".to_owned());
    };
    let size = match size_text.parse::<u32>() {
        Ok(size) if size > 0 => size,
        _ => return refuse(format!("wrong sample size '{size_text}' for sample range '{ranges_text}'")),
    };
    if size < most {
        return refuse(format!(
            "sample size {size} should be greater or equal to {most} the maximum of the high ranges limits"
        ));
    }
    ranges.sort_unstable();
    Ok((ranges, size))
}

/// Which families a prefix like `ipv4@` allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Any,
    V4,
    V6,
}

fn destination(scope: &Scope<'_>, line: &Line, index: usize) -> Result<LogDestination, Problem> {
    // As in all addresses, variables of the environment stand for their values even outside of quotes.
    let expanded = address::expand(line.word(index), &scope.state.global.environment);
    let word = expanded.as_str();
    match word {
        "stdout" => return Ok(LogDestination::Descriptor(1)),
        "stderr" => return Ok(LogDestination::Descriptor(2)),
        "global" => {
            return Err(wrong("'global' stands for a whole target", index + 1).expected("'log global' alone"));
        }
        _ => {}
    }
    if let Some(name) = word.strip_prefix("ring@") {
        return Ok(LogDestination::Ring(name.to_owned()));
    }
    if let Some(path) = word.strip_prefix("file@") {
        // NOTE: a process in the background has another working folder than the shell that started it.
        return match path.starts_with('/') && !path.ends_with('/') {
            true => Ok(LogDestination::File(path.to_owned())),
            false => Err(wrong(format!("'{word}' names no file by its whole path"), index)
                .expected("file@ and a path that begins with '/', as in file@/var/log/tidegate/access.log")),
        };
    }
    let stream = |index| {
        Err(wrong(format!("'{word}' is no address that lines can be sent to."), index)
            .expected("an address, as in udp@192.168.0.1:514 or tcp@192.168.0.1:514"))
    };
    let rest = match word.strip_prefix("stream+") {
        Some(_) => return stream(index),
        None => word.strip_prefix("dgram+").unwrap_or(word),
    };
    if let Some(number) = rest.strip_prefix("fd@") {
        let (descriptor, tail) = leading_integer(number, false);
        return match i32::try_from(descriptor) {
            Ok(descriptor) if tail.is_empty() && !number.is_empty() && descriptor >= 0 => {
                Ok(LogDestination::Descriptor(descriptor))
            }
            _ => Err(wrong(format!("file descriptor '{number}' is not a valid integer in '{word}'"), index)
                .expected("fd@<number>")),
        };
    }
    let path = if rest.starts_with('/') {
        Some(rest)
    } else {
        rest.strip_prefix("unix@").or_else(|| rest.strip_prefix("uxdg@"))
    };
    if let Some(path) = path {
        return within_length(path, PATH_LEN_MAX, word, index).map(|path| LogDestination::Unix(path.to_owned()));
    }
    if let Some(name) = rest.strip_prefix("abns@") {
        let name = within_length(name, ABSTRACT_NAME_LEN_MAX, word, index)?;
        return Ok(LogDestination::Abstract(name.to_owned()));
    }
    if ["uxst@", "tcp@", "tcp4@", "tcp6@", "quic4@", "quic6@", "sockpair@"].iter().any(|kind| rest.starts_with(kind)) {
        return stream(index);
    }
    let families = [
        ("ipv4@", Family::V4),
        ("udp4@", Family::V4),
        ("ipv6@", Family::V6),
        ("udp6@", Family::V6),
        ("udp@", Family::Any),
        ("ip@", Family::Any),
    ];
    let (family, address) = families
        .iter()
        .find_map(|(prefix, family)| Some((*family, rest.strip_prefix(prefix)?)))
        .unwrap_or((Family::Any, rest));
    inet(line, index, family, address)
}

fn within_length<'w>(path: &'w str, most: usize, word: &str, index: usize) -> Result<&'w str, Problem> {
    if path.len() > most {
        return Err(wrong(format!("socket path '{word}' too long (max {most})"), index));
    }
    if path.is_empty() {
        return Err(wrong(format!("missing path in '{word}'"), index).expected("a path, as in /dev/log"));
    }
    Ok(path)
}

/// `address`, `address:port`, `[address]:port` or the same with a host name.
fn inet(line: &Line, index: usize, family: Family, text: &str) -> Result<LogDestination, Problem> {
    let word = line.word(index);
    // What follows the last colon is a port, except within brackets.
    let (host, port) = match text.rfind([':', ']']) {
        Some(at) if text.as_bytes().get(at) == Some(&b':') => {
            (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default())
        }
        _ => (text, ""),
    };
    let port = match port {
        "" | "0" => PORT_DEFAULT,
        _ if port.starts_with(|first: char| first.is_ascii_digit()) && port.contains('-') => {
            return Err(wrong(format!("port range not permitted here in '{word}'"), index).expected("one port"));
        }
        _ if port.starts_with(['+', '-']) => {
            return Err(wrong(format!("port offset not permitted here in '{word}'"), index).expected("one port"));
        }
        _ => port.parse::<u16>().map_err(|_| {
            let message = match port.chars().find(|character| !character.is_ascii_digit()) {
                Some(bad) => format!("invalid character '{bad}' in port number '{port}' in '{word}'"),
                None => format!("invalid port '{port}'"),
            };
            wrong(message, index).expected("a port from 1 to 65535")
        })?,
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let invalid = || {
        wrong(format!("invalid address: '{host}' in '{word}'"), index)
            .expected("an IP address, a host name, a socket's path, file@/path, stdout or stderr")
    };
    let address = match (family, bare) {
        (Family::V6, "" | "*") => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        (_, "" | "*") => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        _ => bare.parse().ok(),
    };
    match (address, family) {
        (Some(address), Family::Any) => Ok(LogDestination::Udp(SocketAddr::new(address, port))),
        (Some(address @ IpAddr::V4(_)), Family::V4) => Ok(LogDestination::Udp(SocketAddr::new(address, port))),
        (Some(address @ IpAddr::V6(_)), Family::V6) => Ok(LogDestination::Udp(SocketAddr::new(address, port))),
        (Some(_), _) => Err(invalid()),
        (None, _) if is_host_name(bare) => Ok(LogDestination::UdpHost { host: bare.to_owned(), port }),
        (None, _) => Err(invalid()),
    }
}

/// Whether a text can be a host name: letters, digits, `-`, `_` and `.`, and not digits alone.
fn is_host_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= 253 && text.bytes().all(allowed) && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn tag(line: &Line) -> Result<String, Problem> {
    args::required(line, 1, "a tag for use in syslog.").map(str::to_owned)
}

fn proxy_log_tag(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    scope.proxy().proxy.log_tag = Some(tag(line)?);
    args::ignore_more(scope, line, 1, 0);
    Ok(())
}

fn global_log_tag(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    scope.state.global.log_tag = Some(tag(line)?);
    Ok(())
}

fn log_send_hostname(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::ignore_more(scope, line, 1, 0);
    // An empty name stands for the host's own.
    scope.state.global.log_send_hostname = Some(line.word(1).to_owned());
    Ok(())
}
