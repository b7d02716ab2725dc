//! Parsers of the actions of `http-request`, `http-response` and `http-after-response`.

use std::{sync::Arc, time::Duration};

use super::{
    redirect, reply,
    ruleset::Ruleset,
    words::{around, header_name, is_condition, leading_integer, regex, wrong},
};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{
        Filter, HeaderMatch, HttpAction, NormalizeUri, PatternChange, PatternChangeKind, PluginCall, Service,
        TimeoutKind, TimeoutValue,
    },
    scope::Scope,
    units::{self, TimeError, Unit},
};

type Parsed = Result<HttpAction, Problem>;

/// `index` moves past the action's name; the words behind it, which must be there, are counted.
fn arguments(line: &Line, index: &mut usize, count: usize, message: &str, expected: &str) -> Result<usize, Problem> {
    *index += 1;
    match (*index..*index + count).find(|at| line.word(at.to_owned()).is_empty()) {
        Some(missing) => Err(wrong(message, missing).expected(expected)),
        None => Ok(*index),
    }
}

/// Nothing may follow but a condition.
fn exactly(line: &Line, index: usize, message: &str, expected: &str) -> Result<(), Problem> {
    let word = line.word(index);
    if word.is_empty() || is_condition(word) { Ok(()) } else { Err(wrong(message, index).expected(expected)) }
}

pub(super) fn allow(_: &mut Scope<'_>, _: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    Ok(HttpAction::Allow)
}

/// `deny` and `tarpit`.
pub(super) fn deny(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let ruleset = Ruleset::of(line, *index);
    let tarpit = line.word(*index) == "tarpit";
    let default_status = if tarpit {
        500
    } else if ruleset.is_request() {
        403
    } else {
        502
    };
    *index += 1;
    let places = ruleset.places(scope);
    let parsed = reply::deny(scope, line, index, default_status, places)?;
    let reply = keep_section(scope, line, parsed);
    Ok(if tarpit { HttpAction::Tarpit(reply) } else { HttpAction::Deny(reply) })
}

pub(super) fn respond(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let places = Ruleset::of(line, *index).places(scope);
    *index += 1;
    let parsed = reply::parse(scope, line, index, 200, places)?;
    Ok(HttpAction::Return(keep_section(scope, line, parsed)))
}

/// The reply; that its body comes from an `http-errors` section is remembered for when all of those are known.
fn keep_section(scope: &mut Scope<'_>, line: &Line, parsed: reply::Parsed) -> crate::model::Reply {
    scope.proxy().rules.waiting_reply = parsed.errorfiles.map(|word| (line.clone(), word));
    parsed.reply
}

pub(super) fn redirect(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let ruleset = Ruleset::of(line, *index);
    let places = ruleset.places(scope);
    *index += 1;
    redirect::parse(scope, line, index, redirect::Destination::Format, places, ruleset.is_request())
        .map(HttpAction::Redirect)
}

pub(super) fn reject(_: &mut Scope<'_>, _: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    Ok(HttpAction::Reject)
}

pub(super) fn silent_drop(_: &mut Scope<'_>, _: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    Ok(HttpAction::SilentDrop)
}

pub(super) fn disable_l7_retry(_: &mut Scope<'_>, _: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    Ok(HttpAction::DisableL7Retry)
}

pub(super) fn auth(_: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    let mut realm = None;
    if line.word(*index) == "realm" {
        let word = line.word(*index + 1);
        if word.is_empty() {
            return Err(wrong("missing realm value.", *index + 1).expected("the text that browsers show"));
        }
        realm = Some(line.bytes(*index + 1).to_vec());
        *index += 2;
    }
    Ok(HttpAction::Auth { realm })
}

/// `add-header`, `set-header` and `early-hint`.
pub(super) fn header(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let ruleset = Ruleset::of(line, *index);
    let action = line.word(*index).to_owned();
    let at = arguments(line, index, 2, "expects exactly 2 arguments", "<name> <fmt>, as in X-Proto %[src]")?;
    let name = header_name(scope, line, at)?;
    let places = ruleset.places(scope);
    let format = scope.log_format(line, at + 1, places)?;
    *index += 2;
    Ok(match action.as_str() {
        "add-header" => HttpAction::AddHeader(name, format),
        "set-header" => HttpAction::SetHeader(name, format),
        _ => HttpAction::EarlyHint(name, format),
    })
}

pub(super) fn delete_header(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let at = arguments(line, index, 1, "expects at least 1 argument", "<name> [-m <method>]")?;
    let name = line.word(at).to_owned();
    *index += 1;
    if line.word(*index) != "-m" {
        return Ok(HttpAction::DelHeader(HeaderMatch::Name(name)));
    }
    *index += 1;
    let method = line.word(*index);
    let expected = "str, beg, end, sub or reg";
    if method.is_empty() {
        return Err(wrong("-m flag expects exactly 1 argument", *index).expected(expected));
    }
    let found = match method {
        "str" => HeaderMatch::Name(name),
        "beg" => HeaderMatch::Prefix(name),
        "end" => HeaderMatch::Suffix(name),
        "sub" => HeaderMatch::Contains(name),
        "reg" => HeaderMatch::Regex(regex(scope, line, at, false)?),
        _ => {
            let message = format!("-m with unsupported matching method '{method}'");
            return Err(wrong(message, *index).expected(expected));
        }
    };
    *index += 1;
    Ok(HttpAction::DelHeader(found))
}

/// `replace-header` and `replace-value`.
pub(super) fn replace_header(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let ruleset = Ruleset::of(line, *index);
    let whole = line.word(*index) == "replace-header";
    let at = arguments(line, index, 3, "expects exactly 3 arguments", "<name> <match-regex> <replace-fmt>")?;
    let name = line.word(at).to_owned();
    let regex = regex(scope, line, at + 1, false)?;
    let places = ruleset.places(scope);
    let format = scope.log_format(line, at + 2, places)?;
    *index += 3;
    Ok(if whole {
        HttpAction::ReplaceHeader { name, regex, format }
    } else {
        HttpAction::ReplaceValue { name, regex, format }
    })
}

/// `replace-path`, `replace-pathq` and `replace-uri`.
pub(super) fn replace_uri(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let action = line.word(*index).to_owned();
    let message = "expects exactly 2 arguments <match-regex> and <replace-format>";
    let expected = "<match-regex> <replace-fmt>, spaces escaped or quoted";
    let at = arguments(line, index, 2, message, expected)?;
    exactly(line, at + 2, message, expected)?;
    let regex = scope
        .regex(line, at, false)
        .map_err(|problem| around(problem, |error| format!("failed to parse the regex : {error}")))?;
    let places = scope.request_places();
    let format = scope.log_format(line, at + 1, places)?;
    *index += 2;
    Ok(match action.as_str() {
        "replace-path" => HttpAction::ReplacePath(regex, format),
        "replace-pathq" => HttpAction::ReplacePathq(regex, format),
        _ => HttpAction::ReplaceUri(regex, format),
    })
}

/// `set-method`, `set-path`, `set-pathq`, `set-query` and `set-uri`.
pub(super) fn set_request_line(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let action = line.word(*index).to_owned();
    let message = "expects exactly 1 argument <format>";
    let expected = "one <fmt>, spaces escaped or quoted";
    let at = arguments(line, index, 1, message, expected)?;
    exactly(line, at + 1, message, expected)?;
    let places = scope.request_places();
    let format = scope.log_format(line, at, places)?;
    *index += 1;
    Ok(match action.as_str() {
        "set-method" => HttpAction::SetMethod(format),
        "set-path" => HttpAction::SetPath(format),
        "set-pathq" => HttpAction::SetPathq(format),
        "set-query" => HttpAction::SetQuery(format),
        _ => HttpAction::SetUri(format),
    })
}

pub(super) fn set_status(_: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let message = "expects 1 argument: <status>; or 3 arguments: <status> reason <fmt>";
    let at = arguments(line, index, 1, message, "<status> [reason <text>]")?;
    let (status, rest) = leading_integer(line.word(at), false);
    let status = u16::try_from(status).ok().filter(|status| rest.is_empty() && (100..=999).contains(status));
    let Some(status) = status else {
        return Err(wrong("expects an integer status code between 100 and 999", at).expected("100 to 999"));
    };
    *index += 1;
    let mut reason = None;
    let text = line.word(*index + 1);
    if line.word(*index) == "reason" && !text.is_empty() && !is_condition(text) {
        reason = Some(text.to_owned());
        *index += 2;
    }
    Ok(HttpAction::SetStatus { status, reason })
}

pub(super) fn cache_use(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    cache_name(scope, line, index).map(HttpAction::CacheUse)
}

pub(super) fn cache_store(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    cache_name(scope, line, index).map(HttpAction::CacheStore)
}

/// The section that a rule names, and the filter that it implies.
fn cache_name(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<Arc<str>, Problem> {
    *index += 1;
    let word = line.word(*index);
    if word.is_empty() || is_condition(word) {
        return Err(wrong("expects a cache name", *index).expected("the name of a 'cache' section"));
    }
    *index += 1;
    let name: Arc<str> = word.into();
    let filters = &mut scope.proxy().proxy.filters;
    if !filters.iter().any(|filter| matches!(filter, Filter::Cache { name: known, .. } if *known == name)) {
        filters.push(Filter::Cache { name: Arc::clone(&name), is_implied: true });
    }
    Ok(name)
}

pub(super) fn set_timeout(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let at = arguments(line, index, 2, "expects exactly 2 arguments", "{ server | tunnel } { <timeout> | <expr> }")?;
    if !scope.has_backend() {
        let name = scope.proxy().proxy.name.clone();
        return Err(wrong(format!("proxy '{name}' has no backend capability"), at - 1)
            .expected("this action in a backend or listen section"));
    }
    let which = line.word(at);
    let kind = match which {
        "server" => TimeoutKind::Server,
        "tunnel" => TimeoutKind::Tunnel,
        _ => {
            return Err(wrong(format!("'set-timeout' rule supports 'server'/'tunnel' (got '{which}')"), at)
                .expected("server or tunnel")
                .nearest(which, ["server", "tunnel"]));
        }
    };
    let word = line.word(at + 1);
    *index += 1;
    let value = match units::time(word, Unit::Millisecond) {
        Ok(units::Time { value: Duration::ZERO, .. }) => {
            return Err(wrong(format!("null value is not valid for a 'set-timeout {which}' rule"), at + 1)
                .expected("a time above zero, such as 5s"));
        }
        Ok(_) | Err(TimeError::Overflow) => {
            let time = args::time_of(scope, line, at + 1, word, &format!("set-timeout {which}"), Unit::Millisecond)?;
            *index += 1;
            TimeoutValue::Fixed(time)
        }
        Err(TimeError::Unexpected(_)) => {
            let places = scope.request_places();
            TimeoutValue::Expr(scope.expr(line, index, places)?)
        }
    };
    Ok(HttpAction::SetTimeout(kind, value))
}

pub(super) fn strict_mode(_: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let at = arguments(line, index, 1, "expects exactly 1 arguments", "on or off")?;
    let word = line.word(at);
    let on = match word.to_ascii_lowercase().as_str() {
        "on" => true,
        "off" => false,
        _ => {
            return Err(wrong(format!("Unexpected value '{word}'. Only 'on' and 'off' are supported"), at)
                .expected("on or off"));
        }
    };
    *index += 1;
    Ok(HttpAction::StrictMode(on))
}

pub(super) fn wait_for_body(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let usage = "expects time <time> [ at-least <bytes> ]";
    let expected = "time <time> [at-least <bytes>], as in time 1s at-least 10k";
    let start = arguments(line, index, 1, usage, expected)?;
    let mut time = None;
    let mut at_least = 0;
    while matches!(line.word(*index), "time" | "at-least") {
        let (keyword, word) = (line.word(*index), line.word(*index + 1));
        if word.is_empty() {
            return Err(wrong(format!("missing argument for '{keyword}'"), *index + 1).expected(expected));
        }
        if keyword == "time" {
            time = Some(args::time(scope, line, *index + 1, Unit::Millisecond)?);
        } else {
            let size = args::size(line, *index + 1).map_err(|problem| {
                around(problem, |error| error.replace(&format!("<{}>", line.word(0)), "<at-least>"))
            })?;
            at_least = usize::try_from(size).unwrap_or(usize::MAX);
        }
        *index += 2;
    }
    let Some(time) = time else { return Err(wrong(usage, start).expected(expected)) };
    Ok(HttpAction::WaitForBody { time, at_least })
}

/// `set-map`, `del-map`, `add-acl` and `del-acl`, with the file in parentheses.
pub(super) fn change_patterns(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let places = Ruleset::of(line, *index).places(scope);
    let start = *index;
    let word = line.word(start);
    let name = word.split('(').next().unwrap_or_default();
    let path = word.split_once('(').and_then(|(_, path)| path.strip_suffix(')')).map(str::to_owned);
    let Some(path) = path else {
        return Err(wrong(format!("'{name}' expects a file in parentheses"), start).expected(format!("{name}(<file>)")));
    };
    let (count, message, expected) = match name {
        "set-map" => (2, "expects exactly 2 arguments", "<key fmt> <value fmt>, as in %[src] %[path]"),
        _ => (1, "expects exactly 1 arguments", "<key fmt>, as in %[src]"),
    };
    let at = arguments(line, index, count, message, expected)?;
    let key = scope.log_format(line, at, places)?;
    let kind = match name {
        "set-map" => PatternChangeKind::Set(scope.log_format(line, at + 1, places)?),
        "add-acl" => PatternChangeKind::Add,
        _ => PatternChangeKind::Delete,
    };
    *index += count;
    scope.state.pattern_changes.push((path.clone(), line.clone(), start));
    Ok(HttpAction::ChangePatterns(PatternChange { path, key, kind }))
}

pub(super) fn normalize_uri(_: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let at = arguments(line, index, 1, "missing argument <normalizer>", "a normalizer, as in path-merge-slashes")?;
    let word = line.word(at);
    *index += 1;
    let mut flag = |name: &str| {
        let found = line.word(*index);
        if found == name {
            *index += 1;
            return Ok(true);
        }
        if found.is_empty() || is_condition(found) {
            return Ok(false);
        }
        Err(wrong(format!("unknown argument '{found}' for '{word}' normalizer"), *index).expected(format!("'{name}'")))
    };
    let normalizer = match word {
        "fragment-encode" => NormalizeUri::FragmentEncode,
        "fragment-strip" => NormalizeUri::FragmentStrip,
        "path-merge-slashes" => NormalizeUri::PathMergeSlashes,
        "path-strip-dot" => NormalizeUri::PathStripDot,
        "path-strip-dotdot" => NormalizeUri::PathStripDotdot { full: flag("full")? },
        "percent-decode-unreserved" => NormalizeUri::PercentDecodeUnreserved { strict: flag("strict")? },
        "percent-to-uppercase" => NormalizeUri::PercentToUppercase { strict: flag("strict")? },
        "query-sort-by-name" => NormalizeUri::QuerySortByName,
        _ => {
            let known = [
                "fragment-encode",
                "fragment-strip",
                "path-merge-slashes",
                "path-strip-dot",
                "path-strip-dotdot",
                "percent-decode-unreserved",
                "percent-to-uppercase",
                "query-sort-by-name",
            ];
            return Err(wrong(format!("unknown normalizer '{word}'"), at)
                .expected(format!("one of {}", known.join(", ")))
                .nearest(word, known));
        }
    };
    Ok(HttpAction::NormalizeUri(normalizer))
}

/// How services begin that are plugins.
const PLUGIN: &str = "plugin.";

pub(super) fn use_service(_: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    let word = line.word(*index);
    let expected = "prometheus-exporter, or plugin.NAME";
    if let Some(name) = word.strip_prefix(PLUGIN).filter(|name| !name.is_empty()) {
        *index += 1;
        let start = *index;
        while !line.word(*index).is_empty() && !is_condition(line.word(*index)) {
            *index += 1;
        }
        let arguments = line.texts_from(start).take(*index - start).map(str::to_owned).collect();
        return Ok(HttpAction::UseService(Service::Plugin(Arc::new(PluginCall { name: name.into(), arguments }))));
    }
    match word {
        "" => Err(wrong("'use-service' expects a service name.", *index).expected(expected)),
        "prometheus-exporter" => {
            *index += 1;
            Ok(HttpAction::UseService(Service::PrometheusExporter))
        }
        _ if word.starts_with("lua.") => {
            Err(wrong(format!("service '{word}' is not supported yet: services written in Lua come with Lua."), *index))
        }
        _ => Err(wrong(format!("'{word}' unknown service name."), *index)
            .expected(expected)
            .nearest(word, ["prometheus-exporter"])),
    }
}
