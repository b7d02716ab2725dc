use std::ops::Bound;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Key;

/// Short ones, and some around the length at which they are cut.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        10 => vec(any::<u8>(), 0..40),
        1 => (WHOLE_LEN_MAX - 2..WHOLE_LEN_MAX + 40, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
}

proptest! {
    #[test]
    fn keys_are_what_they_were(seed: u64, slot in 0..1024_u16, db: u8, number: u64, text in bytes()) {
        let record = key(seed, slot, db, &text);
        let hash = |text: &[u8]| hash(seed, text);
        let Ok(RecordKey::Key { slot: s, db: d, hash: h, key: tail }) = decode(&record) else { panic!() };
        prop_assert!((s, d, h) == (slot, db, hash(&text)) && tail.is_of(&text));
        prop_assert!(has_hash(seed, h, tail).is_ok());
        prop_assert!(has_hash(seed ^ 1, h, tail).is_err() || matches!(tail, Tail::Cut(_)));
        prop_assert!(range::slot(slot).contains(&record) && !range::slot(slot + 1).contains(&record));
        prop_assert!(range::database(slot, Kind::Key, db).contains(&record));
        prop_assert!(range::keys_from(slot, db, hash(&text)).contains(&record));
        prop_assert!(hash(&text) == u64::MAX || !range::keys_from(slot, db, hash(&text) + 1).contains(&record));

        let record = element(slot, db, number, &text);
        let Ok(RecordKey::Element { slot: s, db: d, version: v, element: tail }) = decode(&record) else { panic!() };
        prop_assert!((s, d, v) == (slot, db, number) && tail.is_of(&text));
        prop_assert!(range::elements(slot, db, number).contains(&record));
        prop_assert!(!range::elements(slot, db, number ^ 1).contains(&record));

        let record = expiry(slot, db, number, &text);
        let Ok(RecordKey::Expiry { slot: s, db: d, at_ms: a, key: tail }) = decode(&record) else { panic!() };
        prop_assert!((s, d, a) == (slot, db, number) && tail.is_of(&text));
        prop_assert!(range::expired(slot, db, number).contains(&record));
        prop_assert!(number == 0 || !range::expired(slot, db, number - 1).contains(&record));

        let record = orphan(slot, db, number);
        prop_assert_eq!(decode(&record), Ok(RecordKey::Orphan { slot, db, version: number }));
        let record = meta(slot, db, b"count");
        prop_assert_eq!(decode(&record), Ok(RecordKey::Meta { slot, db, name: b"count" }));
        prop_assert!(range::kind(slot, Kind::Meta).contains(&record));
    }

    #[test]
    fn elements_keep_the_order_of_what_the_type_calls_them(version: u64, a in vec(any::<u8>(), 0..9), b in vec(any::<u8>(), 0..9)) {
        prop_assert_eq!(element(1, 2, version, &a).cmp(&element(1, 2, version, &b)), a.cmp(&b));
    }

    #[test]
    fn headers_are_what_they_were(
        kind: u8, expire_at_ms: Option<u64>, elements: Option<(u64, u64)>, text in bytes(), inline in vec(any::<u8>(), 0..9)
    ) {
        let elements = elements.map(|(version, count)| Elements { version, count });
        let header = Header { kind, expire_at_ms, elements, key: None }.with_key(&text);
        prop_assert_eq!(header.key.is_some(), text.len() > WHOLE_LEN_MAX);
        let mut out = Vec::new();
        header.encode(&mut out);
        out.extend_from_slice(&inline);
        prop_assert_eq!(Header::decode(&out), Ok((header, inline.as_slice())));
    }

    #[test]
    fn values_of_cut_elements_name_the_whole(text in bytes(), value in vec(any::<u8>(), 0..9)) {
        let record = element(1, 0, 5, &text);
        let Ok(RecordKey::Element { element: tail, .. }) = decode(&record) else { panic!() };
        let stored = with_whole(&text, &value);
        prop_assert_eq!(split_whole(tail, &stored), Ok((text.as_slice(), value.as_slice())));
    }

    #[test]
    fn numbers_have_one_form(number: u64) {
        let mut out = Vec::new();
        encode_varint(number, &mut out);
        let mut rest = out.as_slice();
        prop_assert_eq!(decode_varint(&mut rest), Ok(number));
        prop_assert!(rest.is_empty() && out.len() <= 10);
    }
}

#[test]
fn what_is_no_record_is_refused() {
    let too_long = [element(1, 0, 1, &vec![0; WHOLE_LEN_MAX + 1]).as_ref(), b"x"].concat();
    for bytes in [b"".to_vec(), b"\0\x01k".to_vec(), b"\0\x01z\0".to_vec(), b"\0\x01k\0abc".to_vec(), too_long] {
        assert!(decode(&bytes).is_err(), "{}", bytes.escape_ascii());
    }
    let orphan_with_tail = [orphan(1, 0, 1).as_ref(), b"x"].concat();
    assert!(decode(&orphan_with_tail).is_err());
    for header in [&b""[..], b"s", b"s\x08", b"s\x01", b"s\x01\x80\x00", b"s\x02\x01", b"s\x04\x05abc"] {
        assert!(Header::decode(header).is_err(), "{}", header.escape_ascii());
    }
    assert!(decode_varint(&mut &[0xff; 10][..]).is_err(), "more than 64 bits");
}

/// What is on a disk must be read by all later versions.
#[test]
fn the_layout_is_the_one_that_is_written_down() {
    let check = |record: Key, expected: &str| {
        let hex: String = record.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    };
    check(key(0, 1023, 1, b"foo"), "03ff6b01ab6e5f64077e7d8a666f6f");
    check(key(0x0123_4567_89ab_cdef, 1023, 1, b"foo"), "03ff6b0112a468ad8fef37d4666f6f");
    check(element(5, 0, 258, b"field"), "00056500000000000000010266 69656c64".replace(' ', "").as_str());
    check(expiry(5, 0, 1_700_000_000_000, b"k"), "000578000000018bcfe568006b");
    check(orphan(5, 15, 1), "00056f0f0000000000000001");
    check(meta(5, 0, b"keys"), "00056d006b657973");
    let mut out = Vec::new();
    let elements = Some(Elements { version: 300, count: 5 });
    Header { kind: 4, expire_at_ms: Some(1_000), elements, key: None }.encode(&mut out);
    assert_eq!(out, [4, 3, 0xe8, 0x07, 0xac, 0x02, 5]);
    assert!(matches!(range::elements(5, 0, 1).from, Bound::Included(_)));
}
