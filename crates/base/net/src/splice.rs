//! Moving bytes from one socket to another through a pipe, without copying them into the process.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    task::{Context, Poll, ready},
};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use rustix::process::{Resource, getrlimit};
use tokio::io::Interest;

use crate::stream::PlainSocket;

/// Bytes asked of one call when the pipe's size is the system's.
const CHUNK: usize = 65_536;

/// Pipes that are open in this process.
static OPEN: AtomicU32 = AtomicU32::new(0);

/// A pipe between two sockets and the number of bytes in it.
#[derive(Debug)]
pub struct Splice {
    read_end: OwnedFd,
    write_end: OwnedFd,
    held: usize,
    size: usize,
}

/// What a turn of [`Splice::poll`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spliced {
    /// So many bytes left for the destination.
    Moved(usize),
    /// The source has ended and the pipe is empty.
    Ended,
}

impl Drop for Splice {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Relaxed);
    }
}

impl Splice {
    /// A pipe of `size` bytes; 0 is the system's choice.
    ///
    /// # Errors
    /// The system's, when there are no more descriptors. The same when they grow short: connections cannot do without them.
    pub fn new(size: usize) -> io::Result<Self> {
        let (read_end, write_end) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        if !leaves_enough(write_end.as_raw_fd(), getrlimit(Resource::Nofile).current) {
            return Err(rustix::io::Errno::MFILE.into());
        }
        if size > 0 {
            // A size that the system does not grant leaves the pipe as it is.
            let _ = fcntl_setpipe_size(&write_end, size);
        }
        OPEN.fetch_add(1, Relaxed);
        Ok(Self { read_end, write_end, held: 0, size: if size == 0 { CHUNK } else { size } })
    }

    /// Pipes that are open in this process.
    #[must_use]
    pub fn open_count() -> u32 {
        OPEN.load(Relaxed)
    }

    /// Bytes in the pipe.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether no byte is in the pipe.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Moves up to `limit` bytes further, of which those in the pipe are a part.
    ///
    /// # Errors
    /// The socket that failed, and how.
    pub fn poll(
        &mut self,
        from: PlainSocket<'_>,
        to: PlainSocket<'_>,
        limit: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<Spliced, CopyError>> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        loop {
            if self.held == 0 {
                let most = usize::try_from(limit).unwrap_or(usize::MAX).min(self.size);
                ready!(from.poll_readable(context)).map_err(CopyError::Read)?;
                let taken = from.try_io(Interest::READABLE, |from| {
                    splice(from, None, self.write_end.as_fd(), None, most, flags).map_err(io::Error::from)
                });
                match taken {
                    Ok(0) => return Poll::Ready(Ok(Spliced::Ended)),
                    Ok(count) => self.held = count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    Err(error) => return Poll::Ready(Err(CopyError::Read(error))),
                }
            }
            ready!(to.poll_writable(context)).map_err(CopyError::Write)?;
            let given = to.try_io(Interest::WRITABLE, |to| {
                splice(self.read_end.as_fd(), None, to, None, self.held, flags).map_err(io::Error::from)
            });
            match given {
                Ok(count) => {
                    self.held -= count.min(self.held);
                    return Poll::Ready(Ok(Spliced::Moved(count)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(CopyError::Write(error))),
            }
        }
    }
}

/// Whether a pipe may stay whose last descriptor this is. The system gives the lowest number that is free, so a number tells
/// how many are in use. Half of them are for connections alone.
fn leaves_enough(descriptor: RawFd, limit: Option<u64>) -> bool {
    limit.is_none_or(|limit| u64::try_from(descriptor).is_ok_and(|number| number < limit / 2))
}

/// Which of two sockets failed.
#[derive(Debug)]
pub enum CopyError {
    /// The one read from.
    Read(io::Error),
    /// The one written to.
    Write(io::Error),
}

#[cfg(test)]
mod tests {
    use super::leaves_enough;

    #[test]
    fn pipes_leave_half_of_the_descriptors_to_connections() {
        for (descriptor, limit, expected) in
            [(99, Some(200), true), (100, Some(200), false), (5, Some(10), false), (1 << 20, None, true)]
        {
            assert_eq!(leaves_enough(descriptor, limit), expected, "{descriptor} of {limit:?}");
        }
    }
}
