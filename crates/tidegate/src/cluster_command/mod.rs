//! `tidegate cluster`: many stores as one. `up` runs everything; the other commands ask the agent that `up` is.

mod adopt;
mod archivist;
mod backup;
mod change;
mod config;
mod confirm;
mod error;
mod group_backup;
mod pace;
mod rescue;
mod show;
mod slot_mover;
mod up;

use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use agent::{credentials::Credentials, http, options::Folder};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use change::Change;
use confirm::{Consent, DryRun};
use error::CommandError;
use up::UpArguments;

/// How often a change is looked at while it is waited for.
const LOOK_EACH: Duration = Duration::from_millis(100);
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
    /// Run a cluster on this machine: stores with replicas, and a proxy that plain clients connect to. The cluster keeps everything in a
    /// folder, and the next `up` goes on with it.
    Up(UpArguments),
    /// Make a cluster of one group out of the folder of a single store, which must have ended, and run it like `up`. The cluster has all
    /// its keys; later, `up --dir` goes on with it.
    Adopt(UpArguments),
    /// End a running cluster: all its stores and proxies.
    Down {
        #[command(flatten)]
        dry: DryRun,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Print a link to the page of a running cluster, with the token that allows changes on the page.
    Page(WhichArguments),
    /// Show groups, servers, and moves of slots.
    Status(WhichArguments),
    /// Check whether the cluster is healthy. Exits with 1 if it is not.
    Check(WhichArguments),
    /// Show, add, remove and promote servers and groups.
    Server {
        /// What about them.
        #[command(subcommand)]
        command: ServerCommand,
    },
    /// Show hosts and their votes, and remove one that is gone for good.
    Host {
        /// What about them.
        #[command(subcommand)]
        command: HostCommand,
    },
    /// Show, assign and move slots: the parts of the keys.
    Slot {
        /// What about them.
        #[command(subcommand)]
        command: SlotCommand,
    },
    /// Show, add, remove, start and stop proxies.
    Proxy {
        /// What about them.
        #[command(subcommand)]
        command: ProxyCommand,
    },
    /// Show and change settings of stores: of all, of a group's, of one.
    Config {
        /// What about them.
        #[command(subcommand)]
        command: config::ConfigCommand,
    },
    /// Copy the data of all groups, as of one moment, to a folder or to S3.
    Backup(backup::BackupArguments),
    /// Load a backup of a cluster into another cluster, of any size.
    Restore(backup::RestoreArguments),
    /// Make a cluster anew whose coordinator is gone for good, of what the folders of its hosts know.
    Rescue(rescue::RescueArguments),
    /// Show or set which actions the agent takes by itself, and which wait for a person.
    Policy {
        /// What about it.
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Show and undo changes; show, confirm and refuse actions that wait for a person.
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
    #[arg(long, default_value = "tidegate-cluster", conflicts_with = "coordinator")]
    dir: PathBuf,
    /// The etcd of a cluster of several hosts, as http://HOST:PORT, instead of --dir. Anybody who can read this etcd can change the cluster.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    coordinator: Vec<String>,
    /// Print JSON, for other programs.
    #[arg(long)]
    json: bool,
}

/// By what running Redis servers let the agent and the proxies in.
#[derive(Args, Debug)]
struct LoginArguments {
    /// A file whose first line is the password of the running Redis servers.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The user that the password belongs to, if it is not the default user.
    #[arg(long, requires = "password_file")]
    user: Option<String>,
}

impl LoginArguments {
    fn password(&self) -> Result<Option<String>, CommandError> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let failed = |source| CommandError::PasswordFile { path: path.clone(), source };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let first = text.lines().next().unwrap_or_default().to_owned();
        if first.is_empty() {
            return Err(CommandError::EmptyPassword(path.clone()));
        }
        Ok(Some(first))
    }

    fn credentials(&self) -> Result<Option<Credentials>, CommandError> {
        Ok(self.password()?.map(|password| Credentials { user: self.user.clone(), password }))
    }
}

fn address_of(text: &str) -> Result<cluster::Address, cluster::model::NoAddress> {
    text.trim().parse()
}

#[derive(Debug, Subcommand)]
enum ServerCommand {
    /// Show all servers with their groups.
    List(WhichArguments),
    /// Add a replica to a group: a new store, which the agent starts.
    Add {
        /// The group.
        group: u32,
        /// Its address, as host:port; without it, a free port.
        address: Option<String>,
        /// A running Redis at this address joins the group, which is a group of Redis servers.
        #[arg(long, requires = "address")]
        redis: bool,
        #[command(flatten)]
        login: LoginArguments,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Remove a replica. The agent ends it; its data stays on the disk.
    Remove {
        /// The group.
        group: u32,
        /// The server, as host:port.
        server: String,
        /// How many replicas must have a write from now on, if fewer replicas remain than must have it now.
        #[arg(long)]
        ack: Option<u32>,
        /// It is gone for good, and the group waits for it: the group goes on with what the others have.
        #[arg(long)]
        gone: bool,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Add a group: a master and replicas, which the agent starts. `slot rebalance` gives the group its share of the slots.
    AddGroup {
        /// Its number; without it, the next one.
        group: Option<u32>,
        /// How many replicas it has (as many as the other groups).
        #[arg(long)]
        replicas: Option<u32>,
        /// How many replicas must have a write before the master answers it (as in the other groups).
        #[arg(long)]
        ack: Option<u32>,
        /// Running Redis servers become the group: a master, and its replicas or empty servers.
        #[arg(long, value_name = "HOST:PORT,...", conflicts_with_all = ["replicas", "program"])]
        redis: Option<String>,
        /// The program that the agent starts: redis-server, valkey-server, or store.
        #[arg(long)]
        program: Option<String>,
        #[command(flatten)]
        login: LoginArguments,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Remove a group that has no slots. The agent ends its servers; their data stays on the disk.
    RemoveGroup {
        /// The group.
        group: u32,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Make a replica the master of its group. No write is lost, and no command fails.
    Promote {
        /// The group.
        group: u32,
        /// The replica, as host:port.
        server: String,
        /// The master is gone for good, and nobody can replace it by itself: the replica becomes the master with what it has.
        #[arg(long)]
        gone: bool,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
}

#[derive(Debug, Subcommand)]
enum HostCommand {
    /// Show all hosts: names, addresses, votes, and whether their agents are there.
    List(WhichArguments),
    /// Remove a host that is gone for good: its vote, its replicas and its proxies.
    Remove {
        /// Its name or its address (`host list`).
        host: String,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
}

#[derive(Debug, Subcommand)]
enum SlotCommand {
    /// Give all slots to the groups in equal shares, if no group has any yet.
    Init {
        #[command(flatten)]
        dry: DryRun,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Show which group has which slots.
    Info(WhichArguments),
    /// Give a slot that no group has to a group.
    Set {
        /// The slot.
        slot: u16,
        /// The group.
        group: u32,
        #[command(flatten)]
        dry: DryRun,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Give all slots from the first to the last to a group, if no group has them.
    RangeSet {
        /// The first.
        first: u16,
        /// The last.
        last: u16,
        /// The group.
        group: u32,
        #[command(flatten)]
        dry: DryRun,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Move slots with all their keys to a group, while clients use them.
    Migrate {
        /// The first.
        first: u16,
        /// The last.
        last: u16,
        /// The group that gets them.
        group: u32,
        /// How fast slots move from now on, as with `slot rate`.
        #[arg(long, value_name = "BYTES", value_parser = pace::rate_of)]
        rate: Option<u64>,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Move slots so that all groups have the same share, with the fewest moves.
    Rebalance {
        /// What the groups share equally: slots, keys, bytes, or load (the present cost of commands).
        #[arg(long, default_value = "slots", value_parser = ["slots", "keys", "bytes", "load"])]
        by: String,
        /// The weight of a group beside the others, such as 3=2; 0: nothing. You may repeat it.
        #[arg(long, value_name = "GROUP=N")]
        weight: Vec<String>,
        /// How many percent a group may differ from its share (2; 0 with slots).
        #[arg(long, value_name = "PERCENT")]
        threshold: Option<f64>,
        /// How fast slots move from now on, as with `slot rate`.
        #[arg(long, value_name = "BYTES", value_parser = pace::rate_of)]
        rate: Option<u64>,
        /// A group that gives all its slots to the others.
        #[arg(long, value_name = "GROUP")]
        drain: Option<u32>,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Show or set how fast slots move, also during a move.
    Rate(pace::RateArguments),
    /// Cancel moves that are under way: their slots stay where they are.
    Cancel {
        #[command(flatten)]
        dry: DryRun,
        #[command(flatten)]
        which: WhichArguments,
    },
}

#[derive(Debug, Subcommand)]
enum ProxyCommand {
    /// Show all proxies.
    List(WhichArguments),
    /// Add a proxy, which the agent starts.
    Add {
        /// The address for clients, as host:port; without it, a free port.
        address: Option<String>,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Remove a proxy. Its clients lose their connections.
    Remove(ProxyArguments),
    /// Start a proxy: it accepts clients.
    Online(ProxyArguments),
    /// Stop a proxy until `proxy online`. Its clients lose their connections.
    Offline(ProxyArguments),
}

/// A proxy.
#[derive(Args, Debug)]
struct ProxyArguments {
    /// The proxy, as host:port.
    proxy: String,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    which: WhichArguments,
}

#[derive(Debug, Subcommand)]
enum ActionCommand {
    /// Show the changes of the cluster, the oldest first.
    History(WhichArguments),
    /// Undo a change, if that is possible.
    Undo {
        /// The change, by its epoch (`action history`).
        epoch: u64,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Show actions that the policy leaves to a person.
    Pending(WhichArguments),
    /// Confirm an action that waits for a person: the agent carries it out. Or take note of what may have been lost.
    Confirm {
        /// Its number (`action pending`, or `check`).
        number: u64,
        #[command(flatten)]
        dry: DryRun,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Refuse an action that waits for a person. The agent asks again when the cause returns.
    Refuse {
        /// Its number (`action pending`).
        number: u64,
        #[command(flatten)]
        dry: DryRun,
        #[command(flatten)]
        which: WhichArguments,
    },
    /// Forget all changes except the latest.
    Gc {
        /// How many to keep.
        #[arg(long, default_value_t = HISTORY_KEPT)]
        keep: u64,
        #[command(flatten)]
        dry: DryRun,
        #[command(flatten)]
        which: WhichArguments,
    },
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show which actions the agent takes by itself, and which wait for a person.
    Show(WhichArguments),
    /// Set whether the agent takes an action by itself, asks a person first, or leaves it to a person.
    Set {
        /// failover, restart, rejoin or rebalance.
        action: String,
        /// auto: the agent acts by itself; ask: it acts when a person has confirmed; off: a person acts.
        mode: String,
        #[command(flatten)]
        dry: DryRun,
        #[command(flatten)]
        which: WhichArguments,
    },
}

/// `tidegate cluster` alone.
#[derive(clap::Parser)]
#[command(name = "tidegate cluster")]
pub struct Alone {
    #[command(flatten)]
    arguments: ClusterArguments,
}

impl Alone {
    fn of_words(words: &[String]) -> Result<Self, clap::Error> {
        let words = std::iter::once("tidegate cluster").chain(words.iter().map(String::as_str));
        <Self as clap::Parser>::try_parse_from(words)
    }
}

/// Does what words say, as they stand behind `tidegate cluster`.
pub fn run_words(words: &[String]) -> ExitCode {
    match Alone::of_words(words) {
        Ok(alone) => run(&alone.arguments),
        Err(error) => {
            // Whoever reads it may have gone.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
        }
    }
}

/// What words say that only ask, as they stand behind `tidegate cluster`.
///
/// # Errors
/// They are none, or nobody answers.
pub fn say_words(words: &[String]) -> Result<String, CommandError> {
    let alone = Alone::of_words(words)?;
    let text = answer(&alone.arguments.command)?;
    Ok(format!("{}\n", text.trim_end()))
}

/// Does what was asked.
pub fn run(arguments: &ClusterArguments) -> ExitCode {
    let result = match &arguments.command {
        ClusterCommand::Up(arguments) => up::up(arguments),
        ClusterCommand::Adopt(arguments) => adopt::adopt(arguments),
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

fn ask(which: &WhichArguments, method: &str, path: &str, body: &Value) -> Result<Value, CommandError> {
    Ok(if which.coordinator.is_empty() {
        http::ask(&which.dir, method, path, body)?
    } else {
        http::ask_leader(&which.coordinator, (method, path), body)?
    })
}

/// A field of what an agent has said; null if there is none.
pub fn at<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

fn get(which: &WhichArguments, path: &str) -> Result<Value, CommandError> {
    ask(which, "GET", path, &Value::Null)
}

/// What is shown: a table for people, or what the agent said.
fn shown(which: &WhichArguments, value: &Value, table: fn(&Value) -> String) -> String {
    if which.json { value.to_string() } else { table(value) }
}

fn answer(command: &ClusterCommand) -> Result<String, CommandError> {
    match command {
        ClusterCommand::Down { dry, which } => down(which, *dry),
        ClusterCommand::Status(which) => Ok(shown(which, &get(which, "/api/status")?, show::status)),
        ClusterCommand::Page(which) => change::page(which),
        ClusterCommand::Server { command } => change::server(command),
        ClusterCommand::Host { command } => change::host(command),
        ClusterCommand::Slot { command } => slot(command),
        ClusterCommand::Proxy { command } => change::proxy(command),
        ClusterCommand::Action { command } => change::action(command),
        ClusterCommand::Policy { command } => change::policy(command),
        ClusterCommand::Config { command } => config::config(command),
        ClusterCommand::Backup(arguments) => backup::backup(arguments),
        ClusterCommand::Restore(arguments) => backup::restore(arguments),
        ClusterCommand::Rescue(arguments) => rescue::rescue(arguments),
        ClusterCommand::Up(_) | ClusterCommand::Adopt(_) | ClusterCommand::Check(_) => Ok(String::new()),
    }
}

fn down(which: &WhichArguments, dry: DryRun) -> Result<String, CommandError> {
    if !which.coordinator.is_empty() {
        return Err(CommandError::DownOfSeveral);
    }
    if dry.is_dry {
        let change = Change::new("POST", "/api/down", json!({}));
        return change::at_once(which, dry, &change, (show::what, show::what));
    }
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

fn slot(command: &SlotCommand) -> Result<String, CommandError> {
    match command {
        SlotCommand::Init { dry, which } => {
            let change = Change::new("POST", "/api/slots/init", json!({}));
            change::at_once(which, *dry, &change, (show::what, show::what))
        }
        SlotCommand::Info(which) => Ok(shown(which, &get(which, "/api/status")?, show::slots)),
        SlotCommand::Set { slot, group, dry, which } => set(which, *dry, (*slot, *slot), *group),
        SlotCommand::RangeSet { first, last, group, dry, which } => set(which, *dry, (*first, *last), *group),
        SlotCommand::Rate(arguments) => pace::rate(arguments),
        SlotCommand::Migrate { first, last, group, rate, consent, which } => {
            pace::set_rate(which, rate.filter(|_| !consent.dry_run))?;
            let body = json!({ "first": first, "last": last, "group": group });
            change::moved(which, *consent, "/api/migrations", &body)
        }
        SlotCommand::Rebalance { by, weight, threshold, rate, drain, consent, which } => {
            pace::set_rate(which, rate.filter(|_| !consent.dry_run))?;
            let tolerance = threshold.map(|percent| (percent * 10.0).round().clamp(0.0, 1_000.0) as u64);
            let body = json!({ "drain": drain, "by": by, "weights": weight.join(","), "tolerance": tolerance });
            change::moved(which, *consent, "/api/rebalance", &body)
        }
        SlotCommand::Cancel { dry, which } => {
            let change = Change::new("DELETE", "/api/migrations", json!({}));
            let done = |done: &Value| format!("cancelled: {}", show::not_moved(done));
            change::at_once(which, *dry, &change, (show::not_moved, done))
        }
    }
}

fn set(which: &WhichArguments, dry: DryRun, (first, last): (u16, u16), group: u32) -> Result<String, CommandError> {
    let body = json!({ "first": first, "last": last, "group": group });
    change::at_once(which, dry, &Change::new("POST", "/api/slots/set", body), (show::what, show::what))
}
