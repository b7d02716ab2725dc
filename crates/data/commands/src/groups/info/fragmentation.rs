//! What memory takes beyond what was asked for.

use crate::host::MemoryFigures;

/// How much more something takes than what is in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Excess {
    /// How many times as much.
    pub ratio: f64,
    /// In bytes.
    pub bytes: i64,
}

impl Excess {
    fn of(outer: u64, inner: u64) -> Self {
        Self { ratio: outer as f64 / inner.max(1) as f64, bytes: outer.cast_signed() - inner.cast_signed() }
    }
}

/// Where that goes, from the inside to the outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Fragmentation {
    /// What the allocator has given out.
    pub allocated: u64,
    /// Its pages with something in them.
    pub active: u64,
    /// All its pages that the machine holds.
    pub resident: u64,
    /// Free places between those that were given out.
    pub places: Excess,
    /// Free pages that were not given back yet.
    pub pages: Excess,
    /// The program, stacks: what is not the allocator's.
    pub process: Excess,
    /// What the machine holds, compared with what was asked for. What the process takes without any data counts on both sides: else
    /// an empty store would seem to waste ten times what it has.
    pub all: Excess,
}

impl Fragmentation {
    /// As these figures have it. Without an allocator that tells of itself there is none to be seen.
    pub fn of(figures: &MemoryFigures) -> Self {
        let known = |bytes: u64, otherwise: u64| if bytes > 0 { bytes } else { otherwise };
        let allocated = known(figures.allocator_allocated, figures.used);
        let active = known(figures.allocator_active, allocated);
        let resident = known(figures.allocator_resident, active);
        Self {
            allocated,
            active,
            resident,
            places: Excess::of(active, allocated),
            pages: Excess::of(resident, active),
            process: Excess::of(figures.resident, resident),
            all: Excess::of(
                figures.resident,
                figures.used + figures.resident_at_start.saturating_sub(figures.at_start),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_compared_with_the_one_within() {
        let figures = MemoryFigures {
            used: 100,
            resident: 400,
            allocator_allocated: 110,
            allocator_active: 220,
            allocator_resident: 330,
            ..MemoryFigures::default()
        };
        let parts = Fragmentation::of(&figures);
        assert_eq!(parts.places, Excess { ratio: 2.0, bytes: 110 });
        assert_eq!(parts.pages, Excess { ratio: 1.5, bytes: 110 });
        assert_eq!(parts.process.bytes, 70);
        assert_eq!(parts.all, Excess { ratio: 4.0, bytes: 300 });
        let idle =
            MemoryFigures { used: 2, at_start: 1, resident_at_start: 20, resident: 22, ..MemoryFigures::default() };
        let all = Fragmentation::of(&idle).all;
        assert!((1.0..1.1).contains(&all.ratio), "the program itself is no waste: {all:?}");
        let parts = Fragmentation::of(&MemoryFigures { used: 100, resident: 90, ..MemoryFigures::default() });
        assert_eq!((parts.allocated, parts.pages.bytes, parts.process.bytes), (100, 0, -10));
    }
}
