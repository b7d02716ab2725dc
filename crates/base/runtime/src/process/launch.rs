//! Starting this program again in another part, and knowing which part this process plays.
//!
//! A worker, a probe, a check and a daemon are the same program with the same arguments. The variable [`VARIABLE`] says which
//! part it is, and standard input is one end of a [`channel`]: a descriptor that any program may have
//! open, so it gets there without the help of unsafe code, and nothing else is left open by accident. A master
//! is the process that was started, and after an upgrade still is, so it finds its state under a number instead.

use super::channel;
use super::role::ProgramSpec;
use crate::system;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The environment variable that says which part a process plays.
pub(crate) const VARIABLE: &str = "TIDEGATE_PROCESS";

/// The variable that says which program a process is to become, and what the other variable begins with then.
pub(crate) const PROGRAM_VARIABLE: &str = "TIDEGATE_PROGRAM";
const PROGRAM: &str = "program:";

/// The part of this process.
#[derive(Debug)]
pub(crate) enum ProcessPart {
    /// Started by a user.
    Start,
    /// Detached from the terminal; tells the process that a user started when it serves.
    Daemon(OwnedFd),
    /// Serves for a master.
    Worker(OwnedFd),
    /// Says whether it could replace a master.
    Probe(OwnedFd),
    /// Checks a configuration for a master.
    Check(OwnedFd),
    /// Becomes a program beside the workers.
    Program(ProgramSpec),
    /// A master with a fresh image of the program, which finds what it begins with here.
    Master(OwnedFd),
    /// Has replaced a master that was this process.
    Successor(OwnedFd),
}

/// Finds out which part this process plays.
pub(crate) fn part() -> io::Result<ProcessPart> {
    let Some(value) = std::env::var_os(VARIABLE) else { return Ok(ProcessPart::Start) };
    let value = value.to_string_lossy();
    for (name, make) in
        [("successor:", ProcessPart::Successor as fn(OwnedFd) -> ProcessPart), ("master:", ProcessPart::Master)]
    {
        if let Some(rest) = value.strip_prefix(name) {
            return match own_state(rest) {
                Some(number) => Ok(make(system::take_inherited(number)?)),
                None => Ok(ProcessPart::Start),
            };
        }
    }
    if let Some(parent) = value.strip_prefix(PROGRAM) {
        return Ok(own_program(parent).map_or(ProcessPart::Start, ProcessPart::Program));
    }
    let make = match &*value {
        "daemon" => ProcessPart::Daemon,
        "worker" => ProcessPart::Worker,
        "probe" => ProcessPart::Probe,
        "check" => ProcessPart::Check,
        _ => return Ok(ProcessPart::Start),
    };
    let input = std::io::stdin();
    if !is_channel(&input) {
        return Ok(ProcessPart::Start);
    }
    let own = rustix::io::fcntl_dupfd_cloexec(&input, 3)?;
    rustix::stdio::dup2_stdin(null()?)?;
    Ok(make(own))
}

/// Whether another process of ours has told this one what to do, so that what the configuration says about how to start
/// has been settled there.
pub(crate) fn is_told() -> bool {
    let value = std::env::var(VARIABLE).unwrap_or_default();
    match value.split_once(':') {
        Some(("successor" | "master", rest)) => own_state(rest).is_some(),
        Some(("program", parent)) => own_program(parent).is_some(),
        Some(_) => false,
        None => matches!(&*value, "worker" | "probe" | "check") && is_channel(std::io::stdin()),
    }
}

/// Whether no other process of ours has started this one.
pub(crate) fn is_first() -> bool {
    let is_daemon = std::env::var(VARIABLE).is_ok_and(|value| value == "daemon") && is_channel(std::io::stdin());
    !is_daemon && !is_told()
}

/// The number after this process' own. A child process that inherits the variable is not the process that it speaks of.
fn own_state(text: &str) -> Option<i32> {
    let (pid, number) = text.split_once(':')?;
    number.parse().ok().filter(|_| pid == std::process::id().to_string())
}

/// What the parent with this number has this process become. A process further down is not meant.
fn own_program(parent: &str) -> Option<ProgramSpec> {
    let own = rustix::process::getppid()?.as_raw_pid().to_string();
    let spec = std::env::var(PROGRAM_VARIABLE).ok().filter(|_| parent == own)?;
    serde_json::from_str(&spec).ok()
}

/// Starts a program beside the workers, by way of this program, which knows the user to become. Returns its number.
pub(crate) fn start_program(spec: &ProgramSpec, environment: &BTreeMap<String, String>) -> io::Result<u32> {
    let mut arguments = std::env::args_os();
    let mut command = Command::new(running_program());
    if let Some(own_name) = arguments.next() {
        command.arg0(own_name);
    }
    let part = format!("{PROGRAM}{}", std::process::id());
    command.args(arguments).env_clear().envs(environment).env(VARIABLE, part);
    Ok(command.env(PROGRAM_VARIABLE, serde_json::to_string(spec)?).spawn()?.id())
}

/// A program started by a worker inherits the variable, but not such a socket.
fn is_channel(input: impl AsFd) -> bool {
    sockopt::socket_domain(&input) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(&input) == Ok(SocketType::SEQPACKET)
}

fn null() -> io::Result<OwnedFd> {
    Ok(std::fs::File::options().read(true).write(true).open("/dev/null")?.into())
}

/// Makes standard output and standard error lead nowhere.
pub(crate) fn close_output() -> io::Result<()> {
    let null = null()?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Starts `program` with this process' arguments in the part `name`. Returns it and the other end of its standard
/// input.
pub(crate) fn start(program: &Path, name: &str) -> io::Result<(Child, OwnedFd)> {
    let (ours, theirs) = channel::pair()?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(own_name) = arguments.next() {
        command.arg0(own_name);
    }
    let child = command.args(arguments).env(VARIABLE, name).stdin(Stdio::from(theirs)).spawn()?;
    Ok((child, ours))
}

/// The program that runs here, even if its file has been replaced or removed meanwhile.
pub(crate) fn running_program() -> &'static Path {
    Path::new("/proc/self/exe")
}

/// Has the process be listed by the name of its program: the system takes the name from the path, which
/// [`running_program`] hides.
pub(crate) fn restore_name() {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().map(|name| name.as_encoded_bytes().to_vec()).unwrap_or_default();
    if let Ok(name) = std::ffi::CString::new(name) {
        // The name is for people: nothing depends on it.
        let _ = rustix::thread::set_name(&name);
    }
}

/// Where the program was started from: what stands there now is what an upgrade starts.
///
/// The name that it was called by, so that a symbolic link is followed anew; else what the system knows.
pub(crate) fn program_on_disk() -> io::Result<PathBuf> {
    let name = std::env::args_os().next().unwrap_or_default();
    let path = Path::new(&name);
    if path.components().count() > 1 {
        return std::path::absolute(path);
    }
    let found = std::env::var_os("PATH")
        .iter()
        .flat_map(std::env::split_paths)
        .map(|folder| folder.join(path))
        .find(|candidate| candidate.is_file());
    match found {
        Some(found) => std::path::absolute(found),
        None => {
            let path = std::env::current_exe()?.into_os_string().into_string().map_err(|_| io::ErrorKind::Other)?;
            Ok(PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(&path)))
        }
    }
}

/// Whether the file at `path` is another one than the program that runs here.
pub(crate) fn is_other_program(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| {
        std::fs::metadata(path).map(|file| (file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
    };
    match (identity(path), identity(running_program())) {
        (Ok(there), Ok(here)) => there != here,
        _ => false,
    }
}

/// Becomes the program at `path`, in the part `name` ("successor" or "master") that finds its state under `state`.
/// Returns only on failure.
pub(crate) fn replace_by(path: &Path, name: &str, state: i32) -> io::Error {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().filter(|(name, _)| name != VARIABLE).collect();
    environment.push((VARIABLE.into(), format!("{name}:{}:{state}", std::process::id()).into()));
    system::exec(path, &arguments, &environment)
}
