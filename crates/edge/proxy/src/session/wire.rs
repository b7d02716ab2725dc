//! One end of a connection as the session sees it: the socket, what it has received and what it has still to send.

use std::{
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

use net::{Buffer, BufferPool, Stream};

/// A socket with what was received from it and what waits to be sent to it.
#[derive(Debug)]
pub struct Wire {
    /// The socket.
    pub stream: Rc<Stream>,
    /// Received and not consumed.
    pub received: Buffer,
    /// Something is there to be received, as far as was seen: the next look at the socket can be left out.
    pub readable: bool,
    /// The other end has sent its last byte.
    pub ended: bool,
    /// Sending has told of a reset. The system tells only once: whoever receives after that is told of an end instead.
    was_reset: bool,
    /// To be sent, from `sent` on.
    pub output: Vec<u8>,
    sent: usize,
    /// The task that the runtime wakes when something comes, by the address that its waker stands for; 0 for none. The
    /// runtime keeps the waker until then, so no other task gets that address.
    waits: usize,
    pool: BufferPool,
}

impl Wire {
    /// A wire on a connected socket.
    #[must_use]
    pub fn new(stream: Rc<Stream>, pool: BufferPool) -> Self {
        Self {
            stream,
            received: Buffer::default(),
            readable: false,
            ended: false,
            was_reset: false,
            output: Vec::new(),
            sent: 0,
            waits: 0,
            pool,
        }
    }

    /// Ready when something may be there to be received; otherwise the task is woken then.
    ///
    /// # Errors
    /// Those of the runtime's shutdown.
    pub fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let asks = context.waker().data().addr();
        // NOTE: who waits already, and for whom nothing has come, need not take the runtime's lock to say so again.
        if self.waits == asks && !self.stream.may_read() {
            return Poll::Pending;
        }
        // A task that has had its share is sent away without being put down as waiting.
        let is_put_down = tokio::task::coop::has_budget_remaining();
        let polled = self.stream.poll_readable(context);
        self.waits = if polled.is_pending() && is_put_down { asks } else { 0 };
        polled
    }

    /// Receives what there is, once something is. `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// The socket's. A full buffer stays pending: something must be consumed first.
    pub fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            if self.received.is_full() && self.received.has_block() {
                return Poll::Pending;
            }
            if !std::mem::take(&mut self.readable) {
                ready!(self.poll_readable(context))?;
            }
            self.pool.lend(&mut self.received);
            match self.stream.try_fill(&mut self.received) {
                Ok(0) if self.was_reset => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Ok(0) => {
                    self.ended = true;
                    self.rest();
                    return Poll::Ready(Ok(0));
                }
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.rest(),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        self.output.get(self.sent..).unwrap_or_default()
    }

    /// Whether everything has been sent.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.sent >= self.output.len()
    }

    /// Sends what waits, as far as the socket takes it; ready once nothing waits.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write(Stream::try_write, context)
    }

    /// The same, where bytes that do not wait here follow at once.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_flush_before(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write(Stream::try_write_more, context)
    }

    #[inline]
    fn poll_write(
        &mut self,
        try_write: impl Fn(&Stream, &[u8]) -> io::Result<usize>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_flushed() {
            // NOTE: tried before asked: a socket nearly always takes what a response is.
            match try_write(&self.stream, self.unsent()) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.stream.poll_writable(context))?,
                Err(error) => return Poll::Ready(Err(self.note_failure(error))),
            }
        }
        self.output.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Sends what waits and then `body`, in one call if the socket takes both; ready with the bytes of `body` that went.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_send(&mut self, body: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            let waiting = self.output.len() - self.sent.min(self.output.len());
            match self.stream.try_write_both(self.output.get(self.sent..).unwrap_or_default(), body) {
                Ok(count) if count < waiting => self.sent += count,
                Ok(count) => {
                    self.output.clear();
                    self.sent = 0;
                    return Poll::Ready(Ok(count - waiting));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.stream.poll_writable(context))?,
                Err(error) => return Poll::Ready(Err(self.note_failure(error))),
            }
        }
    }

    /// Notes that sending has failed; the same error.
    pub fn note_failure(&mut self, error: io::Error) -> io::Error {
        self.was_reset |= error.kind() == io::ErrorKind::ConnectionReset;
        error
    }

    /// Whether sending has told of a reset, so that an end is none.
    #[must_use]
    pub fn was_reset(&self) -> bool {
        self.was_reset
    }

    /// Takes leave of the task that used it: others may look at the socket now.
    pub fn leave(&mut self) {
        self.waits = 0;
        self.rest();
    }

    /// Gives the receive block back if it is empty.
    pub fn rest(&mut self) {
        self.pool.reclaim(&mut self.received);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.pool.discard(&mut self.received);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin};

    use tokio::{io::AsyncWriteExt as _, net::UnixStream, task::coop};

    use super::*;

    /// Asks twice, both times in vain.
    async fn asks(wire: &mut Wire) {
        for _ in 0..2 {
            assert!(poll_fn(|context| Poll::Ready(wire.poll_receive(context).is_pending())).await);
        }
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(Rc::new(Stream::Unix(near)), BufferPool::new(1024, 4));
        for is_spent in [false, true, false] {
            asks(&mut wire).await;
            if is_spent {
                // Something came and was taken; then the task is sent away for having had its share.
                far.write_all(b"a").await.unwrap();
                assert_eq!(poll_fn(|context| wire.poll_receive(context)).await.unwrap(), 1);
                let is_sent_away = poll_fn(|context| {
                    while Future::poll(pin!(coop::consume_budget()), context).is_ready() {}
                    Poll::Ready(wire.poll_receive(context).is_pending())
                });
                assert!(is_sent_away.await);
            }
            far.write_all(b"bc").await.unwrap();
            assert_eq!(poll_fn(|context| wire.poll_receive(context)).await.unwrap(), 2);
        }
    }

    #[tokio::test]
    async fn a_reset_that_sending_has_told_of_is_no_end() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let far = Stream::Tcp(tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
        let (near, _) = listener.accept().await.unwrap();
        let mut wire = Wire::new(Rc::new(Stream::Tcp(near)), BufferPool::new(1024, 4));
        poll_fn(|context| far.poll_writable(context)).await.unwrap();
        assert_eq!(far.try_write(b"a part").unwrap(), 6);
        assert_eq!(poll_fn(|context| wire.poll_receive(context)).await.unwrap(), 6);
        far.reset_on_close();
        drop(far);
        let told = loop {
            match poll_fn(|context| wire.poll_send(b"more", context)).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        assert_eq!(told.kind(), io::ErrorKind::ConnectionReset);
        let received = poll_fn(|context| wire.poll_receive(context)).await;
        assert_eq!(received.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn another_task_is_woken_too() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(Rc::new(Stream::Unix(near)), BufferPool::new(1024, 4));
        asks(&mut wire).await;
        wire.leave();
        let local = tokio::task::LocalSet::new();
        let other = local.spawn_local(async move {
            asks(&mut wire).await;
            poll_fn(|context| wire.poll_receive(context)).await
        });
        local.run_until(async { far.write_all(b"abc").await }).await.unwrap();
        assert_eq!(local.run_until(other).await.unwrap().unwrap(), 3);
    }
}
