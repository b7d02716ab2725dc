//! A short run of the fuzz target: descriptions of backups, and mutations of them.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../../../../fuzz/src/backup.rs"]
mod target;

use proptest::{collection::vec, prelude::*};

const DESCRIPTION: &[u8] = br#"{"version":1,"created_ms":1,"replication_id":"a","applied":7,"log_end":9,"log_end_ms":1,"tables":[{"path":"tree/current","len":3,"digest":"abababababababababababababababababababababababababababababababab","seen":{"inode":4,"changed_ns":5}}],"log":[],"records":{"count":1,"bytes":2,"digest":"0f"}}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn anything(bytes in vec(any::<u8>(), 0..200)) {
        target::description(&bytes);
    }

    #[test]
    fn damaged(edits in vec((0..DESCRIPTION.len(), any::<u8>()), 0..4), cut in 0..=DESCRIPTION.len()) {
        let mut bytes = DESCRIPTION.to_vec();
        for (at, byte) in edits {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        target::description(&bytes);
        target::description(bytes.get(..cut).unwrap());
    }
}
