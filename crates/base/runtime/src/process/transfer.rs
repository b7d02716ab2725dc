//! Handing listening sockets from one process to another over a unix socket, as HAProxy's `_getsocks` does, so that
//! either can take over from the other.
//!
//! The client sends `_getsocks` and a line end. The server answers with the number of sockets (an `int` in the
//! machine's byte order), then with messages of up to 253 descriptors each. The data of a message has for each of
//! its descriptors: a byte with the length of the name space's name and the name, a byte with the length of the
//! interface's name and the name, and four bytes of zero. After each message the client sends an `int`; the server
//! waits for it before it sends another.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// HAProxy's `MAX_SEND_FD`.
const DESCRIPTORS_MAX: usize = 252;
/// More sockets than any process may have open.
const SOCKETS_MAX: usize = 1 << 20;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
const INT: usize = size_of::<i32>();

/// A listening socket of another process.
#[derive(Debug)]
pub struct ReceivedSocket {
    /// The socket.
    pub descriptor: OwnedFd,
    /// The interface that it is bound to, or nothing.
    pub interface: String,
}

/// A listening socket to be handed on.
#[derive(Debug, Clone, Copy)]
pub struct SentSocket<'a> {
    /// The socket.
    pub descriptor: BorrowedFd<'a>,
    /// The interface that it is bound to, or nothing.
    pub interface: &'a str,
}

/// Asks the process that listens on the unix socket at `path` for its listening sockets.
pub fn receive(path: &Path) -> io::Result<Vec<ReceivedSocket>> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    stream.write_all(b"_getsocks\n")?;
    let mut count = [0; INT];
    stream.read_exact(&mut count)?;
    let count = usize::try_from(i32::from_ne_bytes(count)).unwrap_or(0);
    if count > SOCKETS_MAX {
        return Err(invalid("more sockets than there can be"));
    }
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    let mut data = Vec::new();
    while descriptors.len() < count {
        let mut part = vec![0; DESCRIPTORS_MAX * (2 + 255 + 255 + INT)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX + 1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(&stream, &mut [IoSliceMut::new(&mut part)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if received.bytes == 0 {
            return Err(invalid("the old process ended in the middle"));
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        data.extend_from_slice(part.get(..received.bytes).unwrap_or_default());
        let got = i32::try_from(descriptors.len()).unwrap_or(i32::MAX);
        // The server need not wait for the last one.
        let sent = stream.write_all(&got.to_ne_bytes());
        if descriptors.len() < count {
            sent?;
        }
    }
    if descriptors.len() != count {
        return Err(invalid("more sockets than announced"));
    }
    let mut rest = data.as_slice();
    let mut sockets = Vec::with_capacity(count);
    for descriptor in descriptors {
        let _name_space = take_name(&mut rest)?;
        let interface = take_name(&mut rest)?;
        rest = rest.get(INT..).ok_or_else(|| invalid("a socket without its description"))?;
        sockets.push(ReceivedSocket { descriptor, interface: String::from_utf8_lossy(interface).into_owned() });
    }
    Ok(sockets)
}

fn take_name<'a>(rest: &mut &'a [u8]) -> io::Result<&'a [u8]> {
    let missing = || invalid("a socket without its description");
    let (length, after) = rest.split_first().ok_or_else(missing)?;
    let (name, after) = after.split_at_checked(usize::from(*length)).ok_or_else(missing)?;
    *rest = after;
    Ok(name)
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

/// Answers `_getsocks` on a connection whose request line has been read. Blocks for at most a second a message: call
/// it on a thread that may.
pub fn send(stream: &mut UnixStream, sockets: &[SentSocket<'_>]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    stream.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    let count = i32::try_from(sockets.len()).unwrap_or(i32::MAX);
    stream.write_all(&count.to_ne_bytes())?;
    let mut chunks = sockets.chunks(DESCRIPTORS_MAX).peekable();
    while let Some(chunk) = chunks.next() {
        let mut data = Vec::new();
        for socket in chunk {
            let interface = socket.interface.as_bytes();
            let length = u8::try_from(interface.len()).map_err(|_| invalid("the interface's name is too long"))?;
            data.extend_from_slice(&[0, length]);
            data.extend_from_slice(interface);
            data.extend_from_slice(&[0; INT]);
        }
        let descriptors: Vec<BorrowedFd<'_>> = chunk.iter().map(|socket| socket.descriptor).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(invalid("too many sockets for one message"));
        }
        let sent = sendmsg(&*stream, &[IoSlice::new(&data)], &mut control, SendFlags::NOSIGNAL)?;
        stream.write_all(data.get(sent..).unwrap_or_default())?;
        let mut acknowledgement = [0; INT];
        if chunks.peek().is_some() {
            stream.read_exact(&mut acknowledgement)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixListener;

    fn exchange(count: usize) -> Vec<ReceivedSocket> {
        let path = std::env::temp_dir().join(format!("tidegate-transfer-{}-{count}", std::process::id()));
        let server = UnixListener::bind(&path).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let received = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = server.accept().unwrap();
                let mut line = [0; 10];
                stream.read_exact(&mut line).unwrap();
                assert_eq!(&line, b"_getsocks\n");
                let sockets: Vec<_> =
                    (0..count).map(|_| SentSocket { descriptor: listener.as_fd(), interface: "lo" }).collect();
                send(&mut stream, &sockets).unwrap();
                // Until the client has read everything.
                let _ = stream.read_to_end(&mut Vec::new());
            });
            receive(&path).unwrap()
        });
        std::fs::remove_file(&path).unwrap();
        let address = listener.local_addr().unwrap();
        for socket in &received {
            let bound = socket2::SockRef::from(&socket.descriptor).local_addr().unwrap().as_socket();
            assert_eq!((bound, socket.interface.as_str()), (Some(address), "lo"));
        }
        received
    }

    #[test]
    fn sockets_are_handed_on() {
        for count in [0, 1, DESCRIPTORS_MAX, DESCRIPTORS_MAX + 1, 600] {
            assert_eq!(exchange(count).len(), count);
        }
    }

    #[test]
    fn cut_descriptions_are_errors() {
        for data in [&b""[..], b"\x05abc"] {
            assert!(take_name(&mut &*data).is_err());
        }
    }
}
