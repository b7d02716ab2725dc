//! A short run of this crate's fuzz targets: what applications send, and seeded mutations of it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/fastcgi.rs"]
mod bodies;

use std::panic::{AssertUnwindSafe, catch_unwind};

const MUTATIONS: usize = 3_000;

const RECORDS: [&[u8]; 3] = [
    b"\x05\x01\x06\0\x01\0\x1c\x04\0Content-Type: a/b\r\n\r\nhello!!pad!\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0",
    b"\x04\x01\x07\0\x03\0\x05\0\0oops\n\x01\x06\0\x03\0\0\0\0\x01\x03\0\x02\0\x08\0\0\0\0\0\0\x01\0\0\0\x01\x06\0\x03\0\x01\0\0x",
    b"\x03\x01\x0a\0\0\0\x14\x04\0\x0f\x01FCGI_MPXS_CONNS1\x01\0Xpad!\x01\x0b\0\0\0\x08\0\0\x09\0\0\0\0\0\0\0",
];

const PAIRS: [&[u8]; 2] = [b"\x01\x02abb\x00\x00\x80\0\0\x03\x01abcd", b"\x0f\x01FCGI_MPXS_CONNS1"];

const HEADS: [&[u8]; 4] = [
    b"Status: 404 Not here\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\n\r\n<html>",
    b"Location: /x\n folded\nX: y\n\nbody\n\n",
    b"HTTP/1.1 200 OK\nContent-Length: 3\nConnection: close\n\nabc",
    b"\n\x1b[2J\0\xff\xc2\x9b",
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

fn mutated(corpus: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut data = corpus[random.below(corpus.len())].to_vec();
    for _ in 0..random.below(5) {
        let at = random.below(data.len());
        match random.below(4) {
            0 => data[at] = u8::try_from(random.below(256)).unwrap(),
            1 => data.truncate(at + 1),
            2 => data.insert(at, u8::try_from(random.below(256)).unwrap()),
            _ => {
                let other = corpus[random.below(corpus.len())];
                data.extend_from_slice(&other[random.below(other.len())..]);
            }
        }
    }
    data
}

/// What to begin with, and the body.
type Target = (&'static [&'static [u8]], fn(&[u8]));

#[test]
fn bodies_hold_on_mutations() {
    let targets: [Target; 3] = [(&RECORDS, bodies::records), (&PAIRS, bodies::pairs), (&HEADS, bodies::heads)];
    for (corpus, body) in targets {
        let mut random = Random(1);
        corpus.iter().for_each(|data| body(data));
        for _ in 0..MUTATIONS {
            let data = mutated(corpus, &mut random);
            if catch_unwind(AssertUnwindSafe(|| body(&data))).is_err() {
                panic!("{:?}", String::from_utf8_lossy(&data).escape_debug().to_string());
            }
        }
    }
}
