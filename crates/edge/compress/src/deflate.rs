//! DEFLATE (RFC 1951) for what passes through once: fast, with no memory of its own between two calls.
//!
//! Each piece of input is compressed by itself: matches never reach back into a former piece. That costs some of the ratio
//! and saves the 32 kB of history (and four times that of tables) which each stream would have to keep otherwise. What a
//! stream keeps are the bits of a byte that is not full yet.
//!
//! A piece becomes one block with the fixed code of RFC 1951 section 3.2.6, or a stored block where that is smaller. Matches
//! are looked for in a table of the last place of each hash of four bytes, and taken greedily.

use crate::codes::{DISTANCES, END_OF_BLOCK, LENGTHS, LITERALS};

/// Longest piece that is compressed as one: positions fit in 16 bits and distances into DEFLATE's window.
const PIECE_MAX: usize = 32 * 1024;
/// Shortest match.
const MATCH_MIN: usize = 4;
/// Longest match that DEFLATE can say.
const MATCH_MAX: usize = 258;
/// Bytes at the end of a piece that are not looked up, so that eight can be read everywhere before.
const TAIL: usize = 8;
/// Each so many bytes without a match (as a power of two) make the steps one byte longer.
const SKIP_SHIFT: usize = 7;
/// A match that is taken without looking whether the next one is longer.
const GOOD_ENOUGH: usize = 16;
/// Most bits of a hash.
const HASH_BITS: u32 = 13;
/// Bytes before the data of a stored block.
const STORED_HEAD: usize = 5;
/// Most bytes that a piece of `n` bytes takes: nine bits a literal, and the ends of blocks.
const fn room_for(n: usize) -> usize {
    n + n / 8 + 32
}

/// What all streams of a thread share: nothing of one is left in it for another.
#[derive(Debug)]
pub struct Workspace {
    /// The last position at which each hash was seen in this piece.
    heads: Box<[u16; 1 << HASH_BITS]>,
    out: Box<[u8]>,
}

impl Default for Workspace {
    fn default() -> Self {
        Self { heads: Box::new([0; 1 << HASH_BITS]), out: vec![0; room_for(PIECE_MAX)].into_boxed_slice() }
    }
}

/// The bits of a byte that is not full yet: all that a stream remembers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deflate {
    bits: u64,
    count: u32,
}

/// Bits on their way into bytes.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
    bits: u64,
    count: u32,
}

impl Writer<'_> {
    /// Adds up to 32 bits; at most 56 may wait.
    #[inline(always)]
    fn add(&mut self, bits: u64, count: u32) {
        self.bits |= bits << self.count;
        self.count += count;
    }

    /// Writes whole bytes out.
    #[inline(always)]
    fn flush(&mut self) {
        if let Some(target) = self.out.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut::<8>) {
            *target = self.bits.to_le_bytes();
        }
        self.at += (self.count / 8) as usize;
        self.bits >>= self.count & !7;
        self.count &= 7;
    }

    /// Fills the byte that was begun.
    fn align(&mut self) {
        self.count = self.count.next_multiple_of(8);
        self.flush();
    }

    #[inline(always)]
    fn literals(&mut self, bytes: &[u8]) {
        let mut fours = bytes.chunks_exact(4);
        for four in &mut fours {
            for byte in four {
                let code = literal(*byte);
                self.add(u64::from(code >> 4), code & 15);
            }
            self.flush();
        }
        for byte in fours.remainder() {
            let code = literal(*byte);
            self.add(u64::from(code >> 4), code & 15);
        }
        self.flush();
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if let Some(target) = self.out.get_mut(self.at..self.at + bytes.len()) {
            target.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }
}

#[inline(always)]
fn literal(byte: u8) -> u32 {
    LITERALS.get(usize::from(byte)).copied().unwrap_or_default()
}

#[inline(always)]
fn eight(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk::<8>).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[inline(always)]
fn four(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk::<4>).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[inline(always)]
fn hash(four: u32, shift: u32) -> usize {
    (four.wrapping_mul(0x9E37_79B1) >> shift) as usize & ((1 << HASH_BITS) - 1)
}

/// How many bytes from `a` and from `b` on are the same, `known` of them being known to be.
#[inline(always)]
fn same(bytes: &[u8], a: usize, b: usize, known: usize) -> usize {
    let most = (bytes.len() - b).min(MATCH_MAX);
    let mut length = known;
    while length + 8 <= most {
        let difference = eight(bytes, a + length) ^ eight(bytes, b + length);
        if difference != 0 {
            return length + (difference.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    while length < most && bytes.get(a + length) == bytes.get(b + length) {
        length += 1;
    }
    length
}

impl Deflate {
    /// Appends what `input` becomes to `out`. Whole bytes only: up to seven bits wait for more unless it is flushed.
    pub fn compress(&mut self, workspace: &mut Workspace, input: &[u8], out: &mut Vec<u8>) {
        for piece in input.chunks(PIECE_MAX) {
            self.piece(workspace, piece, out);
        }
    }

    fn piece(&mut self, workspace: &mut Workspace, input: &[u8], out: &mut Vec<u8>) {
        let Workspace { heads, out: room } = workspace;
        let mut writer = Writer { out: room, at: 0, bits: self.bits, count: self.count };
        // A block that is not the last one, with the fixed code.
        writer.add(0b010, 3);
        let hash_bits = if input.len() >= 4096 { HASH_BITS } else { 10 };
        let shift = 32 - hash_bits;
        if let Some(used) = heads.get_mut(..1 << hash_bits) {
            used.fill(0);
        }
        let end = input.len().saturating_sub(TAIL);
        let mut at = 1;
        let mut literals = 0;
        while at < end {
            let here = four(input, at);
            let slot = hash(here, shift);
            let Some(head) = heads.get_mut(slot) else { break };
            let candidate = usize::from(*head);
            *head = at as u16;
            if candidate >= at || four(input, candidate) != here {
                // What has no matches is gone over in longer and longer steps.
                at += 1 + ((at - literals) >> SKIP_SHIFT);
                continue;
            }
            let mut length = same(input, candidate, at, MATCH_MIN);
            let mut candidate = candidate;
            // A longer match one byte further on is worth a literal.
            if length < GOOD_ENOUGH && at + 1 < end {
                let next = four(input, at + 1);
                let slot = hash(next, shift);
                if let Some(head) = heads.get_mut(slot) {
                    let other = usize::from(*head);
                    *head = (at + 1) as u16;
                    if other <= at && four(input, other) == next {
                        let longer = same(input, other, at + 1, MATCH_MIN);
                        if longer > length {
                            (at, candidate, length) = (at + 1, other, longer);
                        }
                    }
                }
            }
            writer.literals(input.get(literals..at).unwrap_or_default());
            let code = LENGTHS.get(length).copied().unwrap_or_default();
            writer.add(u64::from(code >> 5), code & 31);
            let code = DISTANCES.get(at - candidate).copied().unwrap_or_default();
            writer.add(u64::from(code >> 5), code & 31);
            writer.flush();
            at += length;
            literals = at;
            for earlier in [at - 2, at - 1] {
                if let Some(head) = heads.get_mut(hash(four(input, earlier), shift)) {
                    *head = earlier as u16;
                }
            }
        }
        writer.literals(input.get(literals..).unwrap_or_default());
        writer.add(u64::from(END_OF_BLOCK.0), END_OF_BLOCK.1);
        writer.flush();
        let Writer { at, bits, count, out: room } = writer;
        if at > input.len() + STORED_HEAD {
            return self.stored(room, input, out);
        }
        (self.bits, self.count) = (bits, count);
        out.extend_from_slice(room.get(..at).unwrap_or_default());
    }

    /// Appends `input` as it is, in stored blocks.
    pub fn store(&mut self, workspace: &mut Workspace, input: &[u8], out: &mut Vec<u8>) {
        for piece in input.chunks(PIECE_MAX) {
            self.stored(&mut workspace.out, piece, out);
        }
    }

    fn stored(&mut self, room: &mut [u8], input: &[u8], out: &mut Vec<u8>) {
        let mut writer = Writer { out: room, at: 0, bits: self.bits, count: self.count };
        writer.add(0b000, 3);
        writer.align();
        // A piece is shorter than 64 kB.
        let length = input.len() as u16;
        writer.bytes(&length.to_le_bytes());
        writer.bytes(&(!length).to_le_bytes());
        let at = writer.at;
        (self.bits, self.count) = (0, 0);
        out.extend_from_slice(room.get(..at).unwrap_or_default());
        out.extend_from_slice(input);
    }

    /// Appends what is needed for all input so far to be there for the receiver: an empty stored block.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        self.stored(&mut [0; 16], b"", out);
    }

    /// Appends the end of the stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let mut room = [0; 16];
        let mut writer = Writer { out: &mut room, at: 0, bits: self.bits, count: self.count };
        // A last block with nothing in it.
        writer.add(0b011, 3);
        writer.add(u64::from(END_OF_BLOCK.0), END_OF_BLOCK.1);
        writer.align();
        let at = writer.at;
        (self.bits, self.count) = (0, 0);
        out.extend_from_slice(room.get(..at).unwrap_or_default());
    }
}
