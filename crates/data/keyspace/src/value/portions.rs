//! Replies in portions: what is left to be given of a collection whose elements are records.
//!
//! A command that would give very much writes the header of its reply and leaves the rest to this, which goes on from record to
//! record over as many turns as it takes, with the elements as they were when the command ran.

use std::ops::Bound;

use resp::Reply;

use crate::elements::{Elements, Frozen};

use super::{
    packed::Packed,
    stream::{Id, Node},
};

/// What becomes of a record in a reply.
#[derive(Debug, Clone)]
pub enum Form {
    /// A name, and what it has.
    Fields,
    /// A name.
    Names,
    /// What a name has.
    Values,
    /// A member of a sorted set.
    Members {
        /// With its score.
        with_scores: bool,
    },
    /// The elements of a list's node, but the first ones.
    Nodes {
        /// How many.
        skipped: usize,
    },
    /// The entries of a stream's node.
    Entries {
        /// The last node, which is no record.
        tail: Option<Box<(Id, Node)>>,
    },
}

/// Which records are left.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    pub(super) from: Bound<Vec<u8>>,
    pub(super) to: Bound<Vec<u8>>,
    pub(super) backwards: bool,
    /// How many elements are to be given.
    pub(super) left: usize,
}

/// The rest of a reply.
#[derive(Debug)]
pub struct Portions {
    frozen: Frozen,
    form: Form,
    rest: Rest,
}

impl Portions {
    pub(super) fn new(elements: &Elements, form: Form, rest: Rest) -> Self {
        Self { frozen: elements.freeze(rest.backwards), form, rest }
    }

    /// How much memory takes what has changed since.
    pub fn bytes(&self) -> usize {
        self.frozen.bytes()
    }

    /// Writes the next portion, until `is_enough`. Returns whether that was all.
    ///
    /// # Errors
    ///
    /// An element cannot be read, or there are fewer than there should be. The reply cannot be completed then.
    pub fn write(
        &mut self,
        reply: &mut Reply<'_>,
        mut is_enough: impl FnMut(&Reply<'_>) -> bool,
    ) -> Result<bool, String> {
        let Self { frozen, form, rest, .. } = self;
        let mut last = None;
        let backwards = rest.backwards;
        let Rest { from, to, left, .. } = rest;
        if backwards {
            *left -= form.write_tail(reply, *left, backwards);
        }
        if *left > 0 {
            frozen.scan(as_ref(from), as_ref(to), &mut |record, value| {
                *left -= form.write(record, value, reply, *left, backwards);
                let stops = *left == 0 || is_enough(reply);
                if stops {
                    last = Some(record.to_vec());
                }
                !stops
            })?;
        }
        if last.is_none() {
            *left -= form.write_tail(reply, *left, backwards);
        }
        if rest.left == 0 {
            return Ok(true);
        }
        let last = last.ok_or_else(|| "a collection has fewer elements than it should".to_owned())?;
        frozen.pass(&last);
        if rest.backwards {
            rest.to = Bound::Excluded(last);
        } else {
            rest.from = Bound::Excluded(last);
        }
        Ok(false)
    }
}

fn as_ref(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Form {
    /// Writes what a record has, at most so many elements of it. Returns how many.
    fn write(&mut self, record: &[u8], value: &[u8], reply: &mut Reply<'_>, at_most: usize, backwards: bool) -> usize {
        let name = || super::named::name_in(record);
        match self {
            Self::Fields => {
                reply.bulk(name());
                reply.bulk(value);
            }
            Self::Names => reply.bulk(name()),
            Self::Values => reply.bulk(value),
            Self::Members { with_scores } => super::sorted_set::write_record(record, value, reply, *with_scores),
            Self::Nodes { skipped } => {
                let mut count = 0;
                let node = Packed::from_bytes(value.to_vec(), 0);
                for (_, element) in node.places().skip(std::mem::take(skipped)).take(at_most) {
                    reply.bulk(element);
                    count += 1;
                }
                return count;
            }
            Self::Entries { .. } => {
                return super::stream::node_in(record, value)
                    .map_or(0, |(first, node)| write_entries(first, &node, reply, at_most, backwards));
            }
        }
        1
    }

    /// Writes what is no record.
    fn write_tail(&mut self, reply: &mut Reply<'_>, at_most: usize, backwards: bool) -> usize {
        let Self::Entries { tail } = self else { return 0 };
        tail.take().map_or(0, |tail| write_entries(tail.0, &tail.1, reply, at_most, backwards))
    }
}

fn write_entries(first: Id, node: &Node, reply: &mut Reply<'_>, at_most: usize, backwards: bool) -> usize {
    let entries: Vec<_> = node.entries(first).collect();
    let count = entries.len().min(at_most);
    if backwards {
        entries.iter().rev().take(count).for_each(|entry| entry.reply(reply));
    } else {
        entries.iter().take(count).for_each(|entry| entry.reply(reply));
    }
    count
}
