use super::*;

fn building() -> ValueLimits {
    ValueLimits::redis(7)
}

fn string(text: &[u8]) -> Value {
    Value::String(Bytes::from_slice(text))
}

fn text_of(value: &Value) -> Vec<u8> {
    match value {
        Value::String(string) => string.to_vec(),
        other => panic!("not a string: {other:?}"),
    }
}

#[test]
fn strings_come_back() {
    let long = b"abc".repeat(100);
    let large = vec![b'x'; 70_000];
    for text in [&b""[..], b"a", b"12", b"-129", b"70000", b"2147483648", b"012", b"-0", &long, &large] {
        let mut record = Vec::new();
        encode_value(&string(text), &mut record);
        assert_eq!(text_of(&decode_value(&record, &building()).unwrap()), text);
        let mut payload = Vec::new();
        encode_payload(&string(text), &mut payload);
        assert_eq!(text_of(&decode_payload(&payload, &building()).unwrap()), text);
        assert!(text.len() < 300 || payload.len() < text.len() / 10);
    }
}

/// What Redis 7.0.15 answered to DUMP.
#[test]
fn payloads_of_redis_are_read_and_written() {
    for (text, payload) in [
        (&b"bar"[..], &b"\x00\x03bar\x0a\x00\xe6\xbeI`\xeef\xfd\x17"[..]),
        (b"12", b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5"),
    ] {
        let mut written = Vec::new();
        encode_payload(&string(text), &mut written);
        assert_eq!(written, payload, "{}", payload.escape_ascii());
        assert_eq!(text_of(&decode_payload(payload, &building()).unwrap()), text);
    }
}

#[test]
fn broken_payloads_are_refused() {
    let mut payload = Vec::new();
    encode_payload(&string(b"bar"), &mut payload);
    for at in 0..payload.len() {
        let mut broken = payload.clone();
        broken[at] ^= 1;
        assert_eq!(decode_payload(&broken, &building()).unwrap_err(), RdbError::Footer);
        assert!(decode_payload(&payload[..at], &building()).is_err());
    }
    for (record, error) in [
        (&b""[..], RdbError::Truncated),
        (b"\x00", RdbError::Truncated),
        (b"\x00\x03ab", RdbError::Truncated),
        (b"\x00\x03abcd", RdbError::Surplus),
        (b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff", RdbError::Truncated),
        (b"\x00\x82", RdbError::Format("length")),
        (b"\x00\xc4", RdbError::Format("form of a string")),
        (b"\x00\xc3\x01\x81\xff\xff\xff\xff\xff\xff\xff\xffa", RdbError::Format("compressed string")),
        (b"\x07", RdbError::Type(7)),
    ] {
        assert_eq!(decode_value(record, &building()).unwrap_err(), error, "{}", record.escape_ascii());
    }
}

/// A listpack of texts.
fn packed(texts: &[&str]) -> Vec<u8> {
    let mut builder = listpack::Builder::default();
    texts.iter().for_each(|text| builder.push(text.as_bytes()));
    builder.finish()
}

/// A value of a form with the parts that a writer puts behind it.
fn record(form: u8, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = vec![form];
    write(&mut Writer::new(&mut bytes, false));
    bytes
}

/// Redis 7.0 does not know these, so no conversation with it can have them.
#[test]
fn forms_of_redis_7_2_are_read() {
    let set = record(form::SET_LISTPACK, |writer| writer.string(&packed(&["a", "12", "b"])));
    let Value::Set(set) = decode_value(&set, &building()).unwrap() else { panic!("no set") };
    assert_eq!(set.len(), 3);
    assert!(set.contains(b"12"));
    let twice = record(form::SET_LISTPACK, |writer| writer.string(&packed(&["a", "a"])));
    assert!(decode_value(&twice, &building()).is_err());

    let stream = record(form::STREAM_3, |writer| {
        writer.count(1);
        writer.string(&(5u128 << 64).to_be_bytes());
        writer.string(&packed(&["1", "0", "1", "f", "0", "2", "0", "0", "v", "4"]));
        for number in [1, 5, 0, 5, 0, 0, 0, 1] {
            writer.number(number);
        }
        writer.count(1);
        writer.string(b"group");
        for number in [5, 0, 1, 1] {
            writer.number(number);
        }
        writer.raw(&(5u128 << 64).to_be_bytes());
        writer.fixed(1000);
        writer.number(7);
        writer.count(1);
        writer.string(b"consumer");
        writer.fixed(2000);
        writer.fixed(3000);
        writer.count(1);
        writer.raw(&(5u128 << 64).to_be_bytes());
    });
    let Value::Stream(read) = decode_value(&stream, &building()).unwrap() else { panic!("no stream") };
    let group = read.groups.values().next().unwrap();
    assert_eq!((read.len(), group.pending_len()), (1, 1));
    assert_eq!(group.pending(group.pending_ends().unwrap().0).unwrap().count, 7);
    for end in 0..stream.len() {
        assert!(decode_value(&stream[..end], &building()).is_err(), "{end}");
    }
}

#[test]
fn a_payload_of_a_newer_version_is_refused() {
    for (version, is_read) in [(6u16, true), (10, true), (11, true), (12, false), (80, false)] {
        let mut payload = b"\x00\x01a".to_vec();
        payload.extend(version.to_le_bytes());
        let checksum = crc64::crc64(&payload);
        payload.extend(checksum.to_le_bytes());
        assert_eq!(decode_payload(&payload, &building()).is_ok(), is_read, "{version}");
    }
}

/// A long field that thousands of short entries share takes its length of a payload, but the time and memory of all of
/// them if each is looked at by itself.
#[test]
fn a_stream_does_not_grow_without_bound() {
    const ENTRIES: i64 = 60_000;
    let field = "f".repeat(60_000);
    let mut builder = listpack::Builder::default();
    for text in [ENTRIES.to_string().as_str(), "0", "1", &field, "0"] {
        builder.push(text.as_bytes());
    }
    for entry in 0..ENTRIES {
        for number in [2, entry, 0, 1, 4] {
            builder.push_integer(number);
        }
    }
    let stream = record(form::STREAM_2, |writer| {
        writer.count(1);
        writer.string(&[0; 16]);
        writer.string(&builder.finish());
        for number in [ENTRIES as u64, ENTRIES as u64, 0, 0, 0, 0, 0, ENTRIES as u64, 0] {
            writer.number(number);
        }
    });
    assert_eq!(decode_value(&stream, &building()).unwrap_err(), RdbError::Format("stream"));
}

#[test]
fn collections_come_back_in_their_form() {
    let texts: Vec<String> = (0..600).map(|number| format!("text {number}")).collect();
    for (count, form) in [(3, form::HASH_LISTPACK), (600, form::HASH)] {
        let plain = record(form::HASH, |writer| {
            writer.count(count);
            for text in texts.iter().take(count) {
                writer.string(text.as_bytes());
                writer.string(b"1");
            }
        });
        let value = decode_value(&plain, &building()).unwrap();
        let mut written = Vec::new();
        encode_value(&value, &mut written);
        assert_eq!(written[0], form);
        let Value::Hash(hash) = decode_value(&written, &building()).unwrap() else { panic!("no hash") };
        assert_eq!(hash.len(), count);
        assert!(texts.iter().take(count).all(|text| hash.get(text.as_bytes()).as_deref() == Some(b"1")));
    }
    for (count, form) in [(3, form::SORTED_SET_LISTPACK), (600, form::SORTED_SET_2)] {
        let plain = record(form::SORTED_SET_2, |writer| {
            writer.count(count);
            for (number, text) in texts.iter().take(count).enumerate() {
                writer.string(text.as_bytes());
                writer.double(number as f64 / 8.0);
            }
        });
        let mut written = Vec::new();
        encode_value(&decode_value(&plain, &building()).unwrap(), &mut written);
        assert_eq!(written[0], form);
        let Value::SortedSet(set) = decode_value(&written, &building()).unwrap() else { panic!("no sorted set") };
        assert_eq!((set.len(), set.score(b"text 2")), (count, Some(0.25)));
    }
}

/// What is dumped in steps is what is dumped in one go, but for the order of what has none.
#[test]
fn a_payload_comes_to_be_in_steps() {
    use crate::value::{
        Hash, Kind as _, List, Set, SortedSet, Stream,
        list::End,
        sorted_set::Member,
        stream::{Id, NodeLimits},
    };

    let building = building();
    let (mut list, mut set, mut hash) = (List::new(), Set::new(7), Hash::new(7));
    let (mut small, mut sorted, mut stream) = (Hash::new(7), SortedSet::new_large(7), Stream::default());
    let mut integers = Set::new(7);
    for number in 0..1_000_u32 {
        let text = format!("element:{number}");
        list.push(End::Tail, text.as_bytes(), building.list);
        set.add(text.as_bytes(), 512);
        integers.add(number.to_string().as_bytes(), 5_000);
        hash.set(text.as_bytes(), b"x", building.hash);
        let score = if number == 0 { -0.0 } else { f64::from(number) };
        sorted.insert_new(7, building.sorted_set, Member { score, name: text.as_bytes().into() });
        let limits = NodeLimits { bytes: 4096, entries: 100 };
        stream.append(Id::new(u64::from(number) + 1, 0), &["field", &text], limits);
    }
    small.set(b"a", b"b", building.hash);
    let values = [
        list.into_value(),
        set.into_value(),
        hash.into_value(),
        small.into_value(),
        sorted.into_value(),
        stream.into_value(),
        integers.into_value(),
        string(b"text"),
    ];
    for (value, steps_min) in values.into_iter().zip([2, 10, 10, 1, 10, 2, 1, 1]) {
        let mut whole = Vec::new();
        encode_payload(&value, &mut whole);
        let (mut dumping, mut steps, mut payload) = (Dumping::default(), 0, Vec::new());
        loop {
            let is_over = dumping.go_on(&value, 100);
            payload.extend_from_slice(dumping.piece());
            steps += 1;
            if is_over {
                break;
            }
        }
        // To restore it has one more, for the checksum.
        assert!(steps + 1 >= steps_min, "{steps} {}", value.type_name());
        assert_eq!((payload.len(), dumping.len()), (whole.len(), whole.len()));
        let mut restoring = Restoring::new(building);
        let mut turns = 1;
        let restored = loop {
            if let Some(value) = restoring.go_on(&payload, 100).unwrap() {
                break value;
            }
            turns += 1;
        };
        assert!(turns >= steps_min, "{turns} {}", value.type_name());
        for decoded in [decode_payload(&payload, &building).unwrap(), restored] {
            let mut again = Vec::new();
            encode_payload(&decoded, &mut again);
            assert!(again == whole || matches!(value.type_name(), "set" | "hash"), "{}", value.type_name());
        }
        // What is broken is refused, whatever it is.
        for place in (0..whole.len()).step_by(whole.len() / 12 + 1) {
            let mut broken = whole.clone();
            broken[place] ^= 1;
            let end = broken.len() - 8;
            let sum = crc64::crc64(&broken[..end]).to_le_bytes();
            broken[end..].copy_from_slice(&sum);
            let mut restoring = Restoring::new(building);
            let result = loop {
                match restoring.go_on(&broken, 100) {
                    Ok(None) => {}
                    Ok(Some(_)) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            let expected = decode_payload(&broken, &building);
            assert_eq!(result.is_ok(), expected.is_ok(), "{} {place} {result:?}", value.type_name());
        }
    }
}

/// Memory may let go of a sorted set and read it again: that changes nothing.
#[test]
fn minus_zero_keeps_its_sign() {
    use crate::value::{Kind as _, SortedSet, sorted_set::Member};

    let mut set = SortedSet::new_large(7);
    set.insert_new(7, building().sorted_set, Member { score: -0.0, name: b"a".as_slice().into() });
    let mut record = Vec::new();
    encode_value(&set.into_value(), &mut record);
    let Value::SortedSet(set) = decode_value(&record, &building()).unwrap() else { panic!("no sorted set") };
    assert!(set.score(b"a").unwrap().is_sign_negative());
}
