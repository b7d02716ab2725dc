//! A program that answers one request, as a process.
//!
//! A thread of its own looks for it, starts it and sees it to its end, so that no worker waits for a disk or for a child. A program is
//! ended when its time is over, or when nobody wants its answer any more: its whole process group, by SIGTERM and then by SIGKILL. What
//! it has started and left behind keeps nobody waiting: pipes that only these hold count as closed.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStringExt as _,
            fs::PermissionsExt as _,
            process::{CommandExt as _, ExitStatusExt as _},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use haproxycfg::model::Cgi;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, kill_process_group, pidfd_open, prlimit};
use tokio::{
    io::unix::AsyncFd,
    sync::{OwnedSemaphorePermit, oneshot},
    time::timeout,
};

/// Time that a program has to end after SIGTERM, before it is killed.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Folders of programs within a folder of programs.
const DEPTH_MAX: usize = 64;

/// What is to be started.
pub struct Order {
    /// The line that says so.
    pub line: Cgi,
    /// The path of the request behind the line's prefix, decoded.
    pub path: Vec<u8>,
    /// Variables but for those that say which program it is.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// The place that it takes.
    pub place: OwnedSemaphorePermit,
}

/// Why nothing was started.
#[derive(Debug)]
pub enum Refusal {
    /// There is no such program.
    Missing,
    /// It may not be executed.
    NotExecutable,
    /// The system refused.
    System(io::Error),
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// By itself.
    Exited,
    /// By a signal.
    Killed,
    /// Its time was over.
    TimedOut,
}

/// A program that runs.
#[derive(Debug)]
pub struct Started {
    /// Where it reads.
    pub stdin: OwnedFd,
    /// Where it answers.
    pub stdout: OwnedFd,
    /// Where it complains.
    pub stderr: OwnedFd,
    /// Its end.
    pub end: oneshot::Receiver<ProgramEnd>,
    /// It is ended when this is dropped; it may end by itself when something is sent.
    pub leash: oneshot::Sender<()>,
}

/// Starts a program and sees it to its end. For the thread of programs.
pub async fn run(order: Order, answer: oneshot::Sender<Result<Started, Refusal>>) {
    let Order { line, path, variables, place } = order;
    let (mut child, ending) = match start(&line, &path, variables) {
        Ok(started) => started,
        Err(refusal) => {
            let _ = answer.send(Err(refusal));
            return;
        }
    };
    let (end_sender, end) = oneshot::channel();
    let (leash, mut leaves) = oneshot::channel();
    let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
    if let Some(((stdin, stdout), stderr)) = pipes {
        let started = Started { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into(), end, leash };
        // Whoever has gone drops the leash.
        let _ = answer.send(Ok(started));
    }
    let ended = {
        let mut ending = Box::pin(timeout(line.timeout, wait(&mut child, &ending)));
        let ended = tokio::select! {
            ended = &mut ending => Some(ended),
            left = &mut leaves => match left {
                // Its answer is complete: it may go on until its time is over.
                Ok(()) => Some(ending.await),
                Err(_) => None,
            },
        };
        ended.map_or(Err(ProgramEnd::Killed), |ended| ended.map_err(|_| ProgramEnd::TimedOut))
    };
    let end = match ended {
        Ok(Ok(true)) => ProgramEnd::Exited,
        Ok(_) => ProgramEnd::Killed,
        Err(end) => {
            signal(&child, Signal::TERM);
            if timeout(END_PATIENCE, wait(&mut child, &ending)).await.is_err() {
                signal(&child, Signal::KILL);
                let _ = wait(&mut child, &ending).await;
            }
            signal(&child, Signal::KILL);
            end
        }
    };
    drop(place);
    let _ = end_sender.send(end);
}

/// To all of its group. The group has the number of the program, which nobody else gets as long as there is a process in it.
fn signal(child: &Child, signal: Signal) {
    let _ = kill_process_group(Pid::from_child(child), signal);
}

/// What tells of a program's end.
type Ending = AsyncFd<OwnedFd>;

/// Starts a program, whose end can be waited for: one that nobody could wait for does not go on.
fn start(line: &Cgi, path: &[u8], variables: Vec<(Vec<u8>, Vec<u8>)>) -> Result<(Child, Ending), Refusal> {
    let (program, script, path_info) = find(&line.folder, path)?;
    let os = |bytes: Vec<u8>| OsString::from_vec(bytes);
    let name = [&line.prefix[..], &script].concat();
    let mut command = Command::new(&program);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .envs(variables.into_iter().map(|(name, value)| (os(name), os(value))))
        .env("SCRIPT_NAME", os(name))
        .env("SCRIPT_FILENAME", &program)
        .envs(line.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(program.parent().unwrap_or(Path::new("/")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if !path_info.is_empty() {
        command.env("PATH_INFO", os(path_info));
    }
    let mut child = command.spawn().map_err(Refusal::System)?;
    let prepared = limit_memory(&child, line.memory_bytes_max).and_then(|()| ending(&child));
    match prepared {
        Ok(ending) => Ok((child, ending)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(Refusal::System(error))
        }
    }
}

/// Limits the memory of a program.
fn limit_memory(child: &Child, bytes_max: Option<u64>) -> io::Result<()> {
    let Some(bytes) = bytes_max else { return Ok(()) };
    // NOTE: from outside, as no code of ours can run between the start of a process and that of its program.
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    match prlimit(Some(Pid::from_child(child)), Resource::As, limit) {
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn ending(child: &Child) -> io::Result<Ending> {
    let descriptor: OwnedFd = pidfd_open(Pid::from_child(child), PidfdFlags::NONBLOCK)?;
    #[expect(
        deprecated,
        reason = "its successor is unsafe for descriptors that do not own; this one is owned until the end"
    )]
    AsyncFd::new(descriptor)
}

/// The program that a path means: its file, what of the path is its name, and the rest.
fn find(folder: &Path, path: &[u8]) -> Result<(PathBuf, Vec<u8>, Vec<u8>), Refusal> {
    let mut file = folder.to_path_buf();
    let mut at = 0;
    for segment in path.split(|byte| *byte == b'/').take(DEPTH_MAX) {
        at += segment.len();
        if segment == b".." || segment.contains(&0) {
            return Err(Refusal::Missing);
        }
        if !segment.is_empty() {
            file.push(OsString::from_vec(segment.to_vec()));
            let meta = std::fs::metadata(&file).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => Refusal::NotExecutable,
                _ => Refusal::Missing,
            })?;
            if meta.is_file() {
                let (name, rest) = path.split_at_checked(at).unwrap_or((path, b""));
                return match meta.permissions().mode() & 0o111 {
                    0 => Err(Refusal::NotExecutable),
                    _ => Ok((file, name.to_vec(), rest.to_vec())),
                };
            }
            if !meta.is_dir() {
                return Err(Refusal::NotExecutable);
            }
        }
        at += 1;
    }
    Err(Refusal::Missing)
}

/// Waits for the end of a program: whether it ended by itself.
async fn wait(child: &mut Child, ending: &Ending) -> io::Result<bool> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.signal().is_none());
        }
        ending.readable().await?.clear_ready();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_within_their_folder() {
        let folder = std::env::temp_dir().join(format!("tidegate-cgi-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        for (name, mode) in [("a", 0o755), ("sub/b", 0o755), ("plain", 0o644)] {
            std::fs::write(folder.join(name), "").unwrap();
            std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let found = |path: &str| match find(&folder, path.as_bytes()) {
            Ok((file, name, rest)) => {
                let file = file.strip_prefix(&folder).unwrap().display().to_string();
                format!("{file} {} {}", String::from_utf8(name).unwrap(), String::from_utf8(rest).unwrap())
            }
            Err(refusal) => format!("{refusal:?}"),
        };
        assert_eq!(found("a"), "a a ");
        assert_eq!(found("a/x/../y"), "a a /x/../y");
        assert_eq!(found("sub/b"), "sub/b sub/b ");
        assert_eq!(found("sub//b/"), "sub/b sub//b /");
        for path in ["", "/", "nothing", "sub", "sub/", "../a", "sub/../a", "a\0", "sub/nothing"] {
            assert_eq!(found(path), "Missing", "{path:?}");
        }
        assert_eq!(found("plain"), "NotExecutable");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
