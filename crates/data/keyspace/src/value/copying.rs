//! Copies of large values, made in steps: element by element in memory, or record by record if that is where they are.

use std::rc::Rc;

use crate::{
    Bytes,
    elements::{ElementsCopy, Source},
};

use super::{
    Descriptor, Hash, Kind as _, List, Queue, Set, SortedSet, Stream, Value, ValueLimits,
    hash::HashLimits,
    ledger::Ledger,
    list::End,
    sorted_set::{Building, SmallLimits},
    stream::Spilled,
    walk::{CollectionPiece, Walk},
};

/// A copy that is being made.
#[derive(Debug)]
pub struct Copying {
    made: Made,
    walk: Walk,
    limits: ValueLimits,
    /// All elements have been met; the members of a sorted set are still to be put in order, a stream's groups to be copied.
    is_walked: bool,
    /// The group to go on behind.
    behind: Option<Bytes>,
    /// What is pending in the next one, if it has records of its own.
    pending: Option<ElementsCopy>,
}

#[derive(Debug)]
enum Made {
    List(List),
    Set(Set),
    Hash(Hash),
    Ordered(Building),
    Stream(Box<Stream>),
    /// One whose records are in memory, which only a server without tables has.
    Queue(Box<Queue>),
    Records(ElementsCopy),
    Nothing,
}

impl Copying {
    /// Begins with a value, for a database. Nothing if it is a string.
    pub fn of(value: &Value, disk: u8, mut limits: ValueLimits) -> Option<Self> {
        let seed = limits.seed;
        // What has become large once stays so.
        let is_large = match value {
            Value::Set(set) => !matches!(**set, Set::Integers { .. }),
            Value::Hash(hash) => !matches!(**hash, Hash::Small { .. }),
            Value::SortedSet(set) => !matches!(**set, SortedSet::Small(_)),
            _ => false,
        };
        if is_large {
            limits.integers_max = 0;
            limits.hash = HashLimits { fields: 0, ..limits.hash };
            limits.sorted_set = SmallLimits { members: 0, ..limits.sorted_set };
        }
        let made = match (value.elements(), value) {
            (_, Value::String(_)) => return None,
            (Some(elements), _) => Made::Records(elements.begin_copy(disk)),
            (None, Value::List(_)) => Made::List(List::new()),
            (None, Value::Set(_)) => Made::Set(Set::new(seed)),
            (None, Value::Hash(_)) => Made::Hash(Hash::new(seed)),
            (None, Value::SortedSet(_)) => Made::Ordered(Building::new(seed)),
            (None, Value::Stream(_)) => Made::Stream(Box::default()),
            (None, Value::Queue(queue)) => Made::Queue(queue.clone()),
        };
        Some(Self { made, walk: Walk::default(), limits, is_walked: false, behind: None, pending: None })
    }

    /// Goes on. Returns whether that was all.
    pub fn go_on(&mut self, value: &Value, budget: usize) -> bool {
        if self.is_walked {
            return match &mut self.made {
                Made::Ordered(building) => building.sort(budget),
                Made::Stream(stream) => copy_group(&mut self.behind, &mut self.pending, value, stream, budget),
                _ => true,
            };
        }
        if let Made::Records(copy) = &mut self.made {
            // Nobody changes it: if it is in memory by now, its records have all of it too.
            let elements = value.elements().or_else(|| value.ledger().map(Ledger::elements));
            let is_over = elements.is_none_or(|elements| copy.go_on(elements, budget));
            if let (true, Value::Stream(of)) = (is_over, value)
                && let Made::Records(copy) = std::mem::replace(&mut self.made, Made::Nothing)
            {
                // Groups stand in the key's record, whatever stands in others.
                let mut stream = Box::<Stream>::default();
                stream.take_records(of, copy.into_elements());
                (self.made, self.is_walked) = (Made::Stream(stream), true);
                return false;
            }
            return is_over;
        }
        let (made, limits) = (&mut self.made, &self.limits);
        self.is_walked = self.walk.go_on(value, budget, &mut |part| match (&mut *made, part) {
            (Made::List(list), CollectionPiece::Elements(node)) => {
                node.iter().for_each(|element| list.push(End::Tail, element, limits.list));
            }
            (Made::Set(set), CollectionPiece::Member(member)) => drop(set.add_member(member, limits.integers_max)),
            (Made::Hash(hash), CollectionPiece::Field(name, value)) => drop(hash.set(name, value, limits.hash)),
            (Made::Ordered(building), CollectionPiece::Scored(member)) => {
                building.put(&member.name, member.score, |_, score| score)
            }
            (Made::Stream(stream), CollectionPiece::Entries(first, node)) => stream.push_node(first, node.clone()),
            _ => {}
        });
        self.is_walked && !matches!(self.made, Made::Ordered(_) | Made::Stream(_))
    }

    /// The copy, once it is whole: a key is to have it.
    pub fn finish(&mut self, value: &Value, source: Option<&Rc<Source>>, seed: u64) -> Option<Value> {
        let copy = self.whole(value, source, seed)?;
        copy.adopt_elements();
        Some(copy)
    }

    fn whole(&mut self, value: &Value, source: Option<&Rc<Source>>, seed: u64) -> Option<Value> {
        Some(match std::mem::replace(&mut self.made, Made::Nothing) {
            Made::Ordered(building) => building.finish(self.limits.sorted_set).into_value(),
            Made::Stream(mut stream) => {
                if let Value::Stream(of) = value {
                    stream.take_numbers(of);
                }
                Value::Stream(stream)
            }
            Made::Records(copy) => {
                let descriptor = Descriptor { of: copy.collection(), ..value.descriptor()? };
                Value::described(&descriptor, source?, seed)?
            }
            other => {
                self.made = other;
                return self.remains();
            }
        })
    }

    /// What there is of it, when nobody wants it any more.
    pub fn remains(&mut self) -> Option<Value> {
        if let Some(pending) = self.pending.take() {
            pending.discard();
        }
        Some(match std::mem::replace(&mut self.made, Made::Nothing) {
            Made::List(list) => list.into_value(),
            Made::Set(set) => set.into_value(),
            Made::Hash(hash) => hash.into_value(),
            Made::Ordered(building) => building.into_unordered().into_value(),
            Made::Queue(queue) => Value::Queue(queue),
            Made::Stream(stream) => {
                let value = Value::Stream(stream);
                value.discard_elements();
                value
            }
            Made::Records(copy) => {
                copy.discard();
                return None;
            }
            Made::Nothing => return None,
        })
    }
}

/// Copies the group behind the one that was copied last, or some of it. Returns whether there is none.
fn copy_group(
    behind: &mut Option<Bytes>,
    pending: &mut Option<ElementsCopy>,
    value: &Value,
    to: &mut Stream,
    budget: usize,
) -> bool {
    let Value::Stream(stream) = value else { return true };
    let next = stream.groups.iter().find(|(name, _)| behind.as_ref().is_none_or(|behind| *name > behind));
    let Some((name, group)) = next else { return true };
    let spilled = group.spilled().map(Spilled::elements);
    if let (Some(elements), Some(there)) = (spilled, to.elements()) {
        let copy = pending.get_or_insert_with(|| elements.begin_copy(there.collection().disk));
        if !copy.go_on(elements, budget) {
            return false;
        }
    }
    let mut copied = group.without_spilled();
    if let Some(copy) = pending.take() {
        copied.take_spilled(group, copy.into_elements());
    }
    to.groups.insert(name.clone(), copied);
    *behind = Some(name.clone());
    false
}
