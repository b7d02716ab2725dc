//! `redirect`, as a line of its own and as an action.

use super::{
    reply::literal,
    words::{is_condition, lenient_integer, wrong},
};
use crate::{
    diagnostics::Problem,
    line::Line,
    model::{Redirect, RedirectKind},
    scope::Scope,
};
use sample::Places;

/// Whether the destination is a log-format string or, as in `redirect` lines, text that stands for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Format,
    Literal,
}

/// Reads the arguments of a redirection from `index` on, up to its condition or the end.
pub(super) fn parse(
    scope: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    destination: Destination,
    places: Places,
    is_request: bool,
) -> Result<Redirect, Problem> {
    let start = *index;
    let mut target: Option<usize> = None;
    let mut redirect = Redirect {
        kind: RedirectKind::Location(literal(scope, line, start, b"", places)?),
        code: 302,
        drop_query: false,
        append_slash: false,
        ignore_empty: false,
        set_cookie: None,
    };
    loop {
        let word = line.word(*index);
        if word.is_empty() || is_condition(word) {
            break;
        }
        match word {
            "location" | "prefix" | "scheme" | "set-cookie" | "clear-cookie" | "code" => {
                if line.word(*index + 1).is_empty() {
                    return Err(wrong(format!("missing argument for '{word}'"), *index + 1));
                }
                *index += 1;
            }
            _ => {}
        }
        match word {
            "location" | "prefix" | "scheme" => target = Some(*index),
            "set-cookie" => redirect.set_cookie = Some([line.bytes(*index), b"; path=/;"].concat()),
            "clear-cookie" => redirect.set_cookie = Some([line.bytes(*index), b"; path=/; Max-Age=0;"].concat()),
            "code" => redirect.code = code(scope, line, *index)?,
            "drop-query" => redirect.drop_query = true,
            "append-slash" => redirect.append_slash = true,
            "ignore-empty" => redirect.ignore_empty = true,
            _ => {
                let known = [
                    "code",
                    "prefix",
                    "location",
                    "scheme",
                    "set-cookie",
                    "clear-cookie",
                    "drop-query",
                    "ignore-empty",
                    "append-slash",
                ];
                return Err(wrong(
                    format!(
                        "expects 'code', 'prefix', 'location', 'scheme', 'set-cookie', 'clear-cookie', 'drop-query', \
                         'ignore-empty' or 'append-slash' (was '{word}')"
                    ),
                    *index,
                )
                .nearest(word, known));
            }
        }
        *index += 1;
    }
    let Some(target) = target else {
        return Err(wrong("redirection type expected ('prefix', 'location', or 'scheme')", *index)
            .expected("location <url>, prefix <url> or scheme <scheme>"));
    };
    let kind = line.word(target - 1);
    if !is_request && kind != "location" {
        return Err(wrong("response only supports redirect type 'location'", target - 1).expected("location <url>"));
    }
    let text = line.word(target);
    let format = if kind == "prefix" && text == "/" {
        // A prefix of "/" redirects to the same path without doubling its slash.
        literal(scope, line, target, b"", places)?
    } else if destination == Destination::Literal {
        literal(scope, line, target, line.bytes(target), places)?
    } else {
        scope.log_format(line, target, places)?
    };
    redirect.kind = match kind {
        "prefix" => RedirectKind::Prefix(format),
        "scheme" => RedirectKind::Scheme(format),
        _ => RedirectKind::Location(format),
    };
    Ok(redirect)
}

fn code(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<u16, Problem> {
    let value = lenient_integer(scope, line, index);
    match value {
        301 | 302 | 303 | 307 | 308 => Ok(u16::try_from(value).unwrap_or(302)),
        _ => Err(wrong(
            format!("'code': unsupported HTTP code '{}' (must be one of 301, 302, 303, 307 or 308)", line.word(index)),
            index,
        )
        .expected("301, 302, 303, 307 or 308")),
    }
}
