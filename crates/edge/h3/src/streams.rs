//! The streams of a connection.

use std::ops::Range;

use h2h3::Priority;
use rustc_hash::FxHashMap;
use slab::Slab;

use crate::{error::ErrorCode, frame::Partial};

/// The number of a QUIC stream (RFC 9000 section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// Whether bytes go both ways.
    #[must_use]
    pub fn is_bidirectional(self) -> bool {
        self.0 & 2 == 0
    }

    /// Whether the client has begun it.
    #[must_use]
    pub fn is_client_initiated(self) -> bool {
        self.0 & 1 == 0
    }
}

/// A request's stream as this side names it: where it stands, and its number, so that a stale name finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    slot: u32,
    id: StreamId,
}

impl StreamKey {
    /// Its number on the wire.
    #[must_use]
    pub fn id(self) -> StreamId {
        self.id
    }

    /// Where it stands: small numbers, which are used again.
    #[must_use]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// What the client may still send on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiving {
    /// A head.
    Awaited,
    /// Data and trailers.
    Body,
    /// Data, up to the end of the stream: a tunnel has no trailers.
    Tunnel,
    /// Nothing that means anything: trailers have come.
    Trailed,
    /// Nothing: the stream's end has come, or it was stopped.
    Ended,
}

/// What this side has put on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// No final head.
    Awaited,
    /// A head, and perhaps data.
    Body,
    /// All; it may not have gone yet.
    Ended,
    /// All has gone, or nothing goes any more.
    Over,
}

/// What the next bytes of a stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A frame's header.
    Header,
    /// Data.
    Data { left: u64 },
    /// A field section.
    Section { left: u64 },
    /// What nobody knows.
    Skip { left: u64 },
}

/// A request's stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) receiving: Receiving,
    pub(crate) sending: Sending,
    pub(crate) reading: Reading,
    pub(crate) partial: Partial,
    /// When its first bytes came, in milliseconds.
    pub(crate) since_ms: u64,
    /// What has come of a field section.
    pub(crate) section: Vec<u8>,
    /// It was reset, by either side.
    pub(crate) reset: Option<ErrorCode>,
    /// Whoever answers has not let go of it.
    pub(crate) is_held: bool,
    /// Bytes of the body that are still to come, where the head has said how many.
    pub(crate) expected: Option<u64>,
    /// What waits to be sent: heads, headers of frames, small pieces of bodies.
    pub(crate) pending: Vec<u8>,
    /// Bytes of a DATA frame whose header is in `pending` or was sent, and which have not been given.
    pub(crate) owed: usize,
    /// The transport has been told that something waits.
    pub(crate) is_flush_ordered: bool,
    pub(crate) priority: Priority,
    /// The client has said so by a frame.
    pub(crate) is_priority_updated: bool,
}

impl Stream {
    pub(crate) fn new(since_ms: u64) -> Self {
        Self {
            since_ms,
            receiving: Receiving::Awaited,
            sending: Sending::Awaited,
            reading: Reading::Header,
            partial: Partial::default(),
            section: Vec::new(),
            reset: None,
            is_held: false,
            expected: None,
            pending: Vec::new(),
            owed: 0,
            is_flush_ordered: false,
            priority: Priority::default(),
            is_priority_updated: false,
        }
    }
}

/// The requests' streams that are not over.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    slots: Slab<(StreamId, Stream)>,
    by_id: FxHashMap<StreamId, u32>,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamKey, &Stream)> {
        self.slots.iter().map(|(slot, (id, stream))| {
            let slot = u32::try_from(slot).unwrap_or(u32::MAX);
            (StreamKey { slot, id: *id }, stream)
        })
    }

    pub(crate) fn insert(&mut self, id: StreamId, stream: Stream) -> StreamKey {
        let slot = u32::try_from(self.slots.insert((id, stream))).unwrap_or(u32::MAX);
        self.by_id.insert(id, slot);
        StreamKey { slot, id }
    }

    #[inline]
    pub(crate) fn find(&self, id: StreamId) -> Option<StreamKey> {
        self.by_id.get(&id).map(|slot| StreamKey { slot: *slot, id })
    }

    #[inline]
    pub(crate) fn get(&self, key: StreamKey) -> Option<&Stream> {
        self.slots.get(key.slot()).filter(|(id, _)| *id == key.id).map(|(_, stream)| stream)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: StreamKey) -> Option<&mut Stream> {
        self.slots.get_mut(key.slot()).filter(|(id, _)| *id == key.id).map(|(_, stream)| stream)
    }

    /// Forgets a stream.
    pub(crate) fn remove(&mut self, key: StreamKey) {
        if self.get(key).is_some() {
            self.slots.try_remove(key.slot());
            self.by_id.remove(&key.id);
        }
    }

    /// Gives memory back that a connection without streams does not need.
    pub(crate) fn rest(&mut self) {
        if self.slots.is_empty() {
            self.slots.shrink_to_fit();
            self.by_id.shrink_to_fit();
        }
    }
}

/// Which streams of a kind have begun: QUIC has opened all up to the highest, and their first bytes come in any order. So a stream that
/// has begun and stands nowhere is over.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    /// The number of the next one, counted from 0, that none has passed.
    next: u64,
    /// Those below that have not begun. QUIC bounds how many they are.
    skipped: Vec<Range<u64>>,
}

impl Begun {
    /// Notes that a stream has come; whether it had not before.
    pub(crate) fn begin(&mut self, id: StreamId) -> bool {
        let number = id.0 >> 2;
        if number >= self.next {
            if number > self.next {
                self.skipped.push(self.next..number);
            }
            self.next = number + 1;
            return true;
        }
        let Some(at) = self.skipped.iter().position(|range| range.contains(&number)) else { return false };
        let Range { start, end } = self.skipped.swap_remove(at);
        self.skipped.extend([start..number, number + 1..end].into_iter().filter(|range| !range.is_empty()));
        true
    }

    /// Whether a stream has come, and is perhaps over.
    pub(crate) fn has_begun(&self, id: StreamId) -> bool {
        let number = id.0 >> 2;
        number < self.next && !self.skipped.iter().any(|range| range.contains(&number))
    }

    /// How many streams are behind none that has come.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// How many streams have come.
    pub(crate) fn count(&self) -> u64 {
        self.next - self.skipped.iter().map(|range| range.end - range.start).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_begin_once_in_any_order() {
        let mut begun = Begun::default();
        assert_eq!(begun.count(), 0);
        for (id, expected) in
            [(8, true), (0, true), (0, false), (4, true), (8, false), (40, true), (20, true), (12, true), (36, true)]
        {
            assert_eq!(begun.has_begun(StreamId(id)), !expected, "{id}");
            assert_eq!(begun.begin(StreamId(id)), expected, "{id}");
        }
        assert_eq!((begun.next(), begun.count()), (11, 7));
        let late: Vec<u64> = (0..11).filter(|number| begun.begin(StreamId(number * 4))).collect();
        assert_eq!(late, [4, 6, 7, 8]);
        assert!(begun.skipped.is_empty());
        assert_eq!(begun.count(), 11);
    }
}
