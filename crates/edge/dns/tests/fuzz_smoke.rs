//! A short run of this crate's fuzz target: answers, and seeded mutations of them.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/dns.rs"]
mod machine;

use std::panic::{AssertUnwindSafe, catch_unwind};

const MUTATIONS: usize = 3_000;

/// Answers as name servers send them.
const ANSWERS: [&[u8]; 6] = [
    b"\0\0\x81\x80\0\x01\0\x02\0\0\0\0\x01a\x01b\0\0\x01\0\x01\xC0\x0c\0\x01\0\x01\0\0\0\x01\0\x04\x7f\0\0\x01\xC0\x0c\0\x01\0\x01\0\0\0\x01\0\x04\x7f\0\0\x02",
    b"\0\0\x81\x80\0\x01\0\x02\0\0\0\0\x01a\x01b\0\0\x01\0\x01\xC0\x0c\0\x05\0\x01\0\0\0\x01\0\x03\x01c\0\x01c\0\0\x01\0\x01\0\0\0\x01\0\x04\x7f\0\0\x03",
    b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0\x01a\x01b\0\0\x1c\0\x01\xC0\x0c\0\x1c\0\x01\0\0\0\x01\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01",
    b"\0\0\x81\x80\0\x01\0\x02\0\0\0\x02\x02_h\x02_t\x01x\0\0\x21\0\x01\xC0\x0c\0\x21\0\x01\0\0\0\x01\0\x09\0\x01\x01\0\0\x50\x01n\0\xC0\x0c\0\x21\0\x01\0\0\0\x01\0\x09\0\x01\0\0\0\x51\x01m\0\x01n\0\0\x01\0\x01\0\0\0\x01\0\x04\x7f\0\0\x04\0\0\x29\x02\0\0\0\0\0\0\0",
    b"\0\0\x81\x83\0\x01\0\0\0\0\0\0\x01a\x01b\0\0\x01\0\x01",
    b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0\x01n\0\0\x01\0\x01\xC0\x0c\0\x01\0\x01\0\0\0\x01\0\x04\x7f\0\0\x05",
];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).unwrap()
    }
}

#[test]
fn machine() {
    let mut random = Random(1);
    for round in 0..MUTATIONS {
        let mut input = Vec::new();
        for _ in 0..8 + random.below(40) {
            let mut answer = ANSWERS[random.below(ANSWERS.len())].to_vec();
            for _ in 0..random.below(3) {
                let at = random.below(answer.len());
                match random.below(3) {
                    0 => answer.truncate(at),
                    1 => answer[at] ^= 1 << random.below(8),
                    _ => answer.insert(at, 0xC0),
                }
                answer.resize(answer.len().max(1), 0);
            }
            input.push(u8::try_from(answer.len()).unwrap());
            input.extend(answer);
        }
        if catch_unwind(AssertUnwindSafe(|| machine::machine(&input))).is_err() {
            panic!("round {round}: {input:?}");
        }
    }
}
