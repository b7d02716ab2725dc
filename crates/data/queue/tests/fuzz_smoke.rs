//! A short run of the fuzz target.

#[path = "../../../../fuzz/src/queue_records.rs"]
mod target;

use proptest::{collection::vec, prelude::*};
use queue::{Header, Settings};

proptest! {
    #[test]
    fn queue_records(data in vec(any::<u8>(), 0..300)) {
        target::record(&data);
    }

    #[test]
    fn damaged_headers(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        let mut bytes = Header::new(1_700_000_000_000, Settings::default()).encode();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        target::record(&bytes);
    }
}
