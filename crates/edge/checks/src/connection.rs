//! A connection of a check: what is written to it and read from it, and how it is closed.

use std::{cell::RefCell, io, sync::Arc};

use haproxycfg::model::FcgiApp;
use net::Stream;

use super::{fastcgi::FastCgi, http2::Http2};

/// Reads that empty a socket before it is closed.
const DRAIN_READS_MAX: usize = 32;
/// Little, since it is cleared for each check; there is hardly ever anything to read.
const DRAIN_BYTES: usize = 1024;

/// What a request of HTTP/1 and its answer are put into.
#[derive(Debug)]
enum Framing {
    Http2(Box<Http2>),
    FastCgi(Box<FastCgi>),
}

impl Framing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Http2(http2) => http2.write(bytes),
            Self::FastCgi(fastcgi) => fastcgi.write(bytes),
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Http2(http2) => http2.receive(bytes),
            Self::FastCgi(fastcgi) => fastcgi.receive(bytes),
        }
    }

    fn output(&mut self) -> Vec<u8> {
        match self {
            Self::Http2(http2) => http2.output(),
            Self::FastCgi(_) => Vec::new(),
        }
    }

    fn read(&mut self, room: &mut [u8]) -> Option<usize> {
        match self {
            Self::Http2(http2) => http2.read(room),
            Self::FastCgi(fastcgi) => fastcgi.read(room),
        }
    }
}

/// A connection of a check.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    linger: bool,
    framing: Option<RefCell<Framing>>,
}

impl Connection {
    /// One that stands; with `linger` it is closed without a reset.
    pub(super) fn new(stream: Stream, linger: bool) -> Self {
        Self { stream, linger, framing: None }
    }

    /// The same, over which TLS may be spoken.
    pub(super) fn securable(self) -> Self {
        Self { stream: self.stream.securable(), ..self }
    }

    /// Whether TLS is spoken.
    pub(super) fn is_secure(&self) -> bool {
        self.stream.secure().is_some()
    }

    /// The same, on which a request and its answer go in frames of HTTP/2.
    pub(super) fn over_http2(self, bytes_max: usize) -> Self {
        let http2 = Http2::new(self.is_secure(), bytes_max);
        Self { framing: Some(RefCell::new(Framing::Http2(Box::new(http2)))), ..self }
    }

    /// The same, on which a request and its answer go in records of FastCGI.
    pub(super) fn over_fastcgi(self, app: &Arc<FcgiApp>, bytes_max: usize) -> Self {
        let ends = (self.stream.local_address(), self.stream.peer_address());
        let fastcgi = FastCgi::new(Arc::clone(app), bytes_max, ends);
        Self { framing: Some(RefCell::new(Framing::FastCgi(Box::new(fastcgi)))), ..self }
    }

    /// Writes all of `bytes`.
    pub(super) async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.framing {
            None => self.write_plain(bytes).await,
            Some(framing) => {
                let frames = framing.borrow_mut().write(bytes)?;
                self.write_plain(&frames).await
            }
        }
    }

    async fn write_plain(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn writable(&self) -> io::Result<()> {
        std::future::poll_fn(|context| self.stream.poll_writable(context)).await
    }

    /// Reads what there is, up to the length of `room`; 0 is the end.
    pub(super) async fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        let Some(framing) = &self.framing else { return self.read_plain(room).await };
        let mut frames = vec![0; 16 * 1024];
        loop {
            if let Some(count) = framing.borrow_mut().read(room) {
                return Ok(count);
            }
            match self.read_plain(&mut frames).await? {
                0 => return Ok(0),
                count => framing.borrow_mut().receive(frames.get(..count).unwrap_or_default())?,
            }
            let answers = framing.borrow_mut().output();
            self.write_plain(&answers).await?;
        }
    }

    async fn read_plain(&self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.try_read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.readable().await?,
                result => return result,
            }
        }
    }

    /// Reads what there is without waiting for more; `None` if there is nothing.
    pub(super) fn try_read(&self, room: &mut [u8]) -> Option<io::Result<usize>> {
        if let Some(framing) = &self.framing {
            return framing.borrow_mut().read(room).map(Ok);
        }
        match self.stream.try_read(room) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            result => Some(result),
        }
    }

    /// Closes: with a reset, so that no socket of thousands of checks lingers, unless the server has closed already.
    pub(super) fn close(self) {
        // One that speaks TLS says so at its end, and leaves it at that.
        if self.linger || !matches!(self.stream, Stream::Tcp(_)) {
            return;
        }
        let mut room = [0; DRAIN_BYTES];
        for _ in 0..DRAIN_READS_MAX {
            match self.stream.try_read(&mut room) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return,
            }
        }
        self.stream.reset_on_close();
    }
}
