//! What elements of collections are read from and written to.

use super::{Collection, Span};
use crate::Bytes;

/// The records of elements.
pub trait ElementRecords {
    /// What an element of a collection has.
    ///
    /// # Errors
    ///
    /// The text of an error reply: what could not be read and why.
    fn element(&self, of: Collection, name: &[u8]) -> Result<Option<Bytes>, String>;

    /// Calls with elements in the order of their names until that says no. Nothing is put or deleted meanwhile.
    ///
    /// # Errors
    ///
    /// As of [`element`](Self::element).
    fn scan_elements(
        &self,
        of: Collection,
        span: Span<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), String>;

    /// Gives an element a value: behind the moment of the checkpoint that is being taken, if one is.
    fn put_element(&self, of: Collection, name: &[u8], value: &[u8]);

    /// Removes an element, in the same way.
    fn delete_element(&self, of: Collection, name: &[u8]);

    /// Gives an element what it had at the moment of the checkpoint that is being taken, or removes it. What was put or deleted
    /// since hides it.
    fn put_taken_element(&self, of: Collection, name: &[u8], value: Option<&[u8]>);

    /// Says that a collection is no more, in the same way. Its elements are removed in time.
    fn orphan(&self, of: Collection);

    /// Says that a collection is being made that no key has yet: if the process ends before it is
    /// [adopted](Self::adopt), its elements are removed as those of an orphan.
    fn begin(&self, of: Collection);

    /// Says that a key has a collection that was begun, in the same way.
    fn adopt(&self, of: Collection);

    /// Says that a collection is being read as it was: its elements stay, even if it is no more, until that many times
    /// [`unpin`](Self::unpin) was called.
    fn pin(&self, of: Collection);

    /// Says that somebody reads it no longer.
    fn unpin(&self, of: Collection);

    /// A number that no collection has had yet. After a crash, one that the tables do not know may come again.
    fn new_version(&self) -> u64;
}
