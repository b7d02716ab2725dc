//! Removal of many records in bounded steps.
//!
//! Deleting fifty million elements one by one would write as much again as they are. So whole files that hold nothing else are
//! dropped first ([`Engine::drop_files`]), and deletions are written for what is left at the edges and in the upper levels. A
//! filter that leaves records out of merges would not be faster: it waits until their files are merged, and then reads them all.

use crate::{Batch, Bounds, Direction, Engine, Key, Result};

/// What a step of a removal did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// How many records it removed.
    pub records: usize,
    /// Whether there are none left.
    pub is_done: bool,
}

/// Removes at most `records_max` of the records within bounds. The first step drops files. Later ones do not: a file that holds
/// nothing else may hold deletions of former steps, and without them what they deleted in other files would be there again.
///
/// It goes by the overlay of [`Tables`](crate::Tables), so it must be about records that nobody changes any more and that have
/// all been written: an orphan record that the *engine* has says so of its elements, as batches are written in order.
/// Space comes back with it: see [`Engine::drop_files`]. `with_last` are records that go with the last ones, in the same batch: the orphan record itself.
pub fn remove_range(
    engine: &dyn Engine,
    bounds: &Bounds,
    is_first: bool,
    records_max: usize,
    with_last: &[Key],
) -> Result<Removed> {
    let mut batch = Batch::new();
    let mut scan = engine.scan(bounds, Direction::Forward);
    let records_max = records_max.max(1);
    let mut is_done = false;
    while batch.len() < records_max {
        let Some(record) = scan.next() else {
            is_done = true;
            break;
        };
        batch.delete(record?.0);
    }
    if is_first && !is_done {
        // There is more than one step's worth, perhaps whole files full: fifty million elements are not deleted one by one.
        engine.drop_files(bounds)?;
    }
    drop(scan);
    let records = batch.len();
    if is_done {
        for key in with_last {
            batch.delete(key.clone());
        }
    }
    if !batch.is_empty() {
        engine.write(&batch)?;
    }
    Ok(Removed { records, is_done })
}
