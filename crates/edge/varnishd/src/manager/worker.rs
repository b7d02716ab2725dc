//! The worker's process: started, asked, ended.

use std::{
    io::{self, BufRead, BufReader, Read},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::{Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use crate::orders::{self, Answer, Begin, Order};

/// The word that makes a process a worker.
pub const WORKER: &str = "--worker";
/// How long a worker may take to end when it is told to.
const END_TIME: Duration = Duration::from_secs(10);
/// Bytes of what a worker said last that are kept, in case it was a panic.
const SAID_BYTES_MAX: usize = 64 << 10;

/// A worker that runs.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) pid: u32,
    channel: UnixStream,
    ended: mpsc::Receiver<ExitStatus>,
    said: Arc<Mutex<String>>,
}

impl Worker {
    /// Starts one. `reap` is called when it has ended, on a thread of its own.
    pub(super) fn start(reap: impl FnOnce(u32, ExitStatus) + Send + 'static) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut child = Command::new("/proc/self/exe")
            .arg0("varnishd")
            .arg(WORKER)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pid = child.id();
        let said = Arc::<Mutex<String>>::default();
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|output| Box::new(output) as Box<dyn Read + Send>),
            child.stderr.take().map(|output| Box::new(output) as Box<dyn Read + Send>),
        ];
        for output in outputs.into_iter().flatten() {
            let said = Arc::clone(&said);
            named("said", move || repeat(pid, output, &said))?;
        }
        let (tell, ended) = mpsc::channel();
        named("reaper", move || {
            let Ok(status) = child.wait() else { return };
            // Whoever waited may have given up.
            let _ = tell.send(status);
            reap(pid, status);
        })?;
        Ok(Self { pid, channel: ours, ended, said })
    }

    /// Has it begin. The answer says that it takes requests.
    pub(super) fn begin(&mut self, begin: &Begin, patience: Duration) -> io::Result<Answer> {
        self.channel.set_read_timeout(Some(patience))?;
        orders::send(&mut self.channel, begin)?;
        orders::receive(&mut self.channel)
    }

    /// Asks it something.
    pub(super) fn ask(&mut self, order: &Order, patience: Duration) -> io::Result<Answer> {
        self.channel.set_read_timeout(Some(patience))?;
        orders::send(&mut self.channel, order)?;
        orders::receive(&mut self.channel)
    }

    /// Ends it.
    pub(super) fn end(mut self) -> Option<ExitStatus> {
        let _ = orders::send(&mut self.channel, &Order::Stop);
        if let Ok(status) = self.ended.recv_timeout(END_TIME) {
            return Some(status);
        }
        self.kill();
        self.ended.recv_timeout(END_TIME).ok()
    }

    /// Ends it without asking.
    pub(super) fn kill(&self) {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may be gone already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// What it said last.
    pub(super) fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts a thread.
pub(super) fn named(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Passes on what a worker says, and remembers it.
fn repeat(pid: u32, output: impl Read, said: &Mutex<String>) {
    for line in BufReader::new(output).split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line);
        eprintln!("Child ({pid}) said {line}");
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&line);
        said.push('\n');
        if said.len() > SAID_BYTES_MAX {
            let cut = said.char_indices().map(|(at, _)| at).find(|at| *at >= SAID_BYTES_MAX / 2).unwrap_or(0);
            said.drain(..cut);
        }
    }
}
