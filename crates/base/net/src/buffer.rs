//! Receive buffers of a fixed size, kept and handed out again by each worker.
//!
//! A connection holds a buffer only while it has bytes to hold: ten thousand idle connections hold none.

use std::{cell::RefCell, rc::Rc};

/// Bytes received and not consumed yet: `start..end` of a fixed block.
#[derive(Debug, Default)]
pub struct Buffer {
    block: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// Bytes waiting.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.block.get(self.start..self.end).unwrap_or_default()
    }

    /// Number of bytes waiting.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether no byte waits.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether nothing more fits in, even after moving what waits to the front.
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == self.block.len()
    }

    /// Whether it holds a block at all.
    #[must_use]
    #[inline]
    pub fn has_block(&self) -> bool {
        !self.block.is_empty()
    }

    /// Drops the first `count` bytes.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Room to receive into, at the end; moves waiting bytes to the front when less than a quarter is left behind them.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        if self.start > 0 && self.block.len() - self.end < self.block.len() / 4 {
            self.block.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.block.get_mut(self.end..).unwrap_or_default()
    }

    /// Takes in `count` bytes that were written to [`Buffer::room`].
    #[inline]
    pub fn fill(&mut self, count: usize) {
        self.end = (self.end + count).min(self.block.len());
    }
}

/// A worker's spare blocks.
#[derive(Clone, Debug)]
pub struct BufferPool(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    size: usize,
    spare_max: usize,
    spare: RefCell<Vec<Vec<u8>>>,
}

impl BufferPool {
    /// Blocks of `size` bytes, of which at most `spare_max` are kept unused.
    #[must_use]
    pub fn new(size: usize, spare_max: usize) -> Self {
        Self(Rc::new(Inner { size, spare_max, spare: RefCell::new(Vec::new()) }))
    }

    /// Bytes in a block.
    #[must_use]
    #[inline]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Gives `buffer` a block if it has none.
    #[inline]
    pub fn lend(&self, buffer: &mut Buffer) {
        if !buffer.has_block() {
            let spare = self.0.spare.borrow_mut().pop();
            buffer.block = spare.unwrap_or_else(|| vec![0; self.0.size]);
            buffer.start = 0;
            buffer.end = 0;
        }
    }

    /// Takes the block back if no byte waits in it.
    #[inline]
    pub fn reclaim(&self, buffer: &mut Buffer) {
        if buffer.is_empty() && buffer.has_block() {
            self.discard(buffer);
        }
    }

    /// Takes the block back with whatever it holds.
    #[inline]
    pub fn discard(&self, buffer: &mut Buffer) {
        let block = std::mem::take(buffer).block;
        let mut spare = self.0.spare.borrow_mut();
        if spare.len() < self.0.spare_max && block.len() == self.0.size {
            spare.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let pool = BufferPool::new(8, 1);
        let mut buffer = Buffer::default();
        assert!(buffer.room().is_empty());
        pool.lend(&mut buffer);
        buffer.room()[..8].copy_from_slice(b"abcdefgh");
        buffer.fill(8);
        assert!(buffer.is_full() && buffer.room().is_empty());
        buffer.consume(6);
        assert_eq!(buffer.bytes(), b"gh");
        assert_eq!(buffer.room().len(), 6, "moved to the front");
        pool.reclaim(&mut buffer);
        assert!(buffer.has_block(), "bytes wait, so it is kept");
        buffer.consume(9);
        pool.reclaim(&mut buffer);
        assert!(!buffer.has_block());
        pool.lend(&mut buffer);
        assert!(buffer.is_empty());
    }
}
