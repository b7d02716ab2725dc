//! Signals as a stream.
//!
//! SIGPIPE is ignored by Rust's start-up code. A worker leaves SIGTERM and SIGINT to the system, which ends it at
//! once, whatever its threads do.

use crate::system;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Signals that this crate listens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caught {
    /// SIGHUP.
    HangUp,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
    /// SIGTERM or SIGINT.
    End(i32),
    /// SIGCHLD.
    Child,
    /// SIGQUIT: HAProxy shows its memory then, and goes on.
    Quit,
    /// SIGALRM: nothing, but it must not end a process, as it ends none of HAProxy's.
    Alarm,
    /// SIGTTOU: stop accepting.
    Pause,
    /// SIGTTIN: go on.
    Resume,
}

/// What a master listens to.
pub(crate) const MASTER: &[Caught] = &[
    Caught::HangUp,
    Caught::User1,
    Caught::User2,
    Caught::End(libc::SIGTERM),
    Caught::End(libc::SIGINT),
    Caught::Child,
    Caught::Quit,
    Caught::Alarm,
    Caught::Pause,
    Caught::Resume,
];

/// What a process that serves listens to.
pub(crate) const SERVING: &[Caught] =
    &[Caught::HangUp, Caught::User1, Caught::User2, Caught::Quit, Caught::Alarm, Caught::Pause, Caught::Resume];

/// The signals that would end a process without handlers, and news of children: held back while programs change.
const HELD_BACK: &[i32] = &[
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGCHLD,
    libc::SIGQUIT,
    libc::SIGALRM,
    libc::SIGTTOU,
    libc::SIGTTIN,
];

fn number(caught: Caught) -> i32 {
    match caught {
        Caught::HangUp => libc::SIGHUP,
        Caught::User1 => libc::SIGUSR1,
        Caught::User2 => libc::SIGUSR2,
        Caught::End(number) => number,
        Caught::Child => libc::SIGCHLD,
        Caught::Quit => libc::SIGQUIT,
        Caught::Alarm => libc::SIGALRM,
        Caught::Pause => libc::SIGTTOU,
        Caught::Resume => libc::SIGTTIN,
    }
}

/// Holds signals back until [`listen`] is called, in this program or in the one that replaces it.
pub(crate) fn hold_back() -> io::Result<()> {
    system::block_signals(HELD_BACK)
}

/// Says how much memory the process has, for SIGQUIT.
pub(crate) fn log_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default().trim();
    crate::log::notice!("SIGQUIT: {resident} resident");
}

/// Lets signals through that were held back.
pub(crate) fn let_through() -> io::Result<()> {
    system::unblock_signals(HELD_BACK)
}

/// Sends every signal of `which` to the returned channel from now on. Must be called inside a runtime.
pub(crate) fn listen(which: &[Caught]) -> io::Result<mpsc::UnboundedReceiver<Caught>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut which = which.to_vec();
    if rustix::process::getpid().is_init() && !which.contains(&Caught::End(libc::SIGTERM)) {
        // The system does not end the first process of a container by these unless it listens to them.
        which.extend([Caught::End(libc::SIGTERM), Caught::End(libc::SIGINT)]);
    }
    for caught in which {
        let mut stream: Signal = signal(SignalKind::from_raw(number(caught)))?;
        let sender = sender.clone();
        tokio::task::spawn_local(async move {
            while stream.recv().await.is_some() {
                if sender.send(caught).is_err() {
                    break;
                }
            }
        });
    }
    let_through()?;
    Ok(receiver)
}
