//! A short run of the fuzz target.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../../../../fuzz/src/stick.rs"]
mod target;

use proptest::{collection::vec, prelude::*};

/// The beginnings of tables that hold `gpc0` and a rate, and `server_key`.
const TABLES: [&[u8]; 3] = [
    &[1, 0, 3, b'i', b'p', b's', 100, 2, 2, 1, 0, 3, 1, 0x90, 0x4e],
    &[1, 3, 5, b'n', b'a', b'm', b'e', b's', 0, 2, 2, 1, 0, 19, 1, 0],
    &[1, 4, 5, b'b', b'l', b'o', b'b', b's', 1, 1, 13, 1, 0],
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..20),
        prop::sample::select(&TABLES[..]).prop_map(<[u8]>::to_vec),
        (vec(any::<u8>(), 4), any::<[u8; 5]>()).prop_map(|(key, values)| {
            let small: Vec<u8> = values.iter().map(|value| value & 0x7f).collect();
            [&[2, 4][..], &key, &small].concat()
        }),
        (vec(b'a'..b'd', 0..20), 0_u8..100, 0_u8..100)
            .prop_map(|(key, gpc, word)| { [&[2, key.len() as u8][..], &key, &[50, gpc, 1, word]].concat() }),
        (vec(any::<u8>(), 0..20), 0_u8..100)
            .prop_map(|(key, bytes)| { [&[2, key.len() as u8][..], &key, &[50, bytes]].concat() }),
    ]
}

proptest! {
    #[test]
    fn handover(pieces in vec(piece(), 0..30), whole: bool) {
        let mut bytes = b"TGst\x01".to_vec();
        bytes.extend(pieces.concat());
        if whole {
            bytes.push(0);
        }
        target::handover(&bytes);
        target::handover(&bytes[1..]);
    }
}
