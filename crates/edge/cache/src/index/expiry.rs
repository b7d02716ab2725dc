//! Objects in the order in which their time is over: a heap, in which each object knows its place.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use crate::{
    Time,
    object::{Lifetime, Object},
};

/// The place of an object that is in no heap.
const NONE: u32 = u32::MAX;

/// What is added to a heap that is full: a part of what it has. Doubled, it would take half as much again on average.
const GROWTH_PART: usize = 4;
const GROWTH_MIN: usize = 16;

/// Milliseconds since 1970.
type When = u64;

/// Objects of one part of the index, the next one to leave first.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    heap: Vec<(When, Arc<Object>)>,
}

impl Expiry {
    pub(super) fn insert(&mut self, object: &Arc<Object>, lifetime: Lifetime) {
        if self.heap.len() == self.heap.capacity() {
            self.heap.reserve_exact(self.heap.len() / GROWTH_PART + GROWTH_MIN);
        }
        self.heap.push((milliseconds(lifetime.ends()), Arc::clone(object)));
        self.rise(self.heap.len() - 1);
    }

    pub(super) fn remove(&mut self, object: &Object) {
        let place = object.expiry_slot.swap(NONE, Relaxed) as usize;
        if place >= self.heap.len() {
            return;
        }
        self.heap.swap_remove(place);
        self.rise(place);
        self.sink(place);
    }

    /// An object whose time is over.
    pub(super) fn due(&self, now: Time) -> Option<Arc<Object>> {
        let (when, object) = self.heap.first()?;
        (*when <= milliseconds(now)).then(|| Arc::clone(object))
    }

    /// When the next one's time is over.
    pub(super) fn first(&self) -> Option<Time> {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a date")]
        self.heap.first().map(|(when, _)| *when as f64 / 1000.0)
    }

    fn when(&self, place: usize) -> Option<When> {
        self.heap.get(place).map(|(when, _)| *when)
    }

    /// Puts what stands here behind all that leave earlier.
    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.when(place) < self.when((place - 1) / 2) && place < self.heap.len() {
            self.heap.swap(place, (place - 1) / 2);
            self.note(place);
            place = (place - 1) / 2;
        }
        self.note(place);
    }

    /// Puts what stands here before all that leave later.
    fn sink(&mut self, mut place: usize) {
        while let Some(own) = self.when(place) {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let next = if self.when(right).is_some_and(|when| Some(when) < self.when(left)) { right } else { left };
            if self.when(next).is_none_or(|when| when >= own) {
                break;
            }
            self.heap.swap(place, next);
            self.note(place);
            place = next;
        }
        self.note(place);
    }

    fn note(&self, place: usize) {
        if let (Some((_, object)), Ok(place)) = (self.heap.get(place), u32::try_from(place)) {
            object.expiry_slot.store(place, Relaxed);
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float is cut to what fits")]
fn milliseconds(time: Time) -> When {
    (time * 1000.0) as When
}
