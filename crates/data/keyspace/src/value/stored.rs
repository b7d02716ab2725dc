//! Collections straight out of their records, element by element: nothing of them is kept in memory, however large they are.

use std::ops::Bound::{Excluded, Included};

use crate::elements::{Source, Span};

use super::{
    Descriptor, list, named,
    packed::Packed,
    set,
    sorted_set::{self, ORDER},
    spread::kind,
    walk::CollectionPiece,
};

impl Descriptor {
    /// Calls with its parts in the order in which Redis writes them, until that says no: nodes of a list, members of a set, fields
    /// of a hash, members of a sorted set with the last one first. A stream has more than its records; it has none here.
    ///
    /// # Errors
    ///
    /// A record that cannot be read or understood.
    pub(crate) fn each_part(
        &self,
        source: &Source,
        each: &mut dyn FnMut(CollectionPiece<'_>) -> bool,
    ) -> Result<(), String> {
        let (from, to): (&[u8], &[u8]) = match self.kind {
            kind::LIST => list::NODES,
            kind::SORTED_SET => ORDER,
            _ => named::ALL,
        };
        let backwards = self.kind == kind::SORTED_SET;
        let mut is_damaged = false;
        source.scan(self.of, Span { from: Included(from), to: Excluded(to), backwards }, &mut |record, value| {
            let name = || named::split(record).map(|(_, name)| name);
            let goes_on = match self.kind {
                kind::LIST => Some(each(CollectionPiece::Elements(&Packed::from_bytes(value.to_vec(), 0)))),
                kind::SET => name().map(|name| each(CollectionPiece::Member(set::Member::Text(name)))),
                kind::HASH => name().map(|name| each(CollectionPiece::Field(name, value))),
                kind::SORTED_SET => {
                    sorted_set::member(record, value).map(|member| each(CollectionPiece::Scored(&member)))
                }
                _ => None,
            };
            is_damaged = goes_on.is_none();
            goes_on.unwrap_or(false)
        })?;
        if is_damaged { Err("the record of an element cannot be understood".into()) } else { Ok(()) }
    }
}
