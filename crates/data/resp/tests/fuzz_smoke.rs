//! A short run of the fuzz targets.

#![expect(clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/resp.rs"]
mod target;

use proptest::{collection::vec, prelude::*};

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..20),
        (prop::sample::select(&b"*$+-:,(%~>|!=_#"[..]), -1..12_i32).prop_map(|(kind, number)| [
            &[kind][..],
            format!("{number}\r\n").as_bytes()
        ]
        .concat()),
        vec(any::<u8>(), 0..12)
            .prop_map(|bytes| [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()),
        "[a-c \"'\\\\]{0,10}\r?\n".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn request(first: u8, pieces in vec(piece(), 0..20)) {
        target::request(&[vec![first], pieces.concat()].concat());
    }

    #[test]
    fn reply(first: u8, pieces in vec(piece(), 0..20)) {
        target::reply(&[vec![first], pieces.concat()].concat());
    }
}
