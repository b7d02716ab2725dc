//! `http-check` and `tcp-check` lines: the steps of health checks, collected until the section is complete.
//!
//! The lines of a section form a list of their own, one for each of the two. Which list counts is decided as in HAProxy:
//! by the last option that chooses a kind of check, and once that is on, by the first line of the section itself, which
//! makes the section's list count in place of the inherited one. What is inherited is therefore never mixed with what the
//! section says.

use sample::{Place, Places};

use super::{
    check_expect,
    check_steps::{self, Send},
    external_check,
    reply::literal,
    variables,
    words::{around, section_problem, wrong},
};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{
        CheckAction, CheckConfig, CheckConnect, CheckExpect, CheckExpectation, CheckProtocol, CheckSend, CheckStep,
        SetVariable,
    },
    scope::Scope,
    table::Group,
};

/// Where expressions of checks are evaluated.
pub(super) const PLACES: Places = Places::only(Place::Check);

/// A step until the section is complete.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Comment(String),
    Connect(CheckConnect),
    Send(CheckSend),
    SendHttp(Box<Send>),
    Expect(Box<CheckExpect>),
    SetVar(SetVariable),
    UnsetVar(sample::VariableName),
}

impl Step {
    /// Whether it talks to the server.
    fn is_exchange(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Send(_) | Self::SendHttp(_) | Self::Expect(_))
    }

    fn is_from_option(&self) -> bool {
        matches!(self, Self::SendHttp(send) if send.from_option)
    }
}

/// A step with its own `comment`.
#[derive(Clone, Debug)]
pub(super) struct Commented {
    step: Step,
    comment: Option<String>,
    /// Counted from 1, lines with `comment` included.
    number: u32,
}

/// What the checks of a section do, as far as options have chosen it.
#[derive(Clone, Debug, Default)]
pub(super) enum Chosen {
    #[default]
    Nothing,
    Tcp,
    Http,
    /// A sequence that needs no lines.
    BuiltIn(CheckProtocol, Vec<CheckStep>),
    /// `option external-check`, and its line.
    External(Box<Line>),
}

/// The lines of one of the two keywords.
#[derive(Clone, Debug, Default)]
struct Lines {
    /// Those of the section itself.
    own: Vec<Commented>,
    /// Those of the `defaults` section that count unless the section has its own.
    inherited: Option<Vec<Commented>>,
    /// The first one that no option has turned on yet.
    unused: Option<Line>,
}

impl Lines {
    fn for_heir(&self, counts: bool) -> Self {
        let list = || self.inherited.clone().unwrap_or_else(|| self.own.clone());
        Self { inherited: counts.then(list), ..Self::default() }
    }
}

/// The check of a section.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    chosen: Chosen,
    http: Lines,
    tcp: Lines,
    /// The first `http-check` line of the section.
    first: Option<Line>,
    disable_on_404: Option<Line>,
    send_state: Option<Line>,
    /// The section has an option of its own that chooses the check.
    own_option: bool,
}

impl Pending {
    /// What a section starts with that inherits from one with this check.
    pub(super) fn for_heir(&self) -> Self {
        Self {
            chosen: self.chosen.clone(),
            http: self.http.for_heir(matches!(self.chosen, Chosen::Http)),
            tcp: self.tcp.for_heir(matches!(self.chosen, Chosen::Tcp)),
            disable_on_404: self.disable_on_404.clone(),
            send_state: self.send_state.clone(),
            ..Self::default()
        }
    }

    /// An option chooses what is checked.
    pub(super) fn choose(&mut self, chosen: Chosen) {
        self.own_option = true;
        if !matches!(chosen, Chosen::External(_)) {
            (self.http.unused, self.tcp.unused) = (None, None);
        }
        // Steps of another kind that were inherited are gone for good, and so are those that 'option httpchk' replaces.
        self.http.inherited = None;
        if !matches!((&self.chosen, &chosen), (Chosen::Tcp, Chosen::Tcp)) {
            self.tcp.inherited = None;
        }
        self.chosen = chosen;
    }

    /// Puts the request of `option httpchk` into the section's list.
    pub(super) fn add_request_of_option(&mut self, send: Send) {
        let steps = &mut self.http.own;
        let first = steps.iter().position(|step| step.step.is_exchange());
        let first = match first {
            Some(at) if matches!(steps.get(at), Some(Commented { step: Step::Connect(_), .. })) => {
                (at + 1..steps.len()).find(|at| steps.get(*at).is_some_and(|step| step.step.is_exchange()))
            }
            other => other,
        };
        let implicit = |send| Commented { step: Step::SendHttp(Box::new(send)), comment: None, number: 1 };
        match first.and_then(|at| steps.get_mut(at)).map(|step| &mut step.step) {
            // An earlier 'option httpchk' is replaced; an explicit 'http-check send' is completed.
            Some(Step::SendHttp(known)) if known.from_option => {
                if let Some(at) = first {
                    steps.remove(at);
                }
                steps.insert(0, implicit(send));
            }
            Some(Step::SendHttp(known)) => known.overwrite(send),
            _ => steps.insert(0, implicit(send)),
        }
    }
}

/// `http-check`.
pub(super) fn http_line(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let known = "'disable-on-404', 'send-state', 'comment', 'connect', 'send', 'expect'";
    step_line(scope, line, Group::HttpCheck, known)
}

/// `tcp-check`.
pub(super) fn tcp_line(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    step_line(scope, line, Group::TcpCheck, "'comment', 'connect', 'send', 'send-binary', 'expect'")
}

fn step_line(scope: &mut Scope<'_>, line: &Line, group: Group, known: &str) -> Result<(), Problem> {
    let (keyword, word) = (line.word(0), line.word(1));
    if crate::table::find(group, word).is_none() {
        if let Some(problem) = variables::incomplete_action(word, 1) {
            return Err(around(problem, |error| format!("'{keyword} {word}' : {error}.")));
        }
        let message =
            format!("'{keyword}' only supports {known}, 'set-var-fmt', 'set-var', 'unset-var'. but got '{word}'");
        return Err(wrong(message, 1).nearest(word, crate::table::supported_names(group)));
    }
    scope.dispatch(line, 1, group).map_err(|problem| {
        around(problem, |error| {
            let whole = error.starts_with(&format!("'{keyword}"));
            if whole { format!("{error}.") } else { format!("'{keyword} {word}' : {error}.") }
        })
    })
}

pub(super) fn disable_on_404(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    scope.proxy().rules.checks.disable_on_404 = Some(line.clone());
    Ok(())
}

pub(super) fn send_state(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    scope.proxy().rules.checks.send_state = Some(line.clone());
    Ok(())
}

pub(super) fn comment(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let text = line.word(2);
    if text.is_empty() {
        return Err(wrong("expects a string as argument", 2).expected("a text in quotes"));
    }
    args::no_more_after(line, 1, 1)?;
    add(scope, line, Step::Comment(text.to_owned()), None)
}

/// Whether a line is one of `tcp-check`.
fn is_tcp(line: &Line) -> bool {
    line.word(0) == "tcp-check"
}

pub(super) fn connect(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let checks = &scope.proxy().rules.checks;
    let own = if is_tcp(line) { &checks.tcp.own } else { &checks.http.own };
    for Commented { step, .. } in own {
        match step {
            Step::Connect(_) => break,
            step if !step.is_exchange() || step.is_from_option() => {}
            _ => {
                return Err(wrong(
                    "first step MUST also be a 'connect', optionally preceded by a 'set-var', an 'unset-var' or a \
                     'comment', when there is a 'connect' step in the tcp-check ruleset",
                    1,
                )
                .expected(format!("'{} connect' before the other steps", line.word(0))));
            }
        }
    }
    let (step, comment) = check_steps::connect(scope, line)?;
    add(scope, line, Step::Connect(step), comment)
}

/// `http-check send`.
pub(super) fn send_http(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (send, comment) = check_steps::send_http(scope, line)?;
    add(scope, line, Step::SendHttp(Box::new(send)), comment)
}

/// `tcp-check send` and its like.
pub(super) fn send_data(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (send, comment) = check_steps::send_data(scope, line)?;
    add(scope, line, Step::Send(send), comment)
}

/// `http-check expect`.
pub(super) fn expect_http(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (expect, comment) = check_expect::expect(scope, line, check_expect::Language::Http)?;
    add(scope, line, Step::Expect(Box::new(expect)), comment)
}

/// `tcp-check expect`.
pub(super) fn expect_text(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (expect, comment) = check_expect::expect(scope, line, check_expect::Language::Tcp)?;
    add(scope, line, Step::Expect(Box::new(expect)), comment)
}

pub(super) fn set_variable(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mut index = 1;
    let variable = variables::set(scope, line, &mut index)?;
    end(line, index)?;
    add(scope, line, Step::SetVar(variable), None)
}

pub(super) fn unset_variable(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
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

/// Adds a step to the section's own list.
fn add(scope: &mut Scope<'_>, line: &Line, step: Step, comment: Option<String>) -> Result<(), Problem> {
    let checks = &mut scope.proxy().rules.checks;
    if is_tcp(line) {
        let lines = &mut checks.tcp;
        let number = u32::try_from(lines.own.len()).unwrap_or(u32::MAX).saturating_add(1);
        lines.own.push(Commented { step, comment, number });
        match checks.chosen {
            Chosen::Tcp => lines.inherited = None,
            _ => lines.unused = Some(line.clone()),
        }
        return Ok(());
    }
    checks.first.get_or_insert_with(|| line.clone());
    let lines = &mut checks.http;
    let number = lines.own.iter().filter(|step| !step.step.is_from_option()).count() + 1;
    let new = Commented { step, comment, number: u32::try_from(number).unwrap_or(u32::MAX) };
    if !matches!(checks.chosen, Chosen::Http) {
        lines.unused = Some(line.clone());
        lines.own.push(new);
        return Ok(());
    }
    lines.inherited = None;
    add_http(&mut lines.own, new)
}

/// Adds a step of `http-check` where the order allows it.
fn add_http(own: &mut Vec<Commented>, new: Commented) -> Result<(), Problem> {
    let last = own.iter().rev().find(|step| step.step.is_exchange());
    let missing = |what: &str, before: &str| {
        let message = format!("unable to add http-check {what} rule at step {} (missing {before} rule).", new.number);
        Err(wrong(message, 1).expected(format!("'http-check {before}' before it")))
    };
    match (last.map(|step| &step.step), &new.step) {
        (None, _) => {}
        (Some(Step::SendHttp(send)), _) if send.from_option => {}
        (Some(Step::Connect(_)), Step::SendHttp(_)) => {}
        (Some(_), Step::SendHttp(_)) => return missing("send", "connect"),
        (Some(Step::Connect(_)), Step::Expect(_)) => return missing("expect", "send"),
        (Some(Step::Expect(_)), Step::Connect(_)) => {}
        (Some(_), Step::Connect(_)) => return missing("connect", "expect"),
        _ => {}
    }
    // An explicit request takes over what 'option httpchk' said and the place in the order.
    let Commented { step, comment, number } = new;
    let step = match step {
        Step::SendHttp(send) => {
            let first = own.iter().position(|step| step.step.is_exchange());
            let implicit = first.filter(|at| own.get(*at).is_some_and(|step| step.step.is_from_option()));
            match implicit.map(|at| own.remove(at).step) {
                Some(Step::SendHttp(mut known)) => {
                    known.overwrite(*send);
                    known.from_option = false;
                    Step::SendHttp(known)
                }
                _ => Step::SendHttp(send),
            }
        }
        step => step,
    };
    own.push(Commented { step, comment, number });
    Ok(())
}

/// Puts the check together, once the section is complete.
pub(super) fn finish(scope: &mut Scope<'_>) {
    if !scope.has_backend() {
        return;
    }
    let checks = std::mem::take(&mut scope.proxy().rules.checks);
    warn_of_unused(scope, &checks);
    let is_http = matches!(checks.chosen, Chosen::Http);
    let program_line = match &checks.chosen {
        Chosen::External(line) => Some(&**line),
        _ => None,
    };
    let external = external_check::finish(scope, program_line);
    let is_other = matches!(checks.chosen, Chosen::Tcp | Chosen::BuiltIn(..));
    let mut config = CheckConfig {
        disable_on_404: checks.disable_on_404.is_some() && !is_other,
        send_state: checks.send_state.is_some() && !is_other,
        ..CheckConfig::default()
    };
    let inherits = checks.http.inherited.is_some();
    let owner = scope.proxy().line.clone().or(checks.first.clone());
    let steps = match checks.chosen {
        Chosen::Nothing => Vec::new(),
        Chosen::External(_) => {
            config.protocol = CheckProtocol::External;
            config.external = external;
            Vec::new()
        }
        Chosen::BuiltIn(protocol, steps) => {
            config.protocol = protocol;
            config.steps = steps;
            Vec::new()
        }
        Chosen::Tcp => {
            config.protocol = CheckProtocol::Tcp;
            checks.tcp.inherited.unwrap_or(checks.tcp.own)
        }
        Chosen::Http => {
            config.protocol = CheckProtocol::Http;
            checks.http.inherited.unwrap_or(checks.http.own)
        }
    };
    if is_http
        && !steps.iter().any(|step| matches!(step.step, Step::SendHttp(_)))
        && let (false, false, Some(line)) = (inherits, checks.own_option, &checks.first)
    {
        let (kind, name) = (scope.kind_word(), scope.proxy().proxy.name.clone());
        let message = format!(
            "{kind} '{name}' sends no request in its checks: http-check rules of a section replace the 'option httpchk' \
             that it inherits."
        );
        let expected = "'option httpchk' or 'http-check send' in this section";
        scope.warn(line, section_problem(message).at(0).expected(expected));
    }
    if matches!(config.protocol, CheckProtocol::Tcp | CheckProtocol::Http)
        && let Some(line) = owner
    {
        match assemble(scope, &line, steps) {
            Ok(steps) => config.steps = steps,
            Err(problem) => scope.alert(&line, problem),
        }
    }
    scope.proxy().proxy.check = config;
}

fn warn_of_unused(scope: &mut Scope<'_>, checks: &Pending) {
    let kind = scope.kind_word();
    let name = scope.proxy().proxy.name.clone();
    for (line, keyword, option) in
        [(&checks.http.unused, "http-check", "httpchk"), (&checks.tcp.unused, "tcp-check", "tcp-check")]
    {
        if let Some(line) = line {
            let message =
                format!("{kind} '{name}' uses {keyword} rules without 'option {option}', so the rules are ignored.");
            let expected = format!("'option {option}' in this section or its defaults");
            scope.warn(line, section_problem(message).at(0).expected(expected));
        }
    }
    if matches!(checks.chosen, Chosen::Tcp | Chosen::BuiltIn(..)) {
        for (keyword, line) in [("disable-on-404", &checks.disable_on_404), ("send-state", &checks.send_state)] {
            if let Some(line) = line {
                let message = format!("'{keyword}' will be ignored for {kind} '{name}' (requires 'option httpchk').");
                scope.warn(line, section_problem(message).at(1));
            }
        }
    }
}

/// The connection that no line asks for.
pub(super) fn implicit_connection() -> CheckStep {
    let connect = CheckConnect { default: true, implicit: true, ..CheckConnect::default() };
    CheckStep { action: CheckAction::Connect(connect), comment: None, number: 0 }
}

/// The steps in the order in which they are run, comments joined to them, with what HAProxy adds.
fn assemble(scope: &mut Scope<'_>, line: &Line, mut steps: Vec<Commented>) -> Result<Vec<CheckStep>, Problem> {
    // The request of 'option httpchk' goes behind the first connection.
    let mut exchanges = steps.iter().enumerate().filter(|(_, step)| step.step.is_exchange()).map(|(at, _)| at);
    if let (Some(first), Some(second)) = (exchanges.next(), exchanges.next())
        && steps.get(first).is_some_and(|step| step.step.is_from_option())
        && matches!(steps.get(second), Some(Commented { step: Step::Connect(_), .. }))
    {
        let implicit = steps.remove(first);
        steps.insert(second, implicit);
    }
    // A request without an expectation expects success.
    let last = steps.iter().rev().find(|step| step.step.is_exchange());
    if let Some(Commented { step: Step::SendHttp(_), number, .. }) = last {
        let expect = CheckExpect::plain(CheckExpectation::Status(vec![(200, 399)]));
        let number = number.saturating_add(1);
        steps.push(Commented { step: Step::Expect(Box::new(expect)), comment: None, number });
    }
    let mut done = Vec::with_capacity(steps.len() + 1);
    let first = steps.iter().find(|step| step.step.is_exchange());
    if !matches!(first, Some(Commented { step: Step::Connect(_), .. })) {
        done.push(implicit_connection());
    }
    let mut pending: Option<String> = None;
    let mut previous = None;
    for Commented { step, comment, number } in steps {
        let kind = std::mem::discriminant(&step);
        // A comment counts for the steps of the same kind that follow it.
        if previous.is_some_and(|previous| previous != kind) {
            pending = None;
        }
        previous = Some(kind);
        let inherited = pending.clone();
        let action = match step {
            Step::Comment(text) => {
                pending = Some(text);
                previous = None;
                continue;
            }
            Step::SetVar(variable) => CheckAction::SetVar(variable),
            Step::UnsetVar(name) => CheckAction::UnsetVar(name),
            Step::Connect(connect) => CheckAction::Connect(connect),
            Step::Send(send) => CheckAction::Send(send),
            Step::SendHttp(send) => complete(scope, line, *send)?,
            Step::Expect(expect) => CheckAction::Expect(expect),
        };
        if matches!(action, CheckAction::SetVar(_) | CheckAction::UnsetVar(_) | CheckAction::Connect(_)) {
            pending = None;
        }
        done.push(CheckStep { action, comment: comment.or(inherited), number });
    }
    Ok(done)
}

/// A request with defaults for what nothing says.
fn complete(scope: &mut Scope<'_>, line: &Line, send: Send) -> Result<CheckAction, Problem> {
    let uri = match send.uri {
        Some(uri) => uri,
        None => literal(scope, line, 0, b"/", PLACES)?,
    };
    Ok(CheckAction::SendHttp {
        method: send.method.unwrap_or_else(|| "OPTIONS".to_owned()),
        uri,
        version: send.version.unwrap_or_else(|| "HTTP/1.0".to_owned()),
        headers: send.headers,
        body: send.body,
    })
}
