//! Counted parts of a collection whose elements are records: which part has the element of a number, or of a name.
//!
//! The records of elements know their order and not their numbers. So a collection that is asked for numbers (ranks of a sorted
//! set, indices of a list) is divided into parts of some hundred elements; this is the list of the parts, in order, with the name
//! that each begins with and how many elements it has. It is read when it is needed first, and each of its entries is a record too,
//! put when it changes. Fifty million elements are some two hundred thousand parts, and any of them is found by a few hundred
//! steps, most of them over numbers that lie beside each other.

use std::ops::Bound;

use crate::elements::{Elements, Span, Writer};

/// The letter that the records of parts begin with; the beginning of the part follows.
pub(super) const LETTER: u8 = b'p';
/// Parts of a block at which it is divided.
const BLOCK_LEN_MAX: usize = 512;

#[derive(Debug, Clone)]
struct CountedPart {
    begin: Box<[u8]>,
    count: u32,
}

#[derive(Debug, Clone, Default)]
struct Block {
    parts: Vec<CountedPart>,
    /// The elements of all its parts.
    count: usize,
}

/// The parts of a collection in order.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    /// None is empty.
    blocks: Vec<Block>,
    /// The parts.
    len: usize,
    /// The elements.
    count: usize,
}

/// Where a part is.
#[derive(Debug, Clone, Copy)]
struct PartPosition {
    block: usize,
    part: usize,
}

impl Directory {
    /// Reads that of a collection; nothing if it cannot be read.
    pub fn read(elements: &Elements) -> Option<Self> {
        let mut directory = Self::default();
        let span = Span { from: Bound::Included(&[LETTER]), to: Bound::Excluded(&[LETTER + 1]), backwards: false };
        elements.scan(span, &mut |record, value| {
            let begin = record.get(1..).unwrap_or_default();
            let count = value.first_chunk().map_or(0, |count| u32::from_be_bytes(*count));
            directory.insert(directory.len, begin, count as usize);
            true
        });
        (!elements.has_failed()).then_some(directory)
    }

    /// How many parts there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many elements there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The place of a part; one beyond the last one is behind it.
    fn place(&self, mut index: usize) -> PartPosition {
        for (number, block) in self.blocks.iter().enumerate() {
            if index < block.parts.len() {
                return PartPosition { block: number, part: index };
            }
            index -= block.parts.len();
        }
        let block = self.blocks.len().saturating_sub(1);
        PartPosition { block, part: self.blocks.get(block).map_or(0, |block| block.parts.len()) }
    }

    fn part(&self, index: usize) -> Option<&CountedPart> {
        let place = self.place(index);
        self.blocks.get(place.block)?.parts.get(place.part)
    }

    /// What a part begins with.
    pub fn begin(&self, index: usize) -> Option<&[u8]> {
        self.part(index).map(|part| &*part.begin)
    }

    /// How many elements a part has.
    pub fn count_of(&self, index: usize) -> usize {
        self.part(index).map_or(0, |part| part.count as usize)
    }

    /// The part that has a name, or would have it, and how many elements are in front of the part. A name in front of all parts is
    /// of the first one.
    pub fn find(&self, name: &[u8]) -> (usize, usize) {
        let begins = |block: &Block| block.parts.first().is_some_and(|part| *part.begin <= *name);
        let number = self.blocks.partition_point(begins).saturating_sub(1);
        let (mut index, mut before) = (0, 0);
        for block in self.blocks.iter().take(number) {
            index += block.parts.len();
            before += block.count;
        }
        let parts = self.blocks.get(number).map_or(&[][..], |block| &block.parts);
        let within = parts.partition_point(|part| *part.begin <= *name).saturating_sub(1);
        before += parts.iter().take(within).map(|part| part.count as usize).sum::<usize>();
        (index + within, before)
    }

    /// The part that has the element of a number, and the element's number within.
    pub fn of_number(&self, mut number: usize) -> Option<(usize, usize)> {
        let mut index = 0;
        for block in &self.blocks {
            if number < block.count {
                for part in &block.parts {
                    if number < part.count as usize {
                        return Some((index, number));
                    }
                    number -= part.count as usize;
                    index += 1;
                }
            }
            number = number.checked_sub(block.count)?;
            index += block.parts.len();
        }
        None
    }

    /// Puts a part in front of the one of an index.
    pub fn insert(&mut self, index: usize, begin: &[u8], count: usize) {
        if self.blocks.is_empty() {
            self.blocks.push(Block::default());
        }
        let place = self.place(index);
        let Some(block) = self.blocks.get_mut(place.block) else { return };
        block.parts.insert(place.part, CountedPart { begin: begin.into(), count: count as u32 });
        block.count += count;
        self.len += 1;
        self.count += count;
        if block.parts.len() > BLOCK_LEN_MAX {
            // Whoever adds at the end leaves full blocks behind.
            let at = if index + 1 == self.len { BLOCK_LEN_MAX } else { BLOCK_LEN_MAX / 2 };
            let parts = block.parts.split_off(at);
            let count = parts.iter().map(|part| part.count as usize).sum();
            block.count -= count;
            self.blocks.insert(place.block + 1, Block { parts, count });
        }
    }

    /// Says how many elements a part has.
    pub fn set_count(&mut self, index: usize, count: usize) {
        let place = self.place(index);
        let Some(block) = self.blocks.get_mut(place.block) else { return };
        let Some(part) = block.parts.get_mut(place.part) else { return };
        let former = std::mem::replace(&mut part.count, count as u32) as usize;
        block.count = block.count - former + count;
        self.count = self.count - former + count;
    }

    /// Has a part begin elsewhere.
    pub fn set_begin(&mut self, index: usize, begin: &[u8]) {
        let place = self.place(index);
        let part = self.blocks.get_mut(place.block).and_then(|block| block.parts.get_mut(place.part));
        if let Some(part) = part {
            part.begin = begin.into();
        }
    }

    /// Removes a part.
    pub fn remove(&mut self, index: usize) {
        let place = self.place(index);
        let Some(block) = self.blocks.get_mut(place.block) else { return };
        if place.part >= block.parts.len() {
            return;
        }
        let count = block.parts.remove(place.part).count as usize;
        block.count -= count;
        self.len -= 1;
        self.count -= count;
        if block.parts.is_empty() {
            self.blocks.remove(place.block);
        }
    }

    /// Puts or deletes the record of what was, or is, the beginning of a part.
    pub fn write(&self, begin: &[u8], writer: &impl Writer) {
        let (index, _) = self.find(begin);
        match self.part(index).filter(|part| *part.begin == *begin) {
            Some(part) => writer.put(&record(begin), &part.count.to_be_bytes()),
            None => writer.delete(&record(begin)),
        }
    }

    /// Puts the record of a part.
    pub fn put(&self, index: usize, elements: &Elements) {
        if let Some(part) = self.part(index) {
            elements.put(&record(&part.begin), &part.count.to_be_bytes());
        }
    }

    /// Deletes the record of a part.
    pub fn delete(&self, index: usize, elements: &Elements) {
        if let Some(part) = self.part(index) {
            elements.delete(&record(&part.begin));
        }
    }
}

fn record(begin: &[u8]) -> Vec<u8> {
    [&[LETTER], begin].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn it_does_what_a_vector_of_parts_does() {
        let mut random = Random::new(5);
        let (mut directory, mut model) = (Directory::default(), Vec::<(Vec<u8>, usize)>::new());
        for step in 0..20_000 {
            let index = random.below(model.len() as u64 + 1) as usize;
            let grows = step % 8000 < 5000;
            if random.below(10) < if grows { 8 } else { 2 } {
                // Between its neighbours.
                let before = index.checked_sub(1).map_or(Vec::new(), |index| model[index].0.clone());
                let begin = [&before[..], &[1 + random.below(200) as u8]].concat();
                if model.get(index).is_none_or(|(next, _)| begin < *next) && before.len() < 60 {
                    let count = random.below(500) as usize;
                    directory.insert(index, &begin, count);
                    model.insert(index, (begin, count));
                }
            } else if index < model.len() {
                if random.below(3) == 0 {
                    let count = random.below(900) as usize;
                    directory.set_count(index, count);
                    model[index].1 = count;
                } else {
                    directory.remove(index);
                    model.remove(index);
                }
            }
            assert_eq!(directory.len(), model.len());
            if step % 50 == 0 && !model.is_empty() {
                let all: usize = model.iter().map(|(_, count)| count).sum();
                assert_eq!(directory.count(), all);
                let number = random.below(all as u64 + 10) as usize;
                let mut left = number;
                let found = model.iter().position(|(_, count)| {
                    let here = left < *count;
                    left -= if here { 0 } else { *count };
                    here
                });
                assert_eq!(directory.of_number(number), found.map(|found| (found, left)));
                let index = random.below(model.len() as u64) as usize;
                let before = model.iter().take(index).map(|(_, count)| count).sum();
                assert_eq!(directory.find(&[&model[index].0[..], &[0]].concat()), (index, before));
                assert_eq!(directory.find(b""), (0, 0));
                assert_eq!(directory.begin(index), Some(&*model[index].0));
                assert_eq!(directory.count_of(index), model[index].1);
            }
        }
    }
}
