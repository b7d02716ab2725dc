//! `persist rdp-cookie`, and what it shares with `balance rdp-cookie`.

use std::sync::Arc;

use sample::Expression;

use crate::{args, diagnostics::Problem, line::Line, scope::Scope};

/// The name of a cookie in parentheses, of which `inner` is what follows the first; `default` without parentheses.
pub(super) fn name<'a>(inner: Option<&'a str>, default: &'a str) -> Option<&'a str> {
    match inner {
        None => Some(default),
        Some(inner) => inner.split_once(')').map(|(name, _)| name).filter(|name| !name.is_empty()),
    }
}

/// What fetches the cookie of that name.
pub(super) fn cookie(scope: &mut Scope<'_>, line: &Line, name: &str) -> Result<Expression, Problem> {
    let text = format!("req.rdp_cookie(\"{name}\")");
    scope.sample(line, 1, |_, context| Expression::parse_text(text.as_bytes(), context))
}

/// `persist`.
pub fn persist(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let word = line.word(1);
    if word.is_empty() {
        return Err(Problem::new("missing persist method.").at(1).expected("rdp-cookie[(<name>)]"));
    }
    let (method, inner) = match word.split_once('(') {
        Some((method, inner)) => (method, Some(inner)),
        None => (word, None),
    };
    let unnamed = || {
        let message = "persist rdp-cookie(name)' requires an rdp cookie name.";
        Problem::new(message).at(1).expected("rdp-cookie(<name>)")
    };
    match method {
        "rdp-cookie" => {
            if inner.is_some() {
                args::no_more(line, 1)?;
            }
            let name = name(inner, "msts").ok_or_else(unnamed)?;
            let cookie = cookie(scope, line, name)?;
            scope.proxy().proxy.rdp_persistence = Some(Arc::new(cookie));
            Ok(())
        }
        _ if method.starts_with("rdp-cookie") => Err(unnamed()),
        _ => Err(Problem::new("unknown persist method.").at(1).expected("rdp-cookie[(<name>)]")),
    }
}
