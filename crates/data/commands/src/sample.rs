//! Some of many, chosen at random.

use crate::random::Random;

/// So many different ones of all, in any order; all of them as they are if there are no more.
pub fn choose<T>(mut all: Vec<T>, count: usize, random: &mut Random) -> Vec<T> {
    let len = all.len();
    if count >= len {
        return all;
    }
    for place in 0..count {
        let other = place + random.below((len - place) as u64) as usize;
        all.swap(place, other);
    }
    all.truncate(count);
    all
}

/// Whether drawing until as many are different takes less than choosing from all.
pub fn draws_are_cheaper(count: usize, len: usize) -> bool {
    count.saturating_mul(3) <= len
}
