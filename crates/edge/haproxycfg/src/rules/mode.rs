//! What of the rules of a section has no effect in its mode or on its side.

use sample::{Condition, Place, Sources};

use super::words::section_problem;
use crate::{
    diagnostics::Severity,
    model::{Location, Mode, Rule, StreamAction, TcpAction},
    scope::Scope,
};

/// Drops what the section cannot use, with a warning where HAProxy has one.
pub(super) fn finish(scope: &mut Scope<'_>) {
    warn_of_blind_captures(scope);
    let kind = scope.kind_word();
    let draft = scope.proxy();
    let proxy = &mut draft.proxy;
    if !proxy.kind.has_frontend() {
        proxy.monitor_uri = None;
    }
    if !proxy.kind.has_backend() {
        proxy.cookie = None;
    }
    let upgrades = proxy.tcp_request_content.iter().any(|rule| matches!(rule.action, TcpAction::SwitchModeHttp));
    if proxy.mode == Mode::Http {
        return warn_of_buffers(scope);
    }
    drop_http_only(scope);
    if upgrades {
        return;
    }
    let draft = scope.proxy();
    let proxy = &mut draft.proxy;
    let name = proxy.name.clone();
    let ignored = [
        ("'stats' statement", "it requires", proxy.stats.take().is_some()),
        ("'capture' statement", "it requires", proxy.capture_cookie.take().is_some()),
        ("'http-request' rules", "they require", !proxy.http_request.is_empty()),
        ("'http-response' rules", "they require", !proxy.http_response.is_empty()),
        ("'http-after-response' rules", "they require", !proxy.http_after_response.is_empty()),
        ("'redirect' rules", "they require", !proxy.redirects.is_empty()),
    ];
    let Some(line) = draft.line.clone() else { return };
    for (what, requires, _) in ignored.into_iter().filter(|(.., present)| *present) {
        let message = format!("{what} ignored for {kind} '{name}' as {requires} HTTP mode.");
        scope.warn(&line, section_problem(message).at(1).expected("'mode http' in this section or its defaults"));
    }
}

/// Where the conditions of some rules stand that look at raw bytes.
fn buffers<A>(rules: &[Rule<A>]) -> impl Iterator<Item = &Location> {
    let looks = |condition: &Condition| condition.sources().intersects(Sources::BUFFERS);
    rules.iter().filter(move |rule| rule.condition.as_ref().is_some_and(looks)).map(|rule| &rule.location)
}

/// Raw bytes are not there to look at in HTTP mode.
fn warn_of_buffers(scope: &mut Scope<'_>) {
    let proxy = &scope.proxy().proxy;
    let name = proxy.name.clone();
    let places: Vec<Location> = buffers(&proxy.tcp_request_connection)
        .chain(buffers(&proxy.tcp_request_session))
        .chain(buffers(&proxy.tcp_request_content))
        .chain(buffers(&proxy.tcp_response_content))
        .chain(buffers(&proxy.http_request))
        .chain(buffers(&proxy.http_response))
        .chain(buffers(&proxy.http_after_response))
        .cloned()
        .collect();
    for place in places {
        let message = format!(
            "Proxy '{name}': L6 sample fetches ignored on HTTP proxies (declared at {}:{}).",
            place.file, place.line
        );
        scope.whole(Severity::Warning, message);
    }
}

/// Without a delay, what a client sends first has rarely arrived when the rules run.
fn warn_of_blind_captures(scope: &mut Scope<'_>) {
    let kind = scope.kind_word();
    let proxy = &scope.proxy().proxy;
    if proxy.tcp_request_inspect_delay.is_some_and(|delay| !delay.is_zero()) || !proxy.kind.has_frontend() {
        return;
    }
    let blind = proxy.tcp_request_content.iter().filter(|rule| {
        matches!(&rule.action, TcpAction::Stream(StreamAction::Capture { expr, .. }) if !expr.places().contains(Place::FrontendSession))
    });
    let (count, name) = (blind.count(), proxy.name.clone());
    for _ in 0..count {
        let message = format!(
            "{kind} '{name}' : a 'tcp-request capture' rule explicitly depending on request contents without any \
             'tcp-request inspect-delay' setting. This means that this rule will randomly find its contents. This can \
             be fixed by setting the tcp-request inspect-delay."
        );
        scope.whole(Severity::Warning, message);
    }
}

/// Cookies and monitored URIs need requests.
fn drop_http_only(scope: &mut Scope<'_>) {
    let kind = scope.kind_word();
    let draft = scope.proxy();
    let proxy = &mut draft.proxy;
    if proxy.mode == Mode::Http {
        return;
    }
    let ignored = [("cookie", proxy.cookie.take().is_some()), ("monitor-uri", proxy.monitor_uri.take().is_some())];
    let name = proxy.name.clone();
    let Some(line) = draft.line.clone() else { return };
    for (what, _) in ignored.into_iter().filter(|(_, present)| *present) {
        let message = format!("{what} will be ignored for {kind} '{name}' (needs 'mode http').");
        scope.warn(&line, section_problem(message).at(1).expected("'mode http' in this section or its defaults"));
    }
}
