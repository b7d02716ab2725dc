//! `option httpchk`, `option tcp-check` and `http-check`: what health checks send and expect.
//!
//! The rules of a section form a list of its own. Which list counts is decided as in HAProxy: `option httpchk` and, once
//! that is on, every `http-check` line make the section's own list count in place of the inherited one. What is inherited
//! is therefore never mixed with what the section says.

use sample::{Place, Places};

use super::{
    check_expect, check_steps,
    reply::literal,
    variables,
    words::{around, section_problem, wrong},
};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{CheckConfig, CheckExpect, CheckExpectation, CheckStep, SetVariable},
    scope::Scope,
    table::{Group, Keyword, Sections},
};

/// Keywords about health checks.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Option, "httpchk", "[ [<method>] <uri> [<version>] ]", "4.2")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("Checks servers with a request; 2xx and 3xx are healthy.", "option httpchk GET /health")
        .line(option_httpchk),
    Keyword::new(Group::Option, "tcp-check", "", "4.2")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("Checks servers by connecting.", "option tcp-check")
        .line(option_tcp_check),
    Keyword::new(Group::Proxy, "http-check", "<step> [arguments...]", "4.2")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("A step of the health check that 'option httpchk' turns on.", "http-check expect status 200")
        .line(http_check),
    Keyword::new(Group::HttpCheck, "comment", "<string>", "4.2")
        .doc("Names the steps after it in reports.", "http-check comment \"login page\"")
        .line(comment),
    Keyword::new(
        Group::HttpCheck,
        "connect",
        "[default] [port <port>] [addr <ip>] [send-proxy] [linger] [comment <msg>]",
        "4.2",
    )
    .doc("Opens a connection; must come first where it is used.", "http-check connect port 8081")
    .line(connect),
    Keyword::new(Group::HttpCheck, "disable-on-404", "", "4.2")
        .doc("A server that answers 404 gets no new clients but keeps its own.", "http-check disable-on-404")
        .line(disable_on_404),
    Keyword::new(
        Group::HttpCheck,
        "expect",
        "[min-recv <int>] [comment <msg>] [ok-status <st>] [error-status <st>] [tout-status <st>] [on-success <fmt>] \
         [on-error <fmt>] [status-code <expr>] [!] { status | rstatus | hdr | fhdr | string | rstring | string-lf } \
         <pattern>",
        "4.2",
    )
    .doc("What the response must (or must not) be.", "http-check expect status 200-299")
    .line(expect),
    Keyword::new(
        Group::HttpCheck,
        "send",
        "[meth <method>] [{ uri <uri> | uri-lf <fmt> }] [ver <version>] [hdr <name> <fmt>]* \
         [{ body <string> | body-lf <fmt> }] [comment <msg>]",
        "4.2",
    )
    .doc("The request of the check.", "http-check send meth GET uri /health hdr Host app.example.com")
    .line(send),
    Keyword::new(Group::HttpCheck, "send-state", "", "4.2")
        .doc("Tells servers their state in the header X-Haproxy-Server-State.", "http-check send-state")
        .line(send_state),
    Keyword::new(Group::HttpCheck, "set-var(*", "<name>[,<cond>...]) <expr>", "4.2")
        .doc("Sets a variable of the check.", "http-check set-var(check.port) int(1234)")
        .line(set_variable),
    Keyword::new(Group::HttpCheck, "set-var-fmt(*", "<name>[,<cond>...]) <fmt>", "4.2")
        .doc("Sets a variable of the check from a format.", "http-check set-var-fmt(check.name) \"srv\"")
        .line(set_variable),
    Keyword::new(Group::HttpCheck, "unset-var(*", "<name>)", "4.2")
        .doc("Forgets a variable of the check.", "http-check unset-var(check.port)")
        .line(unset_variable),
];

/// A request of a check. What is missing comes from the request that it is merged with, or from defaults.
#[derive(Clone, Debug, Default)]
pub(super) struct Send {
    pub(super) method: Option<String>,
    pub(super) uri: Option<sample::LogFormat>,
    pub(super) version: Option<String>,
    pub(super) headers: Vec<(String, sample::LogFormat)>,
    pub(super) body: Option<sample::LogFormat>,
    /// Whether it comes from `option httpchk` alone.
    pub(super) from_option: bool,
}

/// A step until the section is complete.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Comment(String),
    Connect(Box<CheckStep>),
    Send(Box<Send>),
    Expect(Box<CheckExpect>),
    SetVar(SetVariable),
    UnsetVar(sample::VariableName),
}

/// A step with its own `comment`.
#[derive(Clone, Debug)]
pub(super) struct Commented {
    pub(super) step: Step,
    pub(super) comment: Option<String>,
}

/// What kind of check is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Protocol {
    #[default]
    Connection,
    Tcp,
    Http,
}

/// The check of a section.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    protocol: Protocol,
    /// Steps of the section itself.
    own: Vec<Commented>,
    /// Steps of the `defaults` section that count unless the section has its own.
    inherited: Option<Vec<Commented>>,
    /// `http-check` lines that no `option httpchk` has turned on yet.
    unused: Option<Line>,
    /// The first `http-check` line of the section.
    first: Option<Line>,
    disable_on_404: Option<Line>,
    send_state: Option<Line>,
    /// The section's own `option httpchk` or `option tcp-check`.
    own_option: bool,
}

impl Pending {
    /// What a section starts with that inherits from one with this check.
    pub(super) fn for_heir(&self) -> Self {
        let counts = self.protocol == Protocol::Http;
        let list = || self.inherited.clone().unwrap_or_else(|| self.own.clone());
        Self {
            protocol: self.protocol,
            inherited: counts.then(list),
            disable_on_404: self.disable_on_404.clone(),
            send_state: self.send_state.clone(),
            ..Self::default()
        }
    }
}

/// Where expressions of checks are evaluated.
pub(super) const PLACES: Places = Places::only(Place::Check);

fn option_httpchk(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 3, 1)?;
    let send = check_steps::request_of_option(scope, line)
        .map_err(|problem| around(problem, |error| format!("'option httpchk' : {error}.")))?;
    let checks = &mut scope.proxy().rules.checks;
    checks.protocol = Protocol::Http;
    checks.inherited = None;
    checks.unused = None;
    checks.own_option = true;
    let step = Commented { step: Step::Send(Box::new(send)), comment: None };
    add_implicit(&mut checks.own, step);
    Ok(())
}

fn option_tcp_check(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    let checks = &mut scope.proxy().rules.checks;
    checks.protocol = Protocol::Tcp;
    checks.inherited = None;
    checks.own_option = true;
    Ok(())
}

fn http_check(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let word = line.word(1);
    if crate::table::find(Group::HttpCheck, word).is_none() {
        if let Some(problem) = variables::incomplete_action(word, 1) {
            return Err(around(problem, |error| format!("'http-check {word}' : {error}.")));
        }
        return Err(wrong(
            format!(
                "'http-check' only supports 'disable-on-404', 'send-state', 'comment', 'connect', 'send', 'expect', \
                 'set-var-fmt', 'set-var', 'unset-var'. but got '{word}'"
            ),
            1,
        )
        .nearest(word, crate::table::supported_names(Group::HttpCheck)));
    }
    scope.dispatch(line, 1, Group::HttpCheck).map_err(|problem| {
        around(problem, |error| {
            let whole = error.starts_with("'http-check");
            if whole { format!("{error}.") } else { format!("'http-check {word}' : {error}.") }
        })
    })
}

fn disable_on_404(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    scope.proxy().rules.checks.disable_on_404 = Some(line.clone());
    Ok(())
}

fn send_state(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    scope.proxy().rules.checks.send_state = Some(line.clone());
    Ok(())
}

fn comment(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let text = line.word(2);
    if text.is_empty() {
        return Err(wrong("expects a string as argument", 2).expected("a text in quotes"));
    }
    args::no_more_after(line, 1, 1)?;
    add(scope, line, Step::Comment(text.to_owned()), None)
}

fn connect(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    for Commented { step, .. } in &scope.proxy().rules.checks.own {
        match step {
            Step::Connect(_) => break,
            Step::Comment(_) | Step::SetVar(_) | Step::UnsetVar(_) => {}
            Step::Send(send) if send.from_option => {}
            Step::Send(_) | Step::Expect(_) => {
                return Err(wrong(
                    "first step MUST also be a 'connect', optionally preceded by a 'set-var', an 'unset-var' or a \
                     'comment', when there is a 'connect' step in the tcp-check ruleset",
                    1,
                )
                .expected("'http-check connect' before the other steps"));
            }
        }
    }
    let (step, comment) = check_steps::connect(scope, line)?;
    add(scope, line, Step::Connect(Box::new(step)), comment)
}

fn send(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (send, comment) = check_steps::send(scope, line)?;
    add(scope, line, Step::Send(Box::new(send)), comment)
}

fn expect(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (expect, comment) = check_expect::expect(scope, line)?;
    add(scope, line, Step::Expect(Box::new(expect)), comment)
}

fn set_variable(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mut index = 1;
    let variable = variables::set(scope, line, &mut index)?;
    end(line, index)?;
    add(scope, line, Step::SetVar(variable), None)
}

fn unset_variable(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mut index = 1;
    let name = variables::unset(scope, line, &mut index)?;
    end(line, index)?;
    add(scope, line, Step::UnsetVar(name), None)
}

fn end(line: &Line, index: usize) -> Result<(), Problem> {
    match line.word(index) {
        "" => Ok(()),
        word => Err(wrong(format!("cannot handle unexpected argument '{word}'"), index)),
    }
}

/// Puts the request of `option httpchk` into a list.
fn add_implicit(steps: &mut Vec<Commented>, step: Commented) {
    let first = steps.iter().position(|step| is_exchange(&step.step));
    let first = match first {
        Some(at) if matches!(steps.get(at), Some(Commented { step: Step::Connect(_), .. })) => {
            (at + 1..steps.len()).find(|at| steps.get(*at).is_some_and(|step| is_exchange(&step.step)))
        }
        other => other,
    };
    let Step::Send(new) = step.step else { return };
    match first.and_then(|at| steps.get_mut(at)).map(|step| &mut step.step) {
        // An earlier 'option httpchk' is replaced; an explicit 'http-check send' is completed.
        Some(Step::Send(known)) if known.from_option => {
            if let Some(at) = first {
                steps.remove(at);
            }
            steps.insert(0, Commented { step: Step::Send(new), comment: None });
        }
        Some(Step::Send(known)) => overwrite(known, *new),
        _ => steps.insert(0, Commented { step: Step::Send(new), comment: None }),
    }
}

/// What of a request another one says differently. Headers are replaced as a whole, by any.
fn overwrite(known: &mut Send, new: Send) {
    known.method = new.method.or(known.method.take());
    known.uri = new.uri.or(known.uri.take());
    known.version = new.version.or(known.version.take());
    if !new.headers.is_empty() {
        known.headers = new.headers;
    }
    known.body = new.body.or(known.body.take());
}

/// Whether a step talks to the server.
fn is_exchange(step: &Step) -> bool {
    matches!(step, Step::Connect(_) | Step::Send(_) | Step::Expect(_))
}

/// Adds a step to the section's own list.
fn add(scope: &mut Scope<'_>, line: &Line, step: Step, comment: Option<String>) -> Result<(), Problem> {
    let checks = &mut scope.proxy().rules.checks;
    checks.first.get_or_insert_with(|| line.clone());
    let new = Commented { step, comment };
    if checks.protocol != Protocol::Http {
        checks.unused = Some(line.clone());
        checks.own.push(new);
        return Ok(());
    }
    checks.inherited = None;
    let number = checks.own.iter().filter(|step| !is_from_option(step)).count() + 1;
    let last = checks.own.iter().rev().find(|step| is_exchange(&step.step));
    let missing = |what: &str, before: &str| {
        Err(wrong(format!("unable to add http-check {what} rule at step {number} (missing {before} rule)."), 1)
            .expected(format!("'http-check {before}' before it")))
    };
    match (last.map(|step| &step.step), &new.step) {
        (None, _) => {}
        (Some(Step::Send(send)), _) if send.from_option => {}
        (Some(Step::Connect(_)), Step::Send(_)) => {}
        (Some(_), Step::Send(_)) => return missing("send", "connect"),
        (Some(Step::Connect(_)), Step::Expect(_)) => return missing("expect", "send"),
        (Some(Step::Expect(_)), Step::Connect(_)) => {}
        (Some(_), Step::Connect(_)) => return missing("connect", "expect"),
        _ => {}
    }
    // An explicit request takes over what 'option httpchk' said and the place in the order.
    if let Step::Send(send) = new.step {
        let first = checks.own.iter().position(|step| is_exchange(&step.step));
        let implicit = first.filter(|at| checks.own.get(*at).is_some_and(is_from_option));
        let merged = match implicit.map(|at| checks.own.remove(at).step) {
            Some(Step::Send(mut known)) => {
                overwrite(&mut known, *send);
                known.from_option = false;
                known
            }
            _ => send,
        };
        checks.own.push(Commented { step: Step::Send(merged), comment: new.comment });
    } else {
        checks.own.push(new);
    }
    Ok(())
}

fn is_from_option(step: &Commented) -> bool {
    matches!(&step.step, Step::Send(send) if send.from_option)
}

/// Puts the check together, once the section is complete.
pub(super) fn finish(scope: &mut Scope<'_>) {
    if !scope.has_backend() {
        return;
    }
    let checks = std::mem::take(&mut scope.proxy().rules.checks);
    let kind = scope.kind_word();
    let name = scope.proxy().proxy.name.clone();
    if let Some(line) = &checks.unused {
        let message =
            format!("{kind} '{name}' uses http-check rules without 'option httpchk', so the rules are ignored.");
        scope.warn(line, section_problem(message).at(0).expected("'option httpchk' in this section or its defaults"));
    }
    let http = checks.protocol == Protocol::Http;
    if checks.protocol == Protocol::Tcp {
        for (keyword, line) in [("disable-on-404", &checks.disable_on_404), ("send-state", &checks.send_state)] {
            if let Some(line) = line {
                let message = format!("'{keyword}' will be ignored for {kind} '{name}' (requires 'option httpchk').");
                scope.warn(line, section_problem(message).at(1));
            }
        }
    }
    let mut config = CheckConfig {
        steps: Vec::new(),
        http,
        disable_on_404: checks.disable_on_404.is_some() && checks.protocol != Protocol::Tcp,
        send_state: checks.send_state.is_some() && checks.protocol != Protocol::Tcp,
    };
    if http {
        let inherits = checks.inherited.is_some();
        let steps = checks.inherited.unwrap_or(checks.own);
        if !steps.iter().any(|step| matches!(step.step, Step::Send(_)))
            && let (false, false, Some(line)) = (inherits, checks.own_option, &checks.first)
        {
            let message = format!(
                "{kind} '{name}' sends no request in its checks: http-check rules of a section replace the 'option \
                 httpchk' that it inherits."
            );
            scope.warn(
                line,
                section_problem(message).at(0).expected("'option httpchk' or 'http-check send' in this section"),
            );
        }
        let owner = scope.proxy().line.clone().or(checks.first);
        if let Some(line) = owner {
            match assemble(scope, &line, steps) {
                Ok(steps) => config.steps = steps,
                Err(problem) => scope.alert(&line, problem),
            }
        }
    }
    scope.proxy().proxy.check = config;
}

/// The steps in the order in which they are run, comments joined to them, with what HAProxy adds.
fn assemble(scope: &mut Scope<'_>, line: &Line, mut steps: Vec<Commented>) -> Result<Vec<CheckStep>, Problem> {
    // The request of 'option httpchk' goes behind the first connection.
    let mut exchanges = steps.iter().enumerate().filter(|(_, step)| is_exchange(&step.step)).map(|(at, _)| at);
    if let (Some(first), Some(second)) = (exchanges.next(), exchanges.next())
        && steps.get(first).is_some_and(is_from_option)
        && matches!(steps.get(second), Some(Commented { step: Step::Connect(_), .. }))
    {
        let implicit = steps.remove(first);
        steps.insert(second, implicit);
    }
    // A request without an expectation expects success.
    let last = steps.iter().rev().find(|step| is_exchange(&step.step));
    if matches!(last, Some(Commented { step: Step::Send(_), .. })) {
        let what = CheckExpectation::Status(vec![(200, 399)]);
        steps.push(Commented { step: Step::Expect(Box::new(check_expect::plain(what))), comment: None });
    }
    let mut done = Vec::with_capacity(steps.len());
    let mut pending: Option<String> = None;
    let mut previous = None;
    for Commented { step, comment } in steps {
        let kind = std::mem::discriminant(&step);
        // A comment counts for the steps of the same kind that follow it.
        if previous.is_some_and(|previous| previous != kind) {
            pending = None;
        }
        previous = Some(kind);
        let comment = match step {
            Step::Comment(text) => {
                pending = Some(text);
                previous = None;
                continue;
            }
            Step::SetVar(variable) => {
                done.push(CheckStep::SetVar(variable));
                pending = None;
                continue;
            }
            Step::UnsetVar(name) => {
                done.push(CheckStep::UnsetVar(name));
                pending = None;
                continue;
            }
            Step::Connect(connect) => {
                done.push(*connect);
                let before = pending.take();
                comment.or(before)
            }
            Step::Send(send) => {
                done.push(complete(scope, line, *send)?);
                comment.or_else(|| pending.clone())
            }
            Step::Expect(expect) => {
                done.push(CheckStep::ExpectHttp(*expect));
                comment.or_else(|| pending.clone())
            }
        };
        done.extend(comment.map(CheckStep::Comment));
    }
    Ok(done)
}

/// A request with defaults for what nothing says.
fn complete(scope: &mut Scope<'_>, line: &Line, send: Send) -> Result<CheckStep, Problem> {
    let uri = match send.uri {
        Some(uri) => uri,
        None => literal(scope, line, 0, b"/", PLACES)?,
    };
    Ok(CheckStep::SendHttp {
        method: send.method.unwrap_or_else(|| "OPTIONS".to_owned()),
        uri,
        version: send.version.unwrap_or_else(|| "HTTP/1.0".to_owned()),
        headers: send.headers,
        body: send.body,
    })
}
