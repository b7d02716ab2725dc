//! Conversations with a master: bytes from a client, steps of the role, answers from the master and its workers.
//!
//! A command for a worker gets a pair of sockets of its own: one end goes to the worker, which answers there as on a stats
//! socket, the other one is read here until its end. So one that is slow holds up nobody but who asked it.

use super::control::Inside;
use super::conversation::{Conversation, Order, Step};
use super::role::MasterStatus;
use crate::system::register;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

/// Bytes passed on at a time.
const PART: usize = 16 * 1024;
/// How long a client may take to send its first command, where whoever has the right user may connect.
pub(crate) const FIRST_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a client may take to read what it was sent.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// What a conversation wants of the master.
#[derive(Debug)]
pub(crate) enum ConversationRequest {
    /// To know how things stand.
    Status(oneshot::Sender<MasterStatus>),
    /// To give this socket to the worker with this number, which answers there.
    Talk { pid: u32, socket: OwnedFd },
    /// To do something, and to answer this client.
    Order { order: Order, client: OwnedFd },
}

/// Talks with a client until one side has had enough.
pub(crate) async fn serve(
    client: OwnedFd,
    mut conversation: Box<dyn Conversation>,
    asked: mpsc::UnboundedSender<ConversationRequest>,
    inside: Inside,
    first_time_max: Option<Duration>,
) -> io::Result<()> {
    let client = register(client, Interest::READABLE | Interest::WRITABLE)?;
    let mut inside = Some(inside);
    let mut part = vec![0; 1024];
    loop {
        loop {
            let (sender, status) = oneshot::channel();
            let _ = asked.send(ConversationRequest::Status(sender));
            let Ok(status) = status.await else { return Ok(()) };
            match conversation.next(&status) {
                Step::Wait => break,
                Step::Say(text) => send(&client, text.as_bytes()).await?,
                Step::Relay { pid, text, then } => {
                    relay(&client, &asked, pid, &text).await?;
                    send(&client, then.as_bytes()).await?;
                }
                Step::Order(order) => {
                    let _ = asked.send(ConversationRequest::Order { order, client: client.into_inner() });
                    return Ok(());
                }
                Step::End(text) => return send(&client, text.as_bytes()).await,
            }
            // What it wanted first has been done: whoever waits for it to be heard need not wait for the rest.
            inside = None;
        }
        let first = first_time_max.filter(|_| inside.is_some());
        let count = match first {
            Some(limit) => match tokio::time::timeout(limit, read(&client, &mut part)).await {
                Ok(count) => count?,
                Err(_) => return Ok(()),
            },
            None => read(&client, &mut part).await?,
        };
        if count == 0 {
            return Ok(());
        }
        conversation.feed(part.get(..count).unwrap_or_default());
    }
}

/// Passes a command on to a worker and its answer back.
async fn relay(
    client: &AsyncFd<OwnedFd>,
    asked: &mpsc::UnboundedSender<ConversationRequest>,
    pid: u32,
    text: &str,
) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let _ = asked.send(ConversationRequest::Talk { pid, socket: theirs });
    let worker = register(ours, Interest::READABLE | Interest::WRITABLE)?;
    // A worker that is gone meanwhile is an answer without a word.
    let sent = send(&worker, text.as_bytes()).await;
    if sent.is_err() {
        return Ok(());
    }
    rustix::net::shutdown(worker.get_ref(), Shutdown::Write)?;
    let mut part = vec![0; PART];
    loop {
        match read(&worker, &mut part).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(count) => send(client, part.get(..count).unwrap_or_default()).await?,
        }
    }
}

async fn read(socket: &AsyncFd<OwnedFd>, part: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut ready = socket.readable().await?;
        match rustix::io::read(socket.get_ref(), &mut *part) {
            Ok(count) => return Ok(count),
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

async fn send(socket: &AsyncFd<OwnedFd>, mut rest: &[u8]) -> io::Result<()> {
    let sending = async {
        while !rest.is_empty() {
            let mut ready = socket.writable().await?;
            match rustix::net::send(socket.get_ref(), rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    };
    match tokio::time::timeout(ANSWER_TIME_MAX, sending).await {
        Ok(sent) => sent,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
