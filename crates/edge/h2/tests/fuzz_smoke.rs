//! A short run of the fuzz targets.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../../../../fuzz/src/hpack.rs"]
mod hpack;

use proptest::{collection::vec, prelude::*};

/// What blocks are made of.
const PIECES: &[&[u8]] = &[
    b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
    b"\x40\x0acustom-key\x0dcustom-header",
    b"\x10\x08password\x06secret",
    b"\x04\x0c/sample/path",
    b"\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
    b"\xbe",
    b"\xbf\xc0",
    b"\x7e\x00",
    b"\x20",
    b"\x3f\x31",
    b"\x3f\xe1\x03",
    b"\x7f\x80\x01",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..6),
    ]
}

proptest! {
    #[test]
    fn blocks(blocks in vec(vec(piece(), 0..6), 0..12)) {
        let mut data = Vec::new();
        for block in blocks {
            let block = block.concat();
            data.push(block.len().min(255) as u8);
            data.extend_from_slice(&block);
        }
        hpack::blocks(&data);
    }
}
