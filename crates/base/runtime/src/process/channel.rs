//! The line between a master and its workers: messages over a unix socket that keeps their bounds, descriptors with
//! them.
//!
//! A message is JSON of at most [`MESSAGE_MAX`] bytes and carries at most [`DESCRIPTORS_MAX`] descriptors; what is
//! larger (a configuration) goes as a file in memory ([`super::message::PlanFile`]). The end of the other process is the end
//! of the stream.

use crate::system::register;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The longest message.
pub(crate) const MESSAGE_MAX: usize = 64 * 1024;
/// The most descriptors in one message; the kernel allows 253.
pub(crate) const DESCRIPTORS_MAX: usize = 32;
/// The longest text in a message; longer ones are cut.
pub(crate) const TEXT_MAX: usize = 16 * 1024;

/// Two connected ends.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}

/// Cuts a text to [`TEXT_MAX`] bytes, between characters.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let mut end = TEXT_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(" ...");
    }
    text
}

/// A message with its descriptors, ready to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    descriptors: Vec<Arc<dyn Descriptor>>,
}

/// Anything that can be sent as a descriptor.
pub(crate) trait Descriptor: std::fmt::Debug {
    fn borrow(&self) -> BorrowedFd<'_>;
}

impl<D: AsFd + std::fmt::Debug> Descriptor for D {
    fn borrow(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Outgoing {
    pub(crate) fn new(message: &impl Serialize, descriptors: Vec<Arc<dyn Descriptor>>) -> io::Result<Self> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MESSAGE_MAX || descriptors.len() > DESCRIPTORS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a message to another process is too long"));
        }
        Ok(Self { bytes, descriptors })
    }
}

/// Sends one message if there is room.
fn send(socket: BorrowedFd<'_>, outgoing: &Outgoing) -> Result<(), Errno> {
    let borrowed: Vec<BorrowedFd<'_>> = outgoing.descriptors.iter().map(|descriptor| descriptor.borrow()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&outgoing.bytes)], &mut control, flags).map(|_| ())
}

/// The receiving half of a channel's end, with its socket.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: AsyncFd<OwnedFd>,
    /// What did not fit into the socket's buffer, in order.
    queue: std::cell::RefCell<VecDeque<Outgoing>>,
}

impl Channel {
    /// Must be called inside a runtime.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            socket: register(socket, Interest::READABLE | Interest::WRITABLE)?,
            queue: std::cell::RefCell::default(),
        })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends now if there is room; otherwise when [`Self::flush`] finds some. Never blocks.
    pub(crate) fn post(&self, outgoing: Outgoing) -> io::Result<()> {
        let mut queue = self.queue.borrow_mut();
        if !queue.is_empty() {
            queue.push_back(outgoing);
            return Ok(());
        }
        match send(self.socket.as_fd(), &outgoing) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN | Errno::TOOMANYREFS | Errno::INTR) => {
                queue.push_back(outgoing);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether something waits to be sent.
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.borrow().is_empty()
    }

    /// Sends what is queued; returns when nothing is.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        while self.has_queue() {
            let mut ready = self.socket.writable().await?;
            let result = match self.queue.borrow().front() {
                Some(outgoing) => send(self.socket.as_fd(), outgoing),
                None => break,
            };
            match result {
                Ok(()) => drop(self.queue.borrow_mut().pop_front()),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                // Too many descriptors are on their way: the other side has to take some first.
                Err(Errno::TOOMANYREFS) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A message that is there already.
    pub(crate) fn try_receive<M: DeserializeOwned>(&self) -> Received<M> {
        match receive_now(self.socket.as_fd()) {
            Ok(received) => received,
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The next message and its descriptors: fewer than were sent where this process may not have more. `None` when the other side is gone.
    pub(crate) async fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        loop {
            let mut ready = self.socket.readable().await?;
            match receive_now(self.socket.as_fd()) {
                Ok(received) => return received,
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

type Received<M> = io::Result<Option<(M, Vec<OwnedFd>)>>;

fn receive_now<M: DeserializeOwned>(socket: BorrowedFd<'_>) -> Result<Received<M>, Errno> {
    let mut bytes = vec![0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(Ok(None));
    }
    // NOTE: `CTRUNC` means that this process has no room for descriptors. Who cannot do without them says so, and goes on.
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Ok(Err(io::Error::new(io::ErrorKind::InvalidData, "a message from another process was cut")));
    }
    bytes.truncate(received.bytes);
    Ok(serde_json::from_slice(&bytes).map(|message| Some((message, descriptors))).map_err(io::Error::from))
}

/// A file in memory with this content, for passing on.
pub(crate) fn memory_file(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    // Several processes hold it: none may change it under another's eyes.
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Reads a file in memory from its beginning, without moving the position that all its holders share.
pub(crate) fn read_memory_file(file: impl AsFd) -> io::Result<Vec<u8>> {
    let file = file.as_fd();
    let size = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
    let mut content = Vec::with_capacity(size);
    while content.len() < size {
        let offset = content.len() as u64;
        if rustix::io::pread(file, spare_capacity(&mut content), offset)? == 0 {
            break;
        }
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn messages_and_descriptors_arrive() {
        block_on(async {
            let (one, two) = pair().unwrap();
            let (one, two) = (Channel::new(one).unwrap(), Channel::new(two).unwrap());
            let file: Arc<dyn Descriptor> = Arc::new(memory_file("test", b"content").unwrap());
            // More than the socket takes at once, so that some are queued.
            for number in 0..2000u32 {
                let text = "x".repeat(1000);
                one.post(Outgoing::new(&(number, text), vec![Arc::clone(&file)]).unwrap()).unwrap();
            }
            assert!(one.has_queue());
            let read = async {
                for number in 0..2000u32 {
                    let (message, descriptors): ((u32, String), _) = two.receive().await.unwrap().unwrap();
                    assert_eq!(message.0, number);
                    assert_eq!(descriptors.len(), 1);
                    assert_eq!(read_memory_file(&descriptors[0]).unwrap(), b"content");
                }
            };
            let ((), flushed) = tokio::join!(read, one.flush());
            flushed.unwrap();
            drop(one);
            assert!(two.receive::<u32>().await.unwrap().is_none());
        });
    }

    #[test]
    fn too_long_a_message_is_refused_and_garbage_is_an_error() {
        assert!(Outgoing::new(&"x".repeat(MESSAGE_MAX), Vec::new()).is_err());
        assert!(cut("ä".repeat(TEXT_MAX)).len() <= TEXT_MAX + 4);
        block_on(async {
            let (one, two) = pair().unwrap();
            rustix::io::write(&one, b"{nonsense").unwrap();
            assert!(Channel::new(two).unwrap().receive::<u32>().await.is_err());
        });
    }
}
