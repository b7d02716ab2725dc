//! A short run of this crate's fuzz target: records, and seeded mutations of them.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/engine_records.rs"]
mod engine_records;

use std::panic::{AssertUnwindSafe, catch_unwind};

use engine::record::{self, Elements, Header};

const MUTATIONS: usize = 4_000;

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

fn records() -> Vec<Vec<u8>> {
    let long = vec![b'l'; record::WHOLE_LEN_MAX + 1];
    let mut out: Vec<Vec<u8>> = [
        record::key(5, 7, 0, b"key"),
        record::key(5, 7, 0, &long),
        record::element(7, 1, 99, b"field"),
        record::expiry(7, 1, 1_700_000_000_000, b"key"),
        record::orphan(1023, 15, 99),
        record::meta(0, 0, b"keys"),
    ]
    .into_iter()
    .map(|key| key.to_vec())
    .collect();
    let elements = Some(Elements { version: 99, count: 50_000_000 });
    for header in [
        Header { kind: 1, ..Header::default() },
        Header { kind: 4, expire_at_ms: Some(1_700_000_000_000), elements, key: None },
        Header { kind: 1, ..Header::default() }.with_key(&long),
    ] {
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        out.push([bytes.as_slice(), b"inline"].concat());
    }
    out
}

fn smoke(corpus: &[Vec<u8>], target: fn(&[u8])) {
    let mut random = Random(1);
    for round in 0..MUTATIONS {
        let mut input = corpus[random.below(corpus.len())].clone();
        for _ in 0..random.below(4) {
            let at = random.below(input.len());
            match random.below(4) {
                0 => input.truncate(at),
                1 => input[at] ^= 1 << random.below(8),
                2 => input.insert(at, 0xff),
                _ => input.extend_from_slice(&[0; 8]),
            }
            input.resize(input.len().max(1), 0);
        }
        if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
            panic!("round {round}: {}", input.escape_ascii());
        }
    }
}

#[test]
fn record() {
    smoke(&records(), engine_records::record);
}
