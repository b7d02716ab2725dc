//! The arguments of `return`, `deny`, `tarpit` and `http-error`: a response made by the edge itself.

use sample::Places;

use super::{
    error_file,
    words::{escape_format, header_name, lenient_integer, wrong},
};
use crate::{
    diagnostics::Problem,
    line::Line,
    model::{Reply, ReplyBody},
    scope::Scope,
};

/// A reply, and what of it waits for a name.
pub(super) struct Parsed {
    /// The reply; its body is the default page while it waits for an `http-errors` section.
    pub(super) reply: Reply,
    /// The status, which is zero when no default was given and none stood there.
    pub(super) status: i64,
    /// The word that names the `http-errors` section.
    pub(super) errorfiles: Option<usize>,
}

/// Where the body comes from, before it is known to fit the rest.
enum Source {
    Nothing,
    DefaultPage(usize),
    Section(usize),
    ErrorFile(ReplyBody),
    Text(Vec<u8>),
    Format { text: Vec<u8>, word: usize },
}

struct Parser {
    status: i64,
    status_word: usize,
    content_type: Option<usize>,
    source: Source,
    source_word: usize,
    headers: Vec<(String, sample::LogFormat)>,
    header_word: usize,
}

/// Reads the arguments of a reply from `index` on, up to the first word that is none of them.
pub(super) fn parse(
    scope: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    default_status: i64,
    places: Places,
) -> Result<Parsed, Problem> {
    let mut parser = Parser {
        status: default_status,
        status_word: *index,
        content_type: None,
        source: Source::Nothing,
        source_word: 0,
        headers: Vec::new(),
        header_word: 0,
    };
    while parser.argument(scope, line, index, places)? {}
    parser.finish(scope, line, places)
}

/// The word after the one at `index`, which must be there.
fn argument<'l>(line: &'l Line, index: usize, what: &str) -> Result<&'l str, Problem> {
    let word = line.word(index + 1);
    if word.is_empty() {
        return Err(wrong(format!("'{}' expects {what} as argument", line.word(index)), index + 1));
    }
    Ok(word)
}

impl Parser {
    /// One argument; false when the word at `index` is none.
    fn argument(
        &mut self,
        scope: &mut Scope<'_>,
        line: &Line,
        index: &mut usize,
        places: Places,
    ) -> Result<bool, Problem> {
        let at = *index;
        match line.word(at) {
            // Only the first argument of deny and tarpit can be spelled deny_status.
            "deny_status" if !matches!(line.word(at.saturating_sub(1)), "deny" | "tarpit") => return Ok(false),
            "status" | "deny_status" => {
                argument(line, at, "<status_code>")?;
                self.status = lenient_integer(scope, line, at + 1);
                self.status_word = at + 1;
                if !(200..=599).contains(&self.status) {
                    return Err(wrong(format!("Unexpected status code '{}'", self.status), at + 1)
                        .expected("a status from 200 to 599"));
                }
            }
            "content-type" => {
                argument(line, at, "<ctype>")?;
                self.content_type = Some(at);
            }
            "default-errorfiles" => {
                self.set_source(line, at, Source::DefaultPage(at))?;
                *index += 1;
                return Ok(true);
            }
            "errorfiles" => {
                self.set_source(line, at, Source::Section(at + 1))?;
                argument(line, at, "<name>")?;
            }
            "errorfile" => {
                self.may_have_source(line, at)?;
                argument(line, at, "<fmt>")?;
                let response = error_file::load(scope, line, at + 1)?;
                self.set_source(line, at, Source::ErrorFile(ReplyBody::Raw(response)))?;
            }
            "file" | "lf-file" => {
                self.may_have_source(line, at)?;
                argument(line, at, "<file>")?;
                let source = file(scope, line, at)?;
                self.set_source(line, at, source)?;
            }
            "string" => {
                argument(line, at, "<str>")?;
                self.set_source(line, at, Source::Text(line.bytes(at + 1).to_vec()))?;
            }
            "lf-string" => {
                argument(line, at, "<fmt>")?;
                let text = line.bytes(at + 1).to_vec();
                self.set_source(line, at, Source::Format { text, word: at + 1 })?;
            }
            "hdr" => {
                if line.word(at + 1).is_empty() || line.word(at + 2).is_empty() {
                    return Err(wrong("'hdr' expects <name> and <value> as arguments", line.len().min(at + 2)));
                }
                self.header(scope, line, at, places)?;
                *index += 3;
                return Ok(true);
            }
            _ => return Ok(false),
        }
        *index += 2;
        Ok(true)
    }

    fn may_have_source(&self, line: &Line, at: usize) -> Result<(), Problem> {
        if matches!(self.source, Source::Nothing) {
            return Ok(());
        }
        let (word, first) = (line.word(at), line.word(self.source_word));
        Err(wrong(format!("unexpected '{word}' argument, '{first}' already defined"), at)
            .expected("one source of the body"))
    }

    fn set_source(&mut self, line: &Line, at: usize, source: Source) -> Result<(), Problem> {
        self.may_have_source(line, at)?;
        self.source = source;
        self.source_word = at;
        Ok(())
    }

    fn header(&mut self, scope: &mut Scope<'_>, line: &Line, at: usize, places: Places) -> Result<(), Problem> {
        let name = line.word(at + 1);
        if ["content-length", "transfer-encoding", "content-type"].iter().any(|fixed| name.eq_ignore_ascii_case(fixed))
        {
            let message = format!("header '{name}' always ignored by the http reply.");
            scope.warn(line, wrong(message, at + 1));
            return Ok(());
        }
        let name = header_name(scope, line, at + 1)?;
        let value = scope.log_format(line, at + 2, places)?;
        self.headers.push((name, value));
        self.header_word = at;
        Ok(())
    }

    fn finish(mut self, scope: &mut Scope<'_>, line: &Line, places: Places) -> Result<Parsed, Problem> {
        let mut errorfiles = None;
        let status = self.status;
        let body = match std::mem::replace(&mut self.source, Source::Nothing) {
            Source::Nothing => {
                self.drop_content_type(scope, line, "because neither errorfile nor payload defined.");
                ReplyBody::Empty
            }
            Source::ErrorFile(body) => {
                self.drop_extras(scope, line);
                body
            }
            Source::DefaultPage(word) | Source::Section(word) => {
                let keyword = line.word(self.source_word);
                if error_file::handled(status).is_none() {
                    return Err(wrong(
                        format!("status code '{status}' not handled by default with '{keyword}' argument."),
                        self.status_word,
                    )
                    .expected(error_file::statuses_text()));
                }
                if keyword == "errorfiles" {
                    errorfiles = Some(word);
                }
                self.drop_extras(scope, line);
                ReplyBody::ErrorPage
            }
            Source::Text(text) => {
                if !text.is_empty() {
                    self.must_allow_body("a content type must be defined when non-empty payload is configured")?;
                } else {
                    self.drop_content_type(scope, line, "when used with an empty payload.");
                }
                let tune = &scope.state.global.tune;
                if tune.bufsize.saturating_sub(text.len()) < tune.maxrewrite {
                    let message = "http reply payload runs over the buffer space reserved to headers rewriting. It may \
                                   lead to internal errors if strict rewriting mode is enabled.";
                    scope.warn(line, wrong(message, self.source_word));
                }
                ReplyBody::Fixed(text.into())
            }
            Source::Format { text, word } => {
                self.must_allow_body("a content type must be defined with a log-format payload")?;
                ReplyBody::Format(scope.log_format_text(line, word, &text, places)?)
            }
        };
        let reply = Reply {
            status: u16::try_from(status).ok().filter(|status| *status != 0),
            content_type: self.content_type.map(|at| line.bytes(at + 1).to_vec()),
            body,
            headers: self.headers,
        };
        Ok(Parsed { reply, status, errorfiles })
    }

    fn must_allow_body(&self, missing_type: &str) -> Result<(), Problem> {
        if self.status == 204 || self.status == 304 {
            return Err(wrong(format!("No body expected for {} responses", self.status), self.source_word));
        }
        if self.content_type.is_none() {
            return Err(wrong(missing_type, self.source_word).expected("content-type <type>, as in text/plain"));
        }
        Ok(())
    }

    fn drop_content_type(&mut self, scope: &mut Scope<'_>, line: &Line, why: &str) {
        if let Some(at) = self.content_type.take() {
            let kind = line.word(at + 1);
            scope.warn(line, wrong(format!("content-type '{kind}' ignored by the http reply {why}"), at));
        }
    }

    fn drop_extras(&mut self, scope: &mut Scope<'_>, line: &Line) {
        self.drop_content_type(scope, line, "when used with an erorrfile.");
        if !self.headers.is_empty() {
            self.headers.clear();
            let message = "hdr parameters ignored by the http reply when used with an erorrfile.";
            scope.warn(line, wrong(message, self.header_word));
        }
    }
}

/// The contents of a `file` or `lf-file`.
fn file(scope: &mut Scope<'_>, line: &Line, at: usize) -> Result<Source, Problem> {
    let path = line.word(at + 1);
    let contents = scope.read(path).map_err(|error| wrong(format!("error opening file '{path}' : {error}"), at + 1))?;
    let most = scope.state.global.tune.bufsize;
    if contents.len() > most {
        let message = format!("file '{path}' exceeds the buffer size ({} > {most})", contents.len());
        return Err(wrong(message, at + 1).expected(format!("at most {most} bytes, or a greater tune.bufsize")));
    }
    if line.word(at) == "file" {
        return Ok(Source::Text(contents.to_vec()));
    }
    // As in HAProxy, a format ends at the first NUL.
    let text = contents.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(Source::Format { text: text.to_vec(), word: at + 1 })
}

/// The arguments of `deny` and `tarpit`, which may be none or a status alone: the proxy's own page is sent then.
pub(super) fn deny(
    scope: &mut Scope<'_>,
    line: &Line,
    index: &mut usize,
    default_status: i64,
    places: Places,
) -> Result<Parsed, Problem> {
    let at = *index;
    let ends = |word: &str| word.is_empty() || super::words::is_condition(word);
    let legacy_status = line.word(at) == "deny_status" && ends(line.word(at + 2)) && !line.word(at + 1).is_empty();
    if !legacy_status && !ends(line.word(at)) {
        return parse(scope, line, index, default_status, places);
    }
    let mut status = default_status;
    if legacy_status {
        status = lenient_integer(scope, line, at + 1);
        *index += 2;
        if !(200..=599).contains(&status) {
            return Err(
                wrong(format!("Unexpected status code '{status}'"), at + 1).expected(error_file::statuses_text())
            );
        }
    }
    let Some(known) = error_file::handled(status) else {
        let message = format!("status code '{status}' not handled by default with 'default-errorfiles' argument.");
        return Err(wrong(message, at + 1).expected(error_file::statuses_text()));
    };
    let reply = Reply { status: Some(known), body: ReplyBody::ErrorPage, ..Reply::default() };
    Ok(Parsed { reply, status, errorfiles: None })
}

/// A literal text as a log-format string.
pub(super) fn literal(
    scope: &mut Scope<'_>,
    line: &Line,
    word: usize,
    text: &[u8],
    places: Places,
) -> Result<sample::LogFormat, Problem> {
    scope.log_format_text(line, word, &escape_format(text), places)
}
