//! Fields of a block, and how many of them there may be.

use crate::{DecodeError, Exceeded};

/// One field, as it stood in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name, which nobody has judged.
    pub name: &'a [u8],
    /// Its value, likewise.
    pub value: &'a [u8],
    /// It must never get into a table, here or further on (RFC 7541 section 7.1.3).
    pub is_sensitive: bool,
}

/// How much one block may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Fields, those that are references to a table included.
    pub fields: usize,
    /// Bytes of names and values, and [`FIELD_OVERHEAD`] for each field (RFC 9113 section 6.5.2, `SETTINGS_MAX_HEADER_LIST_SIZE`).
    pub bytes: usize,
}

/// Bytes that a field counts beside its name and its value (RFC 7541 section 4.1).
pub const FIELD_OVERHEAD: usize = 32;

/// How far a block has come, and whether it still may.
#[derive(Debug)]
pub struct Tally<'l, E> {
    limits: &'l HeaderLimits,
    fields: usize,
    bytes: usize,
    stopped: Option<DecodeError<E>>,
}

impl<'l, E> Tally<'l, E> {
    /// That of a block of which nothing has come.
    #[must_use]
    pub fn new(limits: &'l HeaderLimits) -> Self {
        Self { limits, fields: 0, bytes: 0, stopped: None }
    }

    /// Counts a field, and hands it on unless something was wrong before.
    #[inline]
    pub fn take(&mut self, field: Field<'_>, tell: &mut impl FnMut(Field<'_>) -> Result<(), E>) {
        if self.stopped.is_some() {
            return;
        }
        self.fields += 1;
        self.bytes += field.name.len() + field.value.len() + FIELD_OVERHEAD;
        self.stopped = if self.fields > self.limits.fields {
            Some(DecodeError::TooLarge(Exceeded::Fields(self.limits.fields)))
        } else if self.bytes > self.limits.bytes {
            Some(DecodeError::TooLarge(Exceeded::Bytes(self.limits.bytes)))
        } else {
            tell(field).err().map(DecodeError::Refused)
        };
    }

    /// The block is whole.
    ///
    /// # Errors
    /// What was wrong first.
    pub fn finish(self) -> Result<(), DecodeError<E>> {
        self.stopped.map_or(Ok(()), Err)
    }
}
