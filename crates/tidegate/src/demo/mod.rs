//! `tidegate demo`: two sample web sites, the edge in front of them and a store behind them, to try things on.
//!
//! Everything runs as it does in earnest: each site is a process of its own, and the edge is `tidegate edge` with a
//! master, a worker and a haproxy.cfg on disk. This process starts them, says what to try, starts and stops sites and store
//! when asked, and ends all of them when it ends.

mod cluster;
mod page;
mod site;
mod stage;
mod visits;

use std::{
    io::{BufRead as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use cluster::DemoCluster;
use stage::{PARTS, Stage};

/// How often the processes are looked after.
const LOOK_TIME: Duration = Duration::from_millis(200);
/// How long everything may take to be there.
const START_TIME_MAX: Duration = Duration::from_secs(20);

/// What switches the cache.
const CACHE_SWITCH: &str = "4";
/// What starts the cluster, kills a master of it, adds a group to it.
const CLUSTER_START: &str = "5";
const MASTER_KILL: &str = "6";
const GROUP_ADD: &str = "7";

/// Options of `tidegate demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// The port of the edge. The sites listen on the next two ports, the store on the one after them, and a cluster on those after it.
    #[arg(long, default_value_t = 8080, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_500))]
    ports_from: u16,
}

/// What a process of the demo does; not for people.
#[derive(Debug, Subcommand)]
pub enum DemoPart {
    /// A sample site.
    Site {
        /// Which one.
        name: String,
        /// Where.
        port: u16,
        /// Where the store is.
        store: u16,
    },
    /// The store.
    #[command(disable_help_flag = true)]
    Store {
        /// Options of `tidegate store`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// The agent of a cluster.
    #[command(disable_help_flag = true)]
    Cluster {
        /// Options of `tidegate cluster`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// The edge.
    #[command(disable_help_flag = true)]
    Edge {
        /// Options of `tidegate edge`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Runs a part of the demo. It ends with the process that started it, however that ends.
pub fn run_part(part: DemoPart) -> ExitCode {
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)) {
        eprintln!("tidegate demo: cannot follow the process that started this one: {error}");
    }
    match part {
        DemoPart::Cluster { words } => crate::cluster_command::run_words(&words),
        DemoPart::Store { words } => store::command::run(&words, store::command::Manner::Tidegate),
        DemoPart::Site { name, port, store } => match site::serve(&name, port, store) {
            Ok(never) => match never {},
            Err(error) => {
                eprintln!("tidegate demo: {name} cannot serve on port {port}: {error}");
                ExitCode::FAILURE
            }
        },
        DemoPart::Edge { arguments } => {
            crate::edge_command::run("tidegate", &arguments, crate::edge_command::Personality::Tidegate)
        }
    }
}

/// Runs the demo until it is told to end.
pub fn run(arguments: &DemoArguments) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("tidegate demo: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(perform(arguments.ports_from)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("tidegate demo: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn perform(port: u16) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(text)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(text)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(text)?;
    ports_are_free(port)?;
    let mut stage = Stage::build(port)?;
    let mut lines = lines();
    let mut ticks = tokio::time::interval(LOOK_TIME);
    let mut waited = Duration::ZERO;
    let mut ready = false;
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = hang_up.recv() => break,
            line = lines.recv(), if !lines.is_closed() => if let Some(line) = line {
                obey(&mut stage, line.trim())?;
            },
            _ = ticks.tick() => {
                stage.look_after()?;
                if !ready {
                    ready = stage.answers();
                    waited += LOOK_TIME;
                    if ready && writeln!(std::io::stdout(), "{}", stage.welcome()).is_err() {
                        // Nobody is there who could be told what there is to try.
                        break;
                    } else if !ready && waited > START_TIME_MAX {
                        return Err("the edge does not answer".into());
                    }
                }
            }
        }
    }
    let _ = writeln!(std::io::stdout(), "\nEnding the edge, the sites and the store.");
    stage.end();
    Ok(())
}

fn obey(stage: &mut Stage, line: &str) -> Result<(), String> {
    match line {
        CACHE_SWITCH => return stage.switch_cache(),
        CLUSTER_START => return stage.start_cluster(),
        MASTER_KILL | GROUP_ADD => {
            stage.steer_cluster(if line == GROUP_ADD { DemoCluster::add_group } else { DemoCluster::kill_master });
            return Ok(());
        }
        _ => {}
    }
    match line.parse::<usize>().ok().and_then(|number| number.checked_sub(1)).filter(|index| *index < PARTS.len()) {
        Some(index) => stage.toggle(index),
        None if line.is_empty() => Ok(()),
        None => {
            println!(
                "Type 1 or 2 and Enter to stop or start a site, 3 for the store, 4 for the cache, 5 for a cluster, {MASTER_KILL} to kill a \
                 master of it, {GROUP_ADD} to add a group, Ctrl-C to end."
            );
            Ok(())
        }
    }
}

fn ports_are_free(first: u16) -> Result<(), String> {
    for port in first..=first + 3 {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| format!("port {port} cannot be used ({error}); choose others with --ports-from"))?;
    }
    Ok(())
}

/// Lines of standard input. Reading it blocks, so a thread of its own does; it ends with the process.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let reader = move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("demo-input".into()).spawn(reader) {
        eprintln!("tidegate demo: cannot read what you type: {error}");
    }
    receiver
}
