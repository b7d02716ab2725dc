//! `fcgi-app` sections.

use std::{collections::HashMap, sync::Arc, time::Duration};

use sample::{LogFormat, LogFormatOptions, Place, Places};

use crate::{
    args,
    diagnostics::{Problem, Severity},
    lexer::is_name_character,
    line::{Line, Modifier},
    model::{FcgiApp, FcgiParam, Filter, Mode, PassedHeader, ProxyKind, RestrictNames, Server, ServerProtocol},
    rules,
    scope::{ProxyDraft, Scope, Section},
    table::Group,
    units::Unit,
};

/// Options of a section.
const OPTIONS: [&str; 6] = ["get-values", "keep-conn", "max-reqs", "mpxs-buffer", "mpxs-conns", "mpxs-wait"];

/// Bytes of an answer that wait where nothing is said.
const ANSWER_BYTES: usize = 256 << 10;

/// Fewer of them would hold up a connection for each record.
const ANSWER_BYTES_MIN: usize = 16 << 10;

/// How long an answer keeps others waiting where nothing is said.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// Variables that are set unless a section says otherwise.
const IMPLIED: [(&str, &str); 2] = [("REMOTE_USER", "%[http_auth_user]"), ("AUTH_TYPE", "%[http_auth_type]")];

/// Where samples of a section are evaluated.
const PLACES: Places = Places::only(Place::BackendRequestHeaders);

/// `fcgi-app`.
pub fn section(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1);
    if name.is_empty() {
        return Err(Problem::new("'fcgi-app' expects <name> as argument.").at(1).expected("a name"));
    }
    args::no_more(line, 1)?;
    if let Some(character) = name.chars().find(|character| !is_name_character(*character)) {
        let message = format!("character '{character}' is not permitted in 'fcgi-app' name '{name}'.");
        let offset = name.find(character).unwrap_or(0);
        return Err(Problem::new(message).within(line, 1, offset..offset + character.len_utf8()));
    }
    if let Some(other) = scope.state.fcgi_apps.iter().find(|app| *app.name == *name) {
        let place = &other.location;
        let message = format!(
            "fcgi-app section '{name}' has the same name as another one declared at {}:{}.",
            place.file, place.line
        );
        scope.alert(line, Problem::new(message).at(1));
    }
    // Its ACLs are its own.
    scope.outside = ProxyDraft::default();
    let outside = &mut scope.outside.proxy;
    (outside.name, outside.kind, outside.mode) = (name.into(), ProxyKind::Backend, Mode::Http);
    scope.section = Section::Other(Group::FcgiApp);
    let mut params = Vec::new();
    for (variable, text) in IMPLIED {
        let value = format(scope, line, 1, text.as_bytes())?;
        params.push(FcgiParam { name: variable.into(), value, condition: None });
    }
    scope.state.fcgi_apps.push(FcgiApp {
        name: name.into(),
        location: line.location(),
        docroot: Vec::new(),
        index: None,
        path_info: None,
        keeps_connection: true,
        asks_values: false,
        is_multiplexed: false,
        requests_max: 1,
        answer_bytes_max: ANSWER_BYTES,
        answer_patience: ANSWER_PATIENCE,
        logs: Vec::new(),
        params,
        passed: Vec::new(),
    });
    Ok(())
}

fn format(scope: &mut Scope<'_>, line: &Line, index: usize, text: &[u8]) -> Result<LogFormat, Problem> {
    scope.log_format_with(line, index, text, PLACES, LogFormatOptions::RULE)
}

/// The section that is being read; its lines are dispatched only while there is one.
fn change(scope: &mut Scope<'_>, change: impl FnOnce(&mut FcgiApp)) {
    if let Some(app) = scope.state.fcgi_apps.last_mut() {
        change(app);
    }
}

/// The one argument of a line.
fn only<'a>(line: &'a Line, what: &str) -> Result<&'a [u8], Problem> {
    let keyword = line.word(0);
    if line.word(1).is_empty() {
        return Err(Problem::new(format!("'{keyword}' expects <{what}> as argument.")).at(1).expected(what.to_owned()));
    }
    args::no_more(line, 1)?;
    Ok(line.bytes(1))
}

/// `docroot`.
pub fn docroot(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let path = only(line, "path")?.to_vec();
    change(scope, |app| app.docroot = path);
    Ok(())
}

/// `index`.
pub fn index(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = only(line, "filename")?.to_vec();
    change(scope, |app| app.index = Some(name));
    Ok(())
}

/// `path-info`.
pub fn path_info(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    only(line, "regex")?;
    let regex = scope.regex(line, 1, false)?;
    change(scope, |app| app.path_info = Some(regex));
    Ok(())
}

/// `set-param`.
pub fn set_param(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() || line.word(2).is_empty() {
        let at = if line.word(1).is_empty() { 1 } else { 2 };
        return Err(Problem::new("'set-param' expects <name> and <value> as arguments.").at(at));
    }
    let value = format(scope, line, 2, line.bytes(2))?;
    let condition = rules::condition_at(scope, line, 3, PLACES)?;
    // HAProxy's names: capitals, digits, and underscores for all else.
    let capital = |byte: &u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_uppercase() } else { b'_' };
    let name = line.bytes(1).iter().map(capital).collect();
    change(scope, |app| app.params.push(FcgiParam { name, value, condition }));
    Ok(())
}

/// `pass-header`.
pub fn pass_header(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() {
        return Err(Problem::new("'pass-header' expects <name> as arguments.").at(1).expected("the name of a header"));
    }
    let condition = rules::condition_at(scope, line, 2, PLACES)?;
    let name = line.bytes(1).to_ascii_lowercase();
    change(scope, |app| app.passed.push(PassedHeader { name, condition }));
    Ok(())
}

/// `acl`.
pub fn acl(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    rules::acl_line(scope, line)
}

/// `log-stderr`.
pub fn log_stderr(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let targets = rules::fcgi_logs(scope, line)?;
    change(scope, |app| app.logs.extend(targets));
    Ok(())
}

/// `option`.
pub fn option(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = line.word(1);
    let modifier = line.modifier();
    match name {
        "" => return Err(Problem::new("'option' expects an option name.").at(1)),
        "max-reqs" => {
            if modifier != Modifier::Set {
                return Err(Problem::new("negation/default is not supported for option 'max-reqs'.").at(1));
            }
            if line.word(2).is_empty() {
                return Err(Problem::new("option 'max-reqs' expects an integer argument.").at(2).expected("a number"));
            }
            args::no_more_after(line, 1, 1)?;
            let number: i64 = args::lenient(scope, line, 2, i64::MIN..=i64::MAX)?;
            let Some(number) = usize::try_from(number).ok().filter(|number| *number > 0) else {
                let message = "option 'max-reqs' expects a strictly positive integer argument.";
                return Err(Problem::new(message).at(2).expected("a number from 1 up"));
            };
            change(scope, |app| app.requests_max = number);
        }
        "mpxs-buffer" | "mpxs-wait" => {
            if modifier != Modifier::Set {
                return Err(Problem::new(format!("negation/default is not supported for option '{name}'.")).at(1));
            }
            args::no_more_after(line, 1, 1)?;
            bound(scope, line, name)?;
        }
        "keep-conn" | "get-values" | "mpxs-conns" => {
            args::no_more_after(line, 0, 1)?;
            let is_on = modifier == Modifier::Set;
            change(scope, |app| {
                let option = match name {
                    "keep-conn" => &mut app.keeps_connection,
                    "get-values" => &mut app.asks_values,
                    _ => &mut app.is_multiplexed,
                };
                if modifier != Modifier::Default {
                    *option = is_on;
                }
            });
        }
        _ => {
            return Err(Problem::new(format!("unknown option '{name}'.")).at(1).nearest(name, OPTIONS));
        }
    }
    Ok(())
}

/// `option mpxs-buffer`, `option mpxs-wait`: what one answer may cost the others on its connection.
fn bound(scope: &mut Scope<'_>, line: &Line, name: &str) -> Result<(), Problem> {
    if name == "mpxs-wait" {
        let patience = args::time(scope, line, 2, Unit::Millisecond)?;
        change(scope, |app| app.answer_patience = patience);
        return Ok(());
    }
    let bytes = usize::try_from(args::size(line, 2)?).unwrap_or(usize::MAX);
    if bytes < ANSWER_BYTES_MIN {
        let message = "option 'mpxs-buffer' : a connection would wait for each record.";
        return Err(Problem::new(message).at(2).expected("16k or more"));
    }
    change(scope, |app| app.answer_bytes_max = bytes);
    Ok(())
}

/// What can be said of applications, and of the proxies and servers that use them, when all sections have been read.
pub fn finish(scope: &mut Scope<'_>) {
    let mut problems = Vec::new();
    for app in &mut scope.state.fcgi_apps {
        if app.docroot.is_empty() {
            problems.push((Severity::Alert, format!("fcgi-app '{}': no docroot configured.", app.name)));
        }
        if !app.is_multiplexed && !app.asks_values {
            if app.requests_max > 1 {
                let message =
                    format!("fcgi-app '{}': multiplexing not supported, ignore the option 'max-reqs'.", app.name);
                problems.push((Severity::Warning, message));
            }
            app.requests_max = 1;
        }
    }
    let apps: HashMap<&str, &FcgiApp> = scope.state.fcgi_apps.iter().map(|app| (&*app.name, app)).collect();
    let mut shared: HashMap<&str, Arc<FcgiApp>> = HashMap::new();
    for draft in &mut scope.state.proxies {
        let proxy = &mut draft.proxy;
        let names = proxy.filters.iter().filter_map(|filter| match filter {
            Filter::FcgiApp { name, .. } => Some(Arc::clone(name)),
            _ => None,
        });
        let names: Vec<Arc<str>> = names.collect();
        let of_programs = |server: &&Server| server.protocol.is_some_and(ServerProtocol::is_of_programs);
        let server = proxy.servers.iter().find(of_programs);
        if server.is_some() {
            // Names with other characters would become variables of the same name.
            proxy.options.restrict_request_header_names.get_or_insert(RestrictNames::Delete);
        }
        let of_fcgi = proxy.servers.iter().find(|server| server.protocol == Some(ServerProtocol::Fcgi));
        let alert = match (names.as_slice(), server) {
            ([], _) => match of_fcgi {
                None => continue,
                Some(server) => {
                    Some(format!("proxy '{}': FCGI server '{}' has no FCGI app configured.", proxy.name, server.name))
                }
            },
            ([_], None) => Some(format!("proxy '{}': FCGI app configured but no FCGI server found.", proxy.name)),
            (_, _) if proxy.mode != Mode::Http => {
                Some(format!("proxy '{}': FCGI application cannot be used in non-HTTP mode.", proxy.name))
            }
            ([_], Some(_)) => None,
            _ => Some(format!("proxy '{}' : only one fcgi-app supported per backend.", proxy.name)),
        };
        problems.extend(alert.map(|message| (Severity::Alert, message)));
        let others =
            |filter: &Filter| !matches!(filter, Filter::Compression | Filter::Cache { .. } | Filter::FcgiApp { .. });
        let Some(name) = names.first() else { continue };
        if proxy.filters.iter().any(others) {
            let message = format!(
                "config: proxy '{}': require an explicit filter declaration to use the fcgi-app '{name}'.",
                proxy.name
            );
            problems.push((Severity::Alert, message));
        }
        let Some((key, app)) = apps.get_key_value(&**name) else {
            problems.push((Severity::Alert, format!("proxy '{}' : fcgi-app '{name}' not found.", proxy.name)));
            continue;
        };
        proxy.fcgi_app = Some(Arc::clone(shared.entry(key).or_insert_with(|| Arc::new((*app).clone()))));
    }
    for (severity, message) in problems {
        scope.whole(severity, message);
    }
}
