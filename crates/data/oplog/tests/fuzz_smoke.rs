//! A short run of the fuzz targets.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/oplog.rs"]
mod target;

use proptest::{collection::vec, prelude::*};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn damaged(edits in vec((any::<u8>(), 0..48_u8, any::<u16>(), vec(any::<u8>(), 48)), 0..5)) {
        let edits = edits.into_iter().map(|(file, len, position, bytes)| {
            [&[file, len][..], &position.to_be_bytes(), &bytes[..usize::from(len)]].concat()
        });
        target::damaged(&edits.collect::<Vec<_>>().concat());
    }

    #[test]
    fn anything(keep: u8, bytes in vec(any::<u8>(), 0..200)) {
        target::anything(&[vec![keep], bytes].concat());
    }
}
