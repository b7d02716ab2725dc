//! Commanding a running master: `tidegate reload`, `upgrade`, `drain`, `stop` and `status`.
//!
//! A master listens on the abstract unix socket `tidegate-PID` of its network name space, for processes of its own
//! user and of root, and on whatever `-S` says. What a client may say there is the role's business
//! ([`super::Conversation`]); an order is answered with `Success=1` or `Success=0`, a line `--`, and then text, which is
//! how HAProxy since 2.7 answers `reload`.

use super::conversation::Conversation;
use super::talk::{self, ConversationRequest, FIRST_TIME_MAX};
use crate::listen::{NoConnection, Stream, accept_one};
use crate::log;
use crate::system::register;
use std::cell::Cell;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::sync::{Notify, Semaphore, mpsc};

/// Clients at a time.
const CLIENTS_MAX: usize = 32;
/// How long an answer may take to be sent.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// Where a master is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The master with this process number.
    Pid(u32),
    /// The master whose control socket (`-S`) has this path.
    Path(PathBuf),
}

/// A master's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Whether it did what it was told.
    pub success: bool,
    /// What it says about it.
    pub text: String,
}

/// Sends `line` to a master and waits for its answer. A reload is answered when it is done.
pub fn request(target: &Target, line: &str) -> io::Result<Reply> {
    let mut stream = match target {
        Target::Pid(pid) => UnixStream::connect_addr(&address(*pid)?)?,
        Target::Path(path) => UnixStream::connect(path)?,
    };
    stream.write_all(format!("{line}\n").as_bytes())?;
    // Nothing more is coming: an answer that ends no conversation would otherwise not be the last.
    stream.shutdown(Shutdown::Write)?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    if text.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the master gave no answer"));
    }
    Ok(Reply::parse(&text))
}

/// The process number in a pidfile.
pub fn read_pidfile(path: &std::path::Path) -> io::Result<u32> {
    let text = std::fs::read_to_string(path)?;
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no process number in it"))
}

impl Reply {
    fn parse(text: &str) -> Self {
        match text.strip_prefix("Success=").and_then(|rest| rest.split_once("\n--\n")) {
            Some((success, text)) => Self { success: success == "1", text: text.trim_end().to_owned() },
            None => Self { success: true, text: text.trim_end().to_owned() },
        }
    }

    pub(crate) fn from_result(result: Result<String, String>) -> Self {
        match result {
            Ok(text) => Self { success: true, text },
            Err(text) => Self { success: false, text },
        }
    }

    fn format(&self) -> String {
        format!("Success={}\n--\n{}\n", u8::from(self.success), self.text)
    }
}

fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("tidegate-{pid}"))
}

/// The socket that is found by this process' number.
pub(crate) fn listen_by_pid() -> io::Result<OwnedFd> {
    let socket = UnixListener::bind_addr(&address(std::process::id())?)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Lets no new clients in while the program is being replaced: they wait in the kernel for the new one.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: Cell<bool>,
    /// Clients that have been let in and have not sent their line yet.
    inside: Cell<usize>,
    opened: Notify,
}

impl Gate {
    pub(crate) fn close(&self) {
        self.closed.set(true);
    }

    pub(crate) fn open(&self) {
        self.closed.set(false);
        self.opened.notify_waiters();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inside.get() == 0
    }

    async fn wait(&self) {
        while self.closed.get() {
            self.opened.notified().await;
        }
    }
}

/// A client between its arrival and its line.
#[derive(Debug)]
pub(crate) struct Inside(Rc<Gate>);

impl Inside {
    fn new(gate: &Rc<Gate>) -> Self {
        gate.inside.set(gate.inside.get() + 1);
        Self(Rc::clone(gate))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.set(self.0.inside.get() - 1);
    }
}

/// Takes clients of a control socket for as long as the process lives. `open_to_all`: the file's permissions, or
/// whoever gave us the socket, decide who may connect; otherwise it must be our user or root.
pub(crate) async fn serve(
    socket: OwnedFd,
    open_to_all: bool,
    gate: Rc<Gate>,
    asked: mpsc::UnboundedSender<ConversationRequest>,
    begin: impl Fn() -> Box<dyn Conversation>,
) -> io::Result<()> {
    let socket = register(socket, Interest::READABLE)?;
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let mut ready = socket.readable().await?;
        gate.wait().await;
        let client = match accept_one(&socket) {
            Ok((Stream::Unix(stream), _)) if open_to_all || is_friend(&stream) => OwnedFd::from(stream),
            Ok((Stream::Tcp(stream), _)) if open_to_all => OwnedFd::from(stream),
            Ok(_) => continue,
            Err(NoConnection::Empty) => {
                ready.clear_ready();
                continue;
            }
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (asked, conversation) = (asked.clone(), begin());
        let inside = Inside::new(&gate);
        let first_time_max = (!open_to_all).then_some(FIRST_TIME_MAX);
        tokio::task::spawn_local(async move {
            let _place = place;
            // A client that left is no one's problem but its own.
            let _ = talk::serve(client, conversation, asked, inside, first_time_max).await;
        });
    }
}

fn is_friend(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

/// Answers a client and lets it go.
pub(crate) fn answer(client: OwnedFd, reply: &Reply) {
    if let Err(error) = answer_plain(client, &reply.format()) {
        log::warning!("cannot answer on the control socket: {error}");
    }
}

/// Answers with a text of its own form.
pub(crate) fn answer_plain(client: OwnedFd, text: &str) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&client, false)?;
    let timeout = Some(ANSWER_TIME_MAX);
    rustix::net::sockopt::set_socket_timeout(&client, rustix::net::sockopt::Timeout::Send, timeout)?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let count = rustix::net::send(client.as_fd(), rest, rustix::net::SendFlags::NOSIGNAL)?;
        rest = rest.get(count..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_as_written() {
        for reply in [
            Reply { success: true, text: "done".into() },
            Reply { success: false, text: "line 1: unknown keyword\nline 2: another".into() },
        ] {
            assert_eq!(Reply::parse(&reply.format()), reply);
        }
        assert_eq!(Reply::parse("#<PID> <type>\n"), Reply { success: true, text: "#<PID> <type>".into() });
    }
}
