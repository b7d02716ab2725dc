//! Some of many, chosen at random.

use keyspace::random::Random;

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

/// Chooses so many of elements that come one after the other, each as likely as any other.
#[derive(Debug, Clone, Copy)]
pub struct Chooser {
    wanted: usize,
    left: usize,
}

impl Chooser {
    /// One that will choose so many, or all, of so many that will come.
    pub fn new(wanted: usize, of: usize) -> Self {
        Self { wanted: wanted.min(of), left: of }
    }

    /// How many are still to be chosen.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Whether the next one is chosen.
    pub fn takes(&mut self, random: &mut Random) -> bool {
        let takes = random.below(self.left.max(1) as u64) < self.wanted as u64;
        self.left = self.left.saturating_sub(1);
        self.wanted -= usize::from(takes);
        takes
    }
}

/// Whether drawing until as many are different takes less than choosing from all.
pub fn draws_are_cheaper(count: usize, len: usize) -> bool {
    count.saturating_mul(3) <= len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_as_likely_to_be_chosen() {
        let mut random = Random::new(3);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            let mut chooser = Chooser::new(3, 10);
            let chosen: Vec<usize> = (0..10).filter(|_| chooser.takes(&mut random)).collect();
            assert_eq!((chosen.len(), chooser.wanted()), (3, 0));
            chosen.into_iter().for_each(|number| counts[number] += 1);
        }
        assert!(counts.iter().all(|count| (2700..3300).contains(count)), "{counts:?}");
        let mut all = Chooser::new(9, 4);
        assert!((0..4).all(|_| all.takes(&mut random)));
    }
}
