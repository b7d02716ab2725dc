//! Memory for what a request's program makes: taken piece by piece, given back all at once.

use bumpalo::Bump;

use super::host::Failure;

/// Bounded memory of one request or fetch (Varnish's `workspace_client` and `workspace_backend`).
#[derive(Debug)]
pub struct Workspace {
    memory: Bump,
}

impl Workspace {
    /// Memory of this many bytes at most. Nothing is taken before it is used.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let memory = Bump::new();
        memory.set_allocation_limit(Some(bytes_max));
        Self { memory }
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

    /// Gives everything back.
    pub fn clear(&mut self) {
        self.memory.reset();
    }

    /// How many bytes are in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.memory.allocated_bytes()
    }
}
