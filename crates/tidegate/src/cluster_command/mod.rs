//! `tidegate cluster`: many stores as one. `up` runs everything; the other commands ask the agent that `up` is.

mod confirm;
mod show;
mod slot_mover;

use std::{
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use agent::{
    Options, http,
    options::{Folder, Shape},
};
use clap::{Args, Subcommand};
use cluster::keeper::Patience;
use serde_json::{Value, json};

use confirm::Consent;

/// How often a change is looked at while it is waited for.
const LOOK_EACH: Duration = Duration::from_millis(100);
/// How long a promotion may take.
const PROMOTION_PATIENCE: Duration = Duration::from_secs(15);
/// Changes that `action gc` keeps.
const HISTORY_KEPT: u64 = 100;

/// Options of `tidegate cluster`.
#[derive(Args, Debug)]
pub struct ClusterArguments {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Run a cluster on this machine: stores with replicas, and a proxy that plain clients connect to. What it has is kept in a folder,
    /// and the next `up` goes on with it.
    Up(UpArguments),
    /// End a cluster that runs: all its stores and proxies.
    Down(WhichArguments),
    /// Show groups and servers, and what is on its way.
    Status(WhichArguments),
    /// Look whether everything is as it should be. Exits with 1 if not.
    Check(WhichArguments),
    /// Servers and groups.
    Server {
        /// What about them.
        #[command(subcommand)]
        command: ServerCommand,
    },
    /// Slots: who has which part of the keys.
    Slot {
        /// What about them.
        #[command(subcommand)]
        command: SlotCommand,
    },
    /// Proxies.
    Proxy {
        /// What about them.
        #[command(subcommand)]
        command: ProxyCommand,
    },
    /// Changes that were made.
    Action {
        /// What about them.
        #[command(subcommand)]
        command: ActionCommand,
    },
}

/// Which cluster is meant.
#[derive(Args, Debug)]
struct WhichArguments {
    /// The cluster's folder.
    #[arg(long, default_value = "tidegate-cluster")]
    dir: PathBuf,
    /// As JSON, for other programs.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct UpArguments {
    /// How many groups a new cluster has (2): each has its part of the keys.
    #[arg(long)]
    groups: Option<u32>,
    /// How many replicas each master has in a new cluster (1).
    #[arg(long)]
    replicas: Option<u32>,
    /// How many replicas must have a write before it is answered, in a new cluster (1, or 0 without replicas).
    #[arg(long)]
    ack: Option<u32>,
    /// The folder of all that the cluster has.
    #[arg(long, default_value = "tidegate-cluster")]
    dir: PathBuf,
    /// Where clients connect; stores get the ports above it.
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// The address that all of them listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// After how many milliseconds of silence a master is given up.
    #[arg(long, value_name = "MS", default_value_t = Patience::default().master_ms, value_parser = clap::value_parser!(u64).range(200..=60_000))]
    failover_after: u64,
}

#[derive(Debug, Subcommand)]
enum ServerCommand {
    /// Show all servers with their groups.
    List(WhichArguments),
    /// Make a replica the master of its group, without a lost write or a failed command.
    Promote {
        /// The group.
        group: u32,
        /// The replica, as host:port.
        server: String,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
}

#[derive(Debug, Subcommand)]
enum SlotCommand {
    /// Give all slots to the groups in equal shares, where nobody has any yet.
    Init(WhichArguments),
    /// Show who has which slots.
    Info(WhichArguments),
    /// Give a slot that nobody has to a group.
    Set {
        /// The slot.
        slot: u16,
        /// The group.
        group: u32,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// The same for all slots from the first to the last.
    RangeSet {
        /// The first.
        first: u16,
        /// The last.
        last: u16,
        /// The group.
        group: u32,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Move slots with all their keys to a group, while they are served.
    Migrate {
        /// The first.
        first: u16,
        /// The last.
        last: u16,
        /// Where they go.
        group: u32,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Move slots so that all groups have the same share, with the fewest moves.
    Rebalance {
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Let slots stay where they are whose move has not been completed.
    Cancel(WhichArguments),
}

#[derive(Debug, Subcommand)]
enum ProxyCommand {
    /// Show all proxies.
    List(WhichArguments),
}

#[derive(Debug, Subcommand)]
enum ActionCommand {
    /// Show the changes of the cluster, the first first.
    History(WhichArguments),
    /// Forget all but the last changes.
    Gc {
        /// How many are kept.
        #[arg(long, default_value_t = HISTORY_KEPT)]
        keep: u64,
        #[command(flatten)]
        which: WhichArguments,
    },
}

/// Does what was asked.
pub fn run(arguments: &ClusterArguments) -> ExitCode {
    let result = match &arguments.command {
        ClusterCommand::Up(arguments) => up(arguments).map(|()| String::new()),
        ClusterCommand::Check(which) => return check(which),
        other => answer(other),
    };
    match result {
        Ok(text) => {
            if !text.is_empty() {
                // Whoever reads it may have seen enough.
                let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
            }
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("tidegate cluster: {message}");
            ExitCode::FAILURE
        }
    }
}

fn up(arguments: &UpArguments) -> Result<(), String> {
    let dir = std::path::absolute(&arguments.dir).map_err(|error| format!("--dir: {error}"))?;
    let program = std::env::current_exe().map_err(|error| format!("where this program is, is not known: {error}"))?;
    let silent_ms = arguments.failover_after;
    let patience = Patience {
        master_ms: silent_ms,
        // A lease must outlast the pause between two of them, and is over soon after a master is given up.
        lease_ms: silent_ms + silent_ms / 2,
        ..Patience::default()
    };
    let options = Options {
        folder: Folder::new(dir),
        host: arguments.host.clone(),
        port: arguments.port,
        shape: Shape { groups: arguments.groups, replicas: arguments.replicas, ack: arguments.ack },
        program,
        patience,
        ask_each_ms: 100,
    };
    let ready = |text: &str| {
        let _ = writeln!(std::io::stdout(), "{text}");
        let _ = std::io::stdout().flush();
    };
    agent::run(options, Some(Box::new(slot_mover::SlotMover)), ready).map_err(|error| error.to_string())
}

fn ask(which: &WhichArguments, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    http::ask(&which.dir, method, path, body).map_err(|error| error.to_string())
}

fn get(which: &WhichArguments, path: &str) -> Result<Value, String> {
    ask(which, "GET", path, &Value::Null)
}

/// What is shown: a table for people, or what the agent said.
fn shown(which: &WhichArguments, value: &Value, table: fn(&Value) -> String) -> String {
    if which.json { value.to_string() } else { table(value) }
}

fn answer(command: &ClusterCommand) -> Result<String, String> {
    match command {
        ClusterCommand::Down(which) => down(which),
        ClusterCommand::Status(which) => Ok(shown(which, &get(which, "/api/status")?, show::status)),
        ClusterCommand::Server { command: ServerCommand::List(which) } => {
            Ok(shown(which, &get(which, "/api/status")?, show::servers))
        }
        ClusterCommand::Server { command: ServerCommand::Promote { group, server, consent, which } } => {
            promote(which, *consent, *group, server)
        }
        ClusterCommand::Slot { command } => slot(command),
        ClusterCommand::Proxy { command: ProxyCommand::List(which) } => {
            let status = get(which, "/api/status")?;
            Ok(shown(which, status.get("proxies").unwrap_or(&Value::Null), show::proxies))
        }
        ClusterCommand::Action { command: ActionCommand::History(which) } => {
            Ok(shown(which, &get(which, "/api/history")?, show::history))
        }
        ClusterCommand::Action { command: ActionCommand::Gc { keep, which } } => {
            let gone = ask(which, "POST", "/api/history/gc", &json!({ "keep": keep }))?;
            Ok(shown(which, &gone, |gone| {
                format!("{} changes are forgotten", gone.get("removed").unwrap_or(&Value::Null))
            }))
        }
        ClusterCommand::Up(_) | ClusterCommand::Check(_) => Ok(String::new()),
    }
}

fn down(which: &WhichArguments) -> Result<String, String> {
    let told = ask(which, "POST", "/api/down", &json!({}))?;
    let socket = Folder::new(which.dir.clone()).socket();
    // A store writes what is in memory alone before it ends.
    while socket.exists() {
        std::thread::sleep(LOOK_EACH);
    }
    Ok(shown(which, &told, |_| "the cluster has ended; `up` goes on with it".to_owned()))
}

fn check(which: &WhichArguments) -> ExitCode {
    let found = get(which, "/api/status").map(|status| show::problems(&status));
    match found {
        Ok(problems) if problems.is_empty() => {
            println!("{}", if which.json { "[]" } else { "everything is as it should be" });
            ExitCode::SUCCESS
        }
        Ok(problems) => {
            println!("{}", if which.json { json!(problems).to_string() } else { problems.join("\n") });
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("tidegate cluster: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Shows a plan and asks, then has it done.
fn with_consent(
    which: &WhichArguments,
    consent: Consent,
    path: &str,
    body: &Value,
    table: fn(&Value) -> String,
) -> Result<Option<Value>, String> {
    let mut planned = body.clone();
    if let Some(fields) = planned.as_object_mut() {
        fields.insert("plan".into(), true.into());
    }
    let plan = ask(which, "POST", path, &planned)?;
    if !consent.given(&table(&plan), which.json)? {
        return Ok(None);
    }
    ask(which, "POST", path, body).map(Some)
}

const NOT_DONE: &str = "nothing has been changed";

fn promote(which: &WhichArguments, consent: Consent, group: u32, server: &str) -> Result<String, String> {
    let body = json!({ "group": group, "server": server });
    let Some(done) = with_consent(which, consent, "/api/servers/promote", &body, show::promotion)? else {
        return Ok(NOT_DONE.into());
    };
    let end = Instant::now() + PROMOTION_PATIENCE;
    loop {
        let status = get(which, "/api/status")?;
        let found = show::group(&status, group);
        let is_master = found.and_then(|group| group.get("master")).and_then(Value::as_str) == Some(server);
        if is_master && found.and_then(|group| group.get("state")).and_then(Value::as_str) == Some("ok") {
            return Ok(shown(which, &done, |done| format!("done: {}", show::promotion(done))));
        }
        if Instant::now() >= end {
            return Err(format!(
                "{server} has not become the master within {PROMOTION_PATIENCE:?}: see logs/agent.log in the folder"
            ));
        }
        std::thread::sleep(LOOK_EACH);
    }
}

fn slot(command: &SlotCommand) -> Result<String, String> {
    match command {
        SlotCommand::Init(which) => {
            let done = ask(which, "POST", "/api/slots/init", &json!({}))?;
            Ok(shown(which, &done, |_| "all slots are given to the groups".to_owned()))
        }
        SlotCommand::Info(which) => Ok(shown(which, &get(which, "/api/status")?, show::slots)),
        SlotCommand::Set { slot, group, which } => set(which, *slot, *slot, *group),
        SlotCommand::RangeSet { first, last, group, which } => set(which, *first, *last, *group),
        SlotCommand::Migrate { first, last, group, consent, which } => {
            let body = json!({ "first": first, "last": last, "group": group });
            moved(which, *consent, "/api/slots/migrate", &body)
        }
        SlotCommand::Rebalance { consent, which } => moved(which, *consent, "/api/slots/rebalance", &json!({})),
        SlotCommand::Cancel(which) => {
            let done = ask(which, "POST", "/api/slots/cancel", &json!({}))?;
            Ok(shown(which, &done, |done| format!("cancelled: {}", show::moves(done))))
        }
    }
}

fn set(which: &WhichArguments, first: u16, last: u16, group: u32) -> Result<String, String> {
    let done = ask(which, "POST", "/api/slots/set", &json!({ "first": first, "last": last, "group": group }))?;
    Ok(shown(which, &done, |done| done.get("what").and_then(Value::as_str).unwrap_or_default().to_owned()))
}

/// Has slots moved, and waits until they have.
fn moved(which: &WhichArguments, consent: Consent, path: &str, body: &Value) -> Result<String, String> {
    let Some(done) = with_consent(which, consent, path, body, show::moves)? else { return Ok(NOT_DONE.into()) };
    let mut last = String::new();
    loop {
        let moves = get(which, "/api/moves")?;
        if moves.as_array().is_none_or(Vec::is_empty) {
            return Ok(shown(which, &done, |done| format!("done: {}", show::moves(done))));
        }
        let line = show::progress(&moves);
        if line != last && !which.json {
            eprintln!("{line}");
            last = line;
        }
        std::thread::sleep(LOOK_EACH);
    }
}
