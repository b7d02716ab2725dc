//! A hash table that grows without a pause and can be walked while it changes.
//!
//! Extendible hashing: a directory, indexed by the leading bits of the hash, names segments; a segment that is full splits
//! in two by one more bit, and only if it already used all bits of the directory does that double (four bytes an entry).
//! So no insertion ever moves more than a segment's elements, where an ordinary table moves all of them.
//!
//! A segment's elements lie side by side, and its table has but their indices: places that are empty, a third of them or more,
//! take five bytes each and not as much as an element. Such a table compares a few leading bits of hashes before it looks at an
//! element. The elements of a segment share these, so the table gets other bits (`table_hash`) there.
//!
//! It also makes `SCAN` simple. Elements are given in the order of their hashes, which nothing that happens to the table
//! can change: a cursor is a hash, and whatever stays in the table from the first call to the last is met exactly once.

use hashbrown::HashTable;

use crate::random::Random;

/// What can be put into a [`HashIndex`].
pub trait Hashed {
    /// The bytes that name the element.
    fn name(&self) -> &[u8];
}

/// The elements of a segment at which it splits: as many as a table of 512 places takes.
const SEGMENT_LEN_MAX: usize = 448;
/// The bits that a directory uses at most; beyond, segments grow.
const DEPTH_MAX: u32 = 20;
/// A cursor has this many bits of the hash: with a slot's 14 bits in front, all languages' integers hold it.
pub const CURSOR_BITS: u32 = 38;

/// The hash that a segment's table gets: places come of the lowest bits, as in the hash itself, and what is compared before an
/// element is looked at comes of the seven highest. Those lead to the segment, so bits of the middle are mixed into them.
fn table_hash(hash: u64) -> u64 {
    hash ^ hash << 32
}

#[derive(Debug, Clone)]
struct Segment<T> {
    depth: u32,
    /// Where in `elements` the one with a hash is.
    table: HashTable<u32>,
    elements: Vec<T>,
}

impl<T: Hashed> Segment<T> {
    /// One whose table is not made.
    fn new(depth: u32, elements: Vec<T>) -> Self {
        Self { depth, table: HashTable::new(), elements }
    }

    /// Makes the table for elements with these hashes, with room for those that will come.
    fn index_anew(&mut self, hashes: &[u64], seed: u64) {
        let elements = &self.elements;
        let mut table = HashTable::with_capacity(elements.len().max(SEGMENT_LEN_MAX));
        for (hash, index) in hashes.iter().zip(0..) {
            table.insert_unique(table_hash(*hash), index, |index| table_hash_at(elements, *index, seed));
        }
        self.table = table;
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<usize> {
        let is_it = |index: &u32| self.elements.get(*index as usize).is_some_and(|element| element.name() == name);
        self.table.find(table_hash(hash), is_it).map(|index| *index as usize)
    }

    fn insert(&mut self, hash: u64, element: T, seed: u64) {
        let index = self.elements.len() as u32;
        let elements = &mut self.elements;
        if elements.len() == elements.capacity() {
            // Twice as much would stand half empty.
            elements.reserve_exact((elements.len() / 4).max(2));
        }
        elements.push(element);
        self.table.insert_unique(table_hash(hash), index, |index| table_hash_at(elements, *index, seed));
    }

    fn remove(&mut self, hash: u64, name: &[u8], seed: u64) -> Option<T> {
        let elements = &mut self.elements;
        let is_it = |index: &u32| elements.get(*index as usize).is_some_and(|element| element.name() == name);
        let (index, _) = self.table.find_entry(table_hash(hash), is_it).ok()?.remove();
        let element = elements.swap_remove(index as usize);
        // The last one has taken its place.
        let former = elements.len() as u32;
        if former != index
            && let Some(place) = self.table.find_mut(table_hash_at(elements, index, seed), |place| *place == former)
        {
            *place = index;
        }
        if self.table.capacity() > 32 && elements.len() < self.table.capacity() / 8 {
            self.table.shrink_to(elements.len() * 2, |index| table_hash_at(elements, *index, seed));
        }
        if elements.capacity() > 32 && elements.len() < elements.capacity() / 4 {
            elements.shrink_to(elements.len() * 2);
        }
        Some(element)
    }
}

/// The [hash of a table](table_hash) for the element at an index that the table has.
fn table_hash_at<T: Hashed>(elements: &[T], index: u32, seed: u64) -> u64 {
    elements.get(index as usize).map_or(0, |element| table_hash(hash(element.name(), seed)))
}

/// Elements by name.
#[derive(Debug, Clone)]
pub struct HashIndex<T> {
    seed: u64,
    depth: u32,
    /// `2^depth` indices of segments; empty as long as there is one segment at most.
    directory: Vec<u32>,
    segments: Vec<Segment<T>>,
    len: usize,
    /// The most elements that a segment ever had.
    segment_len_max: usize,
}

/// The place of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    segment: usize,
    index: usize,
}

/// Whether a walk that is at a cursor has still to come to a name.
pub fn is_ahead(name: &[u8], seed: u64, cursor: u64) -> bool {
    hash(name, seed) >> (64 - CURSOR_BITS) >= cursor
}

/// The hash of a name.
pub fn hash(name: &[u8], seed: u64) -> u64 {
    twox_hash::XxHash3_64::oneshot_with_seed(seed, name)
}

impl<T: Hashed> HashIndex<T> {
    /// An empty one, which takes no memory on the heap.
    pub const fn new(seed: u64) -> Self {
        Self { seed, depth: 0, directory: Vec::new(), segments: Vec::new(), len: 0, segment_len_max: 0 }
    }

    /// What names are hashed with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The hash of a name in this table.
    pub fn hash(&self, name: &[u8]) -> u64 {
        hash(name, self.seed)
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn segment_index(&self, hash: u64) -> usize {
        if self.depth == 0 {
            return 0;
        }
        self.directory.get((hash >> (64 - self.depth)) as usize).map_or(0, |index| *index as usize)
    }

    /// The element of a name.
    pub fn get(&self, name: &[u8]) -> Option<&T> {
        self.get_hashed(self.hash(name), name)
    }

    /// The element of a name whose hash is known.
    pub fn get_hashed(&self, hash: u64, name: &[u8]) -> Option<&T> {
        let segment = self.segments.get(self.segment_index(hash))?;
        segment.elements.get(segment.find(hash, name)?)
    }

    /// Where the element of a name is, until the table changes.
    pub fn locate(&self, hash: u64, name: &[u8]) -> Option<Location> {
        let segment = self.segment_index(hash);
        let index = self.segments.get(segment)?.find(hash, name)?;
        Some(Location { segment, index })
    }

    /// The element at a place.
    pub fn at(&self, location: Location) -> Option<&T> {
        self.segments.get(location.segment)?.elements.get(location.index)
    }

    /// The element at a place, to change what does not name it.
    pub fn at_mut(&mut self, location: Location) -> Option<&mut T> {
        self.segments.get_mut(location.segment)?.elements.get_mut(location.index)
    }

    /// The element of a name, to change what does not name it.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut T> {
        self.get_mut_hashed(self.hash(name), name)
    }

    /// The same with a known hash.
    pub fn get_mut_hashed(&mut self, hash: u64, name: &[u8]) -> Option<&mut T> {
        let location = self.locate(hash, name)?;
        self.at_mut(location)
    }

    /// Puts an element in the place of the one of the same name, which is given back.
    pub fn insert(&mut self, element: T) -> Option<T> {
        let hash = self.hash(element.name());
        if let Some(present) = self.get_mut_hashed(hash, element.name()) {
            return Some(std::mem::replace(present, element));
        }
        self.insert_new(hash, element);
        None
    }

    /// Puts an element whose name is not there yet.
    pub fn insert_new(&mut self, hash: u64, element: T) {
        if self.segments.is_empty() {
            self.segments.reserve_exact(1);
            self.segments.push(Segment::new(0, Vec::new()));
        }
        let mut index = self.segment_index(hash);
        while self
            .segments
            .get(index)
            .is_some_and(|segment| segment.elements.len() >= SEGMENT_LEN_MAX && segment.depth < DEPTH_MAX)
        {
            self.split(index, hash);
            index = self.segment_index(hash);
        }
        let seed = self.seed;
        if let Some(segment) = self.segments.get_mut(index) {
            segment.insert(hash, element, seed);
            self.len += 1;
            self.segment_len_max = self.segment_len_max.max(segment.elements.len());
        }
    }

    /// Splits the segment that a hash leads to.
    fn split(&mut self, index: usize, hash: u64) {
        let seed = self.seed;
        let added = self.segments.len() as u32;
        let Some(segment) = self.segments.get_mut(index) else { return };
        let (former_depth, depth) = (segment.depth, segment.depth + 1);
        segment.depth = depth;
        // Hashed once: that takes longer than all else.
        let is_upper = |hash: u64| hash >> (64 - depth) & 1 == 1;
        let all: Vec<u64> = segment.elements.iter().map(|element| self::hash(element.name(), seed)).collect();
        let (upper, lower): (Vec<u64>, Vec<u64>) = all.iter().partition(|hash| is_upper(**hash));
        let mut hashes = all.into_iter();
        let mut moved = Vec::with_capacity(upper.len() + upper.len() / 8);
        moved.extend(segment.elements.extract_if(.., |_| hashes.next().is_some_and(is_upper)));
        segment.elements.shrink_to(lower.len() + lower.len() / 8);
        segment.index_anew(&lower, seed);
        if self.segments.len() == self.segments.capacity() {
            self.segments.reserve_exact((self.segments.len() / 4).max(1));
        }
        let mut added_segment = Segment::new(depth, moved);
        added_segment.index_anew(&upper, seed);
        self.segments.push(added_segment);
        if depth > self.depth {
            self.directory = match self.directory.as_slice() {
                [] => vec![0, 0],
                directory => directory.iter().flat_map(|index| [*index, *index]).collect(),
            };
            self.depth += 1;
        }
        // All entries whose leading bits are the segment's, and then a one, lead to the new segment.
        let prefix = hash.checked_shr(64 - former_depth).unwrap_or(0) << 1 | 1;
        let spread = self.depth - depth;
        let first = (prefix << spread) as usize;
        for entry in self.directory.iter_mut().skip(first).take(1 << spread) {
            *entry = added;
        }
    }

    /// Takes an element out.
    pub fn remove(&mut self, name: &[u8]) -> Option<T> {
        self.remove_hashed(self.hash(name), name)
    }

    /// The same with a known hash.
    pub fn remove_hashed(&mut self, hash: u64, name: &[u8]) -> Option<T> {
        let index = self.segment_index(hash);
        let segment = self.segments.get_mut(index)?;
        let element = segment.remove(hash, name, self.seed)?;
        self.len -= 1;
        if self.len == 0 {
            *self = Self::new(self.seed);
        }
        Some(element)
    }

    /// Whether freeing it takes a while.
    pub(crate) fn is_large(&self) -> bool {
        self.segments.len() > 32
    }

    /// Frees a segment of what nobody needs any more. Returns whether there are more.
    pub(crate) fn shed(&mut self) -> bool {
        self.segments.pop().is_some()
    }

    /// The same, and hands out its elements. Returns whether there was one.
    pub(crate) fn shed_each(&mut self, each: impl FnMut(T)) -> bool {
        self.segments.pop().map(|segment| segment.elements.into_iter().for_each(each)).is_some()
    }

    /// All elements, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().flat_map(|segment| segment.elements.iter())
    }

    /// All elements, to change what does not name them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.segments.iter_mut().flat_map(|segment| segment.elements.iter_mut())
    }

    /// Gives about `count` elements in the order of their hashes, beginning with those whose hash's leading
    /// [`CURSOR_BITS`] are at least `cursor`. Returns where to go on, or nothing at the end.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut each: impl FnMut(&'a T)) -> Option<u64> {
        let from = cursor << (64 - CURSOR_BITS);
        let mut given = 0;
        let mut at = if self.depth == 0 { 0 } else { (from >> (64 - self.depth)) as usize };
        let mut found: Vec<(u64, &T)> = Vec::new();
        loop {
            let index = if self.depth == 0 { Some(0) } else { self.directory.get(at).map(|index| *index as usize) };
            let segment = index.and_then(|index| self.segments.get(index))?;
            found.clear();
            found.extend(segment.elements.iter().filter_map(|element| {
                let position = self.hash(element.name()) >> (64 - CURSOR_BITS);
                (position >= cursor).then_some((position, element))
            }));
            found.sort_unstable_by_key(|(position, _)| *position);
            let mut last = None;
            for (position, element) in &found {
                // Those whose positions are the same cannot be told apart by a cursor, so they go together.
                if given >= count && last != Some(*position) {
                    return Some(*position);
                }
                last = Some(*position);
                each(element);
                given += 1;
            }
            at = (at >> (self.depth - segment.depth) << (self.depth - segment.depth))
                + (1 << (self.depth - segment.depth));
            if self.depth == 0 || at >= self.directory.len() {
                return None;
            }
            if given >= count {
                return Some((at as u64) << (CURSOR_BITS - self.depth));
            }
        }
    }

    /// Up to so many elements that lie side by side, chosen by a random number, all of them as likely. To look at one costs as much as
    /// to look at all of them: nearly all of it is waiting for memory.
    pub fn random_neighbours(&self, random: u64, len: usize) -> &[T] {
        let mut random = Random::new(random);
        let Some(segment) = self.segments.get(random.below(self.segments.len().max(1) as u64) as usize) else {
            return &[];
        };
        let runs = self.segment_len_max.div_ceil(len.max(1));
        let from = random.below(runs.max(1) as u64) as usize * len;
        match segment.elements.get(from..) {
            Some(rest) if !rest.is_empty() => rest.get(..len).unwrap_or(rest),
            // Segments are not all as full as the fullest has been.
            _ => self.random(random.draw()).map_or(&[], std::slice::from_ref),
        }
    }

    /// An element chosen by a random number, all of them as likely.
    pub fn random(&self, random: u64) -> Option<&T> {
        /// Segments are about as large as each other.
        const TRIES: usize = 64;
        let mut random = Random::new(random);
        // All elements are as likely if those that a segment does not have are drawn in vain.
        let most = self.segment_len_max;
        if self.is_empty() {
            return None;
        }
        for _ in 0..TRIES {
            let segment = self.segments.get(random.below(self.segments.len() as u64) as usize)?;
            if let Some(element) = segment.elements.get(random.below(most as u64) as usize) {
                return Some(element);
            }
        }
        // Most of it was removed: by number, then.
        let mut number = random.below(self.len as u64) as usize;
        for segment in &self.segments {
            match segment.elements.get(number) {
                Some(element) => return Some(element),
                None => number -= segment.elements.len(),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::Bytes;

    fn name(number: usize) -> Bytes {
        Bytes::from_slice(format!("element:{number}").as_bytes())
    }

    #[test]
    fn it_holds_what_was_put_and_not_what_was_taken() {
        const COUNT: usize = 20_000;
        let mut index = HashIndex::new(7);
        for number in 0..COUNT {
            assert!(index.insert(name(number)).is_none());
        }
        assert!(index.insert(name(5)).is_some());
        assert_eq!(index.len(), COUNT);
        for number in (0..COUNT).step_by(2) {
            assert!(index.remove(&name(number)).is_some(), "{number}");
        }
        for number in 0..COUNT {
            assert_eq!(index.get(&name(number)).is_some(), number % 2 == 1, "{number}");
        }
        assert_eq!(index.iter().count(), COUNT / 2);
    }

    /// An element that counts how often it is looked at.
    struct Counting(Bytes);

    thread_local! {
        static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    impl Hashed for Counting {
        fn name(&self) -> &[u8] {
            LOOKED_AT.set(LOOKED_AT.get() + 1);
            &self.0
        }
    }

    #[test]
    fn few_elements_are_looked_at_however_many_there_are() {
        for len in [1_000, 100_000] {
            let mut index = HashIndex::new(9);
            (0..len).for_each(|number| drop(index.insert(Counting(name(number)))));
            let looked_at = |act: &mut dyn FnMut()| {
                LOOKED_AT.set(0);
                act();
                LOOKED_AT.get() as f64 / len as f64
            };
            let all = 0..len;
            let present = looked_at(&mut || all.clone().for_each(|number| assert!(index.get(&name(number)).is_some())));
            assert!((1.0..1.2).contains(&present), "{len}: {present} for one that is there");
            let absent = |index: &HashIndex<Counting>| {
                looked_at(&mut || all.clone().for_each(|number| assert!(index.get(&name(len + number)).is_none())))
            };
            assert!(absent(&index) < 0.2, "{len}: {} for one that is not there", absent(&index));
            // The last one of a segment takes the place of the one that goes: it is hashed, and found again.
            let half = (0..len).step_by(2);
            let removed = looked_at(&mut || half.clone().for_each(|number| drop(index.remove(&name(number)))));
            assert!(removed < 3.0, "{len}: {removed} for one that goes");
            assert!(absent(&index) < 0.2, "{len}: {} for one that is not there any more", absent(&index));
            let removed = looked_at(&mut || all.clone().for_each(|number| drop(index.remove(&name(number)))));
            assert!(removed < 3.0 && index.is_empty(), "{len}: {removed} for one of the last that go");
        }
    }

    #[test]
    fn a_walk_meets_what_stays_exactly_once() {
        let mut index = HashIndex::new(3);
        for number in 0..5000 {
            index.insert(name(number));
        }
        let mut met: Vec<Bytes> = Vec::new();
        let mut cursor = 0;
        let mut step = 0;
        loop {
            let next = index.scan(cursor, 10, |element| met.push(element.clone()));
            // The table grows and shrinks under the walk.
            for number in 0..4 {
                index.insert(name(10_000 + step * 4 + number));
                index.remove(&name(2500 + step % 2500));
            }
            step += 1;
            match next {
                Some(next) => cursor = next,
                None => break,
            }
        }
        let distinct: BTreeSet<_> = met.iter().cloned().collect();
        assert_eq!(distinct.len(), met.len());
        assert!((0..2500).all(|number| distinct.contains(&name(number))));
    }

    #[test]
    fn any_element_is_as_likely_to_be_the_random_one() {
        for len in [1, 2, 50, 3000] {
            let mut index = HashIndex::new(1);
            (0..len).for_each(|number| assert!(index.insert(name(number)).is_none()));
            let mut drawn: BTreeMap<Bytes, usize> = BTreeMap::new();
            for number in 0..len as u64 * 100 {
                *drawn.entry(index.random(number).expect("it is not empty").clone()).or_default() += 1;
            }
            assert_eq!(drawn.len(), len);
            assert!(drawn.values().all(|count| (40..=180).contains(count)), "{:?}", drawn.values().max());
            let mut drawn: BTreeMap<Bytes, usize> = BTreeMap::new();
            for number in 0..len as u64 * 100 / len.min(4) as u64 {
                let neighbours = index.random_neighbours(number, 4);
                assert!((1..=4).contains(&neighbours.len()));
                neighbours.iter().for_each(|name| *drawn.entry(name.clone()).or_default() += 1);
            }
            assert_eq!(drawn.len(), len);
            assert!(drawn.values().all(|count| (40..=180).contains(count)), "{:?}", drawn.values().max());
        }
    }

    #[test]
    fn an_element_is_drawn_when_few_are_left_of_many() {
        let mut index = HashIndex::new(1);
        (0..20_000).for_each(|number| assert!(index.insert(name(number)).is_none()));
        (0..19_990).for_each(|number| assert!(index.remove(&name(number)).is_some()));
        let drawn: BTreeSet<_> = (0..500).filter_map(|number| index.random(number).cloned()).collect();
        assert_eq!(drawn.len(), 10);
    }
}
