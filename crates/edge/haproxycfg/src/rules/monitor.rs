//! `monitor-uri` and `monitor fail`: answers for whoever watches the edge.

use sample::Places;

use super::{order, switching::required_condition, words::wrong};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    scope::Scope,
    table::{Group, Keyword, Sections},
};

/// Keywords about monitoring.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Proxy, "monitor-uri", "<uri>", "4.2")
        .sections(Sections::DEFAULTS_FRONTEND)
        .doc("Answers 200 on this URI without a log or a server.", "monitor-uri /alive")
        .line(monitor_uri),
    Keyword::new(Group::Proxy, "monitor", "fail { if | unless } <condition>", "4.2")
        .sections(Sections::FRONTEND)
        .doc(
            "Answers 503 instead of 200 on the monitored URI under a condition.",
            "monitor fail if { nbsrv(app) lt 2 }",
        )
        .line(monitor),
    Keyword::new(Group::Proxy, "monitor-net", "<network>", "4.2")
        .sections(Sections::DEFAULTS_FRONTEND)
        .doc("Answers connections of a network without a server.", "monitor-net 192.168.0.0/24")
        .removed(
            "'monitor-net' doesn't exist anymore. Please use 'http-request return status 200 if { src <network> }' \
             instead.",
        ),
];

fn monitor_uri(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    args::required(line, 1, "an URI.")?;
    scope.proxy().proxy.monitor_uri = Some(line.bytes(1).to_vec());
    Ok(())
}

fn monitor(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1) != "fail" {
        return Err(wrong("'monitor' only supports 'fail'.", 1).expected("fail { if | unless } <condition>"));
    }
    // As HAProxy, without a warning about what such a condition may look at.
    let condition = required_condition(scope, line, 2, Places::NONE, |error| {
        format!("error detected while parsing a 'monitor fail' condition : {error}.")
    })?;
    order::warn_monitor(scope, line);
    let draft = scope.proxy();
    draft.proxy.monitor_fail.push(condition);
    draft.rules.own.monitor = true;
    Ok(())
}
