//! The hashes by which clients and proxies have spread keys over servers, as twemproxy and libmemcached compute them: data that was
//! written through another proxy is found where it lies.
//!
//! Some treat bytes as signed numbers, for the C compilers of their time did. That is a part of the result and kept here.

use md5::Digest as _;

/// A hash, by the names of nutcracker.yml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// `one_at_a_time`: Bob Jenkins' first.
    OneAtATime,
    /// `md5`: its first four bytes.
    Md5,
    /// `crc16`: XMODEM's.
    Crc16,
    /// `crc32`: 15 bits of it, as libmemcached has it.
    Crc32,
    /// `crc32a`: all of it.
    Crc32a,
    /// `fnv1_64`: its lower half.
    Fnv1Of64,
    /// `fnv1a_64`: computed with 32 bits.
    Fnv1aOf64,
    /// `fnv1_32`.
    Fnv1Of32,
    /// `fnv1a_32`.
    Fnv1aOf32,
    /// `hsieh`: Paul Hsieh's SuperFastHash.
    Hsieh,
    /// `murmur`: MurmurHash2 with a seed of the length.
    Murmur,
    /// `jenkins`: Bob Jenkins' lookup3.
    Jenkins,
}

/// All of them by name.
const NAMES: [(&str, Hash); 12] = [
    ("one_at_a_time", Hash::OneAtATime),
    ("md5", Hash::Md5),
    ("crc16", Hash::Crc16),
    ("crc32", Hash::Crc32),
    ("crc32a", Hash::Crc32a),
    ("fnv1_64", Hash::Fnv1Of64),
    ("fnv1a_64", Hash::Fnv1aOf64),
    ("fnv1_32", Hash::Fnv1Of32),
    ("fnv1a_32", Hash::Fnv1aOf32),
    ("hsieh", Hash::Hsieh),
    ("murmur", Hash::Murmur),
    ("jenkins", Hash::Jenkins),
];

impl Hash {
    /// The hash of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, hash)| *hash)
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Of a key.
    #[must_use]
    pub fn of(self, key: &[u8]) -> u32 {
        match self {
            Self::OneAtATime => one_at_a_time(key),
            Self::Md5 => md5_word(key, 0),
            Self::Crc16 => crc16(key),
            Self::Crc32 => (crc32fast::hash(key) >> 16) & 0x7fff,
            Self::Crc32a => crc32fast::hash(key),
            Self::Fnv1Of64 => fnv1_of_64(key),
            Self::Fnv1aOf64 => fnv1a(key, FNV_64_START as u32, FNV_64_PRIME as u32),
            Self::Fnv1Of32 => {
                key.iter().fold(FNV_32_START, |hash, byte| hash.wrapping_mul(FNV_32_PRIME) ^ signed(*byte))
            }
            Self::Fnv1aOf32 => fnv1a(key, FNV_32_START, FNV_32_PRIME),
            Self::Hsieh => hsieh(key),
            Self::Murmur => murmur(key),
            Self::Jenkins => jenkins(key),
        }
    }
}

const FNV_64_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_64_PRIME: u64 = 0x0100_0000_01b3;
const FNV_32_START: u32 = 2_166_136_261;
const FNV_32_PRIME: u32 = 16_777_619;

/// A byte as a signed number, widened.
fn signed(byte: u8) -> u32 {
    i32::from(byte.cast_signed()).cast_unsigned()
}

fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = key.iter().fold(0u32, |hash, byte| {
        let hash = hash.wrapping_add(signed(*byte));
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    });
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// One of the four words of a key's MD5.
pub(crate) fn md5_word(key: &[u8], word: usize) -> u32 {
    let digest = md5::Md5::digest(key);
    digest.as_chunks::<4>().0.get(word).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Computed in a word of 32 bits: what leaves the lower half at the top stays in the upper one.
fn crc16(key: &[u8]) -> u32 {
    key.iter().fold(0u32, |crc, byte| {
        let index = ((crc >> 8) as u8) ^ byte;
        (crc << 8) ^ u32::from(keyspace::slot::crc16(&[index]))
    })
}

fn fnv1_of_64(key: &[u8]) -> u32 {
    let hash = key.iter().fold(FNV_64_START, |hash, byte| {
        hash.wrapping_mul(FNV_64_PRIME) ^ i64::from(byte.cast_signed()).cast_unsigned()
    });
    hash as u32
}

fn fnv1a(key: &[u8], start: u32, prime: u32) -> u32 {
    key.iter().fold(start, |hash, byte| (hash ^ signed(*byte)).wrapping_mul(prime))
}

fn hsieh(key: &[u8]) -> u32 {
    if key.is_empty() {
        return 0;
    }
    let two = |low: u8, high: u8| u32::from(u16::from_le_bytes([low, high]));
    let (fours, rest) = key.as_chunks::<4>();
    let mut hash = fours.iter().fold(0u32, |hash, [a, b, c, d]| {
        let hash = hash.wrapping_add(two(*a, *b));
        let hash = (hash << 16) ^ (two(*c, *d) << 11) ^ hash;
        hash.wrapping_add(hash >> 11)
    });
    match *rest {
        [a, b, c] => {
            hash = hash.wrapping_add(two(a, b));
            hash ^= hash << 16;
            hash ^= signed(c) << 18;
            hash = hash.wrapping_add(hash >> 11);
        }
        [a, b] => {
            hash = hash.wrapping_add(two(a, b));
            hash ^= hash << 11;
            hash = hash.wrapping_add(hash >> 17);
        }
        [a] => {
            hash = hash.wrapping_add(u32::from(a));
            hash ^= hash << 10;
            hash = hash.wrapping_add(hash >> 1);
        }
        _ => {}
    }
    hash ^= hash << 3;
    hash = hash.wrapping_add(hash >> 5);
    hash ^= hash << 4;
    hash = hash.wrapping_add(hash >> 17);
    hash ^= hash << 25;
    hash.wrapping_add(hash >> 6)
}

fn murmur(key: &[u8]) -> u32 {
    const FACTOR: u32 = 0x5bd1_e995;
    let length = key.len() as u32;
    let (fours, rest) = key.as_chunks::<4>();
    let mut hash = fours.iter().fold(0xdead_beef_u32.wrapping_mul(length) ^ length, |hash, four| {
        let word = u32::from_le_bytes(*four).wrapping_mul(FACTOR);
        let word = (word ^ (word >> 24)).wrapping_mul(FACTOR);
        hash.wrapping_mul(FACTOR) ^ word
    });
    if !rest.is_empty() {
        hash ^= little_endian(rest);
        hash = hash.wrapping_mul(FACTOR);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ (hash >> 15)
}

/// Up to four bytes as a number.
fn little_endian(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

fn jenkins(key: &[u8]) -> u32 {
    const START: u32 = 13;
    let word = |block: &[u8], place: usize| {
        let block = block.get(place * 4..).unwrap_or_default();
        little_endian(block.get(..4).unwrap_or(block))
    };
    let begin = 0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(START);
    let (mut a, mut b, mut c) = (begin, begin, begin);
    let mut rest = key;
    while let Some((block, following)) = rest.split_at_checked(12).filter(|(_, following)| !following.is_empty()) {
        a = a.wrapping_add(word(block, 0));
        b = b.wrapping_add(word(block, 1));
        c = c.wrapping_add(word(block, 2));
        (a, b, c) = mixed(a, b, c);
        rest = following;
    }
    if rest.is_empty() {
        return c;
    }
    a = a.wrapping_add(word(rest, 0));
    b = b.wrapping_add(word(rest, 1));
    c = c.wrapping_add(word(rest, 2));
    let step = |into: u32, of: u32, turn: u32| (into ^ of).wrapping_sub(of.rotate_left(turn));
    c = step(c, b, 14);
    a = step(a, c, 11);
    b = step(b, a, 25);
    c = step(c, b, 16);
    a = step(a, c, 4);
    b = step(b, a, 14);
    step(c, b, 24)
}

/// What lookup3 does with its three words between two blocks.
fn mixed(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    for [first, second, third] in [[4, 6, 8], [16, 19, 4]] {
        a = a.wrapping_sub(c) ^ c.rotate_left(first);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(second);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(third);
        b = b.wrapping_add(a);
    }
    (a, b, c)
}
