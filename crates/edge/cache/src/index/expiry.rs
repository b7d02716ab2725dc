//! Objects in the order in which their time is over.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Time,
    object::{Lifetime, Object},
};

/// Milliseconds since 1970, and the object's number.
type When = (u64, u64);

/// Objects of one part of the index, the next one to leave first.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    order: BTreeMap<When, Arc<Object>>,
}

impl Expiry {
    pub(super) fn insert(&mut self, object: &Arc<Object>, lifetime: Lifetime) {
        if let Some(when) = when(object, lifetime) {
            self.order.insert(when, Arc::clone(object));
        }
    }

    pub(super) fn remove(&mut self, object: &Object, lifetime: Lifetime) {
        if let Some(when) = when(object, lifetime) {
            self.order.remove(&when);
        }
    }

    /// An object whose time is over.
    pub(super) fn due(&self, now: Time) -> Option<Arc<Object>> {
        let (when, object) = self.order.first_key_value()?;
        (when.0 <= milliseconds(now)).then(|| Arc::clone(object))
    }

    /// When the next one's time is over.
    pub(super) fn first(&self) -> Option<Time> {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a date")]
        self.order.first_key_value().map(|(when, _)| when.0 as f64 / 1000.0)
    }
}

fn when(object: &Object, lifetime: Lifetime) -> Option<When> {
    object.place.get().map(|place| (milliseconds(lifetime.ends()), place.number))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float is cut to what fits")]
fn milliseconds(time: Time) -> u64 {
    (time * 1000.0) as u64
}
