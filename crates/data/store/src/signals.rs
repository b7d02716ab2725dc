//! Signals that end the store: SIGTERM and SIGINT.

use std::io::{self, Read as _};

use mio::net::UnixStream;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    low_level::pipe,
};

/// A socket that becomes readable when a signal has come.
#[derive(Debug)]
pub struct Signals {
    receiver: UnixStream,
}

impl Signals {
    /// Takes the signals over.
    pub fn new() -> io::Result<Self> {
        let (receiver, sender) = std::os::unix::net::UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        for signal in [SIGTERM, SIGINT] {
            pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Self { receiver: UnixStream::from_std(receiver) })
    }

    /// What to wait for.
    pub fn source(&mut self) -> &mut UnixStream {
        &mut self.receiver
    }

    /// Whether one has come.
    pub fn received(&mut self) -> bool {
        matches!(self.receiver.read(&mut [0; 16]), Ok(len) if len > 0)
    }
}
