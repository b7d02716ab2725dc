//! Streams within the process: what one end writes, the other end reads. No system call is made and no clock is read, so a
//! simulation that has no other streams is the same at each run.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

/// One end of a stream within the process.
#[derive(Debug)]
pub struct MemoryStream {
    reads: Arc<Way>,
    writes: Arc<Way>,
    protocol: Option<&'static str>,
}

/// Bytes on their way from one end to the other.
#[derive(Debug)]
struct Way {
    state: Mutex<State>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    bytes: VecDeque<u8>,
    /// No more is written.
    has_ended: bool,
    /// Nobody reads.
    is_abandoned: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Way {
    fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), bytes_max })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn wake(waiting: &mut Option<Waker>) {
    if let Some(waker) = waiting.take() {
        waker.wake();
    }
}

impl MemoryStream {
    /// Both ends of a stream on which `bytes_max` bytes at most are on their way in each direction.
    #[must_use]
    pub fn pair(bytes_max: usize) -> (Self, Self) {
        let (up, down) = (Way::new(bytes_max), Way::new(bytes_max));
        let near = Self { reads: Arc::clone(&down), writes: Arc::clone(&up), protocol: None };
        (near, Self { reads: up, writes: down, protocol: None })
    }

    /// The same end, whose two sides have agreed to speak this protocol.
    #[must_use]
    pub fn speaking(mut self, protocol: &'static str) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// What its sides have agreed to speak.
    #[must_use]
    pub fn protocol(&self) -> Option<&'static str> {
        self.protocol
    }

    /// Ready when a read may get somewhere.
    pub fn poll_readable(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.reads.state();
        if self.may_read_of(&state) {
            return Poll::Ready(Ok(()));
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready when a write may get somewhere.
    pub fn poll_writable(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.writes.state();
        if state.is_abandoned || state.has_ended || state.bytes.len() < self.writes.bytes_max {
            return Poll::Ready(Ok(()));
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Whether a read may get somewhere.
    #[must_use]
    pub fn may_read(&self) -> bool {
        self.may_read_of(&self.reads.state())
    }

    fn may_read_of(&self, state: &State) -> bool {
        !state.bytes.is_empty() || state.has_ended || state.is_abandoned
    }

    /// Reads into `room`; `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// When nothing is there, or when this end has been shut.
    pub fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        let mut state = self.reads.state();
        if state.bytes.is_empty() {
            return match state.has_ended || state.is_abandoned {
                true => Ok(0),
                false => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        let count = io::Read::read(&mut state.bytes, room)?;
        wake(&mut state.writer);
        Ok(count)
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    /// When there is none, or when nobody reads what is written.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.writes.state();
        if state.is_abandoned || state.has_ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = bytes.len().min(self.writes.bytes_max.saturating_sub(state.bytes.len()));
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.bytes.extend(bytes.get(..count).unwrap_or_default());
        wake(&mut state.reader);
        Ok(count)
    }

    /// Says that no more will be written.
    pub fn shut_write(&self) {
        let mut state = self.writes.state();
        state.has_ended = true;
        wake(&mut state.reader);
    }

    /// Ends both directions; what has been received can still be read.
    pub fn shut_both(&self) {
        self.shut_write();
        let mut state = self.reads.state();
        state.is_abandoned = true;
        wake(&mut state.reader);
        wake(&mut state.writer);
    }

    /// Ready once the other end reads no more.
    pub fn poll_abandoned(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.writes.state();
        if state.is_abandoned {
            return Poll::Ready(());
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        self.shut_both();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<T>(poll: impl FnOnce(&Context<'_>) -> Poll<T>) -> bool {
        poll(&Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn what_one_end_writes_the_other_reads() {
        let (near, far) = MemoryStream::pair(4);
        let mut room = [0; 8];
        assert!(!far.may_read() && !poll(|context| far.poll_readable(context)));
        assert_eq!(near.try_write(b"abcdef").unwrap(), 4);
        assert_eq!(near.try_write(b"ef").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(!poll(|context| near.poll_writable(context)) && far.may_read());
        assert_eq!((far.try_read(&mut room).unwrap(), &room[..4]), (4, &b"abcd"[..]));
        assert_eq!(far.try_read(&mut room).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(near.try_write(b"ef").unwrap(), 2);
        near.shut_write();
        assert_eq!(far.try_read(&mut room).unwrap(), 2);
        assert_eq!(far.try_read(&mut room).unwrap(), 0);
        assert_eq!(far.try_write(b"x").unwrap(), 1);
        drop(far);
        assert!(poll(|context| near.poll_abandoned(context)));
        assert_eq!(near.try_read(&mut room).unwrap(), 1);
        assert_eq!(near.try_read(&mut room).unwrap(), 0);
        assert_eq!(near.try_write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
