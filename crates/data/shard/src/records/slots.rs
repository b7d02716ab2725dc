//! Which slots have records.

use std::ops::Bound;

use engine::{
    Direction,
    record::{self, Kind},
};
use keyspace::slot::SLOTS;

use super::{EXPIRY_SLOT, ORPHAN_SLOT, ShardTables, unreadable};

impl ShardTables {
    /// The interval of records that is removed in a step of removing an emptied database; nothing behind the last step.
    pub fn dropped_range(disk: u8, step: usize) -> Option<engine::Bounds> {
        let of_slot = |step: usize, kind| Some(record::range::database((step % SLOTS) as u16, kind, disk));
        match step / SLOTS {
            0 => of_slot(step, Kind::Key),
            1 => of_slot(step, Kind::Element),
            _ if step == 2 * SLOTS => of_slot(usize::from(EXPIRY_SLOT), Kind::Expiry),
            _ if step == 2 * SLOTS + 1 => of_slot(usize::from(ORPHAN_SLOT), Kind::Orphan),
            _ => None,
        }
    }

    /// The first step from one on whose slot has any records.
    pub fn next_dropped(&self, step: usize) -> usize {
        let mut step = step;
        while step < 2 * SLOTS {
            let slot = step % SLOTS;
            // What cannot be read is not passed over.
            let next = self.read_next_slot(slot).unwrap_or(slot);
            step += next - slot;
            if next < SLOTS {
                break;
            }
        }
        step
    }

    /// The slot of the first record from a slot on, of any database.
    pub(super) fn read_next_slot(&self, from: usize) -> Result<usize, String> {
        let bounds = engine::Bounds { to: Bound::Unbounded, ..record::range::slot(from as u16) };
        self.look(|tables| {
            let first = tables.scan(&bounds, Direction::Forward).next().transpose();
            let first = first.map_err(|error| unreadable(&error))?;
            let slot = first.and_then(|(name, _)| name.first_chunk::<2>().map(|slot| u16::from_be_bytes(*slot)));
            Ok(slot.map_or(SLOTS, |slot| usize::from(slot).min(SLOTS)))
        })
    }
}
