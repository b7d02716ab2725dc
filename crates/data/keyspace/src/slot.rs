//! Which slot a key belongs to: Redis Cluster's CRC16 (XMODEM) of the key, or of its hash tag.

use crate::hash_index::CURSOR_BITS;

/// How many slots there are: Redis Cluster's.
pub const SLOTS: usize = 16_384;

const POLYNOMIAL: u16 = 0x1021;

#[expect(clippy::indexing_slicing, reason = "the index is below 256, and the compiler runs this")]
const TABLE: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

/// CRC16 as XMODEM has it.
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        #[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
        let step = TABLE[usize::from((crc >> 8) as u8 ^ byte)];
        (crc << 8) ^ step
    })
}

/// The part of a key that decides its slot: what stands between the first `{` and the next `}`, if that is not empty.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = || {
        let open = key.iter().position(|byte| *byte == b'{')?;
        let rest = key.get(open + 1..)?;
        let close = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    };
    tag().unwrap_or(key)
}

/// Redis Cluster's slot of a key, below [`SLOTS`].
pub fn cluster_slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) & (SLOTS as u16 - 1)
}

/// The same as an index.
pub fn slot(key: &[u8]) -> usize {
    usize::from(cluster_slot(key))
}

/// The cursor of a walk that begins with a slot.
pub fn cursor(slot: usize) -> u64 {
    (slot as u64) << CURSOR_BITS
}

/// The slot that a walk is at.
pub fn of_cursor(cursor: u64) -> usize {
    (cursor >> CURSOR_BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // Figures of CLUSTER KEYSLOT of Redis 7.0.
        for (key, expected) in
            [("foo", 12182), ("somekey", 11058), ("{user1000}.following", 3443), ("{user1000}.followers", 3443)]
        {
            assert_eq!(cluster_slot(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn an_empty_tag_is_no_tag() {
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
    }
}
