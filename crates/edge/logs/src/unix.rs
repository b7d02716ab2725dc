//! A syslog daemon behind a unix datagram socket.

use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
    sync::{Mutex, PoisonError},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType},
};

use super::loss::Loss;

/// A connected socket, connected again when the daemon is restarted.
#[derive(Debug)]
pub(super) struct UnixSyslog {
    /// The path, or a NUL and an abstract name.
    name: Vec<u8>,
    socket: Mutex<Option<OwnedFd>>,
}

impl UnixSyslog {
    pub(super) fn open(name: Vec<u8>) -> Self {
        let socket = Mutex::new(connect(&name).ok());
        Self { name, socket }
    }

    /// Where it is, as the configuration has it.
    pub(super) fn name(&self) -> String {
        match self.name.strip_prefix(&[0]) {
            Some(name) => format!("abns@{}", String::from_utf8_lossy(name)),
            None => String::from_utf8_lossy(&self.name).into_owned(),
        }
    }

    /// Sends lines, each a datagram.
    ///
    /// Where nobody listens, each call tries anew: it costs little, and no line is lost that a daemon would have taken.
    pub(super) fn send<'a>(&self, lines: impl ExactSizeIterator<Item = &'a [u8]>) -> Loss {
        let mut loss = Loss::default();
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = lines.peekable();
        // A daemon that goes away again at once is not waited for.
        let mut may_connect = true;
        while let Some(line) = lines.peek() {
            let Some(connected) = &*socket else {
                let connected = if may_connect { connect(&self.name) } else { Err(io::ErrorKind::NotConnected.into()) };
                may_connect = false;
                match connected {
                    Ok(new) => *socket = Some(new),
                    Err(error) => {
                        loss.fail(lines.len() as u64, error);
                        return loss;
                    }
                }
                continue;
            };
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::sendmsg(connected, &[IoSlice::new(line)], &mut SendAncillaryBuffer::default(), flags) {
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => loss.dropped += 1,
                // The daemon went away; the next turn of the loop looks for a new one.
                Err(Errno::CONNREFUSED | Errno::NOTCONN | Errno::CONNRESET | Errno::PIPE) => {
                    *socket = None;
                    continue;
                }
                Err(error) => loss.fail(1, error.into()),
            }
            lines.next();
        }
        loss
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
