//! Message heads that are used again, so that parsing a request allocates nothing.

use std::cell::RefCell;

use http::{RequestHead, ResponseHead};

use super::transaction::RequestLine;

/// Arenas above this many bytes are not kept: one large head must not hold memory for ever.
const ARENA_BYTES_MAX: usize = 8_192;

/// The reusable memory of a transaction.
#[derive(Debug, Default)]
pub struct Heads {
    /// Of the request.
    pub request: RequestHead,
    /// Of the response.
    pub response: ResponseHead,
    /// The request line for the log.
    pub line: RequestLine,
}

/// Spare output buffers above this many bytes are not kept.
const OUTPUT_BYTES_MAX: usize = 32_768;

/// A worker's spare heads.
#[derive(Debug)]
pub struct SpareHeads {
    spare: RefCell<Vec<Heads>>,
    outputs: RefCell<Vec<Vec<u8>>>,
    most: usize,
}

impl SpareHeads {
    /// Keeps at most `most`.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { spare: RefCell::default(), outputs: RefCell::default(), most }
    }

    /// Empty heads.
    #[must_use]
    pub fn take(&self) -> Heads {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives `output` memory to grow in, if it has none.
    pub fn lend_output(&self, output: &mut Vec<u8>) {
        if output.capacity() == 0
            && let Some(spare) = self.outputs.borrow_mut().pop()
        {
            *output = spare;
        }
    }

    /// Takes the memory of an output buffer that is empty.
    pub fn reclaim_output(&self, output: &mut Vec<u8>) {
        if output.capacity() == 0 || !output.is_empty() {
            return;
        }
        let output = std::mem::take(output);
        let mut outputs = self.outputs.borrow_mut();
        if outputs.len() < self.most && output.capacity() <= OUTPUT_BYTES_MAX {
            outputs.push(output);
        }
    }

    /// Keeps heads for later.
    pub fn give(&self, mut heads: Heads) {
        let bytes = heads.request.headers.memory_bytes() + heads.response.headers.memory_bytes();
        let mut spare = self.spare.borrow_mut();
        if spare.len() < self.most && bytes <= ARENA_BYTES_MAX {
            heads.request.clear();
            heads.response.clear();
            heads.line.clear();
            spare.push(heads);
        }
    }
}
