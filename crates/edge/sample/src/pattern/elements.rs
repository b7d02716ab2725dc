//! The patterns of a reference as text, in the order in which they were added.

use std::collections::HashMap;
use std::sync::Arc;

/// From this many elements on, keys are found by hash.
const HASH_FROM: usize = 32;
/// So many dead elements are put up with, whatever their share.
const DEAD_MAX: usize = 32;

/// A pattern as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    /// The version of the whole that it belongs to.
    pub(crate) version: u32,
    /// The line of the file that it was read from; 0 if it came at run time.
    pub(crate) line: u32,
    pub(crate) key: Arc<[u8]>,
    /// A map's value.
    pub(crate) value: Option<Arc<[u8]>>,
}

/// Elements by number. Numbers rise and are never given again.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    /// In order; those that were removed leave a hole, and holes are closed when they are most of it.
    list: Vec<(u64, Option<Element>)>,
    holes: usize,
    next: u64,
    /// The numbers of each key: made when a key is first looked for.
    keys: Option<HashMap<Arc<[u8]>, Numbers>>,
}

#[derive(Debug)]
enum Numbers {
    One(u64),
    Many(Vec<u64>),
}

impl Numbers {
    fn add(&mut self, number: u64) {
        match self {
            Numbers::One(first) => *self = Numbers::Many(vec![*first, number]),
            Numbers::Many(all) => all.push(number),
        }
    }

    fn as_slice(&self) -> &[u64] {
        match self {
            Numbers::One(number) => std::slice::from_ref(number),
            Numbers::Many(all) => all,
        }
    }
}

impl Elements {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Elements { list: Vec::with_capacity(capacity), ..Elements::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len() - self.holes
    }

    /// Every element with its number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Element)> {
        self.list.iter().filter_map(|(number, element)| Some((*number, element.as_ref()?)))
    }

    pub(crate) fn push(&mut self, element: Element) -> u64 {
        let number = self.next;
        self.next += 1;
        if let Some(keys) = &mut self.keys {
            match keys.get_mut(&element.key) {
                Some(numbers) => numbers.add(number),
                None => {
                    keys.insert(Arc::clone(&element.key), Numbers::One(number));
                }
            }
        }
        self.list.push((number, Some(element)));
        number
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.list.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    pub(crate) fn of(&self, number: u64) -> Option<&Element> {
        self.list.get(self.position(number)?)?.1.as_ref()
    }

    pub(crate) fn of_mut(&mut self, number: u64) -> Option<&mut Element> {
        let position = self.position(number)?;
        self.list.get_mut(position)?.1.as_mut()
    }

    /// The numbers of the elements with this key, in order.
    pub(crate) fn with_key(&mut self, key: &[u8]) -> Vec<u64> {
        if self.keys.is_none() && self.list.len() < HASH_FROM {
            return self.iter().filter(|(_, element)| *element.key == *key).map(|(number, _)| number).collect();
        }
        let list = &self.list;
        let keys = self.keys.get_or_insert_with(|| {
            let mut keys: HashMap<Arc<[u8]>, Numbers> = HashMap::with_capacity(list.len());
            for (number, element) in list.iter().filter_map(|(number, element)| Some((*number, element.as_ref()?))) {
                match keys.get_mut(&element.key) {
                    Some(numbers) => numbers.add(number),
                    None => {
                        keys.insert(Arc::clone(&element.key), Numbers::One(number));
                    }
                }
            }
            keys
        });
        keys.get(key).map(|numbers| numbers.as_slice().to_vec()).unwrap_or_default()
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Element> {
        let position = self.position(number)?;
        let element = self.list.get_mut(position)?.1.take()?;
        self.holes += 1;
        if let Some(keys) = &mut self.keys {
            let is_last = match keys.get_mut(&element.key) {
                Some(Numbers::Many(all)) => {
                    all.retain(|other| *other != number);
                    all.is_empty()
                }
                _ => true,
            };
            if is_last {
                keys.remove(&element.key);
            }
        }
        if self.holes > DEAD_MAX && self.holes * 2 > self.list.len() {
            self.list.retain(|(_, element)| element.is_some());
            self.holes = 0;
        }
        Some(element)
    }

    /// Removes every element for which `is_over` says so; how many.
    pub(crate) fn remove_all(&mut self, is_over: impl Fn(&Element) -> bool) -> usize {
        let before = self.len();
        self.list.retain(|(_, element)| element.as_ref().is_some_and(|element| !is_over(element)));
        self.list.shrink_to_fit();
        self.holes = 0;
        self.keys = None;
        before - self.list.len()
    }
}
