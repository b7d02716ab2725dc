//! How many keys a cache may have on the disk (`tables-size-max`).
//!
//! ```text
//!   Looking --too large--> Removing --> Writing --> Merging --> Looking
//! ```
//!
//! Files shrink long after keys have gone, when they are merged. Whoever removed keys until the files are small enough would
//! remove far too many. So the bound is one of keys: the part of them that has room, of those that are there when the files are too
//! large. Before that is reckoned again, they have gone from the tables, and small tables have been merged.

use keyspace::Millis;

/// How often the disk is looked at.
const EACH_MS: Millis = 1_000;
/// How long after keys have gone, if the tables are too large to be merged at once: merges come as data does.
const LARGE_MS: Millis = 30_000;
/// Up to which size everything is merged when it is too large: that reads and writes all of it.
const MERGED_MAX: u64 = 512 << 20;
/// The part of the keys that is left at least by one look.
const LEFT_LEAST: f64 = 0.7;
/// The part of the bound that is aimed at.
const AIM: f64 = 0.9;

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// From then on it is time to look.
    Looking(Millis),
    /// Keys are being removed; whether the tables are to be merged after it.
    Removing(bool),
    /// That is being written to the tables, up to an offset of the log.
    Writing(u64, bool),
    /// The tables are being merged.
    Merging,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing in particular.
    Nothing,
    /// Remove as many keys.
    Remove(usize),
    /// Bring to the tables what has changed.
    Write,
    /// Merge them.
    Merge,
}

/// What is known of the tables.
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    /// How many keys there are.
    pub keys: usize,
    /// The end of the log.
    pub end: u64,
    /// Up to which offset of it they are.
    pub applied: u64,
    /// How often everything in them was merged.
    pub merges: u64,
}

/// The bound.
#[derive(Debug)]
pub struct DiskBound {
    keys_max: Option<usize>,
    stage: Stage,
    merges: u64,
}

impl Default for DiskBound {
    fn default() -> Self {
        Self { keys_max: None, stage: Stage::Looking(0), merges: 0 }
    }
}

impl DiskBound {
    /// Time goes on. `size` says what the tables take of the disk.
    pub fn tick(&mut self, now: Millis, bound: u64, tables: Tables, size: impl FnOnce() -> u64) -> Step {
        if bound == 0 {
            *self = Self::default();
            return Step::Nothing;
        }
        let excess = self.keys_max.map_or(0, |most| tables.keys.saturating_sub(most));
        match self.stage {
            Stage::Looking(at) if now >= at || at > now + LARGE_MS => self.look(now, bound, tables.keys, size()),
            Stage::Removing(is_merged) if excess == 0 => {
                self.stage = Stage::Writing(tables.end, is_merged);
                return Step::Write;
            }
            Stage::Writing(offset, is_merged) if tables.applied >= offset => {
                self.stage = if is_merged { Stage::Merging } else { Stage::Looking(now + LARGE_MS) };
                self.merges = tables.merges;
                if is_merged {
                    return Step::Merge;
                }
            }
            Stage::Merging if tables.merges > self.merges => self.stage = Stage::Looking(now),
            _ => {}
        }
        // New keys keep within the number all the time.
        if excess > 0 { Step::Remove(excess) } else { Step::Nothing }
    }

    fn look(&mut self, now: Millis, bound: u64, keys: usize, size: u64) {
        let fits = bound as f64 * AIM / size.max(1) as f64;
        self.stage = Stage::Looking(now + EACH_MS);
        if size > bound {
            self.keys_max = Some((keys as f64 * fits.clamp(LEFT_LEAST, 1.0)) as usize);
            self.stage = Stage::Removing(size <= MERGED_MAX);
        } else if let Some(keys_max) = &mut self.keys_max
            && fits > 1.1
        {
            // There is room again: bit by bit.
            *keys_max += (*keys_max / 50).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_until_the_disk_has_room_and_come_again() {
        let mut bound = DiskBound::default();
        let of = |keys, end, applied, merges| Tables { keys, end, applied, merges };
        assert_eq!(bound.tick(0, 1_000, of(100, 5, 5, 0), || 900), Step::Nothing);
        assert_eq!(bound.tick(1, 1_000, of(100, 5, 5, 0), || panic!("it is too early")), Step::Nothing);
        assert_eq!(bound.tick(EACH_MS, 1_000, of(100, 5, 5, 0), || 1_125), Step::Nothing);
        let unasked = || panic!("not while keys are going");
        assert_eq!(bound.tick(EACH_MS + 1, 1_000, of(100, 5, 5, 0), unasked), Step::Remove(20));
        assert_eq!(bound.tick(EACH_MS + 2, 1_000, of(90, 6, 5, 0), unasked), Step::Remove(10));
        assert_eq!(bound.tick(EACH_MS + 3, 1_000, of(80, 7, 5, 0), unasked), Step::Write);
        assert_eq!(bound.tick(EACH_MS + 4, 1_000, of(81, 8, 6, 0), unasked), Step::Remove(1), "one has come");
        assert_eq!(bound.tick(EACH_MS + 5, 1_000, of(80, 8, 7, 0), unasked), Step::Merge);
        assert_eq!(bound.tick(9 * EACH_MS, 1_000, of(80, 8, 7, 0), unasked), Step::Nothing);
        assert_eq!(bound.tick(9 * EACH_MS, 1_000, of(80, 8, 7, 1), unasked), Step::Nothing);
        assert_eq!(bound.tick(9 * EACH_MS, 1_000, of(80, 8, 7, 1), || 500), Step::Nothing);
        assert_eq!(bound.tick(9 * EACH_MS + 1, 1_000, of(82, 8, 7, 1), unasked), Step::Remove(1), "81 have room now");
        assert_eq!(bound.tick(20 * EACH_MS, 0, of(500, 8, 7, 1), unasked), Step::Nothing, "no bound, no limit");
        assert_eq!(bound.tick(20 * EACH_MS, 1_000, of(500, 8, 7, 1), || 900), Step::Nothing);
    }

    #[test]
    fn one_look_has_its_bound_and_large_tables_are_left_to_merge_by_themselves() {
        let mut bound = DiskBound::default();
        let tables = Tables { keys: 1_000, end: 5, applied: 5, merges: 0 };
        assert_eq!(bound.tick(0, 1 << 30, tables, || 10 << 30), Step::Nothing);
        assert_eq!(bound.tick(1, 1 << 30, tables, || 0), Step::Remove(300));
        let fewer = Tables { keys: 700, ..tables };
        assert_eq!(bound.tick(2, 1 << 30, fewer, || 0), Step::Write);
        assert_eq!(bound.tick(3, 1 << 30, fewer, || panic!("merges take their time")), Step::Nothing);
        assert_eq!(bound.tick(LARGE_MS, 1 << 30, fewer, || panic!("merges take their time")), Step::Nothing);
        assert_eq!(bound.tick(LARGE_MS + 3, 1 << 30, fewer, || 2 << 30), Step::Nothing);
        assert_eq!(bound.tick(LARGE_MS + 4, 1 << 30, fewer, || 0), Step::Remove(211));
    }
}
