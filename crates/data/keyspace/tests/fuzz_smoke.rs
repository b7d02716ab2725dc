//! A short run of the fuzz targets.

#![expect(clippy::indexing_slicing, clippy::expect_used, reason = "a test")]

#[path = "../../../../fuzz/src/glob.rs"]
mod glob;
#[path = "../../../../fuzz/src/hyperloglog.rs"]
mod hyperloglog;
#[path = "../../../../fuzz/src/rdb.rs"]
mod target;

use keyspace::{encoding::Writer, rdb::listpack::Builder};
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
    fn glob_patterns(pattern in "[a-c*?\\[\\]^\\\\-]{0,12}", text in "[a-c\\]^-]{0,12}") {
        glob::pattern(format!("{pattern}\n{text}").as_bytes());
    }

    #[test]
    fn rdb_value(bytes in value()) {
        target::value(&bytes);
    }

    #[test]
    fn hyperloglog_runs(runs in vec(prop_oneof![Just(0x7f_u8), any::<u8>()], 0..200)) {
        hyperloglog::hyperloglog(&runs);
    }

    /// One that is whole: its runs are cut off, or filled up, where the registers end.
    #[test]
    fn whole_hyperloglogs(runs in vec(any::<u8>(), 0..2000)) {
        let (mut whole, mut left, mut at) = (Vec::new(), 16_384, 0);
        while let Some(byte) = runs.get(at).filter(|_| left > 0) {
            let len = match byte {
                0x80.. => usize::from(byte & 3) + 1,
                0x40.. => (usize::from(byte & 0x3f) << 8 | runs.get(at + 1).map_or(0, |next| usize::from(*next))) + 1,
                _ => usize::from(*byte) + 1,
            };
            let bytes = if (0x40..0x80).contains(byte) { 2 } else { 1 };
            if len > left || at + bytes > runs.len() {
                break;
            }
            whole.extend_from_slice(&runs[at..at + bytes]);
            left -= len;
            at += bytes;
        }
        if left > 0 {
            whole.extend_from_slice(&[0x40 | ((left - 1) >> 8) as u8, (left - 1) as u8]);
        }
        hyperloglog::hyperloglog(&whole);
    }

    #[test]
    fn rdb_bytes(bytes in vec(any::<u8>(), 0..60)) {
        target::value(&bytes);
    }
}
