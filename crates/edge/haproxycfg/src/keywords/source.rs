//! `source` of a backend and of a server: where connections to servers come from.

use crate::{
    address::{Accepts, Port},
    diagnostics::Problem,
    line::Line,
    model::{SourceAddress, UseSource},
    scope::Scope,
};

/// `source` of a backend.
pub fn proxy(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mut index = 0;
    let source = parse(scope, line, &mut index, false)?;
    if !line.word(index).is_empty() {
        let message = "'source' only supports optional keywords 'interface' and 'usesrc'.";
        return Err(Problem::new(message).at(index).nearest(line.word(index), ["interface", "usesrc"]));
    }
    scope.proxy().proxy.source = Some(source);
    Ok(())
}

/// Reads `source` at `index` and its words; moves the index past them.
pub fn parse(scope: &Scope<'_>, line: &Line, index: &mut usize, ranges: bool) -> Result<SourceAddress, Problem> {
    let at = *index + 1;
    if line.word(at).is_empty() {
        let message = "'source' expects <addr>[:<port>[-<port>]], and optionally 'usesrc' <addr>, and 'interface' \
                       <name> as argument.";
        return Err(Problem::new(message).at(*index));
    }
    let inet = |at: usize, accepts: Accepts| {
        let text = line.word(at);
        let problem = |message: String| Problem::new(format!("'{} {text}' : {message}", line.word(at - 1))).at(at);
        let parsed = scope.address(text, accepts).map_err(problem)?;
        let socket = parsed.socket().ok_or_else(|| problem(format!("'{text}' is not an IP address")))?;
        Ok((socket, parsed.port))
    };
    let (address, port) = inet(at, Accepts { port_range: ranges, ..Accepts::SOURCE })?;
    let ports = match port {
        Port::Range(low, high) if low != high => Some((low, high)),
        _ => None,
    };
    let mut source = SourceAddress { address, ports, interface: None, usesrc: None };
    *index += 2;
    loop {
        let at = *index + 1;
        match line.word(*index) {
            "usesrc" => {
                source.usesrc = Some(match line.word(at) {
                    "" => {
                        let message =
                            "'usesrc' expects <addr>[:<port>], 'client', 'clientip', or 'hdr_ip(name,#)' as argument.";
                        return Err(Problem::new(message).at(*index));
                    }
                    "client" => UseSource::Client,
                    "clientip" => UseSource::ClientIp,
                    word if word.starts_with("hdr_ip(") => header(word, at)?,
                    _ => UseSource::Address(inet(at, Accepts::SOURCE)?.0),
                });
            }
            "interface" => {
                if line.word(at).is_empty() {
                    return Err(Problem::new("'source' : missing interface name.").at(*index));
                }
                source.interface = Some(line.word(at).to_owned());
            }
            _ => return Ok(source),
        }
        *index += 2;
    }
}

/// Values from the end that a header may have, as in HAProxy.
const OCCURRENCE_LEAST: i32 = -10;

/// `hdr_ip(<name>[,<occurrence>])`; the last value unless it says otherwise.
fn header(word: &str, at: usize) -> Result<UseSource, Problem> {
    let arguments = word.trim_start_matches("hdr_ip(").split(')').next().unwrap_or_default();
    let (name, occurrence) = arguments.split_once(',').unwrap_or((arguments, "-1"));
    let (name, occurrence) = (name.trim().to_owned(), occurrence.trim());
    let expected = "as in hdr_ip(x-forwarded-for,-1)";
    if name.is_empty() {
        let message = "'usesrc' expects <addr>[:<port>], 'client', 'clientip', or 'hdr_ip(name,#)' as argument.";
        return Err(Problem::new(message).at(at).expected(expected));
    }
    let occurrence: i32 = occurrence.parse().ok().filter(|occurrence| *occurrence != 0).ok_or_else(|| {
        Problem::new(format!("'usesrc hdr_ip' : '{occurrence}' is not the number of a value")).at(at).expected(expected)
    })?;
    if occurrence < OCCURRENCE_LEAST {
        let message =
            "usesrc hdr_ip(name,num) does not support negative occurrences values smaller than 10.".to_owned();
        return Err(Problem::new(message).at(at));
    }
    Ok(UseSource::Header { name, occurrence })
}

/// `usesrc` without `source`.
pub fn usesrc(_: &mut Scope<'_>, _: &Line) -> Result<(), Problem> {
    Err(Problem::new("'usesrc' only allowed after a 'source' statement.").at(0))
}
