//! How many lines do not arrive, and why.

use std::io;

/// What became of a batch of lines.
#[derive(Debug, Default)]
pub(super) struct Loss {
    /// Lines for which there was no room.
    pub(super) dropped: u64,
    /// Lines that failed otherwise.
    pub(super) failed: u64,
    /// Why the first of them failed.
    pub(super) error: Option<io::Error>,
}

impl Loss {
    pub(super) fn fail(&mut self, lines: u64, error: io::Error) {
        self.failed += lines;
        self.error.get_or_insert(error);
    }
}
