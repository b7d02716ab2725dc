//! `-d`: the proxy in the background. The process that the user started starts the same program again and waits until that serves, so
//! that one which cannot start is heard of.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    process::{Command, ExitCode, Stdio},
};

/// Says that this process is the one in the background.
const VARIABLE: &str = "TIDEGATE_PROXY_DAEMON";

/// Which of the two processes this is.
pub enum Caller {
    /// The one that the user started: it ends with this code.
    Done(ExitCode),
    /// The one in the background.
    Waiting(Socket),
}

/// Leads to the process that waits.
pub struct Socket(UnixStream);

impl Socket {
    /// It serves: nothing is left of the terminal.
    pub fn serving(mut self) {
        let _ = self.0.write_all(b"+");
        if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&null);
            let _ = rustix::stdio::dup2_stdout(&null);
            let _ = rustix::stdio::dup2_stderr(&null);
        }
    }
}

/// Goes to the background.
pub fn enter() -> Result<Caller, String> {
    let failed = |error: io::Error| format!("it cannot go to the background: {error}");
    if std::env::var_os(VARIABLE).is_some() {
        let socket = rustix::io::dup(rustix::stdio::stdin()).map_err(|error| failed(error.into()))?;
        let _ = rustix::process::setsid();
        return Ok(Caller::Waiting(Socket(socket.into())));
    }
    let (mut mine, theirs) = UnixStream::pair().map_err(failed)?;
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    if let Some(name) = std::env::args_os().next() {
        use std::os::unix::process::CommandExt as _;
        command.arg0(name);
    }
    command.args(std::env::args_os().skip(1)).env(VARIABLE, "1");
    let mut child = command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).spawn().map_err(failed)?;
    drop(command);
    let mut byte = [0];
    if mine.read_exact(&mut byte).is_ok() {
        return Ok(Caller::Done(ExitCode::SUCCESS));
    }
    let status = child.wait().map_err(failed)?;
    Ok(Caller::Done(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1).max(1))))
}
