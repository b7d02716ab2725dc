//! `mailers` sections and `email-alert`: who is told by mail when servers come and go.

use std::{sync::Arc, time::Duration};

use super::{
    logs,
    words::{invalid_name_character, section_problem, wrong},
};
use crate::{
    address::{Accepts, Host, Port},
    args,
    diagnostics::{Prefix, Problem},
    line::Line,
    model::{MailAlert, MailAlertLevel, Mailer, MailerAddress},
    scope::Scope,
    table::{Group, Keyword, Sections},
    units::Unit,
};

/// `timeout mail` unless it is given.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Keywords about mails.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Proxy, "email-alert", "{ from | level | mailers | myhostname | to } <value>", "4.2")
        .sections(Sections::ALL)
        .doc("Sends mails about states of servers.", "email-alert to ops@example.com")
        .line(email_alert),
    Keyword::new(Group::Mailers, "mailer", "<name> <address>:<port>", "3.6")
        .doc("A mail server.", "mailer smtp1 192.0.2.25:25")
        .line(mailer),
    Keyword::new(Group::Mailers, "timeout", "mail <time>", "3.6")
        .doc("How long sending may take.", "timeout mail 20s")
        .line(timeout),
];

/// A `mailers` section.
#[derive(Clone, Debug)]
struct Section {
    name: String,
    line: Line,
    mailers: Vec<Mailer>,
    timeout: Duration,
}

/// All `mailers` sections; the last one is being read.
#[derive(Debug, Default)]
pub(super) struct Mailers(Vec<Section>);

/// What a section's `email-alert` lines say.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    from: Option<String>,
    to: Option<String>,
    hostname: Option<String>,
    level: MailAlertLevel,
    mailers: Option<String>,
    line: Option<Line>,
}

/// Opens a `mailers` section.
pub(crate) fn open_section(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1);
    if name.is_empty() {
        return Err(wrong("missing name for mailers section.", 1).expected("a name, as in 'mailers ops'"));
    }
    if let Some(bad) = invalid_name_character(name) {
        return Err(wrong(format!("character '{bad}' is not permitted in 'mailers' name '{name}'."), 1)
            .expected("letters, digits, '.', ':', '_' and '-'"));
    }
    let sections = &mut scope.state.rules.mailers.0;
    let first = sections.iter().find(|section| section.name == name).map(|section| section.line.location());
    let (name, own) = (name.to_owned(), line.clone());
    sections.push(Section { name: name.clone(), line: own, mailers: Vec::new(), timeout: TIMEOUT_DEFAULT });
    if let Some(first) = first {
        let message = format!(
            "mailers section '{name}' has the same name as another mailers section declared at {}:{}.",
            first.file, first.line
        );
        return Err(wrong(message, 1).prefix(Prefix::Place));
    }
    Ok(())
}

fn mailer(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (name, text) = (line.word(1), line.word(2));
    if text.is_empty() {
        let message = "'mailer' expects <name> and <addr>[:<port>] as arguments.";
        return Err(wrong(message, line.len()).expected("a name and an address with a port"));
    }
    if let Some(bad) = invalid_name_character(name) {
        return Err(wrong(format!("character '{bad}' is not permitted in server name '{name}'."), 1));
    }
    let problem = |message: String| wrong(format!("'mailer {name}' : {message}"), 2);
    let parsed = scope.address(text, Accepts::SOURCE).map_err(problem)?;
    let Port::Range(port @ 1.., _) = parsed.port else {
        return Err(problem(format!("missing port number in '{text}'")).expected("an address with a port"));
    };
    let address = match parsed.host {
        Host::Ip(ip) => MailerAddress::Inet((ip, port).into()),
        Host::Name(host, _) => MailerAddress::Host(host, port),
        Host::Unix(_) | Host::Abstract(_) | Host::Descriptor(_) => {
            return Err(problem("TCP not supported for this address family.".to_owned()));
        }
    };
    if let Some(section) = scope.state.rules.mailers.0.last_mut() {
        section.mailers.push(Mailer { name: name.to_owned(), address });
    }
    args::ignore_more(scope, line, 2, 0);
    Ok(())
}

fn timeout(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    match line.word(1) {
        "" => return Err(wrong("'timeout' expects 'mail' and <time> as arguments.", 1)),
        "mail" if line.word(2).is_empty() => return Err(wrong("'timeout mail' expects <time> as argument.", 2)),
        "mail" => {}
        other => {
            let message = format!("'timeout' cannot handle unexpected argument '{other}'.");
            return Err(wrong(message, 1).nearest(other, ["mail"]));
        }
    }
    let time = args::time_of(scope, line, 2, line.word(2), "timeout mail", Unit::Millisecond)?;
    if let Some(section) = scope.state.rules.mailers.0.last_mut() {
        section.timeout = time;
    }
    Ok(())
}

fn email_alert(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (what, value) = (line.word(1), line.word(2));
    if what.is_empty() {
        return Err(wrong("missing argument after 'email-alert'.", 1));
    }
    // NOTE: as in HAProxy, a value that is missing is an empty one.
    let text = || Some(value.to_owned());
    // What would end a line of the dialogue with the mail server.
    if value.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(wrong(format!("'email-alert {what}' : control characters are not allowed."), 2));
    }
    let mail = &mut scope.proxy().rules.mail;
    match what {
        "from" => mail.from = text(),
        "to" => mail.to = text(),
        "mailers" => mail.mailers = text(),
        "myhostname" => mail.hostname = text(),
        "level" => {
            mail.level = MailAlertLevel(logs::level(value).ok_or_else(|| {
                wrong(format!("unknown log level '{value}' after '{what}'"), 2).expected("emerg to debug")
            })?);
        }
        _ => {
            let known = ["from", "to", "mailers", "myhostname", "level"];
            return Err(wrong(format!("email-alert: unknown argument '{what}'."), 1).nearest(what, known));
        }
    }
    mail.line = Some(line.clone());
    Ok(())
}

/// Finds the mailers, once all sections are known.
pub(super) fn finish(scope: &mut Scope<'_>) {
    let kind = scope.kind_word();
    let name = Arc::clone(&scope.proxy().proxy.name);
    let Pending { from, to, hostname, level, mailers, line } = scope.proxy().rules.mail.clone();
    let Some(line) = line else { return };
    let (Some(from), Some(to), Some(mailers)) = (from, to, mailers) else {
        let message = format!(
            "'email-alert' will be ignored for {kind} '{name}' (the presence any of 'email-alert from', 'email-alert \
             level' 'email-alert mailers', 'email-alert myhostname', or 'email-alert to' requires each of 'email-alert \
             from', 'email-alert mailers' and 'email-alert to' to be present)."
        );
        scope.warn(&line, section_problem(message).at(0));
        return;
    };
    let sections = &scope.state.rules.mailers.0;
    let Some(section) = sections.iter().find(|section| section.name == mailers) else {
        let known: Vec<String> = sections.iter().map(|section| section.name.clone()).collect();
        let message = format!("Proxy '{name}': unable to find mailers '{mailers}'.");
        let problem = section_problem(message).at(0).nearest(&mailers, known.iter().map(String::as_str));
        scope.alert(&line, problem);
        return;
    };
    let alert = MailAlert { from, to, hostname, level, mailers: section.mailers.clone(), timeout: section.timeout };
    scope.proxy().proxy.mail = Some(Box::new(alert));
}
