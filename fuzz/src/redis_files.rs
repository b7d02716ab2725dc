//! Redis' files, as `tidegate import` reads them: whatever is in them, they are sound or refused.

/// A file.
pub fn file(data: &[u8]) {
    // Each key takes three bytes at least.
    let keys = store::import::check(data).unwrap_or(0);
    assert!(keys <= data.len() as u64 / 3);
}
