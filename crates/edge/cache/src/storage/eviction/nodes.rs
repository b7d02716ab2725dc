//! What the queues are threaded through: sixteen bytes for each object, in pages, so that nothing is moved when there are more.

use std::sync::Arc;

use super::{NONE, Which};
use crate::object::Object;

/// Nodes of a page: eight kilobytes.
const PAGE: usize = 512;

/// The bit of [`Node::newer`] that says which queue it is in. Places are smaller.
const IS_MAIN: u32 = 1 << 31;
const PLACES_MAX: u32 = IS_MAIN - 2;

/// Where an object stands in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) which: Which,
    pub(super) newer: u32,
    pub(super) older: u32,
}

/// An object in a queue; without one, `older` is the next free node.
#[derive(Debug)]
struct Node {
    object: Option<Arc<Object>>,
    newer: u32,
    older: u32,
}

const _: () = assert!(size_of::<Node>() == 16);

#[derive(Debug)]
pub(super) struct Nodes {
    pages: Vec<Vec<Node>>,
    free: u32,
    len: usize,
}

impl Default for Nodes {
    fn default() -> Self {
        Self { pages: Vec::new(), free: NONE, len: 0 }
    }
}

impl Nodes {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The object's place; `None` if there are as many as there may be.
    pub(super) fn insert(&mut self, object: Arc<Object>, links: Links) -> Option<u32> {
        let place = self.vacant()?;
        let node = self.node(place)?;
        let next = node.older;
        object.queue_slot.0.store(place, std::sync::atomic::Ordering::Relaxed);
        node.object = Some(object);
        node.set(links);
        self.free = next;
        self.len += 1;
        Some(place)
    }

    pub(super) fn take(&mut self, place: u32) -> Option<(Arc<Object>, Links)> {
        let free = self.free;
        let node = self.node(place)?;
        let object = node.object.take()?;
        let links = node.links();
        node.older = free;
        self.free = place;
        self.len -= 1;
        Some((object, links))
    }

    pub(super) fn link(&mut self, place: u32, change: impl FnOnce(&mut Links)) {
        if let Some(node) = self.node(place) {
            let mut links = node.links();
            change(&mut links);
            node.set(links);
        }
    }

    fn node(&mut self, place: u32) -> Option<&mut Node> {
        let place = place as usize;
        self.pages.get_mut(place / PAGE)?.get_mut(place % PAGE)
    }

    /// A place that is free.
    fn vacant(&mut self) -> Option<u32> {
        if self.free != NONE {
            return Some(self.free);
        }
        let in_last = self.pages.last().map_or(PAGE, Vec::len);
        if in_last == PAGE {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let place = u32::try_from((self.pages.len() - 1) * PAGE + in_last % PAGE).ok()?;
        if place > PLACES_MAX {
            return None;
        }
        self.pages.last_mut()?.push(Node { object: None, newer: NONE, older: NONE });
        Some(place)
    }
}

impl Node {
    fn links(&self) -> Links {
        let which = if self.newer & IS_MAIN != 0 { Which::Main } else { Which::Small };
        // NOTE: one bit less says the same of no place.
        let newer = self.newer & !IS_MAIN;
        Links { which, newer: if newer == NONE & !IS_MAIN { NONE } else { newer }, older: self.older }
    }

    fn set(&mut self, links: Links) {
        let which = if links.which == Which::Main { IS_MAIN } else { 0 };
        self.newer = (links.newer & !IS_MAIN) | which;
        self.older = links.older;
    }
}
