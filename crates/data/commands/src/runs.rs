//! Sorting in steps: each run of some elements is sorted by itself, then they are taken one after the other from the runs that have
//! them, the least first.
//!
//! A run is as long as the step that brought it, so there are few, and a heap of them knows which is next. What has been taken is
//! freed as it goes.

use std::{cmp::Ordering, collections::VecDeque};

/// Elements in sorted runs.
#[derive(Debug)]
pub struct Runs<T> {
    /// A heap: no run's first element is behind those of the two below it.
    runs: Vec<Run<T>>,
    len: usize,
}

#[derive(Debug)]
struct Run<T> {
    /// The order of runs decides between elements that are equal.
    number: usize,
    elements: VecDeque<T>,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { runs: Vec::new(), len: 0 }
    }
}

impl<T> Runs<T> {
    /// How many elements are left.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds some elements. Equal ones keep their order, and come behind those that were added before.
    pub fn add(&mut self, mut elements: Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
        elements.sort_by(&compare);
        self.add_sorted(elements, compare);
    }

    /// The same with elements that are sorted.
    pub fn add_sorted(&mut self, elements: Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
        if elements.is_empty() {
            return;
        }
        self.len += elements.len();
        let mut at = self.runs.len();
        self.runs.push(Run { number: at, elements: elements.into() });
        while at > 0 && self.is_before(at, (at - 1) / 2, &compare) {
            self.runs.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// Whether the first element of a run comes before that of another one.
    fn is_before(&self, one: usize, other: usize, compare: &impl Fn(&T, &T) -> Ordering) -> bool {
        let (Some(one), Some(other)) = (self.runs.get(one), self.runs.get(other)) else { return false };
        let (Some(first), Some(second)) = (one.elements.front(), other.elements.front()) else { return false };
        compare(first, second).then(one.number.cmp(&other.number)).is_lt()
    }

    /// Takes the least element.
    pub fn next(&mut self, compare: impl Fn(&T, &T) -> Ordering) -> Option<T> {
        let first = self.runs.first_mut()?;
        let element = first.elements.pop_front()?;
        if first.elements.is_empty() {
            self.runs.swap_remove(0);
        }
        self.len -= 1;
        let mut at = 0;
        loop {
            let below = [2 * at + 1, 2 * at + 2];
            let least =
                below.into_iter().fold(at, |least, run| if self.is_before(run, least, &compare) { run } else { least });
            if least == at {
                return Some(element);
            }
            self.runs.swap(at, least);
            at = least;
        }
    }

    /// Frees some of what nobody wants any more. Returns whether there is more.
    pub fn shed(&mut self) -> bool {
        self.len -= self.runs.pop().map_or(0, |run| run.elements.len());
        !self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyspace::random::Random;

    #[test]
    fn runs_give_what_sorting_all_of_it_gives() {
        let mut random = Random::new(5);
        for len in [0, 1, 2, 7, 100, 1000] {
            for run in [1, 3, 64, 5000] {
                let all: Vec<(u64, usize)> = (0..len).map(|number| (random.below(20), number)).collect();
                let mut expected = all.clone();
                expected.sort_by_key(|(key, _)| *key);
                let compare = |one: &(u64, usize), other: &(u64, usize)| one.0.cmp(&other.0);
                let mut runs = Runs::default();
                all.chunks(run).for_each(|some| runs.add(some.to_vec(), compare));
                assert_eq!(runs.len(), len);
                let sorted: Vec<_> = std::iter::from_fn(|| runs.next(compare)).collect();
                assert_eq!(sorted, expected, "{len} {run}");
                assert!(runs.is_empty());
            }
        }
    }
}
