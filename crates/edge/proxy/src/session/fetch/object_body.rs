//! The body of an object in the cache, whole or still on its way, as a source for a client.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll, ready},
};

use accelerator::{backend::Recoding, output::Part, recode::Recoder};
use bytes::{Buf, Bytes};
use cache::{body::Cursor, object::Object};
use net::PlainSocket;
use tokio::sync::mpsc;

use crate::session::body::Source;

/// What comes of a response that is not stored, `None` at its end. One that ends without that has been cut off.
pub type RelayedBytes = mpsc::Receiver<Option<Bytes>>;

/// Where the bytes come from.
#[derive(Debug)]
enum Supply {
    Object(Arc<Object>, Cursor),
    Relayed(RelayedBytes),
}

impl Supply {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        match self {
            Self::Object(object, cursor) => object.poll_next(cursor, context).map_err(io::Error::other),
            Self::Relayed(pieces) => {
                pieces.poll_recv(context).map(|piece| piece.ok_or_else(|| io::ErrorKind::UnexpectedEof.into()))
            }
        }
    }
}

/// A reader of an object's body, or of one that is not stored.
#[derive(Debug)]
pub struct ObjectBody {
    supply: Supply,
    /// What has come and was not consumed.
    current: Bytes,
    /// Bytes that the client does not want, before those that it does.
    skip: u64,
    /// Bytes that it wants; `None` for all.
    left: Option<u64>,
    recoder: Recoder,
    /// Bytes that came of what the client wants.
    taken: u64,
    /// Bytes that were given, without their framing.
    given: u64,
    /// Whether what is given is framed in chunks.
    is_chunked: bool,
    has_ended: bool,
}

impl ObjectBody {
    /// The part of an object that a client wants; in chunks where its length is not known.
    #[must_use]
    pub fn new(object: Arc<Object>, part: Part, recoding: Recoding, is_chunked: bool) -> Self {
        let (skip, left) = match part {
            Part::Whole => (0, None),
            Part::Nothing => (0, Some(0)),
            Part::Bytes { start, end } => (start, Some(end - start)),
        };
        let recoder = Recoder::new(recoding);
        Self {
            supply: Supply::Object(object, Cursor::default()),
            current: Bytes::new(),
            skip,
            left,
            recoder,
            taken: 0,
            given: 0,
            is_chunked,
            has_ended: false,
        }
    }

    /// Bytes that were decompressed, and bytes that came out of them; `None` where they went on as they were.
    #[must_use]
    pub fn gunzipped(&self) -> Option<(u64, u64)> {
        matches!(self.recoder, Recoder::Gunzip(_)).then_some((self.taken, self.given))
    }

    /// Bytes that were given so far, without their framing.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given
    }

    /// A response that is not stored; in chunks where its length is not known.
    #[must_use]
    pub fn relayed(bytes: RelayedBytes, is_chunked: bool) -> Self {
        Self {
            supply: Supply::Relayed(bytes),
            current: Bytes::new(),
            skip: 0,
            left: None,
            recoder: Recoder::Plain,
            taken: 0,
            given: 0,
            is_chunked,
            has_ended: false,
        }
    }

    /// What a client gets of a chunk.
    fn wanted(&mut self, mut chunk: Bytes) -> Bytes {
        let skipped = usize::try_from(self.skip).map_or(chunk.len(), |skip| skip.min(chunk.len()));
        chunk.advance(skipped);
        self.skip -= skipped as u64;
        if let Some(left) = &mut self.left {
            chunk.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= chunk.len() as u64;
        }
        chunk
    }

    fn framed(&self, bytes: Bytes) -> Bytes {
        if !self.is_chunked {
            return bytes;
        }
        let mut framed = Vec::with_capacity(bytes.len() + 24);
        http::write_chunk(&bytes, &mut framed);
        framed.into()
    }

    /// The end of the body, as it is framed.
    fn end(&mut self) -> io::Result<Bytes> {
        self.has_ended = true;
        let rest = self.recoder.finish()?;
        self.given += rest.len() as u64;
        let mut framed = Vec::new();
        if self.is_chunked {
            if !rest.is_empty() {
                http::write_chunk(&rest, &mut framed);
            }
            http::write_last_chunk(&mut framed);
            return Ok(framed.into());
        }
        Ok(rest.into())
    }
}

impl Drop for ObjectBody {
    fn drop(&mut self) {
        if let Supply::Object(object, _) = &self.supply {
            object.body().leave();
        }
    }
}

impl Source for ObjectBody {
    fn received(&self) -> &[u8] {
        &self.current
    }

    fn consume(&mut self, count: usize) {
        self.current.advance(count.min(self.current.len()));
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.current.is_empty() {
            return Poll::Pending;
        }
        while !self.has_ended {
            let next = ready!(self.supply.poll_next(context))?;
            let given = match next {
                Some(_) if self.left == Some(0) => self.end()?,
                Some(chunk) => {
                    let chunk = self.wanted(chunk);
                    self.taken += chunk.len() as u64;
                    let bytes = match self.recoder.push(&chunk)? {
                        Some(recoded) => recoded.into(),
                        None => chunk,
                    };
                    self.given += bytes.len() as u64;
                    if bytes.is_empty() { bytes } else { self.framed(bytes) }
                }
                None => self.end()?,
            };
            if !given.is_empty() {
                self.current = given;
                return Poll::Ready(Ok(self.current.len()));
            }
        }
        Poll::Ready(Ok(0))
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }
}
