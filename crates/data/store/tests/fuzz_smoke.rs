//! A short run of the fuzz targets: descriptions of backups, Redis' files, and mutations of them.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../../../../fuzz/src/backup.rs"]
mod target;

#[path = "../../../../fuzz/src/redis_files.rs"]
mod redis_files;

use proptest::{collection::vec, prelude::*};

const DESCRIPTION: &[u8] = br#"{"version":1,"created_ms":1,"replication_id":"a","applied":7,"log_end":9,"log_end_ms":1,"tables":[{"path":"tree/current","len":3,"digest":"abababababababababababababababababababababababababababababababab","seen":{"inode":4,"changed_ns":5}}],"log":[],"records":{"count":1,"bytes":2,"digest":"0f"}}"#;

/// A file of two keys, without a checksum, and a command behind it.
const FILE: &[u8] = b"REDIS0010\xfa\x01a\x01b\xfe\x00\x00\x01a\x01b\xfc\x01\x02\x03\x04\x05\x06\x07\x08\x12\x01l\x02\x01\x01x\x02\x01y\xff\
    \x00\x00\x00\x00\x00\x00\x00\x00#TS:1\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n";

#[test]
fn the_file_is_sound() {
    assert!(store::import::check(FILE).is_ok_and(|keys| keys == 2));
}

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

    #[test]
    fn redis_files(bytes in vec(any::<u8>(), 0..200), edits in vec((0..FILE.len(), any::<u8>()), 0..4), cut in 0..=FILE.len()) {
        redis_files::file(&bytes);
        redis_files::file(&[b"REDIS0011", bytes.as_slice()].concat());
        let mut bytes = FILE.to_vec();
        for (at, byte) in edits {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        redis_files::file(&bytes);
        redis_files::file(bytes.get(..cut).unwrap());
    }
}
