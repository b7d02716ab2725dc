//! Old processes that this one takes over from: `-sf`, `-st` and `-x`.

use super::options::{EndOldProcesses, OldProcesses};
use crate::listen::{Address, BindError, ListenSpec, Prepared, SocketTable, neighbour};
use crate::log;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How often binding is tried while old processes give their addresses up, and how long each waits.
const TRIES: usize = 100;
const TRY_EVERY: Duration = Duration::from_millis(10);

impl OldProcesses {
    fn signal(&self, signal: Signal) -> usize {
        let own = std::process::id();
        self.pids
            .iter()
            .filter(|pid| **pid != own)
            .filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?))
            .filter(|pid| kill_process(*pid, signal).is_ok())
            .count()
    }

    /// Tells them to end, now that their successor serves.
    pub(crate) fn end(&self) {
        let signal = match self.how {
            EndOldProcesses::Finish => Signal::USR1,
            EndOldProcesses::Terminate => Signal::TERM,
        };
        self.signal(signal);
    }
}

/// Prepares sockets. While an address is in use, old processes are asked to stop listening, and told to go on if it
/// comes to nothing.
pub(crate) fn prepare(
    table: &SocketTable,
    specs: &[ListenSpec],
    workers: usize,
    old: Option<&OldProcesses>,
    inherited: &mut Inherited,
) -> Result<Prepared, BindError> {
    let mut tries = if old.is_some() { TRIES } else { 0 };
    let mut paused = false;
    loop {
        match (table.prepare(specs, workers, &mut |spec| inherited.take(spec)), old) {
            (Err(error), Some(old)) if error.is_in_use() && tries > 0 => {
                // NOTE: SIGTTOU and not SIGUSR1: it can be taken back.
                tries = if old.signal(Signal::TTOU) == 0 { 0 } else { tries - 1 };
                paused = true;
                std::thread::sleep(TRY_EVERY);
            }
            (Err(error), Some(old)) => {
                if paused {
                    old.signal(Signal::TTIN);
                }
                return Err(error);
            }
            (result, _) => return result,
        }
    }
}

/// Why an address cannot be listened on, and who has it where that can be known.
pub(crate) fn describe(error: &BindError) -> String {
    let holder = error.address.parse().ok().filter(|_| error.is_in_use()).and_then(|address| neighbour(address, &[]));
    match holder {
        Some(holder) => format!("{error}: {holder} listens there"),
        None => error.to_string(),
    }
}

/// Listening sockets of an old process, by what they are bound to.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    sockets: HashMap<String, Vec<OwnedFd>>,
}

impl Inherited {
    /// Takes the sockets of the process that listens at `path`. Without any, all are made anew.
    pub(crate) fn from_process(path: &std::path::Path) -> Result<Self, String> {
        let sockets = super::transfer::receive(path).map_err(|error| {
            format!("Failed to get the sockets from the old process at {}: {error}", path.display())
        })?;
        let mut inherited = Self::default();
        for socket in sockets {
            match key_of(&socket.descriptor) {
                Some(key) => inherited.sockets.entry(key + &socket.interface).or_default().push(socket.descriptor),
                None => log::warning!("a socket of the old process is of a kind that is not known: dropped"),
            }
        }
        Ok(inherited)
    }

    fn take(&mut self, spec: &ListenSpec) -> Option<OwnedFd> {
        // The same address in another namespace is another one.
        if spec.namespace.is_some() {
            return None;
        }
        let address = match &spec.address {
            Address::Ip(address) => ip_key(*address),
            Address::Datagrams(address) => format!("udp@{}", ip_key(*address)),
            Address::SharedDatagrams(address) => format!("quic@{}", ip_key(*address)),
            Address::Unix(path) => format!("unix@{}", path.display()),
            Address::Abstract(name) => format!("abns@{name}"),
            Address::Inherited(_) | Address::SocketPair(_) => return None,
        };
        let sockets = self.sockets.get_mut(&(address + spec.interface.as_deref().unwrap_or_default()))?;
        let socket = sockets.pop()?;
        // The old process may have been content with a blocking one.
        rustix::io::ioctl_fionbio(&socket, true).ok()?;
        Some(socket)
    }
}

fn ip_key(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.to_string(),
        SocketAddr::V6(address) => format!("[{}]:{}", address.ip(), address.port()),
    }
}

fn key_of(socket: &OwnedFd) -> Option<String> {
    let socket = socket2::SockRef::from(socket);
    let address = socket.local_addr().ok()?;
    if let Some(address) = address.as_socket() {
        let is_stream = socket.r#type().ok()? == socket2::Type::STREAM;
        return Some(if is_stream { ip_key(address) } else { format!("udp@{}", ip_key(address)) });
    }
    if let Some(path) = address.as_pathname() {
        // HAProxy binds under a temporary name, which the socket keeps: "/path.PID.tmp".
        let text = path.to_str()?;
        let place = text.strip_suffix(".tmp").and_then(|text| text.rsplit_once('.')).map_or(text, |(place, _)| place);
        return Some(format!("unix@{place}"));
    }
    let name = address.as_abstract_namespace()?;
    Some(format!("abns@{}", std::str::from_utf8(name).ok()?.trim_end_matches('\0')))
}
