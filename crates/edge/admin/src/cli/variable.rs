//! `get var` and `set var`: variables of the scope `proc`.

use super::{
    line::Line,
    reply::{Reply, Severity},
    session::{Context, Session},
};

const MISSING_NAME: &str = "Missing process-wide variable identifier.";

pub(super) fn tell(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let name = line.word(2);
    if name.is_empty() {
        return Reply::error(MISSING_NAME);
    }
    let Some(variable) = context.control.variable(name) else { return Reply::error("Variable not found.") };
    let shown = match variable.text {
        Some(text) => format!("<{}>", displayable(&text)),
        None => "(undisplayable)".to_owned(),
    };
    Reply::Unended(Severity::Info, format!("{name}: type={} value={shown}", variable.kind))
}

fn displayable(text: &[u8]) -> String {
    text.iter().map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' }).collect()
}

pub(super) fn set(session: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    if !session.is_experimental() {
        return Reply::error("This command is restricted to experimental mode only.");
    }
    let (name, first, second) = (line.word(2), line.word(3), line.word(4));
    if name.is_empty() {
        return Reply::error(MISSING_NAME);
    }
    let (is_format, text) = match (first, second) {
        ("", _) => return Reply::error("Missing either 'expr', 'fmt' or expression."),
        (text, "") => (false, text),
        ("expr", text) => (false, text),
        ("fmt", text) => (true, text),
        (other, _) => {
            let text = format!("'set var': arg type must be either 'expr' or 'fmt' but got '{other}'.");
            return Reply::Unended(Severity::Error, text);
        }
    };
    match context.control.set_variable(name, is_format, text) {
        Ok(()) => Reply::Done,
        Err(refusal) => Reply::Unended(Severity::Error, refusal.to_string()),
    }
}
