//! `daemonize`: the store in the background.
//!
//! The process that a user started starts the same program again, with a socket as its standard input, and waits until that says
//! that it serves: then it ends with 0. One that cannot start has said why on stderr, and its code is handed on. The socket is
//! how the second process knows its part; a variable alone would be inherited by whatever else is started.

use std::{
    ffi::CString,
    io::{self, Read as _, Write as _},
    net::Shutdown,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use rustix::net::{AddressFamily, sockopt};

/// Says that this process is the one in the background.
const VARIABLE: &str = "TIDEGATE_STORE_DAEMON";

/// Leads to the process that waits until this one serves.
#[derive(Debug)]
pub struct Caller(UnixStream);

impl Caller {
    /// The one that waits for this process, if there is one. Leaves its session and its standard output then.
    ///
    /// # Errors
    ///
    /// The system refuses it.
    pub fn find() -> io::Result<Option<Self>> {
        let input = io::stdin();
        if std::env::var_os(VARIABLE).is_none() || sockopt::socket_domain(&input) != Ok(AddressFamily::UNIX) {
            return Ok(None);
        }
        let socket = input.as_fd().try_clone_to_owned()?;
        let null = null()?;
        rustix::stdio::dup2_stdin(&null)?;
        // Messages without a file go nowhere, as in Redis. Errors are told until it serves.
        rustix::stdio::dup2_stdout(&null)?;
        let _ = rustix::process::setsid();
        restore_name();
        Ok(Some(Self(socket.into())))
    }

    /// What the user's process has read from its standard input.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn input(&mut self) -> &mut impl io::Read {
        &mut self.0
    }

    /// The store serves: nothing is left of the user's terminal.
    pub fn serving(mut self) {
        if let Ok(null) = null() {
            let _ = rustix::stdio::dup2_stderr(&null);
        }
        // One that has gone does not wait.
        let _ = self.0.write_all(b"1");
    }
}

/// Starts this program again in the background with what was read from standard input, and waits until it serves. Returns the
/// exit code for the user.
///
/// # Errors
///
/// It cannot be started.
pub fn start(input: &[u8]) -> io::Result<ExitCode> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(own_name) = arguments.next() {
        command.arg0(own_name);
    }
    let mut child = command.args(arguments).env(VARIABLE, "1").stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
    // The command keeps its end open.
    drop(command);
    // One that ends before it has read everything has its code say so.
    let _ = ours.write_all(input);
    let _ = ours.shutdown(Shutdown::Write);
    if matches!(ours.read(&mut [0; 1]), Ok(len) if len > 0) {
        return Ok(ExitCode::SUCCESS);
    }
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.filter(|code| *code != 0).unwrap_or(1)))
}

fn null() -> io::Result<OwnedFd> {
    Ok(std::fs::File::options().read(true).write(true).open("/dev/null")?.into())
}

/// Has the process be listed by the name it was called by: the system has it from the path, which is that of a link in /proc.
fn restore_name() {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().map(|name| name.as_encoded_bytes().to_vec()).unwrap_or_default();
    if let Ok(name) = CString::new(name) {
        // The name is for people: nothing depends on it.
        let _ = rustix::thread::set_name(&name);
    }
}
