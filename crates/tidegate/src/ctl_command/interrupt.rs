//! Ctrl-C in a shell ends the command that runs, not the shell: the connection that it waits for is shut down.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use signal_hook::{consts::SIGINT, iterator::Signals};

use super::place::Connection;

/// What Ctrl-C ends; without a watch it ends the program, as always.
#[derive(Clone, Default)]
pub struct Interrupts {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    connection: Mutex<Option<Box<dyn Connection>>>,
    was_seen: AtomicBool,
}

impl Interrupts {
    /// Has Ctrl-C end commands from now on.
    ///
    /// # Errors
    /// The signal cannot be had.
    pub fn watch(&self) -> io::Result<()> {
        let mut signals = Signals::new([SIGINT])?;
        let shared = Arc::clone(&self.shared);
        let wait = move || {
            for _ in signals.forever() {
                shared.was_seen.store(true, Relaxed);
                if let Some(connection) = &*shared.connection.lock().unwrap_or_else(PoisonError::into_inner) {
                    connection.shut();
                }
            }
        };
        thread::Builder::new().name("interrupts".into()).spawn(wait).map(drop)
    }

    /// Has Ctrl-C end this connection as long as the guard lives.
    ///
    /// # Errors
    /// The connection has no second handle.
    pub fn end(&self, connection: &dyn Connection) -> io::Result<Guard<'_>> {
        self.shared.was_seen.store(false, Relaxed);
        *self.shared.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection.another()?);
        Ok(Guard(&self.shared))
    }

    /// Whether the last command was ended so.
    pub fn was_seen(&self) -> bool {
        self.shared.was_seen.load(Relaxed)
    }
}

/// A command that runs.
pub struct Guard<'i>(&'i Shared);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        *self.0.connection.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
