//! `external-check`: a program that checks servers.

use super::words::{section_problem, wrong};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::ExternalCheck,
    scope::Scope,
    table::{Group, Keyword, Sections},
};

/// The keyword.
pub(super) const KEYWORDS: &[Keyword] =
    &[Keyword::new(Group::Proxy, "external-check", "{ command <command> | path <path> }", "4.2")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("The program of 'option external-check', and its PATH.", "external-check command /bin/true")
        .line(external_check)];

/// What a section's `external-check` lines say.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    command: Option<String>,
    path: Option<String>,
    line: Option<Line>,
}

fn external_check(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (what, value) = (line.word(1), line.word(2));
    match what {
        "" => return Err(wrong("missing argument after 'external-check'.", 1).expected("command or path")),
        "command" | "path" => args::no_more_after(line, 1, 1)?,
        _ => {
            let message = format!("'external-check' only supports 'command' and 'path'. but got '{what}'.");
            return Err(wrong(message, 1).nearest(what, ["command", "path"]));
        }
    }
    if value.is_empty() {
        return Err(wrong(format!("missing argument after '{what}'."), 2));
    }
    let pending = &mut scope.proxy().rules.external_check;
    if what == "command" {
        pending.command = Some(value.to_owned());
    } else {
        pending.path = Some(value.to_owned());
    }
    pending.line = Some(line.clone());
    Ok(())
}

/// HAProxy's checks of the lines, once the section is complete; `chosen` by `option external-check`.
pub(super) fn finish(scope: &mut Scope<'_>, chosen: Option<&Line>) -> Option<ExternalCheck> {
    let kind = scope.kind_word();
    let name = scope.proxy().proxy.name.clone();
    let Pending { command, path, line } = scope.proxy().rules.external_check.clone();
    let own = chosen.cloned().or_else(|| line.clone()).or_else(|| scope.proxy().line.clone())?;
    if chosen.is_some() {
        for (missing, what) in [
            (!scope.state.global.external_check, "global.external-check"),
            (command.is_none(), "external-check command"),
        ] {
            if missing {
                let message = format!("Proxy '{name}' : 'option external-check' unable to find required '{what}'.");
                scope.alert(&own, section_problem(message).at(0));
            }
        }
        if !scope.state.global.insecure_fork {
            let message = format!(
                "Proxy '{name}' : 'insecure-fork-wanted' not enabled in the global section, 'option external-check' will \
                 likely fail."
            );
            scope.warn(&own, section_problem(message).at(0));
        }
    } else {
        for (given, what) in [(command.is_some(), "command"), (path.is_some(), "path")] {
            if given {
                let message = format!(
                    "'external-check {what}' will be ignored for {kind} '{name}' (requires 'option external-check')."
                );
                scope.warn(&own, section_problem(message).at(0));
            }
        }
    }
    if command.as_ref().is_some_and(|command| !command.starts_with('/')) && path.is_none() {
        let message = format!(
            "Proxy '{name}': 'external-check command' does not have a leading '/' and 'external-check path' is not set."
        );
        scope.alert(&own, section_problem(message).at(0));
    }
    chosen?;
    Some(ExternalCheck { command: command?, path })
}
