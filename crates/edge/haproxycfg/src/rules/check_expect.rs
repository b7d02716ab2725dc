//! Arguments of `http-check expect` and `tcp-check expect`.

use super::{
    check_steps::{argument, format},
    checks::PLACES,
    reply::literal,
    words::{around, lenient_integer, regex, wrong},
};
use crate::{
    diagnostics::Problem,
    line::Line,
    model::{CheckExpect, CheckExpectation, StringMatch},
    scope::Scope,
};

/// Most ranges of one `status`.
const RANGES_MAX: usize = 1000;

/// Whose patterns are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Http,
    Tcp,
}

struct Parser {
    language: Language,
    what: Option<CheckExpectation>,
    rest: CheckExpect,
    comment: Option<String>,
}

/// `expect`, and its comment.
pub(super) fn expect(
    scope: &mut Scope<'_>,
    line: &Line,
    language: Language,
) -> Result<(CheckExpect, Option<String>), Problem> {
    if line.word(2).is_empty() {
        return Err(
            wrong("expects at least a matching pattern as arguments", 2).expected("a pattern, as in status 200-299")
        );
    }
    let rest = CheckExpect::plain(CheckExpectation::Status(Vec::new()));
    let mut parser = Parser { language, what: None, rest, comment: None };
    let mut index = 2;
    while !line.word(index).is_empty() {
        // Any number of `!`, alone or before the pattern's name.
        let word = line.word(index);
        let name = word.trim_start_matches('!');
        let negations = word.len() - name.len();
        if negations % 2 == 1 {
            parser.rest.negate = !parser.rest.negate;
        }
        if name.is_empty() {
            index += 1;
            let next = line.word(index);
            if next.is_empty() {
                break;
            }
            if is_option(next) {
                return Err(wrong(format!("[!] not supported with '{next}'"), index));
            }
            continue;
        }
        if negations > 0 && is_option(name) {
            return Err(wrong(format!("[!] not supported with '{name}'"), index));
        }
        index = parser.argument(scope, line, index, name)?;
    }
    let Some(what) = parser.what else {
        let known = format!("one of {}", parser.patterns().join(", "));
        return Err(wrong("pattern not found", line.len()).expected(known));
    };
    Ok((CheckExpect { what, ..parser.rest }, parser.comment))
}

fn is_option(word: &str) -> bool {
    matches!(
        word,
        "min-recv"
            | "comment"
            | "on-success"
            | "on-error"
            | "ok-status"
            | "error-status"
            | "tout-status"
            | "status-code"
    )
}

impl Parser {
    /// One argument, whose name without `!` is `name`; the index behind it.
    fn argument(&mut self, scope: &mut Scope<'_>, line: &Line, index: usize, name: &str) -> Result<usize, Problem> {
        let value = index + 1;
        match name {
            "min-recv" => {
                argument(line, index, "a integer")?;
                let bytes = lenient_integer(scope, line, value);
                if !(-1..=i64::from(i32::MAX)).contains(&bytes) {
                    return Err(wrong("'min-recv' expects -1 or an integer from 0 to INT_MAX", value));
                }
                self.rest.min_recv = usize::try_from(bytes).ok();
            }
            "comment" => self.comment = Some(argument(line, index, "a string")?.to_owned()),
            "on-success" => {
                argument(line, index, "a string")?;
                self.rest.on_success = Some(format(scope, line, value)?);
            }
            "on-error" => {
                argument(line, index, "a string")?;
                self.rest.on_error = Some(format(scope, line, value)?);
            }
            "ok-status" => {
                let all = "'L4OK', 'L6OK', 'L7OK' or 'L7OKC'";
                self.rest.ok_status = Some(status_name(line, index, &["L7OK", "L7OKC", "L6OK", "L4OK"], all)?);
            }
            "error-status" => {
                let all = "'L4CON', 'L6RSP', 'L7RSP' or 'L7STS'";
                let known = ["L7RSP", "L7STS", "L7OKC", "L6RSP", "L4CON"];
                self.rest.error_status = Some(status_name(line, index, &known, all)?);
            }
            "tout-status" => {
                let all = "'L4TOUT', 'L6TOUT' or 'L7TOUT'";
                self.rest.timeout_status = Some(status_name(line, index, &["L7TOUT", "L6TOUT", "L4TOUT"], all)?);
            }
            "status-code" => {
                argument(line, index, "an expression")?;
                let mut end = value;
                let context = |problem| {
                    around(problem, |error| format!("error detected while parsing status-code expression : {error}"))
                };
                self.rest.status_code = Some(scope.expr(line, &mut end, PLACES).map_err(context)?);
                return Ok(end);
            }
            _ => return self.pattern(scope, line, index, name),
        }
        Ok(index + 2)
    }

    /// The patterns that there are.
    fn patterns(&self) -> &'static [&'static str] {
        match self.language {
            Language::Http => &["status", "rstatus", "hdr", "fhdr", "string", "rstring", "string-lf"],
            Language::Tcp => &["string", "rstring", "string-lf", "binary", "rbinary", "binary-lf"],
        }
    }

    fn unknown(&self, name: &str, index: usize) -> Problem {
        let message = match self.language {
            Language::Http => {
                format!(
                    "only supports min-recv, '[!]string', '[!]rstring', '[!]string-lf', '[!]status', '[!]rstatus', \
                     [!]hdr, [!]fhdr or comment but got '{name}' as argument"
                )
            }
            Language::Tcp => {
                format!(
                    "only supports min-recv, '[!]binary', '[!]string', '[!]rstring', '[!]string-lf', '[!]rbinary', \
                     '[!]binary-lf' or comment but got '{name}' as argument"
                )
            }
        };
        wrong(message, index).nearest(name, self.patterns().iter().copied())
    }

    fn pattern(&mut self, scope: &mut Scope<'_>, line: &Line, index: usize, name: &str) -> Result<usize, Problem> {
        let value = index + 1;
        if !self.patterns().contains(&name) {
            return Err(self.unknown(name, index));
        }
        if self.what.is_some() {
            return Err(wrong("only on pattern expected", index).expected("one pattern in a step"));
        }
        if matches!(name, "hdr" | "fhdr") {
            let (what, end) = header(scope, line, index, name)?;
            self.what = Some(what);
            return Ok(end);
        }
        if line.word(value).is_empty() {
            return Err(wrong(format!("'{name}' expects a <pattern> as argument"), value));
        }
        self.what = Some(match (self.language, name) {
            (_, "status") => CheckExpectation::Status(status_ranges(line, value)?),
            (_, "rstatus") => CheckExpectation::StatusRegex(regex(scope, line, value, false)?),
            (Language::Http, "string") => CheckExpectation::Body(line.bytes(value).to_vec()),
            (Language::Http, "rstring") => CheckExpectation::BodyRegex(regex(scope, line, value, false)?),
            (Language::Http, _) => CheckExpectation::BodyFormat(format(scope, line, value)?),
            (Language::Tcp, "string") => CheckExpectation::Text(line.bytes(value).to_vec()),
            (Language::Tcp, "rstring") => CheckExpectation::TextRegex(regex(scope, line, value, false)?),
            (Language::Tcp, "string-lf") => CheckExpectation::TextFormat(format(scope, line, value)?),
            (Language::Tcp, "binary") => {
                let bytes = sample::parse_hexadecimal(line.bytes(value)).map_err(|error| {
                    wrong(format!("invalid binary string ({error})"), value).expected("pairs of hexadecimal digits")
                })?;
                CheckExpectation::Binary(bytes)
            }
            (Language::Tcp, "rbinary") => CheckExpectation::BinaryRegex(regex(scope, line, value, false)?),
            (Language::Tcp, _) => CheckExpectation::BinaryFormat(format(scope, line, value)?),
        });
        Ok(index + 2)
    }
}

/// One of the states that a report can say, in any case.
fn status_name(line: &Line, index: usize, known: &[&'static str], all: &str) -> Result<String, Problem> {
    let word = argument(line, index, "a string")?;
    let found = known.iter().find(|name| name.eq_ignore_ascii_case(word));
    found.map(|name| (*name).to_owned()).ok_or_else(|| {
        wrong(format!("'{}' only supports {all} status (got '{word}')", line.word(index)), index + 1)
            .expected(all)
            .nearest(word, known.iter().copied())
    })
}

/// `200,301-399`.
fn status_ranges(line: &Line, index: usize) -> Result<Vec<(u16, u16)>, Problem> {
    let word = line.word(index);
    let expected = "statuses and ranges, as in 200,301-399";
    let mut ranges = Vec::new();
    for part in word.split(',').take(RANGES_MAX) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        for side in [low, high] {
            if let Some(bad) = side.chars().find(|character| !character.is_ascii_digit()) {
                let message = format!("invalid character '{bad}' in the list of status codes");
                return Err(wrong(message, index).expected(expected));
            }
        }
        match (low.parse::<u16>(), high.parse::<u16>()) {
            (Ok(low), Ok(high)) if low <= high => ranges.push((low, high)),
            _ => return Err(wrong(format!("invalid range of status codes '{word}'"), index).expected(expected)),
        }
    }
    Ok(ranges)
}

/// `hdr` and `fhdr`: `{ name | name-lf } [-m <method>] <pattern> [ { value | value-lf } [-m <method>] <pattern> ]`.
fn header(
    scope: &mut Scope<'_>,
    line: &Line,
    index: usize,
    keyword: &str,
) -> Result<(CheckExpectation, usize), Problem> {
    if !matches!(line.word(index + 1), "name" | "name-lf") || line.word(index + 2).is_empty() {
        let message = format!("'{keyword}' expects at the name keyword as first argument followed by a pattern");
        return Err(wrong(message, index + 1).expected("name <pattern>"));
    }
    // Names of headers are compared without case, which only a regex has to be told.
    let (name, mut end) = text_match(scope, line, index + 1, keyword, true)?;
    let mut value = None;
    if matches!(line.word(end), "value" | "value-lf") {
        let (pattern, after) = text_match(scope, line, end, keyword, false)?;
        value = Some(pattern);
        end = after;
    }
    Ok((CheckExpectation::Header { full: keyword == "fhdr", name, value }, end))
}

/// `name`, `name-lf`, `value` or `value-lf` at `index`, its method and its pattern; the index behind.
fn text_match(
    scope: &mut Scope<'_>,
    line: &Line,
    index: usize,
    keyword: &str,
    ignore_case: bool,
) -> Result<(StringMatch, usize), Problem> {
    let is_format = line.word(index).ends_with("-lf");
    let mut at = index + 1;
    let mut method = "str";
    if line.word(at) == "-m" {
        method = line.word(at + 1);
        let known = ["str", "beg", "end", "sub", "reg"];
        if !known.contains(&method) {
            let message = if method.is_empty() {
                format!("'{keyword}' : '-m' expects at a matching pattern ('str', 'beg', 'end', 'sub' or 'reg')")
            } else {
                format!("'{keyword}' : '-m' only supports 'str', 'beg', 'end', 'sub' or 'reg' (got '{method}')")
            };
            return Err(wrong(message, at + 1).expected("str, beg, end, sub or reg").nearest(method, known));
        }
        if method == "reg" && is_format {
            let message = format!("'{keyword}': log-format string is not supported with a regex matching method");
            return Err(wrong(message, at + 1).expected("str, beg, end or sub"));
        }
        at += 2;
    }
    let text = line.word(at);
    if text.is_empty() {
        let message = format!("'{keyword}' expect a pattern with the {} keyword", line.word(index));
        return Err(wrong(message, at).expected("a pattern"));
    }
    let pattern = match method {
        "reg" => StringMatch::Regex(regex(scope, line, at, ignore_case)?),
        _ => {
            let format =
                if is_format { format(scope, line, at)? } else { literal(scope, line, at, line.bytes(at), PLACES)? };
            match method {
                "beg" => StringMatch::Prefix(format),
                "end" => StringMatch::Suffix(format),
                "sub" => StringMatch::Contains(format),
                _ => StringMatch::Exact(format),
            }
        }
    };
    Ok((pattern, at + 1))
}
