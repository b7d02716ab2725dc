//! Texts that are nearly right.

#![allow(dead_code, reason = "each test uses its own part")]
#![allow(clippy::indexing_slicing, reason = "tests")]

/// A generator of numbers that always gives the same (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 when that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Bytes that mean something somewhere.
const SPECIAL: &[u8] = b" \t\n\r\0\"'\\#$%{}[](),;:/-+*!=<>@.x0123456789a\xff\xc3";

/// Changes a few bytes, or takes some from another text.
pub fn mutate(random: &mut Random, text: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        match random.below(7) {
            0 => text.insert(at, SPECIAL[random.below(SPECIAL.len())]),
            1 if at < text.len() => {
                text.remove(at);
            }
            2 if at < text.len() => text[at] = SPECIAL[random.below(SPECIAL.len())],
            3 if at < text.len() => text[at] ^= 1 << random.below(8),
            4 => text.truncate(at),
            5 => {
                let from = random.below(other.len());
                let length = random.below(other.len() - from + 1);
                text.splice(at..at, other[from..from + length].iter().copied());
            }
            6 => {
                let length = random.below(20).min(text.len() - at);
                let copy = text[at..at + length].to_vec();
                for _ in 0..random.below(30) {
                    text.splice(at..at, copy.iter().copied());
                }
            }
            _ => {}
        }
    }
}

/// Numbers that are too large somewhere.
const NUMBERS: [&str; 6] = ["0", "-1", "4294967296", "99999999999999999999", "100000000k", "9223372036854775807ms"];

/// Changes lines and words: leaves them out, repeats them, moves them, puts words of other lines in their place.
pub fn mutate_lines(random: &mut Random, text: &[u8], other: &[u8]) -> Vec<u8> {
    let split = |text: &[u8]| text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (mut lines, others) = (split(text), split(other));
    for _ in 0..=random.below(6) {
        let at = random.below(lines.len());
        let from = others[random.below(others.len())].clone();
        match random.below(7) {
            0 if lines.len() > 1 => drop(lines.remove(at)),
            1 => lines.insert(at, from),
            2 => {
                let line = lines[at].clone();
                for _ in 0..random.below(20) {
                    lines.insert(at, line.clone());
                }
            }
            3 => {
                let to = random.below(lines.len());
                lines.swap(at, to);
            }
            _ => {
                let mut words: Vec<&[u8]> = lines[at].split(|byte| *byte == b' ').collect();
                let donors: Vec<&[u8]> = from.split(|byte| *byte == b' ').collect();
                let place = random.below(words.len());
                words[place] = match random.below(3) {
                    0 => NUMBERS[random.below(NUMBERS.len())].as_bytes(),
                    _ => donors[random.below(donors.len())],
                };
                lines[at] = words.join(&b' ');
            }
        }
    }
    lines.join(&b'\n')
}
