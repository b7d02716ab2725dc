//! Which object leaves: S3-FIFO (Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023).
//!
//! An object comes into a small queue, a tenth of all. At its end it moves to the main queue if it has been found again, and leaves
//! otherwise; its digest is remembered for as long as the main queue has objects, and one that comes back meanwhile goes to the main
//! queue at once. There it gets another round for each time it was found, three at most. A scan passes through the small queue and
//! displaces nothing that is in use; a hit moves nothing, it only counts.

mod nodes;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use rustc_hash::FxHashSet;

use crate::object::Object;
use nodes::{Links, Nodes};

/// Times found that count.
pub(crate) const FREQUENCY_MAX: u8 = 3;
/// The small queue's share of all objects: one in so many.
const SMALL_SHARE: usize = 10;
/// Objects looked at to find one that leaves.
const STEPS_MAX: usize = 4096;
const NONE: u32 = u32::MAX;

/// An object's place in the queues.
#[derive(Debug)]
pub(crate) struct QueueSlot(AtomicU32);

impl Default for QueueSlot {
    fn default() -> Self {
        Self(AtomicU32::new(NONE))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Small,
    Main,
}

/// A queue threaded through the nodes: objects leave from any place.
#[derive(Clone, Copy, Debug)]
struct Queue {
    newest: u32,
    oldest: u32,
    len: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self { newest: NONE, oldest: NONE, len: 0 }
    }
}

/// The queues of a storage.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    nodes: Nodes,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
}

/// Objects that left the small queue, by a hash of 32 bits; the oldest are forgotten first. One that is taken for another one is in the
/// main queue too early, which happens to one in a thousand where there are four million.
#[derive(Debug, Default)]
struct Ghosts {
    order: VecDeque<u32>,
    known: FxHashSet<u32>,
}

impl Ghosts {
    fn remember(&mut self, hash: u32, most: usize) {
        if self.known.insert(hash) {
            self.order.push_back(hash);
        }
        while self.order.len() > most {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    fn forget(&mut self, hash: u32) -> bool {
        // NOTE: the order keeps it until its turn: `known` alone says what is remembered.
        self.known.remove(&hash)
    }
}

impl Queues {
    pub(crate) fn admit(&mut self, object: &Arc<Object>) {
        let which = if self.ghosts.forget(hash_of(object)) { Which::Main } else { Which::Small };
        self.push(Arc::clone(object), which);
    }

    pub(crate) fn remove(&mut self, object: &Object) {
        let slot = object.queue_slot.0.swap(NONE, Relaxed);
        if slot != NONE {
            self.unlink(slot);
        }
    }

    /// The object that leaves next; it is in no queue any more.
    pub(crate) fn choose(&mut self) -> Option<Arc<Object>> {
        for _ in 0..STEPS_MAX {
            let which = self.next();
            let object = self.take_oldest(which)?;
            let found = object.frequency.load(Relaxed);
            match (which, found) {
                (Which::Small, 0) => {
                    let most = self.main.len.max(self.small.len);
                    self.ghosts.remember(hash_of(&object), most);
                    return Some(object);
                }
                (Which::Main, 0) => return Some(object),
                (Which::Small, _) => object.frequency.store(0, Relaxed),
                (Which::Main, found) => object.frequency.store(found - 1, Relaxed),
            }
            self.push(object, Which::Main);
        }
        // All that were looked at are in use: the oldest leaves all the same.
        self.take_oldest(self.next())
    }

    /// The queue whose oldest object is looked at next.
    fn next(&self) -> Which {
        let small_is_full = self.small.len * SMALL_SHARE >= self.nodes.len();
        if self.main.len == 0 || (self.small.len > 0 && small_is_full) { Which::Small } else { Which::Main }
    }

    fn take_oldest(&mut self, which: Which) -> Option<Arc<Object>> {
        let oldest = self.queue(which).oldest;
        let object = self.unlink(oldest)?;
        object.queue_slot.0.store(NONE, Relaxed);
        Some(object)
    }

    fn queue(&mut self, which: Which) -> &mut Queue {
        match which {
            Which::Small => &mut self.small,
            Which::Main => &mut self.main,
        }
    }

    fn push(&mut self, object: Arc<Object>, which: Which) {
        let older = self.queue(which).newest;
        let Some(place) = self.nodes.insert(object, Links { which, newer: NONE, older }) else { return };
        self.nodes.link(older, |links| links.newer = place);
        let queue = self.queue(which);
        queue.newest = place;
        if queue.oldest == NONE {
            queue.oldest = place;
        }
        queue.len += 1;
    }

    fn unlink(&mut self, place: u32) -> Option<Arc<Object>> {
        let (object, links) = self.nodes.take(place)?;
        self.nodes.link(links.newer, |newer| newer.older = links.older);
        self.nodes.link(links.older, |older| older.newer = links.newer);
        let queue = self.queue(links.which);
        if queue.newest == place {
            queue.newest = links.older;
        }
        if queue.oldest == place {
            queue.oldest = links.newer;
        }
        queue.len -= 1;
        Some(object)
    }
}

fn hash_of(object: &Object) -> u32 {
    let of_variant = object
        .variant()
        .map_or(0, |variant| variant.key.iter().fold(0_u64, |hash, byte| hash.rotate_left(5) ^ u64::from(*byte)));
    let hash = object.place.other_hash() ^ of_variant;
    (hash ^ (hash >> 32)) as u32
}
