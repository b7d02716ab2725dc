//! `resolvers` sections.

use std::{net::IpAddr, time::Duration};

use crate::{
    address::Accepts,
    args,
    diagnostics::{Prefix, Problem},
    lexer::is_name_character,
    line::Line,
    model::{Location, NameServer, Resolvers, ResolversIndex},
    scope::{Scope, Section},
    table::Group,
    units::Unit,
};

/// The system's name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The port of DNS.
const PORT: u16 = 53;

/// Least and most of `accepted_payload_size`: a header, and what a datagram holds.
const PAYLOAD_BYTES: std::ops::RangeInclusive<i64> = 12..=65_535;

/// What stands in `nameserver`.
const NAME_SERVER: Accepts = Accepts {
    port: true,
    port_mandatory: true,
    port_range: false,
    port_offset: false,
    stream: true,
    datagram: true,
    descriptor: false,
    name: false,
    quic: false,
};

/// `resolvers`.
pub fn section(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1);
    if name.is_empty() {
        return Err(Problem::new("missing name for resolvers section.").at(1).expected("a name"));
    }
    if let Some(character) = name.chars().find(|character| !is_name_character(*character)) {
        let message = format!("character '{character}' is not permitted in 'resolvers' name '{name}'.");
        return Err(Problem::new(message).at(1));
    }
    let same = scope.state.resolvers.iter().find(|known| *known.name == *name);
    if let Some(same) = same.map(|same| declared("resolvers", name, "resolvers", &same.location, line)) {
        scope.alert(line, same.at(1));
    }
    scope.state.resolvers.push(Resolvers::new(name, line.location()));
    scope.section = Section::Other(Group::Resolvers);
    args::ignore_more(scope, line, 1, 0);
    Ok(())
}

/// Two of one name; HAProxy begins this message in its own way.
fn declared(what: &str, name: &str, other: &str, place: &Location, line: &Line) -> Problem {
    let (file, number) = (line.file(), line.number());
    let Location { file: first_file, line: first_line } = place;
    let message = format!(
        "Parsing [{file}:{number}]: {what} '{name}' has same name as another {other} (declared at \
         {first_file}:{first_line})."
    );
    Problem::new(message).prefix(Prefix::Nothing)
}

/// The section that is being read.
fn current<'a>(scope: &'a mut Scope<'_>) -> Option<&'a mut Resolvers> {
    scope.state.resolvers.last_mut()
}

/// `nameserver`.
pub fn nameserver(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (name, text) = (line.word(1), line.word(2));
    if text.is_empty() {
        let message = "'nameserver' expects <name> and <addr>[:<port>] as arguments.";
        return Err(Problem::new(message).at(line.len()).expected("as in 'nameserver dns1 192.0.2.53:53'"));
    }
    if let Some(character) = name.chars().find(|character| !is_name_character(*character)) {
        let message = format!("character '{character}' is not permitted in server name '{name}'.");
        return Err(Problem::new(message).at(1));
    }
    let parsed = scope
        .address(text, NAME_SERVER)
        .map_err(|message| Problem::new(format!("'nameserver {name}' : {message}")).at(2))?;
    let Some(address) = parsed.socket() else {
        let message = format!("'nameserver {name}' : '{text}' is not the address of a name server");
        return Err(Problem::new(message).at(2).expected("an address and a port, as 192.0.2.53:53"));
    };
    if !line.word(3).is_empty() {
        let message =
            format!("'nameserver {name}' : '{}' is not supported: nothing follows the address.", line.word(3));
        return Err(Problem::new(message).at(3));
    }
    let Some(section) = current(scope) else { return Ok(()) };
    let same = section.nameservers.iter().find(|known| *known.name == *name);
    let same = same.map(|same| declared("nameserver", name, "nameserver", &same.location, line));
    section.nameservers.push(NameServer {
        location: line.location(),
        name: name.into(),
        address,
        stream: !parsed.datagram,
    });
    if let Some(same) = same {
        return Err(same.at(1));
    }
    Ok(())
}

/// `parse-resolv-conf`.
pub fn parse_resolv_conf(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let Ok(text) = scope.files.read(RESOLV_CONF) else {
        return Err(Problem::new("failed to open /etc/resolv.conf.").at(0));
    };
    let Some(section) = current(scope) else { return Ok(()) };
    for warning in take_resolv_conf(section, &text) {
        scope.warn(line, Problem::new(warning).at(0));
    }
    args::ignore_more(scope, line, 0, 0);
    Ok(())
}

/// Takes the name servers of a `resolv.conf`; returns what HAProxy warns of.
fn take_resolv_conf(section: &mut Resolvers, text: &[u8]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (number, line) in (1..).zip(String::from_utf8_lossy(text).lines()) {
        let place = format!("parsing [{RESOLV_CONF}:{number}] : ");
        let Some(rest) =
            line.strip_prefix("nameserver").filter(|rest| !rest.starts_with(|it: char| !it.is_whitespace()))
        else {
            continue;
        };
        let Some(text) = rest.split_ascii_whitespace().next() else {
            warnings.push(format!("{place}nameserver line is missing address."));
            continue;
        };
        if let Some(same) = section.nameservers.iter().find(|known| *known.name == *text) {
            let Location { file, line } = &same.location;
            warnings.push(format!(
                "Parsing [{RESOLV_CONF}:{number}] : generated name for {RESOLV_CONF} nameserver '{text}' conflicts with \
                 another nameserver (declared at {file}:{line}), it appears to be a duplicate and will be excluded."
            ));
            continue;
        }
        let Ok(ip) = text.parse::<IpAddr>() else {
            warnings.push(format!("{place}address '{text}' could not be recognized, nameserver will be excluded."));
            continue;
        };
        section.nameservers.push(NameServer {
            location: Location { file: RESOLV_CONF.into(), line: number },
            name: text.into(),
            address: (ip, PORT).into(),
            stream: false,
        });
    }
    warnings
}

/// `hold`.
pub fn hold(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    const EVENTS: [&str; 6] = ["nx", "other", "refused", "timeout", "valid", "obsolete"];
    let event = line.word(1);
    if line.word(2).is_empty() {
        let message = "'hold' expects an <event> and a <time> as arguments.";
        return Err(Problem::new(message)
            .at(line.len())
            .expected("<event> can be either 'valid', 'nx', 'refused', 'timeout', or 'other'"));
    }
    let time = args::time_of(scope, line, 2, line.word(2), "hold", Unit::Millisecond)?;
    let Some(section) = current(scope) else { return Ok(()) };
    *match event {
        "nx" => &mut section.hold_nx,
        "other" => &mut section.hold_other,
        "refused" => &mut section.hold_refused,
        "timeout" => &mut section.hold_timeout,
        "valid" => &mut section.hold_valid,
        "obsolete" => &mut section.hold_obsolete,
        _ => {
            let message = format!(
                "'hold' unknown <event>: '{event}', expects either 'nx', 'timeout', 'valid', 'obsolete' or 'other'."
            );
            return Err(Problem::new(message).at(1).nearest(event, EVENTS));
        }
    } = time;
    args::ignore_more(scope, line, 2, 0);
    Ok(())
}

/// `accepted_payload_size`, `resolve_retries`.
pub fn number(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let keyword = line.word(0);
    let text = line.word(1);
    if text.is_empty() {
        return Err(Problem::new(format!("'{keyword}' expects <nb> as argument.")).at(1));
    }
    if keyword == "accepted_payload_size" {
        let (least, most) = (PAYLOAD_BYTES.start(), PAYLOAD_BYTES.end());
        let wrong = |problem: Problem| Problem {
            message: format!("'{keyword}' must be between {least} and {most} inclusive (was {text})."),
            ..problem
        };
        let size = args::lenient(scope, line, 1, PAYLOAD_BYTES).map_err(wrong)?;
        if let Some(section) = current(scope) {
            section.accepted_payload_size = u16::try_from(size).unwrap_or(u16::MAX);
        }
    } else {
        let retries = args::lenient(scope, line, 1, 0..=i32::MAX.unsigned_abs())?;
        if let Some(section) = current(scope) {
            section.resolve_retries = retries;
        }
    }
    args::ignore_more(scope, line, 1, 0);
    Ok(())
}

/// `timeout`.
pub fn timeout(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let event = line.word(1);
    let usage = "'timeout' expects 'retry' or 'resolve' and <time> as arguments";
    match (event, line.word(2)) {
        ("", _) => Err(Problem::new(format!("{usage}.")).at(1)),
        ("retry" | "resolve", "") => Err(Problem::new(format!("'timeout {event}' expects <time> as argument.")).at(2)),
        ("retry" | "resolve", text) => {
            let keyword = format!("timeout {event}");
            let time: Duration = args::time_of(scope, line, 2, text, &keyword, Unit::Millisecond)?;
            if let Some(section) = current(scope) {
                let setting = if event == "retry" { &mut section.timeout_retry } else { &mut section.timeout_resolve };
                *setting = time;
            }
            args::ignore_more(scope, line, 2, 0);
            Ok(())
        }
        _ => Err(Problem::new(format!("{usage} got '{event}'.")).at(1).nearest(event, ["retry", "resolve"])),
    }
}

/// Makes the section `default` out of the system's name servers, as HAProxy does unless there is one. It is there for those
/// that ask for it, so that nothing is said if it comes out empty.
pub(crate) fn make_default(scope: &mut Scope<'_>) {
    if scope.state.resolvers.iter().any(|section| &*section.name == "default") {
        return;
    }
    let mut section = Resolvers::new("default", Location { file: "<internal>".into(), line: 0 });
    if let Ok(text) = scope.files.read(RESOLV_CONF) {
        let _ = take_resolv_conf(&mut section, &text);
    }
    scope.state.resolvers.push(section);
}

/// The section of that name.
pub(crate) fn named(scope: &Scope<'_>, name: &str) -> Option<ResolversIndex> {
    let place = scope.state.resolvers.iter().position(|section| *section.name == *name)?;
    u32::try_from(place).ok().map(ResolversIndex)
}
