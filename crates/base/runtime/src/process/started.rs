//! What others wait for while a process starts: its pidfile, and the end of the process that a user called with `-D`.

use super::channel::{Channel, Outgoing};
use super::launch;
use crate::log;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;

/// Tells those who wait when the process serves.
#[derive(Debug, Default)]
pub(crate) struct Started {
    pidfile: Option<PathBuf>,
    /// Leads to the process that waits until this daemon serves.
    caller: Option<OwnedFd>,
}

impl Started {
    pub(crate) fn new(pidfile: Option<PathBuf>, caller: Option<OwnedFd>) -> Self {
        Self { pidfile, caller }
    }

    /// Writes the pidfile, if one is wanted.
    pub(crate) fn write_pidfile(&self) -> Result<(), String> {
        let Some(path) = &self.pidfile else { return Ok(()) };
        // A new file: the old one may be open elsewhere, or be a link.
        let _ = std::fs::remove_file(path);
        std::fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| format!("Cannot create pidfile {}: {error}", path.display()))
    }

    /// The process serves.
    pub(crate) fn serving(&mut self) {
        let Some(caller) = self.caller.take() else { return };
        // NOTE: in this order, so that nothing is left of the caller's terminal when it goes on.
        if let Err(error) = launch::close_output() {
            log::warning!("cannot let go of the terminal: {error}");
        }
        // A caller that has gone does not wait.
        let _ = Channel::new(caller).and_then(|channel| channel.post(Outgoing::new(&"serving", Vec::new())?));
    }
}

/// Starts this program again as a daemon and waits until it serves. Returns the exit code for the user.
pub(crate) fn start_daemon() -> io::Result<ExitCode> {
    let (mut child, socket) = launch::start(launch::running_program(), "daemon")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let serving = runtime.block_on(async { Channel::new(socket)?.receive::<String>().await })?;
    if serving.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.filter(|code| *code != 0).unwrap_or(1)))
}
