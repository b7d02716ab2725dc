//! Actions that `http-*` and `tcp-*` rules share. Each reads its arguments behind the action's name.

use sample::{Expression as Expr, Place, Places};

use super::{
    ruleset::Ruleset,
    words::{is_condition, leading_integer, lenient_integer, wrong},
};
use crate::{
    diagnostics::{Prefix, Problem},
    line::Line,
    model::{AddressPart, Capture, Resolve},
    scope::Scope,
};

/// What a `capture` action says.
pub(super) struct CaptureAction {
    /// What is captured.
    pub(super) expr: Expr,
    /// Into which slot.
    pub(super) slot: usize,
    /// Bytes kept; `usize::MAX` where only the slot's own declaration limits them.
    pub(super) len: usize,
}

/// A number of `set-mark` or `set-tos`: decimal, hexadecimal (`0x`) or octal (`0`).
fn prefixed_integer(line: &Line, index: &mut usize) -> Result<i64, Problem> {
    let expected = "a number such as 46 or 0x2e";
    *index += 1;
    let word = line.word(*index);
    if word.is_empty() {
        return Err(wrong("expects exactly 1 argument (integer/hex value)", *index).expected(expected));
    }
    let (value, rest) = leading_integer(word, true);
    if !rest.is_empty() {
        let start = word.len() - rest.len();
        return Err(wrong(format!("invalid character starting at '{rest}' (integer/hex value expected)"), *index)
            .within(line, *index, start..word.len())
            .expected(expected));
    }
    *index += 1;
    Ok(value)
}

/// `set-mark`.
pub(super) fn mark(line: &Line, index: &mut usize) -> Result<u32, Problem> {
    let at = *index + 1;
    let value = prefixed_integer(line, index)?;
    u32::try_from(value)
        .map_err(|_| wrong(format!("'{}' does not fit a mark", line.word(at)), at).expected("0 to 4294967295"))
}

/// `set-tos`.
pub(super) fn tos(line: &Line, index: &mut usize) -> Result<u8, Problem> {
    let at = *index + 1;
    let value = prefixed_integer(line, index)?;
    u8::try_from(value)
        .map_err(|_| wrong(format!("'{}' does not fit the TOS field", line.word(at)), at).expected("0 to 255"))
}

/// `set-log-level`; none is `silent`.
pub(super) fn log_level(line: &Line, index: &mut usize) -> Result<Option<u8>, Problem> {
    *index += 1;
    let word = line.word(*index);
    let level = match word {
        "silent" => None,
        _ => Some(super::logs::level(word).ok_or_else(|| {
            wrong("expects exactly 1 argument (log level name or 'silent')", *index)
                .expected("emerg, alert, crit, err, warning, notice, info, debug or silent")
                .nearest(word, super::logs::LEVELS.into_iter().chain(["silent"]))
        })?),
    };
    *index += 1;
    Ok(level)
}

/// `set-src`, `set-src-port`, `set-dst` and `set-dst-port`.
pub(super) fn address(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<(AddressPart, Expr), Problem> {
    let part = match line.word(*index) {
        "set-src" => AddressPart::Source,
        "set-src-port" => AddressPart::SourcePort,
        "set-dst" => AddressPart::Destination,
        _ => AddressPart::DestinationPort,
    };
    *index += 1;
    // As HAProxy, also where the request is not there yet: such a sample is then simply missing.
    let places = scope.request_places();
    let expr = expression(scope, line, index, places)?;
    Ok((part, expr))
}

/// `do-resolve(<variable>,<resolvers>[,<options>])`. The section is looked for when all have been read.
pub(super) fn do_resolve(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<Box<Resolve>, Problem> {
    let at = *index;
    let word = line.word(at);
    let malformed = || {
        let message = format!(
            "Can't parse '{word}'. Expects 'do-resolve(<varname>,<resolvers>[,<options>]) <expr>'. Available options \
             are 'ipv4' and 'ipv6'"
        );
        wrong(message, at)
    };
    let arguments = word.split_once('(').and_then(|(_, rest)| rest.split_once(')')).ok_or_else(malformed)?.0;
    let mut arguments = arguments.split(',');
    let (Some(variable), Some(resolvers)) = (arguments.next(), arguments.next()) else { return Err(malformed()) };
    let mut prefer_ipv4 = false;
    for option in arguments {
        prefer_ipv4 = match option {
            "ipv4" => true,
            "ipv6" => false,
            _ => return Err(malformed()),
        };
    }
    let variable = scope.variable(line, at, variable)?;
    *index += 1;
    let places = scope.request_places();
    let expr = expression(scope, line, index, places)?;
    scope.proxy().rules.resolvers.push((line.clone(), at, resolvers.to_owned()));
    Ok(Box::new(Resolve { variable, resolvers: resolvers.into(), prefer_ipv4, expr }))
}

/// Whether the sections that `do-resolve` names are there.
pub(super) fn find_resolvers(scope: &mut Scope<'_>) {
    let own = scope.proxy().proxy.name.clone();
    for (line, at, name) in std::mem::take(&mut scope.proxy().rules.resolvers) {
        if crate::keywords::resolvers::named(scope, &name).is_none() {
            let message = format!("Proxy '{own}': Can't find resolvers section '{name}' for do-resolve action.");
            scope.alert(&line, Problem::new(message).prefix(Prefix::Nothing).at(at));
        }
    }
}

/// A sample expression that must be there.
pub(super) fn expression(
    scope: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    places: Places,
) -> Result<Expr, Problem> {
    if line.word(*index).is_empty() {
        return Err(wrong("missing fetch method", *index).expected("a sample expression, as in req.hdr(host)"));
    }
    scope.expr(line, index, places)
}

/// `capture` of `http-request`, `http-response`, `http-after-response` and `tcp-request content`.
pub(super) fn capture(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<CaptureAction, Problem> {
    let ruleset = Ruleset::of(line, *index);
    let (places, usage) = match ruleset {
        Ruleset::HttpRequest => {
            (Places::only(Place::FrontendRequestHeaders), "expects <expression> [ 'len' <length> | id <idx> ]")
        }
        Ruleset::HttpResponse | Ruleset::HttpAfterResponse => {
            (Places::only(Place::FrontendResponseHeaders), "expects <expression> id <idx>")
        }
        _ => (ruleset.places(scope), "expects <expression> 'len' <length>"),
    };
    let example = if ruleset.is_request() { "as in: req.hdr(host) len 64" } else { "as in: res.hdr(server) id 0" };
    *index += 1;
    if let Some(missing) = (*index..*index + 3).find(|at| line.word(*at).is_empty() || is_condition(line.word(*at))) {
        return Err(wrong(usage, missing).expected(example));
    }
    let expr = scope.expr(line, index, places)?;
    let by_id = !matches!(ruleset, Ruleset::TcpRequestContent);
    let by_len = ruleset.is_request();
    let word = line.word(*index);
    let action = match word {
        "len" if by_len => {
            let draft = scope.proxy();
            if !draft.proxy.kind.has_frontend() && !scope.in_defaults() {
                let name = scope.proxy().proxy.name.clone();
                return Err(wrong(format!("proxy '{name}' has no frontend capability"), *index)
                    .expected("'id' of a slot that the frontend declares with 'declare capture'"));
            }
            *index += 1;
            let len = length(scope, line, *index, "length must be > 0")?;
            let captures = &mut scope.proxy().proxy.request_captures;
            captures.push(Capture { name: None, len });
            CaptureAction { expr, slot: captures.len() - 1, len }
        }
        "id" if by_id => {
            *index += 1;
            let word = line.word(*index);
            let (slot, rest) = leading_integer(word, false);
            let slot = usize::try_from(slot).ok().filter(|_| rest.is_empty() && !word.is_empty()).ok_or_else(|| {
                wrong(format!("cannot parse id '{word}'"), *index).expected("the number of a declared slot, from 0")
            })?;
            scope.proxy().rules.capture_ids.push((line.clone(), *index, ruleset, slot));
            CaptureAction { expr, slot, len: usize::MAX }
        }
        _ => {
            let expects = match (by_len, by_id) {
                (true, true) => "'len' or 'id'",
                (false, _) => "'id'",
                (true, false) => "'len'",
            };
            let found = if word.is_empty() { String::new() } else { format!(", found '{word}'") };
            return Err(wrong(format!("expects {expects}{found}"), *index).expected(example));
        }
    };
    *index += 1;
    Ok(action)
}

/// A length of captured bytes, above zero.
pub(super) fn length(scope: &mut Scope<'_>, line: &Line, index: usize, message: &str) -> Result<usize, Problem> {
    let value = lenient_integer(scope, line, index);
    usize::try_from(value)
        .ok()
        .filter(|len| (1..=super::captures::LEN_MAX).contains(len))
        .ok_or_else(|| wrong(message, index).expected(format!("1 to {} bytes", super::captures::LEN_MAX)))
}
