//! Memory for what a request's program makes: taken piece by piece, given back all at once.

use std::{cell::OnceCell, sync::Arc};

use bumpalo::Bump;

use super::host::Failure;

/// Bounded memory of one request or fetch (Varnish's `workspace_client` and `workspace_backend`).
#[derive(Debug)]
pub struct Workspace {
    memory: Bump,
    shared: OnceCell<Box<Shared>>,
}

/// Bytes that others have too, in a list.
#[derive(Debug)]
struct Shared {
    bytes: Arc<[u8]>,
    next: OnceCell<Box<Self>>,
}

impl Workspace {
    /// Memory of this many bytes at most. Nothing is taken before it is used.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let memory = Bump::new();
        memory.set_allocation_limit(Some(bytes_max));
        Self { memory, shared: OnceCell::new() }
    }

    /// Keeps a copy of `bytes`.
    ///
    /// # Errors
    /// The workspace is full.
    pub fn keep(&self, bytes: &[u8]) -> Result<&[u8], Failure> {
        if bytes.is_empty() {
            return Ok(&[]);
        }
        self.memory.try_alloc_slice_copy(bytes).map(|kept| &*kept).map_err(|_| Failure::WorkspaceFull)
    }

    /// Holds bytes that others have too, without a copy.
    pub fn share(&self, bytes: Arc<[u8]>) -> &[u8] {
        let mut last = &self.shared;
        while let Some(held) = last.get() {
            last = &held.next;
        }
        &last.get_or_init(|| Box::new(Shared { bytes, next: OnceCell::new() })).bytes
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        self.shared.take();
        self.memory.reset();
    }

    /// How many bytes are in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.memory.allocated_bytes()
    }
}
