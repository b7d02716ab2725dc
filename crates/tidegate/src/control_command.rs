//! `tidegate reload`, `upgrade`, `drain`, `stop` and `status`: telling a running master.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use runtime::process::control::{self, Target};

/// Which process is meant.
#[derive(Args, Clone, Debug)]
pub struct Which {
    /// The master's process number.
    #[arg(long, group = "which")]
    pub pid: Option<u32>,
    /// A file with the master's process number (default).
    #[arg(long, short, group = "which", default_value = "/run/tidegate/tidegate.pid")]
    pub pidfile: PathBuf,
    /// The master's control socket (`-S`).
    #[arg(long, group = "which")]
    pub socket: Option<PathBuf>,
}

impl Which {
    /// The process number, if one is to be had.
    pub fn pid(&self) -> Result<u32, String> {
        match self.pid {
            Some(pid) => Ok(pid),
            None => control::read_pidfile(&self.pidfile).map_err(|error| {
                format!("{}: {error}; name the process with --pid or --pidfile", self.pidfile.display())
            }),
        }
    }

    fn target(&self) -> Result<Target, String> {
        match &self.socket {
            Some(path) => Ok(Target::Path(path.clone())),
            None => self.pid().map(Target::Pid),
        }
    }
}

/// Sends a command and prints the answer.
pub fn run(which: &Which, command: &str) -> ExitCode {
    let asked = which.target().and_then(|target| {
        control::request(&target, command).map_err(|error| format!("no master answers there: {error}"))
    });
    match asked {
        Ok(reply) if reply.success => {
            println!("{}", reply.text);
            ExitCode::SUCCESS
        }
        Ok(reply) => {
            eprintln!("{}", reply.text);
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("tidegate {command}: {message}");
            ExitCode::FAILURE
        }
    }
}
