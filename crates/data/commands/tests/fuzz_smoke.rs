//! A short run of the fuzz targets.

#![expect(clippy::indexing_slicing, clippy::expect_used, reason = "a test")]

#[path = "../../../../fuzz/src/rdb.rs"]
mod target;

use commands::rdb::{Writer, listpack::Builder};
use proptest::{collection::vec, prelude::*};

/// A text that is a number, or the same as another one, more often than chance would have it.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..6),
        (-300..300i64).prop_map(|number| number.to_string().into_bytes()),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        (20..300usize).prop_map(|len| vec![b'a'; len]),
    ]
}

/// Something that is nearly a value: the right parts under a form that may fit, with a byte or two that are wrong.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let parts = vec((0..6u8, vec(text(), 0..8)), 0..4);
    (0..23u8, parts, vec((any::<prop::sample::Index>(), any::<u8>()), 0..3)).prop_map(|(form, parts, changes)| {
        let mut bytes = vec![form];
        for (kind, texts) in parts {
            let mut writer = Writer::new(&mut bytes, kind == 1);
            match kind {
                0 | 1 => {
                    let mut builder = Builder::default();
                    texts.iter().for_each(|text| builder.push(text));
                    writer.string(&builder.finish());
                }
                2 => writer.count(texts.len()),
                3 => texts.iter().for_each(|text| writer.string(text)),
                4 => {
                    writer.count(texts.len());
                    texts.iter().for_each(|text| writer.string(text));
                }
                _ => texts.iter().for_each(|text| writer.raw(text)),
            }
        }
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes
    })
}

proptest! {
    #[test]
    fn rdb_value(bytes in value()) {
        target::value(&bytes);
    }

    #[test]
    fn rdb_bytes(bytes in vec(any::<u8>(), 0..60)) {
        target::value(&bytes);
    }
}
