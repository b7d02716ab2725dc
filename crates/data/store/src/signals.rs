//! Signals that end the store: SIGTERM and SIGINT.
//!
//! A thread takes them, so that they are heard too while the loop does not run: while the store starts, which may take as long as
//! its log is, and while it ends. Neither loses anything by ending at once: what is acknowledged is in the log.

use std::{
    io::{self, Read as _, Write as _},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use mio::net::UnixStream;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag, iterator,
    low_level::exit,
};

use crate::{messages, supervisor::Supervisor};

/// What the thread and the loop know of one another.
#[derive(Debug, Default)]
struct Known {
    /// The store serves.
    serves: AtomicBool,
    /// The store was told to end.
    is_told: AtomicBool,
    /// What is removed when the process ends at once.
    process_file: Mutex<Option<PathBuf>>,
}

/// The thread that takes signals, as the rest of the program sees it.
#[derive(Debug, Clone)]
pub struct Watch(Arc<Known>);

impl Watch {
    /// From now on the store serves, and its loop ends it.
    pub fn serving(&self) {
        self.0.serves.store(true, Ordering::SeqCst);
    }

    /// The store goes on.
    pub fn forget(&self) {
        self.0.is_told.store(false, Ordering::SeqCst);
    }

    /// The file that is removed if the store ends at once.
    pub fn set_process_file(&self, path: Option<PathBuf>) {
        *self.0.process_file.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }
}

/// A socket that becomes readable when a signal has come.
#[derive(Debug)]
pub struct Signals {
    receiver: UnixStream,
    /// The thread that sends.
    pub watch: Watch,
}

impl Signals {
    /// Takes the signals over.
    pub fn new(supervisor: Supervisor) -> io::Result<Self> {
        let (receiver, mut sender) = std::os::unix::net::UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        // A terminal that is closed ends nothing, as in Redis.
        flag::register(SIGHUP, Arc::default())?;
        let mut signals = iterator::Signals::new([SIGTERM, SIGINT])?;
        let known = Arc::<Known>::default();
        let watch = Watch(Arc::clone(&known));
        let take = move || {
            for signal in signals.forever() {
                let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
                let was_told = known.is_told.swap(true, Ordering::SeqCst);
                let leave = |text: &str, code| -> ! {
                    messages::warn(text);
                    supervisor.stopping(text);
                    if let Some(path) = known.process_file.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        let _ = std::fs::remove_file(path);
                    }
                    exit(code)
                };
                if was_told && signal == SIGINT {
                    leave("You insist... exiting now.", 1);
                }
                if !known.serves.load(Ordering::SeqCst) {
                    leave("Received shutdown signal during loading, exiting now: the next start begins again.", 0);
                }
                messages::warn(&format!("Received {name} scheduling shutdown..."));
                // A loop that has gone does not wait.
                let _ = sender.write_all(&[signal.unsigned_abs() as u8]);
            }
        };
        thread::Builder::new().name("store-signals".into()).spawn(take)?;
        Ok(Self { receiver: UnixStream::from_std(receiver), watch })
    }

    /// What to wait for.
    pub fn source(&mut self) -> &mut UnixStream {
        &mut self.receiver
    }

    /// The signal that has come: the last, if there are several.
    pub fn received(&mut self) -> Option<Ending> {
        let mut bytes = [0; 64];
        let len = self.receiver.read(&mut bytes).ok()?;
        let last = bytes.get(..len).and_then(<[u8]>::last)?;
        Some(if i32::from(*last) == SIGINT { Ending::Interrupt } else { Ending::Terminate })
    }
}

/// A signal that ends the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
}
