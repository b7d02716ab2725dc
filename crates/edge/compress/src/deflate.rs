//! DEFLATE (RFC 1951) for what passes through once: fast, with no memory of its own between two calls.
//!
//! Each piece of input is compressed by itself: matches never reach back into a former piece. That costs some of the ratio
//! and saves the 32 kB of history (and four times that of tables) which each stream would have to keep otherwise. What a
//! stream keeps are the bits of a byte that is not full yet.
//!
//! A piece becomes one block with the fixed code of RFC 1951 section 3.2.6, or a stored block where that is smaller. Matches
//! are looked for in a table of the last place of each hash of four bytes, and taken greedily: to look whether a short one is followed
//! by a longer one makes text 3% smaller, logs less than 1%, and takes a quarter more time.

use crate::codes::{DISTANCES, END_OF_BLOCK, LENGTHS, LITERALS};

/// Longest piece that is compressed as one: positions fit in 16 bits and distances into DEFLATE's window.
const PIECE_MAX: usize = 1 << 15;
/// Shortest match.
const MATCH_MIN: usize = 4;
/// Longest match that DEFLATE can say.
const MATCH_MAX: usize = 258;
/// Bytes at the end of a piece that are not looked up.
const TAIL: usize = 8;
/// Each so many bytes without a match (as a power of two) make the steps one byte longer.
const SKIP_SHIFT: usize = 7;
/// Most bits of a hash.
const HASH_BITS: u32 = 13;
/// Bytes before the data of a stored block.
const STORED_HEAD: usize = 5;
/// Room for what a piece becomes: at most nine bits for a byte, and the ends of blocks.
const OUT_MAX: usize = 1 << 16;
const _: () = assert!(PIECE_MAX + PIECE_MAX / 8 + 32 <= OUT_MAX);
/// Bytes that are read or written at a time, so both rooms go on for as many.
const WORD: usize = 8;

/// NOTE: rooms have lengths that are known and one word more than a power of two: a place that is cut to that power lies in
/// them for certain, and nothing has to be compared.
type Piece = [u8; PIECE_MAX + WORD];
type Out = [u8; OUT_MAX + WORD];
type Heads = [u16; 1 << HASH_BITS];

/// What all streams of a thread share: nothing of one is left in it for another.
#[derive(Debug)]
pub struct Workspace {
    /// The last position at which each hash was seen in this piece.
    heads: Box<Heads>,
    /// The piece itself.
    piece: Box<Piece>,
    out: Box<Out>,
}

impl Default for Workspace {
    fn default() -> Self {
        let piece = Box::new([0; PIECE_MAX + WORD]);
        Self { heads: Box::new([0; 1 << HASH_BITS]), piece, out: Box::new([0; OUT_MAX + WORD]) }
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
    out: &'a mut Out,
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

    #[inline(always)]
    fn put(&mut self, word: u64) {
        let at = self.at & (OUT_MAX - 1);
        if let Some(target) = self.out.get_mut(at..at + WORD).and_then(<[u8]>::first_chunk_mut) {
            *target = word.to_le_bytes();
        }
    }

    /// Writes whole bytes out.
    #[inline(always)]
    fn flush(&mut self) {
        self.put(self.bits);
        self.at += (self.count / 8) as usize;
        self.bits >>= self.count & !7;
        self.count &= 7;
    }

    /// Writes the bytes from `from` to `to` as literals; fewer than eight bits wait, before and after.
    #[inline(always)]
    fn literals(&mut self, piece: &Piece, mut from: usize, to: usize) {
        while from < to {
            let word = eight(piece, from);
            let count = (to - from).min(WORD);
            if word & 0x8080_8080_8080_8080 != 0 {
                for byte in word.to_le_bytes().into_iter().take(count) {
                    let code = LITERALS.get(usize::from(byte)).copied().unwrap_or_default();
                    self.add(u64::from(code >> 4), code & 15);
                    self.flush();
                }
            } else {
                // NOTE: the code of a byte of ASCII is that byte and 0x30, in eight bits with the highest one first. So
                // eight bytes become their codes at once, and bits behind those that are wanted are cut off.
                let codes = (word + 0x3030_3030_3030_3030).swap_bytes().reverse_bits();
                let codes = codes & (u64::MAX >> (64 - 8 * count));
                self.put(self.bits | codes << self.count);
                self.at += count;
                // What did not fit into the word that was written, in two steps because a shift by 64 is none.
                let behind = 8 * count as u32;
                self.bits = if behind == 64 {
                    codes >> 1 >> (63 - self.count)
                } else {
                    (self.bits | codes << self.count) >> behind
                };
            }
            from += count;
        }
    }
}

#[inline(always)]
fn eight(piece: &Piece, at: usize) -> u64 {
    let at = at & (PIECE_MAX - 1);
    piece.get(at..at + WORD).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[inline(always)]
fn four(piece: &Piece, at: usize) -> u32 {
    let at = at & (PIECE_MAX - 1);
    piece.get(at..at + 4).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[inline(always)]
fn hash(four: u32, shift: u32) -> usize {
    (four.wrapping_mul(0x9E37_79B1) >> shift) as usize & ((1 << HASH_BITS) - 1)
}

/// Where a hash was seen last, `at` taking its place.
#[inline(always)]
fn exchange(heads: &mut Heads, slot: usize, at: usize) -> usize {
    heads.get_mut(slot).map_or(0, |head| usize::from(std::mem::replace(head, at as u16)))
}

/// How many bytes from `a` and from `b` on are the same, up to `most`, the first four being known to be.
#[inline(always)]
fn same(piece: &Piece, a: usize, b: usize, most: usize) -> usize {
    let mut length = MATCH_MIN;
    while length < most {
        let difference = eight(piece, a + length) ^ eight(piece, b + length);
        if difference != 0 {
            return (length + (difference.trailing_zeros() / 8) as usize).min(most);
        }
        length += WORD;
    }
    most
}

impl Deflate {
    /// Appends what `input` becomes to `out`. Whole bytes only: up to seven bits wait for more unless it is flushed.
    pub fn compress(&mut self, workspace: &mut Workspace, input: &[u8], out: &mut Vec<u8>) {
        for piece in input.chunks(PIECE_MAX) {
            self.piece(workspace, piece, out);
        }
    }

    fn piece(&mut self, workspace: &mut Workspace, input: &[u8], out: &mut Vec<u8>) {
        let Workspace { heads, piece, out: room } = workspace;
        if let Some(target) = piece.get_mut(..input.len()) {
            target.copy_from_slice(input);
        }
        let (piece, heads) = (&**piece, &mut **heads);
        let mut writer = Writer { out: room, at: 0, bits: self.bits, count: self.count };
        // A block that is not the last one, with the fixed code.
        writer.add(0b010, 3);
        writer.flush();
        let hash_bits = if input.len() >= 4096 { HASH_BITS } else { 10 };
        let shift = 32 - hash_bits;
        if let Some(used) = heads.get_mut(..1 << hash_bits) {
            used.fill(0);
        }
        let end = input.len().saturating_sub(TAIL);
        let mut at = 1;
        let mut literals = 0;
        while at < end {
            let here = four(piece, at);
            let candidate = exchange(heads, hash(here, shift), at);
            if four(piece, candidate) != here || candidate >= at {
                // What has no matches is gone over in longer and longer steps.
                at += 1 + ((at - literals) >> SKIP_SHIFT);
                continue;
            }
            let length = same(piece, candidate, at, (input.len() - at).min(MATCH_MAX));
            writer.literals(piece, literals, at);
            let code = LENGTHS.get(length).copied().unwrap_or_default();
            writer.add(u64::from(code >> 5), code & 31);
            let code = DISTANCES.get(at - candidate).copied().unwrap_or_default();
            writer.add(u64::from(code >> 5), code & 31);
            writer.flush();
            at += length;
            literals = at;
            exchange(heads, hash(four(piece, at - 1), shift), at - 1);
        }
        writer.literals(piece, literals, input.len());
        writer.add(u64::from(END_OF_BLOCK.0), END_OF_BLOCK.1);
        writer.flush();
        let Writer { at, bits, count, out: room } = writer;
        if at > input.len() + STORED_HEAD {
            return self.stored(input, out);
        }
        (self.bits, self.count) = (bits, count);
        out.extend_from_slice(room.get(..at).unwrap_or_default());
    }

    /// Appends `input` as it is, in stored blocks.
    pub fn store(&mut self, input: &[u8], out: &mut Vec<u8>) {
        for piece in input.chunks(PIECE_MAX) {
            self.stored(piece, out);
        }
    }

    fn stored(&mut self, input: &[u8], out: &mut Vec<u8>) {
        self.align(0b000, 3, out);
        // A piece is shorter than 64 kB.
        let length = input.len() as u16;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(input);
    }

    /// Appends what is needed for all input so far to be there for the receiver: an empty stored block.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        self.stored(b"", out);
    }

    /// Appends the end of the stream: a last block with nothing in it.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let (end, end_len) = END_OF_BLOCK;
        self.align(0b011 | u64::from(end) << 3, 3 + end_len, out);
    }

    /// Appends these few bits, and fills the byte that they end in.
    fn align(&mut self, bits: u64, count: u32, out: &mut Vec<u8>) {
        let bytes = (self.bits | bits << self.count).to_le_bytes();
        let len = (self.count + count).div_ceil(8) as usize;
        out.extend_from_slice(bytes.get(..len).unwrap_or_default());
        (self.bits, self.count) = (0, 0);
    }
}
