//! Moving bytes of a file to a socket, without copying them into the process.

use std::{
    io,
    os::fd::BorrowedFd,
    task::{Context, Poll, ready},
};

use rustix::fs::sendfile;
use tokio::io::Interest;

use crate::stream::PlainSocket;

/// Sends up to `most` bytes of `file` from `offset` on; ready with how many bytes the socket took, 0 where the file has ended.
///
/// IMPORTANT: it waits for the disk where these bytes are not in memory.
///
/// # Errors
/// The socket's, or the file's.
pub fn poll_send_file(
    to: PlainSocket<'_>,
    (file, offset): (BorrowedFd<'_>, u64),
    most: usize,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    loop {
        let sent = to.try_io(Interest::WRITABLE, |to| {
            let mut at = offset;
            sendfile(to, file, Some(&mut at), most).map_err(io::Error::from)
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(to.poll_writable(context))?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => return Poll::Ready(sent),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, io::Write as _, os::fd::AsFd as _};

    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::Stream;

    #[tokio::test]
    async fn a_part_of_a_file_is_sent() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let (near, mut far) = tokio::net::UnixStream::pair().unwrap();
        let near = Stream::Unix(near);
        let sent = |offset, most| {
            let (near, file) = (&near, &file);
            poll_fn(move |context| poll_send_file(near.plain().unwrap(), (file.as_fd(), offset), most, context))
        };
        assert_eq!(sent(2, 3).await.unwrap(), 3);
        assert_eq!(sent(8, 100).await.unwrap(), 2);
        assert_eq!(sent(10, 100).await.unwrap(), 0);
        drop(near);
        let mut received = String::new();
        far.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "23489");
    }
}
