//! The streams beside the requests: what the client's encoder does to its table (RFC 9204 section 4.3), and what decoders say (section 4.4).

use h2h3::{CompressionError, FIELD_OVERHEAD, NewName, integer, read_string};

use super::{
    decoder::{Decoder, SCRATCH_KEPT},
    static_table::STATIC,
};

/// Bytes by which an instruction may be larger than what it puts into the table: its numbers.
const INSTRUCTION_OVERHEAD: usize = 64;

/// The most that a Huffman code is longer than its text.
const CODE_FACTOR: usize = 4;

/// An instruction of an encoder (RFC 9204 section 4.3), and how many bytes it takes.
enum Instruction {
    SetCapacity,
    InsertNamed,
    InsertLiteral,
    Duplicate,
}

impl Instruction {
    fn of(first: u8) -> Self {
        match first {
            0b1000_0000.. => Self::InsertNamed,
            0b0100_0000.. => Self::InsertLiteral,
            0b0010_0000.. => Self::SetCapacity,
            _ => Self::Duplicate,
        }
    }
}

impl Decoder {
    /// Takes what came on the encoder stream; how many entries that made.
    ///
    /// # Errors
    /// When it means nothing: `QPACK_ENCODER_STREAM_ERROR`.
    pub fn read_encoder_stream(&mut self, input: &[u8]) -> Result<u64, CompressionError> {
        let before = self.inserted;
        let mut memory = std::mem::take(&mut self.rest);
        let mut rest = if memory.is_empty() {
            input
        } else {
            memory.extend_from_slice(input);
            &memory[..]
        };
        while let Some(length) = instruction_len(rest)? {
            let (mut instruction, after) = rest.split_at_checked(length).ok_or(CompressionError::Truncated)?;
            self.follow(&mut instruction)?;
            rest = after;
        }
        if rest.len() > self.capacity_max.saturating_mul(CODE_FACTOR) + INSTRUCTION_OVERHEAD {
            return Err(CompressionError::EntryTooLarge);
        }
        self.rest = rest.to_vec();
        let made = self.inserted - before;
        if made > 0 {
            // RFC 9204 section 4.4.3: Insert Count Increment.
            integer::encode(&mut self.said, 0, 6, usize::try_from(made).unwrap_or(usize::MAX));
        }
        Ok(made)
    }

    /// Does what a whole instruction says.
    fn follow(&mut self, rest: &mut &[u8]) -> Result<(), CompressionError> {
        let first = rest.first().copied().ok_or(CompressionError::Truncated)?;
        let (mut name_memory, mut value_memory) = (std::mem::take(&mut self.name), std::mem::take(&mut self.value));
        let followed = match Instruction::of(first) {
            Instruction::SetCapacity => {
                let wanted = integer::decode(rest, 5)?;
                if wanted > self.capacity_max {
                    return Err(CompressionError::TableTooLarge { wanted, allowed: self.capacity_max });
                }
                self.table.set_size_max(wanted);
                Ok(())
            }
            Instruction::InsertNamed => {
                let index = integer::decode(rest, 6)?;
                let value = read_string(rest, 7, &mut value_memory)?;
                if first & 0b0100_0000 != 0 {
                    let (name, _) = STATIC.get(index).ok_or(CompressionError::UnknownEntry(index))?;
                    self.insert(NewName::Given(name), name.len(), value)
                } else {
                    let (name, _) = self.table.entry(index).ok_or(CompressionError::UnknownEntry(index))?;
                    self.insert(NewName::OfEntry(index), name.len(), value)
                }
            }
            Instruction::InsertLiteral => {
                let name = read_string(rest, 5, &mut name_memory)?;
                let value = read_string(rest, 7, &mut value_memory)?;
                self.insert(NewName::Given(name), name.len(), value)
            }
            Instruction::Duplicate => {
                let index = integer::decode(rest, 5)?;
                let (name, value) = self.table.entry(index).ok_or(CompressionError::UnknownEntry(index))?;
                value_memory.clear();
                value_memory.extend_from_slice(value);
                self.insert(NewName::OfEntry(index), name.len(), &value_memory)
            }
        };
        for memory in [&mut name_memory, &mut value_memory] {
            memory.clear();
            memory.shrink_to(SCRATCH_KEPT);
        }
        (self.name, self.value) = (name_memory, value_memory);
        followed
    }

    /// RFC 9204 section 3.2.2: unlike in HPACK, what is larger than the table is an error.
    fn insert(&mut self, name: NewName<'_>, name_len: usize, value: &[u8]) -> Result<(), CompressionError> {
        if name_len + value.len() + FIELD_OVERHEAD > self.table.size_max() {
            return Err(CompressionError::EntryTooLarge);
        }
        self.table.insert(name, value);
        self.inserted += 1;
        Ok(())
    }

    /// RFC 9204 section 4.4.1: Section Acknowledgment.
    pub(super) fn acknowledge(&mut self, stream: u64) {
        integer::encode(&mut self.said, 0b1000_0000, 7, usize::try_from(stream).unwrap_or(usize::MAX));
    }

    /// Sections of a stream that have not come whole are not read any more (RFC 9204 section 4.4.2: Stream Cancellation).
    pub fn cancel(&mut self, stream: u64) {
        if self.capacity_max > 0 {
            integer::encode(&mut self.said, 0b0100_0000, 6, usize::try_from(stream).unwrap_or(usize::MAX));
        }
    }

    /// What is to be sent on the decoder stream.
    pub fn said(&mut self) -> &mut Vec<u8> {
        &mut self.said
    }
}

/// How long the first instruction is; `None` if it is not whole.
fn instruction_len(bytes: &[u8]) -> Result<Option<usize>, CompressionError> {
    let Some(first) = bytes.first().copied() else { return Ok(None) };
    let mut rest = bytes;
    let skip_string = |rest: &mut &[u8], prefix: u32| -> Result<(), CompressionError> {
        let length = integer::decode(rest, prefix)?;
        *rest = rest.get(length..).ok_or(CompressionError::Truncated)?;
        Ok(())
    };
    let measured = match Instruction::of(first) {
        Instruction::SetCapacity | Instruction::Duplicate => integer::decode(&mut rest, 5).map(drop),
        Instruction::InsertNamed => integer::decode(&mut rest, 6).and_then(|_| skip_string(&mut rest, 7)),
        Instruction::InsertLiteral => skip_string(&mut rest, 5).and_then(|()| skip_string(&mut rest, 7)),
    };
    match measured {
        Ok(()) => Ok(Some(bytes.len() - rest.len())),
        Err(CompressionError::Truncated) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the client's decoder says. As our encoder uses no table, it can only say that it has given up on streams.
#[derive(Debug, Default)]
pub struct DecoderStream {
    /// A number goes on, of which so many bytes have come.
    within: u8,
}

/// Bytes of a stream's number behind the first one.
const NUMBER_BYTES_MAX: u8 = 9;

impl DecoderStream {
    /// Takes what came on the decoder stream; how many streams the client has given up.
    ///
    /// # Errors
    /// When it acknowledges what was not sent, or means nothing: `QPACK_DECODER_STREAM_ERROR`.
    pub fn read(&mut self, input: &[u8]) -> Result<u32, CompressionError> {
        let mut given_up = 0;
        for byte in input {
            if self.within > 0 {
                self.within = if byte & 0x80 == 0 { 0 } else { self.within + 1 };
                if self.within > NUMBER_BYTES_MAX {
                    return Err(CompressionError::NumberTooLarge);
                }
                continue;
            }
            // RFC 9204 sections 4.4.1 and 4.4.3.
            if byte & 0b1100_0000 != 0b0100_0000 {
                return Err(CompressionError::UnknownEntry(0));
            }
            given_up += 1;
            self.within = u8::from(byte & 0b0011_1111 == 0b0011_1111);
        }
        Ok(given_up)
    }
}
