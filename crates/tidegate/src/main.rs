//! The `tidegate` binary: subcommands and wiring, nothing else.

mod edge_command;

use std::{path::Path, process::ExitCode};

use clap::{Parser, Subcommand};

/// The scaling stack of a web application as one program.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
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
    /// Behave as `haproxy` does, messages and exit codes included.
    #[command(disable_help_flag = true)]
    Haproxy {
        /// HAProxy's options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Say what a keyword of haproxy.cfg means and whether it is supported.
    Explain {
        /// The keyword.
        keyword: String,
    },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let called_as = arguments.first().and_then(|path| Path::new(path).file_name()).map(|name| name.to_string_lossy());
    if called_as.as_deref() == Some("haproxy") {
        return edge_command::run("haproxy", arguments.get(1..).unwrap_or_default(), edge_command::Personality::Haproxy);
    }
    match Arguments::parse().command {
        Command::Edge { arguments } => {
            edge_command::run("tidegate", &arguments, edge_command::Personality::Tidegate)
        }
        Command::Haproxy { arguments } => {
            edge_command::run("haproxy", &arguments, edge_command::Personality::Haproxy)
        }
        Command::Explain { keyword } => {
            println!("{}", haproxycfg::explain(&keyword).trim_end());
            ExitCode::SUCCESS
        }
    }
}
