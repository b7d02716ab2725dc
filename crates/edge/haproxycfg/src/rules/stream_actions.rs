//! Parsers of the actions that `http-*` and `tcp-*` rules share.

use super::{
    common, filters,
    ruleset::Ruleset,
    stick, variables,
    words::{around, wrong},
};
use crate::{diagnostics::Problem, line::Line, model::StreamAction, scope::Scope};

type Parsed = Result<StreamAction, Problem>;

pub(super) fn set_var(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    variables::set(scope, line, index).map(StreamAction::SetVar)
}

pub(super) fn unset_var(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    variables::unset(scope, line, index).map(StreamAction::UnsetVar)
}

pub(super) fn capture(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let at = *index;
    let is_tcp = Ruleset::of(line, at) == Ruleset::TcpRequestContent;
    let context = |problem| match is_tcp {
        true => around(problem, |error| format!("'tcp-request content capture' : {error}")),
        false => problem,
    };
    let common::CaptureAction { expr, slot, len } = common::capture(scope, line, index).map_err(context)?;
    if is_tcp && !scope.has_frontend() {
        let name = scope.proxy().proxy.name.clone();
        let message = format!("'tcp-request content capture' : proxy '{name}' has no frontend capability");
        return Err(wrong(message, at).expected("this action in a frontend or listen section"));
    }
    Ok(StreamAction::Capture { expr, slot, len })
}

pub(super) fn set_log_level(_: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    common::log_level(line, index).map(StreamAction::SetLogLevel)
}

pub(super) fn set_mark(_: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    common::mark(line, index).map(StreamAction::SetMark)
}

pub(super) fn set_tos(_: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    common::tos(line, index).map(StreamAction::SetTos)
}

/// `set-src`, `set-src-port`, `set-dst` and `set-dst-port`.
pub(super) fn set_address(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    common::address(scope, line, index).map(|(part, expr)| StreamAction::SetAddress(part, expr))
}

/// `set-priority-class` and `set-priority-offset`.
pub(super) fn set_priority(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    let class = line.word(*index) == "set-priority-class";
    *index += 1;
    let places = scope.request_places();
    let expr = common::expression(scope, line, index, places)?;
    Ok(StreamAction::SetPriority { class, expr })
}

pub(super) fn set_bandwidth_limit(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    filters::limit(scope, line, index).map(|limit| StreamAction::SetBandwidthLimit(Box::new(limit)))
}

pub(super) fn do_resolve(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    common::do_resolve(scope, line, index).map(StreamAction::Resolve)
}

/// `track-sc*`.
pub(super) fn track(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    stick::track(scope, line, index).map(StreamAction::Stick)
}

/// `sc-inc-gpc*`.
pub(super) fn increment_counter(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    stick::increment(scope, line, index).map(StreamAction::Stick)
}

/// `sc-set-gpt*`.
pub(super) fn set_tag(scope: &mut Scope<'_>, line: &Line, index: &mut usize) -> Parsed {
    stick::set_tag(scope, line, index).map(StreamAction::Stick)
}
