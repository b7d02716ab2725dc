//! A short run of the fuzz targets.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/hpack.rs"]
mod hpack;
#[path = "../../../../fuzz/src/http2.rs"]
mod http2;

use h2::frame::FrameHeader;
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

/// Frames that mean something, whole requests among them.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let get = b"\x82\x86\x84\x41\x01a".to_vec();
    let post = b"\x83\x86\x84\x41\x01a".to_vec();
    let answer = b"\x88\x0f\x10\x01x".to_vec();
    let kind = prop_oneof![6 => 0u8..10, 1 => any::<u8>()];
    let payload = prop_oneof![
        3 => Just(get),
        3 => Just(post),
        3 => Just(answer),
        3 => vec(any::<u8>(), 0..12),
        1 => vec(prop_oneof![Just(0u8), Just(1)], 4..10),
        1 => (0usize..16_000).prop_map(|count| vec![b'x'; count]),
    ];
    let stream = prop_oneof![1 => Just(0u32), 8 => 1u32..12, 1 => any::<u32>()];
    (kind, prop_oneof![Just(0u8), Just(1), Just(4), Just(5), any::<u8>()], stream, payload).prop_map(
        |(kind, flags, stream, payload)| {
            let mut bytes = Vec::new();
            let length = payload.len() as u32;
            FrameHeader { length, kind, flags, stream: stream & 0x7fff_ffff }.write(&mut bytes);
            bytes.extend_from_slice(&payload);
            bytes
        },
    )
}

proptest! {
    #[test]
    fn frames(piece in any::<u8>(), frames in vec(frame(), 0..30)) {
        let bytes = [&[piece][..], &frames.concat()].concat();
        http2::server(&bytes);
        http2::client(&bytes);
    }

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
