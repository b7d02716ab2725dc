//! The program under test, and HAProxy to compare it with.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};

use super::{Folder, PATIENCE, listens, wait_until};

/// A running load balancer.
#[derive(Debug)]
pub struct Edge {
    child: Child,
    pub folder: Folder,
    pub config: PathBuf,
    output: Arc<Mutex<String>>,
}

impl Edge {
    /// `tidegate edge -f <config>`, once it listens on all TCP addresses of its `bind` lines.
    #[track_caller]
    pub fn start(config: &str) -> Self {
        Self::start_as(env!("CARGO_BIN_EXE_tidegate"), &["edge"], config)
    }

    /// One process without a master.
    #[track_caller]
    pub fn start_single(config: &str) -> Self {
        Self::start_as(env!("CARGO_BIN_EXE_tidegate"), &["haproxy", "-db"], config)
    }

    /// Debian's HAProxy; `None` when it is not installed.
    #[track_caller]
    pub fn start_haproxy(config: &str) -> Option<Self> {
        let program = "/usr/sbin/haproxy";
        if !Path::new(program).exists() {
            eprintln!("skipped: {program} is not installed");
            return None;
        }
        Some(Self::start_as(program, &["-db"], config))
    }

    #[track_caller]
    pub fn start_as(program: &str, arguments: &[&str], config: &str) -> Self {
        let folder = Folder::new();
        // `%FOLDER%` stands for a folder of its own, where `stats socket %FOLDER%/stats` takes commands.
        let config = &config.replace("%FOLDER%", &folder.0.display().to_string());
        let path = folder.file("haproxy.cfg", config);
        let edge = Self::spawn(program, arguments, path, folder);
        for address in bind_addresses(config) {
            wait_until(&format!("{address} listens\n{}", edge.output()), || {
                listens(address) || edge.has_ended() && panic!("it ended:\n{}", edge.output())
            });
        }
        edge
    }

    /// Starts a program with a configuration that stands somewhere already.
    pub fn spawn(program: &str, arguments: &[&str], config: PathBuf, folder: Folder) -> Self {
        let run = folder.0.join("run");
        Self::spawn_in(&run, program, arguments, config, folder)
    }

    /// The same, with its run file in a folder that it may share with others.
    pub fn spawn_in(run: &Path, program: &str, arguments: &[&str], config: PathBuf, folder: Folder) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).arg("-f").arg(&config).env("TIDEGATE_RUN_DIR", run);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A program that was just copied is busy as long as another test's child, begun meanwhile, holds the copy open.
        let mut child = (0..100)
            .find_map(|_| match command.spawn() {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    thread::sleep(std::time::Duration::from_millis(20));
                    None
                }
                spawned => Some(spawned.unwrap()),
            })
            .unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let (sink, stderr) = (Arc::clone(&output), child.stderr.take().unwrap());
        thread::spawn(move || {
            let mut reader = BufReader::new(stderr);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                sink.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        Self { child, folder, config, output }
    }

    /// What it has written to stderr.
    pub fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    /// Waits for a text on stderr.
    #[track_caller]
    pub fn wait_output(&self, text: &str) {
        wait_until(&format!("stderr says {text:?}"), || self.output().contains(text));
    }

    /// The answer to a command on `stats socket %FOLDER%/stats`.
    #[track_caller]
    pub fn command(&self, command: &str) -> String {
        self.try_command(command).expect("an answer of the stats socket")
    }

    /// The same; nothing if who took the connection has gone, as a worker that drains may.
    #[track_caller]
    pub fn try_command(&self, command: &str) -> Option<String> {
        let mut socket = None;
        wait_until("the stats socket is there", || {
            socket = UnixStream::connect(self.folder.0.join("stats")).ok();
            socket.is_some()
        });
        let mut socket = socket.unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(format!("{command}\n").as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the first process has ended (and is still to be waited for).
    pub fn has_ended(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        status.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with(['Z', 'X']) || rest.is_empty())
    }

    /// The worker processes, youngest last.
    pub fn workers(&self) -> Vec<u32> {
        descendants(self.pid())
    }

    pub fn signal(&self, signal: Signal) {
        signal_process(self.pid(), signal);
    }

    /// Waits for the end of the first process: its exit code, or 128 and the signal.
    #[track_caller]
    pub fn wait_end(&mut self) -> i32 {
        super::wait_end(&mut self.child)
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        let children = descendants(self.pid());
        let _ = self.child.kill();
        for pid in children {
            signal_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- stderr of the program ---\n{}", self.output());
        }
    }
}

/// Sends a signal to one process.
pub fn signal_process(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal);
}

/// All processes below one.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    for task in tasks.flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            found.push(child);
            found.extend(descendants(child));
        }
    }
    found
}

/// Resident memory of a process in kilobytes, without pages of files, which come and go.
pub fn resident_kilobytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn bind_addresses(config: &str) -> Vec<SocketAddr> {
    config
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let is_bind = words.next() == Some("bind");
            words.next().filter(|_| is_bind)?.parse().ok()
        })
        .collect()
}
