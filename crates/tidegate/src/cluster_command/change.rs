//! Commands that change the cluster: each shows what it will do and asks first, and waits until it has been done.

use std::time::{Duration, Instant};

use agent::{
    http::{self, Token},
    options::Folder,
};
use serde_json::{Value, json};

use super::{
    ActionCommand, CommandError, HostCommand, LOOK_EACH, PolicyCommand, ProxyArguments, ProxyCommand, ServerCommand,
    WhichArguments, ask,
    confirm::{Consent, DryRun},
    get,
    pace::Bars,
    show, shown,
};

/// How long a promotion may take.
const PROMOTION_PATIENCE: Duration = Duration::from_secs(15);
/// How long a server that was added may be down before nobody waits for it any more.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// What is said of a change that was not wanted.
pub const NOT_DONE: &str = "nothing has been changed";

/// A change by its request.
pub struct Change<'a> {
    method: &'a str,
    path: String,
    body: Value,
}

impl<'a> Change<'a> {
    pub fn new(method: &'a str, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), body }
    }
}

/// What an answer is for people.
type Table = fn(&Value) -> String;

/// What came of a change.
pub enum Outcome {
    /// It was done.
    Done(Value),
    /// It was not wanted; this is said.
    NotDone(String),
}

/// What would be done, for people or programs.
fn planned(which: &WhichArguments, plan: &Value, table: fn(&Value) -> String) -> String {
    if which.json { plan.to_string() } else { format!("{}\n{NOT_DONE}", table(plan).trim_end()) }
}

/// Has something done without a question, or shows what would be done.
pub fn at_once(
    which: &WhichArguments,
    dry: DryRun,
    change: &Change<'_>,
    (plan, done): (Table, Table),
) -> Result<String, CommandError> {
    if dry.is_dry {
        return Ok(planned(which, &ask_plan(which, change)?, plan));
    }
    let found = ask(which, change.method, &change.path, &change.body)?;
    Ok(shown(which, &found, done))
}

fn ask_plan(which: &WhichArguments, change: &Change<'_>) -> Result<Value, CommandError> {
    let mut planned = change.body.clone();
    if let Some(fields) = planned.as_object_mut() {
        fields.insert("plan".into(), true.into());
    }
    ask(which, change.method, &change.path, &planned)
}

/// Shows a plan and asks, then has it done.
pub fn with_consent(
    which: &WhichArguments,
    consent: Consent,
    change: &Change<'_>,
    table: fn(&Value) -> String,
) -> Result<Outcome, CommandError> {
    let plan = ask_plan(which, change)?;
    if consent.dry_run {
        return Ok(Outcome::NotDone(planned(which, &plan, table)));
    }
    if !consent.given(&table(&plan), which.json)? {
        return Ok(Outcome::NotDone(NOT_DONE.into()));
    }
    ask(which, change.method, &change.path, &change.body).map(Outcome::Done)
}

/// The same for what is done at once.
fn done_at_once(which: &WhichArguments, consent: Consent, change: &Change<'_>) -> Result<String, CommandError> {
    match with_consent(which, consent, change, show::what)? {
        Outcome::Done(done) => Ok(shown(which, &done, show::done)),
        Outcome::NotDone(said) => Ok(said),
    }
}

/// A part of a path: what would end it is written otherwise.
fn part(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2F").replace('?', "%3F").replace('#', "%23").replace(' ', "%20")
}

/// Commands about servers and groups.
pub fn server(command: &ServerCommand) -> Result<String, CommandError> {
    match command {
        ServerCommand::List(which) => Ok(shown(which, &get(which, "/api/status")?, show::servers)),
        ServerCommand::Add { group, address, redis, login, consent, which } => {
            let password = login.password()?;
            let body = json!({ "address": address, "redis": redis, "user": login.user, "password": password });
            let change = Change::new("POST", format!("/api/groups/{group}/servers"), body);
            let done = match with_consent(which, *consent, &change, show::what)? {
                Outcome::Done(done) => done,
                Outcome::NotDone(said) => return Ok(said),
            };
            let server = done.get("server").and_then(Value::as_str).unwrap_or_default().to_owned();
            wait_for_servers(which, &[server])?;
            Ok(shown(which, &done, show::done))
        }
        ServerCommand::Remove { group, server, ack, gone, consent, which } => {
            let path = format!("/api/groups/{group}/servers/{}", part(server));
            done_at_once(which, *consent, &Change::new("DELETE", path, json!({ "ack": ack, "gone": gone })))
        }
        ServerCommand::AddGroup { group, replicas, ack, redis, program, login, consent, which } => {
            let body = json!({
                "group": group, "replicas": replicas, "ack": ack, "redis": redis, "program": program,
                "user": login.user, "password": login.password()?,
            });
            let change = Change::new("POST", "/api/groups", body);
            let done = match with_consent(which, *consent, &change, show::what)? {
                Outcome::Done(done) => done,
                Outcome::NotDone(said) => return Ok(said),
            };
            let servers = done.get("servers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let servers: Vec<String> = servers.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
            wait_for_servers(which, &servers)?;
            Ok(shown(which, &done, |done| {
                format!(
                    "{}\nit has no slots yet: `tidegate cluster slot rebalance` gives it its share",
                    show::done(done)
                )
            }))
        }
        ServerCommand::RemoveGroup { group, consent, which } => {
            done_at_once(which, *consent, &Change::new("DELETE", format!("/api/groups/{group}"), json!({})))
        }
        ServerCommand::Promote { group, server, gone, consent, which } => {
            promote(which, *consent, *group, (server, *gone))
        }
    }
}

/// Waits until servers that were added run and have what their masters have.
fn wait_for_servers(which: &WhichArguments, servers: &[String]) -> Result<(), CommandError> {
    let (mut last, mut heard_at) = (String::new(), Instant::now());
    loop {
        let all = get(which, "/api/servers")?;
        let waiting: Vec<&Value> = all
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
            .filter(|server| servers.iter().any(|name| server.get("address").and_then(Value::as_str) == Some(name)))
            .filter(|server| !show::is_well(server))
            .collect();
        if waiting.is_empty() {
            return Ok(());
        }
        if waiting.iter().all(|server| show::is_up(server)) {
            heard_at = Instant::now();
        }
        let line = waiting.iter().map(|server| show::why_not_well(server)).collect::<Vec<_>>().join("; ");
        if line != last && !which.json {
            eprintln!("{line}");
            line.clone_into(&mut last);
        }
        if heard_at.elapsed() >= START_PATIENCE {
            return Err(CommandError::NotRunning(line));
        }
        std::thread::sleep(LOOK_EACH);
    }
}

fn promote(
    which: &WhichArguments,
    consent: Consent,
    group: u32,
    (server, gone): (&str, bool),
) -> Result<String, CommandError> {
    let body = json!({ "server": server, "gone": gone });
    let change = Change::new("POST", format!("/api/groups/{group}/promote"), body);
    let done = match with_consent(which, consent, &change, show::what)? {
        Outcome::Done(done) => done,
        Outcome::NotDone(said) => return Ok(said),
    };
    wait_for_master(which, group, server)?;
    Ok(shown(which, &done, show::done))
}

/// Waits until a server is its group's master and serves.
fn wait_for_master(which: &WhichArguments, group: u32, server: &str) -> Result<(), CommandError> {
    let end = Instant::now() + PROMOTION_PATIENCE;
    loop {
        let found = get(which, &format!("/api/groups/{group}"))?;
        let text = |name: &str| found.get(name).and_then(Value::as_str);
        if text("master") == Some(server) && text("state") == Some("ok") {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(CommandError::NotPromoted { server: server.to_owned(), within: PROMOTION_PATIENCE });
        }
        std::thread::sleep(LOOK_EACH);
    }
}

/// Has slots moved, and waits until they have.
pub fn moved(which: &WhichArguments, consent: Consent, path: &str, body: &Value) -> Result<String, CommandError> {
    let change = Change::new("POST", path, body.clone());
    let done = match with_consent(which, consent, &change, show::moves)? {
        Outcome::Done(done) => done,
        Outcome::NotDone(said) => return Ok(said),
    };
    wait_for_moves(which)?;
    Ok(shown(which, &done, |done| format!("done: {}", show::moved(done))))
}

/// Waits until nothing is on its way any more.
fn wait_for_moves(which: &WhichArguments) -> Result<(), CommandError> {
    let mut bars = Bars::new();
    loop {
        let moves = get(which, "/api/migrations")?;
        if moves.as_array().is_none_or(Vec::is_empty) {
            bars.end();
            return Ok(());
        }
        if !which.json {
            bars.show(&moves);
        }
        std::thread::sleep(LOOK_EACH);
    }
}

/// Commands about hosts.
pub fn host(command: &HostCommand) -> Result<String, CommandError> {
    match command {
        HostCommand::List(which) => Ok(shown(which, &get(which, "/api/hosts")?, show::hosts)),
        HostCommand::Remove { host, consent, which } => {
            done_at_once(which, *consent, &Change::new("DELETE", format!("/api/hosts/{}", part(host)), json!({})))
        }
    }
}

/// Commands about proxies.
pub fn proxy(command: &ProxyCommand) -> Result<String, CommandError> {
    let set = |proxy: &ProxyArguments, method: &str, end: &str| {
        let path = format!("/api/proxies/{}{end}", part(&proxy.proxy));
        done_at_once(&proxy.which, proxy.consent, &Change::new(method, path, json!({})))
    };
    match command {
        ProxyCommand::List(which) => Ok(shown(which, &get(which, "/api/proxies")?, show::proxies)),
        ProxyCommand::Add { address, consent, which } => {
            done_at_once(which, *consent, &Change::new("POST", "/api/proxies", json!({ "address": address })))
        }
        ProxyCommand::Remove(proxy) => set(proxy, "DELETE", ""),
        ProxyCommand::Online(proxy) => set(proxy, "POST", "/online"),
        ProxyCommand::Offline(proxy) => set(proxy, "POST", "/offline"),
    }
}

/// Commands about changes that were made.
pub fn action(command: &ActionCommand) -> Result<String, CommandError> {
    match command {
        ActionCommand::History(which) => Ok(shown(which, &get(which, "/api/actions")?, show::history)),
        ActionCommand::Undo { epoch, consent, which } => {
            let change = Change::new("POST", format!("/api/actions/{epoch}/undo"), json!({}));
            let done = match with_consent(which, *consent, &change, show::undo)? {
                Outcome::Done(done) => done,
                Outcome::NotDone(said) => return Ok(said),
            };
            if done.get("moves").is_some() {
                wait_for_moves(which)?;
            }
            let text = |name: &str| done.get(name).and_then(Value::as_str);
            let group = done.get("group").and_then(Value::as_u64).and_then(|group| u32::try_from(group).ok());
            if let (Some(server), Some(_), Some(group)) = (text("to"), text("from"), group) {
                wait_for_master(which, group, server)?;
            }
            Ok(shown(which, &done, |done| format!("done: {}", show::undo(done))))
        }
        ActionCommand::Pending(which) => Ok(shown(which, &get(which, "/api/pending")?, show::pending)),
        ActionCommand::Confirm { number, dry, which } => answered(which, *dry, *number, "confirm"),
        ActionCommand::Refuse { number, dry, which } => answered(which, *dry, *number, "refuse"),
        ActionCommand::Gc { keep, dry, which } => {
            let change = Change::new("POST", "/api/actions/gc", json!({ "keep": keep }));
            let gone = |gone: &Value| {
                let count = gone.get("removed").and_then(Value::as_u64).unwrap_or(0);
                basics::many(count, "change is forgotten", "changes are forgotten")
            };
            at_once(which, *dry, &change, (gone, gone))
        }
    }
}

fn answered(which: &WhichArguments, dry: DryRun, number: u64, answer: &str) -> Result<String, CommandError> {
    let change = Change::new("POST", format!("/api/pending/{number}/{answer}"), json!({}));
    at_once(which, dry, &change, (show::what, show::what))
}

/// Commands about what the agent does by itself.
pub fn policy(command: &PolicyCommand) -> Result<String, CommandError> {
    match command {
        PolicyCommand::Show(which) => Ok(shown(which, &get(which, "/api/policy")?, show::policy)),
        PolicyCommand::Set { action, mode, dry, which } => {
            let change = Change::new("POST", "/api/policy", json!({ "action": action, "mode": mode }));
            at_once(which, *dry, &change, (show::what, show::what))
        }
    }
}

/// A link to the page, with the token.
pub fn page(which: &WhichArguments) -> Result<String, CommandError> {
    let status = get(which, "/api/status")?;
    let page = status.get("agent").and_then(|agent| agent.get("page")).and_then(Value::as_str);
    let page = page.ok_or(CommandError::NoPage)?;
    let token = match which.coordinator.as_slice() {
        [] => Token::read(&Folder::new(which.dir.clone()))?,
        etcd => http::token_in(etcd)?,
    };
    // What stands behind # is sent to nobody; the page takes it out of the address.
    let link = format!("{page}#token={}", token.text());
    Ok(if which.json { json!({ "page": page, "link": link, "token": token.text() }).to_string() } else { link })
}
