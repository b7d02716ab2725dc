//! Memory of bodies that have left, for those that come.
//!
//! What one thread frees is of little use to another one's arena in the allocator, so under a flood of objects the process would take
//! up to twice what is stored. A storage therefore keeps a little of what large pieces leave behind and gives it to the next ones,
//! whatever thread they are on.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use bytes::{Bytes, BytesMut};

/// Smaller pieces are left to the allocator.
pub(crate) const PIECE_BYTES_MIN: usize = 16 << 10;

/// Free pieces of a storage.
#[derive(Debug, Default)]
pub(super) struct Pool {
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    by_size: BTreeMap<usize, Vec<BytesMut>>,
    bytes: usize,
}

impl Pool {
    /// A piece of exactly this size.
    pub(super) fn take(&self, bytes: usize) -> Option<BytesMut> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = free.by_size.get_mut(&bytes)?.pop()?;
        free.bytes -= bytes;
        Some(piece)
    }

    /// Takes the memory of a body that has left, as far as nobody reads it any more; at most so many bytes are kept.
    pub(super) fn give(&self, chunks: impl Iterator<Item = Bytes>, bytes_max: usize) {
        // Bytes of the same memory that stood before.
        let mut before = 0;
        for chunk in chunks {
            let length = chunk.len();
            let Ok(mut piece) = chunk.try_into_mut() else {
                before += length;
                continue;
            };
            piece.clear();
            let whole = before + piece.capacity();
            before = 0;
            if whole >= PIECE_BYTES_MIN && piece.try_reclaim(whole) {
                self.keep(piece, bytes_max);
            }
        }
    }

    fn keep(&self, piece: BytesMut, bytes_max: usize) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = piece.capacity();
        if free.bytes + bytes <= bytes_max {
            free.bytes += bytes;
            free.by_size.entry(bytes).or_default().push(piece);
            return;
        }
        // NOTE: what is kept may be of sizes that nobody wants any more.
        if let Some((size, pieces)) =
            free.by_size.iter_mut().find(|(size, pieces)| **size != bytes && !pieces.is_empty())
        {
            let size = *size;
            pieces.pop();
            free.bytes -= size;
        }
    }

    /// Bytes that are kept.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_taken_again() {
        let pool = Pool::default();
        let body = |bytes: usize| {
            let mut buffer = BytesMut::with_capacity(bytes);
            let mut chunks = Vec::new();
            while buffer.capacity() > buffer.len() {
                buffer.extend_from_slice(&[7; 10_000][..(buffer.capacity() - buffer.len()).min(10_000)]);
                chunks.push(buffer.split().freeze());
            }
            chunks
        };
        pool.give(body(98_304).into_iter().chain(body(20_480)), 1 << 20);
        assert_eq!(pool.bytes(), 98_304 + 20_480);
        assert!(pool.take(98_305).is_none());
        let piece = pool.take(98_304).unwrap();
        assert_eq!((piece.len(), piece.capacity()), (0, 98_304));
        // What somebody reads is not touched.
        let chunks = body(32_768);
        let reader = chunks.last().cloned();
        pool.give(chunks.into_iter(), 1 << 20);
        assert_eq!(pool.bytes(), 20_480);
        drop(reader);
        // No more than the bound is kept, and what is not wanted makes room.
        pool.give(body(65_536).into_iter(), 30_000);
        assert_eq!(pool.bytes(), 0);
        pool.give(body(8_192).into_iter(), 1 << 20);
        assert_eq!(pool.bytes(), 0, "too small");
    }
}
