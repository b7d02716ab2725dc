//! Rules of users at random: none panics, and what a user is described by makes the same user again.

#![expect(clippy::expect_used, reason = "a test")]

#[path = "../../../../fuzz/src/acl.rs"]
mod target;

use proptest::{collection::vec, prelude::*};

/// Nearly a rule: pieces of rules, one after the other.
fn rule() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "+",
        "-",
        "~",
        "%R~",
        "%W",
        "&",
        "@",
        "(",
        ")",
        " ",
        "|",
        ">",
        "<",
        "#",
        "!",
        "*",
        "on",
        "off",
        "nopass",
        "reset",
        "resetkeys",
        "allkeys",
        "allchannels",
        "clearselectors",
        "all",
        "read",
        "string",
        "get",
        "set",
        "config",
        "client",
        "kill",
        "select",
        "0",
        "\"",
        "\\x",
        "\u{e9}",
    ];
    let piece = prop_oneof![
        9 => prop::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..3),
    ];
    vec(piece, 1..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn rules_make_a_user_or_an_error(rules in vec(rule(), 0..8)) {
        target::rules(&rules.join(&b'\n'));
    }
}
