//! Sizes of the memory that bodies lie in: those that the allocator has.

/// Pieces of bodies that are at least so large are divided rather than to leave much of them unused.
const DIVIDED_BYTES_MIN: usize = 32 << 10;

/// What the allocator gives for so many bytes: it has four sizes for each power of two (jemalloc). What is counted is what is taken.
pub(super) fn allocated(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(step_of(bytes)).unwrap_or(bytes)
}

fn step_of(bytes: usize) -> usize {
    1 << bytes.saturating_sub(1).max(1).ilog2().saturating_sub(2).max(4)
}

/// Bytes of a piece of a body of which so many are to come: a size that the allocator has, with little left over.
pub(super) fn piece_bytes(wanted: usize) -> usize {
    let whole = allocated(wanted);
    let is_wasteful = wanted >= DIVIDED_BYTES_MIN && whole - wanted > wanted / 16;
    // The rest comes in a piece of its own.
    if is_wasteful { whole - step_of(wanted) } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_of_the_allocators_sizes() {
        for (wanted, allocated_bytes, piece) in [
            (1, 16, 16),
            (512, 512, 512),
            (513, 640, 640),
            (10_000, 10_240, 10_240),
            (100_009, 112 << 10, 96 << 10),
            (256 << 10, 256 << 10, 256 << 10),
        ] {
            assert_eq!((allocated(wanted), piece_bytes(wanted)), (allocated_bytes, piece), "{wanted}");
        }
    }
}
