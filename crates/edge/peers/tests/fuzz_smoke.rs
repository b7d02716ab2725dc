//! A short run of the fuzz target.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../../../../fuzz/src/peers.rs"]
mod target;

use proptest::{collection::vec, prelude::*};

/// Definitions as HAProxy 2.6 sends them, of `ips` with all types of data, and of `names` with none.
const DEFINITIONS: [&[u8]; 2] = [
    &[
        10, 0x82, 58, 1, 3, b'i', b'p', b's', 4, 4, 0xff, 0xf1, 0xfe, 0xfe, 0x06, 0x80, 3, 0xf0, 0x11, 5, 0xf0, 0x11,
        8, 0xf0, 0x11,
    ],
    &[10, 0x82, 12, 2, 5, b'n', b'a', b'm', b'e', b's', 6, 17, 0, 0, 0],
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..30),
        (0_u8..6).prop_map(|kind| vec![0, kind]),
        prop::sample::select(&DEFINITIONS[..]).prop_map(<[u8]>::to_vec),
        (0x80_u8..0x88, vec(any::<u8>(), 0..60))
            .prop_map(|(kind, payload)| { [&[10, kind, payload.len() as u8][..], &payload].concat() }),
        (vec(b'a'..b'd', 0..20), any::<u32>()).prop_map(|(key, id)| {
            let payload = [&id.to_be_bytes()[..], &[key.len() as u8], &key].concat();
            [&[10, 0x80, payload.len() as u8][..], &payload].concat()
        }),
    ]
}

proptest! {
    #[test]
    fn peer(first: u8, pieces in vec(piece(), 0..30)) {
        target::peer(&[vec![first], pieces.concat()].concat());
    }
}
