//! Lines of `http-request`, `http-response`, `http-after-response` and `stats http-request`, and `redirect` lines.

use super::{
    order,
    redirect::{self, Destination},
    ruleset::Ruleset,
    variables,
    words::{around, condition_or_end, is_condition, wrong},
};
use crate::{
    diagnostics::Problem,
    line::Line,
    model::{HttpAction, Rule},
    scope::Scope,
    table::{self, Parse},
};

/// Whether nothing after an unconditional action of this kind is ever run.
pub(super) fn is_final(action: &HttpAction) -> bool {
    match action {
        HttpAction::Allow
        | HttpAction::Deny(_)
        | HttpAction::Tarpit(_)
        | HttpAction::Return(_)
        | HttpAction::Auth { .. } => true,
        HttpAction::Redirect(redirect) => !redirect.ignore_empty,
        _ => false,
    }
}

/// What is wrong with a rule's action.
fn in_rule(scope: &mut Scope<'_>, problem: Problem, name: &str, word: &str) -> Problem {
    let kind = scope.kind_word();
    let proxy = scope.proxy().proxy.name.clone();
    around(problem, |error| format!("error detected in {kind} '{proxy}' while parsing '{name} {word}' rule : {error}."))
}

/// The rule whose action stands at `index`; none when the action has no effect here.
pub(super) fn rule(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<Option<Rule<HttpAction>>, Problem> {
    let ruleset = Ruleset::of(line, index);
    let name = ruleset.name();
    let word = line.word(index);
    if table::find(ruleset.group(), word).is_none() {
        if let Some(problem) = variables::incomplete_action(word, index) {
            return Err(in_rule(scope, problem, name, word));
        }
        let known: Vec<&str> = table::supported_names(ruleset.group()).collect();
        let listed = known.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let missing = if word.is_empty() { " (missing argument)" } else { "" };
        return Err(wrong(format!("'{name}' expects {listed}, but got '{word}'{missing}."), index)
            .nearest(word, known.iter().copied()));
    }
    let keyword = scope.lookup(line, index, ruleset.group())?;
    scope.proxy().rules.waiting_reply = None;
    let mut end = index;
    let action = match keyword.parse {
        Parse::HttpAction(parse) => match parse(scope, line, &mut end) {
            Ok(action) => Some(action),
            Err(problem) => return Err(in_rule(scope, problem, name, word)),
        },
        Parse::StreamAction(parse) => match parse(scope, line, &mut end) {
            Ok(action) => Some(HttpAction::Stream(action)),
            Err(problem) => return Err(in_rule(scope, problem, name, word)),
        },
        _ => {
            // Known and without effect: its arguments are skipped, its condition is still checked.
            end = (index..line.len()).find(|at| is_condition(line.word(*at))).unwrap_or(line.len());
            None
        }
    };
    condition_or_end(line, end, |found| {
        format!("'{name} {word}' expects either 'if' or 'unless' followed by a condition but found '{found}'.")
    })?;
    let places = ruleset.places(scope);
    let condition = scope.condition(line, end, places).map_err(|problem| {
        around(problem, |error| match action {
            Some(HttpAction::Redirect(_)) => {
                format!("error detected while parsing '{name} redirect' rule : error in condition: {error}.")
            }
            _ => format!("error detected while parsing an '{name} {word}' condition : {error}."),
        })
    })?;
    Ok(action.map(|action| Rule { action, condition, location: line.location() }))
}

/// A line of one of the three rule sets.
pub(super) fn line(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let ruleset = Ruleset::of(line, 1);
    if scope.proxy().rules.own.is_ended(ruleset) {
        let message = format!(
            "previous '{}' action is final and has no condition attached, further entries are NOOP.",
            line.word(0)
        );
        scope.warn(line, wrong(message, 0));
    }
    let Some(rule) = rule(scope, line, 1)? else { return Ok(()) };
    if ruleset == Ruleset::HttpRequest {
        order::warn_http_request(scope, line);
    }
    let ends = rule.condition.is_none() && is_final(&rule.action);
    let draft = scope.proxy();
    draft.rules.own.note(ruleset, ends);
    let rules = match ruleset {
        Ruleset::HttpRequest => &mut draft.proxy.http_request,
        Ruleset::HttpResponse => &mut draft.proxy.http_response,
        _ => &mut draft.proxy.http_after_response,
    };
    rules.push(rule);
    let position = rules.len() - 1;
    if let Some((line, word)) = draft.rules.waiting_reply.take() {
        draft.rules.replies.push(super::WaitingReply { ruleset, position, line, word });
    }
    Ok(())
}

/// A `redirect` line.
pub(super) fn redirect_line(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let places = scope.request_places();
    let context = |scope: &mut Scope<'_>, problem: Problem| {
        let kind = scope.kind_word();
        let proxy = scope.proxy().proxy.name.clone();
        around(problem, |error| format!("error detected in {kind} '{proxy}' while parsing redirect rule : {error}."))
    };
    let mut end = 1;
    let action = redirect::parse(scope, line, &mut end, Destination::Literal, places, true)
        .map_err(|problem| context(scope, problem))?;
    let condition = scope
        .condition(line, end, places)
        .map_err(|problem| context(scope, around(problem, |error| format!("error in condition: {error}"))))?;
    let draft = scope.proxy();
    draft.proxy.redirects.push(Rule { action, condition, location: line.location() });
    draft.rules.own.redirect = true;
    order::warn_redirect(scope, line, line.word(0));
    Ok(())
}
