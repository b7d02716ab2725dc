//! A short run of the fuzz target: pieces of a log that are sound, damaged, or anything.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/log_pieces.rs"]
mod target;

use commands::groups;
use oplog::{Entry, Offset};
use proptest::{collection::vec, prelude::*};
use shard::{effects::Effects, follow::check_piece};

/// What a piece may have.
const COMMANDS: [&[&str]; 10] = [
    &["SELECT", "1"],
    &["MULTI"],
    &["EXEC"],
    &["SET", "key", "value"],
    &["DEL", "a", "b"],
    &["PING"],
    &["FLUSHALL"],
    &["SHUTDOWN"],
    &["BLPOP", "a", "0"],
    &["CONFIG", "SET", "dir", "/"],
];

fn encoded(commands: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|place| resp::encode_command(&mut bytes, COMMANDS[*place]));
    bytes
}

#[test]
fn what_a_log_has_is_accepted() {
    let sound = encoded(&[0, 3, 1, 3, 4, 2, 5, 6]);
    let entry = Entry { offset: Offset(7), time_ms: 1, commands: &sound };
    assert_eq!(check_piece(&mut Effects::default(), (&groups::table(), 16), &entry).unwrap(), 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn anything(bytes in vec(any::<u8>(), 0..200)) {
        target::piece(&bytes);
    }

    #[test]
    fn commands(places in vec(0..COMMANDS.len(), 0..12), edits in vec((any::<u16>(), any::<u8>()), 0..3), cut: u16) {
        let mut bytes = encoded(&places);
        target::piece(&bytes);
        target::piece(&bytes[..usize::from(cut) % (bytes.len() + 1)]);
        for (at, byte) in edits {
            let len = bytes.len().max(1);
            if let Some(place) = bytes.get_mut(usize::from(at) % len) {
                *place = byte;
            }
        }
        target::piece(&bytes);
    }
}
