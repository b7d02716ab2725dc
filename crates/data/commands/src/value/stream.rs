//! Streams.

/// Entries by id, with consumer groups.
#[derive(Debug, Clone, Default)]
pub struct Stream {}
