//! A syslog daemon behind a unix datagram socket.

use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType},
};

use super::output::Loss;

/// How long a path that nobody listens at is left alone.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A connected socket, connected again when the daemon is restarted.
#[derive(Debug)]
pub(super) struct UnixSyslog {
    /// The path, or a NUL and an abstract name.
    name: Vec<u8>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    socket: Option<OwnedFd>,
    retry_at: Option<Instant>,
}

impl UnixSyslog {
    pub(super) fn open(name: Vec<u8>) -> Self {
        let socket = connect(&name).ok();
        Self { name, state: Mutex::new(State { socket, retry_at: None }) }
    }

    /// Where it is, as the configuration has it.
    pub(super) fn name(&self) -> String {
        match self.name.strip_prefix(&[0]) {
            Some(name) => format!("abns@{}", String::from_utf8_lossy(name)),
            None => String::from_utf8_lossy(&self.name).into_owned(),
        }
    }

    /// Sends lines, each a datagram.
    pub(super) fn send<'a>(&self, lines: impl ExactSizeIterator<Item = &'a [u8]>) -> Loss {
        let mut loss = Loss::default();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = lines.peekable();
        while let Some(line) = lines.peek() {
            let Some(socket) = &state.socket else {
                if let Err(error) = state.reconnect(&self.name) {
                    loss.fail(lines.len() as u64, error);
                    return loss;
                }
                continue;
            };
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::sendmsg(socket, &[IoSlice::new(line)], &mut SendAncillaryBuffer::default(), flags) {
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => loss.dropped += 1,
                // The daemon went away; the next turn of the loop looks for a new one.
                Err(Errno::CONNREFUSED | Errno::NOTCONN | Errno::CONNRESET | Errno::PIPE) => {
                    state.socket = None;
                    continue;
                }
                Err(error) => loss.fail(1, error.into()),
            }
            lines.next();
        }
        loss
    }
}

impl State {
    fn reconnect(&mut self, name: &[u8]) -> io::Result<()> {
        let now = Instant::now();
        if self.retry_at.is_some_and(|at| now < at) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.retry_at = Some(now + RETRY_AFTER);
        self.socket = Some(connect(name)?);
        Ok(())
    }
}

fn connect(name: &[u8]) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let address = match name.strip_prefix(b"\0") {
        Some(name) => SocketAddrUnix::new_abstract_name(name)?,
        None => SocketAddrUnix::new(name)?,
    };
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}
