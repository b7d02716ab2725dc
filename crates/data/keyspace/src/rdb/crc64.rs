//! CRC-64 of Jones, as payloads of `DUMP` end with: reflected, from zero, without a final change.

const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// Eight tables, so that eight bytes are taken in one step: table `n` is what a byte does that `n` others follow.
#[expect(clippy::indexing_slicing, reason = "indices are below 256 and 8, and the compiler runs this")]
static TABLES: [[u64; 256]; 8] = {
    let mut tables = [[0u64; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][index] = crc;
        index += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut index = 0;
        while index < 256 {
            let before = tables[table - 1][index];
            tables[table][index] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            index += 1;
        }
        table += 1;
    }
    tables
};

/// The checksum of some bytes.
pub fn crc64(bytes: &[u8]) -> u64 {
    continued(0, bytes)
}

/// The checksum of bytes that follow others.
pub fn continued(crc: u64, bytes: &[u8]) -> u64 {
    let [t0, t1, t2, t3, t4, t5, t6, t7] = &TABLES;
    let at = |table: &[u64; 256], word: u64, shift: u32| {
        #[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
        table[usize::from((word >> shift) as u8)]
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(crc, |crc, word| {
        let word = crc ^ u64::from_le_bytes(*word);
        at(t7, word, 0)
            ^ at(t6, word, 8)
            ^ at(t5, word, 16)
            ^ at(t4, word, 24)
            ^ at(t3, word, 32)
            ^ at(t2, word, 40)
            ^ at(t1, word, 48)
            ^ at(t0, word, 56)
    });
    rest.iter().fold(crc, |crc, byte| crc >> 8 ^ at(t0, crc ^ u64::from(*byte), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(b""), 0);
    }

    #[test]
    fn pieces_make_the_same_as_the_whole() {
        let bytes: Vec<u8> = (0..100u8).map(|byte| byte.wrapping_mul(37)).collect();
        for split in 0..bytes.len() {
            let (first, second) = bytes.split_at(split);
            assert_eq!(continued(crc64(first), second), crc64(&bytes), "{split}");
        }
    }
}
