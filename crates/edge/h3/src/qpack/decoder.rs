//! From sections to fields (RFC 9204 section 4.5).

use h2h3::{
    CompressionError, DecodeError, DynamicTable, FIELD_OVERHEAD, Field, HeaderLimits, Tally, integer, read_string,
};

use super::static_table::STATIC;

/// Reads the sections of a client, and follows its table.
#[derive(Debug)]
pub struct Decoder {
    pub(super) table: DynamicTable,
    /// How large the client may make the table.
    pub(super) capacity_max: usize,
    /// How many entries the table has got.
    pub(super) inserted: u64,
    /// An instruction of the encoder stream that is not whole.
    pub(super) rest: Vec<u8>,
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// What is to be sent on the decoder stream.
    pub(super) said: Vec<u8>,
}

/// Memory for decoded strings that is kept from one section to the next.
pub(super) const SCRATCH_KEPT: usize = 512;

/// What a section says of the table first (RFC 9204 section 4.5.1).
#[derive(Clone, Copy, Debug)]
struct Prefix {
    /// Entries that the table must have got.
    required: u64,
    /// Where references count from.
    base: u64,
}

impl Decoder {
    /// One whose table may get so large, as `SETTINGS_QPACK_MAX_TABLE_CAPACITY` says to the client.
    #[must_use]
    pub fn new(capacity_max: usize) -> Self {
        Self {
            // The client's encoder begins with none (RFC 9204 section 3.2.3).
            table: DynamicTable::new(0),
            capacity_max,
            inserted: 0,
            rest: Vec::new(),
            name: Vec::new(),
            value: Vec::new(),
            said: Vec::new(),
        }
    }

    /// Reads the whole section that came on `stream` and hands over its fields, in their order.
    ///
    /// # Errors
    /// What is wrong with the section; nothing is handed over any more after something was.
    pub fn decode<E>(
        &mut self,
        stream: u64,
        section: &[u8],
        limits: &HeaderLimits,
        mut field: impl FnMut(Field<'_>) -> Result<(), E>,
    ) -> Result<(), DecodeError<E>> {
        let mut rest = section;
        let prefix = self.prefix(&mut rest)?;
        let mut tally = Tally::new(limits);
        let (mut name_memory, mut value_memory) = (std::mem::take(&mut self.name), std::mem::take(&mut self.value));
        let read = (|| -> Result<(), CompressionError> {
            while let Some(first) = rest.first().copied() {
                let (name, value, is_sensitive) = match first {
                    // 1, T: an entry.
                    0b1000_0000.. => {
                        let is_static = first & 0b0100_0000 != 0;
                        let (name, value) = self.entry(prefix, is_static, integer::decode(&mut rest, 6)?)?;
                        (name, value, false)
                    }
                    // 0, 1, N, T: the name of an entry.
                    0b0100_0000.. => {
                        let (is_sensitive, is_static) = (first & 0b0010_0000 != 0, first & 0b0001_0000 != 0);
                        let (name, _) = self.entry(prefix, is_static, integer::decode(&mut rest, 4)?)?;
                        (name, read_string(&mut rest, 7, &mut value_memory)?, is_sensitive)
                    }
                    // 0, 0, 1, N: a name.
                    0b0010_0000.. => {
                        let name = read_string(&mut rest, 3, &mut name_memory)?;
                        (name, read_string(&mut rest, 7, &mut value_memory)?, first & 0b0001_0000 != 0)
                    }
                    // 0, 0, 0, 1: an entry behind the base.
                    0b0001_0000.. => {
                        let (name, value) = self.entry_behind(prefix, integer::decode(&mut rest, 4)?)?;
                        (name, value, false)
                    }
                    // 0, 0, 0, 0, N: the name of one.
                    _ => {
                        let (name, _) = self.entry_behind(prefix, integer::decode(&mut rest, 3)?)?;
                        (name, read_string(&mut rest, 7, &mut value_memory)?, first & 0b0000_1000 != 0)
                    }
                };
                tally.take(Field { name, value, is_sensitive }, &mut field);
            }
            Ok(())
        })();
        for memory in [&mut name_memory, &mut value_memory] {
            memory.clear();
            memory.shrink_to(SCRATCH_KEPT);
        }
        (self.name, self.value) = (name_memory, value_memory);
        read?;
        if prefix.required > 0 {
            self.acknowledge(stream);
        }
        tally.finish()
    }

    /// RFC 9204 section 4.5.1.
    fn prefix(&self, rest: &mut &[u8]) -> Result<Prefix, CompressionError> {
        let encoded = integer::decode(rest, 8)? as u64;
        let is_negative = rest.first().is_some_and(|first| first & 0x80 != 0);
        let delta = integer::decode(rest, 7)? as u64;
        let required = self.required(encoded)?;
        if required > self.inserted {
            return Err(CompressionError::Blocked);
        }
        let base = if is_negative {
            required.checked_sub(delta + 1).ok_or(CompressionError::RequiredCount)?
        } else {
            required + delta
        };
        Ok(Prefix { required, base })
    }

    /// How many entries are needed, which is said modulo twice as many as the table can have: RFC 9204 section 4.5.1.1.
    fn required(&self, encoded: u64) -> Result<u64, CompressionError> {
        if encoded == 0 {
            return Ok(0);
        }
        let entries_max = (self.capacity_max / FIELD_OVERHEAD) as u64;
        let range = 2 * entries_max;
        if encoded > range {
            return Err(CompressionError::RequiredCount);
        }
        let most = self.inserted + entries_max;
        let wrapped = most / range * range;
        let required = wrapped + encoded - 1;
        let required = if required > most {
            required.checked_sub(range).ok_or(CompressionError::RequiredCount)?
        } else {
            required
        };
        if required == 0 { Err(CompressionError::RequiredCount) } else { Ok(required) }
    }

    /// An entry that stands before the base, or in the static table.
    fn entry(&self, prefix: Prefix, is_static: bool, index: usize) -> Result<(&[u8], &[u8]), CompressionError> {
        if is_static {
            return STATIC.get(index).copied().ok_or(CompressionError::UnknownEntry(index));
        }
        let number = prefix.base.checked_sub(index as u64 + 1);
        self.numbered(prefix, number).ok_or(CompressionError::UnknownEntry(index))
    }

    fn entry_behind(&self, prefix: Prefix, index: usize) -> Result<(&[u8], &[u8]), CompressionError> {
        self.numbered(prefix, Some(prefix.base + index as u64)).ok_or(CompressionError::UnknownEntry(index))
    }

    /// The entry of this number, from 0 on for the first that the table has ever got. A section may not use more than it has said that
    /// it needs (RFC 9204 section 2.2.3).
    fn numbered(&self, prefix: Prefix, number: Option<u64>) -> Option<(&[u8], &[u8])> {
        let number = number.filter(|number| *number < prefix.required)?;
        let place = self.inserted.checked_sub(number + 1)?;
        self.table.entry(usize::try_from(place).ok()?)
    }
}
