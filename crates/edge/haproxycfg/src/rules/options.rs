//! Options about logs that are on or off, and what else is a line of one argument.

use super::words::{header_name, wrong};
use crate::{
    args,
    diagnostics::Problem,
    line::{Line, Modifier},
    model::Options,
    scope::Scope,
    table::{Group, Keyword, Sections},
};

macro_rules! option {
    ($name:literal, $field:ident, $sections:ident, $doc:literal) => {
        Keyword::new(Group::Option, $name, "", "4.2")
            .sections(Sections::$sections)
            .doc($doc, concat!("option ", $name))
            .negatable()
            .line(|scope, line| set(scope, line, |options, on| options.$field = on))
    };
}

/// Options, and lines of one argument.
pub(super) const KEYWORDS: &[Keyword] = &[
    option!("dontlog-normal", dontlog_normal, DEFAULTS_FRONTEND, "Logs only requests and connections with errors."),
    option!(
        "dontlognull",
        dontlognull,
        DEFAULTS_FRONTEND,
        "Does not log connections without data, such as port scans."
    ),
    option!("log-health-checks", log_health_checks, DEFAULTS_BACKEND, "Logs every change of a check's result."),
    option!(
        "log-separate-errors",
        log_separate_errors,
        DEFAULTS_FRONTEND,
        "Raises the level of lines about errors to err."
    ),
    option!("logasap", logasap, DEFAULTS_FRONTEND, "Logs when the response begins instead of at its end."),
    Keyword::new(Group::Proxy, "http-send-name-header", "<name>", "4.2")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("Tells servers their name in a header.", "http-send-name-header X-Server")
        .line(http_send_name_header),
];

fn set(scope: &mut Scope<'_>, line: &Line, assign: impl FnOnce(&mut Options, bool)) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    assign(&mut scope.proxy().proxy.options, line.modifier() == Modifier::Set);
    Ok(())
}

fn http_send_name_header(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() {
        return Err(wrong("'http-send-name-header' requires a header string.", 1).expected("the name of a header"));
    }
    let name = header_name(scope, line, 1)?;
    args::ignore_more(scope, line, 1, 0);
    scope.proxy().proxy.http_send_name_header = Some(name);
    Ok(())
}
