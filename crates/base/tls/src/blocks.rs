//! Blocks of memory for records. A connection holds one only while it has something in it; each thread keeps some spare ones.

use std::cell::RefCell;

/// Bytes of a block: two of the largest records.
pub const BLOCK: usize = 2 * (16_384 + 2_048 + 5);

/// Spare blocks that a thread keeps.
const SPARE_MAX: usize = 16;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes that came or wait to be sent: `start..end` of a block, or of nothing.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Block {
    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The same, to be changed in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.end - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Drops bytes at the front.
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room behind what is in it, for a whole record at least if nothing but a part of one is in it.
    pub fn room(&mut self) -> &mut [u8] {
        if self.bytes.len() < BLOCK {
            let mut block = SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; BLOCK]);
            if let (Some(to), Some(from)) = (block.get_mut(..self.len()), self.bytes.get(self.start..self.end)) {
                to.copy_from_slice(from);
            }
            (self.start, self.end) = (0, self.len());
            self.bytes = block;
        } else if self.start > 0 && self.end > BLOCK / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.len());
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Takes in so many bytes that were written to its room.
    pub fn fill(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// Gives the block back: what little is in it moves to a place of its own size.
    pub fn rest(&mut self) {
        /// A larger rest keeps its block: it is on its way.
        const REST_MAX: usize = 2_048;
        if self.bytes.len() < BLOCK || self.len() > REST_MAX {
            return;
        }
        let rest = self.bytes().to_vec();
        let block = std::mem::replace(&mut self.bytes, rest);
        (self.start, self.end) = (0, self.bytes.len());
        give_back(block);
    }
}

fn give_back(block: Vec<u8>) {
    // The thread may be ending.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            spare.push(block);
        }
    });
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes.len() == BLOCK {
            give_back(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_needs_no_block() {
        let mut block = Block::default();
        block.room()[..6].copy_from_slice(b"abcdef");
        block.fill(6);
        block.consume(2);
        block.rest();
        assert_eq!((block.bytes(), block.bytes.len()), (&b"cdef"[..], 4));
        block.room()[..2].copy_from_slice(b"gh");
        block.fill(2);
        assert_eq!((block.bytes(), block.bytes.len()), (&b"cdefgh"[..], BLOCK));
        block.consume(6);
        block.rest();
        assert_eq!(block.bytes.capacity(), 0);
    }
}
