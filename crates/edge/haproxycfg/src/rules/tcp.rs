//! `tcp-request` and `tcp-response`.

use sample::{Condition, Places};

use super::{
    order,
    ruleset::Ruleset,
    variables,
    words::{around, is_condition, wrong},
};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{Rule, TcpAction},
    scope::Scope,
    table::{self, Parse},
    units::Unit,
};

type Parsed = Result<TcpAction, Problem>;

/// The section for messages: `frontend 'web'`.
fn section(scope: &mut Scope<'_>) -> String {
    let kind = scope.kind_word();
    format!("{kind} '{}'", scope.proxy().proxy.name)
}

pub(super) fn accept(_: &mut Scope<'_>, _: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    Ok(TcpAction::Accept)
}

pub(super) fn reject(_: &mut Scope<'_>, _: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    Ok(TcpAction::Reject)
}

pub(super) fn close(_: &mut Scope<'_>, _: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    Ok(TcpAction::Close)
}

pub(super) fn silent_drop(_: &mut Scope<'_>, _: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    Ok(TcpAction::SilentDrop)
}

pub(super) fn expect_proxy(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    expect_layer(scope, line, index)?;
    Ok(TcpAction::ExpectProxy)
}

pub(super) fn expect_netscaler(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    expect_layer(scope, line, index)?;
    Ok(TcpAction::ExpectNetscaler)
}

/// `layer4` behind the word at `index`.
fn expect_layer(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Result<(), Problem> {
    let (action, layer) = (line.word(*index), line.word(*index + 1));
    if layer != "layer4" {
        let name = Ruleset::of(line, *index).name();
        let section = section(scope);
        let message = format!("'{name} {action}' only supports 'layer4' in {section} (got '{layer}')");
        return Err(wrong(message, *index + 1).expected("layer4"));
    }
    *index += 2;
    Ok(())
}

pub(super) fn switch_mode(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    *index += 1;
    let word = line.word(*index);
    let name = "'tcp-request switch-mode'";
    if word.is_empty() {
        return Err(wrong(format!("{name} expects a mode as argument."), *index).expected("http"));
    }
    if !scope.has_frontend() {
        let section = section(scope);
        return Err(wrong(format!("{name} not allowed because {section} has no frontend capability"), *index - 1)
            .expected("this action in a frontend or listen section"));
    }
    if word != "http" {
        return Err(wrong(format!("{name} expects a valid mode (got '{word}')."), *index).expected("http"));
    }
    *index += 1;
    if line.word(*index) == "proto" {
        let protocol = line.word(*index + 1);
        match protocol {
            "h1" => *index += 2,
            "" => {
                return Err(
                    wrong(format!("{name}: 'proto' expects a protocol as argument."), *index + 1).expected("h1")
                );
            }
            "h2" => {
                let message = "protocol 'h2' is not supported yet after a switch: 'bind ... proto h2' speaks it from the first byte on.";
                return Err(wrong(message, *index + 1).expected("h1"));
            }
            _ => {
                let message = format!("{name}: 'proto' expects a valid MUX protocol, if specified (got '{protocol}')");
                return Err(wrong(message, *index + 1).expected("h1"));
            }
        }
    }
    Ok(TcpAction::SwitchModeHttp)
}

/// The rule whose action stands at `index`; none when the action has no effect here.
fn rule(scope: &mut Scope<'_>, line: &Line, ruleset: Ruleset) -> Result<Option<Rule<TcpAction>>, Problem> {
    let name = ruleset.name();
    let word = line.word(2);
    if table::find(ruleset.group(), word).is_none() {
        if let Some(problem) = variables::incomplete_action(word, 2) {
            return Err(problem);
        }
        let known: Vec<&str> = table::supported_names(ruleset.group()).collect();
        let listed = known.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let section = section(scope);
        return Err(wrong(format!("'{name}' expects {listed} in {section} (got '{word}')."), 2)
            .nearest(word, known.iter().copied()));
    }
    let keyword = scope.lookup(line, 2, ruleset.group())?;
    let mut end = 2;
    let in_rule =
        |problem| {
            around(problem, |error| {
                if error.starts_with('\'') { error.to_owned() } else { format!("'{name} {word}' : {error}") }
            })
        };
    let action = match keyword.parse {
        Parse::TcpAction(parse) => Some(parse(scope, line, &mut end).map_err(in_rule)?),
        Parse::StreamAction(parse) => Some(TcpAction::Stream(parse(scope, line, &mut end).map_err(in_rule)?)),
        _ => {
            end = (2..line.len()).find(|at| is_condition(line.word(*at))).unwrap_or(line.len());
            None
        }
    };
    let found = line.word(end);
    if !found.is_empty() && !is_condition(found) {
        let section = section(scope);
        let message = format!("'{name} {word}' only accepts 'if' or 'unless', in {section} (got '{found}')");
        return Err(wrong(message, end).expected("'if' or 'unless' followed by a condition"));
    }
    let section = section(scope);
    let condition = scope.condition(line, end, Places::NONE).map_err(|problem| {
        around(problem, |error| {
            format!("'{name} {word}' : error detected in {section} while parsing '{found}' condition : {error}")
        })
    })?;
    if let Some(condition) = &condition {
        warn_of_conflict(scope, line, end, ruleset, condition);
    }
    Ok(action.map(|action| Rule { action, condition, location: line.location() }))
}

/// Warns of a condition that looks at what is not there; unlike elsewhere, HAProxy names the set of rules.
fn warn_of_conflict(scope: &mut Scope<'_>, line: &Line, index: usize, ruleset: Ruleset, condition: &Condition) {
    let places = ruleset.places(scope);
    // What is there at one of the places is good enough.
    let conflicts: Option<Vec<String>> = places.iter().map(|place| condition.conflict(place)).collect();
    if let Some(message) = conflicts.and_then(|conflicts| conflicts.into_iter().next()) {
        let message = message.replacen("never match", &format!("never match in '{}'", ruleset.name()), 1);
        scope.warn(line, wrong(message, index));
    }
}

/// `tcp-request inspect-delay` and `tcp-response inspect-delay`.
fn inspect_delay(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let section = section(scope);
    let name = format!("{} {}", line.word(0), line.word(1));
    let expects = format!("'{name}' expects a positive delay in milliseconds, in {section}");
    if line.word(2).is_empty() {
        return Err(wrong(expects, 2).expected("a time such as 5s"));
    }
    let delay = args::time(scope, line, 2, Unit::Millisecond)
        .map_err(|problem| around(problem, |error| format!("{expects} ({error})")))?;
    let proxy = &mut scope.proxy().proxy;
    let slot = if line.word(0) == "tcp-request" {
        &mut proxy.tcp_request_inspect_delay
    } else {
        &mut proxy.tcp_response_inspect_delay
    };
    if slot.is_some_and(|delay| !delay.is_zero()) {
        scope.warn(line, wrong(format!("ignoring {name} (was already defined) in {section}"), 1));
    } else {
        *slot = Some(delay);
    }
    args::ignore_more(scope, line, 1, 1);
    Ok(())
}

/// A `tcp-request` line.
pub(super) fn request(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let ruleset = match line.word(1) {
        "inspect-delay" => return inspect_delay(scope, line),
        "connection" => Ruleset::TcpRequestConnection,
        "session" => Ruleset::TcpRequestSession,
        "content" => Ruleset::TcpRequestContent,
        other => {
            let section = section(scope);
            let known = ["inspect-delay", "connection", "session", "content"];
            let message = if other.is_empty() {
                format!("missing argument for 'tcp-request' in {section}")
            } else {
                format!(
                    "'tcp-request' expects 'inspect-delay', 'connection', 'session', or 'content' in {section} (got '{other}')"
                )
            };
            return Err(wrong(message, 1)
                .expected("inspect-delay, connection, session or content")
                .nearest(other, known));
        }
    };
    if ruleset != Ruleset::TcpRequestContent && !scope.has_frontend() {
        let kind = scope.kind_word();
        let message =
            format!("{} is not allowed because {kind} {} is not a frontend", ruleset.name(), scope.proxy().proxy.name);
        return Err(wrong(message, 1).expected("this rule in a frontend or listen section, or 'tcp-request content'"));
    }
    let Some(rule) = rule(scope, line, ruleset)? else { return Ok(()) };
    order::warn_tcp_request(scope, line, ruleset);
    let draft = scope.proxy();
    draft.rules.own.note(ruleset, false);
    match ruleset {
        Ruleset::TcpRequestConnection => draft.proxy.tcp_request_connection.push(rule),
        Ruleset::TcpRequestSession => draft.proxy.tcp_request_session.push(rule),
        _ => draft.proxy.tcp_request_content.push(rule),
    }
    Ok(())
}

/// A `tcp-response` line.
pub(super) fn response(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let word = line.word(1);
    if !matches!(word, "inspect-delay" | "content") {
        let section = section(scope);
        let message = if word.is_empty() {
            format!("missing argument for 'tcp-response' in {section}")
        } else {
            format!("'tcp-response' expects 'inspect-delay' or 'content' in {section} (got '{word}')")
        };
        return Err(wrong(message, 1).expected("inspect-delay or content").nearest(word, ["inspect-delay", "content"]));
    }
    if !scope.has_backend() {
        let message =
            format!("tcp-response {word} is only allowed in 'backend' sections or 'defaults' section with a name");
        return Err(wrong(message, 1).expected("this rule in a backend or listen section"));
    }
    if word == "inspect-delay" {
        return inspect_delay(scope, line);
    }
    if let Some(rule) = rule(scope, line, Ruleset::TcpResponseContent)? {
        scope.proxy().proxy.tcp_response_content.push(rule);
    }
    Ok(())
}
