//! `capture` and `declare capture`: what of requests and responses is kept for logs.

use super::{
    common,
    words::{leading_integer, lenient_integer, wrong},
};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{Capture, CaptureCookie},
    scope::Scope,
    table::{Group, Keyword, Sections},
};

/// Most bytes that one capture keeps.
pub(super) const LEN_MAX: usize = 1 << 20;

/// Keywords about captures.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(
        Group::Proxy,
        "capture",
        "{ cookie <name> | request header <name> | response header <name> } len <length>",
        "4.2",
    )
    .sections(Sections::FRONTEND)
    .doc("Keeps a cookie or a header of each request or response for the log.", "capture request header Host len 64")
    .line(capture),
    Keyword::new(Group::Proxy, "declare", "capture { request | response } len <length>", "4.2")
        .sections(Sections::FRONTEND)
        .strict()
        .doc(
            "Declares a slot that 'http-request capture' and 'http-response capture' can fill.",
            "declare capture request len 40",
        )
        .line(declare),
];

/// A length as HAProxy reads it (`atol`), within what is possible.
fn loose_length(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<usize, Problem> {
    let value = lenient_integer(scope, line, index);
    usize::try_from(value).ok().filter(|len| *len <= LEN_MAX).ok_or_else(|| {
        wrong(format!("length '{}' is not possible", line.word(index)), index).expected(format!("0 to {LEN_MAX} bytes"))
    })
}

fn capture(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    match (line.word(1), line.word(2)) {
        ("cookie", _) => capture_cookie(scope, line),
        (direction @ ("request" | "response"), "header") => {
            args::no_more_after(line, 4, 1)?;
            if line.word(3).is_empty() || line.word(4) != "len" || line.word(5).is_empty() {
                let missing = if line.word(3).is_empty() || line.word(4) == "len" { line.len() } else { 4 };
                return Err(wrong(
                    format!("'capture {direction}' expects 'header' <header_name> 'len' <len>."),
                    missing,
                )
                .expected(format!("capture {direction} header <name> len <length>")));
            }
            let captured = Capture { name: Some(line.word(3).to_owned()), len: loose_length(scope, line, 5)? };
            let proxy = &mut scope.proxy().proxy;
            if direction == "request" {
                proxy.request_captures.push(captured);
            } else {
                proxy.response_captures.push(captured);
            }
            Ok(())
        }
        (word, _) => {
            let at = if matches!(word, "request" | "response") { 2 } else { 1 };
            let problem = wrong("'capture' expects 'cookie' or 'request header' or 'response header'.", at)
                .expected("cookie, request header or response header");
            Err(if at == 1 { problem.nearest(word, ["cookie", "request", "response"]) } else { problem })
        }
    }
}

fn capture_cookie(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::ignore_more(scope, line, 3, 1);
    if line.word(4).is_empty() || line.word(3) != "len" {
        let at = if line.word(2).is_empty() || line.word(3) == "len" { line.len() } else { 3 };
        return Err(wrong("'capture' expects 'cookie' <cookie_name> 'len' <len>.", at)
            .expected("capture cookie <name> len <length>"));
    }
    let len = loose_length(scope, line, 4)?;
    // The name is a beginning, unless an equal sign says that it ends there.
    let word = line.word(2);
    let name = word.strip_suffix('=').unwrap_or(word);
    let prefix = name.len() == word.len();
    let most = scope.state.global.tune.http_cookielen;
    scope.proxy().proxy.capture_cookie = Some(CaptureCookie { name: name.to_owned(), len: len.min(most), prefix });
    if len > most {
        let kind = scope.kind_word();
        let proxy = scope.proxy().proxy.name.clone();
        scope.warn(line, wrong(format!("truncating capture length to {most} bytes for {kind} '{proxy}'."), 4));
    }
    Ok(())
}

fn declare(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let expected = "declare capture { request | response } len <length>";
    let refuse = |message: &str, at: usize| Err(wrong(message, at).expected(expected));
    match line.word(1) {
        "" => {
            return refuse("'declare' needs a second keyword that specify the type of declaration ('capture')", 1);
        }
        "capture" => {}
        other => return refuse(&format!("unknown declaration type '{other}' (supports 'capture')"), 1),
    }
    let direction = line.word(2);
    if !matches!(direction, "request" | "response") {
        return refuse("'declare capture' requires a direction ('request' or 'response')", 2);
    }
    if line.word(3) != "len" {
        return refuse("'declare capture' requires a capture length ('len')", 3);
    }
    let word = line.word(4);
    if word.is_empty() {
        return refuse("'declare capture': 'len' requires a numeric value that represents the capture length", 4);
    }
    if !leading_integer(word, false).1.is_empty() {
        return refuse(&format!("'declare capture': cannot parse the length '{word}'."), 4);
    }
    let len = common::length(scope, line, 4, "length must be > 0")?;
    args::ignore_more(scope, line, 3, 1);
    let proxy = &mut scope.proxy().proxy;
    let captures = if direction == "request" { &mut proxy.request_captures } else { &mut proxy.response_captures };
    captures.push(Capture { name: None, len });
    Ok(())
}
