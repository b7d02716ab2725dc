//! The streams of a connection that are not over, and a memory of those that have just ended.

use http::Method;
use rustc_hash::FxHashMap;
use slab::Slab;

use crate::error::ErrorCode;

/// A stream as this side names it: where it stands, and its number, so that a stale name finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    slot: u32,
    id: u32,
}

impl StreamKey {
    /// Its number on the wire.
    #[must_use]
    pub fn id(self) -> u32 {
        self.id
    }

    /// Where it stands: small numbers, which are used again.
    #[must_use]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// What the other side may still send on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    /// The head of an answer, perhaps behind interim ones.
    Awaited,
    /// Data and trailers.
    Open,
    /// Nothing: END_STREAM has come.
    Ended,
}

/// What this side has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// No final head.
    Awaited,
    /// A head, and perhaps data.
    Body,
    /// END_STREAM.
    Ended,
}

/// A stream.
#[derive(Debug)]
pub struct Stream {
    pub(crate) receiving: Receiving,
    pub(crate) sending: Sending,
    /// What is asked for.
    pub(crate) method: Method,
    /// It was reset, by either side.
    pub(crate) reset: Option<ErrorCode>,
    /// Whoever answers has not let go of it.
    pub(crate) is_held: bool,
    /// Bytes that may come. A setting may make it negative.
    pub(crate) receive_window: i64,
    /// Bytes that have come and were not consumed.
    pub(crate) unread: u32,
    /// Bytes that were consumed, of which the other side has not been told.
    pub(crate) untold: u32,
    /// Bytes of the body that are still to come, where the head has said how many.
    pub(crate) expected: Option<u64>,
    /// Bytes that may go. A setting may make it negative.
    pub(crate) send_window: i64,
    /// There was more to send than could go.
    pub(crate) wants_room: bool,
    /// It stands in the queue of those that want room.
    pub(crate) is_queued: bool,
}

impl Stream {
    /// Whether nothing more goes either way.
    pub(crate) fn is_closed(&self) -> bool {
        self.reset.is_some() || self.receiving == Receiving::Ended && self.sending == Sending::Ended
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// This side has reset it: what is on its way is nobody's fault.
    ResetHere,
    /// The other side knows that it is over.
    Known,
}

/// Streams that are remembered after their end.
const REMEMBERED: usize = 128;

/// The streams of a connection.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    slots: Slab<(u32, Stream)>,
    by_id: FxHashMap<u32, u32>,
    /// Numbers of streams that ended last, in a ring.
    ended: Vec<(u32, Closed)>,
    next_ended: usize,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn insert(&mut self, id: u32, stream: Stream) -> StreamKey {
        let slot = u32::try_from(self.slots.insert((id, stream))).unwrap_or(u32::MAX);
        self.by_id.insert(id, slot);
        StreamKey { slot, id }
    }

    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<StreamKey> {
        self.by_id.get(&id).map(|slot| StreamKey { slot: *slot, id })
    }

    #[inline]
    pub(crate) fn get(&self, key: StreamKey) -> Option<&Stream> {
        self.slots.get(key.slot as usize).filter(|(id, _)| *id == key.id).map(|(_, stream)| stream)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: StreamKey) -> Option<&mut Stream> {
        self.slots.get_mut(key.slot as usize).filter(|(id, _)| *id == key.id).map(|(_, stream)| stream)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.slots.iter().map(|(_, (_, stream))| stream)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamKey, &mut Stream)> {
        self.slots
            .iter_mut()
            .map(|(slot, (id, stream))| (StreamKey { slot: u32::try_from(slot).unwrap_or(u32::MAX), id: *id }, stream))
    }

    /// Forgets a stream that is over and that nobody holds; `how` it ended.
    pub(crate) fn remove(&mut self, key: StreamKey, how: Closed) {
        if self.get(key).is_some() {
            self.slots.try_remove(key.slot as usize);
            self.by_id.remove(&key.id);
            self.remember(key.id, how);
        }
    }

    /// Remembers the end of a stream that never stood here, too.
    pub(crate) fn remember(&mut self, id: u32, how: Closed) {
        match self.ended.get_mut(self.next_ended) {
            Some(oldest) => *oldest = (id, how),
            None => self.ended.push((id, how)),
        }
        self.next_ended = (self.next_ended + 1) % REMEMBERED;
    }

    /// How a stream ended, if that was not long ago.
    pub(crate) fn ending(&self, id: u32) -> Option<Closed> {
        self.ended.iter().find(|(ended, _)| *ended == id).map(|(_, how)| *how)
    }

    /// Gives memory back that a connection without streams does not need.
    pub(crate) fn rest(&mut self) {
        if self.slots.is_empty() {
            self.slots.shrink_to_fit();
            self.by_id.shrink_to_fit();
        }
    }
}
