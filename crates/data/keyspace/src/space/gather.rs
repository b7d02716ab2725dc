//! Collections of which only the records are there come into memory when they are used.
//!
//! Whoever uses one says so ([`Keys::consider`]); whoever runs the shard reads the records off the loop, piece by piece, and hands
//! the pieces in ([`Keyspace::gathered`]). Operations go by element until the last piece has come.

use crate::{Bytes, Collection, Elements, Span, Value, value::Gathering};

use super::{Keys, Keyspace};

/// A collection whose records are to be read.
#[derive(Debug, Clone)]
pub struct Gather {
    /// The number that its database has in the tables.
    pub disk: u8,
    /// Its key.
    pub key: Bytes,
    /// Its elements.
    pub of: Collection,
    /// Which attempt it is.
    number: u64,
}

/// What of it is to be read.
pub const GATHERED: Span<'static> = crate::value::GATHERED;

/// What an element takes in memory at least.
const ELEMENT_BYTES_MIN: usize = 40;
/// And about how much it mostly takes.
const ELEMENT_BYTES: usize = 120;
/// While there is no room, a collection was asked for so many times less often than it has elements before others go for it: to
/// read all elements costs about as much then as asking for single ones has.
const ASKED_SHARE: usize = 8;

impl Keys<'_> {
    /// A collection of which only the records are there is used: it may be worth while to have it in memory.
    #[cold]
    pub(super) fn consider(&mut self, key: &[u8]) {
        let Some(disk) = self.space.databases.get(self.db).map(|database| database.disk) else { return };
        let (share_max, room, seed) = (self.space.share_max, self.space.room, self.space.seed);
        let number = self.space.gatherings_begun + 1;
        let Some(value) = self.space.entry_mut(disk, key).and_then(|entry| entry.value.as_mut()) else { return };
        let (Some(descriptor), Some(elements)) = (value.descriptor(), value.elements()) else { return };
        let len = usize::try_from(descriptor.count).unwrap_or(usize::MAX);
        let least = len.saturating_mul(ELEMENT_BYTES_MIN);
        let has_room = len.saturating_mul(ELEMENT_BYTES) <= room;
        if least > share_max || !elements.may_be_gathered(if has_room { 0 } else { len / ASKED_SHARE }) {
            return;
        }
        let Some(gathering) = Gathering::new(number, value, seed) else { return };
        elements.begin_gathering(Box::new(gathering));
        self.space.gatherings_begun = number;
        self.space.gatherings.push(Gather { disk, key: Bytes::from_slice(key), of: descriptor.of, number });
    }
}

impl Keyspace {
    /// Says how many bytes memory has room for.
    pub fn set_room(&mut self, bytes: usize) {
        self.room = bytes;
    }

    /// The collections whose records are to be read since this was asked last. Each is to be answered by
    /// [`gathered`](Self::gathered), piece by piece.
    pub fn take_gatherings(&mut self, gatherings: &mut Vec<Gather>) {
        gatherings.append(&mut self.gatherings);
    }

    /// A piece of a collection was read, names and values; nothing if it cannot be. Returns whether more of it is wanted.
    pub fn gathered(&mut self, gather: &Gather, piece: Option<&[(Bytes, Bytes)]>, is_last: bool) -> bool {
        let share_max = self.share_max;
        let value = self.entry_mut(gather.disk, &gather.key).and_then(|entry| entry.value.as_mut());
        let Some(value) = value else { return false };
        let is_it = |elements: &&Elements| elements.collection() == gather.of && elements.gathers(gather.number);
        let Some(elements) = value.elements().filter(is_it) else { return false };
        let has_room = piece.is_some_and(|piece| elements.add_gathered(piece) <= share_max);
        if has_room && !is_last {
            return true;
        }
        let former = if has_room { value.finish_gathering() } else { value.stop_gathering(piece.is_some()) };
        if let Some(former) = former {
            self.graveyard.bury(former);
        }
        false
    }

    /// A collection goes elsewhere: what has come of it is of no use.
    #[inline]
    pub(super) fn stop_gathering(&mut self, value: &mut Value) {
        // Nearly every value is none.
        if value.elements().is_some()
            && let Some(former) = value.stop_gathering(false)
        {
            self.graveyard.bury(former);
        }
    }
}
