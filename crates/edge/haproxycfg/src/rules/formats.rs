//! What lines of the log and unique identifiers look like: `log-format` and its siblings, `option httplog` and the like.
//!
//! Formats are read when their proxy is complete, since what they may refer to depends on it.

use sample::{LogFormat, LogFormatOptions, Place, Places};

use super::words::{around, section_problem, wrong};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::Mode,
    scope::Scope,
    table::{Group, Keyword, Sections},
};

/// Keywords about formats.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Proxy, "log-format", "<fmt>", "4.2")
        .sections(Sections::ALL)
        .doc("The format of log lines.", "log-format \"%ci:%cp %ST %{+Q}r\"")
        .line(log_format),
    Keyword::new(Group::Proxy, "log-format-sd", "<fmt>", "4.2")
        .sections(Sections::ALL)
        .doc("The structured data of lines in RFC 5424's format.", "log-format-sd \"[request@1 id=\\\"%ID\\\"]\"")
        .line(log_format_sd),
    Keyword::new(Group::Proxy, "error-log-format", "<fmt>", "4.2")
        .sections(Sections::ALL)
        .doc("The format of log lines about failed connections.", "error-log-format \"%ci [%tr] %[fc_err_str]\"")
        .line(error_log_format),
    Keyword::new(Group::Proxy, "unique-id-format", "<fmt>", "4.2")
        .sections(Sections::ALL)
        .doc("The format of request identifiers.", "unique-id-format %{+X}o%ci:%cp_%Ts_%rt:%pid")
        .line(unique_id_format),
    Keyword::new(Group::Proxy, "unique-id-header", "<name>", "4.2")
        .sections(Sections::ALL)
        .doc("The header in which servers get the request's identifier.", "unique-id-header X-Unique-ID")
        .line(unique_id_header),
    Keyword::new(Group::Option, "httplog", "[ clf | common | combined | json ]", "4.2")
        .sections(Sections::ALL)
        .doc(
            "Logs requests with HAProxy's detailed format, also behind the fields of the Common Log Format (clf); or as web servers do (common, combined), or as JSON.",
            "option httplog combined",
        )
        .line(httplog),
    Keyword::new(Group::Option, "tcplog", "", "4.2")
        .sections(Sections::ALL)
        .doc("Logs connections with timers and how they ended.", "option tcplog")
        .line(tcplog),
    Keyword::new(Group::Option, "httpslog", "", "4.2")
        .sections(Sections::ALL)
        .doc("As httplog, with TLS details.", "option httpslog")
        .line(httpslog),
];

/// A format until its proxy is complete.
#[derive(Clone, Debug)]
pub(super) struct Source {
    line: Line,
    word: usize,
    /// The text, unless it is the word.
    preset: Option<&'static str>,
    /// The words that set it, for messages.
    name: &'static str,
}

/// The formats of a section.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    log: Option<Source>,
    structured: Option<Source>,
    error: Option<Source>,
    unique_id: Option<Source>,
}

/// The one argument of a `*-format` line.
fn only(line: &Line) -> Result<(), Problem> {
    let keyword = line.word(0);
    if line.word(1).is_empty() {
        return Err(wrong(format!("{keyword} expects an argument."), 1).expected("a format in quotes"));
    }
    if !line.word(2).is_empty() {
        return Err(wrong(format!("{keyword} expects only one argument, don't forget to escape spaces!"), 2)
            .expected("the whole format in quotes"));
    }
    Ok(())
}

/// Warns of a line without effect in a backend.
fn warn_in_backend(scope: &mut Scope<'_>, line: &Line, name: &str) {
    if !scope.has_frontend() {
        let proxy = scope.proxy().proxy.name.clone();
        let message = format!("backend '{proxy}' : '{name}' directive is ignored in backends.");
        scope.warn(line, wrong(message, 0));
    }
}

/// Sets the format of log lines, with a warning where it replaces another one of the same `defaults`.
fn set_log(scope: &mut Scope<'_>, line: &Line, source: Source) {
    let name = source.name;
    let in_defaults = scope.in_defaults();
    let previous = scope.proxy().rules.formats.log.replace(source);
    if let (true, Some(previous)) = (in_defaults, previous) {
        let message = format!("'{name}' overrides previous '{}' in 'defaults' section.", previous.name);
        scope.warn(line, wrong(message, 0));
    }
    warn_in_backend(scope, line, name);
}

fn log_format(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    only(line)?;
    set_log(scope, line, Source { line: line.clone(), word: 1, preset: None, name: "log-format" });
    Ok(())
}

fn log_format_sd(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    only(line)?;
    let source = Source { line: line.clone(), word: 1, preset: None, name: "log-format-sd" };
    scope.proxy().rules.formats.structured = Some(source);
    warn_in_backend(scope, line, "log-format-sd");
    Ok(())
}

fn error_log_format(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    only(line)?;
    let source = Source { line: line.clone(), word: 1, preset: None, name: "error-log-format" };
    let in_defaults = scope.in_defaults();
    if scope.proxy().rules.formats.error.replace(source).is_some() && in_defaults {
        let message = "'error-log-format' overrides previous 'error-log-format' in 'defaults' section.";
        scope.warn(line, wrong(message, 0));
    }
    warn_in_backend(scope, line, "error-log-format");
    Ok(())
}

fn unique_id_format(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    only(line)?;
    let source = Source { line: line.clone(), word: 1, preset: None, name: "unique-id-format" };
    scope.proxy().rules.formats.unique_id = Some(source);
    Ok(())
}

fn unique_id_header(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() {
        return Err(wrong("unique-id-header expects an argument.", 1).expected("the name of a header"));
    }
    let name = super::words::header_name(scope, line, 1)?;
    args::ignore_more(scope, line, 1, 0);
    scope.proxy().proxy.unique_id_header = Some(name);
    Ok(())
}

fn httplog(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (preset, name) = match line.word(2) {
        "" => (sample::HTTP_LOG_FORMAT, "option httplog"),
        "clf" => (sample::CLF_LOG_FORMAT, "option httplog clf"),
        "common" => (sample::COMMON_LOG_FORMAT, "option httplog common"),
        "combined" => (sample::COMBINED_LOG_FORMAT, "option httplog combined"),
        "json" => (sample::JSON_LOG_FORMAT, "option httplog json"),
        word => {
            return Err(wrong("keyword 'httplog' only supports option 'clf'.", 2)
                .expected("clf, common, combined, json or nothing")
                .nearest(word, ["clf", "common", "combined", "json"]));
        }
    };
    args::no_more_after(line, 1, 1)?;
    set_log(scope, line, Source { line: line.clone(), word: 1, preset: Some(preset), name });
    Ok(())
}

fn httpslog(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    let source =
        Source { line: line.clone(), word: 1, preset: Some(sample::HTTPS_LOG_FORMAT), name: "option httpslog" };
    set_log(scope, line, source);
    Ok(())
}

fn tcplog(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    let source = Source { line: line.clone(), word: 1, preset: Some(sample::TCP_LOG_FORMAT), name: "option tcplog" };
    set_log(scope, line, source);
    Ok(())
}

/// Reads one format.
fn compile(
    scope: &mut Scope<'_>,
    source: Option<Source>,
    places: Places,
    options: LogFormatOptions,
) -> Option<LogFormat> {
    let Source { line, word, preset, name } = source?;
    let text = preset.map_or_else(|| line.bytes(word), str::as_bytes);
    match scope.log_format_with(&line, word, text, places, options) {
        Ok(format) => Some(format),
        Err(problem) => {
            let problem = around(problem, |error| format!("failed to parse {name} : {error}."));
            scope.alert(&line, problem);
            None
        }
    }
}

/// Connections have no requests to say much of: the detailed format of requests becomes that of connections.
fn without_requests(scope: &mut Scope<'_>, log: Option<Source>) -> Option<Source> {
    let mut log = log?;
    let is_of_requests = log.preset.is_some_and(|preset| preset != sample::TCP_LOG_FORMAT);
    if is_of_requests && scope.proxy().proxy.mode == Mode::Tcp {
        let kind = scope.kind_word();
        let name = scope.proxy().proxy.name.clone();
        let message = format!(
            "'option httplog' not usable with {kind} '{name}' (needs 'mode http'). Falling back to 'option tcplog'."
        );
        scope.warn(&log.line, wrong(message, log.word));
        log.preset = Some(sample::TCP_LOG_FORMAT);
    }
    Some(log)
}

/// Reads the formats of a proxy that is complete.
pub(super) fn finish(scope: &mut Scope<'_>) {
    let Sources { log, structured, error, unique_id } = std::mem::take(&mut scope.proxy().rules.formats);
    let places = scope.request_places();
    let unique_id = compile(scope, unique_id, places, LogFormatOptions::UNIQUE_ID);
    scope.proxy().proxy.unique_id_format = unique_id;
    // What a backend says about logs has no effect, so it is not even read.
    if !scope.has_frontend() {
        return;
    }
    let places = Places::only(Place::Log);
    let has_format = log.is_some() || structured.is_some();
    let log = without_requests(scope, log);
    // NOTE: formats of web servers tell what the request's head says, which other formats have to capture.
    let has_head = log.as_ref().is_some_and(|log| log.preset.is_some_and(sample::reads_request_head));
    let log_places = if has_head { Places::only(Place::FrontendRequestHeaders) } else { places };
    let log = compile(scope, log, log_places, LogFormatOptions::LOG);
    let structured = compile(scope, structured, places, LogFormatOptions::LOG);
    let error = compile(scope, error, places, LogFormatOptions::LOG);
    let kind = scope.kind_word();
    let draft = scope.proxy();
    draft.proxy.log_format = log;
    draft.proxy.log_format_sd = structured;
    draft.proxy.error_log_format = error;
    if has_format && draft.proxy.logs.is_empty() {
        let name = draft.proxy.name.clone();
        let Some(line) = draft.line.clone() else { return };
        let message = format!("log format ignored for {kind} '{name}' since it has no log address.");
        scope.warn(&line, section_problem(message).expected("a 'log' line in this section or its defaults"));
    }
}
