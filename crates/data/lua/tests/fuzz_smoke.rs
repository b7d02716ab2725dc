//! A short run of the fuzz target of the libraries.

#![expect(clippy::expect_used, reason = "a test")]

#[path = "../../../../fuzz/src/lua_libraries.rs"]
mod target;

use proptest::{collection::vec, prelude::*};

/// Nearly JSON: its pieces one after the other.
fn json() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"",
        "1",
        "-0.5e3",
        "1e400",
        "0x1F",
        "nan",
        "true",
        "null",
        " ",
    ];
    vec(prop::sample::select(PIECES.to_vec()), 0..12).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Nearly MessagePack: forms with lengths that are small, so that some fit.
fn message_pack() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![0..4u8, 0x80..0x84u8, 0x90..0x94u8, 0xa0..0xa4u8, 0xc0..=0xffu8, any::<u8>()];
    vec(byte, 0..20)
}

fn with_choice(choice: u8, text: Vec<u8>) -> Vec<u8> {
    [vec![choice], text].concat()
}

proptest! {
    #[test]
    fn json_texts(text in json()) {
        target::decoders(&with_choice(0, text));
    }

    #[test]
    fn message_packs(bytes in message_pack()) {
        target::decoders(&with_choice(1, bytes));
    }

    #[test]
    fn structures(format in "[<>!=bBhHlLTiIfdscx0-9]{0,8}", bytes in vec(any::<u8>(), 0..40)) {
        target::decoders(&with_choice(2, [format.into_bytes(), vec![0], bytes].concat()));
    }

    #[test]
    fn anything(bytes in vec(any::<u8>(), 0..40)) {
        target::decoders(&bytes);
    }
}
