//! An object as it comes.

use std::io::{self, Read};

use bytes::{Buf as _, Bytes};
use futures_util::{StreamExt as _, stream::BoxStream};
use tokio::runtime::Runtime;

/// Waits for the network while it is read.
pub struct Reading<'a> {
    runtime: &'a Runtime,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    piece: Bytes,
}

impl<'a> Reading<'a> {
    pub fn new(runtime: &'a Runtime, stream: BoxStream<'static, object_store::Result<Bytes>>) -> Self {
        Self { runtime, stream, piece: Bytes::new() }
    }
}

impl Read for Reading<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.runtime.block_on(self.stream.next()) {
                Some(piece) => self.piece = piece.map_err(super::io_error)?,
                None => return Ok(0),
            }
        }
        let len = self.piece.len().min(into.len());
        if let Some(place) = into.get_mut(..len) {
            self.piece.copy_to_slice(place);
        }
        Ok(len)
    }
}
