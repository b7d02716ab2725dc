//! What a request asks of the object that answers it.

use cache::object::Object;
use http::HeaderId;

/// The length of an object's body: when it is whole, or as its head says.
pub(super) fn known_length(object: &Object) -> Option<u64> {
    object.body().length().or_else(|| said_length(object))
}

/// The length that an object's head says.
pub(super) fn said_length(object: &Object) -> Option<u64> {
    let said = object.head().first_known(HeaderId::ContentLength)?;
    std::str::from_utf8(said).ok()?.parse().ok()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a date")]
pub(super) fn seconds_of(now: f64) -> u64 {
    now as u64
}
