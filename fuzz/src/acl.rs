//! Rules of users that hold anything.

use commands::{
    acl::{User, merge_selectors},
    groups,
};

/// No rule panics, and what a user is described by makes the same user again.
pub fn rules(data: &[u8]) {
    let table = groups::table();
    let mut user = User::new(b"somebody", false);
    let words: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
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
    assert_eq!(again.describe(&table), once);
}
