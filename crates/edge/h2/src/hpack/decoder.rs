//! From blocks to fields.

use h2h3::{CompressionError, DecodeError, DynamicTable, Field, HeaderLimits, NewName, Tally, integer, read_string};

use super::static_table::STATIC;

/// Reads the blocks of one end of a connection, in the order in which they came.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// How large the other end may make the table.
    size_allowed: usize,
    /// The next block must make the table smaller before anything else.
    must_shrink: bool,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Memory for decoded strings that is kept from one block to the next.
const SCRATCH_KEPT: usize = 512;

/// What becomes of a field that stands in a block as a literal (RFC 7541 section 6.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Literal {
    Indexed,
    Plain,
    Sensitive,
}

impl Decoder {
    /// One whose table may get so large, as `SETTINGS_HEADER_TABLE_SIZE` says to the other end.
    #[must_use]
    pub fn new(table_size_max: usize) -> Self {
        Self {
            table: DynamicTable::new(table_size_max),
            size_allowed: table_size_max,
            must_shrink: false,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Changes how large the table may get, from when the other end has acknowledged that setting. A table that is larger then
    /// must be made smaller by the next block (RFC 7541 section 4.2).
    pub fn set_table_size_max(&mut self, size: usize) {
        self.size_allowed = size;
        self.must_shrink = self.table.size_max() > size;
    }

    /// Reads a whole block and hands over its fields, in their order. Where that fails otherwise than by the block's
    /// compression, the block has been read to its end, and the next one can be read.
    ///
    /// # Errors
    /// What is wrong with the block; nothing is handed over any more after something was.
    pub fn decode<E>(
        &mut self,
        block: &[u8],
        limits: &HeaderLimits,
        mut field: impl FnMut(Field<'_>) -> Result<(), E>,
    ) -> Result<(), DecodeError<E>> {
        let mut tally = Tally::new(limits);
        let mut rest = block;
        let mut may_resize = true;
        while let Some(first) = rest.first().copied() {
            if first & 0b1110_0000 == 0b0010_0000 {
                self.resize(&mut rest, may_resize)?;
                continue;
            }
            if self.must_shrink {
                return Err(CompressionError::MissingTableSize.into());
            }
            may_resize = false;
            if first & 0b1000_0000 != 0 {
                let (name, value) = entry(&self.table, integer::decode(&mut rest, 7)?)?;
                tally.take(Field { name, value, is_sensitive: false }, &mut field);
                continue;
            }
            let (literal, prefix) = match first {
                0b0100_0000.. => (Literal::Indexed, 6),
                0b0001_0000.. => (Literal::Sensitive, 4),
                _ => (Literal::Plain, 4),
            };
            self.literal(&mut rest, literal, prefix, &mut tally, &mut field)?;
        }
        for scratch in [&mut self.name, &mut self.value] {
            scratch.clear();
            scratch.shrink_to(SCRATCH_KEPT);
        }
        tally.finish()
    }

    fn literal<E>(
        &mut self,
        rest: &mut &[u8],
        literal: Literal,
        prefix: u32,
        tally: &mut Tally<'_, E>,
        tell: &mut impl FnMut(Field<'_>) -> Result<(), E>,
    ) -> Result<(), CompressionError> {
        let index = integer::decode(rest, prefix)?;
        let given = if index == 0 { Some(read_string(rest, 7, &mut self.name)?) } else { None };
        let value = read_string(rest, 7, &mut self.value)?;
        let name = match given {
            Some(name) => name,
            None => entry(&self.table, index)?.0,
        };
        tally.take(Field { name, value, is_sensitive: literal == Literal::Sensitive }, tell);
        if literal == Literal::Indexed {
            let name = match (given, index.checked_sub(STATIC.len() + 1)) {
                (Some(name), _) => NewName::Given(name),
                (None, Some(place)) => NewName::OfEntry(place),
                (None, None) => NewName::Given(static_entry(index)?.0),
            };
            self.table.insert(name, value);
        }
        Ok(())
    }

    /// A change of the table's size (RFC 7541 section 6.3).
    fn resize(&mut self, rest: &mut &[u8], may_resize: bool) -> Result<(), CompressionError> {
        let wanted = integer::decode(rest, 5)?;
        if !may_resize {
            return Err(CompressionError::LateTableSize);
        }
        if wanted > self.size_allowed {
            return Err(CompressionError::TableTooLarge { wanted, allowed: self.size_allowed });
        }
        self.must_shrink = false;
        self.table.set_size_max(wanted);
        Ok(())
    }
}

/// The entry with this number in both tables together: the static one first, then the other, its newest first (RFC 7541 section
/// 2.3.3).
fn entry(table: &DynamicTable, index: usize) -> Result<(&[u8], &[u8]), CompressionError> {
    match index.checked_sub(STATIC.len() + 1) {
        Some(place) => table.entry(place).ok_or(CompressionError::UnknownEntry(index)),
        None => static_entry(index),
    }
}

fn static_entry(index: usize) -> Result<(&'static [u8], &'static [u8]), CompressionError> {
    index.checked_sub(1).and_then(|at| STATIC.get(at)).copied().ok_or(CompressionError::UnknownEntry(index))
}
