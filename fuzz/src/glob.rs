//! Patterns of keys, with texts.

use keyspace::glob::{matches, matches_ignoring_case};

/// The first line is the pattern. It takes time that its length and the text's bound, and knows itself if it is plain.
pub fn pattern(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (pattern, text) = data.split_at(end);
    let text = text.get(1..).unwrap_or_default();
    let found = matches(pattern, text);
    // A class may hold one case alone: in `[$-h]` is `S` and not `s`, in `[^S]` the other way round.
    if !pattern.contains(&b'[') {
        assert!(!found || matches_ignoring_case(pattern, text));
    } else {
        let _ = matches_ignoring_case(pattern, text);
    }
    if !pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\')) {
        assert_eq!(found, pattern == text);
        assert!(matches(pattern, pattern));
    }
}
