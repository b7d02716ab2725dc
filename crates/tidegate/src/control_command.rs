//! `tidegate reload`, `upgrade`, `drain`, `stop` and `status`: telling a running master.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
};

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
        match (self.pid, &self.socket) {
            (Some(pid), _) => Ok(pid),
            (None, Some(socket)) => {
                let reply = ask(&Target::Path(socket.clone()), "status")?;
                let number = reply.text.strip_prefix("{\"pid\":").and_then(|rest| rest.split(',').next());
                let number = number.and_then(|text| text.parse().ok());
                number.ok_or_else(|| format!("{}: no master answers there, but something else", socket.display()))
            }
            (None, None) => control::read_pidfile(&self.pidfile).map_err(|error| {
                format!("{}: {error}; name the process with --pid, --pidfile or --socket", self.pidfile.display())
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

/// Sends a command; an error says who gave no answer, and why that may be.
fn ask(target: &Target, command: &str) -> Result<control::Reply, String> {
    control::request(target, command).map_err(|error| {
        let place = match target {
            Target::Pid(pid) => format!("process {pid}"),
            Target::Path(path) => path.display().to_string(),
        };
        let reason = match (target, error.kind()) {
            (Target::Pid(pid), ErrorKind::ConnectionRefused) if !Path::new(&format!("/proc/{pid}")).exists() => {
                "it is not there (any more)".to_owned()
            }
            (Target::Pid(_), ErrorKind::ConnectionRefused) => "it is no master of `tidegate edge`".to_owned(),
            (_, ErrorKind::ConnectionReset | ErrorKind::PermissionDenied) => {
                format!("{error}; it listens to its own user and to root")
            }
            _ => error.to_string(),
        };
        format!("{place} does not answer: {reason}")
    })
}

/// Sends a command and prints the answer.
pub fn run(which: &Which, command: &str) -> ExitCode {
    let asked = which.target().and_then(|target| ask(&target, command));
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
