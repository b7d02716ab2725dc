//! Rules of users at random: none panics, and what a user is described by makes the same user again.

use commands::{
    acl::{User, merge_selectors},
    table::Table,
};
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
        let table = Table::default();
        let mut user = User::new(b"somebody", false);
        let words: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
        for rule in merge_selectors(&words).unwrap_or_default() {
            // As in Redis, descriptions have no way to write quotes, or a parenthesis that ends a pattern within others.
            let is_plain = rule.iter().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'));
            let closes = rule.iter().filter(|byte| **byte == b')').count();
            if is_plain && (closes == 0 || closes == 1 && rule.starts_with(b"(")) {
                let _ = user.apply(&rule, &table, false);
            } else {
                let _ = user.clone().apply(&rule, &table, false);
            }
        }
        let once = user.describe(&table);
        let mut again = User::new(b"somebody", false);
        let words: Vec<&[u8]> = once.split(|byte| *byte == b' ').collect();
        for rule in merge_selectors(&words).expect("a description has all its parentheses") {
            again.apply(&rule, &table, false).expect("a description is made of rules");
        }
        prop_assert_eq!(again.describe(&table), once);
    }
}
