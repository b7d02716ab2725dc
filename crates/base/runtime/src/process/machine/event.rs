//! What may happen to a master, and what it may do.

use super::programs::{PlannedProgram, ProgramId};
use crate::log::Level;
use crate::process::role::DrainReason;
use std::time::Duration;

/// Numbers the workers of a master, upgrades included.
pub(crate) type WorkerId = u32;
/// Numbers those who wait for an answer.
pub(crate) type RequestId = u64;
/// Numbers accepted configurations.
pub(crate) type Generation = u64;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Begin: the first configuration has yet to be prepared, or the one of a new program after an upgrade.
    Start,
    /// The configuration is good and its sockets are bound. `replace`: it cannot be swapped inside the worker.
    Prepared { generation: Generation, replace: bool, programs: Vec<PlannedProgram> },
    /// The configuration is bad, or a socket could not be bound; nothing has changed.
    PrepareFailed { text: String },
    /// A worker process exists.
    Spawned { worker: WorkerId, pid: u32 },
    /// It could not be made.
    SpawnFailed { worker: WorkerId, text: String },
    /// A worker serves the generation.
    Ready { worker: WorkerId, generation: Generation },
    /// A worker cannot serve the generation, and goes on with what it had.
    Refused { worker: WorkerId, generation: Generation, text: String },
    /// A worker was told by someone else to drain.
    DrainsAlready { worker: WorkerId },
    /// A worker that was told to drain accepts nothing any more.
    Closed { worker: WorkerId },
    /// A worker process ended.
    Exited { worker: WorkerId, status: Status },
    /// A program has been started.
    ProgramSpawned { program: ProgramId, pid: u32 },
    /// It could not be.
    ProgramNotSpawned { program: ProgramId, text: String },
    /// A program ended.
    ProgramExited { pid: u32, status: Status },
    /// Someone wants the configuration read again.
    Reload { request: Option<RequestId> },
    /// Someone wants the program replaced.
    Upgrade { request: Option<RequestId> },
    /// The new program says that it can take over.
    ProbePassed,
    /// It cannot.
    ProbeFailed { text: String },
    /// The new program could not be started in place of this one.
    ExecFailed { text: String },
    /// End when all connections have.
    Drain,
    /// End now; the number of the signal that says so.
    Stop { signal: i32 },
    /// A timer set by [`Action::SetTimer`] has run out.
    Timer(Timer),
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Status {
    /// The code as shells and HAProxy have it: 128 and more for a signal.
    pub(crate) fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// What HAProxy says of such a code: the name of a signal, or that there was none.
    pub(crate) fn reason(self) -> &'static str {
        let Ok(signal) = usize::try_from(self.shell_code() - 128) else { return "Exit" };
        SIGNALS.get(signal).copied().unwrap_or("Unknown signal")
    }
}

/// What the C library calls the signals, by number.
const SIGNALS: [&str; 32] = [
    "Unknown signal 0",
    "Hangup",
    "Interrupt",
    "Quit",
    "Illegal instruction",
    "Trace/breakpoint trap",
    "Aborted",
    "Bus error",
    "Floating point exception",
    "Killed",
    "User defined signal 1",
    "Segmentation fault",
    "User defined signal 2",
    "Broken pipe",
    "Alarm clock",
    "Terminated",
    "Stack fault",
    "Child exited",
    "Continued",
    "Stopped (signal)",
    "Stopped",
    "Stopped (tty input)",
    "Stopped (tty output)",
    "Urgent I/O condition",
    "CPU time limit exceeded",
    "File size limit exceeded",
    "Virtual timer expired",
    "Profiling timer expired",
    "Window changed",
    "I/O possible",
    "Power failure",
    "Bad system call",
];

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// Start the worker again.
    Restart,
    /// The worker should serve by now.
    Started(WorkerId),
    /// The worker should have swapped its configuration by now.
    Loaded(WorkerId),
    /// The former worker should have stopped accepting by now.
    Switched(WorkerId),
    /// Everything should be gone by now.
    Kill,
}

/// What to tell the service manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Serving.
    Ready,
    /// A reload or upgrade is on.
    Reloading,
    /// Ending.
    Stopping,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Check the configuration and bind what it needs; answer with [`Event::Prepared`] or [`Event::PrepareFailed`].
    Prepare,
    /// Start a worker with the prepared or adopted generation.
    Spawn { worker: WorkerId, generation: Generation },
    /// Give a running worker the prepared generation.
    Load { worker: WorkerId, generation: Generation },
    /// The prepared generation is the one to serve: close what it does not use.
    Adopt { generation: Generation },
    /// The prepared generation is dropped: close what only it needs.
    Discard { generation: Generation },
    /// Tell a worker to drain.
    TellDrain { worker: WorkerId, reason: DrainReason },
    /// Start the program at this place of an adopted configuration; answer with [`Event::ProgramSpawned`] or
    /// [`Event::ProgramNotSpawned`].
    StartProgram { program: ProgramId, generation: Generation, index: usize },
    /// Send a signal to a worker process or a program.
    Kill { pid: u32, signal: i32 },
    /// Try whether the new program can take over.
    Probe,
    /// Become the new program; those waiting for an answer get it from there.
    Exec { requests: Vec<RequestId> },
    /// Answer those who asked.
    Answer { requests: Vec<RequestId>, result: Result<String, String> },
    /// Close all listening sockets of the master.
    CloseSockets,
    /// Tell the service manager.
    Notify(Notice),
    /// Have [`Event::Timer`] come after a while. A timer that is set again starts anew.
    SetTimer { timer: Timer, after: Duration },
    /// Write a message.
    Log(Level, String),
    /// End with this code.
    Exit { code: i32 },
}

/// Numbers of signals, the same on every Linux.
#[cfg(test)]
pub(crate) const SIGINT: i32 = 2;
pub(crate) const SIGKILL: i32 = 9;
pub(crate) const SIGUSR1: i32 = 10;
pub(crate) const SIGTERM: i32 = 15;
