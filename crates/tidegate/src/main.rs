//! The `tidegate` binary: subcommands and wiring, nothing else.

mod access;
mod backup_command;
mod cluster_command;
mod control_command;
mod ctl_command;
mod demo;
mod edge_command;
mod explain_command;
mod export_command;
mod import_command;
mod log_command;
mod manual;
mod masters;
mod plugins;
mod proxy_command;
mod quiet_end;
mod reference_command;
mod request_log;
mod serve_command;
mod status_command;
mod store_command;
mod style;
mod varnishd_command;

use std::{path::Path, process::ExitCode};

use clap::{CommandFactory as _, Parser, Subcommand};

use masters::Which;

/// It counts: the store's `maxmemory` is measured by it.
#[global_allocator]
static ALLOCATOR: store::allocator::Counting = store::allocator::Counting;

/// The scaling stack of a web application as one program.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, disable_version_flag = true)]
struct Arguments {
    /// Print the version.
    #[arg(short = 'v', visible_short_alias = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    #[command(subcommand)]
    command: Command,
}

/// Options that a tool reads itself.
#[derive(Debug, clap::Args)]
struct ToolArguments {
    /// The tool's options.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a load balancer from haproxy.cfg files (options as HAProxy's).
    #[command(disable_help_flag = true)]
    Edge {
        /// HAProxy's options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Serve a folder as a web site.
    Serve(serve_command::ServeArguments),
    /// Behave as `haproxy` does, messages and exit codes included.
    #[command(disable_help_flag = true)]
    Haproxy {
        /// HAProxy's options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run a cache in front of a site, with a VCL program (options as varnishd's).
    #[command(disable_help_flag = true)]
    Varnishd {
        /// varnishd's options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run a store that speaks Redis' protocol.
    #[command(disable_help_flag = true)]
    Store(store_command::StoreArguments),
    /// Behave as `redis-server` does: the data is in the current folder unless a redis.conf says otherwise.
    #[command(disable_help_flag = true)]
    RedisServer(store_command::StoreArguments),
    /// Serve many stores as one: a nutcracker.yml, or a list of servers (options as nutcracker's).
    #[command(disable_help_flag = true)]
    Proxy(ToolArguments),
    /// Serve many stores as one, with replicas that take over: start such a cluster, show it, change it.
    Cluster(cluster_command::ClusterArguments),
    /// Copy a store's data to a folder or to S3 while it serves.
    Backup(backup_command::BackupArguments),
    /// Restore a backup into a new folder of a store.
    Restore(backup_command::RestoreArguments),
    /// Load Redis' files (dump.rdb, appendonlydir) into a running store.
    Import(import_command::ImportArguments),
    /// Write a store's data to a file that Redis loads (dump.rdb), while it serves.
    Export(export_command::ExportArguments),
    /// Send commands to the stats socket of a running edge (or of HAProxy): `tidegate ctl show stat`.
    Ctl(ctl_command::CtlArguments),
    /// Explain a word and say whether it is supported: of haproxy.cfg, the stats socket, VCL, varnishd and varnishadm, the store, or
    /// nutcracker.yml.
    Explain {
        /// The word: `timeout client`, `leastconn`, `show stat`, `beresp.ttl`, `default_ttl`, `HSET`, `maxmemory`.
        #[arg(required = true)]
        keyword: Vec<String>,
    },
    /// Print the version, and the versions of HAProxy and Redis that the program follows.
    Version,
    /// Start two sample web sites, a load balancer in front of them, and a store, to try things out.
    Demo(demo::DemoArguments),
    /// Make a running edge read its configuration again, without losing a connection.
    Reload(Which),
    /// Replace a running edge by the program that is on the disk now, without losing a connection.
    Upgrade(Which),
    /// Accept no more connections, and end the edge when all open ones have ended.
    Drain(Which),
    /// End a running edge now.
    Stop(Which),
    /// Show the processes of a running edge, or the figures of a cache (`-n NAME`).
    Status(status_command::StatusArguments),
    /// Show requests of a running edge as they end; `dump` shows the log of a store.
    Log(log_command::LogArguments),
    /// Show the log of a cache: Tidegate's or Varnish's (options as varnishlog's).
    #[command(disable_help_flag = true)]
    Varnishlog(ToolArguments),
    /// Show requests of a cache as lines of a web server's log (options as varnishncsa's).
    #[command(disable_help_flag = true)]
    Varnishncsa(ToolArguments),
    /// Show the counters of a cache (options as varnishstat's).
    #[command(disable_help_flag = true)]
    Varnishstat(ToolArguments),
    /// Send commands to a cache (options as varnishadm's).
    #[command(disable_help_flag = true)]
    Varnishadm(ToolArguments),
    /// Write the reference of the language (for those who develop Tidegate).
    #[command(hide = true)]
    Reference(reference_command::ReferenceArguments),
    /// Write manual pages and completions for shells (for those who package Tidegate).
    #[command(hide = true)]
    Manual(manual::ManualArguments),
    /// A process of the demo.
    #[command(hide = true)]
    DemoPart {
        /// Which.
        #[command(subcommand)]
        part: demo::DemoPart,
    },
}

fn version() -> ExitCode {
    println!("tidegate {}", env!("CARGO_PKG_VERSION"));
    println!(
        "edge: the language of HAProxy {}; store: the commands of Redis {}",
        haproxycfg::condition::HAPROXY_VERSION,
        store::REDIS_VERSION
    );
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    quiet_end::run(dispatch)
}

fn dispatch() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let called_as = arguments.first().and_then(|path| Path::new(path).file_name()).map(|name| name.to_string_lossy());
    let words = arguments.get(1..).unwrap_or_default();
    // The load balancer reads its options itself. Its processes are small, so none of them begins with clap's tables.
    match (called_as.as_deref(), words.split_first()) {
        (Some("haproxy"), _) => return edge_command::run("haproxy", words, edge_command::Personality::Haproxy),
        (_, Some((command, words))) if command == "haproxy" => {
            return edge_command::run("haproxy", words, edge_command::Personality::Haproxy);
        }
        (_, Some((command, words))) if command == "edge" => {
            return edge_command::run("tidegate", words, edge_command::Personality::Tidegate);
        }
        // Varnish Cache calls itself Vinyl Cache from 9.0 on.
        (Some("varnishd" | "vinyld"), _) => return varnishd_command::run(words),
        (_, Some((command, words))) if command == "varnishd" || command == "vinyld" => {
            return varnishd_command::run(words);
        }
        (Some("nutcracker"), _) => return proxy_command::run("nutcracker", words),
        (_, Some((command, words))) if command == "proxy" => return proxy_command::run("tidegate proxy", words),
        (_, Some((command, words))) if command == "nutcracker" => return proxy_command::run("nutcracker", words),
        (Some("redis-server"), _) => return store_command::run_as_redis(words),
        (Some("redis-sentinel"), _) => return store_command::refuse_sentinel(),
        _ => {}
    }
    let by_name = called_as.as_deref().and_then(varnishtools::named).map(|tool| (tool, words));
    let by_command = || words.split_first().and_then(|(command, words)| Some((varnishtools::named(command)?, words)));
    if let Some((tool, words)) = by_name.or_else(by_command) {
        return tool(words);
    }
    match Arguments::parse().command {
        Command::Edge { arguments } => edge_command::run("tidegate", &arguments, edge_command::Personality::Tidegate),
        Command::Serve(arguments) => serve_command::run(&arguments),
        Command::Haproxy { arguments } => edge_command::run("haproxy", &arguments, edge_command::Personality::Haproxy),
        Command::Varnishd { arguments } => varnishd_command::run(&arguments),
        Command::Explain { keyword } => explain_command::run(&keyword),
        Command::Store(arguments) => store_command::run(&arguments),
        Command::RedisServer(arguments) => store_command::run_as_redis(&arguments.words),
        Command::Proxy(arguments) => proxy_command::run("tidegate proxy", &arguments.words),
        Command::Cluster(arguments) => cluster_command::run(&arguments),
        Command::Backup(arguments) => backup_command::run(&arguments),
        Command::Restore(arguments) => backup_command::run_restore(&arguments),
        Command::Import(arguments) => import_command::run(&arguments),
        Command::Export(arguments) => export_command::run(&arguments),
        Command::Ctl(arguments) => ctl_command::run(&arguments),
        Command::Version => version(),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::DemoPart { part } => demo::run_part(part),
        Command::Reload(which) => control_command::run(&which, "reload"),
        Command::Upgrade(which) => control_command::run(&which, "upgrade"),
        Command::Drain(which) => control_command::run(&which, "drain"),
        Command::Stop(which) => control_command::run(&which, "stop"),
        Command::Status(arguments) => status_command::run(&arguments),
        Command::Log(arguments) => log_command::run(&arguments),
        Command::Varnishlog(arguments) => varnishtools::varnishlog(&arguments.words),
        Command::Varnishncsa(arguments) => varnishtools::varnishncsa(&arguments.words),
        Command::Varnishstat(arguments) => varnishtools::varnishstat(&arguments.words),
        Command::Varnishadm(arguments) => varnishtools::varnishadm(&arguments.words),
        Command::Reference(arguments) => reference_command::run(&arguments),
        Command::Manual(arguments) => manual::run(&arguments, Arguments::command()),
    }
}
