//! A frame's header.
//!
//! ```text
//!  0 crc32c, begun with the log's salt, of all that follows, the commands included
//!  4 length of the commands     8 offset of their first byte     16 time, ms
//! 24 durable: up to where the log was known to be synced     32 generation of the segment     36 flags
//! ```

use crate::Reason;

/// Bytes of it.
pub(crate) const HEADER_LEN: usize = 40;
/// Where the generation is; flags follow.
pub(crate) const GENERATION_AT: usize = 32;
/// Most bytes of commands.
pub(crate) const COMMANDS_LEN_MAX: usize = u32::MAX as usize;

/// What a frame says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) crc: u32,
    pub(crate) len: u32,
    pub(crate) offset: u64,
    pub(crate) time_ms: u64,
    pub(crate) durable: u64,
    pub(crate) generation: u32,
    pub(crate) flags: u32,
}

impl FrameHeader {
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Self {
        Self {
            crc: u32_at(bytes, 0),
            len: u32_at(bytes, 4),
            offset: u64_at(bytes, 8),
            time_ms: u64_at(bytes, 16),
            durable: u64_at(bytes, 24),
            generation: u32_at(bytes, GENERATION_AT),
            flags: u32_at(bytes, 36),
        }
    }

    /// The header with its checksum, which `commands` go into.
    pub(crate) fn encode(mut self, salt: u32, commands: &[u8]) -> [u8; HEADER_LEN] {
        let rest = self.encode_rest();
        self.crc = checksum(salt, &rest, commands);
        let mut bytes = [0; HEADER_LEN];
        put(&mut bytes, 0, &self.crc.to_le_bytes());
        put(&mut bytes, 4, &rest);
        bytes
    }

    /// What is behind the checksum.
    fn encode_rest(&self) -> [u8; HEADER_LEN - 4] {
        let mut rest = [0; HEADER_LEN - 4];
        put(&mut rest, 0, &self.len.to_le_bytes());
        put(&mut rest, 4, &self.offset.to_le_bytes());
        put(&mut rest, 12, &self.time_ms.to_le_bytes());
        put(&mut rest, 20, &self.durable.to_le_bytes());
        put(&mut rest, 28, &self.generation.to_le_bytes());
        put(&mut rest, 32, &self.flags.to_le_bytes());
        rest
    }

    /// Whether it is the frame that belongs here, but for its checksum; `room` is what is left of the file behind the header.
    pub(crate) fn check_place(&self, generation: u32, offset: u64, room: u64) -> Result<(), Reason> {
        if u64::from(self.len) > room {
            Err(Reason::Length)
        } else if self.generation != generation {
            Err(Reason::Generation)
        } else if self.offset != offset {
            Err(Reason::Offset)
        } else {
            Ok(())
        }
    }

    pub(crate) fn check_sum(&self, salt: u32, commands: &[u8]) -> bool {
        checksum(salt, &self.encode_rest(), commands) == self.crc
    }

    /// Where what it holds ends.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }
}

fn checksum(salt: u32, rest: &[u8], commands: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(salt, rest), commands)
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_le_bytes(*word))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
}
