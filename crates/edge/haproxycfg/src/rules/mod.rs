//! Parsers of rules and of what surrounds them: conditions, actions, switching, cookies, statistics, error pages,
//! captures, logs, health checks and accounts.
//!
//! A parser fills the proxy's model as far as one line says all. What waits for other lines or sections (names of
//! backends, formats, error pages) is kept in [`Pending`] until everything has been read; then `finish` resolves it.

#[macro_use]
mod stream_table;

mod accelerator;
mod acl;
mod captures;
mod cgi;
mod check_expect;
mod check_options;
mod check_steps;
mod check_table;
mod checks;
mod common;
mod cookie;
mod error_file;
mod errors;
mod external_check;
mod files;
mod filters;
mod formats;
mod http;
mod http_actions;
mod http_table;
mod logs;
mod mail;
mod mode;
mod monitor;
mod options;
mod order;
mod redirect;
mod refused;
mod reply;
mod rings;
mod ruleset;
mod send_file;
mod shared_cache;
mod stats;
mod stick;
mod stick_table;
mod stream_actions;
mod switching;
mod tcp;
mod tcp_table;
mod users;
mod variables;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ruleset::Ruleset;
use sample::{Condition, Places};
use words::{section_problem, wrong};

use crate::{
    diagnostics::Problem,
    line::Line,
    model::ProxyKind,
    scope::{ProxyDraft, Scope},
    table::{Group, Keyword},
};

pub(crate) use accelerator::finish as finish_accelerator;
pub(crate) use acl::acl as acl_line;
pub(crate) use errors::open_section as open_http_errors;
pub(crate) use logs::{fcgi_logs, peers_log};
pub(crate) use mail::open_section as open_mailers;
pub(crate) use shared_cache::finish as finish_shared_cache;
pub(crate) use stick_table::peers_table;
pub(crate) use users::open_section as open_userlist;

/// The condition that begins at a word, or none at the end of the line; nothing else may stand there.
pub(crate) fn condition_at(
    scope: &mut Scope<'_>,
    line: &Line,
    index: usize,
    places: Places,
) -> Result<Option<Condition>, Problem> {
    words::condition_or_end(line, index, |word| format!("'{}' : unexpected word '{word}'.", line.word(0)))?;
    scope.condition(line, index, places)
}

/// Keywords of `global` that set variables.
const GLOBAL: &[Keyword] = &[
    Keyword::new(Group::Global, "set-var", "<var-name> <expr>", "3.1")
        .doc(
            "Sets a variable of the process when the configuration is read.",
            "set-var proc.current_state str(primary)",
        )
        .line(variables::set_global),
    Keyword::new(Group::Global, "set-var-fmt", "<var-name> <fmt>", "3.1")
        .doc("Sets a variable of the process from a log-format string.", "set-var-fmt proc.bootid \"%pid|%t\"")
        .line(variables::set_global),
];

/// All keywords of this part of the language.
pub(crate) const TABLES: &[&[Keyword]] = &{
    let [request, request_messages, request_only] = http_table::REQUEST;
    let [response, response_messages, response_only] = http_table::RESPONSE;
    let [after_response, after_response_only] = http_table::AFTER_RESPONSE;
    let [connection, connection_requests, connection_only] = tcp_table::CONNECTION;
    let [session, session_requests] = tcp_table::SESSION;
    let [content, content_requests, contents, content_only] = tcp_table::REQUEST_CONTENT;
    let [response_content, response_contents, response_content_only] = tcp_table::RESPONSE_CONTENT;
    [
        GLOBAL,
        acl::KEYWORDS,
        captures::KEYWORDS,
        cgi::KEYWORDS,
        check_table::KEYWORDS,
        cookie::KEYWORDS,
        errors::KEYWORDS,
        external_check::KEYWORDS,
        files::KEYWORDS,
        send_file::KEYWORDS,
        filters::KEYWORDS,
        formats::KEYWORDS,
        http_table::LINES,
        logs::KEYWORDS,
        mail::KEYWORDS,
        accelerator::KEYWORDS,
        shared_cache::KEYWORDS,
        monitor::KEYWORDS,
        options::KEYWORDS,
        refused::KEYWORDS,
        rings::KEYWORDS,
        stats::KEYWORDS,
        stick::KEYWORDS,
        stick_table::KEYWORDS,
        switching::KEYWORDS,
        tcp_table::LINES,
        users::KEYWORDS,
        request,
        request_messages,
        request_only,
        response,
        response_messages,
        response_only,
        after_response,
        after_response_only,
        connection,
        connection_requests,
        connection_only,
        session,
        session_requests,
        content,
        content_requests,
        contents,
        content_only,
        response_content,
        response_contents,
        response_content_only,
    ]
};

/// A reply of a rule whose body comes from an `http-errors` section.
#[derive(Clone, Debug)]
struct WaitingReply {
    ruleset: Ruleset,
    position: usize,
    line: Line,
    /// The word that names the section.
    word: usize,
}

/// The rules that a section inherits, which restrict what section may.
#[derive(Clone, Debug)]
struct Inherited {
    line: Line,
    has_rules: bool,
    has_connection_rules: bool,
    has_response_rules: bool,
    has_captures: bool,
}

/// What a proxy's rules keep until all names are known.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// The line of `vcl`.
    accelerator: Option<Line>,
    shared_cache: Option<Line>,
    own: order::Own,
    inherited: Option<Inherited>,
    use_backend: Vec<switching::Waiting>,
    use_server: Vec<switching::Waiting>,
    sticks: Vec<stick::Waiting>,
    /// The section that the reply of the rule which is being read takes its page from.
    waiting_reply: Option<(Line, usize)>,
    replies: Vec<WaitingReply>,
    /// Names of filters that `set-bandwidth-limit` rules use.
    bandwidth_limits: Vec<filters::WantedLimit>,
    /// Slots that `capture ... id` rules fill.
    capture_ids: Vec<(Line, usize, Ruleset, usize)>,
    /// `resolvers` sections that `do-resolve` names.
    resolvers: Vec<(Line, usize, String)>,
    errors: Vec<errors::Entry>,
    formats: formats::Sources,
    checks: checks::Pending,
    external_check: external_check::Pending,
    files: files::Pending,
    mail: mail::Pending,
    /// Whether the page's settings are those of the `defaults` section.
    stats_inherited: bool,
    /// How many of the `log` lines of `global` the section has.
    global_logs: usize,
    cookie_dynamic: bool,
    cookie_line: Option<Line>,
    dynamic_cookie_key: Option<String>,
}

/// What belongs to no proxy.
#[derive(Debug, Default)]
pub struct Shared {
    error_sections: BTreeMap<String, errors::ErrorSection>,
    current_error_section: Option<String>,
    users: users::Waiting,
    ring_references: Vec<rings::Reference>,
    mailers: mail::Mailers,
}

/// What a section inherits otherwise than by a copy of its `defaults` section.
pub(crate) fn inherit(draft: &mut ProxyDraft, defaults: &ProxyDraft) {
    let proxy = &defaults.proxy;
    let has_connection_rules = !proxy.tcp_request_connection.is_empty() || !proxy.tcp_request_session.is_empty();
    let has_response_rules = !proxy.tcp_response_content.is_empty();
    let has_rules = has_connection_rules
        || has_response_rules
        || !proxy.tcp_request_content.is_empty()
        || !proxy.http_request.is_empty()
        || !proxy.http_response.is_empty()
        || !proxy.http_after_response.is_empty();
    let has_captures = !proxy.request_captures.is_empty() || !proxy.response_captures.is_empty();
    let line = defaults.line.clone().filter(|_| has_rules || has_captures);
    draft.proxy.filters.clear();
    if let Some(compression) = &mut draft.proxy.compression {
        compression.offload = false;
    }
    let rules = &mut draft.rules;
    rules.inherited =
        line.map(|line| Inherited { line, has_rules, has_connection_rules, has_response_rules, has_captures });
    rules.own = order::Own::default();
    rules.checks = defaults.rules.checks.for_heir();
    rules.files = files::Pending::default();
    rules.stats_inherited = proxy.stats.is_some();
    rules.waiting_reply = None;
}

/// Resolves what belongs to no proxy, once all sections have been read.
pub(crate) fn finish_shared(scope: &mut Scope<'_>) {
    users::finish(scope);
    rings::finish(scope);
    check_inheritance(scope);
    stick::finish_defaults(scope);
}

/// Resolves what a proxy still waits for; the scope's section is that proxy.
pub(crate) fn finish(scope: &mut Scope<'_>) {
    // As in HAProxy, a section that is switched off is not looked at.
    if scope.proxy().proxy.disabled {
        return;
    }
    switching::finish(scope);
    stick::finish(scope);
    errors::finish(scope);
    formats::finish(scope);
    checks::finish(scope);
    mail::finish(scope);
    cookie::finish(scope);
    stats::finish(scope);
    finish_captures(scope);
    filters::finish(scope);
    cgi::finish(scope);
    files::finish(scope);
    common::find_resolvers(scope);
    mode::finish(scope);
}

/// Slots of captures must exist where that can be known, which is in frontends.
fn finish_captures(scope: &mut Scope<'_>) {
    let ids = std::mem::take(&mut scope.proxy().rules.capture_ids);
    if !scope.has_frontend() {
        return;
    }
    for (line, word, ruleset, slot) in ids {
        let proxy = &scope.proxy().proxy;
        let captures = if ruleset.is_request() { &proxy.request_captures } else { &proxy.response_captures };
        let count = captures.len();
        if slot >= count {
            let name = ruleset.name();
            let direction = if ruleset.is_request() { "request" } else { "response" };
            let message = format!("unable to find capture id '{slot}' referenced by {name} capture rule");
            let expected = if count == 0 {
                format!("'declare capture {direction} len <length>' in this section")
            } else {
                format!("a number below {count}, or a further 'declare capture {direction}'")
            };
            scope.alert(&line, wrong(message, word).expected(expected));
        }
    }
}

/// Which sections may inherit from `defaults` with rules: frontends or backends, not both, and nothing else.
fn check_inheritance(scope: &mut Scope<'_>) {
    let mut problems = Vec::new();
    let heirs = scope.state.defaults.iter().map(|draft| (draft, None));
    let heirs = heirs.chain(scope.state.proxies.iter().map(|draft| (draft, Some(draft.proxy.kind))));
    let mut sides: BTreeMap<(String, u32), ProxyKind> = BTreeMap::new();
    for (draft, kind) in heirs {
        let (Some(inherited), Some(line)) = (&draft.rules.inherited, &draft.line) else { continue };
        let place = format!("(defaults section at {}:{})", inherited.line.file(), inherited.line.number());
        let key = (inherited.line.file().to_string(), inherited.line.number());
        let message = match kind {
            None if inherited.has_rules => Some(format!(
                "a defaults section cannot inherit from a defaults section defining TCP/HTTP rules {place}."
            )),
            Some(ProxyKind::Listen) if inherited.has_rules => {
                Some("a listen section cannot inherit from a defaults section defining TCP/HTTP rules.".to_owned())
            }
            Some(side) if inherited.has_rules => {
                if *sides.entry(key).or_insert(side) != side {
                    Some(format!(
                        "frontends and backends cannot inherit from the same defaults section if it defines TCP/HTTP \
                         rules {place}."
                    ))
                } else if side == ProxyKind::Backend && inherited.has_connection_rules {
                    Some(format!(
                        "a backend section cannot inherit from a defaults section defining 'tcp-request connection' or \
                         'tcp-request session' rules {place}."
                    ))
                } else if side == ProxyKind::Frontend && inherited.has_response_rules {
                    Some(format!(
                        "a frontend section cannot inherit from a defaults section defining 'tcp-response content' \
                         rules {place}."
                    ))
                } else {
                    None
                }
            }
            _ => None,
        };
        let captures = inherited.has_captures && kind != Some(ProxyKind::Frontend);
        let captures = captures.then(|| {
            format!("backend or defaults sections cannot inherit from a defaults section defining capptures {place}.")
        });
        for message in message.into_iter().chain(captures) {
            problems.push((line.clone(), message));
        }
    }
    for (line, message) in problems {
        let expected = "a 'from' with another defaults section";
        scope.alert(
            &line,
            section_problem(message).prefix(crate::diagnostics::Prefix::Parsing).at(0).expected(expected),
        );
    }
}
