//! Which running master a command is for: the one that is named, or the one that runs.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use clap::Args;
use runtime::process::{
    control::{self, Target},
    run_file::{self, RunFile},
};

use crate::style::columns;

/// Which process is meant. None of them: the only master that runs.
#[derive(Args, Clone, Debug, Default)]
pub struct Which {
    /// The master's process number, if several masters run.
    #[arg(value_name = "PID", group = "which")]
    number: Option<u32>,
    /// The same as PID.
    #[arg(long, group = "which")]
    pid: Option<u32>,
    /// A file with the master's process number (`-p` of `tidegate edge`).
    #[arg(long, short, group = "which")]
    pidfile: Option<PathBuf>,
    /// The master's control socket (`-S`).
    #[arg(long, group = "which")]
    socket: Option<PathBuf>,
}

impl Which {
    /// The process number.
    pub fn pid(&self, command: &str) -> Result<u32, String> {
        match (self.number.or(self.pid), &self.socket, &self.pidfile) {
            (Some(pid), ..) => Ok(pid),
            (None, Some(socket), _) => {
                let reply = ask(&Target::Path(socket.clone()), "status")?;
                let number = reply.text.strip_prefix("{\"pid\":").and_then(|rest| rest.split(',').next());
                let number = number.and_then(|text| text.parse().ok());
                number.ok_or_else(|| format!("{}: no master answers there, but something else", socket.display()))
            }
            (None, None, Some(file)) => control::read_pidfile(file)
                .map_err(|error| format!("{}: {error}; name the process by its number instead", file.display())),
            (None, None, None) => only_one(&running()?, command),
        }
    }

    /// Where to reach it.
    pub fn target(&self, command: &str) -> Result<Target, String> {
        match &self.socket {
            Some(path) => Ok(Target::Path(path.clone())),
            None => self.pid(command).map(Target::Pid),
        }
    }
}

/// The masters that run, of this user or, if there is none, of root.
pub fn running() -> Result<Vec<RunFile>, String> {
    let own = run_file::own_folder();
    let found = find(&own)?;
    let is_told = std::env::var_os(run_file::VARIABLE).is_some();
    let roots = Path::new(run_file::ROOTS_FOLDER);
    // Root's masters will not obey, but then that is what is said.
    if found.is_empty() && !is_told && own != roots { find(roots) } else { Ok(found) }
}

fn find(folder: &Path) -> Result<Vec<RunFile>, String> {
    run_file::find(folder).map_err(|error| format!("cannot look for running masters in {}: {error}", folder.display()))
}

fn only_one(running: &[RunFile], command: &str) -> Result<u32, String> {
    match running {
        [] => Err(format!(
            "no master of `tidegate edge` runs (none has a file in {}); start one with `tidegate edge -f FILE`, or name one: \
             `tidegate {command} PID`",
            run_file::own_folder().display()
        )),
        [only] => Ok(only.pid),
        several @ [first, ..] => Err(format!(
            "{} masters run; name one by its number, as in `tidegate {command} {}`:\n{}",
            several.len(),
            first.pid,
            list(several).trim_end()
        )),
    }
}

/// Masters as a table.
fn list(masters: &[RunFile]) -> String {
    let mut rows = vec![["PID", "CONFIGURATION", "LISTENS ON"].map(str::to_owned)];
    rows.extend(
        masters
            .iter()
            .map(|master| [master.pid.to_string(), master.configuration.join(" "), master.addresses.join(", ")]),
    );
    columns(&rows)
}

/// Sends a command; an error says who gave no answer, and why that may be.
pub fn ask(target: &Target, command: &str) -> Result<control::Reply, String> {
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
            (_, ErrorKind::ConnectionReset | ErrorKind::PermissionDenied | ErrorKind::BrokenPipe) => {
                format!("{error}; it listens to its own user and to root")
            }
            _ => error.to_string(),
        };
        format!("{place} does not answer: {reason}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master(pid: u32, address: &str) -> RunFile {
        RunFile {
            pid,
            started: 1,
            configuration: vec![format!("/etc/{pid}.cfg")],
            addresses: vec![address.to_owned()],
            command_sockets: Vec::new(),
        }
    }

    #[test]
    fn one_is_found_and_several_are_listed() {
        let (first, second) = (master(7, "0.0.0.0:80"), master(8_000, "0.0.0.0:81"));
        assert_eq!(only_one(std::slice::from_ref(&first), "reload"), Ok(7));
        assert_eq!(
            only_one(&[first, second], "reload").unwrap_err(),
            "2 masters run; name one by its number, as in `tidegate reload 7`:\n  \
             PID   CONFIGURATION  LISTENS ON\n  7     /etc/7.cfg     0.0.0.0:80\n  8000  /etc/8000.cfg  0.0.0.0:81"
        );
        assert!(only_one(&[], "stop").unwrap_err().contains("`tidegate stop PID`"));
    }
}
