//! Heads that answer requests for a file, made once: all of them that depends on neither the request nor the time.

use http::{ResponseHead, StoredHead};

use super::{Representation, put_not_modified, put_whole};

/// Bytes and fields that a head is given room for: `Date`, and what `expires` says.
const MORE_BYTES: usize = 160;
const MORE_FIELDS: usize = 4;

/// The heads of a file.
#[derive(Clone, Debug)]
pub struct PreparedHeads {
    /// The one that is asked for most is kept as it is sent.
    whole: ResponseHead,
    not_modified: StoredHead,
}

impl PreparedHeads {
    /// Those of a file that was modified in the past. What `expires` says is no part of them.
    #[must_use]
    pub fn of(file: &Representation<'_>) -> Self {
        let mut head = ResponseHead::new();
        put_whole(file, file.modified, &mut head);
        head.settle_framing();
        let mut other = ResponseHead::new();
        put_not_modified(file, file.modified, &mut other);
        Self { whole: head, not_modified: StoredHead::of(&other) }
    }

    /// The head of an answer with the whole file.
    #[inline]
    pub(super) fn put_whole(&self, response: &mut ResponseHead) {
        response.copy_from(&self.whole, MORE_BYTES, MORE_FIELDS);
    }

    /// The head of an answer to a client that has the file already.
    #[inline]
    pub(super) fn put_not_modified(&self, response: &mut ResponseHead) {
        self.not_modified.unpack_into(response, MORE_BYTES, MORE_FIELDS);
    }
}
