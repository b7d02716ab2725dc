//! Into the background: the process that a user starts waits until its successor serves, and says what that says.

use std::{
    fs::OpenOptions,
    io::{self, BufRead, BufReader, Write},
    process::{Command, ExitCode, Stdio},
};

/// Says that a process is the one in the background.
const VARIABLE: &str = "TIDEGATE_VARNISHD";
const DETACHED: &str = "detached";
/// What it says when it serves.
const READY: &str = "tidegate-varnishd-ready";

/// Whether this is the process in the background.
#[must_use]
pub fn is_detached() -> bool {
    std::env::var(VARIABLE).is_ok_and(|value| value == DETACHED)
}

/// Starts this program again, in the background.
pub(super) fn detach() -> ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut command = Command::new("/proc/self/exe");
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    let started = command.args(arguments).env(VARIABLE, DETACHED).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            let _ = writeln!(io::stderr(), "Error: cannot go into the background: {error}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            match line {
                Ok(line) if line == READY => return ExitCode::SUCCESS,
                Ok(line) => println!("{line}"),
                Err(_) => break,
            }
        }
    }
    let code = child.wait().ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// In the background: lets the process in front end, and goes on without its terminal.
pub(super) fn tell_ready() {
    if !is_detached() {
        return;
    }
    // Nobody may be there any more, which is no reason to end.
    let _ = rustix::process::setsid();
    let _ = writeln!(io::stdout(), "{READY}");
    let _ = io::stdout().flush();
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
