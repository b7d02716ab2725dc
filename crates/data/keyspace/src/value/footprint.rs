//! About how much memory a key takes: exact for strings, by the mean size of some elements for collections.

use std::mem::size_of;

use super::{Ledger, Value, stream};
use crate::{Bytes, bytes::heap_bytes};

/// What an element of a hashed collection takes beside itself: its place and the bits that find it, at the usual load.
pub(crate) const PLACE: usize = 12;
/// What a packed element takes beside its bytes.
const PACKED: usize = 3;
/// Up to this length, bytes are kept in place.
const INLINE: usize = 16;

fn of_bytes(len: usize) -> usize {
    size_of::<Bytes>() + if len > INLINE { len } else { 0 }
}

/// Sizes of some elements.
#[derive(Default)]
struct Sample {
    seen: usize,
    sum: usize,
}

impl Sample {
    /// Counts an element. Returns whether more are wanted.
    fn add(&mut self, size: usize, samples: usize) -> bool {
        if self.seen < samples {
            self.seen += 1;
            self.sum += size;
        }
        self.seen < samples
    }

    /// The mean, times how many there are.
    fn scaled(&self, count: usize) -> usize {
        (self.sum as f64 / (self.seen as f64).max(1.0) * count as f64) as usize
    }
}

/// The bytes that a value takes.
pub fn of_value(value: &Value, samples: usize) -> usize {
    // Elements that are records of their own are not in memory.
    let samples = if value.elements().is_some() { 0 } else { samples };
    let mut sample = Sample::default();
    let ledger = value.ledger().map_or(0, Ledger::bytes);
    ledger
        + match value {
            Value::String(string) => heap_bytes(string),
            Value::List(list) => size_of_val(&**list) + list.heap_bytes(),
            Value::Set(set) => {
                let is_integers = set.encoding() == "intset";
                let element = |len| if is_integers { size_of::<i64>() } else { of_bytes(len) + PLACE };
                if samples > 0 {
                    set.each_while(|member| sample.add(element(member.text().len()), samples));
                }
                size_of_val(&**set) + sample.scaled(set.len())
            }
            Value::SortedSet(set) => {
                // Large ones are in order and by name.
                let small = set.encoding() == "listpack";
                let element = |len| {
                    let member = of_bytes(len) + size_of::<f64>();
                    if small { member } else { 2 * (member + size_of::<f64>()) + PLACE }
                };
                set.each_while(0..samples.min(set.len()), |member| sample.add(element(member.name.len()), samples));
                size_of_val(&**set) + sample.scaled(set.len())
            }
            Value::Hash(hash) => {
                let small = hash.encoding() == "listpack";
                let element = |len| if small { len + PACKED } else { of_bytes(len) + PLACE / 2 };
                if samples > 0 {
                    hash.scan(0, samples.min(hash.len()), |name, value| {
                        sample.add(element(name.len()) + element(value.len()), samples);
                    });
                }
                size_of_val(&**hash) + sample.scaled(hash.len())
            }
            Value::Queue(queue) => queue.header_len(),
            Value::Stream(stream) => {
                let node_size = |node: &stream::Node| node.listpack_len() + size_of::<stream::Id>() + size_of_val(node);
                if samples > 0 {
                    stream.each_node(|_, node| sample.add(node_size(node), samples));
                }
                let pending = |group: &stream::Group| group.kept_len() * 5 * size_of::<stream::Id>();
                let group_size = |(name, group): (&Bytes, &stream::Group)| {
                    of_bytes(name.len()) + size_of_val(group) + pending(group)
                };
                size_of_val(&**stream)
                    + sample.scaled(stream.nodes_len())
                    + stream.groups().map(group_size).sum::<usize>()
            }
        }
}
