//! A short run of the fuzz targets: what a machine tells does not depend on how the bytes of streams are cut, and neither machine nor
//! decoder panics.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/http3.rs"]
mod http3;
#[path = "../../../../fuzz/src/qpack.rs"]
mod qpack;

use h3::frame::{FrameHeader, kind};
use proptest::{collection::vec, prelude::*};

/// What sections are made of, and instructions.
const PIECES: &[&[u8]] = &[
    b"\x00\x00\xd1\xd7\x50\x81\x1f\xc1",
    b"\x00\x00",
    b"\x02\x00",
    b"\x03\x80",
    b"\x80",
    b"\x10",
    b"\xd1",
    b"\x51\x0b/index.html",
    b"\x2c\xf2\xb7\x52\xfa\x82\x18\xc7",
    b"\x3f\x61",
    b"\x3f\xa9\x01",
    b"\x41x\x02yz",
    b"\xc0\x01a",
    b"\x80\x01b",
    b"\x00",
    b"\x44",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..6),
    ]
}

/// Frames that mean something, whole requests among them.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let get = b"\x00\x00\xd1\xd7\x50\x01a\xc1".to_vec();
    let post = b"\x00\x00\xd4\xd7\x50\x01a\xc1".to_vec();
    let connect = b"\x00\x00\xcf\x50\x03a:1".to_vec();
    let trailers = b"\x00\x00\x21x\x01y".to_vec();
    let kind = prop_oneof![
        6 => 0u64..2,
        3 => Just(0x21),
        1 => prop_oneof![Just(kind::GOAWAY), Just(kind::MAX_PUSH_ID), Just(kind::PRIORITY_UPDATE_REQUEST), 0u64..16],
    ];
    let payload = prop_oneof![
        4 => Just(get),
        3 => Just(post),
        1 => Just(connect),
        2 => Just(trailers),
        1 => Just(b"\x04u=1".to_vec()),
        3 => vec(any::<u8>(), 0..12),
        1 => vec(piece(), 0..5).prop_map(|pieces| pieces.concat()),
        1 => (0usize..200).prop_map(|count| vec![b'x'; count]),
    ];
    (kind, payload).prop_map(|(kind, payload)| {
        let mut bytes = Vec::new();
        FrameHeader { kind, length: payload.len() as u64 }.write(&mut bytes);
        bytes.extend_from_slice(&payload);
        bytes
    })
}

/// Frames on a stream, which the fuzz target reads behind two bytes.
fn arrival() -> impl Strategy<Value = Vec<u8>> {
    let how = prop_oneof![
        // A request's stream, open or with its end; others.
        6 => (0u8..5, prop_oneof![3 => Just(0u8), 3 => Just(10), 1 => 0u8..21]).prop_map(|(stream, end)| stream + end * 12),
        1 => any::<u8>(),
    ];
    (how, vec(frame(), 0..4)).prop_map(|(how, frames)| {
        let mut bytes = frames.concat();
        bytes.truncate(255);
        [&[how, bytes.len() as u8][..], &bytes].concat()
    })
}

proptest! {
    #[test]
    fn cuts_change_nothing(settings in 0u8..4, arrivals in vec(arrival(), 0..30)) {
        // The client's control stream, and the one of its encoder.
        let start = b"\x05\x03\x00\x04\x00\x06\x04\x02\x3f\xa9\x01".to_vec();
        http3::server(&[vec![settings], start, arrivals.concat()].concat());
    }

    #[test]
    fn sections(sections in vec((0u8..3, vec(piece(), 0..6)), 0..12)) {
        let mut data = Vec::new();
        for (kind, pieces) in sections {
            let mut section = pieces.concat();
            section.truncate(80);
            data.push(section.len() as u8 * 3 + kind);
            data.extend_from_slice(&section);
        }
        qpack::sections(&data);
    }
}
